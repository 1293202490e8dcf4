/* Budget, reserve, trim, idle threads: checked against the kernel where it is the kernel's memory. */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include "check.h"
#include "identities.h"
#include "proc.h"
#include "unit.h"

#include <errno.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>
#include <sys/resource.h>

#define KIB ((size_t)1 << 10)
#define MIB ((size_t)1 << 20)

/* RSS is that of the allocator alone only where no sanitizer keeps shadow memory beside it. */
#define SEEN_BY_KERNEL(condition) assert_true(SUP_SANITIZED || (condition))

static void hard_budget(void **state) {
    enum { MOST = 100000 };
    static void *objects[MOST];
    SlabAllocator *allocator = *state;
    const size_t limits[] = {4 * MIB, 8 * MIB};
    const unsigned kinds[] = {EPOCH_CHURN, EPOCH_SCOPE};
    for (size_t k = 0; k < 2; k++) {
        EpochId epoch = epoch_open(allocator, NULL, kinds[k]);
        assert_true(slab_set_budget(allocator, limits[k]));
        int count = 0;
        errno = 0;
        while (count < MOST && (objects[count] = slab_malloc_epoch(allocator, 1000, epoch)) != NULL) {
            count++;
        }
        assert_true(count > 1000 && count < MOST);
        assert_int_equal(errno, ENOMEM);
        assert_true(sup_committed_bytes(allocator) <= limits[k]);
        errno = 0;
        assert_null(slab_malloc_epoch(allocator, limits[k], epoch));
        assert_int_equal(errno, ENOMEM);
        /* Live objects stay usable, and freed ones make room. */
        for (int i = 0; i < count; i++) {
            memset(objects[i], 1, 1000);
            assert_true(slab_free(allocator, objects[i]));
        }
        assert_true(sup_committed_bytes(allocator) <= limits[k]);
        void *again = slab_malloc_epoch(allocator, 1000, epoch);
        assert_non_null(again);
        assert_true(slab_free(allocator, again));
        assert_true(epoch_destroy(allocator, epoch));
        EpochId next = epoch_open(allocator, NULL, kinds[1 - k]);
        void *large = slab_malloc_epoch(allocator, limits[k] / 2, next);
        assert_non_null(large);
        assert_true(slab_set_budget(allocator, 0));
        assert_non_null(slab_malloc_epoch(allocator, limits[k] * 2, next));
        assert_true(epoch_destroy(allocator, next));
        sup_check_identities(allocator);
        (void)slab_trim(allocator);
    }
}

/* Freed memory makes room for every class, epoch and thread's next object, not for its own class only: the magazines of
   open bins keep nothing back. */
static uint64_t failures(SlabAllocator *allocator) {
    SlabGlobalStats stats;
    assert_true(slab_stats_global(allocator, &stats));
    return stats.allocation_failures_total;
}

/* Each allocation that answers NULL with ENOMEM is counted once, whichever call it was; other errors are not. */
static void failures_are_counted(void **state) {
    SlabAllocator *allocator = *state;
    uint64_t before = failures(allocator);
    EpochDomain *domain = epoch_domain_create(allocator);
    assert_true(domain && epoch_domain_enter(domain));
    assert_true(slab_set_budget(allocator, 256 * KIB));
    while (slab_alloc(4096) != NULL) {
    }
    assert_int_equal(failures(allocator), before + 1);
    SlabHandle handle;
    assert_null(slab_malloc(allocator, MIB));
    assert_null(alloc_obj_epoch(allocator, MIB, epoch_domain_epoch(domain), &handle));
    assert_null(slab_aligned_epoch(allocator, 4096, MIB, epoch_domain_epoch(domain)));
    assert_int_equal(failures(allocator), before + 4);
    EpochId epoch = epoch_open(allocator, NULL, EPOCH_CHURN);
    assert_true(epoch_close(allocator, epoch));
    assert_null(slab_malloc_epoch(allocator, 16, epoch)); /* ESTALE */
    assert_int_equal(failures(allocator), before + 4);
    assert_true(epoch_domain_exit(domain));
    epoch_domain_destroy(domain);
    assert_true(slab_set_budget(allocator, 0));
}

