/*
 * Threads that end in every way: with live objects, inside of domains, cancelled, with destructors of thread storage
 * that allocate and free to the last round; and a thousand of them at once.
 */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include "identities.h"
#include "pattern.h"
#include "proc.h"
#include "unit.h"

#include "api/runtime.h"
#include "check.h"
#include "os/os.h"

#include <errno.h>
#include <limits.h>
#include <pthread.h>
#include <stdatomic.h>
#include <string.h>
#include <unistd.h>

static SlabAllocator *allocator;
static EpochId churn, scope;

static int start(void **state) {
    (void)state;
    allocator = slab_allocator_create();
    churn = epoch_open(allocator, "churn", EPOCH_CHURN);
    scope = epoch_open(allocator, "scope", EPOCH_SCOPE);
    return !allocator || !churn || !scope;
}

static int stop(void **state) {
    (void)state;
    sup_check_identities(allocator);
    SUP_CHECK(epoch_destroy(allocator, churn) && epoch_destroy(allocator, scope), "epoch_destroy");
    (void)slab_trim(allocator);
    sup_check_empty(allocator);
    SUP_CHECK(sup_committed_bytes(allocator) == 0, "committed after everything ended");
    slab_allocator_free(allocator);
    return 0;
}

/* ---- ends with live objects ---------------------------------------------------------------------------------- */

enum { OBJECTS = 600 };
static void *objects[OBJECTS];
static const size_t sizes[] = {16, 40, 100, 700, 4000, 9000, 100000};

static void *leave_objects(void *argument) {
    for (size_t i = 0; i < OBJECTS; i++) {
        size_t size = sizes[i % (sizeof sizes / sizeof *sizes)];
        objects[i] = slab_malloc_epoch(allocator, size, i % 2 ? churn : scope);
        SUP_CHECK(objects[i] != NULL, "%zu bytes", size);
        sup_pattern_fill(objects[i], size, i);
    }
    return argument;
}

static void with_live_objects(void **state) {
    (void)state;
    sup_in_thread(leave_objects, NULL);
    assert_int_equal(sup_live_objects(allocator), OBJECTS);
    sup_check_identities(allocator);
    for (size_t i = 0; i < OBJECTS; i++) {
        assert_true(sup_pattern_check(objects[i], sizes[i % (sizeof sizes / sizeof *sizes)], i));
        assert_true(slab_free(allocator, objects[i]));
        assert_false(slab_free(allocator, objects[i]));
    }
    assert_int_equal(sup_live_objects(allocator), 0);
}

/* ---- ends inside of domains ------------------------------------------------------------------------------------- */

static EpochDomain *domains[3];
static unsigned cleanups;

static void count(void *argument) {
    (void)argument;
    cleanups++;
}

static void *end_inside(void *argument) {
    for (int i = 0; i < 3; i++) {
        domains[i] = epoch_domain_create_ex(allocator, "inside", i == 1 ? EPOCH_DOMAIN_SHARED : 0);
        SUP_CHECK(epoch_domain_enter(domains[i]) && epoch_domain_enter(domains[i]), "enter: %s", strerror(errno));
        SUP_CHECK(epoch_domain_on_destroy(domains[i], count, NULL), "on_destroy");
        objects[i] = slab_alloc(100);
        SUP_CHECK(objects[i] != NULL, "slab_alloc");
    }
    return argument;
}

