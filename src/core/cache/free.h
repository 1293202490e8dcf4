/*
 * Frees on the fast paths: into the magazine of a bin, in a scope, of another thread's object in an open churn block,
 * and the release of all slabs of an ended scope block. A thread frees its own objects inside an operation, and takes
 * no lock.
 */
/* Modelled in tests/model: foreign, look, orders. */
#ifndef TS_CACHE_FREE_H
#define TS_CACHE_FREE_H

#include "base/base.h"
#include "cache/cache.h"
#include "ownership/ownership.h"
#include "supply/supply.h"

/* ---- an object of the thread's own ----------------------------------------------------------------------- */

#define TS_UNIT_BIN_SHIFT (TS_UNIT_LINE_SHIFT - 6u)
_Static_assert(TS_CACHE_LINE == 1u << 6, "a shift by 6 less gives the place of a line");

/* A look at an object has read this UNIT word of its slab. */
typedef struct ts_looked {
    uint64_t word;
} ts_looked;

typedef struct ts_fast_result {
    bool freed;
    bool full; /* freed, and the magazine has no room: the caller gives it to its slab (ts_fast_give) */
    bool late; /* freed, but another thread is told so: foreign.c, 7 */
    ts_bin *bin;
    uint64_t entry; /* of the object, for ts_fast_give */
} ts_fast_result;

/* How a free goes: of any object of a slab that is not HANDLED, or of one that is, or by a handle. */
typedef enum ts_fast_kind { TS_FAST_PLAIN, TS_FAST_HANDLED, TS_FAST_EXACT } ts_fast_kind;

/* The object at an entry of a bin of the calling thread's own, open block, as ts_fast_free. word: the UNIT word of its
   slab. outer: its unit is OUTER, so it goes to its slab: no magazine has such objects. */
TS_ALWAYS_INLINE ts_fast_result ts_fast_free_in(ts_bin *bin, uint64_t word, uint64_t entry, void *object,
                                                const ts_fast_kind kind, SlabHandle handle, const ts_looked *seen,
                                                bool outer) {
    ts_fast_result r = {.freed = false, .full = false, .late = false, .bin = bin};
    const bool exact = kind == TS_FAST_EXACT;
    r.entry = entry;
    uintptr_t live = (uintptr_t)ts_region.part[TS_NORMAL].live;
    uint64_t lives = ts_load_owned_at(live, entry >> TS_LIVE_SHIFT);
    if (TS_UNLIKELY(!ts_take_bit(&lives, entry))) return r;
    const ts_slab *slab = ts_slab_in(&ts_region.part[TS_NORMAL], (uint32_t)(entry >> TS_ENTRY_UNIT_SHIFT));
    if (seen && word != seen->word) return r;
    if (exact) {
        uint32_t generation = ts_load_relaxed(&slab->gen) + ts_load_relaxed(ts_generation_word(entry));
        if (TS_UNLIKELY(!ts_handle_is(handle, generation, ts_bin_class(ts_bin_block(bin), bin)))) return r;
    }
    if (kind != TS_FAST_PLAIN && TS_UNLIKELY(ts_slot_is_last(entry))) return r;
    /* release: a cross-thread free that finds the slot not live has seen all that led to it */
    ts_store_owned_at_release(live, entry >> TS_LIVE_SHIFT, lives);
    if (kind != TS_FAST_PLAIN) (void)ts_slot_count(entry);
    if (exact) {
        uint64_t bit;
        _Atomic uint64_t *foreign = ts_slab_foreign_word(word, entry, &bit);
        r.late = !ts_foreign_is_first(slab, foreign, bit);
    }
    /* Loads the low byte, then adds in place: two instructions less than a load, its low byte and a store.
       ts_fast_pop does not: the next free would wait for that store. */
    uint64_t depth = ts_low_byte_owned(&r.bin->top);
    r.freed = true;
    if (outer) {
        r.full = true;
        return r;
    }
    r.full = (depth & r.bin->full_at) != 0;
    if (TS_UNLIKELY(r.full)) return r;
    r.bin->magazine->object[depth] = object;
    ts_add_owned(&r.bin->top, (uint64_t)TS_TOP_PUSH);
    return r;
}

