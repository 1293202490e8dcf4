/*
 * The end of a scope block without a call: for who ends one domain after the other.
 */
#ifndef TS_CACHE_ENDED_H
#define TS_CACHE_ENDED_H

#include "cache/piece.h"
#include "cache/scope.h"
#include "supply/account.h"
#include "supply/allocator.h"

/* All objects of an ended block are dead, so one count tells what was allocated and freed in it. */
TS_ALWAYS_INLINE void ts_share_fold(ts_share *share, uint32_t kind, uint64_t allocated) {
    ts_count(&share->count[kind].ended, allocated);
}

/* A block whose eras are used up is not used again. era: of its next use. */
TS_ALWAYS_INLINE bool ts_era_is_used_up(uint64_t era) { return era >= TS_UNIT_ERA_MASK - 4; }

/* The last of an end: the block is in no epoch, and one of the heap's free ones. */
TS_ALWAYS_INLINE void ts_block_set_free(ts_heap *heap, ts_block *block, const bool scope) {
    if (TS_UNLIKELY(ts_block_account(block) != NULL)) ts_block_set_account(block, NULL);
    ts_store_relaxed(&block->slabs, 0);
    ts_heap_unlink(block);
    ts_store_relaxed(&block->epoch, NULL);
    if (TS_UNLIKELY(ts_era_is_used_up(ts_era(block)))) return;
    ts_block **list = scope ? &heap->free_scope : &heap->free_churn;
    block->heap_next = *list;
    *list = block;
    ts_add_owned(&heap->free_blocks[scope], 1);
}

/* The block is killed, its epoch's list has it no more, and its allocator has no care. All that it has dies, and its slabs become
   warm; true: that are more than a share keeps (ts_share_overflow). free: it becomes one of the heap's free ones, else it stays
   in its epoch, for its next era. Caller holds the heap. */
TS_ALWAYS_INLINE bool ts_scope_empty(ts_heap *heap, ts_scope_block *block, const bool free) {
    ts_share *share = block->b.share;
    ts_share_fold(share, TS_COUNT_SCOPE, ts_scope_allocs_held(block));
    if (TS_UNLIKELY(ts_is_piece(block->tail))) ts_scope_part_pieces(block);
    uint32_t slabs = ts_load_relaxed(&block->b.slabs);
    uint32_t head = block->head, tail = block->tail;
    block->head = block->tail = 0;
    ts_store_relaxed(&block->current, 0);
    ts_store_relaxed(&block->limit, 0);
    block->bits = NULL;
    ts_store_relaxed(&block->bump, 0);
    ts_store_relaxed(&block->allocs, 0);
    ts_keep_relaxed(&block->frees, 0);
    ts_store_relaxed(&block->bytes_allocated, 0); /* mostly it is not 0, but in a build that does not count */
    ts_keep_relaxed(&block->bytes_freed, 0);
    if (free)
        ts_block_set_free(heap, &block->b, true);
    else
        ts_store_relaxed(&block->b.slabs, 0);
    return ts_share_add_warm(share, TS_NORMAL, head, tail, slabs);
}
TS_ALWAYS_INLINE bool ts_scope_end(ts_heap *heap, ts_scope_block *block) { return ts_scope_empty(heap, block, true); }

#endif
