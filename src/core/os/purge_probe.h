/*
 * Whether purge and move do what they promise. Emulators of user programs take madvise for a hint: they answer that
 * they took pages back, and keep the bytes. Then memory handed out as zero would not be zero, nor would the
 * allocator's own records. Such emulators also take a range from which pages were moved for a free one.
 */
#ifndef TS_OS_PURGE_PROBE_H
#define TS_OS_PURGE_PROBE_H

#include "os/os.h"

typedef enum ts_purge_kind {
    TS_PURGE_TRUE,    /* or there was no memory to find out with */
    TS_PURGE_BY_MAPS, /* purge is not true; purge_anew is, and takes its place */
    TS_PURGE_NEVER,   /* neither is true: every purge is refused */
} ts_purge_kind;

/* Tries purge and move on memory of its own, and puts functions that are true into the table. Called before the first
   purge; some 10 us. */
ts_purge_kind ts_os_probe_purge(ts_os_table *table);

#endif
