/*
 * The protocol of foreign frees, driven step by step in one thread: ts_foreign_free does not ask whose the object is.
 */
#include "fixture.h"
#include "identities.h"
#include "proc.h"

#include "bins.h"
#include "cache/cache.h"
#include "diagnose/diagnose.h"
#include "epoch/epoch.h"
#include "supply/supply.h"
#include "walk/check_pool.h"

#include <errno.h>
#include <pthread.h>
#include <string.h>

static ts_allocator *record;
static uintptr_t token;

static int start(void **state) {
    SlabOptions options = {.size = sizeof options, .reclaim_policy = SLAB_RECLAIM_KEEP};
    (void)state;
    allocator = slab_allocator_create_ex(&options);
    token = ts_token(allocator);
    record = ts_allocator_find(token);
    return record == NULL;
}

static ts_foreign_result foreign_free(const void *p, uint32_t generation) {
    uint64_t entry, retries = 0;
    uint32_t unit = unit_of(p, &entry);
    ts_foreign_result r = ts_foreign_free(unit, entry, token, generation, &retries);
    assert_int_equal(retries, 0);
    return r;
}

static uint64_t word_of(const void *p) {
    uint64_t entry;
    return ts_load_relaxed(ts_unit_word(unit_of(p, &entry)));
}

static void drain(void) {
    ts_heap_enter(ts_thread.heap);
    ts_foreign_drain(ts_thread.heap);
    ts_heap_leave(ts_thread.heap);
    ts_epoch_run_deferred();
}

static bool pending(const void *p) {
    uint64_t entry;
    uint32_t unit = unit_of(p, &entry);
    return ts_foreign_pending(unit, word_of(p), entry);
}

static uint64_t foreign_frees(void) {
    SlabGlobalStats global;
    assert_true(slab_stats_global(allocator, &global));
    return global.foreign_frees;
}

static const struct {
    size_t size;
    unsigned flags;
} kinds[] = {{16, EPOCH_CHURN},   {48, EPOCH_CHURN},  {64, EPOCH_CHURN}, {112, EPOCH_CHURN},
             {4096, EPOCH_CHURN}, {100, EPOCH_SCOPE}, {0, EPOCH_SCOPE}};
#define KINDS (sizeof kinds / sizeof *kinds)

/* From the bit to the drain the object is nobody's. */
static void one_after_the_other(void **state) {
    (void)state;
    for (unsigned k = 0; k < KINDS; k++) {
        EpochId epoch = epoch_open(allocator, NULL, kinds[k].flags);
        uint64_t before = foreign_frees();
        char *a = slab_malloc_epoch(allocator, kinds[k].size, epoch);
        char *b = slab_malloc_epoch(allocator, kinds[k].size, epoch);
        char *c = slab_malloc_epoch(allocator, kinds[k].size, epoch);
        SlabHandle handle = slab_handle_of(allocator, a);
        assert_int_equal(foreign_free(a, TS_ANY_GENERATION), TS_FOREIGN_FREED);
        uint64_t entry;
        assert_true(word_of(a) & TS_UNIT_FOREIGN);
        assert_int_equal(ts_load_relaxed(&ts_thread.heap->queue), unit_of(a, &entry));
        assert_true(pending(a));
        assert_int_equal(foreign_free(a, TS_ANY_GENERATION), TS_FOREIGN_NOT_LIVE);
        assert_false(slab_owns(allocator, a));
        assert_int_equal(slab_usable_size(allocator, a), 0);
        assert_int_equal(slab_handle_of(allocator, a), SLAB_HANDLE_NONE);
        assert_null(slab_handle_get(allocator, handle));
        assert_null(slab_realloc(allocator, a, 10));
        /* A second one in the same slab is not queued again. */
        assert_int_equal(foreign_free(b, TS_ANY_GENERATION), TS_FOREIGN_FREED);
        assert_int_equal(ts_load_relaxed(&ts_thread.heap->queue), unit_of(a, &entry));
        assert_int_equal(ts_load_relaxed(&ts_slab_at(unit_of(a, &entry))->queue_next), 0);
        assert_true(slab_owns(allocator, c));
        drain();
        assert_int_equal(ts_load_relaxed(&ts_thread.heap->queue), 0);
        assert_false(word_of(c) & TS_UNIT_FOREIGN);
        assert_false(pending(a));
        assert_false(slab_owns(allocator, a));
        assert_false(slab_free(allocator, a));
        assert_false(slab_free(allocator, b));
        assert_true(slab_owns(allocator, c));
        assert_int_equal(foreign_frees() - before, 2);
        sup_check_identities(allocator);
        assert_int_equal(sup_live_objects(allocator), 1);
        assert_true(slab_free(allocator, c));
        if (kinds[k].flags == EPOCH_CHURN) {
            void *next = slab_malloc_epoch(allocator, kinds[k].size, epoch);
            assert_true(next == c); /* the magazine's newest: a foreign free goes past it */
            (void)check_bin(ts_churn(block_of(next)), ts_classes.of[(kinds[k].size + 15) / 16]);
        }
        assert_true(epoch_destroy(allocator, epoch));
    }
}

static void *free_them(void *objects) {
    for (void **p = objects; *p; p++) {
        SUP_CHECK(slab_free(allocator, *p), "slab_free");
    }
    return NULL;
}

/* Foreign frees that this thread has taken in. */
static uint64_t drained(void) {
    uint64_t n = 0;
    for (const ts_share *share = ts_thread.heap->shares; share; share = share->heap_next) {
        for (unsigned k = 0; k < TS_COUNT_KINDS; k++) {
            n += ts_load_relaxed(&share->count[k].foreign_frees);
        }
    }
    return n;
}

/* One allocation or free takes in a bounded part of the frees of others, however many; nothing piles up: the memory
   does not grow. */
