/*
 * Domains: made, found, entered and left.
 *
 * What could go wrong: a stale id is looked up while its entry gets its next use, and the wrong domain is entered or
 * changed. It does not: an id never comes back, and every call looks at the id again after it has read what it goes by
 * (is_still). What changes a domain that others can reach is done under its epoch's lock, where the id is looked at
 * once more. Who enters late counts itself in and out again; that the count is not another domain's is argued at
 * count_in_shared.
 */
/* Modelled in tests/model: epoch, enter, orders. */
#include "domain/domain_parts.h"
#include "domain/mark.h"
#include "domain/tree.h"

#include "cache/allocate.h"
#include "diagnose/misuse.h"
#include "epoch/blocks.h"
#include "object/object.h"
#include "ownership/barrier.h"
#include "slab/lent.h"

#include <errno.h>
#include <string.h>

ts_table ts_domains;
_Atomic(ts_capture_fn *) ts_capture;

void ts_domain_init(void) {
    ts_table_init(&ts_domains, TS_TABLE_DOMAIN, TS_DOMAIN_STRIDE, sizeof(void *) < 8 ? 8 * sizeof(void *) : 63);
    ts_tree_init();
}

/* A free entry becomes a domain that can be found. */
TS_ALWAYS_INLINE uint64_t begin_domain(ts_domain *d, ts_allocator *allocator, uintptr_t token, EpochId epoch,
                                       uint64_t owner, bool shared, unsigned ends_epoch, ts_scope_block *block) {
    uint64_t id = ts_table_next_id(&ts_domains, d);
    atomic_thread_fence(memory_order_release); /* the last id went before any of these: ts_domain_is_still */
    ts_keep_relaxed(&d->allocator, allocator);
    ts_keep_relaxed(&d->token, token);
    ts_store_release(&d->epoch, epoch); /* whoever finds it here finds the entry of it, too: ts_domain_epoch_of */
    ts_keep_relaxed(&d->owner, owner);
    ts_keep_relaxed(&d->shared, shared);
    ts_keep_relaxed(&d->ends_epoch, (uint8_t)ends_epoch);
    ts_keep_relaxed(&d->busy, 0);
    ts_keep_relaxed(&d->captures, false);
    ts_keep_relaxed(&d->cleanups, NULL);
    ts_keep_relaxed(&d->block, block);
    if (shared) ts_store_relaxed(&d->guests, ts_guests_none(id)); /* LEFT until now, so nobody adds to it */
    ts_table_publish(d, id);
    return id;
}

/* A new domain whose allocator has ended meanwhile: ts_domain_destroy_all has passed it by, or ends it. */
TS_COLD static uint64_t begun_too_late(ts_domain *d, uint64_t id) {
    ts_domain_end_begun(d, id);
    errno = EINVAL;
    return 0;
}

uint64_t ts_domain_create(ts_allocator *allocator, uintptr_t token, EpochId epoch, bool shared, unsigned ends_epoch) {
    ts_heap *heap = ts_heap_mine();
    if (heap) ts_domain_take_any_returned(heap);
    ts_domain *d = heap ? ts_heap_take_entry(&ts_domains, TS_TABLE_DOMAIN) : NULL;
    if (!d) {
        errno = ENOMEM;
        return 0;
    }
    uint64_t id = begin_domain(d, allocator, token, epoch, shared ? 0 : heap->serial, shared, ends_epoch,
                               heap->scope_map[ts_table_index(&ts_epochs, epoch) % TS_HEAP_MAP]);
    /* Partner: ts_domain_destroy_all, which comes after the end of the allocator's id. */
    atomic_thread_fence(memory_order_seq_cst);
    return TS_LIKELY(ts_load_relaxed(&allocator->entry.id) == token) ? id : begun_too_late(d, id);
}

/* Nobody else has the id. Who enters it takes the slow path, which looks at the mark. */
TS_COLD static void mark_capture(uint64_t id) {
    ts_domain *d = ts_domain_find(id);
    if (!d) return;
    ts_store_relaxed(&d->block, NULL);
    ts_store_relaxed(&d->captures, true);
}

