/*
 * The native table where the system gives little: small address spaces (ulimit -v) and strict overcommit; and the
 * contract of os.h for each call.
 */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include "check.h"
#include "identities.h"
#include "in_child.h"
#include "pattern.h"
#include "proc.h"
#include "unit.h"

#include "base/base.h"
#include "os/os.h"
#include "region/region.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#define MIB ((size_t)1 << 20)

/* ---- the contract ----------------------------------------------------------------------------------------- */

/* false: an emulator does not say, or not as it is: qemu populates nothing, and purges nothing. */
static bool says_resident(void *at, size_t bytes, unsigned char *pages) {
#if SUP_EMULATED
    (void)at, (void)bytes, (void)pages;
    return false;
#else
    assert_int_equal(mincore(at, bytes, pages), 0);
    return true;
#endif
}

static void memory_calls(void **state) {
    (void)state;
    size_t page = ts_os_page_bytes(), bytes = 64 * page;
    assert_true(ts_is_pow2(page) && page >= 4096);
    unsigned char *at = ts_os_native.reserve(bytes);
    assert_non_null(at);
    assert_int_equal((uintptr_t)at % page, 0);
    assert_true(ts_os_native.commit(at + page, 8 * page));
    for (size_t i = page; i < 9 * page; i++) {
        assert_int_equal(at[i], 0);
    }
    memset(at + page, 7, 8 * page);
    /* Committed again, and populated: the contents stay. */
    assert_true(ts_os_native.commit(at, 16 * page));
    assert_true(ts_os_native.populate(at, 16 * page));
    assert_int_equal(at[0], 0);
    assert_int_equal(at[page], 7);
    unsigned char resident[16];
    bool said = says_resident(at, 16 * page, resident);
    for (int i = 0; i < 16 && said; i++) {
        assert_true(resident[i] & 1);
    }
    assert_true(ts_os_native.purge(at + page, 4 * page));
    said = says_resident(at, 16 * page, resident);
    for (int i = 0; i < 16 && said; i++) {
        assert_int_equal(resident[i] & 1, i < 1 || i > 4);
    }
    for (size_t i = page; i < 5 * page; i++) {
        assert_int_equal(at[i], 0);
    }
    assert_int_equal(at[5 * page], 7);
    at[page] = 1; /* still writable */
    ts_os_native.huge_pages(at, bytes, true);
    ts_os_native.huge_pages(at, bytes, false);
    assert_int_equal(at[5 * page], 7);
    ts_os_native.release(at, bytes);
}

static void refusals_are_answers(void **state) {
    (void)state;
    assert_null(ts_os_native.reserve(SIZE_MAX & ~(size_t)0xffff));
    size_t page = ts_os_page_bytes();
    unsigned char *at = ts_os_native.reserve(page);
    assert_non_null(at);
    ts_os_native.release(at, page);
#if SUP_EMULATED
    print_message("skipped: qemu 7.2 changes pages that are not there\n");
    skip();
#endif
    assert_false(ts_os_native.commit(at, page));
    assert_false(ts_os_native.purge(at, page));
}

static void clocks(void **state) {
    (void)state;
    uint64_t wall = ts_os_native.wall_ns(), cpu = ts_os_native.cpu_ns();
    assert_true(wall > 0);
    sup_sleep_ms(20);
    assert_true(ts_os_native.wall_ns() - wall >= 19000000u);
    assert_true(ts_os_native.cpu_ns() >= cpu);
    assert_true(ts_os_native.cpu_ns() - cpu <= ts_os_native.wall_ns() - wall);
    ts_os_native.yield();
}

static void resident_is_measured(void **state) {
    (void)state;
    size_t bytes = 32 * MIB;
    uint64_t before = ts_os_native.resident_bytes();
    char *at = ts_os_native.reserve(bytes);
    assert_non_null(at);
    assert_true(ts_os_native.commit(at, bytes));
    memset(at, 1, bytes);
    uint64_t with = ts_os_native.resident_bytes();
    assert_true(with >= before + bytes - MIB);
    assert_true(ts_os_native.purge(at, bytes));
    assert_true(SUP_SANITIZED || ts_os_native.resident_bytes() <= before + MIB);
    ts_os_native.release(at, bytes);
}

/* ---- small address spaces --------------------------------------------------------------------------------- */

