/* Unused memory goes back in later calls: pages of closed epochs, and memory that a thread keeps in epochs without
   objects. */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include "check.h"
#include "identities.h"
#include "pattern.h"
#include "rng.h"
#include "unit.h"

#include "epoch/epoch.h"
#include "os/os.h"
#include "slab/slab.h"

#include <pthread.h>
#include <stdatomic.h>
#include <string.h>
#include <sys/mman.h>

enum { PAGE = 4096, UNIT = 16384, OBJECTS = 140, EPOCHS = 40 };

static ts_os_table table;
static _Atomic uint64_t now_ns;
static _Atomic uint64_t a_call_ns; /* added by each look at the clock */
static void (*before_purge)(void);
static bool refuses;

static uint64_t test_time(void) { return atomic_fetch_add(&now_ns, atomic_load(&a_call_ns)); }
static bool test_purge(void *at, size_t bytes) {
    void (*before)(void) = before_purge;
    if (before && bytes < UNIT) {
        before_purge = NULL;
        before();
    }
    return !refuses && ts_os_native.purge(at, bytes);
}
static void sleep_s(unsigned seconds) { atomic_fetch_add(&now_ns, seconds * UINT64_C(1000000000)); }

static SlabAllocator *a;

static int start(void **state) {
    (void)state;
    table = ts_os_native;
    table.wall_ns = table.coarse_ns = test_time;
    table.purge = test_purge;
    before_purge = NULL;
    refuses = false;
    if (atomic_load(&now_ns) == 0) atomic_store(&now_ns, ts_os_native.wall_ns());
    ts_os = &table;
    a = slab_allocator_create();
    return a == NULL;
}
static int stop(void **state) {
    (void)state;
    sup_check_identities(a);
    slab_allocator_free(a);
    ts_os = &ts_os_native;
    return 0;
}

/* The calls of a program that goes on: passes go on in them. */
static void calls(unsigned count) {
    for (unsigned i = 0; i < count; i++) {
        EpochId e = epoch_open(a, NULL, EPOCH_CHURN);
        void *p = slab_malloc_epoch(a, 64, e);
        assert_true(slab_free(a, p) && epoch_close(a, e));
    }
}

static unsigned resident_pages(void *object) {
    unsigned char pages[UNIT / PAGE] = {0};
    char *unit = ts_slab_start(object);
    SUP_CHECK(mincore(unit, UNIT, pages) == 0, "mincore");
    unsigned n = 0;
    for (unsigned i = 0; i < UNIT / PAGE; i++) n += pages[i] & 1;
    return n;
}

static bool is_exact(void) { return ts_os_page_bytes() == PAGE && !SUP_SANITIZED; }

typedef struct leak {
    EpochId epoch;
    unsigned char *object;
    size_t size;
} leak;

static leak leave_one(unsigned flags, size_t size, unsigned which) {
    leak l = {epoch_open(a, "leaks", flags), NULL, size};
    unsigned char *p[OBJECTS];
    for (unsigned i = 0; i < OBJECTS; i++) {
        assert_non_null(p[i] = slab_malloc_epoch(a, size, l.epoch));
        memset(p[i], (int)(which + 1), size);
    }
    for (unsigned i = 0; i < OBJECTS; i++)
        if (i != which % OBJECTS) assert_true(slab_free(a, p[i]));
    l.object = p[which % OBJECTS];
    assert_true(epoch_close(a, l.epoch));
    assert_int_equal(epoch_state(a, l.epoch), EPOCH_CLOSING);
    return l;
}

static void check_leak(const leak *l, unsigned which) {
    for (size_t i = 0; i < l->size; i++) assert_int_equal(l->object[i], (unsigned char)(which + 1));
}

static void closed_epochs(void **state) {
    (void)state;
    static const size_t sizes[] = {16, 48, 64, 128, 768, 3000};
    for (unsigned flags = EPOCH_CHURN; flags <= EPOCH_SCOPE; flags++) {
        for (unsigned s = 0; s < sizeof sizes / sizeof *sizes; s++) {
            leak l[EPOCHS];
            unsigned before = 0, after = 0;
            for (unsigned i = 0; i < EPOCHS; i++) l[i] = leave_one(flags, sizes[s], i * 7);
            sleep_s(5);
            calls(200);
            for (unsigned i = 0; i < EPOCHS; i++) before += resident_pages(l[i].object);
            sleep_s(5);
            calls(200);
            for (unsigned i = 0; i < EPOCHS; i++) {
                check_leak(&l[i], i * 7);
                after += resident_pages(l[i].object);
            }
            assert_true(before >= after);
            /* An object lies in one page, or two. */
            bool several = OBJECTS * sizes[s] > 2 * PAGE;
            if (is_exact()) assert_true(after <= EPOCHS + (PAGE % sizes[s] ? EPOCHS : 0));
            if (is_exact() && several) assert_true(before > 3 * EPOCHS / 2);
            sup_check_identities(a);
            for (unsigned i = 0; i < EPOCHS; i++) {
                assert_int_equal(epoch_state(a, l[i].epoch), EPOCH_CLOSING);
                assert_true(slab_free(a, l[i].object));
                assert_int_equal(epoch_state(a, l[i].epoch), EPOCH_CLOSED);
            }
            sup_check_empty(a);
        }
    }
}

