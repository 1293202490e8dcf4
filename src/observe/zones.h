/*
 * Figures of zones that are open, for the view. libtslab-zones writes them here; the core knows nothing else of them.
 *
 * A row belongs to its taker until it is given back. The taker writes it from one thread at a time. Any thread reads it
 * at any time, a signal handler too, and does not wait: the row has two banks, and the one that is not shown is written
 * (as in advice/page.h).
 */
#ifndef TS_OBSERVE_ZONES_H
#define TS_OBSERVE_ZONES_H

#include "base/attr.h"

#include <stdint.h>

#define TS_ZONES_ROWS 8u
#define TS_ZONES_NO_ROW UINT32_MAX
typedef struct ts_zones_stats {
    char device[64];                                              /* the end of where it is, if that is longer */
    uint64_t empty_zones, active_zones, full_zones, failed_zones; /* advice/fields.h has what each of these says */
    uint64_t zones, shared_zones, waiting_zones, spilled_epochs, spilled_bytes, kept_bytes;
    uint64_t appended_bytes, payload_bytes, padding_bytes, reset_zones_total, reset_filled_bytes_total, reclaimed_zones;
    uint64_t spills_total, loads_total, reads_total, errors_total, zone_bytes, capacity_bytes;
    uint64_t write_amplification, fill_at_reset; /* in thousandths */
} ts_zones_stats;

/* TS_ZONES_NO_ROW: all are taken. It shows nothing until it is written. */
TS_PRIVATE uint32_t ts_zones_row_take(void);
/* The two ratios are made here. */
TS_PRIVATE void ts_zones_row_write(uint32_t row, const ts_zones_stats *stats);
TS_PRIVATE void ts_zones_row_give(uint32_t row);
/* The rows that are shown. Returns how many. */
uint32_t ts_zones_rows(ts_zones_stats out[TS_ZONES_ROWS]);

#endif
