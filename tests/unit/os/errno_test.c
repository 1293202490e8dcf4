/*
 * No call that succeeds changes errno: not the first one of a process, and not one inside of which the system refuses
 * to take memory back, as it does where a page is locked. (fault_calls_test.c has every call, with every kind of
 * refusal.)
 */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include "check.h"
#include "proc.h"
#include "unit.h"

#include "os/os.h"

#include <tslab/stats.h>

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>

#define MIB ((size_t)1 << 20)
#define UNIT_BYTES ((size_t)16 << 10)
#define MINE EXDEV /* a value that nothing here sets */

#define SUCCEEDS(call)                                                       \
    do {                                                                     \
        errno = MINE;                                                        \
        SUP_CHECK(call, "errno %d", errno);                                  \
        SUP_CHECK(errno == MINE, "it succeeds, and leaves errno %d", errno); \
    } while (0)
#define IS_QUIET(call) SUCCEEDS(((call), true))

/* An object of which a page cannot be purged. */
static void *locked_object(SlabAllocator *a, size_t bytes, EpochId epoch) {
    char *p = slab_malloc_epoch(a, bytes, epoch);
    SUP_CHECK(p != NULL, "errno %d", errno);
    SUP_CHECK(mlock((char *)p + bytes / 2, 1) == 0, "errno %d", errno);
    return p;
}

static SlabAllocator *make(int reclaim) {
    SlabOptions options = {.size = sizeof options, .reclaim_policy = reclaim};
    SlabAllocator *a = slab_allocator_create_ex(&options);
    SUP_CHECK(a != NULL, "errno %d", errno);
    return a;
}

static uint64_t refusals(SlabAllocator *a) {
    SlabClassStats stats;
    SUP_CHECK(slab_stats_class(a, SLAB_ALL_CLASSES, &stats), "slab_stats_class");
    return stats.madvise_failures;
}

static void frees(SlabAllocator *a, size_t bytes) {
    EpochId epoch = epoch_open(a, NULL, EPOCH_CHURN);
    SlabHandle handle;
    void *p = locked_object(a, bytes, epoch), *q = alloc_obj_epoch(a, bytes, epoch, &handle);
    SUP_CHECK(q != NULL && mlock(q, 1) == 0, "errno %d", errno);
    SUCCEEDS(slab_free(a, p));
    SUCCEEDS(free_obj(a, handle));
    void *r = locked_object(a, bytes, epoch);
    SUCCEEDS((r = slab_realloc(a, r, 64)) != NULL);
    SUCCEEDS((r = slab_realloc(a, r, 2 * bytes)) != NULL);
    SUCCEEDS(slab_free(a, r));
    SUCCEEDS(epoch_destroy(a, epoch));
}

static void ends(SlabAllocator *a, size_t bytes, unsigned flags) {
    EpochId epoch = epoch_open(a, NULL, flags), closed = epoch_open(a, NULL, flags), rolling = epoch_current(a);
    (void)locked_object(a, bytes, epoch);
    SUCCEEDS(epoch_destroy(a, epoch));
    void *p = locked_object(a, bytes, closed);
    SUCCEEDS(slab_free(a, p));
    SUCCEEDS(epoch_close(a, closed));
    p = locked_object(a, bytes, rolling);
    SUCCEEDS(slab_free(a, p));
    SUCCEEDS(epoch_advance(a) != EPOCH_NONE);
    SUCCEEDS(epoch_state(a, closed) == EPOCH_CLOSED);
}

static void set_errno(void *unused) { (void)unused, errno = EBADF; }

static void domains(SlabAllocator *a, size_t bytes) {
    EpochDomain *d;
    SUCCEEDS((d = epoch_domain_create(a)) != NULL);
    SUCCEEDS(epoch_domain_enter(d));
    SUCCEEDS(slab_alloc(100) != NULL);
    SUCCEEDS(slab_alloc(bytes) != NULL);
    (void)locked_object(a, bytes, epoch_domain_epoch(d));
    SUCCEEDS(epoch_domain_reset(d, 0));
    (void)locked_object(a, bytes, epoch_domain_epoch(d));
    SUCCEEDS(epoch_domain_on_destroy(d, set_errno, NULL)); /* the cleanup's value does not reach the caller */
    SUCCEEDS(epoch_domain_reset(d, 0));
    void *p = locked_object(a, bytes, epoch_current(a));
    SUCCEEDS((p = slab_promote(d, p)) != NULL);
    SUCCEEDS(epoch_domain_on_destroy(d, set_errno, NULL));
    SUCCEEDS(epoch_domain_exit(d));
    IS_QUIET(epoch_domain_destroy(d));
}

static void of_all(SlabAllocator *a, size_t bytes) {
    void *p = locked_object(a, bytes, epoch_current(a));
    SUCCEEDS(slab_free(a, p));
    IS_QUIET(slab_trim(a));
    IS_QUIET(slab_thread_idle());
    SUCCEEDS(slab_set_budget(a, 1));
    SUCCEEDS(slab_set_budget(a, 0));
    SUCCEEDS(slab_reserve(a, bytes));
    SUCCEEDS(slab_stats_json(a, NULL, 0) > 0);
    (void)locked_object(a, bytes, epoch_current(a));
    IS_QUIET(slab_allocator_free(a));
}

