/*
 * The work that only an allocator with domains can do: drop a scope in one call. The call itself is timed, the clock's
 * own cost subtracted. A cost that is put off until the memory is used again shows as fill_object_ns.
 */
#include "core_bench.h"

#if PEER_HAS_DOMAINS

#include "bench_clock.h"

#include <stdio.h>
#include <stdlib.h>

enum { FEW_OBJECTS = 1000, MANY_OBJECTS = 200000, MIN_BYTES = 64, MAX_BYTES = 128, SIZE_COUNT = 4096 };
enum { FEW_SAMPLES = 400, MANY_SAMPLES = 40, MAX_SAMPLES = 4000 };

typedef struct domain_state {
    SlabAllocator *allocator;
    double tick_ns;
    double floor_ticks;   /* the mean cost of reading the clock twice */
    unsigned char *sweep; /* memory to push everything else out of the caches, or NULL */
    size_t sweep_bytes;
    uint64_t fill_ns, fill_objects;
    uint8_t sizes[SIZE_COUNT];
} domain_state;

static int compare_ticks(const void *left, const void *right) {
    uint64_t a = *(const uint64_t *)left, b = *(const uint64_t *)right;
    return (a > b) - (a < b);
}

/*
 * The middle of many durations: the mean of those between the quartiles. Where the counter advances in steps
 * of several nanoseconds a median could only be a whole step; this resolves the values between.
 */
static double middle_ticks(uint64_t *ticks, unsigned count) {
    double sum = 0;
    unsigned first = count / 4, last = count - count / 4;
    qsort(ticks, count, sizeof *ticks, compare_ticks);
    for (unsigned i = first; i < last; i++) sum += (double)ticks[i];
    return sum / (last - first);
}

static double measure_floor_ticks(void) {
    uint64_t ticks[2000];
    for (unsigned i = 0; i < 2000; i++) {
        uint64_t begin = bench_tick_begin();
        ticks[i] = bench_tick_end() - begin;
    }
    return middle_ticks(ticks, 2000);
}

/* Nanoseconds of the middle of count durations, the clock's own cost subtracted. */
static double middle_ns(const domain_state *state, uint64_t *ticks, unsigned count) {
    double net = middle_ticks(ticks, count) - state->floor_ticks;
    return net > 0 ? net * state->tick_ns : 0;
}

static SlabAllocator *open_allocator(int reclaim_policy) {
    SlabOptions options = {.size = sizeof options, .reclaim_policy = reclaim_policy};
    SlabAllocator *allocator = slab_allocator_create_ex(&options);
    if (allocator == NULL) bench_die(BENCH_EXIT_FAILED, "slab_allocator_create_ex failed");
    return allocator;
}

static domain_state *open_state(const core_config *config) {
    domain_state *state = bench_map(sizeof *state);
    bench_rng rng = {config->seed};
    for (size_t i = 0; i < SIZE_COUNT; i++)
        state->sizes[i] = (uint8_t)(MIN_BYTES + bench_rng_below(&rng, MAX_BYTES - MIN_BYTES + 1));
    state->tick_ns = bench_clock_calibrate();
    state->floor_ticks = measure_floor_ticks();
    return state;
}

static void close_state(domain_state *state) {
    if (state->sweep != NULL) bench_unmap(state->sweep, state->sweep_bytes);
    bench_unmap(state, sizeof *state);
}

/* Fills a domain, each object's first byte written, and destroys it. Ticks of the destroy alone. */
static uint64_t destroy_once(domain_state *state, size_t objects) {
    void *last = NULL;
    EpochDomain *domain = epoch_domain_create(state->allocator);
    if (domain == NULL || !epoch_domain_enter(domain)) bench_die(BENCH_EXIT_FAILED, "destroy: no domain");
    uint64_t fill_begin_ns = bench_now_ns();
    for (size_t i = 0; i < objects; i++) {
        size_t size = state->sizes[i % SIZE_COUNT];
        unsigned char *object = slab_alloc(size);
        if (__builtin_expect(object == NULL, 0)) core_out_of_memory(size);
        *(volatile unsigned char *)object = 1;
        last = object;
    }
    state->fill_ns += bench_now_ns() - fill_begin_ns;
    state->fill_objects += objects;
    if (!epoch_domain_exit(domain) || !slab_owns(state->allocator, last))
        bench_die(BENCH_EXIT_FAILED, "destroy: the domain cannot be left, or its last object is not live");
    if (state->sweep != NULL)
        for (size_t i = 0; i < state->sweep_bytes; i += 64) ((volatile unsigned char *)state->sweep)[i]++;
    uint64_t begin = bench_tick_begin();
    epoch_domain_destroy(domain);
    uint64_t end = bench_tick_end();
    if (slab_owns(state->allocator, last))
        bench_die(BENCH_EXIT_FAILED, "destroy: object %p is live after its domain was destroyed", last);
    return end - begin;
}

static unsigned sample_count(const core_config *config, size_t objects) {
    if (config->smoke) return 3;
    if (config->reps != 0) return config->reps < MAX_SAMPLES ? config->reps : MAX_SAMPLES;
    return objects <= FEW_OBJECTS ? FEW_SAMPLES : MANY_SAMPLES;
}

