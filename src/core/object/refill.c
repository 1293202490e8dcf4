/*
 * An allocation from a block of the calling thread that has no object at hand: it takes in the work that other threads
 * have left, and then gets a slab, while the heap is not held. The epoch can end meanwhile (alloc.c).
 */
#include "object/refill.h"
#include "base/base.h"
#include "cache/allocate.h"
#include "cache/cache.h"
#include "diagnose/diagnose.h"
#include "epoch/epoch.h"
#include "memtools/memtools.h"
#include "region/region.h"
#include "supply/supply.h"

#include <errno.h>

/* ---- what is taken --------------------------------------------------------------------------------------- */

TS_COLD static void care_for(const ts_allocator *allocator, void *p, uint32_t kind, ts_taken *t) {
    bool check = allocator->settings.on_misuse != SLAB_MISUSE_IGNORE;
    size_t usable = kind < TS_CLASSES ? ts_class_bytes[kind] : ts_scope_round(t->size);
    t->written = ts_care_allocated(allocator->care, ts_slab_start(p), p, t->size, usable, check);
}

void ts_note_allocated(const ts_allocator *allocator, void *p, uint32_t kind, ts_taken *t) {
    uint32_t unit;
    uint64_t entry = 0;
    if (ts_locate(p, &unit, &entry)) t->word = ts_load_relaxed(ts_unit_word(unit)) & ~TS_UNIT_FOREIGN;
    if (TS_LIKELY(!allocator->care)) return;
    care_for(allocator, p, kind, t);
    /* Without memory for generations (add_churn) it is said of all. */
    t->again = kind < TS_CLASSES && (!(t->word & TS_UNIT_HANDLED) || ts_load_relaxed(ts_generation_word(entry)) != 0);
}

/* ---- accounts --------------------------------------------------------------------------------------------- */

/* The account of the block's epoch. It stays while it is held. NULL: there is none, which is usual. */
static ts_account *get_account(ts_heap *heap, const ts_block *block) {
    ts_heap_enter(heap);
    ts_account *account = ts_block_account(block);
    if (TS_UNLIKELY(account != NULL)) ts_account_ref(account);
    ts_heap_leave(heap);
    return account;
}

/* ---- a new slab ------------------------------------------------------------------------------------------- */

/* A slab for a block, got while the heap is not held. */
typedef struct new_slab {
    ts_share *share;     /* of the block when the slab was asked for */
    ts_account *account; /* of its epoch then, which has granted the units; NULL: none */
    uint32_t kind;       /* a class, or TS_COUNT_SCOPE */
    uint32_t unit;       /* 0: there is no memory */
    uint32_t units;
    bool fresh; /* its memory was not resident */
} new_slab;

/* false with errno: it is beyond a limit. */
static inline bool begin_slab(ts_heap *heap, const ts_block *block, EpochId id, uint32_t kind, uint32_t units,
                              new_slab *slab) {
    *slab = (new_slab){.share = block->share, .account = get_account(heap, block), .kind = kind, .units = units};
    if (TS_LIKELY(slab->account == NULL) || ts_limit_charge(slab->account, units, id)) return true;
    ts_account_unref(slab->account);
    return false;
}

/* The current slab makes room for another. Without another it stays: its rest serves smaller objects. */
static void retire_current(ts_scope_block *block, bool another) {
    if (!another && !ts_scope_is_current_empty(block)) return;
    if (ts_load_relaxed(&block->current)) ts_count(&block->b.share->count[TS_COUNT_SCOPE].list_move_partial_to_full, 1);
    ts_scope_retire_current(block);
}

/* With care slots count their lives from the first: messages say what was freed. Without a barrier: ts_bin_add. */
static void add_churn(ts_churn_block *block, unsigned cls, uint32_t unit) {
    const bool care = block->b.share->allocator->care != 0;
    if (TS_UNLIKELY(care || !ts_barriers) && ts_region_commit_generations(unit) && care)
        block->handled |= (uint64_t)1 << cls;
    ts_bin_add(block, cls, unit);
}

/* false: there is no slab; or the block was closed meanwhile, and may even be in another use. Then the share keeps the
   slab. */
static bool add_slab(ts_heap *heap, ts_block *block, EpochId id, const new_slab *slab) {
    ts_counters *count = &slab->share->count[slab->kind];
    bool piece = ts_is_piece(slab->unit);
    ts_heap_enter(heap);
    bool open = ts_load_relaxed(&block->open_id) == id, added = open && slab->unit != 0;
    if (open && block->scope) retire_current(ts_scope(block), slab->unit != 0);
    if (added) {
        if (block->scope) {
            if (!piece && ts_load_relaxed(&block->slabs) == 0) slab->share->firsts++;
            ts_scope_add(ts_scope(block), slab->unit);
        } else {
            add_churn(ts_churn(block), slab->kind, slab->unit);
        }
        ts_count_release(&count->new_slab_count, 1); /* after the block's own count: snapshot.c, `rising` */
        if (slab->fresh) ts_count(&count->slow_path_cache_miss, 1);
    } else if (piece) {
        ts_share_keep_piece(slab->share, slab->unit);
    } else if (slab->unit) {
        ts_share_keep_slab(slab->share, slab->unit, slab->units);
    }
    /* If the block has another account by now, that counts the units, even beyond its limit. A block that was not open
       may be another thread's, which writes its account. */
    ts_account *now = added ? ts_block_account(block) : NULL;
    if (added && TS_UNLIKELY(now != slab->account)) ts_account_add(now, piece ? 0 : slab->units);
    ts_heap_leave(heap);
    ts_account_let_go(slab->account, added && now == slab->account ? 0 : slab->units);
    return added;
}

