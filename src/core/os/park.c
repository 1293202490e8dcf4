/*
 * Sleeping until a word changes, and waking a sleeper. It is a futex. Where a filter forbids futexes,
 * the sleeper looks again after a moment, and waking does nothing. (A condition variable would not do:
 * that of glibc before 2.41 can lose a signal.) There are no cancellation points, and errno stays.
 */
#define _GNU_SOURCE
#include "os/os.h"

#include "base/base.h"

#include <errno.h>
#include <pthread.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#if !defined(SYS_futex) && defined(SYS_futex_time64)
#define SYS_futex SYS_futex_time64 /* no call here has a time */
#endif
enum { WAIT_PRIVATE = 0 | 128, WAKE_PRIVATE = 1 | 128 };

static bool wait_at(_Atomic uint32_t *word, uint32_t value) {
    return syscall(SYS_futex, word, WAIT_PRIVATE, value, NULL, NULL, 0) == 0 || errno == EAGAIN || errno == EINTR;
}

TS_COLD void ts_nap(void) {
    struct timespec t = {0, 50000};
    int error = errno, before;
    pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &before); /* nanosleep is a cancellation point */
    (void)nanosleep(&t, NULL);
    pthread_setcancelstate(before, &before);
    errno = error;
}

void ts_park(_Atomic uint32_t *word, uint32_t while_it_is) {
    int error = errno;
    if (!wait_at(word, while_it_is)) ts_nap();
    errno = error;
}

void ts_unpark(_Atomic uint32_t *word) {
    int error = errno;
    (void)syscall(SYS_futex, word, WAKE_PRIVATE, 1, NULL, NULL, 0);
    errno = error;
}