/* Frees the object at an entry of the calling thread's own, open block. Not freed: it needs the slow path, which also
   finds out whether it is an object at all. Everything is checked here. An object starts at this very place and is
   live. Its slab belongs to a block: the eras agree, and no flag is set, so no cross-thread free is under way. The
   block is open to the share with that key: this thread's share of this allocator. kind: a slab that is HANDLED, or
   not, as it says. EXACT: handle is of the place of `entry`, and names the object. seen: the slab's UNIT word is as
   that look has read it; NULL: any. outer: as above. */
TS_ALWAYS_INLINE ts_fast_result ts_fast_free(uint64_t share_key, uint64_t entry, void *object, const ts_fast_kind kind,
                                             SlabHandle handle, const ts_looked *seen, bool outer) {
    uint64_t word = ts_load_relaxed(&ts_region.part[TS_NORMAL].unit[entry >> TS_ENTRY_UNIT_SHIFT]);
    /* ts_line_address of the word's line. A flag in the word makes it another place in that line, where the key does
       not match. */
    ts_bin *bin = (void *)(ts_region.lines + (word >> TS_UNIT_BIN_SHIFT));
    /* key is { share's line, era }. The lower half of word is the era if no flag is set. TS_UNIT_SCOPE is a flag, and
       so is HANDLED, but for the frees that want it. */
    uint64_t key = share_key | ((uint32_t)word ^ (kind == TS_FAST_PLAIN ? 0 : (uint32_t)TS_UNIT_HANDLED));
    if (TS_UNLIKELY(ts_is_other_relaxed_64(&ts_bin_block(bin)->b.key, key))) return (ts_fast_result){.freed = false};
    return ts_fast_free_in(bin, word, entry, object, kind, handle, seen, outer);
}

/* ts_fast_free in the block of the process's malloc. That block is open as long as its thread knows it, so its key need
   not be asked. What differs between the word of its slab and private_word is the bin's place in the block. */
TS_ALWAYS_INLINE ts_fast_result ts_fast_free_private(const ts_tls *tls, uint64_t entry, void *object) {
    uint64_t word = ts_load_relaxed(&ts_region.part[TS_NORMAL].unit[entry >> TS_ENTRY_UNIT_SHIFT]);
    word = ts_xor_relaxed_64(&tls->private_word, word);
    uint64_t at = word >> TS_UNIT_BIN_SHIFT | word << (64 - TS_UNIT_BIN_SHIFT);
    bool other = ts_has_any_64(at, ~(uint64_t)(TS_CHURN_BLOCK_ALIGN - TS_CACHE_LINE));
    if (TS_UNLIKELY(other)) return (ts_fast_result){.freed = false};
    return ts_fast_free_in(ts_bin_at(tls->private_bins, at), 0, entry, object, TS_FAST_PLAIN, SLAB_HANDLE_NONE, NULL,
                           false);
}

/* The bin of the live object that starts at an entry below the region's mark, if it lies in an open block of the
   calling thread. NULL: it is another case. This writes nothing, and reads only words that stay accessible for ever. So
   it needs no operation. Other threads may end the epoch meanwhile, or give the slab back. If the object dies
   meanwhile, either answer is right. An object that was dead before the call is not taken for live:
   1. Its state is not live until the slab has another use: in an open block only its thread makes states live, and
      that thread is here.
   2. Before another use the slab is claimed. So its word changes, and this reads the word again after the state.
      acquire fence: partner of the release fences of the resets (slab.h).
   3. The key of a block changes before anything else of its end or close is seen. acquire: partner of the seq_cst
      change that takes FOREIGN off, when another thread has taken in the cross-thread frees. */
