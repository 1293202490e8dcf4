/*
 * What could go wrong: a block goes to another thread, while its last owner, or a thread that frees, takes it for the
 * block that it was. It does not. A path to a block is believed only while the block itself agrees: its owner, its
 * epoch, its era. The end of a block changes these before another thread gets it, and an era never comes back.
 *
 * An ended block can go to any thread. Its last owner's side may still have this of it:
 *  1. block->heap, by which an owner knows its blocks (free.c). It names the owner's heap until the owner itself,
 *     holding it, writes another. So a block that an owner has seen to be its own, inside of its heap, stays so until
 *     it leaves.
 *  2. The hints of its heap and thread (map, scope_map, ts_thread). They are believed by open_id and `rolling` alone.
 *     Hints that lead to blocks that are open to nothing are dropped before the block goes. Hints of domains are
 *     believed by block->heap, too, which is read after open_id (enter.c: is_block_of).
 *  3. Frees of other threads that read block->heap while it was in use, and push a dead slab there. The thread that
 *     drains that queue takes the flag off (foreign.c, 4). If they read block->heap later, they push on a heap
 *     without a thread, and drain it.
 * The era goes on, and so do the eras of the words that lead to the block.
 *
 * Churn blocks that nobody has, beyond TS_POOL_CHURN_BLOCKS, go without their memory, a page each (chunk.h). The page
 * then reads as zero: a block that is open to nothing, of no epoch, allocator or heap, in era 0, which no word has.
 * The note of its chunk keeps its era, and the block gets it back before its next use. So a thread that looks at it
 * by an old word finds it dead at any time.
 *
 * A thread may find the block alive, and then lose the processor while the block ends, goes without memory, or is taken
 * again. It then reads fields of nothing, or of the next use. It would read that of any ended block, except that a
 * heap, epoch or share may be NULL. Frees look whether the heap is NULL (foreign.c: block_owner; heap.c:
 * ts_heap_hold_of), and others only compare it. Epochs are looked at before they are used. Shares are read by holders
 * of the block's heap, so that the block does not end.
 */
#include "ownership/ownership.h"

#include "base/base.h"
#include "os/os.h"

static ts_lock lock; /* rank TABLE: the list of free scope blocks of ts_heap_nobody, and ts_churn_pool */
ts_chunk_pool ts_churn_pool;

void ts_block_pool_init(void) {
    ts_lock_init(&lock, TS_RANK_TABLE);
    ts_chunk_pool_init(&ts_churn_pool, &lock);
}

static bool is_dropped(const ts_block *hint, const ts_block *block) {
    return block ? hint == block : ts_load_relaxed(&hint->open_id) == TS_ID_NEVER;
}

void ts_heap_drop_hints(ts_heap *heap, const ts_block *block) {
    for (unsigned i = 0; i < TS_HEAP_MAP; i++) {
        if (heap->map[i] && is_dropped(&heap->map[i]->b, block)) heap->map[i] = NULL;
        if (heap->scope_map[i] && is_dropped(&heap->scope_map[i]->b, block)) heap->scope_map[i] = NULL;
    }
    if (is_dropped(&ts_thread.block->b, block)) ts_thread.block = &ts_no_block;
    if (is_dropped(&ts_thread.rolling->b, block)) ts_thread.rolling = &ts_no_block;
    if (is_dropped(&ts_thread.last->b, block)) ts_thread.last = &ts_no_scope;
    if (is_dropped(&ts_thread.counted->b, block)) ts_thread.counted = &ts_no_block;
    if (is_dropped(&ts_thread.counted_scope->b, block)) ts_thread.counted_scope = &ts_no_scope;
    if (is_dropped(&ts_load_relaxed(&ts_thread.scope)->b, block)) ts_set_scope(&ts_thread, &ts_no_scope);
}

/* A block can have a magazine for each class, which is six times its own size: they go to whatever bin is next. */
static void give_magazines(ts_churn_block *block) {
    for (uint64_t left = ts_load_relaxed(&block->b.bins_used); left; left &= left - 1) {
        ts_bin *bin = &block->bin[ts_ctz64(left)];
        if (!ts_is_own_magazine(block, bin->magazine)) ts_lines_give(TS_LINES_MAGAZINE, bin->magazine);
        bin->magazine = NULL;
    }
    ts_store_relaxed(&block->b.bins_used, 0);
}

/* Takes an ended block off the heap's list. NULL: the list has `keep` blocks at most. */
static ts_block *take_first(ts_heap *heap, bool scope, uint32_t keep) {
    ts_block **list = scope ? &heap->free_scope : &heap->free_churn, *block = *list;
    if (!block || ts_load_relaxed(&heap->free_blocks[scope]) <= keep) return NULL;
    *list = block->heap_next;
    ts_add_owned(&heap->free_blocks[scope], (uint32_t)-1);
    return block;
}

