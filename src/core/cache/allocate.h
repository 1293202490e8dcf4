/*
 * Allocation on the fast paths: from the magazine or the claimed word of a bin, or from the current slab of a scope.
 * Also the next slab of a scope in the usual case. The thread that owns the block calls these inside an operation.
 * None of them takes a lock, makes a system call, or moves more than one slot.
 *
 * All sizes take one path. The address alone finds an object's live bit. Where granules differ between FINE slabs and
 * others a conditional move selects, because a branch would be mispredicted wherever sizes mix.
 */
/* Modelled in tests/model: foreign, bump, orders. */
#ifndef TS_CACHE_ALLOCATE_H
#define TS_CACHE_ALLOCATE_H

#include "base/base.h"
#include "cache/cache.h"
#include "os/os.h"
#include "ownership/ownership.h"

/* The owner's own word. release: a thread that finds the object live finds the generation of the last one there counted
   (ts_slot_count). */
TS_ALWAYS_INLINE void ts_set_live(const void *p) {
    uintptr_t live = ts_region.part[TS_NORMAL].live_at;
    uint64_t at = (uintptr_t)p >> (TS_LIVE_SHIFT + 4);
    ts_store_owned_at_release(live, at, ts_with_bit(ts_load_owned_at(live, at), (uintptr_t)p >> 4));
}

/* ---- from a bin ------------------------------------------------------------------------------------------ */

/* The object on top of the magazine, made live; NULL: the magazine is empty. */
TS_ALWAYS_INLINE void *ts_fast_pop(ts_bin *bin) {
    uint64_t top = ts_load_relaxed(&bin->top);
    uint64_t depth = ts_low_byte(top);
    if (TS_UNLIKELY((uint32_t)depth == 0)) return NULL;
    char *object = bin->magazine->object[depth - 1];
    TS_RETURNED(object);
    TS_ASSUME(object != NULL);
    ts_store_relaxed(&bin->top, top + TS_TOP_POP);
    ts_set_live(object);
    return object;
}

/* The object in a granule, made live. The granule gives the object's 64 bytes, and the class where it starts in
   these. */
TS_ALWAYS_INLINE void *ts_take_place(ts_bin *bin, bool fine, uint64_t place) {
    uint64_t coarse = place * 4, first = fine ? place : coarse, entry = first + bin->starts[place & 255];
    char *object = ts_entry_address(&ts_region.part[TS_NORMAL], entry);
    /* A granule's entries have one live word, so its place does not wait for the start. */
    uintptr_t live = (uintptr_t)ts_region.part[TS_NORMAL].live;
    uint64_t lives = ts_load_owned_at(live, first >> TS_LIVE_SHIFT);
    ts_store_owned_at_release(live, first >> TS_LIVE_SHIFT, ts_with_bit(lives, entry));
    TS_ASSUME(object != NULL);
    return object;
}

/* The next object of the claimed word, made live; NULL: the word is used up. Called when the magazine is empty, so
   that the objects freed last are used first. */
TS_ALWAYS_INLINE void *ts_fast_word(ts_bin *bin) {
    uint64_t word = ts_load_relaxed(&bin->word);
    if (TS_UNLIKELY(word == 0)) return NULL;
    ts_store_relaxed(&bin->word, word & (word - 1)); /* counts it, too: ts_bin_word_allocs */
    return ts_take_place(bin, ts_bin_is_fine(bin), (uint64_t)bin->word_place + ts_ctz64(word));
}

/* The next object of a bin: from the magazine, or else from the claimed word. NULL: both are used up. */
TS_ALWAYS_INLINE void *ts_fast_slot(ts_bin *bin) {
    void *p = ts_fast_pop(bin);
    return TS_LIKELY(p != NULL) ? p : ts_fast_word(bin);
}

/* The next object when both are used up: claims the next word of the bin's slabs, or a slot of an OUTER one, with the
   heap held. in_op is 1, so the thread holds its heap unless another one revoked it. NULL: the slow path. */
TS_ALWAYS_INLINE void *ts_fast_claim(const ts_tls *tls, ts_churn_block *block, ts_bin *bin) {
    const ts_heap *heap = tls->heap;
    if (TS_UNLIKELY(ts_load_acquire(&heap->revoked) != 0)) return NULL;
    unsigned cls = ts_bin_class(block, bin);
    return TS_LIKELY(ts_bin_claim(block, cls)) ? ts_fast_word(bin) : ts_bin_take_outer(block, cls);
}

/* ---- from the current slab of a scope -------------------------------------------------------------------- */

/* size rounded to granules, 0 if it is not for a scope slab; size 0 is one granule. */
TS_ALWAYS_INLINE size_t ts_scope_round(size_t size) {
    size_t n = (size + 15) & ~(size_t)15;
    if (TS_UNLIKELY(n - 16 > TS_SCOPE_MAX_BYTES - 16)) n = size == 0 ? 16 : 0;
    return n;
}

