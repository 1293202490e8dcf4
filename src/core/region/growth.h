/*
 * How the pools of home ANY grow from the untouched end of their part, and what limits them: a region that was made
 * smaller (api/shrink.c), and a limit on the data of the process.
 *
 * Under a limit on data the system counts what can be written. Units then become writable when they are handed out,
 * and free runs of 16 units and more are read-only.
 */
#ifndef TS_REGION_GROWTH_H
#define TS_REGION_GROWTH_H

#include "region/free_runs.h"

/* Growth takes 4 MiB of data: one system call for a thousand page faults. A core dump can have as much data that was
   never used. */
#define TS_GROW_UNITS 256u

/* The pools are there: no limit on data, or the one that the process has. */
void ts_growth_init(void);
/* Makes at least `count` free units in a row out of the untouched end. seen: `high` as the caller found it, with the
   lock, when the pool had no such run. true: the pool has grown since then; the caller looks again. Caller holds no
   lock. */
bool ts_pool_grow(ts_pool *pool, uint32_t count, uint32_t seen);
/* Whether units of the part become accessible when they are handed out. */
bool ts_pool_is_made_late(unsigned part);
/* Whether a free run is to be read-only. */
bool ts_pool_is_to_freeze(unsigned part, ts_range run);
/* Makes a free run read-only. Where the system refuses, it counts as data. No other thread can see the run. */
void ts_pool_freeze(ts_range run);

#endif
