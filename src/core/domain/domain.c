/*
 * Domains: made, and given up to another thread.
 *
 * A thread that makes a domain for itself makes it in an epoch that no other thread can find yet. So both begin
 * without a lock: the epoch with its first block, then the domain. The one that is shown last looks whether the
 * allocator has ended meanwhile.
 */
/* Modelled in tests/model: epoch, enter, orders. */
#include "domain/domain.h"
#include "cache/cache.h"
#include "domain/domain_parts.h"
#include "domain/tree.h"
#include "epoch/blocks.h"
#include "epoch/epoch.h"

#include <errno.h>

_Atomic(ts_capture_fn *) ts_capture;

void ts_domain_init(void) {
    ts_table_init(&ts_domains, TS_TABLE_DOMAIN, TS_DOMAIN_STRIDE, sizeof(void *) < 8 ? 8 * sizeof(void *) : 63);
    ts_tree_init();
}

/* Makes a free record a domain that can be found. */
TS_ALWAYS_INLINE uint64_t begin_domain(ts_domain *d, ts_allocator *allocator, uintptr_t token, EpochId epoch,
                                       uint64_t owner, bool shared, unsigned ends_epoch, ts_scope_block *block,
                                       bool captures) {
    uint64_t id = ts_table_next_id(&ts_domains, d);
    atomic_thread_fence(memory_order_release); /* the last id went before any of these stores: ts_domain_is_still */
    ts_store_relaxed_if_changed(&d->allocator, allocator);
    ts_store_relaxed_if_changed(&d->token, token);
    /* release: a thread that finds the epoch here finds its record, too (ts_domain_lock) */
    ts_store_release(&d->epoch, epoch);
    ts_store_relaxed_if_changed(&d->owner, owner);
    ts_store_relaxed_if_changed(&d->shared, shared);
    ts_store_relaxed_if_changed(&d->ends_epoch, (uint8_t)ends_epoch);
    ts_store_relaxed_if_changed(&d->busy, 0);
    ts_store_relaxed_if_changed(&d->captures, captures);
    ts_store_relaxed_if_changed(&d->cleanups, NULL);
    ts_store_relaxed_if_changed(&d->block, block);
    if (shared) ts_store_relaxed(&d->guests, ts_guests_none(id)); /* it was LEFT before, so no thread adds to it */
    ts_table_publish(d, id);
    return id;
}

/* A free record. NULL: errno is ENOMEM. */
static ts_domain *take_record(void) {
    ts_heap *heap = ts_heap_mine();
    if (heap) ts_domain_collect_any_returned(heap);
    ts_domain *d = heap ? ts_heap_take_record(&ts_domains, TS_TABLE_DOMAIN) : NULL;
    return d ? d : ts_fail_null(ENOMEM);
}

/* Ends a new domain and its epoch, whose allocator has ended meanwhile. That end may have found the domain alone, which
   can be found before its epoch. */
TS_COLD static uint64_t made_too_late(ts_allocator *allocator, ts_domain *d, uint64_t id, EpochId epoch) {
    ts_epoch_destroy(allocator, epoch);
    ts_domain_end_begun(d, id);
    return ts_fail(EINVAL);
}

/* The calling thread's block in the epoch, or in another one: a hint. */
static ts_scope_block *scope_of(EpochId epoch) {
    return ts_thread.heap->scope_map[ts_table_index(&ts_epochs, epoch) % TS_HEAP_MAP];
}

/* The domain begins under the epoch's lock, while the epoch is ACTIVE. So it can be found before the epoch ends, and an
   end of the allocator, which ends all epochs first, finds it. */
uint64_t ts_domain_wrap(ts_allocator *allocator, uintptr_t token, EpochId epoch_id, unsigned ends_epoch) {
    ts_domain *d = take_record();
    if (!d) return 0;
    uint64_t id = 0;
    ts_epoch *epoch = ts_epoch_find_active(allocator, epoch_id);
    if (epoch && !epoch->has_domain) {
        epoch->has_domain = true;
        ts_scope_block *block = scope_of(epoch_id);
        id = begin_domain(d, allocator, token, epoch_id, ts_thread.serial, false, ends_epoch, block, false);
    }
    if (epoch) ts_epoch_release(epoch);
    if (id) return id;
    ts_heap_keep_record(&ts_domains, TS_TABLE_DOMAIN, d);
    bool was = ts_epoch_find(allocator, epoch_id) || ts_table_is_past(&ts_epochs, epoch_id);
    return ts_fail(epoch ? EBUSY : was ? ESTALE : EINVAL);
}

uint64_t ts_domain_open(ts_allocator *allocator, uintptr_t token, const char *label, unsigned flags) {
    unsigned kind = flags & TS_EPOCH_KINDS;
    bool captures = (flags & EPOCH_DOMAIN_CAPTURE) != 0;
    if (flags & ~(TS_EPOCH_KINDS | TS_DOMAIN_FLAGS)) return ts_fail(EINVAL);
    if (captures && !ts_load_acquire(&ts_capture)) return ts_fail(ENOTSUP);
    if (captures && kind == 0) kind = EPOCH_CHURN;
    bool shared = (flags & EPOCH_DOMAIN_SHARED) != 0;
    if (!kind) kind = EPOCH_SCOPE;
    ts_domain *d = take_record();
    if (!d) return 0;
    /* A thread that creates a domain for itself allocates in it. */
    unsigned first = shared ? TS_FIRST_USUAL : kind == EPOCH_CHURN ? TS_FIRST_SMALL : TS_FIRST_JOINS;
    ts_epoch *epoch = ts_epoch_make(allocator, label, kind, first, true);
    if (!epoch) {
        ts_heap_keep_record(&ts_domains, TS_TABLE_DOMAIN, d);
        return 0;
    }
    EpochId epoch_id = ts_table_next_id(&ts_epochs, epoch);
    /* Entering a domain that captures takes the slow path, which looks at that. */
    uint64_t id = begin_domain(d, allocator, token, epoch_id, shared ? 0 : ts_thread.serial, shared,
                               flags & EPOCH_DOMAIN_DRAIN ? TS_EPOCH_DRAINS : TS_EPOCH_ENDS,
                               captures ? NULL : scope_of(epoch_id), captures);
    if (!ts_epoch_show_in_time(epoch, allocator, token, epoch_id, true))
        return made_too_late(allocator, d, id, epoch_id);
    TS_PROBE3(epoch__open, epoch_id, label, (uint64_t)kind);
    return id;
}

