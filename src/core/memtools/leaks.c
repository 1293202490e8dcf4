/*
 * The memory that a search for leaks sees: memcheck's, and LeakSanitizer's, which is in AddressSanitizer, too.
 *
 * LeakSanitizer looks for pointers in the memory that objects may have (ts_care_start), and knows nothing of the rest
 * of the region. Memcheck takes each page that can be read and written for a place where the program keeps pointers.
 * Two kinds of pages of the region are no such places:
 *
 *     lines      magazines and blocks know objects, also those that the program has forgotten
 *     objects    a lost object would keep the objects that it points to; memcheck follows pointers in live objects by
 *                itself, as it knows them one by one (memtools.h)
 *
 * So when the process ends these pages become read-only, and memcheck searches after that. A later write, in a
 * destructor or in a thread that goes on, meets the handler of the fault, which opens the region again for good.
 *
 * The program's own pointers in lines, the arguments of cleanups, are copied for both tools when the process ends.
 */
#define _GNU_SOURCE
#include "memtools/memtools.h"

#include "base/base.h"
#include "os/os.h"
#include "region/region.h"

#include <pthread.h>
#include <stdlib.h>

#define KEPT_BYTES ((size_t)1 << 20)

static void (*show)(void (*keep)(void *)); /* constant after ts_leaks_start */
static void **kept;                        /* [KEPT_BYTES] constant, too; the tool reads it */
static size_t kept_count;

static bool make_room(void) { return (kept = ts_os_map(KEPT_BYTES)) != NULL; }

static void keep(void *pointer) {
    if (kept_count < KEPT_BYTES / sizeof *kept) kept[kept_count++] = pointer;
}

/* ---- memcheck ---------------------------------------------------------------------------------------------------- */

#define MOST_NAPS 100000u /* five seconds and more */

static pthread_t ender; /* the thread that ends the process; constant while is_shut is 1 */
static _Atomic uint32_t is_shut;

/* Does this to the lines, and to all units that were ever handed out. (There is no FAR part where memcheck is.) */
static bool change_all(bool (*change)(void *at, size_t bytes)) {
    size_t page = ts_os_page_bytes(), lines = ts_align_up((size_t)ts_lines_used() * TS_CACHE_LINE, page);
    size_t units = ts_align_up(ts_pool_highest(TS_NORMAL) * TS_UNIT_BYTES, page);
    bool all = lines == 0 || change(ts_region.lines, lines);
    return change(ts_region.part[TS_NORMAL].base, units) && all;
}

static bool is_ours(const void *at) {
    const char *first = ts_region.part[TS_NORMAL].base;
    return (const char *)at >= first && (size_t)((const char *)at - first) < ts_load_relaxed(&ts_region.reserved_bytes);
}

/* The access is done again, also if another thread has just opened the region. valgrind does not promise the registers
   that it had: only SP, FP and IP. So a thread that goes on waits first, and mostly the process ends meanwhile. */
static bool open_again(const void *at) {
    static _Atomic bool given_up;
    if (!is_ours(at) || ts_load_relaxed(&given_up)) return false;
    bool waits = !pthread_equal(pthread_self(), ender);
    for (unsigned i = 0; waits && i < MOST_NAPS && ts_load_relaxed(&is_shut); i++) ts_nap();
    if (ts_exchange_seq(&is_shut, 0) && !change_all(ts_os->commit)) ts_store_relaxed(&given_up, true);
    return true;
}

TS_AT_END static void make_read_only(void) {
    if (!show || !ts_care_on_memcheck() || !make_room() || !ts_os_on_fault(open_again)) return;
    show(keep);
    ender = pthread_self();
    ts_store_relaxed(&is_shut, 1);
    (void)change_all(ts_os->freeze);
}

/* ---- LeakSanitizer ----------------------------------------------------------------------------------------------- */

static void copy_kept(void) { show(keep); }

/* It searches before destructors of libraries run. */
static void start_lsan(void) {
    if (!__lsan_register_root_region || !make_room()) return;
    __lsan_register_root_region(kept, KEPT_BYTES);
    (void)atexit(copy_kept);
}

void ts_leaks_start(void (*each)(void (*keep)(void *))) {
    show = each;
    start_lsan();
}
