/*
 * A library that stands in for functions of libc, and allocates in each: preloaded beside libtslab-malloc, behind it or
 * before it. Its constructor and its destructor allocate too.
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <fcntl.h>
#include <pthread.h>
#include <sched.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

/* Of libc: since 2.34, or of libdl at the machine's beginning. */
#if __GLIBC__ > 2 || __GLIBC_MINOR__ >= 34
#define DLSYM_VERSION "GLIBC_2.34"
#elif defined(__x86_64__)
#define DLSYM_VERSION "GLIBC_2.2.5"
#else
#define DLSYM_VERSION "GLIBC_2.17"
#endif

static _Thread_local int depth;
static void *kept;

static void allocate(size_t bytes) {
    if (depth++ == 0) {
        void *volatile p = malloc(bytes), *volatile q = calloc(1, 30);
        p = realloc(p, bytes + 100);
        free(p);
        free(q);
    }
    depth--;
}

void *mmap(void *at, size_t bytes, int protection, int flags, int fd, off_t offset) {
    allocate(100);
    return (void *)syscall(SYS_mmap, at, bytes, protection, flags, fd, offset);
}
void *mmap64(void *at, size_t bytes, int protection, int flags, int fd, off_t offset) {
    return mmap(at, bytes, protection, flags, fd, offset);
}
int munmap(void *at, size_t bytes) {
    allocate(5000);
    return (int)syscall(SYS_munmap, at, bytes);
}
int mprotect(void *at, size_t bytes, int protection) {
    allocate(20);
    return (int)syscall(SYS_mprotect, at, bytes, protection);
}
int madvise(void *at, size_t bytes, int advice) {
    allocate(300);
    return (int)syscall(SYS_madvise, at, bytes, advice);
}
int open(const char *path, int flags, ...) {
    va_list arguments;
    va_start(arguments, flags);
    int mode = va_arg(arguments, int);
    va_end(arguments);
    allocate(70000);
    return (int)syscall(SYS_openat, AT_FDCWD, path, flags, mode);
}
ssize_t read(int fd, void *buffer, size_t bytes) {
    allocate(64);
    return syscall(SYS_read, fd, buffer, bytes);
}
ssize_t write(int fd, const void *buffer, size_t bytes) {
    allocate(64);
    return syscall(SYS_write, fd, buffer, bytes);
}
int close(int fd) {
    allocate(64);
    return (int)syscall(SYS_close, fd);
}
int sched_yield(void) {
    allocate(8);
    return (int)syscall(SYS_sched_yield);
}
char *getenv(const char *name) {
    static char *(*real)(const char *);
    allocate(24); /* and dlsym may allocate */
    if (!real) *(void **)&real = dlsym(RTLD_NEXT, "getenv");
    return real(name);
}
int clock_gettime(clockid_t id, struct timespec *t) {
    allocate(40);
    return (int)syscall(SYS_clock_gettime, id, t);
}
int pthread_setspecific(pthread_key_t key, const void *value) {
    static int (*real)(pthread_key_t, const void *);
    allocate(400);
    if (!real) *(void **)&real = dlsym(RTLD_NEXT, "pthread_setspecific");
    return real(key, value);
}

/* Allocates before and after the real one, which allocates too where it has nothing to answer. */
void *dlsym(void *restrict handle, const char *restrict name) {
    static void *(*real)(void *, const char *);
    allocate(90);
    if (!real) *(void **)&real = dlvsym(RTLD_NEXT, "dlsym", DLSYM_VERSION);
    void *symbol = real(handle, name);
    allocate(700);
    return symbol;
}

__attribute__((constructor(101))) static void begin(void) { kept = malloc(10000); }
__attribute__((destructor(101))) static void end(void) { free(kept); }
