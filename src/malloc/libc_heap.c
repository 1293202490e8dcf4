#define _GNU_SOURCE
#include "malloc/libc_heap.h"

#include "base/attr.h"

#include <limits.h> /* __GLIBC__ */

#if defined(__GLIBC__) && !defined(TSLAB_MALLOC_STATIC)

#include "base/atomic.h"

#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <malloc.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* Looked up once; written before `found`. */
static struct {
    void (*free)(void *);
    size_t (*usable)(void *);
    struct mallinfo2 (*info)(void);
    uintptr_t start; /* of what brk gives */
} libc;
static _Atomic bool found, has_heap; /* each is set once, by whoever comes first or by several with the same values */

/* ISO C has no conversion of a pointer to a function's. */
static bool look_up(void *handle, const char *name, void *function) {
    void *symbol = dlsym(handle, name);
    __builtin_memcpy(function, &symbol, sizeof symbol);
    return symbol != NULL;
}

/* The 47th word of /proc/self/stat; the second is the program's name, in parentheses. 0: the system does not say. */
static uintptr_t brk_start(void) {
    char text[1024];
    int fd = open("/proc/self/stat", O_RDONLY | O_CLOEXEC);
    ssize_t n = fd < 0 ? -1 : read(fd, text, sizeof text - 1);
    if (fd >= 0) (void)close(fd);
    if (n <= 0) return 0;
    text[n] = 0;
    const char *word = strrchr(text, ')');
    for (unsigned i = 2; word && i < 47; i++) {
        word = strchr(word, ' ');
        if (word) word++;
    }
    return word ? (uintptr_t)strtoull(word, NULL, 10) : 0;
}

TS_COLD static bool find(void) {
    void *handle = dlopen("libc.so.6", RTLD_LAZY | RTLD_NOLOAD);
    bool all = handle && look_up(handle, "free", &libc.free) && look_up(handle, "malloc_usable_size", &libc.usable) &&
               look_up(handle, "mallinfo2", &libc.info);
    if (handle) (void)dlclose(handle);
    libc.start = all ? brk_start() : 0;
    if (libc.start == 0) return false;
    ts_store_release(&found, true);
    return true;
}

/* Whether p is the start of an object in a heap of libc's that brk has given. */
static bool is_there(const void *p) {
    uintptr_t at = (uintptr_t)p, end = (uintptr_t)sbrk(0);
    /* What brk gives is below all mappings as a rule: this is the way out of nearly every pointer. */
    if (end == UINTPTR_MAX || at >= end || at % 16 != 0) return false;
    if (!ts_load_acquire(&found) && !find()) return false;
    if (at < libc.start + 16) return false;
    if (!ts_load_relaxed(&has_heap)) {
        if (libc.info().arena == 0) return false;
        ts_store_relaxed(&has_heap, true);
    }
    /* A chunk: the word before it has its size, with three flags; the next chunk says that this one is in use. */
    size_t word = ((const size_t *)p)[-1], bytes = word & ~(size_t)7;
    if (bytes < 2 * sizeof(size_t) || bytes % 16 != 0 || bytes > end - at || (word & 6) != 0) return false;
    size_t next = *(const size_t *)(const void *)((const char *)p - sizeof(size_t) + bytes);
    return (next & 1) != 0;
}

bool ts_libc_heap_free(void *p) {
    int error = errno;
    bool here = is_there(p);
    if (here) libc.free(p);
    errno = error;
    return here;
}

size_t ts_libc_heap_usable(const void *p) {
    int error = errno;
    size_t bytes = is_there(p) ? libc.usable((void *)(uintptr_t)p) : 0;
    errno = error;
    return bytes;
}

#else

bool ts_libc_heap_free(void *p) { return (void)p, false; }
size_t ts_libc_heap_usable(const void *p) { return (void)p, (size_t)0; }

#endif
