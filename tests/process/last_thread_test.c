/*
 * Programs whose last thread ends (support/last_thread.h), and that have an allocator with the option `background` and
 * the statistics page. The first thread uses the allocator, or another one does.
 */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include "last_thread.h"

#include <tslab/tslab.h>

#include <sys/syscall.h>

static bool by_another;
static SlabAllocator *allocator;

static void use_memory(void) {
    if (by_another && syscall(SYS_gettid) == getpid()) return;
    if (!slab_free(allocator, slab_malloc(allocator, 100))) _exit(8);
}

static void *start(void *unused) {
    SlabOptions options;
    memset(&options, 0, sizeof options);
    options.size = sizeof options;
    options.background = true;
    allocator = slab_allocator_create_ex(&options);
    use_memory();
    return unused;
}

static void begin(void) {
    pthread_t thread;
    if (setenv("TSLAB_SHM", "1", 1) != 0) _exit(8);
    if (!by_another)
        (void)start(NULL);
    else if (pthread_create(&thread, NULL, start, NULL) != 0 || pthread_join(thread, NULL) != 0)
        _exit(8);
}

int main(int argc, char **argv) {
#if defined(__SANITIZE_THREAD__)
    (void)argc, (void)argv, (void)begin, (void)last_thread_main, (void)by_another;
    puts("last_thread_test: skipped, ThreadSanitizer has a thread of its own");
    return 77;
#else
    by_another = getenv("LAST_THREAD_ANOTHER") != NULL; /* of a case */
    int first = last_thread_main(argc, argv, begin);
    if (argc > 1 || setenv("LAST_THREAD_ANOTHER", "1", 1) != 0) return first;
    return first | last_thread_main(argc, argv, begin);
#endif
}
