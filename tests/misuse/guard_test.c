/*
 * guard_spans: an access over the ends of a large object dies by SIGSEGV, at the promised byte; an access inside does
 * not; and all memory comes back.
 */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include "check.h"
#include "identities.h"
#include "pattern.h"
#include "proc.h"
#include "unit.h"

#include "os/os.h"
#include "region/region.h"
#include "walk/check_pool.h"

#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#define KIB ((size_t)1 << 10)
#define MIB ((size_t)1 << 20)

static SlabAllocator *make(int on, size_t budget) {
    SlabOptions options = {
        .size = sizeof options, .guard_spans = on, .budget_bytes = budget, .memory_tools = SLAB_TOOLS_OFF};
    SlabAllocator *allocator = slab_allocator_create_ex(&options);
    SUP_CHECK(allocator != NULL, "slab_allocator_create_ex");
    return allocator;
}

static size_t page(void) { return ts_os_page_bytes(); }
static size_t rounded(size_t size) { return (size + page() - 1) / page() * page(); }

static const size_t sizes[] = {4097, 5000, 8192, 16383, 16384, 16385, 20480, 100000, MIB, MIB + 1, 5 * MIB};
#define SIZES (sizeof sizes / sizeof sizes[0])

struct reach {
    size_t size;
    ptrdiff_t at;
    bool write;
    unsigned flags;
};

static void reach(void *argument) {
    const struct reach *r = argument;
    (void)signal(SIGSEGV, SIG_DFL); /* cmocka has a handler, and sanitizers have */
    SlabAllocator *allocator = make(1, 0);
    volatile char *p = slab_malloc_epoch(allocator, r->size, epoch_open(allocator, NULL, r->flags));
    SUP_CHECK(p != NULL, "slab_malloc_epoch");
    p[0] = 1;
    p[r->size - 1] = 1;
    if (r->write) {
        p[r->at] = 1;
    } else {
        (void)p[r->at];
    }
}

static bool dies(size_t size, ptrdiff_t at, bool write, unsigned flags) {
    struct reach r = {size, at, write, flags};
    char err[16384] = "";
    int status = sup_child(reach, &r, SUP_CHILD_SECONDS, err, sizeof err);
    if (status == 0) {
        return false;
    }
    if (!WIFSIGNALED(status) || WTERMSIG(status) != SIGSEGV) {
        fail_msg("size %zu at %td: status %#x: %s", size, at, (unsigned)status, err);
    }
    return true;
}

static void ends_of_an_object(void **state) {
    (void)state;
    for (size_t i = 0; i < SIZES; i++) {
        for (unsigned flags = EPOCH_CHURN; flags <= EPOCH_SCOPE; flags++) {
            if (SUP_EMULATED && (i / 2 + flags) % 2 != 0) continue; /* each attempt is a process */
            bool write = i % 2 == 0;
            ptrdiff_t end = (ptrdiff_t)rounded(sizes[i]);
            assert_true(dies(sizes[i], -1, write, flags));
            assert_true(dies(sizes[i], -(ptrdiff_t)(16 * KIB), write, flags));
            assert_true(dies(sizes[i], end, write, flags));
            assert_true(dies(sizes[i], end + 16 * 1024 - 1, write, flags));
            assert_false(dies(sizes[i], end - 1, write, flags));
            assert_false(dies(sizes[i], 0, write, flags));
        }
    }
}

/* Without the option nothing faults so near. */
static void without(void *unused) {
    (void)unused;
    SlabAllocator *allocator = make(0, 0);
    EpochId epoch = epoch_open(allocator, NULL, 0);
    (void)slab_malloc_epoch(allocator, 20 * KIB, epoch);
    volatile char *p = slab_malloc_epoch(allocator, 5000, epoch);
    p[8191] = p[-1] = p[16383] = 1;
}

static void only_with_the_option(void **state) {
    (void)state;
    assert_int_equal(sup_child(without, NULL, SUP_CHILD_SECONDS, NULL, 0), 0);
}

