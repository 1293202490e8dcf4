/*
 * The limit of the size of files (RLIMIT_FSIZE, ulimit -f). A write beyond it is a signal, SIGXFSZ, that ends the
 * program. So the library looks at the limit before it writes to a file or makes one longer.
 */
#ifndef TS_OS_FILE_LIMIT_H
#define TS_OS_FILE_LIMIT_H

#include <errno.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

/* Whether a file may have this many bytes. false: errno is EFBIG. */
static inline bool ts_file_may_have(uint64_t bytes) {
    struct rlimit limit;
    if (getrlimit(RLIMIT_FSIZE, &limit) != 0 || limit.rlim_cur == RLIM_INFINITY || bytes <= limit.rlim_cur) return true;
    errno = EFBIG;
    return false;
}

/* Writes all of it, where a file has room for all of it under the limit. false: errno says why. */
static inline bool ts_write_all(int fd, const char *text, size_t bytes) {
    struct stat st;
    ssize_t n = 0;
    if (fstat(fd, &st) == 0 && S_ISREG(st.st_mode) && !ts_file_may_have((uint64_t)st.st_size + bytes)) return false;
    for (size_t done = 0; done < bytes && n >= 0; done += (size_t)(n > 0 ? n : 0)) {
        do n = write(fd, text + done, bytes - done);
        while (n < 0 && errno == EINTR);
        if (n == 0) n = -1, errno = EIO;
    }
    return n >= 0;
}

#endif
