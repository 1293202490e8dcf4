/*
 * Orphans: blocks that a thread gives up while it lives, with a domain that it hands over. The argument is in orphan.c.
 */
#ifndef TS_CACHE_ORPHAN_H
#define TS_CACHE_ORPHAN_H

#include "supply/allocator.h"

typedef enum ts_given_up { TS_GIVEN_UP, TS_GIVEN_UP_NOT, TS_GIVEN_UP_NO_SHARE } ts_given_up;
/* Moves the block to a heap without a thread. The next thread that needs a block in its epoch takes it over.
   TS_GIVEN_UP_NOT: the block stays, because another thread holds one of the heaps. TS_GIVEN_UP_NO_SHARE: it stays,
   because that heap has no share of the allocator (ts_orphans_make_share). Caller: the block's thread, not inside its
   heap, with the epoch's lock, which keeps the epoch ACTIVE. */
ts_given_up ts_block_give_up(ts_heap *heap, ts_block *block);
/* After blocks were given up: takes in the cross-thread frees of before. Caller holds nothing. */
void ts_orphans_pass_on(ts_heap *heap);
/* Makes the share that TS_GIVEN_UP_NO_SHARE asks for, if there is none. false: no memory, or the allocator has ended.
   Caller holds nothing. */
bool ts_orphans_make_share(const ts_heap *heap, ts_allocator *allocator);

#endif