static void some_at_a_time(void **state) {
    enum { OBJECTS = 20000, ROUNDS = 5 };
    static void *objects[OBJECTS + 1], *mine[OBJECTS / 100];
    static const size_t sizes[] = {128, 16, 1024};
    (void)state;
    for (unsigned k = 0; k < 3; k++) {
        EpochId epoch = epoch_open(allocator, NULL, EPOCH_CHURN);
        uint64_t most = 0, committed = 0;
        for (int round = 0; round < ROUNDS; round++) {
            for (int i = 0; i < OBJECTS; i++) {
                uint64_t before = i % 16 == 0 ? drained() : 0;
                objects[i] = slab_malloc_epoch(allocator, sizes[k], epoch);
                assert_non_null(objects[i]);
                if (round == 0 && i % 100 == 0) {
                    mine[i / 100] = slab_malloc_epoch(allocator, sizes[k], epoch);
                }
                if (i % 16 == 0) {
                    most = drained() - before > most ? drained() - before : most;
                }
            }
            SlabGlobalStats global;
            assert_true(slab_stats_global(allocator, &global));
            /* A slab more here and there: the drained ones are not the newest first. */
            assert_true(round < 2 || global.committed_bytes <= committed + committed / 16);
            committed = round < 2 ? global.committed_bytes : committed;
            sup_in_thread(free_them, objects);
        }
        assert_true(most > 0 && most <= TS_FOREIGN_WORK + 1024); /* and the last slab's */
        /* A free of the owner's that meets the flag. */
        uint64_t before = drained();
        for (int i = 0; i < OBJECTS / 100; i++) {
            uint64_t last = drained();
            assert_true(slab_free(allocator, mine[i]));
            assert_true(drained() - last <= TS_FOREIGN_WORK + 1024);
        }
        assert_true(drained() > before);
        sup_check_identities(allocator);
        assert_int_equal(sup_live_objects(allocator), 0);
        assert_true(epoch_close(allocator, epoch));
        assert_int_equal(epoch_state(allocator, epoch), EPOCH_CLOSED);
        assert_int_equal(ts_thread.heap->backlog, 0);
    }
}

/* Epochs that others destroy while this thread cannot be held: it ends a few of its blocks an allocation. */
static EpochId doomed[40];
static void *destroy_them(void *unused) {
    for (unsigned i = 0; i < sizeof doomed / sizeof *doomed; i++) {
        SUP_CHECK(epoch_destroy(allocator, doomed[i]), "epoch_destroy");
    }
    return unused;
}

static unsigned condemned_blocks(void) {
    const ts_block *lists[] = {ts_load_acquire(&ts_thread.heap->inbox), ts_thread.heap->ending};
    unsigned n = 0;
    for (int i = 0; i < 2; i++) {
        for (const ts_block *b = lists[i]; b; b = (const ts_block *)(ts_load_relaxed(&b->left) & ~TS_LEFT_MARKS)) {
            n++;
        }
    }
    return n;
}

/* ---- when the owner takes in frees of others ----------------------------------------------------------------- */

static void *live[1 << 15];
static unsigned live_count;

static void allocate(EpochId epoch, size_t size, unsigned n) {
    for (; n > 0; n--) {
        live[live_count] = slab_malloc_epoch(allocator, size, epoch);
        assert_non_null(live[live_count]);
        live_count++;
    }
}

/* The first n of the live, by another thread. */
static void free_first(unsigned n) {
    for (unsigned i = 0; i < n; i++) {
        assert_int_equal(foreign_free(live[i], TS_ANY_GENERATION), TS_FOREIGN_FREED);
    }
    memmove(live, live + n, (live_count - n) * sizeof *live);
    live_count -= n;
}

static uint32_t slabs_of(const void *p) {
    ts_churn_block *block = ts_churn(block_of(p));
    uint64_t entry;
    uint32_t unit = unit_of(p, &entry);
    const ts_bin *bin = ts_line_address(ts_word_line(ts_load_relaxed(ts_unit_word(unit))));
    (void)check_bin(block, ts_bin_class(block, bin));
    return ts_load_relaxed(&bin->slabs);
}

/* The next allocation, of an empty bin: whether it took in frees of others, and its slabs then. */
static void expect_next(EpochId epoch, size_t size, unsigned takes_in, uint32_t slabs) {
    uint64_t before = drained();
    allocate(epoch, size, 1);
    assert_int_equal(drained() - before, takes_in);
    assert_int_equal(slabs_of(live[live_count - 1]), slabs);
}

static void free_all(EpochId epoch) {
    assert_true(epoch_destroy(allocator, epoch));
    live_count = 0;
}

/* A round that brought little puts the next one off for a slab; one that brought enough does not. */
static void little_is_put_off(void **state) {
    enum { SIZE = 128, SLOTS = TS_UNIT_BYTES / SIZE, ENOUGH = TS_FOREIGN_WORTH / SIZE };
    (void)state;
    EpochId epoch = epoch_open(allocator, NULL, EPOCH_CHURN);
    allocate(epoch, SIZE, 3 * SLOTS);
    free_first(10);
    expect_next(epoch, SIZE, 10, 3);
    allocate(epoch, SIZE, 9);
    for (unsigned round = 0; round < 3; round++) {
        free_first(10);
        expect_next(epoch, SIZE, 0, 4 + round);
        allocate(epoch, SIZE, SLOTS - 1);
        expect_next(epoch, SIZE, 10, 4 + round);
        allocate(epoch, SIZE, 9);
    }
    expect_next(epoch, SIZE, 0, 7);
    allocate(epoch, SIZE, SLOTS - 1);
    free_first(ENOUGH);
    expect_next(epoch, SIZE, ENOUGH, 7);
    allocate(epoch, SIZE, ENOUGH - 1);
    for (unsigned round = 0; round < 3; round++) {
        free_first(ENOUGH);
        expect_next(epoch, SIZE, ENOUGH, 7);
        allocate(epoch, SIZE, ENOUGH - 1);
    }
    free_first(ENOUGH - 1);
    expect_next(epoch, SIZE, ENOUGH - 1, 7);
    allocate(epoch, SIZE, ENOUGH - 2);
    free_first(ENOUGH);
    expect_next(epoch, SIZE, 0, 8);
    sup_check_identities(allocator);
    free_all(epoch);
}

/* The objects of a round fill the magazines of every bin first, where few objects of a slab come together, and serve
   the next allocations; the rest goes to the slabs. In objects that are not alone in their slab, and in such as are. */
