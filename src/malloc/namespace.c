/*
 * unshare and setns: some namespaces are for processes of one thread. The library's own threads, which a program does
 * not know of, end for the call and begin again behind it.
 */
#define _GNU_SOURCE
#include "malloc/entry.h"

#include <pthread.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

/* The system counts a thread until some time after it has ended. */
#define TRIES 200u

static bool is_for_one_thread(int error) { return error == EINVAL || error == EUSERS; }

/* Its error, or 0. errno stays. */
static int try(long number, long first, long second) {
    int before = errno, error = syscall(number, first, second) == 0 ? 0 : errno;
    errno = before;
    return error;
}

/* The same while the library's threads rest, if there are any: else the error of the first try. A thread that is
   cancelled here would leave them at rest for ever. */
static int try_alone(long number, long first, long second, int error) {
    const struct timespec moment = {0, 1000000};
    int cancel;
    (void)pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &cancel);
    if (ts_private_threads_rest()) {
        for (unsigned i = 0; i < TRIES && is_for_one_thread(error); i++) {
            if (i > 0) (void)nanosleep(&moment, NULL);
            error = try(number, first, second);
        }
        ts_private_threads_go_on();
    }
    (void)pthread_setcancelstate(cancel, &cancel);
    return error;
}

static int call(long number, long first, long second) {
    int before = errno, error = try(number, first, second);
    if (is_for_one_thread(error)) error = try_alone(number, first, second, error);
    errno = error ? error : before;
    return error ? -1 : 0;
}

TM_EXPORT int unshare(int flags);
int unshare(int flags) { return call(SYS_unshare, flags, 0); }

TM_EXPORT int setns(int file, int type);
int setns(int file, int type) { return call(SYS_setns, file, type); }
