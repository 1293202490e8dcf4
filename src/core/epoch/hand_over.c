/*
 * Blocks of an epoch that go from one thread to another: those of an ended thread, and those that a thread gives up
 * with a domain.
 *
 * What could go wrong: two threads work on one block, or its slabs wait in the queue of a heap that the block has left.
 * They do not: a block changes its heap under the epoch's lock, while the heap that it leaves is held, and its queue is
 * drained first.
 */
/* Modelled in tests/model: exit. */
#include "cache/cache.h"
#include "epoch/blocks.h"
#include "epoch/epoch.h"
#include "supply/supply.h"

#include <errno.h>

/* Whether an ended thread's block can serve the class. Bins are read without holding its heap: a hint. */
static bool has_free(const ts_block *block, unsigned cls) {
    if (block->scope) return false;
    const ts_bin *bin = &((const ts_churn_block *)(const void *)block)->bin[cls];
    return ts_load_relaxed(&bin->slabs) > ts_bin_full(bin);
}

/* The block changes its heap while the old one is held and its queue is empty. From then on a thread that drains the
   old heap's queue passes on each slab of the block that it finds. */
bool ts_epoch_adopt_block(ts_heap *heap, ts_share *share, ts_block *block, EpochId id) {
    ts_heap *old = ts_load_acquire(&block->heap);
    if (old == heap || ts_load_seq(&old->state) != TS_HEAP_ABANDONED) return false;
    if (!ts_heap_hold(old)) return false;
    bool taken = false;
    /* A block that is left to the old heap stays: the thread that has called works it off (block.c, 5). */
    bool left = ts_load_relaxed(&block->left) != 0;
    if (!left && ts_load_relaxed(&block->heap) == old && ts_load_relaxed(&old->state) == TS_HEAP_ABANDONED) {
        ts_foreign_drain(old);
        ts_heap_unlink(block);
        block->share = share;
        uint8_t slow = share->slow[block->scope] | ts_block_slow_as_small(block);
        block->slow = slow | (block->slow & TS_SLOW_COUNTED); /* names in it: diagnose/named.c, 3 */
        if (block->slow != slow) heap->stack_turn--;          /* the thread follows at its next slow path */
        ts_store_release(&block->heap, heap);
        taken = true;
    }
    ts_heap_drop(old);
    if (!taken) return false;
    ts_heap_enter(heap);
    ts_heap_link(block);
    ts_epoch_open_block(block, id);
    ts_heap_leave(heap);
    return true;
}

/* The thread remembers the block with bins, if there is one (alloc.c, "Starting small"). It comes before the first
   block in the list. */
static void take_up(ts_heap *heap, ts_share *share, ts_epoch *epoch, EpochId id) {
    bool bins = false;
    for (ts_block *b = ts_load_relaxed(&epoch->blocks); b; b = ts_epoch_next_block(b)) {
        const ts_heap *home = ts_load_relaxed(&b->heap);
        if (!home->is_threadless || !ts_epoch_adopt_block(heap, share, b, id)) continue;
        if (!(b->scope && bins)) ts_epoch_remember(heap, b, epoch);
        bins = bins || !b->scope;
    }
}

void ts_epoch_adopt_blocks(ts_heap *heap, ts_allocator *allocator, EpochId id) {
    int before = errno;
    ts_share *share = ts_heap_share(heap, allocator);
    ts_epoch *epoch = share ? ts_epoch_find_active(allocator, id) : NULL;
    if (epoch) {
        take_up(heap, share, epoch, id);
        ts_epoch_release(epoch);
    }
    errno = before;
}

/* A block of about the size of the thread's own is left to a thread that comes in the place of the ended one. A thread
   that works in several blocks misses the fast paths of the process's malloc in all but one. */
static bool is_alike(const ts_churn_block *mine, const ts_block *block) {
    uint32_t own = mine ? ts_load_relaxed(&mine->b.slabs) : 0, its = ts_load_relaxed(&block->slabs);
    return own < 2 * its && its < 2 * own;
}

/* Whether more blocks of ended threads wait than there are threads in whose place others may come: those that live,
   this one included. So what is left to others is never more than some threads have. Caller has the lock. */
