/* Retained runs (runs.h): neighbouring runs merge, a taken run is split, and memory goes back in parts. */
#include "check.h"
#include "identities.h"
#include "proc.h"
#include "unit.h"

#include "api/runtime.h"
#include "os/os.h"
#include "region/region.h"
#include "supply/supply.h"
#include "walk/check_pool.h"
#include "walk/check_runs.h"

#include <string.h>

#define UNIT TS_UNIT_BYTES

static ts_os_table table;
static struct {
    unsigned calls, small; /* of data; those of less than a piece */
    bool refuse;
} purges;

static bool test_purge(void *at, size_t bytes) {
    if (ts_is_data(at)) {
        purges.calls++;
        purges.small += bytes < TS_PURGE_LEAST_UNITS * UNIT;
    }
    return !purges.refuse && ts_os_native.purge(at, bytes);
}

static SlabAllocator *allocator, *other;
static EpochId epoch, epoch_of_spans; /* of a scope all above a unit are spans */

static int begin(void **state) {
    (void)state;
    const SlabOptions options = {.size = sizeof options, .retain_bytes = 400 * UNIT};
    table = ts_os_native;
    table.purge = test_purge;
    ts_os = &table;
    memset(&purges, 0, sizeof purges);
    allocator = slab_allocator_create_ex(&options);
    ts_store_relaxed(&ts_region.far_bytes, SIZE_MAX); /* runs of the FAR part: unit/epoch/far */
    other = slab_allocator_create();
    epoch = epoch_open(allocator, NULL, EPOCH_CHURN);
    epoch_of_spans = epoch_open(allocator, NULL, EPOCH_SCOPE);
    return !allocator || !other || epoch == EPOCH_NONE || epoch_of_spans == EPOCH_NONE;
}

static int end(void **state) {
    (void)state;
    sup_check_identities(allocator);
    slab_allocator_free(allocator);
    slab_allocator_free(other);
    ts_os = &ts_os_native;
    return ts_pool_used_units() != 0;
}

static ts_allocator *record_of(SlabAllocator *a) { return ts_allocator_find(ts_token(a)); }

typedef struct found {
    unsigned runs;
    uint32_t units, longest;
} found;

static bool visit(void *arg, uint32_t first, uint32_t units) {
    (void)first;
    found *f = arg;
    f->runs++;
    f->units += units;
    if (units > f->longest) f->longest = units;
    return true;
}

static found runs_of(SlabAllocator *a) {
    found f = {0, 0, 0};
    assert_null(ts_check_runs(record_of(a), visit, &f));
    assert_int_equal(f.units, ts_load_relaxed(&record_of(a)->span_retained_units));
    return f;
}

/* Of more than 16 units, if it is to be a run once it is freed: a thread keeps shorter ones. */
static void *span(size_t units) {
    void *p = slab_malloc_epoch(allocator, units * UNIT, epoch_of_spans);
    assert_non_null(p);
    return p;
}

/* Spans that lie side by side become one run, in any order of frees, and a span of its full length fits. */
static void neighbours_grow_together(void **state) {
    static const unsigned orders[][3] = {{0, 1, 2}, {0, 2, 1}, {1, 0, 2}, {1, 2, 0}, {2, 0, 1}, {2, 1, 0}};
    (void)state;
    for (unsigned k = 0; k < 6; k++) {
        char *p[3];
        for (unsigned i = 0; i < 3; i++) p[i] = span(20 + i);
        assert_true(p[1] == p[0] + 20 * UNIT && p[2] == p[1] + 21 * UNIT);
        for (unsigned i = 0; i < 3; i++) assert_true(slab_free(allocator, p[orders[k][i]]));
        assert_int_equal(runs_of(allocator).runs, 1);
        char *all = span(63);
        assert_ptr_equal(all, p[0]);
        assert_int_equal(runs_of(allocator).runs, 0);
        assert_true(slab_free(allocator, all));
    }
    assert_int_equal(purges.calls, 0);
}

/* A shorter span leaves the rest; of several runs one that is long enough is found, however they came. */
static void a_run_is_split(void **state) {
    (void)state;
    char *p = span(40);
    assert_true(slab_free(allocator, p));
    for (size_t units = 2; units <= 8; units++) {
        char *q = span(units);
        assert_true(q >= p && q + units * UNIT <= p + 40 * UNIT);
    }
    assert_int_equal(runs_of(allocator).units, 40 - 35);
    assert_int_equal(runs_of(allocator).runs, 1);
}

