#include "region/pool_homes.h"

#include "region/cells.h"
#include "region/growth.h"
#include "region/home.h"
#include "region/region.h"

/* *seen: as in ts_pool_grow. */
static uint32_t take_free_run(ts_pool *pool, uint32_t count, uint32_t align, uint32_t *seen) {
    ts_lock_acquire(&pool->lock);
    uint32_t unit = ts_free_runs_take(pool, count, align);
    if (!unit && ts_cells_empty(pool, 0, UINT32_MAX)) unit = ts_free_runs_take(pool, count, align);
    *seen = ts_pool_high_of(pool);
    ts_lock_release(&pool->lock);
    return unit;
}

/* Takes free huge pages from any other pool: until they are in the new pool only the caller can see them. 0: no pool
   has so many in a row. */
static uint32_t take_huge(const ts_pool *to, uint32_t units, bool from_homes) {
    ts_pool *any = ts_any_pool(TS_NORMAL);
    if (to != any && !from_homes) return ts_pool_take_run(any, units, TS_HOME_UNITS);
    for (unsigned home = 0; from_homes && home < TS_HOMES; home++) {
        ts_pool *from = ts_home_pool(home);
        uint32_t seen, unit = from == to ? 0 : take_free_run(from, units, TS_HOME_UNITS, &seen);
        if (unit) return unit;
    }
    return 0;
}

/* The table of homes changes before any thread can find the units in a pool, and under the lock of the pool that they
   leave. A thread that looks at the units beside them has that lock, or the other pool's. It finds no free run where
   they are. */
static void move_units(ts_pool *to, uint32_t first, uint32_t units) {
    ts_pool *from = ts_pool_of(first);
    ts_lock_acquire(&from->lock);
    ts_pool_add_used(from, (uint64_t)0 - units);
    from->moved -= units;
    ts_home_set(first, units, to->home);
    ts_lock_release(&from->lock);
    (void)ts_home_bind(first, units, to->home); /* refused: the first touch decides, mostly for the right node */
    ts_lock_acquire(&to->lock);
    to->moved += units;
    (void)ts_extents_give(&to->free, first, units);
    ts_lock_release(&to->lock);
}

/* Several threads may do this at once: each brings huge pages. */
static bool take_from_others(ts_pool *pool, uint32_t count) {
    uint32_t least = (uint32_t)ts_align_up(count, TS_HOME_UNITS), units = least < TS_GROW_UNITS ? TS_GROW_UNITS : least;
    if (ts_pools_count() == TS_PARTS) return false;
    for (unsigned from_homes = 0; from_homes < 2; from_homes++) {
        uint32_t first = take_huge(pool, units, from_homes);
        if (!first && units > least) first = take_huge(pool, units = least, from_homes);
        if (!first) continue;
        move_units(pool, first, units);
        return true;
    }
    return false;
}

bool ts_pool_extend(ts_pool *pool, uint32_t count, uint32_t seen) {
    if (pool == ts_any_pool(pool->part) && ts_pool_grow(pool, count, seen)) return true;
    return pool->part == TS_NORMAL && take_from_others(pool, count);
}

uint32_t ts_pool_take_run(ts_pool *pool, uint32_t count, uint32_t align) {
    uint32_t units = ts_region.part[pool->part].units;
    if (count > units || align > units) return 0;
    for (;;) {
        uint32_t seen, unit = take_free_run(pool, count, align, &seen);
        if (unit) return unit;
        uint64_t need = (uint64_t)count + align - 1;
        if (need > units || !ts_pool_extend(pool, (uint32_t)need, seen)) return 0;
    }
}

void ts_pool_start_homes(void) {
    if (ts_pools_count() != TS_PARTS || ts_homes_count() == 0) return;
    for (unsigned home = 1; home < TS_HOMES; home++) {
        ts_free_runs_init(ts_home_pool(home), TS_NORMAL, home);
    }
    ts_store_release(&ts_pools_in_use, (uint32_t)TS_POOLS);
}
