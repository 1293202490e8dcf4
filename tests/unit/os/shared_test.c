/* Memory that other processes read (os/os.h): found at /proc by its name, whole, and not theirs to write. */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include "os/os.h"
#include "os/shared.h"

#include "unit.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

enum { BYTES = 1 << 16 };

static void made_and_ended(void **state) {
    (void)state;
    ts_shared s;
    assert_true(ts_shared_make(&s, "shared-test", BYTES));
    char *at = s.at, path[64], link[128] = "", byte = 0;
    for (unsigned i = 0; i < BYTES; i++) assert_int_equal(at[i], 0);
    at[BYTES - 1] = 7;
    snprintf(path, sizeof path, "/proc/self/fd/%d", s.file.fd);
    assert_true(readlink(path, link, sizeof link - 1) > 0);
    assert_non_null(strstr(link, "memfd:shared-test"));
    int reader = open(path, O_RDONLY | O_CLOEXEC);
    assert_true(reader >= 0);
    assert_int_equal(pread(reader, &byte, 1, BYTES - 1), 1);
    assert_int_equal(byte, 7);
    assert_int_equal(close(reader), 0);
    int writer = open(path, O_RDWR | O_CLOEXEC);
    if (writer >= 0) { /* the seal, where the kernel has it */
        assert_int_equal(ftruncate(writer, 2 * BYTES), -1);
        assert_int_equal(pwrite(writer, "x", 1, 0), fcntl(writer, F_GET_SEALS) & 0x0010 ? -1 : 1);
        assert_int_equal(close(writer), 0);
    }
    int fd = s.file.fd;
    ts_shared_end(&s);
    assert_null(s.at);
    assert_int_equal(fcntl(fd, F_GETFD), -1);
    ts_shared_end(&s); /* once more is nothing */
}

/* The program has closed all descriptors that it did not know, and the number names a file of its own. */
static void closed_by_the_program(void **state) {
    (void)state;
    ts_shared s;
    assert_true(ts_shared_make(&s, "shared-test", BYTES));
    int fd = s.file.fd;
    int null = open("/dev/null", O_RDONLY | O_CLOEXEC);
    assert_true(null >= 0);
    assert_int_equal(dup2(null, fd), fd);
    ts_shared_end(&s);
    assert_true(fcntl(fd, F_GETFD) >= 0); /* it is the program's */
    assert_int_equal(close(fd), 0);
    assert_int_equal(close(null), 0);
}

static void refused_by_a_limit(void **state) {
    (void)state;
    struct rlimit before, small;
    ts_shared s;
    assert_int_equal(getrlimit(RLIMIT_FSIZE, &before), 0);
    small = before;
    small.rlim_cur = BYTES - 1;
    assert_int_equal(setrlimit(RLIMIT_FSIZE, &small), 0);
    errno = 0;
    bool made = ts_shared_make(&s, "shared-test", BYTES);
    int error = errno;
    assert_int_equal(setrlimit(RLIMIT_FSIZE, &before), 0);
    assert_false(made);
    assert_int_equal(error, EFBIG);
    assert_null(s.at);
    assert_int_equal(s.file.fd, -1);
    ts_shared_end(&s);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(made_and_ended),
        cmocka_unit_test(closed_by_the_program),
        cmocka_unit_test(refused_by_a_limit),
    };
    return cmocka_run_group_tests_name("os.shared", tests, NULL, NULL);
}
