/*
 * Ended blocks go to the next thread that needs one. There are never many more of them than were in use at once,
 * whichever threads made and ended them, and no pointer of their last owner leads to them.
 */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include "fixture.h"
#include "identities.h"

#include "bins.h"
#include "errands.h"
#include "ownership/ownership.h"
#include "walk/check.h"

#include <string.h>

enum { MANY = 400 };

static EpochId epochs[MANY], extra;
static unsigned flags;

/* All memory but that for the cutting of units, which comes for a block of units at a time, whichever of them are
   cut. */
static uint64_t metadata(void) {
    SlabGlobalStats stats;
    uint64_t blocks = 0;
    SUP_CHECK(slab_stats_global(allocator, &stats), "slab_stats_global");
    for (unsigned i = 0; i < TS_FINE_FAR_FIRST; i++)
        blocks += atomic_load(&ts_region.piece_groups[i / 64]) >> i % 64 & 1;
    return stats.metadata_bytes -
           (blocks << TS_FINE_NEAR_SHIFT) * TS_PIECES * (TS_PIECE_RECORD_BYTES + sizeof(uint64_t));
}

static void open_all(void) {
    for (unsigned i = 0; i < MANY; i++) {
        epochs[i] = epoch_open(allocator, NULL, flags);
        SUP_CHECK(epochs[i] != EPOCH_NONE, "epoch %u", i);
    }
}

static void use_all(void) {
    for (unsigned i = 0; i < MANY; i++) {
        SUP_CHECK(slab_malloc_epoch(allocator, 100, epochs[i]) != NULL, "epoch %u", i);
    }
}

static void destroy_all(void) {
    for (unsigned i = 0; i < MANY; i++) {
        SUP_CHECK(epoch_destroy(allocator, epochs[i]), "epoch %u", i);
    }
}

static void open_and_use_all(void) {
    open_all();
    use_all();
}

static void check_everything(void) {
    ts_check check;
    SUP_CHECK(ts_check_all(&check, false), "%s", check.why);
}

/* ---- how many there are ------------------------------------------------------------------------------------------ */

/* Threads come, leave their epochs to this one, and end. */
static void made_by_others(void **state) {
    (void)state;
    for (flags = EPOCH_CHURN; flags <= EPOCH_SCOPE; flags++) {
        uint64_t before = 0;
        for (unsigned round = 0; round < 12; round++) {
            begin();
            let(open_and_use_all);
            end();
            use_all();
            destroy_all();
            assert_true(ts_load_relaxed(&ts_thread.heap->free_blocks[0]) <= TS_FREE_CHURN_BLOCKS);
            assert_true(ts_load_relaxed(&ts_thread.heap->free_blocks[1]) <= TS_FREE_SCOPE_BLOCKS);
            if (round == 3) { /* by then all that it takes is accessible */
                before = metadata();
            }
        }
        assert_int_equal(metadata(), before);
        check_everything();
    }
}

/* A block that one thread has used serves another. */
static void used_in_turn(void **state) {
    (void)state;
    for (flags = EPOCH_CHURN; flags <= EPOCH_SCOPE; flags++) {
        begin();
        open_and_use_all();
        destroy_all();
        uint64_t before = metadata();
        for (unsigned round = 0; round < 4; round++) {
            let(open_and_use_all);
            let(destroy_all);
            open_and_use_all();
            destroy_all();
        }
        /* Not one block for each epoch of each thread; those that the threads keep are extra. */
        size_t block = flags == EPOCH_SCOPE ? sizeof(ts_scope_block) : TS_LINES_CHUNK + TS_MAGAZINE_BYTES;
        assert_in_range(metadata() - before, 0, TS_FREE_SCOPE_BLOCKS * block + ((size_t)256 << 10));
        end();
        check_everything();
    }
}