static void freed_below_the_budget(void **state) {
    enum { MOST = 2048 };
    static void *objects[MOST];
    SlabAllocator *allocator = *state;
    const size_t sizes[] = {16, 48, 100, 1000, 4096, 8192};
    assert_true(slab_set_budget(allocator, 256 * KIB));
    EpochId epoch = epoch_open(allocator, NULL, EPOCH_CHURN), other = epoch_open(allocator, NULL, EPOCH_CHURN);
    for (size_t k = 0; k < 36; k++) {
        size_t size = sizes[k / 6], next = sizes[k % 6];
        int count = 0;
        while (count < MOST && (objects[count] = slab_malloc_epoch(allocator, size, epoch)) != NULL) count++;
        assert_true(count > 20);
        for (int i = 0; i < count; i++) assert_true(slab_free(allocator, objects[i]));
        void *large = slab_malloc_epoch(allocator, 200 * KIB, epoch); /* all but three slabs */
        assert_non_null(large);
        void *object = slab_malloc_epoch(allocator, next, epoch), *others = slab_malloc_epoch(allocator, next, other);
        assert_true(object != NULL && others != NULL);
        assert_true(slab_free(allocator, large) && slab_free(allocator, object) && slab_free(allocator, others));
    }
    assert_true(epoch_destroy(allocator, epoch) && epoch_destroy(allocator, other));
    assert_true(slab_set_budget(allocator, 0));
    sup_check_identities(allocator);
}

/* A reserve that cannot be had in full is no failure, and is not reported: the call has succeeded. */
static void reserve_beyond_the_budget(void **state) {
    SlabOptions options = {.size = sizeof options, .reserve_bytes = 8 * MIB, .budget_bytes = MIB};
    (void)state;
    errno = 0;
    SlabAllocator *allocator = slab_allocator_create_ex(&options);
    assert_non_null(allocator);
    assert_int_equal(errno, 0);
    slab_allocator_free(allocator);
}

/* A budget that is set below the live memory takes the memory of later frees, until it is met; under every policy. */
static void budget_below_what_is_live(void **state) {
    enum { SPANS = 40, SMALL = 4000 };
    static void *spans[SPANS], *small[SMALL];
    (void)state;
    for (int policy = SLAB_RECLAIM_BUDGET; policy <= SLAB_RECLAIM_AT_ONCE; policy++) {
        SlabOptions options = {.size = sizeof options, .reclaim_policy = (SlabReclaimPolicy)policy};
        SlabAllocator *allocator = slab_allocator_create_ex(&options);
        EpochId epoch = epoch_open(allocator, NULL, EPOCH_CHURN);
        for (int i = 0; i < SPANS; i++) assert_non_null(spans[i] = slab_malloc_epoch(allocator, 300 * KIB, epoch));
        for (int i = 0; i < SMALL; i++) assert_non_null(small[i] = slab_malloc_epoch(allocator, 500, epoch));
        assert_true(slab_set_budget(allocator, MIB));
        for (int i = 0; i < SPANS; i++) assert_true(slab_free(allocator, spans[i]));
        for (int i = 0; i < SMALL; i++) assert_true(slab_free(allocator, small[i]));
        slab_thread_idle();
        assert_in_range(sup_committed_bytes(allocator), 0, MIB);
        assert_true(epoch_destroy(allocator, epoch));
        slab_allocator_free(allocator);
    }
}

/* The rest of a scope's current slab stays its own when there is no more memory. */
static void scope_at_the_budget(void **state) {
    SlabAllocator *allocator = *state;
    assert_true(slab_set_budget(allocator, 64 * KIB));
    EpochId epoch = epoch_open(allocator, NULL, EPOCH_SCOPE);
    while (slab_malloc_epoch(allocator, 3000, epoch) != NULL) {
    }
    for (size_t rest = 16 * KIB % 3008; rest >= 512; rest -= 512) {
        assert_non_null(slab_malloc_epoch(allocator, 500, epoch));
        assert_null(slab_malloc_epoch(allocator, 3000, epoch));
    }
    assert_true(epoch_destroy(allocator, epoch));
    /* But when nothing of it is left, and there is no other, it is begun again. */
    void *objects[16];
    (void)slab_trim(allocator);
    assert_true(slab_set_budget(allocator, 16 * KIB));
    epoch = epoch_open(allocator, NULL, EPOCH_SCOPE);
    for (int i = 0; i < 16; i++) assert_non_null(objects[i] = slab_malloc_epoch(allocator, 1024, epoch));
    for (int i = 0; i < 16; i++) assert_true(slab_free(allocator, objects[i]));
    for (int i = 0; i < 16; i++) assert_non_null(slab_malloc_epoch(allocator, 1024, epoch));
    assert_null(slab_malloc_epoch(allocator, 1024, epoch));
    assert_true(epoch_destroy(allocator, epoch));
    assert_true(slab_set_budget(allocator, 0));
}

