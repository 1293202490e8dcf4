/*
 * Where the process's malloc allocates, and whom it asks about pointers that are not there.
 *
 * Every call of malloc goes to a TARGET: an allocator and an epoch of it. There is one for the process: an allocator of
 * its own with one churn epoch, which is not the rolling one. So neither epoch_advance() nor an allocator that the
 * program frees reaches an object of malloc.
 *
 * Invariants
 *  1. The process's target has an allocator from the first call on at which libc is ready, and keeps it. In the hard
 *     mode it never has one, so that every call leaves the usual way at its first test; the allocator is tm_hard's.
 *  2. Until then, inside of the making of it, and on a thread that can have no heap any more (the last round of its
 *     destructors, and after that), objects come from the spare (spare.h).
 *  3. Every object says by its address whose it is: the core's, the spare's, or another's.
 */
#ifndef TM_MALLOC_PROCESS_H
#define TM_MALLOC_PROCESS_H

#include "base/base.h"

#include <tslab/tslab.h>

typedef struct tm_target {
    _Atomic(SlabAllocator *) allocator; /* NULL: there is none yet; released after the epoch */
    _Atomic uint64_t epoch;
} tm_target;

/* Whether the library is told of threads (thread.c): where pthread_create is libc's own. Elsewhere a program asks
   whether it is there to learn whether it has threads. */
#if defined(__linux__)
#include <features.h>
#if defined(__GLIBC__)
#if __GLIBC_PREREQ(2, 34)
#define TM_SEES_THREADS 1
#endif
#elif defined(TSLAB_MALLOC_STATIC)
#define TM_SEES_THREADS 1
#endif
#endif

/* By which family of functions an object is allocated, or freed. */
typedef enum tm_kind { TM_BY_MALLOC, TM_BY_NEW, TM_BY_NEW_ARRAY } tm_kind;

#define TM_SIZE_UNKNOWN SIZE_MAX /* the program does not say it */

extern TS_HIDDEN tm_target tm_process;
/* Sizes that the program gives with a free are looked at: a mode of misuse is on, or the hard mode, or nothing is known
   yet. Constant once there is an allocator. */
extern TS_HIDDEN _Atomic bool tm_process_checks;

/* acquire: partner of the release in process.c; the epoch is there before the allocator */
TS_ALWAYS_INLINE SlabAllocator *tm_target_allocator(const tm_target *target) {
    return atomic_load_explicit(&target->allocator, memory_order_acquire);
}
TS_ALWAYS_INLINE EpochId tm_target_epoch(const tm_target *target) { return ts_load_relaxed(&target->epoch); }

/* Makes the process's target if there is none. false: not now. */
bool tm_process_start(void);

/* The process's allocator, also in the hard mode; NULL: there is none yet. */
SlabAllocator *tm_process_allocator(void);

/* In a domain that captures, or in the hard mode. alignment: a power of two. caller: of malloc. */
void *tm_process_alloc_unusual(size_t alignment, size_t size, bool zero, tm_kind kind, const void *caller);
/* What the first try has not given: errno says why, if there is a target. */
void *tm_process_alloc_rest(size_t alignment, size_t size, bool zero, tm_kind kind);
void *tm_process_realloc_rest(void *p, size_t size, const void *caller);
/* A free while the process has no target: in the hard mode, or early. */
void tm_process_free_unusual(const char *call, void *p, tm_kind kind, size_t size);
/* Bytes of any object that this library has given out, or the core; 0: it is none. */
size_t tm_process_usable(const void *p);
/* A free with a size or an alignment, while tm_process_checks: reports one that does not fit the object. */
void tm_process_free_sized(const char *call, void *p, tm_kind kind, size_t alignment, size_t size);

#endif
