/* The library's own threads rest and begin again, also with requests meanwhile. */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include "unit.h"

#include "base/base.h"
#include "os/os.h"

#include <dirent.h>
#include <pthread.h>
#include <signal.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#define ROUNDS 60

static _Atomic uint32_t page_work, background_work, stop;
static void work_of_page(void) { (void)ts_fetch_add_relaxed(&page_work, 1); }
static void work_of_background(void) { (void)ts_fetch_add_relaxed(&background_work, 1); }

static bool rest_once(void) {
    bool any = ts_own_threads_rest();
    if (any) ts_own_threads_go_on();
    return any;
}

static void *ask_on(void *unused) {
    while (!ts_load_relaxed(&stop)) (void)rest_once();
    return unused;
}

static void wait_for_work(_Atomic uint32_t *work) {
    uint32_t before = ts_load_relaxed(work);
    while (ts_load_relaxed(work) == before) ts_nap();
}

/* Another thread asks, and finds nobody to wait for, while the last that waited lets them go on. */
static void rest_beside_another(void **state) {
    (void)state;
    assert_true(ts_own_thread_start(TS_PAGE_THREAD, work_of_page, 1000));
    for (unsigned round = 0; round < ROUNDS; round++) {
        pthread_t other;
        ts_store_relaxed(&stop, 0);
        assert_int_equal(pthread_create(&other, NULL, ask_on, NULL), 0);
        for (unsigned i = 0; i < 10; i++) (void)rest_once();
        ts_store_relaxed(&stop, 1);
        assert_int_equal(pthread_join(other, NULL), 0);
        assert_true(rest_once()); /* it is there */
    }
    wait_for_work(&page_work);
}

/* Threads of this process, the emulator's own among them. */
static unsigned tasks(void) {
    unsigned count = 0;
    DIR *d = opendir("/proc/self/task");
    assert_non_null(d);
    for (struct dirent *e; (e = readdir(d)) != NULL;) count += e->d_name[0] != '.';
    closedir(d);
    return count;
}

static unsigned tasks_at_start;
static int count_tasks(void **state) {
    (void)state;
    tasks_at_start = tasks();
    return 0;
}

static void wait_for_end_of_others(void) {
    while (tasks() > tasks_at_start) ts_nap();
}

/* One that begins while the others rest ends, and begins again with them. */
static void begin_while_others_rest(void **state) {
    (void)state;
    assert_true(ts_own_threads_rest());
    assert_true(ts_own_thread_start(TS_BACKGROUND_THREAD, work_of_background, 1000));
    wait_for_end_of_others();
    assert_int_equal(ts_load_relaxed(&background_work), 0);
    ts_own_threads_go_on();
    wait_for_work(&background_work);
    wait_for_work(&page_work);
}

/* A child by a system call has none of them, and waits for none. */
static void child_has_none(void **state) {
    int status = 0;
    (void)state;
#if defined(__s390__)
    pid_t pid = (pid_t)syscall(SYS_clone, 0L, (long)SIGCHLD, 0L, 0L, 0L);
#else
    pid_t pid = (pid_t)syscall(SYS_clone, (long)SIGCHLD, 0L, 0L, 0L, 0L);
#endif
    if (pid == 0) _exit(ts_own_threads_rest() ? 1 : 0);
    assert_true(pid > 0 && waitpid(pid, &status, 0) == pid);
    assert_true(WIFEXITED(status) && WEXITSTATUS(status) == 0);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(rest_beside_another),
        cmocka_unit_test(begin_while_others_rest),
        cmocka_unit_test(child_has_none),
    };
    return cmocka_run_group_tests_name("os.own_threads", tests, count_tasks, NULL);
}
