/*
 * The operators of C++, by their names of the Itanium ABI with size_t as unsigned long. An allocator may have its own,
 * which call no malloc; those of libstdc++ call it, within the hook. They may throw: then `leave` ends the hook.
 */
#include "record/inside.h"
#include "record/next.h"

#include <stdlib.h>

#if SIZE_MAX == UINT64_MAX

/* Where the operators are a plugin's own, and so not found. */
static void *plain(size_t size, size_t align) {
    void *p =
        align > sizeof(void *) ? aligned_alloc(align, (size + align - 1) & ~(align - 1)) : malloc(size ? size : 1);
    if (!p) abort();
    return p;
}

static void leave(const bool *is_in) {
    if (*is_in) record_end();
}

#define NEW(name, parameters, values, align)                                     \
    EXPORT void *name parameters;                                                \
    EXPORT void *name parameters {                                               \
        static void *(*next)parameters;                                          \
        if (UNLIKELY(!next)) NEXT(next, #name);                                  \
        __attribute__((cleanup(leave))) const bool is_in = record_begin_birth(); \
        void *p = next ? next values : plain(size, align);                       \
        if (is_in && p) record_birth(p, size, align, 0, false);                  \
        return p;                                                                \
    }

#define DELETE(name, parameters, values)                                          \
    EXPORT void name parameters;                                                  \
    EXPORT void name parameters {                                                 \
        static void(*next) parameters;                                            \
        if (UNLIKELY(!next)) NEXT(next, #name);                                   \
        __attribute__((cleanup(leave))) const bool is_in = record_begin_death(p); \
        if (is_in) record_death(p);                                               \
        if (next)                                                                 \
            next values;                                                          \
        else                                                                      \
            free(p);                                                              \
    }

NEW(_Znwm, (size_t size), (size), 0)
NEW(_Znam, (size_t size), (size), 0)
NEW(_ZnwmRKSt9nothrow_t, (size_t size, const void *nothrow), (size, nothrow), 0)
NEW(_ZnamRKSt9nothrow_t, (size_t size, const void *nothrow), (size, nothrow), 0)
NEW(_ZnwmSt11align_val_t, (size_t size, size_t align), (size, align), align)
NEW(_ZnamSt11align_val_t, (size_t size, size_t align), (size, align), align)
NEW(_ZnwmSt11align_val_tRKSt9nothrow_t, (size_t size, size_t align, const void *nothrow), (size, align, nothrow), align)
NEW(_ZnamSt11align_val_tRKSt9nothrow_t, (size_t size, size_t align, const void *nothrow), (size, align, nothrow), align)

DELETE(_ZdlPv, (void *p), (p))
DELETE(_ZdaPv, (void *p), (p))
DELETE(_ZdlPvm, (void *p, size_t size), (p, size))
DELETE(_ZdaPvm, (void *p, size_t size), (p, size))
DELETE(_ZdlPvRKSt9nothrow_t, (void *p, const void *nothrow), (p, nothrow))
DELETE(_ZdaPvRKSt9nothrow_t, (void *p, const void *nothrow), (p, nothrow))
DELETE(_ZdlPvSt11align_val_t, (void *p, size_t align), (p, align))
DELETE(_ZdaPvSt11align_val_t, (void *p, size_t align), (p, align))
DELETE(_ZdlPvmSt11align_val_t, (void *p, size_t size, size_t align), (p, size, align))
DELETE(_ZdaPvmSt11align_val_t, (void *p, size_t size, size_t align), (p, size, align))
DELETE(_ZdlPvSt11align_val_tRKSt9nothrow_t, (void *p, size_t align, const void *nothrow), (p, align, nothrow))
DELETE(_ZdaPvSt11align_val_tRKSt9nothrow_t, (void *p, size_t align, const void *nothrow), (p, align, nothrow))

#endif
