/*
 * Allocation and handles with the end of the epoch before each of their steps. alloc.c, free.c, object.c and span.c are
 * compiled once more, with a place to stop at before every lock and every access of a shared word, unless the thread
 * is inside of an operation or has a lock; the calls made there go through the library.
 */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include "errands.h"
#include "fixture.h"
#include "identities.h"

#include "api/runtime.h"
#include "base/base.h"
#include "cache/allocate.h"
#include "cache/cache.h"
#include "cache/free.h"
#include "diagnose/diagnose.h"
#include "epoch/epoch.h"
#include "memtools/memtools.h"
#include "object/find.h"
#include "object/object.h"
#include "observe/stacks.h"

#define SUP_OWN_STEP
#include "steps.h"

#undef ts_store_relaxed
#define ts_store_relaxed(p, v) (step(), atomic_store_explicit((p), (v), memory_order_relaxed))
#define ts_alloc_aligned stepped_alloc_aligned
#define ts_alloc_current stepped_alloc_current
#define ts_alloc_rolling stepped_alloc_rolling
#define ts_alloc_object stepped_alloc_object
#define ts_handle_new stepped_handle_new
#define ts_aligned_most stepped_aligned_most
#define ts_alloc stepped_alloc
#define ts_free stepped_free
#define ts_has_as_span stepped_has_as_span
#define ts_free_object stepped_free_object
#define ts_free_full stepped_free_full
#define ts_free_missed stepped_free_missed
#define ts_free_missed_of stepped_free_missed_of
#define ts_free_elsewhere stepped_free_elsewhere
#define ts_free_refused stepped_free_refused
#define ts_read_is_malloc stepped_read_is_malloc
#define ts_refusals stepped_refusals
#define ts_fast_give(bin, entry) (step(), (ts_fast_give)((bin), (entry)))
#define ts_take_bit(x, n) (step(), (ts_take_bit)((x), (n)))
#define ts_realloc stepped_realloc
#define ts_resize_own stepped_resize_own
#define ts_object_at stepped_object_at
#define ts_object_owner stepped_object_owner
#define ts_span_owner stepped_span_owner
#define ts_object_at_in_slab stepped_object_at_in_slab
#define ts_object_of_handle stepped_object_of_handle
#define ts_object_usable stepped_object_usable
#define ts_object_handle stepped_object_handle
#define ts_span_alloc stepped_span_alloc
#define ts_span_free stepped_span_free
#define ts_span_grow stepped_span_grow
#define ts_span_move stepped_span_move
#define ts_span_lock stepped_span_lock
#define ts_span_count stepped_span_count
#define ts_span_release_newer stepped_span_release_newer
#define ts_span_detach stepped_span_detach
#define ts_span_release_list stepped_span_release_list
#define ts_epoch_acquire(e) (step(), locks++, (ts_epoch_acquire)(e))
#define ts_epoch_release(e) ((ts_epoch_release)(e), locks--)
#define ts_epoch_find_locked(a, id) stepped_find_locked((a), (id))
#define ts_epoch_find_active(a, id) stepped_find_active((a), (id))
#define ts_foreign_drain_some(heap, most) (step(), (ts_foreign_drain_some)((heap), (most)))
#define ts_foreign_drain_closing(heap, unit) (step(), (ts_foreign_drain_closing)((heap), (unit)))
static unsigned locks;
static ts_epoch *stepped_find_locked(ts_allocator *of, EpochId id) {
    step();
    ts_epoch *epoch = (ts_epoch_find_locked)(of, id);
    locks += epoch != NULL;
    return epoch;
}
static ts_epoch *stepped_find_active(ts_allocator *of, EpochId id) {
    step();
    ts_epoch *epoch = (ts_epoch_find_active)(of, id);
    locks += epoch != NULL;
    return epoch;
}
extern _Atomic size_t ts_aligned_most;
bool ts_free(uintptr_t token, void *p, uint32_t generation);
bool ts_free_object(uintptr_t token, const ts_object *object);
bool ts_has_as_span(const ts_allocator *allocator, EpochId id, size_t size);
uintptr_t ts_object_owner(const void *p);
bool ts_object_at(uintptr_t token, const void *p, ts_object *out);
bool ts_object_at_in_slab(uintptr_t token, const void *p, ts_object *out);
size_t ts_object_usable(const ts_object *object);
SlabHandle ts_object_handle(uintptr_t token, const ts_object *object);
void *ts_span_alloc(ts_allocator *allocator, EpochId id, size_t size, size_t align, bool *zero, ts_span_note *note);
bool ts_span_free(ts_allocator *allocator, uint32_t unit, uint64_t word, uint32_t generation);
bool ts_span_grow(ts_allocator *allocator, uint32_t unit, uint64_t word, size_t size);
bool ts_span_move(ts_allocator *allocator, uint32_t unit, uint64_t word, uint32_t generation, void *to, size_t room);
uint64_t ts_span_count(ts_allocator *allocator, EpochId id);
void ts_span_release_list(ts_allocator *allocator, uint32_t first);
void ts_span_release_newer(ts_allocator *allocator, EpochId id, uint64_t count);
ts_epoch *ts_span_lock(ts_allocator *allocator, uint32_t unit, uint64_t word);
#define ts_heap_hold(heap) (before_hold(), (ts_heap_hold)(heap))
#define ts_heap_hold_of(block, held) (before_hold(), (ts_heap_hold_of)((block), (held)))
#define ts_care_freed(a, home, p, bytes) (before_care(), (ts_care_freed)((a), (home), (p), (bytes)))
#define ts_misuse_written(a, p, at, kind, bytes, id, freed) \
    (reports++, (void)(a), (void)(p), (void)(at), (void)(bytes), (void)(id), (void)(freed))
