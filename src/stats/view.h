/*
 * A view: all that the renderers, the doctor and the shared page show, as one value without a pointer in it. It is made
 * from a snapshot in memory of its own (a mapping), and can be written to shared memory and read by another process of
 * the same version.
 *
 * Labels: the epochs are summed by their label. A view has at most TS_VIEW_LABELS of them, those with the most bytes in
 * slabs, and everything else in a row `other`. The first TS_VIEW_LABELS_SEEN distinct labels that the walk meets are told
 * apart, so a program that makes up a label for every request is summed in `other` too.
 */
#ifndef TS_STATS_VIEW_H
#define TS_STATS_VIEW_H

#include "stats/sink.h"
#include "stats/snapshot.h"

#define TS_VIEW_LABELS 64u
#define TS_VIEW_LABELS_SEEN 1023u
#define TS_VIEW_EPOCHS 64u /* half of them the oldest, half the largest of the others */
#define TS_VIEW_MAGIC 0x31776569766c7374u /* "tslview1" */

/* What the doctor finds. */
typedef enum ts_severity { TS_INFO, TS_WARNING, TS_CRITICAL } ts_severity;

#define TS_FINDINGS 24u
typedef struct ts_finding {
    ts_severity severity;
    uint64_t weight;       /* bytes or operations: the order within a severity */
    char id[32];           /* what kind of finding */
    char what[256];        /* what is wrong, in a sentence */
    char evidence[256];    /* the figures it rests on */
    char advice[256];
} ts_finding;

typedef struct ts_label_stats {
    char label[SLAB_LABEL_BYTES]; /* "" : epochs without one */
    uint32_t is_other;
    uint32_t unused;
#define X(field, ...) uint64_t field;
    TS_STATS_LABEL(X)
#undef X
    uint64_t class_objects[2][TS_COUNT_KINDS]; /* live; 0: open epochs, 1: closed ones */
    uint64_t class_bytes[2][TS_COUNT_KINDS];
} ts_label_stats;

typedef struct ts_view {
    uint64_t magic;
    uint32_t version;      /* SLAB_STATS_VERSION */
    uint32_t bytes;        /* sizeof(ts_view) */
    char library[16];      /* slab_version() */
    uint64_t pid;
    uint64_t taken_ns;     /* monotonic clock */
    uint64_t took_ns;      /* how long the snapshot took */
    SlabGlobalStats global;
    SlabThreadStats samples;
    SlabClassStats cls[TS_COUNT_KINDS];
    uint64_t epoch_count;
    uint32_t epoch_rows, label_rows;
    SlabEpochStats epoch[TS_VIEW_EPOCHS]; /* oldest first */
    ts_label_stats label[TS_VIEW_LABELS + 1];
    uint64_t finding_count;
    ts_finding finding[TS_FINDINGS]; /* worst first */
} ts_view;

/* NULL: no memory, or the allocator has ended. */
ts_view *ts_view_make(ts_allocator *allocator, uintptr_t token);
void ts_view_free(ts_view *view);

/* ---- renderers of a view: each in a file of its name ----------------------------------------------------------- */

void ts_render_json(ts_sink *sink, const ts_view *view);
void ts_render_prometheus(ts_sink *sink, const ts_view *view, bool openmetrics);
void ts_render_text(ts_sink *sink, const ts_view *view);
/* JSON of epochs alone: the `limit` largest or oldest. false: no memory. */
bool ts_render_epochs(ts_sink *sink, ts_allocator *allocator, uintptr_t token, SlabEpochOrder order, size_t limit);

const char *ts_state_name(int state);
/* "128", "scope", "span". */
const char *ts_class_name(uint32_t cls, char name[16]);
/* The label as it is shown: "(none)", "(other)". */
const char *ts_label_name(const ts_label_stats *label);
void ts_render_epoch_json(ts_sink *sink, const SlabEpochStats *epoch);

/* ---- doctor ---------------------------------------------------------------------------------------------------- */

/* Fills the findings of a view from its other figures. */
void ts_doctor(ts_view *view);
const char *ts_severity_name(ts_severity severity);
/* As text. Returns the worst severity, -1 if there is nothing. */
int ts_render_doctor(ts_sink *sink, const ts_view *view);

/* ---- memory for a moment: mapped, zeroed; NULL: none. No lock, no malloc. ------------------------------------------ */

void *ts_temporary_take(size_t bytes);
void ts_temporary_give(void *at, size_t bytes);

#endif