/* Slabs that are live at the first look, and die later, go too. */
static void later_too(void **state) {
    (void)state;
    EpochId e = epoch_open(a, NULL, EPOCH_SCOPE);
    void *p[OBJECTS];
    for (unsigned i = 0; i < OBJECTS; i++) memset(p[i] = slab_malloc_epoch(a, 100, e), 1, 100);
    assert_true(epoch_close(a, e));
    sleep_s(10);
    calls(100);
    for (unsigned i = 1; i < OBJECTS; i++) assert_true(slab_free(a, p[i]));
    for (unsigned i = 0; i < 4; i++) {
        sleep_s(10);
        calls(100);
    }
    if (is_exact()) assert_int_equal(resident_pages(p[0]), 1);
    assert_true(slab_free(a, p[0]));
}

static void by_maintenance(void **state) {
    (void)state;
    leak l[EPOCHS];
    for (unsigned i = 0; i < EPOCHS; i++) l[i] = leave_one(EPOCH_CHURN, 128, i);
    assert_true(slab_maintain(a, UINT64_MAX) < UNIT * EPOCHS);
    sleep_s(10);
    size_t given = slab_maintain(a, UINT64_MAX);
    if (is_exact()) {
        assert_true(given >= (size_t)EPOCHS * PAGE);
        for (unsigned i = 0; i < EPOCHS; i++) assert_int_equal(resident_pages(l[i].object), 1);
    }
    for (unsigned i = 0; i < EPOCHS; i++) {
        check_leak(&l[i], i);
        assert_true(epoch_destroy(a, l[i].epoch));
    }
}

/* While the system has a page of it the slab's last object is freed, or its epoch destroyed, and its memory taken
   for something else. */
static leak victim;
static EpochId next_epoch;
static void *next_objects[OBJECTS];
static bool destroys;
static void ends_meanwhile(void) {
    if (destroys)
        assert_true(epoch_destroy(a, victim.epoch));
    else
        assert_true(slab_free(a, victim.object));
    (void)slab_trim(a);
    for (unsigned i = 0; i < OBJECTS; i++) memset(next_objects[i] = slab_malloc_epoch(a, 128, next_epoch), 0x77, 128);
}
static void ends_while_it_is_given(void **state) {
    (void)state;
    for (unsigned how = 0; how < 4 && is_exact(); how++) {
        destroys = how % 2;
        next_epoch = epoch_open(a, NULL, how / 2 ? EPOCH_CHURN : EPOCH_SCOPE);
        victim = leave_one(how / 2 ? EPOCH_CHURN : EPOCH_SCOPE, 128, 3);
        sleep_s(10);
        before_purge = ends_meanwhile;
        (void)slab_maintain(a, UINT64_MAX);
        assert_null(before_purge);
        for (unsigned i = 0; i < OBJECTS; i++)
            for (unsigned k = 0; k < 128; k++) assert_int_equal(((unsigned char *)next_objects[i])[k], 0x77);
        assert_int_equal(epoch_state(a, victim.epoch), EPOCH_CLOSED);
        assert_true(epoch_destroy(a, next_epoch));
        sup_check_identities(a);
        sup_check_empty(a);
    }
}

static void refused(void **state) {
    (void)state;
    leak l[EPOCHS];
    for (unsigned i = 0; i < EPOCHS; i++) l[i] = leave_one(EPOCH_SCOPE, 64, i);
    sleep_s(10);
    refuses = true;
    calls(100);
    refuses = false;
    for (unsigned i = 0; i < EPOCHS; i++) {
        check_leak(&l[i], i);
        assert_true(slab_free(a, l[i].object));
    }
    sup_check_empty(a);
}

