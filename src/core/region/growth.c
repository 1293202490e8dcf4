#include "region/growth.h"

#include "os/os.h"
#include "region/cells.h"
#include "region/region.h"

_Static_assert(TS_HOME_UNITS *TS_UNIT_BYTES % TS_PAGE_BYTES_MAX == 0, "growth ends with a page");

/* Set once. relaxed: between the store and a unit that was frozen stand the pool's lock, or a cell's release and
   acquire. */
static _Atomic bool data_is_limited;

bool ts_pool_is_data_limited(void) { return ts_load_relaxed(&data_is_limited); }

bool ts_pool_is_made_late(unsigned part) { return part == TS_FAR || ts_load_relaxed(&data_is_limited); }

/* The next `count` units of the untouched end. The mark rises first: a thread that gets a unit can look it up. */
static bool make_accessible(unsigned part, uint32_t high, uint32_t count) {
    return ts_region_raise(part, high + count) &&
           (ts_pool_is_made_late(part) || ts_region_commit_data(part, high, count));
}

/* Units of the free run that ends at the untouched end: new units become one run with it. Another thread may take it
   meanwhile. Then the caller finds no run again, and grows again. */
static uint32_t free_at_end(ts_pool *pool, uint32_t high) {
    if (high == 1) return 0; /* unit 0 may have no record yet */
    ts_lock_acquire(&pool->lock);
    uint32_t length = ts_extent_at(&pool->free, ts_region.part[pool->part].first_unit + high - 1);
    ts_lock_release(&pool->lock);
    return length;
}

/* Makes `count` units accessible, or more, up to the end of a huge page. So a huge page is whole when its units are
   free, and so is a page of any size. Returns how many. */
static uint32_t grow_by(unsigned part, uint32_t high, uint32_t count) {
    uint32_t left = ts_region_part_end(part) - high;
    uint64_t end = ts_align_up((uint64_t)high + count, TS_HOME_UNITS);
    uint64_t usual = ts_align_down((uint64_t)high + TS_GROW_UNITS, TS_HOME_UNITS);
    uint64_t most = (end > usual ? end : usual) - high;
    uint32_t step = most < left ? (uint32_t)most : left;
    if (count > left) return 0;
    if (make_accessible(part, high, step)) return step;
    /* A system short of memory may still have the units that are needed. */
    return step > count && make_accessible(part, high, count) ? count : 0;
}

/* One thread at a time grows a part, so that the accessible units end at one place. A thread that waits for it needs
   units as well, and takes some of the new ones: it finds `high` above the value that it has seen. A growth that the
   system refuses half-way leaves accessible memory above `high`, which the next one makes accessible once more. */
bool ts_pool_grow(ts_pool *pool, uint32_t count, uint32_t seen) {
    ts_lock_acquire(&pool->grow_lock);
    uint32_t high = ts_pool_high_of(pool);
    if (high != seen) {
        ts_lock_release(&pool->grow_lock);
        return true;
    }
    uint32_t tail = free_at_end(pool, high), wanted = count;
    count = count > tail ? count - tail : 1;
    uint32_t got = grow_by(pool->part, high, count);
    if (got) {
        ts_huge_grown(pool, ts_region.part[pool->part].first_unit + high, got, wanted);
        ts_lock_acquire(&pool->lock);
        ts_store_release(&pool->high, high + got); /* release: partner of ts_pool_highest */
        (void)ts_extents_give(&pool->free, ts_region.part[pool->part].first_unit + high, got);
        ts_lock_release(&pool->lock);
    }
    ts_lock_release(&pool->grow_lock);
    return got != 0;
}

/* acquire: the units below it were made accessible before */
uint32_t ts_pool_highest(unsigned part) { return ts_load_acquire(&ts_pools[part].high); }

/* ---- a limit on data ---------------------------------------------------------------------------------- */

