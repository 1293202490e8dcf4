/*
 * A realloc that moves an object, the thread's own (ts_resize_own) or another's, while another thread breaks the
 * contract: frees the object, or ends its epoch and has an object of its own in its place. object/resize.c is compiled
 * once more, in place of the library's, with a place to stop at before each look at a shared word, and before the copy.
 * In every case nothing is freed twice, and nothing of others; but for the next object in the slot of another thread's
 * (resize.c, 6).
 */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include "check.h"
#include "errands.h"
#include "identities.h"
#include "unit.h"

#include "api/runtime.h"
#include "diagnose/diagnose.h"
#include "supply/supply.h"

#include <string.h>

#include "steps.h"

#undef ts_is_other_relaxed_64
#define ts_is_other_relaxed_64(p, v) (step(), atomic_load_explicit((p), memory_order_relaxed) != (v))
#define memcpy(to, from, bytes) (step(), (memcpy)((to), (from), (bytes)))
#include "object/resize.c"
#undef memcpy

enum { SIZE = 64, LARGER = 150, SMALLER = 10, LARGE = 500, OBJECTS = 600, TAKEN = 4000 };

static SlabAllocator *allocator;
static EpochId epoch, others_epoch;
static char *objects[OBJECTS], *object;
static bool was_taken, was_freed, ran, slowly;
static bool theirs; /* the other thread owns the objects */
static bool has_handles;
static unsigned taken, emptied, times_taken, times_moved;

static void (*there)(void);
static bool waits; /* for the end of this thread's operation, if it is inside of one */
static void let_there(void) {
    if (waits && ts_load_relaxed(&ts_thread.in_op) != 0)
        sup_stop_arm(&at_step, 0, let_there);
    else
        let(there);
}

static size_t object_bytes;
static void make_objects(void) {
    for (unsigned i = 0; i < OBJECTS; i++) {
        SUP_CHECK((objects[i] = slab_malloc_epoch(allocator, object_bytes, epoch)) != NULL, "an object");
        memset(objects[i], (int)i, object_bytes);
    }
}

/* Of a neighbour in its slab. */
static void make_handle(void) {
    SUP_CHECK(slab_handle_of(allocator, objects[OBJECTS / 2 + 1]) != SLAB_HANDLE_NONE, "a handle");
}

/* Two slabs and more; the object is in the second. An allocator that marks its objects takes no fast path. */
static void begin_epoch(size_t size) {
    SlabOptions options = {.size = sizeof options, .memory_tools = SLAB_TOOLS_OFF};
    allocator = slab_allocator_create_ex(&options);
    epoch = epoch_open(allocator, "moved", EPOCH_CHURN);
    others_epoch = epoch_open(allocator, "the other's", EPOCH_CHURN);
    object_bytes = size;
    if (theirs)
        let(make_objects);
    else
        make_objects();
    if (has_handles) make_handle();
    object = objects[OBJECTS / 2];
    was_taken = was_freed = false;
    taken = emptied = 0;
}

static void end_epoch(void) {
    sup_check_identities(allocator);
    slab_allocator_free(allocator);
}

/* Builds with care have no fast path. */
static bool is_fast(void) {
    ts_looked seen;
    return ts_fast_own_bytes(&ts_thread, ts_token(allocator), object, &seen) != 0;
}

/* As slab_realloc does it with an object that does not stay where it is. false: it is no object of the thread's own. */
static bool move_own(void *p, size_t size, void **q) {
    ts_looked seen;
    if (ts_fast_own_bytes(&ts_thread, ts_token(allocator), p, &seen) == 0) return false;
    *q = ts_resize_own(ts_token(allocator), p, size, seen.word);
    return *q != NULL;
}

static void check_copy(const char *q, size_t bytes) {
    for (size_t i = 0; i < bytes; i++) assert_int_equal((unsigned char)q[i], (unsigned char)(OBJECTS / 2));
}

/* ---- the other thread's part ------------------------------------------------------------------------------------- */

static void free_object(void) { was_freed = slab_free(allocator, object); }
static void close_epoch(void) { SUP_CHECK(epoch_close(allocator, epoch), "epoch_close"); }
/* It has an object of its own, in another epoch, at the same place. */
static void take_place(void) {
    (void)slab_trim(allocator);
    for (taken = 0; taken < TAKEN && !was_taken; taken++)
        was_taken = slab_malloc_epoch(allocator, SIZE, others_epoch) == object;
}
/* As an owner that frees it by mistake: the slot serves its next object. */
static void free_and_take_again(void) {
    free_object();
    for (taken = 0; taken < TAKEN && !was_taken; taken++)
        was_taken = slab_malloc_epoch(allocator, object_bytes, epoch) == object;
}
static void destroy_and_take(void) {
    SUP_CHECK(epoch_destroy(allocator, epoch), "epoch_destroy");
    take_place();
}
/* As destroy_and_take, in an epoch that is closed only: it gives the slab back with the last object there. */
static void empty_and_take(void) {
    close_epoch();
    for (unsigned i = 0; i < OBJECTS; i++)
        if (objects[i] != object && ts_slab_start(objects[i]) == ts_slab_start(object))
            emptied += slab_free(allocator, objects[i]);
    free_object();
    take_place();
}

