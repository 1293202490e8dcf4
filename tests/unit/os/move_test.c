/*
 * Moves that the system refuses. Linux 6.1 moves no range of several areas, and unmaps the second range before it
 * says so. A function here stands before the C library's mremap, and does the same on each kernel; one test asks the
 * kernel that runs.
 */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include "check.h"
#include "unit.h"

#include "os/os.h"

#include <errno.h>
#include <stdarg.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#define PAGES 8u

static enum { AS_IT_IS, SEVERAL_AREAS, NO_MEMORY } system_is;
static unsigned unmapped; /* second ranges */

void *mremap(void *at, size_t bytes, size_t wanted, int flags, ...) {
    va_list args;
    va_start(args, flags);
    void *to = (flags & MREMAP_FIXED) != 0 ? va_arg(args, void *) : NULL;
    va_end(args);
    if (system_is == AS_IT_IS) return (void *)syscall(SYS_mremap, at, bytes, wanted, flags, to);
    if (to) {
        assert_int_equal(munmap(to, bytes), 0);
        unmapped++;
    }
    errno = system_is == SEVERAL_AREAS ? EFAULT : ENOMEM;
    return MAP_FAILED;
}

static size_t half;
static char *from, *to;

static int begin(void **state) {
    (void)state;
    half = PAGES * ts_os_page_bytes();
    from = ts_os_native.reserve(4 * half);
    if (!from || !ts_os_native.commit(from, 4 * half)) return -1;
    to = from + 2 * half;
    memset(from, 7, 2 * half);
    memset(to, 5, 2 * half);
    unmapped = 0;
    errno = 77;
    return 0;
}

static int end(void **state) {
    (void)state;
    system_is = AS_IT_IS;
    ts_os_native.release(from, 4 * half);
    return 0;
}

static void is_all(const char *at, char value) {
    for (size_t i = 0; i < 2 * half; i++)
        if (at[i] != value) fail_msg("byte %zu is %d", i, at[i]);
}

/* The first range is as it was, and the second can be written to. */
static void is_refused(void) {
    assert_false(ts_os_native.move(from, to, 2 * half));
    assert_int_equal(errno, 77);
    is_all(from, 7);
    memset(to, 6, 2 * half);
    is_all(to, 6);
}

static void several_areas_are_not_tried(void **state) {
    (void)state;
    system_is = SEVERAL_AREAS;
    is_refused();
    assert_int_equal(unmapped, 0);
}

static void short_of_memory(void **state) {
    (void)state;
    system_is = NO_MEMORY;
    is_refused();
}

/* Two areas, on the kernel that runs: it may be one that moves them. */
static void two_areas(void **state) {
    (void)state;
    if (SUP_EMULATED) skip(); /* an emulator moves nothing, as the library finds out at its start (purge_probe.c) */
    assert_int_equal(madvise(from + half, half, MADV_DONTFORK), 0);
    if (!ts_os_native.move(from, to, 2 * half)) {
        is_refused();
    } else {
        is_all(to, 7);
        is_all(from, 0);
    }
}

static void one_area(void **state) {
    (void)state;
    if (SUP_EMULATED) skip();
    if (!ts_os_native.move(from, to, 2 * half)) skip(); /* a kernel before 5.7 */
    assert_int_equal(errno, 77);
    is_all(to, 7);
    is_all(from, 0);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(several_areas_are_not_tried, begin, end),
        cmocka_unit_test_setup_teardown(short_of_memory, begin, end),
        cmocka_unit_test_setup_teardown(two_areas, begin, end),
        cmocka_unit_test_setup_teardown(one_area, begin, end),
    };
    return cmocka_run_group_tests_name("os.move", tests, NULL, NULL);
}