static void taken_in_for_the_next_allocations(void **state) {
    static const struct {
        size_t size;
        unsigned objects, each, kept;
    } bins[] = {{16, 500, 4, 64}, {16, 500, 2, 0}, {128, 200, 4, 50}, {1000, 90, 1, 64}, {12000, 20, 1, 20}};
    (void)state;
    if (ts_heap_share(ts_heap_mine(), record)->care) { /* the allocator's, or a tool's: no fast path is to find them */
        skip();
    }
    EpochId epoch = epoch_open(allocator, NULL, EPOCH_CHURN);
    for (unsigned i = 0; i < sizeof bins / sizeof *bins; i++) {
        unsigned n = bins[i].objects, first = live_count;
        allocate(epoch, bins[i].size, n);
        ts_bin *bin = ts_line_address(ts_word_line(word_of(live[first])));
        while (ts_load_relaxed(&bin->word) != 0) allocate(epoch, bins[i].size, 1);
        assert_int_equal(ts_bin_depth(bin), 0);
        for (unsigned k = 0; k < n; k += bins[i].each) {
            assert_int_equal(foreign_free(live[first + k], TS_ANY_GENERATION), TS_FOREIGN_FREED);
        }
        drain();
        assert_int_equal(ts_bin_depth(bin), bins[i].kept);
        sup_check_identities(allocator);
        for (unsigned k = 0; k < n; k += bins[i].each) {
            assert_false(slab_owns(allocator, live[first + k]));
        }
        for (unsigned k = 0; k < n / bins[i].each; k++) {
            void *p = slab_malloc_epoch(allocator, bins[i].size, epoch);
            assert_non_null(p);
            bool again = false;
            for (unsigned l = 0; l < n; l += bins[i].each) {
                again |= p == live[first + l];
            }
            assert_true(again || k >= bins[i].kept);
        }
        sup_check_identities(allocator);
    }
    free_all(epoch);
}

/* A round that left something for the next does not put it off. */
static void more_is_not_put_off(void **state) {
    enum { SIZE = 16, SLOTS = TS_UNIT_BYTES / SIZE };
    (void)state;
    EpochId epoch = epoch_open(allocator, NULL, EPOCH_CHURN);
    allocate(epoch, SIZE, 4 * SLOTS);
    free_first(3 * SLOTS - 8); /* so that no slab gets empty */
    uint64_t before = drained();
    allocate(epoch, SIZE, 1);
    unsigned first = (unsigned)(drained() - before);
    assert_true(first >= TS_FOREIGN_WORK && first * SIZE < TS_FOREIGN_WORTH);
    assert_int_not_equal(ts_load_relaxed(&ts_thread.heap->backlog), 0);
    allocate(epoch, SIZE, first);
    assert_true(drained() - before > first);
    assert_true(slabs_of(live[live_count - 1]) <= 4);
    sup_check_identities(allocator);
    free_all(epoch);
}

/* Objects from, to (excluded) of those that live, by another thread. */
static void free_range(unsigned from, unsigned to) {
    for (unsigned i = from; i < to; i++) {
        assert_int_equal(foreign_free(live[i], TS_ANY_GENERATION), TS_FOREIGN_FREED);
    }
}

/* Nor does one that ended with the backlog, without a look at the queue. */
static void a_queue_is_not_put_off(void **state) {
    enum { SIZE = 16, SLOTS = TS_UNIT_BYTES / SIZE, MOST = SLOTS - 8 };
    (void)state;
    EpochId epoch = epoch_open(allocator, NULL, EPOCH_CHURN);
    allocate(epoch, SIZE, 4 * SLOTS);
    free_range(0, MOST);
    free_range(SLOTS, SLOTS + MOST);
    expect_next(epoch, SIZE, MOST, 4);
    assert_int_not_equal(ts_load_relaxed(&ts_thread.heap->backlog), 0);
    allocate(epoch, SIZE, MOST - 1);
    free_range(2 * SLOTS, 2 * SLOTS + MOST);
    expect_next(epoch, SIZE, MOST, 4);
    assert_int_equal(ts_load_relaxed(&ts_thread.heap->backlog), 0);
    assert_int_not_equal(ts_load_relaxed(&ts_thread.heap->queue), 0);
    allocate(epoch, SIZE, MOST - 1);
    expect_next(epoch, SIZE, MOST, 4);
    sup_check_identities(allocator);
    free_all(epoch);
}

/* A bin whose own rounds bring enough, or had none yet, has nothing to do with those of another. */
static void bins_put_off_for_themselves(void **state) {
    enum { SIZE = 128, SLOTS = TS_UNIT_BYTES / SIZE, OTHER = 256, OTHERS = TS_UNIT_BYTES / OTHER };
    (void)state;
    EpochId epoch = epoch_open(allocator, NULL, EPOCH_CHURN);
    allocate(epoch, SIZE, 2 * SLOTS);
    allocate(epoch, OTHER, 2 * OTHERS);
    free_range(0, 10);
    expect_next(epoch, SIZE, 10, 2);
    allocate(epoch, SIZE, 9);
    free_range(2 * SLOTS, 2 * SLOTS + 10);
    expect_next(epoch, OTHER, 10, 2);
    free_range(10, 20);
    expect_next(epoch, SIZE, 0, 3);
    free_all(epoch);
}

/* Near its budget an allocator takes no slab for it. */
static void nothing_is_put_off_near_the_budget(void **state) {
    enum { SIZE = 128, SLOTS = TS_UNIT_BYTES / SIZE };
    (void)state;
    EpochId epoch = epoch_open(allocator, NULL, EPOCH_CHURN);
    allocate(epoch, SIZE, 2 * SLOTS);
    assert_true(slab_set_budget(allocator, sup_committed_bytes(allocator) + 64 * 1024));
    for (unsigned round = 0; round < 3; round++) {
        free_first(10);
        expect_next(epoch, SIZE, 10, 2);
        allocate(epoch, SIZE, 9);
    }
    assert_true(slab_set_budget(allocator, 0));
    free_all(epoch);
}

/* There, and where memory goes back at once, a free by the owner takes in the foreign frees that keep its slab. */
static void frees_put_nothing_off_near_the_budget(void **state) {
    enum { SIZE = 128, SLOTS = TS_UNIT_BYTES / SIZE, SLABS = 6 };
    (void)state;
    EpochId epoch = epoch_open(allocator, NULL, EPOCH_CHURN);
    allocate(epoch, SIZE, SLABS * SLOTS);
    assert_true(slab_set_budget(allocator, sup_committed_bytes(allocator) + 64 * 1024));
    for (unsigned i = 0; i < SLABS; i++) {
        free_range(i * SLOTS + 1, (i + 1) * SLOTS);
        uint64_t before = drained();
        assert_true(slab_free(allocator, live[i * SLOTS]));
        assert_int_equal(drained() - before, SLOTS - 1);
    }
    assert_int_equal(sup_live_objects(allocator), 0);
    assert_true(slab_set_budget(allocator, 0));
    free_all(epoch);
}

