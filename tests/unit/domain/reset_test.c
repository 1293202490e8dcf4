/*
 * Resets of a domain: the quick way, where all that it has is one block of the calling thread, and each case that is
 * not that one. Whichever way it goes, everything in the domain is dead afterwards, and it goes on.
 */
#include "check.h"
#include "identities.h"
#include "pin.h"
#include "unit.h"

#include "api/runtime.h"
#include "diagnose/diagnose.h"
#include "domain/domain.h"
#include "epoch/epoch.h"
#include "region/region.h"
#include "supply/supply.h"
#include "walk/check_pool.h"

#include <errno.h>
#include <pthread.h>
#include <string.h>

static SlabAllocator *allocator;
static ts_allocator *record;
static EpochDomain *domain;
static EpochId epoch;

static int start(void **state) {
    (void)state;
    allocator = slab_allocator_create();
    record = ts_allocator_find(ts_token(allocator));
    domain = epoch_domain_create(allocator);
    epoch = epoch_domain_epoch(domain);
    return record == NULL || domain == NULL;
}

static int stop(void **state) {
    (void)state;
    epoch_domain_destroy(domain);
    slab_allocator_free(allocator);
    return ts_pool_used_units() != 0;
}

static void on_another_thread(void *(*fn)(void *), void *argument) {
    pthread_t thread;
    SUP_CHECK(pthread_create(&thread, NULL, fn, argument) == 0, "pthread_create");
    (void)pthread_join(thread, NULL);
}

static ts_block *only(void) { return ts_load_relaxed(&ts_epoch_find(record, epoch)->blocks); }

/* The same block under the next era, in the list and open, and everything before it dead. */
static void quickly(void **state) {
    (void)state;
    ts_block *block = only();
    uint64_t allocated = 0;
    assert_true(epoch_domain_enter(domain));
    for (unsigned round = 0; round < 100; round++) {
        unsigned count = round % 7 == 0 ? 0 : round;
        void *last = NULL;
        uint64_t era = ts_era(block);
        uint32_t detached = ts_load_relaxed(&ts_epoch_find(record, epoch)->detached);
        for (unsigned i = 0; i < count; i++) {
            last = slab_alloc(1000);
            assert_true(slab_owns(allocator, last));
        }
        allocated += count;
        SlabHandle handle = last ? slab_handle_of(allocator, last) : SLAB_HANDLE_NONE;
        assert_int_equal(sup_live_objects(allocator), count);
        assert_true(epoch_domain_reset(domain, SIZE_MAX));
        assert_true(only() == block && ts_era(block) == era + 1 && ts_load_relaxed(&block->era) == era + 1);
        assert_int_equal(ts_load_relaxed(&block->resets), round + 1);
        assert_true(ts_load_relaxed(&block->slabs) == 0 && ts_load_relaxed(&block->open_id) == epoch);
        assert_false(slab_owns(allocator, last));
        assert_null(slab_handle_get(allocator, handle));
        assert_false(last && slab_free(allocator, last));
        assert_int_equal(epoch_state(allocator, epoch), EPOCH_ACTIVE);
        /* A reader of the list without the lock learns that the block has left it. */
        assert_int_equal(ts_load_relaxed(&ts_epoch_find(record, epoch)->detached), detached + 1);
        /* The fast paths find it at once. */
        assert_ptr_equal(ts_thread.scope, block);
        assert_int_equal(ts_load_relaxed(&block->key), (era + 1) | block->share->open_key);
        sup_check_identities(allocator);
    }
    SlabGlobalStats stats;
    assert_true(slab_stats_global(allocator, &stats));
    assert_int_equal(stats.allocated_objects_total, allocated);
    assert_int_equal(stats.freed_objects_total, allocated);
    assert_true(epoch_domain_exit(domain));
    assert_true(epoch_domain_reset(domain, 0));
    assert_ptr_equal(ts_thread.scope, &ts_no_scope);
    /* Of another epoch it was not. */
    epoch_domain_destroy(domain);
    domain = epoch_domain_create(allocator);
    epoch = epoch_domain_epoch(domain);
    assert_ptr_equal(only(), block);
    assert_int_equal(ts_load_relaxed(&block->resets), 0);
}

