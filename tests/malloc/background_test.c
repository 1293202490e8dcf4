/*
 * The library's thread: there is none in a process of one thread, one when the program makes its first, and the
 * environment has the last word. It takes no signals. Argument: none, or how many threads there are at the start.
 */
#define _GNU_SOURCE
#include "malloc_test.h"

#include <tslab/malloc.h>

#include <dirent.h>
#include <errno.h>
#include <pthread.h>
#include <sched.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#if defined(__GLIBC__) && __GLIBC_PREREQ(2, 34)
enum { SEES_THREADS = 1 };
#else
enum { SEES_THREADS = 0 };
#endif

/* Entries of /proc/self/task; *other: one that is not this thread. */
static int count_tasks(char other[64]) {
    DIR *d = opendir("/proc/self/task");
    int n = 0;
    CHECK(d != NULL);
    for (struct dirent *e; (e = readdir(d)) != NULL;) {
        if (e->d_name[0] == '.') continue;
        n++;
        if (atol(e->d_name) != (long)getpid()) snprintf(other, 64, "%.63s", e->d_name);
    }
    closedir(d);
    return n;
}

/* A thread that was joined may be there a moment longer. */
static void expect_tasks(int wanted) {
    char other[64];
    const struct timespec moment = {0, 1000000};
    while (count_tasks(other) > wanted) nanosleep(&moment, NULL);
    CHECK(count_tasks(other) == wanted);
}

static void *work(void *arg) {
    free(malloc(1000));
    return arg;
}

static void run_thread(void) {
    pthread_t thread;
    CHECK(pthread_create(&thread, NULL, work, NULL) == 0 && pthread_join(thread, NULL) == 0);
}

static void expect_no_signals(void) {
    char other[64] = "", name[128], line[256];
    unsigned long long blocked = 0;
    CHECK(count_tasks(other) == 2);
    snprintf(name, sizeof name, "/proc/self/task/%s/status", other);
    FILE *f = fopen(name, "r");
    CHECK(f != NULL);
    while (fgets(line, sizeof line, f)) (void)sscanf(line, "SigBlk: %llx", &blocked);
    fclose(f);
    /* All but SIGKILL, SIGSTOP and the two that libc has for itself. */
    CHECK((blocked | 1ull << 8 | 1ull << 18 | 1ull << 31 | 1ull << 32) == ~0ull);
}

static void expect_zero(pid_t pid) {
    int status;
    CHECK(pid > 0 && waitpid(pid, &status, 0) == pid && WIFEXITED(status) && WEXITSTATUS(status) == 0);
}

/* In a child: as the program itself, from the beginning. */
static void test_child(int from_start, int with_threads) {
    pid_t pid = fork();
    if (pid != 0) {
        expect_zero(pid);
        return;
    }
    expect_tasks(from_start);
    if (from_start == 1) CHECK(unshare(CLONE_NEWUSER) == 0 || errno != EINVAL); /* that is said to several threads */
    run_thread();
    expect_tasks(with_threads);
    _exit(0);
}

static void run_again(const char *value, const char *tasks) {
    pid_t pid = fork();
    if (pid == 0) {
        CHECK(setenv("TSLAB_BACKGROUND", value, 1) == 0);
        execl("/proc/self/exe", "background_test", tasks, (char *)NULL);
        _exit(127);
    }
    expect_zero(pid);
}

int main(int argc, char **argv) {
    CHECK(slab_malloc_active());
    free(malloc(100));
    if (argc > 1) {
        int n = atoi(argv[1]);
        expect_tasks(n);
        run_thread();
        expect_tasks(n);
        test_child(n, n);
        return 0;
    }
    CHECK(unsetenv("TSLAB_BACKGROUND") == 0);
    expect_tasks(1);
    test_child(1, 1 + SEES_THREADS);
    run_thread();
    expect_tasks(1 + SEES_THREADS);
    if (SEES_THREADS) expect_no_signals();
    run_thread();
    expect_tasks(1 + SEES_THREADS);
    test_child(1, 1 + SEES_THREADS);
    run_again("0", "1");
    run_again("1", "2");
    return 0;
}