static void budget_below_what_is_used(void **state) {
    SlabAllocator *allocator = *state;
    EpochId epoch = epoch_open(allocator, NULL, 0);
    void *object = slab_malloc_epoch(allocator, 4 * MIB, epoch);
    assert_non_null(object);
    assert_true(slab_set_budget(allocator, MIB));
    assert_null(slab_malloc_epoch(allocator, MIB, epoch));
    assert_true(slab_owns(allocator, object));
    assert_true(slab_free(allocator, object));
    assert_non_null(slab_malloc_epoch(allocator, MIB / 2, epoch));
    errno = 0;
    assert_false(slab_set_budget(NULL, MIB));
    assert_int_equal(errno, EINVAL);
}

static void trim_gives_back(void **state) {
    enum { COUNT = 60000 };
    (void)state;
    SlabOptions options = {.size = sizeof options, .reclaim_policy = SLAB_RECLAIM_KEEP};
    SlabAllocator *allocator = slab_allocator_create_ex(&options);
    assert_non_null(allocator);
    size_t before = sup_rss_bytes();
    assert_true(before > 0);
    EpochId epoch = epoch_open(allocator, NULL, EPOCH_SCOPE);
    for (int i = 0; i < COUNT; i++) {
        memset(slab_malloc_epoch(allocator, 1000, epoch), 1, 1000);
    }
    SEEN_BY_KERNEL(sup_rss_bytes() >= before + 50 * MIB);
    assert_true(epoch_destroy(allocator, epoch));
    /* keep: nothing goes by itself. */
    SEEN_BY_KERNEL(sup_rss_bytes() >= before + 50 * MIB);
    SlabGlobalStats stats;
    assert_true(slab_stats_global(allocator, &stats));
    assert_true(stats.retained_bytes >= 50 * MIB);
    assert_true(slab_trim(allocator) >= 50 * MIB);
    SEEN_BY_KERNEL(sup_rss_bytes() <= before + 8 * MIB);
    assert_true(slab_stats_global(allocator, &stats));
    assert_int_equal(stats.committed_bytes, 0);
    assert_int_equal(slab_trim(allocator), 0);
    slab_allocator_free(allocator);
}

static void policies(void **state) {
    (void)state;
    for (int policy = SLAB_RECLAIM_BUDGET; policy <= SLAB_RECLAIM_AT_ONCE; policy++) {
        SlabOptions options = {.size = sizeof options, .reclaim_policy = policy, .retain_bytes = 4 * MIB};
        SlabAllocator *allocator = slab_allocator_create_ex(&options);
        for (int round = 0; round < 3; round++) {
            EpochId epoch = epoch_open(allocator, NULL, round % 2 == 0 ? EPOCH_CHURN : EPOCH_SCOPE);
            for (int i = 0; i < 20000; i++) {
                memset(slab_malloc_epoch(allocator, 1000, epoch), 1, 1000);
            }
            assert_true(epoch_destroy(allocator, epoch));
            SlabGlobalStats stats;
            assert_true(slab_stats_global(allocator, &stats));
            if (policy == SLAB_RECLAIM_BUDGET) {
                assert_true(stats.retained_bytes <= 4 * MIB);
            } else if (policy == SLAB_RECLAIM_KEEP) {
                assert_true(stats.retained_bytes >= 19 * MIB);
            } else {
                assert_int_equal(stats.retained_bytes, 0);
            }
        }
        sup_check_identities(allocator);
        slab_allocator_free(allocator);
    }
}

