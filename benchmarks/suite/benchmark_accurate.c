/*
 * The latency of single allocations and frees, per size class, and the allocator's waste.
 *
 *   sequential   100,000 objects are allocated, then freed in the same order; ten rounds, the first one on memory
 *                that was never touched. 1 million allocations.
 *   churn        100,000 live objects; a cycle is 100,000 operations: five times a random tenth of the objects is
 *                freed and as many are allocated. 1,000 cycles, 100 million operations.
 *   fifo         as churn, but the oldest tenth is freed, in order: memory stays in the order of its addresses.
 *   written      as sequential, but timed is an allocation with the first write to its object: the first use
 *                of a page is the allocator's where it writes there itself, and the program's where it does not.
 *   floor        the loop of the churn without the allocator: the cost of clock, interrupts and scheduler on this
 *                machine, in twenty blocks between the cycles of the churn, and in one before the others.
 *
 * Every operation is timed on its own; the median of the floor is subtracted. Each object is written to, behind the
 * clock but for `written`. ops_per_sec is measured apart, without the clock in the loop.
 *
 * Fragmentation: the sizes of size_mix.h, and each one as the allocator rounds it up. Space: the kernel's count per
 * object, metadata included. Each part runs in a process of its own.
 */
#include "bench_clock.h"
#include "size_mix.h"
#include "suite.h"
#include "tail_reasons.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#if defined(BENCH_PEER_TSLAB)
#include <tslab/stats.h>
#endif

enum { MAX_LIVE = 100000, STEPS_PER_CYCLE = 5, SEQUENTIAL_ROUNDS = 10, FLOOR_BLOCKS = 20 };
enum { MAX_SIZES = 16 };

static const uint64_t default_sizes[] = {64, 96, 128, 192, 256, 384, 512, 768};
enum { DEFAULT_SIZES = sizeof default_sizes / sizeof default_sizes[0] };

static struct {
    uint64_t cycles;
    const char *sizes_text;
    const char *fragmentation;
    const char *cdf;
    const char *space;
    uint64_t sizes[MAX_SIZES];
    size_t size_count;
    bool memory_only, dense_only;
} options;

/* ---- the loops -------------------------------------------------------------------------------- */

enum loop_mode {
    LOOP_TIMED,   /* each call timed */
    LOOP_PLAIN,   /* the calls alone: throughput */
    LOOP_EMPTY,   /* each pass timed, nothing called */
    LOOP_CHECK,   /* timed, every object filled and compared */
    LOOP_WRITTEN, /* timed with the first write */
};

typedef struct work {
    peer_ref peer;
    size_t size;
    size_t live;
    size_t tenth;
    void **slots;
    uint32_t *victims; /* a permutation of all slots; the next step takes the first tenth, or the one at cursor */
    size_t cursor;
    bool in_order; /* the next tenth is freed, not a random one */
    bench_rng rng;
    bench_hist *alloc_hist;
    bench_hist *free_hist;
    bench_hist *floor_hist;
    void **empty_slots; /* those of the floor's loop */
    uint64_t floor_ns;  /* of all that it took */
    uint64_t alloc_ns;  /* of LOOP_PLAIN */
    uint64_t free_ns;
} work;

static unsigned char null_object[16];

BENCH_INLINE void one_free(work *w, enum loop_mode mode, uint32_t slot) {
    void *object = w->slots[slot];
    if (mode == LOOP_CHECK && !suite_verify(object, w->size, slot))
        suite_fail("object %p of %zu bytes was overwritten", object, w->size);
    uint64_t begin = mode == LOOP_PLAIN ? 0 : bench_tick_begin();
    if (mode == LOOP_EMPTY)
        __asm__ volatile("" : "+r"(object)::"memory");
    else if (mode == LOOP_CHECK) {
        if (!peer_free(w->peer, object)) suite_fail("the free of the live object %p was refused", object);
    } else
        peer_free(w->peer, object);
    if (mode != LOOP_PLAIN) bench_hist_add(w->free_hist, bench_tick_end() - begin);
}

