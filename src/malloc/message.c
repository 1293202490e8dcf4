/* This library's lines go where those of the core go. */
#include "os/os.h"

#include <tslab/tslab.h>

void ts_message_write(const char *line, size_t bytes) {
    (void)bytes;
    slab_message(line);
}
