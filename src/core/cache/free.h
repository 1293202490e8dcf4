/*
 * Frees on the fast paths: into the magazine of a bin, in a scope, of another thread's object in an open churn block,
 * and of all that an ended scope block has. A thread frees its own objects inside an operation, and takes no lock.
 */
/* Modelled in tests/model: foreign, look, orders. */
#ifndef TS_CACHE_FREE_H
#define TS_CACHE_FREE_H

#include "base/bits.h"
#include "cache/foreign.h"
#include "cache/scope.h"
#include "ownership/heap.h"
#include "supply/account.h"
#include "supply/allocator.h"
#include "supply/piece.h"
#include "supply/warm.h"

/* ---- an object of the thread's own ----------------------------------------------------------------------- */

#define TS_UNIT_BIN_SHIFT (TS_UNIT_LINE_SHIFT - 6u)
_Static_assert(TS_CACHE_LINE == 1u << 6, "a shift by 6 less gives the place of a line");

/* What was seen of an object: the UNIT word of its slab, its state word, and the tag of the use that the slab was in.
   */
typedef struct ts_looked {
    uint64_t word;
    uint32_t state, tag;
} ts_looked;

typedef struct ts_fast_result {
    bool freed;
    bool full; /* freed, and the magazine has no room: to be given to its slab (ts_fast_give) */
    bool late; /* freed, but another thread is told so: foreign.c, 7 */
    ts_bin *bin;
    uint64_t granule; /* of the object, for ts_fast_give */
} ts_fast_result;

/* Frees the object at an entry of the calling thread's own, open block. Not freed: this needs the slow path (which
   also finds out whether it is an object at all). Everything is checked here: that an object starts at this very
   place and is live, that its slab belongs to a block (same era, and no flag: no foreign free is under way), and that
   the block is open to the share whose key is in tls: this thread's, of this allocator. exact: handle is of the place
   of `entry`, and the object has to be the one that it was made of. seen: the object has to be the one that was seen;
   NULL: any. */
TS_ALWAYS_INLINE ts_fast_result ts_fast_free(const ts_tls *tls, uint64_t entry, void *object, const bool exact,
                                             SlabHandle handle, const ts_looked *seen) {
    const ts_part *region = &ts_region.part[TS_NORMAL];
    ts_fast_result r = {.freed = false, .full = false, .late = false};
    uint64_t word = ts_load_relaxed(&region->unit[entry >> TS_ENTRY_UNIT_SHIFT]);
    /* As ts_line_address of the word's line. A flag makes it a place within the same line, and the key not match. */
    r.bin = (void *)(ts_region.lines + (word >> TS_UNIT_BIN_SHIFT));
    ts_churn_block *block = ts_bin_block(r.bin);
    /* key is { share's line, FINE, era }; the lower half of word is the era if no flag but FINE is set, and
       TS_UNIT_SCOPE is one. share_key has FINE, as every key: so it does not matter here whether word has. */
    uint64_t key = tls->share_key | (uint32_t)word;
    if (TS_UNLIKELY(ts_is_other_relaxed_64(&block->b.key, key))) return r;
    uint64_t granule = ts_granule(ts_word_is_fine(word), entry);
    TS_COMPUTED(granule);
    r.granule = granule;
    TS_COMPUTED_AFTER(entry, granule); /* one register less */
    uint32_t s = ts_load_relaxed(&r.bin->state[granule]);
    if (TS_UNLIKELY(!ts_state_is_of(s, entry))) return r;
    uint32_t unit = (uint32_t)(entry >> TS_ENTRY_UNIT_SHIFT);
    const ts_slab *slab = ts_slab_in(region, unit);
    if (seen && (word != seen->word || s != seen->state || ts_load_acquire(&slab->tag) != seen->tag)) return r;
    if (exact) {
        uint32_t generation = ts_load_relaxed(&slab->gen) + ts_state_generation(s);
        /* A handle was made of this use only if the slab says so. */
        if (TS_UNLIKELY(!ts_handle_is(handle, generation, ts_bin_class(block, r.bin))) ||
            TS_UNLIKELY(!ts_load_relaxed(&slab->handled)))
            return r;
    }
    uint16_t next;
    if (TS_UNLIKELY(ts_add_carries_16((uint16_t)s, TS_STATE_FREE_STEP, &next))) return r; /* retires */
    /* release: a foreign free that finds the slot not live has seen all that led to it */
    ts_store_release(&r.bin->state[granule], next);
    if (exact) {
        uint64_t bit;
        _Atomic uint64_t *foreign = ts_slab_foreign_word(word, entry, &bit);
        r.late = !ts_foreign_is_first(slab, foreign, bit);
    }
    /* The byte first, then one addition in place: two instructions less than a load, its low byte and a store. Not in
       ts_fast_pop: what is freed next waits for that store. */
    uint64_t depth = ts_low_byte_owned(&r.bin->top);
    r.freed = true;
    r.full = (depth & r.bin->full_at) != 0;
    if (TS_UNLIKELY(r.full)) return r;
    r.bin->magazine->object[depth] = object;
    r.bin->magazine->granule[depth] = (uint32_t)granule;
    ts_add_owned(&r.bin->top, (uint64_t)TS_TOP_PUSH);
    return r;
}

