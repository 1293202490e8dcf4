#include "replay/plan.h"

#include "advise/costs.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- the file ---------------------------------------------------------------------------------------------------- */

/* Behind the text's closing quote; NULL: it has none. out has as much of the text as it can hold. */
static const char *read_text(const char *at, char *out, size_t bytes) {
    size_t n = 0;
    for (; *at && *at != '"'; at++) {
        if (*at == '\\' && at[1]) at++;
        if (n + 1 < bytes) out[n++] = *at;
    }
    out[n] = 0;
    return *at ? at + 1 : NULL;
}

/* The address of the first element of `boundaries`: a key of the object at depth 2, in the list of that name. NULL, or
   what is wrong. */
static const char *read_address(const char *at, char *out, size_t bytes) {
    char text[ADVICE_PLAIN], list[16] = "";
    unsigned depth = 0;
    bool is_address = false;
    while (at && *at) {
        const char c = *at++;
        if (c == '{' || c == '[') depth++;
        if (c == '}' || c == ']') depth--;
        if (c != '"') continue;
        at = read_text(at, text, sizeof text);
        if (is_address && at) return snprintf(out, bytes, "%s", text), NULL;
        while (at && (*at == ' ' || *at == '\n')) at++;
        if (!at || *at != ':') continue;
        if (depth == 1) snprintf(list, sizeof list, "%.15s", text);
        is_address = depth == 3 && strcmp(list, "boundaries") == 0 && strcmp(text, "address") == 0;
    }
    return !at || depth ? "the plan is cut off: its text ends too early"
                        : "no boundary in the plan: it is not of tslab advise --json, or its verdict is none";
}

const char *plan_read(replay_plan *p, const char *path) {
    FILE *file = fopen(path, "r");
    char *text = NULL;
    size_t room = 0;
    const bool read_it = file && getdelim(&text, &room, 0, file) > 0;
    const char *wrong = read_it ? read_address(text, p->address, sizeof p->address) : "the plan cannot be read";
    free(text);
    if (file) (void)fclose(file);
    return wrong;
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
