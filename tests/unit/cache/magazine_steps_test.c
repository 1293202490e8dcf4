/*
 * A reader of the counts of a magazine, or of the claimed word, with the steps of the thread that changes it between
 * its own: bin.c is compiled once more, in place of the library's, with a place to stop at before every load of the one
 * and every store of the other.
 */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include "check.h"
#include "unit.h"

#include "cache/cache.h"

#include <limits.h>
#include <pthread.h>
#include <semaphore.h>

#define SUP_OWN_STEP
#include "steps.h"

#undef ts_store_relaxed
#undef ts_store_release
#define ts_store_relaxed(p, v) (step(), atomic_store_explicit((p), (v), memory_order_relaxed))
#define ts_store_release(p, v) (step(), atomic_store_explicit((p), (v), memory_order_release))
#include "cache/bin.c"

enum { POPS = 1000, DEPTH = 40, DIRECT = 7, STEPS_OF_EMPTYING = 5, STEPS_OF_WORDS = 13 };

static ts_bin bin;
static _Thread_local enum { NOBODY, READER, CHANGER } role;
static sem_t arrived, go;
static bool finished;
static unsigned reads_before, steps_at_once, reads_without;
static uint64_t word_allocs;

static void let_changer_step(void) {
    if (finished) {
        return;
    }
    assert_int_equal(sem_post(&go), 0);
    while (sem_wait(&arrived) != 0) {
    }
}

/* The other's steps come before load reads_before: so many, then none for some loads (or for ever), then one before
   each. */
static void step(void) {
    if (role == CHANGER) {
        SUP_CHECK(sem_post(&arrived) == 0, "sem_post");
        while (sem_wait(&go) != 0) {
        }
    } else if (role == READER && reads_before > 0) {
        reads_before--;
    } else if (role == READER) {
        for (; steps_at_once > 0; steps_at_once--) {
            let_changer_step();
        }
        if (reads_without > 0) {
            reads_without--;
        } else {
            let_changer_step();
        }
    }
}

static void (*change)(void);

static void *run_change(void *argument) {
    role = CHANGER;
    change();
    role = NOBODY;
    finished = true;
    SUP_CHECK(sem_post(&arrived) == 0, "sem_post");
    return argument;
}

static void prepare(unsigned depth, unsigned direct, unsigned note) {
    atomic_store(&bin.top, (uint64_t)POPS << TS_TOP_POPS_SHIFT | depth);
    atomic_store(&bin.direct_frees, (uint64_t)direct << TS_DIRECT_SHIFT | note);
}

/* The change from `begin` on with the reads in every order of these: so many loads, so many steps, then none for some
   loads. */
static void in_many_orders(void (*begin)(void), void (*changing)(void), unsigned steps_of_it, void (*read_now)(void)) {
    change = changing;
    for (unsigned reads = 0; reads < 4; reads++) {
        for (unsigned way = 0; way < 5 * steps_of_it; way++) {
            pthread_t thread;
            begin();
            finished = false;
            assert_int_equal(sem_init(&arrived, 0, 0), 0);
            assert_int_equal(sem_init(&go, 0, 0), 0);
            assert_int_equal(pthread_create(&thread, NULL, run_change, NULL), 0);
            while (sem_wait(&arrived) != 0) {
            }
            reads_before = reads;
            steps_at_once = 1 + way % steps_of_it;
            reads_without = way / steps_of_it < 4 ? way / steps_of_it : UINT_MAX;
            read_now();
            while (!finished) {
                let_changer_step();
            }
            assert_int_equal(pthread_join(thread, NULL), 0);
            read_now();
        }
    }
}

static void begin_full(void) { prepare(DEPTH, DIRECT, 0); }
static void empty_magazine(void) { ts_bin_forget_magazine(&bin); }
static void read_magazine(void) {
    role = READER;
    ts_magazine_counts counts = ts_bin_magazine_counts(&bin);
    role = NOBODY;
    SUP_CHECK(counts.pops == POPS && counts.frees == POPS + DEPTH + DIRECT, "%llu pops, %llu frees",
              (unsigned long long)counts.pops, (unsigned long long)counts.frees);
}