static void use_memory(size_t bytes) {
    SlabAllocator *allocator = slab_allocator_create();
    SUP_CHECK(allocator != NULL, "slab_allocator_create: errno %d", errno);
    enum { SIZES = 5 };
    const size_t sizes[SIZES] = {24, 100, 1000, 4000, 40000};
    EpochId epochs[2] = {epoch_open(allocator, NULL, EPOCH_CHURN), epoch_open(allocator, NULL, EPOCH_SCOPE)};
    SUP_CHECK(epochs[0] && epochs[1], "epoch_open");
    unsigned char *last = NULL;
    size_t done = 0, count = 0;
    for (size_t i = 0; done < bytes; i++) {
        size_t size = sizes[i % SIZES];
        unsigned char *p = slab_malloc_epoch(allocator, size, epochs[i % 2]);
        SUP_CHECK(p != NULL, "%zu bytes of %zu: errno %d", done, bytes, errno);
        sup_pattern_fill(p, size, i);
        memcpy(p, (const void *)&last, sizeof last);
        memcpy(p + 8, &i, sizeof i);
        last = p;
        done += size;
        count++;
    }
    while (last) {
        unsigned char copy[SUP_PATTERN_END];
        size_t i;
        memcpy(&i, last + 8, sizeof i);
        sup_pattern_fill(copy, 24, i);
        SUP_CHECK(memcmp(copy + 16, last + 16, 8) == 0, "object %zu has other bytes", i);
        unsigned char *const *link = (unsigned char *const *)(const void *)last;
        last = *link;
        count--;
    }
    SUP_CHECK(count == 0, "%zu objects lost", count);
    sup_check_identities(allocator);
    SUP_CHECK(epoch_destroy(allocator, epochs[0]) && epoch_destroy(allocator, epochs[1]), "epoch_destroy");
    sup_check_empty(allocator);
    slab_allocator_free(allocator);
}

static void limit_address_space(size_t bytes) {
    struct rlimit limit = {bytes, RLIM_INFINITY};
    SUP_CHECK(setrlimit(RLIMIT_AS, &limit) == 0, "setrlimit: %s", strerror(errno));
}

static void with_256_mib(void *argument) {
    (void)argument;
    limit_address_space(256 * MIB);
    use_memory(20 * MIB);
    SUP_CHECK(ts_region.reserved_bytes < 224 * MIB, "%zu bytes reserved leave nothing", ts_region.reserved_bytes);
    SUP_CHECK(malloc(8 * MIB) != NULL, "the program itself has nothing left");
}

/* Half of a limit can be had, less the process's own mappings; the region's records take more of it with 32 bits. */
static void with_some_limit(void *argument) {
    size_t limit = *(const size_t *)argument, done = 0;
    limit_address_space(limit);
    SlabAllocator *allocator = slab_allocator_create();
    EpochId epoch = epoch_open(allocator, NULL, EPOCH_CHURN);
    while (slab_malloc_epoch(allocator, 65536, epoch)) done += 65536;
    SUP_CHECK(done >= limit / 100 * (sizeof(void *) < 8 ? 45 : 48), "%zu of %zu bytes", done, limit);
    SUP_CHECK(malloc(limit / 8) != NULL, "the program itself has nothing left");
    sup_check_identities(allocator);
}

static void half_of_the_address_space(void **state) {
    (void)state;
    if (SUP_SANITIZED || SUP_EMULATED) skip();
    /* With 32 bits the region has 512 MiB of data at most. */
    for (size_t mib = 300, most = sizeof(void *) < 8 ? 900 : 9000; mib <= most; mib = mib * 7 / 5) {
        size_t limit = mib * MIB;
        char err[1024];
        int status = sup_child(with_some_limit, &limit, SUP_CHILD_SECONDS, err, sizeof err);
        if (status != 0) print_error("%zu MiB: status %#x\n%s", mib, (unsigned)status, err);
        assert_int_equal(status, 0);
    }
}

