#include "common/json.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { DEPTH = 16, BYTES = 64 << 20 };

typedef struct reader {
    char *at; /* texts are unescaped in place */
    char path[JSON_PATH];
    json_value *value;
    void *arg;
    bool stopped;
} reader;

static char next(reader *r) {
    while (*r->at && strchr(" \t\r\n", *r->at)) r->at++;
    return *r->at;
}

static bool take(reader *r, char c) {
    if (next(r) != c) return false;
    r->at++;
    return true;
}

/* NULL: there is none. Of \u only those of one byte are read, as no others are written. */
static const char *take_text(reader *r) {
    if (!take(r, '"')) return NULL;
    char *start = r->at, *out = start;
    for (; *r->at != '"'; r->at++) {
        static const char from[] = "\"\\/bfnrt", to[] = "\"\\/\b\f\n\r\t";
        if ((unsigned char)*r->at < ' ') return NULL;
        if (*r->at != '\\') {
            *out++ = *r->at;
            continue;
        }
        const char *escape = *++r->at ? strchr(from, *r->at) : NULL;
        char digits[5] = "", *end = digits;
        if (*r->at == 'u') {
            for (unsigned i = 0; i < 4 && r->at[1 + i]; i++) digits[i] = r->at[1 + i];
            unsigned long code = strtoul(digits, &end, 16);
            if (end != digits + 4 || code == 0 || code > 0x7f) return NULL;
            *out++ = (char)code;
            r->at += 4;
        } else if (escape) {
            *out++ = to[escape - from];
        } else {
            return NULL;
        }
    }
    *out = 0;
    r->at++;
    return start;
}

static bool read_value(reader *r, unsigned depth);

/* Elements or members up to the bracket. */
static bool read_all(reader *r, unsigned depth, char close) {
    size_t before = strlen(r->path);
    if (depth == DEPTH) return false;
    if (take(r, close)) return true;
    for (unsigned long number = 0;; number++) {
        const char *key = close == '}' ? take_text(r) : NULL;
        if (close == '}' && (!key || !take(r, ':'))) return false;
        const char *dot = before ? "." : "";
        int n = key ? snprintf(r->path + before, sizeof r->path - before, "%s%s", dot, key)
                    : snprintf(r->path + before, sizeof r->path - before, "%s%lu", dot, number);
        if (n < 0 || (size_t)n >= sizeof r->path - before || !read_value(r, depth + 1)) return false;
        r->path[before] = 0;
        if (take(r, close)) return true;
        if (!take(r, ',')) return false;
    }
}

static bool read_value(reader *r, unsigned depth) {
    const char *text;
    char word[64];
    switch (next(r)) {
    case '{': return r->at++, read_all(r, depth, '}');
    case '[': return r->at++, read_all(r, depth, ']');
    case '"': text = take_text(r); break;
    default: {
        size_t n = strspn(r->at, "+-.0123456789abcdefghijklmnopqrstuvwxyzE");
        if (n == 0 || n >= sizeof word) return false;
        memcpy(word, r->at, n);
        word[n] = 0;
        r->at += n;
        text = word;
    }
    }
    r->stopped = text && !r->value(r->arg, r->path, text);
    return text && !r->stopped;
}

const char *json_read(const char *file, json_value *value, void *arg) {
    static char error[64];
    FILE *in = fopen(file, "r");
    if (!in) return strerror(errno);
    char *text = malloc(BYTES + 1);
    size_t bytes = text ? fread(text, 1, BYTES, in) : 0;
    bool whole = text && !ferror(in) && fgetc(in) == EOF;
    (void)fclose(in);
    reader r = {.at = text, .value = value, .arg = arg};
    if (text) text[bytes] = 0;
    const char *answer = NULL;
    if (!whole)
        answer = text ? "it cannot be read" : "no memory";
    else if ((!read_value(&r, 0) || next(&r)) && !r.stopped) {
        snprintf(error, sizeof error, "byte %zu is no JSON", (size_t)(r.at - text));
        answer = error;
    }
    free(text);
    return answer;
}
