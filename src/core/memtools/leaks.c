#define _GNU_SOURCE
#include "memtools/leaks.h"

#include "base/bits.h"
#include "memtools/care.h"
#include "os/os.h"
#include "region/lines.h"
#include "region/pool.h"

#include <stdlib.h>

#define KEPT_BYTES ((size_t)1 << 20)

static void (*show)(void (*keep)(void *)); /* constant after ts_leaks_start */
static void **kept;                        /* [KEPT_BYTES] constant, too; the tool reads it */
static size_t kept_count;

static bool make_room(void) {
    kept = ts_os->reserve(KEPT_BYTES);
    return kept && ts_os->commit(kept, KEPT_BYTES);
}

static void keep(void *pointer) {
    if (kept_count < KEPT_BYTES / sizeof *kept) kept[kept_count++] = pointer;
}

/* ---- memcheck
   ------------------------------------------------------------------------------------------------------- */

#if defined(TSLAB_VALGRIND)
#include <signal.h>
#include <sys/mman.h>

static _Atomic bool is_shut;
static struct sigaction before; /* written before is_shut */

static bool set_access(char *at, size_t bytes, int access) {
    size_t whole = ts_align_up(bytes, ts_os_page_bytes());
    return whole == 0 || mprotect(at, whole, access) == 0;
}

/* Lines, and all units that were ever handed out. (There is no FAR part where memcheck is.) */
static bool set_all_access(int access) {
    bool all = set_access(ts_region.lines, (size_t)ts_lines_used() * TS_CACHE_LINE, access);
    return set_access(ts_region.part[TS_NORMAL].base, ts_pool_highest(TS_NORMAL) * TS_UNIT_BYTES, access) && all;
}

static bool is_ours(const void *at) {
    const char *first = ts_region.part[TS_NORMAL].base;
    return (const char *)at >= first && (size_t)((const char *)at - first) < ts_load_relaxed(&ts_region.reserved_bytes);
}

/* Returns to the access, which is done again; also if another thread has just opened the region. Other faults go to
   the handler that was there before. */
static void on_fault(int number, siginfo_t *info, void *context) {
    static _Atomic bool given_up;
    (void)context;
    if (is_ours(info->si_addr) && !ts_load_relaxed(&given_up)) {
        if (atomic_exchange(&is_shut, false) && !set_all_access(PROT_READ | PROT_WRITE))
            ts_store_relaxed(&given_up, true);
        return;
    }
    (void)sigaction(number, &before, NULL);
}

TS_AT_END static void make_read_only(void) {
    struct sigaction action = {.sa_sigaction = on_fault, .sa_flags = SA_SIGINFO | SA_NODEFER};
    if (!show || !ts_care_on_memcheck() || !make_room() || sigaction(SIGSEGV, &action, &before) != 0) return;
    show(keep);
    ts_store_relaxed(&is_shut, true);
    (void)set_all_access(PROT_READ);
}
#endif

/* ---- LeakSanitizer
   -------------------------------------------------------------------------------------------------- */

#if TS_HAS_WEAK
static void copy_kept(void) { show(keep); }

/* It searches before destructors of libraries run. */
static void start_lsan(void) {
    if (!__lsan_register_root_region || !make_room()) return;
    __lsan_register_root_region(kept, KEPT_BYTES);
    (void)atexit(copy_kept);
}
#else
static void start_lsan(void) {}
#endif

void ts_leaks_start(void (*each)(void (*keep)(void *))) {
    show = each;
    start_lsan();
}
