/*
 * How retained memory goes back to the system. Single units become runs (runs.h). Runs are purged with no lock held,
 * the oldest first (runs.h), and go to the pool. A run that the system refuses to take stays retained. The callers hold
 * nothing.
 *
 * A thread that adds units to the allocator's while that is over its limit OWES twice as many. So retained memory comes
 * down, however fast objects are freed. The thread pays when it holds nothing, and never much for others:
 *
 *     an allocation, a free    1 MiB of a run (TS_PURGE_PIECE_UNITS), by one system call of some 30 us. It waits until
 *                              that much is too much, or, beyond one and a half times the limit, TS_PURGE_LEAST_UNITS
 *                              are. Single units become runs meanwhile. Runs without an age wait for twice the limit.
 *                              A free of a long span pays for as many units more as the span had, as munmap would
 *     the end of an epoch      at most twice the units that the thread has released since the last such end, in runs
 *                              of any length
 *     a thread that rests      all
 */
#ifndef TS_SUPPLY_PURGE_H
#define TS_SUPPLY_PURGE_H

#include "supply/allocator.h"

#define TS_PURGE_PIECE_UNITS 64u
#define TS_PURGE_LEAST_UNITS 16u
#define TS_PURGE_PHASE_UNITS 512u /* released by the frees of a phase: its end pays for all that is too much */
#define TS_PURGE_CALLS 2u         /* of the system in one allocation or free */
#define TS_PURGE_STEP 0u          /* to ts_run_deferred: an allocation or a free pays */
#define TS_PURGE_BATCH 512u       /* units that become runs, or are purged, at a time */

/* ---- how much ------------------------------------------------------------------------------------ */

/* Units in the allocator's own lists, spans included. */
uint64_t ts_retained_shared(ts_allocator *allocator);
/* Retained units, all shares included. */
uint64_t ts_allocator_retained_units(ts_allocator *allocator);
/* Units that are not. */
uint64_t ts_units_in_use(ts_allocator *allocator);
/* How many may be in the allocator's lists; and whether they are more, which may raise the budget (retain.h). The
   last holding no lock of rank RETAINED or above. */
uint64_t ts_purge_limit(ts_allocator *allocator);
bool ts_purge_is_over(ts_allocator *allocator);

/* ---- debts --------------------------------------------------------------------------------------- */

/* Units were added to the allocator's. If it retains more than its limit, this thread owes. */
void ts_note_retained(ts_allocator *allocator, uint64_t added);
/* This thread pays its debt, up to `units` units, or one step (TS_PURGE_STEP). Caller holds nothing. */
void ts_purge_owed(uint64_t units);
/* Purges up to `most` of the units beyond the limit. Returns units given back. Holds nothing. */
uint64_t ts_purge_to_limit(ts_allocator *allocator, uint64_t most);
/* Purges some units that nobody has needed for a while (retain.h); to be called now and then. */
uint64_t ts_allocator_look(ts_allocator *allocator, uint64_t most);

/* ---- steps --------------------------------------------------------------------------------------- */

/* Units of that home are the allocator's no more; or they were taken within its budget, and never came. */
void ts_uncommit_of(ts_allocator *allocator, unsigned home, uint64_t units);
void ts_uncommit(ts_allocator *allocator, uint64_t units);
/* Takes the oldest run, or one that has no age and `least` units; or of it `most` units, while more than `keep` are
   retained. 0: there is none. */
uint32_t ts_purge_take_run(ts_allocator *allocator, uint64_t keep, uint32_t least, uint64_t most, uint32_t *units);
/* A guarded span that waits for the system. 0: there is none. */
uint32_t ts_purge_take_stuck(ts_allocator *allocator);
/* Makes runs of up to `most` of the allocator's single units, 512 at most. Returns how many it looked at. */
unsigned ts_purge_gather(ts_allocator *allocator, uint64_t most);
/* Purges retained units down to `keep`, at most `most` of them, in runs of any length. Returns those given back. */
uint64_t ts_purge_shared(ts_allocator *allocator, uint64_t keep, uint64_t most);
/* Purges the whole pages between two addresses. false: the system refused. */
bool ts_purge_pages(ts_allocator *allocator, const char *begin, const char *end);
/* Purges one run of units that are in no slab. to_pool: they are the pool's then. false: the system refused. */
bool ts_purge_run(ts_allocator *allocator, uint32_t first, uint32_t count, bool to_pool);
/* Gives back the units of a span, or of a run, that is on no list. false: the system refuses, and they are a retained
   run. */
bool ts_purge_span(ts_allocator *allocator, uint32_t unit, uint32_t units);
/* Gives back a span with guards, or units that were to be one. While the system does not make the guards accessible
   again they are kept apart, and a later purge tries again. */
void ts_purge_guarded(ts_allocator *allocator, uint32_t unit);

#endif
