/*
 * A reader of a block's counts with its owner's steps between its own. block.c is compiled once more, in place of the
 * library's, with a place to stop at before every load.
 */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include "identities.h"
#include "unit.h"

#include "bins.h"

#include "steps.h"

#include "cache/block.c"

static SlabAllocator *allocator;
static EpochId epoch;

static void fill(void) {
    for (unsigned i = 0; i < 5; i++) {
        assert_non_null(slab_malloc_epoch(allocator, 4096, epoch));
    }
}

static void close_epoch(void) { assert_true(epoch_close(allocator, epoch)); }

/* The figure lies between the bytes before and after the step, whenever the owner went on to its next slab. */
static void neither_missed_nor_twice(void **state) {
    void (*const acts[])(void) = {fill, close_epoch};
    (void)state;
    allocator = slab_allocator_create();
    for (unsigned act = 0; act < 2; act++) {
        bool stopped = true;
        for (unsigned at = 0; stopped; at++) {
            epoch = epoch_open(allocator, NULL, EPOCH_SCOPE);
            void *p[4];
            for (unsigned i = 0; i < 4; i++) {
                p[i] = slab_malloc_epoch(allocator, 4096, epoch);
            }
            const ts_block *block = block_of(p[0]);
            for (unsigned i = 0; i < 3; i++) {
                assert_true(slab_free(allocator, p[i]));
            }
            uint64_t before = ts_block_tally(block, TS_COUNT_SCOPE).bytes_allocated;
            sup_stop_arm(&at_step, at, acts[act]);
            ts_tally t = ts_block_tally(block, TS_COUNT_SCOPE);
            stopped = sup_stop_disarm(&at_step);
            uint64_t after = ts_block_tally(block, TS_COUNT_SCOPE).bytes_allocated;
            SUP_CHECK(t.bytes_allocated >= before && t.bytes_allocated <= after,
                      "step %u: %llu bytes, %llu before, %llu after", at, (unsigned long long)t.bytes_allocated,
                      (unsigned long long)before, (unsigned long long)after);
            SUP_CHECK(t.bytes_freed <= t.bytes_allocated, "step %u: more was freed than allocated", at);
            assert_true(epoch_destroy(allocator, epoch));
        }
    }
    slab_allocator_free(allocator);
}

/* A machine with weak order may show this: the count of a free before that of its allocation. */
static void a_free_seen_before_its_allocation(void **state) {
    static ts_churn_block churn;
    static ts_scope_block scope = {.b.scope = 1};
    (void)state;
    ts_store_relaxed(&churn.bin[5].direct_frees, TS_DIRECT_ONE);
    ts_store_relaxed(&scope.frees, 1);
    const ts_tally seen[] = {ts_block_tally(&churn.b, 5), ts_block_tally(&scope.b, TS_COUNT_SCOPE)};
    for (unsigned i = 0; i < 2; i++) {
        assert_int_equal(seen[i].freed, 1);
        assert_int_equal(seen[i].allocated, 1);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(neither_missed_nor_twice),
        cmocka_unit_test(a_free_seen_before_its_allocation),
    };
    return cmocka_run_group_tests_name("cache.bytes_steps", tests, NULL, NULL);
}
