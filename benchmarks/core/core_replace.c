/*
 * Single-thread throughput over objects of one size, and over mixed sizes: nanoseconds per operation,
 * harness included (floor_ns says how much of it that is).
 */
#include "core_bench.h"

enum { OBJECT_BYTES = 128 };

/* ---- replace: free one of the live objects, allocate one in its place -------------------------- */

typedef struct replace_state {
    peer_ref peer;
    void **slots;
    size_t live;
    size_t cursor;         /* into slots (FIFO) or into order (random) */
    const uint32_t *order; /* order_count slot numbers, read round and round */
    size_t order_count;
    size_t pairs; /* of one block */
} replace_state;

/* All values that a loop needs per pair are in registers: it walks by pointers, from one end of its array to the
   other. */
static size_t run_length(size_t left, size_t to_end) { return left < to_end ? left : to_end; }

BENCH_INLINE void fifo_loop(replace_state *state, enum bench_mode mode) {
    peer_ref peer = state->peer;
    void **slots = state->slots;
    for (size_t left = state->pairs; left > 0;) {
        size_t run = run_length(left, state->live - state->cursor);
        void **end = slots + state->cursor + run;
        for (void **slot = end - run; slot < end; slot++) {
            core_free(peer, mode, *slot, (uint32_t)(slot - slots));
            *slot = core_alloc(peer, mode, OBJECT_BYTES, (uint32_t)(slot - slots));
        }
        left -= run;
        state->cursor = (state->cursor + run) % state->live;
    }
}

static void fifo_block(void *state, enum bench_mode mode) { CORE_DISPATCH(fifo_loop, state, mode); }

BENCH_INLINE void random_loop(replace_state *state, enum bench_mode mode) {
    peer_ref peer = state->peer;
    void **slots = state->slots;
    for (size_t left = state->pairs; left > 0;) {
        size_t run = run_length(left, state->order_count - state->cursor);
        const uint32_t *end = state->order + state->cursor + run;
        for (const uint32_t *next = end - run; next < end; next++) {
            void **slot = &slots[*next];
            core_free(peer, mode, *slot, *next);
            *slot = core_alloc(peer, mode, OBJECT_BYTES, *next);
        }
        left -= run;
        state->cursor = (state->cursor + run) % state->order_count;
    }
}

static void random_block(void *state, enum bench_mode mode) { CORE_DISPATCH(random_loop, state, mode); }

BENCH_INLINE void all_loop(replace_state *state, enum bench_mode mode) {
    peer_ref peer = state->peer;
    void **slots = state->slots;
    for (size_t round = state->pairs / state->live; round > 0; round--) {
        for (size_t i = 0; i < state->live; i++) core_free(peer, mode, slots[i], (uint32_t)i);
        for (size_t i = 0; i < state->live; i++) slots[i] = core_alloc(peer, mode, OBJECT_BYTES, (uint32_t)i);
    }
}

static void all_block(void *state, enum bench_mode mode) { CORE_DISPATCH(all_loop, state, mode); }

static void measure_replace(const core_config *config, core_block *block, size_t live, size_t order_count, size_t pairs,
                            unsigned warmup, unsigned reps) {
    replace_state state = {.live = config->smoke ? live / 50 : live, .order_count = order_count};
    state.pairs = config->smoke ? 4 * state.live : pairs;
    state.slots = bench_map(state.live * sizeof *state.slots);
    if (order_count != 0) state.order = core_random_slots(config->seed, order_count, (uint32_t)state.live);
    state.peer = peer_open();
    for (size_t i = 0; i < state.live; i++) state.slots[i] = core_null_object;
    core_measure_floor(config, block, &state, state.pairs);
    enum bench_mode mode = core_mode(config);
    for (size_t i = 0; i < state.live; i++) state.slots[i] = core_alloc(state.peer, mode, OBJECT_BYTES, (uint32_t)i);
    core_measure_blocks(config, block, &state, state.pairs, warmup, reps, "pair_ns");
    for (size_t i = 0; i < state.live; i++) core_free(state.peer, mode, state.slots[i], (uint32_t)i);
    peer_close(state.peer);
    if (order_count != 0) bench_unmap((void *)state.order, order_count * sizeof *state.order);
    bench_unmap(state.slots, state.live * sizeof *state.slots);
}

void core_fifo_replace(const core_config *config) { measure_replace(config, fifo_block, 100000, 0, 500000, 2, 60); }

void core_random_replace_100k(const core_config *config) {
    measure_replace(config, random_block, 100000, (size_t)1 << 20, 500000, 4, 40);
}

void core_random_replace_2k(const core_config *config) {
    measure_replace(config, random_block, 2000, (size_t)1 << 16, 500000, 2, 60);
}

void core_free_all_alloc_all(const core_config *config) {
    measure_replace(config, all_block, 100000, 0, 500000, 2, 20);
}

/* ---- by handle ---------------------------------------------------------------------------------- */

#if PEER_HAS_DOMAINS
enum { HANDLES = 2000, HANDLE_ORDER = 1 << 16, HANDLE_PAIRS = 500000 };

typedef struct handle_state {
    peer_ref peer;
    SlabHandle *handles;
    const uint32_t *order;
    size_t cursor, pairs;
} handle_state;

