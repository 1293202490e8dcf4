/*
 * A system without a barrier of all threads. No thread can hold the heap of another that lives, so it cannot wait for
 * that one's frees: all slabs count lives from the first. So any thread gets the handle of any object, whatever memory
 * the object's slab was made of.
 */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include "errands.h"
#include "identities.h"
#include "unit.h"

#include "base/base.h"
#include "os/os.h"
#include "region/region.h"
#include "slab/slab.h"

static ts_os_table table;
static SlabAllocator *allocator;
static EpochId epoch;
static size_t size;
static void *object;

static bool no_barrier(void) { return false; }

static int start(void **state) {
    table = ts_os_native;
    table.barrier_all = no_barrier;
    ts_os = &table;
    return sup_errands_start(state);
}
static int stop(void **state) {
    int failed = sup_errands_stop(state);
    ts_os = &ts_os_native;
    return failed;
}

static void allocate(void) {
    SUP_CHECK((object = slab_malloc_epoch(allocator, size, epoch)) != NULL, "an object of %zu bytes", size);
}
static void free_it(void) { SUP_CHECK(slab_free(allocator, object), "slab_free"); }

/* As if no slab of any group had had handles. The groups that had are so again afterwards. */
static uint64_t groups[TS_FINE_GROUPS / 64];
static void forget_groups(void) {
    for (unsigned i = 0; i < TS_FINE_GROUPS / 64; i++) {
        groups[i] = ts_load_relaxed(&ts_region.generation_groups[i]);
        ts_store_relaxed(&ts_region.generation_groups[i], 0);
    }
}
static void know_groups(void) {
    for (unsigned i = 0; i < TS_FINE_GROUPS / 64; i++)
        ts_store_relaxed(&ts_region.generation_groups[i], ts_load_relaxed(&ts_region.generation_groups[i]) | groups[i]);
}

static void has_a_handle(void) {
    forget_groups();
    let(allocate);
    know_groups();
    SlabHandle handle = slab_handle_of(allocator, object);
    SUP_CHECK(handle != SLAB_HANDLE_NONE, "no handle of an object of %zu bytes", size);
    assert_ptr_equal(slab_handle_get(allocator, handle), object);
    void *before = object;
    let(free_it);
    let(allocate);
    assert_ptr_equal(object, before);
    assert_null(slab_handle_get(allocator, handle));
}

static void of_each_class(void **state) {
    (void)state;
    assert_false(ts_barriers);
    allocator = slab_allocator_create();
    epoch = epoch_open(allocator, NULL, EPOCH_CHURN);
    for (unsigned cls = 0; cls < TS_CLASSES; cls++) {
        size = ts_class_bytes[cls];
        has_a_handle();
    }
    sup_check_identities(allocator);
    slab_allocator_free(allocator);
}

/* The thread has the unit already, and takes it in the middle of an operation. */
static void fill_and_end(void) {
    for (unsigned i = 0; i < 40; i++) SUP_CHECK(slab_malloc_epoch(allocator, 4000, epoch) != NULL, "an object");
    SUP_CHECK(epoch_destroy(allocator, epoch), "epoch_destroy");
}
static void in_retained_units(void **state) {
    static const size_t sizes[] = {64, 1000, 4096};
    (void)state;
    for (unsigned i = 0; i < sizeof sizes / sizeof *sizes; i++) {
        allocator = slab_allocator_create();
        epoch = epoch_open(allocator, NULL, EPOCH_SCOPE);
        let(fill_and_end);
        epoch = epoch_open(allocator, NULL, EPOCH_CHURN);
        size = sizes[i];
        has_a_handle();
        sup_check_identities(allocator);
        slab_allocator_free(allocator);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(of_each_class), cmocka_unit_test(in_retained_units)};
    return cmocka_run_group_tests_name("object.unbarred", tests, start, stop);
}
