/* What the library's functions that stand in for libc's have in common. */
#ifndef TS_MALLOC_ENTRY_H
#define TS_MALLOC_ENTRY_H

#include "api/private.h"
#include "base/attr.h"
#include "malloc/capture.h"
#include "malloc/process.h"

#include <errno.h>

/* A function by which the calls of the process come. In an archive it lies where the core's own entries do, which call
   stacks leave out (base/attr.h); the shared library is left out as a whole. */
#ifdef TSLAB_MALLOC_STATIC
#define TS_EXPORT __attribute__((visibility("default"))) TS_ENTRY
#else
#define TS_EXPORT __attribute__((visibility("default")))
#endif
/* One whose name a program may have for a function of its own: in an archive it gives way to that. */
#ifdef TSLAB_MALLOC_STATIC
#define TS_EXPORT_EXTRA TS_EXPORT __attribute__((weak))
#else
#define TS_EXPORT_EXTRA TS_EXPORT
#endif

#define TS_CALLED_FROM() __builtin_return_address(0)

TS_ALWAYS_INLINE void *ts_malloc(size_t size, ts_kind kind) {
    if (ts_is_unusual()) return ts_process_alloc_unusual(16, size, false, kind, TS_CALLED_FROM());
    void *p = slab_malloc_epoch(ts_target_allocator(&ts_process), size, ts_target_epoch(&ts_process));
    return TS_LIKELY(p != NULL) ? p : ts_process_alloc_rest(16, size, false, kind);
}

/* malloc: the same by way of the core alone. */
TS_ALWAYS_INLINE void *ts_malloc_plain(size_t size) {
    if (ts_is_unusual()) return ts_process_alloc_unusual(16, size, false, TS_BY_MALLOC, TS_CALLED_FROM());
    SlabAllocator *allocator = ts_target_allocator(&ts_process); /* before its epoch */
    return ts_private_malloc(size, allocator, ts_target_epoch(&ts_process), ts_process_malloc_rest);
}

/* alignment: a power of two. */
TS_ALWAYS_INLINE void *ts_malloc_aligned(size_t alignment, size_t size, ts_kind kind) {
    if (alignment <= 16) return ts_malloc(size, kind);
    if (TS_UNLIKELY(size > PTRDIFF_MAX)) {
        errno = ENOMEM;
        return NULL;
    }
    if (ts_is_unusual()) return ts_process_alloc_unusual(alignment, size, false, kind, TS_CALLED_FROM());
    void *p = slab_aligned_epoch(ts_target_allocator(&ts_process), alignment, size, ts_target_epoch(&ts_process));
    return TS_LIKELY(p != NULL) ? p : ts_process_alloc_rest(alignment, size, false, kind);
}

/* errno is as before. call: the function's name. */
TS_ALWAYS_INLINE void ts_malloc_free(const char *call, void *p, ts_kind kind) {
    SlabAllocator *allocator = ts_target_allocator(&ts_process);
    if (TS_UNLIKELY(!allocator))
        ts_process_free_unusual(call, p, kind, TS_SIZE_UNKNOWN);
    else
        (void)slab_free(allocator, p);
}

/* size: TS_SIZE_UNKNOWN, or what the program says it is. */
TS_ALWAYS_INLINE void ts_malloc_free_sized(const char *call, void *p, ts_kind kind, size_t alignment, size_t size) {
    if (TS_UNLIKELY(ts_load_relaxed(&ts_process_checks)) && p) ts_process_check_size(call, p, alignment, size);
    SlabAllocator *allocator = ts_target_allocator(&ts_process);
    if (TS_UNLIKELY(!allocator))
        ts_process_free_unusual(call, p, kind, size);
    else
        (void)slab_free(allocator, p);
}

#endif
