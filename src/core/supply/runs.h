/*
 * Retained runs: units in a row, of one part, that are in no slab and have their memory. Freed spans become runs, and
 * so do single retained units before they go back to the system. Runs that touch become one. So memory goes back in
 * large pieces, and a span of any length finds room.
 *
 * Finding, splitting and merging take a fixed number of steps. Each allocator has its own runs, and keeps those of
 * each home (nodes.h) apart, if it tells homes apart.
 *
 * Invariants (guarded by the allocator's retained lock)
 *  1. In the pool's record (pool.h) of the first and of the last unit of a run, `retained_of` is the allocator's index,
 *     and `next` is the run's length. In all other units that the pool has handed out `retained_of` is 0. So two words
 *     of a unit beside a run tell whether a run of the same allocator begins or ends there. Only the holder of an
 *     allocator's lock writes its index.
 *  2. No two runs of one allocator and home touch.
 *  3. A run is in the list of its length. The list links through the records of the slabs of its first unit. A run of
 *     TS_RUNS_AGED units or more, of any part and home, is also in the list of runs by age, which goes back oldest
 *     first. It is as old as the last time that units were given to it, or taken of it for use.
 *  4. The UNIT words of a run are 0. Its units are in `committed_units` and in `span_retained_units`, in 16 KiB as in
 *     all counts of memory.
 */
#ifndef TS_SUPPLY_RUNS_H
#define TS_SUPPLY_RUNS_H

#include "base/atomic.h"
#include "base/attr.h"
#include "base/bits.h"

#define TS_RETAINED_LISTS 96u /* four to a doubling, for up to 2^24 units */
#define TS_RUNS_AGED 16u      /* 256 KiB; shorter ones are too many, and go back only where far too much is retained */

typedef struct ts_runs {
    uint64_t some[2]; /* bit per list: it is not empty */
    uint32_t head[TS_RETAINED_LISTS];
} ts_runs;

struct ts_allocator;

/* The list for runs of that length. */
static inline unsigned ts_runs_list(uint32_t units) {
    if (units < 4) return units;
    unsigned log2 = ts_log2_64(units);
    return 4 * (log2 - 1) + ((units >> (log2 - 2)) & 3u);
}

/* All of these: the caller has the retained lock. Units that are in no slab, with UNIT words 0, become a run. */
void ts_runs_give(struct ts_allocator *allocator, uint32_t first, uint32_t units);
/* As ts_runs_give, but it takes the lock itself. */
void ts_runs_return(struct ts_allocator *allocator, uint32_t first, uint32_t units);
/* Takes `units` units of a run; the rest of it stays. Returns the first; 0: no run is long enough. */
uint32_t ts_runs_take(struct ts_allocator *allocator, unsigned part, unsigned home, uint32_t units);
/* Takes up to `most` units of one of the longest runs, if it has `least` or more. 0: it has not. */
uint32_t ts_runs_take_longest(struct ts_allocator *allocator, unsigned part, unsigned home, uint32_t least,
                              uint32_t most, uint32_t *units);
/* Takes up to `most` units of the oldest run, or of a younger one if the first with `good` units is among the eight
   oldest; of a FAR run as many as hold `over`. 0: no run has an age. */
uint32_t ts_runs_take_oldest(struct ts_allocator *allocator, uint32_t good, uint32_t most, uint64_t over,
                             uint32_t *units);
/* Takes `units` units at `first`, behind a span, if a run of its home begins there that has as many. */
bool ts_runs_take_at(struct ts_allocator *allocator, uint32_t first, uint32_t units);

#endif
