#include "os/purge_probe.h"

#define PAGES 3u /* that of the middle is purged */

/* By the calls by which the region gets its memory: an emulator may tell mappings apart by these. A refusal is no lie. */
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

static bool refuse(void *at, size_t bytes) {
    (void)at, (void)bytes;
    return false;
}

static bool refuse_move(void *from, void *to, size_t bytes) {
    (void)from, (void)to, (void)bytes;
    return false;
}

/* An emulator that keeps what it was to purge (qemu-user) also takes what pages were moved from for free addresses, and maps others there. */
ts_purge_kind ts_os_probe_purge(ts_os_table *table) {
    if (!is_kept(table, table->purge)) return TS_PURGE_TRUE;
    table->move = refuse_move;
    bool anew = !is_kept(table, table->purge_anew);
    table->purge = anew ? table->purge_anew : refuse;
    return anew ? TS_PURGE_BY_MAPS : TS_PURGE_NEVER;
}
