/*
 * The operators of C++, under the names that the Itanium ABI gives them. No C++ library is needed: only a failure needs
 * one, for the program's new handler and std::bad_alloc (cxx_shared.c, cxx_static.c). A program that has no C++ library
 * calls no operator.
 */
#define _GNU_SOURCE
#include "malloc/cxx.h"

#include "base/base.h"

ts_cxx_operators ts_cxx_replaced;

/* As the standard has it: the handler makes memory available, installs another, throws, or does not return. */
THROWS static void *new_failed(size_t alignment, size_t size, ts_kind kind) {
    if (ts_is_pow2(alignment)) {
        for (;;) {
            ts_cxx_handler call = ts_cxx_current_handler();
            if (!call) break;
            call();
            void *p = ts_malloc_aligned(alignment, size, kind);
            if (p) return p;
        }
    }
    ts_cxx_throw_bad_alloc();
    return NULL;
}

TS_REST void *new_rest(size_t size, const void *caller) {
    void *p = ts_malloc_rest(size, TS_BY_NEW, caller);
    return TS_LIKELY(p != NULL) ? p : new_failed(16, size, TS_BY_NEW);
}
TS_REST void *new_array_rest(size_t size, const void *caller) {
    void *p = ts_malloc_rest(size, TS_BY_NEW_ARRAY, caller);
    return TS_LIKELY(p != NULL) ? p : new_failed(16, size, TS_BY_NEW_ARRAY);
}
TS_FREE_REST(delete_rest, "operator delete", TS_BY_NEW)
TS_FREE_REST(delete_array_rest, "operator delete[]", TS_BY_NEW_ARRAY)

TS_ALWAYS_INLINE void *new_aligned(size_t size, size_t alignment, ts_kind kind) {
    void *p = TS_LIKELY(ts_is_pow2(alignment)) ? ts_malloc_aligned(alignment, size, kind) : NULL;
    return TS_LIKELY(p != NULL) ? p : new_failed(alignment, size, kind);
}

/* ---- replaced --------------------------------------------------------------------------------------------------- */

static bool is_array_freed_elsewhere(void *p) {
    void (*release)(void *) = ts_cxx_replaced.release_array ? ts_cxx_replaced.release_array : ts_cxx_replaced.release;
    if (TS_LIKELY(!release)) return false;
    release(p);
    return true;
}
static bool is_aligned_array_freed_elsewhere(void *p, size_t alignment) {
    void (*release)(void *, size_t) =
        ts_cxx_replaced.release_array_aligned ? ts_cxx_replaced.release_array_aligned : ts_cxx_replaced.release_aligned;
    if (TS_LIKELY(!release)) return false;
    release(p, alignment);
    return true;
}

/* ---- new -------------------------------------------------------------------------------------------------------- */

void *cxx_new(size_t size) NAMED(NEW) TS_SHORT;
void *cxx_new(size_t size) {
    TS_PLANNED(16, size, false);
    return ts_private_malloc(size, new_rest, TS_CALLED_FROM());
}

void *cxx_new_array(size_t size) NAMED(NEW_ARRAY) TS_SHORT;
void *cxx_new_array(size_t size) {
    if (TS_UNLIKELY(ts_cxx_replaced.allocate != NULL)) return ts_cxx_replaced.allocate(size);
    TS_PLANNED(16, size, false);
    return ts_private_malloc(size, new_array_rest, TS_CALLED_FROM());
}

void *cxx_new_aligned(size_t size, size_t alignment) NAMED(NEW ALIGNED);
void *cxx_new_aligned(size_t size, size_t alignment) { return new_aligned(size, alignment, TS_BY_NEW); }

void *cxx_new_array_aligned(size_t size, size_t alignment) NAMED(NEW_ARRAY ALIGNED);
void *cxx_new_array_aligned(size_t size, size_t alignment) {
    if (TS_UNLIKELY(ts_cxx_replaced.allocate_aligned != NULL)) return ts_cxx_replaced.allocate_aligned(size, alignment);
    return new_aligned(size, alignment, TS_BY_NEW_ARRAY);
}

/* ---- delete ------------------------------------------------------------------------------------------------------ */

void cxx_delete(void *p) NAMED(DELETE) TS_SHORT;
void cxx_delete(void *p) { ts_private_free(p, delete_rest); }

void cxx_delete_array(void *p) NAMED(DELETE_ARRAY) TS_SHORT;
void cxx_delete_array(void *p) {
    if (TS_UNLIKELY(ts_cxx_replaced.release != NULL)) {
        ts_cxx_replaced.release(p);
        return;
    }
    ts_private_free(p, delete_array_rest);
}

void cxx_delete_nothrow(void *p, const void *nothrow) NAMED(DELETE NOTHROW);
void cxx_delete_nothrow(void *p, const void *nothrow) {
    if (TS_UNLIKELY(ts_cxx_replaced.release != NULL)) {
        ts_cxx_replaced.release(p);
        return;
    }

    (void)nothrow;
    ts_private_free(p, delete_rest);
}

