/*
 * Pieces: 32nds of units, 512 bytes, as the first slabs of scopes with few objects. So thousands of small lifetimes
 * lie in few pages. A LONG piece, 1,024 bytes, is the first slab of a scope whose first object is larger than a short
 * one. slab/slab.h says what a piece is, piece.c how it comes and goes.
 */
#ifndef TS_SUPPLY_PIECE_H
#define TS_SUPPLY_PIECE_H

#include "supply/allocator.h"

/* Pieces that a growing scope gets before it gets units; a long one counts as two. */
#define TS_PIECES_OF_BLOCK 8u
/* As many of a block that starts small while TS_LEAKING_EPOCHS closed ones hold objects. All of its pieces are long.
   So an object that leaks keeps 1 KiB of its epoch, and the other pieces serve the next epochs. A program that only
   frees late seldom has so many, and units are faster. */
#define TS_PIECES_OF_LEAKING 64u
#define TS_LEAKING_EPOCHS 256u
/* The first slab of a scope is a unit if the thread retains one. Else it is a piece, with two exceptions. The first
   TS_PIECES_AFTER times it is a unit, because few lifetimes are open. One in TS_PIECES_UNIT_EVERY is a unit, too: a
   thread with one scope after the other retains that unit for all that come.
   After a SMALL scope a piece comes before a retained unit. Without that rule each larger scope leaves its unit to a
   small one, and in the end each open scope has a unit. A scope is small if it had one slab when it ended, and in it no
   more bytes than a short piece has, or one object that a long piece has room for. While TS_PIECES_AFTER / 2 units or
   fewer are cut no scope counts as small, because units are faster. A first slab is a long piece only after a small
   scope, so threads with larger scopes have none. The rule is not for churn domains that start small
   (object/alloc.c): their larger objects would lie in blocks of their own. */
#ifndef TS_PIECES_AFTER
#define TS_PIECES_AFTER 16u
#endif
extern TS_HIDDEN uint32_t ts_pieces_after; /* TS_PIECES_AFTER; 0 in tests, which have few scopes at a time */
#define TS_PIECES_UNIT_EVERY 256u
/* Free pieces that a thread keeps. The others go to the allocator, some at a time. */
#define TS_LOCAL_PIECES 64u
#define TS_PIECES_MOVED 32u

/* Whether the block has no slab yet, and begins with a piece even where the share retains a unit. */
TS_ALWAYS_INLINE bool ts_scope_begins_small(const ts_scope_block *block) {
    return ts_load_relaxed(&block->b.share->small) && !block->b.slow && ts_load_relaxed(&block->b.slabs) == 0;
}
/* Whether the block is of an epoch that may leak. */
TS_ALWAYS_INLINE bool ts_scope_may_leak(const ts_scope_block *block) {
    return (block->b.slow & TS_SLOW_ALWAYS) &&
           ts_load_relaxed(&block->b.share->allocator->draining) >= TS_LEAKING_EPOCHS;
}
/* Whether a piece for an object of `bytes` bytes is a long one. */
TS_ALWAYS_INLINE bool ts_scope_takes_long(const ts_scope_block *block, size_t bytes) {
    return bytes > TS_PIECE_BYTES || ts_scope_may_leak(block);
}
/* Whether the next slab of a scope block without an account is a piece, for an object of `bytes` bytes. Caller: the
   block's thread. */
bool ts_scope_takes_piece(const ts_scope_block *block, size_t bytes, size_t align);
/* Whether the block has pieces only, and takes more; or has nothing, and its first slab for a small object will be a
   piece. The block has no account. Caller: its thread. */
bool ts_scope_is_in_pieces(const ts_scope_block *block);
/* A fresh scope slab that is a piece. 0 with errno: no memory. Caller: the owner, not inside the heap. */
uint32_t ts_slab_acquire_piece(ts_heap *heap, ts_share *share, bool is_long);
/* As ts_slab_acquire_piece, of the share's own. 0: it has none. Caller holds the heap. */
uint32_t ts_share_take_piece(ts_share *share, bool is_long);
/* Keeps a piece that is on no list and has no live object. Caller holds the heap. */
void ts_share_keep_piece(ts_share *share, uint32_t piece);
/* Gives all pieces of the share. Returns the units that became whole. Caller has the retained lock, and holds the heap.
   */
uint32_t ts_share_give_pieces(ts_share *share);
/* Takes the pieces out of a block whose objects are dead; they are the last of its list. Caller holds the heap. */
void ts_scope_part_pieces(ts_scope_block *block);
/* As ts_zombie_give (retained.h). */
void ts_piece_give_zombie(uint32_t piece);

#endif
