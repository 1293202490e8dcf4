/*
 * A thread that waits for one that wakes nobody sleeps between looks: that thread may be of a lower priority on the
 * same processor (SCHED_FIFO), which gets nothing by a yield. Here a yield is nothing for anybody.
 */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include "check.h"
#include "proc.h"
#include "unit.h"

#include "api/runtime.h"
#include "os/os.h"

#include <pthread.h>
#include <semaphore.h>
#include <stdatomic.h>
#include <stdio.h>
#include <sys/syscall.h>
#include <unistd.h>

#define SLEEPS 3
#define PATIENCE_MS 10000

static SlabAllocator *allocator;
static void *object; /* of the other thread */
static sem_t begun, waits;
static pid_t waiting;

static void yield_nothing(void) {}

/* How often a thread of this process has given up its processor by itself. */
static long sleeps_of(pid_t thread) {
    char path[64], line[128];
    long count = -1;
    (void)snprintf(path, sizeof path, "/proc/self/task/%d/status", (int)thread);
    FILE *file = fopen(path, "r");
    SUP_CHECK(file != NULL, "%s", path);
    while (fgets(line, sizeof line, file)) {
        (void)sscanf(line, "voluntary_ctxt_switches: %ld", &count);
    }
    (void)fclose(file);
    SUP_CHECK(count >= 0, "%s", path);
    return count;
}

static bool it_sleeps(void) {
    SUP_CHECK(sem_wait(&waits) == 0, "sem_wait");
    long before = sleeps_of(waiting);
    for (unsigned ms = 0; ms < PATIENCE_MS; ms++) {
        if (sleeps_of(waiting) >= before + SLEEPS) {
            return true;
        }
        sup_sleep_ms(1);
    }
    return false;
}

static void *stay_in_an_operation(void *slept) {
    object = slab_malloc(allocator, 100);
    SUP_CHECK(object != NULL, "no memory");
    ts_op_begin(&ts_thread);
    SUP_CHECK(sem_post(&begun) == 0, "sem_post");
    *(bool *)slept = it_sleeps();
    ts_op_end(&ts_thread);
    return NULL;
}

static void free_the_object(void) { SUP_CHECK(slab_free(allocator, object), "slab_free"); }

/* The other thread goes on when it has seen this one sleep. */
static void wait_for(void *(*other)(void *), void (*wait)(void)) {
    static ts_os_table table;
    bool slept = false;
    pthread_t thread;
    assert_true(sem_init(&begun, 0, 0) == 0 && sem_init(&waits, 0, 0) == 0);
    waiting = (pid_t)syscall(SYS_gettid);
    assert_int_equal(pthread_create(&thread, NULL, other, &slept), 0);
    while (sem_wait(&begun) != 0) {
    }
    table = ts_os_native;
    table.yield = yield_nothing;
    ts_os = &table;
    assert_int_equal(sem_post(&waits), 0);
    wait();
    assert_int_equal(pthread_join(thread, NULL), 0);
    ts_os = &ts_os_native;
    assert_true(slept);
}

/* slab_allocator_free goes on, and nobody else gets the record as long as it is read. */
static void not_for_a_reader(void **state) {
    (void)state;
    allocator = slab_allocator_create(); /* without a share, which would keep the record as long as it is read */
    ts_allocator *record = ts_allocator_find(ts_token(allocator)), *next = NULL;
    uintptr_t token = record->token;
    for (unsigned readers = 1; readers <= 2; readers++) {
        SUP_CHECK(ts_allocator_read_begin(record, token), "read_begin");
    }
    slab_allocator_free(allocator);
    slab_thread_idle(); /* drops nothing that is read */
    SUP_CHECK(!ts_allocator_read_begin(record, token), "it has ended");
    allocator = slab_allocator_create();
    SUP_CHECK(ts_allocator_find(ts_token(allocator)) != record, "in use again while it is read");
    ts_allocator_read_end(record);
    ts_allocator_read_end(record);
    slab_thread_idle();
    SlabAllocator *again = slab_allocator_create();
    next = ts_allocator_find(ts_token(again));
    SUP_CHECK(next == record, "not given back by its last reader");
    SUP_CHECK(ts_allocator_read_begin(next, next->token), "read_begin");
    ts_allocator_read_end(next);
    slab_allocator_free(again);
    slab_allocator_free(allocator);
}

/* With care an object is freed while its owner is held. */
static void for_an_owner(void **state) {
    (void)state;
    if (!ts_os_native.barrier_all()) {
        print_message("no barrier: owners are not waited for\n");
        skip();
    }
    const SlabOptions options = {.size = sizeof options, .poison_on_free = 1};
    allocator = slab_allocator_create_ex(&options);
    wait_for(stay_in_an_operation, free_the_object);
    slab_allocator_free(allocator);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(not_for_a_reader),
        cmocka_unit_test(for_an_owner),
    };
    return cmocka_run_group_tests_name("ownership.waits", tests, NULL, NULL);
}