/* The innermost domain stays the one in which slab_alloc allocates. */
static void of_an_outer_domain(void **state) {
    (void)state;
    EpochDomain *inner = epoch_domain_create(allocator);
    assert_true(epoch_domain_enter(domain));
    void *outside = slab_alloc(100);
    assert_true(epoch_domain_enter(inner));
    void *inside = slab_alloc(100);
    assert_true(epoch_domain_reset(domain, 0));
    assert_true(slab_owns(allocator, inside) && !slab_owns(allocator, outside));
    void *again = slab_alloc(100);
    SlabEpochStats stats;
    assert_true(slab_stats_epoch(allocator, SLAB_ALL_CLASSES, epoch_domain_epoch(inner), &stats));
    assert_int_equal(stats.live_objects, 2);
    assert_true(epoch_domain_reset(inner, 0));
    assert_false(slab_owns(allocator, inside) || slab_owns(allocator, again));
    assert_true(epoch_domain_exit(inner));
    assert_non_null(slab_alloc(100));
    assert_true(slab_stats_epoch(allocator, SLAB_ALL_CLASSES, epoch, &stats));
    assert_int_equal(stats.live_objects, 1);
    epoch_domain_destroy(inner);
}

static void with_a_large_object(void **state) {
    (void)state;
    assert_true(epoch_domain_enter(domain));
    void *small = slab_alloc(100), *large = slab_alloc(100000), *longest = slab_alloc(2 << 20);
    assert_true(epoch_domain_reset(domain, 0));
    assert_false(slab_owns(allocator, small) || slab_owns(allocator, large) || slab_owns(allocator, longest));
    assert_int_equal(sup_live_objects(allocator), 0);
    assert_int_equal(sup_committed_bytes(allocator), 0);
    /* Its totals are of the time since. */
    SlabEpochStats stats;
    assert_true(slab_stats_epoch(allocator, SLAB_ALL_CLASSES, epoch, &stats));
    assert_int_equal(stats.allocated_objects_total, 0);
    assert_int_equal(stats.freed_objects_total, 0);
    /* Of those that are freed already, too, when the rest is as usual. */
    assert_non_null(slab_alloc(100));
    assert_true(slab_free(allocator, slab_alloc(100000)));
    assert_ptr_not_equal(only(), NULL);
    assert_true(epoch_domain_reset(domain, SIZE_MAX));
    assert_true(slab_stats_epoch(allocator, SLAB_ALL_CLASSES, epoch, &stats));
    assert_int_equal(stats.allocated_objects_total, 0);
    sup_check_identities(allocator);
}

/* A thread that pinned the epoch still walks its blocks. */
static void while_pinned(void **state) {
    (void)state;
    ts_block *list;
    void *p = slab_malloc_epoch(allocator, 100, epoch);
    ts_epoch *e = sup_epoch_pin(record, epoch, &list);
    assert_non_null(e);
    assert_true(epoch_domain_reset(domain, SIZE_MAX));
    assert_false(slab_owns(allocator, p));
    assert_true(ts_load_relaxed(&list->epoch) == e && ts_load_relaxed(&list->slabs) == 1);
    void *q = slab_malloc_epoch(allocator, 100, epoch);
    /* That block is dying: the next reset still has to wait for the unpin. */
    assert_true(epoch_domain_reset(domain, SIZE_MAX));
    assert_false(slab_owns(allocator, q));
    assert_int_equal(ts_load_relaxed(&list->slabs), 1);
    ts_epoch_unpin(e);
    assert_int_equal(ts_load_relaxed(&list->slabs), 0);
    sup_check_identities(allocator);
}