static void inside_of_domains(void **state) {
    (void)state;
    cleanups = 0;
    sup_in_thread(end_inside, NULL);
    assert_null(epoch_domain_current());
    for (int i = 0; i < 3; i++) {
        assert_true(slab_owns(allocator, objects[i])); /* its end left the domains, and ended none */
        assert_int_equal(epoch_state(allocator, epoch_domain_epoch(domains[i])), EPOCH_ACTIVE);
    }
    assert_int_equal(cleanups, 0);
    /* Its own domains are nobody's to enter any more; the shared one is everybody's. */
    errno = 0;
    assert_false(epoch_domain_enter(domains[0]));
    assert_int_equal(errno, EPERM);
    assert_true(epoch_domain_enter(domains[1]) && slab_alloc(10));
    assert_false(epoch_domain_exit(domains[0]));
    assert_true(epoch_domain_exit(domains[1]));
    epoch_domain_destroy(domains[1]);
    assert_int_equal(cleanups, 1);
    assert_false(slab_owns(allocator, objects[1]));
    /* Their memory can be had back by their epochs. */
    assert_true(epoch_destroy(allocator, epoch_domain_epoch(domains[0])));
    assert_true(epoch_domain_force_close(domains[2]));
    assert_true(slab_free(allocator, objects[2]));
    assert_int_equal(epoch_state(allocator, epoch_domain_epoch(domains[2])), EPOCH_CLOSED);
}

/* ---- cancelled --------------------------------------------------------------------------------------------------- */

static atomic_bool ready;

static void *wait_to_be_cancelled(void *argument) {
    EpochDomain *domain = epoch_domain_create(allocator);
    SUP_CHECK(epoch_domain_enter(domain), "enter");
    objects[0] = slab_alloc(500);
    objects[1] = slab_malloc_epoch(allocator, 50, churn);
    objects[2] = slab_malloc_epoch(allocator, 50000, churn);
    atomic_store(&ready, true);
    for (;;) {
        sup_sleep_ms(1000);
    }
    return argument;
}

static void cancelled_while_it_waits(void **state) {
    (void)state;
    pthread_t thread;
    void *result;
    atomic_store(&ready, false);
    assert_int_equal(pthread_create(&thread, NULL, wait_to_be_cancelled, NULL), 0);
    while (!atomic_load(&ready)) {
        sup_sleep_ms(1);
    }
    assert_int_equal(pthread_cancel(thread), 0);
    assert_int_equal(pthread_join(thread, &result), 0);
    assert_true(result == PTHREAD_CANCELED);
    assert_int_equal(sup_live_objects(allocator), 3);
    sup_check_identities(allocator);
    for (int i = 0; i < 3; i++) {
        assert_true(slab_free(allocator, objects[i]));
    }
    EpochId epochs[8];
    size_t n = slab_epochs(allocator, epochs, 8);
    assert_int_equal(n, 3);
    assert_true(epoch_destroy(allocator, epochs[2])); /* the domain's */
}

/* A cancel that is pending takes effect at the next cancellation point: no call of the library may be one in the middle
   of its work. This one reads /proc while it closes. */
static EpochId recorded;
static SlabAllocator *recorder;

static void *close_while_cancelled(void *argument) {
    SUP_CHECK(pthread_cancel(pthread_self()) == 0, "pthread_cancel");
    bool closed = epoch_close(recorder, recorded);
    SlabGlobalStats stats;
    closed = slab_stats_global(recorder, &stats) && closed;
    int ignored;
    (void)pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &ignored);
    return closed ? argument : NULL;
}

static void cancelled_in_a_call(void **state) {
    (void)state;
    pthread_t thread;
    void *result;
    SlabOptions options = {.size = sizeof options, .record_rss = 1};
    recorder = slab_allocator_create_ex(&options);
    recorded = epoch_open(recorder, "recorded", EPOCH_CHURN);
    void *object = slab_malloc_epoch(recorder, 100, recorded);
    SlabEpochStats stats;
    assert_int_equal(pthread_create(&thread, NULL, close_while_cancelled, &ready), 0);
    assert_int_equal(pthread_join(thread, &result), 0);
    assert_true(result == (void *)&ready);
    assert_true(slab_stats_epoch(recorder, SLAB_ALL_CLASSES, recorded, &stats) && stats.rss_after_close > 0);
    assert_true(slab_free(recorder, object));
    assert_int_equal(epoch_state(recorder, recorded), EPOCH_CLOSED);
    slab_allocator_free(recorder);
}

/* ---- destructors of thread storage ------------------------------------------------------------------------------- */

