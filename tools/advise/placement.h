/*
 * Which call sites get epochs of their own in the process's malloc (`tslab run --plan`): a tree of return addresses,
 * the call of malloc first. A node's children are the calls of its function. It goes as deep as it has to, to tell
 * sites apart whose objects live differently long; a malloc behind a wrapper has a level for the wrapper.
 */
#ifndef ADVISE_PLACEMENT_H
#define ADVISE_PLACEMENT_H

#include "advise/tree.h"

enum {
    PLACEMENT_EPOCHS = 8,
    PLACEMENT_MODULES = 64,
    PLACEMENT_NODES = 1024, /* src/malloc/plan.c takes no more */
    PLACEMENT_DEPTH = 24
};

typedef struct placement_node {
    uint32_t parent; /* number of a node before, from 1; 0: this is the call of malloc */
    uint32_t module;
    uint64_t offset; /* of the return address, as the file has it */
    uint32_t epoch;  /* for objects that no child has, from 1; 0: the process's */
} placement_node;

/* Objects that die at about the same time share one. Run: at the end of the program, as most of the site. Cache: after
   the same share of the run, in powers of 4. */
typedef struct placement_epoch {
    turn_life life;
    unsigned share;      /* of a cache */
    uint32_t turn_stack; /* of a generation */
    unsigned turns_later;
} placement_epoch;

typedef struct placement {
    placement_node *node;
    size_t nodes;
    const trace_module *module[PLACEMENT_MODULES]; /* each build once */
    size_t modules;
    placement_epoch epoch[PLACEMENT_EPOCHS];
    size_t epochs;
    uint64_t objects, bytes; /* of those sites, in the trace */
} placement;

/* site: by node, classified. NULL: no memory. */
placement *placement_make(const stack_tree *r, const turn_site *site, uint64_t duration_ns);
void placement_free(placement *p);

#endif
