/* Foreign frees: by threads that do not own the block. The protocol is in foreign.c. */
#ifndef TS_CACHE_FOREIGN_H
#define TS_CACHE_FOREIGN_H

#include "ownership/heap.h"

#define TS_ANY_GENERATION UINT32_MAX

/* FREED_SHUT: freed while the block was shut: to be followed by ts_foreign_give_closed. MET: another writer was met,
   and nothing was done. QUEUE: of ts_foreign_open alone. */
typedef enum ts_foreign_result {
    TS_FOREIGN_NOT_LIVE,
    TS_FOREIGN_FREED,
    TS_FOREIGN_FREED_SHUT,
    TS_FOREIGN_MET,
    TS_FOREIGN_QUEUE
} ts_foreign_result;
/* Frees an object of a block that this thread does not own. Not inside an operation. generation: the
   object's, or TS_ANY_GENERATION. retries: counted up. */
ts_foreign_result ts_foreign_free(uint32_t unit, uint64_t entry, uintptr_t allocator, uint32_t generation,
                                  uint64_t *retries);
/* The last steps of ts_foreign_open (free.h), which also says whether they are needed. */
ts_foreign_result ts_foreign_queue(uint64_t entry, uint64_t seen);
/* After such a free, with nothing held: if the block is closed and this was the last live object of its slab, what
   waits on the owner's queue is taken in for it, in part: the owner may sleep, and the memory goes back now. */
void ts_foreign_give_closed(uint32_t unit, uint64_t entry);
/* Drains the queue of a heap in place of its thread, which it has not, or which does not know of it; of all that may
   have such. Hold nothing. */
void ts_foreign_drain_for(ts_heap *heap);
void ts_foreign_drain_for_all(void);
/* Takes all foreign frees of the heap's queue. Caller holds the heap. */
void ts_foreign_drain(ts_heap *heap);
/* The same once more, after a flush of a closing block. */
void ts_foreign_drain_flushed(ts_heap *heap);
/* Takes some: stops after the slab with which `most` is reached, a slab counting TS_FOREIGN_SLAB_WORK and each of its
   objects one. Returns the bytes of objects of churn blocks: what can be allocated again by that. */
size_t ts_foreign_drain_some(ts_heap *heap, unsigned most);
#define TS_FOREIGN_SLAB_WORK 16u
/* For one allocation or free: some microseconds. Per slab that is filled as much as a slab is taken in, and rounds
   are put off only while none has left anything, so what other threads free does not pile up. */
#define TS_FOREIGN_WORK 512u
_Static_assert(TS_DRAINED > TS_FOREIGN_WORK / TS_FOREIGN_SLAB_WORK, "one round does not look at all epochs");
/* Takes in one slab of a closing block, wherever on the queue it is. Caller holds the heap. */
void ts_foreign_take_off(ts_heap *heap, uint32_t unit);
#define TS_FOREIGN_FLAGS_MET 16u             /* measured beside 8 and 32: docs/decisions.md */
#define TS_FOREIGN_WORTH (2 * TS_UNIT_BYTES) /* what makes a round worth its while: see churn_try in object/alloc.c */
/* A slab is lent by a thread, who is in its own heap: nobody hands the slab on until it is given back, by the same
   thread, in its heap again. Whose it is does not matter, but to who knows by that what is in it. word: its UNIT
   word, without flags. false: it is another now. One at a time. */
bool ts_foreign_lend(ts_heap *heap, uint32_t unit, uint64_t word);
void ts_foreign_lent_back(ts_heap *heap);
/* Of slabs that are lent to a spill (spilled.h). Whether nothing is live in it, or all that is has been freed by
   other threads. */
bool ts_foreign_all_freed(uint32_t unit, uint64_t word);
/* Takes in what other threads have freed; FOREIGN stays on, so the slab stays in its block. Caller holds the block's
   heap. */
void ts_foreign_take_in(ts_block *block, uint32_t unit, uint64_t word);
/* The slab, which has FOREIGN on and is on no queue, goes on that of the block's heap, as ts_foreign_lent_back does
   it. */
void ts_foreign_return(uint32_t unit, const ts_block *block);
/* Whether a foreign free of the object is under way; word: the UNIT word of its slab. */
bool ts_foreign_pending(uint32_t unit, uint64_t word, uint64_t entry);

#endif