BENCH_INLINE void one_alloc(work *w, enum loop_mode mode, uint32_t slot) {
    void *object = null_object;
    uint64_t begin = mode == LOOP_PLAIN ? 0 : bench_tick_begin();
    if (mode == LOOP_EMPTY)
        __asm__ volatile("" : "+r"(object)::"memory");
    else
        object = suite_alloc(w->peer, w->size);
    if (mode == LOOP_WRITTEN) suite_touch(object);
    if (mode != LOOP_PLAIN) bench_hist_add(w->alloc_hist, bench_tick_end() - begin);
    if (mode == LOOP_CHECK)
        suite_fill(object, w->size, slot);
    else
        suite_touch(object);
    w->slots[slot] = object;
}

BENCH_INLINE void free_loop(work *w, enum loop_mode mode, const uint32_t *order, size_t count) {
    uint64_t begin_ns = mode == LOOP_PLAIN ? bench_now_ns() : 0;
    for (size_t i = 0; i < count; i++) one_free(w, mode, order[i]);
    if (mode == LOOP_PLAIN) w->free_ns += bench_now_ns() - begin_ns;
}

BENCH_INLINE void alloc_loop(work *w, enum loop_mode mode, const uint32_t *order, size_t count) {
    uint64_t begin_ns = mode == LOOP_PLAIN ? bench_now_ns() : 0;
    for (size_t i = 0; i < count; i++) one_alloc(w, mode, order[i]);
    if (mode == LOOP_PLAIN) w->alloc_ns += bench_now_ns() - begin_ns;
}

static void free_some(work *w, enum loop_mode mode, const uint32_t *order, size_t count) {
    switch (mode) {
    case LOOP_TIMED: free_loop(w, LOOP_TIMED, order, count); break;
    case LOOP_PLAIN: free_loop(w, LOOP_PLAIN, order, count); break;
    case LOOP_EMPTY: free_loop(w, LOOP_EMPTY, order, count); break;
    case LOOP_CHECK: free_loop(w, LOOP_CHECK, order, count); break;
    case LOOP_WRITTEN: free_loop(w, LOOP_WRITTEN, order, count); break;
    }
}

static void alloc_some(work *w, enum loop_mode mode, const uint32_t *order, size_t count) {
    switch (mode) {
    case LOOP_TIMED: alloc_loop(w, LOOP_TIMED, order, count); break;
    case LOOP_PLAIN: alloc_loop(w, LOOP_PLAIN, order, count); break;
    case LOOP_EMPTY: alloc_loop(w, LOOP_EMPTY, order, count); break;
    case LOOP_CHECK: alloc_loop(w, LOOP_CHECK, order, count); break;
    case LOOP_WRITTEN: alloc_loop(w, LOOP_WRITTEN, order, count); break;
    }
}

/* Outside of the timed part. In order: the next tenth. Random: a new sample, moved to the front. */
static const uint32_t *choose_victims(work *w) {
    if (w->in_order) {
        w->cursor = (w->cursor + w->tenth) % w->live;
        return w->victims + w->cursor;
    }
    for (size_t i = 0; i < w->tenth; i++) {
        size_t j = i + bench_rng_below(&w->rng, (uint32_t)(w->live - i));
        uint32_t swapped = w->victims[i];
        w->victims[i] = w->victims[j];
        w->victims[j] = swapped;
    }
    return w->victims;
}

static void churn_cycle(work *w, enum loop_mode mode) {
    for (unsigned step = 0; step < STEPS_PER_CYCLE; step++) {
        const uint32_t *victims = choose_victims(w);
        free_some(w, mode, victims, w->tenth);
        alloc_some(w, mode, victims, w->tenth);
    }
}

/* ---- results ---------------------------------------------------------------------------------- */

static suite_csv *latency_csv, *cdf_csv, *fragmentation_csv, *space_csv;
static suite_clock ticks;

static const char latency_header[] =
    "allocator,threads,size_class,op,avg_ns,p50_ns,p95_ns,p99_ns,p999_ns,ops_per_sec,p9999_ns,p99999_ns,max_ns,"
    "samples,floor_ns,version";

