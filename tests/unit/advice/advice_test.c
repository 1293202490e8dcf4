/*
 * Each advice of the doctor is followed: the program as it was has the finding, with that advice; the program that
 * follows it has not, and takes less memory or fewer slow paths (doctor.c, costs.c, finding.c). By a clock of the test.
 */
#include "check.h"
#include "unit.h"

#include "advice/advice.h"
#include "api/runtime.h"
#include "observe/observe.h"
#include "os/os.h"
#include "own_clock.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>

static SlabOptions options;

static int start(void **state) {
    (void)state;
    own_clock_begin();
    memset(&options, 0, sizeof options);
    options.size = sizeof options;
    allocator = NULL;
    return 0;
}

static void anew(void) {
    if (allocator) slab_allocator_free(allocator);
    allocator = slab_allocator_create_ex(&options);
    assert_non_null(allocator);
    assert_true(slab_stats_doctor(allocator, NULL, 0) > 0); /* from here on it is watched for growth */
}

/* The finding of that name, kept until the next call. */
static const ts_finding *found(const char *id) {
    static ts_finding finding;
    ts_view *view = ts_advised_view(ts_allocator_find(ts_token(allocator)), ts_token(allocator));
    const ts_finding *answer = NULL;
    assert_non_null(view);
    for (unsigned i = 0; i < view->finding_count && !answer; i++) {
        finding = view->finding[i];
        if (strcmp(finding.id, id) == 0) answer = &finding;
    }
    ts_view_free(view);
    return answer;
}

static bool advises(const char *id, const char *words) {
    const ts_finding *f = found(id);
    return f && strstr(f->advice, words) != NULL;
}

static SlabGlobalStats global(void) {
    SlabGlobalStats stats;
    assert_true(slab_stats_global(allocator, &stats));
    return stats;
}

/* ---- slow paths ------------------------------------------------------------------------------------------------- */

static void some_in(EpochId epoch, unsigned objects, unsigned sizes) {
    for (unsigned i = 0; i < objects; i++) assert_non_null(slab_malloc_epoch(allocator, 64 * (1 + i % sizes), epoch));
}

static uint64_t phases(unsigned phases, unsigned objects, unsigned sizes, unsigned flags) {
    anew();
    for (unsigned i = 0; i < phases; i++) {
        EpochId epoch = epoch_open(allocator, "phase", flags);
        some_in(epoch, objects, sizes);
        assert_true(epoch_destroy(allocator, epoch));
    }
    return global().slow_path_hits;
}

static uint64_t marks(unsigned phases, unsigned objects) {
    SlabMark mark;
    anew();
    EpochDomain *domain = epoch_domain_create_ex(allocator, "phases", 0);
    assert_true(domain && epoch_domain_enter(domain));
    for (unsigned i = 0; i < phases; i++) {
        assert_true(epoch_domain_mark(domain, &mark));
        for (unsigned k = 0; k < objects; k++) assert_non_null(slab_alloc(64));
        assert_true(epoch_domain_rewind(domain, mark));
    }
    uint64_t hits = global().slow_path_hits;
    assert_null(found("slow_paths"));
    assert_true(epoch_domain_exit(domain));
    epoch_domain_destroy(domain);
    return hits;
}

static void churn_epochs_of_many_classes(void **state) {
    (void)state;
    uint64_t before = phases(3000, 48, 8, EPOCH_CHURN);
    assert_true(advises("slow_paths", "open them with EPOCH_SCOPE"));
    assert_true(phases(3000, 48, 8, EPOCH_SCOPE) < before / 4);
    assert_null(found("slow_paths"));
}

static void epochs_of_few_objects(void **state) {
    static const unsigned kinds[] = {EPOCH_CHURN, EPOCH_SCOPE};
    (void)state;
    for (unsigned i = 0; i < 2; i++) {
        uint64_t before = phases(25000, 5, 1, kinds[i]);
        assert_true(advises("slow_paths", "use one for several of them"));
        assert_true(advises("slow_paths", "epoch_domain_mark"));
        assert_false(advises("slow_paths", "EPOCH_SCOPE")); /* which a scope is already, and would take as many slabs */
        assert_true(phases(1250, 100, 1, kinds[i]) < before / 4);
        assert_null(found("slow_paths"));
        assert_true(marks(25000, 5) < before / 4);
    }
}

