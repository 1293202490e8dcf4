/*
 * How much memory may stay warm: the retain budget. One that was given is what it is. That of an allocator that was
 * given none adapts:
 *
 *  - It is TS_RETAIN_BYTES at first. What is more goes back.
 *  - A quarter of it goes back within a second, and three quarters of that come again: it was given in vain. The budget
 *    rises to TS_RETAIN_MOST times as much.
 *  - A spike that does not fit is over: more than that would be warm had nothing gone back, and less than a part of it
 *    (TS_RETAIN_SPIKE) is in use. The budget falls to the usual one. Nothing that went back before was given in vain.
 *    So each such spike gives back all but the usual budget, however often it comes.
 *  - For a second some of what is warm is not needed, nothing goes back, and nothing comes from the pool. That part
 *    goes back in later calls, but for a part of the usual budget (TS_RETAIN_KEEP), and a budget that has risen falls
 *    by as much. It stays where the least and the most that was warm in that second differ by more than a quarter:
 *    such a program needs runs of many lengths.
 *
 * All fields are guarded by the allocator's warm lock, but for what is said to be read by anyone.
 */
#ifndef TS_SUPPLY_RETAIN_H
#define TS_SUPPLY_RETAIN_H

#include "base/atomic.h"

#define TS_RETAIN_BYTES ((size_t)32 << 20)
#define TS_RETAIN_MOST 5u  /* times the usual budget */
#define TS_RETAIN_KEEP 8u  /* that part of the usual budget stays though nobody needs it */
#define TS_RETAIN_SPIKE 8u /* a spike is not over while that part of it is in use */
#define TS_RETAIN_NS 1000000000u

typedef struct ts_retain {
    _Atomic uint64_t units; /* the budget now; read by anyone */
    _Atomic uint64_t spare; /* units that nobody needs, which are to go back; read by anyone */
    _Atomic uint64_t
        calm_ns;    /* since when nothing went back for the budget, and nothing came from the pool; read by anyone */
    uint64_t usual; /* constant during a use, as is the next; read by anyone */
    bool rises;
    uint64_t least, most; /* that was warm since calm_ns */
    uint64_t taken;       /* from the pool, ever, when this was looked at last */
    uint64_t out;         /* what went back and did not come again since; it is forgotten slowly */
    uint64_t window_ns;   /* when the window of a second began */
    uint64_t given, left; /* what went back in it, and of that what did not come again since */
    uint64_t need;        /* the most in it that would have been warm had nothing gone back */
} ts_retain;

/* since_ns can be the later one: by a thread that has read the clock after this one, and was here before it. */
static inline bool ts_retain_is_past(uint64_t since_ns, uint64_t now_ns) {
    return (int64_t)(now_ns - since_ns) > (int64_t)TS_RETAIN_NS;
}

static inline void ts_retain_begin_window(ts_retain *retain, uint64_t warm, uint64_t now_ns) {
    retain->window_ns = now_ns;
    retain->given = retain->left = 0;
    retain->out -= retain->out / 16;
    retain->need = warm + retain->out;
}

static inline void ts_retain_begin_calm(ts_retain *retain, uint64_t warm, uint64_t now_ns) {
    ts_store_relaxed(&retain->calm_ns, now_ns);
    ts_store_relaxed(&retain->spare, 0);
    retain->least = retain->most = warm;
}

/* The budget is the usual one, and nothing is known of what came before. */
static inline void ts_retain_forget(ts_retain *retain) {
    ts_store_relaxed(&retain->units, retain->usual);
    retain->out = 0;
    ts_retain_begin_window(retain, 0, 0);
    ts_retain_begin_calm(retain, 0, 0);
}

static inline void ts_retain_init(ts_retain *retain, uint64_t units, bool rises) {
    retain->usual = units;
    retain->rises = rises;
    retain->taken = 0;
    ts_retain_forget(retain);
}

/* So much is warm, and so much was ever taken from the pool. */
static inline void ts_retain_follow(ts_retain *retain, uint64_t taken, uint64_t warm, uint64_t now_ns) {
    uint64_t back = taken - retain->taken;
    retain->taken = taken;
    retain->out -= back < retain->out ? back : retain->out;
    retain->left -= back < retain->left ? back : retain->left;
    if (warm + retain->out > retain->need) retain->need = warm + retain->out;
    if (back != 0) ts_retain_begin_calm(retain, warm, now_ns);
}

/* So many units went back, and so much is warm yet. */
static inline void ts_retain_give(ts_retain *retain, uint64_t taken, uint64_t warm, uint64_t units, uint64_t now_ns) {
    ts_retain_follow(retain, taken, warm + units, now_ns);
    retain->out += units;
    retain->given += units;
    retain->left += units;
    ts_retain_begin_calm(retain, warm, now_ns);
}

/* So much was warm at some moment, after some of it was taken. */
static inline void ts_retain_note(ts_retain *retain, uint64_t warm) {
    if (warm < retain->least) retain->least = warm;
    if (warm > retain->most) retain->most = warm;
}

/* More is warm than the budget, beside `live` units in use: it rises, falls, or stays. */
static inline void ts_retain_adapt(ts_retain *retain, uint64_t taken, uint64_t warm, uint64_t live, uint64_t now_ns) {
    uint64_t most = TS_RETAIN_MOST * retain->usual;
    ts_retain_follow(retain, taken, warm, now_ns);
    if (ts_retain_is_past(retain->window_ns, now_ns)) ts_retain_begin_window(retain, warm, now_ns);
    if (retain->need > most && (warm + retain->out) / TS_RETAIN_SPIKE > live) {
        retain->given = retain->left = 0;
        ts_store_relaxed(&retain->units, retain->usual);
    } else if (retain->given >= retain->usual / 4 && retain->left <= retain->given / 4) {
        ts_store_relaxed(&retain->units, most);
        ts_retain_begin_window(retain, warm, now_ns);
    }
}

/* How many of the units that nobody needs go back now: `at_once` of them. `keep` stay warm. */
static inline uint64_t ts_retain_look(ts_retain *retain, uint64_t taken, uint64_t warm, uint64_t keep, uint64_t at_once,
                                      uint64_t now_ns) {
    ts_retain_follow(retain, taken, warm, now_ns);
    ts_retain_note(retain, warm);
    uint64_t unused = retain->least > keep ? retain->least - keep : 0, spare = ts_load_relaxed(&retain->spare);
    if (ts_retain_is_past(ts_load_relaxed(&retain->calm_ns), now_ns)) {
        uint64_t budget = ts_load_relaxed(&retain->units);
        spare = retain->most - retain->least <= retain->least / 4 ? unused : 0;
        ts_store_relaxed(&retain->units, budget > retain->usual + spare ? budget - spare : retain->usual);
        ts_retain_begin_calm(retain, warm, now_ns);
    }
    if (spare > unused) spare = unused;
    if (spare < at_once) at_once = spare;
    ts_store_relaxed(&retain->spare, spare - at_once);
    retain->least -= at_once;
    retain->out += at_once;
    return at_once;
}

#endif
