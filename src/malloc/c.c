/*
 * The functions of C, POSIX and glibc by which a program allocates. Where C, POSIX and glibc leave a choice, the
 * answer is glibc's: realloc(p, 0) frees and gives NULL; free and realloc that succeed leave errno alone; a size
 * beyond PTRDIFF_MAX is ENOMEM. aligned_alloc of what is no power of two is EINVAL, as in ISO C; memalign rounds up.
 */
#define _GNU_SOURCE
#include "malloc/entry.h"

#include "api/api.h"
#include "base/base.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

TM_REST void *malloc_rest(size_t size, const void *caller) { return tm_malloc_rest(size, TM_BY_MALLOC, caller); }
TM_FREE_REST(free_rest, "free", TM_BY_MALLOC)

TS_ALWAYS_INLINE void *usual(size_t size) {
    TM_PLANNED(16, size, false);
    return ts_private_malloc(size, malloc_rest, TM_CALLED_FROM());
}

TM_EXPORT TM_SHORT void *malloc(size_t size) { return usual(size); }
TM_EXPORT TM_SHORT void free(void *p) { ts_private_free(p, free_rest); }

TS_ALWAYS_INLINE void *zeroed(size_t n, size_t size) {
    size_t bytes;
    if (TS_UNLIKELY(__builtin_mul_overflow(n, size, &bytes))) {
        errno = ENOMEM;
        return NULL;
    }
    TM_PLANNED(16, bytes, true);
    if (tm_is_unusual()) return tm_process_alloc_unusual(16, bytes, true, TM_BY_MALLOC, TM_CALLED_FROM());
    void *p = slab_calloc_epoch(tm_target_allocator(&tm_process), 1, bytes, tm_target_epoch(&tm_process));
    return TS_LIKELY(p != NULL) ? p : tm_process_alloc_rest(16, bytes, true, TM_BY_MALLOC);
}

TM_EXPORT void *calloc(size_t n, size_t size) { return zeroed(n, size); }

TS_ALWAYS_INLINE void *resize(void *p, size_t size) {
    if (!p) return usual(size);
    if (TS_UNLIKELY(size == 0)) {
        free(p);
        return NULL;
    }
    int error = errno;
    SlabAllocator *allocator = tm_target_allocator(&tm_process);
    void *q = allocator ? ts_private_realloc(allocator, p, size) : NULL;
    if (TS_LIKELY(q != NULL)) return q;
    errno = error;
    return tm_process_realloc_rest(p, size, TM_CALLED_FROM());
}

TM_EXPORT void *realloc(void *p, size_t size) { return resize(p, size); }

TS_ALWAYS_INLINE void *resize_array(void *p, size_t n, size_t size) {
    size_t bytes;
    if (TS_UNLIKELY(__builtin_mul_overflow(n, size, &bytes))) {
        errno = ENOMEM;
        return NULL;
    }
    return resize(p, bytes);
}

TM_EXPORT_EXTRA void *reallocarray(void *p, size_t n, size_t size) { return resize_array(p, n, size); }

/* BSD: an object that cannot be resized is freed. */
TM_EXPORT_EXTRA void *reallocf(void *p, size_t size);
void *reallocf(void *p, size_t size) {
    void *q = resize(p, size);
    if (!q && p && size != 0) free(p);
    return q;
}

/* ---- aligned ------------------------------------------------------------------------------------------------ */

TM_EXPORT void *aligned_alloc(size_t alignment, size_t size) {
    if (TS_UNLIKELY(!ts_is_pow2(alignment))) {
        errno = EINVAL;
        return NULL;
    }
    return tm_malloc_aligned(alignment, size, TM_BY_MALLOC);
}

TS_ALWAYS_INLINE int aligned_at(void **out, size_t alignment, size_t size) {
    if (!ts_is_pow2(alignment) || alignment % sizeof(void *) != 0) return EINVAL;
    void *p = tm_malloc_aligned(alignment, size, TM_BY_MALLOC);
    if (!p) return ENOMEM; /* and errno, as glibc has it: programs return that */
    *out = p;
    return 0;
}