/* Slabs that are full when the next one is taken, and large objects, are no waste. */
static void slabs_that_objects_fill(void **state) {
    (void)state;
    anew();
    EpochId epoch = epoch_open(allocator, "base", EPOCH_CHURN);
    for (unsigned i = 0; i < 100000; i++) assert_non_null(slab_malloc_epoch(allocator, 1000, epoch));
    assert_true(global().slow_path_hits > global().allocated_objects_total / 20);
    assert_null(found("slow_paths"));
    anew();
    for (unsigned i = 0; i < 1500; i++) {
        epoch = epoch_open(allocator, "phase", EPOCH_SCOPE);
        for (unsigned k = 0; k < 80; k++) assert_non_null(slab_malloc_epoch(allocator, 1600, epoch));
        assert_true(epoch_destroy(allocator, epoch));
    }
    assert_true(global().slow_path_hits >= global().allocated_objects_total / 10);
    assert_null(found("slow_paths"));
    anew();
    for (unsigned i = 0; i < 100000; i++) assert_true(slab_free(allocator, slab_malloc(allocator, 50000)));
    assert_int_equal(global().allocated_objects_total, 100000);
    assert_null(found("slow_paths"));
}

/* ---- memory back and forth -------------------------------------------------------------------------------------- */

static uint64_t bursts(size_t keep) {
    anew();
    EpochDomain *domain = epoch_domain_create_ex(allocator, "burst", 0);
    assert_true(domain && epoch_domain_enter(domain));
    for (unsigned i = 0; i < 20; i++) {
        for (unsigned k = 0; k < 12000; k++) assert_non_null(slab_alloc(1000));
        assert_true(epoch_domain_reset(domain, keep));
    }
    uint64_t fetched = global().slow_path_cache_miss;
    assert_true(epoch_domain_exit(domain));
    epoch_domain_destroy(domain);
    return fetched;
}

static uint64_t epochs_in_bursts(void) {
    anew();
    for (unsigned i = 0; i < 25; i++) {
        EpochId epoch = epoch_open(allocator, "burst", EPOCH_SCOPE);
        for (unsigned k = 0; k < 12000; k++) assert_non_null(slab_malloc_epoch(allocator, 1000, epoch));
        assert_true(epoch_destroy(allocator, epoch));
    }
    return global().slow_path_cache_miss;
}

static void memory_that_goes_back_and_forth(void **state) {
    (void)state;
    options.reclaim_policy = SLAB_RECLAIM_AT_ONCE;
    uint64_t before = epochs_in_bursts();
    assert_true(advises("memory_back_and_forth", "TSLAB_RECLAIM=budget"));
    options.reclaim_policy = SLAB_RECLAIM_BUDGET;
    options.retain_bytes = (size_t)1 << 20;
    uint64_t little = epochs_in_bursts();
    assert_true(advises("memory_back_and_forth", "TSLAB_RETAIN"));
    options.retain_bytes = (size_t)64 << 20;
    assert_true(epochs_in_bursts() < before / 4 && global().slow_path_cache_miss < little / 4);
    assert_null(found("memory_back_and_forth"));
    before = bursts(0);
    assert_true(advises("memory_back_and_forth", "keep_bytes where domains are reset"));
    assert_true(bursts((size_t)64 << 20) < before / 4);
    assert_null(found("memory_back_and_forth"));
}

/* ---- locks ------------------------------------------------------------------------------------------------------ */

static void *with_an_allocator(void *own) {
    SlabAllocator *mine = own ? slab_allocator_create_ex(&options) : allocator;
    SlabGlobalStats stats;
    assert_non_null(mine);
    for (unsigned i = 0; i < 30; i++) {
        EpochId epoch = epoch_open(mine, "large", EPOCH_SCOPE);
        for (unsigned k = 0; k < 6000; k++) assert_non_null(slab_malloc_epoch(mine, 1000, epoch));
        assert_true(epoch_destroy(mine, epoch));
    }
    assert_true(slab_stats_global(mine, &stats));
    if (own) assert_int_equal(stats.lock_contended, 0);
    if (own) slab_allocator_free(mine);
    return NULL;
}

/* How often threads meet is the system's; that they do not with an allocator each is certain. */
static void threads_that_meet(void **state) {
    pthread_t thread[4];
    (void)state;
    anew();
    for (unsigned own = 0; own < 2; own++) {
        for (unsigned i = 0; i < 4; i++)
            assert_int_equal(pthread_create(&thread[i], NULL, with_an_allocator, own ? &options : NULL), 0);
        for (unsigned i = 0; i < 4; i++) assert_int_equal(pthread_join(thread[i], NULL), 0);
    }
    if (found("lock_contention")) assert_true(advises("lock_contention", "give each thread"));
}

/* ---- slabs that are nearly empty -------------------------------------------------------------------------------- */

/* Open epochs, each with some objects. Returns the bytes of slabs. */
static uint64_t connections(unsigned epochs, unsigned objects, unsigned sizes, unsigned flags) {
    anew();
    for (unsigned i = 0; i < epochs; i++) some_in(epoch_open(allocator, "connection", flags), objects, sizes);
    return global().committed_bytes;
}

