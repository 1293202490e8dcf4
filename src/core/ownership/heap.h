/*
 * What a thread owns (types.h), and how it passes from hand to hand.
 *
 * Ownership and the two kinds of hand-over
 *  1. A heap is owned by its thread. What is marked (h) is changed only by a thread that HOLDS the heap: its
 *     owner between ts_heap_enter and ts_heap_leave, or any thread between a ts_heap_hold that returned true
 *     and ts_heap_drop. The two exclude one another.
 *  2. The bins of a block are changed by the owner's fast paths too, without holding the heap, while the block
 *     is OPEN TO ITS OWNER (block->key names its share). To touch the bins of a live thread, another thread
 *     first shuts the block (key, open_id) and then holds the heap.
 *
 * Why that is enough. Every operation of a thread on its blocks, but for the one below, is bracketed by in_op = 1 ... in_op = 0
 * in its thread block. ts_heap_hold writes `revoked`, then runs ts_os->barrier_all(), then looks at in_op:
 *     owner:  in_op = 1;  (compiler fence)   read key / open_id / revoked
 *     other:  write key, open_id, revoked; barrier_all;  read in_op
 * This is the store-then-load protocol with the owner's machine fence replaced by the other's barrier_all: an
 * operation that read the old values began before the barrier, so its in_op = 1 is visible after it, and in_op == 0 shows that
 * it is over (release/acquire on in_op hands over all that it wrote). An operation that begins later reads the new values,
 * leaves the fast path, and stops in ts_heap_enter at `revoked`.
 *
 * Nobody waits for an operation of another, nor for a heap that a third thread holds: either may have lost its processor. Who
 * cannot hold a heap LEAVES the work to it, and CALLS. What is left are blocks, on the heap's list `condemned` (block.c), and slabs
 * on its queue.
 *  1. A call counts `revoked` on by TS_CALLED, after what is left was written, and then tries to hold the heap once more. Who has
 *     the heap's lock looks at the count after he has released it (ts_heap_drop, hold, ts_heap_enter_revoked; a seq_cst fence on
 *     both sides): one of the two sees the other.
 *  2. A thread that is in the middle of an operation is sent out of its usual paths: its token is written over (call_thread), after the
 *     barrier of that hold. Either it wrote its token before that barrier, and it is gone; or it reads `revoked` after it has
 *     written it (ts_heap_bind), finds the call, and takes it back. So the next call of that thread, an allocation or free of any epoch,
 *     is a slow one, at whose end ts_epoch_settle answers (ts_heap_answer). Only slab_alloc looks at no token: its thread
 *     answers when it needs a slab, or leaves or ends a domain.
 *  3. An answer takes the count to 0 before it looks at what is left, so what comes later is called again.
 *  4. Who holds the heap of a thread that lives takes what is left off the list and then runs one barrier more, as it may have been
 *     left, and its block shut, after the barrier of the hold; if the thread is in an operation again by then, it is put back.
 *  5. Later closes and every trim hold the heaps that are called, so a thread that rests afterwards keeps nothing.
 *
 * An allocation from the current slab of a scope (slab_alloc) needs no store of 0. It begins by storing the bump word, which is a
 * place and how many objects began before it in its slab (the place alone where in_op has 32 bits), and ends by moving that on:
 *     owner:  at = bump;  in_op = at (release);  (compiler fence)  read open_id;  start bit;  bump = at + bytes (release)
 *     other:  ... barrier_all;  read in_op, then scope, then its bump
 * While the operation goes on, bump is at: nobody else changes that of an open block, and who has shut it waits. If bump
 * is another, it is over, or has come to nothing: every way out of the usual case begins as an operation of its own
 * (in_op = 1) and reads open_id and revoked again. The release in the beginning is for the operation before, whose end it
 * covers up. What is left in in_op afterwards never becomes true again by itself: bump comes back to a place only with
 * another use of the slab, or as an object shrinks, and both are operations that end with a 0; and the bump of another
 * block that the thread goes to without one is in another slab, or at the end of one, which is the place of no object
 * that began so: the first of a slab comes with the slab.
 *
 * Where the system has no such barrier, a live thread's heap cannot be held: what is left waits for its next slow call, its
 * exit, or slab_thread_idle.
 *
 * A thread that waits for another's operation (fork; a free with care) is in none, and who is in one waits for no lock below
 * rank HEAP: so no circle of waiting can form.
 *
 * Conservation, per bin: pops + word_allocs - pushes - direct frees == live slots of the bin's slabs, always outside of an
 * operation (types.h; word_allocs: ts_bin_word_allocs). These are what the statistics sum up.
 */
