/*
 * Entering and leaving domains, and allocations inside of one.
 *
 * What could go wrong: a stale id is looked up while its record gets its next use, and the wrong domain is entered or
 * changed. It does not. An id never comes back, and every call looks at the id again after it has read the domain's
 * fields (ts_domain_is_still). A domain that other threads can reach is changed under its epoch's lock, and the id is
 * looked at once more there. A thread that enters too late counts itself in and out again; count_in_shared argues
 * that it counts in no other domain.
 */
/* Modelled in tests/model: enter, orders. */
#include "diagnose/diagnose.h"
#include "domain/domain_parts.h"
#include "domain/tree.h"
#include "epoch/blocks.h"
#include "epoch/epoch.h"

#include "cache/allocate.h"
#include "cache/cache.h"
#include "object/object.h"
#include "slab/slab.h"

#include <errno.h>
#include <string.h>

/* ---- the stack of domains entered -------------------------------------------------------------------- */

/* Whether a block is open to the fast paths; one with care (memtools.h) is not. */
TS_ALWAYS_INLINE bool is_fast(const ts_block *block) {
    return ts_load_relaxed(&block->key) >> TS_KEY_SHARE_SHIFT != 0 && !block->slow;
}

/* Whether a hint still is the heap's block in the epoch. It may be old: the block may have another use, or another
   heap. */
TS_ALWAYS_INLINE bool is_block_of(const ts_scope_block *block, const ts_heap *heap, EpochId epoch) {
    /* acquire: partner of ts_epoch_open_block. The heap in which the block is open comes with the id. */
    return block && ts_load_acquire(&block->b.open_id) == epoch && ts_load_relaxed(&block->b.heap) == heap &&
           is_fast(&block->b);
}

TS_NOINLINE void ts_domain_follow(ts_heap *heap, const ts_domain_scope *top) {
    ts_scope_block *b = top->block;
    if (!is_block_of(b, heap, top->epoch)) b = heap->scope_map[ts_table_index(&ts_epochs, top->epoch) % TS_HEAP_MAP];
    if (is_block_of(b, heap, top->epoch)) ts_set_scope(&ts_thread, b);
}

TS_ALWAYS_INLINE void push(ts_domain_scope *scope, uint64_t id, EpochId epoch, uintptr_t token, ts_scope_block *block) {
    ts_store_if_changed(&scope->outer, ts_thread.domain);
    scope->domain = id;
    scope->epoch = epoch;
    ts_store_if_changed(&scope->allocator, token);
    ts_store_if_changed(&scope->block, block);
    ts_store_if_changed(&scope->captures, false);
    ts_thread.domain = scope;
}

/* After a domain that captures was entered or left. */
TS_COLD void ts_domain_follow_capture(void) {
    const ts_domain_scope *scope = ts_thread.domain;
    while (scope && !scope->captures) scope = scope->outer;
    ts_load_acquire (&ts_capture)(scope ? scope->allocator : 0, scope ? scope->epoch : EPOCH_NONE);
}

/* Whether this thread ends the domain. The epoch's lock guards busy_by. */
TS_COLD static bool is_ended_by(ts_domain *d, uint64_t id, uint64_t serial) {
    ts_epoch *epoch = ts_domain_lock(d);
    bool mine = ts_load_relaxed(&d->record.id) == id && d->busy_by == serial;
    ts_epoch_release(epoch);
    return mine;
}

static bool is_shut(uint32_t busy) { return busy == TS_MARKED || busy == TS_ENDS_ALONE || busy == TS_RESETS_MARKED; }

