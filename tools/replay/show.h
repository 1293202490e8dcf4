/* The figures of a replay, as text, JSON and a table of its course. */
#ifndef REPLAY_SHOW_H
#define REPLAY_SHOW_H

#include "replay/decode.h"
#include "replay/run.h"

#include <stdio.h>

typedef struct replay {
    const trace *t;
    const char *path;
    decoded ops, captured_ops, planned_ops; /* the last two: where there is a plan */
    const char *plan_path;                  /* NULL: none */
    replay_plan plan;
    unsigned rounds, count;
    run_allocator allocator[RUN_ALLOCATORS];
    const char *skipped[RUN_ALLOCATORS];
    unsigned skips;
    double player_ns;
} replay;

void replay_text(const replay *r, FILE *out);
void replay_json(const replay *r, FILE *out);
void replay_csv(const replay *r, FILE *out);

#endif
