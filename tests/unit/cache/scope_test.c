/* Scope slabs: start bits, sizes of objects, aligned places, and when a slab goes. */
#include "identities.h"
#include "pattern.h"
#include "rng.h"
#include "unit.h"

#include "bins.h"
#include "cache/allocate.h"
#include "cache/cache.h"
#include "epoch/epoch.h"
#include "walk/check_pool.h"

static SlabAllocator *allocator;
static EpochId epoch;
static uint64_t used_up; /* units that are nobody's for ever */

static int start(void **state) {
    (void)state;
    allocator = slab_allocator_create();
    epoch = epoch_open(allocator, NULL, EPOCH_SCOPE);
    return epoch == EPOCH_NONE;
}

static int stop(void **state) {
    (void)state;
    slab_allocator_free(allocator);
    return ts_pool_used_units() != used_up;
}

static uint64_t live_bytes(void) {
    SlabGlobalStats global;
    assert_true(slab_stats_global(allocator, &global));
    return global.live_bytes;
}

static size_t rounded(size_t size) { return size == 0 ? 16 : (size + 15) / 16 * 16; }

static void round_sizes(void **state) {
    (void)state;
    assert_int_equal(ts_scope_round(0), 16);
    for (size_t size = 1; size <= TS_SCOPE_MAX_BYTES; size++) {
        assert_int_equal(ts_scope_round(size), rounded(size));
    }
    assert_int_equal(ts_scope_round(TS_SCOPE_MAX_BYTES + 1), 0);
    assert_int_equal(ts_scope_round(SIZE_MAX), 0);
    assert_int_equal(ts_scope_round(SIZE_MAX - 14), 0);
    assert_int_equal(ts_scope_round(PTRDIFF_MAX), 0);
}

/* One after the other, without a gap, and every size is known for ever. */
static void bump(void **state) {
    enum { COUNT = 5000 };
    struct sup_rng rng = {31};
    static char *objects[COUNT];
    static size_t sizes[COUNT];
    uint64_t bytes = 0;
    (void)state;
    for (int i = 0; i < COUNT; i++) {
        sizes[i] = sup_rng_below(&rng, i % 5 ? 200 : TS_SCOPE_MAX_BYTES + 1);
        objects[i] = slab_malloc_epoch(allocator, sizes[i], epoch);
        assert_non_null(objects[i]);
        sup_pattern_fill(objects[i], sizes[i], (uint64_t)i);
        bytes += rounded(sizes[i]);
        if (i > 0 && (uintptr_t)objects[i] % TS_UNIT_BYTES != 0) {
            assert_true(objects[i] == objects[i - 1] + rounded(sizes[i - 1]));
        }
    }
    assert_int_equal(live_bytes(), bytes);
    for (int i = 0; i < COUNT; i++) {
        assert_int_equal(slab_usable_size(allocator, objects[i]), rounded(sizes[i]));
        assert_true(sup_pattern_check(objects[i], sizes[i], (uint64_t)i));
        for (size_t k = 16; k < rounded(sizes[i]); k += 16) {
            assert_false(slab_owns(allocator, objects[i] + k));
        }
    }
    for (int i = COUNT - 1; i >= 0; i -= 2) {
        assert_true(slab_free(allocator, objects[i]));
        assert_false(slab_free(allocator, objects[i]));
        bytes -= rounded(sizes[i]);
        assert_int_equal(slab_usable_size(allocator, objects[i]), 0);
    }
    assert_int_equal(live_bytes(), bytes);
    for (int i = COUNT - 2; i >= 0; i -= 2) {
        assert_int_equal(slab_usable_size(allocator, objects[i]), rounded(sizes[i]));
        assert_true(slab_free(allocator, objects[i]));
    }
    assert_int_equal(live_bytes(), 0);
    sup_check_identities(allocator);
}