static void freed_allocator_leaves_nothing(void **state) {
    (void)state;
    size_t before = sup_rss_bytes();
    for (int round = 0; round < 5; round++) {
        SlabAllocator *allocator = slab_allocator_create();
        for (int i = 0; i < 20000; i++) {
            memset(slab_malloc(allocator, 1000), 1, 1000);
        }
        SEEN_BY_KERNEL(sup_rss_bytes() >= before + 15 * MIB);
        slab_allocator_free(allocator);
        SEEN_BY_KERNEL(sup_rss_bytes() <= before + 8 * MIB);
    }
}

static void reserve_populates(void **state) {
    SlabAllocator *allocator = *state;
    size_t before = sup_rss_bytes();
    assert_true(slab_reserve(allocator, 48 * MIB));
    /* qemu answers that it has populated, and does not. */
    SEEN_BY_KERNEL(SUP_EMULATED || sup_rss_bytes() >= before + 44 * MIB);
    SlabGlobalStats stats;
    assert_true(slab_stats_global(allocator, &stats));
    assert_true(stats.retained_bytes >= 48 * MIB);
    sup_check_identities(allocator);
    /* It is used, and stays retained through a destroy although it is more than the retain budget. */
    EpochId epoch = epoch_open(allocator, NULL, EPOCH_SCOPE);
    for (int i = 0; i < 20000; i++) {
        memset(slab_malloc_epoch(allocator, 1000, epoch), 1, 1000);
    }
    SEEN_BY_KERNEL(sup_rss_bytes() <= before + 56 * MIB);
    assert_true(epoch_destroy(allocator, epoch));
    assert_true(slab_stats_global(allocator, &stats));
    assert_true(stats.retained_bytes >= 48 * MIB);
    assert_true(slab_trim(allocator) >= 48 * MIB);
    SEEN_BY_KERNEL(sup_rss_bytes() <= before + 8 * MIB);
}

/* Linux then takes pages away for a moment, to see which node uses them: each is a fault of its own. */
static bool pages_are_watched(void) {
    int on = 0;
    FILE *f = fopen("/proc/sys/kernel/numa_balancing", "re");
    if (!f) return false;
    if (fscanf(f, "%d", &on) != 1) on = 0;
    (void)fclose(f);
    return on != 0;
}

/* The first use of reserved memory faults no page in, but for the few of blocks and magazines. */
static void reserved_without_faults(void **state) {
    SlabAllocator *allocator = *state;
    struct rusage before, after;
    for (unsigned flags = EPOCH_CHURN; flags <= EPOCH_SCOPE; flags++) {
        (void)slab_trim(allocator);
        assert_true(slab_reserve(allocator, 48 * MIB));
        EpochId epoch = epoch_open(allocator, NULL, flags);
        assert_non_null(slab_malloc_epoch(allocator, 1000, epoch));
        assert_int_equal(getrusage(RUSAGE_SELF, &before), 0);
        for (int i = 0; i < 40000; i++) *(char *)slab_malloc_epoch(allocator, 1000, epoch) = 1;
        assert_int_equal(getrusage(RUSAGE_SELF, &after), 0);
        /* Tools that watch memory have pages of their own; qemu does not populate. */
        long faults = after.ru_minflt - before.ru_minflt;
        SUP_CHECK(SUP_SANITIZED || SUP_EMULATED || pages_are_watched() || faults < 20, "%ld faults", faults);
        assert_true(epoch_destroy(allocator, epoch));
    }
}

/* A thread that sleeps holds back nothing of an epoch that another thread closes or destroys. */
struct sleeper {
    SlabAllocator *allocator;
    EpochId epochs[2];
    pthread_barrier_t barrier;
    bool idle;
};

