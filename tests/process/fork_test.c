/*
 * fork() in every state that another thread can be in: with each lock taken, and in the middle of each call to the
 * system. The child must be able to do everything, and its structures must be whole. Then vfork, exec and spawn.
 */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include "identities.h"
#include "proc.h"
#include "unit.h"

#include "api/runtime.h"
#include "check.h"
#include "domain/domain.h"
#include "os/os.h"
#include "region/region.h"
#include "walk/check.h"

#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <spawn.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

extern char **environ;

enum { KEPT = 200 };
static SlabAllocator *allocator;
static EpochId churn;
static void *kept[KEPT], *others[KEPT];
static ts_os_table table;

/* ---- a call to the system that takes its time ------------------------------------------------------------------ */

enum { NO_CALL, COMMIT, PURGE, POPULATE, BARRIER };
static _Atomic int slow_call; /* which; NO_CALL: none, the rest goes on at once */
static atomic_bool inside, seen;

/* The other thread stays in its first call of that kind until the first thread waits, for this call or for its
   child. */
static pthread_t main_thread;
static atomic_long main_id;
static void pass(int call) {
    int wanted = call;
    if (pthread_equal(pthread_self(), main_thread) || !atomic_compare_exchange_strong(&slow_call, &wanted, NO_CALL)) {
        return;
    }
    atomic_store(&inside, true);
    sup_until_waits(&main_id);
}

static bool commit(void *at, size_t bytes) {
    pass(COMMIT);
    return ts_os_native.commit(at, bytes);
}
static bool purge(void *at, size_t bytes) {
    pass(PURGE);
    return ts_os_native.purge(at, bytes);
}
static bool populate(void *at, size_t bytes) {
    pass(POPULATE);
    return ts_os_native.populate(at, bytes);
}
static bool barrier_all(void) {
    pass(BARRIER);
    return ts_os_native.barrier_all();
}

static int start(void **state) {
    (void)state;
    main_thread = pthread_self();
    atomic_store(&main_id, sup_thread_id());
    table = ts_os_native;
    table.commit = commit;
    table.purge = purge;
    table.populate = populate;
    table.barrier_all = barrier_all;
    ts_os = &table;
    allocator = slab_allocator_create();
    churn = epoch_open(allocator, "churn", EPOCH_CHURN);
    for (int i = 0; i < KEPT; i++) {
        kept[i] = slab_malloc_epoch(allocator, 50 + (size_t)i, churn);
        if (!kept[i]) {
            return 1;
        }
    }
    return 0;
}

static int stop(void **state) {
    (void)state;
    sup_check_identities(allocator);
    slab_allocator_free(allocator);
    return 0;
}

/* ---- the child --------------------------------------------------------------------------------------------------- */

static void *thread_of_the_child(void *argument) {
    SUP_CHECK(slab_free(allocator, slab_malloc_epoch(allocator, 333, churn)), "in a thread of the child");
    return argument;
}

static void everything(void *argument) {
    static ts_check walk;
    pthread_t thread;
    (void)argument;
    SUP_CHECK(ts_check_all(&walk, true), "in the child: %s", walk.why);
    for (int i = 0; i < KEPT; i++) {
        SUP_CHECK(slab_free(allocator, kept[i]), "object %d", i);
    }
    void *span = slab_malloc_epoch(allocator, 200000, churn);
    SUP_CHECK(span != NULL && slab_free(allocator, span), "a span");
    EpochDomain *domain = epoch_domain_create(allocator);
    SUP_CHECK(epoch_domain_enter(domain) && slab_alloc(100) && slab_malloc(allocator, 10), "a domain");
    epoch_domain_destroy(domain);
    /* A sanitizer's own allocator is not ready for a fork while another thread is in it, at its begin or end: the
       child's next thread may wait for its lock for ever. */
    SUP_CHECK(SUP_SANITIZED ||
                  (pthread_create(&thread, NULL, thread_of_the_child, NULL) == 0 && pthread_join(thread, NULL) == 0),
              "a thread");
    SUP_CHECK(slab_reserve(allocator, 1 << 20), "slab_reserve");
    (void)slab_trim(allocator);
    SUP_CHECK(epoch_close(allocator, churn), "epoch_close");
    SlabAllocator *more = slab_allocator_create();
    SUP_CHECK(more != NULL && slab_malloc(more, 100) != NULL, "another allocator");
    slab_allocator_free(more);
    SlabGlobalStats stats;
    SUP_CHECK(slab_stats_global(allocator, &stats), "slab_stats_global");
    SUP_CHECK(ts_check_all(&walk, true), "at the end of the child: %s", walk.why);
}

static void fork_for(void (*child)(void *), const char *state) {
    int status = sup_child(child, NULL, SUP_CHILD_SECONDS, NULL, 0);
    SUP_CHECK(status == 0, "%s: the child ended with status %d%s", state, status,
              status == SIGALRM ? " (it hung)" : "");
}
static void fork_now(const char *state) { fork_for(everything, state); }

