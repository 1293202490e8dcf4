/*
 * A library that uses tslab is loaded, used by several threads, and unloaded while these live: they end after that, the
 * process forks after that, and the library comes back. The program itself has nothing of tslab.
 *
 *     dlclose_test LIBRARY...
 */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include <dlfcn.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#define CHECK(condition, text)                                                               \
    do {                                                                                     \
        if (!(condition)) {                                                                  \
            (void)fprintf(stderr, "FAIL dlclose_test %s: %s: %s\n", path, #condition, text); \
            exit(1);                                                                         \
        }                                                                                    \
    } while (0)

static const char *path;
static int (*work)(int);
static pthread_barrier_t used, closed;

static void *use_and_stay(void *argument) {
    CHECK(work(1000) == 0, "in a thread");
    (void)pthread_barrier_wait(&used);
    (void)pthread_barrier_wait(&closed);
    return argument; /* its end calls into the library */
}

static void find(void *library, const char *name, void *to) {
    void *symbol = dlsym(library, name);
    CHECK(symbol != NULL, name);
    memcpy(to, &symbol, sizeof symbol);
}

static void load_use_unload(void) {
    enum { THREADS = 4 };
    pthread_t threads[THREADS];
    void *(*keep)(void);
    int (*drop)(void *);
    void *library = dlopen(path, RTLD_NOW | RTLD_LOCAL);
    CHECK(library != NULL, dlerror());
    find(library, "plugin_work", &work);
    find(library, "plugin_keep", &keep);
    find(library, "plugin_drop", &drop);
    CHECK(work(5000) == 0, "in the main thread");
    void *object = keep();
    CHECK(object != NULL && drop(object) == 0 && drop(object) == 1, "an object");
    CHECK(pthread_barrier_init(&used, NULL, THREADS + 1) == 0 && pthread_barrier_init(&closed, NULL, THREADS + 1) == 0,
          "barriers");
    for (int i = 0; i < THREADS; i++) {
        CHECK(pthread_create(&threads[i], NULL, use_and_stay, NULL) == 0, "pthread_create");
    }
    (void)pthread_barrier_wait(&used);
    CHECK(dlclose(library) == 0, "dlclose");
    (void)pthread_barrier_wait(&closed);
    for (int i = 0; i < THREADS; i++) {
        CHECK(pthread_join(threads[i], NULL) == 0, "pthread_join");
    }
    int status;
    pid_t child = fork();
    if (child == 0) {
        _exit(7);
    }
    CHECK(child > 0 && waitpid(child, &status, 0) == child && WIFEXITED(status) && WEXITSTATUS(status) == 7,
          "fork after dlclose");
    (void)pthread_barrier_destroy(&used);
    (void)pthread_barrier_destroy(&closed);
}

int main(int argc, char **argv) {
    if (argc < 2) {
        (void)fprintf(stderr, "usage: dlclose_test LIBRARY...\n");
        return 2;
    }
    (void)alarm(60);
    for (int round = 0; round < 3; round++) {
        for (int i = 1; i < argc; i++) {
            path = argv[i];
            load_use_unload();
        }
    }
    return 0;
}
