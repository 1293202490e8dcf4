/* Shares: how a heap gets one of an allocator, and how it ends. share.c has the argument. */
#ifndef TS_SUPPLY_SHARE_H
#define TS_SUPPLY_SHARE_H

#include "supply/nodes.h"

/* This thread's share of an allocator, made if need be. NULL with errno: no memory, or the allocator has ended. */
ts_share *ts_heap_share(ts_heap *heap, ts_allocator *allocator);
/* As ts_heap_share, in fewer steps if the thread has that share and made it last. */
static inline ts_share *ts_heap_share_now(ts_heap *heap, ts_allocator *allocator) {
    ts_share *share = heap->shares;
    uintptr_t token = ts_load_acquire(&allocator->record.id);
    if (TS_LIKELY(share && token != 0 && share->allocator == allocator && share->token == token)) return share;
    return ts_heap_share(heap, allocator);
}
/* This thread's share of a use of an allocator, which keeps the record from being given back; NULL: it has none. */
static inline ts_share *ts_share_of_mine(uintptr_t token) {
    const ts_heap *heap = ts_thread.heap;
    return TS_LIKELY(heap != NULL) ? ts_heap_find_share(heap, token) : NULL;
}
/* Makes the share of a heap without a thread (orphan.c). It stays until the allocator ends, unless another thread
   holds the heap. false: no memory, or it has ended. Holds nothing. */
bool ts_heap_share_of_home(ts_heap *home, ts_allocator *allocator);
/* Sets `slow` of the share's blocks: whether fast paths allocate in them. The next sample is drawn anew. */
void ts_share_set_slow(ts_share *share);
/* Drops the shares of allocators that have ended and in which the heap has no block any more. Caller: the owner, in no
   allocation; or the holder of an ended thread's heap. Only there no call can be using a share. */
void ts_heap_drop_dead_shares(ts_heap *heap);
/* In a child of fork, alone. */
void ts_shares_fork_child(void);
/* All that a share retains goes to its allocator. Returns how many units. Caller holds the heap. */
uint64_t ts_share_give_retained(ts_share *share);
/* Units that a share retains. Any thread. */
static inline uint64_t ts_share_retained_units(const ts_share *share) {
    return (uint64_t)ts_load_relaxed(&share->retained.count) + ts_load_relaxed(&share->span_units);
}

/* The home (nodes.h) of the memory that is wanted for an epoch with that account (NULL: none). share: the calling
   thread's, or NULL. If the thread has come to another node, all that it retains goes to the allocator. Holds
   nothing. */
unsigned ts_share_choose_home(ts_allocator *allocator, ts_share *share, const ts_account *account);
static inline unsigned ts_share_wanted_home(ts_allocator *allocator, ts_share *share, const ts_account *account) {
    return TS_LIKELY(!ts_nodes_of(allocator)) ? TS_HOME_ANY : ts_share_choose_home(allocator, share, account);
}

#endif
