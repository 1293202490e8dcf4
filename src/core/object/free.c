/*
 * Frees off the fast path. Nothing here is called with a lock held; object.h names the four functions that are called
 * inside an operation, and end it.
 *
 * What could go wrong: between the look at an object and its free, the block goes to another thread or the slab to
 * another use. It does no harm. A thread frees in a bin only inside its own heap, or while it holds the heap of an
 * ended thread, and looks at the words again there. Else it sets a bit for the object (foreign.c). If the words have
 * changed the answer is AGAIN, and the look is repeated.
 */
/* Modelled in tests/model: foreign, spill. */
#include "cache/free.h"
#include "cache/allocate.h"
#include "cache/cache.h"
#include "diagnose/diagnose.h"
#include "epoch/epoch.h"
#include "memtools/memtools.h"
#include "object/find.h"
#include "object/object.h"
#include "os/os.h"
#include "supply/supply.h"

#include <errno.h>

/* FREED_FOR_ANOTHER: the object is freed, but the answer true goes to another thread (foreign.c, 7). */
typedef enum verdict { FREED, FREED_FOR_ANOTHER, NOT_LIVE, AGAIN } verdict;

/* Care fills an object of this thread's own before it is freed. */
TS_COLD static void take_back(const ts_block *block, uint32_t unit, uint64_t entry) {
    char *home = ts_slab_unit_address(unit);
    uint32_t in_unit = (uint32_t)entry & (TS_UNIT_ENTRIES - 1);
    size_t bytes;
    if (block->scope) {
        bytes = ts_scope_object_bytes((const ts_scope_block *)(const void *)block, unit, in_unit);
    } else {
        uint64_t word = ts_load_relaxed(ts_unit_word(unit));
        bytes = ts_class_bytes[ts_bin_class((const ts_churn_block *)(const void *)block,
                                            ts_line_address(ts_word_line(word)))];
    }
    ts_care_freed(block->share->allocator->care, home, home + (size_t)in_unit * 16, bytes);
}

/* A free with the object's generation is exact: if several threads free it at once, one is told true (foreign.c, 7). */
static verdict is_first(uint32_t unit, uint64_t word, uint64_t entry, uint32_t generation) {
    uint64_t bit;
    if (generation == TS_ANY_GENERATION) return FREED;
    _Atomic uint64_t *foreign = ts_slab_foreign_word(word, entry, &bit);
    return ts_foreign_is_first(ts_slab_at(unit), foreign, bit) ? FREED : FREED_FOR_ANOTHER;
}

static verdict free_churn_own(ts_churn_block *block, uint64_t word, uint32_t unit, uint64_t entry,
                              uint32_t generation) {
    ts_bin *bin = ts_line_address(ts_word_line(word));
    if (!ts_is_live(entry)) return NOT_LIVE;
    if (generation != TS_ANY_GENERATION && generation != ts_slab_generation(ts_slab_at(unit), word, entry))
        return NOT_LIVE;
    if (TS_UNLIKELY(block->b.share->allocator->care)) take_back(&block->b, unit, entry);
    ts_bin_free_direct(block, bin, entry);
    verdict v = is_first(unit, word, entry, generation);
    ts_bin_release_if_empty(block, bin, unit);
    return v;
}

