/*
 * Large objects that come and go between two looks of a snapshot: one that lives all the time is in it, with its bytes
 * and its units. snapshot.c is compiled once more, in place of the library's, with a place to stop at before every look
 * at a shared word.
 */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include "check.h"
#include "unit.h"

#include "errands.h"

#include "steps.h"

#include "observe/snapshot.c"

enum { KEPT = 300000, OTHER = 200000, GROWN = 240000 };

static SlabAllocator *allocator;
static EpochId epoch, second;
static void *object;

/* ---- acts at a step -------------------------------------------------------------------------------------------- */

static void *take(EpochId id) {
    void *p = slab_malloc_epoch(allocator, OTHER, id);
    SUP_CHECK(p != NULL, "slab_malloc_epoch");
    return p;
}
static void take_one(void) { object = take(epoch); }
static void give_one(void) { SUP_CHECK(slab_free(allocator, object), "slab_free"); }
static void take_and_give(void) {
    take_one();
    give_one();
}
static void take_and_end(void) {
    (void)take(second);
    SUP_CHECK(epoch_destroy(allocator, second), "epoch_destroy");
    second = epoch_open(allocator, NULL, EPOCH_CHURN);
}

static void by_one_thread(void) { let(take_and_give); }
static void from_this_to_the_other(void) {
    take_one();
    let(give_one);
}
static void from_the_other_to_this(void) {
    let(take_one);
    give_one();
}
static void ended_with_its_epoch(void) { let(take_and_end); }

static void *take_there(void *unused) {
    take_one();
    return unused;
}
static void *grow_there(void *unused) {
    SUP_CHECK(slab_realloc(allocator, object, GROWN) == object, "it has not grown where it is");
    return unused;
}

/* Its share is in no list before. */
static void from_a_new_thread(void) {
    sup_in_thread(take_there, NULL);
    give_one();
}

/* By a thread that has no share. */
static void grown(void) {
    take_one();
    sup_in_thread(grow_there, NULL);
    give_one();
}

/* ---- figures shown --------------------------------------------------------------------------------------------- */

typedef struct figures {
    uint64_t objects, bytes, committed;
} figures;

static figures of_allocator(void) {
    SlabClassStats s;
    assert_true(slab_stats_class(allocator, SLAB_CLASS_SPAN, &s));
    return (figures){s.live_objects, s.live_bytes, s.committed_bytes};
}
static figures of_epoch(void) {
    SlabEpochStats s;
    assert_true(slab_stats_epoch(allocator, SLAB_CLASS_SPAN, epoch, &s));
    return (figures){s.live_objects, s.live_bytes, s.slab_count * TS_UNIT_BYTES};
}

static void start(void) {
    allocator = slab_allocator_create();
    assert_non_null(allocator);
    epoch = epoch_open(allocator, NULL, EPOCH_CHURN);
    second = epoch_open(allocator, NULL, EPOCH_CHURN);
}

/* Whether there was such a step. In an allocator of which no other thread has a share yet. */
static bool look_meanwhile(figures (*look)(void), void (*act)(void), unsigned at) {
    start();
    assert_non_null(slab_malloc_epoch(allocator, KEPT, epoch));
    figures before = look();
    assert_int_equal(before.objects, 1);
    assert_true(before.bytes >= KEPT && before.committed >= before.bytes);
    sup_stop_arm(&at_step, at, act);
    figures meanwhile = look();
    bool met = sup_stop_disarm(&at_step);
    /* The other was perhaps counted when it came, and not yet when it went. */
    SUP_CHECK(meanwhile.objects >= before.objects && meanwhile.objects <= before.objects + 1, "step %u: %u objects", at,
              (unsigned)meanwhile.objects);
    SUP_CHECK(meanwhile.bytes >= before.bytes && meanwhile.committed >= before.committed,
              "step %u: %llu bytes in %llu, where there were always %llu in %llu", at,
              (unsigned long long)meanwhile.bytes, (unsigned long long)meanwhile.committed,
              (unsigned long long)before.bytes, (unsigned long long)before.committed);
    figures after = look();
    assert_int_equal(after.objects, before.objects);
    assert_int_equal(after.bytes, before.bytes);
    slab_allocator_free(allocator);
    return met;
}

static void at_each_step(figures (*look)(void)) {
    static void (*const acts[])(void) = {by_one_thread, from_this_to_the_other, from_the_other_to_this,
                                         grown,         ended_with_its_epoch,   from_a_new_thread};
    start();
    begin();
    slab_allocator_free(allocator);
    for (unsigned i = 0; i < sizeof acts / sizeof acts[0]; i++) {
        unsigned at = 0;
        while (look_meanwhile(look, acts[i], at)) at++;
        assert_true(at > 4);
    }
    end();
}

static void what_lives_is_in_the_allocators_figures(void **state) {
    (void)state;
    at_each_step(of_allocator);
}

static void what_lives_is_in_the_epochs_figures(void **state) {
    (void)state;
    at_each_step(of_epoch);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_lives_is_in_the_allocators_figures),
        cmocka_unit_test(what_lives_is_in_the_epochs_figures),
    };
    return cmocka_run_group_tests_name("observe.snapshot_steps", tests, NULL, NULL);
}
