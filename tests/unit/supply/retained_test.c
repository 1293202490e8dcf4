/* Retained units and the reclaim policies, by the purge calls that they make. */
#include "identities.h"
#include "proc.h"
#include "rng.h"
#include "unit.h"

#include "bins.h"

#include "cache/cache.h"
#include "supply/supply.h"
#include "walk/check_pool.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#define UNIT TS_UNIT_BYTES

static ts_os_table table;
static struct {
    unsigned calls, refused, in_an_operation, populated;
    size_t bytes, state_bytes; /* of data, and of bits and generations, which no counter of the allocator counts */
    bool refuse;
} purges;

static bool test_purge(void *at, size_t bytes) {
    purges.in_an_operation += ts_is_in_op(&ts_thread);
    if (!ts_is_data(at)) {
        if (purges.refuse) return false;
        purges.state_bytes += bytes;
        return ts_os_native.purge(at, bytes);
    }
    purges.calls++;
    if (purges.refuse) {
        purges.refused++;
        return false;
    }
    purges.bytes += bytes;
    return ts_os_native.purge(at, bytes);
}

static bool test_populate(void *at, size_t bytes) {
    if (ts_is_data(at)) purges.populated += (unsigned)(bytes / UNIT);
    return ts_os_native.populate(at, bytes);
}

/* Memory that a thread has not used for seconds becomes retained by the clock. In this file the clock stands, however
   slow the machine is. */
static uint64_t now = 1;
static uint64_t test_time(void) { return now; }

static bool refuse_units;
static bool test_commit(void *at, size_t bytes) {
    return !(refuse_units && ts_is_data(at)) && ts_os_native.commit(at, bytes);
}

/* Statistics measure it each time, which takes long where ThreadSanitizer maps much. Nothing in here is about it. */
static uint64_t test_resident(void) { return 0; }

static uint64_t units_before;

static int start(void **state) {
    (void)state;
    table = ts_os_native;
    table.purge = test_purge;
    table.populate = test_populate;
    table.commit = test_commit;
    table.coarse_ns = test_time;
    table.resident_bytes = test_resident;
    ts_os = &table;
    units_before = ts_pool_used_units();
    memset(&purges, 0, sizeof purges);
    return 0;
}

static SlabAllocator *make(int policy, size_t retain) {
    SlabOptions options = {.size = sizeof options, .reclaim_policy = policy, .retain_bytes = retain};
    SlabAllocator *allocator = slab_allocator_create_ex(&options);
    assert_non_null(allocator);
    return allocator;
}

static SlabGlobalStats stats_of(SlabAllocator *allocator) {
    SlabGlobalStats global;
    assert_true(slab_stats_global(allocator, &global));
    assert_int_equal(global.madvise_calls, purges.calls);
    assert_int_equal(global.madvise_failures, purges.refused);
    assert_int_equal(global.madvise_bytes, purges.bytes);
    return global;
}

static void finish(SlabAllocator *allocator) {
    assert_int_equal(purges.in_an_operation, 0); /* a system call never holds anybody up */
    sup_check_identities(allocator);
    slab_allocator_free(allocator);
    assert_int_equal(ts_pool_used_units(), units_before);
    ts_pool_check();
}

/* An epoch with so many units, all of them touched. */
static EpochId fill(SlabAllocator *allocator, unsigned units, unsigned flags) {
    EpochId epoch = epoch_open(allocator, NULL, flags);
    for (unsigned i = 0; i < units * 4; i++) {
        char *p = slab_malloc_epoch(allocator, 4096, epoch);
        assert_non_null(p);
        p[0] = p[4095] = 1;
    }
    SlabEpochStats stats;
    assert_true(slab_stats_epoch(allocator, SLAB_ALL_CLASSES, epoch, &stats));
    assert_int_equal(stats.slab_count, units);
    return epoch;
}

static const unsigned kinds[] = {EPOCH_CHURN, EPOCH_SCOPE};

/* ---- lists ------------------------------------------------------------------------------------------------ */

static void lists(void **state) {
    enum { MOST = 64 };
    struct sup_rng rng = {41};
    SlabAllocator *allocator = make(SLAB_RECLAIM_KEEP, 0);
    uint32_t units[2][MOST], counts[2] = {0, 0}, first = ts_pool_take(TS_NORMAL, MOST, 1), unused[MOST], n = MOST;
    ts_retained retained[2];
    (void)state;
    memset(retained, 0, sizeof retained);
    for (uint32_t i = 0; i < MOST; i++) {
        unused[i] = first + i;
    }
    for (int i = 0; i < 20000; i++) {
        unsigned k = (unsigned)sup_rng_below(&rng, 2), other = 1 - k;
        uint64_t what = sup_rng_below(&rng, 10);
        if (what < 5 && n > 0) {
            ts_retained_push(&retained[k], unused[--n]);
            units[k][counts[k]++] = unused[n];
        } else if (what < 9) {
            uint32_t unit = ts_retained_pop(&retained[k]);
            assert_int_equal(unit, counts[k] ? units[k][counts[k] - 1] : 0); /* the newest */
            if (unit) {
                counts[k]--;
                unused[n++] = unit;
            }
        } else {
            ts_retained_splice(&retained[k], &retained[other]);
            memcpy(units[k] + counts[k], units[other], counts[other] * sizeof **units);
            counts[k] += counts[other];
            counts[other] = 0;
        }
        assert_int_equal(ts_load_relaxed(&retained[k].count), counts[k]);
        assert_int_equal(ts_load_relaxed(&retained[other].count), counts[other]);
        assert_int_equal(retained[k].tail, counts[k] ? units[k][0] : 0);
    }
    ts_pool_give(first, MOST);
    finish(allocator);
}

