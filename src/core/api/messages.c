/* Where the library's lines go: the program's say, and TSLAB_LOG's. */
#include "api/runtime.h"

#include "os/os.h"

#include <string.h>

static bool decided; /* by the program or the variable; guarded by the runtime's lock but for the constructor */

static void read_variable(void) {
    const char *path = decided ? NULL : ts_env("TSLAB_LOG");
    if (!path || !*path) return;
    decided = true;
    if (ts_message_set_file(path)) return;
    ts_text line = {.used = 0};
    ts_text_put(&line, "tslab: TSLAB_LOG: the name is too long; messages go to stderr");
    ts_text_end(&line);
    ts_message_write_locked(line.text, line.used);
}

/* From the start on: other libraries' constructors have something to say, too. */
TS_AT_LOAD static void read_at_load(void) { read_variable(); }

void ts_messages_begin(void) {
    ts_runtime_lock();
    read_variable(); /* set since by the program itself */
    ts_runtime_unlock();
    ts_message_try_file();
}

void slab_set_message_sink(void (*fn)(const char *, size_t, void *), void *arg) {
    ts_runtime_lock();
    decided = true;
    uint64_t ticket = ts_message_set_sink(fn, arg);
    ts_runtime_unlock();
    ts_message_wait(ticket);
}

void slab_message(const char *text) {
    if (!text) return;
    ts_text line = {.used = strcspn(text, "\n")};
    if (line.used > TS_TEXT_BYTES - 1) line.used = TS_TEXT_BYTES - 1;
    memcpy(line.text, text, line.used);
    ts_text_write(&line);
}
