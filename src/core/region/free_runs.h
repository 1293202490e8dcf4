/*
 * The record of a pool, and its free runs. pool.h has the invariants.
 *
 * A free run is a row of free units with no free unit of its home beside it. Runs are kept in lists by length, two
 * levels of them (two-level segregated fit); a bit for each list says whether it has a run. So finding, splitting and
 * merging take a fixed number of steps, whatever the heap looks like. The tags that merging needs lie in the units'
 * records.
 *
 * Units are numbered within their part. Each function needs the pool's lock, unless it says otherwise.
 */
#ifndef TS_REGION_FREE_RUNS_H
#define TS_REGION_FREE_RUNS_H

#include "base/bits.h"
#include "os/lock.h"
#include "region/home.h"
#include "region/pool.h"

#define TS_RUN_LEVELS 23u /* lengths up to 2^24 */
#define TS_RUN_LISTS 8u   /* lists of a level */
#define TS_POOL_CELLS 2u  /* units are taken from the second while the first is being filled */

typedef struct ts_range {
    uint32_t first, count;
} ts_range;

typedef struct ts_pool {
    ts_lock lock;
    ts_lock grow_lock;   /* taken before `lock` */
    unsigned part, home; /* constant after init, as is the next */
    ts_run *run;         /* records of the part, by the unit's number in it */
    _Atomic uint32_t
        high; /* units below it were taken from the untouched end: written with both locks, read with either, or
                              as a hint. A home's pool has no such end, and all units of the part here */
    _Atomic uint32_t first_bits; /* bit f: some list of level f has a run; read by any thread */
    uint32_t second_bits[TS_RUN_LEVELS];
    uint32_t head[TS_RUN_LEVELS][TS_RUN_LISTS]; /* first unit of the first run, 0: none */
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
static inline ts_pool *ts_pool_of(unsigned part, uint32_t unit) {
    return part == TS_NORMAL ? ts_home_pool(ts_home_of(unit)) : ts_any_pool(part);
}
static inline bool ts_pool_owns(const ts_pool *pool, uint32_t unit) {
    return pool->part == TS_FAR || ts_home_of(unit) == pool->home;
}
static inline uint32_t ts_pool_high_of(const ts_pool *pool) { return ts_load_relaxed(&pool->high); }
static inline void ts_pool_add_used(ts_pool *pool, uint64_t units) {
    ts_store_relaxed(&pool->used, ts_load_relaxed(&pool->used) + units);
}

/* Sets up a record without units. No other thread sees it. */
void ts_free_runs_init(ts_pool *pool, unsigned part, unsigned home);
/* The list of runs of this length. */
void ts_free_runs_level(uint32_t length, unsigned *f, unsigned *s);
/* The least length L so that all runs in the list of L have `length` units or more. */
static inline uint64_t ts_free_runs_rounded(uint64_t length) {
    return length < TS_RUN_LISTS ? length : length + ((uint64_t)1 << (ts_log2_64(length) - 3)) - 1;
}
/* Puts a run into its list, and takes one out. No neighbour is looked at. */
void ts_free_runs_insert(ts_pool *pool, uint32_t first, uint32_t length);
void ts_free_runs_remove(ts_pool *pool, uint32_t first);
/* Puts units into a run, merged with the free runs of the pool on both sides. Returns that run. */
ts_range ts_free_runs_merge(ts_pool *pool, uint32_t first, uint32_t count);
/* The first unit of a run of at least `length` units; 0: no list has only such runs. The run stays. */
uint32_t ts_free_runs_find(const ts_pool *pool, uint32_t length);
/* Takes the units from `from` to `end` - 1 out of a run; they count as used. */
void ts_free_runs_cut(ts_pool *pool, ts_range run, uint32_t from, uint32_t end);
/* Takes an aligned row of units out of a run; 0: there is none. */
uint32_t ts_free_runs_take(ts_pool *pool, uint32_t count, uint32_t align);

#endif