/* Modelled in tests/model: foreign, hold, bump, epoch, enter, orders. */
#ifndef TS_OWNERSHIP_HEAP_H
#define TS_OWNERSHIP_HEAP_H

#include "base/assert.h"
#include "ownership/types.h"

#include <stddef.h>

static inline ts_block *ts_block_of_line(uint64_t line, bool scope) {
    uintptr_t at = (uintptr_t)ts_line_address(line);
    return (ts_block *)(scope ? at : at & ~(uintptr_t)(TS_CHURN_BLOCK_ALIGN - 1));
}
static inline unsigned ts_bin_class(const ts_churn_block *block, const ts_bin *bin) {
    return (unsigned)(bin - block->bin);
}
/* The token of a thread that is called: no allocator's, and none that a program has seen, unlike the one of a thread that has no usual
   paths at all: what these look at besides is still there. */
#define TS_TOKEN_CALLED ((uintptr_t)&ts_no_block)
#define TS_KEY_SHARE_SHIFT 32u                                       /* of a block's key: the upper half */
#define TS_KEY_FINE TS_UNIT_FINE                                     /* in every key */
#define TS_KEY_NO_SHARE ((uint64_t)UINT32_MAX << TS_KEY_SHARE_SHIFT) /* in no block's key */
/* Of the key of a block of the share that is open: all but the era. */
static inline uint64_t ts_share_key(const ts_share *share) {
    return (uint64_t)ts_line_of(share) << TS_KEY_SHARE_SHIFT | TS_KEY_FINE;
}
static inline uint64_t ts_word_era(uint64_t word) { return word & TS_UNIT_ERA_MASK; }
static inline uint64_t ts_word_line(uint64_t word) { return word >> TS_UNIT_LINE_SHIFT; }
static inline uint64_t ts_era(const ts_block *block) { return ts_load_acquire(&block->key) & TS_UNIT_ERA_MASK; }
static inline void ts_block_shut(ts_block *block) {
    atomic_fetch_and_explicit(&block->key, TS_KEY_FINE | TS_UNIT_ERA_MASK, memory_order_relaxed);
}
/* Shut, and all its slabs are stale, before any of them can be reset (foreign.c, 5). seq_cst: see ts_slab_next_generation. */
static inline void ts_block_kill(ts_block *block) {
    uint64_t key = ts_load_relaxed(&block->key);
    while (!atomic_compare_exchange_weak_explicit(&block->key, &key, TS_KEY_FINE | ((key & TS_UNIT_ERA_MASK) + 1),
                                                  memory_order_seq_cst, memory_order_relaxed)) {
    }
}
/* Whether it is of a class below 64 bytes: by where it lies in its block. */
TS_ALWAYS_INLINE bool ts_bin_is_fine(const ts_bin *bin) {
    return ((uintptr_t)bin & (TS_CHURN_BLOCK_ALIGN - 1)) <
           offsetof(ts_churn_block, bin) + TS_FINE_CLASSES * sizeof(ts_bin);
}
TS_ALWAYS_INLINE ts_churn_block *ts_bin_block(const ts_bin *bin) {
    return (ts_churn_block *)((uintptr_t)bin & ~(uintptr_t)(TS_CHURN_BLOCK_ALIGN - 1));
}
static inline ts_bin *ts_bin_at(ts_churn_block *block, size_t offset) {
    return (ts_bin *)(void *)((char *)block + offset);
}
/* Of objects of so many bytes: the table has the small ones, the others are computed. NULL: they are spans. */
TS_ALWAYS_INLINE ts_bin *ts_bin_of(ts_churn_block *block, size_t size) {
    if (TS_LIKELY(size <= TS_MAX_CLASS_BYTES)) {
        ts_bin *small = ts_bin_at(block, ts_classes.bin[size]);
        TS_ASSUME(small != NULL); /* so that a caller's test for NULL is no instruction of the usual case */
        return small;
    }
    if (TS_UNLIKELY(size > TS_MAX_SLAB_BYTES)) return NULL;
    ts_bin *large = &block->bin[TS_LARGE_CLASS] + ((size - 1) >> TS_UNIT_SHIFT);
    TS_COMPUTED(large); /* else each of its members is addressed from the block, and its place computed for each */
    TS_ASSUME(large != NULL);
    return large;
}
static inline ts_churn_block *ts_churn(ts_block *b) { return (ts_churn_block *)(void *)b; }
/* Whether a magazine of the block is one of those in it. */
static inline bool ts_is_own_magazine(const ts_churn_block *block, const ts_magazine *magazine) {
    return (uintptr_t)magazine - (uintptr_t)block < sizeof *block;
}
static inline ts_scope_block *ts_scope(ts_block *b) { return (ts_scope_block *)(void *)b; }
/* The UNIT word of a slab of the block in its present use. */
TS_ALWAYS_INLINE uint64_t ts_scope_word(const ts_scope_block *block) {
    return TS_UNIT_SCOPE | (uint64_t)ts_line_of(block) << TS_UNIT_LINE_SHIFT | ts_load_relaxed(&block->b.era);
}

