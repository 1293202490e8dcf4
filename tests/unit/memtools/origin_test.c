/* Where objects came from and where their lifetime ended (origin.h), with and without AddressSanitizer. */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include "check.h"
#include "proc.h"
#include "unit.h"

#include "memtools/origin.h"
#include "os/os.h"
#include "region/region.h"

#include <errno.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#define APART __attribute__((noinline))
#define STAY __asm__ volatile("" ::: "memory")

enum { UNIT = 16384 };
static char *base; /* of units that no allocator has */

APART static void take_here(void) {
    ts_origin_record();
    STAY;
}
APART static void take_there(void) {
    STAY;
    ts_origin_record();
    STAY;
}

/* Both are short. */
static bool is_in(const void *address, void (*function)(void)) {
    return (uintptr_t)address - (uintptr_t)function < 400;
}

/* Some systems have none to give (musl). */
static bool has_stacks(void) {
    void *frame[4];
    return ts_os_stack(frame, 4) > 1;
}

static void *no_reserve(size_t bytes) {
    (void)bytes;
    return NULL;
}
static bool no_commit(void *at, size_t bytes) {
    (void)at, (void)bytes;
    return false;
}

static int begin(void **state) {
    *state = slab_allocator_create();
    base = ts_region.part[TS_NORMAL].base + (size_t)(ts_region.part[TS_NORMAL].units - 400) * UNIT;
    return *state == NULL;
}

/* Before it is started, nothing is kept and nothing breaks; the system may refuse the room. */
static void nothing_where_nobody_listens(void **state) {
    (void)state;
    ts_origin origin;
    if (ts_origin_is_kept) skip();
    ts_origin_record();
    ts_origin_record_end(77);
    ts_origin_born(base, 10, 16);
    ts_origin_resized(base, 12);
    ts_origin_ended(base);
    ts_origin_ended_with(base, UNIT, 77);
    assert_false(ts_origin_find(base, &origin));
    assert_false(ts_origin_find_behind(base, 64, &origin));
    const ts_os_table *native = ts_os;
    ts_os_table refusing = *ts_os;
    for (int i = 0; i < 2; i++) {
        refusing.reserve = i == 0 ? no_reserve : native->reserve;
        refusing.commit = no_commit;
        ts_os = &refusing;
        ts_origin_start();
        ts_os = native;
        assert_false(ts_origin_is_kept);
    }
    ts_os_stack_prepare();
    ts_origin_start();
    if (SUP_EMULATED && !ts_origin_is_kept) {
        print_message("skipped: the emulator's address space has no room for it\n");
        exit(77);
    }
    assert_true(ts_origin_is_kept);
}

static void born_and_ended(void **state) {
    (void)state;
    char *p = base + 640;
    ts_origin origin;
    ts_origin_call call;
    if (!has_stacks()) skip();
    take_here();
    ts_origin_born(p, 61, 64);
    for (int at = 0; at < 64; at++) {
        assert_true(ts_origin_find(p + at, &origin));
        assert_ptr_equal(origin.start, p);
        assert_int_equal(origin.size, 61);
        assert_false(origin.ended);
        assert_int_equal(origin.ended_in, 0);
    }
    take_there();
    ts_origin_ended(p);
    assert_true(ts_origin_find(p + 8, &origin));
    assert_true(origin.ended);
    assert_int_equal(origin.size, 61);
    assert_int_not_equal(origin.born_in, origin.ended_in);
    assert_true(ts_origin_call_of(origin.born_in, &call));
    assert_int_equal(call.thread, ts_os_thread_number());
    assert_true(call.frame_count > 1);
    assert_true(is_in(call.frame[0], take_here));
    /* A second end is none. */
    uint64_t first = origin.ended_in;
    take_here();
    ts_origin_ended(p);
    assert_true(ts_origin_find(p, &origin));
    assert_int_equal(origin.ended_in, first);
}

static void equal_stacks_are_one(void **state) {
    (void)state;
    ts_origin origin[3];
    if (!has_stacks()) skip();
    for (volatile int i = 0; i < 3; i++) { /* not unrolled */
        if (i < 2)
            take_here();
        else
            take_there();
        ts_origin_born(base + 1024 + i * 16, 16, 16);
        assert_true(ts_origin_find(base + 1024 + i * 16, &origin[i]));
    }
    assert_int_equal(ts_origin_stack_of(origin[0].born_in), ts_origin_stack_of(origin[1].born_in));
    assert_int_not_equal(ts_origin_stack_of(origin[0].born_in), ts_origin_stack_of(origin[2].born_in));
}

static void errno_is_kept(void **state) {
    (void)state;
    errno = EXDEV;
    take_here();
    ts_origin_record_end(4711);
    assert_int_equal(errno, EXDEV);
}

static void a_new_object_forgets_those_in_its_place(void **state) {
    (void)state;
    char *p = base + 2048;
    ts_origin origin;
    for (int i = 0; i < 8; i++) ts_origin_born(p + i * 16, 16, 16);
    ts_origin_born(p, 60, 64);
    assert_true(ts_origin_find(p + 40, &origin));
    assert_ptr_equal(origin.start, p);
    assert_true(ts_origin_find(p + 64, &origin));
    assert_ptr_equal(origin.start, p + 64);
    assert_true(ts_origin_find_behind(p, 64, &origin));
    assert_ptr_equal(origin.start, p + 64);
    assert_false(ts_origin_find_behind(p, 48, &origin));
}

