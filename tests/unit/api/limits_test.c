/* Limits on what domains and epochs hold, children included: the memory that counts, the refunds, the refusals and
   their reports. */
#define _GNU_SOURCE
#include "identities.h"
#include "rng.h"
#include "unit.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#define UNIT ((size_t)16384)

static size_t fill(EpochDomain *d, size_t size) {
    size_t n = 0;
    errno = 0;
    while (epoch_domain_alloc(d, size)) n++;
    assert_int_equal(errno, ENOMEM);
    return n;
}

static void of_one(void **state, unsigned flags) {
    SlabAllocator *a = *state;
    for (int late = 0; late < 2; late++) {
        EpochDomain *d = epoch_domain_create_ex(a, "limited", flags);
        assert_int_equal(epoch_domain_held(d), 0);
        if (late) assert_non_null(epoch_domain_alloc(d, 100)); /* memory held before the limit counts */
        assert_true(epoch_domain_set_limit(d, 10 * UNIT + 5));
        assert_int_equal(epoch_domain_held(d), late ? UNIT : 0);
        size_t small = fill(d, 1000);
        assert_true(small >= 9 * 15);
        assert_int_equal(epoch_domain_held(d), 10 * UNIT);
        SlabEpochStats s;
        assert_true(slab_stats_epoch(a, SLAB_ALL_CLASSES, epoch_domain_epoch(d), &s));
        assert_int_equal(s.limit_bytes, 10 * UNIT + 5);
        assert_true(s.limit_failures_total >= 1);
        assert_int_equal(s.slab_count, 10);
        errno = 0;
        assert_null(epoch_domain_alloc(d, 100000));
        assert_int_equal(errno, ENOMEM);
        /* A reset refunds all; then one object may take all of it, and no more. */
        assert_true(epoch_domain_reset(d, SIZE_MAX));
        assert_int_equal(epoch_domain_held(d), 0);
        void *large = epoch_domain_alloc(d, 10 * UNIT);
        assert_non_null(large);
        assert_int_equal(epoch_domain_held(d), 10 * UNIT);
        assert_null(epoch_domain_alloc(d, 16));
        assert_null(slab_realloc(a, large, 11 * UNIT));
        assert_true(slab_free(a, large));
        assert_int_equal(epoch_domain_held(d), 0);
        large = epoch_domain_alloc(d, 3 * UNIT);
        large = slab_realloc(a, large, 5 * UNIT);
        assert_non_null(large);
        /* In churn the slab of the smaller one is kept for the next of its size. */
        assert_int_equal(epoch_domain_held(d), flags & EPOCH_CHURN ? 8 * UNIT : 5 * UNIT);
        /* A limit below the held memory stops growth. None: none. */
        assert_true(epoch_domain_set_limit(d, UNIT));
        assert_null(epoch_domain_alloc(d, 5000));
        assert_true(slab_owns(a, large));
        assert_true(epoch_domain_set_limit(d, 0));
        assert_non_null(epoch_domain_alloc(d, 100000));
        epoch_domain_destroy(d);
        errno = 0;
        assert_false(epoch_domain_set_limit(d, 1));
        assert_int_equal(errno, EINVAL);
        assert_int_equal(epoch_domain_held(d), 0);
    }
    sup_check_identities(a);
}

static void of_a_scope(void **state) { of_one(state, 0); }
static void of_churn(void **state) { of_one(state, EPOCH_CHURN); }

