/* Pages without an object, in slabs that are in use: a slab goes back whole or not at all, but for these. */
#ifndef TS_CACHE_HOLLOW_H
#define TS_CACHE_HOLLOW_H

#include "supply/allocator.h"

/* Gives such pages of the calling thread's churn slabs of 64 bytes and more back to the system. Caller: holds
   nothing, and has just let go of what its magazines keep; settles afterwards. Not where pages have more than 4 KiB,
   nor under care, which looks at free memory. */
void ts_hollow_give(ts_heap *heap, ts_allocator *allocator);

/* Of a slab with that UNIT word, which has no flags, of a block that is closed and flushed: the pages in which no live
   object lies. Any thread, holding nothing: it is so until the word is another. */
unsigned ts_hollow_closed_pages(uint32_t unit, uint64_t word);
/* Gives them back, if the word still is that. false: the system refuses. By the thread of the heap, holding nothing;
   settles afterwards. */
bool ts_hollow_give_closed(ts_heap *heap, ts_allocator *allocator, uint32_t unit, uint64_t word, unsigned pages);

#endif
