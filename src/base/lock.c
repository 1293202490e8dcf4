#include "base/lock.h"

#include "base/assert.h"

TS_ALIGNED(TS_CACHE_LINE) _Atomic uint64_t ts_lock_waits;

/* Up before the first step of taking a lock, down after the last of releasing it: a signal between finds it up. Of its own
   thread only; volatile for the handler. */
static _Thread_local volatile unsigned held_count;

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
    pthread_mutex_init(&lock->mutex, NULL);
    lock->rank = rank;
    ts_lock_reset_counts(lock);
}

void ts_lock_reset_counts(ts_lock *lock) {
    ts_store_relaxed(&lock->fast_acquired, 0);
    ts_store_relaxed(&lock->contended, 0);
}

void ts_lock_acquire(ts_lock *lock) {
    note_acquire(lock->rank);
    held_count++;
    ts_compiler_fence();
    if (TS_LIKELY(pthread_mutex_trylock(&lock->mutex) == 0)) {
        ts_count(&lock->fast_acquired, 1);
        return;
    }
    (void)ts_fetch_add_relaxed(&ts_lock_waits, 1);
    pthread_mutex_lock(&lock->mutex);
    ts_count(&lock->contended, 1);
}

void ts_lock_release(ts_lock *lock) {
    note_release(lock->rank);
    pthread_mutex_unlock(&lock->mutex);
    ts_compiler_fence();
    held_count--;
}

bool ts_lock_is_any_held(void) { return held_count != 0; }

void ts_lock_acquire_for_fork(ts_lock *lock) {
    held_count++;
    ts_compiler_fence();
    pthread_mutex_lock(&lock->mutex);
}
void ts_lock_release_for_fork(ts_lock *lock) {
    pthread_mutex_unlock(&lock->mutex);
    ts_compiler_fence();
    held_count--;
}
