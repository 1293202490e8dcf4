/*
 * How much memory may stay warm: the retain budget. One that was given is what it is. The one of an allocator that was given
 * none is TS_RETAIN_BYTES. While the program takes back what was given back, again and again, it is twice that, or that and as
 * much as the program has in use (four times as much at most), whichever is more: a scope of some tens of megabytes that ends and begins all the time, or buffers of
 * megabytes that come and go, would otherwise meet the page faults of all of it each time.
 *
 * A ROUND of giving lasts until the program takes memory from the pool again. If the next time that there is too much warm
 * it has taken back three quarters of what the round gave, that was given in vain: the budget rises, if what is warm then fits.
 *
 * When there is more than the risen budget, but no more than twice what is in use, what is too much goes back, and half of the usual
 * budget beside: what is warm then lies between buffers that live, and all of it given back would be fetched again in other places. When
 * there is more than that the budget falls, as it does when the program asks for its memory; so a spike that is larger than the rest
 * goes back, and one that comes once goes back, too.
 *
 * Where twice the usual budget goes back within a tenth of a second, and three quarters of it come again, a tenth of the time and more goes
 * into that alone (64 MiB: some 20 ms). Then five times the usual budget stays, whatever is in use, and what is more than that goes back.
 *
 * What was learned holds for ten seconds: then the budget is the usual one, and rises again by what goes and comes.
 *
 * All fields are guarded by the allocator's warm lock, but for what is said to be read by anyone.
 */
#ifndef TS_HEAP_RETAIN_H
#define TS_HEAP_RETAIN_H

#include "base/atomic.h"

#define TS_RETAIN_BYTES ((size_t)32 << 20)
#define TS_RETAIN_WINDOW_NS 100000000u
#define TS_RETAIN_HOLDS_NS 10000000000u
#define TS_RETAIN_MOST 5u /* times the usual budget */

typedef struct ts_retain {
    _Atomic uint64_t units; /* the budget now; read by anyone */
    _Atomic uint64_t low;   /* what is beyond the budget goes back down to this; read by anyone */
    uint64_t usual;         /* constant during a use, as is the next; read by anyone */
    bool rises;
    uint64_t given;                                 /* in the last round */
    uint64_t taken_at;                              /* what the program had taken by the end of it */
    uint64_t risen_ns;                              /* when it rose */
    uint64_t window_ns, window_given, window_taken; /* when the window began, given in it, taken by its beginning */
} ts_retain;

/* The usual budget, and down to a quarter of it: the gap keeps a program at the limit from purging at every step. */
static inline void ts_retain_fall(ts_retain *retain) {
    ts_store_relaxed(&retain->units, retain->usual);
    ts_store_relaxed(&retain->low, retain->usual / 4);
}

static inline void ts_retain_init(ts_retain *retain, uint64_t units, bool rises) {
    retain->usual = units;
    retain->rises = rises;
    retain->given = retain->taken_at = 0;
    retain->risen_ns = retain->window_ns = retain->window_given = retain->window_taken = 0;
    ts_retain_fall(retain);
}

/* Nothing is known of rounds before. */
static inline void ts_retain_forget(ts_retain *retain) {
    ts_retain_fall(retain);
    retain->given = retain->window_given = 0;
}

/* Units of what is warm went back now. taken: units that were ever taken from the pool, before. */
static inline void ts_retain_give(ts_retain *retain, uint64_t taken, uint64_t units, uint64_t now_ns) {
    if (taken != retain->taken_at) {
        retain->given = 0;
        retain->taken_at = taken;
    }
    retain->given += units;
    if (now_ns - retain->window_ns > TS_RETAIN_WINDOW_NS) {
        retain->window_ns = now_ns;
        retain->window_given = 0;
        retain->window_taken = taken;
    }
    retain->window_given += units;
}

static inline bool ts_retain_was_vain(uint64_t given, uint64_t taken) { return taken >= given - given / 4; }

/* Units go and come all the time. */
static inline bool ts_retain_turns_over(const ts_retain *retain, uint64_t taken, uint64_t now_ns) {
    return retain->window_given >= 2 * retain->usual && now_ns - retain->window_ns <= TS_RETAIN_WINDOW_NS &&
           ts_retain_was_vain(retain->window_given, taken - retain->window_taken);
}

static inline void ts_retain_rise(ts_retain *retain, uint64_t units, uint64_t now_ns) {
    ts_store_relaxed(&retain->units, units);
    retain->risen_ns = now_ns;
}

/* More is warm than the usual budget, beside `live` units in use. Whether it may stay; if not, down to `low`. */
static inline bool ts_retain_keeps(ts_retain *retain, uint64_t taken, uint64_t warm, uint64_t live, uint64_t now_ns) {
    uint64_t usual = retain->usual, budget = ts_load_relaxed(&retain->units), highest = TS_RETAIN_MOST * usual;
    if (budget > usual && now_ns - retain->risen_ns > TS_RETAIN_HOLDS_NS) {
        ts_retain_forget(retain);
        budget = usual;
    }
    if (live > 4 * usual) live = 4 * usual; /* a large program does not keep as much as it has */
    uint64_t most = budget == highest ? highest : usual + (live > usual ? live : usual);
    if (budget > usual && warm <= most) return true;
    if (retain->rises && warm <= highest && ts_retain_turns_over(retain, taken, now_ns)) {
        ts_retain_rise(retain, highest, now_ns);
        return true;
    }
    if (budget > usual && warm <= (budget == highest ? 2 * highest : 2 * live)) {
        ts_store_relaxed(&retain->low, most - usual / 2);
        return false;
    }
    ts_retain_fall(retain);
    if (!retain->rises || warm > most || retain->given == 0 ||
        !ts_retain_was_vain(retain->given, taken - retain->taken_at))
        return false;
    ts_retain_rise(retain, 2 * usual, now_ns);
    return true;
}

#endif
