/* Churn domains start small: one slab of mixed sizes, until more comes than fits there. */
#define _GNU_SOURCE
#include "check.h"
#include "identities.h"
#include "pattern.h"
#include "proc.h"
#include "unit.h"

#include "api/runtime.h"

#include <errno.h>
#include <string.h>

#define UNIT ((size_t)16384)

static SlabEpochStats stats_of(SlabAllocator *a, EpochId e, uint32_t cls) {
    SlabEpochStats s;
    assert_true(slab_stats_epoch(a, cls, e, &s));
    return s;
}

/* Under a memory tool it is a churn epoch as any. */
static bool starts_small(SlabAllocator *a) { return !ts_allocator_find(ts_token(a))->care; }

static void few_objects(void **state) {
    SlabAllocator *a = *state;
    static const size_t sizes[] = {0, 16, 48, 64, 100, 128, 512, 768, 1024, 4096};
    EpochDomain *d = epoch_domain_create_ex(a, "session", EPOCH_CHURN);
    void *p[sizeof sizes / sizeof *sizes];
    SlabHandle h[sizeof sizes / sizeof *sizes];
    for (unsigned i = 0; i < sizeof sizes / sizeof *sizes; i++) {
        assert_non_null(p[i] = alloc_obj_epoch(a, sizes[i], epoch_domain_epoch(d), &h[i]));
        sup_pattern_fill(p[i], sizes[i], i);
        bool power = sizes[i] >= 32 && (sizes[i] & (sizes[i] - 1)) == 0;
        assert_int_equal((uintptr_t)p[i] % (power ? sizes[i] : 16), 0);
    }
    assert_true(!starts_small(a) || epoch_domain_held(d) == UNIT);
    for (unsigned i = 0; i < sizeof sizes / sizeof *sizes; i++) {
        assert_true(sup_pattern_check(p[i], sizes[i], i) && slab_usable_size(a, p[i]) >= sizes[i]);
        assert_ptr_equal(slab_handle_get(a, h[i]), p[i]);
        assert_true(i % 2 ? slab_free(a, p[i]) : free_obj(a, h[i]));
        assert_false(slab_free(a, p[i]));
        assert_null(slab_handle_get(a, h[i]));
    }
    assert_int_equal(stats_of(a, epoch_domain_epoch(d), SLAB_ALL_CLASSES).live_objects, 0);
    sup_check_identities(a);
    epoch_domain_destroy(d);
    sup_check_empty(a);
}

/* Of the allocator, in slabs of mixed sizes. */
static uint64_t mixed_objects(SlabAllocator *a) {
    SlabClassStats s;
    assert_true(slab_stats_class(a, SLAB_CLASS_SCOPE, &s));
    return s.live_objects;
}

/* Beyond the first slab it is a churn epoch as any: freed slots are used again. */
static void more_than_fits(void **state) {
    SlabAllocator *a = *state;
    enum { MANY = 3000 };
    static void *p[MANY];
    EpochDomain *d = epoch_domain_create_ex(a, NULL, EPOCH_CHURN);
    EpochId e = epoch_domain_epoch(d);
    for (int round = 0; round < 3; round++) {
        for (unsigned i = 0; i < MANY; i++) {
            assert_non_null(p[i] = i % 2 ? epoch_domain_alloc(d, 100) : slab_malloc_epoch(a, 128, e));
            sup_pattern_fill(p[i], 100, i);
        }
        uint64_t first = mixed_objects(a);
        if (starts_small(a))
            assert_true(first > 100 && first < 200 && stats_of(a, e, SLAB_CLASS_SCOPE).slab_count == 1);
        for (unsigned i = 0; i < MANY; i++) assert_true(sup_pattern_check(p[i], 100, i));
        for (int again = 0; again < 5; again++) {
            for (unsigned i = MANY / 2; i < MANY; i++) assert_true(slab_free(a, p[i]));
            for (unsigned i = MANY / 2; i < MANY; i++) {
                assert_non_null(p[i] = slab_malloc_epoch(a, 100 + i % 2 * 28, e));
                sup_pattern_fill(p[i], 100, i);
            }
        }
        uint64_t held = epoch_domain_held(d);
        assert_true(held < 2 * (uint64_t)MANY * 128);
        for (unsigned i = 0; i < MANY; i++) assert_true(sup_pattern_check(p[i], 100, i) && slab_free(a, p[i]));
        assert_int_equal(stats_of(a, e, SLAB_ALL_CLASSES).live_objects, 0);
        sup_check_identities(a);
        assert_true(epoch_domain_reset(d, SIZE_MAX)); /* it starts small again */
    }
    epoch_domain_destroy(d);
    sup_check_empty(a);
}

