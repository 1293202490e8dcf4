/* Magazines, claimed words and free bitmaps: no slot is lost, none is in two places, and the last freed slot is used
   first. */
#include "fixture.h"
#include "identities.h"
#include "rng.h"

#include "bins.h"
#include "cache/cache.h"

#include <string.h>

static EpochId epoch;

static int start(void **state) {
    (void)state;
    allocator = slab_allocator_create();
    epoch = epoch_open(allocator, NULL, EPOCH_CHURN);
    return epoch == EPOCH_NONE;
}

static void *get(size_t size) {
    void *p = slab_malloc_epoch(allocator, size, epoch);
    assert_non_null(p);
    return p;
}

static void put(void *p) { assert_true(slab_free(allocator, p)); }

static bool in_magazine(const ts_bin *bin, const void *p) {
    for (unsigned i = 0; i < ts_bin_depth(bin); i++) {
        if (bin->magazine->object[i] == p) {
            return true;
        }
    }
    return false;
}

static void newest_first(void **state) {
    enum { COUNT = TS_MAGAZINE_SLOTS };
    void *objects[COUNT];
    (void)state;
    for (size_t size = 16; size <= 4096; size *= 4) {
        for (int i = 0; i < COUNT; i++) {
            objects[i] = get(size);
        }
        for (int i = 0; i < COUNT; i++) {
            put(objects[i]);
        }
        for (int i = COUNT - 1; i >= 0; i--) {
            assert_true(get(size) == objects[i]);
        }
    }
}

static void put_by_handle(void *p) { assert_true(free_obj(allocator, slab_handle_of(allocator, p))); }

/* A free into a full magazine sends its slot to the slab at once; the magazine keeps its slots, newest first. */
static void full_magazine_keeps_what_it_has(size_t size, void (*give)(void *)) {
    enum { COUNT = 2 * TS_UNIT_BYTES / 64, SLOTS = TS_MAGAZINE_SLOTS };
    void *objects[COUNT];
    unsigned cls = ts_classes.of[size / 16];
    for (int i = 0; i < COUNT; i++) objects[i] = get(size);
    ts_churn_block *block = ts_churn(block_of(objects[0]));
    const ts_bin *bin = &block->bin[cls];
    for (int i = 0; i < COUNT; i++) {
        places before = check_bin(block, cls);
        give(objects[i]);
        places now = check_bin(block, cls);
        assert_int_equal(now.magazine, i < SLOTS ? i + 1 : SLOTS);
        assert_int_equal(in_magazine(bin, objects[i]), i < SLOTS);
        if (i >= SLOTS) assert_true(now.bitmap == before.bitmap + 1 || now.slabs < before.slabs);
        assert_int_equal(ts_bin_magazine_counts(bin).frees, i + 1);
    }
    ts_magazine_counts counts = ts_bin_magazine_counts(bin);
    for (int i = SLOTS - 1; i >= 0; i--) assert_true(get(size) == objects[i]);
    assert_int_equal(check_bin(block, cls).magazine, 0);
    assert_int_equal(ts_bin_magazine_counts(bin).pops, counts.pops + SLOTS);
    assert_int_equal(ts_bin_magazine_counts(bin).frees, COUNT);
}

static void full_magazine_of_pointers(void **state) {
    (void)state;
    full_magazine_keeps_what_it_has(128, put);
}
static void full_magazine_of_small_objects(void **state) {
    (void)state;
    full_magazine_keeps_what_it_has(48, put);
}
static void full_magazine_of_handles(void **state) {
    (void)state;
    full_magazine_keeps_what_it_has(128, put_by_handle);
}
static void full_magazine_of_small_handles(void **state) {
    (void)state;
    full_magazine_keeps_what_it_has(48, put_by_handle);
}

/* An empty magazine: the bits of a word of the bitmap are claimed, which is a page, and their slots come in order of
   address. */
static void claimed_word(void **state) {
    unsigned cls = ts_classes.of[64 / 16];
    (void)state;
    char *first = get(64);
    ts_churn_block *block = ts_churn(block_of(first));
    places now = check_bin(block, cls);
    assert_int_equal(now.word, 63);
    assert_int_equal(now.bitmap, 256 - 64);
    for (int i = 1; i < 256; i++) {
        assert_true(get(64) == first + 64 * i);
        now = check_bin(block, cls);
        assert_int_equal(now.word, 63 - i % 64);
        assert_int_equal(now.slabs, 1);
    }
    assert_int_equal(ts_bin_full(&block->bin[cls]), 1);
    char *other = get(64);
    assert_true(other < first || other >= first + TS_UNIT_BYTES);
    assert_int_equal(check_bin(block, cls).slabs, 2);
    assert_int_equal(ts_bin_word_allocs(&block->bin[cls]), 257);
}