static void resized_in_place(void **state) {
    (void)state;
    char *p = base + 4096;
    ts_origin before, after;
    take_here();
    ts_origin_born(p, 20, 64);
    assert_true(ts_origin_find(p, &before));
    take_there();
    ts_origin_resized(p, 50);
    assert_true(ts_origin_find(p, &after));
    assert_int_equal(after.size, 50);
    assert_int_equal(after.born_in, before.born_in);
}

static void sizes_of_all_spans(void **state) {
    (void)state;
    ts_origin origin;
    for (unsigned bits = 0; bits < 40; bits++) {
        uint64_t size = ((uint64_t)1 << bits) + bits;
        ts_origin_born(base, size, UNIT);
        assert_true(ts_origin_find(base, &origin));
        assert_int_equal(origin.size, size);
        ts_origin_ended(base);
        assert_true(ts_origin_find(base, &origin));
        assert_int_equal(origin.size, size);
        assert_true(origin.ended);
    }
}

/* Found in each of its units; earlier notes on them are forgotten, also where pages of notes are given back. */
static void spans(void **state) {
    (void)state;
    enum { UNITS = 300 };
    ts_origin origin;
    for (int i = 0; i < UNITS; i++) ts_origin_born(base + i * UNIT + 160 + i * 16, 16, 16);
    ts_origin_born(base, (uint64_t)UNITS * UNIT - 100, (uint64_t)UNITS * UNIT);
    for (int i = 0; i < UNITS; i++) {
        assert_true(ts_origin_find(base + i * UNIT + 9000, &origin));
        assert_ptr_equal(origin.start, base);
    }
    assert_false(ts_origin_find_behind(base, UNITS * UNIT - 16, &origin));
    ts_origin_born(base + UNITS * UNIT, 16, 16);
    assert_true(ts_origin_find(base + UNITS * UNIT + 20, &origin));
    assert_ptr_equal(origin.start, base + UNITS * UNIT);
}

static void *empty_later(void *at) {
    take_there();
    ts_origin_ended_with(at, UNIT, 4000);
    ts_origin_ended_with((char *)at + UNIT, UNIT, 4001);
    return NULL;
}

/* An epoch has ended where it was ended, whichever thread empties its slabs. */
static void ended_with_its_epoch(void **state) {
    (void)state;
    ts_origin origin[3];
    ts_origin_call call;
    if (!has_stacks()) skip();
    take_here();
    ts_origin_born(base, 16, 16);
    ts_origin_born(base + 64, 16, 16);
    ts_origin_ended(base + 64);
    ts_origin_born(base + UNIT, 16, 16);
    ts_origin_record_end(4000);
    sup_in_thread(empty_later, base);
    assert_true(ts_origin_find(base, &origin[0]));
    assert_true(ts_origin_find(base + 64, &origin[1]));
    assert_true(ts_origin_find(base + UNIT, &origin[2]));
    assert_true(origin[0].ended && origin[1].ended && origin[2].ended);
    assert_int_equal(origin[1].ended_in, origin[1].born_in); /* freed before, in the call that made it */
    assert_true(ts_origin_call_of(origin[0].ended_in, &call));
    assert_int_equal(call.thread, ts_os_thread_number());
    /* Of an epoch whose end nobody has noted: in the call that empties it. */
    assert_true(ts_origin_call_of(origin[2].ended_in, &call));
    assert_int_not_equal(call.thread, ts_os_thread_number());
}

static void see(void *arg, const ts_origin *origin) {
    if (origin->start >= base && origin->start < base + UNIT) (*(int *)arg)++;
}

static void only_what_was_ever_handed_out_is_walked(void **state) {
    int seen = 0;
    (void)state;
    ts_origin_walk(see, &seen);
    assert_int_equal(seen, 0);
}

/* Threads at once keep the same stacks, and new ones. */
static void *keeps_stacks(void *at) {
    for (int i = 0; i < 2000; i++) {
        if (i % 2)
            take_here();
        else
            take_there();
        ts_origin_born((char *)at + i % 1000 * 16, 16, 16);
    }
    return NULL;
}

static void threads_at_once(void **state) {
    (void)state;
    enum { THREADS = 4 };
    pthread_t thread[THREADS];
    if (!has_stacks()) skip();
    for (int i = 0; i < THREADS; i++)
        assert_int_equal(pthread_create(&thread[i], NULL, keeps_stacks, base + i * UNIT), 0);
    for (int i = 0; i < THREADS; i++) assert_int_equal(pthread_join(thread[i], NULL), 0);
    for (int i = 0; i < THREADS * UNIT; i += UNIT)
        for (int k = 0; k < 1000; k++) {
            ts_origin origin;
            ts_origin_call call;
            assert_true(ts_origin_find(base + i + k * 16, &origin));
            assert_true(ts_origin_call_of(origin.born_in, &call));
            assert_true(call.frame_count > 1);
            assert_true(is_in(call.frame[0], k % 2 ? take_here : take_there));
        }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(nothing_where_nobody_listens),
        cmocka_unit_test(born_and_ended),
        cmocka_unit_test(equal_stacks_are_one),
        cmocka_unit_test(errno_is_kept),
        cmocka_unit_test(a_new_object_forgets_those_in_its_place),
        cmocka_unit_test(resized_in_place),
        cmocka_unit_test(sizes_of_all_spans),
        cmocka_unit_test(spans),
        cmocka_unit_test(ended_with_its_epoch),
        cmocka_unit_test(only_what_was_ever_handed_out_is_walked),
        cmocka_unit_test(threads_at_once),
    };
    return cmocka_run_group_tests(tests, begin, sup_allocator_teardown);
}
