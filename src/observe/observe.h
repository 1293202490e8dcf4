/*
 * A view: all that the renderers, the doctor and the shared page show, as one value without a pointer in it. It is made
 * from a snapshot in memory of its own (a mapping), and can be written to shared memory and read by another process of
 * the same version.
 *
 * Labels: the epochs are summed by their label. A view has at most TS_VIEW_LABELS of them, those with the most bytes
 * in slabs, and everything else in a row `other`. The first TS_VIEW_LABELS_SEEN distinct labels that the walk meets
 * are told apart, so a program that makes up a label for every request is summed in `other` too.
 */
#ifndef TS_OBSERVE_OBSERVE_H
#define TS_OBSERVE_OBSERVE_H

#include "base/base.h"
#include "core/read.h"
#include "observe/snapshot.h"

#include <tslab/stats.h>
#include <tslab/tslab.h>

#include <stddef.h>
#include <stdint.h>

/* ---- figures of zones ------------------------------------------------------------------------------------------- */

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

/* ---- contention by label ---------------------------------------------------------------------------------------- */

#define TS_CONTENTION_LABELS 32u
#define TS_CONTENTION_ROWS (TS_CONTENTION_LABELS + 1) /* the last: all labels that found no row */

typedef struct ts_contention {
    char label[SLAB_LABEL_BYTES]; /* "": epochs without one, or threads in none */
    uint32_t is_other, unused;
    uint64_t lock_waits, cas_retries;
} ts_contention;

/* Waits and repeats are counted from here on. */
void ts_contention_start(void);
/* The rows that have counted anything. Returns how many. */
unsigned ts_contention_rows(ts_contention out[TS_CONTENTION_ROWS]);

/* ---- memory by NUMA node ---------------------------------------------------------------------------------------- */

/* Memory by NUMA node: asked for from a node, and where the system has put the pages. */

#define TS_NODE_ROWS 16u
/* A row for each node that the allocator tells apart, without what the system would have to be asked for: that is 0.
   Returns how many: 0 without the option numa and epoch_bind, or with one node. Any thread, also in a signal
   handler. */
uint32_t ts_node_rows(const ts_allocator *allocator, SlabNodeStats out[TS_NODE_ROWS]);

/* The figures of a node; the system is asked for every page of the allocator, which is pinned. Holds nothing. false:
   no node of this process. */
bool ts_node_stats(ts_allocator *allocator, int node, SlabNodeStats *out);

/* ---- views ------------------------------------------------------------------------------------------------------ */

#define TS_VIEW_LABELS 64u
#define TS_VIEW_LABELS_SEEN 1023u
#define TS_VIEW_EPOCHS 64u /* half of them the oldest, half the largest of the others */
#define TS_VIEW_STACKS 64u /* the largest; a quarter is for those of closed epochs, if there are so many */
#define TS_VIEW_MODULES 32u
#define TS_VIEW_MAGIC 0x33776569766c7374u /* "tslview3" */
#define TS_VIEWS 8u                       /* allocators that are shown at once: those that hold most */

/* What the doctor finds. */
typedef enum ts_severity { TS_INFO, TS_WARNING, TS_CRITICAL } ts_severity;

#define TS_FINDINGS 24u
#define TS_FINDING_STACKS 12u
typedef struct ts_finding {
    ts_severity severity;
    uint64_t weight;              /* bytes or operations: the order within a severity */
    char id[32];                  /* what kind of finding */
    char label[SLAB_LABEL_BYTES]; /* has_label: the epochs it is about */
    int32_t state;                /* theirs */
    uint32_t has_label;
    uint32_t site[TS_FINDING_STACKS]; /* its stacks: a row of the view + 1; all 0: those of that label and state */
    uint32_t unused;
    char what[256];     /* what is wrong, in a sentence */
    char evidence[256]; /* the figures it rests on */
    char advice[256];
} ts_finding;

