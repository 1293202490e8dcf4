/*
 * Churn blocks that nobody has go without their memory: it is back with the system, nothing of the old uses lives
 * again, and the blocks are as good as new ones.
 */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include "identities.h"
#include "unit.h"

#include "bins.h"
#include "errands.h"
#include "ownership/ownership.h"
#include "walk/check.h"

#include <string.h>

enum { MANY = TS_POOL_CHURN_BLOCKS + 1000, FEW = 64, RUN = 8 };

static SlabAllocator *allocator;
static EpochId epochs[MANY];
static char *objects[MANY];
static ts_block *blocks[MANY];
static ts_os_table table;
static unsigned calls, refused_from;
static size_t bytes_purged;

static bool counted_purge(void *at, size_t bytes) {
    if ((char *)at < ts_region.lines || ts_chunk_of(at) >= ts_lines_used() / 64) return ts_os_native.purge(at, bytes);
    if (calls++ >= refused_from) return false;
    bytes_purged += bytes;
    return ts_os_native.purge(at, bytes);
}

/* Units stay as they are, words and all, so that old pointers lead to the blocks. */
static int start(void **state) {
    SlabOptions options = {.size = sizeof options, .reclaim_policy = SLAB_RECLAIM_KEEP};
    (void)state;
    allocator = slab_allocator_create_ex(&options);
    slab_thread_idle();
    ts_records_purge(true);
    table = ts_os_native;
    table.purge = counted_purge;
    ts_os = &table;
    calls = 0;
    refused_from = UINT32_MAX;
    bytes_purged = 0;
    return allocator == NULL;
}

static int stop(void **state) {
    (void)state;
    ts_os = &ts_os_native;
    slab_allocator_free(allocator);
    return 0;
}

static void open_and_use(unsigned count) {
    for (unsigned i = 0; i < count; i++) {
        epochs[i] = epoch_open(allocator, NULL, EPOCH_CHURN);
        objects[i] = slab_malloc_epoch(allocator, 100, epochs[i]);
        SUP_CHECK(objects[i] != NULL, "epoch %u", i);
        blocks[i] = block_of(objects[i]);
        memset(objects[i], 0x5a, 100);
    }
}

static void destroy(unsigned count) {
    for (unsigned i = 0; i < count; i++) {
        SUP_CHECK(epoch_destroy(allocator, epochs[i]), "epoch %u", i);
    }
}

static void all_are_refused(unsigned count) {
    for (unsigned i = 0; i < count; i++) {
        SUP_CHECK(!slab_free(allocator, objects[i]) && !slab_owns(allocator, objects[i]) &&
                      slab_usable_size(allocator, objects[i]) == 0 &&
                      slab_handle_of(allocator, objects[i]) == SLAB_HANDLE_NONE,
                  "object %u lives", i);
    }
}

/* Memory that went back reads as zero; the key of a block is never 0. */
static unsigned resident_blocks(unsigned count) {
    unsigned resident = 0;
    for (unsigned i = 0; i < count; i++) resident += ts_load_relaxed(&blocks[i]->key) != 0;
    return resident;
}

static void check_everything(void) {
    ts_check check;
    SUP_CHECK(ts_check_all(&check, false), "%s", check.why);
    sup_check_identities(allocator);
}

/* As epochs end, but for as many as may stay: those of the pool and of the thread. slab_trim takes those, too. */
static void memory_goes_back(void **state) {
    (void)state;
    if (ts_os_page_bytes() > TS_LINES_CHUNK) skip();
    for (unsigned round = 0; round < 3; round++) {
        open_and_use(MANY);
        assert_int_equal(resident_blocks(MANY), MANY);
        destroy(MANY);
        assert_in_range(resident_blocks(MANY), 1, TS_POOL_CHURN_BLOCKS + TS_FREE_CHURN_BLOCKS);
        assert_in_range(ts_load_relaxed(&ts_churn_pool.count), 1, TS_POOL_CHURN_BLOCKS);
        all_are_refused(MANY);
        check_everything();
    }
    (void)slab_trim(allocator);
    assert_int_equal(resident_blocks(MANY), 0);
    assert_int_equal(ts_load_relaxed(&ts_churn_pool.count), 0);
    check_everything();
}