static void frees_are_refunded(void **state) {
    SlabAllocator *a = *state;
    for (unsigned flags = EPOCH_CHURN; flags <= EPOCH_SCOPE; flags++) {
        EpochId epoch = epoch_open(a, "limited", flags);
        assert_true(epoch_set_limit(a, epoch, 8 * UNIT));
        static void *p[4000];
        for (int round = 0; round < 3; round++) {
            size_t n = 0;
            while (n < 4000 && (p[n] = slab_malloc_epoch(a, 200, epoch)) != NULL) n++;
            assert_true(n >= 7 * UNIT / 208 && n < 4000);
            while (n > 0) assert_true(slab_free(a, p[--n]));
        }
        assert_true(epoch_close(a, epoch));
        assert_int_equal(epoch_state(a, epoch), EPOCH_CLOSED);
        errno = 0;
        assert_false(epoch_set_limit(a, epoch, 1));
        assert_int_equal(errno, EINVAL);
    }
    sup_check_identities(a);
}

static void of_a_tree(void **state) {
    SlabAllocator *a = *state;
    EpochDomain *root = epoch_domain_create_ex(a, "root", 0), *c = epoch_domain_create_child(root, "c", 0);
    EpochDomain *g = epoch_domain_create_child(c, "g", EPOCH_CHURN), *other = epoch_domain_create(a);
    assert_true(epoch_domain_set_limit(root, 12 * UNIT) && epoch_domain_set_limit(c, 8 * UNIT));
    SlabEpochStats s;
    assert_true(slab_stats_epoch(a, SLAB_ALL_CLASSES, epoch_domain_epoch(g), &s));
    assert_int_equal(s.parent_epoch_id, epoch_domain_epoch(c));
    (void)fill(g, 4000);
    assert_int_equal(epoch_domain_held(g), 8 * UNIT);
    assert_int_equal(epoch_domain_held(c), 8 * UNIT);
    assert_int_equal(epoch_domain_held(root), 8 * UNIT);
    (void)fill(root, 4000);
    assert_int_equal(epoch_domain_held(root), 12 * UNIT);
    assert_true(slab_stats_epoch(a, SLAB_ALL_CLASSES, epoch_domain_epoch(c), &s));
    assert_true(s.limit_failures_total >= 1);
    /* A child that moves counts for its new parent. */
    assert_non_null(epoch_domain_alloc(other, 10));
    assert_true(epoch_domain_move(c, other));
    assert_int_equal(epoch_domain_held(root), 4 * UNIT);
    assert_int_equal(epoch_domain_held(other), 9 * UNIT);
    assert_int_equal(epoch_domain_held(c), 8 * UNIT);
    assert_true(epoch_domain_move(c, root));
    assert_int_equal(epoch_domain_held(other), UNIT);
    assert_true(epoch_domain_reset(c, SIZE_MAX)); /* ends g */
    assert_int_equal(epoch_domain_held(root), 4 * UNIT);
    /* A domain that drains is out of the tree. */
    EpochDomain *d = epoch_domain_create_child(root, "drains", EPOCH_DOMAIN_DRAIN);
    EpochId drained = epoch_domain_epoch(d);
    void *p = epoch_domain_alloc(d, 3 * UNIT), *q = epoch_domain_alloc(d, 100);
    assert_int_equal(epoch_domain_held(root), 8 * UNIT);
    assert_true(epoch_domain_end(d));
    assert_int_equal(epoch_domain_held(root), 4 * UNIT);
    assert_int_equal(epoch_state(a, drained), EPOCH_CLOSING);
    assert_true(slab_free(a, p) && slab_free(a, q));
    assert_int_equal(epoch_state(a, drained), EPOCH_CLOSED);
    assert_int_equal(epoch_domain_held(root), 4 * UNIT);
    epoch_domain_destroy(c);
    assert_int_equal(epoch_domain_held(root), 4 * UNIT);
    epoch_domain_destroy(root);
    epoch_domain_destroy(other);
    sup_check_identities(a);
}

