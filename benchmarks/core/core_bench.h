/*
 * core_bench: the works of the core's table of figures, one measurement per process.
 *
 * A work is a function that measures once and emits its metrics. Each source file core_*.c holds the works
 * of one kind; core_bench.c has the table of them and the command line.
 *
 * How a work treats its objects is a compile-time constant of its loops (enum bench_mode), so that the loop
 * that is measured contains no test for it.
 */
#ifndef CORE_BENCH_H
#define CORE_BENCH_H

#include "bench_util.h"
#include "peers.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

enum bench_mode {
    MODE_MEASURE, /* the allocator's calls and nothing else */
    MODE_TOUCH,   /* and the first byte of each new object is written */
    MODE_EMPTY,   /* the same loop without the allocator: the cost of the harness itself */
    MODE_CHECK,   /* each object is filled, and compared when it is freed */
};

typedef struct core_config {
    uint64_t seed;
    double seconds; /* measure blocks until this much time has passed; 0: as many as reps says */
    unsigned reps;  /* blocks to measure; 0: the number that the work brings along */
    bool touch;
    bool smoke; /* tiny amounts, MODE_CHECK, nothing emitted */
} core_config;

/* One line of result. */
void core_emit(const char *metric, double value, const char *unit);

/* The first bytes of an object in MODE_CHECK; the rest follows from it. */
typedef struct core_mark {
    uint32_t tag;
    uint32_t size;
} core_mark;

extern unsigned char core_null_object[2048]; /* "allocated" by MODE_EMPTY */
#define CORE_MOST_BYTES ((size_t)8 << 20)    /* no work has larger objects */

_Noreturn void core_out_of_memory(size_t size);
void core_fill(void *object, size_t size, uint32_t tag);
/* Dies unless the object is as core_fill left it. */
void core_verify(const void *object, uint32_t tag);
_Noreturn void core_refused(const void *object);

BENCH_INLINE void *core_alloc(peer_ref peer, enum bench_mode mode, size_t size, uint32_t tag) {
    if (mode == MODE_EMPTY) {
        void *object = core_null_object;
        __asm__ volatile("" : "+r"(object), "+r"(size)::"memory");
        return object;
    }
    void *object = peer_alloc(peer, size);
    if (__builtin_expect(object == NULL, 0)) core_out_of_memory(size);
    if (mode == MODE_TOUCH) *(volatile unsigned char *)object = 1;
    if (mode == MODE_CHECK) core_fill(object, size, tag);
    return object;
}

BENCH_INLINE void core_free(peer_ref peer, enum bench_mode mode, void *object, uint32_t tag) {
    if (mode == MODE_EMPTY) {
        __asm__ volatile("" : "+r"(object)::"memory");
        return;
    }
    if (mode == MODE_CHECK) {
        core_verify(object, tag);
        if (!peer_free(peer, object)) core_refused(object);
    } else {
        peer_free(peer, object);
    }
}

/* Calls block(state, mode) with a constant mode, so that an inlined block is specialised for each. */
#define CORE_DISPATCH(block, state, mode)                     \
    do {                                                      \
        switch (mode) {                                       \
        case MODE_MEASURE: block(state, MODE_MEASURE); break; \
        case MODE_TOUCH: block(state, MODE_TOUCH); break;     \
        case MODE_EMPTY: block(state, MODE_EMPTY); break;     \
        case MODE_CHECK: block(state, MODE_CHECK); break;     \
        }                                                     \
    } while (0)

/* The mode in which a work runs its measured blocks. */
static inline enum bench_mode core_mode(const core_config *config) {
    return config->smoke ? MODE_CHECK : config->touch ? MODE_TOUCH : MODE_MEASURE;
}

/*
 * Measures blocks of ops operations: `warmup` blocks that do not count, then config's or default_reps
 * blocks. Emits the median of ns per operation as `metric`.
 */
typedef void core_block(void *state, enum bench_mode mode);
void core_measure_blocks(const core_config *config, core_block *block, void *state, uint64_t ops, unsigned warmup,
                         unsigned default_reps, const char *metric);
/* As core_measure_blocks, in MODE_EMPTY, with few blocks, emitted as floor_ns. */
void core_measure_floor(const core_config *config, core_block *block, void *state, uint64_t ops);

/* Whether a loop that has done `done` blocks since start_ns has enough. */
bool core_enough(const core_config *config, unsigned done, unsigned default_reps, uint64_t start_ns);

/* Pre-computed sequences, so that no random number is computed while the clock runs. */
uint32_t *core_random_slots(uint64_t seed, size_t count, uint32_t slots);

/* ---- the works -------------------------------------------------------------------------------- */

typedef void core_work(const core_config *config);

core_work core_fifo_replace, core_random_replace_100k, core_random_replace_2k, core_free_all_alloc_all;
core_work core_mixed_400, core_request;
core_work core_threads_1, core_threads_2, core_threads_8, core_threads_16, core_producer_consumer;
core_work core_tail_order, core_tail_random, core_tail_all, core_tail_order_free;
core_work core_memory;
core_work core_large_500, core_large_100, core_large_20;
core_work core_small_32, core_small_16_48, core_small_16_128, core_small_16_48_100k, core_middle_1_8k, core_by_size;
#if PEER_HAS_DOMAINS
core_work core_handles_2k, core_destroy_1000, core_destroy_200000, core_destroy_growth, core_domain_cycle;
#endif

#endif