/* The bin of the live object that starts at an entry below the region's limit, if it is in a block of the calling
   thread's own that is open; NULL: it is another case. *seen: but the tag. Nothing is written, and what it looks
   at is there for ever: so it needs no operation, and others may end the epoch meanwhile, or give back the slab.
   Where the object dies meanwhile either answer is right; one that was dead when this began is not taken for live: 1.
   Its state is not live until the slab has another use: states of an open block become live by its thread alone,
   which is here. 2. Before that the slab is claimed: so its word, which is looked at again after the state, is
   another. acquire fence: partner of the release fences of the resets (slab.h). 3. Of a block that has ended or is
   closed the key is another, before anything else of that is seen. acquire: partner of the seq_cst change that takes
   FOREIGN off, when another thread has taken in what was freed. */
TS_ALWAYS_INLINE const ts_bin *ts_fast_look(const ts_tls *tls, uint64_t entry, ts_looked *seen) {
    const _Atomic uint64_t *unit_word = &ts_region.part[TS_NORMAL].unit[entry >> TS_ENTRY_UNIT_SHIFT];
    uint64_t word = ts_load_acquire(unit_word);
    const ts_bin *bin = (const void *)(ts_region.lines + (word >> TS_UNIT_BIN_SHIFT));
    /* as in ts_fast_free */
    if (TS_UNLIKELY(ts_is_other_relaxed_64(&ts_bin_block(bin)->b.key, tls->share_key | (uint32_t)word))) return NULL;
    seen->word = word;
    seen->state = ts_load_relaxed(&bin->state[ts_granule(ts_word_is_fine(word), entry)]);
    if (TS_UNLIKELY(!ts_state_is_of(seen->state, entry))) return NULL;
    atomic_thread_fence(memory_order_acquire);
    return TS_UNLIKELY(ts_is_other_relaxed_64(unit_word, word)) ? NULL : bin;
}

/* Bytes of a live object of the calling thread's own open churn block of that allocator; 0: it is another case. */
TS_ALWAYS_INLINE size_t ts_fast_own_bytes(const ts_tls *tls, uintptr_t token, const void *p, ts_looked *seen) {
    uint64_t entry = ts_entry_of(&ts_region.part[TS_NORMAL], p);
    if (TS_UNLIKELY(ts_is_other_relaxed_64(&tls->token, token)) ||
        TS_UNLIKELY(!ts_is_in_part(&ts_region.part[TS_NORMAL], entry)))
        return 0;
    const ts_bin *bin = ts_fast_look(tls, entry, seen);
    return TS_LIKELY(bin != NULL) ? ts_class_bytes[ts_bin_class(ts_bin_block(bin), bin)] : 0;
}

/* What was freed into a full magazine goes straight to its slab: the magazine keeps what it has. false: it is
   counted, but the rest is ts_bin_give_freed's, as it changes a list or lets the slab go. granule: of the entry.
   Inside the same operation. */
TS_ALWAYS_INLINE bool ts_fast_give(ts_bin *bin, uint64_t entry, uint64_t granule) {
    /* release: who sees the count sees that the object was allocated, in `top` or in the claimed word
       (ts_block_tally) */
    ts_count_release(&bin->direct_frees, TS_DIRECT_ONE);
    ts_slab *slab = ts_slab_in(&ts_region.part[TS_NORMAL], entry >> TS_ENTRY_UNIT_SHIFT);
    /* Full before, or empty after: by one comparison, as empty_at is 1 at least. */
    uint32_t before = slab->free_count;
    if (TS_UNLIKELY(before - 1 >= slab->empty_at - 2u)) return false;
    bool fine = ts_bin_is_fine(bin);
    granule &= ts_granules_per_unit(fine) - 1;
    _Atomic uint64_t *word = &ts_slab_free_words(fine, slab)[granule / 64];
    ts_store_relaxed(word, ts_with_bit(ts_load_relaxed(word), granule));
    slab->free_count = (uint16_t)(before + 1);
    return true;
}

