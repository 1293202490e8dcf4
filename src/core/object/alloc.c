/*
 * Allocation off the fast path. Nothing here is called inside an operation or with a lock held.
 *
 * What could go wrong: the epoch ends between two steps of an allocation, and a step works on another object at the
 * same place. It does not. The object is taken inside the heap or an operation, and an end of the epoch waits for
 * both (heap.h). Later steps, which make a handle or poison, compare a note of the object with its slab (ts_taken).
 * Another use of the slab differs from the note.
 */
/* Modelled in tests/model: orders. */
#include "base/bits.h"
#include "cache/bin.h"
#include "cache/block.h"
#include "cache/foreign.h"
#include "cache/scope.h"
#include "diagnose/hint.h"
#include "diagnose/misuse.h"
#include "diagnose/object.h"
#include "diagnose/stacks.h"
#include "epoch/end.h"
#include "epoch/entered.h"
#include "epoch/epoch.h"
#include "epoch/hand_over.h"
#include "epoch/limit.h"
#include "epoch/span.h"
#include "memtools/care.h"
#include "object/find.h"
#include "object/object.h"
#include "region/pool.h"
#include "supply/nodes.h"
#include "supply/piece.h"
#include "supply/share.h"
#include "supply/span.h"
#include "supply/warm.h"

#include <errno.h>
#include <string.h>

#define TS_SMALL_MOST 8192u /* bytes of an object, and of its alignment, in the first slab of a churn domain */

/* ---- what is taken --------------------------------------------------------------------------------------- */

/* A note of a new object, made before the heap is left. Afterwards another thread can end the epoch or reset it, and
   the place can become another object's in the same epoch. */
typedef struct ts_taken {
    size_t size;   /* asked for */
    uint64_t word; /* UNIT word of its slab, without FOREIGN: no other use of the slab has that */
    /* With care: the first byte that was written since the place was filled, or TS_CARE_CLEAN; and whether the slot was
       an object before. */
    size_t written;
    bool again;
    bool zero; /* all of it came zero from the system */
} ts_taken;

TS_COLD static void care_for(const ts_allocator *allocator, void *p, uint32_t kind, ts_taken *t) {
    bool check = allocator->settings.on_misuse != SLAB_MISUSE_IGNORE;
    size_t usable = kind < TS_CLASSES ? ts_class_bytes[kind] : ts_scope_round(t->size);
    t->written = ts_care_allocated(allocator->care, ts_slab_start(p), p, t->size, usable, check);
    t->again = false;
    if (kind >= TS_CLASSES) return;
    uint64_t entry = ts_entry_of(&ts_region.part[TS_NORMAL], p);
    t->again = ts_state_generation(ts_load_relaxed(ts_entry_state(entry, ts_class_is_fine(kind)))) != 0;
}

/* Inside the heap, or an operation; kind: a class or TS_COUNT_SCOPE. */
static void note(const ts_allocator *allocator, void *p, uint32_t kind, ts_taken *t) {
    uint32_t unit;
    uint64_t entry;
    if (ts_locate(p, &unit, &entry)) t->word = ts_load_relaxed(ts_unit_word(unit)) & ~TS_UNIT_FOREIGN;
    if (TS_UNLIKELY(allocator->care)) care_for(allocator, p, kind, t);
}

/* ---- accounts --------------------------------------------------------------------------------------------- */

/* The account of the block's epoch. It stays while it is held. NULL: there is none, which is usual. */
static ts_account *hold_account(ts_heap *heap, const ts_block *block) {
    ts_heap_enter(heap);
    ts_account *account = ts_block_account(block);
    if (TS_UNLIKELY(account != NULL)) ts_account_ref(account);
    ts_heap_leave(heap);
    return account;
}

/* back: units that the account granted and that were not used. */
static void let_account_go(ts_account *account, uint32_t back) {
    if (TS_LIKELY(account == NULL)) return;
    if (back != 0) ts_account_give(account, back);
    ts_account_unref(account);
}

/* Called inside the heap after a slab was added to the block. Whether the block has another account than the one that
   granted the units. The other one counts them, even beyond its limit. */
