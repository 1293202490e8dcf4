#include "os/assert.h"

#include "os/message.h"
#include "os/text.h"

#include <stdlib.h>

/* The failing thread may hold any lock. */
void ts_assert_failed(const char *text, const char *file, int line) {
    ts_text said = {.used = 0};
    ts_text_add(&said, "tslab: assertion failed: %s (%s:%" PRIu64 ")", text, file, (uint64_t)line);
    ts_text_end(&said);
    ts_message_write_locked(said.text, said.used);
    abort();
}
