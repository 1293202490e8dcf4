/*
 * The blocks of an epoch: how one gets into its list, and how all of them leave it. For the files that open and end
 * epochs.
 */
/* Modelled in tests/model: epoch, orders. */
#ifndef TS_EPOCH_BLOCKS_H
#define TS_EPOCH_BLOCKS_H

#include "base/base.h"
#include "cache/cache.h"
#include "cache/free.h"
#include "epoch/epoch.h"
#include "epoch/past.h"
#include "os/os.h"
#include "ownership/ownership.h"

#include <errno.h>

static inline ts_block *ts_epoch_next_block(const ts_block *block) { return ts_load_relaxed(&block->epoch_next); }

/* Caller has the lock. These blocks end, or are used again, behind the fence. So a reader that has seen anything of
   that sees the count too. */
TS_ALWAYS_INLINE ts_block *ts_epoch_detach_blocks(ts_epoch *epoch) {
    ts_block *blocks = ts_load_relaxed(&epoch->blocks);
    ts_store_relaxed(&epoch->blocks, NULL);
    /* release: a reader that sees the new count does not see the old list */
    ts_store_release(&epoch->detached, ts_load_relaxed(&epoch->detached) + 1);
    atomic_thread_fence(memory_order_release); /* partner: ts_epoch_read_blocks */
    return blocks;
}

/* One block, to which *at leads. A reader that is at the block goes on with the next. Caller has the lock, and ends the
   block behind the fence, as above. */
static inline void ts_epoch_detach_block(ts_epoch *epoch, _Atomic(ts_block *) *at, const ts_block *block) {
    ts_store_release(at, ts_epoch_next_block(block)); /* as in ts_epoch_list_block */
    ts_store_release(&epoch->detached, ts_load_relaxed(&epoch->detached) + 1);
    atomic_thread_fence(memory_order_release);
}

/* Caller has the epoch's lock, which keeps the epoch ACTIVE, or has not shown the epoch yet. The block is on no list
   that another thread walks, or was shut by the end of its thread. */
TS_ALWAYS_INLINE void ts_epoch_open_block(ts_block *block, EpochId id) {
    /* release: a thread that sees the id sees the block's heap (is_block_of, in domain/enter.c) */
    ts_store_release(&block->open_id, id);
    ts_store_relaxed(&block->key, ts_era(block) | block->share->open_key);
}

static inline void ts_epoch_remember_scope(ts_heap *heap, ts_scope_block *block, const ts_epoch *epoch) {
    ts_store_if_changed(&heap->scope_map[epoch->record.index % TS_HEAP_MAP], block);
}
static inline void ts_epoch_remember(ts_heap *heap, ts_block *block, const ts_epoch *epoch) {
    if (block->scope)
        ts_epoch_remember_scope(heap, ts_scope(block), epoch);
    else
        heap->map[epoch->record.index % TS_HEAP_MAP] = ts_churn(block);
}

/* At the head of the epoch's list, before `first`. */
TS_ALWAYS_INLINE void ts_epoch_list_block(ts_epoch *epoch, ts_block *block, ts_block *first) {
    ts_store_relaxed_if_changed(&block->epoch_next, first);
    ts_store_release(&epoch->blocks, block); /* written before it is found: ts_epoch_read_blocks */
}

/* A block for the epoch, not open yet and not in its list. NULL with errno: no memory. Caller has no lock, as it may
   wait for its heap. */
TS_ALWAYS_INLINE ts_block *ts_epoch_take_block(ts_heap *heap, ts_share *share, ts_epoch *epoch, EpochId id,
                                               const bool scope) {
    ts_heap_enter(heap);
    ts_block *block = ts_block_take(heap, share, epoch, scope);
    if (block) ts_store_relaxed(&block->epoch_id, id);
    ts_heap_leave(heap);
    if (!block) errno = ENOMEM;
    return block;
}

/* Opens that block and lists it. Caller has the epoch's lock, which keeps it ACTIVE, or has not shown the epoch yet. */
TS_ALWAYS_INLINE void ts_epoch_add_block(ts_epoch *epoch, ts_block *block, EpochId id) {
    /* The block has no slab yet, and no other thread looks at it. */
    ts_account *account = ts_load_relaxed(&epoch->account);
    if (TS_UNLIKELY(account != NULL)) ts_block_set_account(block, account);
    ts_epoch_open_block(block, id);
    ts_epoch_list_block(epoch, block, ts_load_relaxed(&epoch->blocks));
}