static bool another_account(const ts_block *block, const ts_account *account, uint32_t units) {
    ts_account *now = ts_block_account(block);
    if (TS_LIKELY(now == account)) return false;
    ts_account_add(now, units);
    return true;
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
    *slab = (new_slab){.share = block->share, .account = hold_account(heap, block), .kind = kind, .units = units};
    if (TS_LIKELY(slab->account == NULL) || ts_limit_take(slab->account, units, id)) return true;
    ts_account_unref(slab->account);
    return false;
}

/* The current slab makes room for another. Without another it stays: its rest serves smaller objects. */
static void retire_current(ts_scope_block *block, bool another) {
    if (!another && !ts_scope_is_current_empty(block)) return;
    if (ts_load_relaxed(&block->current)) ts_count(&block->b.share->count[TS_COUNT_SCOPE].current_partial_full, 1);
    ts_scope_retire_current(block);
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
        if (block->scope)
            ts_scope_add(ts_scope(block), slab->unit);
        else
            ts_bin_add(ts_churn(block), slab->kind, slab->unit);
        ts_count_release(&count->new_slab_count, 1); /* after the block's own count: snapshot.c, `rising` */
        if (slab->fresh) ts_count(&count->slow_path_cache_miss, 1);
    } else if (piece) {
        ts_share_keep_piece(slab->share, slab->unit);
    } else if (slab->unit) {
        ts_share_keep_slab(slab->share, slab->unit, slab->units);
    }
    bool used = added && !another_account(block, slab->account, piece ? 0 : slab->units);
    ts_heap_leave(heap);
    let_account_go(slab->account, used ? 0 : slab->units);
    return added;
}

/* ---- churn ---------------------------------------------------------------------------------------- */

/* The first object of the next word of a bin that has none at hand. NULL: none of its slabs has a free slot. */
static void *claim_slot(ts_churn_block *block, unsigned cls) {
    return ts_bin_claim(block, cls) ? ts_fast_word(&block->bin[cls]) : NULL;
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
    ts_heap_end_condemned_some(heap, TS_CONDEMNED_WORK);
    return ts_load_relaxed(&block->open_id) == id;
}

/*
 * One try with the slabs that the block has, inside the heap.
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
    *error = 0;
    if (ts_load_relaxed(&block->b.open_id) != id) {
        *error = ESTALE;
        return NULL;
    }
    if (!ts_bin_ready(block, cls)) {
        *error = ENOMEM;
        return NULL;
    }
    void *p = ts_fast_slot(&block->bin[cls]);
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
    if ((p = claim_slot(block, cls)) != NULL) return p;
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
    ts_bin_add(block, cls, unit);
    ts_count_release(&share->count[cls].new_slab_count, 1); /* after the bin's own count: snapshot.c, `rising` */
    return claim_slot(block, cls);
}

static void *churn_alloc(ts_heap *heap, ts_churn_block *block, unsigned cls, EpochId id, ts_taken *t) {
    bool adopt = true, no_memory = false;
    char *clean = NULL; /* the place of a large object that is zero, as it comes from the system */
    for (;;) {
        int error;
        ts_heap_enter(heap);
        void *p = churn_try(heap, block, cls, id, &error);
        if (p) note(block->b.share->allocator, p, cls, t);
        t->zero = clean && p == clean;
        ts_heap_leave(heap);
        if (p) {
            ts_heap_bind(heap, block->b.share);
            if (heap->sample_rate == 0 && !block->b.slow && ts_load_relaxed(&ts_thread.token) == block->b.share->token)
                ts_thread.block = block;
            return p;
        }
        if (error) {
            errno = error;
            return NULL;
        }
        /* By its id: the block may have left the epoch. */
        ts_epoch *epoch = ts_table_at(&ts_epochs, ts_table_index(&ts_epochs, id));
        if (adopt && ts_load_relaxed(&ts_heaps_abandoned) != 0 && ts_epoch_adopt(heap, epoch, id, cls)) {
            adopt = false; /* at most one per call, so that a call is bounded */
            block = heap->map[epoch->entry.index % TS_HEAP_MAP];
            continue;
        }
        if (no_memory) {
            errno = ENOMEM;
            return NULL;
        }
        new_slab slab;
        if (!begin_slab(heap, &block->b, id, cls, ts_class_units(cls), &slab)) return NULL;
        unsigned home = ts_nodes_wanted(slab.share->allocator, slab.share, slab.account);
        slab.unit = ts_slab_acquire_churn(heap, slab.share, cls, home, &slab.fresh);
        no_memory = slab.unit == 0; /* the search has drained cross-thread frees, or the next try does */
        bool added = add_slab(heap, &block->b, id, &slab);
        if (added && slab.fresh && cls >= TS_LARGE_CLASS && ts_pool_is_zero()) clean = ts_unit_address(slab.unit);
    }
}

