/* The runs of an allocator (supply/runs.h): each is shown, and the invariants of their lists are looked at. */
#ifndef WALK_CHECK_RUNS_H
#define WALK_CHECK_RUNS_H

#include "supply/supply.h"
#include "walk/check_extents.h"

/* Returns the broken invariant, or NULL. Caller has the retained lock, or no other thread is there. */
const char *ts_check_runs(const ts_allocator *allocator, ts_extents_visit *visit, void *arg);

#endif
