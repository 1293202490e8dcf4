/*
 * A system whose madvise answers that it took pages back, and keeps their bytes: found out at the start, said in one
 * line, and memory that is handed out as zero is zero all the same. By a table that lies, and by a kernel that is made
 * to (seccomp).
 */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include "check.h"
#include "identities.h"
#include "pattern.h"
#include "proc.h"
#include "seccomp.h"
#include "unit.h"

#include "os/os.h"
#include "region/region.h"
#include "walk/check_pool.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>

#define KIB ((size_t)1 << 10)
#define MIB ((size_t)1 << 20)

static uint64_t lies;
static bool lie(void *at, size_t bytes) {
    (void)at, (void)bytes;
    lies++;
    return true;
}
static bool no(void *at, size_t bytes) {
    (void)at, (void)bytes;
    return false;
}

/* ---- freed memory ------------------------------------------------------------------------------------------------ */

static void zeroed_again_and_again(SlabAllocator *a, unsigned flags) {
    static const size_t sizes[] = {10, 100, 5000, 16 * KIB, 100 * KIB, 2 * MIB};
    EpochId epoch = epoch_open(a, NULL, flags);
    for (unsigned round = 0; round < 4; round++) {
        for (unsigned i = 0; i < sizeof sizes / sizeof *sizes; i++) {
            char *p = slab_calloc_epoch(a, 1, sizes[i], epoch);
            SUP_CHECK(p != NULL, "errno %d", errno);
            SUP_CHECK(sup_zero_check(p, sizes[i]), "%zu bytes are not zero", sizes[i]);
            memset(p, 0xee, sizes[i]);
            SUP_CHECK(slab_free(a, p), "slab_free");
        }
        (void)slab_trim(a);
    }
    SUP_CHECK(epoch_destroy(a, epoch), "epoch_destroy");
}

/* Slabs, their bits and the records of epochs are given back and taken again. */
static void lives(SlabAllocator *a) {
    enum { OBJECTS = 3000, ROUNDS = SUP_SANITIZED || SUP_EMULATED ? 4 : 20 };
    static void *object[OBJECTS];
    for (unsigned round = 0; round < ROUNDS; round++) {
        EpochId epoch = epoch_open(a, "life", round % 2 ? EPOCH_SCOPE : EPOCH_CHURN);
        for (unsigned i = 0; i < OBJECTS; i++) {
            size_t size = 16 + (i * 37 + round * 11) % 3000;
            object[i] = slab_malloc_epoch(a, size, epoch);
            SUP_CHECK(object[i] != NULL, "errno %d", errno);
            sup_pattern_fill(object[i], size, i);
        }
        for (unsigned i = 0; i < OBJECTS; i++) {
            SUP_CHECK(sup_pattern_check(object[i], 16 + (i * 37 + round * 11) % 3000, i), "object %u", i);
            if (i % 3) {
                SUP_CHECK(slab_free(a, object[i]) && !slab_free(a, object[i]), "slab_free");
            }
        }
        SUP_CHECK(round % 4 ? epoch_destroy(a, epoch) : epoch_close(a, epoch), "the end");
        (void)slab_trim(a);
        sup_check_identities(a);
        for (unsigned i = 0; round % 4 && i < OBJECTS; i++) {
            SUP_CHECK(!slab_owns(a, object[i]), "object %u lives on", i);
        }
    }
    ts_pool_check();
}

static SlabAllocator *make(void) {
    SlabAllocator *a = slab_allocator_create();
    SUP_CHECK(a != NULL, "errno %d", errno);
    return a;
}

static uint64_t refusals(SlabAllocator *a) {
    SlabClassStats stats;
    SUP_CHECK(slab_stats_class(a, SLAB_ALL_CLASSES, &stats), "slab_stats_class");
    return stats.madvise_failures;
}

static void use(void) {
    SlabAllocator *a = make();
    zeroed_again_and_again(a, EPOCH_CHURN);
    zeroed_again_and_again(a, EPOCH_SCOPE);
    lives(a);
}

static void with_a_table_that_lies(void *purge_anew) {
    static ts_os_table table;
    table = ts_os_native;
    table.purge = lie;
    if (purge_anew) {
        table.purge_anew = *(bool (**)(void *, size_t))purge_anew;
    }
    ts_os = &table;
    use();
    SUP_CHECK(lies == 1 + (table.purge_anew == lie), "%llu lies were believed", (unsigned long long)lies);
    if (table.purge_anew != ts_os_native.purge_anew) {
        SUP_CHECK(refusals(make()) == 0, "of another allocator");
        SlabAllocator *a = make();
        void *p = slab_malloc(a, 5 * MIB);
        SUP_CHECK(p != NULL && slab_free(a, p), "errno %d", errno);
        SUP_CHECK(slab_trim(a) == 0, "memory is said to have gone back");
        SUP_CHECK(refusals(a) > 0, "a refusal is not counted");
    }
}

static void with_an_honest_table(void *unused) {
    (void)unused;
    use();
    SUP_CHECK(ts_os->purge == ts_os_native.purge, "another purge");
    SUP_CHECK(ts_os == &ts_os_native || SUP_EMULATED, "another table"); /* an emulator moves nothing */
}

/* Runs it in a child, which says so many lines. */
static void child_says(void (*fn)(void *), void *arg, const char *what) {
    char err[4096] = "";
    int status = sup_child(fn, arg, SUP_CHILD_SECONDS, err, sizeof err);
    if (status != 0) {
        fail_msg("status %#x: %s", (unsigned)status, err);
    }
    if (what == NULL) {
        assert_string_equal(err, "");
        return;
    }
    assert_int_equal(sup_count_lines(err), 1);
    assert_non_null(strstr(err, "tslab: "));
    assert_non_null(strstr(err, "madvise"));
    assert_non_null(strstr(err, what));
}