/* ---- scope ---------------------------------------------------------------------------------------- */

TS_ALWAYS_INLINE void *bump(ts_scope_block *block, size_t bytes, size_t align) {
    if (TS_UNLIKELY(align > 16)) return ts_scope_bump_aligned(block, align, bytes);
    uint64_t word = ts_load_relaxed(&block->bump);
    uint64_t next = ts_bump_next(word, bytes);
    return next <= ts_load_relaxed(&block->limit) ? ts_fast_bump(block, word, next) : NULL;
}

/* The next call with the epoch's id, or with its domain, finds the block at once. */
static void remember_last(ts_heap *heap, ts_scope_block *block) {
    ts_heap_bind(heap, block->b.share);
    bool fast = !block->b.slow && heap->sample_rate == 0;
    if (fast && ts_load_relaxed(&ts_thread.token) == block->b.share->token) ts_thread.last = block;
}

static void *scope_alloc(ts_heap *heap, ts_scope_block *block, size_t bytes, size_t align, EpochId id, ts_taken *t) {
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
            if (p) note(share->allocator, p, TS_COUNT_SCOPE, t);
        }
        ts_heap_leave(heap);
        if (p) {
            remember_last(heap, block);
            return p;
        }
        if (!open) {
            errno = ESTALE;
            return NULL;
        }
        if (no_memory) {
            errno = ENOMEM;
            return NULL;
        }
        new_slab slab;
        if (!begin_slab(heap, &block->b, id, TS_COUNT_SCOPE, 1, &slab)) return NULL;
        /* Where memory is told apart by NUMA node, a unit belongs to one node as a whole. */
        if (!slab.account && !ts_nodes_of(share->allocator) && ts_scope_takes_piece(block, bytes, align))
            slab.unit = ts_slab_acquire_piece(heap, share);
        if (!slab.unit)
            slab.unit =
                ts_slab_acquire_scope(heap, share, ts_nodes_wanted(share->allocator, share, slab.account), &slab.fresh);
        no_memory = slab.unit == 0;
        (void)add_slab(heap, &block->b, id, &slab);
    }
}

/* Counts an allocation that returns NULL; errno says why. */
TS_COLD static void count_failure(ts_allocator *allocator) {
    if (errno == ENOMEM) ts_fetch_add_relaxed(&allocator->allocation_failures, 1);
}

void *ts_alloc_scope(ts_heap *heap, ts_scope_block *block, size_t bytes, EpochId id) {
    ts_taken t = {.size = bytes};
    ts_share *share = block->b.share;
    void *p = scope_alloc(heap, block, bytes, 16, id, &t);
    if (TS_UNLIKELY(!p)) count_failure(share->allocator);
    ts_epoch_settle();
    return p;
}

/* ---- choosing ---------------------------------------------------------------------------------------- */

/* Later searches find the block with bins. */
static void forget_small(ts_heap *heap, EpochId id) {
    heap->scope_map[ts_table_index(&ts_epochs, id) % TS_HEAP_MAP] = NULL;
}

static bool is_open(const ts_block *block, const ts_allocator *allocator, EpochId id) {
    return ts_load_relaxed(&block->open_id) == id &&
           ts_load_relaxed(&block->allocator) == ts_load_relaxed(&allocator->token);
}

/* This thread's block in an open epoch. */
static ts_block *find_block(ts_heap *heap, ts_allocator *allocator, EpochId id) {
    unsigned i = ts_table_index(&ts_epochs, id) % TS_HEAP_MAP;
    ts_block *b = heap->map[i] ? &heap->map[i]->b : NULL;
    if (b && is_open(b, allocator, id)) return b;
    b = heap->scope_map[i] ? &heap->scope_map[i]->b : NULL;
    if (b && is_open(b, allocator, id)) return b;
    return ts_epoch_join(heap, allocator, id);
}