/* One object at a time, for ever. */
static void one_at_a_time(void **state) {
    SlabAllocator *a = *state;
    EpochDomain *d = epoch_domain_create_ex(a, NULL, EPOCH_CHURN);
    assert_true(epoch_domain_enter(d));
    for (unsigned i = 0; i < 10000; i++) {
        void *p = slab_alloc(64);
        assert_int_equal((uintptr_t)p % 64, 0);
        assert_true(slab_release(p) && (!starts_small(a) || epoch_domain_held(d) <= 2 * UNIT));
    }
    epoch_domain_destroy(d);
}

typedef struct other {
    SlabAllocator *a;
    EpochDomain *d;
    void *p[100];
} other;
static void *frees_and_allocates(void *arg) {
    other *o = arg;
    for (unsigned i = 0; i < 100; i++) {
        assert_true(sup_pattern_check(o->p[i], 48, i) && slab_free(o->a, o->p[i]));
        o->p[i] = slab_malloc_epoch(o->a, 48, epoch_domain_epoch(o->d));
        sup_pattern_fill(o->p[i], 48, i);
    }
    return NULL;
}
static void with_another_thread(void **state) {
    other o = {.a = *state, .d = epoch_domain_create_ex(*state, NULL, EPOCH_CHURN)};
    for (int round = 0; round < 50; round++) {
        for (unsigned i = 0; i < 100; i++)
            sup_pattern_fill(o.p[i] = slab_malloc_epoch(o.a, 48, epoch_domain_epoch(o.d)), 48, i);
        sup_in_thread(frees_and_allocates, &o);
        for (unsigned i = 0; i < 100; i++) assert_true(sup_pattern_check(o.p[i], 48, i) && slab_free(o.a, o.p[i]));
        sup_check_identities(o.a);
    }
    assert_int_equal(stats_of(o.a, epoch_domain_epoch(o.d), SLAB_ALL_CLASSES).live_objects, 0);
    epoch_domain_destroy(o.d);
    sup_check_empty(o.a);
}

/* Closed with live objects it drains as any; with a thread's bins in use, too. */
static void closed(void **state) {
    SlabAllocator *a = *state;
    for (unsigned count = 1; count <= 1001; count += 1000) {
        EpochDomain *d = epoch_domain_create_ex(a, NULL, EPOCH_CHURN | EPOCH_DOMAIN_DRAIN);
        EpochId e = epoch_domain_epoch(d);
        void *p[1001];
        for (unsigned i = 0; i < count; i++) assert_non_null(p[i] = epoch_domain_alloc(d, 200));
        epoch_domain_destroy(d);
        assert_int_equal(epoch_state(a, e), EPOCH_CLOSING);
        for (unsigned i = 0; i < count; i++) assert_true(slab_free(a, p[i]));
        assert_int_equal(epoch_state(a, e), EPOCH_CLOSED);
        sup_check_empty(a);
    }
}

static bool begins_small(SlabAllocator *a) {
    EpochId e = epoch_open(a, NULL, EPOCH_CHURN);
    for (unsigned i = 0; i < 100; i++) assert_int_equal((uintptr_t)slab_malloc_epoch(a, 64, e) % 64, 0);
    bool small = stats_of(a, e, SLAB_CLASS_SCOPE).slab_count != 0;
    assert_int_equal(stats_of(a, e, (uint32_t)slab_class_of(64)).live_objects, 100); /* in any slab */
    assert_true(epoch_destroy(a, e));
    return small;
}