/* Nobody else has the id. Where each slab goes back at once, or free memory is looked at, it is as any churn epoch. */
static void start_small(ts_allocator *allocator, EpochId id) {
    if (allocator->care || allocator->settings.reclaim_policy == SLAB_RECLAIM_AT_ONCE) return;
    ts_epoch *epoch = ts_epoch_find_locked(allocator, id);
    if (!epoch) return;
    epoch->starts_small = true;
    ts_epoch_release(epoch);
}

#define KINDS (EPOCH_CHURN | EPOCH_SCOPE)
#define FLAGS (KINDS | EPOCH_DOMAIN_SHARED | EPOCH_DOMAIN_DRAIN | EPOCH_DOMAIN_CAPTURE)

uint64_t ts_domain_open(ts_allocator *allocator, uintptr_t token, const char *label, unsigned flags) {
    unsigned kind = flags & KINDS;
    bool captures = (flags & EPOCH_DOMAIN_CAPTURE) != 0;
    if (flags & ~FLAGS) {
        errno = EINVAL;
        return 0;
    }
    if (captures && !ts_load_acquire(&ts_capture)) {
        errno = ENOTSUP;
        return 0;
    }
    if (captures && kind == 0) kind = EPOCH_CHURN;
    bool shared = (flags & EPOCH_DOMAIN_SHARED) != 0;
    /* Who creates a domain for itself allocates in it. */
    EpochId epoch = ts_epoch_open(allocator, token, label, kind ? kind : EPOCH_SCOPE, !shared && kind != EPOCH_CHURN);
    if (epoch == EPOCH_NONE) return 0;
    if (kind == EPOCH_CHURN && !shared) start_small(allocator, epoch);
    uint64_t id =
        ts_domain_create(allocator, token, epoch, shared, flags & EPOCH_DOMAIN_DRAIN ? TS_EPOCH_DRAINS : TS_EPOCH_ENDS);
    if (!id) {
        int error = errno;
        ts_epoch_destroy(allocator, epoch);
        errno = error;
    }
    if (TS_UNLIKELY(captures) && id) mark_capture(id);
    return id;
}

/* The domain was ended perhaps, as it could be found before its epoch could. */
TS_COLD static uint64_t made_too_late(ts_allocator *allocator, ts_domain *d, uint64_t id, EpochId epoch) {
    ts_epoch_destroy(allocator, epoch);
    return begun_too_late(d, id);
}

/* The clock comes first, and all that may be missing is looked for before anything is changed: so nothing is live across a
   call. */
uint64_t ts_domain_make(uintptr_t token) {
    uint64_t now = ts_epoch_domain_time();
    ts_heap *heap = ts_thread.heap;
    if (TS_UNLIKELY(!heap || heap->spares[TS_TABLE_EPOCH] == 0 || heap->spares[TS_TABLE_DOMAIN] == 0)) return 0;
    if (TS_UNLIKELY(!ts_barriers)) return 0; /* what is shown without a fence needs the barrier in ts_allocator_end */
    ts_share *share = ts_heap_find_share(heap, token);
    if (TS_UNLIKELY(!share)) return 0;
    ts_allocator *allocator = share->allocator;
    ts_epoch *epoch = (void *)heap->spare[TS_TABLE_EPOCH][heap->spares[TS_TABLE_EPOCH] - 1];
    ts_op_begin(&ts_thread);
    /* acquire: as in ts_heap_enter; only then is the list this thread's to look at */
    ts_block *block = TS_LIKELY(ts_load_acquire(&heap->revoked) == 0) ? heap->free_scope : NULL;
    if (TS_UNLIKELY(!block) || TS_UNLIKELY(!epoch->clean)) {
        ts_op_end(&ts_thread);
        return 0;
    }
    heap->spares[TS_TABLE_EPOCH]--;
    EpochId epoch_id = ts_epoch_begin(epoch, allocator, EPOCH_SCOPE, now, true);
    ts_epoch_first_scope(heap, share, epoch, epoch_id, block);
    ts_heap_leave(heap);
    ts_epoch_remember_scope(heap, ts_scope(block), epoch);
    ts_domain *d = (void *)heap->spare[TS_TABLE_DOMAIN][--heap->spares[TS_TABLE_DOMAIN]];
    uint64_t id = begin_domain(d, allocator, token, epoch_id, heap->serial, false, TS_EPOCH_ENDS, ts_scope(block));
    /* What is shown last looks whether the allocator has ended, for both. */
    if (TS_UNLIKELY(!ts_epoch_show_in_time(epoch, allocator, token, epoch_id, false)))
        return made_too_late(allocator, d, id, epoch_id);
    TS_PROBE3(epoch__open, epoch_id, NULL, (uint64_t)EPOCH_SCOPE);
    return id;
}

