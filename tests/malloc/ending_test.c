/*
 * Threads that go on allocating while the process ends: in the hard mode nothing is said of their objects, and nothing
 * faults. Arguments: none, or --once: such a process.
 */
#define _GNU_SOURCE
#include "malloc_test.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdint.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

enum { THREADS = 3, OBJECTS = 64, TIMES = 6, PROCESSES = 4 };

static _Atomic unsigned done;

static void *go_on(void *seed) {
    static const size_t sizes[] = {10, 40, 40, 100, 1000, 3000, 8000, 20000, 140000, 300000};
    char *p[OBJECTS] = {NULL};
    uint32_t x = (uint32_t)(uintptr_t)seed;
    for (;;) {
        x = x * 1664525u + 1013904223u;
        size_t i = (x >> 8) % OBJECTS, n = sizes[(x >> 16) % 10] + (x >> 24) % 16;
        free(p[i]);
        CHECK((p[i] = malloc(n)) != NULL);
        memset(p[i], 'x', n);
        if (x >> 30 == 0) CHECK((p[i] = realloc(p[i], n + n / 3)) != NULL);
        (void)atomic_fetch_add(&done, 1);
    }
    return NULL;
}

static int once(void) {
    for (uintptr_t i = 0; i < THREADS; i++) {
        pthread_t thread;
        CHECK(pthread_create(&thread, NULL, go_on, (void *)(i * 977 + (uintptr_t)getpid())) == 0);
    }
    while (atomic_load(&done) < 2000) (void)sched_yield();
    exit(0);
}

int main(int argc, char **argv) {
    if (argc == 2 && strcmp(argv[1], "--once") == 0) return once();
    int said = memfd_create("said", 0);
    CHECK(said >= 0);
    for (int i = 0; i < TIMES; i++) {
        pid_t pids[PROCESSES];
        for (int k = 0; k < PROCESSES; k++) {
            CHECK((pids[k] = fork()) >= 0);
            if (pids[k] > 0) continue;
            (void)dup2(said, STDERR_FILENO);
            execl("/proc/self/exe", "ending_test", "--once", (char *)NULL);
            _exit(127);
        }
        for (int k = 0; k < PROCESSES; k++) {
            char text[1024] = "";
            int status;
            CHECK(waitpid(pids[k], &status, 0) == pids[k]);
            ssize_t n = pread(said, text, sizeof text - 1, 0);
            if (WIFEXITED(status) && WEXITSTATUS(status) == 0 && n == 0) continue;
            fprintf(stderr, "status %#x: %s\n", (unsigned)status, text);
            return 1;
        }
    }
    return 0;
}
