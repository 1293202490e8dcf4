/* Ranked locks: exclusion, counters, and the order that builds with TSLAB_ASSERT >= 2 enforce. */
#include "check.h"
#include "proc.h"
#include "unit.h"

#include "os/os.h"

#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

static ts_lock low, high, other_high;

static int make_locks(void **state) {
    (void)state;
    ts_lock_init(&low, TS_RANK_ALLOCATOR);
    ts_lock_init(&high, TS_RANK_POOL);
    ts_lock_init(&other_high, TS_RANK_POOL);
    return 0;
}

/* ---- exclusion --------------------------------------------------------------------------------------------- */

enum { THREADS = 4 };
static const unsigned rounds = SUP_SCALED(100000u);
static uint64_t plain; /* guarded by low */

static void *add(void *argument) {
    for (unsigned i = 0; i < rounds; i++) {
        ts_lock_acquire(&low);
        plain++;
        ts_lock_release(&low);
    }
    return argument;
}

static void exclusion_and_counters(void **state) {
    pthread_t threads[THREADS];
    (void)state;
    plain = 0;
    for (int i = 0; i < THREADS; i++) {
        assert_int_equal(pthread_create(&threads[i], NULL, add, NULL), 0);
    }
    for (int i = 0; i < THREADS; i++) {
        assert_int_equal(pthread_join(threads[i], NULL), 0);
    }
    assert_int_equal(plain, (uint64_t)THREADS * rounds);
    /* Every acquire is counted once, as one or the other. */
    assert_int_equal(ts_load_relaxed(&low.fast_acquired) + ts_load_relaxed(&low.contended), plain);
}

static void *try_low(void *argument) {
    *(bool *)argument = ts_lock_try(&low);
    return NULL;
}

static void tried_while_it_is_taken(void **state) {
    bool got = true;
    (void)state;
    uint64_t waits = ts_load_relaxed(&ts_lock_waits);
    assert_true(ts_lock_try(&low));
    sup_in_thread(try_low, &got);
    assert_false(got);
    ts_lock_release(&low);
    ts_lock_acquire(&low);
    ts_lock_release(&low);
    assert_int_equal(ts_load_relaxed(&low.fast_acquired), 2);
    assert_int_equal(ts_load_relaxed(&low.contended), 0);
    assert_int_equal(ts_load_relaxed(&ts_lock_waits), waits);
}

static uint64_t after_sleep;  /* guarded by high */
static atomic_long waiter_id; /* the last thread that has gone to wait for it */

static void *wait_for_lock(void *argument) {
    atomic_store(&waiter_id, sup_thread_id());
    ts_lock_acquire(&high);
    after_sleep++;
    ts_lock_release(&high);
    return argument;
}

/* So many threads have found the lock taken, and one at least said that it will sleep. */
static void until_waited_for(uint64_t waits) {
    while (ts_load_relaxed(&ts_lock_waits) < waits || ts_load_relaxed(&high.word) != TS_LOCK_WAITED) {
        sup_sleep_ms(1);
    }
}

/* A thread that wants the lock, which the caller has, and has gone to wait for it. */
static pthread_t waiting_thread(void *(*fn)(void *)) {
    uint64_t waits = ts_load_relaxed(&ts_lock_waits);
    pthread_t thread;
    assert_int_equal(pthread_create(&thread, NULL, fn, NULL), 0);
    until_waited_for(waits + 1);
    return thread;
}

static void contention_is_counted(void **state) {
    (void)state;
    uint64_t waits = ts_load_relaxed(&ts_lock_waits);
    ts_lock_acquire(&high);
    pthread_t thread = waiting_thread(wait_for_lock);
    ts_lock_release(&high);
    assert_int_equal(pthread_join(thread, NULL), 0);
    assert_int_equal(ts_load_relaxed(&high.fast_acquired), 1);
    assert_int_equal(ts_load_relaxed(&high.contended), 1);
    assert_int_equal(ts_load_relaxed(&ts_lock_waits), waits + 1);
}

/* All that sleep get it, one after the other, though the holder wakes only the first. */
static void every_sleeper_is_woken(void **state) {
    pthread_t threads[THREADS];
    (void)state;
    for (unsigned round = 0; round < 20; round++) {
        uint64_t waits = ts_load_relaxed(&ts_lock_waits);
        ts_lock_acquire(&high);
        for (int i = 0; i < THREADS; i++) {
            assert_int_equal(pthread_create(&threads[i], NULL, wait_for_lock, NULL), 0);
        }
        until_waited_for(waits + THREADS);
        sup_until_waits(&waiter_id);
        after_sleep = 1; /* which they see */
        ts_lock_release(&high);
        for (int i = 0; i < THREADS; i++) {
            assert_int_equal(pthread_join(threads[i], NULL), 0);
        }
        assert_int_equal(ts_load_relaxed(&high.word), TS_LOCK_FREE);
        assert_int_equal(after_sleep, 1 + THREADS);
    }
}

static atomic_bool had;

static void *have_lock(void *argument) {
    atomic_store(&waiter_id, sup_thread_id());
    ts_lock_acquire(&high);
    atomic_store(&had, true);
    ts_lock_release(&high);
    pthread_testcancel();
    return argument;
}

/* A call of the allocator is no cancellation point: a thread that is cancelled while it sleeps gets the lock first, and
   gives it back. */