static void measure_destroy(const core_config *config, size_t objects) {
    static const struct {
        int policy;
        const char *metric;
        const char *fill_metric;
    } policies[] = {
        {SLAB_RECLAIM_BUDGET, "destroy_ns", "fill_object_ns"},
        {SLAB_RECLAIM_KEEP, "keep_destroy_ns", "keep_fill_object_ns"},
        {SLAB_RECLAIM_AT_ONCE, "at_once_destroy_ns", "at_once_fill_object_ns"},
    };
    uint64_t ticks[MAX_SAMPLES];
    domain_state *state = open_state(config);
    unsigned samples = sample_count(config, objects);

    if (config->smoke && objects > FEW_OBJECTS) objects = 5000;
    for (size_t p = 0; p < sizeof policies / sizeof policies[0]; p++) {
        state->allocator = open_allocator(policies[p].policy);
        destroy_once(state, objects);
        state->fill_ns = state->fill_objects = 0;
        for (unsigned i = 0; i < samples; i++) ticks[i] = destroy_once(state, objects);
        core_emit(policies[p].metric, middle_ns(state, ticks, samples), "ns");
        core_emit(policies[p].fill_metric, (double)state->fill_ns / (double)state->fill_objects, "ns");
        slab_allocator_free(state->allocator);
    }
    core_emit("floor_ns", state->floor_ticks * state->tick_ns, "ns");
    close_state(state);
}

void core_destroy_1000(const core_config *config) { measure_destroy(config, FEW_OBJECTS); }

void core_destroy_200000(const core_config *config) { measure_destroy(config, MANY_OBJECTS); }

/* The cache that the system says is shared by the cores, and 32 MiB where it does not say. */
static size_t last_cache_bytes(void) {
    unsigned long kib = 0;
    FILE *file = fopen("/sys/devices/system/cpu/cpu0/cache/index3/size", "r");
    if (file != NULL) {
        if (fscanf(file, "%luK", &kib) != 1) kib = 0;
        fclose(file);
    }
    return (kib >= 1024 && kib <= 512 * 1024 ? kib : 32 * 1024) * 1024;
}

/*
 * Both sizes in turn in one allocator, all caches swept before each destroy, the last one too: filling 200,000 objects
 * evicts the allocator's own data and filling 1,000 does not, and that is no cost of destroying.
 */
void core_destroy_growth(const core_config *config) {
    uint64_t few[MAX_SAMPLES], many[MAX_SAMPLES];
    domain_state *state = open_state(config);
    unsigned samples = sample_count(config, MANY_OBJECTS);
    size_t many_objects = config->smoke ? 5000 : MANY_OBJECTS;

    state->sweep_bytes = 2 * last_cache_bytes();
    state->sweep = bench_map(state->sweep_bytes);
    state->allocator = open_allocator(SLAB_RECLAIM_BUDGET);
    destroy_once(state, many_objects);
    for (unsigned i = 0; i < samples; i++) {
        few[i] = destroy_once(state, FEW_OBJECTS);
        many[i] = destroy_once(state, many_objects);
    }
    double few_ns = middle_ns(state, few, samples), many_ns = middle_ns(state, many, samples);
    core_emit("ratio", few_ns > 0 ? many_ns / few_ns : 0, "ratio");
    core_emit("few_destroy_ns", few_ns, "ns");
    core_emit("many_destroy_ns", many_ns, "ns");
    slab_allocator_free(state->allocator);
    close_state(state);
}

/* ---- domain_cycle ----------------------------------------------------------------------------- */

typedef struct cycle_state {
    SlabAllocator *allocator;
    size_t cycles;
} cycle_state;

static void cycle_block(void *arg, enum bench_mode mode) {
    cycle_state *state = arg;
    for (size_t n = state->cycles; n > 0; n--) {
        EpochDomain *domain = epoch_domain_create(state->allocator);
        if (domain == NULL || !epoch_domain_enter(domain)) bench_die(BENCH_EXIT_FAILED, "domain_cycle: no domain");
        unsigned char *object = slab_alloc(128);
        if (__builtin_expect(object == NULL, 0)) core_out_of_memory(128);
        *(volatile unsigned char *)object = 1;
        if (!epoch_domain_exit(domain)) bench_die(BENCH_EXIT_FAILED, "domain_cycle: the domain cannot be left");
        epoch_domain_destroy(domain);
        if (mode == MODE_CHECK && (slab_owns(state->allocator, object) || epoch_domain_exit(domain)))
            bench_die(BENCH_EXIT_FAILED, "domain_cycle: something of a destroyed domain is live");
    }
}

void core_domain_cycle(const core_config *config) {
    cycle_state state = {.allocator = open_allocator(SLAB_RECLAIM_BUDGET), .cycles = config->smoke ? 500 : 20000};
    core_measure_blocks(config, cycle_block, &state, state.cycles, 2, 20, "cycle_ns");
    slab_allocator_free(state.allocator);
}

#else

/* A translation unit may not be empty. */
typedef int core_domain_not_available;

#endif
