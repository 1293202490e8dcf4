/*
 * The loan of a slab to a spill (spill/spill.h). slab/lent.h has the bit that says "lent", and its three rules.
 */
#ifndef TS_SPILL_SPILLED_H
#define TS_SPILL_SPILLED_H

#include "slab/slab.h"

/* What the floors below ask of a loan. */
extern TS_HIDDEN const ts_loan ts_spilled_loan;

/* Lends a slab; word: its UNIT word, without FOREIGN. false: it is on a queue, or about to be. Caller holds the heap
   of its block. */
bool ts_spilled_lend_slab(uint32_t unit, uint64_t word);

#endif
