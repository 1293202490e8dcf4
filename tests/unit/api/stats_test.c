/* The figures: true values, the identities, and refusals. */
#include "check.h"
#include "identities.h"
#include "unit.h"

#include <pthread.h>
#include <stdatomic.h>
#include <string.h>

static void classes(void **state) {
    static const uint32_t required[] = {64, 96, 128, 192, 256, 384, 512, 768};
    (void)state;
    size_t count = slab_class_count();
    assert_true(count >= 8);
    for (size_t i = 0; i < sizeof required / sizeof required[0]; i++) {
        int cls = slab_class_of(required[i]);
        assert_true(cls >= 0);
        assert_int_equal(slab_class_size((uint32_t)cls), required[i]);
    }
    for (size_t cls = 0; cls < count; cls++) {
        uint32_t size = slab_class_size((uint32_t)cls);
        assert_true(size > 0 && size % 16 == 0);
        assert_true(cls == 0 || size > slab_class_size((uint32_t)cls - 1));
        assert_int_equal(slab_class_of(size), cls);
        assert_int_equal(slab_class_of(size - 1), cls);
        assert_true(slab_class_of(size + 1) == (int)cls + 1 || (cls + 1 == count && slab_class_of(size + 1) == -1));
    }
    assert_int_equal(slab_class_of(0), 0);
    assert_int_equal(slab_class_of(SIZE_MAX), -1);
    assert_int_equal(slab_class_size((uint32_t)count), 0);
    assert_int_equal(slab_class_size(SLAB_ALL_CLASSES), 0);
}

static void refusals(void **state) {
    SlabAllocator *allocator = *state;
    SlabGlobalStats global;
    SlabClassStats cls;
    SlabEpochStats epoch;
    PerfCounters perf;
    uint32_t unknown = (uint32_t)slab_class_count();
    EpochId current = epoch_current(allocator);
    assert_false(slab_stats_global(NULL, &global));
    assert_false(slab_stats_global(allocator, NULL));
    assert_false(slab_stats_class(NULL, 0, &cls));
    assert_false(slab_stats_class(allocator, 0, NULL));
    assert_false(slab_stats_class(allocator, unknown, &cls));
    assert_false(slab_stats_epoch(NULL, 0, current, &epoch));
    assert_false(slab_stats_epoch(allocator, 0, current, NULL));
    assert_false(slab_stats_epoch(allocator, unknown, current, &epoch));
    assert_false(slab_stats_epoch(allocator, 0, EPOCH_NONE, &epoch));
    assert_false(get_perf_counters(NULL, 0, &perf));
    assert_false(get_perf_counters(allocator, 0, NULL));
    assert_false(get_perf_counters(allocator, unknown, &perf));
    assert_int_equal(slab_epochs(NULL, NULL, 0), 0);
    assert_int_equal(slab_stats_thread().version, SLAB_STATS_VERSION);
}

/* An allocator begins at 0, without the counts of the one before. */
static void begins_at_zero(void **state) {
    (void)state;
    SlabGlobalStats stats, first;
    for (int i = 0; i < 3; i++) {
        SlabAllocator *allocator = slab_allocator_create();
        assert_true(slab_stats_global(allocator, &stats));
        if (i == 0) first = stats;
        stats.resident_bytes = first.resident_bytes; /* of the process */
        stats.metadata_bytes = first.metadata_bytes;
        assert_memory_equal(&stats, &first, sizeof stats);
        assert_int_equal(stats.lock_fast_acquire, 0);
        EpochId epoch = epoch_open(allocator, NULL, EPOCH_CHURN);
        for (int k = 0; k < 10000; k++) assert_non_null(slab_malloc_epoch(allocator, 1000, epoch));
        assert_false(slab_free(allocator, &stats));
        assert_non_null(slab_malloc(allocator, 1 << 20));
        assert_true(epoch_close(allocator, epoch) && epoch_destroy(allocator, epoch));
        (void)slab_trim(allocator);
        slab_allocator_free(allocator);
    }
}