static void *put_one_in(void *to) {
    SUP_CHECK(epoch_domain_enter(to), "enter");
    void *p = slab_alloc(100);
    SUP_CHECK(epoch_domain_exit(to), "exit");
    return p;
}
static void *object_of_other;
static void *put_one_in_shared(void *to) { return object_of_other = put_one_in(to); }
static void *put_one_in_and_reset(void *to) {
    (void)put_one_in_shared(to);
    SUP_CHECK(epoch_domain_reset(to, SIZE_MAX), "reset");
    return NULL;
}

/* One whose only block is another thread's, and those with the blocks of two threads, either one's first. */
static void with_other_threads_blocks(void **state) {
    (void)state;
    for (unsigned order = 0; order < 3; order++) {
        EpochDomain *shared = epoch_domain_create_ex(allocator, NULL, EPOCH_SCOPE | EPOCH_DOMAIN_SHARED);
        void *mine = order > 0 ? put_one_in(shared) : NULL;
        on_another_thread(order < 2 ? put_one_in_shared : put_one_in_and_reset, shared);
        if (order < 2) {
            assert_true(slab_owns(allocator, object_of_other));
            assert_true(epoch_domain_reset(shared, SIZE_MAX));
        }
        assert_false(slab_owns(allocator, mine) || slab_owns(allocator, object_of_other));
        assert_int_equal(sup_live_objects(allocator), 0);
        assert_non_null(put_one_in(shared));
        epoch_domain_destroy(shared);
        sup_check_identities(allocator);
    }
}

static void *free_on_thread(void *p) {
    SUP_CHECK(slab_free(allocator, p), "freed by another thread");
    return NULL;
}

/* A slab of it is on the queue of foreign frees: the free is taken in, and is not counted twice. */
static void with_foreign_frees_under_way(void **state) {
    (void)state;
    void *p = slab_malloc_epoch(allocator, 100, epoch), *q = slab_malloc_epoch(allocator, 100, epoch);
    on_another_thread(free_on_thread, p);
    assert_true(ts_heap_is_waited_for(ts_thread.heap));
    assert_true(epoch_domain_reset(domain, SIZE_MAX));
    assert_false(slab_owns(allocator, p) || slab_owns(allocator, q));
    SlabGlobalStats stats;
    assert_true(slab_stats_global(allocator, &stats));
    assert_int_equal(stats.allocated_objects_total, 2);
    assert_int_equal(stats.freed_objects_total, 2);
    for (unsigned i = 0; i < 1000; i++) assert_non_null(slab_malloc_epoch(allocator, 100, epoch));
    sup_check_identities(allocator);
}

static EpochDomain *resetting;
static bool refused;
static void reset_again(void *arg) {
    (void)arg;
    errno = 0;
    refused = !epoch_domain_reset(resetting, SIZE_MAX) && errno == EPERM;
}

/* From inside of the last cleanup the list of cleanups is empty, and the domain is busy. */
static void from_its_own_cleanup(void **state) {
    (void)state;
    resetting = domain;
    assert_true(epoch_domain_on_destroy(domain, reset_again, NULL));
    assert_non_null(slab_malloc_epoch(allocator, 100, epoch));
    assert_true(epoch_domain_reset(domain, 0));
    assert_true(refused);
    refused = false;
    assert_true(epoch_domain_reset(domain, 0));
    assert_false(refused);
}

static void when_closed(void **state) {
    (void)state;
    void *p = slab_malloc_epoch(allocator, 100, epoch);
    assert_true(epoch_domain_force_close(domain));
    for (unsigned keep = 0; keep < 2; keep++) {
        errno = 0;
        assert_false(epoch_domain_reset(domain, keep ? SIZE_MAX : 0));
        assert_int_equal(errno, ESTALE);
        assert_true(slab_owns(allocator, p));
    }
}

