/*
 * Homes: on which NUMA node the memory of a unit is to lie. Home 0 (ANY) is wherever the system puts it; each node with memory that
 * is told apart has a home of its own; what is spread over all nodes has one, too (EACH).
 *
 * Invariants
 *  1. The units of a block of 2 MiB, which is a huge page, have one home. It is read off a table by anyone, from the address
 *     alone: a unit in use keeps its home, so it need not be noted anywhere else.
 *  2. A block changes its home only while all of its units are free and in the hands of who changes it (pool.c), who
 *     has the lock of the pool that it leaves. The system is told (ts_os->bind) before the block is in the other pool.
 *  3. No run of units, free, warm or in use, goes across blocks of different homes.
 *  4. Homes are numbered once, when the first allocator wants one, and keep their nodes. Without NUMA, with one node, or
 *     where the system refuses to say, there is ANY alone, and all of this is a table of zeros.
 * Nothing here promises where a page is: a node without memory left sends its pages elsewhere. Who wants to know asks the
 * system (ts_os->nodes_of).
 */
#ifndef TS_REGION_HOME_H
#define TS_REGION_HOME_H

#include "region/region.h"

#define TS_HOME_NODES 16u /* nodes that are told apart: memory of others is of home ANY */
#define TS_HOME_ANY 0u
#define TS_HOME_EACH (TS_HOME_NODES + 1u)
#define TS_HOMES (TS_HOME_NODES + 2u)
#define TS_HOME_SHIFT 7u /* 128 units */
#define TS_HOME_UNITS (1u << TS_HOME_SHIFT)
/* A smaller region (where the address space is limited) has one home: blocks could not be had for several. */
#define TS_HOME_LEAST_UNITS ((uint32_t)1 << 14)

/* Units of the FAR part, whose numbers come after those of the NORMAL one, are all of ANY. One more, for who looks
   behind the last unit. */
#define TS_HOME_BLOCKS (TS_ALL_UNITS / TS_HOME_UNITS + 1)
extern TS_HIDDEN _Atomic uint8_t ts_home_blocks[TS_HOME_BLOCKS];

/* acquire: partner of the release in ts_home_set */
static inline unsigned ts_home_of(uint32_t unit) { return ts_load_acquire(&ts_home_blocks[unit >> TS_HOME_SHIFT]); }
static inline bool ts_home_is_same(uint32_t unit, uint32_t other) {
    return unit >> TS_HOME_SHIFT == other >> TS_HOME_SHIFT || ts_home_of(unit) == ts_home_of(other);
}
/* Whole blocks. Caller: see 2. */
void ts_home_set(uint32_t first, uint32_t units, unsigned home);
/* Tells the system. false: it refused; the memory comes from where it is first touched then. */
bool ts_home_bind(uint32_t first, uint32_t units, unsigned home);

/* Asks for the nodes and numbers them, once. Caller: has the start mutex (runtime.c), or is alone. */
void ts_homes_start(void);
/* Of another system, for tests: all is as before the first start. No unit has a home. */
void ts_homes_forget(void);
/* Homes of nodes: 1 to this. 0: there is ANY alone. */
extern TS_HIDDEN _Atomic uint32_t ts_homes_known;
static inline unsigned ts_homes_count(void) { return ts_load_acquire(&ts_homes_known); } /* acquire: ts_homes_start */
/* Nodes that the system has told of, 0: none. And whether it takes memory to a node that is asked for (ts_os->bind). */
unsigned ts_homes_nodes(void);
bool ts_homes_bind(void);
/* -1: it is not one node's. */
int ts_home_node(unsigned home);
/* The home of a node. false: the process may have no memory there, or it is not told apart. With one node only: that one's is ANY. */
bool ts_home_of_node(int node, unsigned *home);
/* The home of the node that the calling thread runs on, or, if that has no memory, of the one that its memory comes from. ANY: not
   known. Cost: some 20 ns. */
unsigned ts_home_here(void);

#endif