void cxx_delete_array_nothrow(void *p, const void *nothrow) NAMED(DELETE_ARRAY NOTHROW);
void cxx_delete_array_nothrow(void *p, const void *nothrow) {
    if (TS_UNLIKELY(is_array_freed_elsewhere(p))) return;

    (void)nothrow;
    ts_private_free(p, delete_array_rest);
}

void cxx_delete_sized(void *p, size_t size) NAMED(DELETE SIZE) TS_SHORT;
void cxx_delete_sized(void *p, size_t size) {
    if (TS_UNLIKELY(ts_cxx_replaced.release != NULL)) {
        ts_cxx_replaced.release(p);
        return;
    }
    ts_malloc_free_sized(delete_rest, "operator delete", p, TS_BY_NEW, 1, size);
}

void cxx_delete_array_sized(void *p, size_t size) NAMED(DELETE_ARRAY SIZE);
void cxx_delete_array_sized(void *p, size_t size) {
    if (TS_UNLIKELY(is_array_freed_elsewhere(p))) return;
    ts_malloc_free_sized(delete_array_rest, "operator delete[]", p, TS_BY_NEW_ARRAY, 1, size);
}

void cxx_delete_aligned(void *p, size_t alignment) NAMED(DELETE ALIGNED);
void cxx_delete_aligned(void *p, size_t alignment) {
    ts_malloc_free_sized(delete_rest, "operator delete", p, TS_BY_NEW, alignment, TS_SIZE_UNKNOWN);
}

void cxx_delete_array_aligned(void *p, size_t alignment) NAMED(DELETE_ARRAY ALIGNED);
void cxx_delete_array_aligned(void *p, size_t alignment) {
    if (TS_UNLIKELY(ts_cxx_replaced.release_aligned != NULL)) {
        ts_cxx_replaced.release_aligned(p, alignment);
        return;
    }
    ts_malloc_free_sized(delete_array_rest, "operator delete[]", p, TS_BY_NEW_ARRAY, alignment, TS_SIZE_UNKNOWN);
}

void cxx_delete_aligned_nothrow(void *p, size_t alignment, const void *nothrow) NAMED(DELETE ALIGNED NOTHROW);
void cxx_delete_aligned_nothrow(void *p, size_t alignment, const void *nothrow) {
    if (TS_UNLIKELY(ts_cxx_replaced.release_aligned != NULL)) {
        ts_cxx_replaced.release_aligned(p, alignment);
        return;
    }

    (void)nothrow;
    ts_malloc_free_sized(delete_rest, "operator delete", p, TS_BY_NEW, alignment, TS_SIZE_UNKNOWN);
}

void cxx_delete_array_aligned_nothrow(void *p, size_t alignment, const void *nothrow)
    NAMED(DELETE_ARRAY ALIGNED NOTHROW);
void cxx_delete_array_aligned_nothrow(void *p, size_t alignment, const void *nothrow) {
    if (TS_UNLIKELY(is_aligned_array_freed_elsewhere(p, alignment))) return;

    (void)nothrow;
    ts_malloc_free_sized(delete_array_rest, "operator delete[]", p, TS_BY_NEW_ARRAY, alignment, TS_SIZE_UNKNOWN);
}

void cxx_delete_sized_aligned(void *p, size_t size, size_t alignment) NAMED(DELETE SIZE ALIGNED);
void cxx_delete_sized_aligned(void *p, size_t size, size_t alignment) {
    if (TS_UNLIKELY(ts_cxx_replaced.release_aligned != NULL)) {
        ts_cxx_replaced.release_aligned(p, alignment);
        return;
    }
    ts_malloc_free_sized(delete_rest, "operator delete", p, TS_BY_NEW, alignment, size);
}

void cxx_delete_array_sized_aligned(void *p, size_t size, size_t alignment) NAMED(DELETE_ARRAY SIZE ALIGNED);
void cxx_delete_array_sized_aligned(void *p, size_t size, size_t alignment) {
    if (TS_UNLIKELY(is_aligned_array_freed_elsewhere(p, alignment))) return;
    ts_malloc_free_sized(delete_array_rest, "operator delete[]", p, TS_BY_NEW_ARRAY, alignment, size);
}

#ifdef TSLAB_MALLOC_STATIC
/* Names for those of this library, which the linker does not give to others (cxx_static.c). */
#define OWN(function, symbol) \
    extern TS_HIDDEN __typeof__(function) own_##function __asm__("ts_own" symbol) __attribute__((alias(symbol)))
OWN(cxx_new, NEW);
OWN(cxx_new_array, NEW_ARRAY);
OWN(cxx_new_aligned, NEW ALIGNED);
OWN(cxx_new_array_aligned, NEW_ARRAY ALIGNED);
OWN(cxx_delete, DELETE);
OWN(cxx_delete_array, DELETE_ARRAY);
OWN(cxx_delete_aligned, DELETE ALIGNED);
OWN(cxx_delete_array_aligned, DELETE_ARRAY ALIGNED);
#undef OWN
#endif
