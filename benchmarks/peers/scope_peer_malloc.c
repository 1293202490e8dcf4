/*
 * malloc, and free of each object, as in a program without scopes. The list of the objects is the program's own, as
 * long as the scope. Built once per allocator, which it preloads: peers.h.
 */
#include "bench_util.h"
#include "peers.h"
#include "scope_worker.h"

#include <stdio.h>
#include <stdlib.h>

/* SCOPE_PEER: the allocator. SCOPE_NAME: the name of this way; of a peer NAME it is NAME_free, as NAME alone is its way
   to drop all objects at once. */
#define SCOPE_ALIGN 16

typedef struct scope_ref {
    void **objects;
    size_t count;
} scope_ref;

static void **lists;
static size_t list_length, lists_given;

/* Before main, which is the same for all ways. */
__attribute__((constructor)) static void become_peer(int argc, char **argv, char **environment) {
    (void)argc;
    (void)environment;
    peer_become(SCOPE_PEER, argv);
}

static void scope_version(char *out, size_t capacity) { snprintf(out, capacity, "%s", peer_identify().version); }

static void scope_start(const scope_run *run) {
    list_length = run->objects;
    lists = bench_map(run->open * list_length * sizeof *lists);
}
static void scope_finish(void) {}

static inline void scope_open(scope_ref *slot) {
    if (__builtin_expect(slot->objects == NULL, 0)) slot->objects = lists + list_length * lists_given++;
    slot->count = 0;
}
static inline void *scope_alloc(scope_ref *slot, size_t size) { return slot->objects[slot->count++] = malloc(size); }
static inline void scope_leave(scope_ref *slot) { (void)slot; }
static inline void scope_drop(scope_ref *slot) {
    for (size_t i = 0; i < slot->count; i++) free(slot->objects[i]);
}

#include "scope_loop.h"
