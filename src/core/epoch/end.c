/*
 * The ends of epochs: close, destroy, reset, and the last object of one that is CLOSING.
 *
 * What could go wrong: an epoch is taken apart while a thread allocates in it, or by two threads, or while an object of
 * it lives. It is not:
 *  1. Every end holds the epoch's lock while it changes the state and the id, and looks at both first. So one thread
 *     ends a use of the record, and a thread that comes later finds the state or the id changed.
 *  2. The end shuts every block under the lock: from then on no thread begins an allocation there. An operation that
 *     began before may go on. So the end holds each heap before it touches the bins, or leaves the block to the heap's
 *     thread.
 *  3. No heap is waited for, and nothing is taken apart, with the lock. So the lock is held for some fifty
 *     instructions, also by a thread that has lost its processor in them: that is the one wait of an end for another
 *     thread's.
 *  4. While the epoch is pinned no block leaves the list. The last unpin takes apart what a destroy has left.
 *  5. A CLOSING epoch is ended by the thread that finds, under the lock, that nothing is left in it.
 *
 * The usual end and reset (blocks.h) are those of an epoch whose only block is the calling thread's. That thread takes
 * the lock, then begins an operation on its heap, which waits for nobody. A thread that is in an operation never waits
 * for an epoch's lock, so the two cannot wait for each other.
 */
/* Modelled in tests/model: hold, exit, epoch, orders. */
#include "base/base.h"
#include "cache/cache.h"
#include "epoch/blocks.h"
#include "epoch/epoch.h"
#include "epoch/past.h"
#include "memtools/memtools.h"
#include "os/os.h"

#include <errno.h>

/* Caller has the lock. The order matters. The owner's fast frees look at the key. It comes before open_id: a thread
   that finds open_id over takes the block for shut, and flushes it after one more barrier (ts_heap_visit), or as its
   owner. open_id comes before `rolling`: make_rolling exchanges `rolling`, and if it finds the 0 that is written here
   it sees open_id too. */
static void shut_blocks(ts_epoch *epoch, bool kill) {
    for (ts_block *b = ts_load_relaxed(&epoch->blocks); b; b = ts_epoch_next_block(b)) {
        if (kill)
            ts_block_kill(b); /* from here on every look finds the objects of the block dead */
        else
            ts_block_shut(b);
        ts_store_release(&b->open_id, TS_ID_NEVER);
        if (!b->scope) ts_store_release(&b->rolling, 0);
    }
}

/* Ends a block that is in no epoch's list any more. A block that is left to its heap's thread already, or whose heap
   cannot be held, is left to that thread. */
static void end_detached(ts_allocator *allocator, ts_block *block) {
    ts_heap *heap = ts_load_acquire(&block->heap);
    if (ts_load_acquire(&block->left) == 0 && ts_heap_hold(heap)) {
        ts_foreign_drain(heap);
        ts_block_end(heap, block);
        ts_heap_drop(heap);
        return;
    }
    ts_allocator_pin(allocator);
    ts_heap_post_end(heap, block);
    if (!ts_heap_notify_for(heap)) ts_fetch_add_relaxed(&allocator->left, 1);
}

static void end_blocks(ts_allocator *allocator, ts_block *block) {
    while (block) {
        ts_block *next = ts_epoch_next_block(block);
        end_detached(allocator, block);
        block = next;
    }
}

/* ---- ends ----------------------------------------------------------------------------------------------------- */

/* The epoch is CLOSED, its id is over, and it has neither pins nor spans. Caller has the lock, which is released. */
static void take_apart(ts_epoch *epoch) {
    ts_allocator *allocator = ts_load_relaxed(&epoch->allocator);
    ts_block *blocks = ts_epoch_detach_blocks(epoch), *dying = epoch->dying;
    epoch->dying = NULL;
    epoch->clean = false;
    ts_account *account = ts_load_relaxed(&epoch->account);
    ts_store_relaxed(&epoch->account, NULL);
    ts_epoch_release(epoch);
    end_blocks(allocator, blocks);
    end_blocks(allocator, dying);
    ts_account_unref(account);
    ts_heap_give_record(&ts_epochs, TS_TABLE_EPOCH, epoch);
}