/* ---- groups ----------------------------------------------------------------------------------------------- */

enum { GROUPED = 2000 }; /* objects, four to a unit */
static void *grouped[GROUPED];

static uint32_t listed(const ts_allocator *record) { return ts_load_relaxed(&record->retained.count); }

/* Freed one by one, so all units that neither the bin nor the thread keeps are in groups. */
static ts_allocator *make_groups(SlabAllocator *allocator, EpochId epoch) {
    for (int i = 0; i < GROUPED; i++) {
        grouped[i] = slab_malloc_epoch(allocator, 4096, epoch);
        assert_non_null(grouped[i]);
    }
    for (int i = 0; i < GROUPED; i++) {
        assert_true(slab_free(allocator, grouped[i]));
        if (i % 100 == 0) sup_check_identities(allocator);
    }
    ts_allocator *record = ts_allocator_find((uintptr_t)allocator);
    assert_int_not_equal(record->retained_group, 0);
    assert_int_equal(record->retained_group, record->retained.head);
    assert_true(listed(record) >= 8 * TS_RETAINED_UNITS_MOVED && listed(record) % TS_RETAINED_UNITS_MOVED == 0);
    return record;
}

/* Each time that the thread takes some, it takes a group while the list begins with one and is long. */
static void allocate_by_groups(SlabAllocator *allocator, EpochId epoch, const ts_allocator *record) {
    unsigned whole = 0, single = 0;
    for (int i = 0; i < GROUPED; i++) {
        uint32_t before = listed(record);
        bool group = record->retained_group && record->retained_group == record->retained.head;
        grouped[i] = slab_malloc_epoch(allocator, 4096, epoch);
        assert_non_null(grouped[i]);
        uint32_t taken = before - listed(record);
        if (taken == 0) continue;
        if (group && before >= 4 * TS_RETAINED_UNITS_MOVED) {
            assert_int_equal(taken, TS_RETAINED_UNITS_MOVED);
            whole++;
        } else {
            assert_in_range(taken, 1, before / 8 + 1);
            single++;
        }
        sup_check_identities(allocator);
    }
    assert_true(whole >= 4 && single >= 4);
    assert_int_equal(listed(record), 0);
    assert_int_equal(record->retained_group, 0);
}

static void groups(void **state) {
    (void)state;
    for (int begun = 0; begun < 2; begun++) {
        (void)start(NULL);
        SlabAllocator *allocator = make(SLAB_RECLAIM_KEEP, 0);
        EpochId epoch = epoch_open(allocator, NULL, EPOCH_CHURN);
        ts_allocator *record = make_groups(allocator, epoch);
        if (begun) { /* a purge has taken some of the first: the others are no group */
            uint32_t first = record->retained_group;
            assert_int_equal(ts_purge_gather(record, 5), 5);
            assert_true(record->retained_group != first && record->retained_group != record->retained.head);
            sup_check_identities(allocator);
        }
        allocate_by_groups(allocator, epoch, record);
        for (int i = 0; i < GROUPED; i++) {
            assert_true(slab_free(allocator, grouped[i]));
        }
        assert_int_not_equal(record->retained_group, 0);
        (void)slab_trim(allocator);
        assert_int_equal(record->retained_group, 0);
        assert_true(epoch_destroy(allocator, epoch));
        finish(allocator);
    }
}

/* ---- policies --------------------------------------------------------------------------------------------- */

static void keep_everything(void **state) {
    (void)state;
    for (int k = 0; k < 2; k++) {
        (void)start(NULL);
        SlabAllocator *allocator = make(SLAB_RECLAIM_KEEP, 0);
        EpochId epoch = fill(allocator, 500, kinds[k]);
        assert_true(epoch_destroy(allocator, epoch));
        assert_int_equal(purges.calls, 0);
        assert_int_equal(stats_of(allocator).retained_bytes, 500 * UNIT);
        /* Retained memory is used again. */
        epoch = fill(allocator, 500, kinds[1 - k]);
        assert_int_equal(stats_of(allocator).committed_bytes, 500 * UNIT);
        assert_true(epoch_destroy(allocator, epoch));
        assert_int_equal(purges.calls, 0);
        assert_int_equal(slab_trim(allocator), 500 * UNIT);
        assert_int_equal(purges.bytes, 500 * UNIT);
        assert_true(purges.calls <= 8); /* neighbours go in one call */
        SlabGlobalStats stats = stats_of(allocator);
        assert_int_equal(stats.committed_bytes, 0);
        assert_int_equal(stats.empty_slab_overflowed, 500);
        assert_int_equal(slab_trim(allocator), 0);
        finish(allocator);
    }
}