static void not_cancelled_while_asleep(void **state) {
    void *result;
    (void)state;
    atomic_store(&had, false);
    ts_lock_acquire(&high);
    pthread_t thread = waiting_thread(have_lock);
    sup_until_waits(&waiter_id);
    assert_int_equal(pthread_cancel(thread), 0);
    sup_until_waits(&waiter_id);
    ts_lock_release(&high);
    assert_int_equal(pthread_join(thread, &result), 0);
    assert_ptr_equal(result, PTHREAD_CANCELED); /* afterwards */
    assert_true(atomic_load(&had));
    assert_int_equal(ts_load_relaxed(&high.word), TS_LOCK_FREE);
}

static void release_in_child(void *argument) {
    (void)argument;
    ts_lock_release_for_fork(&high);
    ts_lock_acquire(&high);
    ts_lock_release(&high);
    SUP_CHECK(ts_load_relaxed(&high.word) == TS_LOCK_FREE, "the lock is held");
}

/* The sleeping thread is not in the child: it is woken in the parent. */
static void released_in_a_child_too(void **state) {
    char err[512];
    (void)state;
    ts_lock_acquire_for_fork(&high);
    pthread_t thread = waiting_thread(wait_for_lock);
    assert_int_equal(sup_child(release_in_child, NULL, 10, err, sizeof err), 0);
    assert_int_equal(ts_load_relaxed(&high.word), TS_LOCK_WAITED);
    ts_lock_release_for_fork(&high);
    assert_int_equal(pthread_join(thread, NULL), 0);
    assert_int_equal(ts_load_relaxed(&high.word), TS_LOCK_FREE);
}

/* A call that waits leaves errno as it is. */
static void errno_stays(void **state) {
    _Atomic uint32_t word = 1;
    (void)state;
    errno = EDOM;
    ts_park(&word, 2); /* it is another: no sleep */
    ts_unpark(&word);
    assert_int_equal(errno, EDOM);
}

static void fork_does_not_count(void **state) {
    (void)state;
    ts_lock_acquire_for_fork(&high);
    ts_lock_acquire_for_fork(&other_high); /* equal ranks are allowed here */
    ts_lock_release_for_fork(&other_high);
    ts_lock_release_for_fork(&high);
    assert_int_equal(ts_load_relaxed(&high.fast_acquired) + ts_load_relaxed(&high.contended), 0);
    ts_lock_acquire(&high); /* and it is free again */
    ts_lock_release(&high);
}

/* ---- order ------------------------------------------------------------------------------------------------- */

static void rising(void *argument) {
    (void)argument;
    for (int i = 0; i < 2; i++) {
        ts_lock_acquire(&low);
        ts_lock_acquire(&high);
        ts_lock_release(&low); /* released in any order */
        ts_lock_release(&high);
    }
}

static void falling(void *argument) {
    (void)argument;
    ts_lock_acquire(&high);
    ts_lock_acquire(&low);
}

static void equal(void *argument) {
    (void)argument;
    ts_lock_acquire(&high);
    ts_lock_acquire(&other_high);
}

static void not_held(void *argument) {
    (void)argument;
    ts_lock_release(&low);
}

static void expect_abort(void (*fn)(void *), bool checked) {
    char err[512];
    int status = sup_child(fn, NULL, 10, err, sizeof err);
    if (!checked) {
        assert_int_equal(status, 0);
        return;
    }
    assert_true(WIFSIGNALED(status));
    assert_int_equal(WTERMSIG(status), SIGABRT);
    assert_non_null(strstr(err, "tslab: assertion failed: "));
    assert_int_equal(sup_count_lines(err), 1);
}

/* The grade is that of the library: tests and library are compiled with the same. */
static void ranks(void **state) {
    bool checked = TSLAB_ASSERT >= 2;
    (void)state;
    expect_abort(rising, false);
    expect_abort(falling, checked);
    expect_abort(equal, checked);
    if (checked) {
        expect_abort(not_held, true);
    }
}

/* ---- assertions --------------------------------------------------------------------------------------------- */

static void failing_assertion(void *argument) {
    (void)argument;
    ts_assert_failed("two is three", "file.c", 7);
}

static void passing_assertions(void *argument) {
    (void)argument;
    ts_assert(1, 1 + 1 == 2);
    ts_assert(TSLAB_ASSERT + 1, false); /* of a grade that is off */
}

static void assertions(void **state) {
    char err[512];
    (void)state;
    int status = sup_child(failing_assertion, NULL, 10, err, sizeof err);
    assert_true(WIFSIGNALED(status) && WTERMSIG(status) == SIGABRT);
    const char *text = "tslab: assertion failed: two is three (file.c:7)\n";
    assert_true(strncmp(err, text, strlen(text)) == 0 && (SUP_EMULATED || strlen(err) == strlen(text)));
    assert_int_equal(sup_child(passing_assertions, NULL, 10, err, sizeof err), 0);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup(exclusion_and_counters, make_locks),
        cmocka_unit_test_setup(tried_while_it_is_taken, make_locks),
        cmocka_unit_test_setup(contention_is_counted, make_locks),
        cmocka_unit_test_setup(every_sleeper_is_woken, make_locks),
        cmocka_unit_test_setup(not_cancelled_while_asleep, make_locks),
        cmocka_unit_test_setup(released_in_a_child_too, make_locks),
        cmocka_unit_test(errno_stays),
        cmocka_unit_test_setup(fork_does_not_count, make_locks),
        cmocka_unit_test_setup(ranks, make_locks),
        cmocka_unit_test_setup(assertions, make_locks),
    };
    return cmocka_run_group_tests_name("os.lock", tests, NULL, NULL);
}
