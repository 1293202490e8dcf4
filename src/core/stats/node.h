/* Memory by NUMA node: asked for from a node, and where the system has put the pages. */
#ifndef TS_STATS_NODE_H
#define TS_STATS_NODE_H

#include "stats/fields.h"
#include "supply/allocator.h"

#include <tslab/stats.h>

/* A node in the view: the figures that cost no system call. */
#define TS_NODE_ROWS 16u
typedef struct ts_node_row {
    int32_t node; /* an id as the system has it */
    uint32_t unused;
#define X(field, ...) uint64_t field;
    TS_STATS_NODE_COUNTED(X)
#undef X
} ts_node_row;

/* A row for each node that the allocator tells apart. Returns how many: 0 without the option numa and epoch_bind, or
   with one node. Any thread, also in a signal handler. */
uint32_t ts_node_rows(const ts_allocator *allocator, ts_node_row out[TS_NODE_ROWS]);

/* The figures of a node; the system is asked for every page of the allocator, which is pinned. Holds nothing. false:
   no node of this process. */
bool ts_node_stats(ts_allocator *allocator, int node, SlabNodeStats *out);

#endif