static bool many_wait(const ts_heap *heap, const ts_epoch *epoch) {
    int32_t more = -1;
    for (const ts_block *b = ts_load_relaxed(&epoch->blocks); b; b = ts_epoch_next_block(b)) {
        const ts_heap *home = ts_load_relaxed(&b->heap);
        if (home != heap) more += ts_load_relaxed(&home->state) == TS_HEAP_ABANDONED ? 1 : -1;
    }
    return more > 0;
}

bool ts_epoch_adopt(ts_heap *heap, ts_epoch *epoch, EpochId id, unsigned cls, bool any) {
    bool adopted = false;
    ts_allocator *allocator = ts_load_relaxed(&epoch->allocator);
    /* Not ts_heap_share, which would drop it if the allocator has ended: the allocation that asks goes on with it. By
       the record's id, which anyone may read: the epoch's record may be in another use by now, of an allocator whose
       record is another thread's to write. */
    ts_share *share = ts_heap_find_share(heap, (uintptr_t)ts_load_acquire(&allocator->record.id));
    if (!share || ts_epoch_find_active(allocator, id) != epoch) return false;
    const ts_churn_block *mine = heap->map[epoch->record.index % TS_HEAP_MAP];
    any = any || ts_load_relaxed(&epoch->account); /* a limit counts memory that nobody uses, too */
    /* This thread's own other blocks, adopted earlier, come first: else it would get a block more with every thread
       that ends, however much is free in those that it has. */
    for (unsigned others = 0; others < 2 && !adopted; others++) {
        if (others && !any) any = many_wait(heap, epoch);
        for (ts_block *b = ts_load_relaxed(&epoch->blocks); b && !adopted; b = ts_epoch_next_block(b)) {
            if ((ts_load_relaxed(&b->heap) == heap) != !others || !has_free(b, cls)) continue;
            adopted = !others || ((any || !is_alike(mine, b)) && ts_epoch_adopt_block(heap, share, b, id));
            if (adopted) ts_epoch_remember(heap, b, epoch);
        }
    }
    ts_epoch_release(epoch);
    return adopted;
}

/* ---- given up by a thread that lives ----------------------------------------------------------------------- */

/* The epoch stays, without it. Caller has the lock, and is in its own heap, which it leaves. */
TS_ALWAYS_INLINE void end_only_block(ts_epoch *epoch, ts_block *block) {
    ts_heap *heap = ts_thread.heap;
    ts_epoch_kill_only_block(block);
    (void)ts_epoch_detach_blocks(epoch);
    ts_block_end(heap, block);
    ts_heap_leave(heap);
}

/* The calling thread's blocks. Caller has the lock. TS_GIVEN_UP_NO_SHARE: there is no share for them; else whether any
   was given up. */
static ts_disowned disown_blocks(ts_epoch *epoch) {
    ts_heap *heap = ts_thread.heap;
    ts_disowned any = TS_GIVEN_UP_NOT, up = TS_GIVEN_UP;
    for (ts_block *b = ts_load_relaxed(&epoch->blocks); b && up == TS_GIVEN_UP; b = ts_epoch_next_block(b)) {
        if (ts_load_relaxed(&b->heap) != heap) continue;
        up = ts_block_disown(heap, b);
        if (up != TS_GIVEN_UP_NOT) any = up;
    }
    return any;
}

ts_disowned ts_epoch_disown_blocks(ts_allocator *allocator, EpochId id) {
    ts_disowned up = TS_GIVEN_UP_NOT;
    ts_epoch *epoch = ts_epoch_find_locked(allocator, id);
    if (!epoch) return up;
    ts_block *block = ts_epoch_only_block(ts_thread.heap, epoch);
    if (block && ts_load_relaxed(&block->slabs) == 0 && ts_heap_try_enter(ts_thread.heap))
        end_only_block(epoch, block);
    else if (ts_epoch_is_active(epoch))
        up = disown_blocks(epoch);
    ts_epoch_release(epoch);
    return up;
}

void ts_epoch_disown(ts_allocator *allocator, EpochId id) {
    int before = errno;
    ts_disowned up = ts_epoch_disown_blocks(allocator, id);
    if (up == TS_GIVEN_UP_NO_SHARE && ts_orphans_make_share(ts_thread.heap, allocator))
        up = ts_epoch_disown_blocks(allocator, id);
    if (up == TS_GIVEN_UP) ts_orphans_pass_on(ts_thread.heap);
    errno = before;
}
