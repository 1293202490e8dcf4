/* Walks of the free records in the lines (region/lines.h). Each returns the invariant that does not hold, or NULL. */
#ifndef TS_WALK_CHECK_LINES_H
#define TS_WALK_CHECK_LINES_H

#include "region/region.h"

/* Shows each free record to visit (false ends the walk). Caller: no other thread takes new lines meanwhile. */
typedef bool ts_lines_visit(void *arg, ts_line_kind kind, const void *record);
const char *ts_lines_walk(ts_lines_visit *visit, void *arg);
/* Shows each churn block that nobody has. bare: it has no memory. */
typedef bool ts_chunk_visit(void *arg, uint32_t chunk, bool bare);
const char *ts_block_pool_walk(ts_chunk_visit *visit, void *arg);

#endif