/* Caller has the lock, which is released. Everything is dead before the state or the id says so. */
static void kill_locked(ts_epoch *epoch) {
    ts_allocator *allocator = ts_load_relaxed(&epoch->allocator);
    ts_heap *heap = ts_thread.heap;
    ts_block *only = ts_epoch_enter_only(heap, epoch);
    if (TS_LIKELY(only != NULL)) {
        ts_share *share = only->share;
        ts_thread.released += ts_load_relaxed(&only->slabs);
        if (ts_epoch_end_only(heap, epoch, only, ts_load_relaxed(&share->brief))) ts_share_overflow(share);
        ts_heap_leave(heap);
        return;
    }
    ts_epoch_note_end(epoch, ts_epoch_only_block(heap, epoch));
    TS_PROBE1(epoch__destroy, ts_load_relaxed(&epoch->record.id));
    shut_blocks(epoch, true);
    uint32_t spans = ts_span_detach(epoch);
    ts_store_release(&epoch->state, EPOCH_CLOSED);
    ts_store_release(&epoch->record.id, 0);
    if (epoch->pins > 0) {
        epoch->destroyed = true;
        ts_epoch_release(epoch);
    } else {
        take_apart(epoch);
    }
    ts_span_release_list(allocator, spans);
}

void ts_epoch_note_call(const ts_allocator *allocator, EpochId id) {
    if (TS_UNLIKELY(ts_care_on_asan)) ts_care_call_ends(allocator->care, id);
    if (TS_UNLIKELY(allocator->settings.record_rss)) ts_past_measure_before();
}

bool ts_epoch_destroy(ts_allocator *allocator, EpochId id) {
    ts_epoch_note_call(allocator, id);
    ts_epoch *epoch = ts_epoch_find_locked(allocator, id);
    if (epoch) ts_epoch_destroy_locked(epoch);
    return epoch != NULL;
}

void ts_epoch_destroy_locked(ts_epoch *epoch) {
    uint64_t released = ts_thread.released;
    kill_locked(epoch);
    ts_epoch_purge_after_end(ts_thread.released - released);
    if (TS_LIKELY(ts_thread.heap != NULL)) ts_heap_limit_blocks(ts_thread.heap);
    ts_records_run_deferred();
}

void ts_epoch_purge_after_end(uint64_t released) {
    ts_run_deferred_phase(released);
    if (TS_UNLIKELY(ts_thread.heap && ts_heap_is_notified(ts_thread.heap)))
        ts_epoch_run_deferred();
    else
        ts_epoch_run_noted();
}

/* The thread that sets `flushed` holds the heap, so no slab is on its way into the block, and none comes later. The
   caller does not hold the heap, so it reads `flushed` before the count: until that is set, an operation that began
   before the close can add a slab. */
static bool holds_nothing(const ts_block *b) { return ts_load_acquire(&b->flushed) && ts_load_relaxed(&b->slabs) == 0; }

static bool nothing_left(const ts_epoch *epoch) {
    if (ts_load_relaxed(&epoch->span_units) != 0) return false;
    for (const ts_block *b = ts_load_relaxed(&epoch->blocks); b; b = ts_epoch_next_block(b))
        if (!holds_nothing(b)) return false;
    return true;
}

static void look_if_left(void *left, const ts_block *b) {
    if (!holds_nothing(b)) *(bool *)left = true;
}

bool ts_epoch_is_over(const ts_epoch *epoch, EpochId id) {
    bool left;
    do {
        left = ts_load_relaxed(&epoch->span_units) != 0;
        if (left || ts_load_relaxed(&epoch->state) != EPOCH_CLOSING) return false;
        if (ts_epoch_read_blocks(epoch, id, look_if_left, &left)) return !left;
    } while (!left && ts_epoch_is_still(epoch, id)); /* a block has left the list, so this ends */
    return false;
}

/* The epoch is a CLOSING churn epoch without pins in which something is left. A block that holds nothing gets nothing
   any more, so its thread gets it back. A leaked object then keeps one block, not those of all threads that were in the
   epoch. Caller has the lock, which is released. */
static void end_empty_blocks(ts_epoch *epoch) {
    _Atomic(ts_block *) *at = &epoch->blocks;
    ts_block *leave = NULL;
    for (ts_block *b; (b = ts_load_relaxed(at)) != NULL;) {
        if (!holds_nothing(b)) {
            at = &b->epoch_next;
            continue;
        }
        ts_epoch_detach_block(epoch, at, b);
        ts_block_kill(b);
        ts_store_relaxed(&b->epoch_next, leave);
        leave = b;
    }
    if (!leave) {
        ts_epoch_release(epoch);
        return;
    }
    ts_allocator *allocator = ts_load_relaxed(&epoch->allocator);
    ts_allocator_pin(allocator); /* its free ends this epoch first, and so comes later */
    ts_epoch_release(epoch);
    end_blocks(allocator, leave);
    ts_allocator_unpin(allocator);
}

