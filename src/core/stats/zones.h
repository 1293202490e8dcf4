/*
 * Figures of zones that are open, for the view. libtslab-zones writes them here; the core knows nothing else of them.
 *
 * A row belongs to its taker until it is given back. The taker writes it from one thread at a time. Any thread reads it
 * at any time, a signal handler too, and does not wait: the row has two banks, and the one that is not shown is written
 * (as in api/page.h).
 */
#ifndef TS_STATS_ZONES_H
#define TS_STATS_ZONES_H

#include "base/attr.h"
#include "stats/fields.h"

#include <stdint.h>

#define TS_ZONES_ROWS 8u
#define TS_ZONES_NO_ROW UINT32_MAX
typedef struct ts_zones_stats {
    char device[64]; /* the end of where it is, if that is longer */
#define X(field, ...) uint64_t field;
    TS_STATS_ZONES(X)
#undef X
} ts_zones_stats;

/* TS_ZONES_NO_ROW: all are taken. It shows nothing until it is written. */
TS_PRIVATE uint32_t ts_zones_row_take(void);
/* The two ratios are made here. */
TS_PRIVATE void ts_zones_row_write(uint32_t row, const ts_zones_stats *stats);
TS_PRIVATE void ts_zones_row_give(uint32_t row);
/* The rows that are shown. Returns how many. */
uint32_t ts_zones_rows(ts_zones_stats out[TS_ZONES_ROWS]);

#endif
