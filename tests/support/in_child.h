/* A test, or a part of one, that runs in a process of its own: it needs a library that has not started yet. */
#ifndef SUP_IN_CHILD_H
#define SUP_IN_CHILD_H

#include "proc.h"
#include "unit.h"

#include <stdio.h>

/* Runs fn(arg) in a child of fork; the test fails, with the child's messages, unless that ends with 0 within so many
   seconds. */
static inline void sup_in_child_for(void (*fn)(void *), void *arg, unsigned seconds) {
    char err[1024];
    (void)fflush(stdout); /* or the child says it again */
    int status = sup_child(fn, arg, seconds, err, sizeof err);
    if (status != 0) fail_msg("status %#x: %s", (unsigned)status, err);
}
static inline void sup_in_child(void (*fn)(void *), void *arg) { sup_in_child_for(fn, arg, SUP_CHILD_SECONDS); }

/* Of the function name##_child(void *): the test `name`, which runs it so. */
#define SUP_IN_CHILD(name)                \
    static void name(void **state) {      \
        (void)state;                      \
        sup_in_child(name##_child, NULL); \
    }

#endif
