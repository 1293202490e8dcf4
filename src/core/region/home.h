/*
 * Homes: the home of a unit is the NUMA node on which its memory is to lie. Each node with memory that is told apart
 * has a home of its own. Home ANY (0) is wherever the system puts memory. Home EACH is memory that is spread over all
 * nodes.
 *
 * A HUGE PAGE is an aligned row of 128 units, 2 MiB, whatever pages the system uses.
 *
 * Invariants
 *  1. The units of a huge page have one home. Any thread reads it from a table, by the address alone. A unit in use
 *     keeps its home, so no other record needs to note it.
 *  2. A huge page changes its home only while all of its units are free, and one thread has them in its hands
 *     (pool_homes.c). That thread holds the lock of the pool that the units leave. It tells the system (ts_os->bind)
 *     before the units are in the other pool.
 *  3. No run of units, free, retained or in use, crosses from one home to another.
 *  4. Homes are numbered once, when the first allocator wants one, and keep their nodes. Without NUMA, with one node,
 *     or where the system refuses to say, ANY is the only home, and there is no table.
 * Nothing here promises where a page is: a node without free memory sends its pages elsewhere. ts_os->nodes_of asks the
 * system.
 */
#ifndef TS_REGION_HOME_H
#define TS_REGION_HOME_H

#include "region/region.h"

#define TS_HOME_NODES 16u /* nodes that are told apart; memory of other nodes has home ANY */
#define TS_HOME_ANY 0u
#define TS_HOME_EACH (TS_HOME_NODES + 1u)
#define TS_HOMES (TS_HOME_NODES + 2u)
#define TS_HOME_SHIFT 7u /* 128 units */
#define TS_HOME_UNITS (1u << TS_HOME_SHIFT)
/* A smaller region (where the address space is limited) has one home: it has too few huge pages for several. */
#define TS_HOME_LEAST_UNITS ((uint32_t)1 << 14)

/* The home of each huge page; NULL: ANY is the only home. FAR units, whose numbers come after the NORMAL ones, all have
   home ANY. */
extern TS_HIDDEN _Atomic(_Atomic uint8_t *) ts_home_huge_pages;

/* acquire: partner of the releases in ts_homes_start and ts_home_set */
static inline unsigned ts_home_of(uint32_t unit) {
    const _Atomic uint8_t *homes = ts_load_acquire(&ts_home_huge_pages);
    return TS_LIKELY(homes == NULL) ? TS_HOME_ANY : ts_load_acquire(&homes[unit >> TS_HOME_SHIFT]);
}
static inline bool ts_home_is_same(uint32_t unit, uint32_t other) {
    return unit >> TS_HOME_SHIFT == other >> TS_HOME_SHIFT || ts_home_of(unit) == ts_home_of(other);
}
/* Sets the home of whole huge pages. Caller: invariant 2. */
void ts_home_set(uint32_t first, uint32_t units, unsigned home);
/* Tells the system the node of whole huge pages. false: it refused; then the first touch of a page decides. */
bool ts_home_bind(uint32_t first, uint32_t units, unsigned home);

/* Asks for the nodes and numbers them, once. Caller has the start mutex (runtime.c), or is alone. */
void ts_homes_start(void);
/* The homes of nodes are 1 to this number. 0: ANY is the only home. */
extern TS_HIDDEN _Atomic uint32_t ts_homes_known;
static inline unsigned ts_homes_count(void) { return ts_load_acquire(&ts_homes_known); } /* acquire: ts_homes_start */
/* Nodes that the system reports; 0: it reports none. */
unsigned ts_homes_nodes(void);
/* Whether the system puts memory on a node that it is asked for (ts_os->bind). */
bool ts_homes_bind(void);
/* The node of a home; -1: it is not one node's. */
int ts_home_node(unsigned home);
/* The home of a node. A single node has ANY. false: the process may have no memory there, or the node is not told
   apart. */
bool ts_home_of_node(int node, unsigned *home);
/* The home of the node that the calling thread runs on. If that node has no memory: of the node that its memory comes
   from. ANY: not known. Cost: some 20 ns. */
unsigned ts_home_here(void);

#endif
