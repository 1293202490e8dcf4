/* What the library's functions that stand in for libc's have in common. */
#ifndef TS_MALLOC_ENTRY_H
#define TS_MALLOC_ENTRY_H

#include "base/attr.h"
#include "malloc/capture.h"
#include "malloc/process.h"

#include <errno.h>

/* A function by which the calls of the process come. */
#define TS_EXPORT __attribute__((visibility("default")))

/* In the domain that captures, else in the process's target. Of the two errno values that an answer of the domain can
   leave, 0 means the latter. */
TS_COLD static void *ts_malloc_captured(size_t alignment, size_t size, bool zero, const void *caller) {
    int before = errno;
    void *p = ts_capture_alloc(alignment, size, zero, caller);
    if (p || errno != 0) return p;
    errno = before;
    return ts_process_alloc_rest(alignment, size, zero);
}

#define TS_CALLED_FROM() __builtin_return_address(0)

TS_ALWAYS_INLINE void *ts_malloc(size_t size) {
    if (ts_is_captured()) return ts_malloc_captured(16, size, false, TS_CALLED_FROM());
    void *p = slab_malloc_epoch(ts_target_allocator(&ts_process), size, ts_target_epoch(&ts_process));
    return TS_LIKELY(p != NULL) ? p : ts_process_alloc_rest(16, size, false);
}

/* alignment: a power of two. */
TS_ALWAYS_INLINE void *ts_malloc_aligned(size_t alignment, size_t size) {
    if (alignment <= 16) return ts_malloc(size);
    if (TS_UNLIKELY(size > PTRDIFF_MAX)) {
        errno = ENOMEM;
        return NULL;
    }
    if (ts_is_captured()) return ts_malloc_captured(alignment, size, false, TS_CALLED_FROM());
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