/* ---- tests
   ----------------------------------------------------------------------------------------------------------- */

static void alone(void **state) {
    (void)state;
    begin_epoch(SIZE);
    void *q = NULL;
    if (is_fast()) {
        ts_object there;
        assert_true(move_own(object, LARGER, &q));
        assert_true(q && q != object);
        assert_int_equal(slab_usable_size(allocator, object), 0);
        assert_true(ts_object_at(ts_token(allocator), q, &there) && there.epoch == epoch);
        check_copy(q, SIZE);
        assert_true(move_own(q, SMALLER, &q));
        check_copy(q, SMALLER);
        assert_true(slab_free(allocator, q));
        assert_int_equal(sup_live_objects(allocator), OBJECTS - 1);
        assert_false(move_own(object, LARGER, &q)); /* dead */
        assert_int_equal(sup_live_objects(allocator), OBJECTS - 1);
    }
    end_epoch();
}

/* At each step; the live objects that there are afterwards, by whether it has moved. */
static void while_other(void (*fn)(void), size_t size, size_t wanted, void (*judge)(bool moved, void *q)) {
    for (unsigned at = 0;; at++) {
        begin_epoch(size);
        if (!slowly && !is_fast()) {
            end_epoch();
            return;
        }
        void *q = NULL;
        ran = true;
        there = fn;
        sup_stop_arm(&at_step, at, let_there);
        bool moved;
        if (slowly)
            moved = (q = ts_realloc(ts_token(allocator), object, 16, wanted)) != NULL;
        else
            moved = move_own(object, wanted, &q);
        bool all = !sup_stop_disarm(&at_step);
        if (!all) judge(moved, q);
        end_epoch();
        if (all) {
            assert_true(at >= (slowly ? 2 : 6));
            return;
        }
    }
}

/* One of two frees of it is refused, so that it dies once. */
static void freed(bool moved, void *q) {
    SUP_CHECK(was_freed || moved, "it is neither freed nor moved");
    if (moved) check_copy(q, SMALLER);
    assert_int_equal(sup_live_objects(allocator), moved ? OBJECTS : OBJECTS - 1);
    assert_int_equal(slab_usable_size(allocator, object), 0);
}
static void freed_meanwhile(void **state) {
    (void)state;
    while_other(free_object, SIZE, LARGER, freed);
    while_other(free_object, LARGE, SMALLER, freed);
}

static void closed(bool moved, void *q) {
    assert_int_equal(sup_live_objects(allocator), OBJECTS);
    check_copy(moved ? q : object, SIZE);
    assert_int_equal(slab_usable_size(allocator, object) == 0, moved && q != object);
}
static void closed_meanwhile(void **state) {
    (void)state;
    while_other(close_epoch, SIZE, LARGER, closed);
}

static void handled(bool moved, void *q) {
    times_moved += moved; /* else it was made before the look: a slab with handles has no fast path */
    SUP_CHECK(q != object && slab_owns(allocator, object) == !moved, "it is moved, and freed");
    assert_int_equal(sup_live_objects(allocator), OBJECTS);
}
static void handle_made_meanwhile(void **state) {
    (void)state;
    times_moved = 0;
    waits = true;
    while_other(make_handle, SIZE, LARGER, handled);
    while_other(make_handle, LARGE, SMALLER, handled);
    waits = false;
    if (ran) assert_true(times_moved > 4);
}

/* Where it lay there is an object of the other thread by now, which lives. */
static void destroyed(bool moved, void *q) {
    (void)moved, (void)q;
    times_taken += was_taken;
    assert_int_equal(sup_live_objects(allocator), taken);
    SUP_CHECK(!was_taken || slab_usable_size(allocator, object) >= SIZE, "another's object was freed");
}
static void destroyed_meanwhile(void **state) {
    (void)state;
    times_taken = 0;
    while_other(destroy_and_take, SIZE, LARGER, destroyed);
    while_other(destroy_and_take, LARGE, SMALLER, destroyed);
    if (ran) assert_true(times_taken > 0);
}

static void emptied_meanwhile_is(bool moved, void *q) {
    (void)q;
    times_taken += was_taken;
    SUP_CHECK(was_freed || moved, "it is neither freed nor moved");
    assert_int_equal(sup_live_objects(allocator), taken + OBJECTS - emptied - 1 + moved);
    SUP_CHECK(!was_taken || slab_usable_size(allocator, object) >= SIZE, "another's object was freed");
}
static void emptied_meanwhile(void **state) {
    (void)state;
    times_taken = 0;
    while_other(empty_and_take, SIZE, LARGER, emptied_meanwhile_is);
    if (ran) assert_true(times_taken > 0);
}

/* It is the last object of its slab. The bin has another empty one, so the slab leaves it, and serves the new object:
   that one lives. */
