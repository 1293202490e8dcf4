/*
 * The first handle of a slab's use, made with its object: the epoch ends after the operation that took the object, and
 * another thread has an object in its place. That one stays as it is. handles.c is compiled once more, in place of the
 * library's, with a place to stop at behind each operation.
 */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include "errands.h"
#include "identities.h"
#include "unit.h"

#include "cache/cache.h"
#include "diagnose/diagnose.h"

#include <errno.h>

static void after_operation(void);
#define ts_op_end(tls) ((ts_op_end)(tls), after_operation())
#include "api/handles.c"
#undef ts_op_end

enum { SIZE = 64, MANY = 40000 };

static SlabAllocator *allocator;
static EpochId epoch, others_epoch;
static void *others[MANY];
static bool armed;

static void end_and_take(void) {
    SUP_CHECK(epoch_destroy(allocator, epoch), "epoch_destroy");
    (void)slab_trim(allocator);
    for (unsigned i = 0; i < MANY; i++)
        SUP_CHECK((others[i] = slab_malloc_epoch(allocator, SIZE, others_epoch)) != NULL, "an object");
}
static void after_operation(void) {
    if (!armed || ts_thread.heap == other_heap) return;
    armed = false;
    let(end_and_take);
}

static uint32_t unit_of(const void *p) {
    uint32_t unit;
    uint64_t entry;
    SUP_CHECK(ts_locate(p, &unit, &entry), "an object of the region");
    return unit;
}

static void place_of_another(void **state) {
    SlabHandle handle;
    unsigned there = 0;
    (void)state;
    allocator = slab_allocator_create();
    if (ts_allocator_find(ts_token(allocator))->care) {
        slab_allocator_free(allocator);
        skip();
    }
    epoch = epoch_open(allocator, NULL, EPOCH_CHURN);
    others_epoch = epoch_open(allocator, NULL, EPOCH_CHURN);
    uint32_t unit = unit_of(slab_malloc_epoch(allocator, SIZE, epoch));
    armed = true;
    errno = 0;
    assert_null(alloc_obj_epoch(allocator, SIZE, epoch, &handle));
    assert_int_equal(errno, ESTALE);
    assert_int_equal(handle, SLAB_HANDLE_NONE);
    assert_false(armed);
    for (unsigned i = 0; i < MANY; i++) {
        there += unit_of(others[i]) == unit;
        SUP_CHECK(slab_free(allocator, others[i]), "object %u of the other thread", i);
    }
    assert_true(there > 1);
    sup_check_identities(allocator);
    slab_allocator_free(allocator);
}

static void keeps_errno(void **state) {
    SlabHandle handle;
    (void)state;
    allocator = slab_allocator_create();
    epoch = epoch_open(allocator, NULL, EPOCH_CHURN);
    assert_non_null(slab_malloc_epoch(allocator, SIZE, epoch));
    errno = 7;
    void *p = alloc_obj_epoch(allocator, SIZE, epoch, &handle);
    assert_non_null(p);
    assert_ptr_equal(slab_handle_get(allocator, handle), p);
    assert_int_equal(errno, 7);
    slab_allocator_free(allocator);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(keeps_errno), cmocka_unit_test(place_of_another)};
    return cmocka_run_group_tests_name("api.first_handle", tests, sup_errands_start, sup_errands_stop);
}