/* word: the UNIT word by which the block was found. */
static verdict free_own(ts_heap *heap, ts_block *block, uint32_t unit, uint64_t entry, uint32_t generation,
                        uint64_t word) {
    if (ts_load_relaxed(&block->heap) != heap) return AGAIN; /* it stays so until the heap is left */
    /* While FOREIGN is on, the owner's frees in this slab take this slow path. A drain ends that, and costs as much as
       TS_FOREIGN_FLAGS_MET such frees. It comes at once if the last one left something, so that no backlog piles up,
       and if empty slabs are to go back at once. */
    if ((ts_load_relaxed(ts_unit_word(unit)) & TS_UNIT_FOREIGN) &&
        (++heap->flags_met >= TS_FOREIGN_FLAGS_MET || ts_load_relaxed(&heap->backlog) != 0 ||
         ts_allocator_is_sparing(block->share->allocator))) {
        heap->flags_met = 0;
        ts_foreign_drain_some(heap, TS_FOREIGN_WORK);
    }
    ts_block_flush_if_shut(heap, block);
    /* The second look comes with the heap held and after all steps that could release the slab: from here on the unit
       stays the block's until the heap is left. */
    uint64_t w = ts_load_relaxed(ts_unit_word(unit));
    if (((w ^ word) & ~TS_UNIT_FOREIGN) != 0 || ts_word_era(w) != ts_era(block)) return AGAIN;
    if ((w & TS_UNIT_FOREIGN) && ts_foreign_pending(unit, w, entry)) return NOT_LIVE;
    if (!block->scope) return free_churn_own(ts_churn(block), w, unit, entry, generation);
    uint32_t in_unit = (uint32_t)entry & (TS_UNIT_ENTRIES - 1);
    const ts_scope_bits *bits = ts_slab_scope_bits(unit);
    uint64_t mask = (uint64_t)1 << (in_unit & 63);
    if (!(ts_load_relaxed(&bits->start[in_unit >> 6]) & mask) || (ts_load_relaxed(&bits->freed[in_unit >> 6]) & mask))
        return NOT_LIVE;
    if (generation != TS_ANY_GENERATION && generation != ts_load_relaxed(&ts_slab_at(unit)->gen)) return NOT_LIVE;
    if (TS_UNLIKELY(block->share->allocator->care)) take_back(block, unit, entry);
    if (!ts_scope_free(ts_scope(block), unit, in_unit)) return NOT_LIVE;
    verdict v = is_first(unit, w, entry, generation);
    ts_scope_release_if_empty(ts_scope(block), unit);
    return v;
}

/* The thread's heap, made if it has none: its next frees are fast. NULL: there is none. The thread library frees what
   it had for older threads at the very end of a thread. No destructor would end a heap that is made there. */
static ts_heap *heap_to_free(void) {
    ts_heap *heap = ts_thread.heap;
    if (TS_LIKELY(heap != NULL) || ts_os_thread_is_over()) return heap;
    int before = errno;
    heap = ts_heap_make();
    errno = before;
    return heap;
}

/* Other threads changed the foreign word meanwhile. allocator: NULL: it has ended. */
TS_COLD static void count_repeated(ts_allocator *allocator, uint64_t times) {
    if (allocator) ts_fetch_add_relaxed(&allocator->cas_retries, times);
    ts_cas_repeated_fn *repeated = ts_load_relaxed(&ts_cas_repeated);
    if (repeated) repeated(times);
}

static verdict free_foreign(uint32_t unit, uint64_t entry, uintptr_t token, uint32_t generation, void *p) {
    ts_allocator *allocator = ts_allocator_find(token);
    uint64_t retries = 0;
    if (!allocator) return NOT_LIVE;
    ts_heap *heap = heap_to_free(), *owner = NULL;
    if (TS_UNLIKELY(allocator->care)) {
        ts_object object;
        if (!ts_object_at(token, p, &object) || !object.block) return NOT_LIVE;
        /* It is filled before it is freed, and the fill must not meet the next use of the place. With the owner's heap
           held no other thread frees it, and its slab stays. Where that heap can never be held two threads that free
           one object at once may fill memory that is in use again. */
        if (!ts_heap_hold_of(object.block, &owner)) return AGAIN;
        if (!ts_object_at_in_slab(token, p, &object) ||
            (generation != TS_ANY_GENERATION && generation != object.generation)) {
            if (owner) ts_heap_drop(owner);
            return NOT_LIVE;
        }
        ts_care_freed(allocator->care, ts_slab_start(p), p, object.bytes);
    }
    /* In the bracket of this thread's heap, if it has one, so that a fork waits for it (foreign.c). A fork also waits
       for a thread that holds another's heap. */
    bool bracket = heap && !owner;
    if (bracket) ts_heap_enter(heap);
    ts_foreign_result r = ts_foreign_free(unit, entry, token, generation, &retries);
    if (bracket) ts_heap_leave(heap);
    if (TS_UNLIKELY(owner != NULL)) ts_heap_drop(owner);
    if (TS_UNLIKELY(retries)) count_repeated(allocator, retries);
    if (r != TS_FOREIGN_FREED) return NOT_LIVE;
    ts_foreign_give_closed(unit, entry);
    return FREED;
}