/* Reports the damage that care has found at a new object in a slab; kind: a class or TS_COUNT_SCOPE. */
TS_COLD static void tell(ts_allocator *allocator, EpochId id, void *p, uint32_t kind, const ts_taken *t) {
    if (TS_UNLIKELY(ts_care_written)) {
        const char *at = ts_care_written;
        ts_care_written = NULL;
        ts_misuse_written_free(ts_load_relaxed(&allocator->token), at);
    }
    size_t usable = kind < TS_CLASSES ? ts_class_bytes[kind] : ts_scope_round(t->size);
    if (t->written != TS_CARE_CLEAN)
        ts_misuse_written(ts_load_relaxed(&allocator->token), p, t->written, kind, usable, id, t->again);
}

static void *span_alloc(ts_allocator *allocator, EpochId id, size_t size, size_t align, bool zero, ts_taken *t) {
    ts_span_note note = {.written = TS_CARE_CLEAN};
    void *p = ts_span_alloc(allocator, id, size, align, &zero, &note);
    t->word = note.word;
    if (TS_UNLIKELY(note.written != TS_CARE_CLEAN))
        ts_misuse_written(ts_load_relaxed(&allocator->token), p, note.written, TS_COUNT_SPAN, note.bytes, id, true);
    return p;
}

/*
 * Starting small. A churn domain of one thread mostly has few objects: it is a session or a connection. So the
 * thread's first objects in it lie in one slab of mixed sizes, as in a scope. Only the touched pages of that slab
 * have memory. An object that does not fit there makes a block with bins, which serves all later objects. Objects
 * that are freed in the first slab are not used again; that wastes one slab at most. No fast path allocates there
 * (`slow`), because objects are aligned to their size if that is a power of two. An object that is too large for a
 * piece lies beside the pieces, in the unit of another block. So a connection with a buffer of one page holds that
 * page and the pieces of its small objects.
 */
static size_t small_alignment(size_t size, size_t align) {
    bool natural = size >= 32 && size <= TS_SMALL_MOST && ts_is_pow2(size);
    return natural && size > align ? size : align;
}

/* Also for sizes beyond those of ts_scope_round. */
static size_t small_bytes(size_t size) { return size == 0 ? 16 : (size + 15) & ~(size_t)15; }

/* Whether the block has its small objects in pieces, or will, and this one is too large for a piece. */
static bool lies_beside(const ts_scope_block *block, size_t size) {
    const ts_epoch *epoch = ts_load_relaxed(&block->b.epoch);
    return size > TS_PIECE_BYTES && size <= TS_SMALL_MOST && epoch && !ts_load_relaxed(&epoch->account) &&
           ts_scope_is_in_pieces(block);
}

/* Whether the block's first unit has room for the object; pieces come before that unit. Called by the block's thread:
   no other moves the bump pointer. */
static bool small_has_room(const ts_scope_block *block, size_t size, size_t align) {
    if (size > TS_SMALL_MOST || align > TS_SMALL_MOST) return false;
    const char *at = ts_bump_at(ts_load_relaxed(&block->bump));
    uint32_t current = ts_load_relaxed(&block->current);
    if (!at || ts_is_piece(current)) return ts_load_relaxed(&block->b.slabs) == ts_load_relaxed(&block->pieces);
    const char *end = ts_unit_address(current) + TS_UNIT_BYTES;
    uintptr_t aligned = ts_align_up((uintptr_t)at, align);
    return aligned <= (uintptr_t)end && small_bytes(size) <= (uintptr_t)end - aligned;
}

bool ts_has_as_span(const ts_allocator *allocator, EpochId id, size_t size) {
    const ts_epoch *epoch = size > TS_SCOPE_MAX_BYTES ? ts_epoch_at_id(id) : NULL;
    bool scope = epoch && (ts_load_relaxed(&epoch->flags) & EPOCH_SCOPE);
    return size > (scope ? TS_SCOPE_MAX_BYTES : ts_allocator_class_bytes(allocator));
}

