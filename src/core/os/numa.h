/* The NUMA functions of the native table (os.h) for Linux, by system calls alone. */
#ifndef TS_OS_NUMA_H
#define TS_OS_NUMA_H

#include "base/base.h"

unsigned ts_numa_nodes(int *ids, unsigned most);
int ts_numa_here(void);
bool ts_numa_bind(void *at, size_t bytes, int node);
bool ts_numa_nodes_of(void *const *at, size_t count, int *node);

/*
 * The nodes that a range was bound to, for code that maps the range anew. A new mapping over it, or pages moved to
 * it, take the binding away. ts_numa_bound is false while nothing was ever bound, which is the usual case and costs
 * no call.
 */
typedef struct ts_numa_policy ts_numa_policy;
bool ts_numa_bound(void);
/* The policy of a range. All of its pages have one policy. */
void ts_numa_policy_of(void *at, ts_numa_policy *policy);
bool ts_numa_bind_again(void *at, size_t bytes, const ts_numa_policy *policy);

/*
 * A set of nodes as the kernel takes it: an array of longs, and a number `maxnode`. The kernel reads maxnode - 1 bits
 * of the array. So a mask for node N needs a maxnode of N + 2 at least. With N + 1 the call is refused, or means no
 * node at all. The kernel also refuses to write a mask that is shorter than its own. So each set has room for all
 * nodes of any kernel, and each call passes the whole set.
 */
#define TS_NUMA_NODES_MOST 1024u
#define TS_NUMA_MAXNODE (TS_NUMA_NODES_MOST + 1u)
#define TS_NUMA_LONG_BITS (8u * (unsigned)sizeof(unsigned long))
typedef struct ts_numa_set {
    unsigned long bits[TS_NUMA_NODES_MOST / TS_NUMA_LONG_BITS];
} ts_numa_set;

struct ts_numa_policy {
    int mode;
    ts_numa_set set;
};

/* false: no node has that id. */
static inline bool ts_numa_set_add(ts_numa_set *set, int node) {
    if (node < 0 || (unsigned)node >= TS_NUMA_NODES_MOST) return false;
    set->bits[(unsigned)node / TS_NUMA_LONG_BITS] |= 1ul << (unsigned)node % TS_NUMA_LONG_BITS;
    return true;
}
static inline bool ts_numa_set_has(const ts_numa_set *set, int node) {
    return node >= 0 && (unsigned)node < TS_NUMA_NODES_MOST &&
           (set->bits[(unsigned)node / TS_NUMA_LONG_BITS] >> (unsigned)node % TS_NUMA_LONG_BITS & 1u) != 0;
}

#endif