#define ts_misuse_written_free(a, at) (reports++, (void)(a), (void)(at))
static void before_hold(void);
static void before_care(void);
static unsigned reports;
#include "object/alloc.c"
#include "object/free.c"
#include "object/refill.c"
#include "object/resize.c"
#undef ts_heap_hold
#undef ts_heap_hold_of
#undef ts_care_freed
#include "diagnose/object.c"
#include "epoch/span.c"
#undef ts_misuse_written
#undef ts_misuse_written_free
#undef ts_alloc_object
#undef ts_handle_new
#undef ts_span_alloc
#undef ts_span_free
#undef ts_span_grow
#undef ts_span_lock
#undef ts_span_detach
#undef ts_span_release_list
#undef ts_epoch_acquire
#undef ts_epoch_release
#undef ts_epoch_find_locked
#undef ts_epoch_find_active
#undef ts_foreign_drain_some
#undef ts_foreign_drain_closing
#undef ts_alloc_aligned
#undef ts_alloc_current
#undef ts_alloc_rolling
#undef ts_alloc
#undef ts_free
#undef ts_has_as_span
#undef ts_fast_give
#undef ts_take_bit
#undef ts_realloc
#undef ts_object_at
#undef ts_object_at_in_slab
#undef ts_object_of_handle
#undef ts_object_usable
#undef ts_object_handle

static sup_stop at_step, at_hold;
static uint32_t stop_in_op; /* 0: outside of operations, 1: inside of them */

static void step(void) {
    if (locks == 0 && atomic_load(&ts_thread.in_op) == stop_in_op) sup_stop_here(&at_step);
}

static bool fills, filled_unheld;
static void before_hold(void) { sup_stop_here(&at_hold); }
static void before_care(void) {
    fills = true;
    if (ts_load_relaxed(&other_heap->lock.word) == TS_LOCK_FREE) {
        filled_unheld = true;
    }
}

static void arm(unsigned at, void (*fn)(void)) { sup_stop_arm(&at_step, at, fn); }
static bool disarm(void) { return sup_stop_disarm(&at_step); }

static ts_allocator *record;
static uintptr_t token;

static int start(void **state) {
    (void)state;
    allocator = slab_allocator_create();
    token = ts_token(allocator);
    record = ts_allocator_find(token);
    return record == NULL;
}

/* ---- the rolling epoch --------------------------------------------------------------------------------------- */

static void advance(void) { assert_int_not_equal(ts_epoch_advance(record, ts_token(allocator)), EPOCH_NONE); }

typedef void *in_current(void);
static void *rolling_small(void) { return stepped_alloc_rolling(token, 100); }
static void *current_aligned(void) { return stepped_alloc_current(token, 256, 100, false); }
static void *current_zero(void) { return stepped_alloc_current(token, 16, 9000, true); }
static void *current_span(void) { return stepped_alloc_current(token, 16, 100000, true); }
static void *current_far(void) { return stepped_alloc_current(token, 16, (size_t)33 << 20, false); }

/* Whenever the epoch moves on: no allocation fails, and the next object is of the new one. */
static void advanced_in_an_allocation(void **state) {
    static in_current *const kinds[] = {rolling_small, current_aligned, current_zero, current_span, current_far};
    (void)state;
    for (unsigned kind = 0; kind < sizeof kinds / sizeof *kinds; kind++) {
        bool stopped = true;
        for (unsigned at = 0; stopped; at++) {
            advance();
            arm(at, advance);
            errno = 7;
            void *first = kinds[kind]();
            stopped = disarm();
            assert_int_equal(errno, 7);
            void *next = slab_malloc(allocator, 100);
            assert_non_null(first);
            assert_non_null(next);
            ts_object object;
            assert_true(ts_object_at(token, next, &object));
            assert_int_equal(object.epoch, ts_epoch_current(record, ts_token(allocator)));
            assert_true(slab_free(allocator, first) && slab_free(allocator, next));
            sup_check_identities(allocator);
        }
    }
}