/* A place that is skipped belongs to nobody: neither the sizes before it nor the sums change. */
static void aligned_places(void **state) {
    enum { COUNT = 2000 };
    struct sup_rng rng = {32};
    static char *objects[COUNT];
    static size_t sizes[COUNT];
    uint64_t bytes = 0;
    (void)state;
    for (int i = 0; i < COUNT; i++) {
        size_t align = (size_t)1 << sup_rng_below(&rng, 12);
        sizes[i] = sup_rng_below(&rng, 300);
        objects[i] = slab_aligned_epoch(allocator, align, sizes[i], epoch);
        assert_non_null(objects[i]);
        assert_int_equal((uintptr_t)objects[i] % align, 0);
        bytes += rounded(sizes[i]);
        if (i > 0) {
            assert_int_equal(slab_usable_size(allocator, objects[i - 1]), rounded(sizes[i - 1]));
        }
        if (sup_rng_below(&rng, 3) == 0) {
            /* Freed before the next place is skipped. */
            assert_true(slab_free(allocator, objects[i]));
            bytes -= rounded(sizes[i]);
            objects[i--] = NULL;
        }
        assert_int_equal(live_bytes(), bytes);
    }
    assert_int_equal(sup_live_objects(allocator), COUNT);
    sup_check_identities(allocator);
    for (int i = 0; i < COUNT; i++) {
        /* 16 bytes off: skipped, in the middle, or another object; never this one. */
        assert_true(slab_owns(allocator, objects[i]));
        assert_true(slab_free(allocator, objects[i]));
    }
    assert_int_equal(live_bytes(), 0);
    sup_check_identities(allocator);
    assert_true(epoch_close(allocator, epoch));
    assert_int_equal(epoch_state(allocator, epoch), EPOCH_CLOSED);
}

static void skipped_places_are_no_objects(void **state) {
    (void)state;
    char *first = slab_malloc_epoch(allocator, 16, epoch);
    char *far = slab_aligned_epoch(allocator, 1024, 16, epoch);
    assert_true(far == first + 1024);
    for (char *p = first + 16; p < far; p += 16) {
        assert_false(slab_owns(allocator, p));
        assert_false(slab_free(allocator, p));
        assert_int_equal(slab_handle_of(allocator, p), SLAB_HANDLE_NONE);
    }
    assert_int_equal(sup_live_objects(allocator), 2);
}

/* A slab goes when it is full and all of it was freed; the current one stays. */
static void release(void **state) {
    enum { COUNT = 16 * 5 + 3 };
    char *objects[COUNT];
    (void)state;
    for (int i = 0; i < COUNT; i++) {
        objects[i] = slab_malloc_epoch(allocator, 1024, epoch); /* 16 to a slab */
    }
    ts_scope_block *block = ts_scope(block_of(objects[0]));
    assert_int_equal(ts_load_relaxed(&block->b.slabs), 6);
    for (int i = 0; i < COUNT; i++) {
        assert_true(slab_free(allocator, objects[i]));
        assert_int_equal(ts_load_relaxed(&block->b.slabs), 6 - (i + 1) / 16);
    }
    assert_true(slab_malloc_epoch(allocator, 1024, epoch) == objects[COUNT - 1] + 1024); /* nothing is used twice */
    slab_thread_idle();
    char *p = slab_malloc_epoch(allocator, 4096, epoch);
    assert_non_null(p);
    sup_check_identities(allocator);
    assert_true(epoch_destroy(allocator, epoch));
    sup_check_empty(allocator);
    for (int i = 0; i < COUNT; i++) {
        assert_false(slab_owns(allocator, objects[i]));
    }
}

/* By way of slab_alloc, a slab whose objects were all freed while they were added goes when it is full. */
static void release_at_the_change(void **state) {
    enum { SLOTS = 16, COUNT = SLOTS * 4 };
    char *objects[COUNT];
    (void)state;
    slab_free(allocator, slab_malloc_epoch(allocator, 1024, epoch)); /* a retained unit for the first domain */
    for (int round = 0; round < 3; round++) {
        EpochDomain *domain = epoch_domain_create(allocator);
        assert_true(epoch_domain_enter(domain));
        for (int i = 0; i < COUNT; i++) {
            objects[i] = slab_alloc(1024);
            assert_non_null(objects[i]);
            if (i / SLOTS % 2 == 0) {
                assert_true(slab_free(allocator, objects[i])); /* of the first slab and the third all, at once */
            }
        }
        ts_scope_block *block = ts_scope(block_of(objects[COUNT - 1]));
        assert_int_equal(ts_load_relaxed(&block->b.slabs), 2);
        assert_int_equal(sup_live_objects(allocator), COUNT / 2);
        sup_check_identities(allocator);
        for (int i = 0; i < COUNT; i++) {
            assert_true(i / SLOTS % 2 == 0 ||
                        slab_owns(allocator, objects[i])); /* memory of the others is used again */
        }
        assert_true(epoch_domain_exit(domain));
        epoch_domain_destroy(domain);
        assert_int_equal(sup_live_objects(allocator), 0);
        sup_check_identities(allocator);
    }
}

/* An object of a new domain. The unit that lay on top of the retained ones is its slab. */
static char *in_a_domain(EpochDomain **domain, size_t size) {
    *domain = epoch_domain_create(allocator);
    assert_true(epoch_domain_enter(*domain));
    char *object = slab_alloc(size);
    assert_non_null(object);
    return object;
}