static void of_the_same_list_one_that_is_long_enough(void **state) {
    char *p[5], *between[5];
    (void)state;
    for (unsigned i = 0; i < 5; i++) { /* 80 to 95 units are in one list */
        p[i] = span(80 + 3 * i);
        between[i] = span(1);
    }
    assert_non_null(between[4]);
    for (unsigned i = 5; i-- > 0;) assert_true(slab_free(allocator, p[i]));
    assert_int_equal(runs_of(allocator).runs, 5);
    assert_ptr_equal(span(91), p[4]);
    assert_ptr_equal(span(87), p[3]);
}

/* A run of another allocator beside it is not touched. */
static void runs_are_an_allocators_own(void **state) {
    EpochId its = epoch_open(other, NULL, EPOCH_CHURN);
    (void)state;
    char *a = span(20), *b = slab_malloc_epoch(other, 20 * UNIT, its), *c = span(20);
    assert_true(b == a + 20 * UNIT && c == b + 20 * UNIT);
    assert_true(slab_free(allocator, a) && slab_free(allocator, c) && slab_free(other, b));
    assert_int_equal(runs_of(allocator).runs, 2);
    assert_int_equal(runs_of(allocator).longest, 20);
    assert_int_equal(runs_of(other).longest, 20);
    char *again = slab_malloc_epoch(other, 20 * UNIT, its);
    assert_ptr_equal(again, b);
}

/* The units behind a retained run, which went back before, are taken along where the run alone is too short. */
static void a_run_and_what_is_free_behind_it(void **state) {
    (void)state;
    char *a = span(30), *b = span(30), *c = span(1);
    assert_non_null(c);
    assert_true(slab_free(allocator, b));
    assert_int_equal(slab_trim(allocator), 30 * UNIT);
    assert_true(slab_free(allocator, a));
    char *p = span(50);
    assert_ptr_equal(p, a);
    memset(p, 1, 50 * UNIT);
    assert_int_equal(runs_of(allocator).runs, 0);
}

/* Units that went back lie between two runs, too short each. */
static void runs_and_what_is_free_between_them(void **state) {
    (void)state;
    char *a = span(30), *b = span(10), *c = span(30), *d = span(1);
    assert_non_null(d);
    assert_true(slab_free(allocator, b));
    assert_int_equal(slab_trim(allocator), 10 * UNIT);
    assert_true(slab_free(allocator, a) && slab_free(allocator, c));
    assert_true(b == a + 30 * UNIT && c == b + 10 * UNIT);
    uint64_t committed = ts_load_relaxed(&record_of(allocator)->committed_units);
    char *p = span(65);
    assert_ptr_equal(p, a);
    memset(p, 1, 65 * UNIT);
    assert_int_equal(ts_load_relaxed(&record_of(allocator)->committed_units), committed + 10);
    assert_int_equal(runs_of(allocator).units, 5);
    assert_true(slab_free(allocator, p));
    assert_int_equal(runs_of(allocator).longest, 70);
}

/* Of several such rows that with the most retained units, though it was freed first. Less than half is not enough. */
static void the_row_with_the_most_memory(void **state) {
    static const size_t units[3] = {50, 60, 20};
    char *a[3], *b[3];
    (void)state;
    assert_true(slab_free(allocator, span(373))); /* all lie there, one behind the other */
    for (unsigned i = 0; i < 3; i++) {
        a[i] = span(units[i]);
        b[i] = span(80);
        assert_ptr_equal(b[i], a[i] + units[i] * UNIT);
        assert_non_null(span(1));
    }
    for (unsigned i = 0; i < 3; i++) assert_true(slab_free(allocator, b[i]));
    assert_true(slab_trim(allocator) >= 240 * UNIT);
    assert_true(slab_free(allocator, a[1]) && slab_free(allocator, a[0]) && slab_free(allocator, a[2]));
    assert_ptr_equal(span(90), a[1]);
    assert_ptr_equal(span(90), a[0]);
    assert_ptr_not_equal(span(90), a[2]);
    assert_int_equal(runs_of(allocator).units, 20);
}

/* The budget has no room for what is free between the runs: they stay runs, and go back for a span elsewhere. */
static void a_row_beyond_the_budget(void **state) {
    (void)state;
    char *a = span(30), *b = span(10), *c = span(30), *d = span(1);
    assert_non_null(d);
    assert_true(slab_free(allocator, b));
    assert_int_equal(slab_trim(allocator), 10 * UNIT);
    assert_true(slab_free(allocator, a) && slab_free(allocator, c));
    uint64_t committed = ts_load_relaxed(&record_of(allocator)->committed_units);
    slab_set_budget(allocator, (committed + 5) * UNIT);
    purges.refuse = true; /* so nothing makes room */
    assert_null(slab_malloc_epoch(allocator, 65 * UNIT, epoch_of_spans));
    assert_int_equal(runs_of(allocator).units, 60);
    assert_int_equal(ts_load_relaxed(&record_of(allocator)->committed_units), committed);
    purges.refuse = false;
    memset(span(65), 1, 65 * UNIT);
    slab_set_budget(allocator, 0);
}

