/*
 * A look of a thread at its own object, without an operation (ts_fast_look): cache/free.h is compiled once more, with a
 * place to stop at before each look at a shared word, where another thread ends the epoch and has the slab.
 */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include "check.h"
#include "unit.h"

#include "api/runtime.h"
#include "errands.h"
#include "supply/supply.h"

#include "steps.h"

#undef ts_is_other_relaxed_64
#define ts_is_other_relaxed_64(p, v) (step(), atomic_load_explicit((p), memory_order_relaxed) != (v))
#include "cache/cache.h"
#include "cache/free.h"

enum { SIZE = 64, OBJECTS = 600, TAKEN = 4000 };

static SlabAllocator *allocator, *others;
static EpochId epoch, others_epoch;
static void *objects[OBJECTS], *object;
static bool was_taken;

static void (*there)(void);
static void let_there(void) { let(there); }

/* Two slabs and more; the object is in the second. */
static void begin_epoch(void) {
    allocator = slab_allocator_create();
    others = slab_allocator_create();
    epoch = epoch_open(allocator, "looked at", EPOCH_CHURN);
    others_epoch = epoch_open(others, "others'", EPOCH_CHURN);
    for (unsigned i = 0; i < OBJECTS; i++) assert_non_null(objects[i] = slab_malloc_epoch(allocator, SIZE, epoch));
    object = objects[OBJECTS / 2];
    was_taken = false;
}

static void end_epoch(void) {
    slab_allocator_free(others);
    slab_allocator_free(allocator);
}

static size_t look(void) {
    ts_looked seen;
    return ts_fast_own_bytes(&ts_thread, ts_token(allocator), object, &seen);
}

/* ---- the other thread's part ------------------------------------------------------------------------------------- */

static void destroy(void) { SUP_CHECK(epoch_destroy(allocator, epoch), "epoch_destroy"); }

/* An object of its own, in another allocator, at the same place. */
static void take(void) {
    (void)slab_trim(allocator);
    for (unsigned i = 0; i < TAKEN && !was_taken; i++)
        was_taken = slab_malloc_epoch(others, SIZE, others_epoch) == object;
}
static void destroy_and_take(void) {
    destroy();
    take();
}
static void close_and_take(void) {
    SUP_CHECK(epoch_close(allocator, epoch), "epoch_close");
    take();
}

/* ---- tests ------------------------------------------------------------------------------------------------------- */

static void alone(void **state) {
    (void)state;
    begin_epoch();
    assert_int_equal(look(), SIZE);
    assert_true(slab_free(allocator, object));
    assert_int_equal(look(), 0);
    end_epoch();
}

static void after_the_end(void **state) {
    (void)state;
    begin_epoch();
    let(destroy);
    assert_int_equal(look(), 0);
    end_epoch();
}

/* Freed before, by this thread. At no moment is there an object of this epoch. */
static void taken_meanwhile(void (*fn)(void)) {
    unsigned taken = 0;
    for (unsigned at = 0;; at++) {
        begin_epoch();
        for (unsigned i = 0; i < OBJECTS; i++) assert_true(slab_free(allocator, objects[i]));
        there = fn;
        sup_stop_arm(&at_step, at, let_there);
        size_t bytes = look();
        bool all = !sup_stop_disarm(&at_step);
        SUP_CHECK(bytes == 0, "look %u: %zu bytes of another's object", at, bytes);
        taken += was_taken;
        end_epoch();
        if (all) {
            assert_true(at >= 2);
            assert_true(taken >= 1);
            return;
        }
    }
}

static void destroyed_meanwhile(void **state) {
    (void)state;
    taken_meanwhile(destroy_and_take);
}
static void closed_meanwhile(void **state) {
    (void)state;
    taken_meanwhile(close_and_take);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(alone),
        cmocka_unit_test(after_the_end),
        cmocka_unit_test(destroyed_meanwhile),
        cmocka_unit_test(closed_meanwhile),
    };
    return cmocka_run_group_tests_name("cache.look_steps", tests, sup_errands_start, sup_errands_stop);
}
