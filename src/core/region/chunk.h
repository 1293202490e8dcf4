/*
 * Free chunks of the lines (lines.h), 4 KiB each. A pool keeps the memory of a number of them. The others are BARE:
 * their memory went back to the system, they read as zero, and they are taken last.
 * Each chunk has a note, which lies outside of it. The note has the links of the lists, and a value that must outlive
 * the chunk's memory. Chunk 0 means none: it is in no pool.
 */
#ifndef TS_REGION_CHUNK_H
#define TS_REGION_CHUNK_H

#include "os/os.h"
#include "region/lines.h"

typedef struct ts_chunk_note {
    uint32_t next, prev; /* links of a list of chunks; a pool uses no prev */
    uint32_t kept;       /* a value that the user of the chunk finds again: an era, or a bit for each free magazine */
} ts_chunk_note;
_Static_assert(sizeof(ts_chunk_note) == TS_CHUNK_NOTE_BYTES, "region.c makes room for it");

static inline uint32_t ts_chunk_of(const void *p) { return ts_line_of(p) / (TS_LINES_CHUNK / TS_CACHE_LINE); }
static inline void *ts_chunk_address(uint32_t chunk) { return ts_region.lines + (size_t)chunk * TS_LINES_CHUNK; }
static inline ts_chunk_note *ts_chunk_note_of(uint32_t chunk) {
    return (ts_chunk_note *)(void *)(ts_region.chunk + (size_t)chunk * TS_CHUNK_NOTE_BYTES);
}

/* A chunk of magazines. Its note has a bit for each free one. The last magazine ends with the chunk. */
#define TS_MAGAZINES (TS_LINES_CHUNK / TS_LINES_MAGAZINE_BYTES)
#define TS_MAGAZINES_ALL (((uint32_t)1 << TS_MAGAZINES) - 1)
#define TS_FIRST_MAGAZINE (TS_LINES_CHUNK - TS_MAGAZINES * TS_LINES_MAGAZINE_BYTES)
static inline char *ts_magazine_at(uint32_t chunk, unsigned which) {
    return (char *)ts_chunk_address(chunk) + TS_FIRST_MAGAZINE + which * TS_LINES_MAGAZINE_BYTES;
}

typedef struct ts_chunk_pool {
    ts_lock *lock;          /* belongs to the user of the pool; guards the other fields */
    uint32_t first;         /* first chunk with memory */
    _Atomic uint32_t count; /* chunks with memory; a hint to threads without the lock, as is `bare` */
    _Atomic uint32_t bare;  /* first chunk without memory */
} ts_chunk_pool;

void ts_chunk_pool_init(ts_chunk_pool *pool, ts_lock *lock);
/* Whether the pool has a chunk. A hint. */
static inline bool ts_chunk_pool_has(const ts_chunk_pool *pool) {
    return (ts_load_relaxed(&pool->count) | ts_load_relaxed(&pool->bare)) != 0;
}
/* Puts a chunk with memory into the pool. Caller has the lock. */
void ts_chunk_give(ts_chunk_pool *pool, uint32_t chunk);
/* Takes a chunk, a bare one only if there is no other. *bare: it reads as zero. 0: the pool is empty. Caller has the
   lock. */
uint32_t ts_chunk_take(ts_chunk_pool *pool, bool *bare);
/* Gives back the memory of all but `keep` chunks, with at most `calls` system calls of at most 32 KiB each.
   Neighbours that follow one another in the list go back together. Does nothing where pages are larger than a chunk.
   Caller holds no lock. */
void ts_chunk_purge(ts_chunk_pool *pool, uint32_t keep, uint32_t calls);

#endif
