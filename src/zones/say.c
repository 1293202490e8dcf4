#define _GNU_SOURCE
#include "zones/say.h"

#include <tslab/tslab.h>

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

void ts_zones_say(const char *format, ...) {
    int error = errno;
    char line[512] = "tslab: zones: ";
    size_t used = strlen(line);
    va_list args;
    va_start(args, format);
    (void)vsnprintf(line + used, sizeof line - used, format, args);
    va_end(args);
    slab_message(line);
    errno = error;
}

bool ts_zones_number(const char *text, const char *end, uint64_t *out) {
    uint64_t n = 0;
    const char *p = text;
    for (; p < end && *p >= '0' && *p <= '9'; p++) {
        unsigned digit = (unsigned)(*p - '0');
        if (n > (UINT64_MAX - digit) / 10) return false;
        n = n * 10 + digit;
    }
    if (p == text) return false;
    unsigned shift = 0;
    if (p < end) {
        shift = *p == 'K' ? 10 : *p == 'M' ? 20 : *p == 'G' ? 30 : 0;
        if (shift == 0 || ++p != end) return false;
    }
    if (n > UINT64_MAX >> shift) return false;
    *out = n << shift;
    return true;
}
