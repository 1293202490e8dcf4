/*
 * The beginnings of epochs: opening one, and the blocks with which threads join it.
 *
 * What could go wrong: a thread joins an epoch that is just ending, and its block is not among those that the end
 * shuts. That does not happen: the thread looks at the state and lists its block under one hold of the lock, under
 * which an end changes the state. The first block of an epoch needs no lock: nobody can find the epoch before it is
 * shown.
 */
/* Modelled in tests/model: epoch, orders. */
#include "epoch/epoch.h"
#include "base/base.h"
#include "cache/cache.h"
#include "epoch/blocks.h"
#include "os/os.h"
#include "supply/supply.h"

#include <errno.h>

ts_table ts_epochs;
ts_epoch_stripe ts_epoch_stripes[TS_EPOCH_STRIPES];

void ts_epoch_init(void) {
    ts_table_init(&ts_epochs, TS_TABLE_EPOCH, TS_EPOCH_STRIDE, 64);
    for (unsigned i = 0; i < TS_EPOCH_STRIPES; i++) ts_lock_init(&ts_epoch_stripes[i].lock, TS_RANK_EPOCH);
}

/* ---- the list of blocks ------------------------------------------------------------------------------- */

/* Blocks enter at the head, and `detached` counts each time that any leave. So while it is unchanged, the list from a
   head on is unchanged. A walk from a block that has left can get into the list of another epoch: it ends when a
   block's epoch is another. */
bool ts_epoch_read_blocks(const ts_epoch *epoch, EpochId id, void (*fn)(void *, const ts_block *), void *arg) {
    uint32_t detached = ts_load_acquire(&epoch->detached);
    if (ts_load_acquire(&epoch->record.id) != id) return false;
    /* acquire: partner of the release in ts_epoch_list_block; a block's link is written before the block is in the list
       */
    for (const ts_block *b = ts_load_acquire(&epoch->blocks); b; b = ts_epoch_next_block(b)) {
        if (ts_load_relaxed(&b->epoch) != epoch) return false;
        fn(arg, b);
    }
    atomic_thread_fence(memory_order_acquire); /* partner: ts_epoch_detach_blocks */
    return ts_load_relaxed(&epoch->detached) == detached && ts_load_relaxed(&epoch->record.id) == id;
}

/* ---- open ------------------------------------------------------------------------------------------ */

/* The opener's block, while nobody else can find the epoch: no lock is needed. Without memory it joins later. */
static void join_unpublished(ts_allocator *allocator, ts_epoch *epoch, EpochId id) {
    ts_heap *heap = ts_heap_mine();
    ts_share *share = heap ? ts_heap_share_now(heap, allocator) : NULL;
    bool scope = (ts_load_relaxed(&epoch->flags) & EPOCH_SCOPE) != 0;
    ts_block *block = share ? ts_epoch_take_block(heap, share, epoch, id, scope) : NULL;
    if (!block) return;
    ts_epoch_add_block(epoch, block, id);
    ts_epoch_remember(heap, block, epoch);
}

TS_ALIGNED(64) _Atomic uint64_t ts_epoch_newest_ns;

void ts_epoch_clean(ts_epoch *epoch) {
    ts_store_relaxed(&epoch->closed_at_ns, 0);
    ts_store_relaxed(&epoch->blocks, NULL);
    epoch->dying = NULL;
    epoch->spans = 0;
    epoch->pins = 0;
    epoch->destroyed = false;
    epoch->starts_small = epoch->has_more = epoch->has_label = false;
    ts_store_relaxed(&epoch->span_allocated, 0);
    ts_store_relaxed(&epoch->span_freed, 0);
    ts_store_relaxed(&epoch->span_bytes_allocated, 0);
    ts_store_relaxed(&epoch->span_bytes_freed, 0);
    ts_store_relaxed(&epoch->span_units, 0);
    ts_store_relaxed(&epoch->closed_kib, 0);
    ts_store_relaxed(&epoch->rss_before_kib, 0);
    ts_store_relaxed(&epoch->rss_after_kib, 0);
    epoch->clean = true;
}

