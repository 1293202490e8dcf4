#include "walk/check_lines.h"

#include "base/base.h"
#include "ownership/ownership.h"

#include <string.h>

/* Caller has the lock. */
static const char *walk_pool(const ts_chunk_pool *pool, ts_chunk_visit *visit, void *arg) {
    uint32_t all = ts_region.line_limit / (TS_LINES_CHUNK / TS_CACHE_LINE), found = 0;
    for (unsigned bare = 0; bare < 2; bare++)
        for (uint32_t chunk = bare ? ts_load_relaxed(&pool->bare) : pool->first; chunk;
             chunk = ts_chunk_note_of(chunk)->next) {
            if (chunk >= all) return "chunks: a list leads out of the lines";
            if (found++ == all) return "chunks: a list is a circle";
            if (!visit(arg, chunk, bare)) return "chunks: one of a pool";
            if (!bare && found > ts_load_relaxed(&pool->count)) return "chunks: a pool has more than it counts";
        }
    return NULL;
}

typedef struct walk_state {
    ts_lines_visit *visit;
    void *arg;
} walk_state;

static bool walk_magazines(void *arg, uint32_t chunk, bool bare) {
    const walk_state *w = arg;
    (void)bare;
    for (uint32_t left = ts_chunk_note_of(chunk)->kept; left; left &= left - 1)
        if (!w->visit(w->arg, TS_LINES_MAGAZINE, ts_magazine_at(chunk, ts_ctz64(left)))) return false;
    return true;
}

static bool walk_whole_chunk(void *arg, uint32_t chunk, bool bare) {
    return ts_chunk_note_of(chunk)->kept == TS_MAGAZINES_ALL && walk_magazines(arg, chunk, bare);
}

static const char *walk_all_magazines(size_t used_bytes, ts_lines_visit *visit, void *arg) {
    walk_state w = {visit, arg};
    size_t left = used_bytes / TS_LINES_CHUNK;
    uint32_t before = 0;
    for (uint32_t chunk = ts_some_magazines; chunk; before = chunk, chunk = ts_chunk_note_of(chunk)->next) {
        const ts_chunk_note *note = ts_chunk_note_of(chunk);
        if (left-- == 0 || note->prev != before) return "lines: the list of chunks with magazines is broken";
        if (note->kept == 0 || note->kept >= TS_MAGAZINES_ALL)
            return "lines: a chunk with magazines is in the wrong list";
        if (!walk_magazines(&w, chunk, false)) return "lines: a free magazine";
    }
    return walk_pool(&ts_magazine_pool, walk_whole_chunk, &w);
}

static const char *walk_locked(size_t used_bytes, ts_lines_visit *visit, void *arg) {
    for (unsigned kind = 0; kind < TS_LINES_KINDS; kind++) {
        size_t left = used_bytes / TS_CACHE_LINE;
        for (const char *record = ts_lines_free[kind]; record; memcpy(&record, record, sizeof(void *))) {
            size_t at = (size_t)(record - ts_region.lines);
            if (record < ts_region.lines || at >= used_bytes || at % TS_CACHE_LINE != 0)
                return "lines: a free list leads out of the lines";
            if (left-- == 0) return "lines: a free list is a circle";
            if (!visit(arg, (ts_line_kind)kind, record)) return "lines: a free record";
        }
    }
    return walk_all_magazines(used_bytes, visit, arg);
}

const char *ts_lines_walk(ts_lines_visit *visit, void *arg) {
    size_t used_bytes = (size_t)ts_lines_used() * TS_CACHE_LINE;
    ts_lock_acquire(ts_magazine_pool.lock);
    const char *fault = walk_locked(used_bytes, visit, arg);
    ts_lock_release(ts_magazine_pool.lock);
    return fault;
}

const char *ts_block_pool_walk(ts_chunk_visit *visit, void *arg) {
    ts_lock_acquire(ts_churn_pool.lock);
    const char *fault = walk_pool(&ts_churn_pool, visit, arg);
    ts_lock_release(ts_churn_pool.lock);
    return fault;
}
