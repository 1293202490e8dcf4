/* Linux, from 4.x on. A call that an older kernel or a filter refuses is answered as refused. */
#define _GNU_SOURCE
#include "os/os.h"

#include "base/base.h"
#include "os/numa.h"
#include "os/small_file.h"

#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/auxv.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/sysinfo.h>
#include <time.h>
#include <unistd.h>

/* Of the kernel; older headers have no names for all of them. */
#define MEMBARRIER_PRIVATE_EXPEDITED (1 << 3)
#define MEMBARRIER_REGISTER_PRIVATE_EXPEDITED (1 << 4)
#define POPULATE_WRITE 23
#define GUARD_INSTALL 102
#define GUARD_REMOVE 103

static size_t linux_page_bytes(void) {
    static _Atomic size_t page; /* the same value from every thread */
    size_t p = ts_load_relaxed(&page);
    if (TS_UNLIKELY(p == 0)) {
        long n = sysconf(_SC_PAGESIZE);
        p = n > 0 ? (size_t)n : 4096u;
        ts_store_relaxed(&page, p);
    }
    return p;
}

/* The result of every refused call: errno is as it was before. */
static bool refuse_call(int before) {
    errno = before;
    return false;
}

/*
 * Memory is asked of the kernel itself where it can be: a library that stands in for mmap or madvise, and allocates in
 * them, would come back here while the caller holds what an allocation needs. Not beside a sanitizer, which has to see
 * every mapping.
 */
#if defined(__has_feature)
#if __has_feature(address_sanitizer) || __has_feature(thread_sanitizer)
#define SANITIZED 1
#endif
#endif
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#define SANITIZED 1
#endif

/* SYS_mmap of 32 bits, and of s390, takes its arguments by address. */
#if defined(SYS_mmap2)
#define MAP_CALL SYS_mmap2
#elif defined(SYS_mmap) && UINTPTR_MAX > UINT32_MAX && !defined(__s390__)
#define MAP_CALL SYS_mmap
#endif

#if defined(MAP_CALL) && !defined(SANITIZED)
static void *map_range(void *at, size_t bytes, int protection, int flags) {
    return (void *)syscall(MAP_CALL, at, bytes, protection, flags, -1, 0);
}
static int unmap_range(void *at, size_t bytes) { return (int)syscall(SYS_munmap, at, bytes); }
static int set_protection(void *at, size_t bytes, int protection) {
    return (int)syscall(SYS_mprotect, at, bytes, protection);
}
static int advise_range(void *at, size_t bytes, int advice) { return (int)syscall(SYS_madvise, at, bytes, advice); }
#else
static void *map_range(void *at, size_t bytes, int protection, int flags) {
    return mmap(at, bytes, protection, flags, -1, 0);
}
static int unmap_range(void *at, size_t bytes) { return munmap(at, bytes); }
static int set_protection(void *at, size_t bytes, int protection) { return mprotect(at, bytes, protection); }
static int advise_range(void *at, size_t bytes, int advice) { return madvise(at, bytes, advice); }
#endif

/* Set before any range has huge pages, and stays. relaxed: a thread that has been handed such a range sees it. */
static _Atomic bool any_huge_pages;
/* All that is asked for as huge pages lies between; written before that. No end: nothing is. */
static _Atomic uintptr_t huge_from, huge_end;

static bool advise_pages(void *at, size_t bytes, int advice) {
    int before = errno;
    return advise_range(at, bytes, advice) == 0 || refuse_call(before);
}

static void linux_huge_pages(void *at, size_t bytes, bool on) {
    uintptr_t from = (uintptr_t)at, end = from + bytes, first = ts_load_relaxed(&huge_from);
    if (on) {
        if (first == 0 || from < first) ts_store_relaxed(&huge_from, from);
        if (end > ts_load_relaxed(&huge_end)) ts_store_relaxed(&huge_end, end);
        ts_store_relaxed(&any_huge_pages, true);
    } else if (from <= first && end >= ts_load_relaxed(&huge_end)) {
        ts_store_relaxed(&huge_end, 0);
        ts_store_relaxed(&huge_from, 0);
    }
    (void)advise_pages(at, bytes, on ? MADV_HUGEPAGE : MADV_NOHUGEPAGE);
}