/* Several threads charge one limit: together they have all of it, and no more. */
typedef struct taker {
    EpochDomain *domain;
    SlabAllocator *a;
} taker;
static void *take_and_free(void *arg) {
    const taker *t = arg;
    for (int round = 0; round < 200; round++) {
        void *p[30];
        int n = 0;
        while (n < 30 && (p[n] = epoch_domain_alloc(t->domain, n % 3 ? 3000 : 20000)) != NULL) n++;
        if (epoch_domain_held(t->domain) > 64 * UNIT) return (void *)1;
        while (n > 0)
            if (!slab_free(t->a, p[--n])) return (void *)2;
    }
    slab_thread_idle();
    return NULL;
}
static void by_several_threads(void **state) {
    SlabAllocator *a = *state;
    for (unsigned flags = EPOCH_CHURN; flags <= EPOCH_SCOPE; flags++) {
        EpochDomain *root = epoch_domain_create_ex(a, "shared", EPOCH_DOMAIN_SHARED | flags);
        EpochDomain *c = epoch_domain_create_child(root, NULL, flags);
        assert_true(epoch_domain_set_limit(root, 64 * UNIT));
        pthread_t t[4];
        taker of[4];
        void *result;
        for (int i = 0; i < 4; i++) {
            of[i] = (taker){i % 2 ? root : c, a};
            assert_int_equal(pthread_create(&t[i], NULL, take_and_free, &of[i]), 0);
        }
        for (int i = 0; i < 4; i++) {
            assert_int_equal(pthread_join(t[i], &result), 0);
            assert_null(result);
        }
        assert_true(epoch_domain_reset(root, SIZE_MAX));
        assert_int_equal(epoch_domain_held(root), 0);
        epoch_domain_destroy(root);
    }
    sup_check_identities(a);
}

/* A limit that comes while another thread is in the middle of allocating counts that one from then on. */
typedef struct busy {
    EpochDomain *domain;
    SlabAllocator *a;
    _Atomic int phase; /* 1: it allocates; 2: there is a limit */
} busy;
static void *keep_busy(void *arg) {
    busy *b = arg;
    uintptr_t n = 0;
    void *p[64];
    do {
        for (int i = 0; i < 64; i++) p[i] = epoch_domain_alloc(b->domain, 100);
        int zero = 0;
        (void)atomic_compare_exchange_strong(&b->phase, &zero, 1);
        for (int i = 0; i < 64; i++) (void)slab_free(b->a, p[i]);
    } while (atomic_load(&b->phase) < 2);
    while (n < 2000 && epoch_domain_alloc(b->domain, 1000)) n++;
    return (void *)n;
}
static void of_a_busy_thread(void **state) {
    SlabAllocator *a = *state;
    for (int round = 0; round < 400; round++) {
        busy b = {epoch_domain_create_ex(a, NULL, EPOCH_DOMAIN_SHARED | (round % 2 ? EPOCH_CHURN : EPOCH_SCOPE)), a, 0};
        pthread_t t;
        void *n;
        assert_int_equal(pthread_create(&t, NULL, keep_busy, &b), 0);
        while (atomic_load(&b.phase) == 0) sched_yield();
        assert_true(epoch_domain_set_limit(b.domain, 8 * UNIT));
        atomic_store(&b.phase, 2);
        assert_int_equal(pthread_join(t, &n), 0);
        assert_true((uintptr_t)n <= 8 * 16);
        assert_true(epoch_domain_held(b.domain) <= 8 * UNIT);
        assert_true(epoch_domain_end(b.domain));
    }
}

/* With guards an object takes more, and all of it is within the limit. */
static void of_guarded(void **state) {
    (void)state;
    SlabOptions options = {.size = sizeof options, .guard_spans = 1};
    SlabAllocator *a = slab_allocator_create_ex(&options);
    EpochDomain *d = epoch_domain_create(a);
    for (size_t units = 1; units < 20; units++) {
        assert_true(epoch_domain_set_limit(d, units * UNIT));
        while (epoch_domain_alloc(d, 8192)) {
        }
        assert_true(epoch_domain_held(d) <= units * UNIT);
        assert_true(epoch_domain_reset(d, 0));
    }
    slab_allocator_free(a);
}

