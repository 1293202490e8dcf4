#include "walk/check_pool.h"

#include "os/assert.h"
#include "region/cells.h"
#include "region/region.h"

typedef struct walk {
    ts_pool *pool;
    ts_pool_visit *visit; /* may be NULL */
    void *arg;
    uint64_t free_units; /* in the runs seen so far */
} walk;

static bool show_units(const walk *w, uint32_t first, uint32_t count) {
    return !w->visit || w->visit(w->arg, ts_region.part[w->pool->part].first_unit + first, count);
}

static const char *check_list(walk *w, unsigned f, unsigned s) {
    const ts_pool *pool = w->pool;
    uint32_t units = ts_region.part[pool->part].units, high = ts_pool_high_of(pool), before = 0;
    for (uint32_t u = pool->head[f][s]; u; before = u, u = pool->run[u].next) {
        unsigned rf, rs;
        if (u >= units) return "pool: a run outside of its part";
        uint32_t length = pool->run[u].length;
        if (length == 0 || u >= high || length > high - u) return "pool: the length of a run";
        ts_free_runs_level(length, &rf, &rs);
        if (rf != f || rs != s) return "pool: a run in the list of another length";
        if (pool->run[u].prev != before) return "pool: a list that is broken";
        if (pool->run[u + length - 1].length != length) return "pool: a run with two lengths";
        if (!ts_pool_owns(pool, u) || !ts_pool_owns(pool, u + length - 1)) return "pool: a run of another home";
        if (ts_pool_owns(pool, u - 1) && pool->run[u - 1].length != 0) return "pool: two runs that touch";
        w->free_units += length;
        /* A list that is a circle ends here. */
        if (w->free_units > units) return "pool: more free units than there are";
        if (!show_units(w, u, length)) return "pool: a run";
    }
    return NULL;
}

static const char *check_runs(walk *w) {
    const ts_pool *pool = w->pool;
    for (unsigned f = 0; f < TS_RUN_LEVELS; f++) {
        if (((ts_load_relaxed(&pool->first_bits) >> f) & 1u) != (pool->second_bits[f] != 0))
            return "pool: a level and its bit";
        for (unsigned s = 0; s < TS_RUN_LISTS; s++) {
            bool bit = (pool->second_bits[f] >> s) & 1u;
            if (bit != (pool->head[f][s] != 0)) return "pool: a list and its bit";
            const char *fault = check_list(w, f, s);
            if (fault) return fault;
        }
    }
    return NULL;
}

static const char *check_cells(const walk *w) {
    const ts_pool *pool = w->pool;
    uint32_t high = ts_pool_high_of(pool);
    for (unsigned i = 0; i < TS_POOL_CELLS; i++) {
        uint64_t cell = ts_load_relaxed(&pool->cell[i]);
        uint32_t first = ts_cell_first(cell), units = ts_cell_units(cell);
        if (units == 0) continue;
        if (first == 0 || first >= high || units > high - first) return "pool: a cell outside of its part";
        if (pool->run[first].length != 0 || pool->run[first + units - 1].length != 0) return "pool: a cell in a run";
        if (!show_units(w, first, units)) return "pool: a cell";
    }
    return NULL;
}

/* Caller has the lock. */
static const char *check_pool(walk *w, bool forked) {
    const ts_pool *pool = w->pool;
    uint32_t high = ts_pool_high_of(pool);
    bool has_end = pool == ts_any_pool(pool->part);
    if (has_end && high > 1 && high > ts_region_marked_units(pool->part)) return "pool: units above the mark";
    const char *fault = check_runs(w);
    if (!fault) fault = check_cells(w);
    if (fault) return fault;
    uint64_t found = w->free_units + ts_load_relaxed(&pool->used); /* the units of cells are used */
    uint64_t has = (has_end ? high - 1 : 0) + pool->moved;
    return found == has || (forked && found < has) ? NULL : "pool: units that nobody has";
}

const char *ts_pool_walk(unsigned part, ts_pool_visit *visit, void *arg, bool forked) {
    const char *fault = NULL;
    for (unsigned p = 0; !fault && p < ts_pools_count(); p++) {
        walk w = {&ts_pools[p], visit, arg, 0};
        if (ts_pools[p].part != part) continue;
        ts_lock_acquire(&ts_pools[p].lock);
        fault = check_pool(&w, forked);
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