/* ---- with each lock taken ---------------------------------------------------------------------------------------- */

static ts_lock *to_take;
static atomic_bool let_go;

static void *hold_lock(void *argument) {
    ts_lock_acquire(to_take);
    atomic_store(&inside, true);
    sup_until_waits(&main_id);
    atomic_store(&let_go, true);
    ts_lock_release(to_take);
    return argument;
}

/* The child has the memory of the moment of the fork, which waits for the lock. */
static void check_lock_was_given(void *argument) {
    (void)argument;
    SUP_CHECK(atomic_load(&let_go), "the fork came while the lock was taken");
    everything(NULL);
}

static void with_each_lock_taken(void **state) {
    (void)state;
    ts_allocator *a = ts_allocator_find((uintptr_t)allocator);
    const struct {
        const char *name;
        ts_lock *lock;
    } locks[] = {
        {"the allocator's lock", &a->lock},
        {"an epoch's lock", ts_epoch_lock(ts_epoch_find(a, churn))},
        {"the lock of a heap", &ts_thread.heap->lock},
        {"the lock of the retained units", &a->retained_lock},
        {"the table of epochs", &ts_epochs.lock},
        {"the table of domains", &ts_domains.lock},
        {"the table of allocators", &ts_allocators.lock},
    };
    for (size_t i = 0; i < sizeof locks / sizeof *locks; i++) {
        pthread_t thread;
        to_take = locks[i].lock;
        atomic_store(&inside, false);
        atomic_store(&let_go, false);
        assert_int_equal(pthread_create(&thread, NULL, hold_lock, NULL), 0);
        while (!atomic_load(&inside)) {
            (void)sched_yield();
        }
        fork_for(check_lock_was_given, locks[i].name);
        assert_int_equal(pthread_join(thread, NULL), 0);
    }
}

/* ---- in the middle of each call to the system -------------------------------------------------------------------- */

static void grow_tables(void) {
    for (int i = 0; i < 400 && !atomic_load(&inside); i++) {
        SUP_CHECK(epoch_open(allocator, NULL, EPOCH_CHURN) != EPOCH_NONE, "epoch_open");
    }
}
static void grow_lines(void) {
    EpochDomain *domain = epoch_domain_create(allocator);
    SUP_CHECK(epoch_domain_enter(domain), "enter");
    for (int i = 0; i < 20000 && !atomic_load(&inside); i++) {
        SUP_CHECK(epoch_domain_on_destroy(domain, free, NULL), "on_destroy");
    }
    epoch_domain_destroy(domain);
}
static void grow_pool(void) {
    for (int i = 0; i < 40 && !atomic_load(&inside); i++) {
        SUP_CHECK(slab_malloc_epoch(allocator, 8u << 20, churn) != NULL, "a large span");
    }
}
static void *of_the_first_thread;
static void visit_a_heap(void) {
    SUP_CHECK(slab_free(allocator, of_the_first_thread), "slab_free"); /* which its heap has to take in */
    of_the_first_thread = NULL;
    (void)slab_trim(allocator);
}
static void give_back(void) {
    SUP_CHECK(slab_reserve(allocator, 1 << 20), "slab_reserve");
    (void)slab_trim(allocator);
}

static void (*errand)(void);

static void *do_errand(void *argument) {
    for (int i = 0; i < KEPT; i++) {
        others[i] = slab_malloc_epoch(allocator, 64, churn);
    }
    atomic_store(&seen, true);
    while (atomic_load(&slow_call) == NO_CALL && !atomic_load(&inside)) {
        (void)sched_yield();
    }
    errand();
    return argument;
}

static void in_the_middle_of_each_call(void **state) {
    (void)state;
    const struct {
        const char *name;
        int call;
        void (*errand)(void);
    } calls[] = {
        {"a table grows", COMMIT, grow_tables}, {"the lines grow", COMMIT, grow_lines},
        {"the pool grows", COMMIT, grow_pool},  {"a purge", PURGE, give_back},
        {"a populate", POPULATE, give_back},    {"a heap is being held", BARRIER, visit_a_heap},
    };
    for (size_t i = 0; i < sizeof calls / sizeof *calls; i++) {
        pthread_t thread;
        atomic_store(&inside, false);
        atomic_store(&seen, false);
        errand = calls[i].errand;
        of_the_first_thread = slab_malloc_epoch(allocator, 64, churn);
        assert_non_null(of_the_first_thread);
        assert_int_equal(pthread_create(&thread, NULL, do_errand, NULL), 0);
        while (!atomic_load(&seen)) {
            (void)sched_yield();
        }
        atomic_store(&slow_call, calls[i].call);
        double until = sup_now_s() + 10;
        while (!atomic_load(&inside)) {
            SUP_CHECK(sup_now_s() < until, "%s: it never comes to that", calls[i].name);
            (void)sched_yield();
        }
        fork_now(calls[i].name);
        assert_int_equal(pthread_join(thread, NULL), 0);
        assert_true(slab_free(allocator, of_the_first_thread)); /* NULL: it was freed */
        for (int k = 0; k < KEPT; k++) {
            assert_true(slab_free(allocator, others[k]));
        }
    }
}