/* ---- an epoch that is closed or destroyed ---------------------------------------------------------------------- */

static EpochId epoch, other;
static void *taken[400];
static unsigned taken_count;
static unsigned flags;

static uint64_t live_after_the_end;

static void close_epoch(void) {
    (void)epoch_close(allocator, epoch);
    live_after_the_end = sup_live_objects(allocator);
}
static void destroy_epoch(void) {
    (void)epoch_destroy(allocator, epoch);
    live_after_the_end = sup_live_objects(allocator);
}

/* No memory is lost, and no object is made in an epoch that is over. */
static void ended_in_an_allocation(void **state) {
    void (*const ends[])(void) = {close_epoch, destroy_epoch};
    (void)state;
    for (unsigned i = 0; i < 8; i++) {
        size_t size = i & 4 ? 40000 : 100;
        bool stopped = true;
        flags = i & 1 ? EPOCH_SCOPE : EPOCH_CHURN;
        for (unsigned at = 0; stopped; at++) {
            epoch = epoch_open(allocator, NULL, flags);
            void *keeper = slab_malloc_epoch(allocator, 200, epoch); /* a close does not end it */
            arm(at, ends[i >> 1 & 1]);
            void *p = stepped_alloc(token, size, epoch);
            stopped = disarm();
            assert_true(p != NULL || stopped);
            if (stopped) {
                assert_int_equal(sup_live_objects(allocator), live_after_the_end); /* nothing is added to it */
            }
            if (epoch_state(allocator, epoch) == EPOCH_CLOSED) {
                assert_false(slab_owns(allocator, keeper));
                assert_false(slab_owns(allocator, p));
            } else {
                assert_true(slab_free(allocator, keeper));
                assert_int_equal(slab_free(allocator, p), true); /* NULL too */
            }
            (void)epoch_close(allocator, epoch);
            assert_int_equal(epoch_state(allocator, epoch), EPOCH_CLOSED);
            assert_int_equal(sup_live_objects(allocator), 0);
            sup_check_identities(allocator);
            sup_check_empty(allocator);
        }
    }
}

/* The round with a stop before its first step, then its second and so on, until it ends without; in epochs of both
   kinds. */
static void at_each_step(bool (*round)(unsigned at)) {
    for (flags = EPOCH_CHURN; flags <= EPOCH_SCOPE; flags++) {
        for (unsigned at = 0; round(at); at++) {
        }
    }
}

/* As at_each_step, with stops inside of operations, where another thread acts. */
static void at_each_step_inside(bool (*round)(unsigned at)) {
    begin();
    stop_in_op = 1;
    at_each_step(round);
    stop_in_op = 0;
    end();
}

static void destroy_elsewhere(void) { let(destroy_epoch); }

/* Another thread ends the epoch while this one is in the middle of an operation: it has to leave the block to this one,
   which may come upon it in that very operation. Nothing of the operation is left to the block's next epoch. */
static bool destroyed_inside_an_allocation_round(unsigned at) {
    other = epoch_open(allocator, NULL, flags);
    for (unsigned i = 0; i < 400; i++) { /* so there are retained units */
        SUP_CHECK(slab_malloc_epoch(allocator, 100, other) != NULL, "slab_malloc_epoch");
    }
    assert_true(epoch_destroy(allocator, other));
    epoch = epoch_open(allocator, NULL, flags);
    assert_non_null(slab_malloc_epoch(allocator, 200, epoch));
    arm(at, destroy_elsewhere);
    (void)stepped_alloc(token, 100, epoch);
    for (unsigned i = 0; at_step.fn && i < 200; i++) {
        (void)stepped_alloc(token, 100, epoch);
    }
    bool stopped = disarm();
    (void)epoch_destroy(allocator, epoch);
    assert_int_equal(sup_live_objects(allocator), 0);
    other = epoch_open(allocator, NULL, flags);
    for (unsigned i = 0; i < 400; i++) {
        taken[i] = slab_malloc_epoch(allocator, 100, other);
        assert_non_null(taken[i]);
        assert_true(slab_owns(allocator, taken[i]));
    }
    for (unsigned i = 0; i < 400; i++) {
        SUP_CHECK(slab_free(allocator, taken[i]), "object %u, step %u", i, at);
    }
    assert_true(epoch_destroy(allocator, other));
    sup_check_identities(allocator);
    return stopped;
}

static void destroyed_inside_an_allocation(void **state) {
    (void)state;
    at_each_step_inside(destroyed_inside_an_allocation_round);
}

/* A span grows where it is; it is freed, or its epoch ends, before any step of that: the units that it was to get go
   back. */