/* Whether a new slab, with an object of `bytes` bytes in it, has no less room left than the current one. A new slab
   then wastes no more than a span does. bytes: a multiple of 16. */
TS_ALWAYS_INLINE bool ts_scope_may_renew(const ts_scope_block *block, size_t bytes) {
    uint64_t rest = (ts_load_relaxed(&block->limit) - ts_load_relaxed(&block->bump)) >> TS_BUMP_SHIFT;
    return bytes <= TS_SCOPE_MAX_BYTES || (bytes <= TS_UNIT_BYTES && rest <= TS_UNIT_BYTES - bytes);
}

/* Takes the next bytes of the current slab, in which they fit: its bump word is `bump`, and then `next`. A unit
   begins on a multiple of its size. Returns the object. */
TS_ALWAYS_INLINE char *ts_fast_bump(ts_scope_block *block, uint64_t bump, uint64_t next) {
    char *at = ts_bump_at(bump);
    _Atomic uint64_t *start = &block->bits->start[((uintptr_t)at >> 10) & 15];
    ts_store_relaxed(start, ts_with_bit(ts_load_relaxed(start), (uintptr_t)at >> 4));
    /* release: a thread that reads bump sees the start bits below it (ts_scope_object_bytes) */
    ts_store_release(&block->bump, next);
    return at;
}

/* Whether the current slab of a scope has room for an object of `size` bytes. *bump: its bump word; *next: the word
   after the object. */
TS_ALWAYS_INLINE bool ts_fast_has_room(const ts_scope_block *block, size_t size, uint64_t *bump, uint64_t *next) {
    size_t last = (size - 1) | 15; /* rounds up by the last byte; for a size of 0 it is beyond every slab */
    if (TS_UNLIKELY(last >= TS_UNIT_BYTES)) return false;
    *bump = ts_load_relaxed(&block->bump);
    *next = ts_bump_next(*bump, last + 1);
    return TS_LIKELY(!ts_is_below_relaxed_64(&block->limit, *next));
}

/* ---- the next slab of a scope; ts_scope_renew (scope.c) has the other cases ------------------------------- */

/* Ends adding to the current slab. Afterwards the caller gives bump another slab. Only then it releases this slab, if
   it is empty. */
TS_ALWAYS_INLINE void ts_scope_seal(ts_scope_block *block, ts_slab *slab) {
    uint64_t bump = ts_load_relaxed(&block->bump);
    uint32_t unit = ts_load_relaxed(&block->current);
    size_t used = ts_slab_bytes(unit) - (size_t)((ts_load_relaxed(&block->limit) - bump) >> TS_BUMP_SHIFT);
    slab->empty_at = ts_scope_current_allocs(block);
    /* release, and before bump changes: a reader that takes the end from bump looks at `end` before and after */
    ts_store_release(&slab->end, (uint16_t)(used / 16 + ts_scope_first_entry(unit)));
    if (!TS_COUNTED) return;
    ts_store_release(&block->bytes_allocated,
                     ts_load_relaxed(&block->bytes_allocated) + used); /* block.c: scope_bytes */
    /* release: partner of the acquires in ts_scope_allocs (scope.c) */
    ts_store_release(&block->allocs,
                     (ts_load_relaxed(&block->allocs) + (ts_bump_count(bump) << TS_ALLOCS_SHIFT)) ^ TS_ALLOCS_TURN);
}

/* Seals the current slab because an allocation needs the next one. */
TS_ALWAYS_INLINE void ts_scope_fill(ts_scope_block *block, ts_slab *slab) {
    ts_count(&block->b.share->count[TS_COUNT_SCOPE].list_move_partial_to_full, 1);
    ts_scope_seal(block, slab);
}

/* Counts a piece. A long one counts as two, and its caller counts one slab. by: 1 or -1. */
TS_ALWAYS_INLINE void ts_scope_count_piece(ts_scope_block *block, uint32_t piece, int by) {
    int more = ts_piece_is_long(piece) ? by : 0;
    ts_add_owned(&block->b.slabs, (uint32_t)more);
    ts_store_relaxed(&block->pieces, (uint8_t)(ts_load_relaxed(&block->pieces) + by + more));
}

/* Makes a reset unit or piece the first of the block's slabs, and the current one. bytes: its first object, or 0. The
   words of that object are written before. Returns where the slab begins. */
