/* Modelled in tests/model: orders. */
#include "region/cells.h"

#define CELL_UNITS 64u /* a spike of threads that begin takes some ten units each */

static uint32_t take_of_cell(_Atomic uint64_t *place) {
    uint64_t cell = ts_load_relaxed(place);
    while (ts_cell_units(cell) != 0) {
        /* acquire: partner of the release in ts_cells_fill, on which all that take since then build. The word says
           everything: if other units came and went meanwhile and the word is the one that was read, the unit is in
           it. */
        if (atomic_compare_exchange_weak_explicit(place, &cell, cell + (UINT64_C(1) << 32) - 1, memory_order_acquire,
                                                  memory_order_relaxed))
            return ts_cell_first(cell);
    }
    return 0;
}

/* From the front: a huge page is used up before the next one is touched. A hint: a cell may change meanwhile. */
uint32_t ts_cells_take(ts_pool *pool) {
    uint64_t a = ts_load_relaxed(&pool->cell[0]), b = ts_load_relaxed(&pool->cell[1]);
    unsigned front = ts_cell_units(b) != 0 && ts_cell_first(b) < ts_cell_first(a);
    uint32_t unit = take_of_cell(&pool->cell[front]);
    return unit ? unit : take_of_cell(&pool->cell[!front]);
}

bool ts_cells_want(const ts_pool *pool) {
    if (!ts_extents_some(&pool->free)) return false;
    bool wants = false;
    for (unsigned i = 0; i < TS_POOL_CELLS; i++) wants |= ts_cell_units(ts_load_relaxed(&pool->cell[i])) == 0;
    return wants;
}

/* No empty cell changes without the lock. A fork holds the lock, so its child finds each cell filled or empty. */
void ts_cells_fill(ts_pool *pool) {
    for (unsigned i = 0; i < TS_POOL_CELLS; i++) {
        uint32_t first = ts_cell_units(ts_load_relaxed(&pool->cell[i])) == 0 ? ts_extents_find(&pool->free, 1) : 0;
        if (!first) continue;
        uint32_t length = ts_region.run[first].length, units = length < CELL_UNITS ? length : CELL_UNITS;
        ts_free_runs_cut(pool, first, first, first + units);
        /* release: publishes what the threads that gave the units back wrote before, under the lock */
        ts_store_release(&pool->cell[i], (uint64_t)first << 32 | units);
    }
}

bool ts_cells_empty(ts_pool *pool, uint32_t first, uint32_t end) {
    bool some = false;
    for (unsigned i = 0; i < TS_POOL_CELLS; i++) {
        uint64_t cell = ts_load_relaxed(&pool->cell[i]);
        if (ts_cell_first(cell) >= end || ts_cell_first(cell) + ts_cell_units(cell) <= first) continue;
        /* The exchange returns the units that are left: a unit that a thread took since the load is that thread's. */
        cell = atomic_exchange_explicit(&pool->cell[i], 0, memory_order_relaxed);
        if (ts_cell_units(cell) == 0) continue;
        (void)ts_free_runs_give(pool, ts_cell_first(cell), ts_cell_units(cell));
        some = true;
    }
    return some;
}
