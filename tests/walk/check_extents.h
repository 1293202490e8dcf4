/* A walk of a set of extents (region/extents.h): each is shown, and the invariants of its lists are looked at. */
#ifndef WALK_CHECK_EXTENTS_H
#define WALK_CHECK_EXTENTS_H

#include "region/region.h"

/* false ends the walk. */
typedef bool ts_extents_visit(void *arg, uint32_t first, uint32_t units);
typedef struct ts_extents_walk {
    unsigned part, home;     /* of all extents of the set */
    uint32_t end;            /* the first unit of the part that is in none */
    ts_extents_visit *visit; /* may be NULL */
    void *arg;
    uint64_t found; /* units, added to; more than `most` end the walk */
    uint64_t most;
    uint32_t aged; /* extents with an age, added to */
} ts_extents_walk;
/* Returns the broken invariant, or NULL. Caller has the lock of the set, or no other thread is there. */
const char *ts_check_extents(const ts_extents *set, ts_extents_walk *walk);
/* The list of `aged` extents by age. */
const char *ts_check_ages(const ts_ages *ages, uint32_t aged);

#endif
