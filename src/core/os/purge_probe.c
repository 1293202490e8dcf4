/*
 * Whether purge and move do what they promise. Emulators of user programs take madvise for a hint: they answer that
 * they took pages back, and keep the bytes. Then memory handed out as zero would not be zero, nor would the
 * allocator's own records. Such emulators also take a range from which pages were moved for a free one.
 */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include "os/os.h"

#include <errno.h>
#include <sys/mman.h>

#define PAGES 3u /* the one in the middle is purged */

/* Gets its memory by the calls of the region, because emulators may tell mappings apart by these. A refused purge is
   true. */
static bool is_kept(const ts_os_table *table, bool (*purge)(void *at, size_t bytes)) {
    size_t page = table->page_bytes(), bytes = PAGES * page;
    volatile char *at = table->reserve(bytes);
    bool kept = false;
    if (!at) return false;
    if (table->commit((void *)(uintptr_t)at, bytes)) {
        volatile char *first = at + page, *last = at + 2 * page - 1;
        *first = *last = 1;
        kept = purge((void *)(uintptr_t)first, page) && (*first != 0 || *last != 0);
    }
    table->release((void *)(uintptr_t)at, bytes);
    return kept;
}

static bool refuse_purge(void *at, size_t bytes) {
    (void)at, (void)bytes;
    return false;
}

static bool refuse_move(void *from, void *to, size_t bytes) {
    (void)from, (void)to, (void)bytes;
    return false;
}

/* Whether a range is lost to the process after its pages were moved away. qemu-user takes it so: it maps other things
   there, and forbids touching it. So this function asks the system, and does not touch the range. */
static bool is_lost_by_move(const ts_os_table *table) {
    size_t page = table->page_bytes();
    unsigned char there;
    char *at = table->reserve(2 * page);
    bool lost = false;
    if (!at) return false;
    if (table->commit(at, 2 * page)) {
        *at = at[page] = 1;
        lost = table->move(at, at + page, page) && mincore((void *)at, 1, (void *)&there) != 0 && errno == ENOMEM;
    }
    table->release(at, 2 * page);
    return lost;
}

ts_purge_kind ts_os_probe_purge(ts_os_table *table) {
    int before = errno;
    if (is_lost_by_move(table)) table->move = refuse_move;
    errno = before;
    if (!is_kept(table, table->purge)) return TS_PURGE_TRUE;
    table->move = refuse_move;
    bool anew = !is_kept(table, table->purge_anew);
    table->purge = anew ? table->purge_anew : refuse_purge;
    return anew ? TS_PURGE_BY_MAPS : TS_PURGE_NEVER;
}
