#ifndef TM_MALLOC_NEXT_H
#define TM_MALLOC_NEXT_H

#include "base/base.h"
#include "malloc/capture.h"

#include <string.h>

/* The function of that name in the libraries behind this one; NULL: none. Takes the loader's lock; allocates where
   dlsym does. */
void *tm_malloc_next(const char *name);

/* next_NAME(): that function, looked up once. The same value from every thread. */
#define TM_MALLOC_NEXT(result, name, parameters)                    \
    typedef result next_##name##_function parameters;               \
    static next_##name##_function *next_##name(void) {              \
        static _Atomic(next_##name##_function *) known;             \
        next_##name##_function *function = ts_load_relaxed(&known); \
        if (TS_LIKELY(function != NULL)) return function;           \
        tm_capture_suspend();                                       \
        void *symbol = tm_malloc_next(#name);                       \
        tm_capture_resume();                                        \
        memcpy(&function, &symbol, sizeof function);                \
        ts_store_relaxed(&known, function);                         \
        return function;                                            \
    }

#endif
