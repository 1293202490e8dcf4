/*
 * A request: 80-200 objects of 48-700 bytes, the first and the last byte of each written, then all dropped.
 * Where the allocator has domains, a domain per request is created, entered, left and destroyed; elsewhere
 * the program keeps the pointers and frees each object in the order of allocation.
 */
#include "core_bench.h"

enum { REQUESTS = 512, MIN_OBJECTS = 80, MAX_OBJECTS = 200, MIN_BYTES = 48, MAX_BYTES = 700 };

typedef struct request_state {
    peer_ref peer;
    uint64_t objects; /* of all requests */
    size_t rounds;
    uint16_t counts[REQUESTS];
    uint16_t sizes[REQUESTS * MAX_OBJECTS];
} request_state;

BENCH_INLINE void touch_ends(unsigned char *object, size_t size) {
    ((volatile unsigned char *)object)[0] = 1;
    ((volatile unsigned char *)object)[size - 1] = 1;
}

/* All of one request without an allocator. */
BENCH_INLINE void request_empty(const uint16_t *sizes, size_t count) {
    for (size_t i = 0; i < count; i++) {
        unsigned char *object = core_null_object;
        size_t size = sizes[i];
        __asm__ volatile("" : "+r"(object), "+r"(size)::"memory");
        touch_ends(object, size);
    }
}

#if PEER_HAS_DOMAINS

BENCH_INLINE void request_once(peer_ref peer, const uint16_t *sizes, size_t count, enum bench_mode mode) {
    void *objects[MAX_OBJECTS];
    EpochDomain *domain = epoch_domain_create(peer.allocator);
    if (domain == NULL || !epoch_domain_enter(domain)) bench_die(BENCH_EXIT_FAILED, "request: no domain");
    for (size_t i = 0; i < count; i++) {
        unsigned char *object = slab_alloc(sizes[i]);
        if (__builtin_expect(object == NULL, 0)) core_out_of_memory(sizes[i]);
        if (mode == MODE_CHECK) {
            core_fill(object, sizes[i], (uint32_t)i);
            objects[i] = object;
        } else {
            touch_ends(object, sizes[i]);
        }
    }
    if (mode == MODE_CHECK)
        for (size_t i = 0; i < count; i++) core_verify(objects[i], (uint32_t)i);
    if (!epoch_domain_exit(domain)) bench_die(BENCH_EXIT_FAILED, "request: the domain cannot be left");
    epoch_domain_destroy(domain);
    if (mode == MODE_CHECK)
        for (size_t i = 0; i < count; i++)
            if (slab_owns(peer.allocator, objects[i]) || slab_free(peer.allocator, objects[i]))
                bench_die(BENCH_EXIT_FAILED, "request: object %p is live after its domain was destroyed", objects[i]);
}

#else

BENCH_INLINE void request_once(peer_ref peer, const uint16_t *sizes, size_t count, enum bench_mode mode) {
    void *objects[MAX_OBJECTS];
    for (size_t i = 0; i < count; i++) {
        unsigned char *object = core_alloc(peer, mode == MODE_CHECK ? MODE_CHECK : MODE_MEASURE, sizes[i], (uint32_t)i);
        if (mode != MODE_CHECK) touch_ends(object, sizes[i]);
        objects[i] = object;
    }
    for (size_t i = 0; i < count; i++) core_free(peer, mode, objects[i], (uint32_t)i);
}

#endif

BENCH_INLINE void request_loop(request_state *state, enum bench_mode mode) {
    peer_ref peer = state->peer;
    for (size_t round = state->rounds; round > 0; round--) {
        const uint16_t *sizes = state->sizes;
        for (size_t r = 0; r < REQUESTS; r++) {
            size_t count = state->counts[r];
            if (mode == MODE_EMPTY)
                request_empty(sizes, count);
            else
                request_once(peer, sizes, count, mode);
            sizes += count;
        }
    }
}

static void request_block(void *state, enum bench_mode mode) { CORE_DISPATCH(request_loop, state, mode); }

void core_request(const core_config *config) {
    request_state *state = bench_map(sizeof *state);
    bench_rng rng = {config->seed};
    for (size_t r = 0; r < REQUESTS; r++) {
        state->counts[r] = (uint16_t)(MIN_OBJECTS + bench_rng_below(&rng, MAX_OBJECTS - MIN_OBJECTS + 1));
        for (size_t i = 0; i < state->counts[r]; i++)
            state->sizes[state->objects++] = (uint16_t)(MIN_BYTES + bench_rng_below(&rng, MAX_BYTES - MIN_BYTES + 1));
    }
    state->rounds = config->smoke ? 1 : 4;
    state->peer = peer_open();
    uint64_t objects = state->objects * state->rounds;
    core_measure_floor(config, request_block, state, objects);
    core_measure_blocks(config, request_block, state, objects, 2, 100, "object_ns");
#if PEER_HAS_DOMAINS
    if (config->smoke) { /* the frees that request_once expects to be refused are counted as such */
        slab_allocator_free(state->peer.allocator);
        bench_unmap(state, sizeof *state);
        return;
    }
#endif
    peer_close(state->peer);
    bench_unmap(state, sizeof *state);
}