static void grows_into_a_retained_run(void **state) {
    (void)state;
    char *a = span(20), *b = span(20), *c = span(1);
    assert_non_null(c);
    memset(a, 7, 20 * UNIT);
    memset(b, 8, 20 * UNIT);
    assert_true(slab_free(allocator, b));
    uint64_t committed = ts_load_relaxed(&record_of(allocator)->committed_units);
    assert_ptr_equal(slab_realloc(allocator, a, 37 * UNIT), a);
    assert_int_equal(ts_load_relaxed(&record_of(allocator)->committed_units), committed);
    assert_int_equal(runs_of(allocator).units, 3);
    assert_int_equal(a[20 * UNIT - 1], 7);
}

/* One that is too short stays whole, and the span moves. */
static void grows_past_a_shorter_run(void **state) {
    (void)state;
    char *a = span(20), *b = span(20), *c = span(1);
    assert_non_null(c);
    memset(a, 7, 20 * UNIT);
    assert_true(slab_free(allocator, b));
    char *moved = slab_realloc(allocator, a, 45 * UNIT);
    assert_non_null(moved);
    assert_ptr_not_equal(moved, a);
    memset(moved + 20 * UNIT, 9, 25 * UNIT);
    assert_int_equal(moved[20 * UNIT - 1], 7);
    assert_int_equal(runs_of(allocator).units, 40);
}

/* Over the budget, units that are freed one by one go back in parts, though every second unit stays at first. */
static void goes_back_in_pieces(void **state) {
    enum { SLABS = 3000, PER_SLAB = 4 };
    static void *objects[SLABS * PER_SLAB];
    (void)state;
    for (unsigned i = 0; i < SLABS * PER_SLAB; i++)
        assert_non_null(objects[i] = slab_malloc_epoch(allocator, 4096, epoch));
    for (unsigned half = 0; half < 2; half++)
        for (unsigned slab = half; slab < SLABS; slab += 2)
            for (unsigned i = 0; i < PER_SLAB; i++) assert_true(slab_free(allocator, objects[slab * PER_SLAB + i]));
    SlabGlobalStats stats;
    assert_true(slab_stats_global(allocator, &stats));
    /* Half as much again waits for longer pieces. */
    assert_true(stats.retained_bytes <= (600 + 3 * TS_LOCAL_RETAINED_UNITS) * UNIT);
    /* Of the first half only the units beyond twice the budget go back one by one. */
    assert_true(purges.small <= SLABS / 2 - 2 * 400 + 2 * TS_LOCAL_RETAINED_UNITS);
    assert_true(purges.calls > purges.small && purges.calls - purges.small <= SLABS / TS_PURGE_LEAST_UNITS / 2);
}

/* ---- spans that a thread keeps --------------------------------------------------------------------------------- */

static ts_share *share_of_mine(void) {
    assert_non_null(slab_malloc_epoch(allocator, 100, epoch));
    ts_share *share = ts_share_of_mine(ts_token(allocator));
    assert_non_null(share);
    return share;
}

static uint32_t kept(void) { return ts_load_relaxed(&share_of_mine()->span_units); }

static void a_thread_keeps_short_ones(void **state) {
    (void)state;
    (void)share_of_mine();
    char *p = span(3), *q = span(16), *longer = span(17);
    assert_true(slab_free(allocator, p) && slab_free(allocator, q) && slab_free(allocator, longer));
    assert_int_equal(kept(), 19);
    SlabGlobalStats stats;
    assert_true(slab_stats_global(allocator, &stats));
    assert_true(stats.retained_bytes >= (19 + 17) * UNIT);
    assert_ptr_equal(span(3), p);
    assert_ptr_not_equal(span(15), q); /* of that length only */
    assert_int_equal(kept(), 16);
    assert_ptr_equal(span(16), q);
    assert_int_equal(slab_usable_size(allocator, p), 3 * UNIT);
}

static void not_more_than_a_bound(void **state) {
    char *p[20];
    (void)state;
    (void)share_of_mine();
    for (unsigned i = 0; i < 20; i++) p[i] = span(10);
    for (unsigned i = 0; i < 20; i++) assert_true(slab_free(allocator, p[i]));
    assert_int_equal(kept(), 60);
    assert_true(runs_of(allocator).units >= 140);
}

/* Idle, at a trim and at the end of the thread they become runs. */
static void *keeps_and_ends(void *arg) {
    (void)arg;
    (void)share_of_mine();
    char *p = span(7);
    SUP_CHECK(slab_free(allocator, p), "free");
    SUP_CHECK(kept() == 7, "%u units kept", kept());
    return NULL;
}