static void *growing, *grown_elsewhere;
static void free_growing(void) { SUP_CHECK(slab_free(allocator, growing), "slab_free"); }
/* Where it is, or at another place if the units behind it are those that the stopped call has got. */
static void grow_object(void) {
    grown_elsewhere = slab_realloc(allocator, growing, 180000);
    SUP_CHECK(grown_elsewhere != NULL, "slab_realloc");
}

static void grow_object_as_far(void) {
    grown_elsewhere = slab_realloc(allocator, growing, 120000);
    SUP_CHECK(grown_elsewhere != NULL, "slab_realloc");
}

static void ended_while_object_grows(void **state) {
    void (*const ends[])(void) = {free_growing, destroy_epoch, grow_object, grow_object_as_far};
    (void)state;
    for (unsigned i = 0; i < 8; i++) {
        bool stopped = true;
        unsigned grown = 0;
        flags = i & 1 ? EPOCH_SCOPE : EPOCH_CHURN;
        for (unsigned at = 0; stopped; at++) {
            (void)slab_trim(allocator);
            epoch = epoch_open(allocator, NULL, flags);
            growing = slab_malloc_epoch(allocator, 70000, epoch);
            grown_elsewhere = NULL;
            arm(at, ends[i >> 1]);
            void *p = stepped_realloc(token, growing, 16, 120000);
            stopped = disarm();
            if (p == growing && !stopped) {
                assert_int_equal(slab_usable_size(allocator, p), 131072);
                grown++;
            }
            /* Each of them at most once: the object, the stopped call's result, the other call's result. */
            uint64_t live = slab_owns(allocator, growing);
            live += p != growing && slab_owns(allocator, p);
            live += grown_elsewhere != growing && grown_elsewhere != p && slab_owns(allocator, grown_elsewhere);
            assert_int_equal(sup_live_objects(allocator), live);
            sup_check_identities(allocator);
            (void)epoch_destroy(allocator, epoch);
            assert_int_equal(sup_live_objects(allocator), 0);
            sup_check_identities(allocator);
            sup_check_empty(allocator);
        }
        assert_int_equal(grown, 1); /* the last time, without a stop */
    }
}

/* ---- handles -------------------------------------------------------------------------------------------------- */

static void *place;

static void destroy_and_take_the_place(void) {
    assert_true(epoch_destroy(allocator, epoch));
    for (taken_count = 0; taken_count < 400; taken_count++) {
        taken[taken_count] = slab_malloc_epoch(allocator, 100, other);
        if (taken[taken_count] == place) {
            return;
        }
    }
    fail();
}

/* A handle that is made while its object goes is none, or stale: never one of the next object. */
static bool destroyed_while_a_handle_is_made_round(unsigned at) {
    epoch = epoch_open(allocator, NULL, flags);
    other = epoch_open(allocator, NULL, flags);
    place = slab_malloc_epoch(allocator, 100, epoch);
    ts_object object;
    assert_true(ts_object_at(token, place, &object));
    arm(at, destroy_and_take_the_place);
    SlabHandle handle = stepped_object_handle(token, &object);
    bool stopped = disarm();
    if (stopped) {
        assert_true(slab_owns(allocator, place));
        assert_null(slab_handle_get(allocator, handle));
        assert_int_not_equal(slab_handle_of(allocator, place), handle);
    } else {
        assert_true(slab_handle_get(allocator, handle) == place);
        assert_true(epoch_destroy(allocator, epoch));
    }
    assert_true(epoch_destroy(allocator, other));
    /* The next round begins with a slab of which no handle is known. */
    (void)slab_trim(allocator);
    return stopped;
}

static void destroyed_while_a_handle_is_made(void **state) {
    (void)state;
    at_each_step(destroyed_while_a_handle_is_made_round);
}

/* An object is found whenever another thread makes the first handle of its slab. */
static void *neighbour;
static void handle_neighbour(void) { SUP_CHECK(slab_handle_of(allocator, neighbour) != SLAB_HANDLE_NONE, "a handle"); }
static void let_handle_neighbour(void) { let(handle_neighbour); }
static bool handle_made_in_a_look_round(unsigned at) {
    ts_object object, after;
    epoch = epoch_open(allocator, NULL, flags);
    void *p = slab_malloc_epoch(allocator, 100, epoch);
    neighbour = slab_malloc_epoch(allocator, 100, epoch);
    arm(at, let_handle_neighbour);
    bool found = stepped_object_at(token, p, &object);
    bool stopped = disarm();
    SUP_CHECK(found, "step %u of the look", at);
    assert_true(ts_object_at(token, p, &after));
    assert_int_equal(object.generation, after.generation);
    assert_true(epoch_destroy(allocator, epoch));
    return stopped;
}