/* Holds the heap of an object's block where the calling thread can free in it as its owner does: its own, or that of
   an ended thread. Frees there need no queue, and the slab is given back with its last object. The state is looked at
   again with the heap held: meanwhile another thread may have adopted the block, this heap may have got a new thread,
   and that one may have adopted it in turn. */
static bool hold_owner_if_free(ts_heap *home, const ts_block *block) {
    if (home == ts_thread.heap) {
        ts_heap_bind(home, block->share); /* its next frees are fast */
        ts_heap_enter(home);
        return true;
    }
    if (ts_load_relaxed(&home->state) != TS_HEAP_ABANDONED || !ts_heap_hold(home)) return false;
    if (ts_load_relaxed(&home->state) == TS_HEAP_ABANDONED) return true;
    ts_heap_drop(home);
    return false;
}

/* Counts a free in an ended thread's block, and notes the block. Caller holds its heap. w: the UNIT word by which it
   was found. */
static void count_foreign(ts_block *block, uint32_t unit, uint64_t w) {
    uint32_t kind = block->scope ? TS_COUNT_SCOPE : ts_bin_class(ts_churn(block), ts_line_address(ts_word_line(w)));
    ts_thread.freed_in = block;
    ts_count(&block->share->count[kind].foreign_frees, 1);
    ts_nodes_freed(block->share->allocator, unit);
}

/* w: the UNIT word of the slab (acquire: partner of ts_bin_add, ts_scope_append). */
static verdict free_once(uintptr_t token, void *p, uint32_t generation, uint32_t unit, uint64_t entry, uint64_t w) {
    if (w == 0 || (w & TS_UNIT_ZOMBIE)) return NOT_LIVE;
    if (w & TS_UNIT_SPAN) {
        ts_allocator *allocator = ts_allocator_find(token);
        if ((entry & (TS_UNIT_ENTRIES - 1)) != 0 || !allocator) return NOT_LIVE;
        return ts_span_free(allocator, unit, w, generation) ? FREED : NOT_LIVE;
    }
    ts_block *block = ts_block_of_word(w);
    if (ts_era(block) != ts_word_era(w)) return NOT_LIVE;
    if (ts_load_relaxed(&block->allocator) != token) return NOT_LIVE;
    ts_heap *home = ts_load_acquire(&block->heap);
    if (home && hold_owner_if_free(home, block)) {
        verdict v = free_own(home, block, unit, entry, generation, w);
        if (home != ts_thread.heap && v <= FREED_FOR_ANOTHER) count_foreign(block, unit, w);
        if (TS_UNLIKELY(v <= FREED_FOR_ANOTHER && block->closing == TS_CLOSING)) {
            /* Other threads may have freed the rest of the slab meanwhile, and seen this object live
               (ts_foreign_give_closed). */
            atomic_thread_fence(memory_order_seq_cst);
            ts_foreign_drain_closing(home, unit);
        }
        ts_heap_drop(home);
        return v;
    }
    return free_foreign(unit, entry, token, generation, p);
}

bool ts_free_full(ts_bin *bin, uint64_t entry) {
    if (TS_UNLIKELY(!ts_fast_give(bin, entry))) {
        ts_bin_give_freed(ts_bin_block(bin), bin, entry);
        ts_epoch_run_deferred();
        return true;
    }
    ts_op_end(&ts_thread);
    return true;
}

