/*
 * The limit of the size of files (RLIMIT_FSIZE, ulimit -f). A write beyond it is a signal, SIGXFSZ, that ends the
 * program. So the library looks at the limit before it makes a file longer, and holds the signal where it writes. It
 * holds SIGPIPE, too, which a write to a pipe or a socket without a reader brings.
 */
#ifndef TS_OS_FILE_LIMIT_H
#define TS_OS_FILE_LIMIT_H

#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/resource.h>
#include <time.h>
#include <unistd.h>

/* Whether a file may have this many bytes. false: errno is EFBIG. */
static inline bool ts_file_may_have(uint64_t bytes) {
    struct rlimit limit;
    if (getrlimit(RLIMIT_FSIZE, &limit) != 0 || limit.rlim_cur == RLIM_INFINITY || bytes <= limit.rlim_cur) return true;
    errno = EFBIG;
    return false;
}

/* Writes all of it. Beyond the limit it fails with EFBIG, and with EPIPE where the reader of a pipe has gone, without
   the signals that end the program. Of the system it calls no more than a sandbox leaves: write and the mask of
   signals, where neither is met. false: errno says why. */
static inline bool ts_write_all(int fd, const char *text, size_t bytes) {
    const struct timespec at_once = {0, 0};
    sigset_t held, before, pending; /* pending: signals of the program's that are pending already */
    ssize_t n = 0;
    (void)sigemptyset(&pending);
    (void)sigemptyset(&held);
    (void)sigaddset(&held, SIGXFSZ);
    (void)sigaddset(&held, SIGPIPE);
    (void)pthread_sigmask(SIG_BLOCK, &held, &before);
    bool may_pend = sigismember(&before, SIGXFSZ) == 1 || sigismember(&before, SIGPIPE) == 1;
    if (may_pend && sigpending(&pending) != 0) (void)sigfillset(&pending);
    for (size_t done = 0; done < bytes && n >= 0; done += (size_t)(n > 0 ? n : 0)) {
        do n = write(fd, text + done, bytes - done);
        while (n < 0 && errno == EINTR);
        if (n == 0) n = -1, errno = EIO;
    }
    int error = errno, own = n >= 0 ? 0 : error == EFBIG ? SIGXFSZ : error == EPIPE ? SIGPIPE : 0;
    if (own != 0 && sigismember(&pending, own) != 1) {
        (void)sigemptyset(&held);
        (void)sigaddset(&held, own);
        (void)sigtimedwait(&held, NULL, &at_once);
    }
    (void)pthread_sigmask(SIG_SETMASK, &before, NULL);
    errno = error;
    return n >= 0;
}

#endif
