/*
 * The distribution of single allocations, or of single frees: 100,000 live objects of 128 bytes; again and again a
 * part of them is freed and as many are allocated, and each of the calls of one kind is timed on its own. The median
 * cost of the clock itself, measured in the same process, is subtracted and emitted as floor_ns.
 *
 * A call during which the thread lost its processor is not counted: its time is another program's work. How many those
 * are is emitted as switched.
 */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE /* RUSAGE_THREAD */
#endif
#include "core_bench.h"

#include "bench_clock.h"
#include "bench_hist.h"

#include <sys/resource.h>

enum { OBJECT_BYTES = 128, LIVE = 100000, SMOKE_LIVE = 2000, CALLS = 3000000, SLOW_NS = 1000 };

enum tail_timed { TIMED_ALLOC, TIMED_FREE };

typedef struct tail_work {
    enum tail_timed timed;
    unsigned parts; /* live / parts objects are freed at once */
    bool random;    /* else in the order in which they were allocated */
} tail_work;

typedef struct tail_state {
    peer_ref peer;
    void **slots;
    uint32_t *victims; /* a permutation of all slots; each cycle takes `part` of them at `cursor` */
    size_t live;
    size_t part;
    size_t cursor;
    bench_hist *hist;
    uint64_t slow_ticks; /* less than this is no time to lose the processor and get it back */
    uint64_t switches;   /* so far */
    uint64_t switched;   /* calls that were left out */
} tail_state;

static uint64_t context_switches(void) {
    struct rusage usage;
    if (getrusage(RUSAGE_THREAD, &usage) != 0) bench_die(BENCH_EXIT_FAILED, "getrusage(RUSAGE_THREAD)");
    return (uint64_t)usage.ru_nvcsw + (uint64_t)usage.ru_nivcsw;
}

static __attribute__((noinline)) void add_slow(tail_state *state, uint64_t ticks) {
    uint64_t switches = context_switches();
    if (switches == state->switches)
        bench_hist_add(state->hist, ticks);
    else
        state->switched++;
    state->switches = switches;
}

BENCH_INLINE void add_sample(tail_state *state, uint64_t ticks) {
    if (__builtin_expect(ticks < state->slow_ticks, 1))
        bench_hist_add(state->hist, ticks);
    else
        add_slow(state, ticks);
}

BENCH_INLINE void tail_frees(tail_state *state, enum bench_mode mode, bool timed) {
    const uint32_t *victims = state->victims + state->cursor;
    for (size_t i = 0; i < state->part; i++) {
        void *object = state->slots[victims[i]];
        if (timed && mode == MODE_CHECK) core_verify(object, victims[i]);
        uint64_t begin = timed ? bench_tick_begin() : 0;
        core_free(state->peer, timed && mode == MODE_CHECK ? MODE_MEASURE : mode, object, victims[i]);
        if (timed) add_sample(state, bench_tick_end() - begin);
    }
}

BENCH_INLINE void tail_allocs(tail_state *state, enum bench_mode mode, bool timed) {
    const uint32_t *victims = state->victims + state->cursor;
    for (size_t i = 0; i < state->part; i++) {
        uint64_t begin = timed ? bench_tick_begin() : 0;
        void *object = core_alloc(state->peer, mode == MODE_CHECK ? MODE_MEASURE : mode, OBJECT_BYTES, victims[i]);
        if (timed) add_sample(state, bench_tick_end() - begin);
        if (mode == MODE_CHECK) core_fill(object, OBJECT_BYTES, victims[i]);
        state->slots[victims[i]] = object;
    }
}

BENCH_INLINE void alloc_cycle_loop(tail_state *state, enum bench_mode mode) {
    tail_frees(state, mode, false);
    state->switches = context_switches();
    tail_allocs(state, mode, true);
}

BENCH_INLINE void free_cycle_loop(tail_state *state, enum bench_mode mode) {
    state->switches = context_switches();
    tail_frees(state, mode, true);
    tail_allocs(state, mode, false);
}

static void alloc_cycle(tail_state *state, enum bench_mode mode) { CORE_DISPATCH(alloc_cycle_loop, state, mode); }

static void free_cycle(tail_state *state, enum bench_mode mode) { CORE_DISPATCH(free_cycle_loop, state, mode); }

/* In order: the next part. Random: a new sample, moved to the front of the permutation. */
static void choose_victims(tail_state *state, bench_rng *rng, bool random) {
    if (!random) {
        state->cursor = (state->cursor + state->part) % state->live;
        return;
    }
    for (size_t i = 0; i < state->part; i++) {
        size_t j = i + bench_rng_below(rng, (uint32_t)(state->live - i));
        uint32_t swapped = state->victims[i];
        state->victims[i] = state->victims[j];
        state->victims[j] = swapped;
    }
}

