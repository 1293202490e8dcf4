#define _POSIX_C_SOURCE 200809L
#include "base/line.h"

#include "base/message.h"

#include "base/utf8.h"

static void put(ts_line *line, char c) {
    if (line->used < TS_LINE_BYTES - 1) line->text[line->used++] = c; /* a byte is kept for the newline */
}

void ts_line_text(ts_line *line, const char *text) {
    while (*text) put(line, *text++);
}

void ts_line_quoted(ts_line *line, const char *text, size_t most) {
    put(line, '"');
    for (size_t i = 0; i < most && text[i];) {
        unsigned char c = (unsigned char)text[i];
        /* One that `most` cuts off is looked at to its end at most: the text has a zero. */
        unsigned n = ts_utf8_length(text + i);
        if (n > most - i) break;
        if (c == '"' || c == '\\') put(line, '\\');
        if (n == 0 || c < 0x20 || c == 0x7f) put(line, '?');
        for (unsigned k = 0; k < n && c >= 0x20 && c != 0x7f; k++) put(line, text[i + k]);
        i += n ? n : 1;
    }
    put(line, '"');
}

static void number(ts_line *line, uint64_t n, unsigned base) {
    char digits[20];
    unsigned count = 0;
    do {
        digits[count++] = "0123456789abcdef"[n % base];
        n /= base;
    } while (n > 0);
    while (count > 0) put(line, digits[--count]);
}

void ts_line_decimal(ts_line *line, uint64_t n) { number(line, n, 10); }

void ts_line_hex(ts_line *line, uint64_t n) {
    ts_line_text(line, "0x");
    number(line, n, 16);
}

void ts_line_end(ts_line *line) {
    line->text[line->used++] = '\n';
    line->text[line->used] = 0;
}

void ts_line_write(ts_line *line) {
    ts_line_end(line);
    ts_message_write(line->text, line->used);
}