static uint32_t lies_in(const void *p) {
    uint64_t entry;
    return unit_of(p, &entry);
}

static void end_domain(EpochDomain *domain) {
    assert_true(epoch_domain_exit(domain));
    epoch_domain_destroy(domain);
    sup_check_identities(allocator);
}

/* Nothing of a slab's last use is in the next one: no start, no free, no tag, for any kind of last use. */
static void a_use_leaves_nothing(void **state) {
    (void)state;
    EpochDomain *domain;
    EpochId churn = epoch_open(allocator, NULL, EPOCH_CHURN);
    char *before = slab_malloc_epoch(allocator, 128, churn);
    assert_true(epoch_destroy(allocator, churn));
    for (int use = 0; use < 4; use++) {
        const ts_slab *slab = ts_slab_at(lies_in(before));
        uint32_t tag = ts_load_relaxed(&slab->tag);
        char *first = in_a_domain(&domain, 256);
        assert_int_equal(lies_in(first), lies_in(before));
        assert_int_equal(ts_load_relaxed(&slab->tag), tag + 1);
        assert_int_equal(slab->kind, TS_KIND_SCOPE);
        for (size_t i = 16; i < 256; i += 16) {
            assert_false(slab_owns(allocator, first + i));
        }
        assert_true(slab_owns(allocator, first) && slab_usable_size(allocator, first) == 256);
        for (int i = 1; i < 60; i++) {
            char *object = slab_alloc(use % 2 ? 256 : 32);
            assert_true(slab_owns(allocator, object));
            assert_int_equal(slab_usable_size(allocator, object), use % 2 ? 256 : 32);
            assert_false(slab_owns(allocator, object + 16));
            assert_false(use % 2 && slab_owns(allocator, object + 32));
            assert_true(i % 2 == 0 || slab_free(allocator, object));
        }
        assert_int_equal(sup_live_objects(allocator), 30);
        assert_true(use == 3 || slab_free(allocator, first));
        end_domain(domain);
        before = first;
    }
}

/* The next use of a slab has to look at two things: a handle that was made, and the end of the tags. */
static void not_any_unit_is_the_next(void **state) {
    (void)state;
    EpochDomain *domain;
    assert_non_null(in_a_domain(&domain, 256));
    end_domain(domain);
    char *first = in_a_domain(&domain, 256);
    ts_slab *slab = ts_slab_at(lies_in(first));
    uint32_t gen = ts_load_relaxed(&slab->gen);
    SlabHandle handle = slab_handle_of(allocator, first);
    assert_true(handle != SLAB_HANDLE_NONE);
    end_domain(domain);
    assert_true(in_a_domain(&domain, 256) == first);
    assert_true(ts_load_relaxed(&slab->gen) > gen);
    assert_null(slab_handle_get(allocator, handle));
    end_domain(domain);

    uint32_t tag = ts_load_relaxed(&slab->tag);
    ts_store_relaxed(&slab->tag, (uint32_t)TS_UNIT_ERA_MASK);
    assert_true(lies_in(in_a_domain(&domain, 256)) != lies_in(first));
    assert_int_equal(slab->kind, TS_KIND_RETIRED);
    ts_store_relaxed(&slab->tag, tag);
    used_up++;
    end_domain(domain);
}

static void the_last_object_grows_in_place(void **state) {
    (void)state;
    char *a = slab_malloc_epoch(allocator, 100, epoch), *b = slab_malloc_epoch(allocator, 100, epoch);
    sup_pattern_fill(a, 100, 1);
    sup_pattern_fill(b, 100, 2);
    assert_true(slab_realloc(allocator, b, 4000) == b);
    assert_int_equal(slab_usable_size(allocator, b), 4000);
    assert_int_equal(live_bytes(), 112 + 4000);
    assert_true(slab_realloc(allocator, b, 50) == b);
    assert_int_equal(slab_usable_size(allocator, b), 64);
    assert_int_equal(live_bytes(), 112 + 64);
    assert_true(sup_pattern_check_prefix(b, 100, 50, 2));
    char *moved = slab_realloc(allocator, a, 200); /* not the last one */
    assert_true(moved == b + 64 && sup_pattern_check_prefix(moved, 100, 100, 1));
    assert_int_equal(live_bytes(), 64 + 208);
    sup_check_identities(allocator);
}

/* An object that grows bit by bit takes as little as one that was so large from the beginning: where it is, while it is
   the last of its slab, and else in few steps. */
