/* While an allocator samples stacks, bytes are counted down to the next sample: each allocation once, on every path,
   and few by the slow path. Rooms: object/find.h, observe/stacks.h. */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include "check.h"
#include "unit.h"

#include "api/api.h"
#include "api/runtime.h"
#include "diagnose/diagnose.h"
#include "observe/stacks.h"
#include "supply/supply.h"

#include <tslab/tslab.h>

#define MEAN ((size_t)1 << (sizeof(size_t) < 8 ? 30 : 40))

static SlabAllocator *allocator;
static EpochId churn, other, scope;

static ts_share *share(void) { return ts_share_of_mine(ts_token(allocator)); }

static int begin(void **state) {
    SlabOptions options = {.size = sizeof options, .sample_stacks = MEAN, .memory_tools = SLAB_TOOLS_OFF};
    (void)state;
    ts_store_relaxed(&ts_stacks_seed, 11); /* its first samples are at some tenths of the mean */
    allocator = slab_allocator_create_ex(&options);
    assert_non_null(allocator);
    churn = epoch_open(allocator, NULL, EPOCH_CHURN);
    other = epoch_open(allocator, NULL, EPOCH_CHURN);
    scope = epoch_open(allocator, NULL, EPOCH_SCOPE);
    return 0;
}
static int end(void **state) {
    (void)state;
    slab_allocator_free(allocator);
    return 0;
}

/* ---- ways to allocate -------------------------------------------------------------------------------------------- */

static void *in_rolling(size_t size) { return slab_malloc(allocator, size); }
static void *in_churn(size_t size) { return slab_malloc_epoch(allocator, size, churn); }
static void *in_scope(size_t size) { return slab_malloc_epoch(allocator, size, scope); }
static void *by_turns(size_t size) {
    static unsigned turn;
    return turn++ % 2 ? in_churn(size) : in_scope(size);
}
static void *in_domain(size_t size) { return slab_alloc(size); }
static void *zeroed(size_t size) { return slab_calloc_epoch(allocator, 1, size, churn); }
static void *aligned(size_t size) { return slab_aligned_epoch(allocator, 64, size, churn); }
static void *with_a_handle(size_t size) {
    SlabHandle handle;
    return alloc_obj_epoch(allocator, size, churn, &handle);
}
static void *rest(size_t size, const void *caller) {
    (void)caller;
    return ts_private_malloc_epoch(allocator, size, other);
}
static void *nothing(size_t size, const void *caller) {
    (void)size, (void)caller;
    return NULL;
}
static void *by_private_malloc(size_t size) { return ts_private_malloc(size, rest, NULL); }

typedef void *allocate(size_t size);

/* Each allocation is counted once. slowly: how many of `n` may take the slow path. */
static void count(const char *name, allocate *fn, size_t largest, unsigned n, unsigned slowly) {
    for (unsigned i = 0; i < 3; i++) assert_non_null(fn(48));
    unsigned settled = ts_thread.settled, random = 1;
    for (unsigned i = 0; i < n; i++) {
        random = random * 1103515245u + 12345u;
        size_t size = (random >> 8) % (largest + 1);
        int64_t before = share()->stack_left;
        assert_true(before > (int64_t)MEAN / 1000);
        assert_non_null(fn(size));
        if (before - share()->stack_left != (int64_t)ts_stacks_bytes(size))
            fail_msg("%s of %zu bytes counts as %lld", name, size, (long long)(before - share()->stack_left));
    }
    if (ts_thread.settled - settled > slowly)
        fail_msg("%s: %u of %u take the slow path", name, ts_thread.settled - settled, n);
}

static void every_way_counts_once(void **state) {
    (void)state;
    count("rolling", in_rolling, 1000, 2000, 300);
    count("churn", in_churn, 1000, 2000, 300);
    count("scope", in_scope, 1000, 2000, 300);
    count("by turns", by_turns, 300, 2000, 300);
    count("zeroed", zeroed, 1000, 2000, 300);
    count("aligned", aligned, 1000, 300, 300);
    count("with a handle", with_a_handle, 1000, 300, 300);
    /* Large ones, and those of no bytes. */
    allocate *const all[] = {in_rolling, in_churn, in_scope, zeroed, aligned};
    for (size_t i = 0; i < sizeof all / sizeof *all; i++) count("large", all[i], 100000, 100, 100);
    for (size_t i = 0; i < sizeof all / sizeof *all; i++) count("none", all[i], 1, 100, 100);
}

static void every_domain_counts_once(void **state) {
    static const struct {
        const char *name;
        unsigned flags, n, slowly;
    } kinds[] = {{"scope domain", EPOCH_SCOPE, 2000, 300},
                 {"first slab of a churn domain", EPOCH_CHURN, 50, 25},
                 {"churn domain", EPOCH_CHURN, 3000, 500}};
    (void)state;
    for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++) {
        EpochDomain *domain = epoch_domain_create_ex(allocator, NULL, kinds[i].flags);
        assert_non_null(domain);
        assert_true(epoch_domain_enter(domain));
        count(kinds[i].name, in_domain, 200, kinds[i].n, kinds[i].slowly);
        assert_true(epoch_domain_exit(domain));
        epoch_domain_destroy(domain);
    }
}

