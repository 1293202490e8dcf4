/*
 * Lines: metadata that is addressed by a 28-bit line number (64 bytes each): heaps, shares, blocks with their bins,
 * magazines, cleanup records. Memory of one kind stays of that kind for ever, so that a reader with an old pointer still
 * reads a record of that kind. That of churn blocks and of magazines which nobody has may go back, and then reads as zero (chunk.h).
 */
#ifndef TS_REGION_LINES_H
#define TS_REGION_LINES_H

#include "base/attr.h"
#include "region/region.h"

/* What a UNIT word leads to lies in chunks of this size that begin with a key (heap.h): the key of a churn block, or
   one that matches nothing. So a fast free may look at the beginning of the chunk before it knows what is in it. A churn
   block has its chunk alone. Magazines share chunks with one another. */
#define TS_LINES_CHUNK 4096u
#define TS_LINES_MAGAZINE_BYTES (64u * (sizeof(void *) + 4u))

typedef enum ts_line_kind {
    TS_LINES_HEAP,
    TS_LINES_SHARE,
    TS_LINES_CHURN_BLOCK,
    TS_LINES_SCOPE_BLOCK,
    TS_LINES_MAGAZINE,
    TS_LINES_CLEANUP,
    TS_LINES_KIN,
    TS_LINES_ACCOUNT,
    TS_LINES_NODES,
    TS_LINES_PAST,
    TS_LINES_BRIEF,
    TS_LINES_KINDS
} ts_line_kind;

void ts_lines_init(void);
/* A zeroed record of the kind, aligned to a chunk for CHURN_BLOCK, else to 64 bytes. NULL: no memory. bytes must be the
   same at every call with that kind; TS_LINES_MAGAZINE_BYTES for a MAGAZINE. A CHURN_BLOCK does not come back here. */
void *ts_lines_take(ts_line_kind kind, size_t bytes);
/* Its first 8 bytes become the link of the free list. */
void ts_lines_give(ts_line_kind kind, void *record);
/* Chunks of magazines that are all free. */
struct ts_chunk_pool;
extern TS_HIDDEN struct ts_chunk_pool ts_magazine_pool;

static inline uint32_t ts_line_of(const void *p) {
    return (uint32_t)((size_t)((const char *)p - ts_region.lines) / TS_CACHE_LINE);
}
TS_ALWAYS_INLINE void *ts_line_address(uint64_t line) { return ts_region.lines + line * TS_CACHE_LINE; }

/* Bytes of the lines that are accessible: a mark that only rises. Takes no lock. */
size_t ts_lines_accessible(void);
/* So many bytes of lines, or those that are accessible, are all that there can be from now on. */
void ts_lines_shrink(size_t bytes);
/* Lines ever taken; and shows each free record to visit (false ends the walk). What does not hold, or NULL. For checks. */
uint32_t ts_lines_used(void);
typedef bool ts_lines_visit(void *arg, ts_line_kind kind, const void *record);
const char *ts_lines_walk(ts_lines_visit *visit, void *arg);

void ts_lines_fork_prepare(void);
void ts_lines_fork_done(void);

#endif
