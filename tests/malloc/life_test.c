/*
 * From the first call to the last: constructors, threads that allocate in every round of their destructors, forks in
 * any state, exit handlers, frees after everything. Arguments: none, or how many short threads (100,000).
 */
#define _GNU_SOURCE
#include "live.h"
#include "malloc_test.h"

#include <tslab/malloc.h>
#include <tslab/stats.h>

#include <errno.h>
#include <limits.h>
#include <malloc.h>
#include <pthread.h>
#include <signal.h>
#include <spawn.h>
#include <stdatomic.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

extern char **environ;

/* ---- before main, and after it ----------------------------------------------------------------------------- */

static char *early, *late;

static void in_child(void);
static void expect_zero(pid_t pid);

__attribute__((constructor(101))) static void first(void) {
    early = strdup("allocated before main");
    CHECK(early != NULL);
    pid_t pid = fork();
    if (pid == 0) {
        free(early);
        in_child();
        _exit(0);
    }
    expect_zero(pid);
}

__attribute__((destructor(101))) static void last(void) {
    free(late);
    free(early);
    void *p = malloc(100000);
    CHECK(p != NULL);
    free(p);
}

static void at_exit(void) {
    CHECK(strcmp(early, "allocated before main") == 0);
    late = strdup("allocated by an exit handler");
    CHECK(late != NULL);
    pid_t pid = fork();
    if (pid == 0) {
        in_child();
        _exit(0);
    }
    expect_zero(pid);
}

/* ---- threads ------------------------------------------------------------------------------------------------- */

static pthread_key_t keys[40]; /* more than glibc has room for without allocating */
static atomic_uint rounds_seen;

typedef struct note {
    pthread_key_t key;
    unsigned round;
    char *kept, *foreign;
} note;

/* Each round frees the objects of the last one, and goes on to the next. The last object is freed at once. */
static void destroy(void *arg) {
    note *n = arg;
    atomic_fetch_or(&rounds_seen, 1u << n->round);
    CHECK(n->kept && strcmp(n->kept, "kept") == 0);
    n->kept = realloc(n->kept, 100u << n->round);
    CHECK(n->kept && strcmp(n->kept, "kept") == 0);
    free(n->foreign);
    n->foreign = NULL;
    note *next = malloc(sizeof *next);
    CHECK(next != NULL);
    *next = *n;
    free(n);
    void *aligned = NULL, *zero = calloc(3, 7);
    CHECK(posix_memalign(&aligned, 256, 10) == 0 && zero);
    for (int i = 0; i < 21; i++) CHECK(((const char *)zero)[i] == 0);
    CHECK((uintptr_t)aligned % 256 == 0);
    free(aligned);
    free(zero);
    if (++next->round < PTHREAD_DESTRUCTOR_ITERATIONS) {
        CHECK(pthread_setspecific(next->key, next) == 0);
    } else {
        free(next->kept);
        free(next);
    }
}

static void *short_thread(void *arg) {
    for (unsigned i = 0; i < 2; i++) { /* a key before ours, perhaps, and one after it */
        note *n = malloc(sizeof *n);
        CHECK(n != NULL);
        n->key = keys[i ? sizeof keys / sizeof *keys - 1 : 0];
        n->round = 0;
        n->kept = strdup("kept");
        n->foreign = i ? NULL : arg;
        CHECK(pthread_setspecific(n->key, n) == 0);
    }
    return malloc(100); /* freed by the joining thread */
}

static size_t resident_kib(void) {
    FILE *f = fopen("/proc/self/statm", "r");
    unsigned long ignored, pages = 0;
    CHECK(f && fscanf(f, "%lu %lu", &ignored, &pages) == 2);
    fclose(f);
    return pages * (size_t)sysconf(_SC_PAGESIZE) / 1024;
}

static void run_threads(unsigned count) {
    for (unsigned i = 0; i < count; i += 4) {
        pthread_t thread[4];
        for (unsigned k = 0; k < 4; k++) CHECK(pthread_create(&thread[k], NULL, short_thread, malloc(50)) == 0);
        for (unsigned k = 0; k < 4; k++) {
            void *result;
            CHECK(pthread_join(thread[k], &result) == 0);
            free(result);
        }
    }
}

static size_t live_bytes(void) {
    SlabGlobalStats stats;
    CHECK(slab_stats_global(slab_malloc_allocator(), &stats));
    return (size_t)stats.live_bytes;
}

static void test_threads(unsigned count) {
    for (unsigned i = 0; i < sizeof keys / sizeof *keys; i++) CHECK(pthread_key_create(&keys[i], destroy) == 0);
    run_threads(count / 10);
    size_t before = resident_kib(), objects = live_bytes();
    run_threads(count);
    size_t after = resident_kib();
    CHECK(rounds_seen == (1u << PTHREAD_DESTRUCTOR_ITERATIONS) - 1);
    if (after >= before + 2048) fprintf(stderr, "%zu KiB before, %zu after\n", before, after);
    CHECK(after < before + 2048); /* flat */
    CHECK(live_bytes() < objects + 65536);
    SlabGlobalStats stats;
    CHECK(slab_stats_global(slab_malloc_allocator(), &stats) && stats.rejected_frees_total == 0);
}

