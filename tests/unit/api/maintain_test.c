/* Statistics of any length, stacks sampled from now on, and work of slab_maintain and of the library's own thread
   (background.c). */
#define _GNU_SOURCE
#include "unit.h"

#include <errno.h>
#include <pthread.h>
#include <semaphore.h>
#include <string.h>
#include <time.h>

/* ---- structures that grow ------------------------------------------------------------------------------------ */

static void all_of(const void *bytes, size_t from, size_t to, int value) {
    for (size_t i = from; i < to; i++) assert_int_equal(((const unsigned char *)bytes)[i], value);
}

static void sized(void **state) {
    SlabAllocator *a = *state;
    EpochId epoch = epoch_open(a, "sized", EPOCH_SCOPE);
    assert_non_null(slab_malloc_epoch(a, 100, epoch));
    union {
        SlabEpochStats epoch;
        SlabGlobalStats global;
        SlabClassStats cls;
        SlabThreadStats thread;
        PerfCounters perf;
        unsigned char bytes[4096];
    } u;
    /* Of an older program: no byte behind its structure is touched. */
    for (size_t bytes = 0; bytes <= sizeof(SlabEpochStats); bytes += 8) {
        memset(&u, 0xa5, sizeof u);
        assert_true(slab_stats_epoch_sized(a, SLAB_ALL_CLASSES, epoch, &u.epoch, bytes));
        all_of(&u, bytes, sizeof u, 0xa5);
        if (bytes >= 4) assert_int_equal(u.epoch.version, SLAB_STATS_VERSION);
    }
    /* A caller of a newer version: fields that this library does not know are 0. */
    memset(&u, 0xa5, sizeof u);
    assert_true(slab_stats_epoch_sized(a, SLAB_ALL_CLASSES, epoch, &u.epoch, 3000));
    assert_int_equal(u.epoch.live_objects, 1);
    all_of(&u, sizeof(SlabEpochStats), 3000, 0);
    all_of(&u, 3000, sizeof u, 0xa5);
    memset(&u, 0xa5, sizeof u);
    assert_true(slab_stats_global_sized(a, &u.global, sizeof(SlabGlobalStats) + 64));
    all_of(&u, sizeof(SlabGlobalStats), sizeof(SlabGlobalStats) + 64, 0);
    memset(&u, 0xa5, sizeof u);
    assert_true(slab_stats_class_sized(a, SLAB_CLASS_SCOPE, &u.cls, 16));
    all_of(&u, 16, sizeof u, 0xa5);
    memset(&u, 0xa5, sizeof u);
    assert_true(slab_stats_thread_sized(&u.thread, 8));
    all_of(&u, 8, sizeof u, 0xa5);
    assert_false(slab_stats_thread_sized(NULL, 8));
    assert_false(slab_stats_epoch_sized(a, SLAB_ALL_CLASSES, epoch + 1, &u.epoch, 8));
    /* The plain symbol fills the fields of version 0.1. */
    memset(&u, 0xa5, sizeof u);
    assert_true((slab_stats_epoch)(a, SLAB_ALL_CLASSES, epoch, &u.epoch));
    assert_int_equal(u.epoch.live_objects, 1);
    all_of(&u, offsetof(SlabEpochStats, parent_epoch_id), sizeof u, 0xa5);
    memset(&u, 0xa5, sizeof u);
    assert_true((slab_stats_global)(a, &u.global));
    assert_int_equal(u.global.version, SLAB_STATS_VERSION);
    memset(&u, 0xa5, sizeof u);
    assert_true((slab_stats_class)(a, 0, &u.cls));
    assert_int_equal(u.cls.version, SLAB_STATS_VERSION);
    assert_int_equal((slab_stats_thread)().version, SLAB_STATS_VERSION);
    memset(&u, 0xa5, sizeof u);
    assert_true((get_perf_counters)(a, 0, &u.perf));
    assert_int_equal(u.perf.version, SLAB_STATS_VERSION);
    all_of(&u, offsetof(PerfCounters, current_partial_miss), sizeof u, 0xa5);
    /* The macro knows all. */
    memset(&u, 0xa5, sizeof u);
    assert_true(slab_stats_epoch(a, SLAB_ALL_CLASSES, epoch, &u.epoch));
    assert_int_equal(u.epoch.parent_epoch_id, EPOCH_NONE);
    assert_int_equal(u.epoch.limit_bytes, 0);
    assert_int_equal(u.epoch.limit_failures_total, 0);
}

/* ---- stacks ---------------------------------------------------------------------------------------------------- */

