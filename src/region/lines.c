#include "region/lines.h"

#include "base/assert.h"
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
    accessible_bytes = to;
    return true;
}

void *ts_lines_take(ts_line_kind kind, size_t bytes) {
    size_t size = ts_align_up(bytes, TS_CACHE_LINE);
    size_t align = kind == TS_LINES_CHURN_BLOCK ? (size_t)1 << ts_log2_64(2 * size - 1) : TS_CACHE_LINE;
    void *record = NULL;
    ts_lock_acquire(&lock);
    if (free_list[kind]) {
        record = free_list[kind];
        memcpy(&free_list[kind], record, sizeof(void *));
    } else {
        /* Alignment is of the line number's address; the lines begin on 64 KiB. */
        size_t at = ts_align_up(used_bytes, align);
        if (make_accessible(at + size)) {
            record = ts_region.lines + at;
            used_bytes = at + size;
        }
    }
    ts_lock_release(&lock);
    if (record) memset(record, 0, size);
    return record;
}

void ts_lines_give(ts_line_kind kind, void *record) {
    ts_lock_acquire(&lock);
    memcpy(record, &free_list[kind], sizeof(void *));
    free_list[kind] = record;
    ts_lock_release(&lock);
}

void ts_lines_fork_prepare(void) { ts_lock_acquire_for_fork(&lock); }
void ts_lines_fork_done(void) { ts_lock_release_for_fork(&lock); }
