/* What the library's functions that stand in for libc's have in common. */
#ifndef TS_MALLOC_ENTRY_H
#define TS_MALLOC_ENTRY_H

#include "base/attr.h"
#include "malloc/process.h"

#include <errno.h>

/* A function by which the calls of the process come. */
#define TS_EXPORT __attribute__((visibility("default")))

TS_ALWAYS_INLINE void *ts_malloc_in(const ts_target *target, size_t size) {
    void *p = slab_malloc_epoch(ts_target_allocator(target), size, ts_target_epoch(target));
    return TS_LIKELY(p != NULL) ? p : ts_process_alloc_rest(16, size, false);
}

TS_ALWAYS_INLINE void *ts_malloc(size_t size) { return ts_malloc_in(&ts_process, size); }

/* alignment: a power of two. */
TS_ALWAYS_INLINE void *ts_malloc_aligned(size_t alignment, size_t size) {
    if (alignment <= 16) return ts_malloc(size);
    if (TS_UNLIKELY(size > PTRDIFF_MAX)) {
        errno = ENOMEM;
        return NULL;
    }
    void *p = slab_aligned_epoch(ts_target_allocator(&ts_process), alignment, size, ts_target_epoch(&ts_process));
    return TS_LIKELY(p != NULL) ? p : ts_process_alloc_rest(alignment, size, false);
}

/* errno is as before. */
TS_ALWAYS_INLINE void ts_malloc_free(void *p) {
    SlabAllocator *allocator = ts_target_allocator(&ts_process);
    if (TS_UNLIKELY(!allocator))
        ts_process_free_early(p);
    else
        (void)slab_free(allocator, p);
}

TS_ALWAYS_INLINE void ts_malloc_free_sized(const char *call, void *p, size_t alignment, size_t size) {
    if (TS_UNLIKELY(ts_load_relaxed(&ts_process_checks)) && p) ts_process_check_size(call, p, alignment, size);
    ts_malloc_free(p);
}

#endif
