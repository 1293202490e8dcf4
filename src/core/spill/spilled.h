/*
 * Memory that is away: slabs and spans of a closed epoch that are lent to a spill (spill/spill.h), whose bytes lie on
 * a device and whose pages are inaccessible. All that a free has to know lies outside of the pages, so the objects
 * stay live, and are freed, as before.
 *
 * A unit is LENT while its bit in ts_spilled_units is on: the first unit of a span, or the unit of a slab. (Of a FAR
 * unit, while its record's warm_of is TS_RUN_LENT; that is called its bit, too. 16 TiB of units would have 2 MiB of
 * bits.)
 *  1. The bit is set by who lends, before a free can count on it: with the heap of the slab's block held, before
 *     FOREIGN is set in the UNIT word; of a span under the lock of its epoch.
 *  2. A lent slab has FOREIGN on in its UNIT word, and is on no queue. So it is to everybody a slab that somebody has
 *     taken off a queue and has not worked on yet: nobody hands it on, claims it or drains it (foreign.c, 2 and 3),
 *     and foreign frees leave their bits in it.
 *  3. Whoever turns the bit off decides what becomes of the unit, and only one does. Either a free found that nothing
 *     is live in it: then the unit is dead, nobody's but the spill's, and its UNIT word is 0 as soon as that free is
 *     done. Or the spill is over: then the slab is pushed on a queue of foreign frees, as if it had been on its way
 *     there, and the span is what it was.
 */
/* Modelled in tests/model: spill. */
#ifndef TS_SPILL_SPILLED_H
#define TS_SPILL_SPILLED_H

#include "ownership/heap.h"
#include "region/pool.h"

#define TS_SPILLED_WORDS ((UINT32_C(1) << TS_MAX_UNITS_LOG2) / 64)
extern TS_HIDDEN _Atomic uint32_t ts_spills; /* records of spills that there are; 0: no bit is on */
extern TS_HIDDEN _Atomic uint64_t ts_spilled_units[TS_SPILLED_WORDS];

/* Who asks has read FOREIGN in the unit's word (acquire), or has the lock of the span's epoch; both come after the bit. acquire: who
   finds it off again sees the state words that were restored before (spill/packed.h, 2). */
static inline bool ts_is_lent(uint32_t unit) {
    if (TS_LIKELY(ts_load_acquire(&ts_spills) == 0) || ts_is_piece(unit)) return false;
    if (ts_part_of_unit(unit) == TS_FAR) return ts_load_acquire(&ts_region.run[unit].warm_of) == TS_RUN_LENT;
    return (ts_load_acquire(&ts_spilled_units[unit / 64]) >> unit % 64 & 1) != 0;
}
/* acq_rel: what the lender wrote before is seen by who decides, and what he writes comes after. */
static inline void ts_lend(uint32_t unit) {
    if (ts_part_of_unit(unit) == TS_FAR) {
        atomic_exchange_explicit(&ts_region.run[unit].warm_of, TS_RUN_LENT, memory_order_acq_rel);
        return;
    }
    atomic_fetch_or_explicit(&ts_spilled_units[unit / 64], (uint64_t)1 << unit % 64, memory_order_acq_rel);
}
/* Whether it was lent. It is not any more. */
static inline bool ts_take_lent(uint32_t unit) {
    uint32_t lent = TS_RUN_LENT;
    if (ts_part_of_unit(unit) == TS_FAR)
        return atomic_compare_exchange_strong_explicit(&ts_region.run[unit].warm_of, &lent, 0, memory_order_acq_rel,
                                                       memory_order_acquire);
    uint64_t bit = (uint64_t)1 << unit % 64;
    return (atomic_fetch_and_explicit(&ts_spilled_units[unit / 64], ~bit, memory_order_acq_rel) & bit) != 0;
}

/* Lends a slab; word: its UNIT word, without FOREIGN. false: it is on a queue, or about to be. Caller holds the heap
   of its block. */
bool ts_spilled_lend_slab(uint32_t unit, uint64_t word);
/* If nothing is live in a lent slab, takes it out of its block: the unit is dead. Caller holds the heap of the block.
   */
void ts_spilled_take_out(const ts_heap *heap, uint32_t unit);
/* The same for who holds nothing, after a free that may have been the last of the slab; waits for the owner's
   operation. */
void ts_spilled_freed(uint32_t unit);
/* Ends the loan of a slab that is still lent; its memory is there. Any thread, holding nothing. */
void ts_spilled_return_slab(uint32_t unit);

#endif