static void epochs_of_few_objects_that_stay(void **state) {
    static const unsigned kinds[] = {EPOCH_CHURN, EPOCH_SCOPE};
    (void)state;
    for (unsigned i = 0; i < 2; i++) {
        uint64_t before = connections(2000, 8, 1, kinds[i]);
        if (kinds[i] == EPOCH_SCOPE && before < (uint64_t)2000 * 3000) { /* they share memory, but under memory tools */
            assert_null(found("sparse_slabs"));
            continue;
        }
        assert_true(advises("sparse_slabs", "use one epoch for several of them"));
        assert_false(advises("sparse_slabs", "own")); /* each has one already */
        assert_false(advises("sparse_slabs", "EPOCH_SCOPE"));
        assert_true(connections(10, 1600, 1, kinds[i]) < before / 4);
        assert_null(found("sparse_slabs"));
    }
}

static void epochs_of_many_classes_that_stay(void **state) {
    (void)state;
    uint64_t before = connections(500, 40, 8, EPOCH_CHURN);
    assert_true(advises("sparse_slabs", "open them with EPOCH_SCOPE."));
    assert_true(connections(500, 40, 8, EPOCH_SCOPE) < before / 4);
    assert_null(found("sparse_slabs"));
    before = connections(500, 16, 8, EPOCH_CHURN);
    assert_true(advises("sparse_slabs", "open them with EPOCH_SCOPE, which takes one, and use one epoch for several"));
    assert_true(connections(50, 160, 8, EPOCH_SCOPE) < before / 4);
    assert_null(found("sparse_slabs"));
}

/* A cache of 2,000 objects in which the oldest goes when one comes; of each hundredth one something stays. */
static uint64_t cache(unsigned flags) {
    static void *entry[2000];
    anew();
    EpochId epoch = epoch_open(allocator, "cache", flags);
    memset(entry, 0, sizeof entry);
    for (unsigned i = 0; i < 400000; i++) {
        void **at = &entry[i % 2000];
        if (*at) assert_true(slab_free(allocator, *at));
        *at = slab_malloc_epoch(allocator, 300, epoch);
        assert_non_null(*at);
        if (i % 100 == 0) assert_non_null(slab_malloc_epoch(allocator, 300, epoch));
    }
    return global().committed_bytes;
}

static void scopes_in_which_objects_are_freed(void **state) {
    (void)state;
    uint64_t before = cache(EPOCH_SCOPE);
    assert_true(advises("sparse_slabs", "open them with EPOCH_CHURN"));
    assert_true(cache(EPOCH_CHURN) < before / 2);
    assert_null(found("sparse_slabs"));
}

static void objects_that_outlive_their_neighbours(void **state) {
    enum { ALL = 200000, EACH = 100 };
    static void *object[ALL];
    (void)state;
    anew();
    EpochId epoch = epoch_open(allocator, "requests", EPOCH_CHURN);
    for (unsigned i = 0; i < ALL; i++) object[i] = slab_malloc_epoch(allocator, 200, epoch);
    for (unsigned i = 0; i < ALL; i++)
        if (i % EACH) assert_true(slab_free(allocator, object[i]));
    uint64_t before = global().committed_bytes;
    assert_true(advises("sparse_slabs", "slab_promote"));
    EpochDomain *domain = epoch_domain_create_ex(allocator, "sessions", EPOCH_CHURN);
    assert_non_null(domain);
    for (unsigned i = 0; i < ALL; i += EACH) assert_non_null(slab_promote(domain, object[i]));
    assert_null(found("sparse_slabs"));
    (void)slab_trim(allocator);
    assert_true(global().committed_bytes < before / 4);
    epoch_domain_destroy(domain);
    /* And where they are put there in the first place. */
    anew();
    epoch = epoch_open(allocator, "requests", EPOCH_CHURN);
    EpochId own = epoch_open(allocator, "sessions", EPOCH_CHURN);
    for (unsigned i = 0; i < ALL; i++) object[i] = slab_malloc_epoch(allocator, 200, i % EACH ? epoch : own);
    for (unsigned i = 0; i < ALL; i++)
        if (i % EACH) assert_true(slab_free(allocator, object[i]));
    assert_null(found("sparse_slabs"));
}

/* ---- leaks, epochs that stay open, misuse ------------------------------------------------------------------------ */

static void what_is_left_after_a_close(void **state) {
    for (unsigned good = 0; good < 3; good++) {
        (void)state;
        anew();
        EpochId epoch = epoch_open(allocator, "phase", EPOCH_CHURN);
        void *object = slab_malloc_epoch(allocator, 100, epoch);
        if (good == 1) assert_true(slab_free(allocator, object));
        assert_true(good == 2 ? epoch_destroy(allocator, epoch) : epoch_close(allocator, epoch));
        now += 20 * SECOND;
        if (good) assert_null(found("leak_after_close"));
        if (!good) assert_true(advises("leak_after_close", "before epoch_close, or end the phase with epoch_destroy"));
        assert_int_equal(global().live_bytes != 0, !good);
    }
}

