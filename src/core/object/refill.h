/* Objects of a block of the calling thread: also of a slab that has to be got. */
#ifndef TS_OBJECT_REFILL_H
#define TS_OBJECT_REFILL_H

#include "supply/supply.h"

/* A note of a new object, made before the heap is left. Afterwards another thread can end the epoch or reset it, and
   the place can become another object's in the same epoch. */
typedef struct ts_taken {
    size_t size;   /* asked for */
    uint64_t word; /* UNIT word of its slab, without FOREIGN: no other use of the slab has that */
    /* With care: the first byte that was written since the place was filled, or TS_CARE_CLEAN; and whether the slot was
       an object before. */
    size_t written;
    bool again;
    bool zero; /* all of it came zero from the system */
} ts_taken;

/* Notes a new object. Inside the heap, or an operation; kind: a class or TS_COUNT_SCOPE. */
void ts_note_allocated(const ts_allocator *allocator, void *p, uint32_t kind, ts_taken *t);
/* NULL with errno: ESTALE, ENOMEM. bytes: a result of ts_scope_round, not 0. Not inside an operation. */
void *ts_refill_churn(ts_heap *heap, ts_churn_block *block, unsigned cls, EpochId id, ts_taken *t);
void *ts_refill_scope(ts_heap *heap, ts_scope_block *block, size_t bytes, size_t align, EpochId id, ts_taken *t);

#endif
