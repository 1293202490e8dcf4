/*
 * The functions of C, POSIX and glibc by which a program allocates. Each passes the call on to the next library's: the
 * C library's, or that of the allocator that the program runs with.
 *
 * The first call finds these functions by dlsym, which may allocate by itself. It is served from a small array then,
 * whose objects are never freed.
 */
#define _GNU_SOURCE
#include "record/inside.h"
#include "record/next.h"

#include <dlfcn.h>
#include <errno.h>
#include <string.h>

static struct {
    void *(*malloc_)(size_t);
    void *(*calloc_)(size_t, size_t);
    void *(*realloc_)(void *, size_t);
    void (*free_)(void *);
    void *(*aligned_alloc_)(size_t, size_t);
    void *(*memalign_)(size_t, size_t);
    int (*posix_memalign_)(void **, size_t, size_t);
    void *(*valloc_)(size_t);
    void *(*pvalloc_)(size_t);
} next;
static _Atomic int has_next; /* 1: being found; 2: found */

void *record_next(const char *name) {
    bool was = record_self.inside;
    record_self.inside = true;
    void *p = dlsym(RTLD_NEXT, name);
    /* A library that was loaded for another one alone, as a plugin's. Its users call this library all the same. */
    static const char *const others[] = {"libstdc++.so.6", "libc++.so.1", "libc++abi.so.1",
                                         ("libtslab.so." TSLAB_SOVERSION)};
    for (size_t i = 0; !p && i < sizeof others / sizeof *others; i++) {
        void *library = dlopen(others[i], RTLD_LAZY | RTLD_NOLOAD);
        if (library) p = dlsym(library, name);
        if (library) (void)dlclose(library);
    }
    record_self.inside = was;
    return p;
}

static void find_next(void) {
    int none = 0;
    if (!atomic_compare_exchange_strong(&has_next, &none, 1)) return;
#define FIND(name) NEXT(next.name##_, #name)
    FIND(calloc);
    FIND(realloc);
    FIND(free);
    FIND(aligned_alloc);
    FIND(memalign);
    FIND(posix_memalign);
    FIND(valloc);
    FIND(pvalloc);
    FIND(malloc); /* last: the others are there with it */
    atomic_store(&has_next, 2);
}

/* ---- before there is a next function ----------------------------------------------------------------------------- */

enum { EARLY_BYTES = 1 << 16 };
static _Alignas(64) char early[EARLY_BYTES];
static _Atomic size_t early_used;

static bool is_early(const void *p) { return (uintptr_t)p - (uintptr_t)early < EARLY_BYTES; }

static void *early_alloc(size_t align, size_t size) {
    if (size > EARLY_BYTES / 2) return NULL;
    size_t bytes = (size + 15 + align) & ~(size_t)15, at = atomic_fetch_add(&early_used, bytes);
    if (at + bytes > EARLY_BYTES) return NULL;
    return (void *)(((uintptr_t)early + at + align - 1) & ~(align - 1));
}

static bool is_ready(void) {
    if (LIKELY(atomic_load_explicit(&has_next, memory_order_acquire) == 2)) return true;
    find_next();
    return atomic_load(&has_next) == 2;
}

/* ---- C and POSIX ------------------------------------------------------------------------------------------------- */

EXPORT void *malloc(size_t size) {
    if (UNLIKELY(!is_ready())) return early_alloc(16, size);
    if (!record_begin_birth()) return next.malloc_(size);
    void *p = next.malloc_(size);
    if (p) record_birth(p, size, 0, 0, false);
    record_end();
    return p;
}

EXPORT void *calloc(size_t n, size_t size) {
    size_t bytes;
    if (UNLIKELY(!is_ready())) return __builtin_mul_overflow(n, size, &bytes) ? NULL : early_alloc(16, bytes);
    if (!record_begin_birth()) return next.calloc_(n, size);
    void *p = next.calloc_(n, size);
    if (p) record_birth(p, n * size, 0, 0, false);
    record_end();
    return p;
}

EXPORT void free(void *p) {
    if (UNLIKELY(is_early(p))) return;
    if (!is_ready()) return;
    if (!record_begin_death(p)) {
        next.free_(p);
        return;
    }
    record_death(p);
    next.free_(p);
    record_end();
}

static void *move_early(void *p, size_t size) {
    size_t most = (size_t)(early + EARLY_BYTES - (char *)p);
    void *q = malloc(size);
    if (q) memcpy(q, p, size < most ? size : most);
    return q;
}

/* The old size is not known where it fails: it then ends as it was, which 0 bytes say. */
static void *resize(void *p, size_t size) {
    int error = errno;
    if (!record_leave(p)) return next.realloc_(p, size);
    errno = error;
    void *q = next.realloc_(p, size);
    error = errno;
    record_arrive(q ? q : p, q ? size : 0);
    errno = error;
    return q;
}

EXPORT void *realloc(void *p, size_t size) {
    if (!p) return malloc(size);
    if (UNLIKELY(is_early(p))) return move_early(p, size);
    if (!is_ready()) return NULL;
    if (!record_begin_death(p)) return next.realloc_(p, size);
    void *q = NULL;
    if (size == 0) {
        record_death(p); /* glibc frees it */
        q = next.realloc_(p, 0);
        if (q) record_birth(q, 0, 0, 0, false); /* others give an empty object */
    } else {
        q = resize(p, size);
    }
    record_end();
    return q;
}

EXPORT void *reallocarray(void *p, size_t n, size_t size) {
    size_t bytes;
    if (__builtin_mul_overflow(n, size, &bytes)) return errno = ENOMEM, NULL;
    return realloc(p, bytes);
}

EXPORT int posix_memalign(void **out, size_t align, size_t size) {
    if (!is_ready()) return ENOMEM;
    if (!record_begin_birth()) return next.posix_memalign_(out, align, size);
    int error = next.posix_memalign_(out, align, size);
    if (!error && *out) record_birth(*out, size, align, 0, false);
    record_end();
    return error;
}

#define ALIGNED(name, arguments, values, align)                \
    EXPORT void *name arguments {                              \
        if (!is_ready()) return errno = ENOMEM, NULL;          \
        if (!record_begin_birth()) return next.name##_ values; \
        void *p = next.name##_ values;                         \
        if (p) record_birth(p, size, align, 0, false);         \
        record_end();                                          \
        return p;                                              \
    }

void *memalign(size_t alignment, size_t size);
void *valloc(size_t size);
void *pvalloc(size_t size);

ALIGNED(aligned_alloc, (size_t alignment, size_t size), (alignment, size), alignment)
ALIGNED(memalign, (size_t alignment, size_t size), (alignment, size), alignment)
ALIGNED(valloc, (size_t size), (size), 4096)
ALIGNED(pvalloc, (size_t size), (size), 4096)

bool record_calls_own_malloc(void) {
    Dl_info its, own;
    void *p = dlsym(RTLD_DEFAULT, "malloc");
    return dladdr(p, &its) && dladdr(&next, &own) && its.dli_fbase != own.dli_fbase;
}