static uint64_t local_units(SlabAllocator *allocator) {
    return ts_allocator_retained_units(ts_allocator_find(ts_token(allocator))) -
           ts_retained_shared(ts_allocator_find(ts_token(allocator)));
}

/* A thread takes several of the allocator's retained units under one lock: at most 16, and an eighth and one more of
   few. */
static void taken_several_at_a_time(void **state) {
    (void)state;
    for (int k = 0; k < 2; k++) {
        (void)start(NULL);
        SlabAllocator *allocator = make(SLAB_RECLAIM_KEEP, 0);
        assert_true(epoch_destroy(allocator, fill(allocator, 500, kinds[k])));
        assert_int_equal(local_units(allocator), 0);
        uint64_t before = stats_of(allocator).lock_fast_acquire;
        EpochId first = fill(allocator, 1, kinds[1 - k]);
        assert_int_equal(local_units(allocator), 15);
        EpochId next = fill(allocator, 320, kinds[k]);
        assert_int_equal(local_units(allocator), 15);
        SlabGlobalStats stats = stats_of(allocator);
        assert_int_equal(stats.lock_fast_acquire - before, 21);
        EpochId last = fill(allocator, 179, kinds[k]);
        assert_int_equal(stats_of(allocator).cache_size, 0);
        assert_int_equal(stats_of(allocator).committed_bytes, 500 * UNIT);
        assert_true(epoch_destroy(allocator, first) && epoch_destroy(allocator, next) &&
                    epoch_destroy(allocator, last));
        finish(allocator);
    }
    SlabAllocator *allocator = make(SLAB_RECLAIM_KEEP, 0);
    assert_true(slab_reserve(allocator, 20 * UNIT));
    EpochId epoch = fill(allocator, 1, EPOCH_SCOPE);
    assert_int_equal(local_units(allocator), 2); /* three were taken */
    assert_true(epoch_destroy(allocator, epoch));
    finish(allocator);
    allocator = make(SLAB_RECLAIM_KEEP, 0); /* one at a time near the budget */
    assert_true(slab_set_budget(allocator, 110 * UNIT));
    assert_true(slab_reserve(allocator, 100 * UNIT));
    epoch = fill(allocator, 1, EPOCH_CHURN);
    assert_int_equal(local_units(allocator), 0);
    assert_true(slab_set_budget(allocator, 116 * UNIT));
    EpochId other = fill(allocator, 1, EPOCH_CHURN);
    assert_int_equal(local_units(allocator), 12);
    assert_true(epoch_destroy(allocator, epoch) && epoch_destroy(allocator, other));
    finish(allocator);
    allocator = make(SLAB_RECLAIM_AT_ONCE, 0); /* where a thread keeps none */
    assert_true(slab_reserve(allocator, 100 * UNIT));
    epoch = fill(allocator, 1, EPOCH_SCOPE);
    assert_int_equal(local_units(allocator), 0);
    assert_true(epoch_destroy(allocator, epoch));
    finish(allocator);
}

static void give_back_at_once(void **state) {
    (void)state;
    for (int k = 0; k < 2; k++) {
        (void)start(NULL);
        SlabAllocator *allocator = make(SLAB_RECLAIM_AT_ONCE, 0);
        EpochId epoch = epoch_open(allocator, NULL, kinds[k]);
        void *objects[400];
        for (int i = 0; i < 400; i++) {
            objects[i] = slab_malloc_epoch(allocator, 4096, epoch);
        }
        uint64_t committed = stats_of(allocator).committed_bytes;
        assert_int_equal(committed, 100 * UNIT);
        for (int i = 0; i < 400; i++) {
            assert_true(slab_free(allocator, objects[i]));
            assert_int_equal(stats_of(allocator).retained_bytes, 0);
        }
        assert_true(purges.calls >= 60); /* one a slab; the objects of the magazine and a few in the bin stay */
        assert_true(epoch_close(allocator, epoch));
        assert_int_equal(epoch_state(allocator, epoch), EPOCH_CLOSED);
        assert_int_equal(stats_of(allocator).committed_bytes, 0);
        assert_int_equal(purges.bytes, 100 * UNIT);
        finish(allocator);
    }
}

