/* Timing of one in so many operations, with clocks that only the test moves. */
#include "check.h"
#include "identities.h"
#include "proc.h"
#include "unit.h"

#include "api/runtime.h"
#include "diagnose/diagnose.h"
#include "observe/snapshot.h"
#include "os/os.h"

/* Each reading of a clock is later by a step: a timed operation takes exactly one step of each. */
static ts_os_table table;
static uint64_t wall, cpu, wall_step, cpu_step;

static uint64_t test_wall(void) { return wall += wall_step; }
static uint64_t test_cpu(void) { return cpu += cpu_step; }

static int start(void **state) {
    (void)state;
    table = ts_os_native;
    table.wall_ns = test_wall;
    table.coarse_ns = test_wall;
    table.cpu_ns = test_cpu;
    ts_os = &table;
    wall_step = 100;
    cpu_step = 30;
    return 0;
}

static int stop(void **state) {
    (void)state;
    ts_store_relaxed(&ts_sample_rate, 0);
    return 0;
}

static SlabAllocator *make(uint32_t rate) {
    SlabOptions options = {.size = sizeof options, .sample_rate = rate};
    SlabAllocator *allocator = slab_allocator_create_ex(&options);
    assert_non_null(allocator);
    return allocator;
}

enum { PAIRS = 600 };

static void pairs(SlabAllocator *allocator, unsigned flags) {
    EpochId epoch = epoch_open(allocator, NULL, flags);
    for (int i = 0; i < PAIRS; i++) {
        void *p = slab_malloc_epoch(allocator, (size_t)(i % 3) * 3000, epoch); /* in classes, scopes and spans */
        SUP_CHECK(p != NULL, "slab_malloc_epoch");
        SUP_CHECK(slab_free(allocator, p), "slab_free");
    }
    SUP_CHECK(epoch_destroy(allocator, epoch), "epoch_destroy");
}

static SlabThreadStats seen;
static SlabAllocator *shared;

static void *pairs_of_both_kinds(void *argument) {
    pairs(shared, EPOCH_CHURN);
    pairs(shared, EPOCH_SCOPE);
    seen = slab_stats_thread();
    return argument;
}

static void every_operation(void **state) {
    (void)state;
    shared = make(1);
    sup_in_thread(pairs_of_both_kinds, NULL);
    assert_int_equal(seen.sample_rate, 1);
    assert_int_equal(seen.alloc_samples, 2 * PAIRS);
    assert_int_equal(seen.free_samples, 2 * PAIRS);
    /* One reading at the start and one at the end of each, and those of the operation itself. */
    assert_true(seen.alloc_wall_ns_sum >= 2 * PAIRS * 100 && seen.alloc_wall_ns_sum <= 2 * PAIRS * 300);
    assert_int_equal(seen.free_cpu_ns_sum, 2 * PAIRS * 30);
    assert_int_equal(seen.alloc_wall_ns_sum - seen.alloc_cpu_ns_sum, seen.alloc_wait_ns_sum);
    assert_int_equal(seen.free_wall_ns_sum - seen.free_cpu_ns_sum, seen.free_wait_ns_sum);
    assert_int_equal(seen.free_cpu_ns_max, 30);
    assert_true(seen.alloc_wall_ns_max >= 100);
    sup_check_identities(shared);
    slab_allocator_free(shared);
}

static void one_in_so_many(void **state) {
    (void)state;
    for (uint32_t rate = 2; rate <= 64; rate *= 2) {
        shared = make(rate);
        sup_in_thread(pairs_of_both_kinds, NULL);
        assert_int_equal(seen.sample_rate, rate);
        assert_int_equal(seen.alloc_samples, 2 * PAIRS / rate); /* of each by itself: a program that frees objects it */
        assert_int_equal(seen.free_samples, 2 * PAIRS / rate);  /* has just allocated has both timed */
        slab_allocator_free(shared);
    }
}