/* A dead object is filled, by every kind of end. */
static void with_poison(void **state) {
    (void)state;
    SlabOptions options = {.size = sizeof options, .poison_on_free = 1, .on_misuse = SLAB_MISUSE_ABORT};
    SlabAllocator *careful = slab_allocator_create_ex(&options);
    EpochDomain *in = epoch_domain_create(careful);
    assert_true(epoch_domain_enter(in));
    unsigned char *p = slab_alloc(256);
    memset(p, 0x11, 256);
    assert_true(epoch_domain_reset(in, SIZE_MAX));
    assert_true(p[0] != 0x11 && p[255] != 0x11 && p[100] == p[101]);
    p = slab_alloc(256); /* aborts if its memory was written since */
    memset(p, 0x11, 256);
    assert_true(epoch_domain_exit(in));
    epoch_domain_destroy(in);
    assert_true(p[0] != 0x11 && p[255] != 0x11 && p[100] == p[101]);
    slab_allocator_free(careful);
}

/* The block has no era left: the epoch goes on with another. */
static void at_the_last_era(void **state) {
    (void)state;
    ts_block *block = only();
    assert_int_equal(ts_load_relaxed(&block->slabs), 0);
    uint64_t last = TS_UNIT_ERA_MASK - 5;
    ts_store_relaxed(&block->key, (ts_load_relaxed(&block->key) & ~(uint64_t)TS_UNIT_ERA_MASK) | last);
    ts_store_relaxed(&block->era, (uint32_t)last);
    void *p = slab_malloc_epoch(allocator, 100, epoch);
    assert_true(slab_owns(allocator, p));
    assert_true(epoch_domain_reset(domain, SIZE_MAX));
    assert_ptr_not_equal(only(), block);
    assert_false(slab_owns(allocator, p));
    assert_true(slab_owns(allocator, slab_malloc_epoch(allocator, 100, epoch)));
    sup_check_identities(allocator);
}

/* A domain that other threads use too is left without a block, so that they meet none of a thread that sleeps or has
   ended; so is one that is given up. */
static uint32_t times_detached(const EpochDomain *of) {
    return ts_load_relaxed(&ts_epoch_find(record, epoch_domain_epoch(of))->detached);
}
static void check_left_empty(const EpochDomain *left, uint32_t detached) {
    const ts_epoch *e = ts_epoch_find(record, epoch_domain_epoch(left));
    SUP_CHECK(ts_load_relaxed(&e->blocks) == NULL, "a block is left");
    SUP_CHECK(ts_load_relaxed(&e->detached) == detached + 1, "who reads the list learns of it");
}
static void *reset_shared(void *to) {
    uint32_t before = times_detached(to);
    (void)put_one_in(to);
    SUP_CHECK(epoch_domain_reset(to, SIZE_MAX), "reset");
    check_left_empty(to, before);
    return NULL;
}
static void *reset_and_give_up(void *out) {
    EpochDomain *mine = epoch_domain_create(allocator);
    (void)put_one_in(mine);
    SUP_CHECK(epoch_domain_reset(mine, SIZE_MAX), "reset");
    uint32_t before = times_detached(mine);
    SUP_CHECK(epoch_domain_hand_over(mine), "hand over");
    check_left_empty(mine, before);
    *(EpochDomain **)out = mine;
    return NULL;
}
static void leaves_no_block_to_others(void **state) {
    (void)state;
    EpochDomain *shared = epoch_domain_create_ex(allocator, NULL, EPOCH_SCOPE | EPOCH_DOMAIN_SHARED), *given[3];
    uint32_t abandoned = ts_load_relaxed(&ts_heaps_abandoned);
    for (unsigned i = 0; i < 3; i++) on_another_thread(reset_shared, shared);
    for (unsigned i = 0; i < 3; i++) on_another_thread(reset_and_give_up, &given[i]);
    assert_int_equal(ts_load_relaxed(&ts_heaps_abandoned), abandoned);
    (void)reset_shared(shared);
    for (unsigned i = 0; i < 3; i++) {
        assert_non_null(put_one_in(given[i]));
        epoch_domain_destroy(given[i]);
    }
    epoch_domain_destroy(shared);
    sup_check_empty(allocator);
}

