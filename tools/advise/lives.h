/* Sites behind wrappers of malloc and free, how long their objects live, and rows that say the same. */
#ifndef ADVISE_LIVES_H
#define ADVISE_LIVES_H

#include "advise/choose.h"

/* By function: whether it only passes memory on for others. leaf: by node, whether a stack of an event ends there.
   NULL: no memory. */
bool *wrappers_find(const stack_tree *r, const bool *leaf);
/* The innermost node of a stack whose function is no wrapper; the outermost one, if all are. */
uint32_t wrappers_skip(const stack_tree *r, const bool *is_wrapper, uint32_t stack);

/* In which round objects of long-lived sites die. */
typedef struct generations {
    uint64_t (**count)[TURN_LAGS + 1]; /* by node: of each candidate on its path; NULL: not looked at */
    uint32_t nodes;
} generations;

/* false: no memory. */
bool generations_make(generations *g, const turns *out, const stack_tree *r, const candidates *c);
void generations_free(generations *g);
/* Says of sites whose objects die a constant number of rounds later that they are generations, and of others that they
   die in the turns of the first boundary. turn_of: by candidate. */
void generations_tell(const generations *g, turns *out, const stack_tree *r, const candidates *c,
                      const uint64_t *visits, const int *turn_of);

/* Fill life, named, row_of and, of escapes, freed_named; one row for those of the same call behind the same wrappers.
   false: no memory. */
void lives_classify(turns *out);
bool lives_merge(turns *out, const stack_tree *r, const bool *is_wrapper);

#endif
