/* What is due of an allocator, for who has the time: slab_maintain. */
#ifndef TS_CACHE_MAINTAIN_H
#define TS_CACHE_MAINTAIN_H

#include "supply/allocator.h"

/* Until `until` on the clock. Holds nothing; the record is pinned. */
void ts_allocator_maintain(ts_allocator *allocator, uint64_t until);

#endif