TS_ALWAYS_INLINE const ts_bin *ts_fast_look(const ts_tls *tls, uint64_t entry, const bool handled, ts_looked *seen) {
    const _Atomic uint64_t *unit_word = &ts_region.part[TS_NORMAL].unit[entry >> TS_ENTRY_UNIT_SHIFT];
    uint64_t word = ts_load_acquire(unit_word);
    const ts_bin *bin = (const void *)(ts_region.lines + (word >> TS_UNIT_BIN_SHIFT));
    /* as in ts_fast_free */
    uint64_t key = tls->share_key | ((uint32_t)word ^ (handled ? (uint32_t)TS_UNIT_HANDLED : 0));
    if (TS_UNLIKELY(ts_is_other_relaxed_64(&ts_bin_block(bin)->b.key, key))) return NULL;
    seen->word = word;
    if (TS_UNLIKELY(!ts_has_bit(ts_load_relaxed(ts_live_word(entry)), entry))) return NULL;
    atomic_thread_fence(memory_order_acquire);
    return TS_UNLIKELY(ts_is_other_relaxed_64(unit_word, word)) ? NULL : bin;
}

/* Bytes of a live object of the calling thread's own open churn block of that allocator; 0: it is another case. */
TS_ALWAYS_INLINE size_t ts_fast_own_bytes(const ts_tls *tls, uintptr_t token, const void *p, ts_looked *seen) {
    uint64_t entry = ts_entry_of(&ts_region.part[TS_NORMAL], p);
    if (TS_UNLIKELY(ts_is_other_relaxed_64(&tls->token, token)) || TS_UNLIKELY(!ts_is_near(entry))) return 0;
    const ts_bin *bin = ts_fast_look(tls, entry, false, seen);
    return TS_LIKELY(bin != NULL) ? ts_class_bytes[ts_bin_class(ts_bin_block(bin), bin)] : 0;
}

/* Puts an object that was freed past a full magazine straight into its slab; the magazine stays as it is. false: the
   free is counted, and ts_bin_give_freed does the rest, because it changes a list or lets the slab go. Inside the
   operation that freed the object. */
TS_ALWAYS_INLINE bool ts_fast_give(ts_bin *bin, uint64_t entry) {
    /* release: a reader that sees the count also sees that the object was allocated, in `top` or in the claimed word
       (ts_block_tally) */
    ts_count_release(&bin->direct_frees, TS_DIRECT_ONE);
    ts_slab *slab = ts_slab_in(&ts_region.part[TS_NORMAL], entry >> TS_ENTRY_UNIT_SHIFT);
    /* One comparison finds a slab that was full before or is empty after, because empty_at is 1 at least. */
    uint32_t before = slab->free_count;
    if (TS_UNLIKELY(before - 1 >= slab->empty_at - 2u)) return false;
    bool fine = ts_bin_is_fine(bin);
    uint64_t place = ts_granule(fine, entry) & (ts_granules_per_unit(fine) - 1);
    _Atomic uint64_t *word = &ts_slab_free_words(fine, slab)[place / 64];
    ts_store_relaxed(word, ts_with_bit(ts_load_relaxed(word), place));
    slab->free_count = (uint16_t)(before + 1);
    return true;
}

/* The scope block of a slab, if the block is open to the share with this key; else NULL. word: its UNIT word, which
   has SCOPE. */
TS_ALWAYS_INLINE ts_scope_block *ts_fast_scope(uint64_t share_key, uint64_t word) {
    ts_scope_block *block = (ts_scope_block *)(void *)ts_line_address(ts_word_line(word));
    TS_ASSUME(block != NULL);
    /* The lower half is the era and SCOPE, if no other flag is set. */
    bool other = ts_is_other_relaxed_64(&block->b.key, share_key | ((uint32_t)word ^ TS_UNIT_SCOPE));
    return TS_UNLIKELY(other) ? NULL : block;
}

/* Frees an object of a scope that is open to the calling thread: sets its bit, and changes three counts. The slab
   stays: the last object of a slab takes the slow path. While the block is open no other thread changes its slabs
   (heap.c, 2). piece: the slab, if it is a piece, else 0. false: nothing was done. That includes a live object with no
   object behind it in its word of the bitmaps, because its end has to be looked for. */