/* ---- brackets --------------------------------------------------------------------------------- */

#define TS_IN_OP 1u
TS_ALWAYS_INLINE void ts_op_begin(ts_tls *tls) {
    ts_store_relaxed(&tls->in_op, TS_IN_OP);
    ts_compiler_fence(); /* partner: barrier_all in ts_heap_hold */
}
/* The same of one that ends with a release store to the bump word of the thread's scope block, which is `bump`. 0: it has not
   begun. release: who sees this sees the end of the operation before. */
TS_ALWAYS_INLINE void ts_op_begin_bump(ts_tls *tls, uint64_t bump) {
    ts_store_release(&tls->in_op, ts_bump_name(bump));
    ts_compiler_fence(); /* likewise */
}
/* release: partner of the acquire in ts_is_in_op, hands over what the operation wrote */
TS_ALWAYS_INLINE void ts_op_end(ts_tls *tls) { ts_store_release(&tls->in_op, 0); }
/* Whether a thread may be inside of an operation that it began before the caller's barrier_all. false: what those wrote is seen. Of
   one that it began later the answer says nothing. */
static inline bool ts_is_in_op(const ts_tls *tls) {
    uintptr_t at = ts_load_acquire(&tls->in_op); /* partners: ts_op_end, ts_op_begin_bump */
    if (at <= TS_IN_OP) return at != 0;
    /* acquire: who goes to another block has ended what he did in the last (ts_set_scope). The block is one for ever, whoever
       uses it. */
    const ts_scope_block *block = ts_load_acquire(&tls->scope);
    return ts_bump_name(ts_load_acquire(&block->bump)) == at; /* partner: the end of the operation */
}
/* Where slab_alloc looks first. Caller: the thread itself. */
TS_ALWAYS_INLINE void ts_set_scope(ts_tls *tls, ts_scope_block *block) {
    ts_store_release(&tls->scope, block); /* partner: ts_is_in_op */
}

/* The owner begins and ends work on its own heap. Not nested; no lock of rank below HEAP may be waited for inside. */
static inline void ts_heap_enter(ts_heap *heap);
static inline void ts_heap_leave(ts_heap *heap);
/* The rest of ts_heap_enter: another thread holds the heap, or is about to. Ends the operation and waits for it. */
void ts_heap_enter_revoked(ts_heap *heap);
/* Any thread but the owner inside an operation; it waits for nobody. true: the heap is held. false: another thread holds it, or its
   own is in the middle of an operation. */
