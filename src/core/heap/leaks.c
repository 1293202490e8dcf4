#define _GNU_SOURCE
#include "heap/leaks.h"

#include "base/bits.h"
#include "os/os.h"
#include "region/lines.h"
#include "region/pool.h"

#if defined(TSLAB_VALGRIND)
#include <signal.h>
#include <sys/mman.h>

#define KEPT_BYTES ((size_t)1 << 20)

static _Atomic bool is_shut;
static void (*show)(void (*keep)(void *)); /* written before main, or with the first allocator */
static void *volatile *kept;               /* memcheck reads it */
static size_t kept_count;
static struct sigaction before; /* written before is_shut */

static bool change(char *at, size_t bytes, int access) {
    size_t whole = ts_align_up(bytes, ts_os_page_bytes());
    return whole == 0 || mprotect(at, whole, access) == 0;
}

/* Lines, and what was ever handed out of each part. */
static bool change_all(int access) {
    bool all = change(ts_region.lines, (size_t)ts_lines_used() * TS_CACHE_LINE, access);
    for (unsigned part = 0; part < TS_PARTS; part++)
        all = change(ts_region.part[part].base, ts_pool_highest(part) * TS_UNIT_BYTES, access) && all;
    return all;
}

static bool is_ours(const void *at) {
    const char *first = ts_region.part[TS_NORMAL].base;
    return (const char *)at >= first && (size_t)((const char *)at - first) < ts_region.reserved_bytes;
}

/* Returns to the access, which is done again; also where another thread has just opened the region. What is no such fault goes to
   who handled it before. */
static void on_fault(int number, siginfo_t *info, void *context) {
    static _Atomic bool given_up;
    (void)context;
    if (is_ours(info->si_addr) && !ts_load_relaxed(&given_up)) {
        if (atomic_exchange(&is_shut, false) && !change_all(PROT_READ | PROT_WRITE)) ts_store_relaxed(&given_up, true);
        return;
    }
    (void)sigaction(number, &before, NULL);
}

static void keep(void *pointer) {
    if (kept_count < KEPT_BYTES / sizeof *kept) kept[kept_count++] = pointer;
}

/* 101: after the destructors of the program, if it is linked statically. */
__attribute__((destructor(101))) static void shut(void) {
    struct sigaction action = {.sa_sigaction = on_fault, .sa_flags = SA_SIGINFO | SA_NODEFER};
    if (!show || sigaction(SIGSEGV, &action, &before) != 0) return;
    void *page = mmap(NULL, KEPT_BYTES, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (page == MAP_FAILED) return;
    kept = page;
    show(keep);
    ts_store_relaxed(&is_shut, true);
    (void)change_all(PROT_READ);
}

void ts_leaks_start(void (*each)(void (*keep)(void *))) { show = each; }

#else

void ts_leaks_start(void (*each)(void (*keep)(void *))) { (void)each; }

#endif
