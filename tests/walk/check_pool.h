/* A walk of the pools (region/pool.h) that checks their invariants, and exact figures of them. */
#ifndef TS_WALK_CHECK_POOL_H
#define TS_WALK_CHECK_POOL_H

#include "region/region.h"
#include "walk/check_extents.h"

/* Checks every list, length and cell of a part's pools, and shows each free run and cell to visit (may be NULL; false
   ends the walk). Returns the invariant that does not hold, or NULL. forked: the process is the child of a fork, in
   which units that another thread had in its hands may be nowhere. */
const char *ts_pool_walk(unsigned part, ts_extents_visit *visit, void *arg, bool forked);
/* Walks the pools of both parts; aborts when an invariant does not hold. */
void ts_pool_check(void);
/* Units of both parts that are handed out, exactly. */
uint64_t ts_pool_used_units(void);
/* ts_pool_highest under the lock: no other thread is in the middle of a change. */
uint32_t ts_pool_high(unsigned part);

#endif
