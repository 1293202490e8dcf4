/*
 * The allocator under test. Every benchmark program is built once per allocator from the same sources, with
 * one of BENCH_PEER_TSLAB, BENCH_PEER_GLIBC, BENCH_PEER_JEMALLOC, BENCH_PEER_TCMALLOC or BENCH_PEER_MIMALLOC
 * defined and linked against that allocator's shared library; all calls go through the dynamic linker.
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

/* What a program that uses the allocator has at hand; passed by value so that it lives in registers. */
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

#if defined(BENCH_PEER_GLIBC)
#define PEER_NAME "glibc"
#elif defined(BENCH_PEER_JEMALLOC)
#define PEER_NAME "jemalloc"
#elif defined(BENCH_PEER_TCMALLOC)
#define PEER_NAME "tcmalloc"
#elif defined(BENCH_PEER_MIMALLOC)
#define PEER_NAME "mimalloc"
#else
#error "define one BENCH_PEER_*"
#endif
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

/* Asks the running process which allocator it has. Dies with BENCH_EXIT_FAILED if it is another one. */
peer_identity peer_identify(void);

/* Opens what the allocator needs. For tslab: an allocator with the default options and a churn epoch. */
peer_ref peer_open(void);
/* Checks, where the allocator can say, that nothing is live and that no free was refused; then closes. */
void peer_close(peer_ref peer);

#endif