static void retain_a_budget(void **state) {
    (void)state;
    for (int k = 0; k < 2; k++) {
        (void)start(NULL);
        SlabAllocator *allocator = make(SLAB_RECLAIM_BUDGET, 200 * UNIT);
        assert_true(epoch_destroy(allocator, fill(allocator, 200, kinds[k])));
        assert_int_equal(purges.calls, 0); /* within it: nothing goes */
        assert_int_equal(stats_of(allocator).retained_bytes, 200 * UNIT);
        assert_true(epoch_destroy(allocator, fill(allocator, 600, kinds[k])));
        SlabGlobalStats stats = stats_of(allocator);
        assert_true(purges.calls > 0 && stats.retained_bytes <= 200 * UNIT);
        assert_true(stats.retained_bytes >= (200 - TS_LOCAL_RETAINED_UNITS) * UNIT); /* no further */
        /* With the same size again and again the memory settles: retained units are used first. */
        for (int i = 0; i < 5; i++) {
            assert_true(epoch_destroy(allocator, fill(allocator, 150, kinds[k])));
        }
        unsigned calls = purges.calls;
        for (int i = 0; i < 20; i++) {
            assert_true(epoch_destroy(allocator, fill(allocator, 150, kinds[k])));
        }
        assert_int_equal(purges.calls, calls);
        finish(allocator);
    }
}

/* So much time passes first. */
static void phase(SlabAllocator *allocator, unsigned units, unsigned kind, uint64_t ns) {
    now += ns;
    assert_true(epoch_destroy(allocator, fill(allocator, units, kind)));
}

static uint64_t budget_of(SlabAllocator *allocator) {
    SlabClassStats figures;
    assert_true(slab_stats_class(allocator, 0, &figures));
    return figures.cache_capacity;
}

/* A reset that keeps nothing gives memory of the whole allocator back. */
static void reset_a_domain(SlabAllocator *allocator) {
    EpochDomain *domain = epoch_domain_create_ex(allocator, NULL, 0);
    unsigned calls = purges.calls;
    assert_non_null(domain);
    assert_non_null(epoch_domain_alloc(domain, 1000));
    assert_true(epoch_domain_reset(domain, 0));
    assert_true(purges.calls > calls);
    epoch_domain_destroy(domain);
}

/* An allocator that was given no budget: memory that phases take back each time stays, up to five times the usual. One
   that comes once goes back, and so do larger ones, and those that come seldom; a given budget does not change. */
static void what_is_taken_back_stays(void **state) {
    enum { CYCLE = 3200, USUAL = TS_RETAIN_BYTES / UNIT, SPIKE = TS_RETAIN_MOST * USUAL + 1000 };
    (void)state;
    for (int k = 0; k < 2; k++) {
        (void)start(NULL);
        SlabAllocator *allocator = make(SLAB_RECLAIM_BUDGET, 0);
        for (int again = 0; again < 2; again++) {
            phase(allocator, CYCLE, kinds[k], 2 * TS_RETAIN_NS);
            assert_true(stats_of(allocator).retained_bytes <= USUAL * UNIT); /* once */
            phase(allocator, CYCLE, kinds[k], 2 * TS_RETAIN_NS);
            assert_true(stats_of(allocator).retained_bytes <= USUAL * UNIT); /* seldom */
            phase(allocator, CYCLE, kinds[k], 0);
            unsigned calls = purges.calls;
            for (int i = 0; i < 3; i++) { /* and again */
                phase(allocator, CYCLE, kinds[k], 0);
                assert_int_equal(purges.calls, calls);
                assert_true(stats_of(allocator).retained_bytes >= CYCLE * UNIT);
            }
            assert_int_equal(budget_of(allocator), TS_RETAIN_MOST * USUAL);
            reset_a_domain(allocator);
            assert_int_equal(budget_of(allocator), TS_RETAIN_MOST * USUAL);
            if (again) {
                assert_true(slab_trim(allocator) >= (CYCLE - 1) * UNIT); /* the reset gave one back */
            } else {
                for (int i = 0; i < 3; i++) {
                    phase(allocator, SPIKE, kinds[k], 0);
                    assert_true(stats_of(allocator).retained_bytes <= USUAL * UNIT);
                }
                assert_int_equal(budget_of(allocator), USUAL);
                (void)slab_trim(allocator); /* which forgets them */
            }
            assert_int_equal(budget_of(allocator), USUAL);
        }
        finish(allocator);
        (void)start(NULL);
        allocator = make(SLAB_RECLAIM_BUDGET, TS_RETAIN_BYTES);
        for (int i = 0; i < 4; i++) {
            phase(allocator, CYCLE, kinds[k], 0);
            assert_true(stats_of(allocator).retained_bytes <= USUAL * UNIT);
        }
        finish(allocator);
    }
}

/* Over the budget one free purges a few units, the next goes on: no free pays for all of them, and yet the retained
   memory stays near the budget. Objects of four and 64 to a unit, and of two units each. */
