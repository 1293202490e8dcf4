/* Scope slabs: objects lie one behind the other. Each is freed by its bit, or dies with the scope. */
#ifndef TS_CACHE_SCOPE_H
#define TS_CACHE_SCOPE_H

#include "ownership/heap.h"

/* Adds a reset slab as the current one. Caller holds the heap. */
void ts_scope_add(ts_scope_block *block, uint32_t unit);
/* Makes a retained unit of the share the current slab, in place of the one that may be there. If the block gets
   pieces for an object of `bytes`, it takes one of the share's free pieces instead, where there is no unit or a piece
   comes first (piece.h). false: there is none that can be used, and the current slab stays. Caller holds the heap. */
bool ts_scope_renew(ts_scope_block *block, size_t bytes, size_t align);
/* ts_scope_renew, and the first object of the new slab. NULL: there is no slab. Caller holds the heap. */
void *ts_scope_renew_for(ts_scope_block *block, size_t bytes);
/* ts_fast_bump at a multiple of align, which is a quarter of a unit at most. */
void *ts_scope_bump_aligned(ts_scope_block *block, size_t align, size_t bytes);
/* Whether objects of `bytes` bytes, a multiple of 16, can lie in a scope slab at multiples of align, a power of two
   or 0. */
TS_ALWAYS_INLINE bool ts_scope_may_align(size_t align, size_t bytes) {
    return align - 32 <= TS_QUARTER_BYTES - 32 && bytes - 16 <= TS_QUARTER_BYTES - 16;
}
/* Ends adding to the current slab, which stays. Caller holds the heap. */
void ts_scope_seal_current(ts_scope_block *block);
/* Ends adding to the current slab; if all of it is free it goes to the share. Caller holds the heap. */
void ts_scope_retire_current(ts_scope_block *block);
/* Objects begun in the current slab. A gap for an alignment counts as an object that was freed
   (ts_scope_bump_aligned). */
TS_ALWAYS_INLINE uint16_t ts_scope_current_allocs(const ts_scope_block *block) {
    return (uint16_t)(ts_bump_count(ts_load_relaxed(&block->bump)) + block->skipped);
}

/* Whether there is a current slab, and all of its objects are freed. Caller holds the heap. */
TS_ALWAYS_INLINE bool ts_scope_is_current_empty(const ts_scope_block *block) {
    uint32_t unit = ts_load_relaxed(&block->current);
    return unit && ts_slab_at(unit)->free_count == ts_scope_current_allocs(block);
}
/* Frees one object of the block's own slabs. false: the entry is not the start of a live object. The slab stays.
   Caller holds the heap. */
bool ts_scope_free(ts_scope_block *block, uint32_t unit, uint32_t entry_in_unit);
/* Takes an empty slab that is lent (slab/lent.h) out of the block. Caller holds the heap, and has the slab. */
void ts_scope_take_out(ts_scope_block *block, uint32_t unit);
/* Gives a slab to the share if all of its objects are freed, unless it is the current one. Caller holds the heap. */
void ts_scope_release_if_empty(ts_scope_block *block, uint32_t unit);
/* Objects ever allocated in this use of the block. Any thread. */
uint64_t ts_scope_allocs(const ts_scope_block *block);
/* ts_scope_allocs for the holder of the heap: no slab is being sealed. */
TS_ALWAYS_INLINE uint64_t ts_scope_allocs_held(const ts_scope_block *block) {
    return (ts_load_relaxed(&block->allocs) >> TS_ALLOCS_SHIFT) + ts_bump_count(ts_load_relaxed(&block->bump));
}
/* Bytes of the object at an entry; any thread. */
size_t ts_scope_object_bytes(const ts_scope_block *block, uint32_t unit, uint32_t entry_in_unit);

#endif
