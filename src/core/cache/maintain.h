/* Maintenance of an allocator, for slab_maintain and the option `background`. */
#ifndef TS_CACHE_MAINTAIN_H
#define TS_CACHE_MAINTAIN_H

#include "supply/allocator.h"

/* Works until `until` on the clock. Caller holds nothing, and has the record pinned. */
void ts_allocator_maintain(ts_allocator *allocator, uint64_t until);

#endif
