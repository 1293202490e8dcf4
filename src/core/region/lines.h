/*
 * Lines: records that are addressed by a 28-bit line number. A line has 64 bytes. Heaps, shares, blocks with their
 * bins, magazines and cleanup records lie here.
 *
 * Memory of one kind of record stays of that kind for ever. So a reader with an old pointer still reads a record of
 * that kind. The memory of free churn blocks and free magazines may go back to the system; it reads as zero then
 * (chunk.h).
 */
#ifndef TS_REGION_LINES_H
#define TS_REGION_LINES_H

#include "base/base.h"
#include "os/os.h"
#include "region/region.h"

/* The line in a UNIT word lies in a chunk of this size. The chunk begins with a key (ownership/heap.c): that of a churn
   block, or a key that matches nothing. So a fast free may read the key before it knows what lies in the chunk. A churn
   block has its chunk alone. Magazines share chunks with one another. */
#define TS_LINES_CHUNK 4096u
#define TS_LINES_MAGAZINE_BYTES (64u * sizeof(void *))

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
/* Takes a zeroed record, aligned to a chunk for TS_LINES_CHURN_BLOCK, else to 64 bytes. NULL: no memory. All calls
   with one kind give one value of bytes; for magazines it is TS_LINES_MAGAZINE_BYTES. A churn block is not given back
   here. */
void *ts_lines_take(ts_line_kind kind, size_t bytes);
/* Gives a record back. Its first 8 bytes become the link of the free list. */
void ts_lines_give(ts_line_kind kind, void *record);
/* Free records by kind, and chunks in which some magazines are free, linked both ways. Guarded by the lines' lock. */
extern TS_HIDDEN void *ts_lines_free[TS_LINES_KINDS];
extern TS_HIDDEN uint32_t ts_some_magazines;
/* Chunks in which every magazine is free. Its lock is the lines' lock. */
struct ts_chunk_pool;
extern TS_HIDDEN struct ts_chunk_pool ts_magazine_pool;

static inline uint32_t ts_line_of(const void *p) {
    return (uint32_t)((size_t)((const char *)p - ts_region.lines) / TS_CACHE_LINE);
}
TS_ALWAYS_INLINE void *ts_line_address(uint64_t line) { return ts_region.lines + line * TS_CACHE_LINE; }

/* Accessible bytes of the lines; only rises. Takes no lock. */
size_t ts_lines_accessible(void);
/* Limits the lines to this many bytes, or to the accessible ones. The rest of their address space goes back. */
void ts_lines_shrink(size_t bytes);
/* Lines ever taken. For checks. */
uint32_t ts_lines_used(void);
void ts_lines_for_locks(ts_lock_fn *fn);

#endif
