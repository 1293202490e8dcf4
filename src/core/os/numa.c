/*
 * NUMA nodes on Linux. The calls are made by number: they need no libnuma, and pass by libraries that replace libc's
 * functions. Where a filter refuses a call (EPERM, ENOSYS), the caller goes on as without NUMA.
 */
#define _GNU_SOURCE
#include "os/numa.h"

#include "base/base.h"
#include "os/os.h"

#include <errno.h>
#include <stdint.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#define POLICY_DEFAULT 0
#define POLICY_PREFERRED 1
#define POLICY_BIND 2
#define POLICY_INTERLEAVE 3
#define POLICY_MODE_BITS 0xff /* above these are flags */
#define MEMORY_ALLOWED 4
#define OF_ADDRESS 2
#define ITS_NODE 1

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

bool ts_numa_bind_again(void *at, size_t bytes, const ts_numa_policy *policy) {
    int before = errno;
    bool none = policy->mode == POLICY_DEFAULT; /* which takes no nodes */
    return call_was(syscall(SYS_mbind, at, bytes, policy->mode, none ? NULL : policy->set.bits,
                            none ? 0ul : (unsigned long)TS_NUMA_MAXNODE, 0u),
                    before);
}

bool ts_numa_bind(void *at, size_t bytes, int node) {
    ts_numa_policy policy = {.mode = node == TS_NODE_ANY    ? POLICY_DEFAULT
                                     : node == TS_NODE_EACH ? POLICY_INTERLEAVE
                                                            : POLICY_PREFERRED};
    if (node == TS_NODE_EACH && !find_allowed(&policy.set)) return false;
    if (policy.mode == POLICY_PREFERRED && !ts_numa_set_add(&policy.set, node)) return false;
    ts_store_relaxed(&any_bound, true);
    return ts_numa_bind_again(at, bytes, &policy);
}

/*
 * Linux watches from which node pages are used (kernel.numa_balancing): it takes the access to some pages away and
 * waits for the next one. Linux 6.1 says that such a page is on no node. The question for one page brings the access
 * back, as if the process had read there. That is no fault even if the memory goes away meanwhile. The question would
 * give memory to a page that has none: so the kernel is asked for that first.
 */
static int node_of_watched(const void *at) {
    uintptr_t page = (uintptr_t)at & ~((uintptr_t)ts_os_page_bytes() - 1);
    unsigned char resident = 0;
    int node = -1;
    if (syscall(SYS_mincore, page, (size_t)1, &resident) != 0 || (resident & 1) == 0) return -1;
    return syscall(SYS_get_mempolicy, &node, NULL, 0ul, at, OF_ADDRESS | ITS_NODE) == 0 ? node : -1;
}

/* With no nodes to move to, the call tells where each page is, or a negative number of an error. */
bool ts_numa_nodes_of(void *const *at, size_t count, int *node) {
    int before = errno;
    if (!call_was(syscall(SYS_move_pages, 0, (unsigned long)count, at, NULL, node, 0), before)) return false;
    for (size_t i = 0; i < count; i++)
        if (node[i] < 0) node[i] = node_of_watched(at[i]);
    errno = before;
    return true;
}
