/* Blocks that have ended, and wait for their next epoch. The argument is in block_pool.c. */
#ifndef TS_OWNERSHIP_BLOCK_POOL_H
#define TS_OWNERSHIP_BLOCK_POOL_H

#include "ownership/heap.h"

/* Ended blocks that a thread keeps for its next epochs: at most 800 KiB of churn blocks, if each has had objects of
   every class (4 KiB and 40 magazines each), and 58 KiB of scope blocks. All threads may take the others, so that
   there are never many more blocks than were in use at once. */
#define TS_FREE_CHURN_BLOCKS 32u
#define TS_FREE_SCOPE_BLOCKS 256u
#define TS_FREE_BLOCKS_MOVED 16u /* at a time */
/* The free churn blocks that keep their memory (8 MiB), and the free chunks of magazines that do (2 MiB). */
#define TS_POOL_CHURN_BLOCKS 2048u
#define TS_POOL_MAGAZINE_CHUNKS 512u

void ts_block_pool_init(void);
/* Gives ended blocks to all threads until the heap has `churn` churn blocks and `scope` scope blocks at most. It
   gives `most` blocks at most. Caller holds the heap: its owner, which has no pointer to an ended block; or a thread
   that holds an ended thread's heap. */
void ts_heap_give_blocks(ts_heap *heap, uint32_t churn, uint32_t scope, uint32_t most);
/* Gives some of those that are too many. The owner, not inside. */
void ts_heap_give_surplus(ts_heap *heap);
TS_ALWAYS_INLINE bool ts_heap_has_surplus(const ts_heap *heap) {
    return TS_UNLIKELY(ts_load_relaxed(&heap->free_blocks[0]) > TS_FREE_CHURN_BLOCKS) ||
           TS_UNLIKELY(ts_load_relaxed(&heap->free_blocks[1]) > TS_FREE_SCOPE_BLOCKS);
}
/* The thread drops its hints that lead to the block; NULL: to all blocks that are open to nothing. */
void ts_heap_drop_hints(ts_heap *heap, const ts_block *block);
static inline void ts_heap_limit_blocks(ts_heap *heap) {
    if (ts_heap_has_surplus(heap)) ts_heap_give_surplus(heap);
}
/* Puts a block onto the heap's empty list: some that others gave, or a new one. false: no memory. Caller holds the
   heap. */
bool ts_heap_fetch_blocks(ts_heap *heap, bool scope);

/* Churn blocks that nobody has, in their chunks. */
extern TS_HIDDEN ts_chunk_pool ts_churn_pool;
/* Gives back the memory of free churn blocks and of free chunks of magazines: of all, or except of those that may keep
   it. Caller holds nothing. */
void ts_records_purge(bool all);
/* As ts_records_purge, but bounded: at the end of an epoch, which adds a block, and two chunks of magazines if it has
   used 18 classes. */
static inline void ts_records_settle(void) {
    if (TS_UNLIKELY(ts_load_relaxed(&ts_churn_pool.count) > TS_POOL_CHURN_BLOCKS))
        ts_chunk_purge(&ts_churn_pool, TS_POOL_CHURN_BLOCKS, 2);
    if (TS_UNLIKELY(ts_load_relaxed(&ts_magazine_pool.count) > TS_POOL_MAGAZINE_CHUNKS))
        ts_chunk_purge(&ts_magazine_pool, TS_POOL_MAGAZINE_CHUNKS, 2);
}
void ts_block_pool_fork_prepare(void);
void ts_block_pool_fork_done(void);

/* The first of the heap's free blocks begins its use. It is not in the epoch's list yet, nor open. Its last use left
   it in no epoch, and shut. */
TS_ALWAYS_INLINE void ts_block_begin(ts_heap *heap, ts_share *share, struct ts_epoch *epoch, ts_block *block,
                                     const bool scope) {
    *(scope ? &heap->free_scope : &heap->free_churn) = block->heap_next;
    ts_add_owned(&heap->free_blocks[scope], (uint32_t)-1);
    /* A cached pointer to the block's last use must not be taken for the new one. */
    if (scope) {
        if (TS_UNLIKELY((void *)ts_load_relaxed(&ts_thread.scope) == (void *)block))
            ts_set_scope(&ts_thread, &ts_no_scope);
        if (TS_UNLIKELY((void *)ts_thread.last == (void *)block)) ts_thread.last = &ts_no_scope;
    } else {
        if ((void *)ts_thread.rolling == (void *)block) ts_thread.rolling = &ts_no_block;
        /* It may be another allocator's now, and one with care does not change the token (ts_heap_bind). */
        if ((void *)ts_thread.block == (void *)block) ts_thread.block = &ts_no_block;
        ts_keep_relaxed(&block->rolling, 0); /* in a child of fork: its thread vanished in make_rolling */
    }
    ts_assert(2, ts_load_relaxed(&block->open_id) == TS_ID_NEVER && ts_load_relaxed(&block->heap) == heap &&
                     ts_load_relaxed(&block->key) == (TS_KEY_FINE | ts_era(block)));
    ts_keep_relaxed(&block->allocator, share->token);
    ts_keep(&block->closing, TS_OPEN);
    ts_keep_relaxed(&block->flushed, 0);
    ts_keep(&block->share, share);
    ts_keep(&block->slow, share->slow[scope]);
    ts_store_relaxed(&block->era, (uint32_t)ts_era(block));
    ts_keep_relaxed(&block->resets, 0);
    ts_store_release(&block->epoch, epoch); /* after the last use: object.c, snapshot.c (epoch_of) */
    ts_heap_link(block);
}

/* A block for an epoch, begun. NULL: no memory. */
static inline ts_block *ts_block_take(ts_heap *heap, ts_share *share, struct ts_epoch *epoch, bool scope) {
    ts_block **list = scope ? &heap->free_scope : &heap->free_churn;
    if (TS_UNLIKELY(*list == NULL) && !ts_heap_fetch_blocks(heap, scope)) return NULL;
    ts_block *block = *list;
    ts_block_begin(heap, share, epoch, block, scope);
    return block;
}

#endif
