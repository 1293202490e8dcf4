/*
 * The ends of epochs: close, destroy, reset, and the last object of one that is CLOSING.
 *
 * What could go wrong: an epoch is taken apart while a thread allocates in it, or by two threads, or while an object
 * of it lives. It does not: the end shuts every block under the epoch's lock, and holds each heap before it touches
 * its bins, or leaves them to it. While somebody walks the blocks no block leaves the list, and who finds under the
 * lock that nothing is left ends a CLOSING one.
 */
/* Modelled in tests/model: hold, exit, epoch, orders. */
#include "epoch/end.h"
#include "base/probe.h"
#include "cache/foreign.h"
#include "cache/life.h"
#include "epoch/blocks.h"
#include "epoch/decay.h"
#include "epoch/hand_over.h"
#include "epoch/span.h"
#include "memtools/care.h"
#include "os/os.h"

#include <errno.h>

/* Caller has the lock. In this order. The key, which the owner's fast frees look at, before open_id: who finds that over takes
   the block for shut, and flushes it after one more barrier (ts_heap_visit), or as its owner. open_id before `rolling`: partner
   of make_rolling, which exchanges `rolling` and, if it finds what is written here, sees open_id too. */
static void shut_blocks(ts_epoch *epoch, bool kill) {
    for (ts_block *b = ts_load_relaxed(&epoch->blocks); b; b = ts_epoch_next_block(b)) {
        if (kill)
            ts_block_kill(b); /* from here on nothing in the block is live to anyone who looks */
        else
            ts_block_shut(b);
        ts_store_release(&b->open_id, TS_ID_NEVER);
        if (!b->scope) ts_store_release(&b->rolling, 0);
    }
}

/* Ends a block that is in no epoch's list any more, or leaves that to its heap's thread: one that is left to it already, and
   one whose heap cannot be held. */
static void end_detached(ts_allocator *allocator, ts_block *block) {
    ts_heap *heap = ts_load_acquire(&block->heap);
    if (ts_load_acquire(&block->left) == 0 && ts_heap_hold(heap)) {
        ts_foreign_drain(heap);
        ts_block_end(heap, block);
        ts_heap_drop(heap);
        return;
    }
    ts_allocator_pin(allocator);
    ts_heap_condemn(heap, block);
    if (ts_heap_call(heap)) {
        ts_heap_work_off(heap);
        ts_heap_drop(heap);
    } else {
        ts_fetch_add_relaxed(&allocator->left, 1);
    }
}

static void end_blocks(ts_allocator *allocator, ts_block *block) {
    while (block) {
        ts_block *next = ts_epoch_next_block(block);
        end_detached(allocator, block);
        block = next;
    }
}

/* ---- ends ----------------------------------------------------------------------------------------------------- */

/* The epoch is CLOSED, stale, pinned by nobody, without spans, and its lock is taken; released here. */
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
    ts_heap_give_entry(&ts_epochs, TS_TABLE_EPOCH, epoch);
}

/* Caller has the lock; released here. Everything is dead before the state or the id says so. */
static void kill_locked(ts_epoch *epoch) {
    ts_allocator *allocator = ts_load_relaxed(&epoch->allocator);
    ts_heap *heap = ts_thread.heap;
    ts_block *only = ts_epoch_enter_only(heap, epoch);
    if (TS_LIKELY(only != NULL)) {
        ts_share *share = only->share;
        ts_thread.released += ts_load_relaxed(&only->slabs);
        if (ts_epoch_end_only(heap, epoch, only)) ts_share_overflow(share);
        ts_heap_leave(heap);
        return;
    }
    ts_epoch_note_end(epoch, ts_epoch_only_block(heap, epoch));
    TS_PROBE1(epoch__destroy, ts_load_relaxed(&epoch->entry.id));
    shut_blocks(epoch, true);
    uint32_t spans = ts_span_detach(epoch);
    ts_store_release(&epoch->state, EPOCH_CLOSED);
    ts_store_release(&epoch->entry.id, 0);
    if (epoch->pins > 0) {
        epoch->destroyed = true;
        ts_epoch_release(epoch);
    } else {
        take_apart(epoch);
    }
    ts_span_release_list(allocator, spans);
}

bool ts_epoch_destroy(ts_allocator *allocator, EpochId id) {
    if (TS_UNLIKELY(ts_care_on_asan)) ts_care_call_ends(allocator->care, id);
    ts_epoch *epoch = ts_epoch_find_locked(allocator, id);
    if (!epoch) return false;
    uint64_t released = ts_thread.released;
    kill_locked(epoch);
    ts_epoch_settle_end(ts_thread.released - released);
    if (TS_LIKELY(ts_thread.heap != NULL)) ts_heap_limit_blocks(ts_thread.heap);
    ts_records_settle();
    return true;
}