/* While many closed epochs hold objects the epochs of the allocator start small, too. */
static void many_that_drain(void **state) {
    SlabAllocator *a = *state;
    enum { MANY = 70, LEAST = 64 };
    EpochId e[MANY];
    void *p[MANY];
    for (unsigned i = 0; i < MANY; i++) {
        if (i % 8 == 0) assert_true(begins_small(a) == (i >= LEAST && starts_small(a)));
        e[i] = epoch_open(a, NULL, i % 3 ? EPOCH_CHURN : EPOCH_SCOPE);
        p[i] = slab_malloc_epoch(a, 100, e[i]);
        assert_true(epoch_close(a, e[i]));
    }
    for (unsigned i = 0; i < MANY; i++) {
        assert_int_equal(epoch_state(a, e[i]), EPOCH_CLOSING);
        assert_true(i % 2 ? slab_free(a, p[i]) : epoch_destroy(a, e[i]));
        assert_int_equal(epoch_state(a, e[i]), EPOCH_CLOSED);
        if (i % 8 == 7) assert_false(begins_small(a));
    }
    for (unsigned i = 0; i < MANY; i++) assert_true(epoch_close(a, epoch_open(a, NULL, EPOCH_CHURN)));
    assert_false(begins_small(a));
    sup_check_empty(a);
}

/* An epoch that is over gets none, by the way that is short either. */
static void over(void **state) {
    SlabAllocator *a = *state;
    EpochDomain *d = epoch_domain_create_ex(a, NULL, EPOCH_CHURN);
    EpochId e = epoch_domain_epoch(d);
    assert_non_null(slab_malloc_epoch(a, 16, e));
    assert_true(epoch_close(a, e));
    assert_null(slab_malloc_epoch(a, 16, e));
    assert_null(slab_malloc_epoch(a, 16, EPOCH_NONE));
    epoch_domain_destroy(d);
    assert_null(slab_malloc_epoch(a, 16, e));
    /* Its block is another's. */
    EpochDomain *next[20];
    for (unsigned i = 0; i < 20; i++) {
        next[i] = epoch_domain_create_ex(a, NULL, EPOCH_CHURN);
        assert_non_null(epoch_domain_alloc(next[i], 16));
        assert_null(slab_malloc_epoch(a, 16, e));
    }
    for (unsigned i = 0; i < 20; i++) epoch_domain_destroy(next[i]);
    sup_check_empty(a);
}

/* Sampling comes and goes: no fast path finds the first slab meanwhile. */
static void sampled_meanwhile(void **state) {
    SlabAllocator *a = *state;
    EpochDomain *d = epoch_domain_create_ex(a, NULL, EPOCH_CHURN);
    assert_true(epoch_domain_enter(d));
    for (unsigned i = 0; i < 100; i++) {
        if (i % 10 == 5) assert_true(slab_set_sample_stacks(a, i % 20 == 5 ? 1024 : 0));
        assert_non_null(slab_alloc(16));
        assert_int_equal((uintptr_t)slab_alloc(64) % 64, 0);
        assert_int_equal((uintptr_t)slab_malloc_epoch(a, 32, epoch_domain_epoch(d)) % 32, 0);
    }
    epoch_domain_destroy(d);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        SUP_WITH_ALLOCATOR(few_objects),     SUP_WITH_ALLOCATOR(more_than_fits),
        SUP_WITH_ALLOCATOR(one_at_a_time),   SUP_WITH_ALLOCATOR(with_another_thread),
        SUP_WITH_ALLOCATOR(closed),          SUP_WITH_ALLOCATOR(sampled_meanwhile),
        SUP_WITH_ALLOCATOR(many_that_drain), SUP_WITH_ALLOCATOR(over),
    };
    return cmocka_run_group_tests_name("api.small", tests, NULL, NULL);
}
