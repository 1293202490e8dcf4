/* The runs of an allocator (supply/runs.h): each is shown, and the invariants of their lists are looked at. */
#ifndef WALK_CHECK_RUNS_H
#define WALK_CHECK_RUNS_H

#include "supply/allocator.h"

/* false ends the walk. */
typedef bool ts_runs_visit(void *arg, uint32_t first, uint32_t units);
/* Returns the broken invariant, or NULL. Caller has the retained lock, or no other thread is there. */
const char *ts_check_runs(const ts_allocator *allocator, ts_runs_visit *visit, void *arg);

#endif