static void an_honest_system(void **state) {
    (void)state;
    child_says(with_an_honest_table, NULL, NULL);
}

static void purge_lies(void **state) {
    (void)state;
    child_says(with_a_table_that_lies, NULL, "mappings");
}

/* A purge that gives nothing back counts as refused, and its memory stays retained. */
static void mappings_lie_too(void **state) {
    bool (*purge_anew)(void *, size_t) = lie;
    (void)state;
    child_says(with_a_table_that_lies, &purge_anew, "no memory is given back");
}

/* Not known to be a lie; a refusal is none. */
static void what_cannot_be_tried(void **state) {
    (void)state;
    ts_os_table table = ts_os_native;
    table.purge = lie;
    table.commit = no;
    assert_int_equal(ts_os_probe_purge(&table), TS_PURGE_TRUE);
    assert_true(table.purge == lie);
    table = ts_os_native;
    table.purge = no;
    assert_int_equal(ts_os_probe_purge(&table), TS_PURGE_TRUE);
    assert_true(table.purge == no);
}

/* As an emulator sees it. */
static bool lose(void *from, void *to, size_t bytes) {
    bool moved = ts_os_native.move(from, to, bytes);
    if (moved) assert_int_equal(munmap(from, bytes), 0);
    return moved;
}

/* Nothing is moved where the range before is lost by that. */
static void moves_lose_their_range(void **state) {
    (void)state;
    ts_os_table table = ts_os_native;
    errno = 77;
    (void)ts_os_probe_purge(&table);
    assert_int_equal(errno, 77);
    if (!SUP_EMULATED) assert_true(table.move == ts_os_native.move);
    table.move = lose;
    (void)ts_os_probe_purge(&table);
    char *at = ts_os_native.reserve(2 * ts_os_page_bytes());
    assert_non_null(at);
    assert_true(ts_os_native.commit(at, 2 * ts_os_page_bytes()));
    *at = 1;
    bool moves = ts_os_native.move(at, at + ts_os_page_bytes(), ts_os_page_bytes());
    assert_true(table.move != lose || !moves); /* some systems move nothing */
    ts_os_native.release(at, 2 * ts_os_page_bytes());
}

static size_t mappings(void) {
    FILE *file = fopen("/proc/self/maps", "r");
    size_t lines = 0;
    assert_non_null(file);
    for (int c; (c = getc(file)) != EOF;) {
        lines += c == '\n';
    }
    (void)fclose(file);
    return lines;
}

static void purge_anew_does_what_purge_does(void **state) {
    (void)state;
    (void)mappings(); /* the stream's memory is there */
    size_t page = ts_os_page_bytes();
    char *at = ts_os_native.reserve(8 * page);
    assert_non_null(at);
    assert_true(ts_os_native.commit(at, 8 * page));
    memset(at, 5, 8 * page);
    size_t before = mappings();
    assert_true(ts_os_native.purge_anew(at + page, 4 * page));
    assert_int_equal(at[page - 1], 5);
    assert_true(sup_zero_check(at + page, 4 * page));
    assert_int_equal(at[5 * page], 5);
    memset(at, 6, 8 * page);
    assert_true(mappings() <= before || SUP_EMULATED);
    ts_os_native.release(at, 8 * page);
}

/* ---- a kernel that lies ------------------------------------------------------------------------------------------ */

#ifdef HAS_SECCOMP
#if __BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__
#define LOW_WORD 0
#else
#define LOW_WORD 4
#endif

/* MADV_DONTNEED is not done, and succeeds. */
static void make_the_kernel_lie(void) {
    struct sock_filter steps[] = {
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_madvise, 0, 3),
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, args[2]) + LOW_WORD),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, MADV_DONTNEED, 0, 1),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
    };
    struct sock_fprog program = {sizeof steps / sizeof *steps, steps};
    SUP_CHECK(prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0, "errno %d", errno);
    SUP_CHECK(prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program) == 0, "errno %d", errno);
}

static void with_a_kernel_that_lies(void *unused) {
    (void)unused;
    make_the_kernel_lie();
    use();
    SlabAllocator *a = make();
    size_t before = sup_rss_bytes();
    EpochId epoch = epoch_open(a, NULL, EPOCH_SCOPE);
    for (unsigned i = 0; i < 40000; i++) {
        void *p = slab_malloc_epoch(a, 1000, epoch);
        SUP_CHECK(p != NULL, "errno %d", errno);
        memset(p, 1, 1000);
    }
    size_t full = sup_rss_bytes();
    SUP_CHECK(full > before + 30 * MIB, "%zu bytes resident, then %zu", before, full);
    SUP_CHECK(epoch_destroy(a, epoch), "epoch_destroy");
    (void)slab_trim(a);
    size_t after = sup_rss_bytes();
    SUP_CHECK(after < before + 4 * MIB, "%zu bytes resident, then %zu, then %zu", before, full, after);
}
#endif

static void the_kernel_lies(void **state) {
    (void)state;
#ifdef HAS_SECCOMP
    if (!SUP_EMULATED && !SUP_SANITIZED) { /* a sanitizer needs madvise itself; an emulator has no seccomp */
        child_says(with_a_kernel_that_lies, NULL, "mappings");
        return;
    }
#endif
    skip();
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(an_honest_system),
        cmocka_unit_test(purge_lies),
        cmocka_unit_test(mappings_lie_too),
        cmocka_unit_test(what_cannot_be_tried),
        cmocka_unit_test(moves_lose_their_range),
        cmocka_unit_test(the_kernel_lies),
        cmocka_unit_test(purge_anew_does_what_purge_does),
    };
    return cmocka_run_group_tests_name("os.lying", tests, NULL, NULL);
}