static void in_its_own_place(void **state) {
    enum { SLAB = TS_UNIT_BYTES / SIZE };
    static char *all[3 * SLAB];
    unsigned times = 0;
    bool more = true;
    (void)state;
    for (unsigned at = 0; more; at++) {
        void *q = NULL;
        allocator = slab_allocator_create();
        epoch = epoch_open(allocator, "moved", EPOCH_CHURN);
        for (unsigned i = 0; i < 3 * SLAB; i++) assert_non_null(all[i] = slab_malloc_epoch(allocator, SIZE, epoch));
        object = all[SLAB];
        ran = is_fast();
        for (unsigned i = 0; i < 3 * SLAB; i++) /* those of the first slab fill the magazine */
            if (all[i] != object) assert_true(slab_free(allocator, all[i]));
        there = free_object;
        sup_stop_arm(&at_step, at, let_there);
        bool moved = ran && move_own(object, LARGER, &q);
        more = sup_stop_disarm(&at_step);
        times += moved && q == object;
        if (moved) SUP_CHECK(slab_usable_size(allocator, q) >= LARGER, "step %u: the new object was freed", at);
        if (ran) assert_int_equal(sup_live_objects(allocator), moved);
        end_epoch();
    }
    if (ran) assert_true(times > 0);
}

/* The slot that another thread has freed serves the copy: that lives. */
static void copied_to_its_own_place(void **state) {
    enum { ALIGNED = 512, SLAB = TS_UNIT_BYTES / ALIGNED, MORE = (SLAB - OBJECTS % SLAB) % SLAB };
    unsigned times = 0;
    bool more = true;
    (void)state;
    for (unsigned at = 0; more; at++) {
        begin_epoch(ALIGNED);
        for (unsigned i = 0; i < MORE; i++) assert_non_null(slab_malloc_epoch(allocator, ALIGNED, epoch));
        there = free_object;
        sup_stop_arm(&at_step, at, let_there);
        char *q = ts_realloc(ts_token(allocator), object, ALIGNED, ALIGNED / 4);
        more = sup_stop_disarm(&at_step);
        times += q == object && was_freed;
        if (q) SUP_CHECK(slab_usable_size(allocator, q) >= ALIGNED / 4, "step %u: the new object was freed", at);
        assert_int_equal(sup_live_objects(allocator), OBJECTS + MORE - !q);
        end_epoch();
    }
    assert_true(times > 0);
}

/* Each smaller size that does not stay is of another class: resize.c, 2. */
static void of_another_class(void **state) {
    (void)state;
    for (unsigned cls = 0; cls < TS_CLASSES; cls++) {
        size_t bytes = ts_class_bytes[cls];
        for (size_t size = 0; size <= bytes; size++)
            if (!ts_realloc_stays(bytes, size)) assert_true(ts_class_aligned(size, 16) < cls);
    }
}

/* As of an object that is not of the thread's own open block. */
static void off_the_fast_path(void **state) {
    slowly = true;
    freed_meanwhile(state);
    closed_meanwhile(state);
    handle_made_meanwhile(state);
    destroyed_meanwhile(state);
    emptied_meanwhile(state);
    slowly = false;
}

/* All that live are known: the rest of the objects, those of the owner, and the new one. Where the slab has handles the
   owner keeps them all. */
static void taken_again(bool moved, void *q) {
    SUP_CHECK(was_freed && was_taken, "the owner has allocated the slot anew");
    bool kept = slab_owns(allocator, object);
    times_taken++;
    SUP_CHECK(kept || !has_handles, "another's object was freed");
    if (moved) SUP_CHECK(slab_owns(allocator, q) && q != object, "the new object");
    assert_int_equal(sup_live_objects(allocator), OBJECTS - 1 + (taken - 1) + moved + kept);
    SUP_CHECK(slab_free(allocator, object) == kept, "it is freed once");
}

static void of_another_thread(void **state) {
    theirs = true;
    off_the_fast_path(state);
    slowly = true;
    times_taken = 0;
    while_other(free_and_take_again, SIZE, LARGER, taken_again);
    while_other(free_and_take_again, LARGE, SMALLER, taken_again);
    assert_true(times_taken > 0);
    has_handles = true;
    while_other(free_and_take_again, SIZE, LARGER, taken_again);
    while_other(free_and_take_again, LARGE, SMALLER, taken_again);
    has_handles = false;
    slowly = theirs = false;
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(alone),
        cmocka_unit_test(freed_meanwhile),
        cmocka_unit_test(closed_meanwhile),
        cmocka_unit_test(handle_made_meanwhile),
        cmocka_unit_test(destroyed_meanwhile),
        cmocka_unit_test(emptied_meanwhile),
        cmocka_unit_test(in_its_own_place),
        cmocka_unit_test(off_the_fast_path),
        cmocka_unit_test(copied_to_its_own_place),
        cmocka_unit_test(of_another_class),
        cmocka_unit_test(of_another_thread),
    };
    return cmocka_run_group_tests_name("object.resize_steps", tests, sup_errands_start, sup_errands_stop);
}