static bool is_asked_for(uintptr_t from, uintptr_t end) {
    return from >= ts_load_relaxed(&huge_from) && end <= ts_load_relaxed(&huge_end);
}

/* For a range that was mapped anew: what had been asked of it, so that it is of one mapping with its neighbours again.
   A request is taken back first in huge_end, then at the system: if that came before the first call, the second comes.
   */
static void advise_as_before(void *at, size_t bytes) {
    uintptr_t from = (uintptr_t)at, end = from + bytes;
    bool huge = is_asked_for(from, end);
    (void)advise_pages(at, bytes, huge ? MADV_HUGEPAGE : MADV_NOHUGEPAGE);
    if (huge && !is_asked_for(from, end)) (void)advise_pages(at, bytes, MADV_NOHUGEPAGE);
}

/* gcore writes what may be dumped, also where it cannot be read. */
static void linux_dump(void *at, size_t bytes, bool on) {
    (void)advise_pages(at, bytes, on ? MADV_DODUMP : MADV_DONTDUMP);
}

static _Atomic int reserve_error; /* of the last refusal; for a message only */

static void *linux_reserve(size_t bytes) {
    int before = errno;
    void *at = map_range(NULL, bytes, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE);
    if (at == MAP_FAILED) {
        ts_store_relaxed(&reserve_error, errno);
        errno = before;
        return NULL;
    }
    linux_huge_pages(at, bytes, false);
    linux_dump(at, bytes, false);
    return at;
}

/* Where mlockall(MCL_FUTURE) holds, all address space counts as locked; a mapping above that limit is EAGAIN. */
const char *ts_os_limit_met(uint64_t *bytes) {
    struct rlimit limit;
    int error = ts_load_relaxed(&reserve_error);
    if (error != EAGAIN && error != ENOMEM) return NULL;
    if (getrlimit(error == EAGAIN ? RLIMIT_MEMLOCK : RLIMIT_AS, &limit) != 0 || limit.rlim_cur == RLIM_INFINITY)
        return NULL;
    *bytes = limit.rlim_cur;
    return error == EAGAIN ? "RLIMIT_MEMLOCK" : "RLIMIT_AS";
}

static bool change_protection(void *at, size_t bytes, int protection) {
    int before = errno;
    return set_protection(at, bytes, protection) == 0 || refuse_call(before);
}

static bool linux_commit(void *at, size_t bytes) {
    if (!change_protection(at, bytes, PROT_READ | PROT_WRITE)) return false;
    linux_dump(at, bytes, true);
    return true;
}

static bool linux_protect(void *at, size_t bytes) { return change_protection(at, bytes, PROT_NONE); }
static bool linux_freeze(void *at, size_t bytes) {
    if (!change_protection(at, bytes, PROT_READ)) return false;
    linux_dump(at, bytes, false);
    return true;
}

static void linux_release(void *at, size_t bytes) {
    int before = errno;
    if (unmap_range(at, bytes) != 0) errno = before;
}

/* When a part of a huge page is unmapped, Linux gives no memory back until all of it is unmapped, or memory is short.
   MADV_FREE splits a huge page that it meets in part. So where the range may begin or end inside of a huge page, its
   first or last page gets MADV_FREE. Where MADV_DONTNEED is refused, MADV_FREE is refused, too, so no page that stays
   loses its bytes. */
static void split_huge_pages(char *at, size_t bytes) {
    size_t page = linux_page_bytes(), huge = page / 8 * page; /* as many pages as a table of one page has entries */
    if ((uintptr_t)at % huge != 0 || bytes < huge) (void)advise_pages(at, page, MADV_FREE);
    if (((uintptr_t)at + bytes) % huge != 0 && bytes > page) (void)advise_pages(at + bytes - page, page, MADV_FREE);
}

static bool linux_purge(void *at, size_t bytes) {
    if (TS_UNLIKELY(ts_load_relaxed(&any_huge_pages))) split_huge_pages(at, bytes);
    return advise_pages(at, bytes, MADV_DONTNEED);
}

static bool linux_purge_anew(void *at, size_t bytes) {
    ts_numa_policy policy;
    int before = errno, flags = MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED;
    bool bound = ts_numa_bound();
    if (bound) ts_numa_policy_of(at, &policy);
    if (map_range(at, bytes, PROT_READ | PROT_WRITE, flags) != at) return refuse_call(before);
    if (bound) (void)ts_numa_bind_again(at, bytes, &policy);
    advise_as_before(at, bytes);
    return true;
}

