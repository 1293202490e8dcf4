/*
 * How much memory may stay warm: the retain budget. One that was given is what it is. The one of an allocator that was given
 * none is TS_RETAIN_BYTES. While the program takes back what was given back, again and again, it is twice that, or that and as
 * much as the program has in use (four times as much at most), whichever is more: a scope of some tens of megabytes that ends and begins all the time, or buffers of
 * megabytes that come and go, would otherwise meet the page faults of all of it each time.
 *
 * A ROUND of giving lasts until the program takes memory from the pool again. If the next time that there is too much warm
 * it has taken back three quarters of what the round gave, that was given in vain: the budget rises, if what is warm then fits.
 * It falls when there is more than that, or when the program asks for its memory; so a spike that is larger goes back as it
 * did, and one that comes once goes back, too.
 *
 * All fields are guarded by the allocator's warm lock, but for what is said to be read by anyone.
 */
#ifndef TS_HEAP_RETAIN_H
#define TS_HEAP_RETAIN_H

#include "base/atomic.h"

#define TS_RETAIN_BYTES ((size_t)32 << 20)

typedef struct ts_retain {
    _Atomic uint64_t units; /* the budget now; read by anyone */
    uint64_t usual;         /* constant during a use, as is the next; read by anyone */
    bool rises;
    uint64_t given;    /* in the last round */
    uint64_t taken_at; /* what the program had taken by the end of it */
} ts_retain;

static inline void ts_retain_init(ts_retain *retain, uint64_t units, bool rises) {
    ts_store_relaxed(&retain->units, units);
    retain->usual = units;
    retain->rises = rises;
    retain->given = retain->taken_at = 0;
}

/* Nothing is known of rounds before. */
static inline void ts_retain_forget(ts_retain *retain) {
    ts_store_relaxed(&retain->units, retain->usual);
    retain->given = 0;
}

/* Too much is warm: units of it go back now. taken: units that were ever taken from the pool. */
static inline void ts_retain_give(ts_retain *retain, uint64_t taken, uint64_t units) {
    if (taken != retain->taken_at) {
        retain->given = 0;
        retain->taken_at = taken;
    }
    ts_store_relaxed(&retain->units, retain->usual);
    retain->given += units;
}

/* More is warm than the budget was, beside `live` units in use. Whether it may stay. */
static inline bool ts_retain_keeps(ts_retain *retain, uint64_t taken, uint64_t warm, uint64_t live) {
    if (live > 4 * retain->usual) live = 4 * retain->usual; /* a large program does not keep as much as it has */
    if (!retain->rises || (warm > 2 * retain->usual && warm > retain->usual + live)) return false;
    if (ts_load_relaxed(&retain->units) > retain->usual) return true; /* another thread was told so meanwhile */
    if (retain->given == 0 || taken - retain->taken_at < retain->given - retain->given / 4) return false;
    ts_store_relaxed(&retain->units, 2 * retain->usual);
    return true;
}

#endif
