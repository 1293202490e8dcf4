/*
 * A handler of fork forks: before the library's handlers have run, inside of them, and after them; with the statistics
 * page and without. All processes that come of it, of both forks, are whole: only the threads that are there have
 * heaps, objects of the first process's second thread can be freed, and one page is written.
 */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include "check.h"
#include "identities.h"

#include "ownership/ownership.h"

#include <tslab/tslab.h>

#include <dirent.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

/* A handler: those that are registered before the library's, and after them. */
enum { NONE, EARLY, PREPARE = 2, PARENT = 4, CHILD = 6, HANDLERS = 8 };

static int forks_in = NONE; /* this handler; once */
static pid_t inner;         /* the result of the fork in it, */
static pid_t inner_of;      /* and the process that it was called in */
static SlabAllocator *allocator;
static void *of_other;
static pthread_barrier_t ready;
static unsigned tasks_alone;

static void handle(int which) {
    if (which != forks_in) return;
    forks_in = NONE;
    inner_of = getpid();
    inner = fork();
    SUP_CHECK(inner >= 0, "fork in a handler");
}
static void early_prepare(void) { handle(PREPARE | EARLY); }
static void early_parent(void) { handle(PARENT | EARLY); }
static void early_child(void) { handle(CHILD | EARLY); }
static void late_prepare(void) { handle(PREPARE); }
static void late_parent(void) { handle(PARENT); }
static void late_child(void) { handle(CHILD); }

__attribute__((constructor(101))) static void register_early(void) {
    (void)pthread_atfork(early_prepare, early_parent, early_child);
}

static void *stay(void *unused) {
    of_other = slab_malloc(allocator, 100);
    (void)pthread_barrier_wait(&ready);
    for (;;) pause();
    return unused;
}

static unsigned tasks(void) {
    unsigned count = 0;
    DIR *d = opendir("/proc/self/task");
    SUP_CHECK(d, "opendir");
    for (struct dirent *e; (e = readdir(d)) != NULL;) count += e->d_name[0] != '.';
    (void)closedir(d);
    return count;
}

/* threads: of the program. A page's thread takes none of the calls that need a heap. */
static void check_process(unsigned threads, bool page) {
    const struct timespec looks = {0, 300000000};
    unsigned heaps = 0;
    for (const ts_heap *h = ts_heaps(); h; h = h->next) heaps += ts_load_relaxed(&h->state) == TS_HEAP_LIVE;
    SUP_CHECK(heaps == threads, "%u heaps of %u threads", heaps, threads);
    SUP_CHECK(slab_free(allocator, of_other), "an object of the second thread");
    SUP_CHECK(slab_free(allocator, slab_malloc(allocator, 1 << 20)), "a large object");
    sup_check_identities(allocator);
    if (page) (void)nanosleep(&looks, NULL); /* it is written once more */
    SUP_CHECK(tasks() == tasks_alone + threads - 1 + page, "%u threads", tasks());
}

static void wait_for(pid_t pid) {
    int status;
    SUP_CHECK(pid == 0 || (waitpid(pid, &status, 0) == pid && status == 0), "a child: %d", status);
}

static void run(int handler, bool page) {
    pthread_t second;
    tasks_alone = tasks();
    SUP_CHECK(setenv("TSLAB_SHM", page ? "1" : "0", 1) == 0, "setenv");
    allocator = slab_allocator_create();
    SUP_CHECK(allocator && slab_malloc(allocator, 10), "an allocator");
    SUP_CHECK(pthread_barrier_init(&ready, NULL, 2) == 0, "pthread_barrier_init");
    SUP_CHECK(pthread_create(&second, NULL, stay, NULL) == 0, "pthread_create");
    (void)pthread_barrier_wait(&ready);
    pid_t first = getpid();
    forks_in = handler;
    pid_t outer = fork();
    SUP_CHECK(outer >= 0, "fork");
    (void)alarm(30);
    check_process(getpid() == first ? 2 : 1, page);
    if (inner_of == getpid()) wait_for(inner);
    if (getpid() == first || (handler & ~EARLY) != PARENT) wait_for(outer); /* else it is no child of this process */
    _exit(0);
}

int main(void) {
#ifndef __GLIBC__
    (void)puts("skipped: musl holds its lock of fork handlers while they run, so a fork in one hangs");
    return 77;
#endif
    SUP_CHECK(pthread_atfork(late_prepare, late_parent, late_child) == 0, "pthread_atfork");
    for (int handler = NONE; handler < HANDLERS; handler++) {
        if (handler == EARLY) continue;
        for (int page = 0; page < 2; page++) {
            pid_t pid = fork();
            SUP_CHECK(pid >= 0, "fork");
            if (pid == 0) run(handler, page);
            int status;
            SUP_CHECK(waitpid(pid, &status, 0) == pid && status == 0, "handler %d, page %d: %#x", handler, page,
                      (unsigned)status);
        }
    }
    return 0;
}