/* zero: the bytes have to be zero. align is a power of two. */
static void *alloc_in(ts_heap *heap, ts_allocator *allocator, EpochId id, size_t align, bool zero, ts_taken *t) {
    void *p = NULL;
    size_t size = t->size;
    if (size > PTRDIFF_MAX) {
        errno = ENOMEM;
        return NULL;
    }
    unsigned cls = ts_class_aligned(size, align);
    size_t most = ts_allocator_class_bytes(allocator);
    bool small = align <= most && !ts_has_as_span(allocator, id, size);
    ts_block *block = NULL;
    while (small && !p) {
        block = find_block(heap, allocator, id);
        if (!block) return NULL;
        if (TS_UNLIKELY(ts_block_is_small(block))) {
            size_t natural = small_alignment(size, align);
            if (lies_beside(ts_scope(block), size)) block = ts_epoch_join_beside(heap, allocator, id, block);
            if (!block) return NULL;
            if (small_has_room(ts_scope(block), size, natural)) {
                p = scope_alloc(heap, ts_scope(block), small_bytes(size), natural, id, t);
                if (!p && errno != ESTALE) return NULL;
                continue;
            }
            block = ts_epoch_join_bins(heap, allocator, id);
            if (!block) return NULL;
            forget_small(heap, id);
        }
        if (block->scope && size + align <= TS_SCOPE_MAX_BYTES + 16)
            p = scope_alloc(heap, ts_scope(block), ts_scope_round(size), align, id, t);
        else if (!block->scope && cls < TS_CLASSES)
            p = churn_alloc(heap, ts_churn(block), cls, id, t);
        else
            small = false;
        /* ESTALE: the block has ended, by a reset if the epoch goes on; find_block tells which. */
        if (small && !p && errno != ESTALE) return NULL;
    }
    if (!small) return span_alloc(allocator, id, size, align, zero, t);
    if (TS_UNLIKELY(allocator->care && p)) tell(allocator, id, p, block->scope ? TS_COUNT_SCOPE : cls, t);
    if (p && zero && !t->zero) memset(p, 0, size);
    return p;
}

static ts_heap *prepare(uintptr_t token, ts_allocator **allocator) {
    *allocator = ts_allocator_find(token);
    if (!*allocator) {
        errno = EINVAL;
        return NULL;
    }
    ts_care_call((*allocator)->care);
    return ts_heap_mine();
}

/* Does the work of the fast paths (objects.c) for an allocator that samples stacks. NULL: the slow path has to be
   taken. */
static void *alloc_fast_again(ts_heap *heap, const ts_allocator *allocator, EpochId id, ts_taken *t) {
    unsigned i = ts_table_index(&ts_epochs, id) % TS_HEAP_MAP;
    ts_found found = {heap->map[i], heap->scope_map[i]};
    if (t->size > TS_SCOPE_MAX_BYTES || allocator->care || heap->sample_rate != 0) return NULL;
    ts_op_begin(&ts_thread);
    if (found.churn && !is_open(&found.churn->b, allocator, id)) found.churn = NULL;
    if (found.scope && (!is_open(&found.scope->b, allocator, id) || ts_block_is_small(&found.scope->b)))
        found.scope = NULL;
    void *p = ts_take_at_hand(found, t->size);
    if (p) note(allocator, p, TS_COUNT_SCOPE, t);
    ts_op_end(&ts_thread);
    return p;
}

/* caller: where the program goes on after its call. */
TS_ALWAYS_INLINE void *alloc_noted(uintptr_t token, size_t align, EpochId id, bool zero, ts_taken *t, void *caller) {
    ts_allocator *allocator;
    int before = errno; /* a failed try sets it, and the next try may succeed */
    ts_heap *heap = prepare(token, &allocator);
    if (!heap) return NULL;
    if (id == EPOCH_NONE) {
        errno = EINVAL;
        return NULL;
    }
    ts_timing timing = ts_sample_begin(heap, TS_SAMPLE_ALLOC);
    void *p = NULL;
    if (TS_UNLIKELY(ts_load_relaxed(&allocator->sampled)) && align == 16 && !zero)
        p = alloc_fast_again(heap, allocator, id, t);
    if (!p) p = alloc_in(heap, allocator, id, align, zero, t);
    ts_sample_end(heap, &timing, TS_SAMPLE_ALLOC);
    if (TS_UNLIKELY(ts_load_relaxed(&allocator->sampled)) && p)
        ts_stacks_count(heap, allocator, id, p, t->size, caller);
    if (TS_UNLIKELY(!p)) count_failure(allocator);
    ts_epoch_settle();
    if (p) errno = before;
    return p;
}

