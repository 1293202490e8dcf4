/*
 * Call stacks: return addresses of the calling thread, and the modules that they point into.
 *
 * The compiler's unwinder (libgcc) walks the stack by the unwind tables of the code. That needs no frame pointers,
 * and stops at code without tables. A walk also stops at the first address outside of all modules: code that a
 * program makes while it runs may have tables at which the unwinder ends the program. The unwinder is loaded when it
 * is needed, and linked weakly in a static program. Without an unwinder there are no stacks.
 */
#define _GNU_SOURCE
#include "os/os.h"

#include "base/base.h"
#include "os/small_file.h"

#include <inttypes.h>
#include <link.h>
#include <stdio.h>
#include <sys/prctl.h>
#include <sys/syscall.h>

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

bool ts_os_has_loader(void) { return has_part(PT_INTERP); }

/* ---- call stacks ----------------------------------------------------------------------------------------- */

/* Set by ts_os_stack_prepare, if stacks can be walked. Not in static programs that are no PIE: their program headers
   name no unwind tables, and the unwinder ends a program whose tables it does not find. */
static _Atomic bool can_walk;

#if defined(HAS_UNWINDER) && defined(__arm__)

static bool find_unwinder(void) { return backtrace != NULL; }

static unsigned walk_frames(void **frames, unsigned capacity) {
    int n = backtrace(frames, (int)capacity);
    return n > 0 ? (unsigned)n : 0;
}

static bool walks_without_lock(void) { return false; }

#elif defined(HAS_UNWINDER)

typedef _Unwind_Reason_Code unwind_function(_Unwind_Trace_Fn, void *);
typedef __typeof__(_Unwind_GetIP) address_function;
typedef int find_function(void *address, void *out);

/* Constant once `can_walk` is set. */
static unwind_function *unwinder;
static address_function *address_of;
static find_function *find_module; /* _dl_find_object, which needs no lock; NULL: the unwinder may not use it */

static bool walks_without_lock(void) { return find_module != NULL; }

/* Finds functions by name. A library that referred to them would need them when it is loaded, and the linker warns of
   dlopen in static programs. */
static void *look_up(void *where, const char *name) { return dlsym ? dlsym(where, name) : NULL; }

/* The unwinder searches a frame's table by a function of its own, which uses _dl_find_object where there is one. The C
   library of i386 and s390x has a function of that name, too. It comes first, and uses dl_iterate_phdr. */
static bool searches_itself(void *library) {
    void *const first = look_up(RTLD_DEFAULT, "_Unwind_Find_FDE");
    return !first || first == look_up(library, "_Unwind_Find_FDE");
}

static bool find_unwinder(void) {
    unwinder = _Unwind_Backtrace;
    address_of = _Unwind_GetIP;
    if (ts_os_has_loader()) {
        void *(*load)(const char *, int) = NULL, *symbol = look_up(RTLD_DEFAULT, "dlopen"), *library = NULL;
        memcpy(&load, &symbol, sizeof load);
        if (load) library = load("libgcc_s.so.1", RTLD_NOW); /* it stays */
        void *const backtrace_ = library ? look_up(library, "_Unwind_Backtrace") : NULL;
        void *const ip = library ? look_up(library, "_Unwind_GetIP") : NULL;
        void *const object = library && searches_itself(library) ? look_up(RTLD_DEFAULT, "_dl_find_object") : NULL;
        memcpy(&unwinder, &backtrace_, sizeof unwinder);
        memcpy(&address_of, &ip, sizeof address_of);
        memcpy(&find_module, &object, sizeof find_module);
    }
    return unwinder && address_of;
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
    trace t = {frames, capacity, 0, false};
    if (capacity > 0) (void)unwinder(take_frame, &t);
    return t.count;
}

#else

static bool find_unwinder(void) { return false; }
static bool walks_without_lock(void) { return true; } /* musl's fork leaves the loader's lock free in the child */
static unsigned walk_frames(void **frames, unsigned capacity) { return (void)frames, (void)capacity, 0; }

#endif

/* dl_iterate_phdr has a lock, which glibc's fork leaves as it is: in the child a thread that does not exist there may
   have it for ever. So where stacks are walked by that function, a child has none. */
static _Atomic bool may_be_locked;

void ts_os_stack_fork_child(void) { ts_store_relaxed(&may_be_locked, true); }

static bool may_ask_for_modules(void) { return !ts_load_relaxed(&may_be_locked) || walks_without_lock(); }

static void prepare(void) {
    void *frame[2];
    int before = errno;
    if (!ts_load_relaxed(&can_walk) && may_ask_for_modules() && has_part(PT_DYNAMIC) && find_unwinder())
        ts_store_release(&can_walk, true); /* partner: ts_os_stack */
    errno = before;
    (void)ts_os_stack(frame, 2); /* the first walk may allocate */
}

static _Atomic bool asked;

void ts_os_stack_prepare(void) {
    ts_store_relaxed(&asked, true);
    prepare();
}

/* In a static program the first allocation may come before the C library knows the program's headers. */
TS_AT_LOAD static void prepare_again(void) {
    if (ts_load_relaxed(&asked)) prepare();
}

unsigned ts_os_stack(void **frames, unsigned capacity) {
    int before = errno;
    unsigned n = ts_load_acquire(&can_walk) && may_ask_for_modules() ? walk_frames(frames, capacity) : 0;
    errno = before;
    return n;
}

uint32_t ts_os_thread_number(void) { return (uint32_t)syscall(SYS_gettid); }

void ts_os_thread_name(char name[TS_OS_THREAD_NAME_BYTES]) {
    int before = errno;
    memset(name, 0, TS_OS_THREAD_NAME_BYTES);
    (void)prctl(PR_GET_NAME, name, 0, 0, 0);
    name[TS_OS_THREAD_NAME_BYTES - 1] = 0;
    errno = before;
}

bool ts_os_name_of_thread(uint32_t number, char name[TS_OS_THREAD_NAME_BYTES]) {
    char path[64];
    (void)snprintf(path, sizeof path, "/proc/self/task/%" PRIu32 "/comm", number);
    return ts_small_file_line(path, name, TS_OS_THREAD_NAME_BYTES);
}

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
    if (may_ask_for_modules()) (void)dl_iterate_phdr(show_module, &w);
    errno = before;
}
