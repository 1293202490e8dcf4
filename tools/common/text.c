#include "common/text.h"

#include "advice/sink.h"
#include "base/base.h"

#include <stdlib.h>
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

void text_put_quoted(const char *text, FILE *out) {
    const size_t room = 2 * strlen(text) + 3; /* each byte escaped, the quotes and the end */
    char *quoted = malloc(room);
    if (!quoted) {
        fputs("null", out);
        return;
    }
    ts_sink s = ts_sink_buffer(quoted, room);
    ts_put_quoted(&s, text);
    (void)ts_sink_end(&s);
    fputs(quoted, out);
    free(quoted);
}

void text_put_command(const char *command, FILE *out) {
    enum { MOST = 120 };
    size_t shown = 0, n;
    for (const char *c = command; *c; c += n ? n : 1) {
        if (++shown > MOST) {
            fputs("...", out);
            return;
        }
        n = text_character(c);
        if (n)
            fwrite(c, 1, n, out);
        else
            fputc('?', out);
    }
}
