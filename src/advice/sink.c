#define _POSIX_C_SOURCE 200809L
#include "advice/sink.h"

#include "base/base.h"
#include "os/file_limit.h"
#include "os/os.h"

#include <errno.h>
#include <string.h>

ts_sink ts_sink_buffer(char *at, size_t capacity) { return (ts_sink){.at = at, .capacity = capacity, .fd = -1}; }
ts_sink ts_sink_fd(int fd, char *buffer, size_t capacity) {
    return (ts_sink){.at = buffer, .capacity = capacity, .fd = fd};
}

static void flush(ts_sink *s) {
    if (!s->failed && !ts_write_all(s->fd, s->at, s->length)) {
        s->error = errno;
        s->failed = true;
    }
    s->length = 0;
}

void ts_put_bytes(ts_sink *s, const char *text, size_t bytes) {
    if (bytes > 0) s->last = text[bytes - 1];
    if (s->fd < 0) {
        if (s->length < s->capacity) {
            size_t room = s->capacity - s->length;
            memcpy(s->at + s->length, text, bytes < room ? bytes : room);
        }
        s->length += bytes;
        return;
    }
    while (bytes > 0) {
        size_t room = s->capacity - s->length, n = bytes < room ? bytes : room;
        memcpy(s->at + s->length, text, n);
        s->length += n;
        text += n;
        bytes -= n;
        if (s->length == s->capacity) flush(s);
    }
}

size_t ts_sink_end(ts_sink *s) {
    if (s->fd >= 0) {
        flush(s);
        return s->failed ? 0 : 1;
    }
    if (s->capacity) s->at[s->length < s->capacity ? s->length : s->capacity - 1] = 0;
    return s->length;
}

void ts_put(ts_sink *s, const char *text) { ts_put_bytes(s, text, strlen(text)); }

/* The digits of a value at the end of text; returns where they begin. */
static char *digits(char text[24], uint64_t value) {
    char *at = text + 23;
    *at = 0;
    do *--at = (char)('0' + value % 10);
    while ((value /= 10) != 0);
    return at;
}

void ts_put_u64(ts_sink *s, uint64_t value) {
    char text[24];
    ts_put(s, digits(text, value));
}

void ts_put_shown(ts_sink *s, const char *text) {
    for (const char *c = text; *c;) {
        const unsigned char first = (unsigned char)c[0], second = (unsigned char)c[1];
        unsigned n = ts_utf8_length(c);
        bool obeyed = n == 0 || first < 0x20 || first == 0x7f || (n == 2 && first == 0xc2 && second < 0xa0);
        ts_put_bytes(s, obeyed ? "?" : c, obeyed ? 1 : n);
        c += n ? n : 1;
    }
}

/* A character counts as one place, and so does a byte that is of none. */
static int places_of(const char *text) {
    int n = 0;
    for (unsigned take; *text; text += take ? take : 1, n++) take = ts_utf8_length(text);
    return n;
}

void ts_put_wide(ts_sink *s, const char *text, int width) {
    int n = places_of(text);
    if (width < 0) ts_put_shown(s, text);
    for (int want = width < 0 ? -width : width; n < want; n++) ts_put_bytes(s, " ", 1);
    if (width >= 0) ts_put_shown(s, text);
}

void ts_put_u64_wide(ts_sink *s, uint64_t value, int width) {
    char text[24];
    ts_put_wide(s, digits(text, value), width);
}

void ts_put_decimal(ts_sink *s, uint64_t value, unsigned scale, unsigned places) {
    char text[24];
    uint64_t unit = 1;
    for (unsigned i = 0; i < scale; i++) unit *= 10;
    ts_put_u64(s, value / unit);
    if (places == 0) return;
    ts_put_bytes(s, ".", 1);
    uint64_t rest = value % unit;
    for (unsigned i = places; i < scale; i++) rest /= 10;
    const char *d = digits(text, rest);
    for (size_t n = strlen(d); n < (places < scale ? places : scale); n++) ts_put_bytes(s, "0", 1);
    ts_put(s, d);
}

void ts_put_size(ts_sink *s, uint64_t bytes) {
    static const char *const units[] = {" B", " kB", " MB", " GB", " TB", " PB", " EB"};
    unsigned i = 0;
    uint64_t tenths = bytes < UINT64_MAX / 10 ? bytes * 10 : bytes / 100;
    if (tenths < bytes) i = 1;
    if (bytes < 1000) {
        ts_put_u64(s, bytes);
    } else {
        for (; tenths >= 10000 && i < 6; i++) tenths /= 1000;
        ts_put_decimal(s, tenths, 1, 1);
    }
    ts_put(s, units[i]);
}

