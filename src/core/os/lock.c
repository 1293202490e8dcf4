/*
 * Ranked locks. A thread takes locks in rising rank only; builds with TSLAB_ASSERT >= 2 check it. No fast path takes
 * one. No lock is held across a system call that can block, except the call by which a thread waits for a lock.
 *
 * A lock is a word. A thread that finds it taken sleeps at the word (park.c).
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
#include "os/os.h"

TS_ALIGNED(TS_CACHE_LINE) _Atomic uint64_t ts_lock_waits;
_Atomic(ts_lock_waited_fn *) ts_lock_waited;
_Atomic(ts_cas_repeated_fn *) ts_cas_repeated;

#if TSLAB_ASSERT >= 2
static _Thread_local uint32_t held_ranks; /* bit r: a lock of rank r is held */
static void note_acquire(ts_rank rank) {
    ts_assert(2, (held_ranks >> rank) == 0);
    held_ranks |= 1u << rank;
}
static void note_release(ts_rank rank) {
    ts_assert(2, (held_ranks & (1u << rank)) != 0);
    held_ranks &= ~(1u << rank);
}
#else
static void note_acquire(ts_rank rank) { (void)rank; }
static void note_release(ts_rank rank) { (void)rank; }
#endif

void ts_lock_init(ts_lock *lock, ts_rank rank) {
    ts_store_relaxed(&lock->word, TS_LOCK_FREE);
    lock->rank = rank;
    ts_lock_reset_counts(lock);
}

void ts_lock_reset_counts(ts_lock *lock) {
    ts_store_relaxed(&lock->fast_acquired, 0);
    ts_store_relaxed(&lock->contended, 0);
}

/* acquire: as in ts_lock_take_free */
TS_NOINLINE static void take_waiting(ts_lock *lock) {
    while (atomic_exchange_explicit(&lock->word, TS_LOCK_WAITED, memory_order_acquire) != TS_LOCK_FREE)
        ts_park(&lock->word, TS_LOCK_WAITED);
}

TS_ALWAYS_INLINE void give(ts_lock *lock) {
    if (TS_UNLIKELY(atomic_exchange_explicit(&lock->word, TS_LOCK_FREE, memory_order_release) == TS_LOCK_WAITED))
        ts_unpark(&lock->word);
}

TS_NOINLINE static void take_counting(ts_lock *lock) {
    (void)ts_fetch_add_relaxed(&ts_lock_waits, 1);
    take_waiting(lock);
    ts_count(&lock->contended, 1);
    ts_lock_waited_fn *waited = ts_load_relaxed(&ts_lock_waited);
    if (waited) waited();
}

void ts_lock_acquire(ts_lock *lock) {
    note_acquire(lock->rank);
    if (ts_lock_take_free(lock))
        ts_count(&lock->fast_acquired, 1);
    else
        take_counting(lock);
}

void ts_lock_acquire_uncounted(ts_lock *lock) {
    note_acquire(lock->rank);
    if (!ts_lock_take_free(lock)) take_counting(lock);
}

bool ts_lock_try(ts_lock *lock) {
    if (!ts_lock_take_free(lock)) return false;
    note_acquire(lock->rank);
    ts_count(&lock->fast_acquired, 1);
    return true;
}

void ts_lock_release(ts_lock *lock) {
    note_release(lock->rank);
    give(lock);
}

void ts_lock_acquire_for_fork(ts_lock *lock) {
    if (!ts_lock_take_free(lock)) take_waiting(lock);
}
void ts_lock_release_for_fork(ts_lock *lock) { give(lock); }
