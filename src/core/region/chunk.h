/*
 * Chunks of the lines that nobody has (lines.h). So many keep their memory; the others give it back, read as zero then, and are taken
 * last. What must not be forgotten of a chunk, or is wanted of one that is not looked at, is in its note, which lies elsewhere.
 * Chunk 0 means none: it is in no pool.
 */
#ifndef TS_REGION_CHUNK_H
#define TS_REGION_CHUNK_H

#include "base/lock.h"
#include "region/lines.h"

typedef struct ts_chunk_note {
    uint32_t next, prev; /* in a list of chunks; a pool has no prev */
    uint32_t kept;       /* whatever the user of the chunk wants to find again: an era, which magazines are free */
} ts_chunk_note;
_Static_assert(sizeof(ts_chunk_note) == TS_CHUNK_NOTE_BYTES, "what region.c makes room for");

static inline uint32_t ts_chunk_of(const void *p) { return ts_line_of(p) / (TS_LINES_CHUNK / TS_CACHE_LINE); }
static inline void *ts_chunk_address(uint32_t chunk) { return ts_region.lines + (size_t)chunk * TS_LINES_CHUNK; }
static inline ts_chunk_note *ts_chunk_note_of(uint32_t chunk) {
    return (ts_chunk_note *)(void *)(ts_region.chunk + (size_t)chunk * TS_CHUNK_NOTE_BYTES);
}

typedef struct ts_chunk_pool {
    ts_lock *lock;          /* of who uses it, also for its own lists; guards the rest */
    uint32_t first;         /* with memory */
    _Atomic uint32_t count; /* of them; a hint to others, as the next */
    _Atomic uint32_t bare;  /* first without memory */
} ts_chunk_pool;

void ts_chunk_pool_init(ts_chunk_pool *pool, ts_lock *lock);
/* Whether there is any. A hint. */
static inline bool ts_chunk_pool_has(const ts_chunk_pool *pool) {
    return (ts_load_relaxed(&pool->count) | ts_load_relaxed(&pool->bare)) != 0;
}
/* Caller has the lock. */
void ts_chunk_give(ts_chunk_pool *pool, uint32_t chunk);
/* Likewise. Those without memory last: *bare, all of it is zero. 0: there is none. */
uint32_t ts_chunk_take(ts_chunk_pool *pool, bool *bare);
/* All but `keep` of those with memory give it back, by `calls` calls of the system at most, of 32 KiB each at most: neighbours that
   come one after the other in the list go together. Not where pages are larger than a chunk. Caller holds nothing. */
void ts_chunk_purge(ts_chunk_pool *pool, uint32_t keep, uint32_t calls);
/* Shows each to visit (false ends the walk). What does not hold, or NULL. For checks: caller has the lock. */
typedef bool ts_chunk_visit(void *arg, uint32_t chunk, bool bare);
const char *ts_chunk_pool_walk(const ts_chunk_pool *pool, ts_chunk_visit *visit, void *arg);

#endif