/* The process's malloc, of which frees keep their fast path. */
static void malloc_counts_once(void **state) {
    (void)state;
    ts_private_keep(other);
    ts_private_serve(allocator);
    count("malloc", by_private_malloc, 1000, 2000, 300);
    assert_ptr_equal(ts_load_relaxed(&ts_thread.private_block), &ts_no_block);
    assert_true(ts_load_relaxed(&ts_thread.private_word) != TS_WORD_NONE);
    /* From now on it allocates elsewhere, as in a domain that captures. */
    ts_private_elsewhere();
    int64_t left = share()->stack_left;
    for (unsigned i = 0; i < 10; i++) assert_null(ts_private_malloc(100, nothing, NULL));
    assert_int_equal(share()->stack_left, left);
    ts_private_serve(NULL);
    ts_private_keep(EPOCH_NONE);
}

/* ---- the next sample --------------------------------------------------------------------------------------------- */

static uint64_t taken(void) {
    SlabGlobalStats stats;
    assert_true(slab_stats_global(allocator, &stats));
    return stats.stack_samples_taken;
}

/* Exactly the object on which the point falls. */
static void the_object_on_which_it_falls(void **state) {
    allocate *const all[] = {in_rolling, in_churn, in_scope, in_domain};
    (void)state;
    EpochDomain *domain = epoch_domain_create(allocator);
    assert_true(domain && epoch_domain_enter(domain));
    for (size_t i = 0; i < sizeof all / sizeof *all; i++) {
        for (unsigned k = 0; k < 3; k++) assert_non_null(all[i](100));
        uint64_t before = taken();
        share()->stack_left = 3 * 112 + 1; /* 100 bytes count as 112 */
        for (unsigned k = 0; k < 3; k++) assert_non_null(all[i](100));
        assert_int_equal(share()->stack_left, 1);
        assert_int_equal(taken(), before);
        assert_non_null(all[i](100));
        assert_int_equal(taken(), before + 1);
        share()->stack_left = 112; /* its last byte */
        assert_non_null(all[i](100));
        assert_int_equal(taken(), before + 2);
    }
    assert_true(epoch_domain_exit(domain));
    epoch_domain_destroy(domain);
}

/* A new rate is drawn anew, and no rate counts nothing. */
static void another_rate(void **state) {
    (void)state;
    assert_non_null(in_churn(100));
    uint64_t before = taken();
    assert_true(slab_set_sample_stacks(allocator, 1));
    for (unsigned i = 0; i < 10; i++) assert_non_null(in_churn(100));
    assert_int_equal(taken(), before + 10);
    assert_true(slab_set_sample_stacks(allocator, 0));
    for (unsigned i = 0; i < 10; i++) assert_non_null(in_churn(100));
    assert_int_equal(share()->stack_left, 0);
    assert_int_equal(taken(), before + 10);
    assert_true(slab_set_sample_stacks(allocator, MEAN));
    count("again", in_churn, 1000, 2000, 300);
}

/* A block has another use, in an allocator with hints, whose allocations are all slow. */
static void the_block_has_another_use(void **state) {
    SlabOptions options = {.size = sizeof options, .sample_stacks = MEAN, .hints = 1, .memory_tools = SLAB_TOOLS_OFF};
    (void)state;
    SlabAllocator *hints = slab_allocator_create_ex(&options);
    assert_non_null(hints);
    for (unsigned i = 0; i < 100; i++) assert_non_null(in_churn(100));
    const ts_churn_block *block = ts_thread.counted;
    assert_ptr_not_equal(block, &ts_no_block);
    assert_true(epoch_destroy(allocator, churn));
    EpochId epoch = epoch_open(hints, NULL, EPOCH_CHURN);
    assert_non_null(slab_malloc_epoch(hints, 100, epoch));
    assert_ptr_equal(ts_thread.heap->map[(uint32_t)epoch % TS_HEAP_MAP], block); /* it is used again at once */
    ts_thread.counted = (ts_churn_block *)(uintptr_t)block;                      /* as an old hint */
    unsigned settled = ts_thread.settled;
    for (unsigned i = 0; i < 100; i++) assert_non_null(slab_malloc_epoch(hints, 100, epoch));
    assert_int_equal(ts_thread.settled - settled, 100);
    slab_allocator_free(hints);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, begin, end)
int main(void) {
    const struct CMUnitTest tests[] = {
        TEST(every_way_counts_once), TEST(every_domain_counts_once),
        TEST(malloc_counts_once),    TEST(the_object_on_which_it_falls),
        TEST(another_rate),          TEST(the_block_has_another_use),
    };
    return cmocka_run_group_tests_name("observe.counted", tests, NULL, NULL);
}