void ts_epoch_finish(ts_epoch *epoch, EpochId id) {
    ts_epoch_acquire(epoch);
    bool closing = id != 0 && ts_load_relaxed(&epoch->record.id) == id &&
                   ts_load_relaxed(&epoch->state) == EPOCH_CLOSING && epoch->pins == (epoch->spill != NULL);
    if (closing && nothing_left(epoch))
        kill_locked(epoch);
    else if (closing && !epoch->spill && !(ts_load_relaxed(&epoch->flags) & EPOCH_SCOPE))
        end_empty_blocks(epoch);
    else
        ts_epoch_release(epoch);
}

TS_COLD void ts_epoch_finish_over(const ts_allocator *allocator) {
    uint32_t i = 1;
    uint64_t id;
    for (ts_epoch *epoch; (epoch = ts_table_next(&ts_epochs, &i, &id)) != NULL;) {
        bool meant = !allocator || ts_load_relaxed(&epoch->allocator) == allocator;
        if (meant && ts_epoch_is_over(epoch, id)) ts_epoch_finish(epoch, id);
    }
}

static void finish_noted(void) {
    if (TS_UNLIKELY(ts_thread.drained_more)) {
        ts_thread.drained_count = 0; /* the walk meets those too */
        ts_thread.drained_more = false;
        ts_epoch_finish_over(NULL);
    }
    while (ts_thread.drained_count > 0) {
        ts_epoch *epoch = ts_table_at(&ts_epochs, ts_thread.drained[--ts_thread.drained_count]);
        ts_epoch_finish(epoch, ts_load_acquire(&epoch->record.id));
    }
    if (ts_thread.heap) ts_heap_limit_blocks(ts_thread.heap);
    ts_records_run_deferred();
}

static bool is_noted(void) { return (ts_thread.drained_count | (unsigned)ts_thread.drained_more) != 0; }

/* One call in this many reads the clock. */
#define DECAY_EVERY 8u

void ts_epoch_run_deferred(void) {
    ts_heap *heap = ts_thread.heap;
    do {
        /* Others have left work to this thread. Mostly it makes their epochs end. */
        if (TS_UNLIKELY(heap && ts_heap_is_notified(heap))) ts_heap_drain_inbox(heap);
        if (is_noted()) finish_noted();
        bool asked = heap && ts_load_relaxed(&heap->asked_to_shed) != 0;
        if (TS_UNLIKELY(++ts_thread.settled % DECAY_EVERY == 0) || TS_UNLIKELY(asked)) ts_decay_look();
        ts_run_deferred_pending();
    } while (TS_UNLIKELY(is_noted())); /* an epoch that ended, or a heap without a thread, can have left more */
    if (TS_UNLIKELY(ts_thread.measured != 0)) ts_past_measure();
}

void ts_epoch_unpin(ts_epoch *epoch) {
    ts_epoch_acquire(epoch);
    uint64_t id = ts_load_relaxed(&epoch->record.id);
    epoch->pins--;
    if (epoch->pins == 0 && epoch->destroyed) {
        take_apart(epoch); /* releases the lock */
        return;
    }
    ts_block *dying = epoch->pins == 0 ? epoch->dying : NULL;
    if (dying) epoch->dying = NULL;
    /* Before the lock is released: afterwards the record may get its next use, of another allocator. */
    ts_allocator *allocator = ts_load_relaxed(&epoch->allocator);
    ts_epoch_release(epoch);
    end_blocks(allocator, dying);
    /* A thread that found it drained meanwhile could not end it. */
    ts_epoch_finish(epoch, id);
}

/* Takes the empty slabs of a block. The epoch is pinned. The flush is left to the block's thread if its heap cannot be
   held. */
static void flush_block(ts_allocator *allocator, ts_block *b, uint64_t *scanned, uint64_t *recycled) {
    ts_heap *heap = ts_load_acquire(&b->heap);
    if (!ts_heap_hold(heap)) {
        ts_heap_post_flush(heap, b);
        if (!ts_heap_notify_for(heap)) ts_fetch_add_relaxed(&allocator->left, 1);
        return;
    }
    /* The block was shut before the barrier of this hold. */
    bool flush = b->closing != TS_CLOSING;
    b->closing = TS_CLOSING;
    ts_foreign_drain(heap);
    if (flush) {
        *scanned += ts_block_flush(heap, b, recycled);
        ts_foreign_drain_flushed(heap);
    }
    ts_heap_drop(heap);
}

