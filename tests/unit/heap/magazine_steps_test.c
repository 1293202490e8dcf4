/*
 * A reader of a magazine's counts with the steps of who empties the magazine between its own: bin.c is compiled once more, in
 * place of the library's, with a place to stop at before every load of the one and every store of the other.
 */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include "check.h"
#include "unit.h"

#include "heap/heap.h"

#include <limits.h>
#include <pthread.h>
#include <semaphore.h>

#include "steps.h"

#undef ts_store_relaxed
#undef ts_store_release
#define ts_store_relaxed(p, v) (step(), atomic_store_explicit((p), (v), memory_order_relaxed))
#define ts_store_release(p, v) (step(), atomic_store_explicit((p), (v), memory_order_release))
#include "heap/bin.c"

enum { POPS = 1000, DEPTH = 40, EVICTED = 7, STEPS_OF_EMPTYING = 5 };

static ts_bin bin;
static _Thread_local enum { NOBODY, READER, EMPTIER } role;
static sem_t arrived, go;
static bool finished;
static unsigned reads_before, steps_at_once, reads_without;

static void let_emptier_step(void) {
    if (finished) {
        return;
    }
    assert_int_equal(sem_post(&go), 0);
    while (sem_wait(&arrived) != 0) {
    }
}

/* The other's steps come before load reads_before: so many, then none for some loads (or for ever), then one before each. */
static void step(void) {
    if (role == EMPTIER) {
        SUP_CHECK(sem_post(&arrived) == 0, "sem_post");
        while (sem_wait(&go) != 0) {
        }
    } else if (role == READER && reads_before > 0) {
        reads_before--;
    } else if (role == READER) {
        for (; steps_at_once > 0; steps_at_once--) {
            let_emptier_step();
        }
        if (reads_without > 0) {
            reads_without--;
        } else {
            let_emptier_step();
        }
    }
}

static void *empty_it(void *argument) {
    role = EMPTIER;
    ts_bin_forget_magazine(&bin);
    role = NOBODY;
    finished = true;
    SUP_CHECK(sem_post(&arrived) == 0, "sem_post");
    return argument;
}

static void prepare(unsigned depth, unsigned evicted, unsigned note) {
    atomic_store(&bin.top, (uint64_t)POPS << TS_TOP_POPS_SHIFT | depth);
    atomic_store(&bin.evicted, (uint64_t)evicted << TS_EVICTED_SHIFT | note);
}

static void emptied_between_two_looks(void **state) {
    (void)state;
    for (unsigned reads = 0; reads < 4; reads++) {
        for (unsigned way = 0; way < 5 * STEPS_OF_EMPTYING; way++) {
            unsigned steps = 1 + way % STEPS_OF_EMPTYING;
            pthread_t thread;
            prepare(DEPTH, EVICTED, 0);
            finished = false;
            assert_int_equal(sem_init(&arrived, 0, 0), 0);
            assert_int_equal(sem_init(&go, 0, 0), 0);
            assert_int_equal(pthread_create(&thread, NULL, empty_it, NULL), 0);
            while (sem_wait(&arrived) != 0) {
            }
            reads_before = reads;
            steps_at_once = steps;
            reads_without = way / STEPS_OF_EMPTYING < 4 ? way / STEPS_OF_EMPTYING : UINT_MAX;
            role = READER;
            ts_magazine_counts counts = ts_bin_magazine_counts(&bin);
            role = NOBODY;
            while (!finished) {
                let_emptier_step();
            }
            assert_int_equal(pthread_join(thread, NULL), 0);
            SUP_CHECK(counts.pops == POPS && counts.pushes == POPS + DEPTH + EVICTED,
                      "after %u loads and %u steps: %llu pops, %llu pushes", reads, steps,
                      (unsigned long long)counts.pops, (unsigned long long)counts.pushes);
            counts = ts_bin_magazine_counts(&bin);
            assert_int_equal(counts.pushes, POPS + DEPTH + EVICTED);
            assert_int_equal(atomic_load(&bin.top) & TS_TOP_DEPTH, 0);
        }
    }
}

/* As if who was at it had vanished: the counts are right as they are, and after they were made whole. */
static void left_half_changed(void **state) {
    (void)state;
    for (unsigned depth = 0; depth <= DEPTH; depth += DEPTH) {
        prepare(depth, EVICTED + DEPTH, DEPTH);
        for (unsigned look = 0; look < 2; look++) {
            ts_magazine_counts counts = ts_bin_magazine_counts(&bin);
            assert_int_equal(counts.pops, POPS);
            assert_int_equal(counts.pushes, POPS + DEPTH + EVICTED);
            ts_bin_forget_magazine(&bin);
        }
        assert_int_equal(atomic_load(&bin.evicted), (uint64_t)(EVICTED + DEPTH) << TS_EVICTED_SHIFT);
        assert_int_equal(atomic_load(&bin.top), (uint64_t)POPS << TS_TOP_POPS_SHIFT);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(emptied_between_two_looks),
        cmocka_unit_test(left_half_changed),
    };
    return cmocka_run_group_tests_name("heap.magazine_steps", tests, NULL, NULL);
}