/* For an epoch that is not a domain's. The newest time only rises: another thread may have read its clock earlier. */
static uint64_t opening_time(void) {
    uint64_t now = ts_os->wall_ns(), newest = ts_load_relaxed(&ts_epoch_newest_ns);
    while (newest < now && !atomic_compare_exchange_weak_explicit(&ts_epoch_newest_ns, &newest, now,
                                                                  memory_order_relaxed, memory_order_relaxed)) {
    }
    ts_thread.opened_ns = now;
    return now;
}

ts_epoch *ts_epoch_make(ts_allocator *allocator, const char *label, unsigned flags, unsigned first, bool has_domain) {
    if (flags & ~(EPOCH_CHURN | EPOCH_SCOPE) || flags == (EPOCH_CHURN | EPOCH_SCOPE)) return ts_fail_null(EINVAL);
    ts_epoch *epoch = ts_heap_take_record(&ts_epochs, TS_TABLE_EPOCH);
    if (!epoch) return ts_fail_null(ENOMEM);
    int before = errno;
    bool join = first == TS_FIRST_JOINS;
    EpochId id = ts_epoch_begin(epoch, allocator, flags ? flags : EPOCH_CHURN,
                                join ? ts_epoch_domain_time() : opening_time(), false);
    epoch->has_domain = has_domain;
    epoch->starts_small = first == TS_FIRST_SMALL && !(flags & EPOCH_SCOPE) && !allocator->care &&
                          allocator->settings.reclaim_policy != SLAB_RECLAIM_AT_ONCE;
    if (label || ts_load_relaxed(&epoch->label[0]) != 0) { /* the label of the last use is still there, for messages */
        ts_lock_acquire(ts_epoch_lock(epoch));
        ts_epoch_set_label(epoch, label);
        ts_lock_release(ts_epoch_lock(epoch));
    }
    if (join) join_unpublished(allocator, epoch, id);
    errno = before; /* without a heap or a block, for the moment, it still is an epoch */
    return epoch;
}

EpochId ts_epoch_open(ts_allocator *allocator, uintptr_t token, const char *label, unsigned flags, unsigned first) {
    ts_epoch *epoch = ts_epoch_make(allocator, label, flags, first, false);
    if (!epoch) return EPOCH_NONE;
    EpochId id = ts_table_next_id(&ts_epochs, epoch);
    if (!ts_epoch_show_in_time(epoch, allocator, token, id, true)) {
        ts_epoch_destroy(allocator, id);
        return ts_fail(EINVAL);
    }
    TS_PROBE3(epoch__open, id, label, (uint64_t)flags);
    return id;
}

/* ---- joining -------------------------------------------------------------------------------------------- */

/* The epoch with its lock taken, ACTIVE. NULL with errno, and without the lock. */
static ts_epoch *find_active(ts_share *share, ts_allocator *allocator, EpochId id) {
    ts_epoch *epoch = ts_epoch_find_locked(allocator, id);
    if (epoch && ts_epoch_is_active(epoch)) return epoch;
    if (epoch) ts_epoch_release(epoch);
    bool was = epoch || ts_table_is_past(&ts_epochs, id);
    if (was) ts_count(&share->refused_closed, 1);
    errno = was ? ESTALE : EINVAL;
    return NULL;
}

static bool is_wanted(const ts_block *b, ts_wanted w) {
    return !(w.bins && b->scope) && !(w.first && (!b->scope || b == w.first));
}

/* This thread's block, or one of an ended thread. A thread that comes in place of another takes over that one's block:
   it has freed an object there, and mostly goes on to free others. Caller has the lock. */
static ts_block *find_or_take_over(ts_heap *heap, ts_share *share, ts_epoch *epoch, EpochId id, ts_wanted w) {
    ts_block *left = NULL;
    for (ts_block *b = ts_load_relaxed(&epoch->blocks); b; b = ts_epoch_next_block(b)) {
        if (ts_load_relaxed(&b->heap) == heap && is_wanted(b, w)) return b;
        if (b == ts_thread.freed_in) left = b;
    }
    if (left && is_wanted(left, w) && ts_epoch_adopt_block(heap, share, left, id)) return left;
    for (ts_block *b = ts_load_relaxed(&epoch->blocks); b; b = ts_epoch_next_block(b))
        if (is_wanted(b, w) && ts_epoch_adopt_block(heap, share, b, id)) return b;
    return NULL;
}

