/*
 * 1 to 16 threads: throughput, latency, contention; ten trials of each.
 *
 *   frees private   each thread replaces random objects of its own 2,000
 *   frees cross     each thread hands its objects to the next thread, which frees it; a ring of threads
 *   frees batch     each thread allocates 100,000, then frees them all in that order: as the reference figures
 *   epochs same     all threads allocate in one epoch
 *   epochs separate each thread in its own (only where there are epochs)
 *
 * An operation is an allocation or a free; each object is written to. A trial has two halves: one without a clock in
 * the loop (throughput, and the allocator's counters of locks and retries), one with every operation timed
 * (percentiles, less the median cost of the clock). Of batches only the allocations are timed, as in those. Every
 * combination runs in a process of its own.
 */
#include "bench_clock.h"
#include "suite.h"

#include <math.h>
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>

enum {
    OBJECT_BYTES = 128,
    LIVE = 2000,
    BATCH = 100000,
    ORDER_COUNT = 1 << 16,
    MAX_THREADS = 64,
    MAX_TRIALS = 100,
    CACHE_LINE = 64
};
enum { RING_SLOTS = 1024, RING_BATCH = CACHE_LINE / sizeof(void *) };

static struct {
    uint64_t threads, trials;
    const char *trials_csv;
} options;

static suite_csv *summary_csv, *trials_csv;
static suite_clock ticks;

enum frees { FREES_PRIVATE, FREES_CROSS, FREES_BATCH, FREES_WAYS };

typedef struct combination {
    unsigned threads;
    bool separate;
    enum frees frees;
} combination;

/* ---- shared by the threads -------------------------------------------------------------------- */

enum phase { PHASE_PLAIN, PHASE_TIMED, PHASE_CHECK, PHASE_END };

/* Objects on their way from one thread to the next. */
typedef struct ring {
    _Alignas(CACHE_LINE) atomic_size_t written; /* the allocating thread writes */
    _Alignas(CACHE_LINE) atomic_size_t read;    /* the freeing thread writes */
    _Alignas(CACHE_LINE) void *objects[RING_SLOTS];
} ring;

typedef struct member {
    _Alignas(CACHE_LINE) struct team *team;
    unsigned index;
    peer_ref epoch; /* where it allocates */
    uint64_t begin_ns, end_ns;
    size_t cursor;
    bench_hist *hist;
    ring out;     /* to the next member */
    void **slots; /* LIVE of them; BATCH in batches */
} member;

typedef struct team {
    combination combination;
    peer_ref peer;
    size_t pairs; /* of one thread in this phase */
    enum phase phase;
    const uint32_t *order;
    pthread_barrier_t barrier;
    member *members;
} team;

/* ---- one operation ---------------------------------------------------------------------------- */

BENCH_INLINE void *do_alloc(member *m, enum phase phase, uint32_t tag) {
    uint64_t begin = phase == PHASE_TIMED ? bench_tick_begin() : 0;
    void *object = suite_alloc(m->epoch, OBJECT_BYTES);
    if (phase == PHASE_TIMED) bench_hist_add(m->hist, bench_tick_end() - begin);
    if (phase == PHASE_CHECK)
        suite_fill(object, OBJECT_BYTES, tag);
    else
        suite_touch(object);
    return object;
}

BENCH_INLINE void do_free(member *m, enum phase phase, void *object, uint32_t tag) {
    if (phase == PHASE_CHECK && !suite_verify(object, OBJECT_BYTES, tag))
        suite_fail("object %p was overwritten", object);
    uint64_t begin = phase == PHASE_TIMED ? bench_tick_begin() : 0;
    bool freed = peer_free(m->epoch, object);
    if (phase == PHASE_TIMED) bench_hist_add(m->hist, bench_tick_end() - begin);
    if (phase == PHASE_CHECK && !freed) suite_fail("the free of the live object %p was refused", object);
}

/* ---- the loops -------------------------------------------------------------------------------- */

BENCH_INLINE void private_loop(member *m, enum phase phase) {
    const uint32_t *order = m->team->order;
    size_t at = m->cursor;
    for (size_t n = m->team->pairs; n > 0; n--) {
        uint32_t slot = order[at++ & (ORDER_COUNT - 1)];
        do_free(m, phase, m->slots[slot], slot);
        m->slots[slot] = do_alloc(m, phase, slot);
    }
    m->cursor = at;
}

