/*
 * Slabs of several units: objects from 8 KiB to 64 KiB of churn epochs.
 */
#include "identities.h"
#include "pattern.h"
#include "proc.h"
#include "stress.h"
#include "unit.h"

#include "bins.h"
#include "cache/cache.h"
#include "supply/supply.h"
#include "walk/check_pool.h"

#include <errno.h>
#include <string.h>

enum { UNIT = 16384, MOST = 200 };

static SlabAllocator *allocator;
static char *object[MOST];
static uint64_t retired; /* units that are nobody's for ever */

static int start(void **state) {
    SlabOptions options = {.size = sizeof options, .memory_tools = SLAB_TOOLS_OFF};
    (void)state;
    allocator = slab_allocator_create_ex(&options);
    return allocator == NULL;
}

static int stop(void **state) {
    (void)state;
    slab_allocator_free(allocator);
    return ts_pool_used_units() != retired;
}

static void is_not_live(char *p) {
    assert_false(slab_owns(allocator, p));
    assert_int_equal(slab_usable_size(allocator, p), 0);
    assert_false(slab_free(allocator, p));
}

/* Any place inside of the units behind the first is none of an object. */
static void every_size(void **state) {
    (void)state;
    EpochId epoch = epoch_open(allocator, NULL, EPOCH_CHURN);
    for (size_t size = 8193; size <= 65536; size += size < 16300 ? 1777 : 3333) {
        size_t usable = size <= 10240 ? 10240 : size <= 14336 ? 14336 : (size + UNIT - 1) / UNIT * UNIT;
        SlabHandle handle;
        char *p = alloc_obj_epoch(allocator, size, epoch, &handle);
        assert_non_null(p);
        assert_int_equal((uintptr_t)p % UNIT, 0);
        assert_int_equal(slab_usable_size(allocator, p), usable);
        memset(p, 0x5a, usable);
        assert_ptr_equal(slab_handle_get(allocator, handle), p);
        for (size_t at = 16; at < usable; at += at < 64 ? 16 : 4096 - 16) is_not_live(p + at);
        for (size_t at = UNIT; at < usable; at += UNIT) is_not_live(p + at);
        sup_check_identities(allocator);
        assert_true(slab_free(allocator, p));
        is_not_live(p);
        assert_null(slab_handle_get(allocator, handle));
        /* The place again: the old handle stays dead. */
        assert_ptr_equal(slab_malloc_epoch(allocator, size, epoch), p);
        assert_null(slab_handle_get(allocator, handle));
        assert_false(free_obj(allocator, handle));
        assert_true(slab_free(allocator, p));
        sup_check_identities(allocator);
    }
    assert_true(epoch_close(allocator, epoch));
    assert_int_equal(epoch_state(allocator, epoch), EPOCH_CLOSED);
    sup_check_empty(allocator);
}

static uint64_t units_of_epoch(EpochId epoch) {
    SlabEpochStats s;
    return slab_stats_epoch(allocator, SLAB_ALL_CLASSES, epoch, &s) ? s.slab_count : 0;
}

static void *free_seconds(void *argument) {
    for (unsigned i = 1; i < MOST; i += 2) SUP_CHECK(slab_free(allocator, object[i]), "object %u", i);
    return argument;
}

/* Two objects of 8 to 14 KiB share a slab of two units: both begin in the first. */
static void pairs(void **state) {
    static const size_t bytes[] = {10240, 14336};
    (void)state;
    for (unsigned k = 0; k < 4; k++) {
        size_t usable = bytes[k % 2];
        bool foreign = k >= 2;
        EpochId epoch = epoch_open(allocator, NULL, EPOCH_CHURN);
        for (unsigned i = 0; i < MOST; i++) {
            object[i] = slab_malloc_epoch(allocator, usable - 100, epoch);
            assert_non_null(object[i]);
            assert_int_equal((uintptr_t)object[i] % UNIT, i % 2 * usable);
            assert_true(i % 2 == 0 || object[i] == object[i - 1] + usable);
            sup_pattern_fill(object[i], usable, i);
        }
        assert_int_equal(units_of_epoch(epoch), MOST);
        sup_check_identities(allocator);
        for (unsigned i = 0; i < MOST; i++) {
            assert_true(sup_pattern_check(object[i], usable, i));
            assert_int_equal(slab_usable_size(allocator, object[i]), usable);
            for (size_t at = 16; at < usable; at += 2032) is_not_live(object[i] + at);
        }
        /* The second of a pair first: its slab stays until the other goes. */
        if (foreign) sup_in_thread(free_seconds, NULL);
        for (unsigned i = 1; i < MOST && !foreign; i += 2) assert_true(slab_free(allocator, object[i]));
        for (unsigned i = 0; i < MOST; i++) assert_int_equal(slab_owns(allocator, object[i]), i % 2 == 0);
        for (unsigned i = 0; i < MOST; i += 2) assert_true(sup_pattern_check(object[i], usable, i));
        sup_check_identities(allocator);
        assert_true(epoch_close(allocator, epoch));
        assert_int_equal(units_of_epoch(epoch), MOST);
        for (unsigned i = 0; i < MOST; i += 2) assert_true(slab_free(allocator, object[i]));
        for (unsigned i = 0; i < MOST; i++) is_not_live(object[i]);
        assert_int_equal(epoch_state(allocator, epoch), EPOCH_CLOSED);
        sup_check_empty(allocator);
    }
}

