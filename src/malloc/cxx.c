/*
 * The operators of C++, under the names that the Itanium ABI gives them. No C++ library is needed: only a failure needs
 * one, for the program's new handler and std::bad_alloc (cxx_shared.c, cxx_static.c). A program that has no C++ library
 * calls no operator.
 */
#define _GNU_SOURCE
#include "malloc/cxx.h"

#include "base/base.h"

tm_cxx_operators tm_cxx_replaced;

/* As the standard has it: the handler makes memory available, installs another, throws, or does not return. */
THROWS static void *new_failed(size_t alignment, size_t size, tm_kind kind) {
    if (ts_is_pow2(alignment)) {
        for (;;) {
            tm_cxx_handler call = tm_cxx_current_handler();
            if (!call) break;
            call();
            void *p = tm_malloc_aligned(alignment, size, kind);
            if (p) return p;
        }
    }
    tm_cxx_throw_bad_alloc();
    return NULL;
}

TM_REST void *new_rest(size_t size, const void *caller) {
    void *p = tm_malloc_rest(size, TM_BY_NEW, caller);
    return TS_LIKELY(p != NULL) ? p : new_failed(16, size, TM_BY_NEW);
}
TM_REST void *new_array_rest(size_t size, const void *caller) {
    void *p = tm_malloc_rest(size, TM_BY_NEW_ARRAY, caller);
    return TS_LIKELY(p != NULL) ? p : new_failed(16, size, TM_BY_NEW_ARRAY);
}
TM_FREE_REST(delete_rest, "operator delete", TM_BY_NEW)
TM_FREE_REST(delete_array_rest, "operator delete[]", TM_BY_NEW_ARRAY)

TS_ALWAYS_INLINE void *new_aligned(size_t size, size_t alignment, tm_kind kind) {
    void *p = TS_LIKELY(ts_is_pow2(alignment)) ? tm_malloc_aligned(alignment, size, kind) : NULL;
    return TS_LIKELY(p != NULL) ? p : new_failed(alignment, size, kind);
}

/* ---- replaced --------------------------------------------------------------------------------------------------- */

static bool is_array_freed_elsewhere(void *p) {
    void (*release)(void *) = tm_cxx_replaced.release_array ? tm_cxx_replaced.release_array : tm_cxx_replaced.release;
    if (TS_LIKELY(!release)) return false;
    release(p);
    return true;
}
static bool is_aligned_array_freed_elsewhere(void *p, size_t alignment) {
    void (*release)(void *, size_t) =
        tm_cxx_replaced.release_array_aligned ? tm_cxx_replaced.release_array_aligned : tm_cxx_replaced.release_aligned;
    if (TS_LIKELY(!release)) return false;
    release(p, alignment);
    return true;
}

/* ---- new -------------------------------------------------------------------------------------------------------- */

void *cxx_new(size_t size) NAMED(NEW) TM_SHORT;
void *cxx_new(size_t size) {
    TM_PLANNED(16, size, false);
    return ts_private_malloc(size, new_rest, TM_CALLED_FROM());
}

void *cxx_new_array(size_t size) NAMED(NEW_ARRAY) TM_SHORT;
void *cxx_new_array(size_t size) {
    if (TS_UNLIKELY(tm_cxx_replaced.allocate != NULL)) return tm_cxx_replaced.allocate(size);
    TM_PLANNED(16, size, false);
    return ts_private_malloc(size, new_array_rest, TM_CALLED_FROM());
}

void *cxx_new_aligned(size_t size, size_t alignment) NAMED(NEW ALIGNED);
void *cxx_new_aligned(size_t size, size_t alignment) { return new_aligned(size, alignment, TM_BY_NEW); }

void *cxx_new_array_aligned(size_t size, size_t alignment) NAMED(NEW_ARRAY ALIGNED);
void *cxx_new_array_aligned(size_t size, size_t alignment) {
    if (TS_UNLIKELY(tm_cxx_replaced.allocate_aligned != NULL)) return tm_cxx_replaced.allocate_aligned(size, alignment);
    return new_aligned(size, alignment, TM_BY_NEW_ARRAY);
}

/* ---- delete ------------------------------------------------------------------------------------------------------ */

void cxx_delete(void *p) NAMED(DELETE) TM_SHORT;
void cxx_delete(void *p) { ts_private_free(p, delete_rest); }

void cxx_delete_array(void *p) NAMED(DELETE_ARRAY) TM_SHORT;
void cxx_delete_array(void *p) {
    if (TS_UNLIKELY(tm_cxx_replaced.release != NULL)) {
        tm_cxx_replaced.release(p);
        return;
    }
    ts_private_free(p, delete_array_rest);
}