/* The distribution as the clock saw it, at twelve points to a decade of the fraction above. */
static void emit_cdf(size_t size, const char *op, const bench_hist *hist) {
    static const double points[] = {1.0, 0.825, 0.681, 0.562, 0.464, 0.383, 0.316, 0.261, 0.215, 0.178, 0.147, 0.121};
    if (cdf_csv == NULL) return;
    for (double decade = 1.0; decade * (double)hist->count >= 1; decade /= 10)
        for (size_t i = 0; i < sizeof points / sizeof points[0]; i++) {
            double above = points[i] * decade;
            if (above * (double)hist->count < 1 || above >= 1) continue;
            suite_csv_line(cdf_csv, "%s,%zu,%s,%.3f,%.6g", SUITE_ALLOCATOR, size, op,
                           suite_percentile_ns(hist, 1 - above, &ticks, 0), above);
        }
    suite_csv_line(cdf_csv, "%s,%zu,%s,%.3f,0", SUITE_ALLOCATOR, size, op, (double)hist->max * ticks.tick_ns);
}

static void emit_latency(size_t size, const char *op, const bench_hist *hist, double floor_ns, double ops_per_sec) {
    double avg = suite_mean_ns(hist, &ticks, floor_ns), max = (double)hist->max * ticks.tick_ns - floor_ns;
    double p50 = suite_percentile_ns(hist, 0.5, &ticks, floor_ns),
           p95 = suite_percentile_ns(hist, 0.95, &ticks, floor_ns);
    double p99 = suite_percentile_ns(hist, 0.99, &ticks, floor_ns);
    double p999 = suite_percentile_ns(hist, 0.999, &ticks, floor_ns);
    double p9999 = suite_percentile_ns(hist, 0.9999, &ticks, floor_ns);
    double p99999 = suite_percentile_ns(hist, 0.99999, &ticks, floor_ns);
    suite_csv_line(latency_csv, "%s,1,%zu,%s,%.3f,%.3f,%.3f,%.3f,%.3f,%.0f,%.3f,%.3f,%.3f,%llu,%.3f,%s",
                   SUITE_ALLOCATOR, size, op, avg, p50, p95, p99, p999, ops_per_sec, p9999, p99999, max,
                   (unsigned long long)hist->count, floor_ns, suite.identity.version);
    emit_cdf(size, op, hist);
    printf("%-10s %5zu  %-10s %8.1f %8.1f %8.1f %8.1f %9.1f %10.1f %10.1f %11.0f %9.2f\n", SUITE_ALLOCATOR, size, op,
           avg, p50, p95, p99, p999, p9999, p99999, max, ops_per_sec * 1e-6);
}

static void print_latency_header(void) {
    printf("%-10s %5s  %-10s %8s %8s %8s %8s %9s %10s %10s %11s %9s\n", "allocator", "size", "op", "avg ns", "p50",
           "p95", "p99", "p99.9", "p99.99", "p99.999", "max", "M ops/s");
}

/* ---- latency ---------------------------------------------------------------------------------- */

static enum loop_mode timed_mode(void) { return suite.smoke ? LOOP_CHECK : LOOP_TIMED; }

static double per_second(uint64_t ops, uint64_t ns) { return ns > 0 ? (double)ops * 1e9 / (double)ns : 0; }

static void reset_hists(work *w) {
    memset(w->alloc_hist, 0, sizeof *w->alloc_hist);
    memset(w->free_hist, 0, sizeof *w->free_hist);
    w->alloc_ns = w->free_ns = 0;
}

typedef struct rates {
    double alloc, free; /* operations a second */
} rates;

static rates plain_rates(const work *w, uint64_t ops) {
    return (rates){per_second(ops, w->alloc_ns), per_second(ops, w->free_ns)};
}

/* Adds to the floor, of both halves of the loop. */
static void measure_floor(work *w, uint64_t cycles) {
    work empty = *w;
    empty.slots = w->empty_slots;
    empty.alloc_hist = empty.free_hist = w->floor_hist;
    uint64_t begin_ns = bench_now_ns();
    for (uint64_t i = 0; i < cycles; i++) churn_cycle(&empty, LOOP_EMPTY);
    w->floor_ns += bench_now_ns() - begin_ns;
    w->rng = empty.rng;
    w->cursor = empty.cursor;
}