/* Known work, known figures. */
static void figures_of_a_class(void **state) {
    enum { COUNT = 1000 };
    SlabAllocator *allocator = *state;
    void *objects[COUNT];
    EpochId epoch = epoch_open(allocator, "figures", EPOCH_CHURN);
    uint32_t cls = (uint32_t)slab_class_of(128);
    for (int i = 0; i < COUNT; i++) {
        objects[i] = slab_malloc_epoch(allocator, 128, epoch);
    }
    SlabClassStats stats;
    SlabEpochStats of_epoch;
    PerfCounters perf;
    assert_true(slab_stats_class(allocator, cls, &stats));
    assert_int_equal(stats.object_size, 128);
    assert_int_equal(stats.live_objects, COUNT);
    assert_int_equal(stats.live_bytes, COUNT * 128);
    assert_int_equal(stats.allocated_objects_total, COUNT);
    assert_true(stats.committed_bytes >= COUNT * 128 && stats.committed_bytes % 16384 == 0);
    assert_true(stats.new_slab_count >= COUNT * 128 / 16384);
    assert_true(stats.slow_path_hits >= stats.new_slab_count);
    assert_true(stats.list_move_partial_to_full >= COUNT * 128 / 16384 - 1);
    assert_true(get_perf_counters(allocator, cls, &perf));
    assert_int_equal(perf.new_slab_count, stats.new_slab_count);
    assert_int_equal(perf.slow_path_hits, stats.slow_path_hits);
    assert_int_equal(perf.current_partial_miss, stats.current_partial_null + stats.current_partial_full);
    assert_true(slab_stats_epoch(allocator, cls, epoch, &of_epoch));
    assert_int_equal(of_epoch.live_objects, COUNT);
    assert_int_equal(of_epoch.object_size, 128);
    assert_true(of_epoch.open_since_ns > 0);
    assert_true(slab_stats_epoch(allocator, (uint32_t)slab_class_of(64), epoch, &of_epoch));
    assert_int_equal(of_epoch.live_objects, 0);
    for (int i = 0; i < COUNT; i += 2) {
        assert_true(slab_free(allocator, objects[i]));
        assert_false(slab_free(allocator, objects[i]));
    }
    assert_true(slab_stats_class(allocator, cls, &stats));
    assert_int_equal(stats.live_objects, COUNT / 2);
    assert_int_equal(stats.freed_objects_total, COUNT / 2);
    assert_int_equal(stats.rejected_frees_total, COUNT / 2);
    sup_check_identities(allocator);
    assert_true(epoch_close(allocator, epoch));
    assert_null(slab_malloc_epoch(allocator, 128, epoch));
    assert_true(slab_stats_class(allocator, cls, &stats));
    assert_int_equal(stats.epoch_close_calls, 1);
    assert_int_equal(stats.slow_path_epoch_closed, 1);
    assert_true(epoch_destroy(allocator, epoch));
    assert_true(slab_stats_class(allocator, cls, &stats));
    assert_int_equal(stats.freed_objects_total, COUNT);
    assert_int_equal(stats.live_objects, 0);
    sup_check_identities(allocator);
    sup_check_empty(allocator);
}

/* ---- partial misses ---------------------------------------------------------------------------------------------- */

enum { MANY = 4000 };
static void *many[MANY];
static SlabAllocator *theirs;
static EpochId shared;

static void allocate_many(unsigned count) {
    for (unsigned i = 0; i < count; i++) many[i] = slab_malloc_epoch(theirs, 128, shared);
}

static void *allocate_and_end(void *unused) {
    allocate_many(MANY);
    return unused;
}

static void *free_every_second(void *unused) {
    for (unsigned i = 0; i < MANY; i += 2) assert_true(slab_release(many[i]));
    return unused;
}

static void in_another_thread(void *(*run)(void *)) {
    pthread_t thread;
    assert_int_equal(pthread_create(&thread, NULL, run, NULL), 0);
    assert_int_equal(pthread_join(thread, NULL), 0);
}