/* The same before the object's own handle is made. */
static bool handle_made_in_an_allocation_round(unsigned at) {
    SlabHandle handle;
    epoch = epoch_open(allocator, NULL, flags);
    neighbour = slab_malloc_epoch(allocator, 100, epoch);
    arm(at, let_handle_neighbour);
    void *p = stepped_alloc_object(token, 100, epoch, &handle);
    bool stopped = disarm();
    SUP_CHECK(p && slab_handle_get(allocator, handle) == p, "step %u of the allocation", at);
    assert_true(epoch_destroy(allocator, epoch));
    return stopped;
}

static void handle_made_meanwhile(void **state) {
    (void)state;
    begin();
    at_each_step(handle_made_in_a_look_round);
    at_each_step(handle_made_in_an_allocation_round);
    end();
}

/* A free of an object that was looked at, whose epoch ends meanwhile: another thread's in its place lives. */
static void end_and_take_the_places(void) {
    SUP_CHECK(epoch_destroy(allocator, epoch), "epoch_destroy");
    (void)slab_trim(allocator);
    for (unsigned i = 0; i < 400; i++) taken[i] = slab_malloc_epoch(allocator, 100, other);
}
static void let_end_and_take(void) { let(end_and_take_the_places); }
static bool ended_in_an_exact_free_round(unsigned at) {
    ts_object object;
    epoch = epoch_open(allocator, NULL, flags);
    other = epoch_open(allocator, NULL, flags);
    assert_true(ts_object_at(token, slab_malloc_epoch(allocator, 100, epoch), &object));
    arm(at, let_end_and_take);
    bool freed = stepped_free_object(token, &object);
    bool stopped = disarm();
    assert_true(freed || stopped);
    for (unsigned i = 0; stopped && i < 400; i++)
        SUP_CHECK(slab_free(allocator, taken[i]), "object %u of the other thread, step %u", i, at);
    if (!stopped) assert_true(epoch_destroy(allocator, epoch));
    assert_true(epoch_destroy(allocator, other));
    (void)slab_trim(allocator);
    return stopped;
}

static void ended_in_an_exact_free(void **state) {
    (void)state;
    begin();
    at_each_step(ended_in_an_exact_free_round);
    end();
}

static EpochDomain *shared;
static SlabHandle handles[400];

static void reset_and_take_the_places(void) {
    assert_true(epoch_domain_reset(shared, SIZE_MAX));
    for (unsigned i = 0; i < 400; i++) {
        taken[i] = alloc_obj_epoch(allocator, 100, epoch, &handles[i]);
        assert_non_null(taken[i]);
    }
}

/* An object that a reset kills before its handle is made is not taken for the next one in its place, which is of the
   same epoch. */
static bool reset_before_the_handle_is_made_round(unsigned at) {
    SlabHandle handle;
    shared = epoch_domain_create_ex(allocator, NULL, flags | EPOCH_DOMAIN_SHARED);
    assert_non_null(shared);
    epoch = epoch_domain_epoch(shared);
    arm(at, reset_and_take_the_places);
    void *p = stepped_alloc_object(token, 100, epoch, &handle);
    bool stopped = disarm();
    assert_true(p != NULL || stopped);
    assert_int_equal(p != NULL, handle != SLAB_HANDLE_NONE);
    for (unsigned i = 0; stopped && i < 400; i++) {
        SUP_CHECK(handles[i] != handle, "the handle of another's object, step %u", at);
        SUP_CHECK(slab_handle_get(allocator, handles[i]) == taken[i], "step %u", at);
    }
    if (p && slab_handle_get(allocator, handle)) {
        assert_true(free_obj(allocator, handle));
    }
    for (unsigned i = 0; stopped && i < 400; i++) {
        SUP_CHECK(free_obj(allocator, handles[i]), "object %u, step %u", i, at);
    }
    epoch_domain_destroy(shared);
    (void)slab_trim(allocator);
    return stopped;
}

static void reset_before_the_handle_is_made(void **state) {
    (void)state;
    at_each_step(reset_before_the_handle_is_made_round);
}

/* ---- the last two objects of a closed slab ---------------------------------------------------------------------- */

static void *last_but_one, *last;
static void free_last(void) { SUP_CHECK(slab_free(allocator, last), "slab_free"); }
static void let_free_last(void) { let(free_last); }

/* The allocator's, or a tool's: then every free is a slow one. */
static bool has_care(void) { return ts_heap_share(ts_heap_mine(), record)->care != 0; }

static bool free_usual(void *p) { return stepped_free(token, p, TS_ANY_GENERATION); }
/* As slab_free does, after its fast paths. */
static bool free_closed(void *p) {
    ts_op_begin(&ts_thread);
    SUP_CHECK(ts_load_relaxed(&ts_thread.heap->revoked) == 0, "held by another thread");
    uint64_t entry = ts_entry_of(&ts_region.part[TS_NORMAL], p);
    uint64_t word = ts_load_relaxed(ts_unit_word((uint32_t)(entry >> TS_ENTRY_UNIT_SHIFT)));
    if (word != 0 && !(word & (TS_UNIT_ZOMBIE | TS_UNIT_SPAN | TS_UNIT_SCOPE)) && free_in_closing(token, entry, word)) {
        return true;
    }
    ts_op_end(&ts_thread);
    return false;
}
static bool free_at_once(void *p) { return free_closed(p) || free_usual(p); }
static bool (*free_own_one)(void *p);

