/*
 * The loan of a slab to a spill (spill/spill.h). slab/lent.h has the bit that says "lent", and its three rules.
 */
/* Modelled in tests/model: spill. */
#ifndef TS_SPILL_SPILLED_H
#define TS_SPILL_SPILLED_H

#include "ownership/heap.h"
#include "slab/lent.h"

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
