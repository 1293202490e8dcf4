/*
 * Ranked locks. A thread takes locks in rising rank only; builds with TSLAB_ASSERT >= 2 check it. No fast
 * path takes one, and none is held across a system call that can block (the lock's own excepted, and the naps of who waits for a
 * thread that lost its processor with a bias).
 *
 * A lock is a word; who finds it taken sleeps at it (park.h). Invariants
 *  1. Who changes `word` from FREE has the lock, until it writes FREE.
 *  2. Who goes to sleep has written WAITED while the lock was taken, and sleeps only if that is the word still. Who finds WAITED
 *     when it writes FREE wakes one: so a sleeper is woken, or has not fallen asleep and looks once more.
 *  3. Who has slept holds the lock as WAITED: others may be asleep, and its release wakes the next, at the price of a call for
 *     nobody after the last.
 * A release and an acquire are one locked instruction each; a pthread mutex has the same, and 58 instructions more a pair. In
 * a child of fork a release may wake threads that are not there, which is nothing.
 *
 * The counters are written under the lock itself, so they cost a plain add; but for the one of all locks, which only who
 * waits pays.
 */
/* Modelled in tests/model: lock. */
#ifndef TS_BASE_LOCK_H
#define TS_BASE_LOCK_H

#include "base/assert.h"
#include "base/atomic.h"
#include "base/attr.h"

typedef enum ts_rank {
    TS_RANK_TREE = 1,  /* parents and children of domains (domain/tree.h) */
    TS_RANK_ALLOCATOR, /* one allocator: its rolling epoch, its list of shares */
    TS_RANK_EPOCH,     /* stripe of epochs: their states, blocks and spans */
    TS_RANK_HEAP,      /* what one heap owns, when another thread than its own looks */
    TS_RANK_BIAS,      /* the bias of one heap (epoch.h) */
    TS_RANK_REGISTRY,  /* list of heaps, free heaps */
    TS_RANK_WARM,      /* warm units shared by the threads of one allocator */
    TS_RANK_TABLE,     /* free lists of metadata */
    TS_RANK_GROWTH,    /* the untouched end of a part of the region */
    TS_RANK_POOL,      /* free units of the region */
    TS_RANK_ACCOUNT,   /* what limited epochs hold (supply/account.h) */
} ts_rank;

enum { TS_LOCK_FREE, TS_LOCK_HELD, TS_LOCK_WAITED };

typedef struct ts_lock {
    _Atomic uint32_t word;          /* TS_LOCK_* */
    ts_rank rank;                   /* constant after init */
    _Atomic uint64_t fast_acquired; /* guarded by the lock; read by anyone */
    _Atomic uint64_t contended;     /* guarded by the lock; read by anyone */
} ts_lock;

/* Waits for any of these locks, of the whole process. */
extern TS_HIDDEN _Atomic uint64_t ts_lock_waits;
/* Called by a thread that had to wait and has the lock, which may be any. Set once; NULL: nobody is told. relaxed: it is code,
   which is there before anything runs. */
typedef void ts_lock_waited_fn(void);
extern TS_HIDDEN _Atomic(ts_lock_waited_fn *) ts_lock_waited;

void ts_lock_init(ts_lock *lock, ts_rank rank);
/* For the next use of a record. Nobody has or wants the lock. */
void ts_lock_reset_counts(ts_lock *lock);
void ts_lock_acquire(ts_lock *lock);
void ts_lock_release(ts_lock *lock);
/* false: somebody has it. That is no wait, and is not counted as one. */
bool ts_lock_try(ts_lock *lock);
/* For fork, which takes every lock there is: equal ranks one after the other, and no counting. */
void ts_lock_acquire_for_fork(ts_lock *lock);
void ts_lock_release_for_fork(ts_lock *lock);

/* acquire: partner of the release in ts_lock_put */
TS_ALWAYS_INLINE bool ts_lock_take_free(ts_lock *lock) {
    uint32_t word = TS_LOCK_FREE;
    return TS_LIKELY(atomic_compare_exchange_strong_explicit(&lock->word, &word, TS_LOCK_HELD, memory_order_acquire,
                                                             memory_order_relaxed));
}

/* Whether somebody is to be woken. */
TS_ALWAYS_INLINE bool ts_lock_put(ts_lock *lock) {
    return TS_UNLIKELY(atomic_exchange_explicit(&lock->word, TS_LOCK_FREE, memory_order_release) == TS_LOCK_WAITED);
}

#endif