static double floor_of(const work *w) { return suite_percentile_ns(w->floor_hist, 0.5, &ticks, 0); }

/* A block of the floor between two cycles, and a cycle that is not counted: the floor's slots were in the caches. */
static void pause_for_floor(work *w, enum loop_mode mode, uint64_t cycles, bench_hist *uncounted) {
    measure_floor(w, cycles);
    work after = *w;
    after.alloc_hist = after.free_hist = uncounted;
    churn_cycle(&after, mode);
    w->rng = after.rng;
    w->cursor = after.cursor;
}

static void measure_sequential(work *w, const uint32_t *order, double floor_ns) {
    enum loop_mode mode = timed_mode();
    unsigned rounds = suite.smoke ? 2 : SEQUENTIAL_ROUNDS;
    reset_hists(w);
    w->peer = peer_open();
    for (unsigned round = 0; round < rounds; round++) {
        alloc_some(w, mode, order, w->live);
        free_some(w, mode, order, w->live);
    }
    for (unsigned round = 0; round < rounds; round++) {
        alloc_some(w, LOOP_PLAIN, order, w->live);
        free_some(w, LOOP_PLAIN, order, w->live);
    }
    peer_close(w->peer);
    rates rate = plain_rates(w, (uint64_t)rounds * w->live);
    emit_latency(w->size, "seq_alloc", w->alloc_hist, floor_ns, rate.alloc);
    emit_latency(w->size, "seq_free", w->free_hist, floor_ns, rate.free);
}

/* In a process of its own: the first round is on memory that was never touched. */
static void measure_written(work *w, const uint32_t *order, double floor_ns) {
    enum loop_mode mode = suite.smoke ? LOOP_CHECK : LOOP_WRITTEN;
    unsigned rounds = suite.smoke ? 2 : SEQUENTIAL_ROUNDS;
    reset_hists(w);
    w->peer = peer_open();
    uint64_t begin_ns = bench_now_ns();
    for (unsigned round = 0; round < rounds; round++) {
        alloc_some(w, mode, order, w->live);
        free_some(w, mode, order, w->live);
    }
    uint64_t ns = bench_now_ns() - begin_ns;
    peer_close(w->peer);
    emit_latency(w->size, "written", w->alloc_hist, floor_ns, per_second(w->alloc_hist->count, ns));
}

static void measure_churn(work *w, const uint32_t *order, uint64_t cycles) {
    enum loop_mode mode = timed_mode();
    uint64_t plain_cycles = cycles / 20 + 1, pause = cycles / FLOOR_BLOCKS + 1;
    bench_hist *uncounted = bench_hist_create();
    w->peer = peer_open();
    alloc_some(w, mode, order, w->live);
    for (uint64_t i = 0; i < cycles / 20 + 1; i++) churn_cycle(w, mode); /* warms up */
    reset_hists(w);
    for (uint64_t i = 0; i < cycles; i++) {
        if (i % pause == pause / 2) pause_for_floor(w, mode, cycles / (5 * FLOOR_BLOCKS) + 1, uncounted);
        churn_cycle(w, mode);
        suite_progress(false, "%zu B: cycle %llu of %llu", w->size, (unsigned long long)i + 1,
                       (unsigned long long)cycles);
    }
    if (mode == LOOP_TIMED)
        for (uint64_t i = 0; i < plain_cycles; i++) churn_cycle(w, LOOP_PLAIN);
    else { /* an object that is not filled cannot be compared: every object is compared once more, and replaced */
        for (size_t i = 0; i < w->live; i++)
            if (!suite_verify(w->slots[i], w->size, (uint32_t)i))
                suite_fail("object %p of %zu bytes was overwritten", w->slots[i], w->size);
        free_some(w, LOOP_PLAIN, order, w->live);
        alloc_some(w, LOOP_PLAIN, order, w->live);
        w->alloc_ns = w->free_ns = 0;
        for (uint64_t i = 0; i < plain_cycles; i++) churn_cycle(w, LOOP_PLAIN);
    }
    rates rate = plain_rates(w, plain_cycles * STEPS_PER_CYCLE * w->tenth);
    free_some(w, LOOP_PLAIN, order, w->live);
    peer_close(w->peer);
    bench_hist_destroy(uncounted);
    if (!w->in_order) emit_latency(w->size, "floor", w->floor_hist, 0, per_second(w->floor_hist->count, w->floor_ns));
    emit_latency(w->size, w->in_order ? "fifo_alloc" : "alloc", w->alloc_hist, floor_of(w), rate.alloc);
    emit_latency(w->size, w->in_order ? "fifo_free" : "free", w->free_hist, floor_of(w), rate.free);
}