/*
 * Entering against an end from another thread (ts_domain_end, in domain_tree.c). E enters, X ends:
 *     E:  inside + 1;  (compiler fence)  owner: still this thread;  else inside - 1, and once more or refused
 *     X:  owner = ENDING;  barrier of all threads;  inside: 0, else it gives the owner back and answers EBUSY
 * One of the two sees the other. A shared domain has no owner: there both look at `busy`, and both sides are seq_cst:
 *     E:  guests + 1;  busy: neither TRIED nor MARKED nor ENDS_ALONE;  else guests - 1, and once more or refused
 *     X:  busy = TRIED;  guests: none, else busy = QUIET and EBUSY;  busy = MARKED;  ENDS_ALONE;  cleanups;  the id
 *     ends
 * If X has not seen E, E reads TRIED or a later state. That is ENDS_ALONE until the id has ended. It is never ENDS:
 * threads may come into that as long as cleanups run, and E would be inside of a domain that ends as empty. X itself
 * may enter, from a cleanup. ENDING and TRIED hold until it is certain whether the domain ends. A thread that meets
 * them waits for that without being counted, and tries once more. It may be inside already, and the end may be taken
 * back because of it.
 *
 * E may be stopped for any time before, between and behind its two stores. They reach E's own domain nevertheless:
 *  1. While a thread is inside, the record gets no other use. So a thread that leaves counts itself off without a
 *     look at the id.
 *  2. `guests` names the use, and has LEFT once that use is over. E adds to a shared domain by compare-and-swap, and
 *     only to the word of its own use without LEFT. It changes nothing of any other use, shared or not. (The tags of
 *     two uses of one record may be equal, 2^32 uses apart. Then E sees that the id is over, and counts itself out
 *     again.)
 *  3. An owner adds with a load and a store, which may be far apart. So a record that another thread has ended is
 *     given to its old owner (end_use). It is used again after a later call of that thread, or after the thread's
 *     end. `owner` names that thread. A take-over and a mark exchange `owner`, so neither overwrites the other.
 */
TS_NOINLINE static bool count_in_shared(ts_domain *d, uint64_t id, uint64_t serial) {
    for (;;) {
        uint64_t none = ts_guests_none(id), guests = ts_load_relaxed(&d->guests);
        do {
            if (((guests ^ none) >> 32) != 0 || (guests & TS_GUESTS_LEFT) != 0) return false;
        } while (!atomic_compare_exchange_weak_explicit(&d->guests, &guests, guests + 1, memory_order_seq_cst,
                                                        memory_order_relaxed));
        uint32_t busy = ts_load_seq(&d->busy);
        if (TS_LIKELY(busy != TS_TRIED) && (TS_LIKELY(!is_shut(busy)) || is_ended_by(d, id, serial))) return true;
        ts_domain_count_out(d);
        if (busy != TS_TRIED) return false;
        ts_tree_wait();
    }
}

/* Counts this thread into a domain of its own. */
TS_ALWAYS_INLINE bool count_in_own(ts_domain *d, uint64_t serial) {
    ts_add_owned(&d->inside, 1);
    ts_compiler_fence(); /* partner: the barrier in ts_domain_end */
    if (TS_LIKELY(ts_load_relaxed(&d->owner) == serial)) return true;
    ts_add_owned(&d->inside, (uint32_t)-1);
    return false;
}

void ts_domain_count_out(ts_domain *d) {
    if (TS_LIKELY(!ts_load_relaxed(&d->shared))) {
        ts_add_owned(&d->inside, (uint32_t)-1);
        if (TS_UNLIKELY(d->left_behind) && ts_load_relaxed(&d->inside) == 0) { /* end_use, in domain_end.c */
            d->left_behind = 0;
            ts_table_free(&ts_domains, d);
        }
        return;
    }
    /* The last thread out of an ended domain gives its record back. */
    uint64_t guests = atomic_fetch_sub_explicit(&d->guests, 1, memory_order_seq_cst) - 1;
    if ((guests & TS_GUESTS_LEFT) != 0 && ts_guests_count(guests) == 0) ts_table_free(&ts_domains, d);
}

/* Whether a thread that enters a domain without an owner becomes its owner. */
static bool may_be_taken(const ts_domain *d, uint64_t id) {
    uint32_t busy = ts_load_relaxed(&d->busy);
    return (busy == TS_QUIET || busy == TS_TRIED) && ts_tree_parent(id) == 0;
}

/* Makes the calling thread the owner of a domain that was handed over. acquire: partner of the release in
   ts_domain_hand_over. It fails while the domain is TRIED, because its owner is ENDING then. */