static void give_untaken(ts_heap *heap, ts_block *block) {
    ts_heap_enter(heap);
    ts_block_set_free(heap, block, block->scope);
    ts_heap_leave(heap);
}

ts_block *ts_epoch_join_as(ts_heap *heap, ts_allocator *allocator, EpochId id, ts_wanted w) {
    ts_share *share = ts_heap_share(heap, allocator);
    if (!share) return NULL;
    /* Other threads may have ended blocks of this heap, and cannot give them away. That is done before there is a block
       for the caller: it can end as soon as the lock is released, and has to stay this heap's while the caller has a
       pointer to it. */
    ts_heap_limit_blocks(heap);
    ts_epoch *epoch = find_active(share, allocator, id);
    if (!epoch) return NULL;
    ts_block *block = find_or_take_over(heap, share, epoch, id, w);
    if (!block) {
        /* A new block is got without the lock, as the thread may wait for its heap, or for memory. A close would wait
           too. */
        bool scope = (ts_load_relaxed(&epoch->flags) & EPOCH_SCOPE) != 0, small = epoch->starts_small && !w.bins;
        ts_epoch_release(epoch);
        block = ts_epoch_take_block(heap, share, epoch, id, scope || small);
        if (!block) return NULL;
        if (small) block->slow |= TS_SLOW_ALWAYS; /* before it is open */
        epoch = find_active(share, allocator, id);
        if (!epoch) {
            give_untaken(heap, block);
            return NULL;
        }
        ts_epoch_add_block(epoch, block, id);
    }
    if (!w.first) ts_epoch_remember(heap, block, epoch);
    ts_epoch_release(epoch);
    return block;
}

/* ---- the rolling epoch ------------------------------------------------------------------------------------ */

EpochId ts_epoch_current(ts_allocator *allocator, uintptr_t token) {
    /* acquire: an id that the record's next use has written comes with that use's token */
    EpochId id = ts_load_acquire(&allocator->current_epoch);
    if (TS_LIKELY(id != EPOCH_NONE)) {
        if (TS_LIKELY(ts_load_relaxed(&allocator->record.id) == token)) return id;
        return ts_fail(EINVAL);
    }
    /* Another thread may be ending the allocator. The writer of current_epoch has the record pinned, so the word is not
       one of the record's next use. */
    if (!ts_allocator_pin_use(allocator, token)) return ts_fail(EINVAL);
    ts_lock_acquire(&allocator->lock);
    id = ts_load_relaxed(&allocator->current_epoch);
    if (id == EPOCH_NONE) {
        id = ts_epoch_open(allocator, token, NULL, EPOCH_CHURN, TS_FIRST_USUAL);
        ts_store_release(&allocator->current_epoch, id);
    }
    ts_lock_release(&allocator->lock);
    ts_allocator_unpin(allocator);
    return id;
}

EpochId ts_epoch_advance(ts_allocator *allocator, uintptr_t token) {
    if (!ts_allocator_pin_use(allocator, token)) return ts_fail(EINVAL);
    EpochId next = ts_epoch_open(allocator, token, NULL, EPOCH_CHURN, TS_FIRST_USUAL);
    if (next != EPOCH_NONE) {
        ts_lock_acquire(&allocator->lock);
        EpochId old = ts_load_relaxed(&allocator->current_epoch);
        ts_store_release(&allocator->current_epoch, next);
        ts_lock_release(&allocator->lock);
        if (old != EPOCH_NONE) ts_epoch_close(allocator, old);
    }
    ts_allocator_unpin(allocator);
    return next;
}

void ts_epoch_for_locks(ts_lock_fn *fn) {
    for (unsigned i = 0; i < TS_EPOCH_STRIPES; i++) fn(&ts_epoch_stripes[i].lock);
}
