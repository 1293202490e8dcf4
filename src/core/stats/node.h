/* Memory by NUMA node: what is asked for from a node, and where the system has put the pages. */
#ifndef TS_STATS_NODE_H
#define TS_STATS_NODE_H

#include "heap/allocator.h"

#include <tslab/stats.h>

/* What of it costs no system call: all but the resident and the foreign bytes, which are 0. false: no node of this process. */
bool ts_node_counts(const ts_allocator *allocator, int node, SlabNodeStats *out);
/* All of it. The allocator is pinned. Holds nothing. */
bool ts_node_stats(ts_allocator *allocator, int node, SlabNodeStats *out);

#endif