/* Phases of which every other one is left without an end. */
static void phases_without_an_end(void **state) {
    (void)state;
    for (unsigned good = 0; good < 2; good++) {
        anew();
        for (unsigned i = 0; i < 400; i++) {
            EpochId epoch = epoch_open(allocator, "phase", EPOCH_SCOPE);
            some_in(epoch, 10, 1);
            if (good || i % 2) assert_true(epoch_destroy(allocator, epoch));
        }
        now += 700 * SECOND;
        if (good) assert_null(found("epochs_not_closed"));
        if (!good)
            assert_true(advises("epochs_not_closed", "look for a way out of one that does not close or destroy"));
        assert_int_equal(global().live_bytes != 0, !good);
    }
}

static void what_grows(void **state) {
    (void)state;
    anew();
    EpochId epoch = epoch_open(allocator, "list", EPOCH_CHURN);
    for (unsigned good = 0; good < 2; good++) {
        for (unsigned i = 0; i < 60; i++) {
            (void)found("");
            now += SECOND / 2;
            for (unsigned k = 0; k < 100; k++) {
                void *object = slab_malloc_epoch(allocator, 1000, epoch);
                if (good) assert_true(slab_free(allocator, object));
            }
        }
        if (!good) assert_true(advises("leak", "Free what these lines allocate, or give it an epoch that ends."));
        if (good) assert_true(!found("leak") && !found("growth"));
    }
}

/* Domains that nobody ends: also empty ones, and many of one label whose ages rise. */
static void domains_that_are_never_ended(void **state) {
    (void)state;
    for (unsigned full = 0; full < 2; full++) {
        for (unsigned good = 0; good < 2; good++) {
            anew();
            for (unsigned i = 0; i < 60; i++) {
                (void)found("");
                now += SECOND / 2;
                for (unsigned k = 0; k < 20; k++) {
                    EpochDomain *domain = epoch_domain_create_ex(allocator, "request", 0);
                    assert_non_null(domain);
                    if (full) assert_non_null(epoch_domain_alloc(domain, 200));
                    if (good) epoch_domain_destroy(domain);
                }
            }
            if (good) assert_true(!found("leak") && !found("growth"));
            if (!good)
                assert_true(
                    advises("leak", "a way out of the phase that does not close or destroy its epoch or domain"));
        }
    }
}

static void what_is_misused(void **state) {
    (void)state;
    for (unsigned good = 0; good < 2; good++) {
        anew();
        EpochId epoch = epoch_open(allocator, "phase", EPOCH_CHURN);
        void *object = slab_malloc_epoch(allocator, 100, epoch);
        assert_true(slab_free(allocator, object));
        if (!good) assert_false(slab_free(allocator, object));
        if (!good) assert_true(epoch_close(allocator, epoch));
        assert_int_equal(slab_malloc_epoch(allocator, 100, epoch) != NULL, good);
        if (good) assert_true(epoch_close(allocator, epoch));
        assert_int_equal(advises("rejected_frees", "A double free"), !good);
        assert_int_equal(advises("allocation_after_close", "after the last thread has left its phase"), !good);
    }
}

static void a_budget_that_is_nearly_used_up(void **state) {
    (void)state;
    anew();
    assert_true(slab_set_budget(allocator, (size_t)10 << 20));
    EpochId epoch = epoch_open(allocator, "base", EPOCH_CHURN);
    while (slab_malloc_epoch(allocator, 1000, epoch)) {
    }
    assert_true(advises("budget_near", "Raise it with slab_set_budget"));
    assert_true(slab_set_budget(allocator, (size_t)20 << 20));
    assert_null(found("budget_near"));
    assert_non_null(slab_malloc_epoch(allocator, 1000, epoch));
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, start, stop)

int main(void) {
    const struct CMUnitTest tests[] = {
        TEST(churn_epochs_of_many_classes),
        TEST(epochs_of_few_objects),
        TEST(slabs_that_objects_fill),
        TEST(memory_that_goes_back_and_forth),
        TEST(threads_that_meet),
        TEST(epochs_of_few_objects_that_stay),
        TEST(epochs_of_many_classes_that_stay),
        TEST(scopes_in_which_objects_are_freed),
        TEST(objects_that_outlive_their_neighbours),
        TEST(what_is_left_after_a_close),
        TEST(phases_without_an_end),
        TEST(what_grows),
        TEST(domains_that_are_never_ended),
        TEST(what_is_misused),
        TEST(a_budget_that_is_nearly_used_up),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