/* While timing is on no thread takes the fast path. This does its work, and is timed as all frees are. */
static bool free_fast_again(ts_heap *heap, uintptr_t token, void *p, uint64_t entry) {
    ts_heap_enter(heap);
    const ts_share *share = ts_heap_find_share(heap, token);
    ts_heap_leave(heap);
    if (!share) return false;
    ts_op_begin(&ts_thread);
    ts_fast_result r =
        ts_fast_free(ts_share_key(share), entry, p, TS_FAST_PLAIN, SLAB_HANDLE_NONE, NULL, !ts_is_near(entry));
    if (r.full) return ts_free_full(r.bin, r.entry);
    ts_op_end(&ts_thread);
    return r.freed;
}

TS_COLD static void take_call(uintptr_t token) {
    const ts_allocator *allocator = ts_allocator_find(token);
    if (allocator) ts_care_call(allocator->care);
}

/* w: the UNIT word of the slab, loaded once (acquire). */
static bool free_in(uintptr_t token, void *p, uint32_t generation, uint32_t unit, uint64_t entry, uint64_t w) {
    if (TS_UNLIKELY(ts_care_on_asan)) take_call(token);
    ts_heap *heap = ts_thread.heap;
    ts_timing timing = {0};
    verdict v = AGAIN;
    if (heap) timing = ts_sample_begin(heap, TS_SAMPLE_FREE);
    if (heap && heap->sample_rate != 0 && generation == TS_ANY_GENERATION && free_fast_again(heap, token, p, entry))
        v = FREED;
    for (uint64_t now = w; v == AGAIN; now = ts_load_acquire(ts_unit_word(unit))) {
        /* Without handles the next use of the slab has the same generations. */
        bool other = generation != TS_ANY_GENERATION && !ts_is_same_use(now, w);
        v = other ? NOT_LIVE : free_once(token, p, generation, unit, entry, now);
    }
    if (heap) ts_sample_end(heap, &timing, TS_SAMPLE_FREE);
    ts_epoch_run_deferred();
    return v == FREED;
}

bool ts_free(uintptr_t token, void *p, uint32_t generation) {
    uint32_t unit;
    uint64_t entry;
    if (!ts_locate(p, &unit, &entry)) return false;
    return free_in(token, p, generation, unit, entry, ts_load_acquire(ts_unit_word(unit)));
}

bool ts_free_object(uintptr_t token, const ts_object *object) {
    uint64_t entry = (uint64_t)ts_unit_of(object->unit) * TS_UNIT_ENTRIES + object->entry_in_unit;
    return free_in(token, object->address, object->generation, object->unit, entry, object->word);
}

/* ---- frees that miss the fast path ------------------------------------------------------------------------ */

/*
 * slab_free looks into the thread's own open churn block. If the object is not there, ts_free_missed loads the UNIT
 * word once. The word's flags, and whose block it names, tell which function ends the operation:
 *
 *     SCOPE, this thread's and open        ts_free_missed itself, or free_last_bit
 *     CUT                                  free_in_piece, as SCOPE by the piece's word
 *     none, this thread's                  free_own_block: in a closing epoch, in an OUTER slab, or in a block that it
 *                                          has adopted
 *     none but FOREIGN, another thread's   free_open: a cross-thread free
 *     SPAN                                 free_span: a large object
 *     all others                           free_slowly: work inside the heap, and what is no object
 *
 * Each of them goes on with free_slowly where its case is another after all.
 */

ts_refusal ts_refusals;

bool ts_read_is_malloc(uintptr_t token) { return token == ts_load_acquire(&ts_refusals.token); }

TS_COLD bool ts_free_refused(uintptr_t token, const char *call, void *p, const SlabHandle *handle) {
    /* acquire: partner of the release in ts_private_ask_before_refusal */
    if (!handle && token != 0 && ts_load_acquire(&ts_refusals.token) == token && ts_refusals.ask(p)) return true;
    ts_misuse_free(token, call, p, handle, NULL);
    return false;
}

