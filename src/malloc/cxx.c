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
#define NEW "_Znw" SIZE
#define NEW_ARRAY "_Zna" SIZE
#define NOTHROW "RKSt9nothrow_t"
#define ALIGNED "St11align_val_t"
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

/*
 * A program may replace operators. In the C++ library most of them call another: new[] calls new, delete of a size calls
 * delete, and so on. A program relies on it when it replaces only some. So where a program has new, delete, or one of
 * their forms with an alignment, of its own, what would call it does so here. The forms that a program replaces are seen
 * when this library is loaded; written there, and constant then.
 */
typedef struct replaced_operators {
    void *(*allocate)(size_t);
    void *(*allocate_array)(size_t);
    void *(*allocate_aligned)(size_t, size_t);
    void *(*allocate_array_aligned)(size_t, size_t);
    void (*release)(void *);
    void (*release_array)(void *);
    void (*release_aligned)(void *, size_t);
    void (*release_array_aligned)(void *, size_t);
} replaced_operators;
static replaced_operators replaced;

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

/* Without a handler the answer is known, unless the program has operators of its own. */
TS_COLD static void *new_failed_nothrow(const char *name, size_t size, const void *nothrow) {
    new_nothrow function;
    void *symbol = current_handler() || replaced.allocate || replaced.allocate_array ? of_library(name) : NULL;
    memcpy(&function, &symbol, sizeof function);
    return symbol ? function(size, nothrow) : NULL;
}
TS_COLD static void *new_failed_aligned_nothrow(const char *name, size_t size, size_t alignment, const void *nothrow) {
    new_aligned_nothrow function;
    void *symbol = NULL;
    bool other = replaced.allocate_aligned || replaced.allocate_array_aligned;
    if (ts_is_pow2(alignment) && (other || current_handler())) symbol = of_library(name);
    memcpy(&function, &symbol, sizeof function);
    return symbol ? function(size, alignment, nothrow) : NULL;
}

/* ---- replaced --------------------------------------------------------------------------------------------------- */

static bool is_array_replaced(void) { return replaced.allocate || replaced.allocate_array; }
static bool is_aligned_array_replaced(void) { return replaced.allocate_aligned || replaced.allocate_array_aligned; }

static bool is_array_freed_elsewhere(void *p) {
    void (*release)(void *) = replaced.release_array ? replaced.release_array : replaced.release;
    if (TS_LIKELY(!release)) return false;
    release(p);
    return true;
}
static bool is_aligned_array_freed_elsewhere(void *p, size_t alignment) {
    void (*release)(void *, size_t) =
        replaced.release_array_aligned ? replaced.release_array_aligned : replaced.release_aligned;
    if (TS_LIKELY(!release)) return false;
    release(p, alignment);
    return true;
}

/* *function: that of the program; NULL: it is this library's, or there is none. */
static void find_replaced(const char *name, const void *own, void *function) {
    Dl_info info;
    void *symbol = dlsym(RTLD_DEFAULT, name);
    if (!symbol || !dladdr(symbol, &info) || info.dli_fbase == own) symbol = NULL;
    memcpy(function, &symbol, sizeof symbol);
}

TS_AT_LOAD static void find_all_replaced(void) {
    Dl_info self;
    if (!dladdr((const void *)&replaced, &self)) return;
    find_replaced(NEW, self.dli_fbase, &replaced.allocate);
    find_replaced(NEW_ARRAY, self.dli_fbase, &replaced.allocate_array);
    find_replaced(NEW ALIGNED, self.dli_fbase, &replaced.allocate_aligned);
    find_replaced(NEW_ARRAY ALIGNED, self.dli_fbase, &replaced.allocate_array_aligned);
    find_replaced("_ZdlPv", self.dli_fbase, &replaced.release);
    find_replaced("_ZdaPv", self.dli_fbase, &replaced.release_array);
    find_replaced("_ZdlPv" ALIGNED, self.dli_fbase, &replaced.release_aligned);
    find_replaced("_ZdaPv" ALIGNED, self.dli_fbase, &replaced.release_array_aligned);
}

/* ---- new -------------------------------------------------------------------------------------------------------- */

void *cxx_new(size_t size) NAMED(NEW);
void *cxx_new(size_t size) { return new_object(size, TS_BY_NEW); }

