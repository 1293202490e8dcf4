/*
 * The retain budget: how much memory an allocator may retain. A budget that the program gave is fixed. The budget of an
 * allocator that was given none is the USUAL one, TS_RETAIN_BYTES, at first, and adapts:
 *
 *  - A PHASE ENDS when more than the usual budget, or than what is left in use, was freed in a ROW: no 64th of it
 *    (TS_RETAIN_ROW) was taken meanwhile. Then retained memory beyond the budget goes back. Before that the HIGHEST
 *    budget holds: TS_RETAIN_MOST times the usual one, or a part of what is in use (TS_RETAIN_USE) if that is more.
 *    A program that frees and allocates in turn needs the memory again at once.
 *  - It RISES to the highest one when a phase's end gave memory back in vain: a quarter of the usual budget or more
 *    went back within a second, and three quarters of that came again.
 *  - It FALLS to the usual budget when a phase that does not fit is over: had nothing gone back, more than the highest
 *    budget would be retained. It does not rise in such a second. So each such phase gives back all but the usual
 *    budget, however often it comes.
 *  - After a CALM second, in which nothing went back and nothing came from the pool, the memory that was not needed
 *    in it goes back in later calls. A part of the usual budget stays (TS_RETAIN_KEEP), and a budget that has risen
 *    falls by as much. Nothing goes back if the least and the most that was retained in that second differ by more
 *    than a quarter: such a program needs runs of many lengths.
 *
 * The lock of the allocator's retained units guards all fields but row_from. Some may be read by any thread, too.
 */
#ifndef TS_SUPPLY_RETAIN_H
#define TS_SUPPLY_RETAIN_H

#include "base/base.h"

#define TS_RETAIN_BYTES ((size_t)32 << 20)
#define TS_RETAIN_MOST 5u
#define TS_RETAIN_USE 4u
#define TS_RETAIN_ROW 64u
#define TS_RETAIN_KEEP 8u /* this part of the usual budget stays, needed or not */
#define TS_RETAIN_NS 1000000000u

typedef struct ts_retain {
    _Atomic uint64_t units;   /* the present budget; read by any thread */
    _Atomic uint64_t spare;   /* units that are not needed, and are to go back; read by any thread */
    _Atomic uint64_t calm_ns; /* since when it is calm; read by any thread */
    /* Units retained, less those that were freed in a row; it may be negative. Any thread writes it. If one loses what
       another has just written, a phase ends some units earlier or later. */
    _Atomic uint64_t row_from;
    uint64_t usual; /* constant during a use, as is `rises`; read by any thread */
    bool rises;
    uint64_t least, most; /* units retained since calm_ns */
    uint64_t taken;       /* units ever taken from the pool, at the last look */
    uint64_t out;         /* units that went back and did not come again since; it fades slowly */
    uint64_t window_ns;   /* when the window of a second began */
    uint64_t given, left; /* units that went back in the window, and how many of these did not come again since */
    uint64_t need;        /* the most in the window that would have been retained had nothing gone back */
} ts_retain;

/* since_ns can be later than now_ns: another thread read the clock after this one, and was here before it. */
static inline bool ts_retain_is_past(uint64_t since_ns, uint64_t now_ns) {
    return (int64_t)(now_ns - since_ns) > (int64_t)TS_RETAIN_NS;
}

/* Units freed in a row. */
static inline uint64_t ts_retain_row(const ts_retain *retain, uint64_t retained) {
    int64_t row = (int64_t)(retained - ts_load_relaxed(&retain->row_from));
    return row > 0 ? (uint64_t)row : 0;
}

/* Notes that units were taken for use. retained: those that still are. */
static inline void ts_retain_subtract(ts_retain *retain, uint64_t retained, uint64_t units) {
    uint64_t row = ts_retain_row(retain, retained), less = TS_RETAIN_ROW * units;
    ts_store_relaxed(&retain->row_from, retained - (row > less ? row - less : 0));
}

static inline bool ts_retain_phase_ended(const ts_retain *retain, uint64_t retained, uint64_t in_use) {
    return ts_retain_row(retain, retained) > (in_use < retain->usual ? in_use : retain->usual);
}

static inline uint64_t ts_retain_most(const ts_retain *retain, uint64_t in_use) {
    uint64_t most = TS_RETAIN_MOST * retain->usual;
    return most > in_use / TS_RETAIN_USE ? most : in_use / TS_RETAIN_USE;
}

