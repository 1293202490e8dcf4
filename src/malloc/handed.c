/*
 * What libc allocates is its own, also inside of a domain that captures: the memory of a FILE, of a message, of a timer
 * outlives the domain (runtime.h). These functions hand what they allocate to their caller, so it is the domain's. A
 * function that is missing here gives memory of the process's, which somebody has to free, and no more than that.
 *
 * libc calls its own strdup and asprintf by other names, and keeps what they give. So these are the program's calls
 * alone. libc does the work, and then the memory is moved into the domain.
 */
#define _GNU_SOURCE
#define __NO_INLINE__ 1 /* getline is a function here, and not an inline one of stdio.h */
#include "malloc/entry.h"
#include "malloc/next.h"
#include "malloc/runtime.h"

#include <dirent.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <wchar.h>

/* ---- copies ------------------------------------------------------------------------------------------------------ */

/* By the first malloc of the process, as libc does it. A part of libc that is a library of its own keeps its copies. */
static void *room_for(size_t bytes, const void *caller) {
    bool keeps = TS_UNLIKELY(tm_is_captured()) && tm_is_runtimes(caller);
    if (keeps) tm_capture_suspend();
    void *p = malloc(bytes);
    if (keeps) tm_capture_resume();
    return p;
}

/* By the call of the function here, as libc's copy is called in a plan (tools/advise/placement.c). */
TS_ALWAYS_INLINE void *planned_room(size_t bytes) {
    (void)bytes;
    TM_PLANNED(16, bytes, false);
    return NULL;
}

TS_ALWAYS_INLINE char *copy(const char *text, size_t bytes) {
    char *p = planned_room(bytes + 1);
    if (!p) p = room_for(bytes + 1, TM_CALLED_FROM());
    if (!p) return NULL;
    p[bytes] = 0;
    return memcpy(p, text, bytes);
}

TM_EXPORT char *strdup(const char *text) { return copy(text, strlen(text)); }
TM_EXPORT char *__strdup(const char *text);
char *__strdup(const char *text) { return copy(text, strlen(text)); }
TM_EXPORT char *strndup(const char *text, size_t most) { return copy(text, strnlen(text, most)); }
TM_EXPORT char *__strndup(const char *text, size_t most);
char *__strndup(const char *text, size_t most) { return copy(text, strnlen(text, most)); }

TM_EXPORT wchar_t *wcsdup(const wchar_t *text) {
    size_t bytes = (wcslen(text) + 1) * sizeof *text;
    wchar_t *p = planned_room(bytes);
    if (!p) p = room_for(bytes, TM_CALLED_FROM());
    return p ? memcpy(p, text, bytes) : NULL;
}

/* ---- moved ------------------------------------------------------------------------------------------------------- */

/* An object of libc's, which is the process's, to where the caller's malloc allocates. It stays where it is if there is
   no room. */
TS_COLD static void *move(void *p, const void *caller) {
    if (!p) return NULL;
    int error = errno;
    size_t bytes = tm_process_usable(p); /* 0: of another malloc, which the program has before this one */
    void *q = bytes ? tm_capture_alloc(16, bytes, false, caller) : NULL;
    errno = error;
    if (!q) return p;
    memcpy(q, p, bytes);
    free(p);
    return q;
}
#define HANDED(p) (TS_UNLIKELY(tm_is_captured()) ? move((p), TM_CALLED_FROM()) : (p))

TM_MALLOC_NEXT(int, vasprintf, (char **out, const char *format, va_list arguments))
TM_MALLOC_NEXT(int, __vasprintf_chk, (char **out, int flag, const char *format, va_list arguments))
TM_MALLOC_NEXT(ssize_t, __getdelim, (char **line, size_t *bytes, int delimiter, FILE *file))
TM_MALLOC_NEXT(char *, getcwd, (char *buffer, size_t bytes))
TM_MALLOC_NEXT(char *, get_current_dir_name, (void))
TM_MALLOC_NEXT(char *, realpath, (const char *path, char *buffer))
TM_MALLOC_NEXT(char *, canonicalize_file_name, (const char *path))
TM_MALLOC_NEXT(char *, tempnam, (const char *directory, const char *prefix))