#define TS_LABEL_SUMS (14u + 8u * TS_COUNT_KINDS)
typedef struct ts_label_stats {
    char label[SLAB_LABEL_BYTES]; /* "" : epochs without one */
    uint32_t is_other;
    uint32_t unused;
    int64_t growth_bytes_per_minute; /* of the live bytes of open epochs, by their lows of the last growth_ns */
    uint64_t growth_ns;              /* 0: not known */
    uint64_t active_age_ns, closing_age_ns, closing_for_ns; /* the longest */
    union {
        struct { /* advice/fields.h has what each of these says */
            uint64_t active_epochs, active_live_objects, active_live_bytes, active_rss_bytes;
            uint64_t closing_epochs, closing_live_objects, closing_live_bytes, closing_rss_bytes;
            uint64_t spilled_epochs, spilled_live_objects, spilled_live_bytes, spilled_bytes;
            uint64_t active_allocated, active_freed;   /* objects, there ever were in the epochs that are open */
            uint64_t class_objects[2][TS_COUNT_KINDS]; /* live; 0: open epochs, 1: closed ones */
            uint64_t class_bytes[2][TS_COUNT_KINDS];
            uint64_t class_slabs[2][TS_COUNT_KINDS]; /* that hold them, and these in bytes */
            uint64_t class_rss_bytes[2][TS_COUNT_KINDS];
        };
        uint64_t sum[TS_LABEL_SUMS];
    };
} ts_label_stats;
_Static_assert(sizeof(ts_label_stats) == offsetof(ts_label_stats, sum) + sizeof(uint64_t[TS_LABEL_SUMS]),
               "all of them");

/* A program or library that a frame of a shown stack lies in. */
typedef struct ts_stack_module {
    uint64_t base; /* an address less this is the address in its file */
    uint64_t start, end;
    uint32_t is_program; /* not a library */
    uint32_t unused;
    char path[224];
} ts_stack_module;

/* What sampled objects of threads with one name add up to. */
typedef struct ts_thread_share {
    char name[16];
    uint64_t samples, live_objects, live_bytes; /* the latter two are estimates */
} ts_thread_share;
#define TS_VIEW_THREADS 17u /* names; the last place has the others, as TS_THREADS_OTHER, if there are more */
#define TS_THREADS_OTHER "(others)"

typedef struct ts_view {
    uint64_t magic;
    uint32_t version; /* SLAB_STATS_VERSION */
    uint32_t bytes;   /* sizeof(ts_view) */
    char library[16]; /* slab_version() */
    char name[12];    /* of the allocator, as the tools say it */
    uint32_t number;  /* among the live ones, from 0 */
    uint64_t pid;
    uint64_t taken_ns; /* monotonic clock */
    uint64_t took_ns;  /* how long the snapshot took */
    SlabGlobalStats global;
    SlabThreadStats samples;
    uint64_t slow_samples[4]; /* ts_snapshot_samples */
    SlabClassStats cls[TS_COUNT_KINDS];
    uint64_t epoch_count;
    uint32_t epoch_rows, label_rows;
    SlabEpochStats epoch[TS_VIEW_EPOCHS]; /* oldest first */
    SlabEpochStats ended[TS_VIEW_ENDED];  /* newest first */
    uint64_t ended_rows;
    ts_label_stats label[TS_VIEW_LABELS + 1];
    ts_zones_stats zones[TS_ZONES_ROWS]; /* of the process: the same in the view of each allocator */
    uint64_t zones_rows;
    ts_contention contention[TS_CONTENTION_ROWS]; /* of the process, too */
    uint64_t contention_rows;
    SlabNodeStats node[TS_NODE_ROWS]; /* by rising id */
    uint64_t node_rows;
    uint64_t stack_mean_bytes; /* one sample in so many; 0: none are taken now */
    uint64_t stack_count;      /* there are; the rows are the largest of them */
    uint32_t stack_rows, module_rows;
    SlabStackSample stack[TS_VIEW_STACKS]; /* most bytes first */
    ts_stack_module module[TS_VIEW_MODULES];
    uint32_t thread_rows, thread_unused;
    ts_thread_share thread[TS_VIEW_THREADS]; /* most bytes first */
    uint64_t watched_ns;                     /* is_watched: for how long, which says what growth can be seen */
    uint32_t is_watched, unused;
    uint64_t finding_count;
    ts_finding finding[TS_FINDINGS]; /* worst first */
} ts_view;

