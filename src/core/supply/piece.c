/*
 * A piece is in one of these places: a block's list; a share's list of free ones; the record of its unit, where its
 * bit is on, while the unit is in the allocator's list of cut units; or, as a zombie, a queue of cross-thread frees.
 * A unit is cut when a piece is needed and none is free. When all of its bits are on it is whole again, and retained.
 *
 * What could go wrong: a unit becomes whole, and another slab, while a thread still frees an object of a piece, or
 * looks at one. That does no harm:
 *  1. Only a claimed piece gets its bit. Its UNIT word is 0, so it is on no queue and gets on none. Every thread
 *     reads the piece's word again before it changes anything but a foreign word or the note of handles, and so finds
 *     the 0.
 *  2. A late change of a foreign word is void by its tag. The unit's next tag is above those of all its pieces, and a
 *     piece's first tag is above all that the unit has had.
 *  3. A late note of a handle is followed by a second look, which fails (ts_object_handle). At worst a generation is
 *     skipped. A handle made in a piece has a generation below the unit's next one, and a handle made in the unit has
 *     one below those of its pieces.
 *  4. The word of a cut unit is CUT from before the first piece is handed out until all are back. Only a thread with
 *     the retained lock and all 32 bits changes it. A thread that has read CUT finds the pieces' words and records
 *     there for ever (region.h, 2).
 *  5. A thread has read that the pieces are long, or short, and since then the unit was cut anew, the other way. Then
 *     the object that it means has died. A place in the second half of a long piece leads it to a short one in an even
 *     place. In the bitmap of those the upper half of each word is 0, so no object starts there. A place in an odd
 *     short piece leads it to the second half of a long one, whose word is 0.
 * The pieces of a unit may be different threads'. Each piece has its own words of the bitmaps.
 */
#include "supply/piece.h"
#include "base/base.h"

#include "os/os.h"
#include "region/region.h"
#include "supply/purge.h"
#include "supply/retained.h"

#include <errno.h>

uint32_t ts_pieces_after = TS_PIECES_AFTER;

#define ALL_PIECES (((uint64_t)1 << TS_PIECES) - 1)

static bool may_take_piece(const ts_scope_block *block) {
    const ts_allocator *allocator = block->b.share->allocator;
    uint32_t pieces = ts_load_relaxed(&block->pieces),
             most = ts_scope_may_leak(block) ? TS_PIECES_OF_LEAKING : TS_PIECES_OF_BLOCK;
    return !allocator->care && allocator->settings.reclaim_policy != SLAB_RECLAIM_AT_ONCE &&
           ts_load_relaxed(&block->b.slabs) == pieces && pieces < most;
}

/* first: how many scopes before had a first slab that was no retained unit. */
static bool begins_with_piece(const ts_scope_block *block, uint32_t first) {
    if (first % TS_PIECES_UNIT_EVERY == TS_PIECES_UNIT_EVERY - 1) return false;
    /* Each of several threads in one epoch mostly has a small part of it. */
    return first >= ts_pieces_after || ts_load_relaxed(&block->b.epoch_next) != NULL;
}

bool ts_scope_takes_piece(const ts_scope_block *block, size_t bytes, size_t align) {
    bool leaks = ts_scope_may_leak(block);
    return may_take_piece(block) && align <= TS_PIECE_BYTES &&
           bytes <= TS_PIECE_BYTES << (leaks || ts_scope_begins_small(block)) &&
           (leaks || ts_load_relaxed(&block->pieces) > 0 || begins_with_piece(block, block->b.share->firsts));
}

bool ts_scope_is_in_pieces(const ts_scope_block *block) {
    const ts_share *share = block->b.share;
    if (!may_take_piece(block)) return false;
    if (ts_load_relaxed(&block->pieces) > 0 || ts_scope_may_leak(block)) return true;
    return ts_load_relaxed(&share->retained.count) == 0 && !ts_load_relaxed(&share->allocator->nodes) &&
           begins_with_piece(block, share->firsts);
}

/* ---- cut, and whole ------------------------------------------------------------------------------------------ */