/* The processor's time is never more than the wall's. */
static void clocks_that_disagree(void **state) {
    (void)state;
    wall_step = 10;
    cpu_step = 1000;
    shared = make(1);
    sup_in_thread(pairs_of_both_kinds, NULL);
    assert_int_equal(seen.free_wait_ns_sum, 0);
    assert_int_equal(seen.free_cpu_ns_sum, seen.free_wall_ns_sum);
    assert_int_equal(seen.free_cpu_ns_max, seen.free_wall_ns_max);
    slab_allocator_free(shared);
}

static void *off_on_off(void *argument) {
    pairs(shared, EPOCH_CHURN);
    seen = slab_stats_thread();
    SUP_CHECK(seen.alloc_samples == 0 && seen.free_samples == 0 && seen.sample_rate == 0, "off");
    SlabAllocator *another = make(1);
    pairs(another, EPOCH_CHURN);
    pairs(shared, EPOCH_CHURN);
    seen = slab_stats_thread();
    SUP_CHECK(seen.alloc_samples == 2 * PAIRS && seen.free_samples == 2 * PAIRS, "on: %llu and %llu",
              (unsigned long long)seen.alloc_samples, (unsigned long long)seen.free_samples);
    ts_store_relaxed(&ts_sample_rate, 0);
    pairs(shared, EPOCH_CHURN);
    seen = slab_stats_thread();
    SUP_CHECK(seen.alloc_samples == 2 * PAIRS && seen.free_samples == 2 * PAIRS, "off again");
    slab_allocator_free(another);
    return argument;
}

static void on_and_off(void **state) {
    (void)state;
    shared = make(0);
    sup_in_thread(off_on_off, NULL);
    sup_check_identities(shared);
    slab_allocator_free(shared);
}

static void *free_pairs(void *argument) {
    for (int i = 0; i < PAIRS; i++) {
        void *p = slab_malloc(shared, 64);
        SUP_CHECK(p != NULL && slab_free(shared, p), "a pair");
    }
    return argument;
}

/* Frees take exactly one step of the clock; allocations at least one. */
static void slow_ones_are_counted(void **state) {
    (void)state;
    const uint64_t steps[] = {200, 201, 10000, 10001};
    for (unsigned i = 0; i < 4; i++) {
        uint64_t before[4], after[4];
        wall_step = steps[i];
        shared = make(1);
        (void)ts_snapshot_samples(before);
        sup_in_thread(free_pairs, NULL);
        (void)ts_snapshot_samples(after);
        assert_int_equal(after[2] - before[2], i >= 1 ? PAIRS : 0);
        assert_int_equal(after[3] - before[3], i >= 3 ? PAIRS : 0);
        if (i >= 1) assert_int_equal(after[0] - before[0], PAIRS);
        if (i >= 3) assert_int_equal(after[1] - before[1], PAIRS);
        slab_allocator_free(shared);
    }
}

static void *nothing_done(void *argument) {
    seen = slab_stats_thread();
    return argument;
}

static void a_thread_without_a_heap(void **state) {
    (void)state;
    sup_in_thread(nothing_done, NULL);
    assert_int_equal(seen.version, SLAB_STATS_VERSION);
    assert_int_equal(seen.alloc_samples + seen.free_samples + seen.alloc_wall_ns_sum + seen.free_wall_ns_sum, 0);
}

#define WITH_CLOCKS(test) cmocka_unit_test_setup_teardown(test, start, stop)

int main(void) {
    const struct CMUnitTest tests[] = {
        WITH_CLOCKS(every_operation), WITH_CLOCKS(one_in_so_many),          WITH_CLOCKS(clocks_that_disagree),
        WITH_CLOCKS(on_and_off),      WITH_CLOCKS(a_thread_without_a_heap), WITH_CLOCKS(slow_ones_are_counted),
    };
    return cmocka_run_group_tests_name("diagnose.sample", tests, NULL, NULL);
}
