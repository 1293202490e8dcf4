#include "base/assert.h"

#include <stdio.h>
#include <stdlib.h>

void ts_assert_failed(const char *text, const char *file, int line) {
    fprintf(stderr, "tslab: assertion failed: %s (%s:%d)\n", text, file, line);
    abort();
}