/* The scope block of a slab with that UNIT word, which has SCOPE, if the block is open to the share of that key; else
   NULL. */
TS_ALWAYS_INLINE ts_scope_block *ts_fast_scope(uint64_t share_key, uint64_t word) {
    ts_scope_block *block = (ts_scope_block *)(void *)ts_line_address(ts_word_line(word));
    TS_ASSUME(block != NULL);
    /* The lower half is the era and SCOPE, if no other flag is set. */
    bool other = ts_is_other_relaxed_64(&block->b.key, share_key | ((uint32_t)word ^ TS_UNIT_SCOPE));
    return TS_UNLIKELY(other) ? NULL : block;
}

/* Frees an object of a scope that is open to the calling thread: its bit, and three counts. The slab stays: the last
   object of a slab takes the slow path. While the block is open no other thread changes its slabs (heap.h, 2). piece:
   the slab is a piece, else a unit. false: nothing was done. This is so too of a live object behind which none begins
   in its word of the bitmaps: it ends where the slab's next object will begin, or its end has to be looked for. */
TS_ALWAYS_INLINE bool ts_fast_free_bit(ts_scope_block *block, uint64_t entry, const bool piece) {
    const ts_part *region = &ts_region.part[TS_NORMAL];
    uint64_t unit = entry >> TS_ENTRY_UNIT_SHIFT;
    /* A unit has 64 words of COARSE states, of which the first 16 are the start bits: its entries in 64s begin at 16
       times its number. */
    ts_state64 *start = (ts_state64 *)(void *)region->state[false] + (entry >> 6) + unit * (TS_STATES_COARSE / 4 - 16);
    if (piece) start += entry & TS_PIECE_ENTRIES; /* those of the odd pieces come 32 words behind */
    ts_state64 *freed = start + 16;
    uint64_t behind = ts_load_relaxed(start) >> (entry & 63), gone = ts_load_relaxed(freed);
    /* It starts here, which the lowest bit says, and another behind it. */
    if (TS_UNLIKELY((behind & 1) == 0) || TS_UNLIKELY(behind == 1)) return false;
    uint64_t with = ts_with_bit(gone, entry);
    if (TS_UNLIKELY(with == gone)) return false; /* freed already */
    ts_slab *slab = piece ? ts_slab_at(TS_PIECE | (uint32_t)(entry / TS_PIECE_ENTRIES)) : ts_slab_in(region, unit);
    /* Of the current slab `empty_at` means nothing, and at worst sends one object the slow way. */
    if (TS_UNLIKELY(slab->free_count + 1u == slab->empty_at)) return false;
    /* release: a foreign free that finds the object freed has seen all that led to it */
    ts_store_release(freed, with);
    slab->free_count++;
    ts_count(&block->frees, 1);
    ts_count(&block->bytes_freed, ts_ctz64(behind - 1) * 16u);
    return true;
}

/* ---- another thread's object: ts_foreign_free (foreign.c) in as few steps as an open churn block takes ---- */

/* After 5 and, if this thread queued the slab, 7. seq_cst: who shuts the block and then drains finds the bit and the
   slab, or it is seen here to be shut. Also where another has pushed the slab: he may have done so since the close,
   and looked for what is live before this bit was set. */
TS_ALWAYS_INLINE ts_foreign_result ts_foreign_freed(const ts_block *block) {
    return ts_load_seq(&block->key) >> TS_KEY_SHARE_SHIFT != 0 ? TS_FOREIGN_FREED : TS_FOREIGN_FREED_SHUT;
}

/* ts_foreign_free (foreign.c has the steps) in as few steps as that case takes, inside the bracket of this thread's
   own heap. `u` is the UNIT word of a churn slab, as step 1 has loaded it (acquire); its block is not this thread's,
   and does not become so meanwhile, as only the thread itself takes a block over. NOT_LIVE: nothing was done, and
   ts_free finds out what there is. QUEUE: the object is freed, and the slab has to be queued by ts_foreign_queue,
   which returns the rest of the answer: so nothing is live across a call. */