bool ts_heap_hold(ts_heap *heap);
/* The same of who has left something to the heap's thread: false: that one, or who holds the heap, works it off. */
bool ts_heap_call(ts_heap *heap);
void ts_heap_drop(ts_heap *heap);
/* Whether something is left to its thread. A hint: others may be about to. */
static inline bool ts_heap_is_called(const ts_heap *heap) { return ts_load_relaxed(&heap->revoked) >= TS_CALLED; }
/* Works off what is left to the heap's thread: flushes and ends blocks, drains. Caller holds the heap. */
void ts_heap_work_off(ts_heap *heap);
/* The same of the calling thread's own heap, at the end of a call; of another's that can be held at once. Holds nothing. */
void ts_heap_answer(ts_heap *heap);

/* Notes for later, and the later: runs when this thread holds nothing and is in no operation. */
void ts_note_drained(ts_block *block);
void ts_settle_now(uint64_t purge_units);
/* After an operation on objects: purges a bounded part, the next one goes on. */
static inline void ts_settle_pending(void);
/* At the end of a phase during which `released` grew by so many: in proportion to them, or to what frees released
   before it. */
static inline void ts_settle_phase(uint64_t units);
/* When the thread stops or rests: all of it. */
static inline void ts_settle_all(void);

/* ---- life ------------------------------------------------------------------------------------- */

bool ts_heap_init(void);
/* The heap of this thread, made or reused if it has none. NULL: no memory. */
static inline ts_heap *ts_heap_mine(void);
ts_heap *ts_heap_make(void);
/* Exit callback of the os layer. */
void ts_heap_exit(void *heap);
/* One that never has a thread, in *at, if there is none yet. NULL: no memory. */
ts_heap *ts_heap_make_home(_Atomic(ts_heap *) *at);
/* First of the list of all heaps. */
ts_heap *ts_heaps(void);
/* Whether there is, or was, a thread with a heap besides this one. What the caller has written is seen by one that comes later. */
bool ts_heap_any_other(void);
/* The heap of no thread, abandoned from the beginning and never handed out. Its list of ended scope blocks is one that any heap may
   take from, as ts_churn_pool. */
extern TS_HIDDEN ts_heap *ts_heap_nobody;
/* The fast paths of this thread are for this allocator now. Not while timing is on, nor with care (care.h). */
void ts_heap_bind(ts_heap *heap, const ts_share *share);
void ts_heap_unbind(void);
/* This thread's share of the allocator with that token, if there is one: no other thread adds or drops any. */
static inline ts_share *ts_heap_find_share(const ts_heap *heap, uintptr_t token) {
    ts_share *share = heap->shares;
    while (share && share->token != token) share = share->heap_next;
    return share;
}
/* The same by way of those that were looked for last. By the heap's thread. */
static inline const ts_share *ts_heap_recent_share(ts_heap *heap, uintptr_t token) {
    _Atomic(ts_share *) *recent = &heap->recent[(uint32_t)token % TS_RECENT_SHARES];
    ts_share *share = ts_load_relaxed(recent);
    if (TS_UNLIKELY(share == NULL || share->token != token)) {
        share = ts_heap_find_share(heap, token);
        ts_store_relaxed(recent, share);
    }
    return share;
}
/* Empties magazines and claimed words of all blocks, drains, gives warm units away. Caller: not inside the heap. */
void ts_heap_idle(ts_heap *heap);
/* The same of one allocator, but for the records that nobody has. Holds nothing. */
void ts_heap_let_go(ts_heap *heap, const struct ts_allocator *allocator);
/* As ts_table_take and ts_table_give, by way of a few entries that the thread keeps. which: TS_TABLE_EPOCH, _DOMAIN. */
static inline void *ts_heap_take_entry(ts_table *table, unsigned which) {
    ts_heap *heap = ts_thread.heap;
    if (heap && heap->spares[which] > 0) return heap->spare[which][--heap->spares[which]];
    return ts_table_take(table);
}
TS_ALWAYS_INLINE void ts_heap_give_entry(ts_table *table, unsigned which, void *entry) {
    ts_heap *heap = ts_thread.heap;
    if (TS_UNLIKELY(!ts_table_end(table, entry))) return;
    unsigned n = heap ? heap->spares[which] : TS_SPARE_ENTRIES;
    if (TS_LIKELY(n < TS_SPARE_ENTRIES)) {
        heap->spares[which] = n + 1;
        ts_keep(&heap->spare[which][n], (ts_entry *)entry);
    } else {
        ts_table_free(table, entry);
    }
}
/* Of threads: a heap that has used up its own gets no other thread. The highest bit is never set. */
#define TS_SERIAL_NEXT ((uint64_t)1 << 28)
#define TS_SERIAL_LAST (((uint64_t)1 << 63) - TS_SERIAL_NEXT)
/* The entry of what that thread had, and another has ended: it is that thread's to use again. false: that one has ended, and all that it
   wrote is seen. Where it ends meanwhile, its heap's next thread gets the entry. */
