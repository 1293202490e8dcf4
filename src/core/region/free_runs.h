/*
 * The record of a pool: its extents (extents.h), its cells, and how much of it is in use. pool.h has the invariants.
 * Units have their global numbers, but `high` counts within the part. Each function needs the pool's lock, unless it
 * says otherwise.
 */
#ifndef TS_REGION_FREE_RUNS_H
#define TS_REGION_FREE_RUNS_H

#include "os/os.h"
#include "region/extents.h"
#include "region/home.h"
#include "region/pool.h"

#define TS_POOL_CELLS 2u /* units are taken from the second while the first is being filled */

typedef struct ts_pool {
    ts_lock lock;
    ts_lock grow_lock;   /* taken before `lock` */
    unsigned part, home; /* constant after init, as is the next */
    _Atomic uint32_t
        high; /* units below it were taken from the untouched end: written with both locks, read with either, or
                              as a hint. A home's pool has no such end, and all units of the part here */
    ts_extents free;
    _Atomic uint64_t used; /* units handed out, and those in cells; written with the lock, read by any thread */
    uint64_t moved;        /* units that came from other homes, less those that went to them */
    /* first unit << 32 | units: filled under the lock while it is empty; any thread takes from it */
    TS_ALIGNED(TS_CACHE_LINE) _Atomic uint64_t cell[TS_POOL_CELLS];
} ts_pool;

/* One pool for each part, of home ANY, which grows from the untouched end of its part. Behind them one for each other
   home, all in the NORMAL part. */
#define TS_POOLS (TS_PARTS - 1 + TS_HOMES)
extern TS_HIDDEN ts_pool ts_pools[TS_POOLS];
extern TS_HIDDEN _Atomic uint32_t
    ts_pools_in_use; /* TS_PARTS or TS_POOLS; written under the start mutex, which a fork takes */

/* acquire: partner of the release in ts_pool_start_homes; the pools are made */
static inline unsigned ts_pools_count(void) { return ts_load_acquire(&ts_pools_in_use); }
static inline ts_pool *ts_any_pool(unsigned part) { return &ts_pools[part]; }
static inline ts_pool *ts_home_pool(unsigned home) {
    return &ts_pools[home == TS_HOME_ANY ? TS_NORMAL : TS_PARTS - 1 + home];
}
/* The pool of a unit. Any thread. */
static inline ts_pool *ts_pool_of(uint32_t unit) {
    return ts_part_of_unit(unit) == TS_NORMAL ? ts_home_pool(ts_home_of(unit)) : ts_any_pool(TS_FAR);
}
static inline uint32_t ts_pool_high_of(const ts_pool *pool) { return ts_load_relaxed(&pool->high); }
static inline void ts_pool_add_used(ts_pool *pool, uint64_t units) {
    ts_store_relaxed(&pool->used, ts_load_relaxed(&pool->used) + units);
}

/* Sets up a record without units. No other thread sees it. */
void ts_free_runs_init(ts_pool *pool, unsigned part, unsigned home);
/* Units come to the pool, which they were used of before. Returns the extent that they are in now. */
static inline ts_range ts_free_runs_give(ts_pool *pool, uint32_t first, uint32_t count) {
    ts_pool_add_used(pool, (uint64_t)0 - count);
    return ts_extents_give(&pool->free, first, count);
}
/* Takes the units from `from` to `end` - 1 out of the extent that begins with `first`; they count as used. */
static inline void ts_free_runs_cut(ts_pool *pool, uint32_t first, uint32_t from, uint32_t end) {
    ts_extents_cut(&pool->free, first, from, end, false);
    ts_pool_add_used(pool, end - from);
}
/* Takes an aligned row of units; 0: there is none. */
uint32_t ts_free_runs_take(ts_pool *pool, uint32_t count, uint32_t align);

#endif