/* The cost of the clock by itself, and the steps in which it counts. */
typedef struct tail_clock {
    double tick_ns;
    uint64_t step;      /* ticks */
    double floor_ticks; /* the median of measuring nothing */
} tail_clock;

static double percentile_ns(const bench_hist *hist, double fraction, const tail_clock *clock) {
    double ticks = bench_hist_percentile(hist, fraction, clock->step) - clock->floor_ticks;
    return ticks > 0 ? ticks * clock->tick_ns : 0;
}

static tail_clock measure_clock(bench_hist *hist) {
    tail_clock clock = {.tick_ns = bench_clock_calibrate()};
    for (unsigned i = 0; i < 500000; i++) {
        uint64_t begin = bench_tick_begin();
        uint64_t end = bench_tick_end();
        bench_hist_add(hist, end - begin);
    }
    clock.step = bench_hist_step(hist);
    clock.floor_ticks = bench_hist_percentile(hist, 0.5, clock.step);
    return clock;
}

static void tail_cycle(tail_state *state, bench_rng *rng, const tail_work *work, enum bench_mode mode) {
    choose_victims(state, rng, work->random);
    if (work->timed == TIMED_FREE)
        free_cycle(state, mode);
    else
        alloc_cycle(state, mode);
}

static void measure_tail(const core_config *config, const tail_work *work) {
    tail_state state = {.live = config->smoke ? SMOKE_LIVE : LIVE};
    bench_rng rng = {config->seed};
    enum bench_mode mode = core_mode(config);
    bench_hist *floor_hist = bench_hist_create();
    unsigned done = 0;

    if (!bench_clock_is_invariant() && !config->smoke)
        bench_die(BENCH_EXIT_UNAVAILABLE, "the tick counter %s of this processor changes its rate", BENCH_TICK_SOURCE);
    state.part = state.live / work->parts;
    unsigned cycles = (unsigned)(CALLS / state.part);
    state.slots = bench_map(state.live * sizeof *state.slots);
    state.victims = bench_map(state.live * sizeof *state.victims);
    for (size_t i = 0; i < state.live; i++) state.victims[i] = (uint32_t)i;
    state.peer = peer_open();
    for (size_t i = 0; i < state.live; i++) state.slots[i] = core_alloc(state.peer, mode, OBJECT_BYTES, (uint32_t)i);

    bench_hist *warmup_hist = bench_hist_create();
    state.hist = warmup_hist;
    tail_clock clock = measure_clock(floor_hist);
    state.slow_ticks = (uint64_t)(SLOW_NS / clock.tick_ns);
    for (unsigned i = 0; i < (config->smoke ? 1 : cycles / 10); i++) tail_cycle(&state, &rng, work, mode);
    state.hist = bench_hist_create();
    state.switched = 0;
    uint64_t start_ns = bench_now_ns();
    while (!core_enough(config, done, cycles, start_ns)) {
        tail_cycle(&state, &rng, work, mode);
        done++;
    }
    core_emit("p50_ns", percentile_ns(state.hist, 0.5, &clock), "ns");
    core_emit("p99_ns", percentile_ns(state.hist, 0.99, &clock), "ns");
    core_emit("p999_ns", percentile_ns(state.hist, 0.999, &clock), "ns");
    core_emit("p9999_ns", percentile_ns(state.hist, 0.9999, &clock), "ns");
    core_emit("max_ns", (double)state.hist->max * clock.tick_ns, "ns");
    core_emit("switched", (double)state.switched, "calls");
    core_emit("floor_ns", clock.floor_ticks * clock.tick_ns, "ns");
    core_emit("step_ns", (double)clock.step * clock.tick_ns, "ns");
    core_emit("floor_p9999_ns", percentile_ns(floor_hist, 0.9999, &clock), "ns");

    for (size_t i = 0; i < state.live; i++) core_free(state.peer, mode, state.slots[i], (uint32_t)i);
    peer_close(state.peer);
    bench_hist_destroy(state.hist);
    bench_hist_destroy(warmup_hist);
    bench_hist_destroy(floor_hist);
    bench_unmap(state.victims, state.live * sizeof *state.victims);
    bench_unmap(state.slots, state.live * sizeof *state.slots);
}

void core_tail_order(const core_config *config) {
    measure_tail(config, &(tail_work){.timed = TIMED_ALLOC, .parts = 10});
}

void core_tail_random(const core_config *config) {
    measure_tail(config, &(tail_work){.timed = TIMED_ALLOC, .parts = 10, .random = true});
}

void core_tail_all(const core_config *config) { measure_tail(config, &(tail_work){.timed = TIMED_ALLOC, .parts = 1}); }

void core_tail_order_free(const core_config *config) {
    measure_tail(config, &(tail_work){.timed = TIMED_FREE, .parts = 10});
}
