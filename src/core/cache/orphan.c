/*
 * Orphans. A domain that is handed from thread to thread would have a block of each of these threads, and a slab of
 * each block. So the thread that hands it over gives its blocks up, with their current slabs. They wait in a heap
 * that never has a thread, as the blocks of an ended thread wait in its heap. The domain's next thread takes them
 * over (epoch.c).
 *
 * What could go wrong: the thread goes on in such a block. Or no thread takes in the cross-thread frees there. Or the
 * block is in two lists, or in none, when another thread looks for it. None of this happens.
 *  1. The thread gives the block up in a call of its own, so it is in no operation on it. It drops all hints that
 *     lead it there. A hint is believed by the id of the epoch, and the block keeps that id.
 *  2. The block changes its heap while both heaps are held, with its epoch's lock, as in ts_epoch_adopt_block. So a
 *     thread that has the epoch, and ends the block or counts it, finds the heap that has it. No fork comes between.
 *  3. A slab of the block may be on the old heap's queue. A drain of that queue passes it on (foreign.c). The old
 *     heap's thread may sleep from now on, so it drains before it returns (ts_orphans_pass_on). A thread that pushes
 *     a slab reads the block's heap after the push. Here the block's heap is written before that look at the queue
 *     (all seq_cst). One of the two sees the other, and drains.
 * There are a few such heaps, so that threads that hand over at one moment mostly use different ones. No thread waits
 * for one of their locks: the block stays where it is then.
 */
/* Modelled in tests/model: exit. */
#include "cache/cache.h"
#include "ownership/ownership.h"
#include "supply/supply.h"

#define HOMES 8u
static _Atomic(ts_heap *) homes[HOMES]; /* each is made when it is needed, and constant from then on */

/* The heap that takes orphans of this heap. NULL: it is not made yet, and make is false or there is no memory. */
static ts_heap *home_of(const ts_heap *heap, bool make) {
    _Atomic(ts_heap *) *home = &homes[heap->id % HOMES];
    ts_heap *it = ts_load_acquire(home);
    return it || !make ? it : ts_heap_make_threadless(home);
}

bool ts_orphans_make_share(const ts_heap *heap, ts_allocator *allocator) {
    ts_heap *home = home_of(heap, true);
    if (!home || !ts_heap_hold(home)) return home != NULL;
    const ts_share *share = ts_heap_find_share(home, ts_load_relaxed(&allocator->token));
    ts_heap_drop(home);
    return share || ts_heap_share_of_home(home, allocator);
}

/* Both heaps are held. Hints of the block's earlier uses lie in other places of the maps. They go, too: an ended block
   can become another thread's, in any epoch. */
static void move(ts_heap *heap, ts_block *block, ts_share *share) {
    ts_heap_drop_hints(heap, block);
    ts_block_shut(block);
    ts_heap_unlink(block);
    block->share = share;
    ts_store_seq(&block->heap, share->heap); /* seq_cst: 3 above; release: with what this thread has written there */
    ts_heap_link(block);
}

ts_disowned ts_block_disown(ts_heap *heap, ts_block *block) {
    ts_heap *home = home_of(heap, false);
    if (!home) return TS_GIVEN_UP_NO_SHARE;
    if (!ts_heap_hold(home)) return TS_GIVEN_UP_NOT;
    ts_share *share = ts_heap_find_share(home, block->share->token);
    ts_disowned answer = share ? TS_GIVEN_UP_NOT : TS_GIVEN_UP_NO_SHARE;
    if (share && ts_heap_try_enter(heap)) {
        /* A block that is left to this heap stays, as in ts_epoch_adopt_block. */
        if (ts_load_relaxed(&block->left) == 0) {
            move(heap, block, share);
            answer = TS_GIVEN_UP;
        }
        ts_heap_leave(heap);
    }
    ts_heap_drop(home);
    return answer;
}

void ts_orphans_pass_on(ts_heap *heap) {
    ts_heap_enter(heap);
    ts_foreign_drain(heap);
    ts_heap_leave(heap);
    ts_run_deferred_pending(); /* drains the heaps that got slabs */
}
