/*
 * The text of a message (message.c): one line, built in a buffer of its own. It allocates no memory and uses no
 * stream. So it works in a signal handler, and while a lock of libc is held. A word that does not fit is left out; the
 * line still ends.
 */
#define _POSIX_C_SOURCE 200809L
#include "os/os.h"

#include "base/base.h"

#include <stdarg.h>
#include <string.h>

static void put_char(ts_text *line, char c) {
    if (line->used < TS_TEXT_BYTES - 1) line->text[line->used++] = c; /* a byte is kept for the newline */
}

void ts_text_put(ts_text *line, const char *text) {
    while (*text) put_char(line, *text++);
}

void ts_text_quoted(ts_text *line, const char *text, size_t most) {
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

static void put_number(ts_text *line, uint64_t n, unsigned base) {
    char digits[20];
    unsigned count = 0;
    do {
        digits[count++] = "0123456789abcdef"[n % base];
        n /= base;
    } while (n > 0);
    while (count > 0) put_char(line, digits[--count]);
}

static void add(ts_text *line, const char *format, va_list words) {
    for (; *format; format++) {
        if (*format != '%') {
            put_char(line, *format);
            continue;
        }
        format += strcspn(format, "sux");
        if (*format == 's') {
            ts_text_put(line, va_arg(words, const char *));
        } else {
            if (*format == 'x') ts_text_put(line, "0x");
            put_number(line, va_arg(words, uint64_t), *format == 'x' ? 16 : 10);
        }
    }
}

void ts_text_add(ts_text *line, const char *format, ...) {
    va_list words;
    va_start(words, format);
    add(line, format, words);
    va_end(words);
}

void ts_text_end(ts_text *line) {
    line->text[line->used++] = '\n';
    line->text[line->used] = 0;
}

void ts_text_write(ts_text *line) {
    ts_text_end(line);
    ts_message_write(line->text, line->used);
}

void ts_tell(const char *format, ...) {
    ts_text line = {.used = 0};
    va_list words;
    va_start(words, format);
    ts_text_put(&line, "tslab: ");
    add(&line, format, words);
    va_end(words);
    ts_text_write(&line);
}