TS_ALWAYS_INLINE bool ts_fast_free_bit(ts_scope_block *block, uint64_t entry, const uint32_t piece) {
    const ts_part *region = &ts_region.part[TS_NORMAL];
    uint64_t unit = entry >> TS_ENTRY_UNIT_SHIFT;
    /* A unit has 64 words of bitmaps, of which the first 16 are the start bits: its entries in 64s begin at 16 times
       its number. */
    _Atomic uint64_t *start = (_Atomic uint64_t *)(void *)region->scope_bits + (entry >> 6) +
                              unit * (TS_SCOPE_BITS_BYTES / sizeof *start - 16);
    if (ts_is_piece(piece)) start += piece % 2 * TS_PIECE_ENTRIES; /* the bitmaps of odd pieces lie 32 words behind */
    _Atomic uint64_t *freed = start + 16;
    uint64_t behind = ts_load_relaxed(start) >> (entry & 63), gone = ts_load_relaxed(freed);
    /* An object starts here, as the lowest bit says, and another one behind it. */
    if (TS_UNLIKELY((behind & 1) == 0) || TS_UNLIKELY(behind == 1)) return false;
    uint64_t with = ts_with_bit(gone, entry);
    if (TS_UNLIKELY(with == gone)) return false; /* it was freed before */
    ts_slab *slab = piece ? ts_slab_at(piece) : ts_slab_in(region, unit);
    /* `empty_at` means nothing for the current slab; at worst it sends one object to the slow path. */
    if (TS_UNLIKELY(slab->free_count + 1u == slab->empty_at)) return false;
    /* release: a cross-thread free that finds the object freed has seen all that led to it */
    ts_store_release(freed, with);
    slab->free_count++;
    ts_count(&block->frees, 1);
    ts_count(&block->bytes_freed, ts_ctz64(behind - 1) * 16u);
    return true;
}

/* ---- another thread's object: ts_foreign_free (foreign.c) in as few steps as an open churn block takes ---- */

/* After step 5, and 7 if this thread queued the slab. seq_cst: a thread that shuts the block and then drains finds
   the bit and the slab, or this thread sees the block shut. That is needed even where another thread has pushed the
   slab. It may have done so after the close, and looked for live objects before this bit was set. */
TS_ALWAYS_INLINE ts_foreign_result ts_foreign_freed(const ts_block *block) {
    return ts_load_seq(&block->key) >> TS_KEY_SHARE_SHIFT != 0 ? TS_FOREIGN_FREED : TS_FOREIGN_FREED_SHUT;
}

/* ts_foreign_free (foreign.c has the steps) in as few steps as an open churn block takes, inside the bracket of this
   thread's own heap. `u` is the UNIT word of a churn slab, as step 1 has loaded it (acquire), or 0, and `block`
   the block that it names. The block belongs to another thread, and does not become this thread's meanwhile, because
   only the thread itself takes a block over. TS_FOREIGN_NOT_LIVE: nothing was done, and ts_free finds out why.
   TS_FOREIGN_QUEUE: the object is freed, and the caller queues the slab by ts_foreign_queue, which returns the rest of
   the answer. So no register is live across a call. */
