/*
 * Retained runs: units in a row, of one part, that are in no slab and have their memory. Freed spans become runs, and
 * so do single retained units before they go back to the system. Each allocator has its own sets of them
 * (region/extents.h): one for each part, and one for each home (nodes.h), if it tells homes apart. Its lock of the
 * retained units guards them all, and its extents have one list by age, which goes back oldest first.
 *
 * The UNIT words of a run are 0. Its units are in `committed_units` and in `span_retained_units`, in 16 KiB as in all
 * counts of memory.
 */
#ifndef TS_SUPPLY_RUNS_H
#define TS_SUPPLY_RUNS_H

#include "region/region.h"

struct ts_allocator;

/* Gives an allocator, or its record of homes (TS_HOMES of them), sets without runs. Nobody else has it yet. */
void ts_runs_init(struct ts_allocator *allocator);
void ts_runs_init_homes(struct ts_allocator *allocator, ts_extents *set);
/* The set of a part and home. */
ts_extents *ts_runs_of(struct ts_allocator *allocator, unsigned part, unsigned home);

/* All of these: the caller has the retained lock. Units that are in no slab, with UNIT words 0, become a run. */
void ts_runs_give(struct ts_allocator *allocator, uint32_t first, uint32_t units);
/* As ts_runs_give, but it takes the lock itself. */
void ts_runs_return(struct ts_allocator *allocator, uint32_t first, uint32_t units);
/* Takes `units` units of a run; the rest of it stays. Returns the first; 0: no run is long enough. */
uint32_t ts_runs_take(struct ts_allocator *allocator, unsigned part, unsigned home, uint32_t units);
/* Takes up to `most` units of one of the longest runs, if it has `least` or more. 0: it has not. */
uint32_t ts_runs_take_longest(struct ts_allocator *allocator, unsigned part, unsigned home, uint32_t least,
                              uint32_t most, uint32_t *units);
/* Takes up to `most` units of 16 KiB of the oldest run. 0: no run has an age. */
uint32_t ts_runs_take_oldest(struct ts_allocator *allocator, uint64_t most, uint32_t *units);
/* Takes `units` units at `first`, if a run begins there that has as many, and is of the home of the unit `of`. */
bool ts_runs_take_at(struct ts_allocator *allocator, uint32_t of, uint32_t first, uint32_t units);

#endif