/* Reads the clock first, and looks for all that may be missing before it changes anything. So no register is live
   across a call. */
uint64_t ts_domain_make(uintptr_t token) {
    uint64_t now = ts_epoch_domain_time();
    ts_heap *heap = ts_thread.heap;
    if (TS_UNLIKELY(!heap || heap->spares[TS_TABLE_EPOCH] == 0 || heap->spares[TS_TABLE_DOMAIN] == 0)) return 0;
    if (TS_UNLIKELY(!ts_barriers)) return 0; /* showing without a fence needs the barrier in ts_allocator_end */
    ts_share *share = ts_heap_find_share(heap, token);
    if (TS_UNLIKELY(!share)) return 0;
    ts_allocator *allocator = share->allocator;
    ts_epoch *epoch = (void *)heap->spare[TS_TABLE_EPOCH][heap->spares[TS_TABLE_EPOCH] - 1];
    ts_op_begin(&ts_thread);
    /* acquire: as in ts_heap_enter; the list may be read only then */
    ts_block *block = TS_LIKELY(ts_load_acquire(&heap->revoked) == 0) ? heap->free_scope : NULL;
    if (TS_UNLIKELY(!block) || TS_UNLIKELY(!epoch->clean)) {
        ts_op_end(&ts_thread);
        return 0;
    }
    heap->spares[TS_TABLE_EPOCH]--;
    EpochId epoch_id = ts_epoch_begin(epoch, allocator, EPOCH_SCOPE, now, true);
    if (TS_UNLIKELY(!epoch->has_domain)) epoch->has_domain = true; /* mostly its last use was a domain's, too */
    ts_epoch_first_scope(heap, share, epoch, epoch_id, block);
    ts_heap_leave(heap);
    ts_epoch_remember_scope(heap, ts_scope(block), epoch);
    ts_domain *d = (void *)heap->spare[TS_TABLE_DOMAIN][--heap->spares[TS_TABLE_DOMAIN]];
    uint64_t id =
        begin_domain(d, allocator, token, epoch_id, heap->serial, false, TS_EPOCH_ENDS, ts_scope(block), false);
    /* The domain is shown last, and looks for both whether the allocator has ended. */
    if (TS_UNLIKELY(!ts_epoch_show_in_time(epoch, allocator, token, epoch_id, false)))
        return made_too_late(allocator, d, id, epoch_id);
    TS_PROBE3(epoch__open, epoch_id, NULL, (uint64_t)EPOCH_SCOPE);
    return id;
}

/* ---- without its thread ---------------------------------------------------------------------------------- */

bool ts_domain_force_close(uint64_t id) {
    ts_domain_fields f = ts_domain_read(id);
    if (!f.token) return ts_domain_refuse("epoch_domain_force_close", id, NULL, EINVAL);
    return ts_epoch_close(f.allocator, f.epoch) || ts_fail(EINVAL);
}

bool ts_domain_hand_over(uint64_t id) {
    ts_domain *d = ts_domain_mine(id, "epoch_domain_hand_over");
    if (!d) return false;
    if (ts_domain_is_entered(id)) return ts_domain_refuse("epoch_domain_hand_over", id, "still entered", EPERM);
    if (TS_UNLIKELY(ts_load_relaxed(&d->kin) != NULL) && !ts_tree_may_go(id)) return ts_fail(EPERM);
    /* It is busy: this is one of its own cleanups, and the thread that runs them goes on with it. (A shared domain
       has no owner, so there is nothing to give up.) */
    uint32_t busy = ts_load_relaxed(&d->busy);
    if (busy != TS_QUIET && busy != TS_TRIED && !ts_load_relaxed(&d->shared))
        return ts_domain_refuse("epoch_domain_hand_over", id, TS_IS_ENDING, EPERM);
    ts_domain_fields f = ts_domain_read(id);
    if (!f.token) return ts_domain_refuse("epoch_domain_hand_over", id, NULL, EINVAL);
    ts_mark_drop_all(d, true);
    ts_epoch_disown(f.allocator, f.epoch);
    /* release: partner of the acquire in take_own. It fails where the record has another use by now, because another
       thread can end a shared domain: then the owner is another one, or none. */
    uint64_t me = ts_thread.heap->serial;
    if (TS_UNLIKELY(ts_load_relaxed(&d->kin) != NULL)) {
        (void)ts_orphans_make_share(ts_thread.heap, f.allocator);
        ts_tree_disown(id, me);
        ts_orphans_pass_on(ts_thread.heap);
    }
    uint64_t owner = me;
    while (!atomic_compare_exchange_strong_explicit(&d->owner, &owner, ts_domain_nobody(id), memory_order_release,
                                                    memory_order_relaxed) &&
           owner == TS_OWNER_ENDING && ts_tree_owner(d, id) == me)
        owner = me; /* another thread tries to end it */
    return true;
}
