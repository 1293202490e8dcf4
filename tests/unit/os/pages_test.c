/*
 * Pages of 16 and 64 KiB, as large as a unit and four times as large: the system's calls see nothing but whole pages,
 * all of the API works on them, and every page goes back when the units on it are free, whichever threads had them.
 * Each test runs in a forked child, as the size is that of the process.
 */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include "check.h"
#include "identities.h"
#include "pattern.h"
#include "proc.h"
#include "program.h"
#include "rng.h"
#include "unit.h"

#include "os/os.h"
#include "region/region.h"
#include "walk/check_pool.h"

#include <errno.h>
#include <pthread.h>
#include <string.h>
#include <sys/mman.h>

#define KIB ((size_t)1 << 10)
#define MIB ((size_t)1 << 20)

/* ---- the table ---------------------------------------------------------------------------------------- */

static size_t page; /* set before the runtime starts */

static size_t large_page_bytes(void) { return page; }

static void whole_pages(const char *call, const void *at, size_t bytes) {
    SUP_CHECK((uintptr_t)at % page == 0 && bytes % page == 0 && bytes > 0, "%s of %zu bytes at %p: pages of %zu", call,
              bytes, at, page);
}

static size_t room = SIZE_MAX; /* for one reservation */

static void *large_reserve(size_t bytes) {
    whole_pages("reserve", NULL, bytes);
    if (bytes > room) return NULL;
    char *at = ts_os_native.reserve(bytes + page);
    return at ? at + (page - (uintptr_t)at % page) % page : NULL;
}

static bool large_freeze(void *at, size_t bytes) {
    whole_pages("freeze", at, bytes);
    return ts_os_native.freeze(at, bytes);
}

static bool large_commit(void *at, size_t bytes) {
    whole_pages("commit", at, bytes);
    return ts_os_native.commit(at, bytes);
}

static void large_release(void *at, size_t bytes) {
    whole_pages("release", at, bytes);
    ts_os_native.release(at, bytes);
}

static bool large_purge(void *at, size_t bytes) {
    whole_pages("purge", at, bytes);
    return ts_os_native.purge(at, bytes);
}

static bool large_populate(void *at, size_t bytes) {
    whole_pages("populate", at, bytes);
    return ts_os_native.populate(at, bytes);
}

static void large_huge_pages(void *at, size_t bytes, bool on) {
    whole_pages("huge_pages", at, bytes);
    ts_os_native.huge_pages(at, bytes, on);
}

static ts_os_table table;

static void install(void) {
    table = ts_os_native;
    table.page_bytes = large_page_bytes;
    table.reserve = large_reserve;
    table.commit = large_commit;
    table.freeze = large_freeze;
    table.release = large_release;
    table.purge = large_purge;
    table.populate = large_populate;
    table.huge_pages = large_huge_pages;
    ts_os = &table;
}

static void with_pages_of(size_t bytes, void (*fn)(void *), void *argument) {
    char err[1024];
    page = bytes;
    int status = sup_child(fn, argument, 2 * SUP_CHILD_SECONDS, err, sizeof err);
    if (status != 0) {
        print_error("pages of %zu: status %#x\n%s", bytes, (unsigned)status, err);
    }
    assert_int_equal(status, 0);
}

static void with_large_pages(void (*fn)(void *)) {
    static const size_t sizes[] = {16 * KIB, 64 * KIB};
    for (size_t i = 0; i < sizeof sizes / sizeof sizes[0]; i++) {
        with_pages_of(sizes[i], fn, NULL);
    }
}

/* ---- every call ---------------------------------------------------------------------------------------- */

static void programs(void *argument) {
    enum { OPS = 1500 };
    static struct prog_op ops[OPS];
    (void)argument;
    install();
    for (uint64_t number = 0; number < SUP_SCALED(48u); number++) {
        struct sup_rng rng = {sup_mix(page + number)};
        char why[512];
        size_t at;
        sup_set_seed(rng.state);
        for (size_t i = 0; i < OPS; i++) {
            prog_generate(&rng, &ops[i]);
        }
        SUP_CHECK(prog_run(ops, OPS, NULL, &at, why, sizeof why), "program %llu, operation %zu: %s",
                  (unsigned long long)number, at, why);
    }
    ts_pool_check();
}

