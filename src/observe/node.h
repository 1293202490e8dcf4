/* Memory by NUMA node: asked for from a node, and where the system has put the pages. */
#ifndef TS_OBSERVE_NODE_H
#define TS_OBSERVE_NODE_H

#include "supply/allocator.h"

#include <tslab/stats.h>

#define TS_NODE_ROWS 16u
/* A row for each node that the allocator tells apart, without what the system would have to be asked for: that is 0.
   Returns how many: 0 without the option numa and epoch_bind, or with one node. Any thread, also in a signal
   handler. */
uint32_t ts_node_rows(const ts_allocator *allocator, SlabNodeStats out[TS_NODE_ROWS]);

/* The figures of a node; the system is asked for every page of the allocator, which is pinned. Holds nothing. false:
   no node of this process. */
bool ts_node_stats(ts_allocator *allocator, int node, SlabNodeStats *out);

#endif
