/*
 * The allocator under test. Every benchmark program is built twice from the same sources: with BENCH_PEER_TSLAB
 * defined, linked to temporal-slab's shared library; and without, for malloc. The latter measures libc's malloc, or
 * another one that is preloaded: peer_become() starts it again so. All calls go through the dynamic linker.
 *
 * PEER_HAS_DOMAINS is 1 where a scope of objects can be dropped in one call.
 */
#ifndef BENCH_PEERS_H
#define BENCH_PEERS_H

#include <stdbool.h>
#include <stddef.h>

#if defined(BENCH_PEER_TSLAB)

#include <tslab/tslab.h>

#define PEER_NAME "tslab"
#define PEER_HAS_DOMAINS 1

/* The handles of a program that uses the allocator; passed by value so that it lives in registers. */
typedef struct peer_ref {
    SlabAllocator *allocator;
    EpochId epoch;
} peer_ref;

static inline void *peer_alloc(peer_ref peer, size_t size) {
    return slab_malloc_epoch(peer.allocator, size, peer.epoch);
}
static inline bool peer_free(peer_ref peer, void *pointer) { return slab_free(peer.allocator, pointer); }

#else

#include <stdlib.h>

/* libc's, or the one that is preloaded. */
#define PEER_NAME peer_name()
#define PEER_HAS_DOMAINS 0

typedef struct peer_ref {
    char unused;
} peer_ref;

static inline void *peer_alloc(peer_ref peer, size_t size) {
    (void)peer;
    return malloc(size);
}
static inline bool peer_free(peer_ref peer, void *pointer) {
    (void)peer;
    free(pointer);
    return true;
}

#endif

typedef struct peer_identity {
    char version[64];
    char library[256]; /* the file that the allocation function really comes from */
} peer_identity;

/* Asks the running process which allocator it has. Dies with BENCH_EXIT_FAILED if it is none that is known here. */
peer_identity peer_identify(void);
/* The name of that one: tslab, glibc, jemalloc, tcmalloc (that of gperftools), mimalloc, snmalloc, google (its own tcmalloc). */
const char *peer_name(void);
/* Returns in a process whose allocator is the one of that name. For this it starts the program again with the newest library of
   build/peers preloaded (benchmarks/peers/newest.sh; another folder: BENCH_PEERS), or with the system's. Dies with
   BENCH_EXIT_USAGE where there is neither, and with BENCH_EXIT_FAILED where libc's is wanted and another one preloaded.
   */
void peer_become(const char *name, char **argv);

/* Opens the objects that the allocator needs. For tslab: an allocator with the default options and a churn epoch. */
peer_ref peer_open(void);
/* Checks, where the allocator can say, that nothing is live and that no free was refused; then closes. */
void peer_close(peer_ref peer);

#endif