static void every_use(void **state) {
    (void)state;
    SlabAllocator *allocator = make(1, 0);
    uint64_t used = ts_pool_used_units();
    EpochId epoch = epoch_open(allocator, NULL, EPOCH_CHURN);
    for (unsigned round = 0; round < 3; round++) {
        unsigned char *p[SIZES], *q[SIZES];
        for (size_t i = 0; i < SIZES; i++) {
            p[i] = slab_calloc_epoch(allocator, 1, sizes[i], epoch);
            assert_non_null(p[i]);
            assert_int_equal(slab_usable_size(allocator, p[i]), rounded(sizes[i]));
            assert_true(sup_zero_check(p[i], sizes[i]));
            sup_pattern_fill(p[i], rounded(sizes[i]), i);
            size_t align = (size_t)16 << (i * 2 % 20);
            q[i] = slab_aligned_epoch(allocator, align, sizes[i], epoch);
            assert_non_null(q[i]);
            assert_int_equal((uintptr_t)q[i] % align, 0);
            sup_pattern_fill(q[i], sizes[i], i);
        }
        sup_check_identities(allocator);
        for (size_t i = 0; i < SIZES; i++) {
            assert_true(sup_pattern_check(p[i], rounded(sizes[i]), i));
            assert_true(sup_pattern_check(q[i], sizes[i], i));
            SlabHandle handle = slab_handle_of(allocator, q[i]);
            assert_true(handle != SLAB_HANDLE_NONE && slab_handle_get(allocator, handle) == q[i]);
            p[i] = slab_realloc(allocator, p[i], sizes[i] * 2);
            assert_non_null(p[i]);
            assert_true(sup_pattern_check_prefix(p[i], rounded(sizes[i]), sizes[i], i));
            p[i] = slab_realloc(allocator, p[i], 100);
            assert_non_null(p[i]);
            assert_false(slab_free(allocator, q[i] + 16));
            assert_true(slab_free(allocator, p[i]));
            assert_false(slab_free(allocator, p[i]));
            if (round < 2) {
                assert_true(free_obj(allocator, handle));
                assert_false(free_obj(allocator, handle));
            }
        }
        sup_check_identities(allocator);
    }
    assert_true(epoch_destroy(allocator, epoch)); /* with all of the last round's in it */
    (void)slab_trim(allocator);
    assert_int_equal(sup_committed_bytes(allocator), 0);
    assert_int_equal(ts_pool_used_units(), used);
    ts_pool_check();
    /* A former guard is memory like any other. */
    epoch = epoch_open(allocator, NULL, EPOCH_SCOPE);
    for (unsigned i = 0; i < 2000; i++) {
        void *object = slab_malloc_epoch(allocator, 4000, epoch);
        assert_non_null(object);
        memset(object, (int)i, 4000);
    }
    slab_allocator_free(allocator);
    assert_int_equal(ts_pool_used_units(), used);
    ts_pool_check();
}

/* The guards count. */
static void budget(void **state) {
    (void)state;
    SlabAllocator *allocator = make(1, 10 * TS_UNIT_BYTES);
    EpochId epoch = epoch_open(allocator, NULL, 0);
    errno = 0;
    assert_null(slab_malloc_epoch(allocator, 10 * TS_UNIT_BYTES, epoch));
    assert_int_equal(errno, ENOMEM);
    if (page() <= TS_UNIT_BYTES) {
        void *p = slab_malloc_epoch(allocator, 8 * TS_UNIT_BYTES, epoch);
        assert_non_null(p);
        assert_int_equal(sup_committed_bytes(allocator), 10 * TS_UNIT_BYTES);
        assert_null(slab_malloc_epoch(allocator, 5000, epoch));
        assert_true(slab_free(allocator, p));
    }
    assert_int_equal(sup_committed_bytes(allocator), 0);
    slab_allocator_free(allocator);
}

/* ---- the system refuses ------------------------------------------------------------------------------------------ */

static ts_os_table table;
static int protects, refused_protect;
static bool refuse_commit;

static bool some_protect(void *at, size_t bytes) {
    return protects++ != refused_protect && ts_os_native.protect(at, bytes);
}
static bool no_commit(void *at, size_t bytes) { return !refuse_commit && ts_os_native.commit(at, bytes); }

static void a_guard_is_refused(void **state) {
    (void)state;
    SlabAllocator *allocator = make(1, 0);
    EpochId epoch = epoch_open(allocator, NULL, 0);
    assert_non_null(slab_malloc_epoch(allocator, 16, epoch));
    uint64_t used = ts_pool_used_units();
    table = ts_os_native;
    table.protect = some_protect;
    ts_os = &table;
    for (refused_protect = 0; refused_protect < 2; refused_protect++) {
        protects = 0;
        errno = 0;
        assert_null(slab_malloc_epoch(allocator, 50000, epoch));
        assert_int_equal(errno, ENOMEM);
        assert_int_equal(ts_pool_used_units(), used);
        sup_check_identities(allocator);
    }
    refused_protect = -1;
    void *p = slab_malloc_epoch(allocator, 50000, epoch);
    assert_non_null(p);
    ts_os = &ts_os_native;
    assert_true(slab_free(allocator, p));
    assert_int_equal(ts_pool_used_units(), used);
    slab_allocator_free(allocator);
}

/* A guard that the system keeps: its units are kept apart and counted, and come back when it gives in. */
static void a_guard_stays(void **state) {
    (void)state;
    SlabAllocator *allocator = make(1, 0);
    EpochId epoch = epoch_open(allocator, NULL, 0);
    uint64_t used = ts_pool_used_units();
    void *p = slab_malloc_epoch(allocator, 50000, epoch), *dead = slab_malloc_epoch(allocator, 5000, epoch);
    assert_true(p != NULL && dead != NULL);
    size_t committed = sup_committed_bytes(allocator);
    table = ts_os_native;
    table.commit = no_commit;
    ts_os = &table;
    refuse_commit = true;
    assert_true(slab_free(allocator, p));
    assert_true(epoch_destroy(allocator, epoch));
    assert_int_equal(slab_trim(allocator), 0);
    assert_int_equal(sup_committed_bytes(allocator), committed);
    sup_check_identities(allocator);
    refuse_commit = false;
    ts_os = &ts_os_native;
    epoch = epoch_open(allocator, NULL, 0);
    void *q = slab_malloc_epoch(allocator, 50000, epoch);
    assert_true(q != NULL && q != p);
    memset(q, 1, 50000);
    assert_true(slab_free(allocator, q));
    (void)slab_trim(allocator);
    assert_int_equal(sup_committed_bytes(allocator), 0);
    assert_int_equal(ts_pool_used_units(), used);
    slab_allocator_free(allocator);
    ts_pool_check();
}

