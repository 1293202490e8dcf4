#include "region/free_runs.h"

#include "region/region.h"

#include <string.h>

ts_pool ts_pools[TS_POOLS];
_Atomic uint32_t ts_pools_in_use = TS_PARTS;

void ts_free_runs_init(ts_pool *pool, unsigned part, unsigned home) {
    memset(pool, 0, sizeof *pool);
    ts_lock_init(&pool->lock, TS_RANK_POOL);
    ts_lock_init(&pool->grow_lock, TS_RANK_GROWTH);
    pool->part = part;
    pool->home = home;
    if (ts_region.part[part].units) pool->run = &ts_region.run[ts_region.part[part].first_unit];
}

void ts_free_runs_level(uint32_t length, unsigned *f, unsigned *s) {
    if (length < TS_RUN_LISTS) {
        *f = 0;
        *s = length;
    } else {
        unsigned log2 = ts_log2_64(length);
        *f = log2 - 2;
        *s = (length >> (log2 - 3)) & (TS_RUN_LISTS - 1);
    }
}

void ts_free_runs_insert(ts_pool *pool, uint32_t first, uint32_t length) {
    unsigned f, s;
    ts_free_runs_level(length, &f, &s);
    ts_run *r = &pool->run[first];
    r->length = length;
    r->prev = 0;
    r->next = pool->head[f][s];
    if (r->next) pool->run[r->next].prev = first;
    pool->run[first + length - 1].length = length;
    pool->head[f][s] = first;
    pool->second_bits[f] |= 1u << s;
    ts_store_relaxed(&pool->first_bits, ts_load_relaxed(&pool->first_bits) | 1u << f);
}

void ts_free_runs_remove(ts_pool *pool, uint32_t first) {
    unsigned f, s;
    ts_run *r = &pool->run[first];
    uint32_t length = r->length;
    ts_free_runs_level(length, &f, &s);
    if (r->prev) {
        pool->run[r->prev].next = r->next;
    } else {
        pool->head[f][s] = r->next;
        if (!r->next) {
            pool->second_bits[f] &= ~(1u << s);
            if (!pool->second_bits[f])
                ts_store_relaxed(&pool->first_bits, ts_load_relaxed(&pool->first_bits) & ~(1u << f));
        }
    }
    if (r->next) pool->run[r->next].prev = r->prev;
    r->length = 0;
    pool->run[first + length - 1].length = 0;
}

/* Unit 0 is never free, so the unit before the first one exists. */
ts_range ts_free_runs_merge(ts_pool *pool, uint32_t first, uint32_t count) {
    uint32_t before = ts_pool_owns(pool, first - 1) ? pool->run[first - 1].length : 0;
    if (before) {
        ts_free_runs_remove(pool, first - before);
        first -= before;
        count += before;
    }
    if (first + count < ts_pool_high_of(pool) && ts_pool_owns(pool, first + count)) {
        uint32_t after = pool->run[first + count].length;
        if (after) {
            ts_free_runs_remove(pool, first + count);
            count += after;
        }
    }
    ts_free_runs_insert(pool, first, count);
    return (ts_range){first, count};
}

uint32_t ts_free_runs_find(const ts_pool *pool, uint32_t length) {
    unsigned f, s;
    ts_free_runs_level((uint32_t)ts_free_runs_rounded(length), &f, &s);
    if (f >= TS_RUN_LEVELS) return 0;
    uint32_t bits = pool->second_bits[f] & (~0u << s);
    if (!bits) {
        uint32_t levels = f + 1 < 32 ? ts_load_relaxed(&pool->first_bits) & (~0u << (f + 1)) : 0;
        if (!levels) return 0;
        f = ts_ctz64(levels);
        bits = pool->second_bits[f];
    }
    return pool->head[f][ts_ctz64(bits)];
}

void ts_free_runs_cut(ts_pool *pool, ts_range run, uint32_t from, uint32_t end) {
    ts_free_runs_remove(pool, run.first);
    if (from > run.first) ts_free_runs_insert(pool, run.first, from - run.first);
    if (run.first + run.count > end) ts_free_runs_insert(pool, end, run.first + run.count - end);
    ts_pool_add_used(pool, end - from);
}

/* Units from `first` to the next aligned one. Addresses are aligned, not numbers. */
static uint32_t skip_to_aligned(unsigned part, uint32_t first, uint32_t align) {
    uint64_t number = ((uintptr_t)ts_region.part[part].base >> ts_part_shift(part)) + first;
    return (uint32_t)(ts_align_up(number, align) - number);
}

uint32_t ts_free_runs_take(ts_pool *pool, uint32_t count, uint32_t align) {
    uint32_t first = ts_free_runs_find(pool, count + align - 1);
    /* A single free huge page may be all that a home has. */
    if (!first && pool->part == TS_NORMAL && align == TS_HOME_UNITS) {
        first = ts_free_runs_find(pool, count);
        if (first && skip_to_aligned(pool->part, first, align) + count > pool->run[first].length) first = 0;
    }
    if (!first) return 0;
    uint32_t from = first + skip_to_aligned(pool->part, first, align);
    ts_free_runs_cut(pool, (ts_range){first, pool->run[first].length}, from, from + count);
    return from;
}