/* The owner frees one and another thread the other at any step of it: the last of the two gives the slab back. */
static bool both_free_the_last_round(unsigned at) {
    epoch = epoch_open(allocator, NULL, flags);
    last_but_one = slab_malloc_epoch(allocator, 100, epoch);
    last = slab_malloc_epoch(allocator, 100, epoch);
    assert_true(epoch_close(allocator, epoch));
    arm(at, let_free_last);
    SUP_CHECK(free_own_one(last_but_one), "step %u", at);
    bool stopped = disarm();
    if (!stopped) {
        assert_true(slab_free(allocator, last));
    }
    SUP_CHECK(epoch_state(allocator, epoch) == EPOCH_CLOSED, "left behind at step %u", at);
    sup_check_identities(allocator);
    return stopped;
}

static void both_free_the_last(void **state) {
    (void)state;
    free_own_one = free_usual;
    for (flags = EPOCH_CHURN; flags <= EPOCH_SCOPE; flags++) {
        at_each_step_inside(both_free_the_last_round);
    }
}

static void both_free_the_last_at_once(void **state) {
    (void)state;
    if (has_care()) {
        skip();
    }
    free_own_one = free_at_once;
    flags = EPOCH_CHURN;
    at_each_step_inside(both_free_the_last_round);
}

/* A double free whose look at the word came before another thread emptied the slab: the place is another object's. */
static void closed_by_an_old_word(void **state) {
    (void)state;
    if (has_care()) {
        skip();
    }
    epoch = epoch_open(allocator, NULL, EPOCH_CHURN);
    void *stays = slab_malloc_epoch(allocator, 100, epoch), *next;
    uint64_t slab = ts_entry_of(&ts_region.part[TS_NORMAL], stays) >> TS_ENTRY_UNIT_SHIFT;
    uint64_t entry, word;
    do {
        place = slab_malloc_epoch(allocator, 100, epoch);
        entry = ts_entry_of(&ts_region.part[TS_NORMAL], place);
    } while (entry >> TS_ENTRY_UNIT_SHIFT == slab);
    word = ts_load_relaxed(ts_unit_word((uint32_t)(entry >> TS_ENTRY_UNIT_SHIFT)));
    assert_true(epoch_close(allocator, epoch));
    assert_true(slab_free(allocator, place));
    assert_int_not_equal(ts_load_relaxed(ts_unit_word((uint32_t)(entry >> TS_ENTRY_UNIT_SHIFT))), word);
    other = epoch_open(allocator, NULL, EPOCH_CHURN);
    do next = slab_malloc_epoch(allocator, 100, other);
    while (next != place);
    ts_op_begin(&ts_thread);
    bool freed = free_in_closing(token, entry, word);
    if (!freed) ts_op_end(&ts_thread);
    assert_false(freed);
    assert_true(slab_owns(allocator, next));
    sup_check_identities(allocator);
    assert_true(epoch_destroy(allocator, other));
    assert_true(epoch_destroy(allocator, epoch));
}

/* A refused object is left as it was: freed already, another's place, not closed, another allocator's, dead. */
static void closed_and_nothing_else(void **state) {
    (void)state;
    if (has_care()) {
        skip();
    }
    SlabAllocator *another = slab_allocator_create();
    char *theirs = slab_malloc(another, 100), *objects[3];
    EpochId theirs_in = epoch_current(another);
    epoch = epoch_open(allocator, NULL, EPOCH_CHURN);
    for (unsigned i = 0; i < 3; i++) {
        objects[i] = slab_malloc_epoch(allocator, 100, epoch);
    }
    assert_false(free_closed(objects[0]));
    assert_true(epoch_close(allocator, epoch));
    assert_true(epoch_close(another, theirs_in));
    assert_false(free_closed(theirs));
    assert_false(free_closed(objects[0] + 16));
    uint64_t live = sup_live_objects(allocator);
    assert_true(free_closed(objects[0]));
    assert_false(free_closed(objects[0]));
    assert_int_equal(sup_live_objects(allocator), live - 1);
    sup_check_identities(allocator);
    assert_true(epoch_destroy(allocator, epoch));
    assert_false(free_closed(objects[1]));
    assert_true(slab_free(another, theirs));
    slab_allocator_free(another);
}

/* ---- a free of an ended thread's object -------------------------------------------------------------------------- */