/* Free slots of a page in use are taken before the next page is touched. */
static void pages_in_use_first(void **state) {
    enum { COUNT = 80 };
    char *objects[COUNT];
    (void)state;
    for (int i = 0; i < COUNT; i++) {
        objects[i] = get(64); /* one page, and a quarter of the next */
    }
    char *slab = objects[0];
    for (int i = 0; i < 64; i++) {
        put(objects[i]);
    }
    ts_churn_block *block = ts_churn(block_of(slab));
    ts_heap_enter(ts_thread.heap);
    uint64_t recycled = 0;
    ts_block_flush(ts_thread.heap, &block->b, &recycled); /* magazine and claimed word are empty now */
    ts_heap_leave(ts_thread.heap);
    for (int i = 0; i < 112; i++) {
        char *p = get(64);
        assert_true(p >= slab && p < slab + 8192);
    }
    char *next = get(64);
    assert_true(next >= slab + 8192 && next < slab + 3 * 4096);
}

static void random_order_in_every_class(void **state) {
    enum { LIVE = 300 };
    struct sup_rng rng = {21};
    (void)state;
    for (unsigned cls = 0; cls < TS_CLASSES; cls++) {
        unsigned char *objects[LIVE];
        size_t size = ts_class_bytes[cls];
        for (int i = 0; i < LIVE; i++) {
            objects[i] = get(size);
            memset(objects[i], i, size);
        }
        ts_churn_block *block = ts_churn(block_of(objects[0]));
        for (unsigned i = 0; i < SUP_SCALED(6000u); i++) {
            unsigned k = (unsigned)sup_rng_below(&rng, LIVE);
            if (objects[k]) {
                assert_int_equal(objects[k][0], k & 255);
                assert_int_equal(objects[k][size - 1], k & 255);
                put(objects[k]);
                assert_false(slab_free(allocator, objects[k]));
                objects[k] = NULL;
            } else {
                objects[k] = get(size);
                memset(objects[k], (int)k, size);
            }
            if (i % 32 == 0) {
                (void)check_bin(block, cls);
            }
        }
        for (int i = 0; i < LIVE; i++) {
            if (objects[i]) {
                put(objects[i]);
            }
        }
        assert_int_equal(check_bin(block, cls).live, 0);
    }
    sup_check_identities(allocator);
}

/* In rounds, so that slabs fill up, become empty, go and come. */
static void free_all_allocate_all(void **state) {
    enum { COUNT = 3000 };
    static void *objects[COUNT];
    unsigned cls = ts_classes.of[512 / 16];
    (void)state;
    for (int round = 0; round < 6; round++) {
        for (int i = 0; i < COUNT; i++) {
            objects[i] = get(512);
        }
        ts_churn_block *block = ts_churn(block_of(objects[0]));
        places now = check_bin(block, cls);
        assert_int_equal(now.live, COUNT);
        assert_true(now.slabs <= COUNT / 32 + 1);
        for (int i = 0; i < COUNT; i++) {
            put(objects[round % 2 ? i : COUNT - 1 - i]);
        }
        now = check_bin(block, cls);
        assert_int_equal(now.live, 0);
        assert_true(now.slabs <= COUNT / 32 / 4); /* nearly all of them went */
    }
}

/* By its handle an object goes the way that it goes by its pointer, also where that is full; a realloc that moves it
   frees it past the magazine. */
static void freed_by_handle(void **state) {
    enum { MORE = TS_MAGAZINE_SLOTS + 3 };
    unsigned cls = ts_classes.of[256 / 16];
    SlabHandle handles[MORE];
    (void)state;
    void *p = get(256), *moved = get(256);
    for (int i = 0; i < MORE; i++) assert_non_null(alloc_obj_epoch(allocator, 256, epoch, &handles[i]));
    void *first = slab_handle_get(allocator, handles[0]);
    ts_churn_block *block = ts_churn(block_of(p));
    unsigned bitmap = check_bin(block, cls).bitmap;
    for (int i = 0; i < MORE; i++) {
        assert_true(free_obj(allocator, handles[i]));
        assert_false(free_obj(allocator, handles[i]));
        places now = check_bin(block, cls);
        int past = i < (int)TS_MAGAZINE_SLOTS ? 0 : i + 1 - (int)TS_MAGAZINE_SLOTS;
        assert_int_equal(now.magazine, i + 1 - past);
        assert_int_equal(now.bitmap, bitmap + (unsigned)past);
        assert_int_equal(ts_load_relaxed(&block->bin[cls].direct_frees), (uint64_t)past * TS_DIRECT_ONE);
    }
    assert_false(slab_free(allocator, first));
    uint64_t direct = ts_load_relaxed(&block->bin[cls].direct_frees);
    assert_non_null(slab_realloc(allocator, moved, 1000));
    assert_int_equal(ts_load_relaxed(&block->bin[cls].direct_frees), direct + TS_DIRECT_ONE);
}