/* The line: which limit, of which label, and not twice in a second. */
static void told_once(void **state) {
    SlabAllocator *a = *state;
    int fds[2], before = dup(2);
    char text[4096] = "";
    assert_int_equal(pipe(fds), 0);
    assert_true(dup2(fds[1], 2) == 2);
    EpochDomain *root = epoch_domain_create_ex(a, "the request", 0), *c = epoch_domain_create_child(root, "a query", 0);
    bool set = epoch_domain_set_limit(root, 2 * UNIT);
    while (epoch_domain_alloc(c, 4000)) {
    }
    for (int i = 0; i < 100; i++) (void)epoch_domain_alloc(c, 4000);
    (void)dup2(before, 2);
    (void)close(before);
    (void)close(fds[1]);
    ssize_t n = read(fds[0], text, sizeof text - 1);
    (void)close(fds[0]);
    assert_true(set && n > 0);
    assert_non_null(strstr(text, "tslab: limit of 32768 bytes reached: epoch "));
    assert_non_null(strstr(text, "\"the request\""));
    assert_ptr_equal(strchr(text, '\n'), text + n - 1);
    epoch_domain_destroy(root);
}

/* Slabs that bins keep of the epoch count, and go back before an allocation is refused. */
static void what_is_kept_goes_first(void **state) {
    SlabAllocator *a = *state;
    EpochDomain *d = epoch_domain_create_ex(a, "kept", EPOCH_CHURN);
    assert_true(epoch_domain_set_limit(d, 8 * UNIT));
    for (size_t size = 3 * UNIT; size <= 8 * UNIT; size += UNIT) { /* slabs of three and four units, then spans */
        void *p = epoch_domain_alloc(d, size);
        assert_non_null(p);
        assert_true(slab_free(a, p));
        void *small = epoch_domain_alloc(d, 100);
        assert_true(small && slab_free(a, small));
    }
    SlabEpochStats s;
    assert_true(slab_stats_epoch(a, SLAB_ALL_CLASSES, epoch_domain_epoch(d), &s));
    assert_int_equal(s.limit_failures_total, 0);
    epoch_domain_destroy(d);
}

/* Below a unit it is one, as with slab_set_budget: something fits. */
static void one_unit_at_least(void **state) {
    SlabAllocator *a = *state;
    for (unsigned flags = 0; flags <= EPOCH_CHURN; flags++) {
        EpochDomain *d = epoch_domain_create_ex(a, NULL, flags), *e = epoch_domain_create_ex(a, NULL, flags);
        assert_true(epoch_domain_set_limit(d, 1000) && epoch_set_limit(a, epoch_domain_epoch(e), 1));
        assert_non_null(epoch_domain_alloc(d, 100));
        assert_non_null(epoch_domain_alloc(e, 100));
        assert_true(fill(d, 1000) > 0 && epoch_domain_held(d) == UNIT);
        SlabEpochStats s;
        assert_true(slab_stats_epoch(a, SLAB_ALL_CLASSES, epoch_domain_epoch(d), &s));
        assert_int_equal(s.limit_bytes, UNIT);
        epoch_domain_destroy(d);
        epoch_domain_destroy(e);
    }
}

/* ---- all kinds of objects, beside memory that others have left ---- */

#define OBJECTS 64

static size_t a_size(struct sup_rng *rng) {
    static const size_t most[] = {48, 600, 9000, 17 * UNIT / 16, 4 * UNIT, 20 * UNIT, 70 * UNIT};
    uint64_t kind = sup_rng_below(rng, 100);
    return kind == 0 ? ((size_t)33 << 20) + sup_rng_below(rng, (size_t)8 << 20) : sup_rng_below(rng, most[kind % 7]);
}