static inline bool ts_heap_return_entry(uint64_t serial, ts_entry *entry) {
    ts_heap *heap = ts_line_address(serial % TS_SERIAL_NEXT);
    if (ts_load_acquire(&heap->state) != TS_HEAP_LIVE) return false; /* acquire: partner of the store in ts_heap_exit */
    uint32_t newest = ts_load_relaxed(&heap->returned);
    do entry->next_free = newest;
    while (!atomic_compare_exchange_weak_explicit(&heap->returned, &newest, entry->index, memory_order_release,
                                                  memory_order_relaxed));
    return true;
}
/* fork: prepare holds every heap, so that no list is half changed; operations of fast paths go on, so the child
   trusts only state words of other threads' blocks. */
void ts_heap_fork_prepare(void);
void ts_heap_fork_parent(void);
void ts_heap_fork_child(void);

/* ---- shares, in share.c ------------------------------------------------------------------------- */

/* This thread's share of an allocator, made if need be. NULL: no memory. */
ts_share *ts_heap_share(ts_heap *heap, struct ts_allocator *allocator);
/* Makes the share of a heap without a thread (orphan.c), which then is there until the allocator ends, unless another thread holds the heap.
   false: no memory, or it has ended. Holds nothing. */
bool ts_heap_share_of_home(ts_heap *home, struct ts_allocator *allocator);
/* What the blocks of the share are from now on: whether fast paths allocate in them. */
void ts_share_set_slow(ts_share *share);
/* Drops the shares of allocators that have ended and in which the heap has no block any more. Caller: the owner, in no
   allocation, or who holds the heap of an ended thread: only there no call can be using a share. */
void ts_heap_drop_dead_shares(ts_heap *heap);
/* The warm units of a share go to its allocator; how many there were. Caller holds the heap. */
uint64_t ts_share_give_warm(ts_share *share);
/* The spans that it keeps become runs. Caller has the warm lock, and holds the heap. Returns their units. */
uint32_t ts_share_give_spans(ts_share *share);

/* ---- ended blocks, in block_pool.c ---------------------------------------------------------------- */

void ts_block_pool_init(void);
/* Gives ended blocks to all threads until it has no more than so many of churn, and of scope; at most `most` in all.
   Caller holds the heap: its owner, with no pointer to an ended block, or who holds that of an ended thread. */