/* Both sides in turn, a cache line of pointers at a time; gives up the processor when neither can go on. */
BENCH_INLINE void cross_loop(member *m, enum phase phase) {
    team *t = m->team;
    ring *in = &t->members[(m->index + t->combination.threads - 1) % t->combination.threads].out, *out = &m->out;
    size_t pairs = t->pairs, made = 0, freed = 0;
    for (unsigned idle = 0; made < pairs || freed < pairs; idle++) {
        /* acquire: the slots up to read are no longer used by the other side */
        if (made < pairs && made + RING_BATCH <= atomic_load_explicit(&out->read, memory_order_acquire) + RING_SLOTS) {
            for (size_t i = 0; i < RING_BATCH; i++, made++)
                out->objects[made % RING_SLOTS] = do_alloc(m, phase, (uint32_t)made);
            atomic_store_explicit(&out->written, made, memory_order_release); /* publishes the pointers */
            idle = 0;
        }
        if (freed < pairs && atomic_load_explicit(&in->written, memory_order_acquire) >= freed + RING_BATCH) {
            for (size_t i = 0; i < RING_BATCH; i++, freed++)
                do_free(m, phase, in->objects[freed % RING_SLOTS], (uint32_t)freed);
            atomic_store_explicit(&in->read, freed, memory_order_release); /* the slots may be used again */
            idle = 0;
        }
        if (idle > 64)
            sched_yield();
        else if (idle > 0)
            bench_cpu_relax();
    }
}

BENCH_INLINE void batch_loop(member *m, enum phase phase) {
    for (size_t left = m->team->pairs; left > 0;) {
        size_t count = left < BATCH ? left : BATCH;
        uint32_t tag = m->index * (BATCH + 3u);
        for (size_t i = 0; i < count; i++) m->slots[i] = do_alloc(m, phase, tag + (uint32_t)i);
        for (size_t i = 0; i < count; i++)
            do_free(m, phase == PHASE_TIMED ? PHASE_PLAIN : phase, m->slots[i], tag + (uint32_t)i);
        left -= count;
    }
}

BENCH_INLINE void loop_of(member *m, enum phase phase) {
    switch (m->team->combination.frees) {
    case FREES_CROSS: cross_loop(m, phase); break;
    case FREES_BATCH: batch_loop(m, phase); break;
    default: private_loop(m, phase); break;
    }
}

static void run_phase(member *m, enum phase phase) {
    m->begin_ns = bench_now_ns();
    switch (phase) {
    case PHASE_PLAIN: loop_of(m, PHASE_PLAIN); break;
    case PHASE_TIMED: loop_of(m, PHASE_TIMED); break;
    case PHASE_CHECK: loop_of(m, PHASE_CHECK); break;
    case PHASE_END: break;
    }
    m->end_ns = bench_now_ns();
}

static void *run_member(void *arg) {
    member *m = arg;
    team *t = m->team;
    enum phase fill = suite.smoke ? PHASE_CHECK : PHASE_PLAIN;
    uint32_t live = t->combination.frees == FREES_PRIVATE ? LIVE : 0;
    for (uint32_t i = 0; i < live; i++) m->slots[i] = do_alloc(m, fill, i);
    for (;;) {
        pthread_barrier_wait(&t->barrier);
        if (t->phase == PHASE_END) break;
        run_phase(m, t->phase);
        pthread_barrier_wait(&t->barrier);
    }
    for (uint32_t i = 0; i < live; i++) do_free(m, fill, m->slots[i], i);
    return NULL;
}

/* ---- trials ----------------------------------------------------------------------------------- */

typedef struct trial {
    double ops_per_sec, p50_ns, p99_ns, p999_ns;
    uint64_t lock_acquired, lock_contended, lock_waits, foreign_frees, cas_retries;
} trial;

