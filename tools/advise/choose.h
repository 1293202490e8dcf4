/* Sites that may cut turns, and the choice among them. */
#ifndef ADVISE_CHOOSE_H
#define ADVISE_CHOOSE_H

#include "advise/tree.h"

/* A site of an instance and one end of its visits. */
typedef struct candidate {
    uint32_t node;
    bool at_end;
    size_t next;       /* of the same instance; 0: none */
    size_t next_below; /* whose function has the same call; 0: none */
    uint64_t most;     /* of covered: of one round */
    uint64_t covered, covered_bytes, lag[TURN_LAGS];
    double held;
    uint64_t held_peak;
} candidate;

typedef struct candidates {
    candidate *one; /* from 1 */
    size_t count, capacity;
    size_t *first; /* by instance */
    size_t *below; /* by node, of a call: those of the functions that it calls */
    size_t *of;    /* by node: the one at the beginning; the one at the end is the next number */
    bool *watched; /* by node */
} candidates;

/* By node, and but for visits of all stacks that have it. */
typedef struct node_counts {
    uint64_t *births, *bytes, *reallocs, *enters, *visits;
} node_counts;

/* all: births of the trace. false: no memory. */
bool candidates_find(candidates *c, const stack_tree *r, const node_counts *of, uint64_t all);
void candidates_free(candidates *c);
candidate *candidate_at(candidates *c, uint32_t node, bool at_end); /* NULL: none */

/* Fills out->best, and turn_of[candidate]. false: no memory. */
bool choose_turns(turns *out, const candidates *c, const stack_tree *r, const node_counts *of, const turn_costs *costs,
                  int *turn_of);
/* Whether the turn is worth showing: with less than a twentieth of all allocations it is not. */
bool is_worth_showing(const turns *out, const turn *t);

#endif