/* Inside an operation, which ends here, as in all that follow. */
static bool free_slowly_in(uintptr_t token, uint64_t entry, uint32_t slab, uint64_t w) {
    void *p = ts_entry_address(&ts_region.part[TS_NORMAL], entry);
    ts_op_end(&ts_thread);
    return TS_LIKELY(free_in(token, p, TS_ANY_GENERATION, slab, entry, w)) ||
           ts_free_refused(token, "slab_free", p, NULL);
}

static bool free_anywhere(uintptr_t token, void *p) {
    ts_op_end(&ts_thread);
    return TS_LIKELY(ts_free(token, p, TS_ANY_GENERATION)) || ts_free_refused(token, "slab_free", p, NULL);
}

/* In a unit. */
TS_NOINLINE static bool free_slowly(uintptr_t token, uint64_t entry, uint64_t w) {
    return free_slowly_in(token, entry, (uint32_t)(entry >> TS_ENTRY_UNIT_SHIFT), w);
}

/* Another thread changed the foreign word meanwhile. */
TS_COLD static bool free_retried(uintptr_t token, uint64_t entry, uint64_t w) {
    ts_allocator *allocator = ts_allocator_find(token);
    count_repeated(allocator, 1);
    return free_slowly(token, entry, w);
}

/* The free of another thread's object was the first in its slab for a while, or met the close of its epoch. */
TS_NOINLINE static bool free_queued(uint64_t entry, uint64_t w, bool queue) {
    bool shut = !queue || ts_foreign_queue(entry, w) == TS_FOREIGN_FREED_SHUT;
    ts_op_end(&ts_thread);
    ts_run_deferred_pending(); /* pushed to a heap that has ended it is passed on, before it is looked for */
    if (TS_UNLIKELY(shut)) {
        ts_foreign_give_closed((uint32_t)(entry >> TS_ENTRY_UNIT_SHIFT), entry);
        ts_epoch_run_deferred();
    }
    return true;
}

/* The rest of a free in a closing block that empties its slab, or fills the first slot of it, or met another
   thread's. */
TS_NOINLINE static bool free_closing_rest(ts_bin *bin, uint64_t entry, bool give) {
    if (give) ts_bin_give_slot(ts_bin_block(bin), bin, entry);
    uint32_t unit = (uint32_t)(entry >> TS_ENTRY_UNIT_SHIFT);
    atomic_thread_fence(memory_order_seq_cst); /* as in free_once */
    if (ts_load_relaxed(ts_unit_word(unit)) & TS_UNIT_FOREIGN) ts_foreign_drain_closing(ts_thread.heap, unit);
    ts_op_end(&ts_thread);
    ts_epoch_run_deferred();
    return true;
}

/* An object of a closing block of this thread's. No other thread holds the heap: this was seen inside the operation,
   so the heap is as if held until the operation ends (heap.c), and no other thread works in a block of it that is
   closing. The look at the word comes after that: a thread that held the heap until then may have taken the slab out
   of the block since w was loaded, and another's object may lie there. false: it is another case; nothing was done,
   and the operation goes on. */
TS_ALWAYS_INLINE bool free_in_closing(uintptr_t token, uint64_t entry, uint64_t w) {
    ts_bin *bin = ts_line_address(ts_word_line(w));
    const ts_block *block = &ts_bin_block(bin)->b;
    const _Atomic uint64_t *word = &ts_region.part[TS_NORMAL].unit[entry >> TS_ENTRY_UNIT_SHIFT];
    /* as in ts_fast_free: no flag is set, and the eras agree */
    if ((uint32_t)ts_load_relaxed(&block->key) != (uint32_t)w || ts_load_relaxed(word) != w ||
        block->closing != TS_CLOSING || ts_load_relaxed(&block->allocator) != token || block->share->care)
        return false;
    uint64_t lives = ts_load_relaxed(ts_live_word(entry));
    if (!ts_take_bit(&lives, entry)) return false;
    ts_store_release(ts_live_word(entry), lives); /* as in ts_fast_free */
    if (TS_UNLIKELY(!ts_fast_give(bin, entry))) return free_closing_rest(bin, entry, true);
    atomic_thread_fence(memory_order_seq_cst); /* as in free_once */
    if (TS_UNLIKELY(ts_load_relaxed(word) & TS_UNIT_FOREIGN)) return free_closing_rest(bin, entry, false);
    ts_op_end(&ts_thread);
    return true;
}

