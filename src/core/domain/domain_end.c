/*
 * The ends of domains: destroy, reset, and the end of their allocator.
 *
 * What could go wrong: two threads end one domain, a cleanup runs twice, or runs when its objects are dead. It does
 * not. One thread makes the domain busy, under its epoch's lock, and all others find it busy. A cleanup is taken off
 * the list before it runs. The epoch ends after the last one, under the hold of the lock under which the domain ends.
 * So no thread and no child of fork finds an epoch that its domain was to end.
 */
/* Modelled in tests/model: epoch, enter, orders. */
#include "cache/cache.h"
#include "cache/free.h"
#include "domain/domain.h"
#include "domain/domain_parts.h"
#include "domain/tree.h"
#include "epoch/blocks.h"
#include "epoch/epoch.h"

#include "memtools/memtools.h"

#include <errno.h>

/* The refusal of a busy domain: its cleanups run, or another thread has ended it meanwhile. */
static bool refuse_busy(const char *call, uint64_t id) {
    return ts_domain_find(id) ? ts_domain_refuse(call, id, TS_IS_ENDING, EPERM)
                              : ts_domain_refuse(call, id, NULL, EINVAL);
}

/* One thread at a time ends or empties a domain, and none from inside of its own cleanups. A use of a record ends
   under its epoch's lock. So while this thread has that lock and finds the id, the domain stays, and `busy` and
   `cleanups` are those of this use. The record may have another use since it was found. Then its epoch has another
   lock, but the id has changed, too. */
bool ts_domain_make_busy(ts_domain *d, uint64_t id, uint32_t how) {
    ts_epoch *epoch;
    uint32_t busy;
    for (;;) {
        epoch = ts_domain_lock(d);
        busy = ts_load_acquire(&d->busy);
        if (TS_LIKELY(busy != TS_TRIED) || ts_load_relaxed(&d->record.id) != id) break;
        ts_epoch_release(epoch);
        ts_tree_wait();
    }
    bool marked = busy == TS_MARKED && ts_thread.heap && d->busy_by == ts_thread.heap->serial;
    bool mine_now = ts_load_relaxed(&d->record.id) == id && (busy == TS_QUIET || marked);
    if (mine_now) {
        /* Not ENDS, into which other threads come: a thread that has counted itself in since the look at `inside` may
           read `busy` only now (count_in_shared). */
        ts_store_relaxed(&d->busy, !marked ? how : how == TS_ENDS ? TS_ENDS_ALONE : TS_RESETS_MARKED);
        d->busy_by = ts_thread.heap ? ts_thread.heap->serial : 0;
        d->busy_level = ts_domain_level();
    }
    ts_epoch_release(epoch);
    return mine_now;
}

bool ts_domain_make_quiet(ts_domain *d) {
    ts_epoch *epoch = ts_domain_lock(d);
    uint32_t busy = ts_load_relaxed(&d->busy);
    bool ends = busy == TS_RESETS_THEN_ENDS;
    ts_store_release(&d->busy, ends ? TS_ENDS : busy == TS_RESETS_MARKED ? TS_MARKED : TS_QUIET);
    ts_epoch_release(epoch);
    return ends;
}

/* Leaves the end of a shared domain to another thread that is emptying it. Not for one of the cleanups that run. */
bool ts_domain_defer_end(ts_domain *d, uint64_t id) {
    ts_epoch *epoch = ts_domain_lock(d);
    bool resets = ts_load_relaxed(&d->record.id) == id && ts_load_relaxed(&d->busy) == TS_RESETS &&
                  d->busy_by != ts_thread.heap->serial;
    if (resets) ts_store_relaxed(&d->busy, TS_RESETS_THEN_ENDS);
    ts_epoch_release(epoch);
    return resets;
}

/* ---- ends --------------------------------------------------------------------------------------------- */

/* Gives the record of this thread's own domain back. If the thread is inside, because the allocator was freed
   meanwhile, it does so when it leaves. */
static void keep_own_record(ts_domain *d) {
    if (TS_UNLIKELY(ts_load_relaxed(&d->inside) != 0))
        d->left_behind = 1;
    else
        ts_heap_keep_record(&ts_domains, TS_TABLE_DOMAIN, d);
}

void ts_domain_collect_returned(ts_heap *heap) {
    /* acquire: partner of the release in ts_heap_return_record */
    uint32_t next = atomic_exchange_explicit(&heap->returned, 0, memory_order_acquire);
    while (next) {
        ts_domain *d = ts_table_at(&ts_domains, next);
        next = d->record.next_free;
        keep_own_record(d);
    }
}