BENCH_INLINE SlabHandle handle_alloc(peer_ref peer, enum bench_mode mode, uint32_t slot) {
    SlabHandle handle = SLAB_HANDLE_NONE;
    if (mode == MODE_EMPTY) {
        __asm__ volatile("" : "+r"(handle)::"memory");
        return handle;
    }
    unsigned char *object = alloc_obj_epoch(peer.allocator, OBJECT_BYTES, peer.epoch, &handle);
    if (__builtin_expect(object == NULL, 0)) core_out_of_memory(OBJECT_BYTES);
    if (mode == MODE_TOUCH) *(volatile unsigned char *)object = 1;
    if (mode == MODE_CHECK) core_fill(object, OBJECT_BYTES, slot);
    return handle;
}

BENCH_INLINE void handle_free(peer_ref peer, enum bench_mode mode, SlabHandle handle, uint32_t slot) {
    if (mode == MODE_EMPTY) {
        __asm__ volatile("" : "+r"(handle)::"memory");
        return;
    }
    if (mode == MODE_CHECK) {
        const void *object = slab_handle_get(peer.allocator, handle);
        if (object) core_verify(object, slot);
        if (!free_obj(peer.allocator, handle) || slab_handle_get(peer.allocator, handle)) core_refused(object);
    } else {
        free_obj(peer.allocator, handle);
    }
}

BENCH_INLINE void handle_loop(handle_state *state, enum bench_mode mode) {
    peer_ref peer = state->peer;
    SlabHandle *handles = state->handles;
    const uint32_t *order = state->order;
    size_t at = state->cursor;
    for (size_t n = state->pairs; n > 0; n--) {
        uint32_t slot = order[at++ & (HANDLE_ORDER - 1)];
        handle_free(peer, mode, handles[slot], slot);
        handles[slot] = handle_alloc(peer, mode, slot);
    }
    state->cursor = at;
}

static void handle_block(void *state, enum bench_mode mode) { CORE_DISPATCH(handle_loop, state, mode); }

void core_handles_2k(const core_config *config) {
    handle_state state = {.pairs = config->smoke ? 4 * HANDLES : HANDLE_PAIRS};
    enum bench_mode mode = core_mode(config);
    state.handles = bench_map(HANDLES * sizeof *state.handles);
    state.order = core_random_slots(config->seed, HANDLE_ORDER, HANDLES);
    state.peer = peer_open();
    core_measure_floor(config, handle_block, &state, state.pairs);
    for (uint32_t slot = 0; slot < HANDLES; slot++) state.handles[slot] = handle_alloc(state.peer, mode, slot);
    core_measure_blocks(config, handle_block, &state, state.pairs, 2, 60, "pair_ns");
    for (uint32_t slot = 0; slot < HANDLES; slot++) handle_free(state.peer, mode, state.handles[slot], slot);
    peer_close(state.peer);
    bench_unmap((void *)state.order, HANDLE_ORDER * sizeof *state.order);
    bench_unmap(state.handles, HANDLES * sizeof *state.handles);
}
#endif

/* ---- mixed sizes: each operation frees a full slot or fills an empty one ------------------------ */

enum { MIXED_SLOTS = 400, MIXED_MIN_BYTES = 16, MIXED_MAX_BYTES = 1039, MIXED_OPS = 1 << 16 };

typedef struct mixed_op {
    uint16_t slot;
    uint16_t size;
} mixed_op;

typedef struct mixed_state {
    peer_ref peer;
    mixed_op *ops;
    size_t rounds;
    void *slots[MIXED_SLOTS];
} mixed_state;

BENCH_INLINE void mixed_loop(mixed_state *state, enum bench_mode mode) {
    peer_ref peer = state->peer;
    const mixed_op *ops = state->ops;
    for (size_t round = state->rounds; round > 0; round--) {
        for (size_t i = 0; i < MIXED_OPS; i++) {
            mixed_op op = ops[i];
            if (state->slots[op.slot] != NULL) {
                core_free(peer, mode, state->slots[op.slot], op.slot);
                state->slots[op.slot] = NULL;
            } else {
                state->slots[op.slot] = core_alloc(peer, mode, op.size, op.slot);
            }
        }
    }
}

static void mixed_block(void *state, enum bench_mode mode) { CORE_DISPATCH(mixed_loop, state, mode); }

void core_mixed_400(const core_config *config) {
    mixed_state state = {.rounds = config->smoke ? 1 : 4};
    bench_rng rng = {config->seed};
    state.ops = bench_map(MIXED_OPS * sizeof *state.ops);
    for (size_t i = 0; i < MIXED_OPS; i++) {
        state.ops[i].slot = (uint16_t)bench_rng_below(&rng, MIXED_SLOTS);
        state.ops[i].size = (uint16_t)(MIXED_MIN_BYTES + bench_rng_below(&rng, MIXED_MAX_BYTES - MIXED_MIN_BYTES + 1));
    }
    state.peer = peer_open();
    core_measure_floor(config, mixed_block, &state, state.rounds * MIXED_OPS);
    memset(state.slots, 0, sizeof state.slots);
    core_measure_blocks(config, mixed_block, &state, state.rounds * MIXED_OPS, 2, 80, "op_ns");
    for (uint32_t slot = 0; slot < MIXED_SLOTS; slot++)
        if (state.slots[slot] != NULL) core_free(state.peer, core_mode(config), state.slots[slot], slot);
    peer_close(state.peer);
    bench_unmap(state.ops, MIXED_OPS * sizeof *state.ops);
}