static void free_by_free(void **state) {
    static const size_t sizes[] = {4096, 256, 2 * UNIT - 100};
    (void)state;
    for (int k = 0; k < 3; k++) {
        (void)start(NULL);
        SlabAllocator *allocator = make(SLAB_RECLAIM_BUDGET, 200 * UNIT);
        EpochId epoch = epoch_open(allocator, NULL, EPOCH_CHURN);
        size_t units = 1000, count = units * UNIT / sizes[k] + 100;
        void **objects = calloc(count, sizeof *objects);
        for (size_t i = 0; i < count; i++) {
            objects[i] = slab_malloc_epoch(allocator, sizes[k], epoch);
            assert_non_null(objects[i]);
        }
        assert_true(stats_of(allocator).committed_bytes >= units * UNIT);
        size_t most = 0;
        for (size_t i = 0; i < count; i++) {
            size_t before = purges.bytes;
            assert_true(slab_free(allocator, objects[i]));
            most = purges.bytes - before > most ? purges.bytes - before : most;
            if (i % 64 == 0) {
                /* 64 local ones beyond the shared units, and as many again until the next note. */
                assert_true(stats_of(allocator).retained_bytes <= (200 + 3 * TS_LOCAL_RETAINED_UNITS) * UNIT);
            }
        }
        assert_true(most > 0 && most <= TS_PURGE_PIECE_UNITS * UNIT);
        assert_true(stats_of(allocator).retained_bytes <=
                    (300 + TS_LOCAL_RETAINED_UNITS + TS_PURGE_PIECE_UNITS) * UNIT);
        assert_true(epoch_destroy(allocator, epoch));
        /* Slabs of two units are kept apart. */
        assert_true(stats_of(allocator).retained_bytes <= (200 + (k == 2 ? TS_LOCAL_SPANS_UNITS : 0)) * UNIT);
        free(objects);
        finish(allocator);
    }
}

/* Frees leave short runs alone; the close of the epoch gives them back. Every sixteenth slab has live objects. */
static void a_close_pays_for_the_frees_before_it(void **state) {
    enum { UNITS = 1000, EACH = 4, OBJECTS = UNITS * EACH };
    static void *objects[OBJECTS];
    (void)state;
    SlabAllocator *allocator = make(SLAB_RECLAIM_BUDGET, 200 * UNIT);
    EpochId epoch = epoch_open(allocator, NULL, EPOCH_CHURN);
    for (int i = 0; i < OBJECTS; i++) {
        objects[i] = slab_malloc_epoch(allocator, 4096, epoch);
        assert_non_null(objects[i]);
    }
    for (int i = 0; i < OBJECTS; i++) {
        if (i / EACH % 16 != 0) {
            assert_true(slab_free(allocator, objects[i]));
        }
    }
    assert_true(stats_of(allocator).retained_bytes > (200 + TS_LOCAL_RETAINED_UNITS) * UNIT);
    size_t before = purges.bytes;
    ts_run_deferred(10); /* as the end of a phase that released five */
    assert_in_range(purges.bytes - before, UNIT, 10 * UNIT);
    assert_true(epoch_close(allocator, epoch));
    assert_true(stats_of(allocator).retained_bytes <= (200 + TS_LOCAL_RETAINED_UNITS) * UNIT);
    for (int i = 0; i < OBJECTS; i += 16 * EACH) {
        for (int k = i; k < i + EACH; k++) {
            assert_true(slab_free(allocator, objects[k]));
        }
    }
    finish(allocator);
}

/* The end of a small domain pays for a small one, however many are retained. */
static void domain_by_domain(void **state) {
    enum { DOMAINS = 300, OBJECTS = 20 }; /* five units each */
    EpochDomain *domains[DOMAINS];
    (void)state;
    SlabAllocator *allocator = make(SLAB_RECLAIM_BUDGET, 200 * UNIT);
    for (int i = 0; i < DOMAINS; i++) {
        domains[i] = epoch_domain_create(allocator);
        assert_true(epoch_domain_enter(domains[i]));
        for (int k = 0; k < OBJECTS; k++) {
            assert_non_null(slab_alloc(4000));
        }
        assert_true(epoch_domain_exit(domains[i]));
    }
    size_t most = 0;
    for (int i = 0; i < DOMAINS; i++) {
        size_t before = purges.bytes;
        epoch_domain_destroy(domains[i]);
        most = purges.bytes - before > most ? purges.bytes - before : most;
        assert_true(stats_of(allocator).retained_bytes <= (200 + 3 * TS_LOCAL_RETAINED_UNITS) * UNIT);
    }
    assert_true(most > 0 && most <= 2 * TS_PURGE_PIECE_UNITS * UNIT); /* two steps */
    assert_true(stats_of(allocator).retained_bytes <= (300 + TS_LOCAL_RETAINED_UNITS + TS_PURGE_PIECE_UNITS) * UNIT);
    finish(allocator);
}

/* The end of a large domain pays for all of it. */
static void one_large_domain_after_the_other(void **state) {
    enum { UNITS = 400 };
    (void)state;
    SlabAllocator *allocator = make(SLAB_RECLAIM_BUDGET, 200 * UNIT);
    for (unsigned i = 0; i < 4; i++) {
        EpochDomain *domain = epoch_domain_create(allocator);
        assert_true(epoch_domain_enter(domain));
        for (unsigned k = 0; k < UNITS * (UNIT / 4096); k++) {
            assert_non_null(slab_alloc(4096));
        }
        assert_true(epoch_domain_exit(domain));
        size_t before = purges.bytes;
        epoch_domain_destroy(domain);
        assert_true(purges.bytes - before >= 100 * UNIT);
        assert_in_range(ts_load_relaxed(&ts_thread.heap->shares->retained.count), 0, TS_LOCAL_RETAINED_UNITS);
        assert_true(stats_of(allocator).retained_bytes <=
                    (300 + TS_LOCAL_RETAINED_UNITS + TS_PURGE_PIECE_UNITS) * UNIT);
    }
    finish(allocator);
}

