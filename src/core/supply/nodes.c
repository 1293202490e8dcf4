#include "supply/nodes.h"

#include "region/pool.h"
#include "supply/purge.h"

#include <errno.h>

#define LOOKS 4u       /* rounds of a look for a warm unit */
#define SORT_UNITS 64u /* single units that become runs in each */

bool ts_nodes_make(ts_allocator *allocator) {
    if (ts_nodes_of(allocator) || ts_homes_count() == 0) return true;
    ts_nodes *made = ts_lines_take(TS_LINES_NODES, sizeof *made);
    if (!made) {
        errno = ENOMEM;
        return false;
    }
    ts_lock_acquire(&allocator->warm_lock);
    bool first = ts_load_relaxed(&allocator->nodes) == NULL;
    if (first) ts_store_release(&allocator->nodes, made); /* partner: ts_nodes_of */
    ts_lock_release(&allocator->warm_lock);
    if (!first) ts_lines_give(TS_LINES_NODES, made);
    return true;
}

void ts_nodes_end(ts_allocator *allocator) {
    ts_nodes *nodes = ts_load_relaxed(&allocator->nodes);
    if (!nodes) return;
    ts_store_relaxed(&allocator->nodes, NULL);
    ts_lines_give(TS_LINES_NODES, nodes);
}

/* Units that it keeps are of the home that it wanted last, mostly. */
static void leave_home(ts_share *share, unsigned home) {
    ts_heap *heap = ts_thread.heap;
    ts_heap_enter(heap);
    uint64_t given = ts_share_give_warm(share);
    share->home = (uint8_t)home;
    ts_heap_leave(heap);
    ts_note_warm(share->allocator, given);
}

unsigned ts_nodes_choose(ts_allocator *allocator, ts_share *share, const ts_account *account) {
    if (account && ts_load_relaxed(&account->bound) != 0) return ts_load_relaxed(&account->bound) - 1u;
    int mode = allocator->settings.numa;
    unsigned home = mode == SLAB_NUMA_LOCAL        ? ts_home_here()
                    : mode == SLAB_NUMA_INTERLEAVE ? TS_HOME_EACH
                                                   : TS_HOME_ANY;
    if (share && TS_UNLIKELY(share->home != home)) leave_home(share, home);
    return home;
}

/* One of the thread's own; those of other homes that come before it become runs. Caller holds the heap. */
static uint32_t take_own(ts_share *share, unsigned home) {
    ts_allocator *allocator = share->allocator;
    for (uint32_t unit; (unit = ts_share_take(share, TS_NORMAL)) != 0;) {
        if (ts_home_of(unit) == home) return unit;
        ts_lock_acquire(&allocator->warm_lock);
        ts_runs_give(allocator, unit, 1);
        ts_lock_release(&allocator->warm_lock);
    }
    return 0;
}

/* Of the allocator's runs, with some more for the thread if its lists are of that home. Caller holds the heap. */
static uint32_t take_run(ts_share *share, unsigned home) {
    ts_allocator *allocator = share->allocator;
    uint32_t most = share->home == home && !ts_allocator_is_sparing(allocator) ? TS_WARM_UNITS_MOVED : 1;
    if (ts_load_relaxed(&allocator->span_warm_units) == 0) return 0;
    ts_lock_acquire(&allocator->warm_lock);
    uint32_t unit = ts_runs_take(allocator, TS_NORMAL, home, most);
    if (!unit && most > 1) unit = ts_runs_take(allocator, TS_NORMAL, home, most = 1);
    ts_lock_release(&allocator->warm_lock);
    if (!unit) return 0;
    ts_warm_push_run(&share->warm[TS_NORMAL], unit, most);
    return ts_share_take(share, TS_NORMAL);
}

uint32_t ts_nodes_take(ts_heap *heap, ts_share *share, unsigned home) {
    ts_allocator *allocator = share->allocator;
    for (unsigned looks = 0; looks < LOOKS; looks++) {
        ts_heap_enter(heap);
        uint32_t unit = share->home == home ? take_own(share, home) : 0;
        if (!unit) unit = take_run(share, home);
        ts_heap_leave(heap);
        if (unit) return unit;
        if (ts_load_relaxed(&allocator->warm[TS_NORMAL].count) == 0) break;
        (void)ts_purge_gather(allocator, SORT_UNITS);
    }
    return 0;
}

uint64_t ts_nodes_committed(const ts_allocator *allocator, unsigned home) {
    const ts_nodes *nodes = ts_nodes_of(allocator);
    if (!nodes) return home == TS_HOME_ANY ? ts_load_relaxed(&allocator->committed_units) : 0;
    if (home != TS_HOME_ANY) return ts_load_relaxed(&nodes->committed_units[home]);
    uint64_t all = ts_load_relaxed(&allocator->committed_units), others = 0;
    for (unsigned h = 1; h < TS_HOMES; h++) others += ts_load_relaxed(&nodes->committed_units[h]);
    return all > others ? all - others : 0; /* others change meanwhile */
}