/* The last owner of an ended domain. A thread may become the owner of a domain that is handed over until this
   exchange, and not later. */
static uint64_t last_owner(ts_domain *d) {
    uint64_t owner = d->owner_before;
    d->owner_before = 0;
    if (owner == 0 && ts_load_relaxed(&d->owner) != ts_thread.serial)
        owner = atomic_exchange_explicit(&d->owner, TS_OWNER_ENDING, memory_order_acq_rel);
    return owner == ts_thread.serial ? 0 : owner;
}

/* Ends the id, and gives the record back. A shared domain's record is free when no thread is inside. The record of
   another thread's domain goes to that thread, unless the thread has ended: it may be inside, or about to count itself
   in (enter.c, 3). Caller has the epoch's lock. */
static void end_use(ts_domain *d) {
    uint64_t id = ts_load_relaxed(&d->record.id);
    if (!ts_table_end(&ts_domains, d)) return;
    if (ts_load_relaxed(&d->shared)) {
        if (ts_guests_count(atomic_fetch_or_explicit(&d->guests, TS_GUESTS_LEFT, memory_order_seq_cst)) == 0)
            ts_heap_keep_record(&ts_domains, TS_TABLE_DOMAIN, d);
        return;
    }
    uint64_t owner = last_owner(d);
    if (TS_LIKELY(owner == 0)) {
        keep_own_record(d);
        return;
    }
    if (owner == ts_domain_nobody(id) || !ts_heap_return_record(owner, &d->record))
        ts_heap_keep_record(&ts_domains, TS_TABLE_DOMAIN, d);
}

/* What the end of a domain does with its epoch. An epoch that lives on leaves the accounts of the tree. Caller has the
   lock, which is released. */
static void end_epoch(ts_epoch *epoch, unsigned ends) {
    epoch->has_domain = false;
    if (ends == TS_EPOCH_ENDS) {
        ts_epoch_destroy_locked(epoch);
        return;
    }
    ts_limit_leave(epoch);
    if (ends == TS_EPOCH_DRAINS && ts_epoch_is_active(epoch))
        ts_epoch_close_locked(epoch);
    else
        ts_epoch_release(epoch);
}

/* The last step of an end, by the thread that made the domain busy: the domain and its epoch end under one hold of the
   lock. false: another thread has registered a cleanup meanwhile, or made a child. These come first, unless the
   allocator has ended: then cleanups do not run. */
static bool end_now(ts_domain *d, bool without_cleanups) {
    const ts_kin *kin = ts_load_acquire(&d->kin);
    EpochId epoch_id = ts_load_relaxed(&d->epoch);
    unsigned how = ts_load_relaxed(&d->ends_epoch);
    bool locks = kin || without_cleanups;
    if (locks) ts_lock_acquire(&ts_tree_lock);
    ts_epoch *epoch = ts_domain_lock(d);
    struct ts_cleanup *cleanups = ts_load_relaxed(&d->cleanups);
    bool clean = !cleanups && (kin ? !kin->child : !ts_load_relaxed(&d->kin)), ends = clean || without_cleanups;
    if (ends) {
        ts_mark_drop_all(d, false);
        ts_tree_unlink(d);
        end_use(d);
    }
    if (locks) ts_lock_release(&ts_tree_lock);
    if (ends && ts_load_relaxed(&epoch->record.id) == epoch_id)
        end_epoch(epoch, how);
    else
        ts_epoch_release(epoch);
    if (ends) ts_domain_drop_cleanups(cleanups);
    return ends;
}

/* Whether the domain is quiet, and has no cleanups, no parent and no children. Caller has the lock of its epoch, and
   all of this stays so while it is held. */
TS_ALWAYS_INLINE bool is_quiet(const ts_domain *d, uint64_t id) {
    return TS_LIKELY(ts_load_relaxed(&d->record.id) == id) && TS_LIKELY(!ts_load_acquire(&d->busy)) &&
           TS_LIKELY(!ts_load_relaxed(&d->cleanups)) && TS_LIKELY(!ts_load_relaxed(&d->kin));
}

/* The domain's epoch, locked, if the domain is quiet and the epoch still is its own. NULL: else, and the lock is not
   held. */
