/*
 * The first handle of a slab's use is made by another thread while the owner frees and allocates by its usual paths,
 * which count no lives until then. A handle that is made is of one life: once the owner has freed the object it is
 * stale for ever, whatever came to lie in the slot.
 */
#include "check.h"
#include "rng.h"
#include "unit.h"

#include "base/base.h"

#include <pthread.h>
#include <sched.h>

enum { OBJECTS = 60, TRIALS = 4000, HANDLES = 4, MORE = 3 };

static SlabAllocator *allocator;
static _Atomic(void *) shown[OBJECTS]; /* live, or just freed */
static _Atomic uint64_t rounds;        /* in each the owner frees all objects, and allocates as many */
static _Atomic uint64_t trial, answered;

static void wait_for(const _Atomic uint64_t *count, uint64_t least) {
    while (ts_load_acquire(count) < least) sched_yield();
}

static void *make_handles(void *argument) {
    struct sup_rng rng = {7};
    unsigned *made = argument;
    for (uint64_t t = 1; t <= SUP_SCALED(TRIALS); t++) {
        SlabHandle handle[HANDLES];
        wait_for(&trial, t);
        for (uint64_t spins = sup_rng_below(&rng, 3000); spins > 0; spins--) ts_compiler_fence();
        for (unsigned i = 0; i < HANDLES; i++) {
            handle[i] = slab_handle_of(allocator, ts_load_acquire(&shown[sup_rng_below(&rng, OBJECTS)]));
            *made += handle[i] != SLAB_HANDLE_NONE;
        }
        uint64_t from = ts_load_acquire(&rounds) + 2; /* by then each of them has been freed */
        for (unsigned i = 0; i < MORE; i++) {
            wait_for(&rounds, from + i);
            for (unsigned k = 0; k < HANDLES; k++)
                SUP_CHECK(slab_handle_get(allocator, handle[k]) == NULL, "a stale handle of trial %u is good",
                          (unsigned)t);
        }
        ts_store_release(&answered, t);
    }
    return NULL;
}

static void first_handle_beside_usual_frees(void **state) {
    static const size_t sizes[] = {16, 48, 64, 112, 1000};
    (void)state;
    struct sup_rng rng = {8};
    unsigned made = 0;
    pthread_t other;
    allocator = slab_allocator_create();
    assert_int_equal(pthread_create(&other, NULL, make_handles, &made), 0);
    for (uint64_t t = 1; t <= SUP_SCALED(TRIALS); t++) {
        size_t size = sizes[t % (sizeof sizes / sizeof *sizes)];
        EpochId epoch = epoch_open(allocator, NULL, EPOCH_CHURN);
        for (unsigned i = 0; i < OBJECTS; i++) ts_store_release(&shown[i], slab_malloc_epoch(allocator, size, epoch));
        ts_store_release(&trial, t);
        while (ts_load_acquire(&answered) < t) {
            for (unsigned i = 0; i < OBJECTS; i++) {
                unsigned at = (unsigned)sup_rng_below(&rng, 2) ? i : OBJECTS - 1 - i;
                void *p = ts_load_relaxed(&shown[at]);
                SUP_CHECK(slab_free(allocator, p), "slab_free");
                ts_store_release(&shown[at], slab_malloc_epoch(allocator, size, epoch));
            }
            for (unsigned i = 0; i < OBJECTS; i++) {
                void *p = ts_load_relaxed(&shown[i]);
                SUP_CHECK(slab_free(allocator, p), "slab_free");
                ts_store_release(&shown[i], slab_malloc_epoch(allocator, size, epoch));
            }
            ts_store_release(&rounds, ts_load_relaxed(&rounds) + 1);
        }
        SUP_CHECK(epoch_destroy(allocator, epoch), "epoch_destroy");
    }
    assert_int_equal(pthread_join(other, NULL), 0);
    assert_true(made > SUP_SCALED(TRIALS));
    slab_allocator_free(allocator);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(first_handle_beside_usual_frees)};
    return cmocka_run_group_tests_name("stress.first_handles", tests, NULL, NULL);
}