/* Whether it names stacks, or will name those of what is allocated next. */
static inline bool ts_view_has_stacks(const ts_view *view) {
    return view->stack_mean_bytes != 0 || view->stack_count != 0;
}

/* Without findings, which are advice/advice.h's. NULL: no memory, or the allocator has ended. */
ts_view *ts_view_make(ts_allocator *allocator, uintptr_t token);
void ts_view_free(ts_view *view);
/* Calls fn with the `limit` largest or oldest epochs, and how many there are in all. false: no memory, or the allocator
   has ended. */
bool ts_view_epochs(ts_allocator *allocator, uintptr_t token, SlabEpochOrder order, size_t limit,
                    void (*fn)(void *arg, const SlabEpochStats *rows, size_t count, uint64_t all), void *arg);
/* An allocator that is shown: its number among the live ones, from 0, and its name. */
typedef struct ts_shown {
    ts_allocator *allocator;
    uintptr_t token;
    uint32_t number;
    const char *name;
} ts_shown;
#define TS_LABEL_MALLOC "malloc" /* all that libtslab-malloc allocates, but for what domains capture */

/* ---- sampled stacks, in stack_sums.c ------------------------------------------------------------------------- */

/* The caller is between ts_allocator_read_begin and _end. Returns how many there are; rows: the largest. epoch
   EPOCH_NONE: of all. *memory: there was enough. */
size_t ts_stacks_sum(ts_allocator *allocator, uintptr_t token, EpochId epoch, SlabStackSample *rows, size_t capacity,
                     bool *memory);
/* Fills the stacks of a view, a quarter of its rows for closed epochs first, and the threads. */
void ts_view_stacks(ts_view *view, ts_allocator *allocator, uintptr_t token);
/* Fills the modules that the stacks lie in, which name their places. It takes the loader's lock, so it is not for a
   signal handler. */
void ts_view_modules(ts_view *view);
/* The module of the view that an address lies in; NULL: none. */
const ts_stack_module *ts_view_module(const ts_view *view, uint64_t address);

/* ---- for the floors above ---------------------------------------------------------------------------------------- */

/* Once, when there is a region: from here on messages of misuse say what they are about, and contention is counted. */
void ts_observe_start(void);
/* The process ends with a report of the objects that are live, for the option memory_tools. */
void ts_listen_for_leaks(void);
/* Stacks begin outside of that code, too. Once, by a library that allocates for the program. */
void ts_stacks_leave_out(const void *start, size_t bytes);
/* The table of sampled stacks, once; before an allocator samples. false: no memory. Holding nothing. */
bool ts_stacks_start(void);
/* What other threads were writing is lost to the child. */
void ts_stacks_fork_child(void);
/* Shows each live object of the epoch until fn returns false. Returns how many were shown. An object that is
   allocated or dies meanwhile is shown or not. Takes a lock for large objects only. Cost: a look at each unit that
   was ever used. */
size_t ts_epoch_walk(uintptr_t allocator, EpochId epoch, bool (*fn)(void *, size_t, void *), void *arg);

/* One allocator, by its token. false: it has ended. */
bool ts_shown_one(uintptr_t token, ts_shown *out);
/* All live ones; of more than TS_VIEWS those that hold most, by rising number. Returns how many; *found: there are. */
unsigned ts_shown_all(ts_shown out[TS_VIEWS], uint32_t *found);
/* Of slab_allocator_default; 0: there is none yet. Written once. */
extern TS_HIDDEN _Atomic uintptr_t ts_default_token;
/* Copies a structure to a caller that knows `bytes` of it; 0 in those that only he knows. */
void ts_copy_out(void *out, size_t bytes, const void *from, size_t filled);

#endif
