/*
 * A file descriptor that the library keeps. The program may close it, as daemons close all that they do not know.
 * Then the number may name a file of the program. So every use and every close looks first.
 */
#ifndef TS_OS_OWN_FILE_H
#define TS_OS_OWN_FILE_H

#include <errno.h>
#include <stdbool.h>
#include <sys/stat.h>
#include <unistd.h>

typedef struct ts_own_file {
    int fd; /* -1: none */
    dev_t device;
    ino_t inode;
} ts_own_file;

/* The file of a descriptor that has just been opened, or -1. */
static inline ts_own_file ts_own_file_of(int fd) {
    struct stat st;
    if (fd < 0 || fstat(fd, &st) != 0) return (ts_own_file){.fd = fd};
    return (ts_own_file){fd, st.st_dev, st.st_ino};
}

/* Whether the number is still that file's. errno stays. */
static inline bool ts_own_file_is_open(const ts_own_file *file) {
    struct stat st;
    int before = errno;
    bool same = file->fd >= 0 && fstat(file->fd, &st) == 0 && st.st_dev == file->device && st.st_ino == file->inode;
    errno = before;
    return same;
}

static inline void ts_own_file_close(ts_own_file *file) {
    if (ts_own_file_is_open(file)) (void)close(file->fd);
    file->fd = -1;
}

#endif
