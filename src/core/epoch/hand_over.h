/* Blocks of an epoch that go from one thread to another (hand_over.c). */
#ifndef TS_EPOCH_HAND_OVER_H
#define TS_EPOCH_HAND_OVER_H

#include "cache/orphan.h"
#include "epoch/epoch.h"

/* Moves a block of an ended thread to this thread's heap. Caller has the epoch's lock and no heap. */
bool ts_epoch_take_over(ts_heap *heap, ts_share *share, ts_block *block, EpochId id);
/* For who gives the epoch up to another thread. A block of this thread that holds nothing ends; the others wait for the next thread (cache/orphan.h). */
void ts_epoch_give_up(ts_allocator *allocator, EpochId id);
/* The same for who has the lock of the tree; ts_orphans_pass_on comes when he has it no more. NO_SHARE: ts_orphans_make_share did not come
   before; NOT: there was nothing to give up. */
ts_given_up ts_epoch_give_up_blocks(ts_allocator *allocator, EpochId id);
/* The calling thread has an epoch that was given up: what waits there is its own now. The rest it takes over as it joins. */
void ts_epoch_take_up(ts_heap *heap, ts_allocator *allocator, EpochId id);
/* Takes over a block that an ended thread left in the epoch, if one has a free slot of the class. */
bool ts_epoch_adopt(ts_heap *heap, ts_epoch *epoch, EpochId id, unsigned cls);

#endif
