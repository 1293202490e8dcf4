#include "region/extents.h"

#include <string.h>

#define LOOKS 8u /* extents looked at in a list of which only some are long enough */

void ts_extents_init(ts_extents *set, uint32_t number, ts_ages *ages) {
    memset(set, 0, sizeof *set);
    set->number = number;
    set->ages = ages;
}

static void set_ends(uint32_t first, uint32_t units, uint32_t owner) {
    ts_run *a = &ts_region.run[first], *b = &ts_region.run[first + units - 1];
    a->length = b->length = units;
    /* relaxed: only a holder of the same lock reads more than the word */
    ts_store_relaxed(&a->owner, owner);
    ts_store_relaxed(&b->owner, owner);
}

static bool has_age(const ts_extents *set, uint32_t first, uint32_t units) {
    return set->ages && ts_units_weight(first, units) >= TS_EXTENT_AGED;
}

/* The extent gets between two others in the list by age; 0: an end. */
static void link_age(ts_ages *ages, uint32_t first, uint32_t newer, uint32_t older) {
    ts_run *run = ts_region.run;
    run[first].newer = newer;
    run[first].older = older;
    *(newer ? &run[newer].older : &ages->newest) = first;
    *(older ? &run[older].newer : &ages->oldest) = first;
}

static void unlink_age(ts_ages *ages, uint32_t first) {
    ts_run *run = ts_region.run;
    uint32_t newer = run[first].newer, older = run[first].older;
    *(newer ? &run[newer].older : &ages->newest) = older;
    *(older ? &run[older].newer : &ages->oldest) = newer;
}

static void insert(ts_extents *set, uint32_t first, uint32_t units, bool aged) {
    unsigned list = ts_extent_list(units);
    ts_run *r = &ts_region.run[first];
    set_ends(first, units, set->number);
    r->prev = 0;
    r->next = set->head[list];
    if (r->next) ts_region.run[r->next].prev = first;
    set->head[list] = first;
    ts_store_relaxed(&set->some[list / 64], ts_load_relaxed(&set->some[list / 64]) | (uint64_t)1 << list % 64);
    if (has_age(set, first, units))
        link_age(set->ages, first, aged ? set->ages->oldest : 0, aged ? 0 : set->ages->newest);
}

static void take_out(ts_extents *set, uint32_t first, uint32_t units) {
    unsigned list = ts_extent_list(units);
    const ts_run *r = &ts_region.run[first];
    *(r->prev ? &ts_region.run[r->prev].next : &set->head[list]) = r->next;
    if (r->next) ts_region.run[r->next].prev = r->prev;
    if (!set->head[list])
        ts_store_relaxed(&set->some[list / 64], ts_load_relaxed(&set->some[list / 64]) & ~((uint64_t)1 << list % 64));
    if (has_age(set, first, units)) unlink_age(set->ages, first);
    set_ends(first, units, 0);
}

/* Unit 0 is in no extent, so the unit before the first one exists. */
ts_range ts_extents_give(ts_extents *set, uint32_t first, uint32_t units) {
    uint32_t before = ts_extent_at(set, first - 1), behind = ts_extent_behind(set, first + units);
    if (before) take_out(set, first - before, before);
    if (behind) take_out(set, first + units, behind);
    ts_range all = {first - before, before + units + behind};
    insert(set, all.first, all.count, false);
    return all;
}

void ts_extents_cut(ts_extents *set, uint32_t first, uint32_t from, uint32_t end, bool aged) {
    uint32_t last = first + ts_region.run[first].length;
    take_out(set, first, last - first);
    if (from > first) insert(set, first, from - first, aged);
    if (last > end) insert(set, end, last - end, aged);
}

/* The first list at or above it that is not empty; TS_EXTENT_LISTS: none. */
static unsigned list_from(const ts_extents *set, unsigned list) {
    for (unsigned word = list / 64; word < 2 && list < TS_EXTENT_LISTS; word++, list = 64 * word) {
        uint64_t some = ts_load_relaxed(&set->some[word]) & (UINT64_MAX << list % 64);
        if (some) return 64 * word + ts_ctz64(some);
    }
    return TS_EXTENT_LISTS;
}

uint32_t ts_extents_find(const ts_extents *set, uint32_t units) {
    unsigned list = ts_extent_list(units), looks = 0;
    for (uint32_t first = set->head[list]; first && looks < LOOKS; first = ts_region.run[first].next, looks++)
        if (ts_region.run[first].length >= units) return first;
    list = list_from(set, list + 1);
    return list < TS_EXTENT_LISTS ? set->head[list] : 0;
}

uint32_t ts_extents_longest(const ts_extents *set) {
    unsigned word = ts_load_relaxed(&set->some[1]) != 0;
    uint64_t some = ts_load_relaxed(&set->some[word]);
    return some ? set->head[64 * word + ts_log2_64(some)] : 0;
}