/* All freed, in random order: an open epoch keeps little, with any number of classes. */
static void open_epochs(void **state) {
    (void)state;
    enum { MANY = 60000 };
    static void *p[MANY];
    struct sup_rng rng = {1};
    for (unsigned classes = 1; classes <= 16; classes *= 4) {
        EpochId e = epoch_open(a, NULL, EPOCH_CHURN);
        for (unsigned i = 0; i < MANY; i++) assert_non_null(p[i] = slab_malloc_epoch(a, 64 + i % classes * 48, e));
        for (unsigned i = MANY - 1; i > 0; i--) {
            unsigned k = (unsigned)sup_rng_below(&rng, i + 1);
            void *swap = p[i];
            p[i] = p[k];
            p[k] = swap;
        }
        for (unsigned i = 0; i < MANY; i++) assert_true(slab_free(a, p[i]));
        SlabEpochStats s;
        for (unsigned i = 0; i < 3; i++) {
            sleep_s(5);
            calls(50);
        }
        assert_true(slab_stats_epoch(a, SLAB_ALL_CLASSES, e, &s));
        assert_int_equal(s.slab_count, 0);
        /* It goes on as before. */
        for (unsigned i = 0; i < MANY; i++) assert_non_null(p[i] = slab_malloc_epoch(a, 64 + i % classes * 48, e));
        sup_check_identities(a);
        assert_true(epoch_destroy(a, e));
    }
}

/* A bin in use keeps its slabs. */
static void what_is_used_stays(void **state) {
    (void)state;
    EpochId e = epoch_open(a, NULL, EPOCH_CHURN);
    void *p[2000];
    uint64_t first = 0;
    for (unsigned round = 0; round < 20; round++) {
        for (unsigned i = 0; i < 2000; i++) p[i] = slab_malloc_epoch(a, 128, e);
        for (unsigned i = 0; i < 2000; i++) assert_true(slab_free(a, p[i]));
        SlabEpochStats s;
        assert_true(slab_stats_epoch(a, SLAB_ALL_CLASSES, e, &s));
        if (round == 0) first = s.slab_count;
        assert_true(s.slab_count == first && first > 1);
        sleep_s(5);
        (void)slab_maintain(a, 0);
    }
    assert_true(epoch_destroy(a, e));
}

/* ---- beside other threads: time flies, so that passes go on all the time ---- */

enum { MAIL = 512 };
static void *_Atomic mail[MAIL];

static void *frees_them(void *done) {
    struct sup_rng rng = {5};
    while (!atomic_load((atomic_bool *)done)) {
        unsigned char *p = atomic_exchange(&mail[sup_rng_below(&rng, MAIL)], NULL);
        if (!p) continue;
        for (unsigned i = 0; i < 100; i++)
            SUP_CHECK(p[i] == (unsigned char)((uintptr_t)p >> 4), "byte %u of %p", i, (void *)p);
        SUP_CHECK(slab_release(p), "slab_release of %p", (void *)p);
    }
    return NULL;
}

static void beside_threads(void **state) {
    (void)state;
    pthread_t threads[2];
    atomic_bool done = false;
    struct sup_rng rng = {9};
    atomic_store(&a_call_ns, 200000000);
    for (unsigned i = 0; i < 2; i++) assert_int_equal(pthread_create(&threads[i], NULL, frees_them, &done), 0);
    for (unsigned round = 0; round < SUP_SCALED(3000); round++) {
        EpochId e = epoch_open(a, NULL, round % 2 ? EPOCH_CHURN : EPOCH_SCOPE);
        unsigned char *p[200];
        for (unsigned i = 0; i < 200; i++) {
            p[i] = slab_malloc_epoch(a, 100, e);
            assert_non_null(p[i]);
            memset(p[i], (int)(unsigned char)((uintptr_t)p[i] >> 4), 100);
        }
        for (unsigned i = 0; i < 200; i++) {
            void *before = i % 17 ? p[i] : atomic_exchange(&mail[sup_rng_below(&rng, MAIL)], p[i]);
            if (before) assert_true(slab_free(a, before));
        }
        assert_true(epoch_close(a, e));
        if (round % 8 == 0) (void)slab_maintain(a, UINT64_MAX);
    }
    atomic_store(&done, true);
    for (unsigned i = 0; i < 2; i++) assert_int_equal(pthread_join(threads[i], NULL), 0);
    for (unsigned i = 0; i < MAIL; i++)
        if (mail[i]) assert_true(slab_free(a, mail[i]));
    atomic_store(&a_call_ns, 0);
    assert_int_equal(sup_live_objects(a), 0);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, start, stop)

int main(void) {
    const struct CMUnitTest tests[] = {
        TEST(closed_epochs), TEST(later_too),   TEST(by_maintenance),     TEST(ends_while_it_is_given),
        TEST(refused),       TEST(open_epochs), TEST(what_is_used_stays), TEST(beside_threads),
    };
    return cmocka_run_group_tests_name("epoch.decay", tests, NULL, NULL);
}
