/* Blocks of an epoch that go from one thread to another (hand_over.c). */
#ifndef TS_EPOCH_HAND_OVER_H
#define TS_EPOCH_HAND_OVER_H

#include "cache/cache.h"
#include "epoch/epoch.h"

/* Moves a block of a heap without a thread to this thread's heap. Caller has the epoch's lock, and holds no heap. */
bool ts_epoch_take_over(ts_heap *heap, ts_share *share, ts_block *block, EpochId id);
/* The calling thread gives the epoch up to another thread. Its block ends if that holds nothing. Its other blocks wait
   for the next thread (cache/cache.h). */
void ts_epoch_give_up(ts_allocator *allocator, EpochId id);
/* The part of ts_epoch_give_up that may be done with the lock of the tree. ts_orphans_make_share comes before, if the
   answer is TS_GIVEN_UP_NO_SHARE, and ts_orphans_pass_on after, both without that lock. TS_GIVEN_UP_NOT: there was
   nothing to give up. */
ts_given_up ts_epoch_give_up_blocks(ts_allocator *allocator, EpochId id);
/* The calling thread owns an epoch that was given up. It gets the blocks that wait; others it takes over as it joins.
   */
void ts_epoch_take_up(ts_heap *heap, ts_allocator *allocator, EpochId id);
/* Takes over a block that an ended thread left in the epoch, if one has a free slot of the class and is not
   about as large as the block of this thread, or many such blocks wait. any: of any size, because there is no memory
   for a slab. */
bool ts_epoch_adopt(ts_heap *heap, ts_epoch *epoch, EpochId id, unsigned cls, bool any);

#endif