/* ---- processes ------------------------------------------------------------------------------------------------- */

static atomic_bool stop;

static void *busy(void *arg) {
    void *p[64] = {0};
    unsigned seed = (unsigned)(uintptr_t)arg;
    while (!stop) {
        unsigned i = (unsigned)rand_r(&seed) % 64;
        free(p[i]);
        size_t bytes = (size_t)rand_r(&seed) % (i == 0 ? 200000 : 2000);
        p[i] = malloc(bytes);
        CHECK(p[i] != NULL);
    }
    for (unsigned i = 0; i < 64; i++) free(p[i]);
    return NULL;
}

static void in_child(void) {
    for (unsigned i = 0; i < 300; i++) {
        void *p = malloc(i * 37), *q = calloc(3, i);
        CHECK(p && q);
        p = realloc(p, i * 50 + 1);
        CHECK(p != NULL);
        free(q);
        free(p);
    }
    pthread_t thread;
    stop = true;
    CHECK(pthread_create(&thread, NULL, busy, NULL) == 0 && pthread_join(thread, NULL) == 0);
}

static void expect_zero(pid_t pid) {
    int status;
    CHECK(pid > 0 && waitpid(pid, &status, 0) == pid && WIFEXITED(status) && WEXITSTATUS(status) == 0);
}

/* Handlers of fork that allocate: they are registered after the library's. */
static _Thread_local char *of_handler; /* other threads fork meanwhile */
static void prepare(void) { of_handler = strdup("prepared"); }
static void done(void) {
    CHECK(strcmp(of_handler, "prepared") == 0);
    free(of_handler);
}

static void test_fork(unsigned count) {
    pthread_t thread[4];
    CHECK(pthread_atfork(prepare, done, done) == 0);
    for (uintptr_t k = 0; k < 4; k++) CHECK(pthread_create(&thread[k], NULL, busy, (void *)(k + 1)) == 0);
    for (unsigned i = 0; i < count; i++) {
        pid_t pid = fork();
        if (pid == 0) {
            in_child();
            if (i % 8 == 0) { /* and its child */
                pid_t grandchild = fork();
                if (grandchild == 0) {
                    in_child();
                    _exit(0);
                }
                expect_zero(grandchild);
            }
            _exit(0);
        }
        expect_zero(pid);
    }
    for (unsigned i = 0; i < count; i++) {
        char *argv[] = {"true", NULL};
        pid_t pid;
        CHECK(posix_spawnp(&pid, "true", NULL, NULL, argv, environ) == 0);
        expect_zero(pid);
        pid = vfork();
        if (pid == 0) {
            void *volatile p = malloc(100); /* the parent's memory: it is the same thread */
            free(p);
            execlp("true", "true", (char *)NULL);
            _exit(1);
        }
        expect_zero(pid);
    }
    stop = true;
    for (unsigned k = 0; k < 4; k++) CHECK(pthread_join(thread[k], NULL) == 0);
}

/* Several threads fork at once, while others allocate; and threads fork in the destructors of their end. */
static void *forks(void *arg) {
    for (unsigned i = 0; i < 10; i++) {
        void *p = malloc(1000 * i);
        pid_t pid = fork();
        if (pid == 0) {
            free(p);
            in_child();
            _exit(0);
        }
        free(p);
        expect_zero(pid);
    }
    return arg;
}

static pthread_key_t last_words;
static void fork_at_end(void *arg) {
    pid_t pid = fork();
    if (pid == 0) {
        free(arg);
        in_child();
        _exit(0);
    }
    free(arg);
    expect_zero(pid);
}
static void *forks_at_end(void *arg) {
    CHECK(pthread_setspecific(last_words, malloc(300)) == 0);
    return arg;
}

static void test_fork_storm(void) {
    pthread_t busy_thread[2], thread[6];
    CHECK(pthread_key_create(&last_words, fork_at_end) == 0);
    stop = false;
    for (uintptr_t k = 0; k < 2; k++) CHECK(pthread_create(&busy_thread[k], NULL, busy, (void *)(k + 1)) == 0);
    for (unsigned k = 0; k < 6; k++) CHECK(pthread_create(&thread[k], NULL, k < 4 ? forks : forks_at_end, NULL) == 0);
    for (unsigned k = 0; k < 6; k++) CHECK(pthread_join(thread[k], NULL) == 0);
    stop = true;
    for (unsigned k = 0; k < 2; k++) CHECK(pthread_join(busy_thread[k], NULL) == 0);
}

int main(int argc, char **argv) {
    unsigned threads = argc > 1 ? (unsigned)atoi(argv[1]) : 100000;
    CHECK(slab_malloc_active() && is_live(early));
    CHECK(atexit(at_exit) == 0);
    test_threads(threads);
    test_fork(40);
    test_fork_storm();
    return 0;
}
