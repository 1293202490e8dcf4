/*
 * What the operators need of a C++ library that is loaded, if any: looked up when there is a failure. And the operators
 * that may not throw: they leave a failure to those of the C++ library, which call the throwing ones here, and catch:
 * catching needs a library of the language.
 */
#define _GNU_SOURCE
#include "malloc/cxx.h"

#include "base/base.h"
#include "os/os.h"

#include <dlfcn.h>
#include <stdlib.h>
#include <string.h>

typedef void *(*new_nothrow)(size_t, const void *);
typedef void *(*new_aligned_nothrow)(size_t, size_t, const void *);

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

tm_cxx_handler tm_cxx_current_handler(void) {
    tm_cxx_handler (*get)(void);
    void *symbol = of_library("_ZSt15get_new_handlerv");
    memcpy(&get, &symbol, sizeof get);
    return symbol ? get() : NULL;
}

THROWS void tm_cxx_throw_bad_alloc(void) {
    void (*function)(void);
    void *symbol = of_library("_ZSt17__throw_bad_allocv");
    memcpy(&function, &symbol, sizeof function);
    if (symbol) function();
    ts_text line = {.used = 0};
    ts_text_put(&line, "tslab: operator new: no memory, and no C++ library to say so");
    ts_text_write(&line);
    abort();
}

/* ---- replaced --------------------------------------------------------------------------------------------------- */

/* *function: that of the program; NULL: it is this library's, or there is none. */
static void find_replaced(const char *name, const void *own, void *function) {
    Dl_info info;
    void *symbol = dlsym(RTLD_DEFAULT, name);
    if (!symbol || !dladdr(symbol, &info) || info.dli_fbase == own) symbol = NULL;
    memcpy(function, &symbol, sizeof symbol);
}

TS_AT_LOAD static void find_all_replaced(void) {
    Dl_info self;
    if (!dladdr((const void *)&tm_cxx_replaced, &self)) return;
    find_replaced(NEW, self.dli_fbase, &tm_cxx_replaced.allocate);
    find_replaced(NEW_ARRAY, self.dli_fbase, &tm_cxx_replaced.allocate_array);
    find_replaced(NEW ALIGNED, self.dli_fbase, &tm_cxx_replaced.allocate_aligned);
    find_replaced(NEW_ARRAY ALIGNED, self.dli_fbase, &tm_cxx_replaced.allocate_array_aligned);
    find_replaced(DELETE, self.dli_fbase, &tm_cxx_replaced.release);
    find_replaced(DELETE_ARRAY, self.dli_fbase, &tm_cxx_replaced.release_array);
    find_replaced(DELETE ALIGNED, self.dli_fbase, &tm_cxx_replaced.release_aligned);
    find_replaced(DELETE_ARRAY ALIGNED, self.dli_fbase, &tm_cxx_replaced.release_array_aligned);
}

static bool is_array_replaced(void) { return tm_cxx_replaced.allocate || tm_cxx_replaced.allocate_array; }
static bool is_aligned_array_replaced(void) {
    return tm_cxx_replaced.allocate_aligned || tm_cxx_replaced.allocate_array_aligned;
}

/* ---- what may not throw ------------------------------------------------------------------------------------------ */

/* Without a handler the answer is known, unless the program has operators of its own. */
TS_COLD static void *new_failed_nothrow(const char *name, size_t size, const void *nothrow) {
    new_nothrow function;
    void *symbol = tm_cxx_current_handler() || tm_cxx_replaced.allocate || tm_cxx_replaced.allocate_array
                       ? of_library(name)
                       : NULL;
    memcpy(&function, &symbol, sizeof function);
    return symbol ? function(size, nothrow) : NULL;
}
TS_COLD static void *new_failed_aligned_nothrow(const char *name, size_t size, size_t alignment, const void *nothrow) {
    new_aligned_nothrow function;
    void *symbol = NULL;
    bool other = tm_cxx_replaced.allocate_aligned || tm_cxx_replaced.allocate_array_aligned;
    if (ts_is_pow2(alignment) && (other || tm_cxx_current_handler())) symbol = of_library(name);
    memcpy(&function, &symbol, sizeof function);
    return symbol ? function(size, alignment, nothrow) : NULL;
}

void *cxx_new_nothrow(size_t size, const void *nothrow) NAMED(NEW NOTHROW);
void *cxx_new_nothrow(size_t size, const void *nothrow) {
    if (TS_UNLIKELY(tm_cxx_replaced.allocate != NULL)) return new_failed_nothrow(NEW NOTHROW, size, nothrow);
    void *p = tm_malloc(size, TM_BY_NEW);
    return TS_LIKELY(p != NULL) ? p : new_failed_nothrow(NEW NOTHROW, size, nothrow);
}

void *cxx_new_array_nothrow(size_t size, const void *nothrow) NAMED(NEW_ARRAY NOTHROW);
void *cxx_new_array_nothrow(size_t size, const void *nothrow) {
    if (TS_UNLIKELY(is_array_replaced())) return new_failed_nothrow(NEW_ARRAY NOTHROW, size, nothrow);
    void *p = tm_malloc(size, TM_BY_NEW_ARRAY);
    return TS_LIKELY(p != NULL) ? p : new_failed_nothrow(NEW_ARRAY NOTHROW, size, nothrow);
}

void *cxx_new_aligned_nothrow(size_t size, size_t alignment, const void *nothrow) NAMED(NEW ALIGNED NOTHROW);
void *cxx_new_aligned_nothrow(size_t size, size_t alignment, const void *nothrow) {
    if (TS_UNLIKELY(tm_cxx_replaced.allocate_aligned != NULL))
        return new_failed_aligned_nothrow(NEW ALIGNED NOTHROW, size, alignment, nothrow);
    void *p = ts_is_pow2(alignment) ? tm_malloc_aligned(alignment, size, TM_BY_NEW) : NULL;
    return TS_LIKELY(p != NULL) ? p : new_failed_aligned_nothrow(NEW ALIGNED NOTHROW, size, alignment, nothrow);
}

void *cxx_new_array_aligned_nothrow(size_t size, size_t alignment, const void *nothrow)
    NAMED(NEW_ARRAY ALIGNED NOTHROW);
void *cxx_new_array_aligned_nothrow(size_t size, size_t alignment, const void *nothrow) {
    if (TS_UNLIKELY(is_aligned_array_replaced()))
        return new_failed_aligned_nothrow(NEW_ARRAY ALIGNED NOTHROW, size, alignment, nothrow);
    void *p = ts_is_pow2(alignment) ? tm_malloc_aligned(alignment, size, TM_BY_NEW_ARRAY) : NULL;
    return TS_LIKELY(p != NULL) ? p : new_failed_aligned_nothrow(NEW_ARRAY ALIGNED NOTHROW, size, alignment, nothrow);
}
