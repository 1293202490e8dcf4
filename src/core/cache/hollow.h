/* HOLLOW pages: slab pages without an object, in slabs that are in use. They can go back by themselves; other memory
   of a slab goes back with the whole slab. */
#ifndef TS_CACHE_HOLLOW_H
#define TS_CACHE_HOLLOW_H

#include "supply/allocator.h"

/* Gives the hollow pages of the calling thread's COARSE churn slabs back to the system. The caller holds nothing, and
   has just emptied its magazines; it settles afterwards. Does nothing where pages have more than 4 KiB, and under
   care, which looks at free memory. */
void ts_hollow_give(ts_heap *heap, ts_allocator *allocator);

/* The hollow pages of a slab of a closed and flushed block. word: its UNIT word, without flags. Any thread, holding
   nothing. The answer stays right until the word changes. */
unsigned ts_hollow_closed_pages(uint32_t unit, uint64_t word);
/* Gives these pages back, if the word has not changed. false: the system refuses. Caller is the thread of the heap,
   and holds nothing; it settles afterwards. */
bool ts_hollow_give_closed(ts_heap *heap, ts_allocator *allocator, uint32_t unit, uint64_t word, unsigned pages);

#endif