#define PRINTED(call, last)          \
    va_list arguments;               \
    va_start(arguments, last);       \
    int n = call;                    \
    va_end(arguments);               \
    if (n >= 0) *out = HANDED(*out); \
    return n

TM_EXPORT int asprintf(char **out, const char *format, ...) {
    PRINTED(next_vasprintf()(out, format, arguments), format);
}
TM_EXPORT int __asprintf_chk(char **out, int flag, const char *format, ...);
int __asprintf_chk(char **out, int flag, const char *format, ...) {
    PRINTED(next___vasprintf_chk()(out, flag, format, arguments), format);
}
TM_EXPORT int vasprintf(char **out, const char *format, va_list arguments) {
    int n = next_vasprintf()(out, format, arguments);
    if (n >= 0) *out = HANDED(*out);
    return n;
}
TM_EXPORT int __vasprintf_chk(char **out, int flag, const char *format, va_list arguments);
int __vasprintf_chk(char **out, int flag, const char *format, va_list arguments) {
    int n = next___vasprintf_chk()(out, flag, format, arguments);
    if (n >= 0) *out = HANDED(*out);
    return n;
}

/* A line that the caller brings stays in its epoch as it grows. */
TS_ALWAYS_INLINE ssize_t read_line(char **line, size_t *bytes, int delimiter, FILE *file) {
    bool is_new = line && bytes && (!*line || *bytes == 0);
    ssize_t n = next___getdelim()(line, bytes, delimiter, file);
    if (is_new) *line = HANDED(*line);
    return n;
}
TM_EXPORT ssize_t getline(char **line, size_t *bytes, FILE *file) { return read_line(line, bytes, '\n', file); }
TM_EXPORT ssize_t getdelim(char **line, size_t *bytes, int delimiter, FILE *file) {
    return read_line(line, bytes, delimiter, file);
}
TM_EXPORT ssize_t __getdelim(char **line, size_t *bytes, int delimiter, FILE *file) {
    return read_line(line, bytes, delimiter, file);
}

TM_EXPORT char *getcwd(char *buffer, size_t bytes) {
    char *p = next_getcwd()(buffer, bytes);
    return buffer ? p : HANDED(p);
}
TM_EXPORT char *realpath(const char *path, char *buffer) {
    char *p = next_realpath()(path, buffer);
    return buffer ? p : HANDED(p);
}
TM_EXPORT char *get_current_dir_name(void) { return HANDED(next_get_current_dir_name()()); }
TM_EXPORT char *canonicalize_file_name(const char *path) { return HANDED(next_canonicalize_file_name()(path)); }
TM_EXPORT char *tempnam(const char *directory, const char *prefix) { return HANDED(next_tempnam()(directory, prefix)); }

/* ---- directories ------------------------------------------------------------------------------------------------- */

TS_COLD static void *move_all(void *list, int entries, const void *caller) {
    void **all = move(list, caller);
    for (int i = 0; i < entries; i++) all[i] = move(all[i], caller);
    return all;
}

/* SCANNED(NAME, ENTRY, PARAMETERS, ARGUMENTS): the list is the parameter `list`. */
#define SCANNED(name, parameters, given)                                                           \
    TM_MALLOC_NEXT(int, name, parameters)                                                          \
    TM_EXPORT int name parameters {                                                                \
        int n = next_##name() given;                                                               \
        if (n >= 0 && TS_UNLIKELY(tm_is_captured())) *list = move_all(*list, n, TM_CALLED_FROM()); \
        return n;                                                                                  \
    }
#define FUNCTIONS(type) int (*filter)(const struct type *), int (*compare)(const struct type **, const struct type **)
SCANNED(scandir, (const char *path, struct dirent ***list, FUNCTIONS(dirent)), (path, list, filter, compare))
SCANNED(scandirat, (int directory, const char *path, struct dirent ***list, FUNCTIONS(dirent)),
        (directory, path, list, filter, compare))
SCANNED(scandir64, (const char *path, struct dirent64 ***list, FUNCTIONS(dirent64)), (path, list, filter, compare))
SCANNED(scandirat64, (int directory, const char *path, struct dirent64 ***list, FUNCTIONS(dirent64)),
        (directory, path, list, filter, compare))