/* The memory that an object without a limit leaves: the thread and the allocator retain spans of any length. */
static void leave_some(SlabAllocator *a, struct sup_rng *rng) {
    void *left[8];
    for (int i = 0; i < 8; i++) assert_non_null(left[i] = slab_malloc(a, UNIT + sup_rng_below(rng, 40 * UNIT)));
    for (int i = 0; i < 8; i++) assert_true(slab_free(a, left[i]));
}

static void *one_more(SlabAllocator *a, EpochId epoch, struct sup_rng *rng) {
    size_t size = a_size(rng);
    switch (sup_rng_below(rng, 4)) {
    case 0: return slab_calloc_epoch(a, 1, size < UNIT * 100 ? size : 100, epoch);
    case 1: return slab_aligned_epoch(a, (size_t)1 << sup_rng_below(rng, 18), size, epoch);
    default: return slab_malloc_epoch(a, size, epoch);
    }
}

/* Returns how many allocations were refused. */
static size_t never_above(SlabAllocator *a, unsigned flags, uint64_t seed) {
    struct sup_rng rng = {seed};
    EpochDomain *parent = epoch_domain_create_ex(a, NULL, flags), *d = parent;
    size_t limit = UNIT * (1 + sup_rng_below(&rng, seed % 4 ? 60 : 4000)), refused = 0;
    if (seed % 2) assert_non_null(d = epoch_domain_create_child(parent, NULL, flags));
    assert_true(epoch_domain_set_limit(parent, limit));
    void *objects[OBJECTS] = {NULL};
    for (int step = 0; step < 600; step++) {
        void **p = &objects[sup_rng_below(&rng, OBJECTS)];
        if (step % 16 == 0) leave_some(a, &rng);
        if (!*p) {
            *p = one_more(a, epoch_domain_epoch(d), &rng);
            refused += *p == NULL;
        } else if (sup_rng_below(&rng, 3) == 0) {
            void *q = slab_realloc(a, *p, a_size(&rng));
            *p = q ? q : *p;
        } else {
            assert_true(slab_free(a, *p));
            *p = NULL;
        }
        if (epoch_domain_held(parent) > limit)
            fail_msg("seed %d, step %d: %zu units, of %zu", (int)seed, step, epoch_domain_held(parent) / UNIT,
                     limit / UNIT);
    }
    if (d != parent) assert_int_equal(epoch_domain_held(d), epoch_domain_held(parent));
    epoch_domain_destroy(parent);
    sup_check_identities(a);
    return refused;
}

static void never_above_the_limit(void **state) {
    static const unsigned flags[] = {0, EPOCH_CHURN, EPOCH_SCOPE | EPOCH_DOMAIN_SHARED};
    size_t refused = 0;
    for (uint64_t seed = 1; seed <= 40; seed++) refused += never_above(*state, flags[seed % 3], seed);
    assert_true(refused > 1000);
}

static void never_above_with_guards(void **state) {
    (void)state;
    SlabOptions options = {.size = sizeof options, .guard_spans = 1};
    SlabAllocator *a = slab_allocator_create_ex(&options);
    for (uint64_t seed = 1; seed <= 6; seed++) (void)never_above(a, seed % 2 ? EPOCH_SCOPE : EPOCH_CHURN, seed);
    slab_allocator_free(a);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        SUP_WITH_ALLOCATOR(one_unit_at_least),
        SUP_WITH_ALLOCATOR(of_a_scope),
        SUP_WITH_ALLOCATOR(of_churn),
        SUP_WITH_ALLOCATOR(what_is_kept_goes_first),
        SUP_WITH_ALLOCATOR(frees_are_refunded),
        SUP_WITH_ALLOCATOR(of_a_tree),
        SUP_WITH_ALLOCATOR(told_once),
        SUP_WITH_ALLOCATOR(by_several_threads),
        SUP_WITH_ALLOCATOR(of_a_busy_thread),
        cmocka_unit_test(of_guarded),
        SUP_WITH_ALLOCATOR(never_above_the_limit),
        cmocka_unit_test(never_above_with_guards),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
