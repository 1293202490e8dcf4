/* A thread's first share of an allocator that another thread frees in between: the record is found, then given back. */
#include "unit.h"

#include "api/runtime.h"
#include "heap/allocator.h"

#include <errno.h>

static ts_allocator *record_of(SlabAllocator *allocator) { return ts_allocator_find(ts_token(allocator)); }

/* The use is over and the record is nobody's: it is not pinned back to life, so it is not given back twice. */
static void record_that_was_given_back(void **state) {
    (void)state;
    ts_heap *heap = ts_heap_mine();
    assert_non_null(heap);
    SlabAllocator *allocator = slab_allocator_create();
    ts_allocator *record = record_of(allocator);
    assert_non_null(record);
    slab_allocator_free(allocator);
    assert_int_equal(ts_load_relaxed(&record->pins), 0);
    errno = 0;
    assert_null(ts_heap_share(heap, record));
    assert_int_equal(errno, EINVAL);
    assert_int_equal(ts_load_relaxed(&record->pins), 0);
    ts_heap_idle(heap); /* drops the shares of allocators that have ended */

    SlabAllocator *one = slab_allocator_create(), *two = slab_allocator_create();
    assert_non_null(one);
    assert_non_null(two);
    assert_ptr_not_equal(one, two);
    assert_ptr_not_equal(record_of(one), record_of(two));
    slab_allocator_free(one);
    slab_allocator_free(two);
}

/* The record has its next use: its pins are as they were. */
static void record_in_its_next_use(void **state) {
    (void)state;
    assert_non_null(ts_heap_mine());
    SlabAllocator *allocator = slab_allocator_create();
    ts_allocator *record = record_of(allocator);
    assert_non_null(record);
    uintptr_t token = ts_token(allocator);
    slab_allocator_free(allocator);
    SlabAllocator *next = slab_allocator_create();
    assert_ptr_equal(record_of(next), record);
    uint64_t pins = ts_load_relaxed(&record->pins);
    assert_false(ts_allocator_pin_found(record, token));
    assert_int_equal(ts_load_relaxed(&record->pins), pins);
    assert_true(ts_allocator_pin_found(record, ts_token(next)));
    ts_allocator_unpin(record);
    slab_allocator_free(next);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(record_that_was_given_back),
        cmocka_unit_test(record_in_its_next_use),
    };
    return cmocka_run_group_tests_name("heap.share", tests, NULL, NULL);
}