/* Work that earlier ends have left to threads which are out of their operations by now, perhaps to rest. */
static void take_left(void) {
    if (ts_load_relaxed(&ts_heaps_notified) == 0) return;
    ts_store_relaxed(&ts_heaps_notified, 0);
    for (ts_heap *heap = ts_heaps(); heap; heap = heap->next)
        if (heap != ts_thread.heap && ts_heap_is_notified(heap)) ts_heap_drain_inbox(heap);
    /* A hint for the next close. A call that came meanwhile has set it, too. */
    for (const ts_heap *heap = ts_heaps(); heap; heap = heap->next)
        if (ts_heap_is_notified(heap)) ts_store_relaxed(&ts_heaps_notified, 1);
}

static uint32_t in_kib(uint64_t bytes) { return bytes >> 10 < UINT32_MAX ? (uint32_t)(bytes >> 10) : UINT32_MAX; }

bool ts_epoch_close(ts_allocator *allocator, EpochId id) {
    ts_epoch *epoch = ts_epoch_find_active(allocator, id);
    if (epoch) ts_epoch_close_locked(epoch);
    return epoch != NULL;
}

void ts_epoch_close_locked(ts_epoch *epoch) {
    ts_allocator *allocator = ts_load_relaxed(&epoch->allocator);
    EpochId id = ts_load_relaxed(&epoch->record.id);
    uint64_t from = ts_os->wall_ns(), scanned = 0, recycled = 0;
    ts_store_relaxed(&epoch->closed_at_ns, from);
    ts_store_relaxed(&epoch->closed_kib, ts_epoch_held_kib(epoch));
    ts_store_relaxed(&epoch->state, EPOCH_CLOSING);
    ts_fetch_add_relaxed(&allocator->draining, 1); /* ts_epoch_note_end takes it off */
    epoch->has_more = true;
    epoch->pins++;
    shut_blocks(epoch, false);
    ts_block *blocks = ts_load_relaxed(&epoch->blocks);
    /* The free of the allocator ends this epoch before it gives the record back, and so comes later. */
    ts_allocator_pin(allocator);
    ts_epoch_release(epoch);

    bool record = allocator->settings.record_rss != 0;
    uint64_t before = record ? ts_os->resident_bytes() : 0;
    uint64_t released = ts_thread.released;
    take_left();
    for (ts_block *b = blocks; b; b = ts_epoch_next_block(b)) flush_block(allocator, b, &scanned, &recycled);
    ts_run_deferred_phase(ts_thread.released - released);
    uint64_t after = record ? ts_os->resident_bytes() : 0;
    ts_fetch_add_relaxed(&allocator->close_calls, 1);
    ts_fetch_add_relaxed(&allocator->close_scanned, scanned);
    ts_fetch_add_relaxed(&allocator->close_recycled, recycled);
    uint64_t took = ts_os->wall_ns() - from;
    ts_fetch_add_relaxed(&allocator->close_ns, took);
    ts_allocator_unpin(allocator);
    TS_PROBE4(epoch__close, id, scanned, recycled, took);

    ts_epoch_acquire(epoch);
    ts_store_relaxed(&epoch->rss_before_kib, in_kib(before));
    ts_store_relaxed(&epoch->rss_after_kib, in_kib(after));
    ts_epoch_release(epoch);
    ts_epoch_unpin(epoch);
    if (ts_load_relaxed(&epoch->record.id) == id) ts_decay_note_closed();
    ts_epoch_run_deferred();
}

/* `blocks` come before those that are dying already. */
static void add_dying(ts_epoch *epoch, ts_block *blocks) {
    if (!blocks) return;
    ts_block *last = blocks;
    while (ts_epoch_next_block(last)) last = ts_epoch_next_block(last);
    ts_store_relaxed(&last->epoch_next, epoch->dying);
    epoch->dying = blocks;
}

/* The counts of spans begin again, as in an epoch that never had one. Caller has the lock. release: a reader of
   statistics reads freed first. If that is 0 it reads 0 allocated, and no span that is not there. */
static void forget_spans(ts_epoch *epoch) {
    ts_store_relaxed(&epoch->span_allocated, 0);
    ts_store_relaxed(&epoch->span_bytes_allocated, 0);
    ts_store_release(&epoch->span_freed, 0);
    ts_store_release(&epoch->span_bytes_freed, 0);
}

