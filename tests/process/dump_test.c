/*
 * The region's address space in core dumps, by the kernel and by gcore, and mlockall. A dump has live and retained
 * memory, and 24 MiB at most that were never used. A large object that was freed is not in it, except where addresses
 * have 32 bits: the region has no FAR part there.
 * mlockall makes no tables for unused memory, and a limit that is too small for a region is named.
 */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include "proc.h"
#include "unit.h"

#include "check.h"
#include "os/os.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#if defined(__linux__)
#include <sys/syscall.h>
#endif

#define MIB ((size_t)1 << 20)
/* 4 MiB of units that were never used, the records of 32 MiB, and other memory of the process. */
#define SLACK (24 * MIB)
#define LARGE (60 * MIB)
/* Freed memory of the NORMAL part stays in dumps. */
#define FREED (sizeof(void *) < 8 ? LARGE : 0)

static void require_the_kernel(void) {
    if (SUP_SANITIZED || SUP_EMULATED) {
        print_message("skipped: a sanitizer's own mappings are larger, and an emulator is not the kernel\n");
        skip();
    }
}

/* Bytes that are live or retained after a burst that is over: 24 MiB of small objects and of a scope, which are
   retained, and a large object. 5 MiB are live. */
static size_t burst(void) {
    SlabAllocator *a = slab_allocator_default();
    EpochId kept = epoch_open(a, "kept", EPOCH_CHURN);
    EpochId gone[3] = {epoch_open(a, NULL, EPOCH_CHURN), epoch_open(a, NULL, EPOCH_SCOPE),
                       epoch_open(a, NULL, EPOCH_CHURN)};
    static const size_t sizes[] = {128, 300, 32};
    SUP_CHECK(kept && gone[0] && gone[1] && gone[2], "epoch_open");
    for (size_t i = 0; i < 5 * MIB / 1000; i++) {
        char *p = slab_malloc_epoch(a, 1000, kept);
        SUP_CHECK(p != NULL, "slab_malloc_epoch");
        memset(p, 1, 1000);
    }
    for (unsigned e = 0; e < 3; e++) {
        for (size_t i = 0; i < (e == 2 ? 4 : 10) * MIB / sizes[e]; i++) {
            char *p = slab_malloc_epoch(a, sizes[e], gone[e]);
            SUP_CHECK(p != NULL, "slab_malloc_epoch");
            memset(p, 2, sizes[e]);
        }
    }
    char *span = slab_malloc_epoch(a, LARGE, gone[2]);
    SUP_CHECK(span != NULL, "slab_malloc_epoch");
    memset(span, 3, LARGE);
    for (unsigned e = 0; e < 3; e++) SUP_CHECK(epoch_destroy(a, gone[e]), "epoch_destroy");
    SlabGlobalStats stats;
    SUP_CHECK(slab_stats_global(a, &stats) && stats.committed_bytes < 80 * MIB, "a burst that stays");
    return (size_t)stats.committed_bytes;
}

/* The figure that /proc/self/status has under a name, in bytes. */
static size_t status_bytes(const char *name) {
    FILE *file = fopen("/proc/self/status", "r");
    char line[256];
    size_t kib = 0;
    while (file && fgets(line, sizeof line, file))
        if (strncmp(line, name, strlen(name)) == 0) kib = strtoul(line + strlen(name) + 1, NULL, 10);
    if (file) (void)fclose(file);
    return kib * 1024;
}

static unsigned mappings(void) {
    FILE *file = fopen("/proc/self/maps", "r");
    unsigned lines = 0;
    for (int c = file ? fgetc(file) : EOF; c != EOF; c = fgetc(file)) lines += c == '\n';
    if (file) (void)fclose(file);
    return lines;
}

/* ---- dumps ------------------------------------------------------------------------------------------------------- */

/* Bytes of this process's writable or inaccessible mappings that a dump shows. */
static size_t dumpable_bytes(void) {
    FILE *file = fopen("/proc/self/smaps", "r");
    char line[512], permissions[8];
    size_t sum = 0, bytes = 0;
    uintmax_t from, to;
    SUP_CHECK(file != NULL, "/proc/self/smaps");
    while (fgets(line, sizeof line, file)) {
        if (sscanf(line, "%jx-%jx %7s", &from, &to, permissions) == 3)
            bytes = permissions[1] == 'w' || permissions[0] != 'r' ? (size_t)(to - from) : 0;
        else if (strncmp(line, "VmFlags:", 8) == 0 && !strstr(line, " dd"))
            sum += bytes;
    }
    (void)fclose(file);
    return sum;
}

