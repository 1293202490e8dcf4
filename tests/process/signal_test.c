/*
 * Signal handlers that read statistics, on threads that allocate, free, open and end epochs as fast as they can: each
 * answer is right; nothing hangs, and nothing is damaged.
 */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include "identities.h"
#include "proc.h"
#include "stress.h"
#include "unit.h"

#include "api/runtime.h"

#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>

static SlabAllocator *allocator;
static EpochId churn;
static atomic_bool stop;
static atomic_uint_fast64_t answered, wrong;

static void read_figures(int number) {
    int before = errno;
    SlabGlobalStats global;
    SlabEpochStats epoch;
    SlabClassStats cls;
    EpochId ids[16];
    (void)number;
    errno = 0;
    if (slab_stats_global(allocator, &global)) {
        atomic_fetch_add(&answered, 1);
        if (global.allocated_objects_total - global.freed_objects_total != global.live_objects) {
            atomic_fetch_add(&wrong, 1);
        }
    } else {
        atomic_fetch_add(&wrong, 1);
    }
    if (!slab_stats_epoch(allocator, SLAB_ALL_CLASSES, churn, &epoch)) {
        atomic_fetch_add(&wrong, 1);
    }
    if (!slab_stats_class(allocator, 3, &cls)) {
        atomic_fetch_add(&wrong, 1);
    }
    if (slab_epochs(allocator, ids, 16) == 0) { /* the churn epoch is open */
        atomic_fetch_add(&wrong, 1);
    }
    if (slab_stats_thread().version != SLAB_STATS_VERSION) {
        atomic_fetch_add(&wrong, 1);
    }
    errno = before;
}

static void work(void *argument, unsigned number) {
    struct sup_rng rng = {sup_mix(number) + 1};
    struct stress_object kept[64] = {{0}};
    (void)argument;
    while (!atomic_load_explicit(&stop, memory_order_relaxed)) {
        struct stress_object *slot = &kept[sup_rng_below(&rng, 64)];
        if (slot->address) {
            stress_free(allocator, slot);
        } else {
            *slot = stress_make(allocator, churn, &rng);
        }
        if (sup_rng_below(&rng, 50) == 0) {
            EpochId own = epoch_open(allocator, "own", sup_rng_below(&rng, 2) ? EPOCH_SCOPE : EPOCH_CHURN);
            for (int i = 0; i < 30; i++) {
                (void)stress_make(allocator, own, &rng);
            }
            SUP_CHECK(epoch_close(allocator, own), "epoch_close");
            SUP_CHECK(epoch_destroy(allocator, own), "epoch_destroy");
        }
        if (sup_rng_below(&rng, 500) == 0) {
            (void)slab_trim(allocator);
        }
    }
    for (int i = 0; i < 64; i++) {
        if (kept[i].address) {
            stress_free(allocator, &kept[i]);
        }
    }
}

static void handlers_read_statistics(void **state) {
    (void)state;
    struct stress_crew crew;
    struct sigaction action;
    memset(&action, 0, sizeof action);
    action.sa_handler = read_figures;
    action.sa_flags = SA_RESTART;
    assert_int_equal(sigaction(SIGUSR1, &action, NULL), 0);
    allocator = slab_allocator_create();
    churn = epoch_open(allocator, "churn", EPOCH_CHURN);
    stress_start(&crew, 3, work, NULL);
    for (double until = sup_now_s() + 1.0; sup_now_s() < until;) {
        for (unsigned i = 0; i < 3; i++) {
            assert_int_equal(pthread_kill(crew.threads[i], SIGUSR1), 0);
        }
        sup_sleep_ms(0);
        (void)sched_yield();
    }
    atomic_store(&stop, true);
    stress_join(&crew);
    assert_int_equal(atomic_load(&wrong), 0);
    assert_true(atomic_load(&answered) > 10);
    sup_check_identities(allocator);
    slab_allocator_free(allocator);
    print_message("%llu answered\n", (unsigned long long)atomic_load(&answered));
}

/* A handler reads statistics at chosen moments: in the middle of an operation, and with a lock taken. */
static void asked_in_the_middle(void **state) {
    (void)state;
    SlabGlobalStats global;
    SlabAllocator *a = slab_allocator_create();
    void *object = slab_malloc(a, 100);
    ts_heap_enter(ts_thread.heap);
    assert_int_equal(slab_epochs(a, NULL, 0), 1);
    assert_true(slab_stats_global(a, &global) && global.live_objects == 1);
    ts_heap_leave(ts_thread.heap);
    ts_allocator *record = ts_allocator_find((uintptr_t)a);
    ts_lock_acquire(&record->retained_lock);
    assert_int_equal(slab_epochs(a, NULL, 0), 1);
    assert_true(slab_stats_text(a, NULL, 0) > 0);
    ts_lock_release(&record->retained_lock);
    assert_true(slab_stats_global(a, &global) && global.live_objects == 1);
    assert_true(slab_free(a, object));
    slab_allocator_free(a);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(asked_in_the_middle),
                                       cmocka_unit_test(handlers_read_statistics)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
