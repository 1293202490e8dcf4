/*
 * A static program from its first instruction to its last: functions before the constructors allocate, and after the
 * last destructor; stdio, threads and call stacks work. Also where the C library is another than glibc.
 */
#define _GNU_SOURCE
#include "../malloc_test.h"

#include <tslab/malloc.h>
#include <tslab/stats.h>

#include <locale.h>
#include <malloc.h>
#include <pthread.h>
#include <stdint.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

static char *first, *second, *last;

#if defined(__GLIBC__) /* musl looks at no such functions */
/* Before any constructor; libc has no streams yet, perhaps. */
static void before_constructors(int argc, char **argv, char **env) {
    (void)argc, (void)argv, (void)env;
    first = malloc(hidden_size(100));
    if (!first) _exit(3);
    strcpy(first, "before the constructors");
}
__attribute__((section(".preinit_array"), used)) static void (*const preinit)(int, char **,
                                                                              char **) = before_constructors;
#endif

__attribute__((constructor(101))) static void construct(void) {
#if !defined(__GLIBC__)
    first = strdup("before the constructors");
#endif
    second = strdup("in a constructor");
    CHECK(second != NULL);
}

__attribute__((destructor(101))) static void destruct(void) {
    CHECK(last && strcmp(last, "of an exit handler") == 0);
    free(last);
    free(second);
    free(first);
    for (size_t n = 1; n < 1 << 20; n *= 3) free(malloc(n));
}

static void at_exit(void) { last = strdup("of an exit handler"); }

static void test_owned(void) {
    CHECK(slab_malloc_active());
    CHECK(strcmp(first, "before the constructors") == 0 && malloc_usable_size(first) > 20);
    CHECK(slab_owns(slab_malloc_allocator(), second));
    /* Memory that libc allocates for the program. */
    char *text = NULL;
    CHECK(asprintf(&text, "%s %d", "printed", 1000) == 12 && slab_owns(slab_malloc_allocator(), text));
    free(text);
    FILE *f = fopen("/proc/self/status", "r");
    char *line = NULL;
    size_t room = 0;
    CHECK(f && getline(&line, &room, f) > 5 && strncmp(line, "Name:", 5) == 0);
    CHECK(slab_owns(slab_malloc_allocator(), line));
    free(line);
    fclose(f);
    CHECK(setlocale(LC_ALL, "C") && setenv("A_NAME", "a value", 1) == 0 && strcmp(getenv("A_NAME"), "a value") == 0);
}

static void *work(void *arg) {
    void *p[100];
    for (unsigned i = 0; i < 100; i++) p[i] = malloc(i * 50);
    for (unsigned i = 0; i < 100; i += 2) free(p[i]);
    for (unsigned i = 1; i < 100; i += 2) p[i] = realloc(p[i], i * 70);
    for (unsigned i = 1; i < 100; i += 2) free(p[i]);
    free(arg);
    return malloc(40);
}

static void test_threads(void) {
    for (unsigned round = 0; round < 50; round++) {
        pthread_t thread[4];
        for (unsigned k = 0; k < 4; k++) CHECK(pthread_create(&thread[k], NULL, work, malloc(30)) == 0);
        for (unsigned k = 0; k < 4; k++) {
            void *result;
            CHECK(pthread_join(thread[k], &result) == 0 && result);
            free(result);
        }
    }
}

static void sample_in_child(void);
static void test_fork(void) {
    for (unsigned i = 0; i < 10; i++) {
        pid_t pid = fork();
        if (pid == 0) {
            sample_in_child();
            test_threads();
            exit(0);
        }
        int status;
        CHECK(pid > 0 && waitpid(pid, &status, 0) == pid && WIFEXITED(status) && WEXITSTATUS(status) == 0);
    }
}

/* A thread that is made inside is not a domain's, and a domain ends with all that a thread has allocated in it. */
static void test_capture(void) {
    SlabAllocator *a = slab_malloc_allocator();
    SlabEpochStats stats;
    EpochDomain *d = epoch_domain_create_ex(a, "captured", EPOCH_DOMAIN_CAPTURE);
    CHECK(d && epoch_domain_enter(d));
    for (unsigned i = 0; i < 100; i++) CHECK(strdup("in the domain"));
    CHECK(slab_stats_epoch(a, SLAB_ALL_CLASSES, epoch_domain_epoch(d), &stats) && stats.live_objects == 100);
    pthread_t thread;
    CHECK(pthread_create(&thread, NULL, work, NULL) == 0);
    CHECK(slab_stats_epoch(a, SLAB_ALL_CLASSES, epoch_domain_epoch(d), &stats) && stats.live_objects == 100);
    CHECK(epoch_domain_exit(d));
    epoch_domain_destroy(d);
    void *result;
    CHECK(pthread_join(thread, &result) == 0);
    free(result);
}

/* The innermost frame of a sampled stack is the program's: the archive's own functions are left out. */
__attribute__((noinline)) static void *allocate_here(void) {
    void *p = malloc(hidden_size(5000));
    CHECK(p != NULL);
    return hidden(p);
}

static void test_stacks(void) {
    static SlabStackSample rows[64];
    SlabAllocator *a = slab_malloc_allocator();
    void *p[64];
    CHECK(slab_set_sample_stacks(a, 1));
    for (unsigned i = 0; i < 64; i++) p[i] = allocate_here();
    CHECK(slab_set_sample_stacks(a, 0));
    size_t n = slab_stacks(a, EPOCH_NONE, rows, 64), found = 0;
    for (size_t i = 0; i < n && i < 64; i++) {
        uintptr_t at = (uintptr_t)allocate_here, frame = (uintptr_t)rows[i].frames[0];
        if (rows[i].frame_count > 0 && frame - at < 256) found += rows[i].samples;
    }
/* Other C libraries have no call stacks, and a static program that is no PIE has none. */
#if defined(__GLIBC__) && !defined(__arm__) && defined(MALLOC_TEST_STATIC_PIE)
    CHECK(found >= 64); /* and the objects of the next function, if all is sampled from the start */
#else
    CHECK(found == 0);
#endif
    for (unsigned i = 0; i < 64; i++) free(p[i]);
}

/* In a child of fork: no thread waits for a lock that another one had. */
static void sample_in_child(void) {
    SlabAllocator *a = slab_malloc_allocator();
    CHECK(slab_set_sample_stacks(a, 1));
    for (unsigned i = 0; i < 64; i++) free(allocate_here());
    CHECK(slab_set_sample_stacks(a, 0));
}

int main(void) {
    CHECK(atexit(at_exit) == 0);
    test_owned();
    test_threads();
    test_capture();
    test_stacks();
    test_fork();
    SlabGlobalStats stats;
    CHECK(slab_stats_global(slab_malloc_allocator(), &stats) && stats.rejected_frees_total == 0);
    return 0;
}
