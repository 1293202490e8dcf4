/* The answer of a call that fails. */
#ifndef TS_BASE_FAIL_H
#define TS_BASE_FAIL_H

#include <errno.h>
#include <stdbool.h>
#include <stddef.h>

/* Sets errno, and returns false: for an id or a size that is 0. */
static inline bool ts_fail(int error) {
    errno = error;
    return false;
}
static inline void *ts_fail_null(int error) {
    errno = error;
    return NULL;
}

#endif