static void *sleep_with_memory(void *argument) {
    struct sleeper *sleeper = argument;
    for (int e = 0; e < 2; e++) {
        for (int i = 0; i < 10000; i++) {
            void *object = slab_malloc_epoch(sleeper->allocator, 1000, sleeper->epochs[e]);
            SUP_CHECK(object != NULL, "slab_malloc_epoch");
            memset(object, 1, 1000);
            SUP_CHECK(e == 1 || slab_free(sleeper->allocator, object), "slab_free");
        }
    }
    if (sleeper->idle) {
        slab_thread_idle();
    }
    (void)pthread_barrier_wait(&sleeper->barrier);
    (void)pthread_barrier_wait(&sleeper->barrier);
    /* It wakes up to a world that has gone on. */
    errno = 0;
    SUP_CHECK(slab_malloc_epoch(sleeper->allocator, 100, sleeper->epochs[0]) == NULL && errno == ESTALE,
              "the closed epoch: %s", strerror(errno));
    SUP_CHECK(slab_malloc_epoch(sleeper->allocator, 100, sleeper->epochs[1]) == NULL && errno == ESTALE,
              "the destroyed epoch: %s", strerror(errno));
    SUP_CHECK(slab_malloc(sleeper->allocator, 100) != NULL, "the rolling epoch");
    return NULL;
}

static void sleepers_hold_nothing(void **state) {
    (void)state;
    for (int idle = 0; idle < 2; idle++) {
        SlabOptions options = {.size = sizeof options, .reclaim_policy = SLAB_RECLAIM_AT_ONCE};
        struct sleeper sleeper = {.allocator = slab_allocator_create_ex(&options), .idle = idle != 0};
        pthread_t thread;
        size_t before = sup_rss_bytes();
        sleeper.epochs[0] = epoch_open(sleeper.allocator, "closed", 0);
        sleeper.epochs[1] = epoch_open(sleeper.allocator, "destroyed", EPOCH_SCOPE);
        assert_int_equal(pthread_barrier_init(&sleeper.barrier, NULL, 2), 0);
        assert_int_equal(pthread_create(&thread, NULL, sleep_with_memory, &sleeper), 0);
        (void)pthread_barrier_wait(&sleeper.barrier);
        SEEN_BY_KERNEL(sup_rss_bytes() >= before + 8 * MIB);
        assert_true(epoch_close(sleeper.allocator, sleeper.epochs[0]));
        assert_true(epoch_destroy(sleeper.allocator, sleeper.epochs[1]));
        (void)slab_trim(sleeper.allocator);
        SlabGlobalStats stats;
        assert_true(slab_stats_global(sleeper.allocator, &stats));
        assert_int_equal(stats.live_objects, 0);
        assert_int_equal(stats.committed_bytes, 0);
        SEEN_BY_KERNEL(sup_rss_bytes() <= before + 4 * MIB);
        (void)pthread_barrier_wait(&sleeper.barrier);
        (void)pthread_join(thread, NULL);
        sup_check_identities(sleeper.allocator);
        (void)pthread_barrier_destroy(&sleeper.barrier);
        slab_allocator_free(sleeper.allocator);
    }
}

static uint64_t retained(SlabAllocator *allocator) {
    SlabGlobalStats stats;
    assert_true(slab_stats_global(allocator, &stats));
    return stats.retained_bytes;
}

/* More than there are addresses for is refused before anything is populated. */
static void reserve_beyond_the_region(void **state) {
    SlabAllocator *allocator = *state;
    static const size_t sizes[] = {SIZE_MAX, SIZE_MAX - 16384, SIZE_MAX / 2};
    for (int i = 0; i < 3; i++) {
        errno = 0;
        assert_false(slab_reserve(allocator, sizes[i]));
        assert_int_equal(errno, ENOMEM);
        assert_int_equal(sup_committed_bytes(allocator), 0);
        SlabOptions options = {.size = sizeof options, .reserve_bytes = sizes[i]};
        SlabAllocator *other = slab_allocator_create_ex(&options);
        assert_non_null(other);
        assert_int_equal(sup_committed_bytes(other), 0);
        slab_allocator_free(other);
    }
}

/* Reserved memory does not count as reserved once it has gone back, nor for the next allocator in the same record. */
static void a_reserve_that_has_gone_back(void **state) {
    (void)state;
    for (int way = 0; way < 2; way++) {
        SlabAllocator *allocator = slab_allocator_create();
        for (int i = 0; i < 3; i++) {
            assert_true(slab_reserve(allocator, 48 * MIB));
            if (way == 0) {
                assert_true(slab_set_budget(allocator, MIB) && slab_set_budget(allocator, 0));
                assert_int_equal(retained(allocator), 0);
            } else {
                slab_allocator_free(allocator);
                allocator = slab_allocator_create();
            }
        }
        EpochId epoch = epoch_open(allocator, NULL, EPOCH_SCOPE);
        for (int i = 0; i < 60000; i++) {
            assert_non_null(slab_malloc_epoch(allocator, 1000, epoch));
        }
        assert_true(epoch_destroy(allocator, epoch));
        assert_true(retained(allocator) <= 33 * MIB); /* the default retain budget, and the thread's share */
        slab_allocator_free(allocator);
    }
}