static void *leave_retained_units(void *allocator) {
    SUP_CHECK(epoch_destroy(allocator, fill(allocator, 300, EPOCH_SCOPE)), "epoch_destroy");
    return NULL;
}

static void *end_allocator(void *allocator) {
    slab_allocator_free(allocator);
    return NULL;
}

/* A thread's debt to one allocator does not pass to the next one in the same record. */
static void owed_to_one_that_ended(void **state) {
    (void)state;
    SlabAllocator *allocator = make(SLAB_RECLAIM_BUDGET, 200 * UNIT);
    EpochId epoch = epoch_open(allocator, NULL, EPOCH_CHURN);
    static void *objects[4 * 900];
    for (int i = 0; i < 4 * 900; i++) {
        objects[i] = slab_malloc_epoch(allocator, 4096, epoch);
        assert_non_null(objects[i]);
    }
    for (int i = 0; i < 4 * 900 && !ts_thread.settle; i++) {
        assert_true(slab_free(allocator, objects[i]));
    }
    assert_non_null(ts_thread.settle);
    const ts_allocator *record = ts_thread.settle;
    sup_in_thread(end_allocator, allocator);
    ts_heap_enter(ts_thread.heap);
    ts_heap_drop_dead_shares(ts_thread.heap);
    ts_heap_leave(ts_thread.heap);
    assert_ptr_equal(ts_thread.settle, record);
    SlabAllocator *next = make(SLAB_RECLAIM_AT_ONCE, 0);
    assert_ptr_equal(ts_allocator_find(ts_token(next)), record);
    purges.refuse = true; /* so that more is retained than the limit */
    sup_in_thread(leave_retained_units, next);
    purges.refuse = false;
    assert_int_equal(ts_allocator_retained_units(ts_allocator_find(ts_token(next))), 300);
    unsigned calls = purges.calls;
    assert_ptr_equal(ts_thread.settle, record);
    ts_run_deferred(UINT64_MAX);
    assert_null(ts_thread.settle);
    assert_int_equal(purges.calls, calls);
    slab_allocator_free(next);
}

/* Every allocator keeps to its own budget, also when one thread lets go of several at once. */
static void idle_settles_every_allocator(void **state) {
    (void)state;
    SlabAllocator *allocators[3];
    for (int i = 0; i < 3; i++) {
        allocators[i] = make(SLAB_RECLAIM_BUDGET, UNIT);
        assert_true(epoch_destroy(allocators[i], fill(allocators[i], 40, EPOCH_SCOPE)));
    }
    slab_thread_idle();
    for (int i = 0; i < 3; i++) {
        SlabGlobalStats global;
        assert_true(slab_stats_global(allocators[i], &global));
        assert_true(global.retained_bytes <= UNIT);
    }
    for (int i = 0; i < 3; i++) {
        slab_allocator_free(allocators[i]);
    }
    assert_int_equal(ts_pool_used_units(), units_before);
}

/* ---- refusals --------------------------------------------------------------------------------------------- */

static void refused_purges_stay_retained(void **state) {
    (void)state;
    SlabAllocator *allocator = make(SLAB_RECLAIM_AT_ONCE, 0);
    EpochId epoch = fill(allocator, 300, EPOCH_CHURN);
    purges.refuse = true;
    assert_true(epoch_destroy(allocator, epoch));
    SlabGlobalStats stats = stats_of(allocator);
    assert_int_equal(stats.committed_bytes, 300 * UNIT);
    assert_int_equal(stats.retained_bytes, 300 * UNIT);
    assert_int_equal(stats.empty_slab_overflowed, 0);
    assert_true(purges.refused > 0 && purges.refused <= 4); /* it does not ask for every unit */
    assert_int_equal(slab_trim(allocator), 0);
    /* And is used again; zeroed where zeros were asked for. */
    epoch = epoch_open(allocator, NULL, EPOCH_CHURN);
    for (int i = 0; i < 1200; i++) {
        unsigned char *p = slab_calloc_epoch(allocator, 1, 4096, epoch);
        assert_true(p && p[0] == 0 && p[4095] == 0);
    }
    assert_int_equal(stats_of(allocator).committed_bytes, 300 * UNIT);
    purges.refuse = false;
    assert_true(epoch_destroy(allocator, epoch));
    (void)slab_trim(allocator);
    assert_int_equal(stats_of(allocator).committed_bytes, 0);
    finish(allocator);
}

/* ---- spans ------------------------------------------------------------------------------------------------ */

