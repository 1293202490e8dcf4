/*
 * Machines with NUMA nodes that are not there: a table of the os layer that knows the nodes it is told, notes the
 * bindings, and reports each page on the node of its binding. So the library's requests can be tested anywhere; tests
 * in a virtual machine (tests/vm) show a kernel's answers.
 */
#ifndef SUP_TOPOLOGY_H
#define SUP_TOPOLOGY_H

#include <stdbool.h>
#include <stddef.h>

typedef struct sup_topology {
    int nodes[64]; /* those with memory, rising */
    unsigned count;
    int nearest;       /* where memory comes from for a thread on a node that has none */
    bool refuse_nodes; /* the calls that are refused, each by itself */
    bool refuse_bind, refuse_here, refuse_where;
    int full; /* a node that has no memory left: pages bound to it lie on `nearest`; -1: none */
} sup_topology;

/* The table in use is this machine's, from now on; before the first allocator. It is copied. */
void sup_topology_use(const sup_topology *topology);
/* The machine in use, for small changes. */
sup_topology *sup_topology_now(void);
/* The calling thread runs on that node from now on. Others, and this one before, on the first. */
void sup_topology_go_to(int node);
/* Calls that bound anything; and of node_here. */
unsigned sup_topology_binds(void);
unsigned sup_topology_heres(void);
/* The node that an address is bound to; -1: none, -2: all of them. */
int sup_topology_bound(const void *at);

#endif
