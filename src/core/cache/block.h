/* The work on a thread's block in an epoch: its end, its flush, its sums. */
#ifndef TS_CACHE_BLOCK_H
#define TS_CACHE_BLOCK_H

#include "ownership/heap.h"

struct ts_allocator;

/* ---- one block; the caller holds the heap ------------------------------------------------------- */

/* Ends a block, killed or not. Its slabs are retained by the share, which adds its counters, too. Live objects die. */
void ts_block_end(ts_heap *heap, ts_block *block);
/* Gives magazines and claimed words back to the slabs, and empty slabs to the share. Returns the slabs it looked at;
   adds those given to *recycled. */
uint32_t ts_block_flush(ts_heap *heap, ts_block *block, uint64_t *recycled);
/* Flushes the block if another thread has closed it and could not hold this heap then. Caller: the owner, or the
   holder of an ended thread's heap. */
void ts_block_flush_if_shut(ts_heap *heap, ts_block *block);
/* Makes the bins right from the state words alone. The block's thread vanished in a fork. */
void ts_block_rebuild(ts_heap *heap, ts_block *block);

/* ---- blocks with errands ------------------------------------------------------------------------ */

/* Leaves a block to its heap: to be ended, in which case the caller has pinned its allocator; to be flushed; or to be
   counted, in which case the caller has its epoch. Followed by ts_heap_call. */
void ts_heap_condemn(ts_heap *heap, ts_block *block);
void ts_heap_leave_shut(ts_heap *heap, ts_block *block);
void ts_heap_leave_uncounted(ts_heap *heap, ts_block *block);
/* Does the errands of the blocks on the heap's list. Caller: the owner, or the holder of an ended thread's heap. */
void ts_heap_end_condemned(ts_heap *heap);
/* Does the work of `most` blocks at most: for one allocation. */
void ts_heap_end_condemned_some(ts_heap *heap, unsigned most);
#define TS_CONDEMNED_WORK 8u
/* Does the work of blocks that are off that list, linked by `left`. Caller holds the heap since after they were left.
   */
void ts_heap_end_list(ts_heap *heap, ts_block *block);
/* Puts such blocks back onto the list. */
void ts_heap_leave_list(ts_heap *heap, ts_block *block);

/* ---- empty slabs -------------------------------------------------------------------------------- */

/* Looks at the open churn blocks of a heap that the caller holds, of one allocator, or of all (NULL). Bins in which
   the thread has allocated nothing since the last look let go of their empty slabs; if the caller is the thread, of
   magazine and claimed word first. true: that was enough for one call, and there is more. */
bool ts_heap_shed(ts_heap *heap, const struct ts_allocator *allocator);

/* ---- sums --------------------------------------------------------------------------------------- */

typedef struct ts_tally {
    uint64_t allocated, freed, bytes_allocated, bytes_freed, slabs;
    uint64_t pieces; /* how many of the slabs are pieces */
} ts_tally;
/* Units of the slabs that are no pieces; and the memory of all. */
static inline uint64_t ts_tally_units(const ts_tally *t) {
    return t->slabs - (t->pieces < t->slabs ? t->pieces : t->slabs);
}
static inline uint64_t ts_tally_bytes(const ts_tally *t) {
    uint64_t units = ts_tally_units(t);
    return units * TS_UNIT_BYTES + (t->slabs - units) * TS_PIECE_BYTES;
}
/* Sums of a block. cls: a class, TS_COUNT_SCOPE, or UINT32_MAX for all. Any thread; exact at a quiet point. */
ts_tally ts_block_tally(const ts_block *block, uint32_t cls);

#endif
