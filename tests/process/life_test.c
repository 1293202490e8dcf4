/*
 * Use before main, after main, and after every exit handler: objects of a constructor live through the whole program,
 * and a destructor that runs last of all can still allocate and free. A child does it; its exit code and words are
 * looked at.
 */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include "pattern.h"
#include "proc.h"
#include "unit.h"

#include "check.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static void *early, *from_handler, *from_main;
static EpochDomain *domain;
static bool child;

static void say(const char *text) {
    if (child) {
        SUP_CHECK(write(STDERR_FILENO, text, strlen(text)) > 0, "write");
    }
}

static void *thread(void *argument) {
    void *object = slab_alloc(400);
    SUP_CHECK(object != NULL && slab_free(slab_allocator_default(), object), "in a thread");
    return argument;
}

static void in_a_child(void *argument) { (void)thread(argument); }

static void use(const char *when) {
    pthread_t other;
    SlabAllocator *own = slab_allocator_create();
    SUP_CHECK(own != NULL && slab_malloc(own, 5000) != NULL, "%s: an allocator", when);
    slab_allocator_free(own);
    EpochDomain *d = epoch_domain_create(NULL);
    SUP_CHECK(epoch_domain_enter(d) && slab_alloc(50), "%s: a domain", when);
    epoch_domain_destroy(d);
    SUP_CHECK(pthread_create(&other, NULL, thread, NULL) == 0 && pthread_join(other, NULL) == 0, "%s: a thread", when);
    SUP_CHECK(sup_child(in_a_child, NULL, SUP_CHILD_SECONDS, NULL, 0) == 0, "%s: a fork", when);
    say(when);
    say("\n");
}

/* The earliest that a program may ask for; and the last to run. */
__attribute__((constructor(101))) static void before_main(void) {
    child = getenv("LIFE_TEST_CHILD") != NULL;
    early = slab_alloc(1000);
    SUP_CHECK(early != NULL, "slab_alloc before main");
    sup_pattern_fill(early, 1000, 1);
    domain = epoch_domain_create(NULL);
    SUP_CHECK(domain != NULL && epoch_domain_enter(domain) && slab_alloc(10) && epoch_domain_exit(domain),
              "a domain before main");
    use("constructor");
}

__attribute__((destructor(101))) static void after_everything(void) {
    SUP_CHECK(sup_pattern_check(early, 1000, 1) && slab_free(slab_allocator_default(), early),
              "an object of before main");
    SUP_CHECK(!slab_free(slab_allocator_default(), early), "freed twice");
    SUP_CHECK(!child || slab_free(slab_allocator_default(), from_handler), "an object of an exit handler");
    epoch_domain_destroy(domain);
    use("destructor");
}

static void in_handler(void) {
    from_handler = slab_alloc(70000);
    SUP_CHECK(from_handler != NULL && slab_free(slab_allocator_default(), from_main), "in an exit handler");
    use("exit handler");
}

static void ends_by_exit(void **state) {
    (void)state;
    char *const argv[] = {(char *)(uintptr_t) "life_test", (char *)(uintptr_t) "child", NULL};
    char err[2048];
    int status = sup_reexec(argv, "LIFE_TEST_CHILD", "1", err, sizeof err);
    if (status != 0) {
        print_error("%s\n", err);
    }
    assert_int_equal(status, 0);
    assert_string_equal(err, "constructor\nmain\nexit handler\ndestructor\n");
}

int main(int argc, char **argv) {
    if (argc == 2 && strcmp(argv[1], "child") == 0) {
        SUP_CHECK(atexit(in_handler) == 0, "atexit");
        from_main = slab_alloc(200);
        use("main");
        return 0;
    }
    const struct CMUnitTest tests[] = {cmocka_unit_test(ends_by_exit)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