/* Frees of the owner's keep pace with those of others, though most put them off. */
static void frees_keep_pace(void **state) {
    enum { SIZE = 1024, SLOTS = TS_UNIT_BYTES / SIZE, SLABS = 500 };
    (void)state;
    EpochId epoch = epoch_open(allocator, NULL, EPOCH_CHURN);
    allocate(epoch, SIZE, SLABS * SLOTS);
    uint64_t before = drained();
    for (unsigned i = 0; i < SLABS; i++) {
        free_range(i * SLOTS + 1, (i + 1) * SLOTS);
    }
    for (unsigned i = 0; i < SLABS; i++) {
        assert_true(slab_free(allocator, live[i * SLOTS]));
    }
    /* From the other end of the queue, seventeen slabs for each free: the slabs that the first frees left are not
       reached. */
    assert_true(drained() - before >= (SLABS - 64) * (SLOTS - 1));
    drain();
    assert_int_equal(sup_live_objects(allocator), 0);
    free_all(epoch);
}

/* The last object of a closed epoch is its end, whichever thread frees it, though its slab lies below many others on
   the queue. */
static void *free_last(void *p) {
    SUP_CHECK(slab_free(allocator, p), "the last object");
    return NULL;
}

static void closed_below_many(void **state) {
    enum { SIZE = 1024, SLOTS = TS_UNIT_BYTES / SIZE, SLABS = 2000, LAST = SLABS * SLOTS };
    (void)state;
    for (unsigned by_owner = 0; by_owner < 2; by_owner++)
        for (unsigned every = 1; every <= SLOTS; every += SLOTS - 1) {
            EpochId open = epoch_open(allocator, NULL, EPOCH_CHURN), closed = epoch_open(allocator, NULL, EPOCH_CHURN);
            allocate(open, SIZE, LAST);
            allocate(closed, SIZE, SLOTS);
            assert_true(epoch_close(allocator, closed));
            free_range(LAST + 1, LAST + SLOTS);
            for (unsigned i = 0; i < SLABS; i++) free_range(i * SLOTS, i * SLOTS + every);
            if (by_owner) {
                (void)free_last(live[LAST]);
            } else {
                sup_in_thread(free_last, live[LAST]);
            }
            assert_int_equal(epoch_state(allocator, closed), EPOCH_CLOSED);
            drain();
            assert_int_equal(sup_live_objects(allocator), SLABS * (SLOTS - every));
            free_all(open);
        }
}

/* More epochs than there is room to note drain in one call: all of them end. */
static void many_end_at_once(void **state) {
    enum { EPOCHS = 50 };
    (void)state;
    EpochId epochs[EPOCHS], found[EPOCHS];
    for (unsigned i = 0; i < EPOCHS; i++) {
        epochs[i] = epoch_open(allocator, NULL, i % 2 ? EPOCH_CHURN : EPOCH_SCOPE);
        live[i] = slab_malloc_epoch(allocator, 100, epochs[i]);
        assert_true(epoch_close(allocator, epochs[i]));
    }
    assert_true(slab_epochs(allocator, found, EPOCHS) >= EPOCHS);
    for (unsigned i = 0; i < EPOCHS; i++) assert_int_equal(foreign_free(live[i], TS_ANY_GENERATION), TS_FOREIGN_FREED);
    uint64_t blocks = 0;
    drain();
    for (const ts_block *b = ts_heap_first_block(ts_thread.heap); b; b = ts_heap_next_block(b)) blocks++;
    assert_int_equal(blocks, 0); /* without that anybody has asked for a state */
    for (unsigned i = 0; i < EPOCHS; i++) assert_int_equal(epoch_state(allocator, epochs[i]), EPOCH_CLOSED);
}

/* Only that slab comes off, at the cost of a step for each of the others. */
static void one_slab_comes_off(void **state) {
    enum { SIZE = 1024, SLOTS = TS_UNIT_BYTES / SIZE, SLABS = 40 };
    (void)state;
    EpochId open = epoch_open(allocator, NULL, EPOCH_CHURN), closed = epoch_open(allocator, NULL, EPOCH_CHURN);
    for (unsigned k = 0; k < 3; k++) { /* on the queue; among the slabs taken off it; on the queue, and others off it */
        allocate(open, SIZE, SLABS * SLOTS);
        allocate(closed, SIZE, 2);
        assert_true(epoch_close(allocator, closed));
        for (unsigned i = 0; i < SLABS; i++) {
            free_range(i * SLOTS, i * SLOTS + 1);
            if (k < 2 && i == SLABS / 2) free_range(SLABS * SLOTS, SLABS * SLOTS + 1);
        }
        uint64_t entry;
        ts_heap *heap = ts_thread.heap;
        ts_heap_enter(heap);
        if (k > 0) ts_foreign_drain_some(heap, 1);
        if (k == 2) {
            ts_heap_leave(heap);
            free_range(SLABS * SLOTS, SLABS * SLOTS + 1);
            ts_heap_enter(heap);
        }
        ts_foreign_drain_closing(heap, unit_of(live[SLABS * SLOTS], &entry));
        ts_heap_leave(heap);
        assert_false(word_of(live[SLABS * SLOTS]) & TS_UNIT_FOREIGN);
        assert_true(slab_owns(allocator, live[SLABS * SLOTS + 1]));
        unsigned left = 0;
        for (unsigned i = 0; i < SLABS; i++) left += pending(live[i * SLOTS]);
        assert_int_equal(left, SLABS - (k > 0));
        drain();
        for (unsigned i = 0; i < SLABS; i++)
            assert_false(pending(live[i * SLOTS]) || slab_owns(allocator, live[i * SLOTS]));
        assert_true(slab_free(allocator, live[SLABS * SLOTS + 1]));
        assert_int_equal(epoch_state(allocator, closed), EPOCH_CLOSED);
        assert_int_equal(sup_live_objects(allocator), SLABS * (SLOTS - 1));
        sup_check_identities(allocator);
        assert_true(epoch_destroy(allocator, open));
        live_count = 0;
        open = epoch_open(allocator, NULL, EPOCH_CHURN);
        closed = epoch_open(allocator, NULL, EPOCH_CHURN);
    }
    assert_true(epoch_destroy(allocator, open) && epoch_destroy(allocator, closed));
}

/* Of a heap without a thread all is taken in: nobody else may come. */
static EpochId ended[2];
static void *make_and_end(void *argument) {
    for (unsigned k = 0; k < 2; k++)
        for (unsigned i = 0; i < 2; i++) live[2 * k + i] = slab_malloc_epoch(allocator, 1024, ended[k]);
    return argument;
}

