/* A plan: the first boundary of `tslab advise --json`, found in the trace that is replayed. */
#ifndef REPLAY_PLAN_H
#define REPLAY_PLAN_H

#include "advise/rounds.h"
#include "advise/show.h"

#include <stdbool.h>
#include <stdint.h>

typedef struct replay_plan {
    char address[ADVICE_PLAIN]; /* of the function, as advise has it: MODULE+0xADDRESS */
    uint32_t node;              /* the site that cuts turns; 0: there is no plan */
    uint32_t caller;            /* the function is left when its visits end */
    bool at_end;                /* a turn goes from end to end of the site's visits */
    stack_tree tree;
    bool *watched; /* by node */
} replay_plan;

/* NULL, or what is wrong with the file, or with the plan for this trace. The trace is at its end then. */
const char *plan_read(replay_plan *p, const char *path);
const char *plan_find(replay_plan *p, trace *t);
void plan_free(replay_plan *p);

#endif
