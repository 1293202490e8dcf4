/*
 * Where the calling thread's malloc allocates: the process's target, or that of the innermost domain with
 * EPOCH_DOMAIN_CAPTURE that the thread is inside of. The core tells of every change.
 *
 * Memory that the loader allocates is the process's: link maps and threads' blocks outlive a domain. It is told by its
 * caller's address; and while a dlopen is under way, which runs constructors, nothing is captured. Memory that the
 * runtimes of C and C++ allocate for themselves is the process's too (runtime.h, handed.c).
 */
#ifndef TM_MALLOC_CAPTURE_H
#define TM_MALLOC_CAPTURE_H

#include "malloc/process.h"

/* NULL: the process's; or the thread's own target. Written by the thread itself. */
extern TS_HIDDEN _Thread_local const tm_target *tm_target_now;
/* What it is where the usual way serves: NULL; in the hard mode what it never is. */
extern TS_HIDDEN _Atomic(const tm_target *) tm_target_usual;

TS_ALWAYS_INLINE bool tm_is_unusual(void) { return TS_UNLIKELY(tm_target_now != ts_load_relaxed(&tm_target_usual)); }
TS_ALWAYS_INLINE bool tm_is_captured(void) { return tm_target_now != NULL; }

/* In the domain, if it takes the object and the caller is neither the loader nor a runtime; NULL with errno 0: the
   process's target has to. NULL with another errno: that is the answer. alignment: a power of two. */
void *tm_capture_alloc(size_t alignment, size_t size, bool zero, const void *caller);

/* Between the two this thread's calls are not captured. Nests. */
void tm_capture_suspend(void);
void tm_capture_resume(void);

/* Once, before there is a domain that captures. */
void tm_capture_start(void);

#endif
