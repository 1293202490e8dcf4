/*
 * Call stacks of a static program, beside the end of its table for unwinding. stack.c is compiled once more, with
 * places to stop at: a thread that walks and the one that ends the table are brought together at each pair of steps. No
 * walk is under way when the table has ended, and none begins afterwards.
 */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include "check.h"
#include "turns.h"
#include "unit.h"

#include "base/attr.h"
#include "os/stack.h"

#include <errno.h>
#include <fcntl.h>
#if defined(__ELF__)
#include <link.h>
#endif
#include <pthread.h>
#include <stdatomic.h>
#include <string.h>
#include <unistd.h>
#if defined(__linux__)
#include <sys/prctl.h>
#include <sys/syscall.h>
#endif
#if defined(__has_include)
#if __has_include(<execinfo.h>) && defined(__GLIBC__)
#include <dlfcn.h>
#include <execinfo.h>
#if !defined(__arm__)
#include <unwind.h>
#endif
#define TEST_HAS_UNWINDER 1
#endif
#endif

#ifdef TEST_HAS_UNWINDER
#define SUP_OWN_STEP
#include "steps.h"

static void step(void) { sup_turn_step(); }

static uint32_t add_here(_Atomic uint32_t *p, uint32_t n) {
    step();
    return atomic_fetch_add_explicit(p, n, memory_order_seq_cst);
}
static uint32_t sub_here(_Atomic uint32_t *p, uint32_t n) {
    step();
    return atomic_fetch_sub_explicit(p, n, memory_order_seq_cst);
}
static uint32_t exchange_here(_Atomic uint32_t *p, uint32_t n) {
    step();
    return atomic_exchange_explicit(p, n, memory_order_seq_cst);
}
static int yield_here(void) {
    sup_turn_pass();
    return 0;
}

static atomic_bool ended;
static unsigned walks;

static void look_here(void) {
    SUP_CHECK(!atomic_load(&ended), "a walk begins when the table has ended");
    step();
    SUP_CHECK(!atomic_load(&ended), "the table has ended while a walk is under way");
    walks++;
}

#if defined(__arm__)
static int walk_here(void **frames, int capacity) {
    look_here();
    for (int i = 0; i < capacity; i++) frames[i] = &walks;
    return capacity;
}
int (*unwinder)(void **, int) = walk_here;
#define backtrace unwinder
static void use_walk_here(void) {}
#else
static void use_walk_here(void);
#endif

#undef ts_load_seq
#define ts_load_seq(p) (step(), atomic_load_explicit((p), memory_order_seq_cst))
#undef atomic_fetch_add_explicit
#define atomic_fetch_add_explicit(p, n, order) add_here((p), (n))
#undef atomic_fetch_sub_explicit
#define atomic_fetch_sub_explicit(p, n, order) sub_here((p), (n))
#undef atomic_exchange_explicit
#define atomic_exchange_explicit(p, n, order) exchange_here((p), (n))
#define sched_yield yield_here
#include "os/stack.c"

#if !defined(__arm__)
static _Unwind_Ptr address_here(struct _Unwind_Context *context) { return (void)context, (_Unwind_Ptr)&walks; }
static int module_here(void *address, void *out) { return (void)address, (void)out, 0; }
static _Unwind_Reason_Code walk_here(_Unwind_Trace_Fn fn, void *arg) {
    look_here();
    while (fn(NULL, arg) == _URC_NO_REASON) {
    }
    return _URC_END_OF_STACK;
}
static void use_walk_here(void) {
    address_of = address_here;
    find_module = module_here;
    ts_store_release(&unwinder, walk_here);
}
#endif

static void *end_of_program(void *side) {
    sup_turn_begin(*(int *)side);
    end_tables();
    atomic_store(&ended, true);
    sup_turn_end();
    return side;
}

static void walk_once(int side) {
    void *frames[2];
    sup_turn_begin(side);
    unsigned before = walks, n = ts_os_stack(frames, 2);
    sup_turn_end();
    assert_int_equal(n, walks == before ? 0 : 2);
}

/* Each thread stops at one place. Whether the first did, and the second. */
static void bring_together(int walker, unsigned first, unsigned second, bool *first_stopped, bool *second_stopped) {
    pthread_t other;
    int ender = !walker;
    use_walk_here();
    ts_store_relaxed(&tables, ANSWERED);
    ts_store_relaxed(&process, (uint32_t)getpid());
    atomic_store(&ended, false);
    sup_turns_start(first, SUP_NO_STOP, second);
    assert_int_equal(pthread_create(&other, NULL, end_of_program, &ender), 0);
    walk_once(walker);
    assert_int_equal(pthread_join(other, NULL), 0);
    *first_stopped = sup_turns.stopped[SUP_FIRST] > 0;
    *second_stopped = sup_turns.stopped[SUP_SECOND] > 0;
    assert_int_equal(atomic_load(&walkers), 0);
    unsigned before = walks;
    void *frames[2];
    assert_int_equal(ts_os_stack(frames, 2), 0);
    assert_int_equal(walks, before);
}

static void at_each_pair_of_steps(int walker) {
    bool first_stops = true, second_stops = true;
    walks = 0;
    unsigned rounds = 0;
    for (unsigned first = 0; first_stops; first++) {
        second_stops = true;
        for (unsigned second = 0; first_stops && second_stops; second++, rounds++)
            bring_together(walker, first, second, &first_stops, &second_stops);
    }
    assert_true(walks > 0 && walks < rounds); /* some came in time, and some did not */
}

static void walk_first(void **state) {
    (void)state;
    at_each_pair_of_steps(SUP_FIRST);
}

static void end_first(void **state) {
    (void)state;
    at_each_pair_of_steps(SUP_SECOND);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(walk_first),
        cmocka_unit_test(end_first),
    };
    return cmocka_run_group_tests_name("os.stack_steps", tests, NULL, NULL);
}
#else
#include <stdio.h>

int main(void) {
    puts("os.stack_steps: this C library walks no stacks");
    return 77;
}
#endif