/* Both with the first of the heap's free scope blocks, for an epoch that nobody can find yet. Caller holds the heap. */
TS_ALWAYS_INLINE void ts_epoch_first_scope(ts_heap *heap, ts_share *share, ts_epoch *epoch, EpochId id,
                                           ts_block *block) {
    ts_block_begin(heap, share, epoch, block, true);
    ts_store_relaxed(&block->epoch_id, id);
    ts_epoch_open_block(block, id);
    ts_epoch_list_block(epoch, block, NULL);
}

/* ---- open ---------------------------------------------------------------------------------------------- */

/* When the newest epoch that is not a domain's was opened. A hint of the order only. */
extern TS_HIDDEN _Atomic uint64_t ts_epoch_newest_ns;

/* The time at which a domain's epoch is opened, by a coarse clock: a good clock takes as long as two domains. Times
   tell the order of the epochs of one thread, and of any two epochs if one is not a domain's. (That needs a clock that
   moves while a domain is made. On some virtual machines it does not.) */
TS_ALWAYS_INLINE uint64_t ts_epoch_domain_time(void) {
    uint64_t now = ts_os->coarse_ns(), last = ts_load_relaxed(&ts_epoch_newest_ns);
    if (last < ts_thread.opened_ns) last = ts_thread.opened_ns;
    if (now <= last) now = last + 1;
    ts_thread.opened_ns = now;
    return now;
}

/* A free record becomes an ACTIVE epoch that nobody can find yet. No lock is needed: a thread that has found the record
   by an old id takes the lock and looks at the id again. clean: the caller has seen that the record is. */
TS_ALWAYS_INLINE EpochId ts_epoch_begin(ts_epoch *epoch, ts_allocator *allocator, unsigned flags, uint64_t now,
                                        const bool clean) {
    EpochId id = ts_table_next_id(&ts_epochs, epoch);
    atomic_thread_fence(memory_order_release); /* the last id is gone before any of these: ts_epoch_is_still */
    ts_store_relaxed_if_changed(&epoch->flags, (uint8_t)flags);
    ts_store_relaxed_if_changed(&epoch->allocator, allocator);
    ts_store_relaxed(&epoch->open_since_ns, now);
    if (!clean && !epoch->clean) ts_epoch_clean(epoch);
    ts_store_relaxed(&epoch->state, EPOCH_ACTIVE);
    return id;
}

/* From here on the epoch can be found. token: that by which the caller found the allocator. fence: not needed where
   ts_barriers is true. false: that use of the record has ended, and the epoch is to be destroyed. */
TS_ALWAYS_INLINE bool ts_epoch_show_in_time(ts_epoch *epoch, const ts_allocator *allocator, uintptr_t token, EpochId id,
                                            const bool fence) {
    ts_table_publish(epoch, id);
    /* An allocator ends by changing its id, and then destroys all epochs that it finds. Both are seq_cst, and where the
       system has a barrier_all there is one in between. So it finds this epoch, or its end is seen here. */
    if (fence)
        atomic_thread_fence(memory_order_seq_cst);
    else
        ts_compiler_fence(); /* partner: the barrier in ts_allocator_end */
    return TS_LIKELY(ts_load_relaxed(&allocator->record.id) == token);
}

/* ---- the usual end and reset ---------------------------------------------------------------------------- */

/* All that an ACTIVE epoch has, if that is one scope block of this thread, whose heap is `heap`, and nothing is left to
   that heap. NULL: it is another case. Caller has the lock. has_more tells of large objects, of a limit and of a
   close. A pin, a dying block, and a mark in `left` of a listed block come from one of these. (A block with such a
   mark is on a list of its heap, or a visitor has it and may put it back: block.c, 3.) */
TS_ALWAYS_INLINE ts_block *ts_epoch_only_block(const ts_heap *heap, const ts_epoch *epoch) {
    ts_block *block = ts_load_relaxed(&epoch->blocks);
    if (!block || !block->scope || ts_epoch_next_block(block) || ts_load_relaxed(&block->heap) != heap) return NULL;
    return epoch->has_more || ts_heap_is_waited_for(heap) ? NULL : block;
}

/* That block, and the thread is inside of its heap, which waits for nobody. NULL: it is not inside. With care an end
   goes through all objects, which is not done here. A thread to which work is left goes the other way, at whose end it
   answers. */