/* A claimed unit, on no list. false: it has become retained, or is retired. */
static bool cut_unit(ts_heap *heap, ts_share *share, uint32_t unit, bool is_long) {
    ts_allocator *allocator = share->allocator;
    ts_slab *slab = ts_slab_at(unit);
    if (!ts_region_commit_pieces(unit)) {
        ts_heap_enter(heap);
        ts_share_keep(share, unit);
        ts_heap_leave(heap);
        return ts_fail(ENOMEM);
    }
    if (!ts_slab_next_use(slab, TS_KIND_CUT, ts_slab_next_generation(slab))) {
        ts_allocator_retire(allocator, unit);
        return ts_fail(ENOMEM);
    }
    for (unsigned i = 0; i < TS_PIECES; i++) {
        ts_slab *piece = ts_slab_at(ts_piece_number(unit, i));
        ts_assert(2, ts_load_relaxed(ts_unit_word(ts_piece_number(unit, i))) == 0);
        ts_store_relaxed(&piece->u.last_word, 0);
        piece->allocator = ts_allocator_index(allocator);
        ts_store_relaxed(&piece->kind, TS_KIND_SCOPE);
        piece->free_count = piece->empty_at = 0;
        ts_store_relaxed(&piece->end, 0);
        ts_store_relaxed(&piece->handled, 0); /* 3 above */
        ts_store_relaxed(&piece->gen, ts_load_relaxed(&slab->gen));
        ts_store_release(&piece->tag, ts_load_relaxed(&slab->tag)); /* as in ts_slab_next_use */
    }
    ts_store_relaxed(&slab->u.pieces, 0);
    ts_fetch_add_relaxed(&allocator->cut_units, 1);
    ts_store_release(ts_unit_word(unit), TS_UNIT_CUT | (is_long ? TS_UNIT_LONG : 0)); /* partner: ts_slab_of_entry */
    return true;
}

/* All of its pieces are claimed, and nobody's. */
static void make_whole(uint32_t unit) {
    ts_slab *slab = ts_slab_at(unit);
    uint32_t gen = ts_load_relaxed(&slab->gen), tag = ts_load_relaxed(&slab->tag);
    for (unsigned i = 0; i < TS_PIECES; i++) {
        ts_slab *piece = ts_slab_at(ts_piece_number(unit, i));
        uint32_t next = ts_slab_next_generation(piece), its = ts_load_relaxed(&piece->tag);
        gen = next > gen ? next : gen;
        tag = its > tag ? its : tag;
    }
    ts_store_relaxed(&slab->gen, gen);
    ts_store_release(&slab->tag, tag); /* as in ts_slab_next_use */
    ts_store_relaxed(&slab->kind, TS_KIND_NONE);
    ts_store_relaxed(&slab->u.last_word, 0);
    slab->given = 0;
    ts_store_release(ts_unit_word(unit), 0);
}

/* ---- the allocator's; the caller has the retained lock ------------------------------------------------------- */

/* A claimed piece. Whether its unit is retained now. */
static bool give_claimed(ts_allocator *allocator, uint32_t piece) {
    uint32_t unit = ts_unit_of(piece);
    ts_slab *slab = ts_slab_at(unit);
    ts_assert(2, ts_load_relaxed(ts_unit_word(piece)) == 0 &&
                     !(ts_load_relaxed(&slab->u.pieces) >> piece % TS_PIECES & 1));
    uint64_t pieces = ts_load_relaxed(&slab->u.pieces);
    bool is_long = ts_piece_is_long(piece);
    if (pieces == 0) ts_slab_list_push(&allocator->cut[is_long], unit);
    pieces |= (uint64_t)(is_long ? 3 : 1) << piece % TS_PIECES;
    ts_store_relaxed(&slab->u.pieces, pieces);
    if (pieces != ALL_PIECES) return false;
    ts_slab_list_remove(&allocator->cut[is_long], unit);
    make_whole(unit);
    ts_retained_push(&allocator->retained, unit);
    ts_fetch_sub_relaxed(&allocator->cut_units, 1);
    return true;
}

static uint32_t pop(ts_share *share, bool is_long) {
    uint32_t piece = share->pieces[is_long];
    if (!piece) return 0;
    share->pieces[is_long] = ts_slab_at(piece)->next;
    share->piece_count--;
    return piece;
}

/* Gives some of the share's pieces; zombies come when they are off their queues. Returns units that are whole now. */
static uint32_t give_some(ts_share *share, bool is_long, uint32_t most) {
    uint32_t retained = 0;
    for (uint32_t piece; most > 0 && (piece = pop(share, is_long)) != 0; most--) {
        if (ts_slab_claim(piece, &share->allocator->pins)) retained += give_claimed(share->allocator, piece);
    }
    return retained;
}

