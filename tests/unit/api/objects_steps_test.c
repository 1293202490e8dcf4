/*
 * An allocation in a scope whose thread stops between two of its steps, and the acts of another thread meanwhile.
 * objects.c is compiled once more, in place of the library's, with places to stop at: before the bracket, behind it,
 * before the object is made, before a new slab is the block's and behind it.
 */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include "errands.h"
#include "identities.h"
#include "proc.h"
#include "unit.h"

#include "base/base.h"
#include "bins.h"
#include "supply/supply.h"
enum place { NOWHERE, BEFORE_BRACKET, BEHIND_BRACKET, BEFORE_OBJECT, BEFORE_SLAB, BEHIND_SLAB };
static void stop_at(enum place here);
#undef TS_PROBE2
#define TS_PROBE2(name, a, b) ((void)(a), (void)(b), stop_at(BEFORE_SLAB)) /* slab__new, the only one here */
#include "cache/allocate.h"
#include "cache/cache.h"
#include "cache/free.h"
#include "diagnose/diagnose.h"

#include <errno.h>

#undef ts_is_relaxed_64
#define ts_is_relaxed_64(p, v) (stop_at(BEHIND_BRACKET), atomic_load_explicit((p), memory_order_relaxed) == (v))
#define ts_op_begin_bump(tls, bump) (stop_at(BEFORE_BRACKET), (ts_op_begin_bump)((tls), (bump)))
#define ts_fast_bump(block, bump, next) (stop_at(BEFORE_OBJECT), (ts_fast_bump)((block), (bump), (next)))
static char *next_slab(ts_scope_block *block, size_t bytes, const bool piece) {
    char *p = ts_scope_next(block, bytes, piece);
    if (p) {
        stop_at(BEHIND_SLAB);
    }
    return p;
}
#define ts_scope_next next_slab
#include "api/objects.c"

static _Atomic int armed, stopped_at;

/* The worker only. */
static void stop_at(enum place here) {
    if (ts_thread.heap != other_heap || atomic_load(&armed) != (int)here) {
        return;
    }
    atomic_store(&armed, NOWHERE);
    atomic_store(&stopped_at, here);
    while (atomic_load(&stopped_at) != NOWHERE) {
        ts_os->yield();
    }
}

static SlabAllocator *allocator;
static EpochDomain *domain;
static EpochId epoch;
static char *first, *object;
static int error;

static void enter_domain(void) {
    domain = epoch_domain_create(allocator);
    SUP_CHECK(domain && epoch_domain_enter(domain), "a domain");
    epoch = epoch_domain_epoch(domain);
    first = slab_alloc(4096);
    SUP_CHECK(first != NULL, "the first object");
}

static void allocate(void) {
    errno = 0;
    object = slab_alloc(4096);
    error = errno;
}

static void leave_domain(void) {
    SUP_CHECK(epoch_domain_exit(domain), "epoch_domain_exit");
    epoch_domain_destroy(domain);
}

/* Retained units for the next domain. */
static void warm_up(void) {
    enter_domain();
    for (unsigned i = 0; i < 8; i++) {
        allocate();
    }
    leave_domain();
}

static void wait_for_stop(enum place here) {
    for (unsigned ms = 0; atomic_load(&stopped_at) != (int)here; ms++) {
        SUP_CHECK(ms < 10000, "the allocation does not come to place %d", (int)here);
        sup_sleep_ms(1);
    }
}

/* Whether this build comes to that place at all: with care (AddressSanitizer, Valgrind) it goes other ways. */
static bool is_reached(enum place here) {
    return ts_thread.heap && !ts_allocator_find(ts_token(allocator))->care &&
           (here < BEFORE_SLAB || !ts_heap_share(ts_thread.heap, ts_allocator_find(ts_token(allocator)))->care);
}

#define NOTHING_RAN 77 /* for ctest */
static bool ran;

static bool begin_and_stop(enum place here, unsigned objects_before) {
    allocator = slab_allocator_create();
    (void)ts_heap_mine();
    if (!ts_os_native.barrier_all() || !is_reached(here)) {
        print_message("skipped: no barrier for all threads, or a build with care\n");
        slab_allocator_free(allocator);
        return false;
    }
    ran = true;
    begin();
    let(warm_up);
    let(enter_domain);
    for (unsigned i = 0; i < objects_before; i++) {
        let(allocate);
    }
    atomic_store(&armed, here);
    let_begin(allocate);
    wait_for_stop(here);
    return true;
}

/* To a place behind the present one. */
static void go_to(enum place here) {
    atomic_store(&armed, here);
    atomic_store(&stopped_at, NOWHERE);
    wait_for_stop(here);
}

