#include "region/lines.h"

#include "base/atomic.h"
#include "base/bits.h"
#include "base/lock.h"

#include <string.h>

#define GROW_BYTES ((size_t)256 << 10)

/* Guarded by lock. The first block taken is at line 0: see ts_heap_init. */
static ts_lock lock;
static size_t used_bytes;
static size_t accessible_bytes;
static void *free_list[TS_LINES_KINDS];

void ts_lines_init(void) {
    ts_lock_init(&lock, TS_RANK_TABLE);
    used_bytes = 0;
    accessible_bytes = 0;
    memset(free_list, 0, sizeof free_list);
}

/* Growth happens once per 256 KiB of metadata, under the lock: who waits for it needs it as well. The call
   only changes page protection; it does not touch pages. */
static bool make_accessible(size_t end) {
    size_t limit = (size_t)ts_region.line_limit * TS_CACHE_LINE;
    if (end <= accessible_bytes) return true;
    if (end > limit) return false;
    size_t to = ts_align_up(end, GROW_BYTES);
    if (to > limit) to = limit;
    if (!ts_region_commit_metadata(ts_region.lines + accessible_bytes, to - accessible_bytes)) return false;
    ts_region_count_metadata(to - accessible_bytes);
    accessible_bytes = to;
    return true;
}

static char *extend(size_t size, size_t align) {
    size_t at = ts_align_up(used_bytes, align); /* the lines begin on 64 KiB */
    if (!make_accessible(at + size)) return NULL;
    used_bytes = at + size;
    return ts_region.lines + at;
}

/* Blocks are cleared and linked by atomic stores: a free of any address at all reads a UNIT word without order, and then the key
   of the block that it leads to (ts_fast_free), however new that is. The key is found by way of the word, so it is not older
   than the word where addresses that depend on a load come after it. */
typedef _Atomic uint64_t TS_MAY_ALIAS line_word;
typedef _Atomic(void *) TS_MAY_ALIAS line_link;

static void clear(void *record, size_t size) {
    line_word *words = record;
    for (size_t i = 0; i < size / sizeof *words; i++) ts_store_relaxed(&words[i], 0);
}

static void push(ts_line_kind kind, void *record) {
    ts_store_relaxed((line_link *)record, free_list[kind]);
    free_list[kind] = record;
}

/*
 * A chunk of scope blocks behind a key that matches nothing. None at its end, which is for a magazine: the end of a page is where
 * linkers put the offset table (.got) of a library and of a program, of which every call loads an entry or two. Such a load, and the
 * store to a bump pointer of the call before, in the same place of another page, are taken for the same address by processors that
 * compare the low 12 bits first. On Zen 5 that costs an allocation an eighth of its time when it goes well, and one process of five
 * takes 1.7 or 2.7 times as long as without, for good (docs/architecture.md).
 */
static void extend_scope_blocks(size_t size) {
    char *chunk = extend(TS_LINES_CHUNK, TS_LINES_CHUNK);
    if (!chunk) return;
    ts_store_relaxed((_Atomic uint64_t *)(void *)chunk, UINT64_MAX);
    push(TS_LINES_MAGAZINE, chunk + TS_LINES_CHUNK - TS_LINES_MAGAZINE_BYTES);
    for (size_t at = TS_CACHE_LINE; at + size <= TS_LINES_CHUNK - TS_LINES_MAGAZINE_BYTES; at += size)
        push(TS_LINES_SCOPE_BLOCK, chunk + at);
}

/* A chunk of its own; the rest of it is for magazines. */
static char *extend_churn_block(size_t size) {
    char *chunk = extend(TS_LINES_CHUNK, TS_LINES_CHUNK);
    if (!chunk) return NULL;
    for (size_t at = TS_LINES_CHUNK; at >= size + TS_LINES_MAGAZINE_BYTES;) {
        at -= TS_LINES_MAGAZINE_BYTES;
        push(TS_LINES_MAGAZINE, chunk + at);
    }
    return chunk;
}

void *ts_lines_take(ts_line_kind kind, size_t bytes) {
    size_t size = ts_align_up(bytes, TS_CACHE_LINE);
    ts_lock_acquire(&lock);
    if (kind == TS_LINES_SCOPE_BLOCK && !free_list[kind]) extend_scope_blocks(size);
    void *record = free_list[kind];
    if (record)
        free_list[kind] = ts_load_relaxed((line_link *)record);
    else if (kind == TS_LINES_CHURN_BLOCK)
        record = extend_churn_block(size);
    else if (kind != TS_LINES_SCOPE_BLOCK)
        record = extend(size, TS_CACHE_LINE);
    ts_lock_release(&lock);
    if (record) clear(record, size);
    return record;
}

void ts_lines_give(ts_line_kind kind, void *record) {
    ts_lock_acquire(&lock);
    push(kind, record);
    ts_lock_release(&lock);
}

uint32_t ts_lines_used(void) {
    ts_lock_acquire(&lock);
    size_t used = used_bytes;
    ts_lock_release(&lock);
    return (uint32_t)(used / TS_CACHE_LINE);
}

static const char *walk_locked(ts_lines_visit *visit, void *arg) {
    for (unsigned kind = 0; kind < TS_LINES_KINDS; kind++) {
        size_t left = used_bytes / TS_CACHE_LINE;
        for (const char *record = free_list[kind]; record; memcpy(&record, record, sizeof(void *))) {
            size_t at = (size_t)(record - ts_region.lines);
            if (record < ts_region.lines || at >= used_bytes || at % TS_CACHE_LINE != 0)
                return "lines: a free list leads out of the lines";
            if (left-- == 0) return "lines: a free list is a circle";
            if (!visit(arg, (ts_line_kind)kind, record)) return "lines: a free record";
        }
    }
    return NULL;
}

const char *ts_lines_walk(ts_lines_visit *visit, void *arg) {
    ts_lock_acquire(&lock);
    const char *fault = walk_locked(visit, arg);
    ts_lock_release(&lock);
    return fault;
}

void ts_lines_fork_prepare(void) { ts_lock_acquire_for_fork(&lock); }
void ts_lines_fork_done(void) { ts_lock_release_for_fork(&lock); }
