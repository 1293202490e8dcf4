/* Epochs and statistics by NUMA node. */
#define TSLAB_BUILDS 1 /* the names of stats.h are functions here */
#include "api/runtime.h"

#include "epoch/epoch.h"
#include "observe/observe.h"
#include "supply/supply.h"

#include <tslab/stats.h>

#include <stddef.h>

/* Which home a node is. 0, or the error. */
static int home_of(int node, unsigned *home) {
    bool several = ts_runtime_start_homes();
    if (ts_homes_nodes() == 0) return ENOTSUP;
    if (!ts_home_of_node(node, home)) return node < 0 || ts_homes_nodes() <= TS_HOME_NODES ? EINVAL : ENOTSUP;
    if (ts_homes_nodes() == 1) return 0;
    return several && ts_homes_bind() ? 0 : ENOTSUP;
}

static int bind_epoch(ts_allocator *a, EpochId epoch, int node) {
    unsigned home = TS_HOMES;
    if (node != -1) {
        int error = home_of(node, &home);
        if (error) return error;
    }
    ts_epoch *e = ts_epoch_find(a, epoch);
    if (!e || ts_load_relaxed(&e->state) != EPOCH_ACTIVE) return EINVAL;
    /* One node has all memory; and an epoch that was never bound is bound to none. */
    if (home == TS_HOME_ANY || (node == -1 && !ts_load_relaxed(&e->account))) return 0;
    if (!ts_nodes_make(a)) return ENOMEM;
    return ts_limit_bind(a, epoch, home) ? 0 : errno;
}

bool epoch_bind(SlabAllocator *allocator, EpochId epoch, int node) {
    ts_allocator *a = ts_api_find_pinned(allocator);
    if (!a) return false;
    int before = errno, error = bind_epoch(a, epoch, node);
    ts_allocator_unpin(a);
    errno = error ? error : before;
    return error == 0;
}

bool slab_stats_node_sized(SlabAllocator *allocator, int node, SlabNodeStats *out, size_t bytes) {
    ts_allocator *a = ts_api_find_pinned(allocator);
    if (!a) return false;
    SlabNodeStats stats;
    unsigned home;
    int before = errno, error = home_of(node, &home);
    /* Nodes that are not told apart, or that memory is not bound to, have figures, too. */
    bool known = (error == 0 || (error == ENOTSUP && ts_home_of_node(node, &home))) && ts_node_stats(a, node, &stats);
    ts_allocator_unpin(a);
    if (!out || !known) {
        errno = !out || error == 0 ? EINVAL : error;
        return false;
    }
    ts_copy_out(out, bytes, &stats, sizeof stats);
    errno = before;
    return true;
}

bool slab_stats_node(SlabAllocator *allocator, int node, SlabNodeStats *out) {
    size_t bytes = offsetof(SlabNodeStats, remote_frees_total) + sizeof out->remote_frees_total; /* as it was first */
    return slab_stats_node_sized(allocator, node, out, bytes);
}