void cxx_delete_nothrow(void *p, const void *nothrow) NAMED(DELETE NOTHROW);
void cxx_delete_nothrow(void *p, const void *nothrow) {
    if (TS_UNLIKELY(tm_cxx_replaced.release != NULL)) {
        tm_cxx_replaced.release(p);
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

void cxx_delete_sized(void *p, size_t size) NAMED(DELETE SIZE) TM_SHORT;
void cxx_delete_sized(void *p, size_t size) {
    if (TS_UNLIKELY(tm_cxx_replaced.release != NULL)) {
        tm_cxx_replaced.release(p);
        return;
    }
    tm_malloc_free_sized(delete_rest, "operator delete", p, TM_BY_NEW, 1, size);
}

void cxx_delete_array_sized(void *p, size_t size) NAMED(DELETE_ARRAY SIZE);
void cxx_delete_array_sized(void *p, size_t size) {
    if (TS_UNLIKELY(is_array_freed_elsewhere(p))) return;
    tm_malloc_free_sized(delete_array_rest, "operator delete[]", p, TM_BY_NEW_ARRAY, 1, size);
}

void cxx_delete_aligned(void *p, size_t alignment) NAMED(DELETE ALIGNED);
void cxx_delete_aligned(void *p, size_t alignment) {
    tm_malloc_free_sized(delete_rest, "operator delete", p, TM_BY_NEW, alignment, TM_SIZE_UNKNOWN);
}

void cxx_delete_array_aligned(void *p, size_t alignment) NAMED(DELETE_ARRAY ALIGNED);
void cxx_delete_array_aligned(void *p, size_t alignment) {
    if (TS_UNLIKELY(tm_cxx_replaced.release_aligned != NULL)) {
        tm_cxx_replaced.release_aligned(p, alignment);
        return;
    }
    tm_malloc_free_sized(delete_array_rest, "operator delete[]", p, TM_BY_NEW_ARRAY, alignment, TM_SIZE_UNKNOWN);
}

void cxx_delete_aligned_nothrow(void *p, size_t alignment, const void *nothrow) NAMED(DELETE ALIGNED NOTHROW);
void cxx_delete_aligned_nothrow(void *p, size_t alignment, const void *nothrow) {
    if (TS_UNLIKELY(tm_cxx_replaced.release_aligned != NULL)) {
        tm_cxx_replaced.release_aligned(p, alignment);
        return;
    }

    (void)nothrow;
    tm_malloc_free_sized(delete_rest, "operator delete", p, TM_BY_NEW, alignment, TM_SIZE_UNKNOWN);
}

void cxx_delete_array_aligned_nothrow(void *p, size_t alignment, const void *nothrow)
    NAMED(DELETE_ARRAY ALIGNED NOTHROW);
void cxx_delete_array_aligned_nothrow(void *p, size_t alignment, const void *nothrow) {
    if (TS_UNLIKELY(is_aligned_array_freed_elsewhere(p, alignment))) return;

    (void)nothrow;
    tm_malloc_free_sized(delete_array_rest, "operator delete[]", p, TM_BY_NEW_ARRAY, alignment, TM_SIZE_UNKNOWN);
}

void cxx_delete_sized_aligned(void *p, size_t size, size_t alignment) NAMED(DELETE SIZE ALIGNED);
void cxx_delete_sized_aligned(void *p, size_t size, size_t alignment) {
    if (TS_UNLIKELY(tm_cxx_replaced.release_aligned != NULL)) {
        tm_cxx_replaced.release_aligned(p, alignment);
        return;
    }
    tm_malloc_free_sized(delete_rest, "operator delete", p, TM_BY_NEW, alignment, size);
}

void cxx_delete_array_sized_aligned(void *p, size_t size, size_t alignment) NAMED(DELETE_ARRAY SIZE ALIGNED);
void cxx_delete_array_sized_aligned(void *p, size_t size, size_t alignment) {
    if (TS_UNLIKELY(is_aligned_array_freed_elsewhere(p, alignment))) return;
    tm_malloc_free_sized(delete_array_rest, "operator delete[]", p, TM_BY_NEW_ARRAY, alignment, size);
}

#ifdef TSLAB_MALLOC_STATIC
/* Names for those of this library, which the linker does not give to others (cxx_static.c). */
#define OWN(function, symbol) \
    extern TS_HIDDEN __typeof__(function) own_##function __asm__("tm_own" symbol) __attribute__((alias(symbol)))
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