/* Domains, too, that end in the usual way. */
static void kept_by_who_ends_a_domain(void **state) {
    (void)state;
    slab_thread_idle();
    assert_null(ts_thread.heap->free_scope);
    EpochDomain *domain = epoch_domain_create(allocator);
    flags = EPOCH_SCOPE;
    open_and_use_all();
    unsigned ended = 0;
    while (ts_load_relaxed(&ts_thread.heap->free_blocks[true]) < TS_FREE_SCOPE_BLOCKS) {
        assert_true(epoch_destroy(allocator, epochs[ended++]));
    }
    extra = epoch_open(allocator, NULL, EPOCH_SCOPE); /* it takes no block, and the domain's entry finds room */
    epoch_domain_destroy(domain);
    assert_int_equal(ts_load_relaxed(&ts_thread.heap->free_blocks[true]),
                     TS_FREE_SCOPE_BLOCKS + 1 - TS_FREE_BLOCKS_MOVED);
    assert_true(epoch_destroy(allocator, extra));
    while (ended < MANY) {
        assert_true(epoch_destroy(allocator, epochs[ended++]));
    }
    check_everything();
}

static void idle(void) { slab_thread_idle(); }

/* A thread that rests keeps none, nor one that ends, nor one that has ended when its last epochs do. */
static void kept_by_none(void **state) {
    (void)state;
    for (flags = EPOCH_CHURN; flags <= EPOCH_SCOPE; flags++) {
        open_and_use_all();
        destroy_all();
        idle();
        assert_null(ts_thread.heap->free_churn);
        assert_null(ts_thread.heap->free_scope);
        begin();
        let(open_and_use_all);
        ts_heap *heap = other_heap;
        for (unsigned i = 0; i < MANY / 2; i++) { /* by this thread, from the heap of that */
            assert_true(epoch_destroy(allocator, epochs[i]));
        }
        assert_int_equal(ts_load_relaxed(&heap->free_blocks[flags == EPOCH_SCOPE]), MANY / 2);
        end();
        assert_null(heap->free_churn);
        assert_null(heap->free_scope);
        for (unsigned i = MANY / 2; i < MANY; i++) {
            assert_true(epoch_destroy(allocator, epochs[i]));
        }
        assert_null(heap->free_churn);
        assert_null(heap->free_scope);
        check_everything();
    }
}

static void use_extra(void) { SUP_CHECK(slab_malloc_epoch(allocator, 100, extra) != NULL, "slab_malloc_epoch"); }

/* Another thread ends this thread's blocks, again and again, and this one ends none. */
static void ended_by_another(void **state) {
    (void)state;
    flags = EPOCH_CHURN;
    begin();
    let(open_and_use_all);
    destroy_all();
    assert_int_equal(ts_load_relaxed(&other_heap->free_blocks[0]), MANY);
    for (unsigned i = 0; i < MANY; i++) {
        extra = epoch_open(allocator, NULL, EPOCH_CHURN);
        let(use_extra);
        assert_true(epoch_destroy(allocator, extra));
    }
    assert_in_range(ts_load_relaxed(&other_heap->free_blocks[0]), 0, TS_FREE_CHURN_BLOCKS + 1);
    end();
    check_everything();
}

/* Nor this one's by another, while this one ends domains. */
static void ended_by_another_among_domains(void **state) {
    (void)state;
    flags = EPOCH_CHURN;
    begin();
    open_and_use_all();
    let(destroy_all);
    const ts_heap *heap = ts_thread.heap;
    assert_int_equal(ts_load_relaxed(&heap->free_blocks[0]), MANY);
    for (unsigned i = 0; i < MANY / TS_FREE_BLOCKS_MOVED + 1; i++) {
        epoch_domain_destroy(epoch_domain_create(allocator));
    }
    assert_in_range(ts_load_relaxed(&heap->free_blocks[0]), 0, TS_FREE_CHURN_BLOCKS);
    end();
    check_everything();
}

/* ---- nothing leads to them --------------------------------------------------------------------------------------- */

static void take_part(void) {
    for (unsigned i = 0; i < MANY; i++) {
        ts_block *block = block_of(slab_malloc_epoch(allocator, 100, epochs[i]));
        SUP_CHECK(ts_load_relaxed(&block->heap) == ts_thread.heap, "epoch %u: the block of another thread", i);
    }
}

/* The entries of the epochs are the same again, so the places of the thread's map are, too. */
static void no_hint_of_an_epoch(void **state) {
    (void)state;
    begin();
    for (flags = EPOCH_CHURN; flags <= EPOCH_SCOPE; flags++) {
        for (unsigned round = 0; round < 4; round++) {
            open_and_use_all();
            take_part();
            destroy_all();
            let(open_and_use_all);
            take_part();
            let(take_part);
            destroy_all();
        }
    }
    end();
    check_everything();
}

static ts_block *wanted;