static void spans_stay_retained(void **state) {
    (void)state;
    SlabAllocator *allocator = make(SLAB_RECLAIM_BUDGET, 0);
    EpochId epoch = epoch_open(allocator, NULL, EPOCH_CHURN);
    for (size_t units = 5; units <= 1000; units = units * 3 + 1) {
        char *p = slab_malloc_epoch(allocator, units * UNIT, epoch);
        memset(p, 7, units * UNIT);
        uint64_t committed = stats_of(allocator).committed_bytes;
        assert_true(slab_free(allocator, p));
        assert_true(stats_of(allocator).retained_bytes >= units * UNIT);
        char *q = slab_calloc_epoch(allocator, 1, units * UNIT, epoch);
        assert_int_equal(stats_of(allocator).committed_bytes, committed);
        for (size_t i = 0; i < units * UNIT; i += 997) {
            assert_int_equal(q[i], 0);
        }
        assert_true(slab_free(allocator, q));
        assert_int_equal(purges.calls, 0);
    }
    finish(allocator);
}

/* ---- reserve ---------------------------------------------------------------------------------------------- */

static void reserved_units(void **state) {
    (void)state;
    SlabAllocator *allocator = make(SLAB_RECLAIM_AT_ONCE, 0);
    assert_true(slab_reserve(allocator, 700 * UNIT));
    assert_int_equal(purges.populated, 700);
    assert_int_equal(stats_of(allocator).retained_bytes, 700 * UNIT);
    for (int k = 0; k < 2; k++) {
        assert_true(epoch_destroy(allocator, fill(allocator, 700, kinds[k])));
        SlabGlobalStats stats = stats_of(allocator);
        assert_int_equal(stats.retained_bytes, 700 * UNIT); /* kept, although the policy is to keep nothing */
        assert_int_equal(stats.slow_path_cache_miss, 0);
    }
    assert_true(epoch_destroy(allocator, fill(allocator, 800, EPOCH_SCOPE)));
    assert_int_equal(stats_of(allocator).retained_bytes, 700 * UNIT);
    assert_int_equal(slab_trim(allocator), 700 * UNIT); /* until a trim */
    assert_true(epoch_destroy(allocator, fill(allocator, 10, EPOCH_SCOPE)));
    assert_int_equal(stats_of(allocator).retained_bytes, 0);
    finish(allocator);
}

/* The bits and generations of purged slabs go back too, and no handle of before is good again: every slot has a stale
   one, made in another generation of the slot, when the slabs come back. No more generations are used up than there
   were. */
static void states_go_and_handles_stay_stale(void **state) {
    enum { UNITS = 64, BYTES = 128, SLOTS = UNITS * TS_UNIT_BYTES / BYTES, ROUNDS = 3 };
    static SlabHandle stale[ROUNDS][SLOTS];
    static void *objects[SLOTS];
    static uint32_t others[1 << 16];
    SlabAllocator *allocator = make(SLAB_RECLAIM_KEEP, 0);
    (void)state;
    /* All other units that the pool has: the same ones come every time. */
    assert_true(epoch_destroy(allocator, fill(allocator, UNITS, EPOCH_CHURN)));
    uint32_t count = 0;
    refuse_units = true;
    while ((others[count] = ts_pool_take(TS_NORMAL, 1, 1)) != 0) assert_true(++count < sizeof others / sizeof *others);
    assert_int_equal(slab_trim(allocator), UNITS * UNIT);
    for (unsigned round = 0; round < ROUNDS; round++) {
        EpochId epoch = epoch_open(allocator, NULL, EPOCH_CHURN);
        for (size_t i = 0; i < SLOTS; i++) assert_non_null(objects[i] = slab_malloc_epoch(allocator, BYTES, epoch));
        for (unsigned use = round; use < ROUNDS; use++) /* fewer generations of each slot every time */
            for (size_t i = 0; i < SLOTS; i++) {
                assert_true(slab_free(allocator, objects[i]));
                assert_non_null(objects[i] = alloc_obj_epoch(allocator, BYTES, epoch, &stale[round][i]));
            }
        for (size_t i = 0; i < SLOTS; i++)
            for (unsigned before = 0; before < round; before++)
                assert_null(slab_handle_get(allocator, stale[before][i]));
        for (size_t i = 0; i < SLOTS; i++) assert_ptr_equal(slab_handle_get(allocator, stale[round][i]), objects[i]);
        for (size_t i = 0; i < SLOTS; i++)
            assert_true((stale[round][i] >> 18 & TS_GEN_MAX) <= 1 + ROUNDS * (ROUNDS + 1));
        assert_true(epoch_destroy(allocator, epoch));
        size_t state_bytes = purges.state_bytes;
        assert_int_equal(slab_trim(allocator), UNITS * UNIT);
        if (ts_os_page_bytes() <= 4096) /* all but the words in pages shared with other units */
            assert_true(purges.state_bytes - state_bytes >= UNITS * TS_GRANULES_COARSE * 2 - 2 * 4096);
        for (size_t i = 0; i < SLOTS; i++) {
            assert_null(slab_handle_get(allocator, stale[round][i]));
            assert_false(slab_free(allocator, objects[i]));
        }
    }
    refuse_units = false;
    while (count > 0) ts_pool_give(others[--count], 1);
    finish(allocator);
}

