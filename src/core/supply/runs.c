#include "supply/runs.h"

#include "supply/allocator.h"
#include "supply/nodes.h"
#include "supply/purge.h"

static uint32_t number_of(const ts_allocator *allocator, unsigned home) {
    return (home + 1) << 16 | ts_allocator_index(allocator);
}

void ts_runs_init(ts_allocator *allocator) {
    allocator->ages = (ts_ages){0, 0};
    for (unsigned part = 0; part < TS_PARTS; part++)
        ts_extents_init(&allocator->runs[part], number_of(allocator, TS_HOME_ANY), &allocator->ages);
}

void ts_runs_init_homes(ts_allocator *allocator, ts_extents *set) {
    for (unsigned home = 0; home < TS_HOMES; home++)
        ts_extents_init(&set[home], number_of(allocator, home), &allocator->ages);
}

/* Without a record of homes all units are of one, as those of the FAR part are always. */
ts_extents *ts_runs_of(ts_allocator *allocator, unsigned part, unsigned home) {
    ts_nodes *nodes = ts_nodes_of(allocator);
    return TS_LIKELY(!nodes || home == TS_HOME_ANY) ? &allocator->runs[part] : &nodes->runs[home];
}

static ts_extents *runs_at(ts_allocator *allocator, uint32_t unit) {
    return ts_runs_of(allocator, ts_part_of_unit(unit), ts_home_of(unit));
}

void ts_runs_give(ts_allocator *allocator, uint32_t first, uint32_t units) {
    ts_fetch_add_relaxed(&allocator->span_retained_units, ts_units_weight(first, units));
    (void)ts_extents_give(runs_at(allocator, first), first, units);
}

void ts_runs_return(ts_allocator *allocator, uint32_t first, uint32_t units) {
    ts_lock_acquire(&allocator->retained_lock);
    ts_runs_give(allocator, first, units);
    ts_lock_release(&allocator->retained_lock);
}

/* The first units of a run, for use. */
static void take_units(ts_allocator *allocator, ts_extents *runs, uint32_t first, uint32_t units) {
    ts_extents_cut(runs, first, first, first + units, false);
    ts_fetch_sub_relaxed(&allocator->span_retained_units, ts_units_weight(first, units));
}

uint32_t ts_runs_take(ts_allocator *allocator, unsigned part, unsigned home, uint32_t units) {
    ts_extents *runs = ts_runs_of(allocator, part, home);
    uint32_t first = ts_extents_find(runs, units);
    if (first) take_units(allocator, runs, first, units);
    return first;
}

/* The last units of a run. The rest of it is the oldest of all. */
static uint32_t take_end(ts_allocator *allocator, uint32_t first, uint32_t most, uint32_t *units) {
    uint32_t length = ts_region.run[first].length, from = first + (length > most ? length - most : 0);
    *units = first + length - from;
    ts_extents_cut(runs_at(allocator, first), first, from, first + length, true);
    ts_fetch_sub_relaxed(&allocator->span_retained_units, ts_units_weight(first, *units));
    return from;
}

uint32_t ts_runs_take_longest(ts_allocator *allocator, unsigned part, unsigned home, uint32_t least, uint32_t most,
                              uint32_t *units) {
    uint32_t first = ts_extents_longest(ts_runs_of(allocator, part, home));
    return first && ts_region.run[first].length >= least ? take_end(allocator, first, most, units) : 0;
}

uint32_t ts_runs_take_oldest(ts_allocator *allocator, uint64_t most, uint32_t *units) {
    uint32_t first = allocator->ages.oldest;
    if (!first) return 0;
    if (ts_part_of_unit(first) == TS_FAR) return take_end(allocator, first, ts_far_units(most), units);
    return take_end(allocator, first, most < TS_PURGE_BATCH ? (uint32_t)most : TS_PURGE_BATCH, units);
}

bool ts_runs_take_at(ts_allocator *allocator, uint32_t of, uint32_t first, uint32_t units) {
    ts_extents *runs = runs_at(allocator, of);
    /* A unit behind a span is the first of a run, not its last, or the only one. */
    if (ts_extent_behind(runs, first) < units) return false;
    take_units(allocator, runs, first, units);
    return true;
}
