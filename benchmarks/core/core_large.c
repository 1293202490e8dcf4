/*
 * Large objects: one of the live ones, at random, is freed and another one of a random size allocated in its place.
 * First the calls alone, then with the first byte of every page written, as a buffer that is used: there memory that
 * went back to the system and came again is paid for. peak_per_byte is the resident memory of the process at its peak,
 * above that at its start, over the bytes of the objects that live at once.
 */
#include "core_bench.h"

#include <sys/resource.h>

enum { ORDER = 1 << 14, PAGE = 4096, KIB = 1024 };

typedef struct large_op {
    uint32_t slot, size;
} large_op;

typedef struct large_state {
    peer_ref peer;
    void **slots;
    large_op *ops;
    size_t cursor, pairs;
} large_state;

BENCH_INLINE void replace(large_state *state, enum bench_mode mode, bool pages) {
    for (size_t left = state->pairs; left > 0; left--) {
        large_op op = state->ops[state->cursor];
        state->cursor = (state->cursor + 1) % ORDER;
        core_free(state->peer, mode, state->slots[op.slot], op.slot);
        unsigned char *object = core_alloc(state->peer, mode, op.size, op.slot);
        state->slots[op.slot] = object;
        if (pages && mode != MODE_CHECK)
            for (size_t i = 0; i < op.size; i += PAGE) *(volatile unsigned char *)(object + i) = 1;
    }
}

BENCH_INLINE void calls_loop(large_state *state, enum bench_mode mode) { replace(state, mode, false); }
static void calls_block(void *state, enum bench_mode mode) { CORE_DISPATCH(calls_loop, state, mode); }

static void pages_block(void *state, enum bench_mode mode) {
    if (mode == MODE_CHECK)
        replace(state, MODE_CHECK, true);
    else
        replace(state, MODE_MEASURE, true);
}

static size_t peak_rss_bytes(void) {
    struct rusage usage;
    return getrusage(RUSAGE_SELF, &usage) == 0 ? (size_t)usage.ru_maxrss * KIB : 0;
}

static void measure(const core_config *config, uint32_t live, uint32_t least, uint32_t most, size_t pairs) {
    large_state state = {.pairs = config->smoke ? 2 * live : pairs};
    bench_rng rng = {config->seed};
    state.slots = bench_map(live * sizeof *state.slots);
    state.ops = bench_map(ORDER * sizeof *state.ops);
    double payload = 0;
    for (size_t i = 0; i < ORDER; i++) {
        state.ops[i].slot = bench_rng_below(&rng, live);
        state.ops[i].size = least + bench_rng_below(&rng, most - least + 1);
        payload += (double)state.ops[i].size / ORDER * live;
    }
    size_t start_bytes = bench_rss_bytes();
    enum bench_mode mode = core_mode(config);
    state.peer = peer_open();
    for (uint32_t i = 0; i < live; i++) state.slots[i] = core_null_object;
    core_measure_floor(config, calls_block, &state, state.pairs);
    for (uint32_t i = 0; i < live; i++) state.slots[i] = core_alloc(state.peer, mode, state.ops[i].size, i);
    core_measure_blocks(config, calls_block, &state, state.pairs, 2, 20, "pair_ns");
    core_measure_blocks(config, pages_block, &state, state.pairs, 2, 10, "written_pair_ns");
    core_emit("peak_per_byte", (double)(peak_rss_bytes() - start_bytes) / payload, "bytes");
    for (uint32_t i = 0; i < live; i++) core_free(state.peer, mode, state.slots[i], i);
    peer_close(state.peer);
    bench_unmap(state.ops, ORDER * sizeof *state.ops);
    bench_unmap(state.slots, live * sizeof *state.slots);
}

void core_large_500(const core_config *config) { measure(config, 500, 8200, 32 * KIB, 50000); }
void core_large_100(const core_config *config) { measure(config, 100, 64 * KIB, KIB * KIB, 5000); }
void core_large_20(const core_config *config) { measure(config, 20, 1100 * KIB, 8 * KIB * KIB, 1000); }