void ts_heap_give_blocks(ts_heap *heap, uint32_t churn, uint32_t scope, uint32_t most);
/* The owner, not inside: some of what is too many. */
void ts_heap_give_surplus(ts_heap *heap);
TS_ALWAYS_INLINE bool ts_heap_has_surplus(const ts_heap *heap) {
    return TS_UNLIKELY(ts_load_relaxed(&heap->free_blocks[0]) > TS_FREE_CHURN_BLOCKS) ||
           TS_UNLIKELY(ts_load_relaxed(&heap->free_blocks[1]) > TS_FREE_SCOPE_BLOCKS);
}
static inline void ts_heap_limit_blocks(ts_heap *heap) {
    if (ts_heap_has_surplus(heap)) ts_heap_give_surplus(heap);
}
/* Takes some of what others gave, onto the heap's own list, which is empty. Caller holds the heap. */
void ts_heap_fetch_blocks(ts_heap *heap, bool scope);
/* Churn blocks that nobody has, in their chunks. */
extern TS_HIDDEN ts_chunk_pool ts_churn_pool;
/* Chunks of these, and of magazines, that nobody has, give their memory back, but for as many as may keep theirs. Holds nothing. */
void ts_records_purge(void);
/* The same at the end of an epoch, which adds a block, and two chunks of magazines if it has used 18 classes. */
static inline void ts_records_settle(void) {
    if (TS_UNLIKELY(ts_load_relaxed(&ts_churn_pool.count) > TS_POOL_CHURN_BLOCKS))
        ts_chunk_purge(&ts_churn_pool, TS_POOL_CHURN_BLOCKS, 2);
    if (TS_UNLIKELY(ts_load_relaxed(&ts_magazine_pool.count) > TS_POOL_MAGAZINE_CHUNKS))
        ts_chunk_purge(&ts_magazine_pool, TS_POOL_MAGAZINE_CHUNKS, 2);
}
/* And of all of them. */
void ts_records_trim(void);
/* Shows each churn block that nobody has, as ts_chunk_pool_walk. */
const char *ts_block_pool_walk(ts_chunk_visit *visit, void *arg);
void ts_block_pool_fork_prepare(void);
void ts_block_pool_fork_done(void);

/* ---- blocks, in block.c; the caller holds the heap ---------------------------------------------- */

/* One more of the heap's free blocks, of which it has none. false: there is no memory. */
bool ts_block_make(ts_heap *heap, bool scope);
/* Ends a block, killed or not: its slabs go to the share's warm units, its counters to the share, live objects die. */
void ts_block_end(ts_heap *heap, ts_block *block);
/* The same of a scope block that is killed, shut, and never was the rolling epoch's. */
void ts_block_end_killed_scope(ts_heap *heap, ts_scope_block *block);
/* Gives magazine and claimed words back to the slabs, and the slabs that are empty to the share. Returns slabs looked
   at; adds those given to *recycled. */
uint32_t ts_block_flush(ts_heap *heap, ts_block *block, uint64_t *recycled);
/* Flushes the block if another thread has closed it but could not hold this heap then. Caller: the owner, or who holds
   the heap of an ended thread. */
void ts_block_flush_if_shut(ts_heap *heap, ts_block *block);
/* The same from the state words alone, for a block whose thread vanished. */
void ts_block_rebuild(ts_heap *heap, ts_block *block);
/* Flushes and ends the blocks on the list of those that are left. Caller: the owner, or who holds the heap of an ended thread. */
void ts_heap_end_condemned(ts_heap *heap);
/* At most so many of them: for one allocation. */
void ts_heap_end_condemned_some(ts_heap *heap, unsigned most);
#define TS_CONDEMNED_WORK 8u
/* The same of blocks that are off that list, linked by `left`. Caller holds the heap, since after they were left. */
void ts_heap_end_list(ts_heap *heap, ts_block *block);
/* Puts such blocks back. */
void ts_heap_leave_list(ts_heap *heap, ts_block *block);
/* What others left to the heap's thread because they could not hold it; and takes its warm units for the allocator. Any thread,
   holding nothing. */
void ts_heap_visit(ts_heap *heap, struct ts_allocator *allocator);
/* The same of a thread that rests; and its bins let go of empty slabs (ts_heap_shed). asks: it is to look at its magazines itself in its next
   call. false: it could not be held, or there are more. */
bool ts_heap_visit_resting(ts_heap *heap, struct ts_allocator *allocator, bool asks);
/* Empty slabs of this thread's bins become warm, those with objects in magazines and claimed words included; for who finds
   no memory. Whether there were any. Holds nothing. */
bool ts_heap_flush_bins(ts_heap *heap, const struct ts_allocator *allocator);
/* Leaves a block to its heap: to be ended, in which case the caller has pinned its allocator; to be flushed; or to be counted, by who has
   its epoch. Followed by ts_heap_call. */
