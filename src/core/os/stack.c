#define _GNU_SOURCE
#include "os/stack.h"

#include "base/atomic.h"
#include "base/attr.h"

#include <errno.h>
#include <sched.h>
#include <stdbool.h>
#if defined(__ELF__)
#include <link.h>
#endif
#include <string.h>
#include <unistd.h>
#if defined(__linux__)
#include <sys/prctl.h>
#include <sys/syscall.h>
#endif

#if defined(__has_include)
#if __has_include(<execinfo.h>)
#include <execinfo.h>
#pragma weak backtrace
#define HAS_BACKTRACE 1
#endif
#endif

/* ---- the program itself -------------------------------------------------------------------------------------------- */

#if defined(__ELF__)
typedef struct wanted {
    uint32_t part;
    bool found;
} wanted;

static int look(struct dl_phdr_info *info, size_t bytes, void *arg) {
    wanted *w = arg;
    (void)bytes;
    for (unsigned i = 0; i < info->dlpi_phnum; i++) w->found |= info->dlpi_phdr[i].p_type == w->part;
    return 1; /* the first is the program */
}

static bool has_part(uint32_t part) {
    wanted w = {part, false};
    (void)dl_iterate_phdr(look, &w);
    return w.found;
}
#else
#define PT_INTERP 0
#define PT_DYNAMIC 0
static bool has_part(uint32_t part) { return (void)part, true; }
#endif

bool ts_os_has_loader(void) { return has_part(PT_INTERP); }

/* ---- call stacks ----------------------------------------------------------------------------------------------------- */

#ifdef HAS_BACKTRACE
/*
 * In a static program that is no PIE the program headers name no tables for unwinding. Its start-up code registers them with the unwinder,
 * which has them behind a lock, sorts them when it is first asked, with the lock held and with memory of malloc, and aborts if it is asked
 * for a stack before they are there. So
 *  1. it is asked for the entry of one function first, which is no more than NULL then, and where that may take memory: by
 *     ts_os_stack_prepare, or, when that came too early, by a constructor that runs after the start-up code's;
 *  2. until that was answered there are no stacks: the program's own throw may be sorting, and ask for the memory for it here;
 *  3. nor are there any in a child of fork, which may find the lock taken by a thread that it has not got;
 *  4. nor once the start-up code's destructor has taken the table away, without which the unwinder aborts: one that runs before it
 *     says so, and waits for those who are under way. Each says that it is, and then looks (seq_cst: one of the two sees the other).
 */
extern const void *find_entry(void *pc, void *bases[3]) __asm__("_Unwind_Find_FDE") __attribute__((weak));

enum { UNKNOWN, BY_HEADERS, REGISTERED, ANSWERED, ENDED };
static _Atomic uint32_t tables;  /* rises; the same from every thread */
static _Atomic uint32_t asked;   /* ts_os_stack_prepare was called */
static _Atomic uint32_t process; /* that has the answer */

static uint32_t tables_are(void) {
    uint32_t how = ts_load_acquire(&tables); /* acquire: `process` is that of ANSWERED */
    if (how != UNKNOWN) return how;
    how = has_part(PT_DYNAMIC) ? BY_HEADERS : REGISTERED;
    (void)atomic_compare_exchange_strong_explicit(&tables, &(uint32_t){UNKNOWN}, how, memory_order_relaxed,
                                                  memory_order_relaxed);
    return how;
}

static void ask_for_tables(void) {
    void *bases[3];
    if (tables_are() != REGISTERED || !find_entry || !find_entry((void *)(uintptr_t)ts_os_stack, bases)) return;
    ts_store_relaxed(&process, (uint32_t)getpid());
    /* release: partner of tables_are; not if they have ended meanwhile */
    (void)atomic_compare_exchange_strong_explicit(&tables, &(uint32_t){REGISTERED}, ANSWERED, memory_order_release,
                                                  memory_order_relaxed);
}

__attribute__((constructor)) static void ask_again(void) {
    if (ts_load_relaxed(&asked)) ask_for_tables();
}

