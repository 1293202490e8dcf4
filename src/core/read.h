/* What src/observe reads of the core. */
#ifndef TS_READ_H
#define TS_READ_H

#include "base/base.h"
#include "supply/allocator.h"

#include <tslab/tslab.h>

#include <errno.h>

static inline uintptr_t ts_token(const SlabAllocator *allocator) { return (uintptr_t)allocator; }
static inline SlabAllocator *ts_public(uintptr_t token) { return (SlabAllocator *)token; }


/* NULL: there is none such; errno is EINVAL. */
static inline ts_allocator *ts_api_find(const SlabAllocator *allocator) {
    ts_allocator *a = ts_allocator_find(ts_token(allocator));
    return a ? a : ts_fail_null(EINVAL);
}

#endif