TS_ALWAYS_INLINE ts_block *ts_epoch_enter_only(const ts_heap *heap, const ts_epoch *epoch) {
    ts_block *block = ts_epoch_only_block(heap, epoch);
    if (TS_UNLIKELY(!block) || TS_UNLIKELY(block->share->open_key == 0)) return NULL; /* 0: with care */
    ts_op_begin(&ts_thread);
    if (TS_LIKELY(ts_load_acquire(&heap->revoked) == 0)) return block; /* acquire: as in ts_heap_enter */
    ts_op_end(&ts_thread);
    return NULL;
}

/* Under the epoch's lock only the exit of a block's thread changes its key, so two stores do what shut_blocks does by
   read-modify-write; release is enough, see ts_slab_next_generation. */
TS_ALWAYS_INLINE void ts_epoch_kill_only_block(ts_block *block) {
    ts_store_release(&block->key, (ts_era(block) + 1));
    ts_store_release(&block->open_id, TS_ID_NEVER);
}

/* A scope with no more than its block and its time: its end leaves the record clean, and a brief record (epoch/past.h).
   Caller has the lock, and the block is its ts_epoch_only_block. */
TS_ALWAYS_INLINE bool ts_epoch_is_plain(const ts_epoch *epoch) {
    return TS_LIKELY(!epoch->has_label && !epoch->starts_small);
}
TS_ALWAYS_INLINE void ts_epoch_note_brief(ts_brief_ring *ring, const ts_epoch *epoch, const ts_block *block) {
    ts_brief_write(ring, ts_load_relaxed(&epoch->record.id), ts_load_relaxed(&epoch->open_since_ns),
                   ts_load_relaxed(&block->slabs), ts_block_pieces(block));
}
/* What statistics say of the epoch when it has ended, unless its allocator has. only: its ts_epoch_only_block, or NULL.
   Caller has the lock. */
void ts_epoch_note_end(const ts_epoch *epoch, const ts_block *only);

/* The usual end, of a domain's epoch mostly: `block` is its ts_epoch_enter_only, ring that of its share. Caller has the
   lock, which is released, and is still inside of its heap afterwards. true: as of ts_scope_empty. */
TS_ALWAYS_INLINE bool ts_epoch_end_only(ts_heap *heap, ts_epoch *epoch, ts_block *block, ts_brief_ring *ring) {
    bool plain = ts_epoch_is_plain(epoch);
    if (TS_LIKELY(plain) && TS_LIKELY(ring != NULL))
        ts_epoch_note_brief(ring, epoch, block);
    else
        ts_epoch_note_end(epoch, block);
    if (!plain) epoch->clean = false;
    TS_PROBE1(epoch__destroy, ts_load_relaxed(&epoch->record.id));
    ts_epoch_kill_only_block(block);
    ts_store_release(&epoch->state, EPOCH_CLOSED);
    ts_store_release(&epoch->record.id, 0);
    (void)ts_epoch_detach_blocks(epoch);
    ts_epoch_release(epoch);
    bool over = ts_scope_end(heap, ts_scope(block));
    ts_heap_give_record(&ts_epochs, TS_TABLE_EPOCH, epoch);
    return over;
}

/* The usual reset: `block` is the epoch's ts_epoch_enter_only, and goes on in its next era. One store kills its objects
   and opens it again. The share's half of the key stays. That half lets in only the calling thread, and this thread is
   here. To all other threads it is what ts_epoch_kill_only_block, ts_block_begin and ts_epoch_open_block do one after
   the other: a reader of the list sees `detached` change before any of the counters, and the block in the list again
   after them. true: as of ts_scope_empty. Caller has the lock and is inside of the heap; the block's eras are not used
   up. */
TS_ALWAYS_INLINE bool ts_epoch_restart_block(ts_heap *heap, ts_epoch *epoch, ts_block *block) {
    uint64_t era = ts_era(block) + 1;
    ts_store_release(&block->key, era | block->share->open_key); /* release: see ts_slab_next_generation */
    (void)ts_epoch_detach_blocks(epoch);
    bool over = ts_scope_empty(heap, ts_scope(block), false);
    ts_store_relaxed(&block->resets, ts_load_relaxed(&block->resets) + 1);
    ts_store_relaxed(&block->era, (uint32_t)era);
    ts_epoch_remember_scope(heap, ts_scope(block), epoch);
    ts_epoch_list_block(epoch, block, NULL);
    return over;
}

#endif
