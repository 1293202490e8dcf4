#define _GNU_SOURCE
#include "os/hide.h"

#include "base/atomic.h"
#include "os/os.h"

#include <errno.h>
#include <fcntl.h>
#include <unistd.h>

#if defined(__linux__)
#include <sys/syscall.h>
#endif

#if defined(SYS_madvise) && defined(SYS_faccessat)

#define GUARD_INSTALL 102 /* of the kernel; older headers have no names for them */
#define GUARD_REMOVE 103

/* By number: a library that stands in for libc's functions is not met. */
static bool advise_pages(void *at, size_t bytes, int advice) {
    int before = errno;
    long result = syscall(SYS_madvise, at, bytes, advice);
    errno = before;
    return result == 0;
}

/* The kernel is asked for a file by the name that stands there: none has the name "", unless there is nothing to
   read. */
static bool is_inaccessible(const void *at) {
    int before = errno;
    bool no = syscall(SYS_faccessat, AT_FDCWD, at, F_OK, 0) != 0 && errno == EFAULT;
    errno = before;
    return no;
}

/* Emulators of user programs take an advice that they do not know for one that was followed: so it is tried on a
   page. */
static bool try_it(void) {
    size_t page = ts_os_native.page_bytes();
    volatile char *at = ts_os_native.reserve(page);
    void *start = (void *)(uintptr_t)at;
    if (!at) return false;
    bool good = ts_os_native.commit(start, page);
    if (good) *at = 0;
    good = good && advise_pages(start, page, GUARD_INSTALL) && is_inaccessible(start) &&
           advise_pages(start, page, GUARD_REMOVE) && !is_inaccessible(start);
    ts_os_native.release(start, page);
    return good;
}

bool ts_hide_pages(void *at, size_t bytes, bool on) {
    static _Atomic uint32_t known; /* 1: the system has no such pages, 2: it has; the same from every thread */
    uint32_t answer = ts_load_relaxed(&known);
    if (answer == 0) {
        answer = try_it() ? 2 : 1;
        ts_store_relaxed(&known, answer);
    }
    if (answer == 1) return false;
    return bytes == 0 || advise_pages(at, bytes, on ? GUARD_INSTALL : GUARD_REMOVE);
}

#else

bool ts_hide_pages(void *at, size_t bytes, bool on) {
    (void)at, (void)bytes, (void)on;
    return false;
}

#endif