/* In an open block of this thread's, as slab_free does it in a NEAR slab of the allocator used last. TS_KEY_NO_SHARE
   finds none: free_slowly binds the thread. */
TS_NOINLINE static bool free_adopted(uintptr_t token, uint64_t entry, uint64_t w, uint64_t share_key) {
    void *p = ts_entry_address(&ts_region.part[TS_NORMAL], entry);
    bool outer = !ts_is_near(entry), handled = (w & TS_UNIT_HANDLED) != 0;
    ts_fast_result r = handled ? ts_fast_free(share_key, entry, p, TS_FAST_HANDLED, SLAB_HANDLE_NONE, NULL, outer)
                               : ts_fast_free(share_key, entry, p, TS_FAST_PLAIN, SLAB_HANDLE_NONE, NULL, outer);
    if (TS_UNLIKELY(!r.freed)) return free_slowly(token, entry, w);
    if (TS_UNLIKELY(r.full)) return ts_free_full(r.bin, entry);
    ts_op_end(&ts_thread);
    return true;
}

/* In a churn slab of this thread's. */
TS_NOINLINE static bool free_own_block(uintptr_t token, uint64_t entry, uint64_t w, const ts_block *block,
                                       uint64_t share_key) {
    if (ts_load_relaxed(&block->key) >> TS_KEY_SHARE_SHIFT != 0) return free_adopted(token, entry, w, share_key);
    return free_in_closing(token, entry, w) || free_slowly(token, entry, w);
}

/* In another thread's churn block, which is open; w: 0, or the UNIT word. The operation is a bracket of this thread's
   heap, for which a fork waits (foreign.c). */
TS_ALWAYS_INLINE bool free_open(const ts_block *block, uintptr_t token, uint64_t entry, uint64_t w) {
    ts_foreign_result result = ts_foreign_open(block, entry, token, w);
    if (TS_UNLIKELY(result == TS_FOREIGN_NOT_LIVE)) return free_slowly(token, entry, w);
    if (TS_UNLIKELY(result == TS_FOREIGN_MET)) return free_retried(token, entry, w);
    if (TS_UNLIKELY(result != TS_FOREIGN_FREED)) return free_queued(entry, w, result == TS_FOREIGN_QUEUE);
    ts_op_end(&ts_thread);
    return true;
}

/* In an open scope of this thread's: an object behind which none begins in its word of the bitmaps, or the last
   object of its slab, or no object. */
TS_NOINLINE static bool free_last_bit(uint64_t entry) {
    uint32_t slab = ts_slab_of_entry(entry);
    ts_scope_block *block = ts_line_address(ts_word_line(ts_load_relaxed(ts_unit_word(slab))));
    const ts_slab *record = ts_slab_at(slab);
    bool freed = record->free_count + 1u != record->empty_at &&
                 ts_scope_free(block, slab, (uint32_t)entry & (TS_UNIT_ENTRIES - 1));
    void *p = ts_entry_address(&ts_region.part[TS_NORMAL], entry);
    return TS_LIKELY(freed) ? (ts_op_end(&ts_thread), true) : free_anywhere(ts_load_relaxed(&block->b.allocator), p);
}