static void a_page_that_is_locked(void **state) {
    static const size_t bytes[] = {100, 4096, 2 * UNIT_BYTES, 3 * MIB};
    (void)state;
    for (int reclaim = SLAB_RECLAIM_BUDGET; reclaim <= SLAB_RECLAIM_AT_ONCE; reclaim++) {
        uint64_t refused = 0;
        for (unsigned i = 0; i < sizeof bytes / sizeof *bytes; i++) {
            SlabAllocator *a = make(reclaim);
            frees(a, bytes[i]);
            ends(a, bytes[i], EPOCH_CHURN);
            ends(a, bytes[i], EPOCH_SCOPE);
            domains(a, bytes[i]);
            (void)slab_trim(a);
            refused += refusals(a);
            of_all(a, bytes[i]);
        }
        assert_true(refused > 0 || SUP_EMULATED || SUP_SANITIZED); /* AddressSanitizer makes nothing of mlock */
    }
}

/* ---- no more memory ---------------------------------------------------------------------------------------------- */

static bool no_commit(void *at, size_t bytes) {
    (void)at, (void)bytes;
    return false;
}

/* With the available memory, until a call fails. */
static void use_up(void *unused) {
    enum { MOST = 100000 };
    static ts_os_table table;
    (void)unused;
    SlabAllocator *a = slab_allocator_create();
    SUP_CHECK(a != NULL && slab_malloc(a, 100) != NULL, "errno %d", errno);
    EpochDomain *of_cleanups = epoch_domain_create(a);
    SUP_CHECK(of_cleanups != NULL, "errno %d", errno);
    table = ts_os_native;
    table.commit = no_commit;
    ts_os = &table;
    bool made = true;
    while (made) { /* the records of these first: a domain can then be made without memory for its first object */
        errno = MINE;
        made = epoch_domain_on_destroy(of_cleanups, set_errno, NULL);
        SUP_CHECK(errno == (made ? MINE : ENOMEM), "errno %d", errno);
    }
    made = true;
    for (int i = 0; made && i < MOST; i++) {
        errno = MINE;
        EpochDomain *d = epoch_domain_create(a);
        made = d != NULL;
        SUP_CHECK(errno == (made ? MINE : ENOMEM), "errno %d", errno);
        for (bool more = made && epoch_domain_enter(d), first = true; more; first = false) {
            errno = MINE;
            more = slab_alloc(first ? 10 : 4000) != NULL && i % 100 == 0;
            SUP_CHECK(errno == MINE || (!more && errno == ENOMEM), "errno %d", errno);
        }
    }
    SUP_CHECK(!made, "there is no end");
}

static void to_the_last_byte(void **state) {
    char err[1024] = "";
    (void)state;
    int status = sup_child(use_up, NULL, SUP_CHILD_SECONDS, err, sizeof err);
    if (status != 0) {
        fail_msg("status %#x: %s", (unsigned)status, err);
    }
}

/* ---- the first call of a process --------------------------------------------------------------------------------- */

static void set_variables(void) {
    (void)setenv("TSLAB_RETAIN", "48M", 1);
    (void)setenv("TSLAB_SAMPLE_STACKS", "64K", 1);
    (void)setenv("TSLAB_RECORD_RSS", "1", 1);
    (void)setenv("TSLAB_SHM", "1", 1);
    (void)setenv("TSLAB_HUGE_PAGES", "on", 1);
    (void)setenv("TSLAB_RECLAIM", "no such word", 1); /* a line each */
    (void)setenv("TSLAB_NO_SUCH_VARIABLE", "1", 1);
}

static void create_first(void *unused) {
    (void)unused;
    SUCCEEDS(slab_allocator_create() != NULL);
}

static void create_first_with_variables(void *unused) {
    (void)unused;
    set_variables();
    SUCCEEDS(slab_allocator_create() != NULL);
}

static void allocate_first(void *unused) {
    (void)unused;
    set_variables();
    SUCCEEDS(slab_alloc(100) != NULL);
}

static void reserve_first(void *unused) {
    (void)unused;
    (void)setenv("TSLAB_RESERVE", "999999999999999", 1); /* without the refused memory, and a line */
    SUCCEEDS(slab_allocator_default() != NULL);
}

static void the_first_call(void **state) {
    static void (*const first[])(void *) = {create_first, create_first_with_variables, allocate_first, reserve_first};
    (void)state;
    for (unsigned i = 0; i < sizeof first / sizeof *first; i++) {
        char err[2048] = "";
        int status = sup_child(first[i], NULL, SUP_CHILD_SECONDS, err, sizeof err);
        if (status != 0) {
            fail_msg("%u: status %#x: %s", i, (unsigned)status, err);
        }
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_first_call), /* first: its children have no allocator yet */
        cmocka_unit_test(to_the_last_byte),
        cmocka_unit_test(a_page_that_is_locked),
    };
    return cmocka_run_group_tests_name("os.errno", tests, NULL, NULL);
}
