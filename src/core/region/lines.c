/*
 * Lines: the memory of records.
 *
 * What could go wrong: a thread frees a pointer of any value at all, and reads a record while another thread makes it
 * anew. It does no harm. Records of a kind stay records of that kind, and blocks are cleared by atomic stores
 * (clear_record). Such a read finds the old block, or one that is open to no operation.
 */
#include "region/region.h"

#include "base/base.h"
#include "os/os.h"
#include "region/chunk.h"

#include <string.h>

#define GROW_BYTES ((size_t)256 << 10)

/* The lock guards all of these. The first block taken is at line 0: see ts_heap_init. */
static ts_lock lock;
static size_t used_bytes;
static _Atomic size_t accessible_bytes; /* read by any thread */
void *ts_lines_free[TS_LINES_KINDS];
uint32_t ts_some_magazines;
ts_chunk_pool ts_magazine_pool;

void ts_lines_init(void) {
    ts_lock_init(&lock, TS_RANK_TABLE);
    used_bytes = 0;
    ts_store_relaxed(&accessible_bytes, 0);
    memset(ts_lines_free, 0, sizeof ts_lines_free);
    ts_some_magazines = 0;
    ts_chunk_pool_init(&ts_magazine_pool, &lock);
}

/* The lines grow by 256 KiB at a time, under the lock: a thread that waits for it needs a record as well. The system
   call only changes page protection, and touches no page. */
static bool make_accessible(size_t end) {
    size_t limit = (size_t)ts_region.line_limit * TS_CACHE_LINE, from = ts_load_relaxed(&accessible_bytes);
    if (end <= from) return true;
    if (end > limit) return false;
    size_t to = ts_align_up(end, GROW_BYTES);
    if (to > limit) to = limit;
    size_t bytes = to - from, notes = bytes / TS_LINES_CHUNK * TS_CHUNK_NOTE_BYTES;
    if (!ts_region_commit_metadata(ts_chunk_note_of((uint32_t)(from / TS_LINES_CHUNK)), notes)) return false;
    if (!ts_region_commit_metadata(ts_region.lines + from, bytes)) return false;
    ts_region_count_metadata(bytes + notes);
    ts_store_release(&accessible_bytes, to); /* release: partner of ts_lines_accessible */
    return true;
}

void ts_lines_shrink(size_t bytes) {
    ts_lock_acquire(&lock);
    size_t limit = (size_t)ts_region.line_limit * TS_CACHE_LINE, accessible = ts_load_relaxed(&accessible_bytes);
    if (bytes < accessible) bytes = accessible;
    bytes = ts_align_up(bytes, GROW_BYTES);
    if (bytes < limit) {
        size_t note = TS_CHUNK_NOTE_BYTES;
        ts_region.line_limit = (uint32_t)(bytes / TS_CACHE_LINE);
        ts_region_release_tail(ts_region.lines, bytes, limit);
        ts_region_release_tail(ts_region.chunk, bytes / TS_LINES_CHUNK * note, limit / TS_LINES_CHUNK * note);
    }
    ts_lock_release(&lock);
}

static char *extend_lines(size_t size, size_t align) {
    size_t at = ts_align_up(used_bytes, align); /* the lines begin on 64 KiB */
    if (!make_accessible(at + size)) return NULL;
    used_bytes = at + size;
    return ts_region.lines + at;
}

/* Blocks are cleared and linked by atomic stores. A free of any address at all reads a UNIT word without order, and
   then the key of the block that the word leads to (ts_fast_free). That block may be as new as can be. The key's
   address depends on the word. Where such a load comes after the one that it depends on, the key is not older than
   the word. */
typedef _Atomic uint64_t TS_MAY_ALIAS line_word;
typedef _Atomic(void *) TS_MAY_ALIAS line_link;

static void clear_record(void *record, size_t size) {
    line_word *words = record;
    for (size_t i = 0; i < size / sizeof *words; i++) ts_store_relaxed(&words[i], 0);
}

static void push_record(ts_line_kind kind, void *record) {
    ts_store_relaxed((line_link *)record, ts_lines_free[kind]);
    ts_lines_free[kind] = record;
}

/* ---- magazines: a bit in the note of the chunk for each free one ------------------------------------------------- */

static unsigned magazine_number(const void *magazine) {
    return (unsigned)(((uintptr_t)magazine % TS_LINES_CHUNK - TS_FIRST_MAGAZINE) / TS_LINES_MAGAZINE_BYTES);
}