/* Those of closed epochs, which their last objects end. */
static void of_closed_epochs(void **state) {
    (void)state;
    if (ts_os_page_bytes() > TS_LINES_CHUNK) skip();
    open_and_use(MANY);
    for (unsigned i = 0; i < MANY; i++) assert_true(epoch_close(allocator, epochs[i]));
    for (unsigned i = 0; i < MANY; i++) SUP_CHECK(slab_free(allocator, objects[i]), "object %u", i);
    assert_in_range(resident_blocks(MANY), 1, TS_POOL_CHURN_BLOCKS + TS_FREE_CHURN_BLOCKS);
    all_are_refused(MANY);
    check_everything();
}

static void destroy_many(void) { destroy(MANY); }

/* The end of an epoch pays for two runs at most, and they are short. */
static void an_end_pays_for_little(void **state) {
    (void)state;
    if (ts_os_page_bytes() > TS_LINES_CHUNK) skip();
    open_and_use(MANY);
    for (unsigned i = 0; i < MANY; i++) {
        unsigned before = calls;
        size_t bytes = bytes_purged;
        SUP_CHECK(epoch_destroy(allocator, epochs[i]), "epoch %u", i);
        assert_in_range(calls - before, 0, 2);
        assert_in_range(bytes_purged - bytes, 0, (size_t)2 * RUN * TS_LINES_CHUNK);
    }
    assert_in_range(calls, 1, bytes_purged / TS_LINES_CHUNK / 2); /* neighbours go together */
}

/* However many neighbours there are: these are new ones, in a row, and have never been taken in another order. */
static void a_call_is_short(void **state) {
    (void)state;
    if (ts_os_page_bytes() > TS_LINES_CHUNK) skip();
    open_and_use(MANY); /* first of all tests */
    begin();
    let(destroy_many);
    end();
    slab_thread_idle();
    bool full = false;
    while (ts_load_relaxed(&ts_churn_pool.count) > 0) {
        size_t before = bytes_purged;
        ts_chunk_purge(&ts_churn_pool, 0, 1);
        assert_in_range(bytes_purged - before, TS_LINES_CHUNK, RUN * TS_LINES_CHUNK);
        full |= bytes_purged - before == RUN * TS_LINES_CHUNK;
    }
    assert_true(full);
}

/* Another thread ends them, which cannot give them away; their own does when it rests, and then all that is too much
   goes. */
static void of_a_thread_that_rests(void **state) {
    (void)state;
    if (ts_os_page_bytes() > TS_LINES_CHUNK) skip();
    open_and_use(MANY);
    begin();
    let(destroy_many);
    assert_int_equal(ts_load_relaxed(&ts_thread.heap->free_blocks[0]), MANY);
    assert_int_equal(resident_blocks(MANY), MANY);
    slab_thread_idle();
    assert_int_equal(resident_blocks(MANY), TS_POOL_CHURN_BLOCKS);
    end();
    check_everything();
}

static void open_many(void) { open_and_use(MANY); }

/* Or when it ends. */
static void of_a_thread_that_ends(void **state) {
    (void)state;
    if (ts_os_page_bytes() > TS_LINES_CHUNK) skip();
    begin();
    let(open_many);
    destroy(MANY);
    assert_int_equal(resident_blocks(MANY), MANY);
    end();
    assert_int_equal(resident_blocks(MANY), TS_POOL_CHURN_BLOCKS);
    check_everything();
}

/* In whatever order they ended, those go back that are meant, and no other's. */
static void in_any_order(void **state) {
    (void)state;
    if (ts_os_page_bytes() > TS_LINES_CHUNK) skip();
    static const unsigned order[] = {1, 7, 27, 63};
    for (unsigned k = 0; k < sizeof order / sizeof *order; k++) {
        open_and_use(FEW);
        for (unsigned i = 0; i < FEW - 4; i++) SUP_CHECK(epoch_destroy(allocator, epochs[i * order[k] % FEW]), "%u", i);
        slab_thread_idle();
        ts_chunk_purge(&ts_churn_pool, 3, UINT32_MAX);
        assert_int_equal(ts_load_relaxed(&ts_churn_pool.count), 3);
        assert_int_equal(resident_blocks(FEW), 4 + 3);
        for (unsigned i = FEW - 4; i < FEW; i++) {
            unsigned left = i * order[k] % FEW;
            assert_true(slab_owns(allocator, objects[left]) && objects[left][99] == 0x5a);
            assert_true(epoch_destroy(allocator, epochs[left]));
        }
        check_everything();
        all_are_refused(FEW);
    }
}