/* ---- churn ---------------------------------------------------------------------------------------- */

/* The next object of a bin that has one at hand, else NULL; and the first of the next word of one that has none. NULL:
   none of its slabs has a free slot. Where samples are taken the places have no name (diagnose/named.c). */
static void *pop(ts_churn_block *block, unsigned cls) {
    if (TS_UNLIKELY(block->b.slow)) ts_name_take_top(&block->bin[cls]);
    return ts_fast_slot(&block->bin[cls]);
}
static void *claim_slot(ts_churn_block *block, unsigned cls) {
    if (!ts_bin_claim(block, cls)) return ts_bin_take_outer(block, cls);
    if (TS_UNLIKELY(block->b.slow)) ts_name_take_word(&block->bin[cls]);
    return ts_fast_word(&block->bin[cls]);
}

/* Whether the next call with the epoch's id, or with its domain, may find the block at once. */
static bool binds(ts_heap *heap, const ts_block *block) {
    ts_heap_bind(heap, block->share);
    return !block->slow && heap->sample_rate == 0 && ts_load_relaxed(&ts_thread.token) == block->share->token;
}

/* Inside the heap: drains a part of the cross-thread frees. Whether that was all of them, and they freed little. */
static bool take_in(ts_heap *heap) {
    /* With a backlog the round may end without a look at the queue. */
    bool all = ts_load_relaxed(&heap->backlog) == 0 && ts_load_relaxed(&heap->queue) != 0;
    size_t bytes = ts_foreign_drain_some(heap, TS_FOREIGN_WORK);
    return all && bytes < TS_FOREIGN_WORTH && ts_load_relaxed(&heap->backlog) == 0;
}

/* Inside the heap: does a part of the ends that other threads left to this one. One of them may end the block itself.
   Whether the block is still open in the epoch. If so it stays this thread's until the heap is left, even if its epoch
   ends. */
static bool work_off(ts_heap *heap, const ts_block *block, EpochId id) {
    ts_heap_end_posted_some(heap, TS_CONDEMNED_WORK);
    return ts_load_relaxed(&block->open_id) == id;
}

/*
 * One try with the slabs that the block has, inside the heap. NULL with *error; 0: the bin is to get a slab.
 *
 * Cross-thread frees are drained only when the bin has no free slot left, in as few rounds as possible: each round
 * moves a handful of cache lines between processors, however many objects it frees. If a thread allocates what
 * another one frees, small rounds could follow one another. So a round that took all and freed little puts the next
 * one off: the bin gets one more slab, and more frees gather until that slab is used up. Memory stays bounded. When a
 * bin has no free slot, all of its slots that are not live wait to be drained. A round that freed less than
 * TS_FOREIGN_WORTH shows that the bin had less than that to spare. With the new slab it has at most that and one slab
 * more than was live.
 */
static void *churn_try(ts_heap *heap, ts_churn_block *block, unsigned cls, EpochId id, int *error) {
    *error = ESTALE;
    if (ts_load_relaxed(&block->b.open_id) != id) return NULL;
    *error = ENOMEM;
    if (!ts_bin_ready(block, cls)) return NULL;
    *error = 0;
    void *p = pop(block, cls);
    if (p || (p = claim_slot(block, cls)) != NULL) return p;
    ts_share *share = block->b.share;
    uint64_t bit = (uint64_t)1 << cls;
    bool put_off = (block->little & bit) != 0 && !ts_allocator_is_sparing(share->allocator);
    bool little = !put_off && take_in(heap);
    if (!work_off(heap, &block->b, id)) {
        *error = ESTALE;
        return NULL;
    }
    block->little = little ? block->little | bit : block->little & ~bit;
    if ((p = pop(block, cls)) != NULL || (p = claim_slot(block, cls)) != NULL) {
        ts_count(&share->count[cls].current_partial_full, 1); /* while other threads had freed in its slabs */
        return p;
    }
    ts_count(&share->count[cls].slow_path_hits, 1);
    /* Free slots in the blocks of ended threads come first: the caller adopts such a block. */
    /* The caller gets a slab where an account grants it, or where it is to be of one NUMA node (nodes.h). */
    if (ts_load_relaxed(&ts_heaps_abandoned) != 0 || block->account || ts_load_relaxed(&share->allocator->nodes))
        return NULL;
    uint32_t units = ts_class_units(cls);
    uint32_t unit = units > 1 ? ts_share_take_span(share, units) : ts_share_take(share);
    if (!unit) return NULL;
    if (ts_class_is_fine(cls) && !ts_region_has_fine(unit)) { /* the caller commits it, outside the heap */
        ts_share_keep(share, unit);
        return NULL;
    }
    if (!ts_slab_reset_churn(unit, cls)) {
        ts_slab_retire(share->allocator, unit, units);
        return NULL;
    }
    add_churn(block, cls, unit);
    ts_count_release(&share->count[cls].new_slab_count, 1); /* after the bin's own count: snapshot.c, `rising` */
    return claim_slot(block, cls);
}