/* Timing that is turned on reaches a thread that does nothing but reset. */
static void timing_is_noticed(void **state) {
    (void)state;
    for (unsigned fresh = 0; fresh < 2; fresh++) {
        (void)put_one_in(domain);
        SlabOptions options = {.size = sizeof options, .sample_rate = 1};
        SlabAllocator *timed = slab_allocator_create_ex(&options);
        uint64_t before = slab_stats_thread().alloc_samples;
        for (unsigned i = 0; i < 10; i++) {
            EpochDomain *in = fresh ? epoch_domain_create(allocator) : domain;
            assert_non_null(put_one_in(in));
            if (fresh)
                epoch_domain_destroy(in);
            else
                assert_true(epoch_domain_reset(in, SIZE_MAX));
        }
        assert_true(slab_stats_thread().alloc_samples >= before + 9);
        slab_allocator_free(timed);
        ts_store_relaxed(&ts_sample_rate, 0);
        assert_non_null(slab_malloc_epoch(allocator, 100, epoch));
    }
}

/* Nor does a thread that stays inside all the time miss it. */
static void timing_is_noticed_inside(void **state) {
    (void)state;
    assert_true(epoch_domain_enter(domain));
    assert_non_null(slab_alloc(100));
    SlabOptions options = {.size = sizeof options, .sample_rate = 1};
    SlabAllocator *timed = slab_allocator_create_ex(&options);
    assert_true(epoch_domain_reset(domain, SIZE_MAX));
    uint64_t before = slab_stats_thread().alloc_samples;
    for (unsigned i = 0; i < 10; i++) {
        assert_non_null(slab_alloc(100));
        assert_true(epoch_domain_reset(domain, SIZE_MAX));
    }
    assert_int_equal(slab_stats_thread().alloc_samples, before + 10);
    slab_allocator_free(timed);
    ts_store_relaxed(&ts_sample_rate, 0);
    assert_true(epoch_domain_exit(domain));
}

static bool is_quick(void) { return ts_load_relaxed(&ts_thread.scope) != &ts_no_scope; }

/* Another thread turns timing on: the next reset, or the next time that the domain is entered, takes slab_alloc its
   quick way. */
static void timing_turned_on_elsewhere(void **state) {
    (void)state;
    for (unsigned inside = 0; inside < 2; inside++) {
        assert_true(epoch_domain_enter(domain));
        assert_non_null(slab_alloc(100));
        assert_true(is_quick());
        if (!inside) {
            assert_true(epoch_domain_exit(domain));
        }
        ts_store_relaxed(&ts_sample_rate, 1);
        assert_true(inside ? epoch_domain_reset(domain, SIZE_MAX) : epoch_domain_enter(domain));
        assert_false(is_quick());
        uint64_t before = slab_stats_thread().alloc_samples;
        assert_non_null(slab_alloc(100));
        assert_int_equal(slab_stats_thread().alloc_samples, before + 1);
        ts_store_relaxed(&ts_sample_rate, 0);
        assert_true(epoch_domain_exit(domain));
        assert_non_null(slab_malloc_epoch(allocator, 100, epoch)); /* follows: it is off */
    }
}

/* After the reset of a shared domain this thread's block of it serves another epoch: slab_alloc does not go on with
   it. */