/* Every pointer of all uses of a block stays stale in its next ones: its era goes on. */
static void an_era_goes_on(void **state) {
    enum { USES = 6 };
    static char *old[USES][FEW];
    (void)state;
    for (unsigned use = 0; use < USES; use++) {
        open_and_use(FEW);
        memcpy(old[use], objects, sizeof old[use]);
        for (unsigned before = 0; before < use; before++)
            for (unsigned i = 0; i < FEW; i++) {
                bool again = false; /* the same place has a new object */
                for (unsigned k = 0; k < FEW; k++) again |= old[before][i] == objects[k];
                SUP_CHECK(again || !slab_owns(allocator, old[before][i]), "use %u: object %u lives", use, i);
            }
        destroy(FEW);
        all_are_refused(FEW);
        slab_thread_idle();
        ts_records_purge(true);
        all_are_refused(FEW);
        /* The units of this use are not the next one's. */
        (void)slab_reserve(allocator, FEW * TS_UNIT_BYTES);
    }
    assert_true(ts_os_page_bytes() > TS_LINES_CHUNK || calls > 0);
}

/* A block without memory is used before a new one is made. */
static void used_again(void **state) {
    (void)state;
    open_and_use(FEW);
    destroy(FEW);
    slab_thread_idle();
    ts_records_purge(true);
    uint32_t lines = ts_lines_used();
    open_and_use(FEW);
    assert_int_equal(ts_lines_used(), lines);
    check_everything();
    for (unsigned i = 0; i < FEW; i++) {
        assert_int_equal(check_bin(ts_churn(blocks[i]), ts_classes.of[112 / 16]).live, 1);
        assert_true(slab_free(allocator, objects[i]));
    }
    destroy(FEW);
}

/* A system that refuses: they stay, and it is tried again. */
static void refused(void **state) {
    (void)state;
    if (ts_os_page_bytes() > TS_LINES_CHUNK) skip();
    open_and_use(FEW);
    destroy(FEW);
    slab_thread_idle();
    uint32_t have = ts_load_relaxed(&ts_churn_pool.count);
    assert_in_range(have, FEW, UINT32_MAX);
    refused_from = 1;
    ts_records_purge(true);
    assert_int_equal(calls, 2);
    assert_int_equal(ts_load_relaxed(&ts_churn_pool.count), have - bytes_purged / TS_LINES_CHUNK);
    check_everything();
    refused_from = UINT32_MAX;
    ts_records_purge(true);
    assert_int_equal(ts_load_relaxed(&ts_churn_pool.count), 0);
    assert_int_equal(resident_blocks(FEW), 0);
    check_everything();
}

static size_t large_pages(void) { return (size_t)4 * TS_LINES_CHUNK; }

/* Where several blocks share a page they keep it. */
static void with_large_pages(void **state) {
    (void)state;
    open_and_use(FEW);
    destroy(FEW);
    slab_thread_idle();
    table.page_bytes = large_pages;
    ts_records_purge(true);
    table.page_bytes = ts_os_native.page_bytes;
    assert_int_equal(calls, 0);
    assert_in_range(ts_load_relaxed(&ts_churn_pool.count), FEW, UINT32_MAX);
}