static void nothing_is_left_with_nobody(void **state) {
    (void)state;
    ended[0] = epoch_open(allocator, NULL, EPOCH_CHURN);
    ended[1] = epoch_open(allocator, NULL, EPOCH_CHURN);
    sup_in_thread(make_and_end, NULL);
    assert_true(epoch_close(allocator, ended[1]));
    ts_heap *heap = ts_load_relaxed(&block_of(live[0])->heap);
    assert_int_equal(ts_load_relaxed(&heap->state), TS_HEAP_ABANDONED);
    free_range(0, 1);
    free_range(2, 3);
    uint64_t entry;
    assert_true(ts_heap_hold(heap));
    ts_foreign_drain_closing(heap, unit_of(live[2], &entry));
    ts_heap_drop(heap);
    for (unsigned k = 0; k < 2; k++) {
        assert_false(word_of(live[2 * k + 1]) & TS_UNIT_FOREIGN);
        assert_true(slab_free(allocator, live[2 * k + 1]));
    }
    assert_int_equal(epoch_state(allocator, ended[1]), EPOCH_CLOSED);
    assert_true(epoch_destroy(allocator, ended[0]));
    sup_check_identities(allocator);
}

static bool refuse_commit(void *at, size_t bytes) {
    (void)at;
    (void)bytes;
    return false;
}

/* Without memory for a slab they are taken in after all. */
static void put_off_without_memory(void **state) {
    enum { SIZE = 128, SLOTS = TS_UNIT_BYTES / SIZE };
    static uint32_t taken[1 << 16];
    unsigned takes = 0;
    (void)state;
    EpochId epoch = epoch_open(allocator, NULL, EPOCH_CHURN);
    allocate(epoch, SIZE, 2 * SLOTS);
    free_first(10);
    expect_next(epoch, SIZE, 10, 2);
    allocate(epoch, SIZE, 9);
    free_first(10);
    ts_os_table table = ts_os_native;
    table.commit = refuse_commit;
    ts_os = &table;
    while (takes < sizeof taken / sizeof *taken && (taken[takes] = ts_pool_take(TS_NORMAL, 1, 1)) != 0) {
        takes++;
    }
    allocate(epoch, SIZE, 10);
    assert_null(slab_malloc_epoch(allocator, SIZE, epoch));
    ts_os = &ts_os_native;
    while (takes > 0) {
        ts_pool_give_unpurged(taken[--takes], 1);
    }
    free_all(epoch);
}

/* The owner's frees in slabs with foreign frees take these in every so many times. */
static void frees_of_the_owner_take_in_seldom(void **state) {
    (void)state;
    for (unsigned k = 0; k < KINDS; k++) {
        if (kinds[k].size == 0) {
            continue;
        }
        EpochId epoch = epoch_open(allocator, NULL, kinds[k].flags);
        allocate(epoch, kinds[k].size, 8 * TS_FOREIGN_FLAGS_MET);
        unsigned rounds = 0;
        while (live_count > 1) {
            void *theirs = live[live_count - 1], *mine = live[live_count - 2];
            uint64_t before = drained();
            assert_int_equal(foreign_free(theirs, TS_ANY_GENERATION), TS_FOREIGN_FREED);
            assert_false(slab_free(allocator, theirs));
            assert_true(slab_free(allocator, mine));
            assert_false(slab_free(allocator, mine));
            rounds += drained() != before;
            live_count -= 2;
        }
        /* three frees that may meet the flag for each two objects */
        assert_true(rounds >= 2 && rounds <= 3 * 4 + 1);
        drain();
        assert_int_equal(sup_live_objects(allocator), 0);
        sup_check_identities(allocator);
        free_all(epoch);
    }
}

static void *trim(void *unused) {
    (void)slab_trim(allocator);
    return unused;
}

static void blocks_end_some_at_a_time(void **state) {
    (void)state;
    EpochId epoch = epoch_open(allocator, NULL, EPOCH_CHURN);
    unsigned all = sizeof doomed / sizeof *doomed;
    for (unsigned i = 0; i < all; i++) {
        doomed[i] = epoch_open(allocator, NULL, EPOCH_CHURN);
        assert_non_null(slab_malloc_epoch(allocator, 100, doomed[i]));
    }
    assert_non_null(slab_malloc_epoch(allocator, 100, epoch));
    assert_int_equal(condemned_blocks(), 0);
    ts_op_begin(&ts_thread);
    sup_in_thread(destroy_them, NULL);
    ts_op_end(&ts_thread);
    assert_int_equal(condemned_blocks(), all);
    assert_int_equal(sup_live_objects(allocator), 1);
    for (unsigned left = all; left > 3 * TS_CONDEMNED_WORK;) {
        assert_non_null(slab_malloc_epoch(allocator, 3000, epoch));
        unsigned now = condemned_blocks();
        assert_true(now < left && left - now <= 2 * TS_CONDEMNED_WORK); /* in the allocation, and at its end */
        left = now;
    }
    /* A visitor takes the slabs that the owner has begun with. */
    assert_non_null(ts_thread.heap->ending);
    sup_in_thread(trim, NULL);
    assert_int_equal(condemned_blocks(), 0);
    sup_check_identities(allocator);
    assert_true(epoch_destroy(allocator, epoch));
}

/* The owner meets the flag in its own free, and refuses the freed object. */
static void owner_frees_too(void **state) {
    (void)state;
    for (unsigned k = 0; k < KINDS; k++) {
        EpochId epoch = epoch_open(allocator, NULL, kinds[k].flags);
        void *a = slab_malloc_epoch(allocator, kinds[k].size, epoch);
        void *b = slab_malloc_epoch(allocator, kinds[k].size, epoch);
        assert_int_equal(foreign_free(a, TS_ANY_GENERATION), TS_FOREIGN_FREED);
        assert_false(slab_free(allocator, a));
        assert_true(slab_free(allocator, b));
        assert_false(slab_free(allocator, b));
        assert_int_equal(sup_live_objects(allocator), 0);
        sup_check_identities(allocator);
        assert_true(epoch_destroy(allocator, epoch));
    }
}

static void what_is_refused(void **state) {
    (void)state;
    for (unsigned k = 0; k < KINDS; k++) {
        EpochId epoch = epoch_open(allocator, NULL, kinds[k].flags);
        char *a = slab_malloc_epoch(allocator, kinds[k].size, epoch);
        ts_object object;
        uint64_t entry, retries = 0;
        uint32_t unit = unit_of(a, &entry);
        assert_true(ts_object_at(token, a, &object));
        assert_int_equal(foreign_free(a, object.generation + 1), TS_FOREIGN_NOT_LIVE);
        assert_int_equal(ts_foreign_free(unit, entry, token + 1, TS_ANY_GENERATION, &retries), TS_FOREIGN_NOT_LIVE);
        assert_int_equal(foreign_free(a + 4096, TS_ANY_GENERATION), TS_FOREIGN_NOT_LIVE); /* not handed out yet */
        assert_false(word_of(a) & TS_UNIT_FOREIGN);
        assert_int_equal(foreign_free(a, object.generation), TS_FOREIGN_FREED);
        drain();
        assert_int_equal(foreign_free(a, TS_ANY_GENERATION), TS_FOREIGN_NOT_LIVE);
        void *span = slab_malloc_epoch(allocator, 100000, epoch);
        assert_int_equal(foreign_free(span, TS_ANY_GENERATION), TS_FOREIGN_NOT_LIVE);
        assert_true(epoch_destroy(allocator, epoch));
        assert_int_equal(foreign_free(a, TS_ANY_GENERATION), TS_FOREIGN_NOT_LIVE);
    }
}

