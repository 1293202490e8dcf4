/*
 * Where text goes: into a buffer like snprintf's, or to a file descriptor. Formatting is done here, without stdio and
 * without allocating, so that it can be used in a signal handler.
 */
#ifndef TS_ADVICE_SINK_H
#define TS_ADVICE_SINK_H

#include "base/base.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef struct ts_sink {
    char *at; /* buffer; may be NULL if capacity is 0 */
    size_t capacity;
    size_t length; /* of the whole text, written or not; fd: of what is in the buffer */
    int fd;        /* -1: none */
    bool failed;   /* fd: a write failed */
    int error;     /* and its errno */
    char last;     /* character of the text; 0: there is none yet */
} ts_sink;

/* Into a buffer: at most capacity bytes with the terminating zero. */
ts_sink ts_sink_buffer(char *at, size_t capacity);
/* To a descriptor, by way of a buffer of the caller's. */
ts_sink ts_sink_fd(int fd, char *buffer, size_t capacity);
/* Ends the text. Buffer: terminates it. Returns its length, 0 if a write failed. */
size_t ts_sink_end(ts_sink *sink);

void ts_put(ts_sink *sink, const char *text);
void ts_put_bytes(ts_sink *sink, const char *text, size_t bytes);
void ts_put_u64(ts_sink *sink, uint64_t value);
/* Right-aligned in `width` places, left-aligned if width is negative. */
void ts_put_u64_wide(ts_sink *sink, uint64_t value, int width);
void ts_put_wide(ts_sink *sink, const char *text, int width);
/* A label for people. Characters that a terminal would obey instead of show (control characters of ASCII and of U+0080
   to U+009F) are '?', and so is each byte that is not of UTF-8. ts_put_wide does that, too. */
void ts_put_shown(ts_sink *sink, const char *text);
/* value / 10^scale with so many places after the point, rounded down. */
void ts_put_decimal(ts_sink *sink, uint64_t value, unsigned scale, unsigned places);
/* 12.3 kB, 4.0 MB: powers of 1000. */
void ts_put_size(ts_sink *sink, uint64_t bytes);
/* A duration in words: 850 ms, 63 s, 12 min, 3 h. */
void ts_put_duration(ts_sink *sink, uint64_t ns);
/* A string in quotes, for JSON and for label values. Control characters become '?', and so does each byte that is not
   of UTF-8: a reader of Prometheus's text would refuse all of it. */
void ts_put_quoted(ts_sink *sink, const char *text);
void ts_put_hex(ts_sink *sink, uint64_t value);
/* "12.5 %" */
void ts_put_percent(ts_sink *sink, uint64_t part, uint64_t whole);

/* A sentence with a word for each % in it. */
#define ts_say(sink, sentence, ...) ts_put_words(sink, sentence, (const ts_word[]){__VA_ARGS__})
typedef struct ts_word {
    enum { TS_TEXT_WORD, TS_SHOWN_WORD, TS_U64_WORD, TS_SIZE_WORD, TS_TIME_WORD, TS_COUNT_WORD, TS_PERCENT_WORD } kind;
    uint64_t number, whole;
    const char *text, *many;
} ts_word;
void ts_put_words(ts_sink *sink, const char *sentence, const ts_word *words);
static inline ts_word ts_w_text(const char *text) { return (ts_word){.kind = TS_TEXT_WORD, .text = text}; }
static inline ts_word ts_w_shown(const char *text) { return (ts_word){.kind = TS_SHOWN_WORD, .text = text}; }
static inline ts_word ts_w_u64(uint64_t n) { return (ts_word){.kind = TS_U64_WORD, .number = n}; }
static inline ts_word ts_w_size(uint64_t bytes) { return (ts_word){.kind = TS_SIZE_WORD, .number = bytes}; }
static inline ts_word ts_w_time(uint64_t ns) { return (ts_word){.kind = TS_TIME_WORD, .number = ns}; }
/* "1 epoch", "3 epochs" */
static inline ts_word ts_w_count(uint64_t n, const char *one, const char *many) {
    return (ts_word){.kind = TS_COUNT_WORD, .number = n, .text = one, .many = many};
}
static inline ts_word ts_w_percent(uint64_t part, uint64_t whole) {
    return (ts_word){.kind = TS_PERCENT_WORD, .number = part, .whole = whole};
}

/* JSON, a value at a time. key: its name in an object; NULL: it is one of an array. Commas are put where they belong.
   */
void ts_json_key(ts_sink *sink, const char *key);
void ts_json_begin(ts_sink *sink, const char *key, char bracket);
void ts_json_end(ts_sink *sink, char bracket);
void ts_json_u64(ts_sink *sink, const char *key, uint64_t value);
void ts_json_text(ts_sink *sink, const char *key, const char *value);
/* A number in hexadecimal, as a text. */
void ts_json_hex(ts_sink *sink, const char *key, uint64_t value);

#endif
