#include "supply/runs.h"

#include "base/bits.h"
#include "os/assert.h"
#include "region/pool.h"
#include "supply/allocator.h"
#include "supply/nodes.h"

#define LOOKS 8u /* runs looked at in a list of which only some are long enough */

/* The runs of a home. Without a record of homes all units are of one, as those of the FAR part are always. */
static ts_runs *runs_of(ts_allocator *allocator, unsigned part, unsigned home) {
    ts_nodes *nodes = ts_nodes_of(allocator);
    return TS_LIKELY(!nodes || home == TS_HOME_ANY) ? &allocator->runs[part] : &nodes->runs[home];
}

/* The length of the allocator's run that begins or ends there, 0: none. The unit may be the pool's, or beyond all
   that it ever handed out, or in another's hands. So the record is read only if it names this allocator, whose lock
   the caller has. */
static uint32_t length_at(const ts_allocator *allocator, uint32_t unit) {
    const ts_run *r = &ts_region.run[unit];
    return ts_load_relaxed(&r->retained_of) == ts_allocator_index(allocator) ? r->next : 0;
}

/* Units beyond have no record yet. A part does not go on into the other, whose unit 0 is in no run. */
TS_ALWAYS_INLINE bool was_handed_out(uint32_t unit) {
    const ts_part *far = &ts_region.part[TS_FAR];
    if (TS_LIKELY(unit < far->first_unit)) return unit < ts_pool_highest(TS_NORMAL);
    return unit != far->first_unit && unit - far->first_unit < ts_pool_highest(TS_FAR);
}

/* Whether a run that ends before the unit may be one with a run that begins there. */
TS_ALWAYS_INLINE bool ends_before(uint32_t unit) { return was_handed_out(unit) && ts_home_is_same(unit - 1, unit); }

static void set_ends(uint32_t first, uint32_t units, uint32_t retained_of) {
    ts_run *a = &ts_region.run[first], *b = &ts_region.run[first + units - 1];
    a->next = b->next = units;
    /* relaxed: only a holder of the same lock reads more than the word */
    ts_store_relaxed(&a->retained_of, retained_of);
    ts_store_relaxed(&b->retained_of, retained_of);
}

static bool has_age(uint32_t first, uint32_t units) { return ts_units_weight(first, units) >= TS_RUNS_AGED; }

/* The run gets between two others in the list by age; 0: an end. */
static void link_age(ts_allocator *allocator, uint32_t first, uint32_t newer, uint32_t older) {
    ts_slab_at(first)->u.run.newer = newer;
    ts_slab_at(first)->u.run.older = older;
    *(newer ? &ts_slab_at(newer)->u.run.older : &allocator->newest) = first;
    *(older ? &ts_slab_at(older)->u.run.newer : &allocator->oldest) = first;
}

static void unlink_age(ts_allocator *allocator, uint32_t first) {
    uint32_t newer = ts_slab_at(first)->u.run.newer, older = ts_slab_at(first)->u.run.older;
    *(newer ? &ts_slab_at(newer)->u.run.older : &allocator->newest) = older;
    *(older ? &ts_slab_at(older)->u.run.newer : &allocator->oldest) = newer;
}

static void insert_run(ts_allocator *allocator, uint32_t first, uint32_t units, bool oldest) {
    ts_runs *runs = runs_of(allocator, ts_part_of_unit(first), ts_home_of(first));
    unsigned list = ts_runs_list(units);
    set_ends(first, units, ts_allocator_index(allocator));
    ts_slab_list_push(&runs->head[list], first);
    runs->some[list / 64] |= (uint64_t)1 << list % 64;
    if (has_age(first, units))
        link_age(allocator, first, oldest ? allocator->oldest : 0, oldest ? 0 : allocator->newest);
}

static void remove_run(ts_allocator *allocator, uint32_t first, uint32_t units) {
    ts_runs *runs = runs_of(allocator, ts_part_of_unit(first), ts_home_of(first));
    unsigned list = ts_runs_list(units);
    ts_slab_list_remove(&runs->head[list], first);
    if (!runs->head[list]) runs->some[list / 64] &= ~((uint64_t)1 << list % 64);
    if (has_age(first, units)) unlink_age(allocator, first);
    set_ends(first, units, 0);
}