void *cxx_new_array(size_t size) NAMED(NEW_ARRAY);
void *cxx_new_array(size_t size) {
    if (TS_UNLIKELY(replaced.allocate != NULL)) return replaced.allocate(size);
    return new_object(size, TS_BY_NEW_ARRAY);
}

void *cxx_new_nothrow(size_t size, const void *nothrow) NAMED(NEW NOTHROW);
void *cxx_new_nothrow(size_t size, const void *nothrow) {
    if (TS_UNLIKELY(replaced.allocate != NULL)) return new_failed_nothrow(NEW NOTHROW, size, nothrow);
    void *p = ts_malloc(size, TS_BY_NEW);
    return TS_LIKELY(p != NULL) ? p : new_failed_nothrow(NEW NOTHROW, size, nothrow);
}

void *cxx_new_array_nothrow(size_t size, const void *nothrow) NAMED(NEW_ARRAY NOTHROW);
void *cxx_new_array_nothrow(size_t size, const void *nothrow) {
    if (TS_UNLIKELY(is_array_replaced())) return new_failed_nothrow(NEW_ARRAY NOTHROW, size, nothrow);
    void *p = ts_malloc(size, TS_BY_NEW_ARRAY);
    return TS_LIKELY(p != NULL) ? p : new_failed_nothrow(NEW_ARRAY NOTHROW, size, nothrow);
}

void *cxx_new_aligned(size_t size, size_t alignment) NAMED(NEW ALIGNED);
void *cxx_new_aligned(size_t size, size_t alignment) { return new_aligned(size, alignment, TS_BY_NEW); }

void *cxx_new_array_aligned(size_t size, size_t alignment) NAMED(NEW_ARRAY ALIGNED);
void *cxx_new_array_aligned(size_t size, size_t alignment) {
    if (TS_UNLIKELY(replaced.allocate_aligned != NULL)) return replaced.allocate_aligned(size, alignment);
    return new_aligned(size, alignment, TS_BY_NEW_ARRAY);
}

void *cxx_new_aligned_nothrow(size_t size, size_t alignment, const void *nothrow) NAMED(NEW ALIGNED NOTHROW);
void *cxx_new_aligned_nothrow(size_t size, size_t alignment, const void *nothrow) {
    if (TS_UNLIKELY(replaced.allocate_aligned != NULL))
        return new_failed_aligned_nothrow(NEW ALIGNED NOTHROW, size, alignment, nothrow);
    void *p = ts_is_pow2(alignment) ? ts_malloc_aligned(alignment, size, TS_BY_NEW) : NULL;
    return TS_LIKELY(p != NULL) ? p : new_failed_aligned_nothrow(NEW ALIGNED NOTHROW, size, alignment, nothrow);
}

void *cxx_new_array_aligned_nothrow(size_t size, size_t alignment, const void *nothrow)
    NAMED(NEW_ARRAY ALIGNED NOTHROW);
void *cxx_new_array_aligned_nothrow(size_t size, size_t alignment, const void *nothrow) {
    if (TS_UNLIKELY(is_aligned_array_replaced()))
        return new_failed_aligned_nothrow(NEW_ARRAY ALIGNED NOTHROW, size, alignment, nothrow);
    void *p = ts_is_pow2(alignment) ? ts_malloc_aligned(alignment, size, TS_BY_NEW_ARRAY) : NULL;
    return TS_LIKELY(p != NULL) ? p : new_failed_aligned_nothrow(NEW_ARRAY ALIGNED NOTHROW, size, alignment, nothrow);
}

/* ---- delete ------------------------------------------------------------------------------------------------------ */

void cxx_delete(void *p) NAMED("_ZdlPv");
void cxx_delete(void *p) { ts_malloc_free("operator delete", p, TS_BY_NEW); }

void cxx_delete_array(void *p) NAMED("_ZdaPv");
void cxx_delete_array(void *p) {
    if (TS_UNLIKELY(replaced.release != NULL)) {
        replaced.release(p);
        return;
    }
    ts_malloc_free("operator delete[]", p, TS_BY_NEW_ARRAY);
}