static void grows_bit_by_bit(void **state) {
    (void)state;
    for (unsigned others = 0; others < 2; others++) {
        unsigned moves = 0;
        char *object = slab_malloc_epoch(allocator, 3000, epoch);
        sup_pattern_fill(object, 3000, 3);
        for (size_t size = 3008; size <= 40000; size += 64) {
            if (others && size > 4096) assert_non_null(slab_malloc_epoch(allocator, 16, epoch));
            char *grown = slab_realloc(allocator, object, size);
            assert_true(grown && slab_usable_size(allocator, grown) >= size);
            moves += grown != object;
            object = grown;
        }
        assert_true(sup_pattern_check_prefix(object, 3000, 3000, 3));
        assert_true(moves <= 5);
        assert_true(sup_committed_bytes(allocator) <= 8 * TS_UNIT_BYTES);
        uint64_t ended;
        assert_true(ts_epoch_reset(ts_allocator_find((uintptr_t)allocator), epoch, &ended));
    }
}

static void rebuild(void **state) {
    enum { COUNT = 300 };
    char *objects[COUNT];
    (void)state;
    for (int i = 0; i < COUNT; i++) {
        objects[i] = slab_malloc_epoch(allocator, 200, epoch);
    }
    for (int i = 0; i < COUNT; i += 3) {
        assert_true(slab_free(allocator, objects[i]));
    }
    uint64_t bytes = live_bytes();
    ts_scope_block *block = ts_scope(block_of(objects[0]));
    ts_heap *heap = ts_thread.heap;
    ts_heap_enter(heap);
    /* As if the thread had vanished in an allocation: the start bit is set, bump has not moved. */
    size_t at =
        (size_t)(ts_bump_at(ts_load_relaxed(&block->bump)) - ts_unit_address(ts_load_relaxed(&block->current))) / 16;
    ts_store_relaxed(&block->bits->start[at / 64],
                     ts_load_relaxed(&block->bits->start[at / 64]) | (uint64_t)1 << at % 64);
    ts_block_rebuild(heap, &block->b);
    ts_heap_leave(heap);
    assert_int_equal(live_bytes(), bytes);
    sup_check_identities(allocator);
    for (int i = 0; i < COUNT; i++) {
        assert_int_equal(slab_free(allocator, objects[i]), i % 3 != 0);
    }
    assert_int_equal(live_bytes(), 0);
    sup_check_identities(allocator);
}

/* The allocations of each slab as the current one are counted apart: of whole slabs, of the one after them, and of the
   steps between the two. */
static void objects_counted_once_between_two_slabs(void **state) {
    (void)state;
    enum { MANY = 300 };
    char *first = slab_malloc_epoch(allocator, 200, epoch);
    for (unsigned i = 1; i < MANY; i++) {
        ts_scope_block *block = ts_scope(block_of(first));
        assert_int_equal(ts_scope_allocs(block), i);
        assert_int_equal(ts_scope_allocs_held(block), i);
        uint64_t bump = ts_load_relaxed(&block->bump), allocs = ts_load_relaxed(&block->allocs);
        assert_non_null(slab_malloc_epoch(allocator, 200, epoch));
        uint64_t after = ts_load_relaxed(&block->allocs), bump_after = ts_load_relaxed(&block->bump);
        if (after == allocs) continue;
        ts_store_relaxed(&block->bump, bump); /* as a reader can see it while the slab is sealed */
        assert_int_equal(ts_scope_allocs(block), i);
        ts_store_relaxed(&block->bump, 0); /* while there is no other */
        assert_int_equal(ts_scope_allocs(block), i);
        ts_store_relaxed(&block->bump, bump_after);
        assert_int_equal(ts_scope_allocs(block), i + 1);
    }
    assert_true(ts_load_relaxed(&ts_scope(block_of(first))->allocs) >> TS_ALLOCS_SHIFT > 2 * TS_UNIT_BYTES / 208);
}

/* A reader between the steps in which a slab is no longer the current one: its bytes are counted once. */
static void counted_once_between_two_slabs(void **state) {
    (void)state;
    char *object = slab_malloc_epoch(allocator, 3000, epoch);
    assert_non_null(slab_malloc_epoch(allocator, 1000, epoch));
    ts_scope_block *block = ts_scope(block_of(object));
    uint64_t bytes = live_bytes();
    assert_int_equal(bytes, rounded(3000) + rounded(1000));
    ts_slab *slab = ts_slab_at(ts_load_relaxed(&block->current));
    ts_store_relaxed(&slab->end, (uint16_t)(bytes / 16));
    assert_true(ts_block_tally(&block->b, TS_COUNT_SCOPE).bytes_allocated <= bytes);
    ts_store_relaxed(&block->bytes_allocated, bytes);
    assert_int_equal(ts_block_tally(&block->b, TS_COUNT_SCOPE).bytes_allocated, bytes);
    ts_store_relaxed(&block->bytes_allocated, 0);
    ts_store_relaxed(&slab->end, 0);
    assert_int_equal(live_bytes(), bytes);
}