#if defined(MREMAP_DONTUNMAP) /* not with glibc before 2.32 */
/* Whether a range is one of Linux's own areas, as far as it says. No area can grow so far where it is; before that
   Linux looks at the range. */
static bool may_be_one_area(void *at, size_t bytes) {
    return mremap(at, bytes, (size_t)PTRDIFF_MAX + 1, 0) != MAP_FAILED || errno != EFAULT;
}
#endif

/* Linux moves a range only if it is one area; and what was asked of the first range comes along with the pages. Linux
   6.1 unmaps the second range before it refuses. So no move of several areas is tried; and where the system has no
   memory for the move itself, the second range is mapped anew. */
static bool linux_move(void *from, void *to, size_t bytes) {
#if defined(MREMAP_DONTUNMAP)
    int before = errno, flags = MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED_NOREPLACE;
    ts_numa_policy policy;
    bool bound = ts_numa_bound();
    if (!may_be_one_area(from, bytes)) return refuse_call(before);
    if (bound) ts_numa_policy_of(to, &policy);
    bool moved = mremap(from, bytes, bytes, MREMAP_MAYMOVE | MREMAP_FIXED | MREMAP_DONTUNMAP, to) == to;
    if (moved || map_range(to, bytes, PROT_READ | PROT_WRITE, flags) == to) {
        if (bound) (void)ts_numa_bind_again(to, bytes, &policy); /* the pages stay on their node */
        advise_as_before(to, bytes);
    }
    errno = before;
    return moved;
#else
    (void)from, (void)to, (void)bytes;
    return false;
#endif
}

typedef _Atomic uint32_t TS_MAY_ALIAS touched;

/* Where it touches the pages itself they may be marked inaccessible for a tool (memtools.h). */
__attribute__((no_sanitize("address"))) static bool linux_populate(void *at, size_t bytes) {
    int before = errno;
    if (advise_range(at, bytes, POPULATE_WRITE) == 0) return true;
    bool is_old = errno == EINVAL; /* a kernel before 5.14 */
    errno = before;
    if (!is_old) return false;
    /* Adds a zero to a byte of each page, atomically: other threads may write in the first and the last page where
       pages are larger than a unit. */
    size_t page = linux_page_bytes();
    for (size_t i = 0; i < bytes; i += page) {
        uint32_t zero = 0;
        (void)ts_cas_seq((touched *)(void *)((char *)at + i), &zero, 0);
    }
    return true;
}

static bool linux_barrier_all(void) {
    static _Atomic int registered; /* 0 unknown, 1 yes, -1 the kernel has none; each value may be found twice */
    int r = ts_load_relaxed(&registered), error = errno;
    if (TS_UNLIKELY(r == 0)) {
        r = syscall(SYS_membarrier, MEMBARRIER_REGISTER_PRIVATE_EXPEDITED, 0, 0) == 0 ? 1 : -1;
        ts_store_relaxed(&registered, r);
    }
    bool done = r > 0 && syscall(SYS_membarrier, MEMBARRIER_PRIVATE_EXPEDITED, 0, 0) == 0;
    errno = error;
    return done;
}

/* ---- pages that are hidden within their mapping: guard pages of Linux 6.13 and later --------------------------- */

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
static bool can_hide(void) {
    size_t page = linux_page_bytes();
    volatile char *at = linux_reserve(page);
    void *start = (void *)(uintptr_t)at;
    if (!at) return false;
    bool good = linux_commit(start, page);
    if (good) *at = 0;
    good = good && advise_pages(start, page, GUARD_INSTALL) && is_inaccessible(start) &&
           advise_pages(start, page, GUARD_REMOVE) && !is_inaccessible(start);
    linux_release(start, page);
    return good;
}

static bool linux_hide(void *at, size_t bytes, bool on) {
    static _Atomic uint32_t known; /* 1: the system has no such pages, 2: it has; the same from every thread */
    uint32_t answer = ts_load_relaxed(&known);
    if (answer == 0) {
        answer = can_hide() ? 2 : 1;
        ts_store_relaxed(&known, answer);
    }
    if (answer == 1) return false;
    return bytes == 0 || advise_pages(at, bytes, on ? GUARD_INSTALL : GUARD_REMOVE);
}