/* The apparent size of the one file in a directory whose name begins with "core", which goes; 0: there is none. */
static size_t take_core(const char *directory) {
    DIR *d = opendir(directory);
    size_t bytes = 0;
    assert_non_null(d);
    for (const struct dirent *e = readdir(d); e; e = readdir(d)) {
        struct stat s;
        if (strncmp(e->d_name, "core", 4) != 0 || fstatat(dirfd(d), e->d_name, &s, 0) != 0) continue;
        bytes = (size_t)s.st_size;
        (void)unlinkat(dirfd(d), e->d_name, 0);
    }
    (void)closedir(d);
    return bytes;
}

struct dump {
    char directory[32];
    size_t *held; /* shared with the child */
    bool by_gcore;
};

static void dumps_core(void *argument) {
    struct dump *dump = argument;
    SUP_CHECK(chdir(dump->directory) == 0, "chdir");
    unsigned before = mappings();
    *dump->held = burst();
    SUP_CHECK(dumpable_bytes() <= *dump->held + SLACK + FREED, "%zu bytes can be dumped, %zu of them held",
              dumpable_bytes(), *dump->held);
    SUP_CHECK(mappings() < before + 300, "%u mappings, and %u now", before, mappings());
    if (dump->by_gcore) {
        char command[64];
        (void)snprintf(command, sizeof command, "gcore -o core %d >gcore.out 2>&1", (int)getpid());
        (void)prctl(PR_SET_PTRACER, PR_SET_PTRACER_ANY, 0, 0, 0);
        SUP_CHECK(system(command) != -1, "system"); /* whether it wrote one is seen outside */
        return;
    }
    struct rlimit limit = {RLIM_INFINITY, RLIM_INFINITY};
    SUP_CHECK(setrlimit(RLIMIT_CORE, &limit) == 0 && prctl(PR_SET_DUMPABLE, 1) == 0, "setrlimit");
    abort();
}

static void a_dump(bool by_gcore, const char *none) {
    struct dump dump = {"/tmp/tslab-dump-XXXXXX", NULL, by_gcore};
    require_the_kernel();
    assert_non_null(mkdtemp(dump.directory));
    dump.held = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    assert_true(dump.held != MAP_FAILED);
    char err[1024], name[64];
    int status = sup_child(dumps_core, &dump, 120, err, sizeof err);
    size_t bytes = take_core(dump.directory), held = *dump.held;
    (void)munmap(dump.held, 4096);
    (void)snprintf(name, sizeof name, "%s/gcore.out", dump.directory);
    (void)unlink(name);
    (void)rmdir(dump.directory);
    bool ended = by_gcore ? status == 0 : WIFSIGNALED(status) && WTERMSIG(status) == SIGABRT;
    if (!ended) print_error("status %#x\n%s", (unsigned)status, err);
    assert_true(ended && held != 0);
    if (bytes == 0) {
        print_message("skipped: %s\n", none);
        skip();
    }
    print_message("%zu bytes, %zu of them held\n", bytes, held);
    assert_true(bytes > 5 * MIB); /* live objects are in it */
    assert_true(bytes <= held + SLACK + FREED);
}

static void the_kernels_dump(void **state) {
    (void)state;
    a_dump(false, "the system writes no core files here");
}

static void a_dump_by_gcore(void **state) {
    (void)state;
    a_dump(true, "there is no gcore here (apt-get install gdb), or it may not look at processes");
}

/* ---- mlockall ---------------------------------------------------------------------------------------------------- */

static void in_child(void (*fn)(void *), char *err, size_t capacity) {
    require_the_kernel();
    int status = sup_child(fn, NULL, SUP_CHILD_SECONDS, err, capacity);
    if (WIFEXITED(status) && WEXITSTATUS(status) == 77) {
        print_message("skipped: this process may not lock so much\n");
        skip();
    }
    if (status != 0) print_error("status %#x\n%s", (unsigned)status, err);
    assert_int_equal(status, 0);
}

