/*
 * The operators of C++ (cxx.c), and what they need of the program's C++ library: looked up when it is needed where this
 * library is loaded (cxx_shared.c), bound by the linker where it is linked statically (cxx_static.c).
 */
#ifndef TM_MALLOC_CXX_H
#define TM_MALLOC_CXX_H

#include "base/base.h"
#include "malloc/entry.h"

#include <stddef.h>
#include <stdint.h>

#if SIZE_MAX == UINT64_MAX || defined(__s390__)
#define SIZE "m"
#else
#define SIZE "j"
#endif
#define NEW "_Znw" SIZE
#define NEW_ARRAY "_Zna" SIZE
#define DELETE "_ZdlPv"
#define DELETE_ARRAY "_ZdaPv"
#define NOTHROW "RKSt9nothrow_t"
#define ALIGNED "St11align_val_t"
/* In an archive an operator gives way to the program's own. */
#ifdef TSLAB_MALLOC_STATIC
#define NAMED(name) __asm__(name) TM_EXPORT __attribute__((weak))
#else
#define NAMED(name) __asm__(name) TM_EXPORT
#endif
/* A handler, and bad_alloc, pass through. */
#define THROWS __attribute__((noinline, cold)) /* compiled with -fexceptions */

/*
 * A program may replace operators. In the C++ library most of them call another: new[] calls new, delete of a size
 * calls delete, and so on. A program relies on it when it replaces only some. So where a program has new, delete, or
 * one of their forms with an alignment, of its own, what would call it does so here. The forms that a program replaces
 * are seen when this library is loaded; written there, and constant then.
 */
typedef struct tm_cxx_operators {
    void *(*allocate)(size_t);
    void *(*allocate_array)(size_t);
    void *(*allocate_aligned)(size_t, size_t);
    void *(*allocate_array_aligned)(size_t, size_t);
    void (*release)(void *);
    void (*release_array)(void *);
    void (*release_aligned)(void *, size_t);
    void (*release_array_aligned)(void *, size_t);
} tm_cxx_operators;
extern TS_HIDDEN tm_cxx_operators tm_cxx_replaced; /* NULL: it is this library's */

typedef void (*tm_cxx_handler)(void);
tm_cxx_handler tm_cxx_current_handler(void);
/* Does not return. */
void tm_cxx_throw_bad_alloc(void);

#endif
