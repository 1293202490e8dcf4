/*
 * The NUMA calls refused by a filter, as in many containers: with EPERM and with ENOSYS. The same allocations, at the
 * same places of the region, as without the option numa; and no call is made for them. Each case in a child, as a
 * filter stays for good.
 */
#define _GNU_SOURCE
#include "check.h"
#include "rng.h"
#include "seccomp.h"
#include "unit.h"

#include "os/os.h"
#include "region/region.h"

#include <tslab/stats.h>

#include <errno.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#if defined(HAS_SECCOMP) && defined(SYS_mbind) && defined(SYS_move_pages) && defined(SYS_get_mempolicy) && \
    defined(SYS_set_mempolicy)

#define REFUSED(number) \
    BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, (number), 0, 1), BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | error)

/* Status 77 of the child: filters are not to be had here. */
static void refuse(unsigned error) {
    struct sock_filter filter[] = {
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
        REFUSED(SYS_mbind),
        REFUSED(SYS_move_pages),
        REFUSED(SYS_get_mempolicy),
        REFUSED(SYS_set_mempolicy),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
    };
    struct sock_fprog program = {sizeof filter / sizeof *filter, filter};
    if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0 || prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program) != 0)
        _exit(77);
    errno = 0;
    SUP_CHECK(syscall(SYS_get_mempolicy, NULL, NULL, 0, NULL, 0) == -1 && errno == (int)error, "errno %d", errno);
    errno = 0;
    SUP_CHECK(syscall(SYS_mbind, NULL, 0, 0, NULL, 0, 0) == -1 && errno == (int)error, "errno %d", errno);
}

/* ---- requests to the system -------------------------------------------------------------------------------------- */

static ts_os_table table;
static unsigned numa_calls;
static bool counted_bind(void *at, size_t bytes, int node) {
    numa_calls++;
    return ts_os_native.bind(at, bytes, node);
}
static int counted_here(void) {
    numa_calls++;
    return ts_os_native.node_here();
}
static bool counted_nodes_of(void *const *at, size_t count, int *node) {
    numa_calls++;
    return ts_os_native.nodes_of(at, count, node);
}

/* Objects of all sizes come and go, in churn and scope. A number that every place of the region went into. */
static uint64_t work(SlabAllocator *a) {
    static void *object[4000];
    struct sup_rng rng = {sup_mix(46)};
    uint64_t sum = 0;
    for (unsigned flags = EPOCH_CHURN; flags <= EPOCH_SCOPE; flags++) {
        EpochId epoch = epoch_open(a, "refused", flags);
        for (unsigned round = 0; round < 3; round++) {
            for (unsigned i = 0; i < 4000; i++) {
                if (object[i] && sup_rng_below(&rng, 2)) continue;
                if (object[i]) SUP_CHECK(slab_free(a, object[i]), "a free");
                size_t bytes = (size_t)1 << sup_rng_below(&rng, i % 100 == 0 ? 20 : 12);
                errno = 0;
                SUP_CHECK((object[i] = slab_malloc_epoch(a, bytes, epoch)) != NULL, "%zu bytes", bytes);
                SUP_CHECK(errno == 0, "errno is %d", errno);
                memset(object[i], 1, bytes);
                sum = sup_mix(sum ^ (uint64_t)((char *)object[i] - ts_region.part[TS_NORMAL].base));
            }
        }
        SUP_CHECK(epoch_destroy(a, epoch), "no destroy");
        memset(object, 0, sizeof object);
    }
    return sum;
}

static void child(int numa, unsigned error, int to) {
    if (error != 0) refuse(error);
    table = ts_os_native;
    table.bind = counted_bind;
    table.node_here = counted_here;
    table.nodes_of = counted_nodes_of;
    ts_os = &table;
    const SlabOptions options = {.size = sizeof options, .numa = numa};
    SlabAllocator *a = slab_allocator_create_ex(&options);
    SUP_CHECK(a != NULL, "no allocator: %d", errno);
    uint64_t sum = work(a);
    SUP_CHECK(numa_calls == 0, "%u calls were made for nothing", numa_calls);
    if (error != 0) {
        SlabNodeStats s;
        EpochId epoch = epoch_open(a, NULL, EPOCH_CHURN);
        errno = 0;
        SUP_CHECK(!epoch_bind(a, epoch, 0) && errno == ENOTSUP, "bound, errno %d", errno);
        errno = 0;
        SUP_CHECK(!slab_stats_node(a, 0, &s) && errno == ENOTSUP, "figures of a node, errno %d", errno);
    }
    slab_allocator_free(a);
    SUP_CHECK(write(to, &sum, sizeof sum) == sizeof sum, "write");
    _exit(0);
}

/* 0: it cannot be refused here. */
static uint64_t sum_of(int numa, unsigned error) {
    int ends[2], status;
    uint64_t sum = 0;
    assert_int_equal(pipe(ends), 0);
    pid_t pid = fork();
    if (pid == 0) child(numa, error, ends[1]);
    assert_true(pid > 0);
    (void)close(ends[1]);
    ssize_t got = read(ends[0], &sum, sizeof sum);
    (void)close(ends[0]);
    assert_int_equal(waitpid(pid, &status, 0), pid);
    if (WIFEXITED(status) && WEXITSTATUS(status) == 77) return 0;
    assert_true(WIFEXITED(status) && WEXITSTATUS(status) == 0 && got == sizeof sum);
    return sum;
}

static void same_as_without(unsigned error) {
    uint64_t without = sum_of(SLAB_NUMA_OFF, 0);
    assert_true(without != 0);
    for (int numa = SLAB_NUMA_OFF; numa <= SLAB_NUMA_INTERLEAVE; numa++) {
        uint64_t sum = sum_of(numa, error);
        if (sum == 0) skip();
        assert_true(sum == without);
    }
}

static void not_permitted(void **state) {
    (void)state;
    same_as_without(EPERM);
}
static void not_there(void **state) {
    (void)state;
    same_as_without(ENOSYS);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(not_permitted),
        cmocka_unit_test(not_there),
    };
    return cmocka_run_group_tests_name("os.refused_numa", tests, NULL, NULL);
}

#else
int main(void) {
    puts("refused_numa: skipped: no NUMA calls here, or no headers for filters");
    return 77;
}
#endif
