/*
 * __cxa_atexit, on_exit and at_quick_exit: libc keeps the list in memory of malloc, by a function that has no name
 * outside of it. The list outlives every domain, so nothing is captured meanwhile.
 */
#define _GNU_SOURCE
#include "malloc/capture.h"
#include "malloc/entry.h"
#include "malloc/next.h"

#include <string.h>

typedef int exit_function(void (*fn)(void *), void *arg, void *object);
typedef int quick_function(void (*fn)(void *), void *object);
typedef int on_function(void (*fn)(int, void *), void *arg);

/* The next function of that name, in *at: the same value from every thread. */
#define NEXT(type, name)                                  \
    static type *next_##name(void) {                      \
        static _Atomic(type *) known;                     \
        type *function = ts_load_relaxed(&known);         \
        if (TS_LIKELY(function != NULL)) return function; \
        void *symbol = ts_malloc_next(#name);             \
        memcpy(&function, &symbol, sizeof function);      \
        ts_store_relaxed(&known, function);               \
        return function;                                  \
    }
NEXT(exit_function, __cxa_atexit)
NEXT(quick_function, __cxa_at_quick_exit)
NEXT(on_function, on_exit)

TS_EXPORT int __cxa_atexit(void (*fn)(void *), void *arg, void *object);
int __cxa_atexit(void (*fn)(void *), void *arg, void *object) {
    ts_capture_suspend();
    exit_function *next = next___cxa_atexit();
    int result = next ? next(fn, arg, object) : -1;
    ts_capture_resume();
    return result;
}

TS_EXPORT int __cxa_at_quick_exit(void (*fn)(void *), void *object);
int __cxa_at_quick_exit(void (*fn)(void *), void *object) {
    ts_capture_suspend();
    quick_function *next = next___cxa_at_quick_exit();
    int result = next ? next(fn, object) : -1;
    ts_capture_resume();
    return result;
}

TS_EXPORT int on_exit(void (*fn)(int, void *), void *arg);
int on_exit(void (*fn)(int, void *), void *arg) {
    ts_capture_suspend();
    on_function *next = next_on_exit();
    int result = next ? next(fn, arg) : -1;
    ts_capture_resume();
    return result;
}
