/* What the library's functions that stand in for libc's have in common. */
#ifndef TM_MALLOC_ENTRY_H
#define TM_MALLOC_ENTRY_H

#include "api/api.h"
#include "base/base.h"
#include "malloc/capture.h"
#include "malloc/plan.h"
#include "malloc/process.h"

#include <errno.h>

/* A function by which the calls of the process come, and one that goes on for it. In an archive they lie where the
   core's own entries do, which call stacks leave out (base/base.h); the shared library is left out as a whole.
   SHORT: it jumps to the core after a few instructions, which lie in one cache line. Across two of them a pair takes
   1.03 of the time. */
#ifdef TSLAB_MALLOC_STATIC
#define TM_EXPORT __attribute__((visibility("default"))) TS_ENTRY
#define TM_REST TS_ENTRY static
#define TM_SHORT /* as all entries */
#else
#define TM_EXPORT __attribute__((visibility("default")))
#define TM_REST static
#define TM_SHORT TS_ALIGNED(32)
#endif
/* One whose name a program may have for a function of its own: in an archive it gives way to that. */
#ifdef TSLAB_MALLOC_STATIC
#define TM_EXPORT_EXTRA TM_EXPORT __attribute__((weak))
#else
#define TM_EXPORT_EXTRA TM_EXPORT
#endif

#define TM_CALLED_FROM() __builtin_return_address(0)

TS_ALWAYS_INLINE void *tm_malloc(size_t size, tm_kind kind) {
    TM_PLANNED(16, size, false);
    if (tm_is_unusual()) return tm_process_alloc_unusual(16, size, false, kind, TM_CALLED_FROM());
    void *p = slab_malloc_epoch(tm_target_allocator(&tm_process), size, tm_target_epoch(&tm_process));
    return TS_LIKELY(p != NULL) ? p : tm_process_alloc_rest(16, size, false, kind);
}

/* The rest of ts_private_malloc. */
TS_ALWAYS_INLINE void *tm_malloc_rest(size_t size, tm_kind kind, const void *caller) {
    if (tm_is_unusual()) return tm_process_alloc_unusual(16, size, false, kind, caller);
    SlabAllocator *allocator = tm_target_allocator(&tm_process); /* before its epoch */
    void *p = ts_private_malloc_epoch(allocator, size, tm_target_epoch(&tm_process));
    return TS_LIKELY(p != NULL) ? p : tm_process_alloc_rest(16, size, false, kind);
}

/* alignment: a power of two. */
TS_ALWAYS_INLINE void *tm_malloc_aligned(size_t alignment, size_t size, tm_kind kind) {
    if (alignment <= 16) return tm_malloc(size, kind);
    if (TS_UNLIKELY(size > PTRDIFF_MAX)) {
        errno = ENOMEM;
        return NULL;
    }
    TM_PLANNED(alignment, size, false);
    if (tm_is_unusual()) return tm_process_alloc_unusual(alignment, size, false, kind, TM_CALLED_FROM());
    void *p = slab_aligned_epoch(tm_target_allocator(&tm_process), alignment, size, tm_target_epoch(&tm_process));
    return TS_LIKELY(p != NULL) ? p : tm_process_alloc_rest(alignment, size, false, kind);
}

/* The rest of ts_private_free: there is no target. errno is as before. call: the function's name. */
#define TM_FREE_REST(function, call, kind) \
    static void function(void *p) { tm_process_free_unusual(call, p, kind, TM_SIZE_UNKNOWN); }

/* rest: of a function without a size. size: TM_SIZE_UNKNOWN, or what the program says it is. */
TS_ALWAYS_INLINE void tm_malloc_free_sized(ts_private_free_rest *rest, const char *call, void *p, tm_kind kind,
                                           size_t alignment, size_t size) {
    if (TS_UNLIKELY(ts_load_relaxed(&tm_process_checks)))
        tm_process_free_sized(call, p, kind, alignment, size);
    else
        ts_private_free(p, rest);
}

#endif
