/*
 * The fast paths: an allocation from the ring or the claimed word of a bin, a free into the ring, a bump in a
 * scope slab. Each is called between ts_op_begin and ts_op_end by the thread that owns the block; none takes a
 * lock, makes a system call, or moves more than one slot.
 *
 * part and cls are compile-time constants or come from one table load at every call, so that the compiler
 * leaves no test of them.
 */
#ifndef TS_HEAP_FAST_H
#define TS_HEAP_FAST_H

#include "base/bits.h"
#include "heap/heap.h"

/* A slot of the bin, made live; NULL: ring and claimed word are empty. */
TS_ALWAYS_INLINE void *ts_fast_pop(ts_bin *bin, const unsigned part, uint32_t *entry_out) {
    const ts_part *region = &ts_region.part[part];
    uint64_t pops = ts_load_relaxed(&bin->pops);
    uint32_t *slot = &bin->ring[(ts_load_relaxed(&bin->pushes) - pops - 1) & (TS_RING_SLOTS - 1)];
    uint32_t entry = *slot;
    _Atomic uint16_t *state;
    if (TS_LIKELY(entry != 0)) {
        *slot = 0;
        ts_store_relaxed(&bin->pops, pops + 1);
        state = &region->state[ts_granule(part, entry)];
        /* relaxed: the owner's own word; others learn of the object through the program's own hand-over */
        ts_store_relaxed(state, (uint16_t)(ts_load_relaxed(state) | TS_STATE_LIVE));
    } else {
        uint64_t word = bin->word;
        if (TS_UNLIKELY(word == 0)) return NULL;
        bin->word = word & (word - 1);
        entry = bin->word_entry + ts_ctz64(word) * (part == TS_NORMAL ? 4u : 1u);
        ts_add_owned(&bin->word_allocs, 1);
        state = &region->state[ts_granule(part, entry)];
        uint32_t s = ts_load_relaxed(state);
        ts_store_relaxed(state, (uint16_t)(s | TS_STATE_LIVE));
        if (part == TS_NORMAL) entry += (s >> 1) & 3u;
    }
    *entry_out = entry;
    return ts_entry_address(region, entry);
}

/* Frees the object at an entry of the calling thread's own, open block. false: this needs the slow path (which
   also finds out whether it is an object at all). Everything is checked here: that an object starts at this very
   place and is live, that its slab belongs to a block (same era, and no flag: no foreign free is under way), and
   that the block is this thread's, this allocator's, and open. */
TS_ALWAYS_INLINE bool ts_fast_free(ts_tls *tls, const unsigned part, uint64_t entry, uintptr_t allocator) {
    const ts_part *region = &ts_region.part[part];
    _Atomic uint16_t *state = &region->state[ts_granule(part, entry)];
    uint64_t word = ts_load_relaxed(&region->unit[entry >> TS_ENTRY_UNIT_SHIFT]);
    uint32_t s = ts_load_relaxed(state);
    uint32_t want = part == TS_NORMAL ? 2 * (uint32_t)entry + 1 : 1;
    if (TS_UNLIKELY(((s ^ want) & 7u) != 0)) return false;
    ts_bin *bin = ts_line_address(word & TS_UNIT_LINE_MASK);
    ts_block *block = (ts_block *)((uintptr_t)bin & ~(uintptr_t)(TS_CHURN_BLOCK_ALIGN - 1));
    if (TS_UNLIKELY(word >> TS_UNIT_LINE_BITS != ts_load_relaxed(&block->era))) return false;
    if (TS_UNLIKELY(ts_load_relaxed(&block->owner) != tls->id)) return false;
    if (TS_UNLIKELY(ts_load_relaxed(&block->allocator) != allocator)) return false;
    uint32_t next = s + (1u << TS_STATE_GEN_SHIFT) - TS_STATE_LIVE;
    if (TS_UNLIKELY(next >= TS_STATE_GEN_MAX << TS_STATE_GEN_SHIFT)) return false;
    /* release: a foreign free that finds the slot not live has seen all that led to it */
    ts_store_release(state, (uint16_t)next);
    uint64_t pushes = ts_load_relaxed(&bin->pushes);
    uint32_t *slot = &bin->ring[(pushes - ts_load_relaxed(&bin->pops)) & (TS_RING_SLOTS - 1)];
    uint32_t oldest = *slot;
    *slot = (uint32_t)entry;
    ts_store_relaxed(&bin->pushes, pushes + 1);
    if (TS_UNLIKELY(oldest != 0)) ts_bin_evict((ts_churn_block *)(void *)block, bin, oldest);
    return true;
}

#define TS_SCOPE_MAX_BYTES 4096u

/* size rounded to granules, 0 if it is not for a scope slab; size 0 is one granule. */
TS_ALWAYS_INLINE size_t ts_scope_round(size_t size) {
    size_t n = (size + 15) & ~(size_t)15;
    if (TS_UNLIKELY(n - 16 > TS_SCOPE_MAX_BYTES - 16)) n = size == 0 ? 16 : 0;
    return n;
}

/* bytes: a result of ts_scope_round, not 0. NULL: the current slab has no room. */
TS_ALWAYS_INLINE void *ts_fast_bump(ts_scope_block *block, size_t bytes) {
    char *at = ts_load_relaxed(&block->bump);
    if (TS_UNLIKELY(bytes > (size_t)(block->end - at))) return NULL;
    size_t in_unit = (size_t)(at - ts_region.part[TS_NORMAL].base) & (TS_UNIT_BYTES - 1);
    ts_state64 *start = &block->bits->start[in_unit >> 10];
    ts_store_relaxed(start, ts_load_relaxed(start) | (uint64_t)1 << ((in_unit >> 4) & 63));
    ts_add_owned(&block->allocs, 1);
    /* release: who reads bump sees the start bits below it (ts_scope_object_bytes) */
    ts_store_release(&block->bump, at + bytes);
    return at;
}

#endif