static uint64_t sampled(SlabAllocator *a) {
    SlabStackSample rows[64];
    uint64_t sum = 0;
    size_t n = slab_stacks(a, EPOCH_NONE, rows, 64);
    for (size_t i = 0; i < n && i < 64; i++) sum += rows[i].samples;
    return sum;
}

static void *takes(void *arg) {
    SlabAllocator *a = arg;
    for (int i = 0; i < 50; i++)
        if (!slab_malloc(a, 100)) return NULL;
    return arg;
}

static void stacks_on_and_off(void **state) {
    SlabAllocator *a = *state;
    EpochDomain *d = epoch_domain_create(a);
    assert_true(epoch_domain_enter(d));
    enum { EACH = 20 };
    for (int round = 0; round < 3; round++) {
        uint64_t before = sampled(a);
        for (int i = 0; i < EACH; i++) {
            assert_non_null(slab_alloc(64));
            assert_non_null(slab_malloc(a, 64));
            assert_non_null(epoch_domain_alloc(d, 64));
        }
        assert_int_equal(sampled(a), before); /* off: none is taken, and those that were stay */
        assert_true(slab_set_sample_stacks(a, 1));
        for (int i = 0; i < EACH; i++) {
            assert_non_null(slab_alloc(64));
            assert_non_null(slab_malloc(a, 64));
            assert_non_null(epoch_domain_alloc(d, 64));
        }
        assert_int_equal(sampled(a), before + 3 * EACH); /* one in a byte: all */
        pthread_t t;
        void *done;
        assert_int_equal(pthread_create(&t, NULL, takes, a), 0);
        assert_int_equal(pthread_join(t, &done), 0);
        assert_ptr_equal(done, a);
        assert_int_equal(sampled(a), before + 3 * EACH + 50);
        assert_true(slab_set_sample_stacks(a, 0));
    }
    errno = 0;
    assert_false(slab_set_sample_stacks((SlabAllocator *)1, 1));
    assert_int_equal(errno, EINVAL);
    epoch_domain_destroy(d);
}

/* ---- maintenance --------------------------------------------------------------------------------------------- */

typedef struct rester {
    SlabAllocator *a;
    sem_t rests, ends;
} rester;

static void *makes_retained_and_rests(void *arg) {
    rester *r = arg;
    EpochDomain *d = epoch_domain_create(r->a);
    for (int i = 0; i < 8000; i++)
        if (!epoch_domain_alloc(d, 100)) break;
    epoch_domain_destroy(d);
    sem_post(&r->rests);
    sem_wait(&r->ends);
    return NULL;
}

static uint64_t committed(SlabAllocator *a) {
    SlabGlobalStats g;
    assert_true(slab_stats_global(a, &g));
    return g.committed_bytes;
}

static void nap(long ms) {
    const struct timespec t = {ms / 1000, ms % 1000 * 1000000};
    (void)nanosleep(&t, NULL);
}

/* The memory that a resting thread keeps goes to the system, without a call by that thread. */
static void resting_thread(SlabAllocator *a, bool call) {
    rester r = {.a = a};
    pthread_t t;
    assert_int_equal(sem_init(&r.rests, 0, 0), 0);
    assert_int_equal(sem_init(&r.ends, 0, 0), 0);
    assert_int_equal(pthread_create(&t, NULL, makes_retained_and_rests, &r), 0);
    sem_wait(&r.rests);
    assert_true(committed(a) > 0);
    for (int i = 0; i < 300 && committed(a) > 0; i++) { /* far longer than two looks take */
        if (call) (void)slab_maintain(a, 1000000);
        nap(100);
    }
    assert_int_equal(committed(a), 0);
    sem_post(&r.ends);
    assert_int_equal(pthread_join(t, NULL), 0);
}

static SlabAllocator *keeping_nothing(int background) {
    SlabOptions options = {.size = sizeof options, .retain_bytes = 1, .background = background};
    SlabAllocator *a = slab_allocator_create_ex(&options);
    assert_non_null(a);
    return a;
}

static void maintain(void **state) {
    (void)state;
    SlabAllocator *a = keeping_nothing(0);
    resting_thread(a, true);
    errno = 0;
    assert_int_equal(slab_maintain((SlabAllocator *)1, 1000), 0);
    assert_int_equal(errno, EINVAL);
    (void)slab_maintain(a, 0);
    (void)slab_maintain(a, UINT64_MAX);
    slab_allocator_free(a);
}

static void background(void **state) {
    (void)state;
    SlabAllocator *a = keeping_nothing(1);
    resting_thread(a, false);
    slab_allocator_free(a);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        SUP_WITH_ALLOCATOR(sized),
        SUP_WITH_ALLOCATOR(stacks_on_and_off),
        cmocka_unit_test(maintain),
        cmocka_unit_test(background),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
