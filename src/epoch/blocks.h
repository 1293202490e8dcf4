/*
 * The blocks of an epoch: how one gets into its list, and how all of them leave it. For the files that open and end
 * epochs.
 */
/* Modelled in tests/model: orders. */
#ifndef TS_EPOCH_BLOCKS_H
#define TS_EPOCH_BLOCKS_H

#include "epoch/epoch.h"

#include <errno.h>

static inline ts_block *ts_epoch_next_block(const ts_block *block) { return ts_load_relaxed(&block->epoch_next); }

/* Caller has the lock. Whoever ends these blocks, or uses them again, does so after the fence: a reader that has seen
   anything of that sees the count too. */
TS_ALWAYS_INLINE ts_block *ts_epoch_detach_blocks(ts_epoch *epoch) {
    ts_block *blocks = ts_load_relaxed(&epoch->blocks);
    ts_store_relaxed(&epoch->blocks, NULL);
    /* release: who sees the new count does not see the old list */
    ts_store_release(&epoch->detached, ts_load_relaxed(&epoch->detached) + 1);
    atomic_thread_fence(memory_order_release); /* partner: ts_epoch_read_blocks */
    return blocks;
}

/* Caller has the epoch's lock, which keeps the epoch ACTIVE, or has not published the epoch; the block is on no list that
   anyone else walks, or was shut by the end of its thread. */
TS_ALWAYS_INLINE void ts_epoch_open_block(ts_block *block, EpochId id) {
    /* release: who sees the id sees whose heap it is (domain.c: is_block_of) */
    ts_store_release(&block->open_id, id);
    /* Care is the slow path's work: such a block is never open to fast frees. */
    if (block->share->allocator->care) return;
    ts_store_relaxed(&block->key, ts_era(block) | (uint64_t)ts_line_of(block->share) << TS_KEY_SHARE_SHIFT);
}

static inline void ts_epoch_remember(ts_heap *heap, ts_block *block, const ts_epoch *epoch) {
    unsigned i = epoch->entry.index % TS_HEAP_MAP;
    if (block->scope)
        heap->scope_map[i] = ts_scope(block);
    else
        heap->map[i] = ts_churn(block);
}

TS_ALWAYS_INLINE ts_block *ts_epoch_new_block(ts_heap *heap, ts_share *share, ts_epoch *epoch, EpochId id) {
    ts_heap_enter(heap);
    ts_block *block = ts_block_take(heap, share, epoch, (ts_load_relaxed(&epoch->flags) & EPOCH_SCOPE) != 0);
    if (block) {
        ts_store_relaxed(&block->epoch_id, id);
        ts_epoch_open_block(block, id);
    }
    ts_heap_leave(heap);
    if (!block) {
        errno = ENOMEM;
        return NULL;
    }
    ts_block *first = ts_load_relaxed(&epoch->blocks);
    block->epoch_prev = NULL;
    ts_store_relaxed(&block->epoch_next, first);
    if (first) first->epoch_prev = block;
    ts_store_release(&epoch->blocks, block); /* whole, for ts_epoch_read_blocks */
    return block;
}

#endif
