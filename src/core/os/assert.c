#include "os/assert.h"

#include "os/line.h"
#include "os/message.h"

#include <stdlib.h>

/* The failing thread may hold any lock. */
void ts_assert_failed(const char *text, const char *file, int line) {
    ts_line said = {.used = 0};
    ts_line_add(&said, "tslab: assertion failed: %s (%s:%" PRIu64 ")", text, file, (uint64_t)line);
    ts_line_end(&said);
    ts_message_write_locked(said.text, said.used);
    abort();
}
