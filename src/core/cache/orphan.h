/*
 * Orphans: blocks that a thread gives up while it lives, with a domain that it hands over. The argument is in orphan.c.
 */
#ifndef TS_CACHE_ORPHAN_H
#define TS_CACHE_ORPHAN_H

#include "supply/allocator.h"

typedef enum ts_given_up { TS_GIVEN_UP, TS_GIVEN_UP_NOT, TS_GIVEN_UP_NO_SHARE } ts_given_up;
/* The block goes to a heap without a thread, where whoever comes next in its epoch takes it over. NOT: it stays, as a
   heap is held by another thread just now; NO_SHARE: as that heap has no share of the allocator
   (ts_orphans_make_share). Caller: the block's thread, not inside its heap, with the epoch's lock, which keeps the
   epoch ACTIVE. */
ts_given_up ts_block_give_up(ts_heap *heap, ts_block *block);
/* After blocks were given up: what others had freed in them before. Holds nothing. */
void ts_orphans_pass_on(ts_heap *heap);
/* Makes that share, if there is none. false: no memory, or the allocator has ended. Holds nothing. */
bool ts_orphans_make_share(const ts_heap *heap, ts_allocator *allocator);

#endif
