/*
 * How a pool gets units that it does not have: from the untouched end (growth.h), or as huge pages of another home's
 * pool (home.h, 2).
 */
#ifndef TS_REGION_POOL_HOMES_H
#define TS_REGION_POOL_HOMES_H

#include "region/free_runs.h"

/* Brings the pool at least `count` free units in a row. seen: as in ts_pool_grow. true: the caller looks again.
   Caller holds no lock. */
bool ts_pool_extend(ts_pool *pool, uint32_t count, uint32_t seen);
/* Takes an aligned row of units, and extends the pool if it has none. 0: there are none. Caller holds no lock. */
uint32_t ts_pool_take_run(ts_pool *pool, uint32_t count, uint32_t align);

#endif