static void *left_behind;
static sup_actor adopter, successor;
static ts_heap *ended_heap;

static void leave_behind(void) { left_behind = slab_malloc_epoch(allocator, 100, epoch); }
static void adopt(void) {
    void *p = slab_malloc_epoch(allocator, 100, epoch);
    SUP_CHECK(p != NULL && slab_free(allocator, p), "an object");
}
/* The block goes to another thread, which ends too; the ended thread's heap gets a new thread, and that one adopts the
   block. */
static void adopt_twice(void) {
    sup_actor_begin(&adopter);
    sup_actor_let(&adopter, adopt);
    sup_actor_begin(&successor);
    SUP_CHECK(successor.heap == ended_heap, "the ended thread's heap is another's");
    sup_actor_end(&adopter);
    sup_actor_let(&successor, adopt);
}

/* The thread that frees goes by the heap of an ended thread, which has another thread and the same block when it
   comes: it frees there as it does with any thread that lives. */
static void freed_where_a_thread_lives_again(void **state) {
    (void)state;
    ts_object object;
    epoch = epoch_open(allocator, NULL, EPOCH_CHURN);
    begin();
    let(leave_behind);
    ended_heap = other_heap;
    end();
    assert_true(ts_object_at(token, left_behind, &object));
    assert_ptr_equal(ts_load_relaxed(&object.block->heap), ended_heap);
    sup_stop_arm(&at_hold, 0, adopt_twice);
    assert_true(stepped_free(token, left_behind, TS_ANY_GENERATION));
    assert_true(sup_stop_disarm(&at_hold));
    assert_ptr_equal(ts_load_relaxed(&object.block->heap), ended_heap);
    assert_true(ts_load_relaxed(ts_unit_word(object.unit)) & TS_UNIT_FOREIGN);
    assert_false(slab_owns(allocator, left_behind));
    sup_actor_end(&successor);
    assert_true(epoch_close(allocator, epoch));
    assert_int_equal(epoch_state(allocator, epoch), EPOCH_CLOSED);
    sup_check_identities(allocator);
}

static void leave_two_behind(void) {
    leave_behind();
    SUP_CHECK(slab_malloc_epoch(allocator, 100, other) != NULL, "an object in another block");
}
static void adopt_once(void) {
    sup_actor_begin(&adopter);
    sup_actor_let(&adopter, adopt);
}

/* The thread that frees goes by the heap of an ended thread, which has lost the block to a thread that lives, and keeps
   another one: the free leaves the block to that thread. */
static void freed_where_the_block_has_gone(void **state) {
    (void)state;
    ts_object object;
    epoch = epoch_open(allocator, NULL, EPOCH_CHURN);
    other = epoch_open(allocator, NULL, EPOCH_CHURN);
    begin();
    let(leave_two_behind);
    ended_heap = other_heap;
    end();
    assert_true(ts_object_at(token, left_behind, &object));
    sup_stop_arm(&at_hold, 0, adopt_once);
    assert_true(stepped_free(token, left_behind, TS_ANY_GENERATION));
    assert_true(sup_stop_disarm(&at_hold));
    assert_ptr_equal(ts_load_relaxed(&object.block->heap), adopter.heap);
    assert_int_equal(ts_load_relaxed(&ended_heap->state), TS_HEAP_ABANDONED);
    assert_true(ts_load_relaxed(ts_unit_word(object.unit)) & TS_UNIT_FOREIGN);
    assert_false(slab_owns(allocator, left_behind));
    sup_actor_end(&adopter);
    assert_true(epoch_close(allocator, epoch) && epoch_destroy(allocator, other));
    assert_int_equal(epoch_state(allocator, epoch), EPOCH_CLOSED);
    sup_check_identities(allocator);
}

/* ---- a free by another thread, with care ------------------------------------------------------------------------ */

static SlabAllocator *careful;
static unsigned char *its, *again;

static void make_its(void) { its = slab_malloc_epoch(careful, 100, epoch); }
static void end_epoch_and_take_the_place(void) {
    SUP_CHECK(epoch_destroy(careful, epoch), "epoch_destroy");
    for (unsigned i = 0; i < 400 && again != its; i++) {
        again = slab_malloc_epoch(careful, 100, other);
    }
    SUP_CHECK(again == its, "the place is not used again");
    memset(again, 0x11, 100);
}
static void let_end_epoch(void) { let(end_epoch_and_take_the_place); }

