/*
 * The limit of the size of files (RLIMIT_FSIZE, ulimit -f). A write beyond it is a signal, SIGXFSZ, that ends the
 * program. So the library looks at the limit before it writes to a file or makes one longer.
 */
#ifndef TS_OS_FILE_LIMIT_H
#define TS_OS_FILE_LIMIT_H

#include <errno.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/resource.h>

/* Whether a file may have this many bytes. false: errno is EFBIG. */
static inline bool ts_file_may_have(uint64_t bytes) {
    struct rlimit limit;
    if (getrlimit(RLIMIT_FSIZE, &limit) != 0 || limit.rlim_cur == RLIM_INFINITY || bytes <= limit.rlim_cur) return true;
    errno = EFBIG;
    return false;
}

#endif
