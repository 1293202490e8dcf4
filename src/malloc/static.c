#define _GNU_SOURCE
#include "malloc/static.h"

#include "malloc/entry.h"

#if defined(__GLIBC__)
#include <execinfo.h>
#endif
#include <malloc.h>
#include <pthread.h>
#include <stdlib.h>

/* A function of each file that has names of libc's: c.c, glibc.c, thread.c. And what the core uses for call stacks if
   the program has it. */
const tm_part tm_static_parts[] = {
    (tm_part)malloc,      (tm_part)malloc_usable_size, (tm_part)pthread_create,
#if defined(__GLIBC__)
    (tm_part)malloc_trim, (tm_part)backtrace,
#endif
};

#if defined(__GLIBC__)

/* What fork and the end of a thread ask of glibc's malloc. The core has handlers of its own for both. */
TM_EXPORT void __malloc_fork_lock_parent(void);
void __malloc_fork_lock_parent(void) {}
TM_EXPORT void __malloc_fork_unlock_parent(void);
void __malloc_fork_unlock_parent(void) {}
TM_EXPORT void __malloc_fork_unlock_child(void);
void __malloc_fork_unlock_child(void) {}
TM_EXPORT void __malloc_arena_thread_freeres(void);
void __malloc_arena_thread_freeres(void) {}

/* glibc's second names. */
#define SECOND(result, name, first, parameters, arguments) \
    TM_EXPORT result name parameters;                      \
    result name parameters { first arguments; }
SECOND(void *, __malloc, return malloc, (size_t size), (size))
SECOND(void *, __calloc, return calloc, (size_t n, size_t size), (n, size))
SECOND(void *, __realloc, return realloc, (void *p, size_t size), (p, size))
SECOND(void *, __memalign, return memalign, (size_t alignment, size_t size), (alignment, size))
SECOND(void *, __valloc, return valloc, (size_t size), (size))
SECOND(void *, __pvalloc, return pvalloc, (size_t size), (size))
SECOND(void, __free, free, (void *p), (p))
SECOND(size_t, __malloc_usable_size, return malloc_usable_size, (void *p), (p))
SECOND(int, __malloc_trim, return malloc_trim, (size_t padding), (padding))
SECOND(void, __malloc_stats, malloc_stats, (void), ())
SECOND(int, __malloc_info, return malloc_info, (int options, FILE *stream), (options, stream))
SECOND(int, __mallopt, return mallopt, (int parameter, int value), (parameter, value))
#if __GLIBC__ > 2 || __GLIBC_MINOR__ >= 33
SECOND(struct mallinfo2, __mallinfo2, return mallinfo2, (void), ())
SECOND(struct mallinfo2, __libc_mallinfo2, return mallinfo2, (void), ())
#endif
#undef SECOND

#endif