/* ---- the share's ---------------------------------------------------------------------------------------------- */

void ts_share_keep_piece(ts_share *share, uint32_t piece) {
    bool is_long = ts_piece_is_long(piece);
    ts_slab_at(piece)->next = share->pieces[is_long];
    share->pieces[is_long] = piece;
    uint32_t most = share->heap->keeps_nothing ? 0 : TS_LOCAL_PIECES;
    if (++share->piece_count <= most) return;
    ts_allocator *allocator = share->allocator;
    ts_lock_acquire(&allocator->retained_lock);
    uint32_t retained = give_some(share, is_long, TS_PIECES_MOVED);
    ts_lock_release(&allocator->retained_lock);
    if (retained == 0) return;
    ts_thread.released += retained;
    ts_note_retained(allocator, retained);
}

uint32_t ts_share_give_pieces(ts_share *share) {
    return give_some(share, false, UINT32_MAX) + give_some(share, true, UINT32_MAX);
}

void ts_piece_give_zombie(uint32_t piece) {
    ts_allocator *allocator = ts_table_at(&ts_allocators, ts_slab_at(piece)->allocator);
    ts_lock_acquire(&allocator->retained_lock);
    bool retained = give_claimed(allocator, piece);
    ts_lock_release(&allocator->retained_lock);
    if (retained) ts_note_retained(allocator, 1);
    ts_allocator_unpin(allocator);
}

/* Fetches the free pieces of one unit of the allocator, or those of a new unit. false with errno: no memory. */
static bool fetch_pieces(ts_heap *heap, ts_share *share, bool is_long) {
    ts_allocator *allocator = share->allocator;
    uint64_t pieces = 0;
    ts_lock_acquire(&allocator->retained_lock);
    uint32_t unit = allocator->cut[is_long];
    if (unit) {
        pieces = ts_load_relaxed(&ts_slab_at(unit)->u.pieces);
        ts_slab_list_remove(&allocator->cut[is_long], unit);
        ts_store_relaxed(&ts_slab_at(unit)->u.pieces, 0);
    }
    ts_lock_release(&allocator->retained_lock);
    if (!unit) {
        bool fresh;
        unit = ts_unit_acquire(heap, share, TS_HOME_ANY, &fresh);
        if (!unit || !cut_unit(heap, share, unit, is_long)) return false;
        pieces = ALL_PIECES;
    }
    ts_heap_enter(heap);
    for (unsigned i = TS_PIECES; i-- > 0;) {
        if (!(pieces >> i & 1) || (is_long && i % 2)) continue;
        uint32_t piece = ts_piece_number(unit, i);
        ts_slab_at(piece)->next = share->pieces[is_long];
        share->pieces[is_long] = piece;
        share->piece_count++;
    }
    ts_heap_leave(heap);
    return true;
}

uint32_t ts_share_take_piece(ts_share *share, bool is_long) {
    for (uint32_t piece; (piece = pop(share, is_long)) != 0;) {
        /* One whose tags or generations are used up is nobody's for ever. */
        if (ts_slab_claim(piece, &share->allocator->pins) && ts_slab_reset_scope(piece)) return piece;
    }
    return 0;
}

uint32_t ts_slab_acquire_piece(ts_heap *heap, ts_share *share, bool is_long) {
    for (;;) {
        ts_heap_enter(heap);
        uint32_t piece = ts_share_take_piece(share, is_long);
        ts_heap_leave(heap);
        if (piece) return piece;
        if (!fetch_pieces(heap, share, is_long)) return 0;
    }
}

/* ---- the block's ----------------------------------------------------------------------------------------------- */

void ts_scope_part_pieces(ts_scope_block *block) {
    uint32_t piece = block->tail;
    for (uint32_t before; ts_is_piece(piece); piece = before) {
        before = ts_slab_at(piece)->prev;
        ts_share_keep_piece(block->b.share, piece);
    }
    block->tail = piece;
    if (piece)
        ts_slab_at(piece)->next = 0;
    else
        block->head = 0;
    ts_add_owned(&block->b.slabs, 0u - ts_load_relaxed(&block->pieces));
    ts_store_relaxed(&block->pieces, 0);
}
