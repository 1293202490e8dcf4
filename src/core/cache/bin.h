/* Bins. A bin has the slabs of a size class, a word of free slots claimed from one of them, and a magazine of free
   objects. */
#ifndef TS_CACHE_BIN_H
#define TS_CACHE_BIN_H

#include "ownership/heap.h"

/* Orders the bin's list after the free counts of its slabs were set anew: slabs with free slots first. */
void ts_bin_list_by_free(ts_bin *bin);
/* Counts and marks the slabs of the bin that have no slot in use. Caller holds the heap. */
void ts_bin_count_empty(ts_churn_block *block, unsigned cls);
/* Gives the bin its magazine, on its first use. false: no memory. */
bool ts_bin_ready(ts_churn_block *block, unsigned cls);
/* Objects in the magazine. Caller: the owner, or the holder of the heap. */
static inline uint64_t ts_bin_depth(const ts_bin *bin) { return ts_load_relaxed(&bin->top) & TS_TOP_DEPTH; }
/* Adds a reset slab and publishes its UNIT word. Caller holds the heap. */
void ts_bin_add(ts_churn_block *block, unsigned cls, uint32_t unit);
/* Objects allocated from the magazine, and objects freed in the bin, both of one moment. Any thread. */
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
/* Claims the next word of the bin's slabs. false: none has a free slot. Caller holds the heap. */
bool ts_bin_claim(ts_churn_block *block, unsigned cls);
/* Puts the slot of an object that was freed past a full magazine back into its slab, where ts_fast_give has not done
   so. The owner calls it inside the operation that freed the object, and does not hold the heap. It ends that
   operation. */
void ts_bin_give_freed(ts_churn_block *block, ts_bin *bin, uint32_t entry);
/* Puts the slots of the claimed word back into their slab. Caller holds the heap. */
void ts_bin_give_word(ts_churn_block *block, ts_bin *bin);
/* Puts a free slot back into its slab. */
void ts_bin_give_slot(ts_churn_block *block, ts_bin *bin, uint32_t entry);
/* Takes an empty slab that is lent (slab/lent.h) out of the bin. Caller holds the heap, and has the slab. */
void ts_bin_take_out(ts_churn_block *block, ts_bin *bin, uint32_t unit);
/* Gives a slab of the bin to the share if it is empty. The first function also asks whether it is worth keeping.
   Caller holds the heap. */
void ts_bin_release_if_empty(ts_churn_block *block, ts_bin *bin, uint32_t unit);
void ts_bin_release_empty(ts_churn_block *block, ts_bin *bin, uint32_t unit);
/* Frees one object into its slab; its state word is live. The slab stays in the bin, empty or not. Caller holds the
   heap. */
void ts_bin_free_direct(ts_churn_block *block, ts_bin *bin, uint32_t entry);
/* Frees the objects of 32 granules of a slab whose bits are on, as ts_bin_free_direct. granule: the first one, a
   multiple of 32. keeps: into the magazine as long as it has room; the caller is the thread that uses it. Objects that
   are not live are left out. Returns how many were freed. */
unsigned ts_bin_free_bits(ts_churn_block *block, ts_bin *bin, uint32_t unit, unsigned granule, uint32_t bits,
                          bool keeps);

#endif