TS_ALWAYS_INLINE ts_foreign_result ts_foreign_open(uint64_t entry, uintptr_t allocator, uint64_t u) {
    _Atomic uint64_t *word = &ts_region.part[TS_NORMAL].unit[entry >> TS_ENTRY_UNIT_SHIFT];
    uint64_t bit;
    _Atomic uint64_t *foreign = ts_slab_foreign_word(u, entry, &bit);
    uint64_t x = ts_load_acquire(foreign); /* 2: such a word always has the present tag */
    const ts_block *block = ts_block_of_line(ts_word_line(u), false);
    uint64_t again = ts_load_acquire(word), key = ts_load_acquire(&block->key); /* 3 */
    if (TS_UNLIKELY(((again ^ u) & ~TS_UNIT_FOREIGN) != 0 || (key & TS_UNIT_ERA_MASK) != ts_word_era(u)))
        return TS_FOREIGN_NOT_LIVE;
    if (TS_UNLIKELY(key >> TS_KEY_SHARE_SHIFT == 0)) return TS_FOREIGN_NOT_LIVE; /* closing, or with care */
    if (TS_UNLIKELY(ts_load_relaxed(&block->allocator) != allocator)) return TS_FOREIGN_NOT_LIVE;
    uint32_t s = ts_load_acquire(ts_entry_state(entry, ts_word_is_fine(u))); /* 4 */
    if (TS_UNLIKELY(!ts_state_is_of(s, entry) || (x & bit))) return TS_FOREIGN_NOT_LIVE;
    if (TS_UNLIKELY(!ts_cas_seq(foreign, &x, x | bit))) return TS_FOREIGN_MET;             /* 5 */
    if (TS_UNLIKELY(ts_load_seq(word) == (u & ~TS_UNIT_FOREIGN))) return TS_FOREIGN_QUEUE; /* 6 */
    return ts_foreign_freed(block);
}

/* ---- the end of a scope block without a call --------------------------------------------------------------- */

/* All objects of an ended block are dead, so one count tells what was allocated and freed in it. */
TS_ALWAYS_INLINE void ts_share_fold(ts_share *share, uint32_t kind, uint64_t allocated) {
    ts_count(&share->count[kind].ended, allocated);
}

/* A block whose eras are used up is not used again. era: of its next use. */
TS_ALWAYS_INLINE bool ts_era_is_used_up(uint64_t era) { return era >= TS_UNIT_ERA_MASK - 4; }

/* The last of an end: the block is in no epoch, and one of the heap's free ones. */
TS_ALWAYS_INLINE void ts_block_set_free(ts_heap *heap, ts_block *block, const bool scope) {
    if (TS_UNLIKELY(ts_block_account(block) != NULL)) ts_block_set_account(block, NULL);
    ts_store_relaxed(&block->slabs, 0);
    ts_heap_unlink(block);
    ts_store_relaxed(&block->epoch, NULL);
    if (TS_UNLIKELY(ts_era_is_used_up(ts_era(block)))) return;
    ts_block **list = scope ? &heap->free_scope : &heap->free_churn;
    block->heap_next = *list;
    *list = block;
    ts_add_owned(&heap->free_blocks[scope], 1);
}

/* The block is killed, its epoch's list has it no more, and its allocator has no care. All that it has dies, and its
   slabs become warm; true: that are more than a share keeps (ts_share_overflow). free: it becomes one of the heap's
   free ones, else it stays in its epoch, for its next era. Caller holds the heap. */
TS_ALWAYS_INLINE bool ts_scope_empty(ts_heap *heap, ts_scope_block *block, const bool free) {
    ts_share *share = block->b.share;
    ts_share_fold(share, TS_COUNT_SCOPE, ts_scope_allocs_held(block));
    if (TS_UNLIKELY(ts_is_piece(block->tail))) ts_scope_part_pieces(block);
    uint32_t slabs = ts_load_relaxed(&block->b.slabs);
    uint32_t head = block->head, tail = block->tail;
    block->head = block->tail = 0;
    ts_store_relaxed(&block->current, 0);
    ts_store_relaxed(&block->limit, 0);
    block->bits = NULL;
    ts_store_relaxed(&block->bump, 0);
    ts_store_relaxed(&block->allocs, 0);
    ts_keep_relaxed(&block->frees, 0);
    ts_store_relaxed(&block->bytes_allocated, 0); /* mostly it is not 0, but in a build that does not count */
    ts_keep_relaxed(&block->bytes_freed, 0);
    if (free)
        ts_block_set_free(heap, &block->b, true);
    else
        ts_store_relaxed(&block->b.slabs, 0);
    return ts_share_add_warm(share, head, tail, slabs);
}
TS_ALWAYS_INLINE bool ts_scope_end(ts_heap *heap, ts_scope_block *block) { return ts_scope_empty(heap, block, true); }

#endif
