/*
 * Frees off the fast path. Nothing here is called inside an operation or with a lock held.
 *
 * What could go wrong: between the look at an object and its free its block becomes another thread's, or its slab gets
 * another use. It does no harm: a thread frees in a bin only inside of its own heap, or holding the owner's, and looks
 * at the words again there. All others set the object's foreign bit (foreign.c). If the words have changed the answer
 * is AGAIN, and all is looked at anew.
 */
/* Modelled in tests/model: foreign, spill, orders. */
#include "cache/free.h"
#include "base/park.h"
#include "cache/allocate.h"
#include "cache/bin.h"
#include "cache/foreign.h"
#include "cache/scope.h"
#include "diagnose/sample.h"
#include "epoch/contention.h"
#include "epoch/epoch.h"
#include "memtools/care.h"
#include "os/os.h"

/* FREED_FOR_ANOTHER: freed, but another thread is told so (foreign.c, 7). */
typedef enum verdict { FREED, FREED_FOR_ANOTHER, NOT_LIVE, AGAIN } verdict;

/* Of an object of this thread's own that is about to die. */
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

/* A free with the object's generation is exact: of several at one instant one is told true (foreign.c, 7). */
static verdict is_first(uint32_t unit, uint64_t word, uint64_t entry, uint32_t generation) {
    uint64_t bit;
    if (generation == TS_ANY_GENERATION) return FREED;
    _Atomic uint64_t *foreign = ts_slab_foreign_word(word, entry, &bit);
    return ts_foreign_is_first(ts_slab_at(unit), foreign, bit) ? FREED : FREED_FOR_ANOTHER;
}

static verdict free_churn_own(ts_churn_block *block, uint64_t word, uint32_t unit, uint64_t entry,
                              uint32_t generation) {
    ts_bin *bin = ts_line_address(ts_word_line(word));
    uint32_t s = ts_load_relaxed(ts_entry_state(entry, ts_word_is_fine(word)));
    if (!ts_state_is_of(s, entry)) return NOT_LIVE;
    if (generation != TS_ANY_GENERATION &&
        generation != ts_load_relaxed(&ts_slab_at(unit)->gen) + ts_state_generation(s))
        return NOT_LIVE;
    if (TS_UNLIKELY(block->b.share->allocator->care)) take_back(&block->b, unit, entry);
    ts_bin_free_direct(block, bin, (uint32_t)entry);
    verdict v = is_first(unit, word, entry, generation);
    ts_bin_release_if_empty(block, bin, unit);
    return v;
}