TS_ALWAYS_INLINE ts_epoch *lock_quiet(const ts_domain *d, uint64_t id) {
    /* Loaded before the look at the domain's id. If that is right, this is its epoch, and not that of the record's
       next use. acquire: as in ts_domain_lock. */
    EpochId epoch_id = ts_load_acquire(&d->epoch);
    ts_epoch *epoch = ts_table_of_strided(&ts_epochs, epoch_id, TS_EPOCH_STRIDE);
    ts_lock_acquire_uncounted(ts_epoch_lock(epoch));
    if (is_quiet(d, id) && TS_LIKELY(ts_load_relaxed(&epoch->record.id) == epoch_id)) return epoch;
    ts_epoch_release(epoch);
    return NULL;
}

/* Caller: the thread that made it busy. */
void ts_domain_finish(ts_domain *d, uint64_t id) {
    /* While the cleanups run the domain can still be used, entered or not. */
    ts_allocator *allocator = ts_load_relaxed(&d->allocator);
    EpochId epoch = ts_load_relaxed(&d->epoch);
    unsigned ends = ts_load_relaxed(&d->ends_epoch);
    do {
        if (TS_UNLIKELY(ts_load_acquire(&d->kin) != NULL)) ts_domain_end_children(id, 0);
        ts_domain_run_cleanups(d, 0);
        if (ends == TS_EPOCH_STAYS) ts_mark_drop_all(d, true);
        ts_domain_leave_all(ts_thread.heap, id);
        if (ends == TS_EPOCH_ENDS) ts_epoch_note_call(allocator, epoch);
    } while (!end_now(d, false));
}

TS_NOINLINE static bool destroy_other(uint64_t id) {
    /* First: the domain may be another thread's again. */
    if (TS_UNLIKELY(ts_domain_is_in_cleanup(id))) return refuse_busy("epoch_domain_destroy", id);
    ts_domain *d = ts_domain_mine(id, "epoch_domain_destroy");
    if (!d) return true;
    while (!ts_domain_make_busy(d, id, TS_ENDS)) {
        if (ts_domain_defer_end(d, id)) {
            ts_domain_leave_all(ts_thread.heap, id);
            return true;
        }
        /* It was neither quiet nor being emptied, unless that was over in between. */
        uint32_t busy = ts_load_acquire(&d->busy);
        if ((busy == TS_QUIET || busy == TS_TRIED) && ts_load_relaxed(&d->record.id) == id) continue;
        return refuse_busy("epoch_domain_destroy", id);
    }
    ts_domain_finish(d, id);
    return true;
}

/* The usual domain belongs to this thread alone, and its epoch ends with it. */
TS_ALWAYS_INLINE bool is_usual(const ts_domain *d, const ts_heap *heap) {
    return TS_LIKELY(d != NULL) && TS_LIKELY(heap != NULL) && TS_LIKELY(ts_load_relaxed(&d->owner) == heap->serial) &&
           TS_LIKELY(ts_load_relaxed(&d->ends_epoch) == TS_EPOCH_ENDS);
}

/* Leaves the heap after the usual end or reset, and does the rest, mostly nothing. over: the share has more retained
   units than it keeps. slabs: how many units it retained. Returns true, so that the caller has no register live
   across the call. */
TS_NOINLINE static bool finish_usual(ts_share *over, uint32_t slabs) {
    if (over) ts_share_overflow(over);
    ts_heap_leave(ts_thread.heap);
    ts_epoch_purge_after_end(slabs);
    ts_heap_limit_blocks(ts_thread.heap);
    return true;
}
TS_ALWAYS_INLINE bool leave_usual(ts_heap *heap, ts_share *share, bool over, uint32_t slabs) {
    if (TS_UNLIKELY(over) || TS_UNLIKELY(ts_epoch_is_anything_noted()) || TS_UNLIKELY(ts_heap_has_surplus(heap)))
        return finish_usual(over ? share : NULL, slabs);
    ts_heap_leave(heap);
    return true;
}

/* The usual end, under one hold of the epoch's lock: a quiet domain that this thread has left, and whose epoch has
   one block. `other` does all other cases. */