TS_ALWAYS_INLINE ts_foreign_result ts_foreign_open(const ts_block *block, uint64_t entry, uintptr_t allocator,
                                                   uint64_t u) {
    const ts_part *region = &ts_region.part[TS_NORMAL];
    uint64_t unit = entry >> TS_ENTRY_UNIT_SHIFT, granule = entry;
    _Atomic uint64_t *word = &region->unit[unit], *foreign;
    if (ts_word_is_fine(u)) { /* as in ts_slab_foreign_word */
        foreign = ts_wide_words(0) + (entry >> 5);
    } else {
        granule = ts_granule(false, entry);
        foreign = &ts_slab_in(region, unit)->foreign[granule >> 5 & 7];
    }
    uint64_t x = ts_load_acquire(foreign); /* 2: such a word always has the present tag */
    uint64_t again = ts_load_acquire(word), key = ts_load_acquire(&block->key); /* 3 */
    if (TS_UNLIKELY(again != u || ((key ^ u) & TS_UNIT_ERA_MASK) != 0)) return TS_FOREIGN_NOT_LIVE;
    if (TS_UNLIKELY(key >> TS_KEY_SHARE_SHIFT == 0)) return TS_FOREIGN_NOT_LIVE; /* closing, or with care */
    if (TS_UNLIKELY(ts_load_relaxed(&block->allocator) != allocator)) return TS_FOREIGN_NOT_LIVE;
    uint64_t lives = ts_load_acquire(ts_live_word(entry)); /* 4 */
    uint64_t with = ts_with_bit(x, granule & 31);
    if (TS_UNLIKELY(!ts_has_bit(lives, entry) || with == x)) return TS_FOREIGN_NOT_LIVE;
    if (TS_UNLIKELY(!ts_cas_seq(foreign, &x, with))) return TS_FOREIGN_MET;               /* 5 */
    if (TS_UNLIKELY((ts_load_seq(word) & TS_UNIT_FOREIGN) == 0)) return TS_FOREIGN_QUEUE; /* 6 */
    return ts_foreign_freed(block);
}

/* ---- the end of a scope block without a call --------------------------------------------------------------- */

/* Adds the objects of an ended block to the share. All are dead, so one count stands for allocations and frees. */
TS_ALWAYS_INLINE void ts_share_fold(ts_share *share, uint32_t kind, uint64_t allocated) {
    ts_count(&share->count[kind].ended, allocated);
}

/* Whether the eras of a block are used up, so that it gets no next use. era: the era of that use. */
TS_ALWAYS_INLINE bool ts_era_is_used_up(uint64_t era) { return era >= TS_UNIT_ERA_MASK - 4; }

/* The last step of an end: takes the block out of its epoch, and makes it a free block of the heap. */
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

/* Ends everything that a scope block has: its objects die, and its slabs become retained units of the share. The
   block is killed, it is off its epoch's list, and its allocator has no care. true: the share has more units than it
   keeps (ts_share_overflow). free: the block becomes a free block of the heap; else it stays in its epoch, for its
   next era. Caller holds the heap. */
TS_ALWAYS_INLINE bool ts_scope_empty(ts_heap *heap, ts_scope_block *block, const bool free) {
    ts_share *share = block->b.share;
    ts_share_fold(share, TS_COUNT_SCOPE, ts_scope_allocs_held(block));
    uint64_t bump = ts_load_relaxed(&block->bump), rest = (ts_load_relaxed(&block->limit) - bump) >> TS_BUMP_SHIFT;
    bool many = ts_load_relaxed(&share->allocator->cut_units) > ts_pieces_after / 2;
    ts_store_relaxed(&share->small,
                     many && block->head == block->tail &&
                         ts_slab_bytes(block->tail) - rest <= TS_PIECE_BYTES << (ts_bump_count(bump) == 1));
    if (TS_UNLIKELY(ts_is_piece(block->tail))) ts_scope_part_pieces(block);
    uint32_t slabs = ts_load_relaxed(&block->b.slabs);
    uint32_t head = block->head, tail = block->tail;
    block->head = block->tail = 0;
    ts_store_relaxed(&block->current, 0);
    ts_store_relaxed(&block->limit, 0);
    block->bits = NULL;
    ts_store_relaxed(&block->bump, 0);
    ts_store_relaxed(&block->allocs, 0);
    ts_store_relaxed_if_changed(&block->frees, 0);
    ts_store_relaxed(&block->bytes_allocated, 0); /* mostly it is not 0, but in a build that does not count */
    ts_store_relaxed_if_changed(&block->bytes_freed, 0);
    if (free)
        ts_block_set_free(heap, &block->b, true);
    else
        ts_store_relaxed(&block->b.slabs, 0);
    return ts_share_add_retained(share, head, tail, slabs);
}
TS_ALWAYS_INLINE bool ts_scope_end(ts_heap *heap, ts_scope_block *block) { return ts_scope_empty(heap, block, true); }

#endif
