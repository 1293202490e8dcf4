/* Texts: their chunks have themselves for a name. And names, which are texts below what they name. */
#include "chunk.h"

#include <stdio.h>
#include <string.h>

/* ---- copies ------------------------------------------------------------------------------------------------------- */

static char *copy(const void *context, const char *from, size_t length) {
    Chunk *chunk = tt_new(context, length + 1, NULL);
    if (!chunk) return NULL;
    char *text = tt_object(chunk);
    memcpy(text, from, length);
    text[length] = '\0';
    chunk->name = text;
    return text;
}

char *talloc_strdup(const void *context, const char *text) { return text ? copy(context, text, strlen(text)) : NULL; }

char *talloc_strndup(const void *context, const char *text, size_t n) {
    return text ? copy(context, text, strnlen(text, n)) : NULL;
}

/* ---- appended ------------------------------------------------------------------------------------------------------ */

/* A text of so many bytes more; NULL: it is as it was. */
static char *grow(char *text, size_t length, size_t more) {
    char *longer = more < LARGEST ? _talloc_realloc(NULL, text, length + more + 1, NULL) : NULL;
    if (longer) talloc_set_name_const(longer, longer);
    return longer;
}

static char *append(char *text, size_t length, const char *more, size_t bytes) {
    char *longer = grow(text, length, bytes);
    if (!longer) return NULL;
    memcpy(longer + length, more, bytes);
    longer[length + bytes] = '\0';
    return longer;
}

/* By the size of the chunk, not by the first zero. */
static size_t length_in_buffer(const char *text) {
    size_t size = talloc_get_size(text);
    return size ? size - 1 : 0;
}

char *talloc_strdup_append(char *text, const char *more) {
    if (!text) return talloc_strdup(NULL, more);
    return more ? append(text, strlen(text), more, strlen(more)) : text;
}

char *talloc_strdup_append_buffer(char *text, const char *more) {
    if (!text) return talloc_strdup(NULL, more);
    return more ? append(text, length_in_buffer(text), more, strlen(more)) : text;
}

char *talloc_strndup_append(char *text, const char *more, size_t n) {
    if (!text) return talloc_strndup(NULL, more, n);
    return more ? append(text, strlen(text), more, strnlen(more, n)) : text;
}

char *talloc_strndup_append_buffer(char *text, const char *more, size_t n) {
    if (!text) return talloc_strndup(NULL, more, n);
    return more ? append(text, length_in_buffer(text), more, strnlen(more, n)) : text;
}

/* ---- formatted ------------------------------------------------------------------------------------------------------- */

#define FIRST_TRY 512

/* Into the buffer, as much as it has room for. Returns how long the text is; -1: the format is at fault. */
static int try_format(char *buffer, const char *format, va_list arguments) {
    va_list again;
    va_copy(again, arguments);
    int length = vsnprintf(buffer, FIRST_TRY, format, again);
    va_end(again);
    return length;
}

/* The text to its place: from the first try, or formatted once more. */
static void put(char *to, const char *tried, int length, const char *format, va_list arguments) {
    if (length < FIRST_TRY)
        memcpy(to, tried, (size_t)length + 1);
    else
        (void)vsnprintf(to, (size_t)length + 1, format, arguments);
}

char *talloc_vasprintf(const void *context, const char *format, va_list arguments) {
    char tried[FIRST_TRY];
    int length = try_format(tried, format, arguments);
    Chunk *chunk = length < 0 ? NULL : tt_new(context, (size_t)length + 1, NULL);
    if (!chunk) return NULL;
    char *text = tt_object(chunk);
    put(text, tried, length, format, arguments);
    chunk->name = text;
    return text;
}

static char *append_formatted(char *text, size_t end, const char *format, va_list arguments) {
    char tried[FIRST_TRY];
    int length = try_format(tried, format, arguments);
    if (length <= 0) return text;
    char *longer = grow(text, end, (size_t)length);
    if (longer) put(longer + end, tried, length, format, arguments);
    return longer;
}

char *talloc_vasprintf_append(char *text, const char *format, va_list arguments) {
    if (!text) return talloc_vasprintf(NULL, format, arguments);
    return append_formatted(text, strlen(text), format, arguments);
}

char *talloc_vasprintf_append_buffer(char *text, const char *format, va_list arguments) {
    if (!text) return talloc_vasprintf(NULL, format, arguments);
    return append_formatted(text, length_in_buffer(text), format, arguments);
}

char *talloc_asprintf(const void *context, const char *format, ...) {
    va_list arguments;
    va_start(arguments, format);
    char *text = talloc_vasprintf(context, format, arguments);
    va_end(arguments);
    return text;
}

char *talloc_asprintf_append(char *text, const char *format, ...) {
    va_list arguments;
    va_start(arguments, format);
    text = talloc_vasprintf_append(text, format, arguments);
    va_end(arguments);
    return text;
}

char *talloc_asprintf_append_buffer(char *text, const char *format, ...) {
    va_list arguments;
    va_start(arguments, format);
    text = talloc_vasprintf_append_buffer(text, format, arguments);
    va_end(arguments);
    return text;
}

/* The text is lost where there is no memory for the longer one: then its place holds NULL, and nothing else names it. */
void talloc_asprintf_addbuf(char **place, const char *format, ...) {
    char *text = *place;
    va_list arguments;
    if (!text) return;
    va_start(arguments, format);
    *place = talloc_vasprintf_append_buffer(text, format, arguments);
    va_end(arguments);
    if (!*place) (void)_talloc_free(text, "talloc_asprintf_addbuf");
}

/* ---- names ------------------------------------------------------------------------------------------------------------ */

static const char *set_name(const void *object, const char *format, va_list arguments) {
    Chunk *chunk = object ? tt_chunk(object) : NULL;
    char *name = chunk ? talloc_vasprintf(object, format, arguments) : NULL;
    if (!chunk) return NULL;
    chunk->name = name;
    if (name) talloc_set_name_const(name, NAME_OF_TEXT);
    tt_label(chunk);
    return name;
}

const char *talloc_set_name(const void *object, const char *format, ...) {
    va_list arguments;
    va_start(arguments, format);
    const char *name = set_name(object, format, arguments);
    va_end(arguments);
    return name;
}

void talloc_set_name_const(const void *object, const char *name) {
    Chunk *chunk = object ? tt_chunk(object) : NULL;
    if (!chunk) return;
    chunk->name = name;
    tt_label(chunk);
}

static void *named(const void *context, size_t size, const char *format, va_list arguments) {
    void *object = talloc_named_const(context, size, NULL);
    if (!object || set_name(object, format, arguments)) return object;
    (void)_talloc_free(object, "talloc_named");
    return NULL;
}

void *talloc_named(const void *context, size_t size, const char *format, ...) {
    va_list arguments;
    va_start(arguments, format);
    void *object = named(context, size, format, arguments);
    va_end(arguments);
    return object;
}

void *talloc_init(const char *format, ...) {
    va_list arguments;
    va_start(arguments, format);
    void *object = named(NULL, 0, format, arguments);
    va_end(arguments);
    return object;
}
