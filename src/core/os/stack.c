#define _GNU_SOURCE
#include "os/stack.h"

#include <errno.h>
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

void ts_os_stack_prepare(void) {
    void *frame[2];
    (void)ts_os_stack(frame, 2);
}

unsigned ts_os_stack(void **frames, unsigned capacity) {
#ifdef HAS_BACKTRACE
    int before = errno; /* the first call loads the unwinder */
    int n = backtrace ? backtrace(frames, (int)capacity) : 0;
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

#include <link.h>

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

static int look_for_loader(struct dl_phdr_info *info, size_t bytes, void *found) {
    (void)bytes;
    for (unsigned i = 0; i < info->dlpi_phnum; i++)
        if (info->dlpi_phdr[i].p_type == PT_INTERP) *(bool *)found = true;
    return 1; /* the first is the program */
}

bool ts_os_has_loader(void) {
    bool found = false;
    (void)dl_iterate_phdr(look_for_loader, &found);
    return found;
}

#else

bool ts_os_has_loader(void) { return true; }
void ts_os_modules(void (*fn)(void *, const ts_os_module *), void *arg) { (void)fn, (void)arg; }

#endif
