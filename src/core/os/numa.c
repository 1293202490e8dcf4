/*
 * NUMA nodes on Linux. The calls are made by number: libnuma is not needed, and a library that stands in for libc's
 * functions is not met. Where a filter refuses one (EPERM, ENOSYS) it is refused, and what the caller does without NUMA holds.
 */
#define _GNU_SOURCE
#include "os/numa.h"

#include "base/atomic.h"
#include "os/os.h"

#include <errno.h>
#include <string.h>
#include <unistd.h>

#if defined(__linux__)
#include <sys/syscall.h>
#endif

#if defined(SYS_get_mempolicy) && defined(SYS_mbind) && defined(SYS_move_pages) && defined(SYS_getcpu)

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

/* What the cpuset allows, which are only nodes with memory; and of these what the process was bound to (numactl --membind). */
static bool allowed(ts_numa_set *set) {
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
    if (!allowed(&set)) return 0;
    for (int node = 0; node < (int)TS_NUMA_NODES_MOST; node++) {
        if (!ts_numa_set_has(&set, node)) continue;
        if (count < most) ids[count] = node;
        count++;
    }
    return count;
}

/* The C library's asks the kernel's page in the process, some 20 ns; the call takes 100 or more. Older libraries have none. */
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
    if (node == TS_NODE_EACH && !allowed(&set)) return false;
    if (mode == POLICY_PREFERRED && !ts_numa_set_add(&set, node)) return false;
    bool none = node == TS_NODE_ANY;
    ts_store_relaxed(&any_bound, true);
    return call_was(
        syscall(SYS_mbind, at, bytes, mode, none ? NULL : set.bits, none ? 0ul : (unsigned long)TS_NUMA_MAXNODE, 0u),
        before);
}

/* With no nodes to move to, the call tells where each page is, or a negative number of an error. */
bool ts_numa_nodes_of(void *const *at, size_t count, int *node) {
    int before = errno;
    if (!call_was(syscall(SYS_move_pages, 0, (unsigned long)count, at, NULL, node, 0), before)) return false;
    for (size_t i = 0; i < count; i++)
        if (node[i] < 0) node[i] = -1;
    return true;
}

#else

unsigned ts_numa_nodes(int *ids, unsigned most) {
    (void)ids, (void)most;
    return 0;
}
int ts_numa_here(void) { return -1; }
bool ts_numa_bind(void *at, size_t bytes, int node) {
    (void)at, (void)bytes, (void)node;
    return false;
}
bool ts_numa_nodes_of(void *const *at, size_t count, int *node) {
    (void)at, (void)count, (void)node;
    return false;
}
bool ts_numa_bound(void) { return false; }
void ts_numa_policy_of(void *at, ts_numa_policy *policy) { (void)at, (void)policy; }
void ts_numa_bind_again(void *at, size_t bytes, const ts_numa_policy *policy) { (void)at, (void)bytes, (void)policy; }

#endif