/* Printed only: in sequence with an allocator of its own, and in the churn. */
static void attribute_tail(work *w, const uint32_t *order) {
    size_t most = suite_amount(20000, 20000, 1000);
    tail_reasons *reasons = tail_reasons_create(most);
    if (reasons == NULL) return;
    w->peer = peer_open();
    for (size_t i = 0; i < w->live; i++) w->slots[order[i]] = tail_reasons_alloc(reasons, w->peer, w->size);
    tail_reasons_print(reasons, w->size, "seq_alloc");
    for (size_t done = 0; done < most; done += w->tenth) {
        const uint32_t *victims = choose_victims(w);
        free_some(w, LOOP_PLAIN, victims, w->tenth);
        for (size_t i = 0; i < w->tenth; i++) w->slots[victims[i]] = tail_reasons_alloc(reasons, w->peer, w->size);
    }
    tail_reasons_print(reasons, w->size, "alloc");
    free_some(w, LOOP_PLAIN, order, w->live);
    peer_close(w->peer);
    tail_reasons_destroy(reasons);
}

typedef struct latency_work {
    uint64_t size;
    enum { CHURN, FIFO, WRITTEN, LATENCY_KINDS } kind;
} latency_work;

static void measure_latency(const void *arg) {
    const latency_work *latency = arg;
    size_t size = (size_t)latency->size;
    uint64_t cycles = options.cycles ? options.cycles : suite_amount(1000, 50, 4);
    work w = {.size = size,
              .live = suite_amount(MAX_LIVE, MAX_LIVE, 1000),
              .in_order = latency->kind == FIFO,
              .rng = {suite.seed}};
    w.tenth = w.live / 10;
    w.slots = bench_map(w.live * sizeof *w.slots);
    w.victims = bench_map(w.live * sizeof *w.victims);
    uint32_t *order = bench_map(w.live * sizeof *order);
    for (size_t i = 0; i < w.live; i++) w.victims[i] = order[i] = (uint32_t)i;
    w.alloc_hist = bench_hist_create();
    w.free_hist = bench_hist_create();
    w.floor_hist = bench_hist_create();
    w.empty_slots = bench_map(w.live * sizeof *w.empty_slots);
    for (size_t i = 0; i < w.live; i++) w.empty_slots[i] = null_object;
    if (latency->kind == CHURN)
        suite_progress(true, "%zu B: floor, then 10 rounds in sequence, then %llu cycles of churn", size,
                       (unsigned long long)cycles);
    measure_floor(&w, cycles / 50 + 1);
    if (latency->kind == WRITTEN) {
        measure_written(&w, order, floor_of(&w));
    } else if (latency->kind == FIFO) {
        measure_churn(&w, order, cycles);
    } else {
        measure_sequential(&w, order, floor_of(&w));
        measure_churn(&w, order, cycles);
        attribute_tail(&w, order);
    }
    bench_hist_destroy(w.floor_hist);
    bench_unmap(w.empty_slots, w.live * sizeof *w.empty_slots);
    bench_hist_destroy(w.alloc_hist);
    bench_hist_destroy(w.free_hist);
    bench_unmap(order, w.live * sizeof *order);
    bench_unmap(w.victims, w.live * sizeof *w.victims);
    bench_unmap(w.slots, w.live * sizeof *w.slots);
}