/* A free that read everything, was stopped before its two compare-and-swaps, and goes on after the slab was destroyed,
   reset and filled again. */
static void late_by_a_whole_life(void **state) {
    (void)state;
    for (unsigned k = 0; k < KINDS; k++) {
        EpochId epoch = epoch_open(allocator, NULL, kinds[k].flags);
        char *a = slab_malloc_epoch(allocator, kinds[k].size, epoch);
        uint64_t entry, bit;
        uint32_t unit = unit_of(a, &entry);
        uint64_t u = word_of(a), tag = ts_load_relaxed(&ts_slab_at(unit)->tag);
        _Atomic uint64_t *foreign = ts_slab_foreign_word(u, entry, &bit);
        uint64_t x = ts_load_acquire(foreign), x_before = x;
        assert_true(epoch_destroy(allocator, epoch));
        epoch = epoch_open(allocator, NULL, kinds[k].flags);
        void *b = slab_malloc_epoch(allocator, kinds[k].size, epoch);
        assert_true(b == a); /* the slab is retained, and used again */
        /* Steps 5 and 6. */
        (void)ts_cas_seq(foreign, &x, tag << TS_FOREIGN_TAG_SHIFT | (uint32_t)x_before | bit);
        uint64_t expected = u;
        assert_false(ts_cas_seq(ts_unit_word(unit), &expected, u | TS_UNIT_FOREIGN));
        assert_false(pending(b));
        assert_true(slab_owns(allocator, b));
        drain();
        assert_true(slab_owns(allocator, b));
        /* A free of this life is not mixed up with it, and takes nothing else along. */
        void *c = slab_malloc_epoch(allocator, kinds[k].size, epoch);
        assert_int_equal(foreign_free(c, TS_ANY_GENERATION), TS_FOREIGN_FREED);
        assert_true(slab_owns(allocator, b));
        drain();
        assert_true(slab_owns(allocator, b));
        assert_false(slab_owns(allocator, c));
        assert_int_equal(sup_live_objects(allocator), 1);
        assert_true(slab_free(allocator, b));
        assert_false(slab_free(allocator, b));
        sup_check_identities(allocator);
        assert_true(epoch_destroy(allocator, epoch));
    }
}

/* A free that set its bit, was stopped before it queued the slab, and goes on when the slab is in the same bin of
   the same block: a queued slab without bits. */
static void queued_without_bits(void **state) {
    (void)state;
    for (unsigned k = 0; k < KINDS; k++) {
        EpochId epoch = epoch_open(allocator, NULL, kinds[k].flags);
        void *a = slab_malloc_epoch(allocator, kinds[k].size, epoch);
        void *b = slab_malloc_epoch(allocator, kinds[k].size, epoch);
        uint64_t entry;
        uint32_t unit = unit_of(a, &entry);
        ts_store_seq(ts_unit_word(unit), word_of(a) | TS_UNIT_FOREIGN);
        ts_store_relaxed(&ts_slab_at(unit)->queue_next, 0);
        ts_store_seq(&ts_thread.heap->queue, unit);
        drain();
        assert_false(word_of(a) & TS_UNIT_FOREIGN);
        assert_true(slab_owns(allocator, a) && slab_owns(allocator, b));
        assert_true(slab_free(allocator, a) && slab_free(allocator, b));
        sup_check_identities(allocator);
        assert_true(epoch_destroy(allocator, epoch));
    }
}

/* The end of an epoch's only block without the drain that comes before it. */
static void end_without_drain(EpochId id, ts_block *block) {
    ts_epoch *epoch = ts_epoch_find(record, id);
    ts_lock_acquire(ts_epoch_lock(epoch));
    assert_true(epoch->blocks == block && !block->epoch_next);
    epoch->blocks = NULL;
    ts_lock_release(ts_epoch_lock(epoch));
    ts_heap_enter(ts_thread.heap);
    ts_block_end(ts_thread.heap, block);
    ts_heap_leave(ts_thread.heap);
}

/* A block ends while a slab of it is on the queue: the slab is a zombie until it comes off. */
static void zombie(void **state) {
    (void)state;
    for (unsigned k = 0; k < KINDS; k++) {
        (void)slab_trim(allocator);
        EpochId id = epoch_open(allocator, NULL, kinds[k].flags), other = epoch_open(allocator, NULL, kinds[k].flags);
        void *a = slab_malloc_epoch(allocator, kinds[k].size, id);
        uint64_t entry;
        uint32_t unit = unit_of(a, &entry);
        assert_int_equal(foreign_free(a, TS_ANY_GENERATION), TS_FOREIGN_FREED);
        end_without_drain(id, block_of(a));
        assert_int_equal(foreign_free(a, TS_ANY_GENERATION), TS_FOREIGN_NOT_LIVE);
        uint64_t pins = ts_load_relaxed(&record->pins);
        uint64_t used = ts_pool_used_units();
        /* The only retained unit cannot be had. */
        ts_share *share = ts_heap_share(ts_thread.heap, record);
        assert_int_equal(share->retained.head, unit);
        bool fresh;
        uint32_t got = ts_unit_acquire(ts_thread.heap, share, TS_HOME_ANY, &fresh);
        assert_true(got != 0 && got != unit && fresh);
        assert_int_equal(ts_load_relaxed(&record->pins), pins + 1);
        assert_int_equal(ts_load_relaxed(ts_unit_word(unit)) & (TS_UNIT_FOREIGN | TS_UNIT_ZOMBIE),
                         TS_UNIT_FOREIGN | TS_UNIT_ZOMBIE);
        assert_false(slab_owns(allocator, a) || slab_free(allocator, a));
        assert_int_equal(ts_pool_used_units(), used + 1);
        drain();
        assert_int_equal(ts_load_relaxed(ts_unit_word(unit)), 0);
        assert_int_equal(ts_load_relaxed(&record->pins), pins);
        assert_int_equal(record->retained.head, unit); /* retained again, for any thread */
        assert_int_equal(ts_pool_used_units(), used + 1);
        ts_heap_enter(ts_thread.heap);
        ts_share_keep(share, got);
        ts_heap_leave(ts_thread.heap);
        void *b = slab_malloc_epoch(allocator, kinds[k].size, other);
        assert_true(slab_owns(allocator, b));
        assert_true(epoch_destroy(allocator, id) && epoch_destroy(allocator, other));
        sup_check_identities(allocator);
        sup_check_empty(allocator);
    }
}

