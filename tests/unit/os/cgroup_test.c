/*
 * Under a memory limit of the kernel (a cgroup): a program whose peak is below the limit lives for ever, however much
 * it allocates in total, because the memory of ended epochs goes back; and a budget keeps it alive where the limit
 * would end it. Skipped, with the reason, where no cgroup with a memory limit can be made.
 */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include "check.h"
#include "identities.h"
#include "proc.h"
#include "unit.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#define MIB ((size_t)1 << 20)
#define LIMIT (96 * MIB)
#define NOTHING_RAN 77 /* for ctest */

static char group[256];
static const char *limit_file;

static bool write_file(const char *name, const char *content) {
    char path[320];
    (void)snprintf(path, sizeof path, "%s/%s", group, name);
    int fd = open(path, O_WRONLY | O_CLOEXEC);
    bool written = fd >= 0 && write(fd, content, strlen(content)) == (ssize_t)strlen(content);
    if (fd >= 0) {
        (void)close(fd);
    }
    return written;
}

/* Version 2, then version 1 of the interface. */
static int make_group(void **state) {
    static const char *const roots[] = {"/sys/fs/cgroup", "/sys/fs/cgroup/memory"};
    static const char *const files[] = {"memory.max", "memory.limit_in_bytes"};
    char limit[32];
    (void)state;
    (void)snprintf(limit, sizeof limit, "%zu", LIMIT);
    for (int i = 0; i < 2; i++) {
        (void)snprintf(group, sizeof group, "%s/tslab_test_%ld", roots[i], (long)getpid());
        if (mkdir(group, 0755) != 0) {
            continue;
        }
        if (write_file(files[i], limit)) {
            limit_file = files[i];
            (void)write_file("memory.swap.max", "0");
            return 0;
        }
        (void)rmdir(group);
    }
    group[0] = 0;
    return 0;
}

static int remove_group(void **state) {
    (void)state;
    return group[0] && rmdir(group) != 0;
}

static void join_group(void) {
    char pid[32];
    (void)snprintf(pid, sizeof pid, "%ld", (long)getpid());
    SUP_CHECK(write_file("cgroup.procs", pid), "cannot join %s: %s", group, strerror(errno));
}

static bool limited(void) {
    if (group[0]) {
        return true;
    }
    print_message("skipped: no cgroup with a memory limit can be made here\n");
    return false;
}

/* 1 GiB in epochs of 50 MiB, each touched and destroyed. */
static void cycles(void *policy) {
    SlabOptions options = {.size = sizeof options, .reclaim_policy = *(int *)policy};
    SlabAllocator *allocator = slab_allocator_create_ex(&options);
    join_group();
    for (int cycle = 0; cycle < 20; cycle++) {
        EpochId epoch = epoch_open(allocator, NULL, cycle % 2 ? EPOCH_SCOPE : EPOCH_CHURN);
        for (size_t held = 0; held < 50 * MIB;) {
            size_t size = (size_t)cycle * 977 % 4000 + 96 + (held % 13 == 0 ? 20000 : 0);
            void *p = slab_malloc_epoch(allocator, size, epoch);
            SUP_CHECK(p != NULL, "slab_malloc_epoch: errno %d", errno);
            memset(p, cycle, size);
            held += slab_usable_size(allocator, p);
        }
        SUP_CHECK(epoch_destroy(allocator, epoch), "epoch_destroy");
    }
    sup_check_identities(allocator);
    sup_check_empty(allocator);
}

/* Takes all there is; with a budget below the limit that ends with NULL. */
static void take_all(void *budget) {
    SlabOptions options = {.size = sizeof options, .budget_bytes = *(size_t *)budget};
    SlabAllocator *allocator = slab_allocator_create_ex(&options);
    EpochId epoch = epoch_open(allocator, NULL, 0);
    join_group();
    for (size_t held = 0; held < 4 * LIMIT; held += 4096) {
        void *p = slab_malloc_epoch(allocator, 4096, epoch);
        if (p == NULL) {
            SUP_CHECK(errno == ENOMEM, "errno %d", errno);
            sup_check_identities(allocator);
            SUP_CHECK(epoch_destroy(allocator, epoch), "epoch_destroy");
            (void)slab_trim(allocator);
            SUP_CHECK(sup_committed_bytes(allocator) == 0, "not all came back");
            return;
        }
        memset(p, 1, 4096);
    }
}

static void what_ends_goes_back(void **state) {
    int policies[] = {SLAB_RECLAIM_BUDGET, SLAB_RECLAIM_AT_ONCE};
    (void)state;
    if (!limited()) {
        skip();
    }
    for (int i = 0; i < 2; i++) {
        char err[1024] = "";
        int status = sup_child(cycles, &policies[i], SUP_CHILD_SECONDS, err, sizeof err);
        if (status != 0) {
            fail_msg("policy %d, limit %zu: status %#x %s", policies[i], LIMIT, (unsigned)status, err);
        }
    }
}

static void budget_below_the_limit(void **state) {
    size_t below = 60 * MIB, none = 0;
    char err[1024] = "";
    (void)state;
    if (!limited()) {
        skip();
    }
    int status = sup_child(take_all, &below, SUP_CHILD_SECONDS, err, sizeof err);
    if (status != 0) {
        fail_msg("status %#x %s", (unsigned)status, err);
    }
    /* Without the budget the kernel ends it: so there is a limit. */
    status = sup_child(take_all, &none, SUP_CHILD_SECONDS, err, sizeof err);
    assert_true(WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL);
}

/* Asks for more than the limit: refused, and the process lives, with most of it in memory. */
static void reserve_too_much(void *arg) {
    (void)arg;
    join_group();
    SlabAllocator *allocator = slab_allocator_create();
    errno = 0;
    SUP_CHECK(!slab_reserve(allocator, 2 * LIMIT) && errno == ENOMEM, "slab_reserve: errno %d", errno);
    size_t had = sup_committed_bytes(allocator);
    SUP_CHECK(had > LIMIT / 2 && had < LIMIT, "%zu bytes could be had", had);
    memset(slab_malloc(allocator, MIB), 1, MIB);
    (void)slab_trim(allocator);
    SUP_CHECK(slab_reserve(allocator, LIMIT / 2), "what there is room for");
    slab_allocator_free(allocator);
    SlabOptions options = {.size = sizeof options, .reserve_bytes = 2 * LIMIT};
    allocator = slab_allocator_create_ex(&options);
    SUP_CHECK(allocator != NULL, "the option is no condition");
    memset(slab_malloc(allocator, MIB), 1, MIB);
}

static void reserve_above_the_limit(void **state) {
    char err[1024] = "";
    (void)state;
    if (!limited()) {
        skip();
    }
    int status = sup_child(reserve_too_much, NULL, SUP_CHILD_SECONDS, err, sizeof err);
    if (status != 0) {
        fail_msg("status %#x %s", (unsigned)status, err);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_ends_goes_back),
        cmocka_unit_test(budget_below_the_limit),
        cmocka_unit_test(reserve_above_the_limit),
    };
    if (SUP_SANITIZED || SUP_EMULATED) { /* their own memory counts as well */
        (void)printf("cgroup_test: skipped in a sanitized build, and in an emulator\n");
        return NOTHING_RAN;
    }
    int failed = cmocka_run_group_tests_name("os.cgroup", tests, make_group, remove_group);
    return failed == 0 && !group[0] ? NOTHING_RAN : failed;
}