bool ts_epoch_reset(ts_allocator *allocator, EpochId id, uint64_t *units_freed) {
    if (TS_UNLIKELY(ts_care_on_asan)) ts_care_call_ends(allocator->care, id);
    ts_epoch *epoch = ts_epoch_find_active(allocator, id);
    if (!epoch) return ts_fail(ESTALE);
    uint64_t units = 0;
    shut_blocks(epoch, true);
    ts_block *blocks = ts_epoch_detach_blocks(epoch);
    for (ts_block *b = blocks; b; b = ts_epoch_next_block(b)) units += ts_load_relaxed(&b->slabs);
    uint32_t spans = ts_span_detach(epoch);
    forget_spans(epoch);
    /* A thread with a pin still walks these blocks. They are dead, and the last unpin takes them apart. */
    if (epoch->pins > 0) {
        add_dying(epoch, blocks);
        blocks = NULL;
    }
    epoch->has_more = epoch->pins > 0 || ts_load_relaxed(&epoch->account);
    ts_epoch_release(epoch);
    end_blocks(allocator, blocks);
    uint64_t released = ts_thread.released; /* short spans are retained; longer ones go back */
    ts_span_release_list(allocator, spans);
    *units_freed = units + (ts_thread.released - released);
    return true;
}

static bool is_listed(const ts_block *block) {
    const ts_epoch *epoch = ts_load_relaxed(&block->epoch);
    const ts_block *b = ts_load_relaxed(&epoch->record.id) != 0 ? ts_load_relaxed(&epoch->blocks) : NULL;
    while (b && b != block) b = ts_epoch_next_block(b);
    for (b = b ? b : epoch->dying; b && b != block;) b = ts_epoch_next_block(b);
    return b != NULL;
}

/* A thread of the parent was about to show an epoch with its first block, or had taken blocks off a list to end them.
   It is not in the child. */
static void end_left_behind(ts_heap *heap) {
    ts_block *next;
    if ((ts_load_relaxed(&heap->inbox) || ts_load_relaxed(&heap->ending)) && ts_heap_hold(heap)) {
        ts_heap_end_posted(heap);
        ts_heap_drop(heap);
    }
    for (ts_block *b = ts_heap_first_block(heap); b; b = next) {
        next = ts_heap_next_block(b);
        ts_store_relaxed(
            &b->left, 0); /* its thread vanished before it was on the list: `unflushed` stands for it, or it is dead */
        if (is_listed(b) || !ts_heap_hold(heap)) continue;
        ts_foreign_drain(heap);
        ts_block_end(heap, b);
        ts_heap_drop(heap);
    }
}

/* The epoch is not its allocator's current one. The thread that has advanced may not be here, and has not closed the
   epoch: hits of slab_malloc would go on there. Or a block says that it is of a rolling epoch because a thread in
   make_rolling is not here. */
static bool is_left_open(const ts_epoch *epoch) {
    bool rolled = false;
    for (ts_block *b = ts_load_relaxed(&epoch->blocks); b; b = ts_epoch_next_block(b)) {
        if (b->scope || ts_load_relaxed(&b->rolling) == 0) continue;
        ts_store_relaxed(&b->rolling, 0);
        rolled = true;
    }
    return rolled && ts_load_relaxed(&epoch->state) == EPOCH_ACTIVE;
}

void ts_epoch_fork_child(void) {
    ts_decay_fork_child();
    uint32_t high = ts_table_high(&ts_epochs);
    for (uint32_t i = 1; i < high; i++) {
        ts_epoch *epoch = ts_table_at(&ts_epochs, i);
        uint32_t spill = epoch->spill != NULL; /* which stays, and nobody ends it here */
        if (epoch->pins == spill) continue;
        epoch->pins = 1 + spill;
        ts_epoch_unpin(epoch);
    }
    for (ts_heap *heap = ts_heaps(); heap; heap = heap->next)
        if (ts_load_relaxed(&heap->state) != TS_HEAP_LOST) end_left_behind(heap);
    uint32_t next = 1;
    uint64_t id;
    for (const ts_epoch *epoch; (epoch = ts_table_next(&ts_epochs, &next, &id)) != NULL;) {
        ts_allocator *allocator = ts_load_relaxed(&epoch->allocator);
        if (ts_load_relaxed(&allocator->current_epoch) != id && is_left_open(epoch))
            (void)ts_epoch_close(allocator, id);
    }
}

void ts_epoch_destroy_all(ts_allocator *allocator) {
    atomic_thread_fence(memory_order_seq_cst); /* partner: ts_epoch_show_in_time */
    uint32_t i = 1;
    uint64_t id;
    for (const ts_epoch *epoch; (epoch = ts_table_next(&ts_epochs, &i, &id)) != NULL;)
        if (ts_load_relaxed(&epoch->allocator) == allocator) ts_epoch_destroy(allocator, id);
}