void ts_epoch_settle_end(uint64_t released) {
    ts_settle_phase(released);
    if (TS_UNLIKELY(ts_thread.heap && ts_heap_is_called(ts_thread.heap)))
        ts_epoch_settle();
    else
        ts_epoch_settle_noted();
}

static bool nothing_left(const ts_epoch *epoch) {
    if (ts_load_relaxed(&epoch->span_units) != 0) return false;
    /* closing: whoever set it held the heap, so no slab is on its way into the block. It is read under no hold of the
       heap, hence atomically, and before the count: until it is set, an operation that began before the close can add a
       slab. Once set it stays. */
    for (const ts_block *b = ts_load_relaxed(&epoch->blocks); b; b = ts_epoch_next_block(b))
        if (!ts_load_acquire(&b->flushed) || ts_load_relaxed(&b->slabs) != 0) return false;
    return true;
}

static void look_if_left(void *left, const ts_block *b) {
    if (!ts_load_acquire(&b->flushed) || ts_load_relaxed(&b->slabs) != 0) *(bool *)left = true; /* as in nothing_left */
}

bool ts_epoch_is_over(const ts_epoch *epoch, EpochId id) {
    bool left;
    do {
        left = ts_load_relaxed(&epoch->span_units) != 0;
        if (left || ts_load_relaxed(&epoch->state) != EPOCH_CLOSING) return false;
        if (ts_epoch_read_blocks(epoch, id, look_if_left, &left)) return !left;
    } while (!left && ts_epoch_is_still(epoch, id)); /* a block has left it; there are only so many */
    return false;
}

static bool holds_nothing(const ts_block *b) {
    return ts_load_acquire(&b->flushed) && ts_load_relaxed(&b->slabs) == 0; /* as in nothing_left */
}

/* The epoch is a churn one, CLOSING, pinned by nobody, and others of its blocks hold something, or it has spans. A block that holds nothing gets
   nothing any more: so its thread may have it, and a leaked object keeps the block that it is in, not those of all threads that were
   in the epoch. Caller has the lock, which is released. */
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
    ts_allocator_pin(allocator); /* who frees it ends this epoch before, and so comes after this */
    ts_epoch_release(epoch);
    end_blocks(allocator, leave);
    ts_allocator_unpin(allocator);
}

void ts_epoch_finish(ts_epoch *epoch, EpochId id) {
    ts_epoch_acquire(epoch);
    if (id != 0 && ts_load_relaxed(&epoch->entry.id) == id && epoch->pins == (epoch->spill != NULL) &&
        ts_load_relaxed(&epoch->state) == EPOCH_CLOSING && nothing_left(epoch)) {
        kill_locked(epoch);
        return;
    }
    if (id != 0 && ts_load_relaxed(&epoch->entry.id) == id && epoch->pins == 0 && !epoch->spill &&
        ts_load_relaxed(&epoch->state) == EPOCH_CLOSING && !(ts_load_relaxed(&epoch->flags) & EPOCH_SCOPE)) {
        end_empty_blocks(epoch);
        return;
    }
    ts_epoch_release(epoch);
}

TS_COLD static void finish_all(void) {
    uint32_t high = ts_table_high(&ts_epochs);
    ts_thread.drained_more = false;
    for (uint32_t i = 1; i < high; i++) {
        ts_epoch *epoch = ts_table_at(&ts_epochs, i);
        uint64_t id = ts_load_acquire(&epoch->entry.id);
        if (id != 0 && ts_epoch_is_over(epoch, id)) ts_epoch_finish(epoch, id);
    }
}

void ts_epoch_finish_over(const ts_allocator *allocator) {
    uint32_t high = ts_table_high(&ts_epochs);
    for (uint32_t i = 1; i < high; i++) {
        ts_epoch *epoch = ts_table_at(&ts_epochs, i);
        uint64_t id = ts_load_acquire(&epoch->entry.id);
        if (id != 0 && ts_load_relaxed(&epoch->allocator) == allocator && ts_epoch_is_over(epoch, id))
            ts_epoch_finish(epoch, id);
    }
}

static void finish_noted(void) {
    if (TS_UNLIKELY(ts_thread.drained_more)) {
        ts_thread.drained_count = 0; /* those too */
        finish_all();
    }
    while (ts_thread.drained_count > 0) {
        ts_epoch *epoch = ts_table_at(&ts_epochs, ts_thread.drained[--ts_thread.drained_count]);
        ts_epoch_finish(epoch, ts_load_acquire(&epoch->entry.id));
    }
    if (ts_thread.heap) ts_heap_limit_blocks(ts_thread.heap);
    ts_records_settle();
}

