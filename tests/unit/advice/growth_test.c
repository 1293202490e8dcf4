/* Growth, by a clock of the test: when it is reported, which grade it has, and when it is over (growth.c, room.c). */
#include "check.h"
#include "unit.h"

#include "api/runtime.h"
#include "observe/observe.h"
#include "os/os.h"
#include "own_clock.h"

#include <stdlib.h>
#include <string.h>

#define STEP (9 * SECOND / 4) /* an interval of the first ring */

static char text[65536];
static EpochId epoch;

static int start(void **state) {
    (void)state;
    own_clock_begin();
    allocator = slab_allocator_create();
    epoch = epoch_open(allocator, "cache", EPOCH_CHURN);
    return allocator == NULL;
}

static void hold(unsigned objects, unsigned freed) {
    for (unsigned i = 0; i < objects + freed; i++) {
        void *object = slab_malloc_epoch(allocator, 1000, epoch);
        assert_non_null(object);
        if (i < freed) assert_true(slab_free(allocator, object));
    }
}

static const char *doctor(void) {
    assert_true(slab_stats_doctor(allocator, text, sizeof text) > 0);
    return text;
}

static bool says(const char *words) { return strstr(doctor(), words) != NULL; }

/* So many intervals, of each of which the doctor is asked at its beginning and in its middle. */
static void go_on(unsigned steps, unsigned objects, unsigned freed) {
    for (unsigned i = 0; i < steps; i++) {
        (void)doctor();
        hold(objects, freed);
        now += STEP / 2;
        (void)doctor();
        now += STEP - STEP / 2;
    }
}

static void what_is_kept_is_a_leak(void **state) {
    (void)state;
    assert_true(says("nothing found yet, watched for 0 ms"));
    go_on(3, 100, 0);
    assert_true(says("nothing found yet, watched for 6 s"));
    go_on(1, 100, 0);
    assert_true(says("1. info: `cache` grows by 2.7 MB a minute, mostly 1024-byte objects\n"));
    assert_true(says("May be a cache that fills"));
    assert_false(says("nothing found"));
    go_on(6, 100, 0);
    assert_true(says("1. info: `cache` grows by"));
    go_on(1, 100, 0);
    assert_true(says("1. warning: `cache` leaks 2.7 MB a minute, mostly 1024-byte objects\n"));
    assert_true(says("1.0 MB live in 22 s; 1000 objects were allocated, 0 freed"));
    assert_true(says("TSLAB_SAMPLE_STACKS=64K names the lines"));
    (void)slab_stats_json(allocator, text, sizeof text);
    assert_non_null(strstr(text, "\"id\":\"leak\",\"severity\":\"warning\""));
    /* It stops. */
    go_on(2, 0, 0);
    assert_true(says("nothing found: "));
}

static void what_is_freed_may_be_more_work(void **state) {
    (void)state;
    go_on(30, 100, 900);
    assert_true(says("1. info: `cache` grows by"));
    assert_true(says("10000 objects were allocated, 9000 freed")); /* not of 90 % freed */
    go_on(75, 100, 900);
    assert_false(says("leaks"));
    /* After eleven intervals of 22.5 s the rate has stayed for so long that it is one all the same. */
    go_on(10, 100, 900);
    assert_true(says("1. warning: `cache` leaks 2.7 MB a minute"));
    assert_true(says("live in 225 s"));
}

/* Twenty seconds are not enough, wherever they begin in an interval. */
static void a_cache_that_fills(void **state) {
    (void)state;
    for (unsigned offset = 0; offset < 9; offset++) {
        go_on(2, 0, 0);
        now += offset * STEP / 9;
        for (uint64_t from = now; now < from + 20 * SECOND; now += SECOND / 4) {
            hold(20, 0);
            assert_false(says("leaks"));
        }
        for (uint64_t from = now; now < from + 10 * SECOND; now += SECOND / 4) assert_false(says("leaks"));
        assert_true(epoch_destroy(allocator, epoch));
        epoch = epoch_open(allocator, "cache", EPOCH_CHURN);
        go_on(12, 0, 0);
        assert_true(says("nothing found: "));
    }
}

/* In each interval it holds much for a while; the least of it counts. */
static void what_comes_and_goes(void **state) {
    (void)state;
    for (unsigned i = 0; i < 40; i++) {
        EpochId brief = epoch_open(allocator, "queue", EPOCH_CHURN);
        for (unsigned k = 0; k < 100 * i; k++) assert_non_null(slab_malloc_epoch(allocator, 1000, brief));
        (void)doctor();
        assert_true(epoch_destroy(allocator, brief));
        now += STEP / 2;
        assert_false(says("`queue` grows") || says("`queue` leaks"));
        /* And one that is not there at the beginning. */
        brief = epoch_open(allocator, "late", EPOCH_CHURN);
        for (unsigned k = 0; k < 100 * i; k++) assert_non_null(slab_malloc_epoch(allocator, 1000, brief));
        assert_false(says("`late` grows") || says("`late` leaks"));
        assert_true(epoch_destroy(allocator, brief));
        now += STEP - STEP / 2;
    }
}

static void small_growth_is_none(void **state) {
    (void)state;
    go_on(40, 1, 0); /* 40 kB in 90 s */
    assert_true(says("nothing found: "));
}

/* Domains that are never ended, and hold nothing. */
static void epochs_that_become_more(void **state) {
    (void)state;
    for (unsigned i = 0; i < 14; i++) {
        for (unsigned k = 0; k < 10; k++) assert_true(epoch_open(allocator, "request", EPOCH_SCOPE) != EPOCH_NONE);
        go_on(1, 0, 0);
    }
    assert_true(says("1. warning: open epochs of `request` become 266 more a minute\n"));
    assert_true(says("does not close or destroy its epoch"));
}

static void two_allocators_have_two_histories(void **state) {
    SlabAllocator *first = allocator;
    (void)state;
    go_on(6, 100, 0);
    assert_true(says("`cache` grows"));
    allocator = slab_allocator_create();
    assert_true(says("nothing found yet, watched for 0 ms"));
    slab_allocator_free(allocator);
    allocator = first;
    assert_true(says("`cache` grows"));
}

#define WITH_ALLOCATOR(test) cmocka_unit_test_setup_teardown(test, start, stop)

int main(void) {
    const struct CMUnitTest tests[] = {
        WITH_ALLOCATOR(what_is_kept_is_a_leak),
        WITH_ALLOCATOR(what_is_freed_may_be_more_work),
        WITH_ALLOCATOR(a_cache_that_fills),
        WITH_ALLOCATOR(what_comes_and_goes),
        WITH_ALLOCATOR(small_growth_is_none),
        WITH_ALLOCATOR(epochs_that_become_more),
        WITH_ALLOCATOR(two_allocators_have_two_histories),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
