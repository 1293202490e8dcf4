/*
 * Ranked locks. A thread takes locks in rising rank only; builds with TSLAB_ASSERT >= 2 check it. No fast path takes
 * one. No lock is held across a system call that can block, except the call by which a thread waits for a lock.
 *
 * A lock is a word. A thread that finds it taken sleeps at the word (park.h).
 *
 * Invariants
 *  1. The thread that changes `word` from FREE has the lock, until it writes FREE.
 *  2. A thread that goes to sleep has written WAITED while the lock was taken, and sleeps only if the word still is
 *     WAITED. A thread that finds WAITED when it writes FREE wakes one sleeper. So a sleeper is woken, or it has not
 *     fallen asleep yet and looks once more.
 *  3. A thread that has slept holds the lock as WAITED, because others may be asleep. So its release wakes the next
 *     one. After the last sleeper that costs one system call for nothing.
 * An acquire and a release are one locked instruction each, as with a pthread mutex, and 58 instructions less a pair.
 * In a child of fork a release may wake threads that do not exist there. That does no harm.
 *
 * The counters of a lock are written under the lock, so they cost a plain addition. Only a thread that waits adds to
 * ts_lock_waits, which all locks share.
 */
/* Modelled in tests/model: lock. */
#ifndef TS_OS_LOCK_H
#define TS_OS_LOCK_H

#include "base/atomic.h"
#include "base/attr.h"
#include "os/assert.h"

typedef enum ts_rank {
    TS_RANK_TREE = 1,  /* parents and children of domains (domain/tree.h) */
    TS_RANK_ALLOCATOR, /* one allocator: its rolling epoch, its list of shares */
    TS_RANK_EPOCH,     /* stripe of epochs: their states, blocks and spans */
    TS_RANK_HEAP,      /* what one heap owns, for threads other than the heap's */
    TS_RANK_REGISTRY,  /* list of heaps, free heaps */
    TS_RANK_RETAINED,  /* retained units that the threads of one allocator share */
    TS_RANK_TABLE,     /* free lists of metadata */
    TS_RANK_GROWTH,    /* the untouched end of a part of the region */
    TS_RANK_POOL,      /* free units of the region */
    TS_RANK_ACCOUNT,   /* what limited epochs hold (supply/account.h) */
} ts_rank;

enum { TS_LOCK_FREE, TS_LOCK_HELD, TS_LOCK_WAITED };

typedef struct ts_lock {
    _Atomic uint32_t word;          /* TS_LOCK_* */
    ts_rank rank;                   /* constant after init */
    _Atomic uint64_t fast_acquired; /* guarded by the lock; read by any thread */
    _Atomic uint64_t contended;     /* guarded by the lock; read by any thread */
} ts_lock;

/* How often a thread of the process waited for any of these locks. */
extern TS_HIDDEN _Atomic uint64_t ts_lock_waits;
/* A thread that had to wait calls it, once it has the lock. Set once; NULL: there is none. relaxed: it is code, which
   is there before anything runs. */
typedef void ts_lock_waited_fn(void);
extern TS_HIDDEN _Atomic(ts_lock_waited_fn *) ts_lock_waited;
/* The same for a thread that repeats a compare-and-swap, with how often. */
typedef void ts_cas_repeated_fn(uint64_t times);
extern TS_HIDDEN _Atomic(ts_cas_repeated_fn *) ts_cas_repeated;

void ts_lock_init(ts_lock *lock, ts_rank rank);
/* For the next use of a record. No thread has or wants the lock. */
void ts_lock_reset_counts(ts_lock *lock);
void ts_lock_acquire(ts_lock *lock);
/* As ts_lock_acquire, but does not count a lock that was free: for a lock that no statistics tell of. */
void ts_lock_acquire_uncounted(ts_lock *lock);
void ts_lock_release(ts_lock *lock);
/* false: another thread has it. That does not count as a wait. */
bool ts_lock_try(ts_lock *lock);
/* For fork, which takes every lock: equal ranks one after the other, without counting. Floors with locks of their own
   call either of the two for each of them (ts_*_for_locks). */
typedef void ts_lock_fn(ts_lock *lock);
void ts_lock_acquire_for_fork(ts_lock *lock);
void ts_lock_release_for_fork(ts_lock *lock);

/* Takes a lock that is free. acquire: partner of the release in lock.c. */
TS_ALWAYS_INLINE bool ts_lock_take_free(ts_lock *lock) {
    uint32_t word = TS_LOCK_FREE;
    return TS_LIKELY(atomic_compare_exchange_strong_explicit(&lock->word, &word, TS_LOCK_HELD, memory_order_acquire,
                                                             memory_order_relaxed));
}

#endif
