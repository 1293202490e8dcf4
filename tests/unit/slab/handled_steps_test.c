/*
 * Another thread asks for the first handle of a slab, and is stopped before it sets HANDLED, and once more before it
 * holds the owner's heap. Meanwhile the owner gives the slab up and takes it again, makes handles by its usual path,
 * and ends its epoch. These are stale for ever. Or the process forks there, and the child has a HANDLED slab of which
 * nothing says so but its UNIT word. slab.c and object.c are compiled once more, in place of the library's, with places
 * to stop at.
 */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include "errands.h"
#include "identities.h"
#include "in_child.h"
#include "unit.h"
#include "walk/check.h"

#include "cache/cache.h"
#include "slab/slab.h"

static void before_the_bit(void);
static void before_the_hold(void);
#undef ts_cas_seq
#define ts_cas_seq(p, e, v) \
    (before_the_bit(),      \
     atomic_compare_exchange_strong_explicit((p), (e), (v), memory_order_seq_cst, memory_order_acquire))
#include "slab/slab.c"
#define ts_heap_hold_of(block, held) (before_the_hold(), (ts_heap_hold_of)((block), (held)))
#include "diagnose/object.c"

#define SIZE 64

static SlabAllocator *allocator;
static EpochId epoch;
static void *object, *again;
static SlabHandle old;
static bool armed, forks;
static uint32_t unit;

static void allocate(void) { object = slab_malloc_epoch(allocator, SIZE, epoch); }
static void give_up_and_take_again(void) {
    SUP_CHECK(slab_free(allocator, object), "slab_free");
    slab_thread_idle();
    again = slab_malloc_epoch(allocator, SIZE, epoch);
}
static void make_and_end(void) {
    again = alloc_obj_epoch(allocator, SIZE, epoch, &old);
    SUP_CHECK(again && slab_handle_get(allocator, old) == again, "a handle by the usual path");
    SUP_CHECK(epoch_destroy(allocator, epoch), "epoch_destroy");
    epoch = epoch_open(allocator, NULL, EPOCH_CHURN);
}

static void walk(const char *when) {
    static ts_check check;
    SUP_CHECK(ts_check_all(&check, true), "%s: %s", when, check.why);
}
/* The thread that asks is not in this process. */
static void use_in_the_child(void *unused) {
    (void)unused;
    uint64_t entry;
    SUP_CHECK(ts_locate(object, &unit, &entry), "an object of the region");
    _Atomic uint16_t *counts = ts_generation_word(entry);
    walk("at the fork");
    SUP_CHECK(ts_load_relaxed(ts_unit_word(unit)) & TS_UNIT_HANDLED, "the slab is not HANDLED");
    SUP_CHECK(!ts_load_relaxed(&ts_slab_at(unit)->handled), "its record says so");
    old = slab_handle_of(allocator, object);
    SUP_CHECK(slab_handle_get(allocator, old) == object || errno == ESTALE, "slab_handle_of: %s", strerror(errno));
    SUP_CHECK(slab_free(allocator, object), "slab_free");
    SUP_CHECK(!slab_handle_get(allocator, old), "a stale handle");
    walk("after the free");
    SUP_CHECK(epoch_destroy(allocator, epoch), "epoch_destroy");
    SUP_CHECK(slab_trim(allocator) > 0, "slab_trim");
    SUP_CHECK(ts_region.run[unit].counted || ts_load_relaxed(counts) == 0, "generations that never go back");
    walk("at the end");
}
static void fork_there(void) { sup_in_child(use_in_the_child, NULL); }

static uint32_t unit_of(const void *p) {
    uint32_t at;
    uint64_t entry;
    SUP_CHECK(ts_locate(p, &at, &entry), "an object of the region");
    return at;
}

static void before_the_bit(void) {
    if (!armed || forks || ts_thread.heap == other_heap) return;
    let(give_up_and_take_again);
    assert_int_equal(unit_of(again), unit);
}
static void before_the_hold(void) {
    if (!armed) return;
    armed = false;
    assert_true(ts_load_relaxed(ts_unit_word(unit)) & TS_UNIT_HANDLED);
    if (forks) {
        let(fork_there);
        return;
    }
    let(make_and_end);
    assert_int_equal(unit_of(again), unit);
}

static void allocate_there(void) {
    for (unsigned i = 0; i < 2000; i++)
        if ((object = slab_malloc_epoch(allocator, SIZE, epoch)) == again) return;
}

static void ended_before_the_owner_is_held(void **state) {
    (void)state;
    allocator = slab_allocator_create();
    (void)ts_heap_mine();
    if (ts_allocator_find(ts_token(allocator))->care) {
        slab_allocator_free(allocator);
        skip();
    }
    begin();
    epoch = epoch_open(allocator, NULL, EPOCH_CHURN);
    let(allocate);
    unit = unit_of(object);
    armed = true;
    assert_int_equal(slab_handle_of(allocator, object), SLAB_HANDLE_NONE);
    assert_false(armed);
    assert_null(slab_handle_get(allocator, old));
    /* The next use of the slab begins without handles, and then gets some. */
    let(allocate_there);
    assert_ptr_equal(object, again);
    assert_null(slab_handle_get(allocator, old));
    SlabHandle handle = slab_handle_of(allocator, object);
    assert_ptr_equal(slab_handle_get(allocator, handle), object);
    assert_int_not_equal(handle, old);
    assert_null(slab_handle_get(allocator, old));
    end();
    sup_check_identities(allocator);
    slab_allocator_free(allocator);
}

/* The object is of the thread that asks, or of the one that forks. */
static void lost_before_the_owner_is_held(void **state) {
    (void)state;
    forks = true;
    for (unsigned own = 0; own < 2; own++) {
        allocator = slab_allocator_create();
        begin();
        epoch = epoch_open(allocator, NULL, EPOCH_CHURN);
        if (own)
            allocate();
        else
            let(allocate);
        unit = unit_of(object);
        armed = true;
        SlabHandle handle = slab_handle_of(allocator, object);
        assert_false(armed);
        assert_ptr_equal(slab_handle_get(allocator, handle), object);
        end();
        sup_check_identities(allocator);
        slab_allocator_free(allocator);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(ended_before_the_owner_is_held),
                                       cmocka_unit_test(lost_before_the_owner_is_held)};
    return cmocka_run_group_tests_name("slab.handled_steps", tests, NULL, NULL);
}
