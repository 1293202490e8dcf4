/*
 * Small and middle objects of mixed sizes, replaced at random; and one size after the other from 8 bytes to 8 MiB.
 * (core_large.c has the mixes from 8 KB up, with their memory.)
 */
#include "core_bench.h"

#include <stdio.h>

enum { ORDER = 1 << 16, KIB = 1024, MIB = 1024 * KIB };

typedef struct size_op {
    uint32_t slot, size;
} size_op;

typedef struct sizes_state {
    peer_ref peer;
    void **slots;
    const size_op *ops;
    size_t cursor, pairs;
} sizes_state;

BENCH_INLINE void replace_loop(sizes_state *state, enum bench_mode mode) {
    peer_ref peer = state->peer;
    void **slots = state->slots;
    for (size_t left = state->pairs; left > 0;) {
        size_t to_end = ORDER - state->cursor, run = left < to_end ? left : to_end;
        const size_op *end = state->ops + state->cursor + run;
        for (const size_op *op = end - run; op < end; op++) {
            core_free(peer, mode, slots[op->slot], op->slot);
            slots[op->slot] = core_alloc(peer, mode, op->size, op->slot);
        }
        left -= run;
        state->cursor = (state->cursor + run) % ORDER;
    }
}

static void replace_block(void *state, enum bench_mode mode) { CORE_DISPATCH(replace_loop, state, mode); }

typedef struct size_range {
    uint32_t live, least, most;
    size_t pairs;
    unsigned warmup, reps;
} size_range;

static void measure(const core_config *config, const size_range *range, bool floor, const char *metric) {
    uint32_t live = config->smoke && range->live > 40 ? range->live / 20 : range->live;
    sizes_state state = {.pairs = config->smoke ? 4 * (size_t)live : range->pairs};
    bench_rng rng = {config->seed};
    state.slots = bench_map(live * sizeof *state.slots);
    size_op *ops = bench_map(ORDER * sizeof *ops);
    for (size_t i = 0; i < ORDER; i++)
        ops[i] = (size_op){bench_rng_below(&rng, live),
                           range->least + bench_rng_below(&rng, range->most - range->least + 1)};
    state.ops = ops;
    enum bench_mode mode = core_mode(config);
    state.peer = peer_open();
    for (uint32_t i = 0; i < live; i++) state.slots[i] = core_null_object;
    if (floor) core_measure_floor(config, replace_block, &state, state.pairs);
    for (uint32_t i = 0; i < live; i++) state.slots[i] = core_alloc(state.peer, mode, ops[i % ORDER].size, i);
    core_measure_blocks(config, replace_block, &state, state.pairs, range->warmup, range->reps, metric);
    for (uint32_t i = 0; i < live; i++) core_free(state.peer, mode, state.slots[i], i);
    peer_close(state.peer);
    bench_unmap(ops, ORDER * sizeof *ops);
    bench_unmap(state.slots, live * sizeof *state.slots);
}

static void mix(const core_config *config, uint32_t live, uint32_t least, uint32_t most) {
    measure(config, &(size_range){live, least, most, 500000, 2, 40}, true, "pair_ns");
}

void core_small_32(const core_config *config) { mix(config, 2000, 32, 32); }
void core_small_16_48(const core_config *config) { mix(config, 2000, 16, 48); }
void core_small_16_128(const core_config *config) { mix(config, 2000, 16, 128); }
void core_small_16_48_100k(const core_config *config) { mix(config, 100000, 16, 48); }
void core_middle_1_8k(const core_config *config) { mix(config, 2000, KIB, 8 * KIB); }

/* 32 MiB live, but not more than 2,000 objects, nor fewer than 10. Where an allocator can be opened anew each size has
   one of its own. */
void core_by_size(const core_config *config) {
    /* Some of them are enough to check every object. */
    for (uint32_t bytes = 8; bytes <= (config->smoke ? 128 * KIB : 8 * MIB); bytes *= config->smoke ? 16 : 2) {
        char metric[40];
        uint32_t live = 32 * MIB / bytes;
        live = live > 2000 ? 2000 : live < 10 ? 10 : live;
        snprintf(metric, sizeof metric, "pair_ns_%u", bytes);
        measure(config, &(size_range){live, bytes, bytes, bytes > 32 * KIB ? 4000 : 100000, 3, 15}, false, metric);
    }
}
