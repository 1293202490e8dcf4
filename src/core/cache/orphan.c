/*
 * Orphans. A domain that is handed over from thread to thread would have a block of each of them, and a slab of each
 * block. So who hands it over gives its blocks up, with the current slabs. They wait in a heap that never has a
 * thread, as those of a thread that has ended wait in one, and the domain's next thread takes them over (epoch.c).
 *
 * What could go wrong: the thread goes on in such a block, or what others free there is taken in by nobody, or the
 * block is in two lists or in none when another thread looks for it. None of this is so:
 *  1. The thread gives the block up in a call of its own, so in no operation on it. It drops all that leads it there
 *     (forget): that is believed by the id of the epoch, which the block keeps.
 *  2. The block changes its heap while both heaps are held, with its epoch's lock, as it does in take_over. So who
 *     has the epoch and ends the block, or counts it, finds whose it is; and no fork comes between.
 *  3. A slab of it may be on the old heap's queue: who drains that passes it on (foreign.c). The old heap's thread
 *     may sleep from now on. So it drains before it returns (ts_orphans_pass_on). Who pushes a slab reads the block's
 *     heap after that, which is written here before that look at the queue (all seq_cst): one of the two sees the
 *     other, and drains.
 * There are a few such heaps, so that threads that hand over at one moment mostly meet at none of their locks. Nobody
 * waits for one: the block then stays where it is.
 */
/* Modelled in tests/model: exit. */
#include "cache/orphan.h"
#include "cache/life.h"
#include "supply/share.h"

#include "cache/foreign.h"

#define HOMES 8u
static _Atomic(ts_heap *) homes[HOMES]; /* each made when it is needed; constant from then on */

/* NULL: not made, and there is no memory, or make is false. */
static ts_heap *home_of(const ts_heap *heap, bool make) {
    _Atomic(ts_heap *) *home = &homes[heap->id % HOMES];
    ts_heap *it = ts_load_acquire(home);
    return it || !make ? it : ts_heap_make_home(home);
}

bool ts_orphans_make_share(const ts_heap *heap, ts_allocator *allocator) {
    ts_heap *home = home_of(heap, true);
    if (!home || !ts_heap_hold(home)) return home != NULL;
    const ts_share *share = ts_heap_find_share(home, ts_load_relaxed(&allocator->token));
    ts_heap_drop(home);
    return share || ts_heap_share_of_home(home, allocator);
}

/* By which this thread finds its blocks. Hints of the block's uses before are there, too, in other places of the
   maps: when it has ended it can become another thread's, in whatever epoch. */
static void forget(ts_heap *heap, const ts_block *block) {
    for (unsigned i = 0; i < TS_HEAP_MAP; i++) {
        if ((const void *)heap->map[i] == (const void *)block) heap->map[i] = NULL;
        if ((const void *)heap->scope_map[i] == (const void *)block) heap->scope_map[i] = NULL;
    }
    if ((const void *)ts_thread.block == (const void *)block) ts_thread.block = &ts_no_block;
    if ((const void *)ts_thread.rolling == (const void *)block) ts_thread.rolling = &ts_no_block;
    if ((const void *)ts_thread.last == (const void *)block) ts_thread.last = &ts_no_scope;
    if ((const void *)ts_load_relaxed(&ts_thread.scope) == (const void *)block) ts_set_scope(&ts_thread, &ts_no_scope);
}

/* Both heaps are held. */
static void move(ts_heap *heap, ts_block *block, ts_share *share) {
    forget(heap, block);
    ts_block_shut(block);
    ts_heap_unlink(block);
    block->share = share;
    ts_store_seq(&block->heap, share->heap); /* seq_cst: 3 above; release: with what this thread has written there */
    ts_heap_link(block);
}

ts_given_up ts_block_give_up(ts_heap *heap, ts_block *block) {
    ts_heap *home = home_of(heap, false);
    if (!home) return TS_GIVEN_UP_NO_SHARE;
    if (!ts_heap_hold(home)) return TS_GIVEN_UP_NOT;
    ts_share *share = ts_heap_find_share(home, block->share->token);
    ts_given_up answer = share ? TS_GIVEN_UP_NOT : TS_GIVEN_UP_NO_SHARE;
    if (share && ts_heap_try_enter(heap)) {
        /* Not one that is left to this heap: as in take_over. */
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
    ts_settle_pending(); /* what was passed on is drained there */
}
