/*
 * Homes of an allocator's memory (region/home.h). An allocator that tells homes apart has a record of them, from its
 * beginning (option numa), or since the first of its epochs was bound to a node. Without a record all of its units
 * are of home ANY, and the cost is a look at one pointer when a thread needs a slab.
 *
 * A request for memory WANTS a home: the home that its epoch is bound to; or that of the node on which the thread runs
 * (SLAB_NUMA_LOCAL); or EACH (SLAB_NUMA_INTERLEAVE); or ANY, for which any unit will do.
 *
 *     a free unit                        is in the pool of its home (region/pool.h)
 *     a retained run                     is in the list of its home (runs.h)
 *     a retained unit on another list    may be of any home. A thread looks at each unit that it takes of its own
 *                                        list, and gives a unit of another home to the runs of that home
 *     a retained span of a thread        is of share->home, the home that the thread wanted last
 *
 * Invariants
 *  1. The record is made once, under the retained lock, before any unit of a home other than ANY comes to the
 *     allocator. It stays for the use of the allocator. A thread that has such a unit got it from one that saw the
 *     record.
 *  2. committed_units of a home counts the allocator's units of that home. The count of ANY is the rest.
 */
#ifndef TS_SUPPLY_NODES_H
#define TS_SUPPLY_NODES_H

#include "region/region.h"
#include "supply/account.h"
#include "supply/allocator.h"

typedef struct ts_nodes {
    ts_extents runs[TS_HOMES]; /* guarded by the retained lock; runs of ANY are the allocator's own, and empty here */
    _Atomic uint64_t committed_units[TS_HOMES]; /* ANY has none */
    _Atomic uint64_t remote_frees[TS_HOMES];    /* objects of that home */
} ts_nodes;

/* acquire: the record is whole */
static inline ts_nodes *ts_nodes_of(const ts_allocator *allocator) { return ts_load_acquire(&allocator->nodes); }
/* Makes the record: the allocator tells homes apart from this call on, if there are any. false: ENOMEM. Caller holds
   nothing. */
bool ts_nodes_make(ts_allocator *allocator);
/* Gives the record back, with the allocator's own. */
void ts_nodes_end(ts_allocator *allocator);

/*
 * Remote frees are cross-thread frees from another node. The fast paths of a cross-thread free do not know them. The
 * free that queues the slab, the first since its owner looked, is off these paths. It notes the node of its thread in
 * the pool's record of the slab's unit, after FOREIGN is on, and before the slab is pushed. No other thread uses that
 * record while the slab is on a queue. The thread that takes it off the queue reads the note before it takes FOREIGN
 * off, and counts all frees that it finds by it.
 */
static inline void ts_nodes_note_queued(uint32_t unit, unsigned from) { ts_region.run[unit].prev = from; }
/* Notes a slab that is queued by a thread that has freed an object of it. */
static inline void ts_nodes_queue(uint32_t unit) {
    if (TS_UNLIKELY(ts_homes_count() != 0)) ts_nodes_note_queued(unit, ts_home_here());
}
/* Notes a slab that is queued without a free. */
static inline void ts_nodes_queue_empty(uint32_t unit) {
    if (TS_UNLIKELY(ts_homes_count() != 0)) ts_nodes_note_queued(unit, TS_HOME_ANY);
}
/* The home of objects that are freed from another home's node; TS_HOME_ANY: the frees are not remote. */
static inline unsigned ts_nodes_remote(unsigned home, unsigned from) {
    bool nodes = home != TS_HOME_ANY && home != TS_HOME_EACH && from != TS_HOME_ANY && from < TS_HOME_EACH;
    return nodes && from != home ? home : TS_HOME_ANY;
}
/* For a slab that comes off a queue: the home of its objects, if the note names another one. TS_HOME_ANY: the frees
   were not remote. */
static inline unsigned ts_nodes_queued(uint32_t unit) {
    if (TS_LIKELY(ts_homes_count() == 0)) return TS_HOME_ANY;
    return ts_nodes_remote(ts_home_of(unit), ts_region.run[unit].prev);
}
/* Counts remote frees. home: a result of the two functions above. */
static inline void ts_nodes_count_remote(const ts_allocator *allocator, unsigned home, unsigned objects) {
    ts_nodes *nodes = TS_UNLIKELY(home != TS_HOME_ANY) ? ts_nodes_of(allocator) : NULL;
    if (TS_UNLIKELY(nodes != NULL)) ts_fetch_add_relaxed(&nodes->remote_frees[home], objects);
}
/* Counts an object that the calling thread frees without a queue. */
static inline void ts_nodes_freed(const ts_allocator *allocator, uint32_t unit) {
    if (TS_UNLIKELY(ts_homes_count() != 0))
        ts_nodes_count_remote(allocator, ts_nodes_remote(ts_home_of(unit), ts_home_here()), 1);
}

/* The home that the option numa wants here; ANY without homes. */
unsigned ts_nodes_by_option(const ts_allocator *allocator);
/* Counts committed units of a home; a negative number wraps. */
static inline void ts_nodes_count(const ts_allocator *allocator, unsigned home, uint64_t units) {
    ts_nodes *nodes = ts_nodes_of(allocator);
    if (TS_UNLIKELY(nodes != NULL)) ts_fetch_add_relaxed(&nodes->committed_units[home], units);
}
/* Whether a unit may be on one of the share's own lists. */
static inline bool ts_nodes_keeps(const ts_share *share, uint32_t unit) {
    return TS_LIKELY(!ts_nodes_of(share->allocator)) || ts_home_of(unit) == share->home;
}

/* Committed units of a node's home. For a home that many nodes share: the node's part. */
uint64_t ts_nodes_committed(const ts_allocator *allocator, unsigned home);

#endif
