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
#include "os/os.h"

#include <stdlib.h>

/* The failing thread may hold any lock. */
void ts_assert_failed(const char *text, const char *file, int line) {
    ts_text said = {.used = 0};
    ts_text_add(&said, "tslab: assertion failed: %s (%s:%" PRIu64 ")", text, file, (uint64_t)line);
    ts_text_end(&said);
    ts_message_write_locked(said.text, said.used);
    abort();
}