/* At once means at once: an open epoch keeps no slab that is empty but for the objects in its magazines. */
static void at_once_keeps_no_empty_slab(void **state) {
    (void)state;
    enum { COUNT = 20000 };
    static void *objects[COUNT];
    SlabOptions options = {.size = sizeof options, .reclaim_policy = SLAB_RECLAIM_AT_ONCE};
    SlabAllocator *allocator = slab_allocator_create_ex(&options);
    EpochId epoch = epoch_open(allocator, NULL, EPOCH_CHURN);
    for (int i = 0; i < COUNT; i++) {
        objects[i] = slab_malloc_epoch(allocator, 1000, epoch);
        assert_non_null(objects[i]);
    }
    for (int i = 0; i < COUNT; i++) {
        assert_true(slab_free(allocator, objects[i]));
    }
    /* 64 in the magazine, and a claimed word of one slab. */
    assert_true(sup_committed_bytes(allocator) <= 66 * 16384);
    slab_thread_idle();
    assert_int_equal(sup_committed_bytes(allocator), 0);
    slab_allocator_free(allocator);
}

/* Its own domain is still the thread's in the destructors of its other keys, made before or after. */
static pthread_key_t key;
static SlabAllocator *of_key;
static bool destroyed_at_exit, cleaned;
static void clean(void *arg) {
    (void)arg;
    cleaned = true;
}
static void destroy_at_exit(void *domain) {
    errno = 0;
    epoch_domain_destroy(domain);
    destroyed_at_exit = errno == 0 && epoch_domain_epoch(domain) == EPOCH_NONE;
}
static void *use_key(void *argument) {
    EpochDomain *domain = epoch_domain_create(of_key);
    SUP_CHECK(epoch_domain_on_destroy(domain, clean, NULL) && epoch_domain_enter(domain), "domain");
    SUP_CHECK(slab_alloc(100) != NULL && pthread_setspecific(key, domain) == 0, "slab_alloc");
    return argument;
}
static void domain_ends_in_a_destructor(void **state) {
    of_key = *state;
    pthread_t thread;
    assert_int_equal(pthread_key_create(&key, destroy_at_exit), 0);
    assert_int_equal(pthread_create(&thread, NULL, use_key, NULL), 0);
    (void)pthread_join(thread, NULL);
    assert_true(destroyed_at_exit && cleaned);
    assert_int_equal(sup_live_objects(of_key), 0);
    (void)pthread_key_delete(key);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        SUP_WITH_ALLOCATOR(reserve_beyond_the_region),
        cmocka_unit_test(a_reserve_that_has_gone_back),
        cmocka_unit_test(at_once_keeps_no_empty_slab),
        SUP_WITH_ALLOCATOR(domain_ends_in_a_destructor),
        SUP_WITH_ALLOCATOR(hard_budget),
        SUP_WITH_ALLOCATOR(failures_are_counted),
        SUP_WITH_ALLOCATOR(freed_below_the_budget),
        SUP_WITH_ALLOCATOR(scope_at_the_budget),
        SUP_WITH_ALLOCATOR(budget_below_what_is_used),
        cmocka_unit_test(budget_below_what_is_live),
        cmocka_unit_test(reserve_beyond_the_budget),
        cmocka_unit_test(trim_gives_back),
        cmocka_unit_test(policies),
        SUP_WITH_ALLOCATOR(reserve_populates),
        SUP_WITH_ALLOCATOR(reserved_without_faults),
        cmocka_unit_test(freed_allocator_leaves_nothing),
        cmocka_unit_test(sleepers_hold_nothing),
    };
    return cmocka_run_group_tests_name("api.memory", tests, NULL, NULL);
}
