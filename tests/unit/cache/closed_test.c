/*
 * Objects of a closed epoch that other threads free while the owner sleeps: each slab goes back with its last object,
 * and the epoch ends with the last of all.
 */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include "errands.h"
#include "identities.h"
#include "unit.h"

#include "api/runtime.h"
#include "epoch/epoch.h"
#include "os/os.h"
#include "region/region.h"
#include "walk/check_pool.h"

enum { COUNT = 2000 };

static SlabAllocator *allocator;
static EpochId epoch, other_epoch;
static void *objects[COUNT], *still_open;
static size_t size;
static ts_os_table table;
static bool refuse_barrier;

static bool barrier(void) { return !refuse_barrier && ts_os_native.barrier_all(); }

static int start(void **state) {
    SlabOptions options = {.size = sizeof options, .reclaim_policy = SLAB_RECLAIM_AT_ONCE};
    (void)state;
    table = ts_os_native;
    table.barrier_all = barrier;
    ts_os = &table;
    refuse_barrier = false;
    allocator = slab_allocator_create_ex(&options);
    begin();
    return allocator == NULL;
}

static int stop(void **state) {
    (void)state;
    end();
    slab_allocator_free(allocator);
    ts_os = &ts_os_native;
    return ts_pool_used_units() != 0;
}

static void make_objects(void) {
    for (unsigned i = 0; i < COUNT; i++) {
        objects[i] = slab_malloc_epoch(allocator, size, epoch);
        SUP_CHECK(objects[i] != NULL, "slab_malloc_epoch");
    }
    still_open = slab_malloc_epoch(allocator, size, other_epoch);
    SUP_CHECK(still_open != NULL, "the other epoch");
}

/* From the first to the last, from the last, and one of each slab after the other. */
static void *in_order(unsigned order, unsigned i) {
    return objects[order == 0 ? i : order == 1 ? COUNT - 1 - i : i % 40 * (COUNT / 40) + i / 40];
}

static void while_the_owner_sleeps(void **state) {
    static const size_t sizes[] = {16, 48, 100, 1000, 4096};
    (void)state;
    for (unsigned flags = EPOCH_CHURN; flags <= EPOCH_SCOPE; flags++) {
        for (unsigned s = 0; s < sizeof sizes / sizeof sizes[0]; s++) {
            for (unsigned order = 0; order < 3; order++) {
                size = sizes[s];
                other_epoch = epoch_open(allocator, NULL, flags);
                epoch = epoch_open(allocator, NULL, flags);
                let(make_objects);
                assert_true(epoch_close(allocator, epoch));
                size_t full = sup_committed_bytes(allocator);
                /* It waits on the same queue, and stays there. */
                assert_true(slab_free(allocator, still_open));
                for (unsigned i = 0; i < COUNT; i++) {
                    assert_int_equal(epoch_state(allocator, epoch), EPOCH_CLOSING);
                    assert_true(slab_free(allocator, in_order(order, i)));
                    assert_false(slab_free(allocator, in_order(order, i)));
                    /* Halfway through in order half of it is back. */
                    if (i == COUNT / 2 && order < 2 && size >= 100)
                        assert_true(sup_committed_bytes(allocator) <= full / 2 + 4 * TS_UNIT_BYTES);
                }
                assert_int_equal(epoch_state(allocator, epoch), EPOCH_CLOSED);
                assert_true(epoch_destroy(allocator, other_epoch));
                sup_check_identities(allocator);
                sup_check_empty(allocator);
            }
        }
    }
}

/* If the owner's heap cannot be held, the slab is left to the owner, which rests. */
static void rest(void) { slab_thread_idle(); }
static void without_the_barrier(void **state) {
    (void)state;
    size = 1000;
    other_epoch = epoch_open(allocator, NULL, EPOCH_CHURN);
    epoch = epoch_open(allocator, NULL, EPOCH_CHURN);
    let(make_objects);
    assert_true(epoch_close(allocator, epoch));
    refuse_barrier = true;
    for (unsigned i = 0; i < COUNT; i++) assert_true(slab_free(allocator, objects[i]));
    assert_int_equal(epoch_state(allocator, epoch), EPOCH_CLOSING);
    let(rest);
    assert_int_equal(epoch_state(allocator, epoch), EPOCH_CLOSED);
    refuse_barrier = false;
    assert_true(epoch_destroy(allocator, other_epoch));
    sup_check_empty(allocator);
}

/* Closed, and the owner could not be held; then all objects but the last `left` are freed by this thread. */
static void close_without_the_owner(unsigned left) {
    size = 100;
    other_epoch = epoch_open(allocator, NULL, EPOCH_CHURN);
    epoch = epoch_open(allocator, NULL, EPOCH_CHURN);
    let(make_objects);
    refuse_barrier = true;
    assert_true(epoch_close(allocator, epoch));
    for (unsigned i = 0; i < COUNT - left; i++) assert_true(slab_free(allocator, objects[i]));
    assert_int_equal(epoch_state(allocator, epoch), EPOCH_CLOSING);
}

static void it_is_over(void) {
    assert_int_equal(epoch_state(allocator, epoch), EPOCH_CLOSED);
    refuse_barrier = false;
    assert_true(epoch_destroy(allocator, other_epoch));
    sup_check_empty(allocator);
}

/* One trim does the work that the close could not do. */
static void trimmed_once(void **state) {
    (void)state;
    close_without_the_owner(0);
    refuse_barrier = false;
    (void)slab_trim(allocator);
    it_is_over();
}

/* So does the owner at its next free there, for all that others have freed, and then it may sleep. */
static void free_last(void) { SUP_CHECK(slab_free(allocator, objects[COUNT - 1]), "slab_free"); }
static void the_owner_frees_once(void **state) {
    (void)state;
    close_without_the_owner(1);
    let(free_last);
    it_is_over();
}

/* The owner frees the last object of each slab: it takes in the other thread's frees there. */
static void free_odd(void) {
    for (unsigned i = 1; i < COUNT; i += 2) SUP_CHECK(slab_free(allocator, objects[i]), "slab_free");
}
static void the_owner_frees_the_last(void **state) {
    (void)state;
    size = 100;
    other_epoch = epoch_open(allocator, NULL, EPOCH_CHURN);
    epoch = epoch_open(allocator, NULL, EPOCH_CHURN);
    let(make_objects);
    assert_true(epoch_close(allocator, epoch));
    for (unsigned i = 0; i < COUNT; i += 2) assert_true(slab_free(allocator, objects[i]));
    assert_int_equal(epoch_state(allocator, epoch), EPOCH_CLOSING);
    let(free_odd);
    assert_int_equal(epoch_state(allocator, epoch), EPOCH_CLOSED);
    assert_true(epoch_destroy(allocator, other_epoch));
    sup_check_empty(allocator);
}

#define WITH(test) cmocka_unit_test_setup_teardown(test, start, stop)

int main(void) {
    const struct CMUnitTest tests[] = {
        WITH(while_the_owner_sleeps), WITH(without_the_barrier),      WITH(trimmed_once),
        WITH(the_owner_frees_once),   WITH(the_owner_frees_the_last),
    };
    return cmocka_run_group_tests_name("cache.closed", tests, NULL, NULL);
}
