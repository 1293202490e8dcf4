/*
 * An ended block can go to any thread. What its last owner's side has of it:
 *  1. block->heap, by which an owner knows its blocks (alloc.c: free_own). It is the owner's heap until the owner itself,
 *     holding it, writes another: so what is seen to be its own inside of its heap stays so until it leaves.
 *  2. The hints of its heap and thread (map, scope_map, ts_thread), which are believed by open_id and `rolling` alone:
 *     those that lead to blocks that are open to nothing are dropped first. The hints of domains are believed by
 *     block->heap too, read after open_id (domain.c: is_block_of).
 *  3. Others' frees that read block->heap while it was in use, and push a dead slab there: whoever drains that queue
 *     takes the flag off (foreign.c, 4). If they read it afterwards they push on a heap without a thread, and drain it.
 * Its era goes on, and so do those of the words that lead to it.
 */
#include "base/assert.h"
#include "base/bits.h"
#include "heap/heap.h"

static ts_lock lock; /* rank TABLE: the lists of free blocks of ts_heap_nobody */

void ts_block_pool_init(void) { ts_lock_init(&lock, TS_RANK_TABLE); }

static void drop_hints(ts_heap *heap) {
    for (unsigned i = 0; i < TS_HEAP_MAP; i++) {
        if (heap->map[i] && ts_load_relaxed(&heap->map[i]->b.open_id) == TS_ID_NEVER) heap->map[i] = NULL;
        if (heap->scope_map[i] && ts_load_relaxed(&heap->scope_map[i]->b.open_id) == TS_ID_NEVER)
            heap->scope_map[i] = NULL;
    }
    if (ts_load_relaxed(&ts_thread.block->b.open_id) == TS_ID_NEVER) ts_thread.block = &ts_no_block;
    if (ts_load_relaxed(&ts_thread.rolling->b.open_id) == TS_ID_NEVER) ts_thread.rolling = &ts_no_block;
    if (ts_load_relaxed(&ts_load_relaxed(&ts_thread.scope)->b.open_id) == TS_ID_NEVER)
        ts_set_scope(&ts_thread, &ts_no_scope);
}

/* A block can have a magazine for each class, which is seven times its own size: they go to whatever bin is next. */
static void give_magazines(ts_churn_block *block) {
    for (uint64_t left = ts_load_relaxed(&block->b.bins_used); left; left &= left - 1) {
        ts_bin *bin = &block->bin[ts_ctz64(left)];
        ts_lines_give(TS_LINES_MAGAZINE, bin->magazine);
        bin->magazine = NULL;
    }
    ts_store_relaxed(&block->b.bins_used, 0);
}

static uint32_t give_kind(ts_heap *heap, bool scope, uint32_t keep, uint32_t most) {
    ts_block **from = scope ? &heap->free_scope : &heap->free_churn,
             **to = scope ? &ts_heap_nobody->free_scope : &ts_heap_nobody->free_churn;
    ts_block *first = *from, *last = NULL;
    uint32_t moved = 0;
    for (; *from && moved < most && ts_load_relaxed(&heap->free_blocks[scope]) > keep; moved++) {
        last = *from;
        *from = last->heap_next;
        ts_add_owned(&heap->free_blocks[scope], (uint32_t)-1);
        if (!scope) give_magazines(ts_churn(last));
        ts_store_release(&last->heap, ts_heap_nobody);
    }
    if (!last) return 0;
    ts_lock_acquire(&lock);
    last->heap_next = *to;
    *to = first;
    ts_add_owned(&ts_heap_nobody->free_blocks[scope], moved);
    ts_lock_release(&lock);
    return moved;
}

void ts_heap_give_blocks(ts_heap *heap, uint32_t churn, uint32_t scope, uint32_t most) {
    if (!heap->free_churn && !heap->free_scope) return;
    if (heap == ts_thread.heap) drop_hints(heap); /* of an ended thread: ts_heap_make clears its heap's */
    most -= give_kind(heap, false, churn, most);
    (void)give_kind(heap, true, scope, most);
}

void ts_heap_give_surplus(ts_heap *heap) {
    ts_heap_enter(heap);
    ts_heap_give_blocks(heap, TS_FREE_CHURN_BLOCKS - TS_FREE_BLOCKS_MOVED, TS_FREE_SCOPE_BLOCKS - TS_FREE_BLOCKS_MOVED,
                        TS_FREE_BLOCKS_MOVED);
    ts_heap_leave(heap);
}

void ts_heap_fetch_blocks(ts_heap *heap, bool scope) {
    ts_block **from = scope ? &ts_heap_nobody->free_scope : &ts_heap_nobody->free_churn,
             **to = scope ? &heap->free_scope : &heap->free_churn;
    uint32_t moved = 0;
    ts_assert(2, *to == NULL);
    if (ts_load_relaxed(&ts_heap_nobody->free_blocks[scope]) == 0) return; /* a hint: at worst one block more is made */
    ts_lock_acquire(&lock);
    for (; *from && moved < TS_FREE_BLOCKS_MOVED; moved++) {
        ts_block *block = *from;
        *from = block->heap_next;
        block->heap_next = *to;
        *to = block;
        ts_store_release(&block->heap, heap);
    }
    ts_add_owned(&ts_heap_nobody->free_blocks[scope], 0 - moved);
    ts_lock_release(&lock);
    ts_add_owned(&heap->free_blocks[scope], moved);
}

void ts_block_pool_fork_prepare(void) { ts_lock_acquire_for_fork(&lock); }
void ts_block_pool_fork_done(void) { ts_lock_release_for_fork(&lock); }
