#include "replay/plan.h"

#include "advise/costs.h"
#include "common/json.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* ---- the file ---------------------------------------------------------------------------------------------------- */

static bool take_address(void *arg, const char *path, const char *value) {
    replay_plan *p = arg;
    if (strcmp(path, "boundaries.0.address") != 0) return true;
    snprintf(p->address, sizeof p->address, "%s", value);
    return false;
}

const char *plan_read(replay_plan *p, const char *path) {
    p->address[0] = 0;
    const char *wrong = json_read(path, take_address, p);
    if (p->address[0]) return NULL;
    if (!wrong) return "no boundary in the plan: it is not of tslab advise --json, or its verdict is none";
    return access(path, R_OK) == 0 ? "the plan is cut off, or no JSON" : "the plan cannot be read";
}

/* ---- the trace --------------------------------------------------------------------------------------------------- */

const char *plan_find(replay_plan *p, trace *t) {
    const turn_costs costs = costs_measure();
    turns *found = trace_rewind(t) ? turns_find(t, &costs, NULL) : NULL;
    if (!found || !tree_make(&p->tree, t)) {
        turns_free(found);
        return "no memory";
    }
    const advice a = {.t = t, .turns = found};
    for (size_t i = 0; i < found->count && !p->node; i++) {
        if (strcmp(advice_spot(&a, found->best[i].stack).plain, p->address) != 0) continue;
        p->node = found->best[i].stack;
        p->at_end = found->best[i].at_end;
    }
    turns_free(found);
    p->watched = calloc(p->tree.nodes, sizeof *p->watched);
    if (!p->watched) return "no memory";
    if (!p->node) return "the plan's boundary has no turns in this trace";
    p->caller = trace_stack_caller(t, p->node);
    p->watched[p->node] = true;
    p->watched[p->caller] = p->caller != 0;
    return NULL;
}

void plan_free(replay_plan *p) {
    free(p->watched);
    tree_free(&p->tree);
}