/* ---- fragmentation ---------------------------------------------------------------------------- */

/* The bounds by which requests are grouped, for every allocator alike: the size classes of churn epochs. */
static const uint32_t class_bounds[] = {
    16,   32,   48,   64,   80,   96,   112,  128,  144,   160,   192,   208,   224,   256,   320,  384,
    416,  448,  512,  576,  640,  704,  768,  896,  960,   1024,  1168,  1360,  1536,  1632,  1808, 2048,
    2336, 2720, 3072, 3264, 4096, 5456, 6144, 8192, 10240, 14336, 16384, 32768, 49152, 65536,
};
enum { CLASS_BOUNDS = sizeof class_bounds / sizeof class_bounds[0] };

static void check_class_bounds(void) {
#if defined(BENCH_PEER_TSLAB)
    if (slab_class_count() != CLASS_BOUNDS) suite_fail("the allocator has %zu size classes", slab_class_count());
    for (uint32_t cls = 0; cls < CLASS_BOUNDS; cls++)
        if (slab_class_size(cls) != class_bounds[cls])
            suite_fail("size class %u has %u bytes, not %u", cls, slab_class_size(cls), class_bounds[cls]);
#endif
}

typedef struct waste {
    uint64_t requested, rounded;
} waste;

/* The sizes of the mix, in random order. */
static uint16_t *make_mix(void) {
    uint16_t *sizes = bench_map(SIZE_MIX_OBJECTS * sizeof *sizes);
    bench_rng rng = {suite.seed};
    size_t n = 0;
    for (size_t i = 0; i < sizeof size_mix / sizeof size_mix[0]; i++)
        for (unsigned k = 0; k < size_mix[i].count; k++) {
            if (n == SIZE_MIX_OBJECTS) suite_fail("size_mix.h has more than %d objects", SIZE_MIX_OBJECTS);
            sizes[n++] = size_mix[i].size;
        }
    if (n != SIZE_MIX_OBJECTS) suite_fail("size_mix.h has %zu objects, not %d", n, SIZE_MIX_OBJECTS);
    for (size_t i = n - 1; i > 0; i--) {
        size_t j = bench_rng_below(&rng, (uint32_t)i + 1);
        uint16_t swapped = sizes[i];
        sizes[i] = sizes[j];
        sizes[j] = swapped;
    }
    return sizes;
}

typedef struct mix_work {
    const uint16_t *mix;
    bool scope;
} mix_work;

static void measure_fragmentation(const void *arg) {
    const uint16_t *mix = ((const mix_work *)arg)->mix;
    bool scope = ((const mix_work *)arg)->scope;
    suite_csv *csv = scope ? NULL : fragmentation_csv;
    waste classes[CLASS_BOUNDS] = {{0, 0}}, all = {0, 0};
    void **objects = bench_map(SIZE_MIX_OBJECTS * sizeof *objects);
    peer_ref peer = peer_open();
    peer_ref epoch = suite_epoch_open(peer, "mix", scope);
    for (size_t i = 0; i < SIZE_MIX_OBJECTS; i++) {
        objects[i] = suite_alloc(epoch, mix[i]);
        size_t usable = suite_usable_size(epoch, objects[i]);
        if (usable < mix[i]) suite_fail("an object of %u bytes has %zu usable ones", mix[i], usable);
        suite_fill(objects[i], mix[i], (uint32_t)i);
        unsigned cls = 0;
        while (class_bounds[cls] < mix[i]) cls++;
        classes[cls].requested += mix[i];
        classes[cls].rounded += usable + suite_header_bytes();
    }
    for (size_t i = 0; i < SIZE_MIX_OBJECTS; i++) {
        if (!suite_verify(objects[i], mix[i], (uint32_t)i)) suite_fail("object %p was overwritten", objects[i]);
        if (!peer_free(epoch, objects[i])) suite_fail("the free of the live object %p was refused", objects[i]);
    }
    if (!suite_epoch_close(epoch)) suite_fail("epoch_close failed");
    peer_close(peer);
    for (unsigned cls = 0; cls < CLASS_BOUNDS; cls++) {
        waste w = classes[cls];
        all.requested += w.requested;
        all.rounded += w.rounded;
        if (w.rounded == 0) continue;
        suite_csv_line(csv, "%s,%u,%llu,%llu,%llu,%.2f", SUITE_ALLOCATOR, class_bounds[cls],
                       (unsigned long long)w.requested, (unsigned long long)w.rounded,
                       (unsigned long long)(w.rounded - w.requested), 100.0 * (double)w.requested / (double)w.rounded);
    }
    bench_unmap(objects, SIZE_MIX_OBJECTS * sizeof *objects);
    printf("%-10s mix      %-6s %llu bytes requested, %llu rounded, efficiency %.2f %%\n", SUITE_ALLOCATOR,
           scope ? "scope" : "churn", (unsigned long long)all.requested, (unsigned long long)all.rounded,
           100.0 * (double)all.requested / (double)all.rounded);
}