static bool take_own(ts_domain *d, uint64_t id, uint64_t serial) {
    uint64_t nobody = ts_domain_nobody(id);
    return may_be_taken(d, id) && atomic_compare_exchange_strong_explicit(&d->owner, &nobody, serial,
                                                                          memory_order_acq_rel, memory_order_relaxed);
}

/* The refusal to enter a domain that another thread owns, or is ending. */
static bool refuse_others(const ts_domain *d, uint64_t id) {
    uint32_t busy = ts_load_relaxed(&d->busy);
    if (!ts_domain_is_still(d, id)) return ts_fail(EINVAL);
    if (busy == TS_ENDS || is_shut(busy)) return ts_fail(ESTALE);
    return ts_domain_refuse("epoch_domain_enter", id, TS_OF_ANOTHER_THREAD, EPERM);
}

TS_NOINLINE static bool enter_slowly(uint64_t id) {
    ts_domain *d = ts_domain_find(id);
    ts_heap *heap = ts_heap_mine();
    if (!d) return ts_domain_refuse("epoch_domain_enter", id, NULL, EINVAL);
    if (!heap) return false;
    ts_domain_collect_any_returned(heap);
    bool shared = ts_load_relaxed(&d->shared), takes = false;
    while (!shared && !takes) {
        uint64_t owner = ts_tree_owner(d, id);
        if (owner == heap->serial) break;
        takes = take_own(d, id, heap->serial);
        /* It has no owner, and cannot be had for a moment: another thread has taken it, or tries to end it. */
        bool again = owner == ts_domain_nobody(id) && may_be_taken(d, id);
        if (!takes && !again) return refuse_others(d, id);
    }
    if (takes && TS_UNLIKELY(ts_load_relaxed(&d->kin) != NULL)) ts_tree_adopt(id, heap->serial);
    EpochId epoch = ts_load_relaxed(&d->epoch);
    ts_scope_block *block = ts_load_relaxed(&d->block);
    uintptr_t token = ts_load_relaxed(&d->token);
    ts_allocator *allocator = ts_load_relaxed(&d->allocator);
    if (TS_UNLIKELY(!ts_domain_is_still(d, id))) return ts_domain_refuse("epoch_domain_enter", id, NULL, EINVAL);
    if (takes) ts_epoch_adopt_blocks(heap, allocator, epoch);
    /* While a block of this thread is open in the epoch, the epoch is ACTIVE. */
    bool here = is_block_of(block, heap, epoch);
    if (!here) {
        const ts_epoch *e = ts_epoch_find(allocator, epoch);
        if (!e || ts_load_relaxed(&e->state) != EPOCH_ACTIVE) return ts_fail(ESTALE);
    }
    ts_domain_scope *scope = heap->spare_scope;
    if (scope)
        heap->spare_scope = NULL;
    else
        scope = ts_lines_take(TS_LINES_CLEANUP, sizeof *scope);
    if (!scope) return ts_fail(ENOMEM);
    /* The look at the id came after the load of `shared`. */
    bool in = shared ? count_in_shared(d, id, heap->serial) : count_in_own(d, heap->serial);
    while (!in && !shared && ts_tree_owner(d, id) == heap->serial) in = count_in_own(d, heap->serial);
    /* While this thread is counted in, the record keeps its use. It has the right one if the id still is this one. */
    if (in && TS_UNLIKELY(!ts_domain_is_still(d, id))) {
        ts_domain_count_out(d);
        in = false;
    }
    if (!in) {
        ts_lines_give(TS_LINES_CLEANUP, scope);
        return ts_fail(ts_domain_is_still(d, id) ? ESTALE : EINVAL);
    }
    push(scope, id, epoch, token, block);
    if (TS_UNLIKELY(ts_load_relaxed(&d->captures))) {
        scope->captures = true;
        ts_domain_follow_capture();
    }
    if (here && !ts_domain_is_timed(heap))
        ts_set_scope(&ts_thread, block);
    else
        ts_domain_follow_innermost(heap);
    return true;
}

/* Finishes the usual domain here: this thread owns it, and has its block in it. While a block of this thread is open
   in the epoch, the epoch is ACTIVE. */
