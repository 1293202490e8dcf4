/* A fiber (ucontext) that goes on in another thread, inside of a domain and inside of a cleanup: docs/threads.md. */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include "check.h"
#include "proc.h"
#include "unit.h"

#include <tslab/tslab.h>

#include <errno.h>
#include <signal.h>
#include <string.h>
#include <sys/wait.h>

#if defined(__GLIBC__) && !SUP_SANITIZED && \
    !SUP_EMULATED /* musl has no contexts; sanitizers know no stack but a thread's */
#include <ucontext.h>

static ucontext_t fiber, of_thread[2];
static unsigned thread_now;
static char stack[1 << 18];
static SlabAllocator *a;
static EpochDomain *domain;

static void leave_thread(void) { SUP_CHECK(swapcontext(&fiber, &of_thread[thread_now]) == 0, "swapcontext"); }

/* The address of errno is a thread's: a function that is called anew asks for it anew. */
__attribute__((noinline)) static int error_of(bool (*call)(void)) {
    __asm__ volatile("" ::: "memory");
    errno = 0;
    return call() ? 0 : errno ? errno : -1;
}
static bool exit_domain(void) { return epoch_domain_exit(domain); }
static bool reset_own(void) { return epoch_domain_reset(domain, 0); }
static bool enter_domain(void) { return epoch_domain_enter(domain); }

static void *go_on(void *unused) {
    (void)unused;
    thread_now = 1;
    SUP_CHECK(swapcontext(&of_thread[1], &fiber) == 0, "swapcontext");
    SUP_CHECK(epoch_domain_current() == NULL, "the other thread is inside");
    return NULL;
}

/* In this thread until it leaves, in another one then. */
static void run_fiber(void (*fn)(void)) {
    SUP_CHECK(getcontext(&fiber) == 0, "getcontext");
    fiber.uc_stack.ss_sp = stack;
    fiber.uc_stack.ss_size = sizeof stack;
    fiber.uc_link = NULL;
    makecontext(&fiber, fn, 0);
    thread_now = 0;
    SUP_CHECK(swapcontext(&of_thread[0], &fiber) == 0, "swapcontext");
    sup_in_thread(go_on, NULL);
}

/* A domain that was entered stays that thread's: the fiber is outside of it, and has it no more. */
static void fiber_inside(void) {
    SUP_CHECK(epoch_domain_enter(domain), "errno %d", errno);
    void *p = slab_alloc(100);
    SUP_CHECK(slab_owns(a, p), "an object of the domain");
    leave_thread();
    SUP_CHECK(epoch_domain_current() == NULL, "inside");
    void *q = slab_alloc(100);
    SUP_CHECK(q != NULL && !slab_owns(a, q), "an object of the default allocator");
    SUP_CHECK(error_of(exit_domain) == EINVAL, "exit");
    SUP_CHECK(error_of(enter_domain) == EPERM, "enter");
    SUP_CHECK(error_of(reset_own) == EPERM, "reset");
    void *r = slab_malloc_epoch(a, 100, epoch_domain_epoch(domain));
    SUP_CHECK(slab_owns(a, r), "by its epoch every thread allocates");
    SUP_CHECK(slab_free(a, p), "every thread frees");
    leave_thread();
}

static void inside_a_domain(void **state) {
    (void)state;
    a = slab_allocator_create();
    domain = epoch_domain_create(a);
    assert_true(a != NULL && domain != NULL);
    run_fiber(fiber_inside);
    assert_ptr_equal(epoch_domain_current(), domain); /* the first thread still is */
    assert_true(slab_owns(a, slab_alloc(100)));
    assert_true(epoch_domain_exit(domain));
    epoch_domain_destroy(domain);
    slab_allocator_free(a);
}

/* The working way: the domain is left and given up where the fiber leaves its thread, and entered where it goes on. */
static void fiber_that_hands_over(void) {
    SUP_CHECK(epoch_domain_enter(domain) && slab_alloc(100) != NULL, "errno %d", errno);
    SUP_CHECK(epoch_domain_exit(domain) && epoch_domain_hand_over(domain), "errno %d", errno);
    leave_thread();
    SUP_CHECK(epoch_domain_enter(domain) && slab_owns(a, slab_alloc(100)), "errno %d", errno);
    epoch_domain_destroy(domain);
    leave_thread();
}

static void handed_over(void **state) {
    (void)state;
    a = slab_allocator_create();
    domain = epoch_domain_create(a);
    run_fiber(fiber_that_hands_over);
    assert_int_equal(epoch_domain_epoch(domain), EPOCH_NONE);
    assert_null(epoch_domain_current());
    slab_allocator_free(a);
}

static void change_thread(void *unused) {
    (void)unused;
    leave_thread();
}
static void fiber_that_ends_domain(void) {
    epoch_domain_destroy(domain);
    leave_thread();
}
static void fiber_that_resets_domain(void) {
    (void)epoch_domain_reset(domain, 0);
    leave_thread();
}

static void end_on_fiber(void *entered) {
    a = slab_allocator_create();
    domain = epoch_domain_create(a);
    SUP_CHECK(epoch_domain_on_destroy(domain, change_thread, NULL), "errno %d", errno);
    SUP_CHECK(!entered || epoch_domain_enter(domain), "errno %d", errno);
    run_fiber(fiber_that_ends_domain);
}
static void reset_domain(void *unused) {
    (void)unused;
    a = slab_allocator_create();
    domain = epoch_domain_create(a);
    SUP_CHECK(epoch_domain_on_destroy(domain, change_thread, NULL), "errno %d", errno);
    run_fiber(fiber_that_resets_domain);
}

/* A cleanup returns in its thread, or the program is stopped with a line. */
static void inside_a_cleanup(void **state) {
    static char yes;
    void (*const fn[])(void *) = {end_on_fiber, end_on_fiber, reset_domain};
    void *const arg[] = {NULL, &yes, NULL};
    (void)state;
    for (unsigned i = 0; i < 3; i++) {
        char err[1024] = "";
        int status = sup_child(fn[i], arg[i], SUP_CHILD_SECONDS, err, sizeof err);
        if (!WIFSIGNALED(status) || WTERMSIG(status) != SIGABRT || strstr(err, "in another thread") == NULL) {
            fail_msg("%u: status %#x: %s", i, (unsigned)status, err);
        }
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(inside_a_cleanup),
        cmocka_unit_test(inside_a_domain),
        cmocka_unit_test(handed_over),
    };
    return cmocka_run_group_tests_name("process.fiber", tests, NULL, NULL);
}
#else
int main(void) { return 77; }
#endif