TS_ALWAYS_INLINE bool end_usually(uint64_t id, bool (*other)(uint64_t id)) {
    ts_domain *d = ts_domain_find(id);
    ts_heap *heap = ts_thread.heap;
    if (TS_UNLIKELY(!is_usual(d, heap)) || TS_UNLIKELY(ts_load_relaxed(&d->inside) != 0)) return other(id);
    ts_epoch *epoch = lock_quiet(d, id);
    if (TS_UNLIKELY(!epoch)) return other(id);
    ts_block *block = ts_epoch_enter_only(heap, epoch);
    if (TS_UNLIKELY(!block)) {
        ts_epoch_release(epoch);
        return other(id);
    }
    ts_share *share = block->share;
    ts_brief_ring *ring = ts_load_relaxed(&share->brief);
    if (TS_UNLIKELY(!ring) && share->allocator->settings.record_rss) { /* it measures before it takes the lock */
        ts_heap_leave(heap);
        ts_epoch_release(epoch);
        return other(id);
    }
    uint32_t slabs = ts_load_relaxed(&block->slabs);
    ts_heap_give_record(&ts_domains, TS_TABLE_DOMAIN, d);
    bool over = ts_epoch_end_only(heap, epoch, block, ring);
    return leave_usual(heap, share, over, slabs);
}

void ts_domain_destroy(uint64_t id) { (void)end_usually(id, destroy_other); }
bool ts_domain_end(uint64_t id) { return end_usually(id, ts_domain_end_other); }

TS_COLD void ts_domain_end_begun(ts_domain *d, uint64_t id) {
    if (ts_domain_make_busy(d, id, TS_ENDS)) (void)end_now(d, true);
}

/* Ends a domain whose end was left to a thread that does not exist here, and all below it. The cleanups were that
   thread's to run: in the middle of a fork they might wait for ever, for a lock of the program. */
static void end_left(ts_domain *d) {
    uint64_t id = ts_load_relaxed(&d->record.id);
    for (uint64_t leaf; (leaf = ts_tree_leaf(id, 0, 0)) != 0;) {
        ts_domain *below = ts_domain_find(leaf);
        if (below && ts_domain_make_busy(below, leaf, TS_ENDS))
            (void)end_now(below, true);
        else
            ts_tree_detach(leaf); /* this thread is ending it, or its turn comes */
    }
    (void)end_now(d, true);
}

/* Whether a thread of the parent was making the domain, and has not shown its epoch. */
static bool is_half_made(const ts_domain *d, uint64_t me) {
    EpochId id = ts_load_relaxed(&d->epoch);
    const ts_epoch *epoch = ts_table_of_strided(&ts_epochs, id, TS_EPOCH_STRIDE);
    return ts_load_relaxed(&d->record.id) != 0 && ts_load_relaxed(&d->owner) != me &&
           ts_load_relaxed(&epoch->record.id) == 0 && ts_table_next_id(&ts_epochs, epoch) == id &&
           ts_load_relaxed(&epoch->state) == EPOCH_ACTIVE;
}

/* In a child of fork, as the last of its floors. A domain goes on that a thread which does not exist here was ending
   or emptying, or was about to. Any thread can end it: the cleanups that had not begun run then. One that was to end
   as soon as it was emptied ends here, because the call that ended it has returned. So does one whose maker is not
   here, and has not shown its epoch. */
void ts_domain_fork_child(void) {
    uint64_t me = ts_thread.heap ? ts_thread.heap->serial : 0;
    uint32_t high = ts_table_high(&ts_domains);
    for (uint32_t i = 1; i < high; i++) {
        ts_domain *d = ts_table_at(&ts_domains, i);
        uint32_t busy = ts_load_relaxed(&d->busy);
        if (busy != TS_QUIET && busy != TS_RESETS_THEN_ENDS && d->busy_by != me) {
            if (d->owner_before != 0) ts_store_relaxed(&d->owner, d->owner_before);
            d->owner_before = 0;
            ts_store_relaxed(&d->busy, TS_QUIET);
        }
        /* There is no other thread. */
        ts_store_relaxed(&d->inside, 0);
        uint64_t guests = ts_load_relaxed(&d->guests);
        ts_store_relaxed(&d->guests, guests - ts_guests_count(guests));
    }
    for (const ts_domain_scope *s = ts_thread.domain; s; s = s->outer) {
        ts_domain *d = ts_table_of_strided(&ts_domains, s->domain, TS_DOMAIN_STRIDE);
        if (ts_load_relaxed(&d->shared))
            ts_fetch_add_relaxed(&d->guests, 1);
        else
            ts_add_owned(&d->inside, 1);
    }
    for (uint32_t i = 1; i < high; i++) {
        ts_domain *d = ts_table_at(&ts_domains, i);
        bool left = ts_load_relaxed(&d->busy) == TS_RESETS_THEN_ENDS && d->busy_by != me;
        if (left && ts_domain_make_quiet(d)) end_left(d);
        if (is_half_made(d, me)) ts_domain_end_begun(d, ts_load_relaxed(&d->record.id));
    }
}

/* At the end of a reset that retained this many units: no more than keep_bytes of them stay. Another thread may be
   ending the allocator. */