void ts_runs_give(ts_allocator *allocator, uint32_t first, uint32_t units) {
    ts_fetch_add_relaxed(&allocator->span_retained_units, ts_units_weight(first, units));
    /* Unit 0 is nobody's. */
    uint32_t before = ts_home_is_same(first - 1, first) ? length_at(allocator, first - 1) : 0;
    if (before) {
        remove_run(allocator, first - before, before);
        first -= before;
        units += before;
    }
    uint32_t end = first + units, after = ends_before(end) ? length_at(allocator, end) : 0;
    if (after) {
        remove_run(allocator, end, after);
        units += after;
    }
    insert_run(allocator, first, units, false);
}

void ts_runs_return(ts_allocator *allocator, uint32_t first, uint32_t units) {
    ts_lock_acquire(&allocator->retained_lock);
    ts_runs_give(allocator, first, units);
    ts_lock_release(&allocator->retained_lock);
}

/* The first list at or above it that is not empty; TS_RETAINED_LISTS: none. */
static unsigned list_from(const ts_runs *runs, unsigned list) {
    for (unsigned word = list / 64; word < 2 && list < TS_RETAINED_LISTS; word++, list = 64 * word) {
        uint64_t some = runs->some[word] & (UINT64_MAX << list % 64);
        if (some) return 64 * word + ts_ctz64(some);
    }
    return TS_RETAINED_LISTS;
}

/* A run that is long enough: one of its own list, of which some are looked at, or the first of the next list. */
static uint32_t find_run(const ts_runs *runs, uint32_t units) {
    unsigned list = ts_runs_list(units), looks = 0;
    for (uint32_t first = runs->head[list]; first && looks < LOOKS; first = ts_slab_at(first)->next, looks++)
        if (ts_region.run[first].next >= units) return first;
    list = list_from(runs, list + 1);
    return list < TS_RETAINED_LISTS ? runs->head[list] : 0;
}

static void take_units(ts_allocator *allocator, uint32_t first, uint32_t units) {
    uint32_t length = ts_region.run[first].next;
    remove_run(allocator, first, length);
    if (length > units) insert_run(allocator, first + units, length - units, false);
    ts_fetch_sub_relaxed(&allocator->span_retained_units, ts_units_weight(first, units));
}

uint32_t ts_runs_take(ts_allocator *allocator, unsigned part, unsigned home, uint32_t units) {
    uint32_t first = find_run(runs_of(allocator, part, home), units);
    if (first) take_units(allocator, first, units);
    return first;
}

/* The last units of a run. The rest of it is the oldest of all. */
static uint32_t take_end(ts_allocator *allocator, uint32_t first, uint32_t most, uint32_t *units) {
    uint32_t length = ts_region.run[first].next, keep = length > most ? length - most : 0;
    *units = length - keep;
    remove_run(allocator, first, length);
    if (keep) insert_run(allocator, first, keep, true);
    ts_fetch_sub_relaxed(&allocator->span_retained_units, ts_units_weight(first, *units));
    return first + keep;
}

uint32_t ts_runs_take_longest(ts_allocator *allocator, unsigned part, unsigned home, uint32_t least, uint32_t most,
                              uint32_t *units) {
    const ts_runs *runs = runs_of(allocator, part, home);
    unsigned word = runs->some[1] ? 1 : 0;
    if (!runs->some[word]) return 0;
    uint32_t first = runs->head[64 * word + ts_log2_64(runs->some[word])];
    if (ts_region.run[first].next < least) return 0;
    return take_end(allocator, first, most, units);
}

uint32_t ts_runs_take_oldest(ts_allocator *allocator, uint32_t good, uint32_t most, uint64_t over, uint32_t *units) {
    uint32_t first = allocator->oldest, looks = 0;
    while (first && looks++ < LOOKS && ts_units_weight(first, ts_region.run[first].next) < good)
        first = ts_slab_at(first)->u.run.newer;
    if (looks > LOOKS || !first) first = allocator->oldest;
    if (!first) return 0;
    return take_end(allocator, first, ts_part_of_unit(first) == TS_FAR ? ts_far_units(over) : most, units);
}

bool ts_runs_take_at(ts_allocator *allocator, uint32_t first, uint32_t units) {
    uint32_t length = ends_before(first) ? length_at(allocator, first) : 0;
    /* A unit behind a span is the first of a run, not its last, or the only one. */
    if (length < units) return false;
    take_units(allocator, first, units);
    return true;
}