/* All classes: magazines beyond those in the block go to others, those in it with it. */
static void with_all_magazines(void **state) {
    (void)state;
    for (unsigned round = 0; round < 3; round++) {
        open_and_use(FEW);
        for (unsigned i = 0; i < FEW; i++)
            for (unsigned cls = 0; cls < TS_CLASSES; cls++)
                for (unsigned n = 0; n < 2; n++) {
                    void *p = slab_malloc_epoch(allocator, ts_class_bytes[cls], epochs[i]);
                    SUP_CHECK(p && (n == 0 || slab_free(allocator, p)), "class %u", cls);
                }
        check_everything();
        destroy(FEW);
        slab_thread_idle();
        check_everything();
        if (ts_os_page_bytes() <= TS_LINES_CHUNK) assert_in_range(ts_load_relaxed(&ts_magazine_pool.count), FEW, 512);
        ts_records_purge(true);
        if (ts_os_page_bytes() <= TS_LINES_CHUNK) assert_int_equal(ts_load_relaxed(&ts_magazine_pool.count), 0);
        check_everything();
    }
}

/* Blocks above the limit go back as epochs end. */
static void magazines_go_back(void **state) {
    enum { EPOCHS = TS_POOL_MAGAZINE_CHUNKS / 2 * 512 / TS_MAGAZINE_BYTES }; /* twice the limit, of all classes */
    (void)state;
    if (ts_os_page_bytes() > TS_LINES_CHUNK) skip();
    open_and_use(EPOCHS);
    for (unsigned i = 0; i < EPOCHS; i++)
        for (unsigned cls = 0; cls < TS_CLASSES; cls++)
            SUP_CHECK(slab_malloc_epoch(allocator, ts_class_bytes[cls], epochs[i]) != NULL, "class %u", cls);
    destroy(EPOCHS);
    /* Two calls of the system an end, which a few ends later have caught up. */
    assert_in_range(ts_load_relaxed(&ts_magazine_pool.count), 1, TS_POOL_MAGAZINE_CHUNKS * 9 / 8);
    assert_true(bytes_purged >= TS_POOL_MAGAZINE_CHUNKS * TS_LINES_CHUNK);
    check_everything();
    slab_thread_idle();
    assert_in_range(ts_load_relaxed(&ts_magazine_pool.count), 1, TS_POOL_MAGAZINE_CHUNKS);
    (void)slab_trim(allocator);
    assert_int_equal(ts_load_relaxed(&ts_magazine_pool.count), 0);
}

static void use_few(void) { open_and_use(FEW); }

/* Taken by another thread than that which had them. */
static void by_another_thread(void **state) {
    (void)state;
    begin();
    for (unsigned round = 0; round < 3; round++) {
        open_and_use(FEW);
        destroy(FEW);
        slab_thread_idle();
        ts_records_purge(true);
        let(use_few);
        for (unsigned i = 0; i < FEW; i++) assert_true(slab_free(allocator, objects[i]));
        destroy(FEW);
    }
    end();
    ts_records_purge(true);
    check_everything();
}

/* The walk reports a list that does not hold. */
static void a_walk_finds(void **state) {
    (void)state;
    if (ts_os_page_bytes() > TS_LINES_CHUNK) skip();
    ts_check check;
    open_and_use(2);
    destroy(2);
    slab_thread_idle();
    ts_records_purge(true);
    ts_chunk_note *note = ts_chunk_note_of(ts_chunk_of(blocks[0]));
    ts_chunk_note kept = *note;
    note->kept = 0;
    assert_false(ts_check_all(&check, false));
    assert_non_null(strstr(check.why, "era 0"));
    *note = kept;
    note->next = ts_chunk_of(blocks[0]);
    assert_false(ts_check_all(&check, false));
    assert_non_null(strstr(check.why, "twice"));
    *note = kept;
    assert_true(ts_check_all(&check, false));
}

#define WITH(test) cmocka_unit_test_setup_teardown(test, start, stop)

int main(void) {
    const struct CMUnitTest tests[] = {
        WITH(a_call_is_short),
        WITH(memory_goes_back),
        WITH(of_closed_epochs),
        WITH(of_a_thread_that_rests),
        WITH(of_a_thread_that_ends),
        WITH(an_end_pays_for_little),
        WITH(in_any_order),
        WITH(an_era_goes_on),
        WITH(used_again),
        WITH(refused),
        WITH(with_large_pages),
        WITH(with_all_magazines),
        WITH(magazines_go_back),
        WITH(by_another_thread),
        WITH(a_walk_finds),
    };
    return cmocka_run_group_tests_name("ownership.bare", tests, NULL, NULL);
}