static bool is_noted(void) { return (ts_thread.drained_count | (unsigned)ts_thread.drained_more) != 0; }

/* One call in so many looks what time it is. */
#define DECAY_EVERY 8u

static bool is_asked_to_shed(void) {
    return ts_thread.heap && TS_UNLIKELY(ts_load_relaxed(&ts_thread.heap->asked_to_shed) != 0);
}

void ts_epoch_settle(void) {
    do {
        /* What others have left to this thread; mostly it makes their epochs end. */
        if (TS_UNLIKELY(ts_thread.heap && ts_heap_is_called(ts_thread.heap))) ts_heap_answer(ts_thread.heap);
        if (is_noted()) finish_noted();
        if (TS_UNLIKELY(++ts_thread.settled % DECAY_EVERY == 0) || is_asked_to_shed()) ts_decay_look();
        ts_settle_pending();
    } while (TS_UNLIKELY(is_noted())); /* what ended, and heaps that nobody has, can have left more */
}

ts_epoch *ts_epoch_pin(ts_allocator *allocator, EpochId id, ts_block **blocks) {
    ts_epoch *epoch = ts_epoch_find_locked(allocator, id);
    if (!epoch) return NULL;
    epoch->pins++;
    *blocks = ts_load_relaxed(&epoch->blocks);
    ts_epoch_release(epoch);
    return epoch;
}

void ts_epoch_unpin(ts_epoch *epoch) {
    ts_epoch_acquire(epoch);
    uint64_t id = ts_load_relaxed(&epoch->entry.id);
    epoch->pins--;
    if (epoch->pins == 0 && epoch->destroyed) {
        take_apart(epoch); /* releases the lock */
        return;
    }
    ts_block *dying = epoch->pins == 0 ? epoch->dying : NULL;
    if (dying) epoch->dying = NULL;
    /* Before the lock is released: afterwards the entry may get its next use, of another allocator. */
    ts_allocator *allocator = ts_load_relaxed(&epoch->allocator);
    ts_epoch_release(epoch);
    end_blocks(allocator, dying);
    /* Who found it drained meanwhile could not end it. */
    ts_epoch_finish(epoch, id);
}

/* Takes what is empty in a block; the epoch is pinned. A heap that cannot be held, now, flushes its block itself: that is left to
   it. */
