/*
 * The operators of C++, under the names that the Itanium ABI gives them. No C++ library is needed: what a failure
 * needs of one (the program's new handler, std::bad_alloc) is looked up when there is a failure. A program that has
 * no C++ library calls no operator.
 *
 * The operators that may not throw leave a failure to those of the C++ library, which call the throwing ones here,
 * and catch: catching needs a library of the language.
 */
#define _GNU_SOURCE
#include "malloc/entry.h"

#include "base/bits.h"
#include "base/line.h"

#include <dlfcn.h>
#include <stdlib.h>
#include <string.h>

#if SIZE_MAX == UINT64_MAX || defined(__s390__)
#define SIZE "m"
#else
#define SIZE "j"
#endif
#define NAMED(name) __asm__(name) TS_EXPORT
/* A handler, and bad_alloc, pass through. */
#define THROWS __attribute__((noinline, cold)) /* compiled with -fexceptions */

/* ---- what only a C++ library has -------------------------------------------------------------------------------- */

/* The program may have loaded its C++ library by itself, where the usual look-up does not see it. */
TS_COLD static void *of_library(const char *name) {
    static const char *const libraries[] = {"libstdc++.so.6", "libc++.so.1", "libc++abi.so.1"};
    void *symbol = dlsym(RTLD_NEXT, name);
    for (size_t i = 0; !symbol && i < sizeof libraries / sizeof *libraries; i++) {
        void *library = dlopen(libraries[i], RTLD_LAZY | RTLD_NOLOAD);
        if (!library) continue;
        symbol = dlsym(library, name);
        (void)dlclose(library); /* it was there before, and stays */
    }
    return symbol;
}

typedef void (*handler)(void);
typedef void *(*new_nothrow)(size_t, const void *);
typedef void *(*new_aligned_nothrow)(size_t, size_t, const void *);

static handler current_handler(void) {
    handler (*get)(void);
    void *symbol = of_library("_ZSt15get_new_handlerv");
    memcpy(&get, &symbol, sizeof get);
    return symbol ? get() : NULL;
}

THROWS static void throw_bad_alloc(void) {
    void (*function)(void);
    void *symbol = of_library("_ZSt17__throw_bad_allocv");
    memcpy(&function, &symbol, sizeof function);
    if (symbol) function();
    ts_line line = {.used = 0};
    ts_line_text(&line, "tslab: operator new: no memory, and no C++ library to say so");
    ts_line_write(&line);
    abort();
}

/* As the standard has it: the handler makes memory available, installs another, throws, or does not return. */
THROWS static void *new_failed(size_t alignment, size_t size, ts_kind kind) {
    if (ts_is_pow2(alignment)) {
        for (;;) {
            handler call = current_handler();
            if (!call) break;
            call();
            void *p = ts_malloc_aligned(alignment, size, kind);
            if (p) return p;
        }
    }
    throw_bad_alloc();
    return NULL;
}

TS_ALWAYS_INLINE void *new_object(size_t size, ts_kind kind) {
    void *p = ts_malloc(size, kind);
    return TS_LIKELY(p != NULL) ? p : new_failed(16, size, kind);
}
TS_ALWAYS_INLINE void *new_aligned(size_t size, size_t alignment, ts_kind kind) {
    void *p = TS_LIKELY(ts_is_pow2(alignment)) ? ts_malloc_aligned(alignment, size, kind) : NULL;
    return TS_LIKELY(p != NULL) ? p : new_failed(alignment, size, kind);
}

/* Without a handler the answer is known. */
TS_COLD static void *new_failed_nothrow(const char *name, size_t size, const void *nothrow) {
    new_nothrow function;
    void *symbol = current_handler() ? of_library(name) : NULL;
    memcpy(&function, &symbol, sizeof function);
    return symbol ? function(size, nothrow) : NULL;
}
TS_COLD static void *new_failed_aligned_nothrow(const char *name, size_t size, size_t alignment, const void *nothrow) {
    new_aligned_nothrow function;
    void *symbol = ts_is_pow2(alignment) && current_handler() ? of_library(name) : NULL;
    memcpy(&function, &symbol, sizeof function);
    return symbol ? function(size, alignment, nothrow) : NULL;
}

/* ---- new -------------------------------------------------------------------------------------------------------- */

#define NEW "_Znw" SIZE
#define NEW_ARRAY "_Zna" SIZE
#define NOTHROW "RKSt9nothrow_t"
#define ALIGNED "St11align_val_t"

void *cxx_new(size_t size) NAMED(NEW);
void *cxx_new(size_t size) { return new_object(size, TS_BY_NEW); }

void *cxx_new_array(size_t size) NAMED(NEW_ARRAY);
void *cxx_new_array(size_t size) { return new_object(size, TS_BY_NEW_ARRAY); }

void *cxx_new_nothrow(size_t size, const void *nothrow) NAMED(NEW NOTHROW);
void *cxx_new_nothrow(size_t size, const void *nothrow) {
    void *p = ts_malloc(size, TS_BY_NEW);
    return TS_LIKELY(p != NULL) ? p : new_failed_nothrow(NEW NOTHROW, size, nothrow);
}

void *cxx_new_array_nothrow(size_t size, const void *nothrow) NAMED(NEW_ARRAY NOTHROW);
void *cxx_new_array_nothrow(size_t size, const void *nothrow) {
    void *p = ts_malloc(size, TS_BY_NEW_ARRAY);
    return TS_LIKELY(p != NULL) ? p : new_failed_nothrow(NEW_ARRAY NOTHROW, size, nothrow);
}