static void random_programs(void **state) {
    (void)state;
    with_large_pages(programs);
}

/* ---- memory ---------------------------------------------------------------------------------------------- */

/* Bytes resident in the first 64 MiB, but for the page of unit 0, which is never whole. */
static size_t resident(void) {
    enum { STEP = SUP_EMULATED ? 64 << 10 : 1 << 20 };
    unsigned char pages[STEP / (4 * KIB)];
    const ts_part *p = &ts_region.part[TS_NORMAL];
    size_t unit = ts_os_native.page_bytes(), sum = 0;
    size_t end = p->units * TS_UNIT_BYTES < 64 * MIB ? p->units * TS_UNIT_BYTES : 64 * MIB;
    for (size_t at = page < TS_UNIT_BYTES ? TS_UNIT_BYTES : page, step; at < end; at += step) {
        step = STEP - at % STEP;
        if (mincore(p->base + at, step, pages) != 0) {
            /* qemu says so of what is reserved only */
            SUP_CHECK(SUP_EMULATED && errno == ENOMEM, "mincore: %s", strerror(errno));
            continue;
        }
        for (size_t i = 0; i < step / unit; i++) {
            sum += (pages[i] & 1) * unit;
        }
    }
    return sum;
}

enum { EPOCHS = 5, ROUNDS = 1000 };
static const size_t sizes[] = {16, 100, 1000, 4000, 20000, 40, 16384, 3000, 90000};
static unsigned char *objects[EPOCHS][ROUNDS];

static size_t size_of(int epoch, int i) { return sizes[(i + epoch) % (int)(sizeof sizes / sizeof sizes[0])]; }
static uint64_t key_of(int epoch, int i) { return (uint64_t)epoch << 32 | (uint64_t)i; }

/* In turn, so that every page is shared by several epochs. */
static void fill(SlabAllocator *allocator, EpochId *epochs) {
    for (int e = 0; e < EPOCHS; e++) {
        epochs[e] = epoch_open(allocator, NULL, e % 2 ? EPOCH_SCOPE : EPOCH_CHURN);
    }
    for (int i = 0; i < ROUNDS; i++) {
        for (int e = 0; e < EPOCHS; e++) {
            size_t size = size_of(e, i);
            objects[e][i] = slab_calloc_epoch(allocator, 1, size, epochs[e]);
            SUP_CHECK(objects[e][i] && sup_zero_check(objects[e][i], size), "%zu bytes of zero", size);
            sup_pattern_fill(objects[e][i], size, key_of(e, i));
        }
    }
}

static void check_rest(int from) {
    for (int e = from; e < EPOCHS; e++) {
        for (int i = 0; i < ROUNDS; i++) {
            SUP_CHECK(sup_pattern_check(objects[e][i], size_of(e, i), key_of(e, i)), "epoch %d, object %d", e, i);
        }
    }
}

/* Epoch after epoch, in any order of their units: the remaining objects keep their bytes, and in the end no page is
   left. */
static void every_page(void *argument) {
    int policy = *(int *)argument;
    EpochId epochs[EPOCHS];
    install();
    SlabOptions options = {.size = sizeof options, .reclaim_policy = policy};
    SlabAllocator *allocator = slab_allocator_create_ex(&options);
    SUP_CHECK(allocator != NULL && resident() == 0, "at the start");
    for (int round = 0; round < 2; round++) {
        fill(allocator, epochs);
        size_t full = resident(), last = full;
        SUP_CHECK(full > 4 * MIB, "%zu bytes resident", full);
        for (int e = 0; e < EPOCHS; e++) {
            SUP_CHECK(epoch_destroy(allocator, epochs[e]), "epoch_destroy");
            check_rest(e + 1);
            (void)slab_trim(allocator);
            check_rest(e + 1);
            size_t now = resident();
            SUP_CHECK(now <= last, "%zu bytes resident, %zu before", now, last);
            last = now;
        }
        SUP_CHECK(last == 0, "round %d: %zu of %zu bytes never go back", round, last, full);
        SUP_CHECK(ts_pool_used_units() == 0, "%llu units left", (unsigned long long)ts_pool_used_units());
        ts_pool_check();
    }
    sup_check_empty(allocator);
    slab_allocator_free(allocator);
}

