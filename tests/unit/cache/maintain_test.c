/* The bins of a resting thread give memory back, by a clock that the test moves: empty slabs while it waits, the
   objects of its magazines in its next call. Live objects stay. */
#include "api/runtime.h"
#include "identities.h"
#include "os/os.h"
#include "supply/supply.h"
#include "unit.h"

#include <pthread.h>
#include <semaphore.h>
#include <stdatomic.h>
#include <string.h>

enum { SMALL = 20000, SIZES = 3, SECONDS = 20 };
static const size_t sizes[SIZES] = {32, 240, 1000};
#define SLAB ((uint64_t)16384)

static ts_os_table table;
static atomic_ullong now_ns;
static uint64_t test_time(void) { return atomic_load(&now_ns); }

typedef struct keeper {
    SlabAllocator *a;
    sem_t rests, goes_on;
    unsigned char *kept[SIZES];
    bool right;
} keeper;

static void rest(keeper *k) {
    sem_post(&k->rests);
    sem_wait(&k->goes_on);
}

static bool pairs(SlabAllocator *a, size_t size, unsigned count) {
    static _Thread_local void *p[SMALL];
    bool right = true;
    for (unsigned i = 0; i < count; i++) right = (p[i] = slab_malloc(a, size)) != NULL && right;
    for (unsigned i = 0; i < count; i++) right = slab_free(a, p[i]) && right;
    return right;
}

static void *works_and_rests(void *arg) {
    keeper *k = arg;
    bool right = true;
    for (unsigned s = 0; s < SIZES; s++) {
        right = (k->kept[s] = slab_malloc(k->a, sizes[s])) != NULL && right;
        memset(k->kept[s], (int)s + 1, sizes[s]);
        right = pairs(k->a, sizes[s], SMALL) && right;
    }
    rest(k);
    right = pairs(k->a, sizes[0], 1) && right;
    rest(k);
    for (unsigned s = 0; s < SIZES; s++) {
        for (size_t i = 0; i < sizes[s]; i++) right = k->kept[s][i] == s + 1 && right;
        right = pairs(k->a, sizes[s], 1000) && slab_free(k->a, k->kept[s]) && right;
    }
    k->right = right;
    return NULL;
}

static uint64_t committed(SlabAllocator *a) {
    SlabGlobalStats g;
    assert_true(slab_stats_global(a, &g));
    return g.committed_bytes;
}

/* Looks twice a second, for so long that the bins are looked at twice. */
static void maintain_while(SlabAllocator *a) {
    for (unsigned half = 0; half < 2 * SECONDS; half++) {
        (void)slab_maintain(a, UINT64_MAX);
        atomic_fetch_add(&now_ns, 500000000);
    }
}

static void begin_with(keeper *k, pthread_t *t, void *(*run)(void *), size_t retain) {
    SlabOptions options = {.size = sizeof options, .retain_bytes = retain};
    table = ts_os_native;
    table.wall_ns = table.coarse_ns = test_time;
    atomic_store(&now_ns, ts_os_native.wall_ns());
    ts_os = &table;
    *k = (keeper){.a = slab_allocator_create_ex(&options)};
    assert_non_null(k->a);
    assert_int_equal(sem_init(&k->rests, 0, 0), 0);
    assert_int_equal(sem_init(&k->goes_on, 0, 0), 0);
    assert_int_equal(pthread_create(t, NULL, run, k), 0);
    sem_wait(&k->rests);
    (void)slab_maintain(k->a, UINT64_MAX);
}

static void begin(keeper *k, pthread_t *t, void *(*run)(void *)) { begin_with(k, t, run, 1); }

static void end(keeper *k, pthread_t t) {
    assert_int_equal(pthread_join(t, NULL), 0);
    assert_true(k->right);
    sup_check_identities(k->a);
    slab_allocator_free(k->a);
    ts_os = &ts_os_native;
}