void *cxx_new_aligned(size_t size, size_t alignment) NAMED(NEW ALIGNED);
void *cxx_new_aligned(size_t size, size_t alignment) { return new_aligned(size, alignment, TS_BY_NEW); }

void *cxx_new_array_aligned(size_t size, size_t alignment) NAMED(NEW_ARRAY ALIGNED);
void *cxx_new_array_aligned(size_t size, size_t alignment) { return new_aligned(size, alignment, TS_BY_NEW_ARRAY); }

void *cxx_new_aligned_nothrow(size_t size, size_t alignment, const void *nothrow) NAMED(NEW ALIGNED NOTHROW);
void *cxx_new_aligned_nothrow(size_t size, size_t alignment, const void *nothrow) {
    void *p = ts_is_pow2(alignment) ? ts_malloc_aligned(alignment, size, TS_BY_NEW) : NULL;
    return TS_LIKELY(p != NULL) ? p : new_failed_aligned_nothrow(NEW ALIGNED NOTHROW, size, alignment, nothrow);
}

void *cxx_new_array_aligned_nothrow(size_t size, size_t alignment, const void *nothrow)
    NAMED(NEW_ARRAY ALIGNED NOTHROW);
void *cxx_new_array_aligned_nothrow(size_t size, size_t alignment, const void *nothrow) {
    void *p = ts_is_pow2(alignment) ? ts_malloc_aligned(alignment, size, TS_BY_NEW_ARRAY) : NULL;
    return TS_LIKELY(p != NULL) ? p : new_failed_aligned_nothrow(NEW_ARRAY ALIGNED NOTHROW, size, alignment, nothrow);
}

/* ---- delete ------------------------------------------------------------------------------------------------------ */

void cxx_delete(void *p) NAMED("_ZdlPv");
void cxx_delete(void *p) { ts_malloc_free("operator delete", p, TS_BY_NEW); }

void cxx_delete_array(void *p) NAMED("_ZdaPv");
void cxx_delete_array(void *p) { ts_malloc_free("operator delete[]", p, TS_BY_NEW_ARRAY); }

void cxx_delete_nothrow(void *p, const void *nothrow) NAMED("_ZdlPv" NOTHROW);
void cxx_delete_nothrow(void *p, const void *nothrow) {
    (void)nothrow;
    ts_malloc_free("operator delete", p, TS_BY_NEW);
}

void cxx_delete_array_nothrow(void *p, const void *nothrow) NAMED("_ZdaPv" NOTHROW);
void cxx_delete_array_nothrow(void *p, const void *nothrow) {
    (void)nothrow;
    ts_malloc_free("operator delete[]", p, TS_BY_NEW_ARRAY);
}

void cxx_delete_sized(void *p, size_t size) NAMED("_ZdlPv" SIZE);
void cxx_delete_sized(void *p, size_t size) { ts_malloc_free_sized("operator delete", p, TS_BY_NEW, 1, size); }

void cxx_delete_array_sized(void *p, size_t size) NAMED("_ZdaPv" SIZE);
void cxx_delete_array_sized(void *p, size_t size) {
    ts_malloc_free_sized("operator delete[]", p, TS_BY_NEW_ARRAY, 1, size);
}

void cxx_delete_aligned(void *p, size_t alignment) NAMED("_ZdlPv" ALIGNED);
void cxx_delete_aligned(void *p, size_t alignment) {
    ts_malloc_free_sized("operator delete", p, TS_BY_NEW, alignment, TS_SIZE_UNKNOWN);
}

void cxx_delete_array_aligned(void *p, size_t alignment) NAMED("_ZdaPv" ALIGNED);
void cxx_delete_array_aligned(void *p, size_t alignment) {
    ts_malloc_free_sized("operator delete[]", p, TS_BY_NEW_ARRAY, alignment, TS_SIZE_UNKNOWN);
}

void cxx_delete_aligned_nothrow(void *p, size_t alignment, const void *nothrow) NAMED("_ZdlPv" ALIGNED NOTHROW);
void cxx_delete_aligned_nothrow(void *p, size_t alignment, const void *nothrow) {
    (void)nothrow;
    ts_malloc_free_sized("operator delete", p, TS_BY_NEW, alignment, TS_SIZE_UNKNOWN);
}

void cxx_delete_array_aligned_nothrow(void *p, size_t alignment, const void *nothrow) NAMED("_ZdaPv" ALIGNED NOTHROW);
void cxx_delete_array_aligned_nothrow(void *p, size_t alignment, const void *nothrow) {
    (void)nothrow;
    ts_malloc_free_sized("operator delete[]", p, TS_BY_NEW_ARRAY, alignment, TS_SIZE_UNKNOWN);
}

void cxx_delete_sized_aligned(void *p, size_t size, size_t alignment) NAMED("_ZdlPv" SIZE ALIGNED);
void cxx_delete_sized_aligned(void *p, size_t size, size_t alignment) {
    ts_malloc_free_sized("operator delete", p, TS_BY_NEW, alignment, size);
}

void cxx_delete_array_sized_aligned(void *p, size_t size, size_t alignment) NAMED("_ZdaPv" SIZE ALIGNED);
void cxx_delete_array_sized_aligned(void *p, size_t size, size_t alignment) {
    ts_malloc_free_sized("operator delete[]", p, TS_BY_NEW_ARRAY, alignment, size);
}
