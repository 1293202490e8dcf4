#include "region/pool.h"

#include "os/os.h"
#include "region/cells.h"
#include "region/growth.h"
#include "region/pool_homes.h"
#include "region/region.h"

/* ---- taking ------------------------------------------------------------------------------------------- */

/* The lock is for filling a cell. A thread that sees an empty cell fills it if the lock is free; other threads find
   units in the second cell meanwhile. It waits for the lock only if both cells are empty. Other threads may then take
   all that it has filled, so it takes a unit of a run if none is left. */
static uint32_t take_single(ts_pool *pool) {
    uint32_t unit = ts_cells_take(pool);
    while (!unit) {
        ts_lock_acquire(&pool->lock);
        ts_cells_fill(pool);
        unit = ts_cells_take(pool);
        if (!unit) unit = ts_free_runs_take(pool, 1, 1);
        uint32_t seen = ts_pool_high_of(pool);
        ts_lock_release(&pool->lock);
        if (unit) return unit;
        if (!ts_pool_extend(pool, 1, seen)) return 0;
    }
    if (ts_cells_want(pool) && ts_lock_try(&pool->lock)) {
        ts_cells_fill(pool);
        ts_lock_release(&pool->lock);
    }
    return unit;
}

static void give_units(uint32_t first, uint32_t count);

/* For units that the caller has just taken. false: the system has no memory for them, and they are back in the pool. */
static bool make_ready(uint32_t first, uint32_t count) {
    unsigned part = ts_part_of_unit(first);
    if (!ts_pool_is_made_late(part) || ts_region_commit_data(part, ts_unit_in_part(first), count)) return true;
    give_units(first, count);
    return false;
}

static uint32_t take_ready(ts_pool *pool, uint32_t count, uint32_t align) {
    ts_assert(1, count > 0 && ts_is_pow2(align));
    uint32_t unit = count == 1 && align == 1 ? take_single(pool) : ts_pool_take_run(pool, count, align);
    return unit && make_ready(unit, count) ? unit : 0;
}

uint32_t ts_pool_take(unsigned part, uint32_t count, uint32_t align) {
    if (part == TS_FAR && ts_region.part[part].units == 0) return 0;
    return take_ready(ts_any_pool(part), count, align);
}

uint32_t ts_pool_take_of(unsigned home, uint32_t count, uint32_t align) {
    bool own = home != TS_HOME_ANY && ts_pools_count() > TS_PARTS;
    uint32_t unit = own ? take_ready(ts_home_pool(home), count, align) : 0;
    return unit ? unit : take_ready(ts_any_pool(TS_NORMAL), count, align);
}

/* Directly behind the caller's units lies a free run, or a cell, or units in use, or the untouched end. */
static bool take_at_locked(ts_pool *pool, uint32_t unit, uint32_t count) {
    if (ts_extent_behind(&pool->free, unit) < count) (void)ts_cells_empty(pool, unit, unit + count);
    /* A unit behind others in use is the first of a run, not its last, or the only one. */
    if (ts_extent_behind(&pool->free, unit) < count) return false;
    ts_free_runs_cut(pool, unit, unit, unit + count);
    return true;
}

/* Caller has the lock. */
static bool has_run(ts_pool *pool, uint32_t length) {
    return ts_extents_find(&pool->free, length) ||
           (ts_cells_empty(pool, 0, UINT32_MAX) && ts_extents_find(&pool->free, length));
}

/* The pool does not grow behind its last unit while it has a run for the whole: the caller can move there. Otherwise
   it would grow each time that a span comes to lie at its end, and never stop. */
bool ts_pool_take_at(uint32_t first, uint32_t count, uint32_t whole) {
    unsigned part = ts_part_of_unit(first);
    uint32_t in_part = ts_unit_in_part(first);
    ts_pool *pool = ts_pool_of(first - 1);
    ts_assert(1, count > 0 && whole > count);
    for (unsigned tries = 0; tries < 2; tries++) {
        ts_lock_acquire(&pool->lock);
        bool taken = take_at_locked(pool, first, count);
        bool grows = !taken && in_part == ts_pool_high_of(pool) && !has_run(pool, whole);
        ts_lock_release(&pool->lock);
        if (taken) return make_ready(first, count);
        if (!grows || pool != ts_any_pool(part) || count > ts_region.part[part].units) return false;
        if (!ts_pool_grow(pool, count, in_part)) return false;
    }
    return false;
}

