#include "region/chunk.h"

#include "os/os.h"

#define RUN_CHUNKS 8u /* 32 KiB: the most that a thread gives back for each chunk that it frees */

void ts_chunk_pool_init(ts_chunk_pool *pool, ts_lock *lock) {
    pool->lock = lock;
    pool->first = 0;
    ts_store_relaxed(&pool->count, 0);
    ts_store_relaxed(&pool->bare, 0);
}

void ts_chunk_give(ts_chunk_pool *pool, uint32_t chunk) {
    ts_chunk_note_of(chunk)->next = pool->first;
    pool->first = chunk;
    ts_store_relaxed(&pool->count, ts_load_relaxed(&pool->count) + 1);
}

uint32_t ts_chunk_take(ts_chunk_pool *pool, bool *bare) {
    uint32_t chunk = pool->first;
    *bare = chunk == 0;
    if (chunk) {
        pool->first = ts_chunk_note_of(chunk)->next;
        ts_store_relaxed(&pool->count, ts_load_relaxed(&pool->count) - 1);
        return chunk;
    }
    chunk = ts_load_relaxed(&pool->bare);
    if (chunk) ts_store_relaxed(&pool->bare, ts_chunk_note_of(chunk)->next);
    return chunk;
}

/* Takes the first chunks of the list that lie side by side. Returns how many; *from is the lowest. */
static uint32_t take_run(ts_chunk_pool *pool, uint32_t keep, uint32_t *from) {
    uint32_t count = 0, have = ts_load_relaxed(&pool->count);
    for (; count < RUN_CHUNKS && have > keep; count++, have--) {
        uint32_t chunk = pool->first;
        if (count > 0 && chunk + 1 != *from && chunk != *from + count) break;
        if (count == 0 || chunk < *from) *from = chunk;
        pool->first = ts_chunk_note_of(chunk)->next;
    }
    ts_store_relaxed(&pool->count, have);
    return count;
}

static void give_bare(ts_chunk_pool *pool, uint32_t chunk) {
    ts_chunk_note_of(chunk)->next = ts_load_relaxed(&pool->bare);
    ts_store_relaxed(&pool->bare, chunk);
}

/* While the system is asked the chunks are on no list, so no thread takes them. A fork at that moment loses them in its
   child. */
void ts_chunk_purge(ts_chunk_pool *pool, uint32_t keep, uint32_t calls) {
    bool done = ts_os_page_bytes() <= TS_LINES_CHUNK;
    uint32_t most = ts_load_relaxed(&pool->count); /* a bound: other threads may add more meanwhile */
    for (calls = calls < most ? calls : most; done && calls > 0; calls--) {
        uint32_t from = 0;
        ts_lock_acquire(pool->lock);
        uint32_t count = take_run(pool, keep, &from);
        ts_lock_release(pool->lock);
        if (count == 0) return;
        done = ts_os->purge(ts_chunk_address(from), (size_t)count * TS_LINES_CHUNK);
        ts_lock_acquire(pool->lock);
        for (uint32_t chunk = from; chunk < from + count; chunk++) (done ? give_bare : ts_chunk_give)(pool, chunk);
        ts_lock_release(pool->lock);
    }
}