/* Lets all members do one phase; wall nanoseconds from the first to start to the last to end. */
static double team_phase(team *t, enum phase phase, size_t pairs) {
    t->phase = phase;
    t->pairs = pairs;
    for (unsigned i = 0; i < t->combination.threads; i++) {
        atomic_store_explicit(&t->members[i].out.written, 0, memory_order_relaxed); /* the barrier publishes both */
        atomic_store_explicit(&t->members[i].out.read, 0, memory_order_relaxed);
    }
    pthread_barrier_wait(&t->barrier);
    if (phase == PHASE_END) return 0;
    pthread_barrier_wait(&t->barrier);
    uint64_t begin_ns = t->members[0].begin_ns, end_ns = t->members[0].end_ns;
    for (unsigned i = 1; i < t->combination.threads; i++) {
        if (t->members[i].begin_ns < begin_ns) begin_ns = t->members[i].begin_ns;
        if (t->members[i].end_ns > end_ns) end_ns = t->members[i].end_ns;
    }
    return (double)(end_ns - begin_ns);
}

static void merge_hists(bench_hist *to, const team *t) {
    memset(to, 0, sizeof *to);
    for (unsigned i = 0; i < t->combination.threads; i++) {
        bench_hist *from = t->members[i].hist;
        bench_hist_merge(to, from);
        memset(from, 0, sizeof *from);
    }
}

/* Whole batches, one at least. */
static size_t batches(size_t pairs) {
    size_t batch = suite_amount(BATCH, BATCH, 1000);
    return pairs < batch ? batch : pairs / batch * batch;
}

/* An object that was not filled cannot be compared: nothing unfilled may be live between two phases. */
static void fill_live(const team *t) {
    for (unsigned i = 0; i < t->combination.threads && suite.smoke && t->combination.frees == FREES_PRIVATE; i++)
        for (uint32_t k = 0; k < LIVE; k++) suite_fill(t->members[i].slots[k], OBJECT_BYTES, k);
}

static trial run_trial(team *t, bench_hist *merged, double floor_ns) {
    unsigned threads = t->combination.threads;
    size_t plain = suite_amount(4000000, 2000000, 16000) / threads / RING_BATCH * RING_BATCH;
    size_t timed = suite_amount(1000000, 400000, 8000) / threads / RING_BATCH * RING_BATCH;
    trial result = {0};
    if (t->combination.frees == FREES_CROSS) plain /= 4;
    plain = plain / RING_BATCH * RING_BATCH;
    if (t->combination.frees == FREES_BATCH) {
        plain = batches(suite_amount(2000000, 1000000, 1000) / threads);
        timed = batches(timed);
    }
    suite_counters before = suite_count(t->peer);
    double ns = team_phase(t, suite.smoke ? PHASE_CHECK : PHASE_PLAIN, plain);
    suite_counters after = suite_count(t->peer);
    result.ops_per_sec = 2.0 * (double)plain * threads * 1e9 / ns;
    result.lock_acquired = after.lock_acquired - before.lock_acquired;
    result.lock_contended = after.lock_contended - before.lock_contended;
    result.lock_waits = after.lock_waits - before.lock_waits;
    result.foreign_frees = after.foreign_frees - before.foreign_frees;
    result.cas_retries = after.cas_retries - before.cas_retries;
    fill_live(t);
    team_phase(t, PHASE_TIMED, timed);
    fill_live(t);
    merge_hists(merged, t);
    result.p50_ns = suite_percentile_ns(merged, 0.5, &ticks, floor_ns);
    result.p99_ns = suite_percentile_ns(merged, 0.99, &ticks, floor_ns);
    result.p999_ns = suite_percentile_ns(merged, 0.999, &ticks, floor_ns);
    return result;
}

/* ---- results ---------------------------------------------------------------------------------- */

typedef struct spread {
    double mean, cv_pct; /* sample standard deviation over the mean; 0 of a single value */
} spread;

static spread spread_of(const double *values, size_t count) {
    double sum = 0, squares = 0;
    for (size_t i = 0; i < count; i++) sum += values[i];
    double mean = sum / (double)count;
    for (size_t i = 0; i < count; i++) squares += (values[i] - mean) * (values[i] - mean);
    double deviation = count > 1 ? sqrt(squares / (double)(count - 1)) : 0;
    return (spread){mean, mean > 0 ? 100 * deviation / mean : 0};
}

static const char *epochs_name(const combination *c) { return c->separate ? "separate" : "same"; }
static const char *frees_name(const combination *c) {
    static const char *const names[FREES_WAYS] = {"private", "cross", "batch"};
    return names[c->frees];
}