/* ---- space ------------------------------------------------------------------------------------ */

static const char space_header[] =
    "allocator,work,kind,objects,payload_bytes,rounded_bytes,resident_bytes,overhead_pct,version";

typedef struct space_work {
    const char *name;
    const uint16_t *sizes; /* round and round */
    size_t size_count;
    size_t count;
    bool scope;
} space_work;

/* The sizes of --dense: what one object of each takes, in a heap of nothing else. */
static const uint16_t dense_sizes[] = {16,  24,  32,  40,  48,   64,   96,   112,  128,  160,  200,  256,
                                       320, 400, 512, 700, 1000, 1500, 2000, 3000, 4200, 6000, 9000, 20000};
enum { DENSE_SIZES = sizeof dense_sizes / sizeof dense_sizes[0] };

/* Resident bytes of an allocator that was not used before, with `count` objects, every byte written. */
static void measure_space(const void *arg) {
    const space_work *space = arg;
    const char *kind = space->scope ? "scope" : "churn";
    size_t count = space->count;
    uint64_t payload = 0, rounded = 0;
    void **objects = bench_map(count * sizeof *objects);
    (void)suite_resident_bytes(); /* its own stack is resident from now on */
    size_t before = suite_resident_bytes();
    peer_ref peer = peer_open();
    peer_ref epoch = suite_epoch_open(peer, "space", space->scope);
    for (size_t i = 0; i < count; i++) {
        size_t size = space->sizes[i % space->size_count];
        objects[i] = suite_alloc(epoch, size);
        suite_fill(objects[i], size, (uint32_t)i);
        payload += size;
        rounded += suite_usable_size(epoch, objects[i]) + suite_header_bytes();
    }
    size_t after = suite_resident_bytes();
    for (size_t i = 0; i < count; i++) peer_free(epoch, objects[i]);
    suite_epoch_close(epoch);
    peer_close(peer);
    bench_unmap(objects, count * sizeof *objects);
    double overhead = ((double)(after - before) / (double)payload - 1) * 100;
    suite_csv_line(space_csv, "%s,%s,%s,%zu,%llu,%llu,%llu,%.2f,%s", SUITE_ALLOCATOR, space->name, kind, count,
                   (unsigned long long)payload, (unsigned long long)rounded, (unsigned long long)(after - before),
                   overhead, suite.identity.version);
    printf(
        "%-10s %-8s %-6s %zu objects, %.2f MiB of payload, rounded to %.2f, resident %.2f: %.2f %% over the payload\n",
        SUITE_ALLOCATOR, space->name, kind, count, (double)payload / 1048576, (double)rounded / 1048576,
        (double)(after - before) / 1048576, overhead);
}

/* 64 MiB of live objects of one size after the other. */
static void measure_dense(void) {
    space_csv = suite_csv_open(options.space, space_header);
    for (size_t i = 0; i < DENSE_SIZES; i++) {
        char name[8];
        snprintf(name, sizeof name, "%u", dense_sizes[i]);
        size_t count = ((size_t)suite_amount(64, 64, 1) << 20) / dense_sizes[i];
        suite_run(measure_space, &(space_work){name, &dense_sizes[i], 1, count, false});
    }
    suite_csv_commit();
}

