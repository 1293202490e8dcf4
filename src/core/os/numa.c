/*
 * NUMA nodes on Linux. The calls are made by number: they need no libnuma, and pass by libraries that replace libc's
 * functions. Where a filter refuses a call (EPERM, ENOSYS), the caller goes on as without NUMA.
 */
#define _GNU_SOURCE
#include "os/numa.h"

#include "base/atomic.h"
#include "os/os.h"

#include <errno.h>
#include <stdint.h>
#include <string.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <unistd.h>

#define POLICY_DEFAULT 0
#define POLICY_PREFERRED 1
#define POLICY_BIND 2
#define POLICY_INTERLEAVE 3
#define POLICY_MODE_BITS 0xff /* above these are flags */
#define MEMORY_ALLOWED 4
#define OF_ADDRESS 2

/* false, with errno as it was: refused. */
static bool call_was(long result, int before) {
    if (result == 0) return true;
    errno = before;
    return false;
}

/* The nodes that the cpuset allows, all of which have memory. If the process was bound to some of these (numactl
   --membind), only those. */
static bool find_allowed(ts_numa_set *set) {
    ts_numa_set bound;
    int before = errno, mode = POLICY_DEFAULT;
    memset(set, 0, sizeof *set);
    memset(&bound, 0, sizeof bound);
    if (!call_was(syscall(SYS_get_mempolicy, NULL, set->bits, (unsigned long)TS_NUMA_MAXNODE, NULL, MEMORY_ALLOWED),
                  before))
        return false;
    if (!call_was(syscall(SYS_get_mempolicy, &mode, bound.bits, (unsigned long)TS_NUMA_MAXNODE, NULL, 0), before) ||
        (mode & POLICY_MODE_BITS) != POLICY_BIND)
        return true;
    for (unsigned i = 0; i < sizeof set->bits / sizeof *set->bits; i++) set->bits[i] &= bound.bits[i];
    return true;
}

unsigned ts_numa_nodes(int *ids, unsigned most) {
    ts_numa_set set;
    unsigned count = 0;
    if (!find_allowed(&set)) return 0;
    for (int node = 0; node < (int)TS_NUMA_NODES_MOST; node++) {
        if (!ts_numa_set_has(&set, node)) continue;
        if (count < most) ids[count] = node;
        count++;
    }
    return count;
}

/* The C library's function reads the kernel's page in the process, in some 20 ns. The system call takes 100 or more.
   Older libraries have no such function. */
extern int library_getcpu(unsigned *cpu, unsigned *node) __asm__("getcpu") __attribute__((weak));

int ts_numa_here(void) {
    unsigned cpu, node = 0;
    int before = errno;
    bool told = library_getcpu ? call_was(library_getcpu(&cpu, &node), before)
                               : call_was(syscall(SYS_getcpu, &cpu, &node, NULL), before);
    return told ? (int)node : -1;
}

/* Set before any range is bound, and stays. relaxed: a thread that has been handed such a range sees it. */
static _Atomic bool any_bound;

bool ts_numa_bound(void) { return ts_load_relaxed(&any_bound); }

void ts_numa_policy_of(void *at, ts_numa_policy *policy) {
    int before = errno;
    memset(policy, 0, sizeof *policy);
    if (!call_was(
            syscall(SYS_get_mempolicy, &policy->mode, policy->set.bits, (unsigned long)TS_NUMA_MAXNODE, at, OF_ADDRESS),
            before))
        policy->mode = POLICY_DEFAULT;
}

void ts_numa_bind_again(void *at, size_t bytes, const ts_numa_policy *policy) {
    int before = errno;
    bool none = policy->mode == POLICY_DEFAULT; /* which takes no nodes */
    (void)call_was(syscall(SYS_mbind, at, bytes, policy->mode, none ? NULL : policy->set.bits,
                           none ? 0ul : (unsigned long)TS_NUMA_MAXNODE, 0u),
                   before);
}

bool ts_numa_bind(void *at, size_t bytes, int node) {
    ts_numa_set set;
    int before = errno, mode = node == TS_NODE_ANY    ? POLICY_DEFAULT
                               : node == TS_NODE_EACH ? POLICY_INTERLEAVE
                                                      : POLICY_PREFERRED;
    memset(&set, 0, sizeof set);
    if (node == TS_NODE_EACH && !find_allowed(&set)) return false;
    if (mode == POLICY_PREFERRED && !ts_numa_set_add(&set, node)) return false;
    bool none = node == TS_NODE_ANY;
    ts_store_relaxed(&any_bound, true);
    return call_was(
        syscall(SYS_mbind, at, bytes, mode, none ? NULL : set.bits, none ? 0ul : (unsigned long)TS_NUMA_MAXNODE, 0u),
        before);
}

/* With no nodes to move to, the call tells where each page is, or a negative number of an error. */
static bool ask_nodes_of(void *const *at, size_t count, int *node) {
    int before = errno;
    if (!call_was(syscall(SYS_move_pages, 0, (unsigned long)count, at, NULL, node, 0), before)) return false;
    for (size_t i = 0; i < count; i++)
        if (node[i] < 0) node[i] = -1;
    return true;
}

/*
 * Linux watches from which node pages are used (kernel.numa_balancing): it takes the access to some pages away and
 * waits for the next one. Linux 6.1 says that such a page is on no node. A byte of it that the system reads for this
 * process brings it back. That is no fault even if the memory goes away meanwhile. A page without memory stays without.
 */
#define WATCHED_MOST 32u
static bool is_there(const void *at) {
    uintptr_t page = (uintptr_t)at & ~((uintptr_t)ts_os_page_bytes() - 1);
    unsigned char resident = 0;
    return syscall(SYS_mincore, page, (size_t)1, &resident) == 0 && (resident & 1) != 0;
}

/* Reads a byte of each page and asks again; more than once, as the kernel may take the access away between the two. */
static bool read_and_ask(void *const *page, const struct iovec *from, size_t n, int *found) {
    char bytes[WATCHED_MOST];
    struct iovec to = {bytes, n};
    bool all = false;
    for (unsigned tries = 0; !all && tries < 3; tries++) {
        if (syscall(SYS_process_vm_readv, (long)getpid(), &to, 1ul, from, (unsigned long)n, 0ul) <= 0) return false;
        if (!ask_nodes_of(page, n, found)) return false;
        all = true;
        for (size_t i = 0; i < n; i++) all &= found[i] >= 0;
    }
    return true;
}

/* Looks for watched pages among those without a node. Returns how many of the `count` pages are settled; 0: the system
   reads nothing. */
static size_t find_watched(void *const *at, size_t count, int *node) {
    void *page[WATCHED_MOST];
    struct iovec from[WATCHED_MOST];
    size_t index[WATCHED_MOST], n = 0;
    int found[WATCHED_MOST];
    for (size_t i = 0; i < count && n < WATCHED_MOST; i++) {
        if (node[i] >= 0 || !is_there(at[i])) continue;
        from[n] = (struct iovec){at[i], 1};
        index[n] = i;
        page[n++] = at[i];
    }
    if (n == 0) return count;
    if (!read_and_ask(page, from, n, found)) return 0;
    for (size_t i = 0; i < n; i++) node[index[i]] = found[i];
    return n < WATCHED_MOST ? count : index[n - 1] + 1;
}

bool ts_numa_nodes_of(void *const *at, size_t count, int *node) {
    if (!ask_nodes_of(at, count, node)) return false;
    int before = errno;
    for (size_t done = 0, n; done < count && (n = find_watched(at + done, count - done, node + done)) > 0;) done += n;
    errno = before;
    return true;
}
