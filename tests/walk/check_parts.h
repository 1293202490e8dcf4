/*
 * Common to the files of the deep walk: check.c, which walks the region, the tables and the allocators and adds
 * everything up, check_heaps.c and check_epochs.c.
 */
#ifndef TS_WALK_CHECK_PARTS_H
#define TS_WALK_CHECK_PARTS_H

#include "walk/check.h"
#include "walk/check_require.h"

static inline bool ts_check_in_lines(const void *p) {
    return (const char *)p >= ts_region.lines && (size_t)((const char *)p - ts_region.lines) < ts_lines_accessible();
}

/* All heaps: their threads, their queues, and by ts_check_heap the blocks that they own. */
bool ts_check_heaps(ts_check *check, bool forked);
/* All epochs with their spans and spills. Adds the blocks in their lists to *blocks, those of lost heaps left out. */
bool ts_check_epochs(ts_check *check, bool forked, uint64_t *blocks);
/* Every block that a heap has in use is in the list of its epoch, or dead. (Of a heap that is lost in a fork perhaps
   not.) */
bool ts_check_blocks_listed(ts_check *check, uint64_t listed);
/* All domains, with their cleanups and kin. */
bool ts_check_domains(ts_check *check, bool forked);

#endif