static void flush_block(ts_allocator *allocator, ts_block *b, uint64_t *scanned, uint64_t *recycled) {
    ts_heap *heap = ts_load_acquire(&b->heap);
    if (!ts_heap_hold(heap)) {
        ts_heap_leave_shut(heap, b);
        if (ts_heap_call(heap)) {
            ts_heap_work_off(heap);
            ts_heap_drop(heap);
        } else {
            ts_fetch_add_relaxed(&allocator->left, 1);
        }
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

/* What earlier ends have left to threads that have got out of their operation since, perhaps to rest. */
static void take_left(void) {
    if (ts_load_relaxed(&ts_heaps_called) == 0) return;
    ts_store_relaxed(&ts_heaps_called, 0);
    for (ts_heap *heap = ts_heaps(); heap; heap = heap->next)
        if (heap != ts_thread.heap && ts_heap_is_called(heap)) ts_heap_answer(heap);
    /* A hint, that is for the next close: a call that came meanwhile has set it, too. */
    for (const ts_heap *heap = ts_heaps(); heap; heap = heap->next)
        if (ts_heap_is_called(heap)) ts_store_relaxed(&ts_heaps_called, 1);
}

static uint32_t in_kib(uint64_t bytes) { return bytes >> 10 < UINT32_MAX ? (uint32_t)(bytes >> 10) : UINT32_MAX; }

bool ts_epoch_close(ts_allocator *allocator, EpochId id) {
    ts_epoch *epoch = ts_epoch_find_locked(allocator, id);
    if (!epoch) return false;
    if (!ts_epoch_is_active(epoch)) {
        ts_epoch_release(epoch);
        return false;
    }
    uint64_t from = ts_os->wall_ns(), scanned = 0, recycled = 0;
    ts_store_relaxed(&epoch->closed_at_ns, from);
    ts_store_relaxed(&epoch->closed_kib, ts_epoch_held_kib(epoch));
    ts_store_relaxed(&epoch->state, EPOCH_CLOSING);
    epoch->pins++;
    shut_blocks(epoch, false);
    ts_block *blocks = ts_load_relaxed(&epoch->blocks);
    /* Who frees the allocator ends this epoch before the record, and so comes after this. */
    ts_allocator_pin(allocator);
    ts_epoch_release(epoch);

    bool record = allocator->settings.record_rss != 0;
    uint64_t before = record ? ts_os->resident_bytes() : 0;
    uint64_t released = ts_thread.released;
    take_left();
    for (ts_block *b = blocks; b; b = ts_epoch_next_block(b)) flush_block(allocator, b, &scanned, &recycled);
    ts_settle_phase(ts_thread.released - released);
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
    if (ts_load_relaxed(&epoch->entry.id) == id) ts_decay_note_closed();
    ts_epoch_settle();
    return true;
}

/* `blocks` come before those that are dying already. */
static void add_dying(ts_epoch *epoch, ts_block *blocks) {
    if (!blocks) return;
    ts_block *last = blocks;
    while (ts_epoch_next_block(last)) last = ts_epoch_next_block(last);
    ts_store_relaxed(&last->epoch_next, epoch->dying);
    epoch->dying = blocks;
}

/* release: who reads 0 freed (first) reads 0 allocated, and no span that is not there. */
TS_NOINLINE void ts_epoch_forget_spans(ts_epoch *epoch) {
    ts_store_relaxed(&epoch->span_allocated, 0);
    ts_store_relaxed(&epoch->span_bytes_allocated, 0);
    ts_store_release(&epoch->span_freed, 0);
    ts_store_release(&epoch->span_bytes_freed, 0);
}

bool ts_epoch_reset(ts_allocator *allocator, EpochId id, uint64_t *units_freed) {
    if (TS_UNLIKELY(ts_care_on_asan)) ts_care_call_ends(allocator->care, id);
    ts_epoch *epoch = ts_epoch_find_locked(allocator, id);
    if (!epoch || ts_load_relaxed(&epoch->state) != EPOCH_ACTIVE) {
        if (epoch) ts_epoch_release(epoch);
        errno = ESTALE;
        return false;
    }
    uint64_t units = 0;
    shut_blocks(epoch, true);
    ts_block *blocks = ts_epoch_detach_blocks(epoch);
    for (ts_block *b = blocks; b; b = ts_epoch_next_block(b)) units += ts_load_relaxed(&b->slabs);
    uint32_t spans = ts_span_detach(epoch);
    ts_epoch_forget_spans(epoch);
    /* Who pins walks these blocks still: dead now, taken apart by the last who unpins. */
    if (epoch->pins > 0) {
        add_dying(epoch, blocks);
        blocks = NULL;
    }
    ts_epoch_release(epoch);
    end_blocks(allocator, blocks);
    uint64_t released = ts_thread.released; /* spans that stay warm; longer ones have gone back */
    ts_span_release_list(allocator, spans);
    *units_freed = units + (ts_thread.released - released);
    return true;
}

static bool is_listed(const ts_block *block) {
    const ts_epoch *epoch = ts_load_relaxed(&block->epoch);
    const ts_block *b = ts_load_relaxed(&epoch->entry.id) != 0 ? ts_load_relaxed(&epoch->blocks) : NULL;
    while (b && b != block) b = ts_epoch_next_block(b);
    for (b = b ? b : epoch->dying; b && b != block;) b = ts_epoch_next_block(b);
    return b != NULL;
}

/* Another thread of the parent was about to show an epoch with its first block, or had taken blocks off an epoch's list to
   end them. There is no such thread in the child. */
static void end_left_behind(ts_heap *heap) {
    ts_block *next;
    if ((ts_load_relaxed(&heap->condemned) || ts_load_relaxed(&heap->ending)) && ts_heap_hold(heap)) {
        ts_heap_end_condemned(heap);
        ts_heap_drop(heap);
    }
    for (ts_block *b = ts_heap_first_block(heap); b; b = next) {
        next = ts_heap_next_block(b);
        ts_store_relaxed(
            &b->left, 0); /* of who vanished before he had it on the list: `unflushed` stands for it, or it is dead */
        if (is_listed(b) || !ts_heap_hold(heap)) continue;
        ts_foreign_drain(heap);
        ts_block_end(heap, b);
        ts_heap_drop(heap);
    }
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
}

void ts_epoch_destroy_all(ts_allocator *allocator) {
    atomic_thread_fence(memory_order_seq_cst); /* partner: ts_epoch_show */
    uint32_t high = ts_table_high(&ts_epochs);
    for (uint32_t i = 1; i < high; i++) {
        ts_epoch *epoch = ts_table_at(&ts_epochs, i);
        uint64_t id = ts_load_acquire(&epoch->entry.id);
        if (id != 0 && ts_load_relaxed(&epoch->allocator) == allocator) ts_epoch_destroy(allocator, id);
    }
}