#define MIB ((size_t)1 << 20)
static size_t room_left;
static uint64_t test_room(void) {
    size_t taken = purges.populated * UNIT;
    return room_left > taken ? room_left - taken : 0;
}

/* No more is populated than the process has room for. */
static void reserve_without_room(void **state) {
    (void)state;
    SlabAllocator *allocator = slab_allocator_create();
    table.room_bytes = test_room;
    for (room_left = 0; room_left < 40 * MIB; room_left += room_left < 8 * MIB ? 100 * UNIT / 16 : 9 * MIB) {
        memset(&purges, 0, sizeof purges);
        errno = 0;
        assert_false(slab_reserve(allocator, 100 * MIB));
        assert_int_equal(errno, ENOMEM);
        assert_true(purges.populated * UNIT <= room_left);
        assert_true(purges.populated * UNIT + 5 * MIB + room_left / 16 >= room_left); /* nearly all of it */
        assert_int_equal(sup_committed_bytes(allocator), purges.populated * UNIT);
        (void)slab_trim(allocator);
    }
    memset(&purges, 0, sizeof purges);
    room_left = 40 * MIB;
    assert_true(slab_reserve(allocator, 30 * MIB));
    assert_int_equal(purges.populated, 30 * MIB / UNIT);
    slab_allocator_free(allocator);
}

/* slab_reserve beyond the budget keeps as much as it gets. */
static void reserve_beyond_the_budget(void **state) {
    (void)state;
    SlabOptions options = {.size = sizeof options, .budget_bytes = 300 * UNIT};
    SlabAllocator *allocator = slab_allocator_create_ex(&options);
    errno = 0;
    assert_false(slab_reserve(allocator, 1000 * UNIT));
    assert_int_equal(errno, ENOMEM);
    uint64_t kept = stats_of(allocator).retained_bytes;
    slab_allocator_free(allocator);
    assert_int_equal(kept, 300 * UNIT);
}

/* Unit by unit: with the last of those whose words share a page, that goes as well. Where handles were made the
   generations go, too. */
static void states_go_piece_by_piece(void **state) {
    enum { COUNT = 150 };
    static void *objects[COUNT * UNIT / 16];
    static const struct {
        size_t bytes;
        bool handles;
    } kind[] = {{2000, false}, {16, false}, {2000, true}, {16, true}};
    (void)state;
    for (unsigned k = 0; k < sizeof kind / sizeof *kind; k++) {
        size_t of_words = TS_SCOPE_BITS_BYTES + (kind[k].handles ? TS_UNIT_ENTRIES * 2 : 0);
        SlabOptions options = {.size = sizeof options, .reclaim_policy = SLAB_RECLAIM_AT_ONCE};
        SlabAllocator *allocator = slab_allocator_create_ex(&options);
        EpochId epoch = epoch_open(allocator, NULL, EPOCH_CHURN);
        size_t count = COUNT * (UNIT / kind[k].bytes);
        for (size_t i = 0; i < count; i++) {
            objects[i] = slab_malloc_epoch(allocator, kind[k].bytes, epoch);
            assert_non_null(objects[i]);
            if (kind[k].handles) assert_int_not_equal(slab_handle_of(allocator, objects[i]), SLAB_HANDLE_NONE);
        }
        memset(&purges, 0, sizeof purges);
        for (size_t i = 0; i < count; i++) {
            assert_true(slab_free(allocator, objects[i]));
        }
        size_t units = purges.bytes / UNIT;
        assert_true(purges.calls > 50 && units > 100);
        assert_true(ts_os_page_bytes() > UNIT || purges.state_bytes >= units * of_words * 3 / 4);
        slab_allocator_free(allocator);
    }
}

#define WITH_TABLE(test) cmocka_unit_test_setup(test, start)

int main(void) {
    const struct CMUnitTest tests[] = {
        WITH_TABLE(lists),
        WITH_TABLE(groups),
        WITH_TABLE(keep_everything),
        WITH_TABLE(taken_several_at_a_time),
        WITH_TABLE(give_back_at_once),
        WITH_TABLE(reserve_without_room),
        WITH_TABLE(retain_a_budget),
        WITH_TABLE(what_is_taken_back_stays),
        WITH_TABLE(free_by_free),
        WITH_TABLE(a_close_pays_for_the_frees_before_it),
        WITH_TABLE(domain_by_domain),
        WITH_TABLE(one_large_domain_after_the_other),
        WITH_TABLE(owed_to_one_that_ended),
        WITH_TABLE(idle_settles_every_allocator),
        WITH_TABLE(refused_purges_stay_retained),
        WITH_TABLE(spans_stay_retained),
        WITH_TABLE(reserved_units),
        WITH_TABLE(reserve_beyond_the_budget),
        WITH_TABLE(states_go_and_handles_stay_stale),
        WITH_TABLE(states_go_piece_by_piece),
    };
    return cmocka_run_group_tests_name("supply.retained", tests, NULL, NULL);
}
