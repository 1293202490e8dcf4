/* A program that knows nothing of the library and holds memory by three ways: 64 MB, 24 MB and, in a thread named
   collector, 12 MB. Says when, and ends with its input. */
#define _GNU_SOURCE
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>

#define OBJECT_BYTES 4000u

static void *kept[40000];
static unsigned count;

static void *allocate(size_t bytes) {
    void *p = malloc(bytes);
    if (!p) exit(1);
    return p;
}

static void keep(unsigned megabytes) {
    for (unsigned i = 0; i < megabytes * 250; i++) kept[count++] = allocate(OBJECT_BYTES);
}

static void fill_cache(void) { keep(64); }
static void load_index(void) { keep(24); }
static void serve(void) {
    fill_cache();
    load_index();
}

static void *collect(void *unused) {
    if (pthread_setname_np(pthread_self(), "collector") != 0) exit(1);
    keep(12);
    return unused;
}

int main(void) {
    pthread_t thread;
    serve();
    if (pthread_create(&thread, NULL, collect, NULL) != 0 || pthread_join(thread, NULL) != 0) return 1;
    puts("holds");
    fflush(stdout);
    while (getchar() != EOF) {
    }
    for (unsigned i = 0; i < count; i++) free(kept[i]);
    return 0;
}