/* ---- the stack of domains entered -------------------------------------------------------------------- */

/* A block that is shut to fast frees is one with care (care.h). */
TS_ALWAYS_INLINE bool is_fast(const ts_block *block) {
    return ts_load_relaxed(&block->key) >> TS_KEY_SHARE_SHIFT != 0 && !block->slow;
}

/* A hint may be old: the block may be in another use, or with the heap of another thread. */
TS_ALWAYS_INLINE bool is_block_of(const ts_scope_block *block, const ts_heap *heap, EpochId epoch) {
    /* acquire: partner of ts_epoch_open_block; with the id comes the heap that the block is open in */
    return block && ts_load_acquire(&block->b.open_id) == epoch && ts_load_relaxed(&block->b.heap) == heap &&
           is_fast(&block->b);
}

TS_NOINLINE void ts_domain_follow(ts_heap *heap, const ts_domain_scope *top) {
    ts_scope_block *b = top->block;
    if (!is_block_of(b, heap, top->epoch)) b = heap->scope_map[ts_table_index(&ts_epochs, top->epoch) % TS_HEAP_MAP];
    if (is_block_of(b, heap, top->epoch)) ts_set_scope(&ts_thread, b);
}

/* As it is known by that id. */
TS_ALWAYS_INLINE bool read_fields(const ts_domain *d, uint64_t id, ts_allocator **allocator, uintptr_t *token,
                                  EpochId *epoch) {
    *allocator = ts_load_relaxed(&d->allocator);
    *token = ts_load_relaxed(&d->token);
    *epoch = ts_load_relaxed(&d->epoch);
    return ts_domain_is_still(d, id);
}

bool ts_domain_read(uint64_t id, uintptr_t *token, EpochId *epoch) {
    const ts_domain *d = ts_domain_find(id);
    ts_allocator *allocator;
    return d && read_fields(d, id, &allocator, token, epoch);
}

TS_ALWAYS_INLINE void push(ts_domain_scope *scope, uint64_t id, EpochId epoch, uintptr_t token, ts_scope_block *block) {
    ts_keep(&scope->outer, ts_thread.domain);
    scope->domain = id;
    scope->epoch = epoch;
    ts_keep(&scope->allocator, token);
    ts_keep(&scope->block, block);
    ts_keep(&scope->captures, false);
    ts_thread.domain = scope;
}

/* After a domain that captures was entered or left. */
TS_COLD void ts_domain_follow_capture(void) {
    const ts_domain_scope *scope = ts_thread.domain;
    while (scope && !scope->captures) scope = scope->outer;
    ts_load_acquire (&ts_capture)(scope ? scope->allocator : 0, scope ? scope->epoch : EPOCH_NONE);
}

/* By this thread. Its epoch's lock guards who is busy with it. */
TS_COLD static bool is_ended_by(ts_domain *d, uint64_t id, uint64_t serial) {
    ts_epoch *epoch = ts_domain_epoch_of(d);
    ts_epoch_acquire(epoch);
    bool mine = ts_load_relaxed(&d->entry.id) == id && d->busy_by == serial;
    ts_epoch_release(epoch);
    return mine;
}

static bool is_shut(uint32_t busy) { return busy == TS_MARKED || busy == TS_ENDS_ALONE || busy == TS_RESETS_MARKED; }