TS_ALWAYS_INLINE char *ts_scope_append(ts_scope_block *block, uint32_t unit, ts_slab *slab, const bool piece,
                                       const size_t bytes) {
    TS_ASSUME(ts_is_piece(unit) == piece);
    uint64_t in_pieces = piece ? unit & ~TS_PIECE : (uint64_t)unit * TS_PIECES;
    char *at = ts_region.part[TS_NORMAL].base + in_pieces * TS_PIECE_BYTES; /* NORMAL is numbered from 0 */
    uint32_t second = block->head;
    if (piece && !second) block->b.share->firsts++; /* a unit that was not retained: add_slab in refill.c */
    TS_PROBE2(slab__new, at, (uint64_t)0);
    ts_store_if_changed(&slab->prev, 0);
    slab->next = second;
    if (second)
        ts_slab_at(second)->prev = unit;
    else
        block->tail = unit;
    block->head = unit;
    ts_add_owned(&block->b.slabs, 1);
    if (piece) ts_scope_count_piece(block, unit, 1);
    ts_store_relaxed(&block->current, unit);
    block->bits = ts_slab_scope_bits(unit);
    ts_store_if_changed(&block->skipped, 0);
    ts_store_if_changed(&block->b.handle, 0);
    ts_store_relaxed(&block->limit, ts_bump_limit(at, ts_slab_bytes(unit)));
    uint64_t bump = ts_bump_word(at, (ts_load_relaxed(&block->allocs) & TS_ALLOCS_TURN) * TS_BUMP_TURN);
    /* release: as in ts_fast_bump */
    ts_store_release(&block->bump, bytes != 0 ? ts_bump_next(bump, bytes) : bump);
    /* release: a thread that reads the word sees the reset slab */
    ts_store_release(ts_unit_word(unit), ts_scope_word(block));
    return at;
}

/* Makes the first retained unit of the share the current slab, or the first of its free pieces of the length that the
   object needs, with an object of `bytes` bytes, a result of ts_scope_round and not 0. NULL: it is another case, and
   nothing has changed that matters. The other cases: there is none; a piece comes before the unit (piece.h); a
   cross-thread free is on its way to it; it was no scope slab; a handle of it was made; its tags are used up;
   everything in the last slab is freed; care. Where a handle was made it is claimed, and stays on its list without an
   owner. Caller holds the heap. Two fields are as in the last use, and are not written: the kind, and the generation,
   which moves on only if a handle was made. */
TS_ALWAYS_INLINE char *ts_scope_next(ts_scope_block *block, size_t bytes, const bool piece) {
    ts_share *share = block->b.share;
    ts_retained *retained = &share->retained;
    uint32_t *list = piece ? &share->pieces[ts_scope_takes_long(block, bytes)] : &retained->head;
    uint32_t unit = *list, last = ts_load_relaxed(&block->current);
    TS_ASSUME(!unit || ts_is_piece(unit) == piece);
    ts_slab *slab = ts_slab_at(unit);
    if (TS_UNLIKELY(!unit || share->looks || block->b.account || (!piece && ts_load_relaxed(&share->small) && !last)))
        return NULL;
    if (last && TS_UNLIKELY(ts_slab_at(last)->free_count != 0) && ts_scope_is_current_empty(block)) return NULL;
    ts_assert(2, !last || ts_scope_current_allocs(block) != 0); /* so the last slab is not empty */
    uint32_t tag = ts_load_relaxed(&slab->tag);
    if (TS_UNLIKELY(ts_slab_kind(slab) != TS_KIND_SCOPE || tag >= TS_UNIT_ERA_MASK)) return NULL;
    ts_store_if_changed(&slab->allocator, share->index); /* as in ts_share_take */
    /* handled is read after the claim, seq_cst: as in ts_slab_next_generation */
    if (TS_UNLIKELY(!ts_slab_claim_clean(unit) || ts_load_seq(&slab->handled))) return NULL;
    ts_assert(2, ts_load_relaxed(ts_unit_word(unit)) == 0);
    *list = slab->next;
    if (piece) {
        share->piece_count--;
    } else {
        if (!retained->head) retained->tail = 0;
        ts_add_owned(&retained->count, (uint32_t)-1);
    }
    atomic_thread_fence(memory_order_release); /* as in ts_slab_next_use, and so is the next store */
    ts_store_release(&slab->tag, tag + 1);
    ts_scope_bits *bits = ts_slab_scope_bits(unit);
    ts_slab_clear_bits(bits, unit, piece, slab->free_count == 0);
    if (TS_UNLIKELY(slab->free_count != 0)) slab->free_count = 0;
    ts_store_relaxed_if_changed(&slab->end, 0);
    /* release, partner of the acquire in object.c: a look with a pointer of the last use that sees the new start does
       not take the old end for its own. The object of that pointer was freed, so any answer would do; this is the
       better one. */
    ts_store_release(&bits->start[ts_scope_first_word(unit)], ts_with_bit(0, ts_scope_first_entry(unit)));
    if (last) ts_scope_fill(block, ts_slab_at(last));
    char *at = ts_scope_append(block, unit, slab, piece, bytes);
    ts_count(&share->count[TS_COUNT_SCOPE].slow_path_hits, 1);
    /* comes after the block's own count: snapshot.c, `rising` */
    ts_count_release(&share->count[TS_COUNT_SCOPE].new_slab_count, 1);
    return at;
}

#endif