static void lock_all(void *argument) {
    (void)argument;
    SlabAllocator *a = slab_allocator_create();
    SUP_CHECK(a && slab_malloc(a, 100) && slab_malloc(a, 16) && slab_malloc(a, 1000000), "objects");
    size_t resident = sup_rss_bytes(), tables = status_bytes("VmPTE");
    if (mlockall(MCL_CURRENT) != 0) sup_exit(77);
    SUP_CHECK(status_bytes("VmLck") > 0, "nothing is locked");
    SUP_CHECK(status_bytes("VmPTE") < tables + MIB, "%zu bytes of page tables, and %zu", tables, status_bytes("VmPTE"));
    SUP_CHECK(sup_rss_bytes() < resident + SLACK + 8 * MIB, "%zu bytes resident, and %zu", resident, sup_rss_bytes());
    SUP_CHECK(slab_malloc(a, 5 * MIB) != NULL, "and it goes on");
}

static void mlockall_of_what_is_used(void **state) {
    char err[1024];
    (void)state;
    in_child(lock_all, err, sizeof err);
}

/* As a user for which the limit holds. */
static void limit_locks(size_t bytes) {
    struct rlimit limit = {bytes, bytes};
#if defined(__linux__)
    /* As in <linux/capability.h>, which a compiler for another C library need not have. */
    enum { VERSION_3 = 0x20080522, IPC_LOCK = 14 };
    struct {
        uint32_t version;
        int pid;
    } header = {VERSION_3, 0};
    struct {
        uint32_t effective, permitted, inheritable;
    } data[2];
    SUP_CHECK(syscall(SYS_capget, &header, data) == 0, "capget");
    data[0].effective &= ~(1u << IPC_LOCK);
    data[0].permitted &= ~(1u << IPC_LOCK);
    if (setrlimit(RLIMIT_MEMLOCK, &limit) != 0) sup_exit(77); /* above the hard limit */
    SUP_CHECK(syscall(SYS_capset, &header, data) == 0, "capset");
#else
    if (setrlimit(RLIMIT_MEMLOCK, &limit) != 0) sup_exit(77);
#endif
}

static void too_small(void *argument) {
    (void)argument;
    limit_locks(4 * MIB);
    if (mlockall(MCL_FUTURE) != 0) sup_exit(77);
    for (int i = 0; i < 2; i++) {
        errno = 0;
        SUP_CHECK(slab_allocator_create() == NULL && errno == ENOMEM, "errno %d", errno);
        SUP_CHECK(slab_alloc(100) == NULL && errno == ENOMEM && epoch_domain_create(NULL) == NULL, "errno %d", errno);
    }
    SUP_CHECK(munlockall() == 0, "munlockall");
    SlabAllocator *a = slab_allocator_create();
    SUP_CHECK(a && slab_malloc(a, 100), "once it may");
}

static void a_limit_too_small_is_named(void **state) {
    char err[1024];
    (void)state;
    in_child(too_small, err, sizeof err);
    assert_non_null(strstr(err, "RLIMIT_MEMLOCK (4194304 bytes)"));
    assert_int_equal(sup_count_lines(err), 1);
}

/* Where all that comes is locked, the region is made as large as the limit has room for. */
static void small_but_enough(void *argument) {
    (void)argument;
    limit_locks(96 * MIB);
    if (mlockall(MCL_CURRENT | MCL_FUTURE) != 0) sup_exit(77);
    SlabAllocator *a = slab_allocator_create();
    SUP_CHECK(a != NULL, "slab_allocator_create: errno %d", errno);
    for (size_t i = 0; i < 4 * MIB / 100; i++) SUP_CHECK(slab_malloc(a, 100) != NULL, "object %zu", i);
    SUP_CHECK(status_bytes("VmLck") <= 96 * MIB, "%zu bytes locked", status_bytes("VmLck"));
    SUP_CHECK(mlockall(MCL_CURRENT) == 0, "mlockall: errno %d", errno);
    slab_allocator_free(a);
}

static void mlockall_of_a_user_with_a_limit(void **state) {
    char err[1024];
    (void)state;
    in_child(small_but_enough, err, sizeof err);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_kernels_dump),
        cmocka_unit_test(a_dump_by_gcore),
        cmocka_unit_test(mlockall_of_what_is_used),
        cmocka_unit_test(a_limit_too_small_is_named),
        cmocka_unit_test(mlockall_of_a_user_with_a_limit),
    };
    return cmocka_run_group_tests_name("process.dump", tests, NULL, NULL);
}