static void link_some(uint32_t chunk) {
    ts_chunk_note *note = ts_chunk_note_of(chunk);
    note->prev = 0;
    note->next = ts_some_magazines;
    if (ts_some_magazines) ts_chunk_note_of(ts_some_magazines)->prev = chunk;
    ts_some_magazines = chunk;
}

static void unlink_some(uint32_t chunk) {
    const ts_chunk_note *note = ts_chunk_note_of(chunk);
    if (note->prev)
        ts_chunk_note_of(note->prev)->next = note->next;
    else
        ts_some_magazines = note->next;
    if (note->next) ts_chunk_note_of(note->next)->prev = note->prev;
}

/* Takes from a chunk in which other magazines are in use, if there is one: so other chunks stay wholly free. */
static void *take_magazine(void) {
    uint32_t chunk = ts_some_magazines;
    bool bare;
    if (chunk) {
        unlink_some(chunk);
    } else if ((chunk = ts_chunk_take(&ts_magazine_pool, &bare)) == 0) {
        const char *at = extend_lines(TS_LINES_CHUNK, TS_LINES_CHUNK);
        if (!at) return NULL;
        chunk = ts_chunk_of(at);
        ts_chunk_note_of(chunk)->kept = TS_MAGAZINES_ALL;
    }
    ts_assert(2, chunk != 0);
    uint32_t *left = &ts_chunk_note_of(chunk)->kept, which = ts_ctz64(*left);
    *left &= *left - 1;
    if (*left) link_some(chunk);
    return ts_magazine_at(chunk, which);
}

static void give_magazine(const void *magazine) {
    uint32_t chunk = ts_chunk_of(magazine), *left = &ts_chunk_note_of(chunk)->kept;
    if (*left) unlink_some(chunk);
    *left |= (uint32_t)1 << magazine_number(magazine);
    if (*left == TS_MAGAZINES_ALL)
        ts_chunk_give(&ts_magazine_pool, chunk);
    else
        link_some(chunk);
}

/*
 * A chunk of scope blocks begins with a key that matches nothing, and ends with a magazine. No scope block lies at
 * the end of a page, because linkers put the offset table (.got) of libraries and programs there. Every call loads
 * from that table. The call before stored to a bump pointer. If both have one offset in their pages, processors that
 * compare the low 12 bits first take them for one address. On Zen 5 that costs an allocation an eighth of its time,
 * and one process in five far more (docs/decisions.md).
 */
static void extend_scope_blocks(size_t size) {
    char *chunk = extend_lines(TS_LINES_CHUNK, TS_LINES_CHUNK);
    if (!chunk) return;
    ts_store_relaxed((_Atomic uint64_t *)(void *)chunk, UINT64_MAX);
    give_magazine(chunk + TS_LINES_CHUNK -
                  TS_LINES_MAGAZINE_BYTES); /* the other magazines of this chunk are never free */
    for (size_t at = TS_CACHE_LINE; at + size <= TS_LINES_CHUNK - TS_LINES_MAGAZINE_BYTES; at += size)
        push_record(TS_LINES_SCOPE_BLOCK, chunk + at);
}

void *ts_lines_take(ts_line_kind kind, size_t bytes) {
    size_t size = ts_align_up(bytes, TS_CACHE_LINE);
    ts_lock_acquire(&lock);
    if (kind == TS_LINES_SCOPE_BLOCK && !ts_lines_free[kind]) extend_scope_blocks(size);
    void *record = ts_lines_free[kind];
    if (record)
        ts_lines_free[kind] = ts_load_relaxed((line_link *)record);
    else if (kind == TS_LINES_CHURN_BLOCK)
        record = extend_lines(TS_LINES_CHUNK, TS_LINES_CHUNK);
    else if (kind == TS_LINES_MAGAZINE)
        record = take_magazine();
    else if (kind != TS_LINES_SCOPE_BLOCK)
        record = extend_lines(size, TS_CACHE_LINE);
    ts_lock_release(&lock);
    if (record) clear_record(record, size);
    return record;
}

void ts_lines_give(ts_line_kind kind, void *record) {
    ts_assert(2, kind != TS_LINES_CHURN_BLOCK);
    ts_lock_acquire(&lock);
    if (kind == TS_LINES_MAGAZINE)
        give_magazine(record);
    else
        push_record(kind, record);
    ts_lock_release(&lock);
}

size_t ts_lines_accessible(void) { return ts_load_acquire(&accessible_bytes); }

uint32_t ts_lines_used(void) {
    ts_lock_acquire(&lock);
    size_t used = used_bytes;
    ts_lock_release(&lock);
    return (uint32_t)(used / TS_CACHE_LINE);
}

void ts_lines_for_locks(ts_lock_fn *fn) { fn(&lock); }