static void with_64_mib(void *argument) {
    (void)argument;
    limit_address_space(64 * MIB);
    use_memory(4 * MIB);
    /* Used up: NULL, and the allocator goes on with its memory. */
    SlabAllocator *allocator = slab_allocator_create();
    EpochId epoch = epoch_open(allocator, NULL, 0);
    size_t count = 0;
    errno = 0;
    while (slab_malloc_epoch(allocator, 4096, epoch)) {
        count++;
    }
    SUP_CHECK(errno == ENOMEM && count > 256 && count < 16384, "%zu objects, errno %d", count, errno);
    sup_check_identities(allocator);
    SUP_CHECK(epoch_destroy(allocator, epoch), "epoch_destroy");
    epoch = epoch_open(allocator, NULL, 0);
    SUP_CHECK(slab_malloc_epoch(allocator, MIB, epoch) != NULL, "memory that came back");
}

static void with_16_mib(void *argument) {
    (void)argument;
    limit_address_space(16 * MIB);
    errno = 0;
    SUP_CHECK(slab_allocator_create() == NULL && errno == ENOMEM, "no allocator: errno %d", errno);
    errno = 0;
    SUP_CHECK(slab_alloc(100) == NULL && errno == ENOMEM, "no object: errno %d", errno);
    SUP_CHECK(epoch_domain_create(NULL) == NULL && slab_allocator_default() == NULL, "no domain");
    int on_stack;
    SUP_CHECK(!slab_free(NULL, &on_stack), "slab_free");
    limit_address_space(RLIM_INFINITY);
    use_memory(4 * MIB);
}

static void limited(void (*fn)(void *)) {
    if (SUP_SANITIZED || SUP_EMULATED) {
        print_message("skipped: a sanitizer's own mappings are larger than the limit, and qemu has no limit\n");
        skip();
    }
    sup_in_child(fn, NULL);
}

static void address_space_of_256_mib(void **state) {
    (void)state;
    limited(with_256_mib);
}

static void address_space_of_64_mib(void **state) {
    (void)state;
    limited(with_64_mib);
}

static void address_space_of_16_mib(void **state) {
    (void)state;
    limited(with_16_mib);
}

/* ---- strict overcommit ------------------------------------------------------------------------------------ */

#define OVERCOMMIT "/proc/sys/vm/overcommit_memory"

static bool write_overcommit(char value) {
    int fd = open(OVERCOMMIT, O_WRONLY | O_CLOEXEC);
    if (fd < 0) {
        return false;
    }
    bool done = write(fd, &value, 1) == 1;
    (void)close(fd);
    return done;
}

static char read_overcommit(void) {
    char value = 0;
    int fd = open(OVERCOMMIT, O_RDONLY | O_CLOEXEC);
    if (fd >= 0) {
        if (read(fd, &value, 1) != 1) {
            value = 0;
        }
        (void)close(fd);
    }
    return value;
}

static unsigned long long meminfo_kib(const char *name) {
    char line[256];
    unsigned long long kib = 0;
    FILE *file = fopen("/proc/meminfo", "r");
    while (file && fgets(line, sizeof line, file)) {
        if (strncmp(line, name, strlen(name)) == 0) {
            kib = strtoull(line + strlen(name), NULL, 10);
        }
    }
    if (file) {
        (void)fclose(file);
    }
    return kib;
}

/* A process of its own that restores the setting when the pipe's other ends are closed, however this process and
   the child that works end. Returns the end to close. */
static int start_guardian(char value, pid_t *guardian) {
    int ends[2];
    assert_int_equal(pipe(ends), 0);
    *guardian = fork();
    assert_true(*guardian >= 0);
    if (*guardian == 0) {
        char byte;
        (void)setsid();
        (void)close(ends[1]);
        for (int s = 1; s < 32; s++) {
            (void)signal(s, SIG_IGN);
        }
        while (read(ends[0], &byte, 1) < 0 && errno == EINTR) {
        }
        _exit(write_overcommit(value) ? 0 : 1);
    }
    (void)close(ends[0]);
    return ends[1];
}

static void *in_a_thread(void *argument) {
    use_memory(4 * MIB);
    return argument;
}

static void with_strict_overcommit(void *argument) {
    (void)argument;
    SUP_CHECK(read_overcommit() == '2', "the setting is '%c'", read_overcommit());
    unsigned long long before = meminfo_kib("Committed_AS:");
    use_memory(48 * MIB);
    unsigned long long after = meminfo_kib("Committed_AS:");
    SUP_CHECK(ts_region.reserved_bytes / 1024 > 1u << 20, "only %zu bytes reserved", ts_region.reserved_bytes);
    /* Others run too: far less than the reserved memory suffices as a bound. */
    SUP_CHECK(after < before + (ts_region.reserved_bytes >> 13), "committed %llu KiB before, %llu after", before,
              after);
    sup_in_thread(in_a_thread, NULL);
}