/* A trim meets the zombie-to-be as well. */
static void zombie_of_a_trim(void **state) {
    (void)state;
    EpochId id = epoch_open(allocator, NULL, EPOCH_CHURN);
    void *a = slab_malloc_epoch(allocator, 100, id);
    uint64_t entry;
    uint32_t unit = unit_of(a, &entry);
    ts_block *block = block_of(a);
    ts_epoch *epoch = ts_epoch_find(record, id);
    assert_int_equal(foreign_free(a, TS_ANY_GENERATION), TS_FOREIGN_FREED);
    epoch->blocks = NULL;
    ts_heap_enter(ts_thread.heap);
    ts_block_end(ts_thread.heap, block);
    uint64_t queue = ts_exchange_seq(&ts_thread.heap->queue, 0); /* on no queue yet: its freeing thread sleeps */
    ts_heap_leave(ts_thread.heap);
    assert_int_equal(queue, unit);
    (void)slab_trim(allocator);
    assert_true(ts_load_relaxed(ts_unit_word(unit)) & TS_UNIT_ZOMBIE);
    assert_int_equal(sup_committed_bytes(allocator), TS_UNIT_BYTES);
    ts_store_seq(&ts_thread.heap->queue, queue);
    drain();
    assert_int_equal(sup_committed_bytes(allocator), TS_UNIT_BYTES); /* retained */
    (void)slab_trim(allocator);
    assert_int_equal(sup_committed_bytes(allocator), 0);
    assert_true(epoch_destroy(allocator, id));
    sup_check_identities(allocator);
}

/* All that is retained is on the queue of a thread that drains nothing: another one goes through it round by round,
   then takes fresh memory. Within a budget that has no more it drains that queue. */
static void *take_one(void *argument) {
    EpochId *epoch = argument;
    void *p = slab_malloc_epoch(allocator, 4096, *epoch);
    return p;
}

static void nothing_but_zombies(void **state) {
    enum { UNITS = 200 };
    static void *all[4 * UNITS];
    (void)state;
    for (unsigned budget = 0; budget <= 1; budget++) {
        EpochId id = epoch_open(allocator, NULL, EPOCH_SCOPE), others = epoch_open(allocator, NULL, EPOCH_CHURN);
        for (unsigned i = 0; i < 4 * UNITS; i++) assert_non_null(all[i] = slab_malloc_epoch(allocator, 4096, id));
        for (unsigned i = 0; i < 4 * UNITS; i += 4)
            assert_int_equal(foreign_free(all[i], TS_ANY_GENERATION), TS_FOREIGN_FREED);
        assert_true(slab_set_budget(allocator, budget * UNITS * (size_t)TS_UNIT_BYTES));
        end_without_drain(id, block_of(all[0]));
        assert_int_equal(record->retained.count, UNITS);
        uint64_t pins = ts_load_relaxed(&record->pins);
        void *p;
        pthread_t thread;
        assert_int_equal(pthread_create(&thread, NULL, take_one, &others), 0);
        assert_int_equal(pthread_join(thread, &p), 0);
        assert_non_null(p);
        assert_true(ts_load_relaxed(&record->committed_units) <= UNITS + (budget ? 0 : 1));
        if (!budget) {
            assert_int_equal(record->retained.count, 0);
            assert_int_equal(ts_load_relaxed(&record->pins), pins + UNITS + 1); /* one is that thread's share */
            assert_int_equal(sup_committed_bytes(allocator), (UNITS + 1) * (size_t)TS_UNIT_BYTES);
        }
        drain();
        assert_true(budget || record->retained.count == UNITS);
        sup_check_identities(allocator);
        assert_true(slab_set_budget(allocator, 0));
        assert_true(epoch_destroy(allocator, id) && epoch_destroy(allocator, others));
        (void)slab_trim(allocator);
        sup_check_empty(allocator);
    }
}

/* ---- threads ---------------------------------------------------------------------------------------------- */

enum { MANY = 3000 };
static void *objects[MANY];
static EpochId shared;

static void *make_objects(void *argument) {
    for (int i = 0; i < MANY; i++) {
        objects[i] = slab_malloc_epoch(allocator, 40 + (size_t)i % 100, shared);
    }
    return argument;
}

static void *free_odd(void *argument) {
    for (int i = 1; i < MANY; i += 2) {
        SUP_CHECK(slab_free(allocator, objects[i]), "object %d", i);
        SUP_CHECK(!slab_free(allocator, objects[i]), "object %d again", i);
    }
    return argument;
}

/* Nobody is left to drain the queue: each free is done at once, and counts as one by another thread. */
static void owner_has_ended(void **state) {
    (void)state;
    for (unsigned flags = EPOCH_CHURN; flags <= EPOCH_SCOPE; flags++) {
        uint64_t before = foreign_frees();
        shared = epoch_open(allocator, NULL, flags);
        sup_in_thread(make_objects, NULL);
        ts_heap *heap = ts_load_relaxed(&block_of(objects[0])->heap);
        assert_int_equal(ts_load_relaxed(&heap->state), TS_HEAP_ABANDONED);
        for (int i = 0; i < MANY; i++) {
            assert_true(slab_free(allocator, objects[i]));
            assert_false(slab_free(allocator, objects[i]));
            assert_int_equal(ts_load_relaxed(&heap->queue), 0);
        }
        assert_int_equal(foreign_frees() - before, MANY);
        assert_int_equal(sup_live_objects(allocator), 0);
        sup_check_identities(allocator);
        assert_true(epoch_close(allocator, shared));
        assert_int_equal(epoch_state(allocator, shared), EPOCH_CLOSED);
    }
}

/* A thread that never allocated frees too: it needs no heap. */
static void freed_by_a_thread_without_a_heap(void **state) {
    (void)state;
    for (unsigned flags = EPOCH_CHURN; flags <= EPOCH_SCOPE; flags++) {
        shared = epoch_open(allocator, NULL, flags);
        (void)make_objects(NULL);
        uint64_t before = foreign_frees();
        sup_in_thread(free_odd, NULL);
        assert_true(ts_load_relaxed(&ts_thread.heap->queue) != 0);
        drain();
        assert_int_equal(foreign_frees() - before, MANY / 2);
        assert_int_equal(sup_live_objects(allocator), MANY / 2);
        sup_check_identities(allocator);
        for (int i = 0; i < MANY; i += 2) {
            assert_true(slab_free(allocator, objects[i]));
        }
        assert_true(epoch_close(allocator, shared));
        assert_int_equal(epoch_state(allocator, shared), EPOCH_CLOSED);
    }
}

