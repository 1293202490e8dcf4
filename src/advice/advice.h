/*
 * What is said of a view: JSON, text and metrics; findings, with their evidence and what to do; the stacks of a
 * finding; and the holders of memory. All of it reads the view alone, but for growth.c, which keeps histories of views.
 */
#ifndef TS_ADVICE_ADVICE_H
#define TS_ADVICE_ADVICE_H

#include "advice/figures.h"
#include "advice/several.h"
#include "observe/observe.h"

/* A view with its findings. NULL: no memory, or the allocator has ended. */
ts_view *ts_advised_view(ts_allocator *allocator, uintptr_t token);
/* The same with the allocator's number and name. places: the modules of its stacks, too, which takes the loader's
   lock. */
ts_view *ts_shown_view(const ts_shown *shown, bool places);
/* Fills the findings of a view from its other figures and, token not 0, the history of that allocator (growth.h). */
void ts_doctor(ts_view *view, uintptr_t token);
const char *ts_severity_name(ts_severity severity);
/* As text. Returns the worst severity, -1 if there is nothing. */
int ts_render_doctor(ts_sink *sink, const ts_views *views);
/* The figures of the views, their holders and their findings. Each row says of which allocator it is. */
void ts_render_json(ts_sink *sink, const ts_views *views);
void ts_render_prometheus(ts_sink *sink, const ts_view *view, bool openmetrics);
void ts_render_text(ts_sink *sink, const ts_views *views);
/* JSON of epochs alone, into a buffer: the `limit` largest or oldest of each allocator for which there is memory.
   false: there is none for any, and the text is empty. */
bool ts_render_epochs(ts_sink *sink, const ts_shown *shown, unsigned count, SlabEpochOrder order, size_t limit);
void ts_render_stacks_json(ts_sink *sink, const char *key, const ts_views *views);
void ts_render_stacks(ts_sink *sink, const ts_views *views);
void ts_put_held(ts_sink *sink, uint64_t bytes, uint64_t objects, uint64_t samples);
/* So many lines, which begin with "      at ". A line names the file and the address in it; tools put the line of the
   source in its place. */
void ts_put_frames(ts_sink *sink, const ts_view *view, const SlabStackSample *row, unsigned frames);

/* ---- the stacks of a finding, in sites.c ------------------------------------------------------------------------ */

#define TS_SITES_SHOWN 3u
#define TS_SITE_FRAMES 8u

/* Stacks that share their innermost frame in the program itself. */
typedef struct ts_site {
    uint64_t frame;
    unsigned row;    /* the largest of them */
    unsigned stacks; /* there are */
    uint64_t samples, objects, bytes;
} ts_site;

/* Those of a finding; of one that grows those that grew most, first; else the largest. Returns how many. */
unsigned ts_sites_of(const ts_view *view, const ts_finding *finding, ts_site out[TS_SITES_SHOWN]);
void ts_put_sites(ts_sink *sink, const ts_view *view, const ts_finding *finding);

/* ---- holders of memory, from sampled stacks: by function where no epochs tell, and by thread; in holders.c ------- */

/* alone: the view is the only one that is shown. */
void ts_put_holders(ts_sink *sink, const ts_view *view, bool alone);
#define TS_HOLDERS_SHOWN 8u
#define TS_HOLDER_FRAMES 3u
typedef struct ts_holder_row {
    uint64_t samples, live_objects, live_bytes;
    unsigned frame_count;             /* 0: by no code of the program itself */
    uint64_t frame[TS_HOLDER_FRAMES]; /* by which they come, outermost first */
} ts_holder_row;
/* Most bytes first. Returns how many; 0 also where epochs tell. */
unsigned ts_holders_of(const ts_view *view, ts_holder_row out[TS_HOLDERS_SHOWN]);
uint64_t ts_view_samples(const ts_view *view); /* in all rows of stacks */
const char *ts_thread_share_name(const ts_thread_share *thread);

/* ---- for libtslab-http ------------------------------------------------------------------------------------------- */

/* Texts of an allocator, NULL: of all of the process, as one: like snprintf. 0: there is none, or no memory. */
typedef enum ts_private_text {
    TS_TEXT_JSON,
    TS_TEXT_TEXT,
    TS_TEXT_DOCTOR,
    TS_TEXT_STACKS,
    TS_TEXT_STACKS_JSON,
    TS_TEXT_VIEWS /* no text: the views one behind the other */
} ts_private_text;
TS_PRIVATE size_t ts_private_render(ts_private_text what, const SlabAllocator *one, char *buffer, size_t capacity);
/* order: a SlabEpochOrder; limit: epochs of each allocator. */
TS_PRIVATE size_t ts_private_render_epochs(const SlabAllocator *one, int order, size_t limit, char *buffer,
                                           size_t capacity);

/* ---- the statistics page ---------------------------------------------------------------------------------------- */

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