static void leaves_no_block_to_itself(void **state) {
    (void)state;
    EpochDomain *shared = epoch_domain_create_ex(allocator, NULL, EPOCH_DOMAIN_SHARED);
    assert_true(epoch_domain_enter(shared));
    for (unsigned i = 0; i < 2; i++) {
        assert_non_null(slab_alloc(100)); /* of the second on its block is known */
    }
    assert_true(epoch_domain_reset(shared, SIZE_MAX));
    assert_false(is_quick());
    EpochDomain *next = epoch_domain_create(allocator);
    assert_non_null(slab_alloc(100));
    SlabEpochStats stats;
    assert_true(slab_stats_epoch(allocator, SLAB_ALL_CLASSES, epoch_domain_epoch(next), &stats));
    assert_int_equal(stats.live_objects, 0);
    assert_true(slab_stats_epoch(allocator, SLAB_ALL_CLASSES, epoch_domain_epoch(shared), &stats));
    assert_int_equal(stats.live_objects, 1);
    epoch_domain_destroy(next);
    assert_true(epoch_domain_exit(shared));
    epoch_domain_destroy(shared);
}

/* No more than keep_bytes of its memory stay retained, to the slab. */
static void keeps_as_much_as_is_asked_for(void **state) {
    (void)state;
    enum { SLABS = 8 };
    for (size_t keep = 0; keep <= SLABS + 1; keep++) {
        assert_true(epoch_domain_enter(domain));
        do assert_non_null(slab_alloc(4096));
        while (ts_load_relaxed(&only()->slabs) < SLABS);
        assert_true(epoch_domain_exit(domain));
        assert_true(epoch_domain_reset(domain, keep * TS_UNIT_BYTES + (keep < SLABS ? TS_UNIT_BYTES - 1 : 0)));
        size_t kept = keep < SLABS ? keep : SLABS;
        assert_int_equal(sup_committed_bytes(allocator), kept * TS_UNIT_BYTES);
        assert_int_equal(ts_load_relaxed(&only()->resets), keep + 1); /* messages know the objects of before */
        sup_check_identities(allocator);
    }
}

/* A thread keeps no more retained slabs for itself than others leave it, whichever way the reset goes. */
static void leaves_warm_slabs_to_others(void **state) {
    (void)state;
    const ts_share *share = ts_heap_find_share(ts_thread.heap, ts_token(allocator));
    for (unsigned timed = 0; timed < 2; timed++) {
        ts_store_relaxed(&ts_sample_rate, timed);
        assert_true(epoch_domain_enter(domain));
        do assert_non_null(slab_alloc(4096));
        while (ts_load_relaxed(&only()->slabs) < TS_LOCAL_RETAINED_UNITS + 8);
        assert_true(epoch_domain_exit(domain));
        assert_true(epoch_domain_reset(domain, SIZE_MAX));
        assert_int_equal(ts_load_relaxed(&share->retained.count), 0);
        assert_true(sup_committed_bytes(allocator) >= TS_LOCAL_RETAINED_UNITS * TS_UNIT_BYTES);
    }
    ts_store_relaxed(&ts_sample_rate, 0);
    assert_non_null(slab_malloc_epoch(allocator, 100, epoch));
}

#define WITH(test) cmocka_unit_test_setup_teardown(test, start, stop)

int main(void) {
    const struct CMUnitTest tests[] = {
        WITH(quickly),
        WITH(of_an_outer_domain),
        WITH(with_a_large_object),
        WITH(while_pinned),
        WITH(with_other_threads_blocks),
        WITH(with_foreign_frees_under_way),
        WITH(from_its_own_cleanup),
        WITH(when_closed),
        WITH(with_poison),
        WITH(at_the_last_era),
        WITH(leaves_no_block_to_others),
        WITH(timing_is_noticed),
        WITH(timing_is_noticed_inside),
        WITH(timing_turned_on_elsewhere),
        WITH(leaves_no_block_to_itself),
        WITH(keeps_as_much_as_is_asked_for),
        WITH(leaves_warm_slabs_to_others),
    };
    return cmocka_run_group_tests_name("domain.reset", tests, NULL, NULL);
}