/* A thread that has passed slabs on to its own heap and to others works off all of them. */
static void own_queue_among_others(void **state) {
    (void)state;
    shared = epoch_open(allocator, NULL, EPOCH_CHURN);
    (void)make_objects(NULL);
    sup_in_thread(free_odd, NULL);
    assert_true(ts_load_relaxed(&ts_thread.heap->queue) != 0);
    ts_thread.drain = ts_thread.heap;
    ts_thread.drain_others = true;
    ts_run_deferred(0);
    assert_int_equal(ts_load_relaxed(&ts_thread.heap->queue), 0);
    assert_int_equal(sup_live_objects(allocator), MANY / 2);
    assert_true(epoch_destroy(allocator, shared));
}

/* A thread with a heap frees objects in an open block of this one: refused in as few steps as it is freed. */
static char *victim, *stale;
static SlabAllocator *another;

static void *refused_elsewhere(void *argument) {
    uint64_t entry;
    void *own = slab_malloc_epoch(allocator, 100, shared);
    SUP_CHECK(own && slab_free(allocator, own), "an object of its own");
    SUP_CHECK(!slab_free(another, victim), "by another allocator");
    for (int i = 16; i < 256; i += 16) {
        SUP_CHECK(!slab_free(allocator, victim + i), "inside of the object, at %d", i);
        SUP_CHECK(!slab_free(allocator, victim - i), "before the object, at %d", i);
    }
    SUP_CHECK(!slab_free(allocator, stale), "of a destroyed epoch");
    SUP_CHECK((ts_load_seq(ts_unit_word(unit_of(victim, &entry))) & TS_UNIT_FOREIGN) == 0, "something was queued");
    SUP_CHECK(slab_free(allocator, victim), "the object");
    SUP_CHECK(!slab_free(allocator, victim), "twice");
    return argument;
}

static void refused_by_another_thread(void **state) {
    (void)state;
    another = slab_allocator_create();
    /* The block of the destroyed epoch is used again, and its slab is not. */
    shared = epoch_open(allocator, NULL, EPOCH_CHURN);
    stale = slab_malloc_epoch(allocator, 1000, shared);
    for (int i = 0; i < 200; i++) {
        assert_non_null(slab_malloc_epoch(allocator, 1000, shared));
    }
    ts_block *block = block_of(stale);
    assert_true(epoch_destroy(allocator, shared));
    shared = epoch_open(allocator, NULL, EPOCH_CHURN);
    void *before = slab_malloc_epoch(allocator, 256, shared);
    victim = slab_malloc_epoch(allocator, 256, shared);
    void *after = slab_malloc_epoch(allocator, 256, shared);
    assert_ptr_equal(block_of(victim), block);
    assert_ptr_equal(block_of(stale), block);
    assert_true(ts_load_relaxed(live_of(stale)) & live_bit(stale));
    assert_true(slab_free(allocator, before) && slab_free(allocator, after));
    sup_in_thread(refused_elsewhere, NULL);
    drain();
    assert_int_equal(sup_live_objects(allocator), 0);
    assert_true(epoch_destroy(allocator, shared));
    slab_allocator_free(another);
}

/* The owner's free is done when it returns, also when its fast paths were for another allocator. */
static void owner_with_two_allocators(void **state) {
    (void)state;
    another = slab_allocator_create();
    shared = epoch_open(allocator, NULL, EPOCH_CHURN);
    EpochId elsewhere = epoch_open(another, NULL, EPOCH_CHURN);
    void *a = slab_malloc_epoch(allocator, 100, shared);
    void *b = slab_malloc_epoch(another, 100, elsewhere);
    uint64_t before = foreign_frees();
    assert_true(slab_free(allocator, a));
    assert_int_equal(sup_live_objects(allocator), 0);
    assert_true(slab_free(another, b));
    assert_int_equal(sup_live_objects(another), 0);
    assert_int_equal(foreign_frees(), before);
    assert_int_equal(ts_load_relaxed(&ts_thread.heap->queue), 0);
    assert_true(epoch_destroy(allocator, shared));
    slab_allocator_free(another);
}

#define WITH_ALLOCATOR(test) cmocka_unit_test_setup_teardown(test, start, stop)

int main(void) {
    const struct CMUnitTest tests[] = {
        WITH_ALLOCATOR(one_after_the_other),
        WITH_ALLOCATOR(owner_frees_too),
        WITH_ALLOCATOR(what_is_refused),
        WITH_ALLOCATOR(late_by_a_whole_life),
        WITH_ALLOCATOR(queued_without_bits),
        WITH_ALLOCATOR(zombie),
        WITH_ALLOCATOR(zombie_of_a_trim),
        WITH_ALLOCATOR(nothing_but_zombies),
        WITH_ALLOCATOR(owner_has_ended),
        WITH_ALLOCATOR(freed_by_a_thread_without_a_heap),
        WITH_ALLOCATOR(own_queue_among_others),
        WITH_ALLOCATOR(refused_by_another_thread),
        WITH_ALLOCATOR(owner_with_two_allocators),
        WITH_ALLOCATOR(some_at_a_time),
        WITH_ALLOCATOR(blocks_end_some_at_a_time),
        WITH_ALLOCATOR(little_is_put_off),
        WITH_ALLOCATOR(taken_in_for_the_next_allocations),
        WITH_ALLOCATOR(more_is_not_put_off),
        WITH_ALLOCATOR(nothing_is_put_off_near_the_budget),
        WITH_ALLOCATOR(a_queue_is_not_put_off),
        WITH_ALLOCATOR(bins_put_off_for_themselves),
        WITH_ALLOCATOR(frees_put_nothing_off_near_the_budget),
        WITH_ALLOCATOR(frees_keep_pace),
        WITH_ALLOCATOR(closed_below_many),
        WITH_ALLOCATOR(many_end_at_once),
        WITH_ALLOCATOR(one_slab_comes_off),
        WITH_ALLOCATOR(nothing_is_left_with_nobody),
        WITH_ALLOCATOR(put_off_without_memory),
        WITH_ALLOCATOR(frees_of_the_owner_take_in_seldom),
    };
    return cmocka_run_group_tests_name("cache.foreign", tests, NULL, NULL);
}
