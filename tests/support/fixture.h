/* The allocator of a test. At the test's end its memory is gone, and the library uses the system's own functions. */
#ifndef SUP_FIXTURE_H
#define SUP_FIXTURE_H

#include "unit.h"

#include "os/os.h"
#include "region/region.h"
#include "walk/check_pool.h"

static SlabAllocator *allocator;

static inline int start_plain(void **state) {
    (void)state;
    allocator = slab_allocator_create();
    return allocator == NULL;
}

static inline int stop(void **state) {
    (void)state;
    slab_allocator_free(allocator);
    ts_os = &ts_os_native;
    return ts_pool_used_units() != 0;
}

#endif
