#include "common/text.h"

#include "base/base.h"

#include <string.h>

size_t text_character(const char *text) {
    const unsigned char *c = (const unsigned char *)text;
    if (c[0] < 0x20 || c[0] == 0x7f || (c[0] == 0xc2 && c[1] >= 0x80 && c[1] < 0xa0)) return 0;
    return ts_utf8_length(text);
}

size_t text_tame(char *text, size_t bytes, bool lines) {
    size_t from = 0, to = 0;
    while (from < bytes) {
        char character[5] = {0}; /* the text need not end with a zero */
        size_t there = bytes - from < 4 ? bytes - from : 4;
        memcpy(character, text + from, there);
        size_t n = text_character(character);
        if (n == 0) {
            bool end = lines && character[0] == '\n';
            text[to++] = end ? '\n' : '?';
            from += (unsigned char)character[0] == 0xc2 && ts_utf8_length(character) == 2 ? 2 : 1;
        } else {
            memmove(text + to, text + from, n);
            to += n;
            from += n;
        }
    }
    memset(text + to, 0, bytes - to);
    return to;
}
