/*
 * Memory by NUMA node. Only the system knows where pages are. It is asked for the pages of each slab, span and
 * retained run of the allocator. The UNIT words lead to these, as in slab_walk, beside other threads: a slab that
 * comes or goes meanwhile is looked at or not.
 */
#include "observe/observe.h"

#include "diagnose/diagnose.h"
#include "epoch/epoch.h"
#include "observe/snapshot.h"
#include "os/os.h"
#include "region/region.h"
#include "supply/supply.h"

#include <string.h>

#define PAGES_AT_ONCE 512u

typedef struct count {
    ts_allocator *allocator;
    int node;
    unsigned home; /* the node's */
    uint64_t resident, foreign;
} count;

static void look(count *c, uint32_t unit, uint32_t units) {
    size_t page = ts_os_page_bytes(), bytes = ts_units_bytes(unit, units);
    char *at = ts_unit_address(unit);
    bool ours = c->home != TS_HOME_ANY && ts_home_of(unit) == c->home;
    void *address[PAGES_AT_ONCE];
    int where[PAGES_AT_ONCE];
    for (size_t done = 0; done < bytes;) {
        size_t n = 0;
        for (; n < PAGES_AT_ONCE && done < bytes; done += page) address[n++] = at + done;
        if (!ts_os->nodes_of(address, n, where)) return;
        for (size_t i = 0; i < n; i++) {
            c->resident += where[i] == c->node ? page : 0;
            c->foreign += ours && where[i] >= 0 && where[i] != c->node ? page : 0;
        }
    }
}

/* Units of a retained run of the allocator that begins there; 0: none does. */
static uint32_t retained_units(const count *c, uint32_t unit) {
    ts_allocator *allocator = c->allocator;
    const ts_run *run = &ts_region.run[unit];
    if (ts_load_relaxed(&run->owner) == 0) return 0;
    ts_lock_acquire(&allocator->retained_lock);
    const ts_extents *runs = ts_runs_of(allocator, ts_part_of_unit(unit), ts_home_of(unit));
    uint32_t units = ts_extent_at(runs, unit);
    /* It can be the last unit of a run that has changed meanwhile. */
    if (units > 1 && ts_extent_behind(runs, unit + units - 1) != units) units = 0;
    ts_lock_release(&allocator->retained_lock);
    return units;
}

static uint32_t span_units(const count *c, uint32_t unit) {
    ts_object object;
    if (!ts_object_at(ts_load_relaxed(&c->allocator->token), ts_unit_address(unit), &object)) return 0;
    size_t each = ts_units_bytes(unit, 1);
    return (uint32_t)((object.bytes + each - 1) / each);
}

static void look_at_part(count *c, unsigned part) {
    uint32_t first = ts_region.part[part].first_unit, end = first + ts_pool_highest(part), units;
    for (uint32_t unit = first + 1; unit<end; unit += units> 0 ? units : 1) {
        uint64_t word = ts_load_acquire(ts_unit_word(unit)); /* acquire: as in ts_epoch_walk */
        if (word == 0)
            units = retained_units(c, unit);
        else if ((word & TS_UNIT_SPAN) && !(word & TS_UNIT_ZOMBIE))
            units = span_units(c, unit);
        else
            units = ts_unit_block(c->allocator, word) ? ts_slab_units(ts_slab_at(unit)) : 0;
        if (units > 0 && units <= end - unit) look(c, unit, units);
    }
}

/* All but the resident and the foreign bytes, which are 0: it costs no system call. false: no node of this process. */
static bool read_counts(const ts_allocator *allocator, int node, SlabNodeStats *out) {
    unsigned home;
    if (!ts_home_of_node(node, &home)) return false;
    memset(out, 0, sizeof *out);
    out->version = SLAB_STATS_VERSION;
    out->node = node;
    uint64_t units = ts_nodes_committed(allocator, home);
    const ts_nodes *nodes = ts_nodes_of(allocator);
    if (nodes && home != TS_HOME_ANY) {
        units += ts_nodes_committed(allocator, TS_HOME_EACH) / ts_homes_count();
        out->remote_frees_total = ts_load_relaxed(&nodes->remote_frees[home]);
    }
    out->committed_bytes = units * TS_UNIT_BYTES;
    return true;
}

_Static_assert(TS_NODE_ROWS == TS_HOME_NODES, "each has a row");

uint32_t ts_node_rows(const ts_allocator *allocator, SlabNodeStats out[TS_NODE_ROWS]) {
    uint32_t rows = 0;
    if (!ts_nodes_of(allocator)) return 0;
    for (unsigned home = 1; home <= ts_homes_count(); home++)
        rows += read_counts(allocator, ts_home_node(home), &out[rows]);
    return rows;
}

bool ts_node_stats(ts_allocator *allocator, int node, SlabNodeStats *out) {
    if (!read_counts(allocator, node, out)) return false;
    count c = {.allocator = allocator, .node = node};
    (void)ts_home_of_node(node, &c.home);
    /* Single retained units are found once they are runs. */
    for (uint64_t left = ts_load_relaxed(&allocator->retained.count); left > 0;) {
        unsigned n = ts_purge_gather(allocator, left);
        if (n == 0) break;
        left -= n < left ? n : left;
    }
    for (unsigned part = 0; part < TS_PARTS; part++)
        if (ts_region.part[part].units != 0) look_at_part(&c, part);
    out->resident_bytes = c.resident;
    out->foreign_bytes = c.foreign;
    return true;
}