static bool has_own_pages(const void *p) {
    uint64_t entry;
    return (ts_load_relaxed(ts_unit_word(unit_of(p, &entry))) & TS_UNIT_SPAN) != 0;
}

/* Objects of up to half a unit share slabs. With guards those above a quarter have pages of their own, also where they
   grew. */
static void up_to_half_a_unit(void **state) {
    static const size_t sizes[] = {4097, 4200, 5456, 6000, 8192, 8208, 12000, 16384};
    SlabOptions options = {.size = sizeof options, .guard_spans = 1, .memory_tools = SLAB_TOOLS_OFF};
    SlabAllocator *guarded = slab_allocator_create_ex(&options);
    EpochId among_guards = epoch_open(guarded, NULL, EPOCH_SCOPE);
    (void)state;
    for (unsigned s = 0; s < sizeof sizes / sizeof *sizes; s++) {
        const unsigned in_unit = TS_UNIT_BYTES / (unsigned)rounded(sizes[s]);
        const ts_block *block = NULL;
        for (unsigned i = 0; i < 10 * in_unit; i++) block = block_of(slab_malloc_epoch(allocator, sizes[s], epoch));
        assert_int_equal(ts_load_relaxed(&block->slabs), 10);
        uint64_t ended;
        assert_true(ts_epoch_reset(ts_allocator_find((uintptr_t)allocator), epoch, &ended) && ended == 10);
        assert_true(has_own_pages(slab_malloc_epoch(guarded, sizes[s], among_guards)));
        void *small = slab_malloc_epoch(guarded, 100, among_guards);
        assert_true(!has_own_pages(small) && has_own_pages(slab_realloc(guarded, small, sizes[s])));
    }
    slab_allocator_free(guarded);
}

/* A larger object takes a slab if that one has no less room behind it than the current one. Else it is a span, and the
   current slab goes on. */
static void above_half_a_unit(void **state) {
    (void)state;
    const unsigned rest[] = {4384, 4400, 11984, 0};
    for (unsigned i = 0; i < sizeof rest / sizeof *rest; i++) {
        const ts_scope_block *block = ts_scope(block_of(slab_malloc_epoch(allocator, 16, epoch)));
        assert_non_null(slab_malloc_epoch(allocator, TS_UNIT_BYTES - 16 - rest[i], epoch));
        uint32_t current = ts_load_relaxed(&block->current), slabs = ts_load_relaxed(&block->b.slabs);
        char *object = slab_malloc_epoch(allocator, 12000, epoch);
        bool slab = rest[i] <= TS_UNIT_BYTES - 12000;
        assert_int_equal(has_own_pages(object), !slab);
        assert_int_equal(ts_load_relaxed(&block->current) == current, !slab);
        assert_int_equal(ts_load_relaxed(&block->b.slabs), slabs + slab);
        uint64_t ended;
        assert_true(slab_free(allocator, object) && !slab_free(allocator, object));
        assert_true(ts_epoch_reset(ts_allocator_find((uintptr_t)allocator), epoch, &ended));
    }
}

#define WITH_EPOCH(test) cmocka_unit_test_setup_teardown(test, start, stop)

int main(void) {
    const struct CMUnitTest tests[] = {
        WITH_EPOCH(round_sizes),
        WITH_EPOCH(bump),
        WITH_EPOCH(aligned_places),
        WITH_EPOCH(skipped_places_are_no_objects),
        WITH_EPOCH(release),
        WITH_EPOCH(the_last_object_grows_in_place),
        WITH_EPOCH(grows_bit_by_bit),
        WITH_EPOCH(rebuild),
        WITH_EPOCH(release_at_the_change),
        WITH_EPOCH(a_use_leaves_nothing),
        WITH_EPOCH(not_any_unit_is_the_next),
        WITH_EPOCH(counted_once_between_two_slabs),
        WITH_EPOCH(objects_counted_once_between_two_slabs),
        WITH_EPOCH(up_to_half_a_unit),
        WITH_EPOCH(above_half_a_unit),
    };
    return cmocka_run_group_tests_name("cache.scope", tests, NULL, NULL);
}
