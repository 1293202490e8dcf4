#define _GNU_SOURCE
#include "os/stack.h"

#include "base/atomic.h"
#include "base/attr.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
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

/* Only with glibc, because no other libc is tested. On arm the unwinder has other functions, which glibc's backtrace
   knows. */
#if defined(__has_include)
#if __has_include(<execinfo.h>) && defined(__GLIBC__)
#include <dlfcn.h>
#include <execinfo.h>
#define HAS_UNWINDER 1
#if defined(__arm__)
#pragma weak backtrace
#else
#include <unwind.h>
#pragma weak _Unwind_Backtrace
#pragma weak _Unwind_GetIP
#pragma weak dlsym
#endif
#endif
#endif

/* ---- the program itself ---------------------------------------------------------------------------------- */

#if defined(__ELF__)
typedef struct wanted {
    uint32_t part;
    bool found;
} wanted;

static int find_part(struct dl_phdr_info *info, size_t bytes, void *arg) {
    wanted *w = arg;
    (void)bytes;
    for (unsigned i = 0; i < info->dlpi_phnum; i++) w->found |= info->dlpi_phdr[i].p_type == w->part;
    return 1; /* the first module is the program */
}

static bool has_part(uint32_t part) {
    wanted w = {part, false};
    (void)dl_iterate_phdr(find_part, &w);
    return w.found;
}
#else
#define PT_INTERP 0
#define PT_DYNAMIC 0
static bool has_part(uint32_t part) { return (void)part, true; }
#endif

bool ts_os_has_loader(void) { return has_part(PT_INTERP); }

/* ---- call stacks ----------------------------------------------------------------------------------------- */

#ifdef HAS_UNWINDER
/*
 * Static programs that are no PIE: their program headers name no unwind tables. The start-up code registers the
 * tables with the unwinder, which keeps them behind a lock. When it is first asked, the unwinder sorts them, with the
 * lock held and with memory of malloc. It aborts if it is asked for a stack before the tables are there. Therefore:
 *  1. The unwinder is asked for the entry of one function first: without tables the answer is NULL.
 *     ts_os_stack_prepare asks, where memory may be taken. If that came too early, a constructor asks that runs after
 *     the start-up code's.
 *  2. Until the unwinder has answered there are no stacks. The program's own throw may be sorting the tables, and its
 *     malloc may be this library.
 *  3. There are no stacks in a child of fork. There the lock may be taken by a thread that does not exist.
 *  4. There are no stacks once the start-up code's destructor has taken the tables away: the unwinder aborts without
 *     them. A destructor that runs before it sets ENDED, and waits for the walks under way. Each walk counts itself,
 *     and then looks at the state (seq_cst: one of the two sees the other).
 */
extern const void *find_entry(void *pc, void *bases[3]) __asm__("_Unwind_Find_FDE") __attribute__((weak));

enum { UNKNOWN, BY_HEADERS, REGISTERED, ANSWERED, ENDED };
static _Atomic uint32_t tables;  /* only rises; every thread finds one value */
static _Atomic uint32_t asked;   /* ts_os_stack_prepare was called */
static _Atomic uint32_t process; /* the process that has the answer */

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
    /* release: partner of tables_are. Fails if the tables have ended meanwhile. */
    (void)atomic_compare_exchange_strong_explicit(&tables, &(uint32_t){REGISTERED}, ANSWERED, memory_order_release,
                                                  memory_order_relaxed);
}

__attribute__((constructor)) static void ask_again(void) {
    if (ts_load_relaxed(&asked)) ask_for_tables();
}

static _Atomic uint32_t walkers; /* walks under way with registered tables */

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

/* It has no priority, so it runs before the start-up code's destructor, which is linked first. */
__attribute__((destructor)) static void end_tables(void) {
    if (tables_are() == BY_HEADERS) return;
    bool answered = atomic_exchange_explicit(&tables, ENDED, memory_order_seq_cst) == ANSWERED;
    if (!answered || ts_load_relaxed(&process) != (uint32_t)getpid()) return;
    while (ts_load_acquire(&walkers) != 0) (void)sched_yield();
}
#endif

#if defined(HAS_UNWINDER) && defined(__arm__)

static void find_unwinder(void) {}

static unsigned walk_frames(void **frames, unsigned capacity) {
    int n = backtrace ? backtrace(frames, (int)capacity) : 0;
    return n > 0 ? (unsigned)n : 0;
}

#elif defined(HAS_UNWINDER)

typedef _Unwind_Reason_Code unwind_function(_Unwind_Trace_Fn, void *);
typedef __typeof__(_Unwind_GetIP) address_function;
typedef int find_function(void *address, void *out);

/* Constant once `unwinder` is set. */
static _Atomic(unwind_function *) unwinder;
static address_function *address_of;
static find_function *find_module; /* _dl_find_object, which needs no lock; NULL: not with this glibc */

/* Finds functions by name. A library that referred to them would need them when it is loaded, and the linker warns of
   dlopen in static programs. */
