/* Bins: the slabs of a size class, the word claimed from one of them, and the magazine before it. */
#ifndef TS_CACHE_BIN_H
#define TS_CACHE_BIN_H

#include "ownership/heap.h"

/* Puts the bin's list in order after the free counts of its slabs were set anew. */
void ts_bin_list_by_free(ts_bin *bin);
/* Counts and marks the bin's slabs without a slot in use. Caller holds the heap. */
void ts_bin_count_empty(ts_churn_block *block, unsigned cls);
bool ts_bin_ready(ts_churn_block *block, unsigned cls);
/* Objects in the magazine. Caller: the owner, or who holds the heap. */
static inline uint64_t ts_bin_depth(const ts_bin *bin) { return ts_load_relaxed(&bin->top) & TS_TOP_DEPTH; }
/* Adds a reset slab and publishes its UNIT word. Caller holds the heap. */
void ts_bin_add(ts_churn_block *block, unsigned cls, uint32_t unit);
/* Objects allocated from the magazine, and all that were freed in the bin, of one moment. Any thread. */
typedef struct ts_magazine_counts {
    uint64_t pops, frees;
} ts_magazine_counts;
ts_magazine_counts ts_bin_magazine_counts(const ts_bin *bin);
/* Empties the magazine, whose objects the caller has put elsewhere. Caller holds the heap. */
void ts_bin_forget_magazine(ts_bin *bin);
/* Objects allocated from claimed words. Any thread. */
uint64_t ts_bin_word_allocs(const ts_bin *bin);
/* Takes the claimed word away, for the caller to put its bits elsewhere. Caller holds the heap. */
uint64_t ts_bin_take_word(ts_bin *bin);
/* The entry of a bit of the claimed word. */
uint32_t ts_bin_word_entry(const ts_bin *bin, bool fine, unsigned bit);
/* Claims the next word of the bin's slabs. false: none has a free slot. Caller holds the heap. */
bool ts_bin_claim(ts_churn_block *block, unsigned cls);
/* Puts the slot of an object that was freed past a full magazine back into its slab, where ts_fast_give has not:
   owner inside the operation that freed it, which it ends, not holding the heap. Returns true. */
bool ts_bin_give_freed(ts_churn_block *block, ts_bin *bin, uint32_t entry);
/* Puts a free slot back into its slab. */
void ts_bin_give_slot(ts_churn_block *block, ts_bin *bin, uint32_t entry);
/* Takes an empty slab, which is lent (spilled.h), out of the bin. Caller holds the heap, and has the slab. */
void ts_bin_take_out(ts_churn_block *block, ts_bin *bin, uint32_t unit);
/* Gives a slab of the bin to the share if it is empty, and (if_empty) not worth keeping. Caller holds the heap. */
void ts_bin_release_if_empty(ts_churn_block *block, ts_bin *bin, uint32_t unit);
void ts_bin_release_empty(ts_churn_block *block, ts_bin *bin, uint32_t unit);
/* Frees one object past the magazine; its state word is live. The slab stays in the bin, empty or not. Caller holds the
   heap. */
void ts_bin_free_direct(ts_churn_block *block, ts_bin *bin, uint32_t entry);
/* The same for those of 32 granules of a slab (granule: the first, a multiple of 32) whose bits are on. What is not
   live is left out. Returns how many were freed. */
unsigned ts_bin_free_bits(ts_churn_block *block, ts_bin *bin, uint32_t unit, unsigned granule, uint32_t bits);

#endif