static void resting_bins(void **state) {
    (void)state;
    keeper k;
    pthread_t t;
    begin(&k, &t, works_and_rests);
    assert_true(committed(k.a) > 100 * SLAB); /* an eighth of the slabs of each */
    maintain_while(k.a);
    /* The objects that live are of a slab each; the 64 of a magazine of one more, of two and of five; and each bin
       keeps its first one. */
    assert_in_range(committed(k.a), SIZES * SLAB, (2 * SIZES + 1 + 2 + 5) * SLAB);
    sem_post(&k.goes_on);
    sem_wait(&k.rests);
    maintain_while(k.a);
    /* And where its last object was, and the first of that bin, which it has just used. */
    assert_in_range(committed(k.a), SIZES * SLAB, (SIZES + 2) * SLAB);
    sem_post(&k.goes_on);
    end(&k, t);
}

/* A look of this thread at a time before that of the last look, which another thread has read: nobody has rested for
   long. */
static void earlier_times(void **state) {
    (void)state;
    keeper k;
    pthread_t t;
    begin(&k, &t, works_and_rests);
    uint64_t before = committed(k.a);
    for (unsigned i = 0; i < 4; i++) {
        atomic_fetch_sub(&now_ns, 1);
        (void)slab_maintain(k.a, UINT64_MAX);
    }
    assert_int_equal(committed(k.a), before);
    sem_post(&k.goes_on);
    sem_wait(&k.rests);
    sem_post(&k.goes_on);
    end(&k, t);
}

/* Bins with more slabs than one visit looks at, most of them with an object that lives: those behind them get their
   turn. */
enum { EACH = 68, PINNED = 700 };
static void *pins_and_rests(void *arg) {
    keeper *k = arg;
    static _Thread_local void *pins[PINNED], *rest_of[PINNED][EACH - 1];
    bool right = true;
    for (unsigned i = 0; i < PINNED; i++) {
        right =
            (pins[i] = slab_malloc(k->a, 240)) != NULL && right; /* one in each slab, if a slab is filled at a time */
        for (unsigned j = 0; j < EACH - 1; j++) right = (rest_of[i][j] = slab_malloc(k->a, 240)) != NULL && right;
    }
    for (unsigned i = 0; i < PINNED; i++)
        for (unsigned j = 0; j < EACH - 1; j++) right = slab_free(k->a, rest_of[i][j]) && right;
    right = pairs(k->a, 96, 2000) && pairs(k->a, 240, 2000) && pairs(k->a, 1000, SMALL) && right;
    rest(k);
    for (unsigned i = 0; i < PINNED; i++) right = slab_free(k->a, pins[i]) && right;
    k->right = right;
    return NULL;
}

static void long_bins(void **state) {
    (void)state;
    keeper k;
    pthread_t t;
    begin(&k, &t, pins_and_rests);
    uint64_t before = committed(k.a);
    maintain_while(k.a);
    /* An eighth of 1,250 slabs was kept for 1,000 bytes; of that the magazine has five, and the bin one. */
    assert_true(before - committed(k.a) > 120 * SLAB);
    assert_in_range(committed(k.a), PINNED * SLAB / 2, (PINNED + 20) * SLAB);
    sem_post(&k.goes_on);
    end(&k, t);
}

/* Many threads that rest, and calls that have time for no more than one of them each. */
enum { MANY = 12 };
static void *keeps_retained(void *arg) {
    keeper *k = arg;
    EpochDomain *d = epoch_domain_create(k->a);
    bool right = d != NULL && epoch_domain_enter(d);
    for (unsigned i = 0; i < 10 * SLAB / 4096; i++) right = slab_alloc(4096) != NULL && right;
    epoch_domain_destroy(d);
    rest(k);
    k->right = right;
    return NULL;
}

static unsigned count_retained(SlabAllocator *a) {
    unsigned n = 0;
    const ts_allocator *record = ts_allocator_find(ts_token(a));
    for (const ts_share *s = ts_load_acquire(&record->shares); s; s = s->allocator_next)
        n += s->heap != ts_thread.heap && ts_share_retained_units(s) != 0;
    return n;
}