/* To the very end: the addresses are lost, nothing else. */
static void a_guard_outlives_its_allocator(void **state) {
    (void)state;
    SlabAllocator *allocator = make(1, 0);
    void *p = slab_malloc_epoch(allocator, 50000, epoch_open(allocator, NULL, 0));
    assert_non_null(p);
    table = ts_os_native;
    table.commit = no_commit;
    ts_os = &table;
    refuse_commit = true;
    slab_allocator_free(allocator);
    refuse_commit = false;
    ts_os = &ts_os_native;
    ts_pool_check();
    allocator = make(1, 0);
    EpochId epoch = epoch_open(allocator, NULL, 0);
    for (unsigned i = 0; i < 100; i++) {
        void *q = slab_malloc_epoch(allocator, 5000, epoch);
        assert_non_null(q);
        memset(q, 1, 5000);
    }
    slab_allocator_free(allocator);
    ts_pool_check();
}

/* ---- mappings ---------------------------------------------------------------------------------------------------- */

static size_t mappings(void) {
    static char text[1 << 20]; /* no memory of its own: that would be mappings too */
    FILE *file = fopen("/proc/self/maps", "r");
    size_t lines = 0, n;
    SUP_CHECK(file != NULL, "errno %d", errno);
    while ((n = fread(text, 1, sizeof text, file)) > 0) {
        for (size_t i = 0; i < n; i++) {
            lines += text[i] == '\n';
        }
    }
    (void)fclose(file);
    return lines;
}

/* Every other one is written to: from end to end, at its first byte, at its last. */
static void make_and_free(SlabAllocator *allocator, EpochId epoch) {
    enum { SPANS = 2000 };
    static void *spans[SPANS];
    for (unsigned i = 0; i < SPANS; i++) {
        size_t size = sizes[i % 8];
        spans[i] = slab_malloc_epoch(allocator, size, epoch);
        SUP_CHECK(spans[i] != NULL, "errno %d", errno);
        if (i % 6 == 1) {
            memset(spans[i], 1, size);
        } else if (i % 2) {
            ((char *)spans[i])[i % 6 == 3 ? 0 : size - 1] = 1;
        }
    }
    for (unsigned i = 0; i < SPANS; i++) {
        SUP_CHECK(slab_free(allocator, spans[(i * 7 + 3) % SPANS]), "slab_free");
    }
}

static void count_mappings(void *unused) {
    (void)unused;
    SlabAllocator *allocator = make(1, 0);
    EpochId epoch = epoch_open(allocator, NULL, 0);
    void *first = slab_malloc_epoch(allocator, 5000, epoch);
    SUP_CHECK(first != NULL && slab_free(allocator, first), "errno %d", errno);
    size_t before = mappings();
    for (unsigned round = 0; round < 3; round++) {
        make_and_free(allocator, epoch);
        SUP_CHECK(mappings() <= before, "%zu mappings, then %zu", before, mappings());
    }
    make_and_free(allocator, epoch);
    slab_allocator_free(allocator);
    SUP_CHECK(mappings() <= before, "%zu mappings, then %zu", before, mappings());
}

/* A span leaves no mapping behind, of which a process may have 65530. */
static void mappings_come_back(void **state) {
    char err[1024] = "";
    (void)state;
    if (SUP_EMULATED) { /* the mappings are those of the emulator */
        skip();
    }
    int status = sup_child(count_mappings, NULL, SUP_CHILD_SECONDS, err, sizeof err);
    if (status != 0) {
        fail_msg("status %#x: %s", (unsigned)status, err);
    }
}

/* As long as the region: with its guards it is longer. */
static void no_room_for_guards(void **state) {
    (void)state;
    SlabAllocator *allocator = make(1, 0);
    size_t units = ts_region.part[TS_NORMAL].units;
    for (size_t less = 0; less < 2; less++) {
        errno = 0;
        assert_null(slab_malloc(allocator, (units - less) * TS_UNIT_BYTES));
        assert_int_equal(errno, ENOMEM);
    }
    slab_allocator_free(allocator);
    ts_pool_check();
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(mappings_come_back), /* first: the mappings that a fork finds split stay so in the child */
        cmocka_unit_test(ends_of_an_object),
        cmocka_unit_test(only_with_the_option),
        cmocka_unit_test(every_use),
        cmocka_unit_test(budget),
        cmocka_unit_test(a_guard_is_refused),
        cmocka_unit_test(a_guard_stays),
        cmocka_unit_test(a_guard_outlives_its_allocator),
        cmocka_unit_test(no_room_for_guards),
    };
    return cmocka_run_group_tests_name("misuse.guard", tests, NULL, NULL);
}
