#define _POSIX_C_SOURCE 200809L
#include "os/line.h"

#include "base/utf8.h"
#include "os/message.h"

#include <stdarg.h>
#include <string.h>

static void put_char(ts_line *line, char c) {
    if (line->used < TS_LINE_BYTES - 1) line->text[line->used++] = c; /* a byte is kept for the newline */
}

void ts_line_text(ts_line *line, const char *text) {
    while (*text) put_char(line, *text++);
}

void ts_line_quoted(ts_line *line, const char *text, size_t most) {
    put_char(line, '"');
    for (size_t i = 0; i < most && text[i];) {
        unsigned char c = (unsigned char)text[i];
        /* A character that `most` cuts off is read whole: the text ends with a zero, so the read stays inside of it. */
        unsigned n = ts_utf8_length(text + i);
        if (n > most - i) break;
        if (c == '"' || c == '\\') put_char(line, '\\');
        if (n == 0 || c < 0x20 || c == 0x7f) put_char(line, '?');
        for (unsigned k = 0; k < n && c >= 0x20 && c != 0x7f; k++) put_char(line, text[i + k]);
        i += n ? n : 1;
    }
    put_char(line, '"');
}

static void put_number(ts_line *line, uint64_t n, unsigned base) {
    char digits[20];
    unsigned count = 0;
    do {
        digits[count++] = "0123456789abcdef"[n % base];
        n /= base;
    } while (n > 0);
    while (count > 0) put_char(line, digits[--count]);
}

static void add(ts_line *line, const char *format, va_list words) {
    for (; *format; format++) {
        if (*format != '%') {
            put_char(line, *format);
            continue;
        }
        format += strcspn(format, "sux");
        if (*format == 's') {
            ts_line_text(line, va_arg(words, const char *));
        } else {
            if (*format == 'x') ts_line_text(line, "0x");
            put_number(line, va_arg(words, uint64_t), *format == 'x' ? 16 : 10);
        }
    }
}

void ts_line_add(ts_line *line, const char *format, ...) {
    va_list words;
    va_start(words, format);
    add(line, format, words);
    va_end(words);
}

void ts_line_end(ts_line *line) {
    line->text[line->used++] = '\n';
    line->text[line->used] = 0;
}

void ts_line_write(ts_line *line) {
    ts_line_end(line);
    ts_message_write(line->text, line->used);
}

void ts_tell(const char *format, ...) {
    ts_line line = {.used = 0};
    va_list words;
    va_start(words, format);
    ts_line_text(&line, "tslab: ");
    add(&line, format, words);
    va_end(words);
    ts_line_write(&line);
}