/* ---- the locks that only their own files know, by taking them all the time --------------------------------------- */

static atomic_bool enough;

static void *take_units(void *argument) {
    while (!atomic_load(&enough)) {
        uint32_t unit = ts_pool_take(TS_NORMAL, 3, 1);
        SUP_CHECK(unit != 0, "ts_pool_take");
        ts_pool_give(unit, 3);
        void *line = ts_lines_take(TS_LINES_CLEANUP, sizeof(ts_domain_scope));
        SUP_CHECK(line != NULL, "ts_lines_take");
        ts_lines_give(TS_LINES_CLEANUP, line);
    }
    return argument;
}

static void *short_life(void *argument) {
    SUP_CHECK(slab_malloc_epoch(allocator, 64, churn) != NULL, "slab_malloc_epoch");
    return argument;
}

/* The registry of heaps: threads that begin and end. */
static void *begin_and_end(void *argument) {
    while (!atomic_load(&enough)) {
        sup_in_thread(short_life, NULL);
    }
    return argument;
}

static void while_pool_lines_and_registry_are_busy(void **state) {
    (void)state;
    pthread_t threads[3];
    atomic_store(&enough, false);
    for (int i = 0; i < 3; i++) {
        assert_int_equal(pthread_create(&threads[i], NULL, i < 2 ? take_units : begin_and_end, NULL), 0);
    }
    for (unsigned i = 0; i < SUP_SCALED(100u); i++) {
        fork_now("busy");
    }
    atomic_store(&enough, true);
    for (int i = 0; i < 3; i++) {
        assert_int_equal(pthread_join(threads[i], NULL), 0);
    }
}

/* ---- by hand: states of the forking thread itself ---------------------------------------------------------------- */

static void inside_of_domains_and_in_a_cleanup_child(void *argument) {
    EpochDomain *domain = argument;
    SUP_CHECK(epoch_domain_current() == domain && slab_alloc(10) != NULL, "the innermost domain in the child");
    epoch_domain_destroy(domain);
    everything(NULL);
}

static void fork_in_cleanup(void *argument) {
    SUP_CHECK(sup_child(everything, argument, SUP_CHILD_SECONDS, NULL, 0) == 0, "forked in a cleanup");
}

static void of_the_forking_thread(void **state) {
    (void)state;
    EpochDomain *outer = epoch_domain_create(allocator), *inner = epoch_domain_create(allocator);
    assert_true(epoch_domain_enter(outer) && epoch_domain_enter(inner) && slab_alloc(10));
    int status = sup_child(inside_of_domains_and_in_a_cleanup_child, inner, SUP_CHILD_SECONDS, NULL, 0);
    assert_int_equal(status, 0);
    assert_true(epoch_domain_on_destroy(inner, fork_in_cleanup, NULL));
    epoch_domain_destroy(inner);
    assert_true(epoch_domain_current() == outer);
    epoch_domain_destroy(outer);
    /* A child of a child. */
    status = sup_child(fork_in_cleanup, NULL, SUP_CHILD_SECONDS, NULL, 0);
    assert_int_equal(status, 0);
}

/* ---- vfork, exec, spawn ------------------------------------------------------------------------------------------ */

static void vfork_and_spawn(void **state) {
    (void)state;
    pthread_t thread;
    char *const argv[] = {(char *)(uintptr_t) "true", NULL};
    int status;
    atomic_store(&enough, false);
    assert_int_equal(pthread_create(&thread, NULL, begin_and_end, NULL), 0);
    for (unsigned i = 0; i < 20; i++) {
        pid_t child = vfork();
        if (child == 0) {
            (void)execv("/bin/true", argv);
            _exit(127);
        }
        SUP_CHECK(child > 0 && waitpid(child, &status, 0) == child && status == 0, "vfork and exec: status %d", status);
        SUP_CHECK(posix_spawn(&child, "/bin/true", NULL, NULL, argv, environ) == 0, "posix_spawn");
        SUP_CHECK(waitpid(child, &status, 0) == child && status == 0, "posix_spawn: status %d", status);
        assert_true(slab_free(allocator, kept[i]));
        kept[i] = slab_malloc_epoch(allocator, 100, churn);
    }
    atomic_store(&enough, true);
    assert_int_equal(pthread_join(thread, NULL), 0);
}

int main(void) {
#define WITH(test) cmocka_unit_test_setup_teardown(test, start, stop)
    const struct CMUnitTest tests[] = {
        WITH(with_each_lock_taken),
        WITH(in_the_middle_of_each_call),
        WITH(while_pool_lines_and_registry_are_busy),
        WITH(of_the_forking_thread),
        WITH(vfork_and_spawn),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