/* How many units may be retained. in_use: units of the allocator that are not. Any thread. */
static inline uint64_t ts_retain_limit(const ts_retain *retain, uint64_t retained, uint64_t in_use) {
    bool highest = retain->rises && !ts_retain_phase_ended(retain, retained, in_use);
    return highest ? ts_retain_most(retain, in_use) : ts_load_relaxed(&retain->units);
}

static inline void ts_retain_begin_window(ts_retain *retain, uint64_t retained, uint64_t now_ns) {
    retain->window_ns = now_ns;
    retain->given = retain->left = 0;
    retain->out -= retain->out / 16;
    retain->need = retained + retain->out;
}

static inline void ts_retain_begin_calm(ts_retain *retain, uint64_t retained, uint64_t now_ns) {
    ts_store_relaxed(&retain->calm_ns, now_ns);
    ts_store_relaxed(&retain->spare, 0);
    retain->least = retain->most = retained;
}

/* Sets the usual budget, and forgets all that came before. */
static inline void ts_retain_forget(ts_retain *retain) {
    ts_store_relaxed(&retain->units, retain->usual);
    ts_store_relaxed(&retain->row_from, 0);
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

/* Follows the figures: units ever taken from the pool, and units retained. */
static inline void ts_retain_follow(ts_retain *retain, uint64_t taken, uint64_t retained, uint64_t now_ns) {
    uint64_t back = taken - retain->taken;
    retain->taken = taken;
    retain->out -= back < retain->out ? back : retain->out;
    retain->left -= back < retain->left ? back : retain->left;
    if (retained + retain->out > retain->need) retain->need = retained + retain->out;
    if (back != 0) ts_retain_begin_calm(retain, retained, now_ns);
}

/* Notes that units went back. retained: units that are retained still. */
static inline void ts_retain_add(ts_retain *retain, uint64_t taken, uint64_t retained, uint64_t units,
                                 uint64_t now_ns) {
    ts_retain_follow(retain, taken, retained + units, now_ns);
    retain->out += units;
    retain->given += units;
    retain->left += units;
    ts_store_relaxed(&retain->row_from, ts_load_relaxed(&retain->row_from) - units);
    ts_retain_begin_calm(retain, retained, now_ns);
}

/* Notes how much is retained after `units` of it were taken. */
static inline void ts_retain_note(ts_retain *retain, uint64_t retained, uint64_t units) {
    if (units > 0) ts_retain_subtract(retain, retained, units);
    if (retained < retain->least) retain->least = retained;
    if (retained > retain->most) retain->most = retained;
}

/* Called when more is retained than may be: the budget rises, falls, or stays. */
static inline void ts_retain_adapt(ts_retain *retain, uint64_t taken, uint64_t retained, uint64_t in_use,
                                   uint64_t now_ns) {
    uint64_t most = ts_retain_most(retain, in_use);
    ts_retain_follow(retain, taken, retained, now_ns);
    if (ts_retain_is_past(retain->window_ns, now_ns)) ts_retain_begin_window(retain, retained, now_ns);
    if (retain->need > most) {
        ts_store_relaxed(&retain->units, retain->usual);
    } else if (retain->given >= retain->usual / 4 && retain->left <= retain->given / 4) {
        ts_store_relaxed(&retain->units, most);
        ts_retain_begin_window(retain, retained, now_ns);
    }
}

/* How many units that are not needed go back in this call: `at_once` at most. `keep` units stay retained. */
static inline uint64_t ts_retain_look(ts_retain *retain, uint64_t taken, uint64_t retained, uint64_t keep,
                                      uint64_t at_once, uint64_t now_ns) {
    ts_retain_follow(retain, taken, retained, now_ns);
    ts_retain_note(retain, retained, 0);
    uint64_t unused = retain->least > keep ? retain->least - keep : 0, spare = ts_load_relaxed(&retain->spare);
    if (ts_retain_is_past(ts_load_relaxed(&retain->calm_ns), now_ns)) {
        uint64_t budget = ts_load_relaxed(&retain->units);
        spare = retain->most - retain->least <= retain->least / 4 ? unused : 0;
        ts_store_relaxed(&retain->units, budget > retain->usual + spare ? budget - spare : retain->usual);
        ts_retain_begin_calm(retain, retained, now_ns);
    }
    if (spare > unused) spare = unused;
    if (spare < at_once) at_once = spare;
    ts_store_relaxed(&retain->spare, spare - at_once);
    retain->least -= at_once;
    retain->out += at_once;
    ts_store_relaxed(&retain->row_from, ts_load_relaxed(&retain->row_from) - at_once);
    return at_once;
}

#endif