TM_EXPORT int posix_memalign(void **out, size_t alignment, size_t size) { return aligned_at(out, alignment, size); }

TS_ALWAYS_INLINE void *aligned_up(size_t alignment, size_t size) {
    if (alignment > SIZE_MAX / 2 + 1) {
        errno = EINVAL;
        return NULL;
    }
    size_t a = 16;
    while (a < alignment) a *= 2;
    return tm_malloc_aligned(a, size, TM_BY_MALLOC);
}

TM_EXPORT_EXTRA void *memalign(size_t alignment, size_t size);
void *memalign(size_t alignment, size_t size) { return aligned_up(alignment, size); }

static size_t page_bytes(void) { return (size_t)sysconf(_SC_PAGESIZE); }

TM_EXPORT_EXTRA void *valloc(size_t size);
void *valloc(size_t size) { return tm_malloc_aligned(page_bytes(), size, TM_BY_MALLOC); }

TS_ALWAYS_INLINE void *whole_pages(size_t size) {
    size_t page = page_bytes();
    if (size > PTRDIFF_MAX - page) {
        errno = ENOMEM;
        return NULL;
    }
    return tm_malloc_aligned(page, (size + page - 1) & ~(page - 1), TM_BY_MALLOC);
}

TM_EXPORT_EXTRA void *pvalloc(size_t size);
void *pvalloc(size_t size) { return whole_pages(size); }

/* ---- the rest of free ----------------------------------------------------------------------------------------- */

/* An old name of free; libc still has it for old programs. */
TM_EXPORT_EXTRA void cfree(void *p);
void cfree(void *p) { free(p); }

/* C23. The size is looked at where misuse is reported, and never relied on. */
TM_EXPORT_EXTRA void free_sized(void *p, size_t size);
void free_sized(void *p, size_t size) { tm_malloc_free_sized(free_rest, "free_sized", p, TM_BY_MALLOC, 1, size); }

TM_EXPORT_EXTRA void free_aligned_sized(void *p, size_t alignment, size_t size);
void free_aligned_sized(void *p, size_t alignment, size_t size) {
    tm_malloc_free_sized(free_rest, "free_aligned_sized", p, TM_BY_MALLOC, ts_is_pow2(alignment) ? alignment : SIZE_MAX,
                         size);
}

TM_EXPORT_EXTRA size_t malloc_usable_size(void *p);
size_t malloc_usable_size(void *p) { return p ? tm_process_usable(p) : 0; }

/* ---- libc's own names of them ------------------------------------------------------------------------------------ */

/* By these a program calls libc's functions past another malloc. The archive of another libc needs its own. */
#if !defined(TSLAB_MALLOC_STATIC) || defined(__GLIBC__)

TM_EXPORT void *__libc_malloc(size_t size);
void *__libc_malloc(size_t size) { return usual(size); }

TM_EXPORT void __libc_free(void *p);
void __libc_free(void *p) { free(p); }

TM_EXPORT void *__libc_calloc(size_t n, size_t size);
void *__libc_calloc(size_t n, size_t size) { return zeroed(n, size); }

TM_EXPORT void *__libc_realloc(void *p, size_t size);
void *__libc_realloc(void *p, size_t size) { return resize(p, size); }

TM_EXPORT void *__libc_reallocarray(void *p, size_t n, size_t size);
void *__libc_reallocarray(void *p, size_t n, size_t size) { return resize_array(p, n, size); }

TM_EXPORT void *__libc_memalign(size_t alignment, size_t size);
void *__libc_memalign(size_t alignment, size_t size) { return aligned_up(alignment, size); }

TM_EXPORT void *__libc_valloc(size_t size);
void *__libc_valloc(size_t size) { return tm_malloc_aligned(page_bytes(), size, TM_BY_MALLOC); }

TM_EXPORT void *__libc_pvalloc(size_t size);
void *__libc_pvalloc(size_t size) { return whole_pages(size); }

TM_EXPORT int __posix_memalign(void **out, size_t alignment, size_t size);
int __posix_memalign(void **out, size_t alignment, size_t size) { return aligned_at(out, alignment, size); }

#endif
