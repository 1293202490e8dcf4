/*
 * Small files, as /proc and /sys have them: read whole, without malloc and stdio. errno stays. No thread is cancelled
 * here: it could leave an epoch half closed. The libraries above the core and the tools read theirs so, too.
 */
#ifndef TS_OS_SMALL_FILE_H
#define TS_OS_SMALL_FILE_H

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <unistd.h>

/* The beginning of the file, with a zero behind it. false: it cannot be read, and the text is empty. */
static inline bool ts_small_file_read(const char *path, char *text, size_t bytes) {
    int before = errno, cancel;
    (void)pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &cancel);
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    ssize_t n = fd >= 0 ? read(fd, text, bytes - 1) : -1;
    if (fd >= 0) (void)close(fd);
    (void)pthread_setcancelstate(cancel, &cancel);
    errno = before;
    text[n > 0 ? n : 0] = 0;
    return n >= 0;
}

/* Its first line, without the end of it. */
static inline bool ts_small_file_line(const char *path, char *text, size_t bytes) {
    bool done = ts_small_file_read(path, text, bytes);
    text[strcspn(text, "\n")] = 0;
    return done;
}

/* The decimal number behind the blanks at text. false: there is none. */
static inline bool ts_number_at(const char *text, uint64_t *out) {
    uint64_t n = 0;
    text += strspn(text, " \t");
    if (*text < '0' || *text > '9') return false;
    for (; *text >= '0' && *text <= '9'; text++) n = n * 10 + (uint64_t)(*text - '0');
    *out = n;
    return true;
}

/* The number that the file begins with; 0: there is none. */
static inline uint64_t ts_small_file_number(const char *path) {
    char text[64];
    uint64_t n = 0;
    return ts_small_file_read(path, text, sizeof text) && ts_number_at(text, &n) ? n : 0;
}

/* Word `word` of a file /proc/PID/stat, from 1, as proc(5) counts them; 0: it is no number. Word 2, the program's
   name, is in parentheses and may have any character, so the words are counted from its end. */
static inline uint64_t ts_process_word(const char *path, unsigned word) {
    char text[1024];
    uint64_t n = 0;
    if (!ts_small_file_read(path, text, sizeof text)) return 0;
    const char *at = strrchr(text, ')');
    for (unsigned i = 2; at && i < word; i++) at = strchr(at + 1, ' ');
    return at && ts_number_at(at, &n) ? n : 0;
}

#endif