static _Atomic uint32_t walkers; /* under way with a table that is registered */

static bool begin_walk(void) {
    if (tables_are() == BY_HEADERS) return true;
    if (tables_are() != ANSWERED || ts_load_relaxed(&process) != (uint32_t)getpid()) return false;
    (void)atomic_fetch_add_explicit(&walkers, 1, memory_order_seq_cst);
    if (TS_LIKELY(ts_load_seq(&tables) == ANSWERED)) return true;
    (void)atomic_fetch_sub_explicit(&walkers, 1, memory_order_release);
    return false;
}

static void end_walk(void) {
    if (tables_are() != BY_HEADERS) (void)atomic_fetch_sub_explicit(&walkers, 1, memory_order_release);
}

/* Without a priority: before the start-up code's, which is linked first. */
__attribute__((destructor)) static void end_tables(void) {
    if (tables_are() == BY_HEADERS) return;
    bool answered = atomic_exchange_explicit(&tables, ENDED, memory_order_seq_cst) == ANSWERED;
    if (!answered || ts_load_relaxed(&process) != (uint32_t)getpid()) return;
    while (ts_load_acquire(&walkers) != 0) (void)sched_yield();
}
#endif

void ts_os_stack_prepare(void) {
    void *frame[2];
#ifdef HAS_BACKTRACE
    ts_store_relaxed(&asked, 1);
    ask_for_tables();
#endif
    (void)ts_os_stack(frame, 2);
}

unsigned ts_os_stack(void **frames, unsigned capacity) {
#ifdef HAS_BACKTRACE
    int before = errno; /* the first call loads the unwinder */
    int n = 0;
    if (backtrace && begin_walk()) {
        n = backtrace(frames, (int)capacity);
        end_walk();
    }
    errno = before;
    return n > 0 ? (unsigned)n : 0;
#else
    (void)frames, (void)capacity;
    return 0;
#endif
}

uint32_t ts_os_thread_number(void) {
#if defined(__linux__)
    return (uint32_t)syscall(SYS_gettid);
#else
    return 0;
#endif
}

void ts_os_thread_name(char name[TS_OS_THREAD_NAME_BYTES]) {
    memset(name, 0, TS_OS_THREAD_NAME_BYTES);
#if defined(__linux__)
    int before = errno;
    (void)prctl(PR_GET_NAME, name, 0, 0, 0);
    name[TS_OS_THREAD_NAME_BYTES - 1] = 0;
    errno = before;
#endif
}

#if defined(__ELF__)

typedef struct walk {
    void (*fn)(void *, const ts_os_module *);
    void *arg;
} walk;

static int show(struct dl_phdr_info *info, size_t bytes, void *arg) {
    const walk *w = arg;
    char program[TS_OS_PATH_BYTES];
    ts_os_module m = {.base = info->dlpi_addr, .start = UINT64_MAX, .path = info->dlpi_name ? info->dlpi_name : ""};
    (void)bytes;
    for (unsigned i = 0; i < info->dlpi_phnum; i++) {
        if (info->dlpi_phdr[i].p_type != PT_LOAD) continue;
        uint64_t start = info->dlpi_addr + info->dlpi_phdr[i].p_vaddr, end = start + info->dlpi_phdr[i].p_memsz;
        if (start < m.start) m.start = start;
        if (end > m.end) m.end = end;
    }
    if (m.path[0] == 0) {
        m.is_program = true;
        ssize_t n = readlink("/proc/self/exe", program, sizeof program - 1);
        program[n > 0 ? n : 0] = 0;
        m.path = program;
    }
    w->fn(w->arg, &m);
    return 0;
}

void ts_os_modules(void (*fn)(void *, const ts_os_module *), void *arg) {
    walk w = {fn, arg};
    int before = errno;
    (void)dl_iterate_phdr(show, &w);
    errno = before;
}

#else

void ts_os_modules(void (*fn)(void *, const ts_os_module *), void *arg) { (void)fn, (void)arg; }

#endif