/* ---- main ------------------------------------------------------------------------------------- */

static void parse_sizes(void) {
    const char *text = options.sizes_text;
    if (text == NULL) {
        memcpy(options.sizes, default_sizes, sizeof default_sizes);
        options.size_count = DEFAULT_SIZES;
        return;
    }
    while (options.size_count < MAX_SIZES) {
        char *end;
        unsigned long size = strtoul(text, &end, 10);
        if (*text < '0' || *text > '9' || size < 1 || size > 8192 || (*end != ',' && *end != '\0')) break;
        for (size_t i = 0; i < options.size_count; i++)
            if (options.sizes[i] == size) suite_usage("--sizes has %lu twice: '%s'", size, options.sizes_text);
        options.sizes[options.size_count++] = size;
        if (*end == '\0') return;
        text = end + 1;
    }
    suite_usage("--sizes takes up to %d numbers from 1 to 8192 with commas between, not '%s'", MAX_SIZES,
                options.sizes_text);
}

static const suite_option option_table[] = {
    {.name = "--cycles",
     .value = "N",
     .help = "cycles of churn, 100,000 operations each (default 1000; --quick: 50)",
     .number = &options.cycles,
     .low = 1,
     .high = 100000},
    {.name = "--sizes",
     .value = "A,B",
     .help = "sizes to measure (default 64,96,128,192,256,384,512,768)",
     .text = &options.sizes_text},
    {.name = "--fragmentation",
     .value = "FILE",
     .help = "bytes asked for and taken, per size class",
     .text = &options.fragmentation},
    {.name = "--cdf", .value = "FILE", .help = "the distributions of the latencies", .text = &options.cdf},
    {.name = "--space", .value = "FILE", .help = "resident bytes over the payload", .text = &options.space},
    {.name = "--dense",
     .help = "only space, of 24 sizes from 16 to 20,000, 64 MiB of each",
     .flag = &options.dense_only},
    {.name = "--memory", .help = "only space and fragmentation, no latency: seconds", .flag = &options.memory_only},
};

static const suite_program self = {
    .name = "benchmark_accurate",
    .summary =
        "The latency of single allocations and frees per size class, in sequence and under churn; fragmentation\n"
        "over a realistic mix of sizes; bytes per object.",
    .options = option_table,
    .option_count = sizeof option_table / sizeof option_table[0],
    .check = parse_sizes,
};

int main(int argc, char **argv) {
    static const uint16_t size_128[] = {128};
    suite_begin(&self, argc, argv);
    check_class_bounds();
    if (options.dense_only) {
        measure_dense();
        return 0;
    }
    latency_csv = suite_csv_open(options.memory_only ? NULL : suite.csv, latency_header);
    fragmentation_csv =
        suite_csv_open(options.fragmentation, "allocator,size_class,requested,rounded,wasted,efficiency_pct");
    if (!options.memory_only)
        cdf_csv = suite_csv_open(options.cdf, "allocator,size_class,op,latency_ns,fraction_above");
    space_csv = suite_csv_open(options.space, space_header);

    uint16_t *mix = make_mix();
    size_t count = suite_amount(100000, 100000, 4000);
    for (int scope = 0; scope <= PEER_HAS_DOMAINS; scope++) {
        suite_run(measure_space, &(space_work){"128", size_128, 1, count, scope});
        suite_run(measure_space, &(space_work){"mix", mix, SIZE_MIX_OBJECTS, count, scope});
        suite_run(measure_fragmentation, &(mix_work){mix, scope});
    }
    if (!options.memory_only) {
        ticks = suite_clock_start();
        print_latency_header();
    }
    for (size_t i = 0; i < options.size_count && !options.memory_only; i++)
        for (int kind = 0; kind < LATENCY_KINDS; kind++)
            suite_run(measure_latency, &(latency_work){options.sizes[i], kind});
    suite_csv_commit();
    return 0;
}
