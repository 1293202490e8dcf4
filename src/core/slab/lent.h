/*
 * Lent memory: a slab or a span of a closed epoch whose bytes lie on a device (spill/spill.h). Its pages are
 * inaccessible meanwhile. A free needs nothing in these pages, so the objects stay live, and are freed as before.
 *
 * A unit is LENT while its bit in ts_spilled_units is on. The unit is the first one of a span, or the unit of a slab.
 * An OUTER or FAR unit has no such bit, because bits for all of them would take 54 MiB: its record's owner is
 * TS_RUN_LENT instead. The rules call that a bit, too.
 *
 * Invariants
 *  1. The lender sets the bit before a free can meet the loan. For a slab, the lender holds the heap of the slab's
 *     block, and sets the bit before FOREIGN in the UNIT word. For a span, it holds the lock of the span's epoch.
 *  2. A lent slab has FOREIGN on in its UNIT word, and is on no queue. To every other thread it looks like a slab that
 *     some thread has taken off a queue and has not worked on yet. So no thread hands it on, claims it or drains it
 *     (cache/foreign.c), and cross-thread frees leave their bits in it.
 *  3. One thread turns the bit off, and that thread decides what becomes of the unit. There are two cases:
 *     a. A free has found that nothing is live in the unit. The unit is dead: it belongs to the spill's record alone,
 *        and its UNIT word is 0 once that free is done.
 *     b. The spill is over. A slab is pushed on a queue of cross-thread frees, as if it had been on its way there. A
 *        span is what it was.
 */
/* Modelled in tests/model: spill. */
#ifndef TS_SLAB_LENT_H
#define TS_SLAB_LENT_H

#include "region/region.h"
#include "slab/slab.h"

#define TS_SPILLED_WORDS ((UINT32_C(1) << TS_MAX_UNITS_LOG2) / 64)
extern TS_HIDDEN _Atomic uint32_t ts_spills; /* records of spills; while it is 0 every bit is off */
extern TS_HIDDEN _Atomic uint64_t ts_spilled_units[TS_SPILLED_WORDS];

/* Frees in a lent slab. A spill sets the table before its first bit; a process without spills has none, and calls
   none. */
struct ts_heap;
typedef struct ts_loan {
    /* If nothing is live in a lent slab, takes the slab out of its block: the unit is dead. Caller holds the heap of
       the block. */
    void (*take_out)(const struct ts_heap *heap, uint32_t unit);
    /* Does the same for a caller that holds nothing, after a free that may have been the last of the slab. Waits for
       the owner's operation. */
    void (*freed)(uint32_t unit);
} ts_loan;
extern TS_HIDDEN _Atomic(const ts_loan *) ts_loans;
/* After ts_is_lent. relaxed: the bit, which was read with acquire, publishes the table. */
static inline const ts_loan *ts_loan_of_lent(void) { return ts_load_relaxed(&ts_loans); }

/* The caller has read FOREIGN in the unit's word (acquire), or holds the lock of the span's epoch. Either comes after
   the bit was set. acquire: a caller that finds the bit off again sees everything that the end of the loan wrote
   before. */
static inline bool ts_is_lent(uint32_t unit) {
    if (TS_LIKELY(ts_load_acquire(&ts_spills) == 0) || ts_is_piece(unit)) return false;
    if (ts_is_outer(unit)) return ts_load_acquire(&ts_region.run[unit].owner) == TS_RUN_LENT;
    return (ts_load_acquire(&ts_spilled_units[unit / 64]) >> unit % 64 & 1) != 0;
}
/* acq_rel: the thread that turns the bit off sees what the lender wrote before. Its own writes come after. */
static inline void ts_lend(uint32_t unit) {
    if (ts_is_outer(unit)) {
        atomic_exchange_explicit(&ts_region.run[unit].owner, TS_RUN_LENT, memory_order_acq_rel);
        return;
    }
    atomic_fetch_or_explicit(&ts_spilled_units[unit / 64], (uint64_t)1 << unit % 64, memory_order_acq_rel);
}
/* Turns the bit off. true: this call did it, and the caller decides what becomes of the unit. */
static inline bool ts_take_lent(uint32_t unit) {
    uint32_t lent = TS_RUN_LENT;
    if (ts_is_outer(unit))
        return atomic_compare_exchange_strong_explicit(&ts_region.run[unit].owner, &lent, 0, memory_order_acq_rel,
                                                       memory_order_acquire);
    uint64_t bit = (uint64_t)1 << unit % 64;
    return (atomic_fetch_and_explicit(&ts_spilled_units[unit / 64], ~bit, memory_order_acq_rel) & bit) != 0;
}

#endif
