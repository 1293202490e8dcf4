/*
 * Graded assertions, chosen at compile time by TSLAB_ASSERT:
 *     0  none (release)
 *     1  cheap: arguments between layers
 *     2  invariants of a structure at the place that could break it
 *     3  deep walks of whole structures: a thread that idles or ends walks all that it owns (walk/check_slabs.h), and
 *     tests
 *        walk everything (walk/check.h)
 * An assertion that fails prints its text and aborts: an impossible state is never repaired.
 */
#ifndef TS_OS_ASSERT_H
#define TS_OS_ASSERT_H

#include "base/attr.h"

#ifndef TSLAB_ASSERT
#define TSLAB_ASSERT 0
#endif

void ts_assert_failed(const char *text, const char *file, int line);

#define ts_assert(level, cond)                                                                            \
    do {                                                                                                  \
        if ((level) <= TSLAB_ASSERT && TS_UNLIKELY(!(cond))) ts_assert_failed(#cond, __FILE__, __LINE__); \
    } while (0)

#endif