/*
 * Entering against an end from another thread (ts_domain_end, in domain_tree.c):
 *     enters:  inside + 1;  (compiler fence)  owner: still this thread;  else inside - 1, and once more or refused
 *     ends:    owner = ENDING;  barrier of all threads;  inside: 0, else it gives the owner back and answers EBUSY
 * One of the two sees the other. Of a shared domain, which has no owner, `busy` is what both look at, and both sides are seq_cst:
 *     enters:  guests + 1;  busy: neither TRIED nor MARKED nor ENDS_ALONE;  else guests - 1, and once more or refused
 *     ends:    busy = TRIED;  guests: none, else busy = QUIET and EBUSY;  busy = MARKED;  ENDS_ALONE;  cleanups;  the id ends
 * Where the end has not seen him, he reads TRIED or what came after it. That is ENDS_ALONE until the id has ended (never ENDS, into which
 * one comes as long as cleanups run: he would be inside of what ends as empty). Who ends it may enter, from a cleanup.
 * ENDING and TRIED hold until it is certain whether the domain ends: who meets them waits for that without being counted, and tries once more.
 * He may be inside already, and the end be taken back for his sake.
 *
 * Who enters may be stopped for any time before, between and behind his two stores. They are to his domain for all that:
 *  1. While somebody is inside, the entry gets no other use: so who leaves counts himself off without a look at whose domain it is by now.
 *  2. `guests` tells of which use it is, and LEFT when that is over. Who enters a shared domain adds by compare-and-swap to the word of that use,
 *     which is not LEFT; of any other, shared or not, he changes nothing. (Where the tags of two uses of one entry are the same, 2^32 uses
 *     apart, he sees that the id is over and counts himself out again.)
 *  3. An owner adds with a load and a store, which may be far apart. So an entry that another thread has ended is given to the thread whose it was
 *     (give_entry), and is used again after a later call of that thread, or after its end. `owner` says whose it was: who takes over and who
 *     marks exchange it, so neither writes over the other.
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

/* Of this thread's own. */
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
        if (TS_UNLIKELY(d->left_behind) && ts_load_relaxed(&d->inside) == 0) { /* give_entry, in domain_end.c */
            d->left_behind = 0;
            ts_table_free(&ts_domains, d);
        }
        return;
    }
    /* The last one out of a domain that has ended. */
    uint64_t guests = atomic_fetch_sub_explicit(&d->guests, 1, memory_order_seq_cst) - 1;
    if ((guests & TS_GUESTS_LEFT) != 0 && ts_guests_count(guests) == 0) ts_table_free(&ts_domains, d);
}

/* A domain given up is owned by who enters first. */
static bool may_be_taken(const ts_domain *d, uint64_t id) {
    uint32_t busy = ts_load_relaxed(&d->busy);
    return (busy == TS_QUIET || busy == TS_TRIED) && ts_tree_parent(id) == 0;
}

/* acquire: partner of the release in hand_over. Not while it is TRIED: then its owner is ENDING. */
static bool take_own(ts_domain *d, uint64_t id, uint64_t serial) {
    uint64_t nobody = ts_domain_nobody(id);
    return may_be_taken(d, id) && atomic_compare_exchange_strong_explicit(&d->owner, &nobody, serial,
                                                                          memory_order_acq_rel, memory_order_relaxed);
}

/* Of a domain that is not this thread's: ending in another thread, or just another's. */
static bool refuse_others(const ts_domain *d, uint64_t id) {
    uint32_t busy = ts_load_relaxed(&d->busy);
    if (!ts_domain_is_still(d, id)) return ts_domain_fail(EINVAL);
    if (busy == TS_ENDS || is_shut(busy)) return ts_domain_fail(ESTALE);
    return ts_domain_refuse("epoch_domain_enter", id, TS_OF_ANOTHER_THREAD, EPERM);
}