static PerfCounters perf_of(uint32_t cls) {
    PerfCounters perf;
    assert_true(get_perf_counters(theirs, cls, &perf));
    assert_int_equal(perf.current_partial_miss, perf.current_partial_null + perf.current_partial_full);
    return perf;
}

/* A slab that is taken because all are full is no miss. */
static void one_thread_misses_nothing(void **state) {
    theirs = *state;
    EpochId churn = epoch_open(theirs, "churn", EPOCH_CHURN), scope = epoch_open(theirs, "scope", EPOCH_SCOPE);
    for (unsigned round = 0; round < 3; round++) {
        shared = scope;
        allocate_many(MANY);
        shared = churn;
        allocate_many(MANY);
        for (unsigned i = 0; i < MANY; i++) assert_true(slab_free(theirs, many[i]));
    }
    assert_true(perf_of((uint32_t)slab_class_of(128)).slow_path_hits >= MANY / 128);
    assert_true(perf_of(SLAB_CLASS_SCOPE).list_move_partial_to_full >= 3 * (MANY / 128 - 1));
    assert_int_equal(perf_of(SLAB_ALL_CLASSES).current_partial_miss, 0);
    assert_true(epoch_destroy(theirs, churn) && epoch_destroy(theirs, scope));
}

/* Slots that another thread has freed, and those that a thread has left, are found by a miss and without a new slab. */
static void other_threads_leave_misses(void **state) {
    theirs = *state;
    shared = epoch_open(theirs, "of several threads", EPOCH_CHURN);
    allocate_many(MANY);
    assert_int_equal(perf_of(SLAB_ALL_CLASSES).current_partial_miss, 0);
    in_another_thread(free_every_second);
    PerfCounters before = perf_of(SLAB_ALL_CLASSES);
    allocate_many(MANY / 4);
    PerfCounters full = perf_of(SLAB_ALL_CLASSES);
    assert_true(full.current_partial_full > before.current_partial_full && full.current_partial_null == 0);
    assert_int_equal(full.new_slab_count, before.new_slab_count);
    assert_true(epoch_destroy(theirs, shared));

    shared = epoch_open(theirs, "left", EPOCH_CHURN);
    assert_non_null(slab_malloc_epoch(theirs, 64, shared)); /* much less than the other thread leaves: hand_over.c */
    in_another_thread(allocate_and_end);
    for (unsigned i = 0; i < MANY; i += 2) assert_true(slab_free(theirs, many[i]));
    before = perf_of(SLAB_ALL_CLASSES);
    assert_non_null(slab_malloc_epoch(theirs, 128, shared));
    PerfCounters null = perf_of(SLAB_ALL_CLASSES);
    assert_int_equal(null.current_partial_null, before.current_partial_null + 1);
    assert_int_equal(null.new_slab_count, before.new_slab_count);
    assert_true(epoch_destroy(theirs, shared));
}

static void every_class_and_kind(void **state) {
    SlabAllocator *allocator = *state;
    EpochId churn = epoch_open(allocator, NULL, EPOCH_CHURN);
    EpochId scope = epoch_open(allocator, NULL, EPOCH_SCOPE);
    size_t classes_count = slab_class_count();
    SlabClassStats stats;
    for (size_t cls = 0; cls < classes_count; cls++) {
        for (size_t i = 0; i <= cls; i++) {
            assert_non_null(slab_malloc_epoch(allocator, slab_class_size((uint32_t)cls), churn));
        }
        assert_true(slab_stats_class(allocator, (uint32_t)cls, &stats));
        assert_int_equal(stats.live_objects, cls + 1);
    }
    for (int i = 0; i < 77; i++) {
        assert_non_null(slab_malloc_epoch(allocator, (size_t)i, scope));
    }
    for (int i = 0; i < 5; i++) {
        assert_non_null(slab_malloc_epoch(allocator, 1u << 20, i % 2 == 0 ? churn : scope));
    }
    assert_true(slab_stats_class(allocator, SLAB_CLASS_SCOPE, &stats));
    assert_int_equal(stats.live_objects, 77);
    assert_true(slab_stats_class(allocator, SLAB_CLASS_SPAN, &stats));
    assert_int_equal(stats.live_objects, 5);
    assert_true(stats.live_bytes >= 5u << 20);
    SlabGlobalStats whole;
    assert_true(slab_stats_global(allocator, &whole));
    assert_int_equal(whole.live_objects, classes_count * (classes_count + 1) / 2 + 77 + 5);
    sup_check_identities(allocator);
    assert_true(epoch_destroy(allocator, churn));
    sup_check_identities(allocator);
    assert_true(epoch_destroy(allocator, scope));
    sup_check_identities(allocator);
    sup_check_empty(allocator);
}