static void emit(const combination *c, const trial *trials, size_t count, bool known, double floor_ns) {
    double ops[MAX_TRIALS], p50[MAX_TRIALS], p99[MAX_TRIALS], p999[MAX_TRIALS];
    trial sum = {0};
    for (size_t i = 0; i < count; i++) {
        const trial *r = &trials[i];
        ops[i] = r->ops_per_sec, p50[i] = r->p50_ns, p99[i] = r->p99_ns, p999[i] = r->p999_ns;
        sum.lock_acquired += r->lock_acquired;
        sum.lock_contended += r->lock_contended;
        sum.lock_waits += r->lock_waits;
        sum.foreign_frees += r->foreign_frees;
        sum.cas_retries += r->cas_retries;
        suite_csv_line(trials_csv, "%s,%u,%s,%s,%zu,%.0f,%.3f,%.3f,%.3f,%s,%s,%s,%s,%s", SUITE_ALLOCATOR, c->threads,
                       epochs_name(c), frees_name(c), i + 1, r->ops_per_sec, r->p50_ns, r->p99_ns, r->p999_ns,
                       suite_count_field(known, r->lock_acquired).text,
                       suite_count_field(known, r->lock_contended).text, suite_count_field(known, r->lock_waits).text,
                       suite_count_field(known, r->foreign_frees).text, suite_count_field(known, r->cas_retries).text);
    }
    spread ops_spread = spread_of(ops, count), p99_spread = spread_of(p99, count);
    suite_csv_line(summary_csv, "%s,%u,%s,%s,%zu,%.0f,%.2f,%.3f,%.3f,%.2f,%.3f,%s,%s,%s,%s,%s,%.3f,%s", SUITE_ALLOCATOR,
                   c->threads, epochs_name(c), frees_name(c), count, ops_spread.mean, ops_spread.cv_pct,
                   spread_of(p50, count).mean, p99_spread.mean, p99_spread.cv_pct, spread_of(p999, count).mean,
                   suite_count_field(known, sum.lock_acquired).text, suite_count_field(known, sum.lock_contended).text,
                   suite_count_field(known, sum.lock_waits).text, suite_count_field(known, sum.foreign_frees).text,
                   suite_count_field(known, sum.cas_retries).text, floor_ns, suite.identity.version);
    printf("%-10s %7u %-9s %-8s %9.2f %6.1f %8.1f %8.1f %6.1f %10.1f %10s %10s %12s %10s\n", SUITE_ALLOCATOR,
           c->threads, epochs_name(c), frees_name(c), ops_spread.mean * 1e-6, ops_spread.cv_pct,
           spread_of(p50, count).mean, p99_spread.mean, p99_spread.cv_pct, spread_of(p999, count).mean,
           suite_count_field(known, sum.lock_acquired).text, suite_count_field(known, sum.lock_waits).text,
           suite_count_field(known, sum.foreign_frees).text, suite_count_field(known, sum.cas_retries).text);
}

static void measure(const void *arg) {
    const combination *c = arg;
    trial trials[MAX_TRIALS];
    pthread_t ids[MAX_THREADS];
    size_t members_bytes = c->threads * sizeof(member);
    team t = {.combination = *c, .members = bench_map(members_bytes)};
    uint32_t *order = bench_map(ORDER_COUNT * sizeof *order);
    bench_rng rng = {suite.seed};
    bench_hist *merged = bench_hist_create();

    for (size_t i = 0; i < ORDER_COUNT; i++) order[i] = bench_rng_below(&rng, LIVE);
    t.order = order;
    for (unsigned i = 0; i < 200000; i++) {
        uint64_t begin = bench_tick_begin();
        bench_hist_add(merged, bench_tick_end() - begin);
    }
    double floor_ns = suite_percentile_ns(merged, 0.5, &ticks, 0);
    t.peer = peer_open();
    if (pthread_barrier_init(&t.barrier, NULL, c->threads + 1) != 0)
        suite_fail("the harness cannot make a barrier for %u threads", c->threads);
    for (unsigned i = 0; i < c->threads; i++) {
        member *m = &t.members[i];
        m->team = &t;
        m->index = i;
        m->cursor = i * (ORDER_COUNT / MAX_THREADS);
        m->epoch = c->separate ? suite_epoch_open(t.peer, "thread", false) : t.peer;
        m->hist = bench_hist_create();
        m->slots = bench_map((c->frees == FREES_BATCH ? BATCH : LIVE) * sizeof *m->slots);
        if (pthread_create(&ids[i], NULL, run_member, m) != 0) suite_fail("the harness cannot start thread %u", i + 1);
    }
    size_t warm_up = suite_amount(200000, 50000, 800) / RING_BATCH * RING_BATCH;
    if (c->frees == FREES_BATCH) warm_up = suite_amount(2 * BATCH, 2 * BATCH, 1000);
    team_phase(&t, suite.smoke ? PHASE_CHECK : PHASE_PLAIN, warm_up);
    for (size_t i = 0; i < options.trials; i++) trials[i] = run_trial(&t, merged, floor_ns);
    bool known = suite_count(t.peer).known;
    team_phase(&t, PHASE_END, 0);
    for (unsigned i = 0; i < c->threads; i++) pthread_join(ids[i], NULL);
    for (unsigned i = 0; i < c->threads && c->separate; i++)
        if (!suite_epoch_close(t.members[i].epoch)) suite_fail("epoch_close refused an open epoch");
    peer_close(t.peer);
    emit(c, trials, options.trials, known, floor_ns);
}

