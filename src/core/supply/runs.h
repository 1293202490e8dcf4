/*
 * Warm runs: units in a row, of one part, that are nobody's and whose memory is still there. Spans that were freed
 * become runs, and so do single warm units before they go back to the system. Runs that touch become one, so what is
 * given back is large pieces, and a span of any length finds room in what others have left.
 *
 * Finding, splitting and merging take a fixed number of steps. Each allocator has its own runs, and of each home
 * (nodes.h) apart, where it tells them apart.
 *
 * Invariants (guarded by the allocator's warm lock)
 *  1. `warm_of` in the pool's record (pool.h) of the first and of the last unit of a run is the allocator's index,
 *     and `next` there the run's length. All other units that the pool has handed out say 0. So a unit beside a run
 *     tells by two words whether a run of the same allocator begins or ends there; only who has that allocator's lock
 *     writes its index.
 *  2. No two runs of one allocator and home touch.
 *  3. A run is in the list of its length; the list links through the records of the slabs of its first unit.
 *  4. The UNIT words of a run are 0. Its units are in `committed_units` and in `span_warm_units`, in 16 KiB as all that
 *     counts memory.
 */
#ifndef TS_SUPPLY_RUNS_H
#define TS_SUPPLY_RUNS_H

#include "base/atomic.h"
#include "base/attr.h"

#define TS_WARM_LISTS 96u /* four to a doubling, for up to 2^24 units */

typedef struct ts_runs {
    uint64_t some[2]; /* bit per list: it is not empty */
    uint32_t head[TS_WARM_LISTS];
} ts_runs;

struct ts_allocator;

/* Units that are nobody's, with UNIT words 0, become warm. Caller has the warm lock. */
void ts_runs_give(struct ts_allocator *allocator, uint32_t first, uint32_t units);
/* So many units of a run, their number in the region; the rest of it stays. 0: no run is long enough. Likewise. */
uint32_t ts_runs_take(struct ts_allocator *allocator, unsigned part, unsigned home, uint32_t units);
/* Up to `most` units of one of the longest runs, if it has `least` or more. 0: it has not. Likewise. */
uint32_t ts_runs_take_longest(struct ts_allocator *allocator, unsigned part, unsigned home, uint32_t least,
                              uint32_t most, uint32_t *units);
/* The units behind a span, if a run of its home begins there that has so many. Likewise. */
bool ts_runs_take_at(struct ts_allocator *allocator, uint32_t first, uint32_t units);

/* Shows each run; false ends the walk. What does not hold, or NULL. Likewise. */
typedef bool ts_runs_visit(void *arg, uint32_t first, uint32_t units);
const char *ts_runs_walk(const struct ts_allocator *allocator, ts_runs_visit *visit, void *arg);

#endif