/* Until the block is the next that this thread will use. */
static void take_others(bool scope) {
    ts_block *const *list = scope ? &ts_thread.heap->free_scope : &ts_thread.heap->free_churn;
    for (unsigned i = 0; i < 64 && *list != wanted; i++) {
        EpochId other = epoch_open(allocator, NULL, scope ? EPOCH_SCOPE : EPOCH_CHURN);
        SUP_CHECK(slab_malloc_epoch(allocator, 100, other) != NULL, "slab_malloc_epoch");
    }
    SUP_CHECK(*list == wanted, "the block is not here");
}

static void take_for_epoch(void) {
    SUP_CHECK(slab_malloc(allocator, 100) != NULL, "slab_malloc");
    take_others(flags == EPOCH_SCOPE);
    extra = epoch_open(allocator, NULL, flags);
    SUP_CHECK(block_of(slab_malloc_epoch(allocator, 100, extra)) == wanted, "another block");
}

static void take_rolling(void) {
    SUP_CHECK(slab_malloc(allocator, 100) != NULL, "slab_malloc");
    take_others(false);
    SUP_CHECK(epoch_advance(allocator) != EPOCH_NONE, "epoch_advance");
    SUP_CHECK(block_of(slab_malloc(allocator, 100)) == wanted, "another block");
}

/* This thread has no block; the other one gets that which was wanted. */
static void give_to(void (*take)(void)) {
    idle();
    assert_true(ts_load_relaxed(&wanted->heap) != ts_thread.heap);
    let(take);
    assert_true(ts_load_relaxed(&wanted->heap) == other_heap);
}

static void in_a_block_of_its_own(const void *p) {
    assert_true(block_of(p) != wanted);
    assert_true(ts_load_relaxed(&block_of(p)->heap) == ts_thread.heap);
}

/* The block that the thread used last is that of another thread, in an epoch that both use. */
static void no_hint_of_the_last_epoch(void **state) {
    (void)state;
    flags = EPOCH_CHURN;
    begin();
    epochs[0] = epoch_open(allocator, NULL, flags);
    wanted = block_of(slab_malloc_epoch(allocator, 100, epochs[0]));
    assert_ptr_equal(ts_thread.block, wanted);
    assert_true(epoch_destroy(allocator, epochs[0]));
    memset(ts_thread.heap->map, 0, sizeof ts_thread.heap->map); /* one hint at a time */
    give_to(take_for_epoch);
    in_a_block_of_its_own(slab_malloc_epoch(allocator, 100, extra));
    end();
    check_everything();
}

/* That of a rolling epoch is the block of the rolling epoch of another thread. */
static void no_hint_of_the_rolling_epoch(void **state) {
    (void)state;
    begin();
    void *p = slab_malloc(allocator, 100);
    wanted = block_of(p);
    assert_true(slab_free(allocator, p));
    assert_int_not_equal(epoch_advance(allocator), EPOCH_NONE);
    give_to(take_rolling);
    in_a_block_of_its_own(slab_malloc(allocator, 100));
    end();
    check_everything();
}

static EpochDomain *domain;
static void destroy_domain(void) { epoch_domain_destroy(domain); }

/* That of a domain which another thread has ended while this one is in it. */
static void no_hint_of_a_domain(void **state) {
    (void)state;
    flags = EPOCH_SCOPE;
    begin();
    domain = epoch_domain_create_ex(allocator, NULL, EPOCH_DOMAIN_SHARED);
    assert_true(epoch_domain_enter(domain));
    wanted = block_of(slab_alloc(100));
    assert_ptr_equal(ts_thread.scope, wanted);
    let(destroy_domain);
    give_to(take_for_epoch);
    void *p = slab_alloc(100);
    assert_true(!p || block_of(p) != wanted);
    assert_true(epoch_domain_exit(domain));
    end();
    check_everything();
}

/* ---- of a closed epoch ------------------------------------------------------------------------------------------- */

static void *others[2];
static void use_extra_twice(void) {
    for (unsigned i = 0; i < 2; i++) {
        others[i] = slab_malloc_epoch(allocator, 100, extra);
        SUP_CHECK(others[i] != NULL, "slab_malloc_epoch");
    }
}

