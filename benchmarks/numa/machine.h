/*
 * A simulated machine with NUMA nodes, which sees the reads and writes of its threads. The allocator is the real one:
 * it is told of the nodes, and asks for memory of them (tests/support/topology.h). This says where each page is then,
 * as Linux would have it: a page without memory gets some of the node that its range is bound to, or else of the node
 * of the thread that touches it first, and keeps it until it is given back. And it gives the cost of an access: nothing
 * but a hit in the thread's own cache, or memory of its node, or of another.
 *
 * One thread runs at a time. The machine is of the process: one in each.
 */
#ifndef NUMA_MACHINE_H
#define NUMA_MACHINE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define MACHINE_NODES 8u
#define MACHINE_THREADS 16u

typedef struct machine_counts {
    uint64_t hits, local, remote;    /* lines of 64 bytes: of the cache, of the node's memory, of another's */
    uint64_t of_node[MACHINE_NODES]; /* misses that each node's memory has served */
} machine_counts;

/* Nodes 0 to nodes - 1, from now on. Before the first allocator. */
void machine_use(unsigned nodes);
/* Once there is an allocator. */
void machine_begin(void);
/* The calling thread has this cache, and runs on that node. */
void machine_go_to(unsigned thread, unsigned node);
/* It reads these bytes, or writes them. */
void machine_access(const void *at, size_t bytes, bool writes);
/* The counts since the last call. */
machine_counts machine_take_counts(void);

#endif
