/*
 * A shared library that counts the sizes that a program asks malloc for: where the realistic mix of size_mix.h is
 * from. Preload it; each process appends "size count" lines to the file named by RECORD_SIZES when it ends.
 *
 *     cc -O2 -shared -fPIC benchmarks/suite/record_sizes.c -o record_sizes.so -ldl
 *     RECORD_SIZES=/tmp/sizes LD_PRELOAD=./record_sizes.so python3 program.py
 */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include <dlfcn.h>
#include <fcntl.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

enum { LARGEST = 4096 };

static atomic_ulong counts[LARGEST + 2]; /* the last: all that are larger */

static void count(size_t size) {
    atomic_fetch_add_explicit(&counts[size <= LARGEST ? size : LARGEST + 1], 1, memory_order_relaxed);
}

void *malloc(size_t size) {
    static void *(*next)(size_t);
    if (!next) *(void **)&next = dlsym(RTLD_NEXT, "malloc");
    count(size);
    return next(size);
}

void *realloc(void *pointer, size_t size) {
    static void *(*next)(void *, size_t);
    if (!next) *(void **)&next = dlsym(RTLD_NEXT, "realloc");
    count(size);
    return next(pointer, size);
}

__attribute__((destructor)) static void write_counts(void) {
    char line[64];
    const char *path = getenv("RECORD_SIZES");
    int fd = path ? open(path, O_WRONLY | O_CREAT | O_APPEND, 0644) : -1;
    if (fd < 0) return;
    for (size_t size = 0; size <= LARGEST + 1; size++) {
        unsigned long n = atomic_load_explicit(&counts[size], memory_order_relaxed);
        if (n == 0) continue;
        int length = snprintf(line, sizeof line, "%zu %lu\n", size, n);
        if (write(fd, line, (size_t)length) != length) break;
    }
    close(fd);
}