void ts_heap_condemn(ts_heap *heap, ts_block *block);
void ts_heap_leave_shut(ts_heap *heap, ts_block *block);
void ts_heap_leave_uncounted(ts_heap *heap, ts_block *block);
/* The list of the block's share, which is set, and stays while the block is in it. */
static inline void ts_heap_link(ts_block *block) {
    ts_block *next = block->heap_next = block->share->blocks;
    if (next) next->heap_prev = block;
    block->share->blocks = block;
}
static inline void ts_heap_unlink(ts_block *block) {
    ts_block *next = block->heap_next;
    if (block->share->blocks == block) {
        block->share->blocks = next;
        return;
    }
    block->heap_prev->heap_next = next;
    if (next) next->heap_prev = block->heap_prev;
}
/* All blocks of a heap that are in use, share by share. A block's successor is asked for before it is ended. */
static inline ts_block *ts_share_first_block(const ts_share *share) {
    while (share && !share->blocks) share = share->heap_next;
    return share ? share->blocks : NULL;
}
/* Looks at the open churn blocks of a heap that the caller holds, of one allocator, or NULL: of all: bins in which its thread has allocated
   nothing since the last look let go of their empty slabs, and in its own thread of the magazine and the claimed word first. true: that was
   enough for one call, and there is more. */
bool ts_heap_shed(ts_heap *heap, const struct ts_allocator *allocator);
static inline ts_block *ts_heap_first_block(const ts_heap *heap) { return ts_share_first_block(heap->shares); }
static inline ts_block *ts_heap_next_block(const ts_block *block) {
    return block->heap_next ? block->heap_next : ts_share_first_block(block->share->heap_next);
}