/* A bin and its magazine keep a bounded number of freed bytes, and a close keeps none. */
static void what_is_kept(void **state) {
    (void)state;
    for (unsigned units = 2; units <= 4; units++) {
        EpochId epoch = epoch_open(allocator, NULL, EPOCH_CHURN);
        for (unsigned i = 0; i < MOST; i++) object[i] = slab_malloc_epoch(allocator, units * UNIT, epoch);
        assert_int_equal(units_of_epoch(epoch), MOST * units);
        for (unsigned i = 0; i < MOST; i++) assert_true(slab_free(allocator, object[i]));
        /* 1 MiB in the magazine, the slab of a claimed word, and in the bin one and an eighth of those that there
           were. */
        assert_true(units_of_epoch(epoch) * UNIT <= (1u << 20) + (2 + MOST / 8) * units * UNIT);
        sup_check_identities(allocator);
        assert_true(epoch_close(allocator, epoch));
        sup_check_empty(allocator);
    }
}

static void *free_half(void *argument) {
    for (unsigned i = 0; i < MOST; i += 2) SUP_CHECK(slab_free(allocator, object[i]), "object %u", i);
    return argument;
}

/* Slabs that are on a queue of foreign frees as their epoch ends come back from there, with all of their units. */
static void ends_with_foreign_frees(void **state) {
    (void)state;
    for (unsigned destroy = 0; destroy < 2; destroy++) {
        EpochId epoch = epoch_open(allocator, NULL, EPOCH_CHURN);
        for (unsigned i = 0; i < MOST; i++) object[i] = slab_malloc_epoch(allocator, 20000 + i % 3 * UNIT, epoch);
        sup_in_thread(free_half, NULL);
        for (unsigned i = 0; i < MOST; i++) assert_int_equal(slab_owns(allocator, object[i]), i % 2);
        assert_true(ts_load_relaxed(&ts_thread.heap->queue) != 0);
        if (destroy) {
            assert_true(epoch_destroy(allocator, epoch));
        } else {
            for (unsigned i = 1; i < MOST; i += 2) assert_true(slab_free(allocator, object[i]));
            assert_true(epoch_close(allocator, epoch));
        }
        (void)slab_trim(allocator);
        sup_check_identities(allocator);
        sup_check_empty(allocator);
        assert_int_equal(sup_committed_bytes(allocator), 0);
        for (unsigned i = 0; i < MOST; i++) is_not_live(object[i]);
    }
}

/* After its last generation a slab's first unit is retired, and the others are used again. */
static void used_up(void **state) {
    (void)state;
    EpochId epoch = epoch_open(allocator, NULL, EPOCH_CHURN);
    char *p = slab_malloc_epoch(allocator, 3 * UNIT, epoch);
    uint64_t entry;
    uint32_t unit = unit_of(p, &entry);
    assert_true(slab_free(allocator, p));
    assert_true(epoch_destroy(allocator, epoch));
    ts_store_relaxed(&ts_slab_at(unit)->gen, TS_GEN_MAX - 3);
    epoch = epoch_open(allocator, NULL, EPOCH_CHURN);
    for (unsigned i = 0; i < 8; i++) {
        object[i] = slab_malloc_epoch(allocator, 3 * UNIT, epoch);
        assert_true(object[i] != NULL && object[i] != p);
    }
    retired++;
    sup_check_identities(allocator);
    assert_true(epoch_destroy(allocator, epoch));
    (void)slab_trim(allocator);
    assert_int_equal(sup_committed_bytes(allocator), 0);
}

/* With care, and where memory goes back at once, a large object is a span, as in a scope. */
static void spans_instead(void **state) {
    const SlabOptions options[] = {
        {.size = sizeof(SlabOptions), .poison_on_free = true},
        {.size = sizeof(SlabOptions), .guard_spans = true},
        {.size = sizeof(SlabOptions), .reclaim_policy = SLAB_RECLAIM_AT_ONCE},
    };
    (void)state;
    for (unsigned i = 0; i < sizeof options / sizeof *options; i++) {
        SlabAllocator *other = slab_allocator_create_ex(&options[i]);
        EpochId epoch = epoch_open(other, NULL, EPOCH_CHURN);
        char *p = slab_malloc_epoch(other, 40000, epoch);
        SlabClassStats spans;
        assert_non_null(p);
        assert_true(slab_stats_class(other, SLAB_CLASS_SPAN, &spans));
        assert_int_equal(spans.live_objects, 1);
        assert_true(slab_free(other, p));
        assert_true(epoch_destroy(other, epoch));
        slab_allocator_free(other);
    }
}

/* The budget counts all units, and a bin gives up its kept slabs for it. */
static void budget(void **state) {
    (void)state;
    SlabOptions options = {.size = sizeof options, .memory_tools = SLAB_TOOLS_OFF, .budget_bytes = 40 * UNIT};
    SlabAllocator *own = slab_allocator_create_ex(&options);
    EpochId epoch = epoch_open(own, NULL, EPOCH_CHURN);
    unsigned count = 0;
    while (count < MOST && (object[count] = slab_malloc_epoch(own, 4 * UNIT, epoch)) != NULL) count++;
    assert_int_equal(count, 10);
    assert_int_equal(errno, ENOMEM);
    for (unsigned i = 0; i < count; i++) assert_true(slab_free(own, object[i]));
    count = 0;
    while (count < MOST && (object[count] = slab_malloc_epoch(own, 2 * UNIT, epoch)) != NULL) count++;
    assert_int_equal(count, 20);
    sup_check_identities(own);
    slab_allocator_free(own);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_size),   cmocka_unit_test(pairs),
        cmocka_unit_test(what_is_kept), cmocka_unit_test(ends_with_foreign_frees),
        cmocka_unit_test(used_up),      cmocka_unit_test(spans_instead),
        cmocka_unit_test(budget),
    };
    return cmocka_run_group_tests_name("cache.large", tests, start, stop);
}