_Atomic size_t ts_aligned_most = 16;

TS_COLD static void raise_aligned_most(size_t align) {
    size_t before = ts_load_relaxed(&ts_aligned_most);
    while (before < align && !atomic_compare_exchange_weak_explicit(&ts_aligned_most, &before, align,
                                                                    memory_order_relaxed, memory_order_relaxed)) {
    }
}

TS_ENTRY void *ts_alloc_aligned(uintptr_t token, size_t align, size_t size, EpochId id, bool zero) {
    ts_taken t = {.size = size};
    if (TS_UNLIKELY(align > ts_load_relaxed(&ts_aligned_most))) raise_aligned_most(align);
    return alloc_noted(token, align, id, zero, &t, TS_CALLER());
}

TS_ENTRY void *ts_alloc_object(uintptr_t token, size_t size, EpochId id, SlabHandle *handle) {
    ts_taken t = {.size = size};
    ts_object object;
    *handle = SLAB_HANDLE_NONE;
    void *p = alloc_noted(token, 16, id, false, &t, TS_CALLER());
    if (!p) return NULL;
    /* If the slab is in another use the object has died, and the place is another's. */
    if (ts_object_at(token, p, &object) && object.word == t.word) *handle = ts_object_handle(token, &object);
    if (*handle != SLAB_HANDLE_NONE) return p;
    errno = ESTALE;
    return NULL;
}

TS_ENTRY void *ts_alloc(uintptr_t token, size_t size, EpochId id) {
    return ts_alloc_aligned(token, 16, size, id, false);
}

/* slab_malloc finds the block at once from now on. Partner: shut_blocks writes open_id, then 0 to `rolling` (release).
   Either that 0 comes later and overwrites the token, or the exchange finds it (acquire), and then open_id is seen to
   be over. */
static void make_rolling(ts_heap *heap, uintptr_t token, EpochId id) {
    unsigned i = ts_table_index(&ts_epochs, id) % TS_HEAP_MAP;
    ts_churn_block *block = heap->map[i];
    if (!block || block->b.slow || ts_load_relaxed(&ts_thread.token) != token ||
        ts_load_relaxed(&block->b.open_id) != id)
        return;
    if (ts_load_relaxed(&block->b.rolling) != token)
        atomic_exchange_explicit(&block->b.rolling, token, memory_order_acq_rel);
    if (ts_load_relaxed(&block->b.open_id) != id) ts_store_relaxed(&block->b.rolling, 0);
    ts_thread.rolling = block;
}

static bool is_inside_of(uintptr_t token) {
    for (const ts_domain_scope *s = ts_thread.domain; s; s = s->outer)
        if (s->allocator == token) return true;
    return false;
}

TS_ENTRY void *ts_alloc_rolling(uintptr_t token, size_t size) {
    ts_allocator *allocator = ts_allocator_find(token);
    if (!allocator) {
        errno = EINVAL;
        return NULL;
    }
    if (ts_hints(allocator) && is_inside_of(token))
        ts_hint("slab_malloc", "of an allocator whose domain this thread is inside of: the object is not the domain's",
                TS_CALLER());
    for (int before = errno;;) {
        EpochId id = ts_epoch_current(allocator, token);
        ts_taken t = {.size = size};
        if (id == EPOCH_NONE) return NULL;
        void *p = alloc_noted(token, 16, id, false, &t, TS_CALLER());
        if (p) make_rolling(ts_thread.heap, token, id);
        if (p) errno = before;
        /* Another thread advanced meanwhile: the next epoch serves as well. */
        if (p || errno != ESTALE || ts_load_acquire(&allocator->current_epoch) == id) return p;
    }
}