static void *look_up(void *where, const char *name) { return dlsym ? dlsym(where, name) : NULL; }

static void find_unwinder(void) {
    unwind_function *found = _Unwind_Backtrace;
    if (ts_os_has_loader()) {
        void *(*load)(const char *, int) = NULL, *symbol = look_up(RTLD_DEFAULT, "dlopen"), *library = NULL;
        memcpy(&load, &symbol, sizeof load);
        if (load) library = load("libgcc_s.so.1", RTLD_NOW); /* it stays */
        void *const backtrace_ = library ? look_up(library, "_Unwind_Backtrace") : NULL;
        void *const ip = library ? look_up(library, "_Unwind_GetIP") : NULL;
        void *const object = look_up(RTLD_DEFAULT, "_dl_find_object");
        memcpy(&found, &backtrace_, sizeof found);
        memcpy(&address_of, &ip, sizeof address_of);
        memcpy(&find_module, &object, sizeof find_module);
    } else {
        address_of = _Unwind_GetIP;
    }
    if (found && address_of) ts_store_release(&unwinder, found); /* partner: walk */
}

static int is_in(struct dl_phdr_info *info, size_t bytes, void *arg) {
    const uintptr_t address = *(const uintptr_t *)arg;
    (void)bytes;
    for (unsigned i = 0; i < info->dlpi_phnum; i++) {
        uintptr_t start = info->dlpi_addr + info->dlpi_phdr[i].p_vaddr;
        if (info->dlpi_phdr[i].p_type == PT_LOAD && address - start < info->dlpi_phdr[i].p_memsz) return 1;
    }
    return 0;
}

static bool is_in_module(uintptr_t address) {
    uint64_t found[32]; /* larger than what the function writes: struct dl_find_object */
    if (find_module) return find_module((void *)address, found) == 0;
    return dl_iterate_phdr(is_in, &address) != 0;
}

typedef struct trace {
    void **frames;
    unsigned capacity, count;
    bool begun;
} trace;

/* Skips the first frame, which is the walk's own. Stops at a frame outside of all modules: the unwinder looks at the
   next frame only after this function returns. */
static _Unwind_Reason_Code take_frame(struct _Unwind_Context *context, void *arg) {
    trace *t = arg;
    uintptr_t address = (uintptr_t)address_of(context);
    bool first = !t->begun;
    t->begun = true;
    if (first) return _URC_NO_REASON;
    if (address == 0) return _URC_NORMAL_STOP;
    t->frames[t->count++] = (void *)address;
    return t->count < t->capacity && is_in_module(address) ? _URC_NO_REASON : _URC_NORMAL_STOP;
}

static unsigned walk_frames(void **frames, unsigned capacity) {
    unwind_function *function = ts_load_acquire(&unwinder);
    trace t = {frames, capacity, 0, false};
    if (function && capacity > 0) (void)function(take_frame, &t);
    return t.count;
}

#endif

void ts_os_stack_prepare(void) {
    void *frame[2];
#ifdef HAS_UNWINDER
    int before = errno;
    ts_store_relaxed(&asked, 1);
    find_unwinder();
    ask_for_tables();
    errno = before;
#endif
    (void)ts_os_stack(frame, 2);
}

unsigned ts_os_stack(void **frames, unsigned capacity) {
#ifdef HAS_UNWINDER
    int before = errno;
    unsigned n = 0;
    if (begin_walk()) {
        n = walk_frames(frames, capacity);
        end_walk();
    }
    errno = before;
    return n;
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

bool ts_os_name_of_thread(uint32_t number, char name[TS_OS_THREAD_NAME_BYTES]) {
    ssize_t n = -1;
#if defined(__linux__)
    int before = errno, cancel;
    char path[64] = "/proc/self/task/", digits[10];
    char *to = path + strlen(path);
    unsigned count = 0;
    do digits[count++] = (char)('0' + number % 10);
    while ((number /= 10) != 0);
    while (count > 0) *to++ = digits[--count];
    memcpy(to, "/comm", sizeof "/comm");
    (void)pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &cancel);
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    memset(name, 0, TS_OS_THREAD_NAME_BYTES);
    if (fd >= 0) {
        n = read(fd, name, TS_OS_THREAD_NAME_BYTES); /* with a newline in the place of the zero */
        (void)close(fd);
    }
    (void)pthread_setcancelstate(cancel, &cancel);
    if (n > 0) name[n - 1] = 0;
    errno = before;
#else
    (void)number, (void)name;
#endif
    return n > 0;
}

#if defined(__ELF__)

typedef struct walk_of_modules {
    void (*fn)(void *, const ts_os_module *);
    void *arg;
} walk_of_modules;

static int show_module(struct dl_phdr_info *info, size_t bytes, void *arg) {
    const walk_of_modules *w = arg;
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
    walk_of_modules w = {fn, arg};
    int before = errno;
    (void)dl_iterate_phdr(show_module, &w);
    errno = before;
}

#else

void ts_os_modules(void (*fn)(void *, const ts_os_module *), void *arg) { (void)fn, (void)arg; }

#endif
