/* Pages without an object, in slabs that are in use: a slab goes back whole or not at all, but for these. */
#ifndef TS_HEAP_HOLLOW_H
#define TS_HEAP_HOLLOW_H

#include "heap/allocator.h"

/* Gives such pages of the calling thread's churn slabs of 64 bytes and more back to the system. Caller: holds nothing, and has just
   let go of what its magazines keep; settles afterwards. Not where pages have more than 4 KiB, nor under care, which looks at free memory. */
void ts_hollow_give(ts_heap *heap, ts_allocator *allocator);

#endif
