/* Cross-thread frees: frees by threads that do not own the block. The protocol is in foreign.c. */
#ifndef TS_CACHE_FOREIGN_H
#define TS_CACHE_FOREIGN_H

#include "ownership/heap.h"

#define TS_ANY_GENERATION UINT32_MAX

/* TS_FOREIGN_FREED_SHUT: freed while the block was shut; the caller goes on with ts_foreign_give_closed.
   TS_FOREIGN_MET: another writer was met, and nothing was done. TS_FOREIGN_QUEUE: only ts_foreign_open returns it. */
typedef enum ts_foreign_result {
    TS_FOREIGN_NOT_LIVE,
    TS_FOREIGN_FREED,
    TS_FOREIGN_FREED_SHUT,
    TS_FOREIGN_MET,
    TS_FOREIGN_QUEUE
} ts_foreign_result;
/* Frees an object of a block that this thread does not own. Not inside an operation. generation: the object's, or
   TS_ANY_GENERATION. *retries rises with each retry. */
ts_foreign_result ts_foreign_free(uint32_t unit, uint64_t entry, uintptr_t allocator, uint32_t generation,
                                  uint64_t *retries);
/* Steps 6 and 7 after ts_foreign_open (free.h), when that returned TS_FOREIGN_QUEUE. */
ts_foreign_result ts_foreign_queue(uint64_t entry, uint64_t seen);
/* After a cross-thread free. If the block is closed and this was the last live object of its slab, takes the slab in
   for the owner, which may sleep. So the memory goes back at once. Caller holds nothing. */
void ts_foreign_give_closed(uint32_t unit, uint64_t entry);
/* Drains the queue of a heap that has no thread, or whose thread does not know of it; or all such heaps. Caller holds
   nothing. */
void ts_foreign_drain_for(ts_heap *heap);
void ts_foreign_drain_for_all(void);
/* Takes in all cross-thread frees of the heap's queue. Caller holds the heap. */
void ts_foreign_drain(ts_heap *heap);
/* ts_foreign_drain after a flush of a closing block. */
void ts_foreign_drain_flushed(ts_heap *heap);
/* Takes some in: stops after the slab with which the work reaches `most`. A slab counts TS_FOREIGN_SLAB_WORK, each of
   its objects one. Returns the bytes of churn objects, which can be allocated again. Caller holds the heap. */
size_t ts_foreign_drain_some(ts_heap *heap, unsigned most);
#define TS_FOREIGN_SLAB_WORK 16u
/* The work for one allocation or free: some microseconds. For each slab that an owner fills it takes in as much as a
   slab. Rounds are put off only while none has left anything. So cross-thread frees do not pile up. */
#define TS_FOREIGN_WORK 512u
_Static_assert(TS_DRAINED > TS_FOREIGN_WORK / TS_FOREIGN_SLAB_WORK, "one round does not look at all epochs");
/* Takes in one slab of a closing block, from any place of the queue. Caller holds the heap. */
void ts_foreign_take_off(ts_heap *heap, uint32_t unit);
#define TS_FOREIGN_FLAGS_MET 16u             /* measured beside 8 and 32: docs/decisions.md */
#define TS_FOREIGN_WORTH (2 * TS_UNIT_BYTES) /* bytes that make a round worth its while: churn_try in object/refill.c */
/* Lends a slab to the calling thread, which is in its own heap. No thread hands the slab on until this thread gives
   it back, in its heap again. The slab may belong to any block. word: its UNIT word, without flags. false: the word
   is another one. A thread lends one slab at a time. */
bool ts_foreign_lend(ts_heap *heap, uint32_t unit, uint64_t word);
void ts_foreign_lent_back(ts_heap *heap);
/* For a slab that is lent to a spill (slab/lent.h): whether other threads have freed everything that is live in it. */
bool ts_foreign_all_freed(uint32_t unit, uint64_t word);
/* Takes in the cross-thread frees of one slab. FOREIGN stays on, so the slab stays in its block. Caller holds the
   block's heap. */
void ts_foreign_take_in(ts_block *block, uint32_t unit, uint64_t word);
/* Pushes a slab that has FOREIGN on and is on no queue on the queue of the block's heap, as ts_foreign_lent_back
   does. */
void ts_foreign_return(uint32_t unit);
/* Whether a cross-thread free of the object is under way. word: the UNIT word of its slab. */
bool ts_foreign_pending(uint32_t unit, uint64_t word, uint64_t entry);

#endif