static void strict_overcommit(void **state) {
    char err[1024];
    pid_t guardian;
    (void)state;
    char before = read_overcommit();
#if SUP_SANITIZED
    print_message("skipped: a sanitizer's own mappings are larger than the system promises then\n");
    skip();
#endif
    /* A setting of the whole machine: only where somebody asked for it, as .ci/run does. */
    if (!getenv("TEST_STRICT_OVERCOMMIT")) {
        print_message("skipped: set TEST_STRICT_OVERCOMMIT=1 to have " OVERCOMMIT " changed for a moment\n");
        skip();
    }
    if (before < '0' || before > '2' || geteuid() != 0 || !write_overcommit(before)) {
        print_message("skipped: " OVERCOMMIT " cannot be written\n");
        skip();
    }
    if (meminfo_kib("CommitLimit:") < meminfo_kib("Committed_AS:") + (1u << 20)) {
        print_message("skipped: the machine has promised too much memory for strict overcommit\n");
        skip();
    }
    int end = start_guardian(before, &guardian);
    bool strict = write_overcommit('2');
    int status = strict ? sup_child(with_strict_overcommit, NULL, 20, err, sizeof err) : -1;
    (void)write_overcommit(before);
    (void)close(end);
    int restored = -1;
    assert_int_equal(waitpid(guardian, &restored, 0), guardian);
    if (status != 0) {
        print_error("status %#x\n%s", (unsigned)status, err);
    }
    assert_true(strict);
    assert_int_equal(restored, 0);
    assert_int_equal(read_overcommit(), before);
    assert_int_equal(status, 0);
}

/* ---- barrier_all ------------------------------------------------------------------------------------------ */

static atomic_uint store_a, store_b, ready, go;
static atomic_uint seen_b;

/* The owner's side of heap.c: a store, a compiler fence, a load. */
static void *owner_side(void *rounds) {
    for (unsigned i = 1; i <= *(unsigned *)rounds; i++) {
        while (atomic_load_explicit(&go, memory_order_acquire) < i) {
            ts_os_native.yield();
        }
        atomic_store_explicit(&store_a, i, memory_order_relaxed);
        atomic_signal_fence(memory_order_seq_cst);
        atomic_store_explicit(&seen_b, atomic_load_explicit(&store_b, memory_order_relaxed), memory_order_relaxed);
        atomic_store_explicit(&ready, i, memory_order_release);
    }
    return NULL;
}

static void barrier_orders_all_threads(void **state) {
    pthread_t thread;
    unsigned rounds = SUP_SCALED(20000);
    (void)state;
    if (!ts_os_native.barrier_all()) {
        print_message("skipped: the system has no barrier for all threads\n");
        skip();
    }
    assert_int_equal(pthread_create(&thread, NULL, owner_side, &rounds), 0);
    unsigned neither = 0;
    for (unsigned i = 1; i <= rounds; i++) {
        atomic_store_explicit(&go, i, memory_order_release);
        atomic_store_explicit(&store_b, i, memory_order_relaxed);
        if (!ts_os_native.barrier_all()) {
            neither = rounds;
        }
        unsigned a = atomic_load_explicit(&store_a, memory_order_relaxed);
        while (atomic_load_explicit(&ready, memory_order_acquire) < i) {
            ts_os_native.yield();
        }
        /* One of the two has seen the other. */
        neither += a < i && atomic_load_explicit(&seen_b, memory_order_relaxed) < i;
    }
    assert_int_equal(pthread_join(thread, NULL), 0);
    assert_int_equal(neither, 0);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(memory_calls),
        cmocka_unit_test(refusals_are_answers),
        cmocka_unit_test(clocks),
        cmocka_unit_test(resident_is_measured),
        cmocka_unit_test(barrier_orders_all_threads),
        cmocka_unit_test(address_space_of_256_mib),
        cmocka_unit_test(half_of_the_address_space),
        cmocka_unit_test(address_space_of_64_mib),
        cmocka_unit_test(address_space_of_16_mib),
        cmocka_unit_test(strict_overcommit),
    };
    return cmocka_run_group_tests_name("os.limits", tests, NULL, NULL);
}