TS_NOINLINE static void purge_after_reset(ts_allocator *allocator, uintptr_t token, uint64_t units, size_t keep_bytes) {
    uint64_t keep = keep_bytes / TS_UNIT_BYTES, excess = units > keep ? units - keep : 0, retained = 0;
    if (excess > 0 && ts_allocator_pin_use(allocator, token)) {
        if (ts_allocator_read_begin(allocator, token)) {
            retained = ts_allocator_retained_units(allocator);
            ts_allocator_read_end(allocator);
        }
        ts_allocator_purge_to(allocator, retained > excess ? retained - excess : 0);
        ts_allocator_unpin(allocator);
    }
    ts_run_deferred_phase(units);
    ts_epoch_run_deferred();
}

TS_NOINLINE static bool reset_other(uint64_t id, size_t keep_bytes) {
    if (TS_UNLIKELY(ts_domain_is_in_cleanup(id))) return refuse_busy("epoch_domain_reset", id);
    ts_domain *d = ts_domain_mine(id, "epoch_domain_reset");
    uint64_t units = 0;
    if (!d) return false;
    if (!ts_load_relaxed(&d->ends_epoch)) return ts_fail(EINVAL);
    ts_allocator *allocator = ts_load_relaxed(&d->allocator);
    uintptr_t token = ts_load_relaxed(&d->token);
    if (!ts_domain_make_busy(d, id, TS_RESETS)) return refuse_busy("epoch_domain_reset", id);
    if (!ts_load_relaxed(&d->shared)) ts_mark_drop_all(d, false);
    if (TS_UNLIKELY(ts_load_acquire(&d->kin) != NULL)) ts_domain_end_children(id, 0);
    ts_domain_run_cleanups(d, 0);
    bool done = ts_epoch_reset(allocator, ts_load_relaxed(&d->epoch), &units);
    int error = errno;
    if (TS_UNLIKELY(ts_domain_make_quiet(d))) ts_domain_finish(d, id);
    /* An end of the allocator meanwhile has passed by a busy domain. It changes the allocator's id, and then reads
       `busy` under the epoch's lock (ts_domain_destroy_all). Here `busy` was written under that lock, and then the id
       is read. One of the two sees the other. */
    if (TS_UNLIKELY(!ts_allocator_find(token)) && ts_domain_make_busy(d, id, TS_ENDS)) (void)end_now(d, true);
    errno = error;
    if (!done) return false;
    ts_domain_follow_innermost(ts_thread.heap);
    purge_after_reset(allocator, token, units, keep_bytes);
    return true;
}

/* The usual reset, under one hold of the epoch's lock: a quiet domain, and this thread's block in its epoch goes on.
   Whether the domain is entered or not, slab_alloc finds the block where it found it before. While timing is on it
   must find none. */
bool ts_domain_reset(uint64_t id, size_t keep_bytes) {
    ts_domain *d = ts_domain_find(id);
    ts_heap *heap = ts_thread.heap;
    if (TS_UNLIKELY(!is_usual(d, heap)) || TS_UNLIKELY(ts_domain_is_timed(heap))) return reset_other(id, keep_bytes);
    ts_epoch *epoch = lock_quiet(d, id);
    if (TS_UNLIKELY(!epoch)) return reset_other(id, keep_bytes);
    ts_block *block = ts_epoch_enter_only(heap, epoch);
    if (TS_UNLIKELY(!block) || TS_UNLIKELY(ts_era_is_used_up(ts_era(block) + 1))) {
        if (block) ts_heap_leave(heap);
        ts_epoch_release(epoch);
        return reset_other(id, keep_bytes);
    }
    ts_share *share = block->share;
    uint32_t slabs = ts_load_relaxed(&block->slabs);
    bool over = ts_epoch_restart_block(heap, epoch, block);
    ts_epoch_release(epoch);
    (void)leave_usual(heap, share, over, slabs);
    if (TS_UNLIKELY(slabs > keep_bytes / TS_UNIT_BYTES))
        purge_after_reset(share->allocator, share->token, slabs, keep_bytes);
    return true;
}

void ts_domain_destroy_all(ts_allocator *allocator) {
    uint32_t i = 1;
    uint64_t id;
    for (ts_domain *d; (d = ts_table_next(&ts_domains, &i, &id)) != NULL;)
        if (ts_load_relaxed(&d->allocator) == allocator && ts_domain_make_busy(d, id, TS_ENDS)) (void)end_now(d, true);
}