/* An object is filled while its owner's heap is held, and not if it died before. */
static void filled_by_another_thread(void **state) {
    (void)state;
    SlabOptions options = {.size = sizeof options, .poison_on_free = 1};
    careful = slab_allocator_create_ex(&options);
    for (flags = EPOCH_CHURN; flags <= EPOCH_SCOPE; flags++) {
        begin();
        epoch = epoch_open(careful, NULL, flags);
        other = epoch_open(careful, NULL, flags);
        let(make_its);
        fills = filled_unheld = false;
        assert_true(stepped_free(ts_token(careful), its, TS_ANY_GENERATION));
        assert_true(fills && !filled_unheld);
        assert_false(stepped_free(ts_token(careful), its, TS_ANY_GENERATION));
        let(make_its);
        again = NULL;
        sup_stop_arm(&at_hold, 0, let_end_epoch);
        ts_object object; /* by its handle: its address is another's then */
        assert_true(ts_object_at(ts_token(careful), its, &object));
        assert_int_not_equal(slab_handle_of(careful, its), SLAB_HANDLE_NONE);
        assert_false(stepped_free(ts_token(careful), its, object.generation));
        assert_true(sup_stop_disarm(&at_hold));
        for (unsigned i = 0; i < 100; i++) {
            assert_int_equal(again[i], 0x11);
        }
        assert_true(epoch_destroy(careful, other));
        end();
    }
    slab_allocator_free(careful);
}

static void end_epoch_and_write_to_the_places(void) {
    SUP_CHECK(epoch_destroy(careful, epoch), "epoch_destroy");
    for (unsigned i = 0; i < 400; i++) {
        taken[i] = slab_malloc_epoch(careful, 100, other);
        SUP_CHECK(taken[i] != NULL, "slab_malloc_epoch");
        memset(taken[i], 0x22, 100);
    }
}

/* Care looks at an object while nobody else can have its place: writes to the next object there are no misuse. */
static bool ended_before_care_has_looked_round(unsigned at) {
    epoch = epoch_open(careful, NULL, flags);
    other = epoch_open(careful, NULL, flags);
    reports = 0;
    arm(at, end_epoch_and_write_to_the_places);
    (void)stepped_alloc(ts_token(careful), 100, epoch);
    bool stopped = disarm();
    SUP_CHECK(reports == 0, "a correct program is accused, step %u", at);
    (void)epoch_destroy(careful, epoch);
    assert_true(epoch_destroy(careful, other));
    return stopped;
}

static void ended_before_care_has_looked(void **state) {
    (void)state;
    SlabOptions options = {.size = sizeof options, .poison_on_free = 1, .on_misuse = SLAB_MISUSE_REPORT};
    careful = slab_allocator_create_ex(&options);
    at_each_step(ended_before_care_has_looked_round);
    slab_allocator_free(careful);
}

static ts_os_table table;
static bool refuse_purge(void *at, size_t bytes) {
    (void)at;
    (void)bytes;
    return false;
}

/* A span that the system refuses to take back becomes slabs later: filled, as all that is free. */
static void kept_by_the_system(void **state) {
    (void)state;
    SlabOptions options = {.size = sizeof options,
                           .poison_on_free = 1,
                           .on_misuse = SLAB_MISUSE_REPORT,
                           .reclaim_policy = SLAB_RECLAIM_AT_ONCE};
    careful = slab_allocator_create_ex(&options);
    table = ts_os_native;
    table.purge = refuse_purge;
    ts_os = &table;
    epoch = epoch_open(careful, NULL, EPOCH_CHURN);
    char *span = slab_malloc_epoch(careful, 2 << 20, epoch);
    assert_non_null(span);
    memset(span, 7, 2 << 20);
    assert_true(slab_free(careful, span));
    reports = 0;
    bool same_place = false;
    for (unsigned i = 0; i < 20000; i++) {
        char *p = stepped_alloc(ts_token(careful), 100, epoch);
        assert_non_null(p);
        same_place |= p >= span && p < span + (2 << 20);
        memset(p, 1, 100);
    }
    ts_os = &ts_os_native;
    assert_true(same_place);
    SUP_CHECK(reports == 0, "%u reports of a correct program", reports);
    slab_allocator_free(careful);
}

#define WITH(test) cmocka_unit_test_setup_teardown(test, start, stop)

int main(void) {
    const struct CMUnitTest tests[] = {
        WITH(advanced_in_an_allocation),
        WITH(ended_in_an_allocation),
        WITH(ended_while_object_grows),
        WITH(destroyed_inside_an_allocation),
        WITH(destroyed_while_a_handle_is_made),
        WITH(both_free_the_last),
        WITH(both_free_the_last_at_once),
        WITH(closed_and_nothing_else),
        WITH(closed_by_an_old_word),
        WITH(freed_where_a_thread_lives_again),
        WITH(freed_where_the_block_has_gone),
        WITH(filled_by_another_thread),
        WITH(reset_before_the_handle_is_made),
        WITH(ended_before_care_has_looked),
        WITH(kept_by_the_system),
        WITH(handle_made_meanwhile),
        WITH(ended_in_an_exact_free),
    };
    return cmocka_run_group_tests_name("object.alloc_steps", tests, NULL, NULL);
}
