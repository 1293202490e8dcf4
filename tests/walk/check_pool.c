#include "walk/check_pool.h"

#include "os/os.h"
#include "region/cells.h"
#include "region/region.h"

static const char *check_cells(const ts_pool *pool, const ts_extents_walk *w) {
    uint32_t begin = ts_region.part[pool->part].first_unit;
    for (unsigned i = 0; i < TS_POOL_CELLS; i++) {
        uint64_t cell = ts_load_relaxed(&pool->cell[i]);
        uint32_t first = ts_cell_first(cell), units = ts_cell_units(cell);
        if (units == 0) continue;
        if (first <= begin || first >= w->end || units > w->end - first) return "pool: a cell outside of its part";
        if (ts_extent_at(&pool->free, first) != 0 || ts_extent_at(&pool->free, first + units - 1) != 0)
            return "pool: a cell in a run";
        if (w->visit && !w->visit(w->arg, first, units)) return "pool: a cell";
    }
    return NULL;
}

/* Caller has the lock. */
static const char *check_pool(const ts_pool *pool, ts_extents_visit *visit, void *arg, bool forked) {
    uint32_t high = ts_pool_highest(pool->part), begin = ts_region.part[pool->part].first_unit;
    bool has_end = pool == ts_any_pool(pool->part);
    if (has_end && high > 1 && high > ts_region_marked_units(pool->part)) return "pool: units above the mark";
    ts_extents_walk w = {pool->part, pool->home, begin + high, visit, arg, 0, ts_part_weight(pool->part, high), 0};
    const char *fault = ts_check_extents(&pool->free, &w);
    if (!fault) fault = check_cells(pool, &w);
    if (fault) return fault;
    /* The units of cells are used. */
    uint64_t found = w.found + ts_part_weight(pool->part, ts_load_relaxed(&pool->used));
    uint64_t has = ts_part_weight(pool->part, (has_end ? high - 1 : 0) + pool->moved);
    return found == has || (forked && found < has) ? NULL : "pool: units that nobody has";
}

const char *ts_pool_walk(unsigned part, ts_extents_visit *visit, void *arg, bool forked) {
    const char *fault = NULL;
    for (unsigned p = 0; !fault && p < ts_pools_count(); p++) {
        if (ts_pools[p].part != part) continue;
        ts_lock_acquire(&ts_pools[p].lock);
        fault = check_pool(&ts_pools[p], visit, arg, forked);
        ts_lock_release(&ts_pools[p].lock);
    }
    return fault;
}

void ts_pool_check(void) {
    for (unsigned part = 0; part < TS_PARTS; part++) {
        const char *fault = ts_pool_walk(part, NULL, NULL, false);
        if (fault) ts_assert_failed(fault, __FILE__, __LINE__);
    }
}

uint64_t ts_pool_used_units(void) {
    uint64_t sum = 0;
    for (unsigned p = 0; p < ts_pools_count(); p++) {
        ts_lock_acquire(&ts_pools[p].lock);
        uint64_t used = ts_load_relaxed(&ts_pools[p].used), waiting = 0;
        for (unsigned i = 0; i < TS_POOL_CELLS; i++) waiting += ts_cell_units(ts_load_relaxed(&ts_pools[p].cell[i]));
        sum += used > waiting ? used - waiting : 0;
        ts_lock_release(&ts_pools[p].lock);
    }
    return sum;
}

uint32_t ts_pool_high(unsigned part) {
    ts_lock_acquire(&ts_pools[part].lock);
    uint32_t high = ts_pool_high_of(&ts_pools[part]);
    ts_lock_release(&ts_pools[part].lock);
    return high;
}