static pthread_key_t key;
static unsigned rounds_run;
static bool only_in_the_last;
static unsigned refused;

/* Allocates, frees the objects that the thread left, and comes again as often as the system lets it. */
static void allocate_at_the_end(void *argument) {
    uintptr_t round = (uintptr_t)argument;
    rounds_run++;
    if (round < PTHREAD_DESTRUCTOR_ITERATIONS) {
        SUP_CHECK(pthread_setspecific(key, (void *)(round + 1)) == 0, "pthread_setspecific");
        if (only_in_the_last) {
            return;
        }
    }
    if (objects[round] != NULL) {
        errno = 0;
        SUP_CHECK(slab_free(allocator, objects[round]) && errno == 0, "freed in round %u", (unsigned)round);
        objects[round] = NULL;
    }
    errno = 0;
    void *object = slab_malloc_epoch(allocator, 100, churn);
    if (object == NULL) {
        /* Nothing runs on this thread after its last round: its remains could not be told from the memory of a live
           thread. */
        SUP_CHECK(errno == ENOMEM && round == PTHREAD_DESTRUCTOR_ITERATIONS, "round %u: %s", (unsigned)round,
                  strerror(errno));
        refused++;
        return;
    }
    SUP_CHECK(slab_free(allocator, object), "slab_free");
    EpochDomain *domain = epoch_domain_create(allocator);
    SUP_CHECK(epoch_domain_enter(domain) && slab_alloc(10), "a domain in a destructor");
    epoch_domain_destroy(domain);
}

static void *live_with_a_destructor(void *argument) {
    for (int i = 0; i <= PTHREAD_DESTRUCTOR_ITERATIONS; i++) {
        objects[i] = slab_malloc_epoch(allocator, 100, churn);
    }
    SUP_CHECK(pthread_setspecific(key, (void *)(uintptr_t)1) == 0, "pthread_setspecific");
    return argument;
}

/* No heap says that its thread lives, but this one's. */
static void no_other_thread_lives(void) {
    for (ts_heap *h = ts_heaps(); h; h = h->next) {
        assert_true(h == ts_thread.heap || ts_load_relaxed(&h->state) == TS_HEAP_ABANDONED);
    }
}

static void thread_local_destructors(void **state) {
    (void)state;
    for (int last = 0; last < 2; last++) {
        only_in_the_last = last;
        rounds_run = refused = 0;
        assert_int_equal(pthread_key_create(&key, allocate_at_the_end), 0);
        sup_in_thread(live_with_a_destructor, NULL);
        assert_int_equal(rounds_run, PTHREAD_DESTRUCTOR_ITERATIONS);
        assert_int_equal(refused, 1);
        no_other_thread_lives();
        for (int i = 0; i <= PTHREAD_DESTRUCTOR_ITERATIONS; i++) {
            assert_true(objects[i] == NULL || slab_free(allocator, objects[i]));
            objects[i] = NULL;
        }
        assert_int_equal(pthread_key_delete(key), 0);
        sup_check_identities(allocator);
    }
}

static unsigned first_round, last_round;

/* Comes in every round, and is busy from the first to the last of those two. */
static void begin_late(void *argument) {
    uintptr_t round = (uintptr_t)argument;
    if (round < PTHREAD_DESTRUCTOR_ITERATIONS) {
        SUP_CHECK(pthread_setspecific(key, (void *)(round + 1)) == 0, "pthread_setspecific");
    }
    if (round < first_round || round > last_round) {
        return;
    }
    SUP_CHECK(slab_free(allocator, objects[0]), "freed in round %u", (unsigned)round);
    objects[0] = slab_malloc_epoch(allocator, 100, churn);
    SUP_CHECK(objects[0] != NULL, "allocated in round %u", (unsigned)round);
}

static void *live_without_a_call(void *argument) {
    SUP_CHECK(pthread_setspecific(key, (void *)(uintptr_t)1) == 0, "pthread_setspecific");
    return argument;
}

