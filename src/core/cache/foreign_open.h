/* The usual foreign free as a part of slab_free: of an object of an open churn block, by its pointer. */
/* Modelled in tests/model: foreign, orders. */
#ifndef TS_CACHE_FOREIGN_OPEN_H
#define TS_CACHE_FOREIGN_OPEN_H

#include "cache/foreign.h"

/* After 5 and, if this thread queued the slab, 7. seq_cst: who shuts the block and then drains finds the bit and the slab, or it is
   seen here to be shut. Also where another has pushed the slab: he may have done so since the close, and looked for what is live
   before this bit was set. */
TS_ALWAYS_INLINE ts_foreign_result ts_foreign_freed(const ts_block *block) {
    return ts_load_seq(&block->key) >> TS_KEY_SHARE_SHIFT != 0 ? TS_FOREIGN_FREED : TS_FOREIGN_FREED_SHUT;
}

/* ts_foreign_free (foreign.c has the steps) in as few steps as that case takes, from inside of this thread's own heap. NOT_LIVE: nothing was
   done, and the other finds out what there is. QUEUE: freed, and the slab has to be queued, by ts_foreign_queue with *seen, which
   returns the rest of the answer: so nothing is live across a call. */
TS_ALWAYS_INLINE ts_foreign_result ts_foreign_open(const ts_heap *heap, uint64_t entry, uintptr_t allocator,
                                                   uint64_t *seen) {
    const ts_part *region = &ts_region.part[TS_NORMAL];
    uint32_t unit = (uint32_t)(entry >> TS_ENTRY_UNIT_SHIFT);
    _Atomic uint64_t *word = &region->unit[unit];
    uint64_t u = *seen = ts_load_acquire(word); /* step 1 */
    if (TS_UNLIKELY(u == 0 || (u & (TS_UNIT_ZOMBIE | TS_UNIT_SCOPE | TS_UNIT_SPAN)))) return TS_FOREIGN_NOT_LIVE;
    uint64_t bit;
    _Atomic uint64_t *foreign = ts_slab_foreign_word(u, entry, &bit);
    uint64_t x = ts_load_acquire(foreign); /* 2: such a word always has the present tag */
    const ts_block *block = ts_block_of_line(ts_word_line(u), false);
    uint64_t again = ts_load_acquire(word), key = ts_load_acquire(&block->key); /* 3 */
    if (TS_UNLIKELY(((again ^ u) & ~TS_UNIT_FOREIGN) != 0 || (key & TS_UNIT_ERA_MASK) != ts_word_era(u)))
        return TS_FOREIGN_NOT_LIVE;
    /* Open to its owner, who is not this thread: neither closing nor poisoned. */
    if (TS_UNLIKELY(key >> TS_KEY_SHARE_SHIFT == 0 || ts_load_acquire(&block->heap) == heap))
        return TS_FOREIGN_NOT_LIVE;
    if (TS_UNLIKELY(ts_load_relaxed(&block->allocator) != allocator)) return TS_FOREIGN_NOT_LIVE;
    uint32_t s = ts_load_acquire(ts_entry_state(entry, ts_word_is_fine(u))); /* 4 */
    if (TS_UNLIKELY(!ts_state_is_of(s, entry) || (x & bit))) return TS_FOREIGN_NOT_LIVE;
    if (TS_UNLIKELY(!ts_cas_seq(foreign, &x, x | bit))) return TS_FOREIGN_MET;             /* 5 */
    if (TS_UNLIKELY(ts_load_seq(word) == (u & ~TS_UNIT_FOREIGN))) return TS_FOREIGN_QUEUE; /* 6 */
    return ts_foreign_freed(block);
}

#endif
