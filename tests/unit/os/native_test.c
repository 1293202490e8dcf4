/* The table of this system: every call keeps the contract of os.h, and fails where the system does. */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include "proc.h"
#include "seccomp.h"
#include "unit.h"

#include "check.h"
#include "os/os.h"

#include <errno.h>
#include <signal.h>
#include <stddef.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/wait.h>

#define BYTES ((size_t)1 << 20)

static void a_reservation(void **state) {
    (void)state;
    char *at = ts_os_native.reserve(BYTES);
    assert_non_null(at);
    assert_true(ts_os_native.commit(at, BYTES));
    assert_int_equal(at[0] | at[BYTES - 1], 0);
    memset(at, 5, BYTES);
    assert_true(ts_os_native.purge(at, BYTES / 2));
    assert_int_equal(at[0], 0);
    assert_int_equal(at[BYTES - 1], 5);
    assert_true(ts_os_native.populate(at, BYTES));
    assert_int_equal(at[0] | at[BYTES / 2 - 1], 0);
    assert_int_equal(at[BYTES / 2], 5);
    ts_os_native.huge_pages(at, BYTES, true);
    ts_os_native.huge_pages(at, BYTES, false);
    assert_true(ts_os_native.freeze(at, BYTES / 2));
    assert_int_equal(at[BYTES / 2 - 1], 0);
    assert_true(ts_os_native.commit(at, BYTES));
    at[0] = 1;
    assert_int_equal(at[BYTES / 2], 5);
    ts_os_native.release(at, BYTES);
    /* Nothing is there any more. (With qemu there is: the program's whole address space is one reservation of qemu's
       own.) */
    if (SUP_EMULATED) {
        return;
    }
    assert_false(ts_os_native.commit(at, BYTES));
    assert_false(ts_os_native.purge(at, BYTES));
    assert_false(ts_os_native.populate(at, BYTES));
}

static void what_cannot_be_had(void **state) {
    (void)state;
    assert_null(ts_os_native.reserve(SIZE_MAX - 0xffff));
}

static void clocks_and_figures(void **state) {
    (void)state;
    uint64_t wall = ts_os_native.wall_ns(), cpu = ts_os_native.cpu_ns();
    /* Where the processor has no good clock its time goes on at ticks only. */
    for (volatile int i = 0; i < 100000000 && (i < 100000 || ts_os_native.cpu_ns() <= cpu); i++) {
    }
    ts_os_native.yield();
    uint64_t coarse = ts_os_native.coarse_ns(), now = ts_os_native.wall_ns();
    assert_true(coarse <= now && now - coarse < 1000000000u);
    assert_true(now > wall && ts_os_native.coarse_ns() >= coarse);
    assert_true(ts_os_native.wall_ns() > wall && ts_os_native.cpu_ns() > cpu);
    size_t page = ts_os_page_bytes();
    assert_true(page >= 4096 && (page & (page - 1)) == 0);
    assert_true(ts_os_native.resident_bytes() >= page);
    assert_true(ts_os_native.room_bytes() > page && ts_os_native.room_bytes() < UINT64_MAX);
}

/* A process that may open no file does not know its resident memory: 0; nor its room. */
static void without_files(void *argument) {
    (void)argument;
    const struct rlimit none = {0, 0};
    SUP_CHECK(setrlimit(RLIMIT_NOFILE, &none) == 0, "setrlimit");
    uint64_t bytes = ts_os_native.resident_bytes(), room = ts_os_native.room_bytes();
    (void)setrlimit(RLIMIT_NOFILE, &(struct rlimit){1024, 1024});
    SUP_CHECK(bytes == 0, "resident without /proc");
    SUP_CHECK(room == UINT64_MAX, "room without /proc");
}

static void no_files_no_figure(void **state) {
    (void)state;
    assert_int_equal(sup_child(without_files, NULL, SUP_CHILD_SECONDS, NULL, 0), 0);
}

#if defined(HAS_SECCOMP) && defined(SYS_membarrier)
/* A process that forbids itself the barrier after it had it: the call is refused, and errno stays. */
static void without_a_barrier(void *argument) {
    struct sock_filter code[] = {
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_membarrier, 0, 1),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | EPERM),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
    };
    struct sock_fprog program = {sizeof code / sizeof *code, code};
    (void)argument;
    if (!ts_os_native.barrier_all() || prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0 ||
        prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program) != 0) {
        return; /* none to refuse, or nothing to refuse it with */
    }
    errno = 77;
    SUP_CHECK(!ts_os_native.barrier_all(), "a barrier that is forbidden");
    SUP_CHECK(errno == 77, "errno %d", errno);
}

static void a_barrier_forbidden_later(void **state) {
    (void)state;
    assert_int_equal(sup_child(without_a_barrier, NULL, SUP_CHILD_SECONDS, NULL, 0), 0);
}
#define WITHOUT_A_BARRIER cmocka_unit_test(a_barrier_forbidden_later),
#else
#define WITHOUT_A_BARRIER
#endif

static void fail_an_assertion(void *argument) {
    (void)argument;
    ts_assert_failed("two is three", "file.c", 7);
}

static void an_assertion_says_where(void **state) {
    (void)state;
    char err[256];
    int status = sup_child(fail_an_assertion, NULL, SUP_CHILD_SECONDS, err, sizeof err);
    assert_true(SUP_SANITIZED || (WIFSIGNALED(status) && WTERMSIG(status) == SIGABRT));
    assert_non_null(strstr(err, "tslab: assertion failed: two is three (file.c:7)\n"));
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(a_reservation),           cmocka_unit_test(what_cannot_be_had),
                                       cmocka_unit_test(clocks_and_figures),      cmocka_unit_test(no_files_no_figure),
                                       cmocka_unit_test(an_assertion_says_where), WITHOUT_A_BARRIER};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