/* ---- main ------------------------------------------------------------------------------------- */

static const suite_option option_table[] = {
    {.name = "--trials",
     .value = "N",
     .help = "trials of each combination (default 10)",
     .number = &options.trials,
     .low = 2,
     .high = MAX_TRIALS},
    {.name = "--trials-csv", .value = "FILE", .help = "every trial", .text = &options.trials_csv},
};

static const suite_option operand = {.name = "the number of threads",
                                     .value = "N",
                                     .help = "only with so many threads (default: 1, 2, 4, 8, 16)",
                                     .number = &options.threads,
                                     .low = 1,
                                     .high = MAX_THREADS};

static const suite_program self = {
    .name = "benchmark_threads",
    .summary =
        "Throughput, p99, lock contention and retries of atomic operations with 1, 2, 4, 8 and 16 threads; in one\n"
        "epoch and in separate ones; freed by the thread that allocated, one by one and in batches, and by another.",
    .options = option_table,
    .option_count = sizeof option_table / sizeof option_table[0],
    .operand = &operand,
};

int main(int argc, char **argv) {
    static const unsigned all_threads[] = {1, 2, 4, 8, 16};
    suite_begin(&self, argc, argv);
    if (options.trials == 0) options.trials = suite_amount(10, 10, 2);
    summary_csv = suite_csv_open(
        suite.csv, "allocator,threads,epochs,frees,trials,ops_per_sec,ops_per_sec_cv_pct,p50_ns,p99_ns,"
                   "p99_cv_pct,p999_ns,lock_acquired,lock_contended,lock_waits,foreign_frees,cas_retries,floor_ns,"
                   "version");
    trials_csv =
        suite_csv_open(options.trials_csv, "allocator,threads,epochs,frees,trial,ops_per_sec,p50_ns,p99_ns,p999_ns,"
                                           "lock_acquired,lock_contended,lock_waits,foreign_frees,cas_retries");
    printf("%-10s %7s %-9s %-8s %9s %6s %8s %8s %6s %10s %10s %10s %12s %10s\n", "allocator", "threads", "epochs",
           "frees", "M ops/s", "CV %", "p50 ns", "p99", "CV %", "p99.9", "locks", "waits", "foreign", "retries");
    ticks = suite_clock_start();
    size_t counts = options.threads ? 1 : sizeof all_threads / sizeof all_threads[0];
    for (size_t i = 0; i < counts; i++)
        for (enum frees frees = FREES_PRIVATE; frees < FREES_WAYS; frees++)
            for (int separate = 0; separate <= PEER_HAS_DOMAINS; separate++) {
                combination c = {options.threads ? (unsigned)options.threads : all_threads[i], separate, frees};
                if (c.threads == 1 && frees == FREES_CROSS) continue; /* there is no other thread */
                suite_progress(true, "%u threads, %s epochs, %s frees", c.threads, epochs_name(&c), frees_name(&c));
                suite_run(measure, &c);
            }
    suite_csv_commit();
    return 0;
}