uint32_t ts_pool_free_at(uint32_t unit) {
    unsigned part = ts_part_of_unit(unit);
    ts_pool *pool = ts_pool_of(unit - 1);
    uint32_t in_part = ts_unit_in_part(unit), units = ts_region.part[part].units;
    ts_lock_acquire(&pool->lock);
    uint32_t length = ts_extent_behind(&pool->free, unit);
    if (length == 0 && in_part == ts_pool_high_of(pool) && in_part < units) length = units - in_part;
    ts_lock_release(&pool->lock);
    return length;
}

void ts_pool_take_around(uint32_t *first, uint32_t *count, uint32_t page_units) {
    ts_pool *pool = ts_pool_of(*first); /* a page has one home */
    uint32_t unit = *first, end = unit + *count;
    uint64_t number = (uintptr_t)ts_region.part[TS_NORMAL].base / TS_UNIT_BYTES + unit;
    uint32_t before = (uint32_t)(number & (page_units - 1));
    uint32_t after = (uint32_t)(-(number + *count) & (page_units - 1));
    ts_lock_acquire(&pool->lock);
    if (before) (void)ts_cells_empty(pool, unit - before, unit);
    if (after) (void)ts_cells_empty(pool, end, end + after);
    uint32_t length = before ? ts_extent_at(&pool->free, unit - 1) : 0;
    if (before && length >= before) {
        ts_free_runs_cut(pool, unit - length, unit - before, unit);
        *first -= before;
        *count += before;
    }
    length = after ? ts_extent_behind(&pool->free, end) : 0;
    if (after && length >= after) {
        ts_free_runs_cut(pool, end, end, end + after);
        *count += after;
    }
    ts_lock_release(&pool->lock);
}

/* ---- giving back -------------------------------------------------------------------------------------- */

/* relaxed: the store comes before the units are in the pool. Between it and the next use of a unit stand the pool's
   lock, or a cell's release and acquire. */
static _Atomic bool tainted;

bool ts_pool_is_zero(void) { return !ts_load_relaxed(&tainted) && ts_os_page_bytes() <= TS_UNIT_BYTES; }

/* A run that becomes read-only is out of the pool while the system is asked: no other thread can take it then. */
static void give_units(uint32_t first, uint32_t count) {
    ts_pool *pool = ts_pool_of(first);
    ts_assert(1, ts_home_is_same(first, first + count - 1));
    ts_lock_acquire(&pool->lock);
    ts_range run = ts_free_runs_give(pool, first, count);
    bool freezes = ts_pool_is_to_freeze(pool->part, run);
    if (freezes) ts_free_runs_cut(pool, run.first, run.first, run.first + run.count);
    ts_lock_release(&pool->lock);
    if (!freezes) return;
    ts_pool_freeze(run);
    ts_lock_acquire(&pool->lock);
    (void)ts_free_runs_give(pool, run.first, run.count);
    ts_lock_release(&pool->lock);
}

void ts_pool_give(uint32_t first, uint32_t count) {
    unsigned part = ts_part_of_unit(first);
    /* Where the system refuses, the units stay writable until they are handed out again. */
    if (part == TS_FAR) (void)ts_os->freeze(ts_unit_address(first), ts_part_bytes(part, count));
    give_units(first, count);
}

void ts_pool_give_unpurged(uint32_t first, uint32_t count) {
    ts_store_relaxed(&tainted, true);
    ts_pool_give(first, count);
}

/* ---- figures, start, fork ----------------------------------------------------------------------------- */

static uint64_t used_of(const ts_pool *pool) {
    uint64_t used = ts_load_relaxed(&pool->used), waiting = 0;
    for (unsigned i = 0; i < TS_POOL_CELLS; i++) waiting += ts_cell_units(ts_load_relaxed(&pool->cell[i]));
    return used > waiting ? used - waiting : 0;
}

uint64_t ts_pool_used(unsigned part) {
    uint64_t sum = 0;
    for (unsigned p = 0; p < ts_pools_count(); p++) sum += ts_pools[p].part == part ? used_of(&ts_pools[p]) : 0;
    return sum;
}

void ts_pool_init(void) {
    for (unsigned part = 0; part < TS_PARTS; part++) {
        ts_free_runs_init(ts_any_pool(part), part, TS_HOME_ANY);
        ts_store_relaxed(&ts_any_pool(part)->high, 1); /* unit 0 is never handed out */
    }
    ts_store_relaxed(&ts_pools_in_use, (uint32_t)TS_PARTS);
    ts_growth_init();
}

void ts_pool_for_locks(ts_lock_fn *fn) {
    for (unsigned p = 0; p < ts_pools_count(); p++) fn(&ts_pools[p].grow_lock);
    for (unsigned p = 0; p < ts_pools_count(); p++) fn(&ts_pools[p].lock);
}