TS_NOINLINE static bool enter_slowly(uint64_t id) {
    ts_domain *d = ts_domain_find(id);
    ts_heap *heap = ts_heap_mine();
    if (!d) return ts_domain_refuse("epoch_domain_enter", id, NULL, EINVAL);
    if (!heap) return false;
    ts_domain_take_any_returned(heap);
    bool shared = ts_load_relaxed(&d->shared), takes = false;
    while (!shared && !takes) {
        uint64_t owner = ts_tree_owner(d, id);
        if (owner == heap->serial) break;
        takes = take_own(d, id, heap->serial);
        /* Nobody's, and not to be had for a moment: another thread has taken it, or tries to end it. */
        bool again = owner == ts_domain_nobody(id) && may_be_taken(d, id);
        if (!takes && !again) return refuse_others(d, id);
    }
    if (takes && TS_UNLIKELY(ts_load_relaxed(&d->kin) != NULL)) ts_tree_take_over(id, heap->serial);
    EpochId epoch = ts_load_relaxed(&d->epoch);
    ts_scope_block *block = ts_load_relaxed(&d->block);
    uintptr_t token = ts_load_relaxed(&d->token);
    ts_allocator *allocator = ts_load_relaxed(&d->allocator);
    if (TS_UNLIKELY(!ts_domain_is_still(d, id))) return ts_domain_refuse("epoch_domain_enter", id, NULL, EINVAL);
    if (takes) ts_epoch_take_up(heap, allocator, epoch);
    /* While a block of this thread is open in the epoch, the epoch is ACTIVE. */
    bool here = is_block_of(block, heap, epoch);
    if (!here) {
        const ts_epoch *e = ts_epoch_find(allocator, epoch);
        if (!e || ts_load_relaxed(&e->state) != EPOCH_ACTIVE) return ts_domain_fail(ESTALE);
    }
    ts_domain_scope *scope = heap->spare_scope;
    if (scope)
        heap->spare_scope = NULL;
    else
        scope = ts_lines_take(TS_LINES_CLEANUP, sizeof *scope);
    if (!scope) return ts_domain_fail(ENOMEM);
    /* The look at the id came after that at `shared`. */
    bool in = shared ? count_in_shared(d, id, heap->serial) : count_in_own(d, heap->serial);
    while (!in && !shared && ts_tree_owner(d, id) == heap->serial) in = count_in_own(d, heap->serial);
    /* Counted in, the entry stays this domain's, if it was that until now. */
    if (in && TS_UNLIKELY(!ts_domain_is_still(d, id))) {
        ts_domain_count_out(d);
        in = false;
    }
    if (!in) {
        ts_lines_give(TS_LINES_CLEANUP, scope);
        return ts_domain_fail(ts_domain_is_still(d, id) ? ESTALE : EINVAL);
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

/* The usual domain: this thread's, in which it has its block. While a block of this thread is open in the epoch, the epoch is
   ACTIVE. */
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

/* ---- without its thread ---------------------------------------------------------------------------------- */

bool ts_domain_force_close(uint64_t id) {
    const ts_domain *d = ts_domain_find(id);
    ts_allocator *allocator;
    uintptr_t token;
    EpochId epoch;
    if (!d || !read_fields(d, id, &allocator, &token, &epoch))
        return ts_domain_refuse("epoch_domain_force_close", id, NULL, EINVAL);
    if (!ts_epoch_close(allocator, epoch)) return ts_domain_fail(EINVAL);
    return true;
}

bool ts_domain_hand_over(uint64_t id) {
    ts_domain *d = ts_domain_mine(id, "epoch_domain_hand_over");
    if (!d) return false;
    if (ts_domain_is_entered(id)) return ts_domain_refuse("epoch_domain_hand_over", id, "still entered", EPERM);
    if (TS_UNLIKELY(ts_load_relaxed(&d->kin) != NULL) && !ts_tree_may_go(id)) return ts_domain_fail(EPERM);
    /* By a cleanup of its own: who runs them ends it, or goes on with it. (A shared one nobody owns: there is nothing to give up.) */
    uint32_t busy = ts_load_relaxed(&d->busy);
    if (busy != TS_QUIET && busy != TS_TRIED && !ts_load_relaxed(&d->shared))
        return ts_domain_refuse("epoch_domain_hand_over", id, TS_IS_ENDING, EPERM);
    ts_allocator *allocator;
    uintptr_t token;
    EpochId epoch;
    if (!read_fields(d, id, &allocator, &token, &epoch))
        return ts_domain_refuse("epoch_domain_hand_over", id, NULL, EINVAL);
    ts_mark_give_up_all(d);
    ts_epoch_give_up(allocator, epoch);
    /* release: partner of the acquire in enter_slowly. Not where the entry has got another use by now (of a shared domain
       another thread can end it): then its owner is another, or none. */
    uint64_t me = ts_thread.heap->serial;
    if (TS_UNLIKELY(ts_load_relaxed(&d->kin) != NULL)) {
        (void)ts_orphans_make_share(ts_thread.heap, allocator);
        ts_tree_give_up(id, me);
        ts_orphans_pass_on(ts_thread.heap);
    }
    uint64_t owner = me;
    while (!atomic_compare_exchange_strong_explicit(&d->owner, &owner, ts_domain_nobody(id), memory_order_release,
                                                    memory_order_relaxed) &&
           owner == TS_OWNER_ENDING && ts_tree_owner(d, id) == me)
        owner = me; /* another thread has tried to end it */
    return true;
}

/* ---- objects ---------------------------------------------------------------------------------------------- */

/* This thread's first object in the domain gets its block without a detour, unless timing is on or about to change, or it
   has none that slab_alloc finds at once: a churn epoch, stacks that are sampled, guards, care. refused: there is none, and
   errno says why. */
static bool join_innermost(ts_heap *heap, const ts_domain_scope *top, bool *refused) {
    ts_allocator *allocator = ts_allocator_find(top->allocator);
    if (!allocator || ts_load_relaxed(&allocator->sampled) || allocator->settings.guard_spans || allocator->care ||
        ts_domain_is_timed(heap))
        return false;
    const ts_epoch *epoch = ts_epoch_find(allocator, top->epoch);
    if (!epoch || (ts_load_relaxed(&epoch->flags) & EPOCH_SCOPE) == 0) return false;
    ts_block *block = ts_epoch_join(heap, allocator, top->epoch);
    *refused = block == NULL;
    if (!block || !block->scope || !is_fast(block)) return false;
    ts_set_scope(&ts_thread, ts_scope(block));
    return true;
}

TS_ENTRY void *ts_domain_alloc(size_t size) {
    const ts_domain_scope *top = ts_thread.domain;
    ts_heap *heap = ts_thread.heap;
    size_t bytes = ts_scope_round(size);
    bool refused = false;
    void *p;
    int before = errno;
    if (heap) ts_sample_look(heap);
    const ts_scope_block *scope = ts_load_relaxed(&ts_thread.scope);
    if (bytes != 0 && (ts_load_relaxed(&scope->b.open_id) == top->epoch || join_innermost(heap, top, &refused))) {
        p = ts_alloc_scope(heap, ts_load_relaxed(&ts_thread.scope), bytes, top->epoch);
        /* ESTALE: closed, or reset by another thread meanwhile */
        bool over = !p && errno == ESTALE;
        if (p || over) errno = before;
        if (!over) return p;
    }
    if (refused) return NULL;
    p = ts_alloc(top->allocator, size, top->epoch);
    if (TS_UNLIKELY(!p) && errno == EINVAL) errno = ESTALE; /* the allocator has ended, and the domain with it */
    if (p && ts_load_relaxed(&ts_thread.scope) == &ts_no_scope) ts_domain_follow_innermost(heap);
    return p;
}

TS_ENTRY void *ts_domain_promote(uint64_t id, void *p) {
    ts_domain *d = ts_domain_mine(id, "slab_promote");
    ts_object object;
    if (!d) return NULL;
    ts_allocator *allocator;
    uintptr_t token;
    EpochId epoch;
    if (!read_fields(d, id, &allocator, &token, &epoch)) {
        (void)ts_domain_refuse("slab_promote", id, NULL, EINVAL);
        return NULL;
    }
    if (!ts_object_at(token, p, &object)) {
        ts_misuse(token, "slab_promote", p, NULL);
        errno = EINVAL;
        return NULL;
    }
    if (TS_UNLIKELY(ts_is_lent(object.unit))) {
        errno = ESTALE;
        return NULL;
    }
    size_t bytes = ts_object_usable(&object);
    void *q = ts_alloc_aligned(token, ts_alignment_kept(p), bytes, epoch, false);
    if (!q) return NULL;
    memcpy(q, p, bytes);
    ts_free_copied(token, &object);
    return q;
}