static void figures_of_the_whole(void **state) {
    SlabAllocator *allocator = *state;
    SlabGlobalStats stats;
    assert_true(slab_stats_global(allocator, &stats));
    assert_int_equal(stats.live_objects, 0);
    assert_int_equal(stats.active_epoch_count, 0);
    EpochId current = epoch_current(allocator);
    EpochId draining = epoch_open(allocator, NULL, 0);
    assert_non_null(slab_malloc_epoch(allocator, 64, draining));
    assert_true(epoch_close(allocator, draining));
    assert_true(slab_stats_global(allocator, &stats));
    assert_true(stats.current_epoch == current);
    assert_int_equal(stats.active_epoch_count, 1);
    assert_int_equal(stats.closing_epoch_count, 1);
    assert_int_equal(stats.live_objects, 1);
    assert_true(stats.resident_bytes > 100000);
    assert_true(stats.reserved_bytes >= stats.committed_bytes);
    assert_true(stats.metadata_bytes > 0 && stats.metadata_bytes < stats.reserved_bytes);
    EpochId listed[3] = {0, 0, 77};
    assert_int_equal(slab_epochs(allocator, listed, 1), 2);
    assert_true(listed[0] == current && listed[1] == 0);
    assert_int_equal(slab_epochs(allocator, listed, 3), 2);
    assert_true(listed[0] == current && listed[1] == draining && listed[2] == 77);
}

static atomic_bool over;
static void *open_and_end(void *of) {
    while (!atomic_load(&over)) {
        EpochId e[8];
        for (unsigned i = 0; i < 8; i++) e[i] = epoch_open(of, NULL, EPOCH_SCOPE);
        for (unsigned i = 0; i < 8; i++) SUP_CHECK(epoch_destroy(of, e[i]), "epoch_destroy");
    }
    return NULL;
}

/* Ids are put in order by epochs that end meanwhile: none of them is read where it was. */
static void epochs_that_end_meanwhile(void **state) {
    SlabAllocator *allocator = *state;
    pthread_t thread;
    assert_int_equal(pthread_create(&thread, NULL, open_and_end, allocator), 0);
    for (unsigned seen = 0; seen < 20000;) {
        EpochId listed[6];
        seen += slab_epochs(allocator, listed, 6) > 3;
    }
    atomic_store(&over, true);
    assert_int_equal(pthread_join(thread, NULL), 0);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(classes),
        SUP_WITH_ALLOCATOR(refusals),
        cmocka_unit_test(begins_at_zero),
        SUP_WITH_ALLOCATOR(figures_of_a_class),
        SUP_WITH_ALLOCATOR(one_thread_misses_nothing),
        SUP_WITH_ALLOCATOR(other_threads_leave_misses),
        SUP_WITH_ALLOCATOR(every_class_and_kind),
        SUP_WITH_ALLOCATOR(figures_of_the_whole),
        SUP_WITH_ALLOCATOR(epochs_that_end_meanwhile),
    };
    return cmocka_run_group_tests_name("api.stats", tests, NULL, NULL);
}