static void each_gets_its_turn(void **state) {
    (void)state;
    static keeper keepers[MANY];
    pthread_t threads[MANY];
    begin(&keepers[0], &threads[0], keeps_retained);
    SlabAllocator *a = keepers[0].a;
    for (unsigned i = 1; i < MANY; i++) {
        keepers[i].a = a;
        assert_int_equal(sem_init(&keepers[i].rests, 0, 0) | sem_init(&keepers[i].goes_on, 0, 0), 0);
        assert_int_equal(pthread_create(&threads[i], NULL, keeps_retained, &keepers[i]), 0);
        sem_wait(&keepers[i].rests);
    }
    if (!ts_os->barrier_all()) {
        print_message("skipped: no barrier for all threads, so nobody visits a thread that rests\n");
    } else {
        assert_int_equal(count_retained(a), MANY);
        /* Two looks each, and as many at this thread. */
        for (unsigned i = 0; i < 2 * (MANY + 1); i++) {
            (void)slab_maintain(a, 0);
            atomic_fetch_add(&now_ns, 300000000);
        }
        assert_int_equal(count_retained(a), 0);
    }
    for (unsigned i = 0; i < MANY; i++) {
        sem_post(&keepers[i].goes_on);
        assert_int_equal(pthread_join(threads[i], NULL), 0);
        assert_true(keepers[i].right);
    }
    sup_check_identities(a);
    slab_allocator_free(a);
    ts_os = &ts_os_native;
}

/* Retained memory of an allocator from which nobody needs memory. */
#define MIB ((uint64_t)1 << 20)
enum { SPANS = 160, SPAN_KIB = 128, LESS_HALVES = 20, MORE_HALVES = 20 };
static bool spans(SlabAllocator *a, unsigned count) {
    static _Thread_local void *p[SPANS];
    bool right = true;
    for (unsigned i = 0; i < count; i++) right = (p[i] = slab_malloc(a, (size_t)SPAN_KIB << 10)) != NULL && right;
    for (unsigned i = 0; i < count; i++) right = slab_free(a, p[i]) && right;
    return right;
}

static void *makes_retained(void *arg) {
    keeper *k = arg;
    bool right = spans(k->a, SPANS) && pairs(k->a, 1000, SMALL);
    rest(k);
    k->right = right;
    return NULL;
}

static void *makes_retained_and_works(void *arg) {
    keeper *k = arg;
    bool right = spans(k->a, SPANS);
    for (unsigned half = 0; half < LESS_HALVES + MORE_HALVES; half++) {
        rest(k);
        right = spans(k->a, 1) && right;
    }
    rest(k);
    k->right = right;
    return NULL;
}

static void half_seconds(const keeper *k, unsigned count) {
    for (unsigned half = 0; half < count; half++) {
        (void)slab_maintain(k->a, UINT64_MAX);
        atomic_fetch_add(&now_ns, 500000000);
    }
}

static void all_rest(void **state) {
    (void)state;
    keeper k;
    pthread_t t;
    begin_with(&k, &t, makes_retained, 0);
    half_seconds(&k, LESS_HALVES);
    assert_true(committed(k.a) > 4 * MIB);
    half_seconds(&k, MORE_HALVES);
    if (ts_os->barrier_all())
        assert_in_range(committed(k.a), 0, MIB / 4); /* the objects of the magazine, and a slab beside */
    else
        print_message("skipped: no barrier for all threads, so nobody visits a thread that rests\n");
    sem_post(&k.goes_on);
    end(&k, t);
}

static void budget_of_its_own(void **state) {
    (void)state;
    keeper k;
    pthread_t t;
    begin_with(&k, &t, makes_retained, 32 * MIB);
    half_seconds(&k, LESS_HALVES + MORE_HALVES);
    assert_true(committed(k.a) > 4 * MIB);
    sem_post(&k.goes_on);
    end(&k, t);
}

/* A large object twice a second, which is nothing but retained memory taken and given. */
static void one_works(void **state) {
    (void)state;
    keeper k;
    pthread_t t;
    begin_with(&k, &t, makes_retained_and_works, 0);
    for (unsigned half = 0; half < LESS_HALVES + MORE_HALVES; half++) {
        half_seconds(&k, 1);
        sem_post(&k.goes_on);
        sem_wait(&k.rests);
    }
    assert_true(committed(k.a) > 4 * MIB);
    sem_post(&k.goes_on);
    end(&k, t);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(resting_bins), cmocka_unit_test(earlier_times),
                                       cmocka_unit_test(long_bins),    cmocka_unit_test(each_gets_its_turn),
                                       cmocka_unit_test(all_rest),     cmocka_unit_test(budget_of_its_own),
                                       cmocka_unit_test(one_works)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