/* Shorter runs stay writable: each run that is not is a mapping of its own, and the system limits their number. */
#define FREEZE_UNITS 16u
bool ts_pool_is_to_freeze(unsigned part, ts_range run) {
    return part == TS_NORMAL && TS_UNLIKELY(ts_load_relaxed(&data_is_limited)) && run.count >= FREEZE_UNITS;
}

void ts_pool_freeze(ts_range run) {
    (void)ts_os->freeze(ts_unit_address(run.first), ts_part_bytes(TS_NORMAL, run.count));
}

/* Caller has the lock. */
static void freeze_runs(ts_pool *pool) {
    (void)ts_cells_empty(pool, 0, UINT32_MAX);
    for (unsigned list = 0; list < TS_EXTENT_LISTS; list++)
        for (uint32_t u = pool->free.head[list]; u; u = ts_region.run[u].next) {
            ts_range run = {u, ts_region.run[u].length};
            if (ts_pool_is_to_freeze(TS_NORMAL, run)) ts_pool_freeze(run);
        }
}

/* A thread that takes a unit after the lock was released finds that data is limited. */
void ts_pool_limit_data(void) {
    if (ts_os_page_bytes() > TS_UNIT_BYTES || ts_load_relaxed(&data_is_limited)) return;
    ts_store_relaxed(&data_is_limited, true);
    for (unsigned p = 0; p < ts_pools_count(); p++) {
        if (ts_pools[p].part != TS_NORMAL) continue;
        ts_lock_acquire(&ts_pools[p].lock);
        freeze_runs(&ts_pools[p]);
        ts_lock_release(&ts_pools[p].lock);
    }
}

void ts_growth_init(void) {
    ts_store_relaxed(&data_is_limited, false);
    if (ts_os_data_is_limited()) ts_pool_limit_data();
}

/* ---- a smaller region --------------------------------------------------------------------------------- */

/* A free run with units at `from` or behind; count 0: there is none. Caller has the lock. */
static ts_range find_behind(const ts_pool *pool, uint32_t from) {
    for (unsigned list = 0; list < TS_EXTENT_LISTS; list++)
        for (uint32_t u = pool->free.head[list]; u; u = ts_region.run[u].next)
            if (u + ts_region.run[u].length > from) return (ts_range){u, ts_region.run[u].length};
    return (ts_range){0, 0};
}

/* Takes free units in a row at `from` or behind out of the pool for good; count 0: there are none. */
static ts_range take_away(ts_pool *pool, uint32_t from) {
    ts_lock_acquire(&pool->lock);
    (void)ts_cells_empty(pool, from, UINT32_MAX);
    ts_range run = find_behind(pool, from);
    if (run.count > 0) {
        uint32_t first = run.first < from ? from : run.first, end = run.first + run.count;
        ts_free_runs_cut(pool, run.first, first, end);
        run = (ts_range){first, end - first};
        ts_pool_add_used(pool, (uint64_t)0 - run.count);
        pool->moved -= run.count;
    }
    ts_lock_release(&pool->lock);
    return run;
}

void ts_pool_shrink(unsigned part, uint32_t units) {
    ts_pool *pool = ts_any_pool(part);
    ts_lock_acquire(&pool->grow_lock);
    uint32_t least = ts_pool_high_of(pool);
    if (part == TS_NORMAL) {
        if (least < ts_region_marked_units(part)) least = ts_region_marked_units(part);
        least = (uint32_t)ts_align_up(least, TS_REGION_END_UNITS);
        units = (uint32_t)ts_align_down(units, TS_REGION_END_UNITS);
    }
    ts_region_release_units(part, units > least ? units : least);
    ts_lock_release(&pool->grow_lock);
    uint32_t first_unit = ts_region.part[part].first_unit;
    for (ts_range run; (run = take_away(pool, first_unit + units)).count > 0;)
        ts_region_release_tail(ts_unit_address(run.first), 0, ts_part_bytes(part, run.count));
}
