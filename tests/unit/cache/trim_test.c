/* A trim (hollow.c, block.c) looks at the slabs of the thread that can have memory to give, and at no others. */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include "identities.h"
#include "unit.h"

#include "api/runtime.h"
#include "base/base.h"
#include "bins.h"
#include "cache/cache.h"
#include "os/os.h"
#include "region/region.h"
#include "supply/supply.h"

static unsigned looks;
#define ts_hollow_purge counted_hollow_give
#define ts_hollow_closed_pages counted_hollow_closed_pages
#define ts_hollow_purge_closed counted_hollow_give_closed
#define ts_slab_at(unit) (looks++, (ts_slab_at)(unit))
#define ts_unit_word(unit) (looks++, (ts_unit_word)(unit))
void ts_hollow_purge(ts_heap *heap, ts_allocator *allocator);
unsigned ts_hollow_closed_pages(uint32_t unit, uint64_t word);
bool ts_hollow_purge_closed(ts_heap *heap, ts_allocator *allocator, uint32_t unit, uint64_t word, unsigned pages);
#include "cache/hollow.c"
#undef ts_slab_at
#undef ts_unit_word

enum { SLABS = 100, BYTES = 1024, IN_SLAB = TS_UNIT_BYTES / BYTES, OBJECTS = SLABS * IN_SLAB };
static void *objects[OBJECTS];

/* Slabs of one class: full, but for those objects that are a multiple of `each`. */
static ts_churn_block *make(SlabAllocator *a, EpochId epoch, int each) {
    for (int i = 0; i < OBJECTS; i++) assert_non_null(objects[i] = slab_malloc_epoch(a, BYTES, epoch));
    for (int i = 0; each && i < OBJECTS; i += each) assert_true(slab_free(a, objects[i]));
    return ts_thread.heap->map[ts_table_index(&ts_epochs, epoch) % TS_HEAP_MAP];
}

static uint32_t flush(ts_churn_block *block) {
    uint64_t recycled = 0;
    ts_heap_enter(ts_thread.heap);
    uint32_t scanned = ts_block_flush(ts_thread.heap, &block->b, &recycled);
    ts_heap_leave(ts_thread.heap);
    return scanned;
}

static void of_this_thread_only(void **state) {
    SlabAllocator *a = *state;
    EpochId epoch = epoch_open(a, NULL, EPOCH_CHURN);
    void *large = slab_malloc_epoch(a, (size_t)31 << 20, epoch);
    ts_churn_block *block = make(a, epoch, 4);
    assert_true(ts_pool_highest(TS_NORMAL) > 1984);
    (void)flush(block);
    for (int trim = 0; trim < 3; trim++) {
        looks = 0;
        counted_hollow_give(ts_thread.heap, ts_allocator_find(ts_token(a)));
        assert_in_range(looks, SLABS, 10 * SLABS);
    }
    /* Full slabs are not looked at. */
    for (int i = 0; i < OBJECTS; i += 4) assert_non_null(objects[i] = slab_malloc_epoch(a, BYTES, epoch));
    for (int freed = 0; freed < 2; freed++) {
        looks = 0;
        counted_hollow_give(ts_thread.heap, ts_allocator_find(ts_token(a)));
        assert_in_range(looks, 1, 20);
        assert_true(slab_free(a, objects[freed]));
        (void)flush(block);
    }
    assert_true(slab_free(a, large));
    assert_true(epoch_destroy(a, epoch));
}

/* A slab without an object is looked for only where there is one. */
static void empty_ones_only(void **state) {
    SlabAllocator *a = *state;
    EpochId epoch = epoch_open(a, NULL, EPOCH_CHURN);
    ts_churn_block *block = make(a, epoch, 4);
    (void)flush(block);
    assert_int_equal(flush(block), 0);
    uint32_t before = ts_load_relaxed(&block->b.slabs);
    assert_in_range(before, SLABS, SLABS + 1);
    for (int i = 0; i < 40 * IN_SLAB; i++)
        if (i % 4) assert_true(slab_free(a, objects[i]));
    assert_in_range(flush(block), 1, SLABS + 1);
    assert_in_range(ts_load_relaxed(&block->b.slabs), SLABS - 40, SLABS - 38);
    assert_int_equal(block->empty[ts_classes.of[BYTES / 16]], 0);
    assert_int_equal(flush(block), 0);
    sup_check_identities(a);
    assert_true(epoch_destroy(a, epoch));
}

int main(void) {
    const struct CMUnitTest tests[] = {
        SUP_WITH_ALLOCATOR(of_this_thread_only),
        SUP_WITH_ALLOCATOR(empty_ones_only),
    };
    return cmocka_run_group_tests_name("cache.trim", tests, NULL, NULL);
}