static void emptied_between_two_looks(void **state) {
    (void)state;
    in_many_orders(begin_full, empty_magazine, STEPS_OF_EMPTYING, read_magazine);
    assert_int_equal(atomic_load(&bin.top) & TS_TOP_DEPTH, 0);
}

/* Eight were claimed, five of them allocated. */
static void begin_word_of_three(void) {
    atomic_store(&bin.claims, (uint64_t)POPS << TS_CLAIMS_SHIFT | 8);
    atomic_store(&bin.word, 7u << 5);
    word_allocs = POPS + 5;
}
static void take_from_word(void) { /* as ts_fast_word */
    uint64_t word = atomic_load(&bin.word);
    ts_store_relaxed(&bin.word, word & (word - 1));
    word_allocs++;
}
/* The last three, then one of four that are claimed next; the rest is put back, and claimed again. */
static void use_words(void) {
    for (unsigned i = 0; i < 3; i++) {
        take_from_word();
    }
    set_word(&bin, 15, 4);
    take_from_word();
    SUP_CHECK(ts_bin_take_word(&bin) == 14, "what was put back");
    set_word(&bin, 14, 3);
    take_from_word();
}
static void read_words(void) {
    uint64_t before = word_allocs;
    role = READER;
    uint64_t found = ts_bin_word_allocs(&bin);
    role = NOBODY;
    SUP_CHECK(found >= before && found <= word_allocs, "%llu, not from %llu to %llu", (unsigned long long)found,
              (unsigned long long)before, (unsigned long long)word_allocs);
}

static void words_claimed_between_two_looks(void **state) {
    (void)state;
    in_many_orders(begin_word_of_three, use_words, STEPS_OF_WORDS, read_words);
    assert_int_equal(word_allocs, POPS + 10);
    assert_int_equal(atomic_load(&bin.claims), (uint64_t)(POPS + 9) << TS_CLAIMS_SHIFT | 3);
}

/* As if the thread had vanished in a fork after the store that many steps in: nothing is counted twice, or lost. */
static void word_left_half_changed(void **state) {
    const struct {
        uint64_t claims, word;
    } left[] = {{(POPS + 8) << TS_CLAIMS_SHIFT, 0},
                {(POPS + 8) << TS_CLAIMS_SHIFT, 15},
                {(POPS + 8) << TS_CLAIMS_SHIFT | 4, 15}};
    (void)state;
    for (unsigned i = 0; i < sizeof left / sizeof *left; i++) {
        atomic_store(&bin.claims, left[i].claims);
        atomic_store(&bin.word, left[i].word);
        for (unsigned look = 0; look < 3; look++) {
            assert_int_equal(ts_bin_word_allocs(&bin), POPS + 8);
            assert_int_equal(ts_bin_take_word(&bin), look == 0 ? left[i].word : 0);
        }
        assert_int_equal(atomic_load(&bin.claims), (uint64_t)(POPS + 8) << TS_CLAIMS_SHIFT);
    }
}

/* As if the changing thread had vanished: the counts are right as they are, and after a repair. */
static void left_half_changed(void **state) {
    (void)state;
    for (unsigned depth = 0; depth <= DEPTH; depth += DEPTH) {
        prepare(depth, DIRECT + DEPTH, DEPTH);
        for (unsigned look = 0; look < 2; look++) {
            ts_magazine_counts counts = ts_bin_magazine_counts(&bin);
            assert_int_equal(counts.pops, POPS);
            assert_int_equal(counts.frees, POPS + DEPTH + DIRECT);
            ts_bin_forget_magazine(&bin);
        }
        assert_int_equal(atomic_load(&bin.direct_frees), (uint64_t)(DIRECT + DEPTH) << TS_DIRECT_SHIFT);
        assert_int_equal(atomic_load(&bin.top), (uint64_t)POPS << TS_TOP_POPS_SHIFT);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(emptied_between_two_looks),
        cmocka_unit_test(left_half_changed),
        cmocka_unit_test(words_claimed_between_two_looks),
        cmocka_unit_test(word_left_half_changed),
    };
    return cmocka_run_group_tests_name("cache.magazine_steps", tests, NULL, NULL);
}
