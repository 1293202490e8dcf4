/* The tests of locks where futexes are forbidden: a thread that waits naps. park.c is compiled once more, in place of
   the library's. */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include <errno.h>
#include <unistd.h>

static long refuse_call(long number, ...) {
    errno = ENOSYS;
    return number < 0 ? number : -1;
}
#define syscall refuse_call
#include "os/park.c" /* NOLINT: defines _GNU_SOURCE, so it comes first */

#include "lock_test.c"