/* Those that ended last are taken first, as they would be here. */
static uint32_t give_churn(ts_heap *heap, uint32_t keep, uint32_t most) {
    ts_block *given = NULL;
    uint32_t moved = 0;
    for (ts_block *block; moved < most && (block = take_first(heap, false, keep)) != NULL; moved++) {
        give_magazines(ts_churn(block));
        ts_chunk_note_of(ts_chunk_of(block))->kept = (uint32_t)ts_era(block);
        ts_store_release(&block->heap, ts_heap_nobody);
        block->heap_next = given;
        given = block;
    }
    if (!given) return 0;
    ts_lock_acquire(&lock);
    for (; given; given = given->heap_next) ts_chunk_give(&ts_churn_pool, ts_chunk_of(given));
    ts_lock_release(&lock);
    return moved;
}

static void give_scope(ts_heap *heap, uint32_t keep, uint32_t most) {
    ts_block *first = heap->free_scope, *last = NULL;
    uint32_t moved = 0;
    for (ts_block *block; moved < most && (block = take_first(heap, true, keep)) != NULL; moved++) {
        ts_store_release(&block->heap, ts_heap_nobody);
        last = block;
    }
    if (!last) return;
    ts_lock_acquire(&lock);
    last->heap_next = ts_heap_nobody->free_scope;
    ts_heap_nobody->free_scope = first;
    ts_add_owned(&ts_heap_nobody->free_blocks[true], moved);
    ts_lock_release(&lock);
}

void ts_heap_give_blocks(ts_heap *heap, uint32_t churn, uint32_t scope, uint32_t most) {
    if (!heap->free_churn && !heap->free_scope) return;
    if (heap == ts_thread.heap) ts_heap_drop_hints(heap, NULL); /* of an ended thread: ts_heap_make clears its heap's */
    most -= give_churn(heap, churn, most);
    give_scope(heap, scope, most);
}

void ts_heap_give_surplus(ts_heap *heap) {
    if (!ts_heap_try_enter(heap)) return; /* another time */
    ts_heap_give_blocks(heap, TS_FREE_CHURN_BLOCKS - TS_FREE_BLOCKS_MOVED, TS_FREE_SCOPE_BLOCKS - TS_FREE_BLOCKS_MOVED,
                        TS_FREE_BLOCKS_MOVED);
    ts_heap_leave(heap);
}

static void take_in(ts_heap *heap, ts_block *block) {
    ts_block **list = block->scope ? &heap->free_scope : &heap->free_churn;
    block->heap_next = *list;
    *list = block;
    ts_store_release(&block->heap, heap);
    ts_add_owned(&heap->free_blocks[block->scope], 1);
}

/* One without memory comes alone: the system finds a page for it when it is written to. It is zero, a churn block's
   `scope` too, which is not written for that reason: others may look at it by old words. */
static void fetch_churn(ts_heap *heap) {
    bool bare = false;
    for (uint32_t moved = 0; moved < TS_FREE_BLOCKS_MOVED && !bare && ts_chunk_pool_has(&ts_churn_pool); moved++) {
        ts_lock_acquire(&lock);
        uint32_t chunk = ts_chunk_take(&ts_churn_pool, &bare);
        ts_lock_release(&lock);
        if (!chunk) return;
        ts_block *block = ts_chunk_address(chunk);
        ts_store_relaxed_if_changed(&block->key, ts_chunk_note_of(chunk)->kept);
        take_in(heap, block);
    }
}

static void fetch_scope(ts_heap *heap) {
    ts_block **from = &ts_heap_nobody->free_scope;
    uint32_t moved = 0;
    if (ts_load_relaxed(&ts_heap_nobody->free_blocks[true]) == 0) return;
    ts_lock_acquire(&lock);
    for (; *from && moved < TS_FREE_BLOCKS_MOVED; moved++) {
        ts_block *block = *from;
        *from = block->heap_next;
        take_in(heap, block);
    }
    ts_add_owned(&ts_heap_nobody->free_blocks[true], 0 - moved);
    ts_lock_release(&lock);
}

static bool make_block(ts_heap *heap, bool scope) {
    ts_block *block = scope ? ts_lines_take(TS_LINES_SCOPE_BLOCK, sizeof(ts_scope_block))
                            : ts_lines_take(TS_LINES_CHURN_BLOCK, sizeof(ts_churn_block));
    if (!block) return false;
    block->scope = scope;
    ts_store_relaxed(&block->key, 1);
    take_in(heap, block);
    return true;
}

/* Looks without the lock whether there are any: at worst one block more is made. */
bool ts_heap_fetch_blocks(ts_heap *heap, bool scope) {
    ts_assert(2, (scope ? heap->free_scope : heap->free_churn) == NULL);
    (scope ? fetch_scope : fetch_churn)(heap);
    return (scope ? heap->free_scope : heap->free_churn) != NULL || make_block(heap, scope);
}

/* ---- memory of records without an owner ----------------------------------------------------------------------- */

void ts_records_purge(bool all) {
    ts_chunk_purge(&ts_churn_pool, all ? 0 : TS_POOL_CHURN_BLOCKS, UINT32_MAX);
    ts_chunk_purge(&ts_magazine_pool, all ? 0 : TS_POOL_MAGAZINE_CHUNKS, UINT32_MAX);
}

void ts_block_pool_fork_prepare(void) { ts_lock_acquire_for_fork(&lock); }
void ts_block_pool_fork_done(void) { ts_lock_release_for_fork(&lock); }