void ts_put_duration(ts_sink *s, uint64_t ns) {
    uint64_t ms = ns / 1000000;
    if (ms < 1000) {
        ts_put_u64(s, ms);
        ts_put(s, " ms");
    } else if (ms < 600000) {
        ts_put_u64(s, ms / 1000);
        ts_put(s, " s");
    } else if (ms < 36000000) {
        ts_put_u64(s, ms / 60000);
        ts_put(s, " min");
    } else {
        ts_put_u64(s, ms / 3600000);
        ts_put(s, " h");
    }
}

void ts_put_quoted(ts_sink *s, const char *text) {
    ts_put_bytes(s, "\"", 1);
    for (const char *c = text; *c;) {
        unsigned n = ts_utf8_length(c);
        if (*c == '"' || *c == '\\') {
            char escaped[2] = {'\\', *c};
            ts_put_bytes(s, escaped, 2);
        } else if (*c == '\n') {
            ts_put_bytes(s, "\\n", 2);
        } else if (n == 0 || (unsigned char)*c < 0x20 || *c == 0x7f) {
            ts_put_bytes(s, "?", 1);
        } else {
            ts_put_bytes(s, c, n);
        }
        c += n ? n : 1;
    }
    ts_put_bytes(s, "\"", 1);
}

void ts_put_hex(ts_sink *s, uint64_t value) {
    char text[19] = "0x", *at = text + 2;
    int shift = 60;
    while (shift > 0 && value >> shift == 0) shift -= 4;
    for (; shift >= 0; shift -= 4) *at++ = "0123456789abcdef"[(value >> shift) & 15];
    *at = 0;
    ts_put(s, text);
}

void ts_put_percent(ts_sink *s, uint64_t part, uint64_t whole) {
    ts_put_decimal(s, whole ? (uint64_t)((double)part * 1000.0 / (double)whole) : 0, 1, 1);
    ts_put(s, " %");
}

static void put_word(ts_sink *s, const ts_word *w) {
    switch (w->kind) {
    case TS_TEXT_WORD: ts_put(s, w->text); break;
    case TS_SHOWN_WORD: ts_put_shown(s, w->text); break;
    case TS_U64_WORD: ts_put_u64(s, w->number); break;
    case TS_SIZE_WORD: ts_put_size(s, w->number); break;
    case TS_TIME_WORD: ts_put_duration(s, w->number); break;
    case TS_PERCENT_WORD: ts_put_percent(s, w->number, w->whole); break;
    case TS_COUNT_WORD:
        ts_put_u64(s, w->number);
        ts_put(s, " ");
        ts_put(s, w->number == 1 ? w->text : w->many);
        break;
    }
}

void ts_put_words(ts_sink *s, const char *sentence, const ts_word *words) {
    for (;;) {
        size_t n = strcspn(sentence, "%");
        ts_put_bytes(s, sentence, n);
        if (!sentence[n]) return;
        put_word(s, words++);
        sentence += n + 1;
    }
}

/* ---- JSON -------------------------------------------------------------------------------------------------------- */

void ts_json_key(ts_sink *s, const char *key) {
    if (s->last != 0 && !strchr("{[:", s->last)) ts_put(s, ",");
    if (!key) return;
    ts_put(s, "\"");
    ts_put(s, key);
    ts_put(s, "\":");
}

void ts_json_begin(ts_sink *s, const char *key, char bracket) {
    ts_json_key(s, key);
    ts_put_bytes(s, &bracket, 1);
}

void ts_json_end(ts_sink *s, char bracket) { ts_put_bytes(s, &bracket, 1); }

void ts_json_u64(ts_sink *s, const char *key, uint64_t value) {
    ts_json_key(s, key);
    ts_put_u64(s, value);
}

void ts_json_text(ts_sink *s, const char *key, const char *value) {
    ts_json_key(s, key);
    ts_put_quoted(s, value);
}

void ts_json_hex(ts_sink *s, const char *key, uint64_t value) {
    ts_json_key(s, key);
    ts_put(s, "\"");
    ts_put_hex(s, value);
    ts_put(s, "\"");
}