static void go_on(void) {
    atomic_store(&stopped_at, NOWHERE);
    meet();
}

static void finish(void) {
    let(leave_domain);
    end();
    assert_int_equal(sup_live_objects(allocator), 0);
    sup_check_empty(allocator);
    slab_allocator_free(allocator);
}

static bool can_hold(void) {
    bool held = ts_heap_hold(other_heap);
    if (held) {
        ts_heap_drop(other_heap);
    }
    return held;
}

/* From the check to the end nobody holds the heap; and nobody waits for a thread that is done, though in_op is not
   0. */
static void held_before_and_behind_only(void **state) {
    (void)state;
    if (!begin_and_stop(BEFORE_BRACKET, 1)) {
        skip();
    }
    SUP_CHECK(can_hold(), "before the bracket");
    go_to(BEHIND_BRACKET);
    SUP_CHECK(!can_hold(), "held behind the bracket");
    go_to(BEFORE_OBJECT);
    SUP_CHECK(!can_hold(), "held while an object is made");
    go_on();
    assert_non_null(object);
    SUP_CHECK(ts_load_relaxed(&other_heap->tls->in_op) > TS_IN_OP, "the usual allocation stores what ends it");
    SUP_CHECK(can_hold(), "who sleeps after an allocation cannot be held");
    finish();
}

/* The slab stays the block's until its thread is out of it; then the object is one of a dead epoch. */
static void destroyed_while_an_object_is_made(void **state) {
    (void)state;
    if (!begin_and_stop(BEFORE_OBJECT, 1)) {
        skip();
    }
    ts_block *block = block_of(first);
    assert_true(epoch_destroy(allocator, epoch));
    SUP_CHECK(ts_load_relaxed(&block->slabs) == 1, "the slab was taken from under an allocation");
    go_on();
    assert_non_null(object);
    assert_false(slab_free(allocator, object));
    SUP_CHECK(slab_trim(allocator) > 0 && ts_load_relaxed(&block->slabs) == 0,
              "the slab stays with a thread that sleeps");
    let(allocate);
    assert_null(object);
    assert_int_equal(error, ESTALE);
    finish();
}

/* A word that was read before the bracket is believed only if the block is open behind it. */
static void destroyed_before_the_bracket(void **state) {
    (void)state;
    if (!begin_and_stop(BEFORE_BRACKET, 1)) {
        skip();
    }
    ts_block *block = block_of(first);
    assert_true(epoch_destroy(allocator, epoch));
    SUP_CHECK(ts_load_relaxed(&block->slabs) == 0, "the slab stays with a thread that has not begun");
    go_to(BEHIND_BRACKET);
    SUP_CHECK(can_hold(), "who has not begun with anything cannot be held");
    go_on();
    assert_null(object);
    assert_int_equal(error, ESTALE);
    SUP_CHECK(can_hold(), "after that");
    finish();
}

/* The next slab is taken in an operation of its own, which is not over as bump moves to it. */
static void held_behind_the_next_slab_only(void **state) {
    (void)state;
    if (!begin_and_stop(BEHIND_SLAB, 3)) { /* the fifth object of 4 KiB */
        skip();
    }
    SUP_CHECK(!can_hold(), "held while a slab is taken");
    go_on();
    assert_non_null(object);
    SUP_CHECK(can_hold(), "after that");
    finish();
}

/* A slab is counted among the new ones when it is its block's: one that is not yet is not taken for one that went
   back. */
static void new_slab_counted_behind_its_block(void **state) {
    (void)state;
    SlabClassStats stats, after;
    if (!begin_and_stop(BEFORE_SLAB, 3)) {
        skip();
    }
    assert_true(slab_stats_class(allocator, SLAB_ALL_CLASSES, &stats));
    go_on();
    assert_non_null(object);
    assert_true(slab_stats_class(allocator, SLAB_ALL_CLASSES, &after));
    assert_int_equal(after.new_slab_count, stats.new_slab_count + 1);
    assert_int_equal(after.empty_slab_recycled, stats.empty_slab_recycled);
    assert_int_equal(after.new_slab_count - after.empty_slab_recycled, 2); /* those of the domain */
    finish();
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(held_before_and_behind_only),       cmocka_unit_test(destroyed_while_an_object_is_made),
        cmocka_unit_test(destroyed_before_the_bracket),      cmocka_unit_test(held_behind_the_next_slab_only),
        cmocka_unit_test(new_slab_counted_behind_its_block),
    };
    int failed = cmocka_run_group_tests_name("api.objects_steps", tests, NULL, NULL);
    return failed == 0 && !ran ? NOTHING_RAN : failed;
}