static void check_row(uint64_t allocated, uint64_t freed) {
    SlabEpochStats row;
    assert_true(slab_stats_epoch(allocator, SLAB_ALL_CLASSES, extra, &row));
    assert_int_equal(row.state, EPOCH_CLOSING);
    assert_int_equal(row.allocated_objects_total, allocated);
    assert_int_equal(row.freed_objects_total, freed);
    assert_int_equal(row.live_objects, allocated - freed);
}

static uint32_t others_free(void) { return ts_load_relaxed(&other_heap->free_blocks[0]); }

/* A block of a closed epoch that holds nothing is its thread's again, at the close or with its last object, while
   another's holds one. The epoch's row leaves out the counts of that block. */
static void left_by_those_that_hold_nothing(void **state) {
    (void)state;
    flags = EPOCH_CHURN;
    begin();
    for (unsigned before = 0; before <= 2;
         before++) { /* of the other thread's objects that are freed before the close */
        extra = epoch_open(allocator, NULL, flags);
        void *mine = slab_malloc_epoch(allocator, 100, extra), *again = slab_malloc_epoch(allocator, 100, extra);
        let(use_extra_twice);
        uint32_t held = others_free();
        wanted = block_of(others[0]);
        for (unsigned i = 0; i < before; i++) assert_true(slab_free(allocator, others[i]));
        assert_true(epoch_close(allocator, extra));
        check_row(before == 2 ? 2 : 4, before == 2 ? 0 : before);
        for (unsigned i = before; i < 2; i++) {
            assert_int_equal(others_free(), held);
            assert_true(slab_free(allocator, others[i]));
        }
        assert_int_equal(others_free(), held + 1);
        assert_null(ts_load_relaxed(&wanted->epoch));
        check_row(2, 0);
        assert_false(slab_free(allocator, others[0]));
        check_everything();
        assert_true(slab_free(allocator, mine));
        check_row(2, 1);
        assert_true(slab_free(allocator, again));
        assert_int_equal(epoch_state(allocator, extra), EPOCH_CLOSED);
        check_everything();
    }
    end();
}

/* The block with bins of a domain that started small, whose leaked object lies in its first slab. */
static void left_by_the_bins_of_a_domain(void **state) {
    (void)state;
    enum { OBJECTS = 140, ROOM = 128 }; /* of the first slab */
    void *objects[OBJECTS];
    EpochDomain *small = epoch_domain_create_ex(allocator, NULL, EPOCH_CHURN | EPOCH_DOMAIN_DRAIN);
    extra = epoch_domain_epoch(small);
    for (unsigned i = 0; i < OBJECTS; i++) objects[i] = slab_malloc_epoch(allocator, 128, extra);
    if (!block_of(objects[0])->scope) { /* it does not start small: with memory tools */
        epoch_domain_destroy(small);
        for (unsigned i = 0; i < OBJECTS; i++) assert_true(slab_free(allocator, objects[i]));
        return;
    }
    assert_false(block_of(objects[OBJECTS - 1])->scope);
    wanted = block_of(objects[OBJECTS - 1]);
    for (unsigned i = 1; i < OBJECTS; i++) assert_true(slab_free(allocator, objects[i]));
    assert_non_null(ts_load_relaxed(&wanted->epoch));
    epoch_domain_destroy(small);
    assert_null(ts_load_relaxed(&wanted->epoch));
    assert_non_null(ts_load_relaxed(&block_of(objects[0])->epoch));
    check_row(ROOM, ROOM - 1);
    check_everything();
    assert_true(slab_free(allocator, objects[0]));
    assert_int_equal(epoch_state(allocator, extra), EPOCH_CLOSED);
}

#define WITH(test) cmocka_unit_test_setup_teardown(test, start_plain, stop)

int main(void) {
    const struct CMUnitTest tests[] = {
        WITH(made_by_others),
        WITH(used_in_turn),
        WITH(kept_by_none),
        WITH(kept_by_who_ends_a_domain),
        WITH(ended_by_another),
        WITH(ended_by_another_among_domains),
        WITH(no_hint_of_an_epoch),
        WITH(no_hint_of_the_last_epoch),
        WITH(no_hint_of_the_rolling_epoch),
        WITH(no_hint_of_a_domain),
        WITH(left_by_those_that_hold_nothing),
        WITH(left_by_the_bins_of_a_domain),
    };
    return cmocka_run_group_tests_name("ownership.blocks", tests, NULL, NULL);
}