/* Flushing: all that is free is in the bitmaps, and nothing is lost by doing it at any time. */
static void idle_flushes(void **state) {
    struct sup_rng rng = {22};
    (void)state;
    void *objects[500] = {0};
    void *anchor = get(96);
    unsigned cls = ts_classes.of[96 / 16];
    ts_churn_block *block = ts_churn(block_of(anchor));
    for (int i = 0; i < 4000; i++) {
        unsigned k = (unsigned)sup_rng_below(&rng, 500);
        if (objects[k]) {
            put(objects[k]);
            objects[k] = NULL;
        } else {
            objects[k] = get(96);
        }
        if (i % 50 == 0) {
            unsigned live = check_bin(block, cls).live;
            slab_thread_idle();
            places now = check_bin(block, cls);
            assert_int_equal(now.magazine + now.word, 0);
            assert_int_equal(now.live, live);
        }
    }
    sup_check_identities(allocator);
}

/* A close: everything that is empty goes, and from then on every free goes to its slab. */
static void closing(void **state) {
    void *objects[1000];
    (void)state;
    for (int i = 0; i < 1000; i++) {
        objects[i] = get(1024);
    }
    unsigned cls = ts_classes.of[1024 / 16];
    ts_churn_block *block = ts_churn(block_of(objects[0]));
    for (int i = 0; i < 990; i++) {
        put(objects[i]);
    }
    assert_true(epoch_close(allocator, epoch));
    places now = check_bin(block, cls);
    assert_int_equal(now.live, 10);
    assert_int_equal(now.magazine + now.word, 0);
    assert_true(now.slabs <= 2); /* ten neighbours, sixteen to a slab */
    for (int i = 990; i < 1000; i++) {
        assert_int_equal(epoch_state(allocator, epoch), EPOCH_CLOSING);
        put(objects[i]);
        if (i < 999) {
            assert_int_equal(check_bin(block, cls).magazine, 0);
        }
    }
    assert_int_equal(epoch_state(allocator, epoch), EPOCH_CLOSED);
    sup_check_empty(allocator);
}

/* The child of a fork rebuilds a vanished thread's block from the live words alone. */
static void rebuild(void **state) {
    enum { COUNT = 700 };
    void *objects[COUNT];
    (void)state;
    for (int i = 0; i < COUNT; i++) {
        objects[i] = get(200);
    }
    unsigned cls = ts_classes.of[208 / 16];
    ts_churn_block *block = ts_churn(block_of(objects[0]));
    for (int i = 0; i < COUNT; i += 2) {
        put(objects[i]);
    }
    ts_heap *heap = ts_thread.heap;
    ts_heap_enter(heap);
    /* as if it had vanished in the middle of something: of a word of 20 bits 15 are left */
    block->bin[cls].word = 0x123456789;
    block->bin[cls].claims += 20 - (block->bin[cls].claims & TS_CLAIMS_BITS);
    ts_store_relaxed(&block->bin[cls].top, ts_load_relaxed(&block->bin[cls].top) - 1);
    ts_store_relaxed(&block->bin[cls].direct_frees, ts_load_relaxed(&block->bin[cls].direct_frees) | 2);
    ts_slab_at(ts_bin_head(&block->bin[cls]))->free_count += 3;
    ts_block_rebuild(heap, &block->b);
    ts_heap_leave(heap);
    places now = check_bin(block, cls);
    assert_int_equal(now.live, COUNT / 2);
    assert_int_equal(now.magazine + now.word, 0);
    for (int i = 0; i < COUNT; i++) {
        assert_int_equal(slab_free(allocator, objects[i]), i % 2);
    }
    assert_int_equal(check_bin(block, cls).live, 0);
    sup_check_identities(allocator);
}

