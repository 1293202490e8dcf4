/* Several allocators of a process, shown as one: by default tools look at all of them. */
#ifndef TS_ADVICE_SEVERAL_H
#define TS_ADVICE_SEVERAL_H

#include "advice/sink.h"
#include "observe/observe.h"

typedef struct ts_views {
    unsigned count;
    const ts_view *at[TS_VIEWS]; /* by rising number */
} ts_views;
static inline ts_views ts_views_of(const ts_view *view) { return (ts_views){1, {view}}; }

/* The figures summed up; those of the process once. */
SlabGlobalStats ts_views_global(const ts_views *views);

/* A finding, and of which of the views it is. */
typedef struct ts_view_finding {
    unsigned view;
    const ts_finding *finding;
} ts_view_finding;
#define TS_FOUND (TS_VIEWS * TS_FINDINGS)
/* All of them, worst first; what each says of the whole process is there once. Returns how many. */
unsigned ts_views_findings(const ts_views *views, ts_view_finding out[TS_FOUND]);

/* "allocator 1 (default)" */
void ts_put_allocator(ts_sink *sink, const ts_view *view);

#endif
