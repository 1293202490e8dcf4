#include "region/free_runs.h"

#include <string.h>

ts_pool ts_pools[TS_POOLS];
_Atomic uint32_t ts_pools_in_use = TS_PARTS;

void ts_free_runs_init(ts_pool *pool, unsigned part, unsigned home) {
    memset(pool, 0, sizeof *pool);
    ts_lock_init(&pool->lock, TS_RANK_POOL);
    ts_lock_init(&pool->grow_lock, TS_RANK_GROWTH);
    pool->part = part;
    pool->home = home;
    ts_extents_init(&pool->free, TS_EXTENTS_OF_POOLS + (uint32_t)(pool - ts_pools), NULL);
}

/* Units from `first` to the next aligned one. Addresses are aligned, not numbers. */
static uint32_t skip_to_aligned(unsigned part, uint32_t first, uint32_t align) {
    uint64_t number = (uintptr_t)ts_part_unit_address(part, first) >> ts_part_shift(part);
    return (uint32_t)(ts_align_up(number, align) - number);
}

uint32_t ts_free_runs_take(ts_pool *pool, uint32_t count, uint32_t align) {
    uint32_t first = ts_extents_find(&pool->free, count + align - 1);
    /* A single free huge page may be all that a home has. */
    if (!first && pool->part == TS_NORMAL && align == TS_HOME_UNITS) {
        first = ts_extents_find(&pool->free, count);
        if (first && skip_to_aligned(pool->part, first, align) + count > ts_region.run[first].length) first = 0;
    }
    if (!first) return 0;
    uint32_t from = first + skip_to_aligned(pool->part, first, align);
    ts_free_runs_cut(pool, first, from, from + count);
    return from;
}