static void every_page_goes_back(void **state) {
    static const size_t pages[] = {4 * KIB, 16 * KIB, 64 * KIB};
    (void)state;
    for (size_t i = 0; i < sizeof pages / sizeof pages[0]; i++) {
        for (int policy = SLAB_RECLAIM_BUDGET; policy <= SLAB_RECLAIM_AT_ONCE; policy++) {
            with_pages_of(pages[i], every_page, &policy);
        }
    }
}

/* The last units that the pool has grown to share no page with units beyond its end. */
static void last_page(void *argument) {
    enum { UNITS = 256 }; /* the first growth */
    void *spans[UNITS];
    (void)argument;
    install();
    SlabAllocator *allocator = slab_allocator_create();
    EpochId epoch = epoch_open(allocator, NULL, EPOCH_CHURN);
    for (int i = 0; i < UNITS; i++) {
        spans[i] = slab_malloc_epoch(allocator, TS_UNIT_BYTES, epoch);
        SUP_CHECK(spans[i] != NULL, "span %d", i);
        memset(spans[i], 1, TS_UNIT_BYTES);
    }
    for (int i = 0; i < UNITS; i++) {
        SUP_CHECK(slab_free(allocator, spans[i]), "span %d", i);
    }
    (void)slab_trim(allocator);
    SUP_CHECK(resident() == 0, "%zu bytes never go back", resident());
    slab_allocator_free(allocator);
}

static void last_page_goes_back(void **state) {
    (void)state;
    with_large_pages(last_page);
}

/* ---- reserve -------------------------------------------------------------------------------------------- */

/* Populating a page in which another epoch's objects lie leaves them as they are. */
static void reserved(void *argument) {
    EpochId epochs[EPOCHS];
    (void)argument;
    install();
    SlabAllocator *allocator = slab_allocator_create();
    fill(allocator, epochs);
    SUP_CHECK(slab_reserve(allocator, 3 * MIB + 16 * KIB), "slab_reserve");
    check_rest(0);
    for (int e = 0; e < EPOCHS; e++) {
        SUP_CHECK(epoch_destroy(allocator, epochs[e]), "epoch_destroy");
    }
    (void)slab_trim(allocator);
    SUP_CHECK(resident() == 0, "%zu bytes never go back", resident());
    slab_allocator_free(allocator);
}

static void reserve_beside_others(void **state) {
    (void)state;
    with_large_pages(reserved);
}

/* ---- refusals ------------------------------------------------------------------------------------------- */

static bool refuse_purge;
static bool refusable_purge(void *at, size_t bytes) { return !refuse_purge && large_purge(at, bytes); }

/* A purge that is refused loses no unit, neither of its own nor those that it took along. */
static void refused(void *argument) {
    EpochId epochs[EPOCHS];
    (void)argument;
    install();
    table.purge = refusable_purge;
    SlabOptions options = {.size = sizeof options, .reclaim_policy = SLAB_RECLAIM_AT_ONCE};
    SlabAllocator *allocator = slab_allocator_create_ex(&options);
    fill(allocator, epochs);
    for (int e = 0; e < EPOCHS; e++) {
        refuse_purge = e % 2 == 1;
        SUP_CHECK(epoch_destroy(allocator, epochs[e]), "epoch_destroy");
        check_rest(e + 1);
        ts_pool_check();
    }
    refuse_purge = true;
    (void)slab_trim(allocator);
    fill(allocator, epochs); /* zeroed, although the memory need not be */
    check_rest(0);
    refuse_purge = false;
    for (int e = 0; e < EPOCHS; e++) {
        SUP_CHECK(epoch_destroy(allocator, epochs[e]), "epoch_destroy");
    }
    (void)slab_trim(allocator);
    SUP_CHECK(resident() == 0, "%zu bytes never go back", resident());
    SUP_CHECK(ts_pool_used_units() == 0, "units are left");
    slab_allocator_free(allocator);
}