TS_NOINLINE static bool free_in_piece(uintptr_t token, uint64_t entry, uint64_t share_key) {
    uint32_t slab = ts_slab_of_entry(entry);
    uint64_t w = ts_load_acquire(ts_unit_word(slab));
    ts_scope_block *block = (w & TS_UNIT_SCOPE) ? ts_fast_scope(share_key, w) : NULL;
    if (TS_UNLIKELY(!block)) return free_slowly_in(token, entry, slab, w);
    if (!ts_fast_free_bit(block, entry, slab)) return free_last_bit(entry);
    ts_op_end(&ts_thread);
    return true;
}

/* Not while timing is on. */
TS_NOINLINE static bool free_span(uintptr_t token, uint64_t entry, uint64_t w) {
    const ts_share *share = ts_share_of_mine(token); /* which has the allocator's record pinned */
    ts_op_end(&ts_thread);
    if ((entry & (TS_UNIT_ENTRIES - 1)) != 0 || (w & TS_UNIT_ZOMBIE) || !share || share->care ||
        (share->heap->sample_rate | ts_load_relaxed(&ts_sample_rate)) != 0 ||
        !ts_span_free(share->allocator, (uint32_t)(entry >> TS_ENTRY_UNIT_SHIFT), w, TS_ANY_GENERATION))
        return free_slowly(token, entry, w);
    ts_epoch_run_deferred();
    return true;
}

/* bound: the allocator is that of the thread's last operation, and is looked up where it is needed; else it is
   `token`. */
TS_ALWAYS_INLINE bool free_by_word(const bool bound, uintptr_t token, void *p, uint64_t share_key) {
    const ts_part *region = &ts_region.part[TS_NORMAL];
    uint64_t entry = ts_entry_of(region, p), w = ts_load_acquire(&region->unit[entry >> TS_ENTRY_UNIT_SHIFT]);
    if (w & TS_UNIT_SCOPE) {
        ts_scope_block *block = ts_fast_scope(share_key, w);
        if (TS_UNLIKELY(!block)) return free_slowly(bound ? ts_bound_token(&ts_thread) : token, entry, w);
        if (!ts_fast_free_bit(block, entry, 0)) return free_last_bit(entry);
        ts_op_end(&ts_thread);
        return true;
    }
    if (bound) token = ts_bound_token(&ts_thread);
    if (TS_UNLIKELY((w & (TS_UNIT_ZOMBIE | TS_UNIT_SPAN)) != 0))
        return ts_word_is_cut(w) ? free_in_piece(token, entry, share_key) : free_span(token, entry, w);
    const ts_heap *heap = ts_thread.heap;
    if (TS_UNLIKELY(!heap) || TS_UNLIKELY((heap->sample_rate | ts_load_relaxed(&ts_sample_rate)) != 0) ||
        TS_UNLIKELY(ts_load_acquire(&heap->revoked) != 0)) /* acquire: as in ts_heap_enter */
        return free_slowly(token, entry, w);
    const ts_block *block = ts_block_of_line(ts_word_line(w), false);
    if (ts_load_relaxed(&block->heap) == heap) return free_own_block(token, entry, w, block, share_key);
    return free_open(block, token, entry, w);
}

bool ts_free_missed(void *p) { return free_by_word(true, 0, p, ts_thread.share_key); }

bool ts_free_missed_of(uintptr_t token, void *p, uint64_t share_key) {
    return free_by_word(false, token, p, share_key);
}

/* Objects in OUTER units go the same ways: slab_free looks at NEAR ones only. */
bool ts_free_elsewhere(uintptr_t token, void *p) {
    const ts_tls *tls = &ts_thread;
    if (!ts_is_in_part(&ts_region.part[TS_NORMAL], ts_entry_of(&ts_region.part[TS_NORMAL], p)))
        return free_anywhere(token, p);
    bool bound = !ts_is_other_relaxed_64(&tls->token, token);
    const ts_share *share = bound ? NULL : ts_find_share(&ts_thread, token);
    return ts_free_missed_of(token, p, bound ? tls->share_key : share ? ts_share_key(share) : TS_KEY_NO_SHARE);
}
