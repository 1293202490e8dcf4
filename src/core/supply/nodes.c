#include "supply/nodes.h"
#include "base/base.h"

#include "region/region.h"

bool ts_nodes_make(ts_allocator *allocator) {
    if (ts_nodes_of(allocator) || ts_homes_count() == 0) return true;
    ts_nodes *made = ts_lines_take(TS_LINES_NODES, sizeof *made);
    if (!made) return ts_fail(ENOMEM);
    ts_runs_init_homes(allocator, made->runs);
    ts_lock_acquire(&allocator->retained_lock);
    bool first = ts_load_relaxed(&allocator->nodes) == NULL;
    if (first) ts_store_release(&allocator->nodes, made); /* partner: ts_nodes_of */
    ts_lock_release(&allocator->retained_lock);
    if (!first) ts_lines_give(TS_LINES_NODES, made);
    return true;
}

void ts_nodes_end(ts_allocator *allocator) {
    ts_nodes *nodes = ts_load_relaxed(&allocator->nodes);
    if (!nodes) return;
    ts_store_relaxed(&allocator->nodes, NULL);
    ts_lines_give(TS_LINES_NODES, nodes);
}

unsigned ts_nodes_by_option(const ts_allocator *allocator) {
    if (!ts_nodes_of(allocator)) return TS_HOME_ANY;
    int mode = allocator->settings.numa;
    return mode == SLAB_NUMA_LOCAL ? ts_home_here() : mode == SLAB_NUMA_INTERLEAVE ? TS_HOME_EACH : TS_HOME_ANY;
}

uint64_t ts_nodes_committed(const ts_allocator *allocator, unsigned home) {
    const ts_nodes *nodes = ts_nodes_of(allocator);
    if (!nodes) return home == TS_HOME_ANY ? ts_load_relaxed(&allocator->committed_units) : 0;
    if (home != TS_HOME_ANY) return ts_load_relaxed(&nodes->committed_units[home]);
    uint64_t all = ts_load_relaxed(&allocator->committed_units), others = 0;
    for (unsigned h = 1; h < TS_HOMES; h++) others += ts_load_relaxed(&nodes->committed_units[h]);
    return all > others ? all - others : 0; /* others change meanwhile */
}
