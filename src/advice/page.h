/*
 * The statistics page: views of allocators in shared memory that another process can read, also when this one hangs.
 * Switched on by TSLAB_SHM=1; Linux only.
 *
 * A thread of the page's own takes a view of each allocator each TS_PAGE_INTERVAL_NS and writes it; of more than
 * TS_PAGE_ALLOCATORS of those that hold most. A view takes no lock but the loader's, and that one only where it shows
 * sampled stacks (ts_view_modules), so the page stays true while every other thread hangs outside of the loader; when
 * the process is stopped, the page stands at what was true an interval before at most. The program's own threads do
 * nothing for it.
 * The memory is a memfd that is found at /proc/PID/fd under the name TS_PAGE_NAME: it needs no name in a file system,
 * can be opened by the same user and root only, for reading only (sealed), and goes with the process. A child of fork
 * gets a page of its own.
 *
 * Two banks: a view is written into the one that is not shown, then `turn` rises and shows it (its lowest bit is the
 * bank). A reader copies the bank of the turn that it read and looks at the turn again: unchanged, what it copied is
 * whole. A writer that stops in the middle never keeps a reader from the last whole bank.
 */
#ifndef TS_ADVICE_PAGE_H
#define TS_ADVICE_PAGE_H

#include "observe/observe.h"

#define TS_PAGE_NAME "tslab-stats"
#define TS_PAGE_MAGIC 0x33656761706c7374u /* "tslpage3" */
#define TS_PAGE_ALLOCATORS TS_VIEWS
#define TS_PAGE_INTERVAL_NS 250000000u

typedef struct ts_page_bank {
    uint64_t written_ns; /* monotonic clock, which all processes share */
    uint32_t allocators; /* there are; at most TS_PAGE_ALLOCATORS are shown */
    uint32_t views;
    ts_view view[TS_PAGE_ALLOCATORS];
} ts_page_bank;

typedef struct ts_page {
    uint64_t magic;
    uint32_t version; /* SLAB_STATS_VERSION */
    uint32_t bytes;   /* sizeof(ts_page) */
    uint64_t pid;
    uint64_t interval_ns;
    _Atomic uint64_t turn; /* 0: nothing written yet */
    ts_page_bank bank[2];
} ts_page;

/* Starts the page once, if it is wanted. May allocate by malloc. */
void ts_page_start(bool wanted);
/* In a child of fork, at the end of the outermost fork: for a process that has a page. */
void ts_page_fork_child(void);

#endif