static void refused_purges(void **state) {
    (void)state;
    with_large_pages(refused);
}

/* The pool searches for a range that fits, in whole pages. */
static void little_room(void *argument) {
    (void)argument;
    room = 600 * MIB + 12345;
    install();
    SlabAllocator *allocator = slab_allocator_create();
    void *p = slab_malloc(allocator, 100000);
    SUP_CHECK(p != NULL && slab_free(allocator, p), "in little room: errno %d", errno);
    SUP_CHECK(ts_region.reserved_bytes <= room && ts_region.reserved_bytes > room / 4, "%zu bytes of %zu are reserved",
              (size_t)ts_region.reserved_bytes, room);
    slab_allocator_free(allocator);
}

static void address_space_is_limited(void **state) {
    (void)state;
    with_large_pages(little_room);
}

static void too_large(void *argument) {
    (void)argument;
    install();
    errno = 0;
    SUP_CHECK(slab_allocator_create() == NULL && errno == ENOMEM, "pages of %zu bytes: errno %d", page, errno);
    SUP_CHECK(ts_region.reserved_bytes == 0, "nothing is reserved");
}

static void pages_beyond_the_limit(void **state) {
    (void)state;
    with_pages_of(128 * KIB, too_large, NULL);
}

/* ---- threads -------------------------------------------------------------------------------------------- */

static void *come_and_go(void *argument) {
    SlabAllocator *allocator = argument;
    struct sup_rng rng = {sup_mix((uintptr_t)&rng)};
    for (unsigned round = 0; round < SUP_SCALED(200u); round++) {
        EpochId epoch = epoch_open(allocator, NULL, round % 2 ? EPOCH_SCOPE : EPOCH_CHURN);
        unsigned char *mine[40];
        size_t size[40];
        for (unsigned i = 0; i < 40; i++) {
            size[i] = 1 + (size_t)sup_rng_below(&rng, i % 4 == 0 ? 60000 : 4096);
            mine[i] = slab_calloc_epoch(allocator, 1, size[i], epoch);
            SUP_CHECK(mine[i] && sup_zero_check(mine[i], size[i]), "%zu bytes of zero", size[i]);
            sup_pattern_fill(mine[i], size[i], (uintptr_t)mine[i]);
        }
        for (unsigned i = 0; i < 40; i++) {
            SUP_CHECK(sup_pattern_check(mine[i], size[i], (uintptr_t)mine[i]), "%zu bytes have other bytes", size[i]);
        }
        SUP_CHECK(epoch_destroy(allocator, epoch), "epoch_destroy");
    }
    return NULL;
}

/* Threads whose units share pages, and that give them back all the time. */
static void threads(void *argument) {
    pthread_t ids[4];
    (void)argument;
    install();
    SlabOptions options = {.size = sizeof options, .reclaim_policy = SLAB_RECLAIM_AT_ONCE};
    SlabAllocator *allocator = slab_allocator_create_ex(&options);
    for (int i = 0; i < 4; i++) {
        SUP_CHECK(pthread_create(&ids[i], NULL, come_and_go, allocator) == 0, "pthread_create");
    }
    for (int i = 0; i < 4; i++) {
        (void)pthread_join(ids[i], NULL);
    }
    (void)slab_trim(allocator);
    ts_pool_check();
    SUP_CHECK(ts_pool_used_units() == 0, "units are left");
    sup_check_empty(allocator);
    slab_allocator_free(allocator);
}

static void several_threads(void **state) {
    (void)state;
    with_large_pages(threads);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(random_programs),        cmocka_unit_test(every_page_goes_back),
        cmocka_unit_test(last_page_goes_back),    cmocka_unit_test(reserve_beside_others),
        cmocka_unit_test(refused_purges),         cmocka_unit_test(several_threads),
        cmocka_unit_test(pages_beyond_the_limit), cmocka_unit_test(address_space_is_limited),
    };
    return cmocka_run_group_tests_name("os.pages", tests, NULL, NULL);
}
