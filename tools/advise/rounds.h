/* Where each thread is in the tree of stacks, and when its visits began and ended. */
#ifndef ADVISE_ROUNDS_H
#define ADVISE_ROUNDS_H

#include "advise/tree.h"

enum { ROUND_PAGE = 256 };

/* The last cuts, newest at (count - 1) % TURN_LAGS, and the deaths in the open round. */
typedef struct cuts {
    uint64_t at[TURN_LAGS];
    uint64_t count;
    uint64_t covered; /* died in the round that is open, and were born in it */
    uint64_t held_bytes;
    double held_from; /* bytes times the times of their deaths */
} cuts;

typedef struct node_visits {
    cuts start, end;
} node_visits;

typedef struct round_thread {
    uint32_t path[TREE_DEPTH];
    size_t depth;
    uint64_t last_ns;
    node_visits **page; /* by node / ROUND_PAGE; NULL: none of these is watched or was visited */
} round_thread;

typedef struct rounds {
    const stack_tree *tree;
    const bool *watched;   /* by node; NULL: counts of visits only */
    uint64_t *count;       /* by node: visits of all threads, where nothing is watched */
    round_thread **thread; /* by thread */
    uint32_t threads;
    void (*on_cut)(void *arg, uint32_t node, bool at_end, cuts *c, uint64_t now);
    void *arg;
    uint32_t number; /* of the thread whose cut it is */
    bool no_memory;
} rounds;

/* false: no memory. */
bool rounds_make(rounds *r, const stack_tree *tree, uint32_t threads, const bool *watched);
void rounds_free(rounds *r);
/* An event of the thread: the visits that it ends and begins. */
void rounds_step(rounds *r, uint32_t thread, uint32_t stack, uint64_t now);
/* The cuts of a watched node; NULL: it was never visited by that thread. */
node_visits *rounds_of(const rounds *r, uint32_t thread, uint32_t node);
/* How many cuts lie between a birth and now, at most TURN_LAGS. at_end: a cut is the last event of its round. */
unsigned rounds_since(const cuts *c, uint64_t born, bool at_end);

#endif
