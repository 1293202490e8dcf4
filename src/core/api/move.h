/* Realloc of the calling thread's own object to another place, by the fast paths. */
#ifndef TS_API_MOVE_H
#define TS_API_MOVE_H

#include <tslab/tslab.h>

#include <stdbool.h>
#include <stddef.h>

/* p: live in an open churn block of the calling thread's own a moment ago, with so many bytes (ts_fast_own_bytes), too
   few or too many for `size`. true: *q is the answer of realloc: where it is now, in the same epoch, with errno as
   before; NULL with errno: no memory, and it is where it was. A smaller one for which there is no memory stays. false:
   it is another case, and nothing was done. */
bool ts_move_own(SlabAllocator *allocator, void *p, size_t bytes, size_t size, void **q);

#endif
