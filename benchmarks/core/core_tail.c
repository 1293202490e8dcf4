/*
 * The distribution of single allocations: 100,000 live objects of 128 bytes; again and again a tenth of them
 * is freed and as many are allocated, and each of these allocations is timed on its own. The median cost of
 * the clock itself, measured in the same process, is subtracted and emitted as floor_ns.
 */
#include "core_bench.h"

#include "bench_clock.h"
#include "bench_hist.h"

enum { OBJECT_BYTES = 128, LIVE = 100000, SMOKE_LIVE = 2000, CYCLES = 300, WARMUP_CYCLES = 30 };

typedef struct tail_state {
    peer_ref peer;
    void **slots;
    uint32_t *victims; /* a permutation of all slots; each cycle takes `tenth` of them at `cursor` */
    size_t live;
    size_t tenth;
    size_t cursor;
    bench_hist *hist;
} tail_state;

BENCH_INLINE void tail_cycle_loop(tail_state *state, enum bench_mode mode) {
    peer_ref peer = state->peer;
    const uint32_t *victims = state->victims + state->cursor;
    for (size_t i = 0; i < state->tenth; i++) core_free(peer, mode, state->slots[victims[i]], victims[i]);
    for (size_t i = 0; i < state->tenth; i++) {
        uint64_t begin = bench_tick_begin();
        void *object = core_alloc(peer, mode == MODE_CHECK ? MODE_MEASURE : mode, OBJECT_BYTES, victims[i]);
        uint64_t end = bench_tick_end();
        bench_hist_add(state->hist, end - begin);
        if (mode == MODE_CHECK) core_fill(object, OBJECT_BYTES, victims[i]);
        state->slots[victims[i]] = object;
    }
}

static void tail_cycle(tail_state *state, enum bench_mode mode) { CORE_DISPATCH(tail_cycle_loop, state, mode); }

/* In order: the next tenth. Random: a new sample of a tenth, moved to the front of the permutation. */
static void choose_victims(tail_state *state, bench_rng *rng, bool random) {
    if (!random) {
        state->cursor = (state->cursor + state->tenth) % state->live;
        return;
    }
    for (size_t i = 0; i < state->tenth; i++) {
        size_t j = i + bench_rng_below(rng, (uint32_t)(state->live - i));
        uint32_t swapped = state->victims[i];
        state->victims[i] = state->victims[j];
        state->victims[j] = swapped;
    }
}

/* What the clock costs by itself, and in which steps it counts. */
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

static void measure_tail(const core_config *config, bool random) {
    tail_state state = {.live = config->smoke ? SMOKE_LIVE : LIVE};
    bench_rng rng = {config->seed};
    enum bench_mode mode = core_mode(config);
    bench_hist *floor_hist = bench_hist_create();
    unsigned done = 0;

    if (!bench_clock_is_invariant() && !config->smoke)
        bench_die(BENCH_EXIT_UNAVAILABLE, "the tick counter %s of this processor changes its rate", BENCH_TICK_SOURCE);
    state.tenth = state.live / 10;
    state.slots = bench_map(state.live * sizeof *state.slots);
    state.victims = bench_map(state.live * sizeof *state.victims);
    for (size_t i = 0; i < state.live; i++) state.victims[i] = (uint32_t)i;
    state.peer = peer_open();
    for (size_t i = 0; i < state.live; i++) state.slots[i] = core_alloc(state.peer, mode, OBJECT_BYTES, (uint32_t)i);

    bench_hist *warmup_hist = bench_hist_create();
    state.hist = warmup_hist;
    for (unsigned i = 0; i < (config->smoke ? 1 : WARMUP_CYCLES); i++) {
        choose_victims(&state, &rng, random);
        tail_cycle(&state, mode);
    }
    tail_clock clock = measure_clock(floor_hist);
    state.hist = bench_hist_create();
    uint64_t start_ns = bench_now_ns();
    while (!core_enough(config, done, CYCLES, start_ns)) {
        choose_victims(&state, &rng, random);
        tail_cycle(&state, mode);
        done++;
    }
    core_emit("p50_ns", percentile_ns(state.hist, 0.5, &clock), "ns");
    core_emit("p99_ns", percentile_ns(state.hist, 0.99, &clock), "ns");
    core_emit("p999_ns", percentile_ns(state.hist, 0.999, &clock), "ns");
    core_emit("p9999_ns", percentile_ns(state.hist, 0.9999, &clock), "ns");
    core_emit("max_ns", (double)state.hist->max * clock.tick_ns, "ns");
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

void core_tail_order(const core_config *config) { measure_tail(config, false); }

void core_tail_random(const core_config *config) { measure_tail(config, true); }