void cxx_delete_nothrow(void *p, const void *nothrow) NAMED("_ZdlPv" NOTHROW);
void cxx_delete_nothrow(void *p, const void *nothrow) {
    if (TS_UNLIKELY(replaced.release != NULL)) {
        replaced.release(p);
        return;
    }

    (void)nothrow;
    ts_malloc_free("operator delete", p, TS_BY_NEW);
}

void cxx_delete_array_nothrow(void *p, const void *nothrow) NAMED("_ZdaPv" NOTHROW);
void cxx_delete_array_nothrow(void *p, const void *nothrow) {
    if (TS_UNLIKELY(is_array_freed_elsewhere(p))) return;

    (void)nothrow;
    ts_malloc_free("operator delete[]", p, TS_BY_NEW_ARRAY);
}

void cxx_delete_sized(void *p, size_t size) NAMED("_ZdlPv" SIZE);
void cxx_delete_sized(void *p, size_t size) {
    if (TS_UNLIKELY(replaced.release != NULL)) {
        replaced.release(p);
        return;
    }
    ts_malloc_free_sized("operator delete", p, TS_BY_NEW, 1, size);
}

void cxx_delete_array_sized(void *p, size_t size) NAMED("_ZdaPv" SIZE);
void cxx_delete_array_sized(void *p, size_t size) {
    if (TS_UNLIKELY(is_array_freed_elsewhere(p))) return;
    ts_malloc_free_sized("operator delete[]", p, TS_BY_NEW_ARRAY, 1, size);
}

void cxx_delete_aligned(void *p, size_t alignment) NAMED("_ZdlPv" ALIGNED);
void cxx_delete_aligned(void *p, size_t alignment) {
    ts_malloc_free_sized("operator delete", p, TS_BY_NEW, alignment, TS_SIZE_UNKNOWN);
}

void cxx_delete_array_aligned(void *p, size_t alignment) NAMED("_ZdaPv" ALIGNED);
void cxx_delete_array_aligned(void *p, size_t alignment) {
    if (TS_UNLIKELY(replaced.release_aligned != NULL)) {
        replaced.release_aligned(p, alignment);
        return;
    }
    ts_malloc_free_sized("operator delete[]", p, TS_BY_NEW_ARRAY, alignment, TS_SIZE_UNKNOWN);
}

void cxx_delete_aligned_nothrow(void *p, size_t alignment, const void *nothrow) NAMED("_ZdlPv" ALIGNED NOTHROW);
void cxx_delete_aligned_nothrow(void *p, size_t alignment, const void *nothrow) {
    if (TS_UNLIKELY(replaced.release_aligned != NULL)) {
        replaced.release_aligned(p, alignment);
        return;
    }

    (void)nothrow;
    ts_malloc_free_sized("operator delete", p, TS_BY_NEW, alignment, TS_SIZE_UNKNOWN);
}

void cxx_delete_array_aligned_nothrow(void *p, size_t alignment, const void *nothrow) NAMED("_ZdaPv" ALIGNED NOTHROW);
void cxx_delete_array_aligned_nothrow(void *p, size_t alignment, const void *nothrow) {
    if (TS_UNLIKELY(is_aligned_array_freed_elsewhere(p, alignment))) return;

    (void)nothrow;
    ts_malloc_free_sized("operator delete[]", p, TS_BY_NEW_ARRAY, alignment, TS_SIZE_UNKNOWN);
}

void cxx_delete_sized_aligned(void *p, size_t size, size_t alignment) NAMED("_ZdlPv" SIZE ALIGNED);
void cxx_delete_sized_aligned(void *p, size_t size, size_t alignment) {
    if (TS_UNLIKELY(replaced.release_aligned != NULL)) {
        replaced.release_aligned(p, alignment);
        return;
    }
    ts_malloc_free_sized("operator delete", p, TS_BY_NEW, alignment, size);
}

void cxx_delete_array_sized_aligned(void *p, size_t size, size_t alignment) NAMED("_ZdaPv" SIZE ALIGNED);
void cxx_delete_array_sized_aligned(void *p, size_t size, size_t alignment) {
    if (TS_UNLIKELY(is_aligned_array_freed_elsewhere(p, alignment))) return;
    ts_malloc_free_sized("operator delete[]", p, TS_BY_NEW_ARRAY, alignment, size);
}