static void kept_ones_go_with_the_thread(void **state) {
    (void)state;
    (void)share_of_mine();
    assert_true(slab_free(allocator, span(5)));
    slab_thread_idle();
    assert_int_equal(kept(), 0);
    assert_true(slab_free(allocator, span(5)));
    assert_int_equal(kept(), 5);
    assert_true(slab_trim(allocator) >= 5 * UNIT);
    assert_int_equal(kept(), 0);
    sup_in_thread(keeps_and_ends, NULL);
    found f = runs_of(allocator);
    assert_true(f.longest >= 7);
}

/* Another thread's trim reaches the memory that this one keeps. */
static void *trims(void *arg) {
    *(size_t *)arg = slab_trim(allocator);
    return NULL;
}

static void kept_ones_are_trimmed_by_others(void **state) {
    size_t trimmed = 0;
    (void)state;
    (void)share_of_mine();
    assert_true(slab_free(allocator, span(9)));
    sup_in_thread(trims, &trimmed);
    if (ts_os->barrier_all()) assert_true(trimmed >= 9 * UNIT && kept() == 0);
}

static void refused_it_stays_a_run(void **state) {
    (void)state;
    char *p = span(600);
    purges.refuse = true;
    assert_true(slab_free(allocator, p));
    assert_true(purges.calls > 0);
    assert_int_equal(runs_of(allocator).longest, 600);
    purges.refuse = false;
    assert_int_equal(slab_trim(allocator), 600 * UNIT);
}

/* Not the longest one: that was freed last, and is needed next. The first lies beside no other. */
static void the_oldest_goes_back_first(void **state) {
    char *p[4] = {span(100)};
    (void)state;
    for (unsigned i = 1; i < 4; i++) {
        size_t units = 100 + 20 * i;
        do p[i] = span(units);
        while (p[i] == p[0] + 100 * UNIT || p[i] + units * UNIT == p[0]);
    }
    assert_true(slab_free(allocator, p[1]) && slab_free(allocator, p[0]));
    assert_ptr_equal(span(110), p[1]); /* it is taken, and freed again: now it is younger than the other */
    for (unsigned i = 1; i < 4; i++) assert_true(slab_free(allocator, p[i]));
    /* The last free gave back the oldest one, and 20 units of the next. */
    assert_int_equal(runs_of(allocator).units, 400);
    assert_ptr_equal(span(100), p[1]);
    assert_int_equal(runs_of(allocator).units, 300);
}

/* Buffers of megabytes that come and go lie between others that live: the retained memory among them is taken again,
   and stays. */
static void buffers_that_come_and_go(void **state) {
    enum { LIVE = 20, ROUNDS = 40000, LEAST = 70, MOST = 512 };
    void *buffer[LIVE] = {0};
    uint64_t rng = 88172645463325252u;
    (void)state;
    for (unsigned i = 0; i < ROUNDS; i++) {
        rng ^= rng << 13;
        rng ^= rng >> 7;
        rng ^= rng << 17;
        void **p = &buffer[rng / 1024 % LIVE];
        if (*p) assert_true(slab_free(other, *p));
        *p = slab_malloc(other, (LEAST + rng % (MOST - LEAST)) * UNIT);
        assert_non_null(*p);
        if (i == ROUNDS / 2) purges.calls = 0; /* the budget has risen */
    }
    assert_true(purges.calls < ROUNDS / 200);
    for (unsigned i = 0; i < LIVE; i++) assert_true(slab_free(other, buffer[i]));
    assert_true(ts_retained_shared(record_of(other)) <= TS_RETAIN_MOST * TS_RETAIN_BYTES / UNIT);
}

#define RUNS(test) cmocka_unit_test_setup_teardown(test, begin, end)

int main(void) {
    const struct CMUnitTest tests[] = {
        RUNS(neighbours_grow_together),
        RUNS(a_run_is_split),
        RUNS(of_the_same_list_one_that_is_long_enough),
        RUNS(runs_are_an_allocators_own),
        RUNS(a_run_and_what_is_free_behind_it),
        RUNS(runs_and_what_is_free_between_them),
        RUNS(the_row_with_the_most_memory),
        RUNS(a_row_beyond_the_budget),
        RUNS(grows_into_a_retained_run),
        RUNS(grows_past_a_shorter_run),
        RUNS(goes_back_in_pieces),
        RUNS(refused_it_stays_a_run),
        RUNS(the_oldest_goes_back_first),
        RUNS(buffers_that_come_and_go),
        RUNS(a_thread_keeps_short_ones),
        RUNS(not_more_than_a_bound),
        RUNS(kept_ones_go_with_the_thread),
        RUNS(kept_ones_are_trimmed_by_others),
    };
    return cmocka_run_group_tests_name("supply.runs", tests, NULL, NULL);
}