/* The first of the heap's free blocks, not yet in the epoch's list nor open. Its last use left it in no epoch and shut. */
TS_ALWAYS_INLINE void ts_block_begin(ts_heap *heap, ts_share *share, struct ts_epoch *epoch, ts_block *block,
                                     const bool scope) {
    *(scope ? &heap->free_scope : &heap->free_churn) = block->heap_next;
    ts_add_owned(&heap->free_blocks[scope], (uint32_t)-1);
    /* A cached pointer to the block's last use must not be taken for the new one. */
    if (scope) {
        if (TS_UNLIKELY((void *)ts_load_relaxed(&ts_thread.scope) == (void *)block))
            ts_set_scope(&ts_thread, &ts_no_scope);
        if (TS_UNLIKELY((void *)ts_thread.last == (void *)block)) ts_thread.last = &ts_no_scope; /* likewise */
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

/* A block for an epoch, likewise. NULL: no memory. */
static inline ts_block *ts_block_take(ts_heap *heap, ts_share *share, struct ts_epoch *epoch, bool scope) {
    ts_block **list = scope ? &heap->free_scope : &heap->free_churn;
    if (TS_UNLIKELY(*list == NULL)) ts_heap_fetch_blocks(heap, scope);
    if (TS_UNLIKELY(*list == NULL) && !ts_block_make(heap, scope)) return NULL;
    ts_block *block = *list;
    ts_block_begin(heap, share, epoch, block, scope);
    return block;
}

typedef struct ts_tally {
    uint64_t allocated, freed, bytes_allocated, bytes_freed, slabs;
    uint64_t pieces; /* of these slabs */
} ts_tally;
/* Units of its slabs that are no pieces; and the memory of all. */
static inline uint64_t ts_tally_units(const ts_tally *t) {
    return t->slabs - (t->pieces < t->slabs ? t->pieces : t->slabs);
}
static inline uint64_t ts_tally_bytes(const ts_tally *t) {
    uint64_t units = ts_tally_units(t);
    return units * TS_UNIT_BYTES + (t->slabs - units) * TS_PIECE_BYTES;
}
/* Sums of a block; cls: a class, TS_COUNT_SCOPE, or UINT32_MAX for all. Any thread; exact at a quiet point. */
ts_tally ts_block_tally(const ts_block *block, uint32_t cls);

static inline void ts_settle_pending(void) {
    if (TS_UNLIKELY(ts_thread.settle != NULL || ts_thread.drain != NULL)) ts_settle_now(TS_PURGE_STEP);
}
static inline void ts_settle_phase(uint64_t units) {
    if (TS_LIKELY(ts_thread.settle == NULL && ts_thread.drain == NULL)) return;
    uint64_t released = ts_thread.released - ts_thread.phase_released;
    if (released < TS_PURGE_PHASE_UNITS) released = 0; /* by frees: such a phase is none */
    ts_thread.phase_released = ts_thread.released;
    if (units > released) released = units;
    ts_settle_now(released < 2 * TS_PURGE_LEAST_UNITS ? TS_PURGE_STEP : 2 * released);
}
static inline void ts_settle_all(void) {
    if (TS_UNLIKELY(ts_thread.settle != NULL || ts_thread.drain != NULL)) ts_settle_now(UINT64_MAX);
}

static inline void ts_heap_enter(ts_heap *heap) {
    ts_assert(2, !ts_is_in_op(&ts_thread) && heap == ts_thread.heap);
    ts_op_begin(&ts_thread);
    /* acquire: partner of the release in ts_heap_drop */
    if (TS_UNLIKELY(ts_load_acquire(&heap->revoked) != 0)) ts_heap_enter_revoked(heap);
}
/* The same, but it waits for nobody. false: another thread holds the heap, and the operation has not begun. */
static inline bool ts_heap_try_enter(ts_heap *heap) {
    ts_assert(2, !ts_is_in_op(&ts_thread) && heap == ts_thread.heap);
    ts_op_begin(&ts_thread);
    if (TS_LIKELY((ts_load_acquire(&heap->revoked) & TS_REVOKED) == 0)) return true; /* acquire: as in ts_heap_enter */
    ts_op_end(&ts_thread);
    return false;
}
static inline void ts_heap_leave(ts_heap *heap) {
    (void)heap;
    ts_op_end(&ts_thread);
}

/* Whether others have left anything on its lists. A hint: they may be about to. */
static inline bool ts_heap_is_waited_for(const ts_heap *heap) {
    uintptr_t blocks = (uintptr_t)ts_load_relaxed(&heap->condemned) | (uintptr_t)ts_load_relaxed(&heap->ending);
    return (ts_load_relaxed(&heap->queue) | ts_load_relaxed(&heap->backlog) | blocks) != 0;
}

static inline ts_heap *ts_heap_mine(void) {
    ts_heap *heap = ts_thread.heap;
    return TS_LIKELY(heap != NULL) ? heap : ts_heap_make();
}

/* ---- warm units, in warm.c ------------------------------------------------------------------------ */

void ts_warm_push(ts_warm *warm, uint32_t unit);
/* Units in a row that may have memory in all of their pages, whatever they were before; the first comes out first.
   Caller has the list's lock. */
void ts_warm_push_run(ts_warm *warm, uint32_t first, uint32_t count);
static inline uint32_t ts_warm_pop(ts_warm *warm) {
    uint32_t unit = warm->head;
    if (!unit) return 0;
    warm->head = ts_slab_at(unit)->next;
    if (!warm->head) warm->tail = 0;
    ts_add_owned(&warm->count, (uint32_t)-1);
    return unit;
}
/* from's units come before to's. Touches one record only, from's tail: at the end of a large epoch every other is out of the caches. */
TS_ALWAYS_INLINE void ts_warm_splice(ts_warm *to, ts_warm *from) {
    if (!from->head) return;
    ts_slab_at(from->tail)->next = to->head;
    if (!to->head) to->tail = from->tail;
    to->head = from->head;
    ts_add_owned(&to->count, ts_load_relaxed(&from->count));
    from->head = from->tail = 0;
    ts_store_relaxed(&from->count, 0);
}
/* An empty slab, unit on no list: becomes warm. Caller holds the heap. */
void ts_share_keep(ts_share *share, uint32_t unit);
/* The same of one with so many units. */
void ts_share_keep_slab(ts_share *share, uint32_t unit, uint32_t units);
/* So many warm units in a row that the share keeps. 0: none. Caller holds the heap. */
uint32_t ts_share_take_span(ts_share *share, uint32_t units);

#if TSLAB_ASSERT >= 3
/* The deep walk of what a thread owns, which aborts with a text: tests/walk, which such a library has in it. */
void ts_check_heap_now(const ts_heap *heap);
#else
#define ts_check_heap_now(heap) ((void)(heap))
#endif

#endif