bool ts_domain_enter(uint64_t id) {
    ts_domain *d = ts_domain_find(id);
    ts_heap *heap = ts_thread.heap;
    if (TS_UNLIKELY(!d) || TS_UNLIKELY(!heap) || TS_UNLIKELY(ts_load_relaxed(&d->owner) != heap->serial))
        return enter_slowly(id);
    EpochId epoch = ts_load_relaxed(&d->epoch);
    ts_scope_block *block = ts_load_relaxed(&d->block);
    uintptr_t token = ts_load_relaxed(&d->token);
    ts_domain_scope *scope = heap->spare_scope;
    if (TS_UNLIKELY(!ts_domain_is_still(d, id)) || TS_UNLIKELY(!scope) ||
        TS_UNLIKELY(!is_block_of(block, heap, epoch)) || TS_UNLIKELY(ts_domain_is_timed(heap)))
        return enter_slowly(id);
    if (TS_UNLIKELY(!count_in_own(d, heap->serial))) return enter_slowly(id);
    heap->spare_scope = NULL;
    push(scope, id, epoch, token, block);
    ts_set_scope(&ts_thread, block);
    return true;
}

static void leave(ts_heap *heap, ts_domain_scope **at) {
    ts_domain_scope *scope = *at;
    *at = scope->outer;
    if (TS_UNLIKELY(scope->captures)) ts_domain_follow_capture();
    ts_domain_count_out(ts_table_of_strided(&ts_domains, scope->domain, TS_DOMAIN_STRIDE));
    if (!heap->spare_scope)
        heap->spare_scope = scope;
    else
        ts_lines_give(TS_LINES_CLEANUP, scope);
}

bool ts_domain_exit(uint64_t id) {
    ts_heap *heap = ts_thread.heap;
    if (!heap || !ts_thread.domain || ts_thread.domain->domain != id || id == 0)
        return ts_domain_refuse("epoch_domain_exit", id,
                                ts_domain_find(id) ? "not the innermost domain of this thread" : NULL, EINVAL);
    leave(heap, &ts_thread.domain);
    ts_domain_follow_innermost(heap);
    return true;
}

void ts_domain_leave_all(ts_heap *heap, uint64_t id) {
    bool left = false;
    for (ts_domain_scope **at = &ts_thread.domain; *at;) {
        if ((*at)->domain == id) {
            leave(heap, at);
            left = true;
        } else {
            at = &(*at)->outer;
        }
    }
    if (left) ts_domain_follow_innermost(heap);
}

/* ---- objects ---------------------------------------------------------------------------------------------- */

TS_ENTRY void *ts_domain_alloc(size_t size) {
    const ts_domain_scope *top = ts_thread.domain;
    void *p = ts_alloc(top->allocator, size, top->epoch);
    if (TS_UNLIKELY(!p) && errno == EINVAL) errno = ESTALE; /* the allocator has ended, and the domain with it */
    if (p && ts_load_relaxed(&ts_thread.scope) == &ts_no_scope) ts_domain_follow_innermost(ts_thread.heap);
    return p;
}

TS_ENTRY void *ts_domain_promote(uint64_t id, void *p) {
    if (!ts_domain_mine(id, "slab_promote")) return NULL;
    ts_domain_fields f = ts_domain_read(id);
    ts_object object;
    if (!f.token) {
        (void)ts_domain_refuse("slab_promote", id, NULL, EINVAL);
        return NULL;
    }
    if (!ts_object_at(f.token, p, &object)) {
        ts_misuse(f.token, "slab_promote", p, NULL, NULL);
        return ts_fail_null(EINVAL);
    }
    if (TS_UNLIKELY(ts_is_lent(object.unit))) return ts_fail_null(ESTALE);
    size_t bytes = ts_object_usable(&object);
    void *q = ts_alloc_aligned(f.token, ts_alignment_kept(p), bytes, f.epoch, false);
    if (!q) return NULL;
    memcpy(q, p, bytes);
    ts_free_copied(f.token, &object, q);
    return q;
}