void *ts_refill_churn(ts_heap *heap, ts_churn_block *block, unsigned cls, EpochId id, ts_taken *t) {
    bool adopt = true, adopted = false, no_memory = false;
    char *clean = NULL; /* the place of a large object that is zero, as it comes from the system */
    for (;;) {
        int error;
        ts_heap_enter(heap);
        void *p = churn_try(heap, block, cls, id, &error);
        if (p && adopted) ts_count(&block->b.share->count[cls].current_partial_null, 1);
        if (p) ts_note_allocated(block->b.share->allocator, p, cls, t);
        t->zero = clean && p == clean;
        ts_heap_leave(heap);
        if (p) {
            if (binds(heap, &block->b)) ts_thread.block = block;
            return p;
        }
        if (error != 0) return ts_fail_null(error);
        /* By its id: the block may have left the epoch. */
        ts_epoch *epoch = ts_table_at(&ts_epochs, ts_table_index(&ts_epochs, id));
        if (adopt && ts_load_relaxed(&ts_heaps_abandoned) != 0 && ts_epoch_adopt(heap, epoch, id, cls, no_memory)) {
            adopt = false; /* at most one per call, so that a call is bounded */
            adopted = true;
            block = heap->map[epoch->record.index % TS_HEAP_MAP];
            continue;
        }
        if (no_memory) return ts_fail_null(ENOMEM);
        adopted = false;
        new_slab slab;
        if (!begin_slab(heap, &block->b, id, cls, ts_class_units(cls), &slab)) return NULL;
        unsigned home = ts_share_wanted_home(slab.share->allocator, slab.share, slab.account);
        slab.unit = ts_slab_acquire_churn(heap, slab.share, cls, home, &slab.fresh);
        no_memory = slab.unit == 0; /* the search has drained cross-thread frees, or the next try does */
        bool added = add_slab(heap, &block->b, id, &slab);
        if (added && slab.fresh && cls >= TS_PAIR_CLASS && ts_pool_is_zero()) clean = ts_unit_address(slab.unit);
    }
}

/* ---- scope ---------------------------------------------------------------------------------------- */

TS_ALWAYS_INLINE void *bump(ts_scope_block *block, size_t bytes, size_t align) {
    if (TS_UNLIKELY(align > 16)) return ts_scope_bump_aligned(block, align, bytes);
    uint64_t word = ts_load_relaxed(&block->bump);
    uint64_t next = ts_bump_next(word, bytes);
    return next <= ts_load_relaxed(&block->limit) ? ts_fast_bump(block, word, next) : NULL;
}

void *ts_refill_scope(ts_heap *heap, ts_scope_block *block, size_t bytes, size_t align, EpochId id, ts_taken *t) {
    ts_share *share = block->b.share;
    for (bool no_memory = false;;) {
        ts_heap_enter(heap);
        bool open = ts_load_relaxed(&block->b.open_id) == id;
        void *p = NULL;
        if (open) {
            p = bump(block, bytes, align);
            if (!p) {
                (void)take_in(heap);
                open = work_off(heap, &block->b, id);
            }
            if (!p && open) {
                ts_count(&share->count[TS_COUNT_SCOPE].slow_path_hits, 1);
                if (ts_scope_renew(block, bytes, align)) p = bump(block, bytes, align);
            }
            if (p) ts_note_allocated(share->allocator, p, TS_COUNT_SCOPE, t);
        }
        ts_heap_leave(heap);
        if (p) {
            if (binds(heap, &block->b)) ts_thread.last = block;
            return p;
        }
        if (!open) return ts_fail_null(ESTALE);
        if (no_memory) return ts_fail_null(ENOMEM);
        new_slab slab;
        if (!begin_slab(heap, &block->b, id, TS_COUNT_SCOPE, 1, &slab)) return NULL;
        /* Where memory is told apart by NUMA node, a unit belongs to one node as a whole. */
        if (!slab.account && !ts_nodes_of(share->allocator) && ts_scope_takes_piece(block, bytes, align))
            slab.unit = ts_slab_acquire_piece(heap, share, ts_scope_takes_long(block, bytes));
        if (!slab.unit)
            slab.unit = ts_slab_acquire_scope(heap, share, ts_share_wanted_home(share->allocator, share, slab.account),
                                              &slab.fresh);
        no_memory = slab.unit == 0;
        (void)add_slab(heap, &block->b, id, &slab);
    }
}
