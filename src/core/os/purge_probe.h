/*
 * Whether purge is true. Some systems answer that they took pages back and keep their bytes (emulators of user programs,
 * which take madvise for a hint). What is handed out as zero would not be zero, nor the allocator's own records. And whether a range from
 * which pages were moved stays one: the same emulators take it for free.
 */
#ifndef TS_OS_PURGE_PROBE_H
#define TS_OS_PURGE_PROBE_H

#include "os/os.h"

typedef enum ts_purge_kind {
    TS_PURGE_TRUE,    /* or the system had no memory to find out with */
    TS_PURGE_BY_MAPS, /* it is not: purge_anew is, and stands for it */
    TS_PURGE_NEVER,   /* neither is: every purge is refused */
} ts_purge_kind;

/* Tries purge and move on memory of its own, and puts into the table what is true. Before anything is purged; some 10 us. */
ts_purge_kind ts_os_probe_purge(ts_os_table *table);

#endif