/* ---- time, residency, threads ----------------------------------------------------------------------------- */

static uint64_t read_clock(clockid_t id) {
    struct timespec t;
    int before = errno;
    if (clock_gettime(id, &t) != 0) {
        errno = before;
        return 0;
    }
    return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

static uint64_t linux_wall_ns(void) { return read_clock(CLOCK_MONOTONIC); }
static uint64_t linux_coarse_ns(void) { return read_clock(CLOCK_MONOTONIC_COARSE); }
static uint64_t linux_cpu_ns(void) { return read_clock(CLOCK_THREAD_CPUTIME_ID); }

/* smaps_rollup walks the page tables: statm lags behind by up to 64 pages a processor. */
static uint64_t linux_resident_bytes(void) {
    static const char key[] = "Rss:";
    char text[2048];
    uint64_t n = 0;
    const char *at = ts_small_file_read("/proc/self/smaps_rollup", text, sizeof text) ? strstr(text, key) : NULL;
    if (at && ts_number_at(at + sizeof key - 1, &n)) return n << 10;
    at = ts_small_file_read("/proc/self/statm", text, sizeof text) ? strchr(text, ' ') : NULL;
    return at && ts_number_at(at, &n) ? n * linux_page_bytes() : 0;
}

static uint64_t linux_room_bytes(void) {
    const char *what;
    return ts_room_bytes(&what);
}

bool ts_os_data_is_limited(void) {
    struct rlimit limit;
    int before = errno;
    bool is = getrlimit(RLIMIT_DATA, &limit) == 0 && limit.rlim_cur != RLIM_INFINITY;
    errno = before;
    return is;
}

uint64_t ts_os_address_space_bytes(void) { return ts_small_file_number("/proc/self/statm") * linux_page_bytes(); }

size_t ts_os_most_bytes(void) {
    struct sysinfo info;
    int before = errno;
    uint64_t bytes = 0;
    if (ts_small_file_number("/proc/sys/vm/overcommit_memory") != 1 && sysinfo(&info) == 0)
        bytes = ((uint64_t)info.totalram + info.totalswap) * (info.mem_unit ? info.mem_unit : 1);
    errno = before;
    return bytes == 0 || (size_t)bytes != bytes ? SIZE_MAX : (size_t)bytes;
}

/* Called with locks held: as for memory, not by way of a library that stands in for it. */
static void linux_yield(void) {
#if !defined(SANITIZED)
    (void)syscall(SYS_sched_yield);
#else
    (void)sched_yield();
#endif
}

const ts_os_table ts_os_native = {
    .page_bytes = linux_page_bytes,
    .reserve = linux_reserve,
    .commit = linux_commit,
    .protect = linux_protect,
    .freeze = linux_freeze,
    .hide = linux_hide,
    .release = linux_release,
    .purge = linux_purge,
    .purge_anew = linux_purge_anew,
    .move = linux_move,
    .populate = linux_populate,
    .huge_pages = linux_huge_pages,
    .barrier_all = linux_barrier_all,
    .wall_ns = linux_wall_ns,
    .coarse_ns = linux_coarse_ns,
    .cpu_ns = linux_cpu_ns,
    .resident_bytes = linux_resident_bytes,
    .room_bytes = linux_room_bytes,
    .yield = linux_yield,
    .nodes = ts_numa_nodes,
    .node_here = ts_numa_here,
    .bind = ts_numa_bind,
    .nodes_of = ts_numa_nodes_of,
};
const ts_os_table *ts_os = &ts_os_native;

static size_t whole_pages(size_t bytes) { return (bytes + ts_os_page_bytes() - 1) & ~(ts_os_page_bytes() - 1); }

void *ts_os_map(size_t bytes) {
    void *at = ts_os->reserve(whole_pages(bytes));
    if (!at || ts_os->commit(at, whole_pages(bytes))) return at;
    ts_os->release(at, whole_pages(bytes));
    return NULL;
}

void ts_os_unmap(void *at, size_t bytes) {
    if (at) ts_os->release(at, whole_pages(bytes));
}

static pthread_key_t exit_key;        /* constant after ts_os_register_exit */
static _Thread_local unsigned rounds; /* of this thread's destructors so far, since it was here first */

void ts_os_thread_ends(void) {
    ts_last_thread_ends();
    rounds++;
    if (rounds < PTHREAD_DESTRUCTOR_ITERATIONS) (void)pthread_setspecific(exit_key, &rounds);
}

/* In each round the destructors run in the order of their keys, which are small numbers. So the highest key comes last,
   and ends a heap that another destructor needed in the last round. With glibc a new key is the lowest that is free,
   so all below are taken meanwhile; from 32 on it allocates for keys in each thread. With musl a new key is the next
   one, and one below is taken: other threads find keys, too. */
#if defined(__GLIBC__)
#define HIGHEST_KEY 31u
#define MOST_BELOW HIGHEST_KEY
#else
#define HIGHEST_KEY (PTHREAD_KEYS_MAX - 1u)
#define MOST_BELOW 1u
#endif

bool ts_os_register_exit(void (*exit_fn)(void *)) {
    pthread_key_t below[MOST_BELOW], next;
    unsigned n = 0;
    if (pthread_key_create(&exit_key, exit_fn) != 0) return false;
    bool higher = exit_key < HIGHEST_KEY;
    while (higher && pthread_key_create(&next, exit_fn) == 0) {
        higher = next > exit_key;
        below[n++] = higher ? exit_key : next;
        if (higher) exit_key = next;
        higher = higher && exit_key < HIGHEST_KEY;
        if (MOST_BELOW == 1) (void)pthread_key_delete(below[--n]);
    }
    while (n > 0) (void)pthread_key_delete(below[--n]);
    return true;
}
bool ts_os_register_fork(void (*prepare)(void), void (*parent)(void), void (*child)(void)) {
    return pthread_atfork(prepare, parent, child) == 0;
}

/* glibc has it since 2.32. */
extern char library_is_alone __asm__("__libc_single_threaded") __attribute__((weak));
bool ts_os_is_alone(void) { return &library_is_alone && library_is_alone; }

bool ts_os_thread_started(void) {
    int before = errno; /* it may allocate */
    bool done = rounds < PTHREAD_DESTRUCTOR_ITERATIONS - 1 && pthread_setspecific(exit_key, &rounds) == 0;
    if (done) ts_last_thread_begins();
    errno = before;
    return done;
}

/* Before glibc takes a thread apart it blocks all signals, with the one by which it cancels threads. That is the first
   of its own, which no function of it blocks for a program. musl frees nothing there, and blocks it in threads of
   timers. */
#define SIGNAL_OF_GLIBC 32u
bool ts_os_thread_is_over(void) {
#if defined(__GLIBC__)
    unsigned long blocked[16 / sizeof(long)] = {0}; /* a bit per signal, the first is 1; as many as any system has */
    int before = errno;
    bool told = syscall(SYS_rt_sigprocmask, SIG_BLOCK, NULL, blocked, (size_t)(_NSIG / 8)) == 0;
    errno = before;
    return told && (blocked[0] >> (SIGNAL_OF_GLIBC - 1) & 1) != 0;
#else
    return false;
#endif
}

/* Weak: a program without the loader (linked statically) is never unloaded. dlopen by its name: the linker warns of a
   static program that has a reference to it. */
#pragma weak dladdr
#pragma weak dlsym

void ts_os_stay_loaded(void) {
#ifdef RTLD_NODELETE
    Dl_info info;
    void *(*load)(const char *, int) = NULL;
    int before = errno;
    if (!ts_os_has_loader() || !dladdr || !dlsym || !dladdr(&ts_os_native, &info) || !info.dli_fname) return;
    void *symbol = dlsym(RTLD_DEFAULT, "dlopen");
    memcpy(&load, &symbol, sizeof load);
    /* Not found under its name: then it is the program itself. The handle is kept, too. */
    if (load) (void)load(info.dli_fname, RTLD_NOW | RTLD_NOLOAD | RTLD_NODELETE);
    errno = before;
#endif
}

/* ---- the environment --------------------------------------------------------------------------------------- */

bool ts_env_is_trusted(void) { return getauxval(AT_SECURE) == 0; }
const char *ts_env(const char *name) { return ts_env_is_trusted() ? getenv(name) : NULL; }