/* Other threads have freed the first objects of a slab, 32 or, if the magazine is to keep them, 8. One of them is
   `odd`: the owner has freed it, or it is in the last generation of its slot. The others are freed as ever. handled:
   the slab is so, and the odd slot has one generation left; a free that comes too late does not count it. */
static void freed_together_but_one(size_t size, unsigned base, unsigned odd, bool last, bool keeps, bool handled) {
    void *objects[32];
    unsigned together = keeps ? 8 : 32, cls = ts_classes.of[size / 16], found = 0, others = 0;
    uint64_t entry, rejected = ts_load_relaxed(&ts_allocator_find(ts_token(allocator))->rejected_frees);
    while (found < together) {
        void *p = get(size);
        (void)unit_of(p, &entry);
        uint64_t granule =
            ts_granule(ts_class_is_fine(cls), entry) % ts_granules_per_unit(ts_class_is_fine(cls)) - base;
        if (granule < together) objects[granule] = p, found++;
        others += granule >= together;
    }
    ts_churn_block *block = ts_churn(block_of(objects[0]));
    uint32_t unit = unit_of(objects[0], &entry), slots = ts_slab_at(unit)->empty_at;
    if (!last) put(objects[odd]);
    if (handled) {
        assert_true(ts_region_commit_generations(unit));
        ts_heap_enter(ts_thread.heap);
        ts_slab_make_handled(unit);
        ts_heap_leave(ts_thread.heap);
        (void)unit_of(objects[odd], &entry);
        ts_store_relaxed(ts_generation_word(entry), TS_SLOT_GEN_MAX);
    }
    ts_heap_enter(ts_thread.heap);
    unsigned freed = ts_bin_free_bits(block, &block->bin[cls], unit, base, UINT32_MAX >> (32 - together), keeps);
    ts_heap_leave(ts_thread.heap);
    assert_int_equal(freed, last ? together : together - 1);
    assert_int_equal(ts_load_relaxed(&ts_allocator_find(ts_token(allocator))->rejected_frees) - rejected, !last);
    assert_int_equal(ts_slab_at(unit)->empty_at, slots - last);
    for (unsigned i = 0; i < together; i++) {
        (void)unit_of(objects[i], &entry);
        assert_false(ts_is_live(entry));
        if (handled)
            assert_int_equal(ts_load_relaxed(ts_generation_word(entry)), i == odd ? TS_SLOT_GEN_MAX + last : 1);
    }
    places n = check_bin(block, cls);
    assert_int_equal(n.live, others);
    assert_int_equal(n.magazine, keeps ? together - last : !last);
    for (uint32_t i = others; i < slots - last; i++) {
        void *p = get(size);
        assert_int_equal(unit_of(p, &entry), unit);
        assert_true(p != objects[odd] || !last);
    }
    sup_check_identities(allocator);
}

static void freed_together(void **state) {
    static const size_t sizes[] = {16, 64}; /* one in each granule */
    (void)state;
    for (unsigned k = 0; k < sizeof sizes / sizeof *sizes; k++)
        for (unsigned odd = 0; odd < 32; odd = 2 * odd + 1)
            for (unsigned how = 0; how < 16; how++) {
                if (how == (how | 1 | 8)) continue;
                assert_true(epoch_destroy(allocator, epoch));
                epoch = epoch_open(allocator, NULL, EPOCH_CHURN);
                freed_together_but_one(sizes[k], how / 4 % 2 * 128, how & 2 ? odd % 8 : odd, how & 1, how & 2,
                                       how & (1 | 8));
            }
}

#define WITH_EPOCH(test) cmocka_unit_test_setup_teardown(test, start, stop)

int main(void) {
    const struct CMUnitTest tests[] = {
        WITH_EPOCH(newest_first),
        WITH_EPOCH(full_magazine_of_pointers),
        WITH_EPOCH(full_magazine_of_small_objects),
        WITH_EPOCH(full_magazine_of_handles),
        WITH_EPOCH(full_magazine_of_small_handles),
        WITH_EPOCH(claimed_word),
        WITH_EPOCH(pages_in_use_first),
        WITH_EPOCH(random_order_in_every_class),
        WITH_EPOCH(free_all_allocate_all),
        WITH_EPOCH(freed_by_handle),
        WITH_EPOCH(idle_flushes),
        WITH_EPOCH(closing),
        WITH_EPOCH(rebuild),
        WITH_EPOCH(freed_together),
    };
    return cmocka_run_group_tests_name("cache.bin", tests, NULL, NULL);
}