/* The first call of a thread comes from a destructor, in each of the rounds. The thread's heap ends with it. */
static void first_call_in_a_destructor(void **state) {
    (void)state;
    assert_int_equal(pthread_key_create(&key, begin_late), 0);
    assert_non_null(objects[0] = slab_malloc_epoch(allocator, 100, churn));
    for (first_round = 1; first_round <= PTHREAD_DESTRUCTOR_ITERATIONS; first_round++) {
        for (last_round = first_round; last_round <= PTHREAD_DESTRUCTOR_ITERATIONS; last_round++) {
            /* A thread whose rounds are known is refused in the last. */
            if (first_round == 1 && last_round == PTHREAD_DESTRUCTOR_ITERATIONS) continue;
            sup_in_thread(live_without_a_call, NULL);
            no_other_thread_lives();
        }
    }
    assert_true(slab_free(allocator, objects[0]));
    objects[0] = NULL;
    assert_int_equal(pthread_key_delete(key), 0);
    sup_check_identities(allocator);
}

/* ---- a thousand -------------------------------------------------------------------------------------------------- */

enum { THREADS = SUP_SANITIZED ? 200 : 1000, EACH = 20 };
static void *(*mine)[EACH];
static pthread_barrier_t all;

static void *one_of_many(void *argument) {
    size_t number = (size_t)(uintptr_t)argument;
    for (size_t i = 0; i < EACH; i++) {
        mine[number][i] = slab_malloc_epoch(allocator, 20 + 50 * i, i % 2 ? churn : scope);
        SUP_CHECK(mine[number][i] != NULL, "slab_malloc_epoch");
        sup_pattern_fill(mine[number][i], 20 + 50 * i, number * EACH + i);
    }
    (void)pthread_barrier_wait(&all);
    /* Frees those of its neighbour, half of which may have ended meanwhile. */
    size_t other = (number + 1) % THREADS;
    for (size_t i = 0; i < EACH; i++) {
        SUP_CHECK(sup_pattern_check(mine[other][i], 20 + 50 * i, other * EACH + i), "a second owner");
        SUP_CHECK(slab_free(allocator, mine[other][i]), "slab_free");
    }
    return NULL;
}

static void a_thousand(void **state) {
    (void)state;
    static void *table[THREADS][EACH];
    static pthread_t threads[THREADS];
    pthread_attr_t small;
    mine = table;
    assert_int_equal(pthread_attr_init(&small), 0);
    assert_int_equal(pthread_attr_setstacksize(&small, SUP_SANITIZED ? (size_t)1 << 20 : (size_t)128 << 10), 0);
    for (int round = 0; round < 4; round++) {
        assert_int_equal(pthread_barrier_init(&all, NULL, THREADS + 1), 0);
        for (size_t i = 0; i < THREADS; i++) {
            SUP_CHECK(pthread_create(&threads[i], &small, one_of_many, (void *)(uintptr_t)i) == 0, "thread %zu", i);
        }
        (void)pthread_barrier_wait(&all);
        for (size_t i = 0; i < THREADS; i++) {
            assert_int_equal(pthread_join(threads[i], NULL), 0);
        }
        assert_int_equal(sup_live_objects(allocator), 0);
        sup_check_identities(allocator);
        (void)pthread_barrier_destroy(&all);
    }
    /* Each round finds the heaps of those before: one has left its blocks, another has taken them over. */
    unsigned heaps = 0;
    for (ts_heap *h = ts_heaps(); h; h = h->next) {
        heaps++;
    }
    assert_in_range(heaps, 2, 2 * THREADS + 20);
    (void)pthread_attr_destroy(&small);
}

int main(void) {
#define WITH(test) cmocka_unit_test_setup_teardown(test, start, stop)
    const struct CMUnitTest tests[] = {
        WITH(with_live_objects),   WITH(inside_of_domains),        WITH(cancelled_while_it_waits),
        WITH(cancelled_in_a_call), WITH(thread_local_destructors), WITH(first_call_in_a_destructor),
        WITH(a_thousand),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