/* word: what the unit's was when the block was found. */
static verdict free_own(ts_heap *heap, ts_block *block, uint32_t unit, uint64_t entry, uint32_t generation,
                        uint64_t word) {
    if (ts_load_relaxed(&block->heap) != heap) return AGAIN; /* it stays so until the heap is left */
    /* Its frees in this slab take this way until what others freed is taken in, which costs as much as so many of them. At once
       where a round has left something, so that it does not pile up, and where a slab goes back when it is empty. */
    if ((ts_load_relaxed(ts_unit_word(unit)) & TS_UNIT_FOREIGN) &&
        (++heap->flags_met >= TS_FOREIGN_FLAGS_MET || ts_load_relaxed(&heap->backlog) != 0 ||
         ts_allocator_is_sparing(block->share->allocator))) {
        heap->flags_met = 0;
        ts_foreign_drain_some(heap, TS_FOREIGN_WORK);
    }
    ts_block_flush_if_shut(heap, block);
    /* Looked at again now that the heap is held and all is done that could release the slab: from here on the unit is
       this block's until the heap is left. */
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

/* With care an object is filled before it is freed, which must not meet its next use: while the heap of its owner is held
   nobody else frees it, nor are its slab's units given away. *held NULL: the heap can never be held (no barrier, or its
   thread vanished in a fork), and two threads that free one object at once may fill what is in use again. false: the block has
   ended, and has no memory (block_pool.c). */
TS_COLD static bool hold_owner(const ts_block *block, ts_heap **held) {
    for (*held = NULL;;) {
        ts_heap *owner = ts_load_acquire(&block->heap);
        if (!owner) return false;
        if (owner == ts_thread.heap || ts_load_relaxed(&owner->state) == TS_HEAP_LOST) return true;
        if (ts_heap_hold(owner)) {
            if (ts_load_relaxed(&block->heap) == owner) {
                *held = owner;
                return true;
            }
            ts_heap_drop(owner);
        } else if (!ts_os->barrier_all()) {
            return true;
        } else {
            ts_nap(); /* it lost its processor in the middle of an operation */
        }
    }
}

/* A closed epoch's objects are freed by this thread one by one. That nobody holds the heap was seen inside of the operation, so it
   is as if held until the operation ends (heap.h), and no other thread works in a block of it that is closing. */
bool ts_free_closed(ts_heap *heap, uintptr_t token, uint64_t entry) {
    uint32_t unit = (uint32_t)(entry >> TS_ENTRY_UNIT_SHIFT);
    uint64_t w = ts_load_relaxed(ts_unit_word(unit));
    if (w == 0 || (w & (TS_UNIT_ZOMBIE | TS_UNIT_SPAN | TS_UNIT_SCOPE | TS_UNIT_FOREIGN))) return false;
    ts_bin *bin = ts_line_address(ts_word_line(w));
    ts_churn_block *block = ts_bin_block(bin);
    if (ts_load_relaxed(&block->b.heap) != heap || block->b.closing != TS_CLOSING ||
        ts_era(&block->b) != ts_word_era(w) || ts_load_relaxed(&block->b.allocator) != token || block->b.share->care)
        return false;
    uint64_t granule = ts_granule(ts_word_is_fine(w), entry);
    _Atomic uint16_t *state = &bin->state[granule];
    uint32_t s = ts_load_relaxed(state);
    uint16_t next;
    if (!ts_state_is_of(s, entry) || ts_add_carries_16((uint16_t)s, TS_STATE_FREE_STEP, &next)) return false;
    ts_store_release(state, next); /* as in ts_fast_free */
    bool settles = !ts_fast_give(bin, entry, granule);
    if (TS_UNLIKELY(settles)) ts_bin_give_slot(block, bin, (uint32_t)entry);
    atomic_thread_fence(memory_order_seq_cst); /* as in free_once */
    if (TS_UNLIKELY(ts_load_relaxed(ts_unit_word(unit)) & TS_UNIT_FOREIGN)) {
        ts_foreign_take_off(heap, unit);
        settles = true;
    }
    ts_op_end(&ts_thread);
    if (TS_UNLIKELY(settles)) ts_epoch_settle();
    return true;
}

static verdict free_foreign(uint32_t unit, uint64_t entry, uintptr_t token, uint32_t generation, void *p) {
    ts_allocator *allocator = ts_allocator_find(token);
    uint64_t retries = 0;
    if (!allocator) return NOT_LIVE;
    ts_heap *heap = ts_heap_mine(), *owner = NULL;
    if (TS_UNLIKELY(allocator->care)) {
        ts_object object;
        if (!ts_object_at(token, p, &object) || !object.block) return NOT_LIVE;
        if (!hold_owner(object.block, &owner)) return AGAIN;
        if (!ts_object_at_in_slab(token, p, &object) ||
            (generation != TS_ANY_GENERATION && generation != object.generation)) {
            if (owner) ts_heap_drop(owner);
            return NOT_LIVE;
        }
        ts_care_freed(allocator->care, ts_slab_start(p), p, object.bytes);
    }
    /* In the bracket of this thread's heap, if it has one, for the sake of fork: see foreign.c. (Who holds another's keeps
       a fork waiting too.) */
    bool bracket = heap && !owner;
    if (bracket) ts_heap_enter(heap);
    ts_foreign_result r = ts_foreign_free(unit, entry, token, generation, &retries);
    if (bracket) ts_heap_leave(heap);
    if (TS_UNLIKELY(owner != NULL)) ts_heap_drop(owner);
    if (TS_UNLIKELY(retries)) {
        ts_fetch_add_relaxed(&allocator->cas_retries, retries);
        ts_contention_retried(retries);
    }
    if (r != TS_FOREIGN_FREED) return NOT_LIVE;
    ts_settle_pending(); /* pushed to a heap that has ended it is passed on, before it is looked for */
    ts_foreign_give_closed(unit, entry);
    return FREED;
}

static verdict free_once(uintptr_t token, void *p, uint32_t generation, uint32_t unit, uint64_t entry) {
    uint64_t w = ts_load_acquire(ts_unit_word(unit)); /* acquire: partner of ts_bin_add, ts_scope_append */
    if (w == 0 || (w & TS_UNIT_ZOMBIE)) return NOT_LIVE;
    if (w & TS_UNIT_SPAN) {
        ts_allocator *allocator = ts_allocator_find(token);
        if ((entry & (TS_UNIT_ENTRIES - 1)) != 0 || !allocator) return NOT_LIVE;
        return ts_span_free(allocator, unit, w, generation) ? FREED : NOT_LIVE;
    }
    ts_block *block = ts_block_of_line(ts_word_line(w), (w & TS_UNIT_SCOPE) != 0);
    if (ts_era(block) != ts_word_era(w)) return NOT_LIVE;
    if (ts_load_relaxed(&block->allocator) != token) return NOT_LIVE;
    ts_heap *heap = ts_thread.heap;
    if (heap && ts_load_acquire(&block->heap) == heap) {
        ts_heap_bind(heap, block->share); /* its next frees are fast */
        ts_heap_enter(heap);
        verdict v = free_own(heap, block, unit, entry, generation, w);
        if (TS_UNLIKELY(v <= FREED_FOR_ANOTHER && block->closing == TS_CLOSING)) {
            /* Others may have freed the rest of the slab meanwhile, and seen this object live: ts_foreign_give_closed. */
            atomic_thread_fence(memory_order_seq_cst);
            ts_foreign_take_off(heap, unit);
        }
        ts_heap_leave(heap);
        return v;
    }
    return free_foreign(unit, entry, token, generation, p);
}

/* While timing is on the fast path is off: this is it, timed like the rest. */
static bool free_fast_again(ts_heap *heap, uintptr_t token, uint32_t unit, uint64_t entry) {
    ts_heap_enter(heap);
    const ts_share *share = ts_heap_find_share(heap, token);
    ts_heap_leave(heap);
    if (!share) return false;
    const ts_tls own = {.share_key = ts_share_key(share)};
    ts_op_begin(&ts_thread);
    ts_fast_result r = ts_fast_free(&own, entry, ts_slab_unit_address(unit) + (entry & (TS_UNIT_ENTRIES - 1)) * 16,
                                    false, SLAB_HANDLE_NONE);
    if (r.full && !ts_fast_give(r.bin, entry, r.granule))
        return ts_bin_give_freed(ts_bin_block(r.bin), r.bin, (uint32_t)entry);
    ts_op_end(&ts_thread);
    return r.freed;
}

TS_COLD static void take_call(uintptr_t token) {
    const ts_allocator *allocator = ts_allocator_find(token);
    if (allocator) ts_care_call(allocator->care);
}

bool ts_free(uintptr_t token, void *p, uint32_t generation) {
    uint32_t unit;
    uint64_t entry;
    if (!ts_locate(p, &unit, &entry)) return false;
    if (TS_UNLIKELY(ts_care_on_asan)) take_call(token);
    ts_heap *heap = ts_thread.heap;
    ts_timing timing = {0};
    verdict v = AGAIN;
    if (heap) timing = ts_sample_begin(heap, TS_SAMPLE_FREE);
    if (heap && heap->sample_rate != 0 && generation == TS_ANY_GENERATION && free_fast_again(heap, token, unit, entry))
        v = FREED;
    while (v == AGAIN) v = free_once(token, p, generation, unit, entry);
    if (heap) ts_sample_end(heap, &timing, TS_SAMPLE_FREE);
    ts_epoch_settle();
    return v == FREED;
}
