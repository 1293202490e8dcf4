/* A watch of an object is of no later one in the same slot: names of places, and generations where a slab has them. */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include "check.h"
#include "proc.h"
#include "unit.h"

#include "api/runtime.h"
#include "cache/allocate.h"
#include "cache/cache.h"
#include "diagnose/diagnose.h"
#include "epoch/epoch.h"
#include "memtools/memtools.h"
#include "object/object.h"
#include "object/refill.h"
#include "os/os.h"

#define SUP_OWN_STEP
#include "steps.h"

#undef ts_store_relaxed
#define ts_store_relaxed(p, v) (step(), atomic_store_explicit((p), (v), memory_order_relaxed))
#define ts_object_watch stepped_object_watch
#define ts_object_watched stepped_object_watched
#define ts_name_give stepped_name_give
#define ts_name_take stepped_name_take
#define ts_name_take_top stepped_name_take_top
#define ts_name_take_word stepped_name_take_word
#define ts_name_settle stepped_name_settle
bool ts_object_watch(uintptr_t token, const void *p, ts_watch *out, size_t *bytes);
bool ts_object_watched(uintptr_t token, const void *p, const ts_watch *watch, size_t *bytes);
bool ts_name_give(ts_heap *heap, uintptr_t token, const void *p, uint32_t number, ts_watch *watch);
void ts_name_take(uint64_t entry);
void ts_name_take_top(const ts_bin *bin);
void ts_name_take_word(const ts_bin *bin);
void ts_name_settle(ts_heap *heap, const void *p);
static void between_looks(void);
#define ts_region_commit_generations(unit) (between_looks(), (ts_region_commit_generations)(unit))
#include "diagnose/named.c"
#undef ts_region_commit_generations
#define ts_note_allocated stepped_note_allocated
#define ts_refill_churn stepped_refill_churn
#define ts_refill_scope stepped_refill_scope
void ts_note_allocated(const ts_allocator *allocator, void *p, uint32_t kind, ts_taken *t);
void *ts_refill_churn(ts_heap *heap, ts_churn_block *block, unsigned cls, EpochId id, ts_taken *t);
void *ts_refill_scope(ts_heap *heap, ts_scope_block *block, size_t bytes, size_t align, EpochId id, ts_taken *t);
#include "object/refill.c"
#undef ts_object_watch
#undef ts_object_watched

static SlabAllocator *allocator;
static EpochId epoch;

/* An object that died before the steps began: no step may find it. */
static struct {
    const void *object;
    ts_watch watch;
    bool armed, looks;
    unsigned steps;
} dead;

static void step(void) {
    size_t bytes;
    if (!dead.armed || dead.looks) return;
    dead.looks = true; /* the look itself has steps */
    dead.steps++;
    SUP_CHECK(!ts_object_watched(ts_token(allocator), dead.object, &dead.watch, &bytes), "step %u finds it",
              dead.steps);
    dead.looks = false;
}

static int begin(void **state) {
    (void)state;
    allocator = slab_allocator_create_ex(
        &(SlabOptions){.size = sizeof(SlabOptions), .sample_stacks = 1, .memory_tools = SLAB_TOOLS_OFF});
    assert_non_null(allocator);
    epoch = epoch_open(allocator, NULL, EPOCH_CHURN);
    return 0;
}
static int end(void **state) {
    (void)state;
    slab_allocator_free(allocator);
    return 0;
}

/* Without a sample of it, where all others are sampled: by the slow path, or by the one that counts. */
static bool by_slow_path;
static void *make(size_t size) {
    assert_non_null(ts_heap_mine());
    ts_share *share = ts_share_of_mine(ts_token(allocator));
    if (share && !by_slow_path) share->stack_left = 1 << 30;
    ts_thread.heap->stack_busy = true;
    void *p = slab_malloc_epoch(allocator, size, epoch);
    ts_thread.heap->stack_busy = false;
    if (share && !by_slow_path) share->stack_left = 1;
    assert_non_null(p);
    return p;
}
static void *sampled(size_t size) {
    void *p = slab_malloc_epoch(allocator, size, epoch);
    assert_non_null(p);
    return p;
}
static void drop(void *p) { assert_true(slab_free(allocator, p)); }

static uint64_t samples(void) {
    static SlabStackSample rows[1024];
    uint64_t sum = 0;
    size_t n = slab_stacks(allocator, EPOCH_NONE, rows, 1024);
    for (size_t i = 0; i < n && i < 1024; i++) sum += rows[i].samples;
    return sum;
}

static uint64_t word_of(const void *p) {
    uint32_t unit;
    uint64_t entry;
    assert_true(ts_locate(p, &unit, &entry));
    return ts_load_relaxed(ts_unit_word(unit));
}
static uint16_t name_of(const void *p) {
    return ts_load_relaxed(ts_name_word(ts_entry_of(&ts_region.part[TS_NORMAL], p)));
}

static const size_t SIZES[] = {16, 32, 48, 64, 100, 1000, 5000, 8192, 14000, 16384, 65536};
enum { SIZE_COUNT = sizeof SIZES / sizeof *SIZES, MANY = 200 };

/* ---- the slot has another object --------------------------------------------------------------------------------- */

static void from_the_magazine(void **state) {
    (void)state;
    for (unsigned i = 0; i < 2 * SIZE_COUNT; i++) {
        size_t size = SIZES[i / 2];
        by_slow_path = i % 2;
        void *p = sampled(size);
        assert_int_equal(samples(), 1);
        assert_int_not_equal(name_of(p), 0);
        drop(p);
        assert_ptr_equal(make(size), p);
        assert_int_equal(samples(), 0);
        drop(p);
        assert_ptr_equal(sampled(size), p);
        assert_int_equal(samples(), 1);
        drop(p);
    }
}

static void from_the_bitmap(void **state) {
    static void *p[MANY];
    (void)state;
    for (unsigned i = 0; i < 2 * SIZE_COUNT; i++) {
        size_t size = SIZES[i / 2];
        by_slow_path = i % 2;
        for (unsigned k = 0; k < MANY; k++) p[k] = sampled(size);
        assert_int_equal(samples(), MANY);
        for (unsigned k = 1; k < MANY; k += 2) drop(p[k]); /* so each slab of several objects stays */
        slab_thread_idle();
        assert_int_equal(samples(), MANY / 2);
        for (unsigned k = 1; k < MANY; k += 2) p[k] = make(size);
        assert_int_equal(samples(), MANY / 2);
        for (unsigned k = 0; k < MANY; k++) drop(p[k]);
        assert_int_equal(samples(), 0);
    }
}

static void *free_half(void *objects) {
    void **p = objects;
    for (unsigned k = 1; k < MANY; k += 2) SUP_CHECK(slab_free(allocator, p[k]), "slab_free");
    return NULL;
}

static void freed_by_another_thread(void **state) {
    static void *p[MANY];
    (void)state;
    for (unsigned i = 0; i < SIZE_COUNT; i++) {
        for (unsigned k = 0; k < MANY; k++) p[k] = sampled(SIZES[i]);
        sup_in_thread(free_half, p);
        assert_int_equal(samples(), MANY / 2);
        for (unsigned k = 1; k < MANY; k += 2) p[k] = make(SIZES[i]);
        assert_int_equal(samples(), MANY / 2);
        for (unsigned k = 0; k < MANY; k++) drop(p[k]);
        assert_int_equal(samples(), 0);
    }
}

/* Four objects in 64 bytes: each has a sample of its own. */
static void neighbours(void **state) {
    void *p[64];
    (void)state;
    for (unsigned i = 0; i < 64; i++) p[i] = sampled(16);
    assert_int_equal(samples(), 64);
    assert_true(word_of(p[0]) & TS_UNIT_HANDLED);
    for (unsigned i = 0; i < 64; i++) {
        drop(p[i]);
        assert_ptr_equal(make(16), p[i]);
        assert_int_equal(samples(), 64 - i - 1);
    }
    for (unsigned i = 0; i < 64; i++) drop(p[i]);
}

/* The sample of the second of two neighbours makes the slab HANDLED, before the object gets its handle. */
static void neighbours_with_handles(void **state) {
    SlabHandle handle;
    (void)state;
    for (unsigned i = 0; i < 8; i++) {
        void *p = sampled(16);
        assert_false(word_of(p) & TS_UNIT_HANDLED);
        void *q = alloc_obj_epoch(allocator, 16, epoch, &handle);
        assert_non_null(q);
        assert_true((uintptr_t)q / 64 == (uintptr_t)p / 64 && (word_of(q) & TS_UNIT_HANDLED));
        assert_ptr_equal(slab_handle_get(allocator, handle), q);
        assert_int_equal(samples(), 2);
        assert_true(free_obj(allocator, handle));
        assert_int_equal(samples(), 1);
        assert_true(epoch_destroy(allocator, epoch));
        epoch = epoch_open(allocator, NULL, EPOCH_CHURN);
    }
}

/* ---- sampling ends ----------------------------------------------------------------------------------------------- */

static void hits_again(void **state) {
    static void *p[MANY];
    (void)state;
    for (unsigned i = 0; i < SIZE_COUNT; i++) {
        for (unsigned k = 0; k < MANY; k++) p[k] = sampled(SIZES[i]);
        for (unsigned k = 1; k < MANY; k += 2) drop(p[k]);
        assert_true(slab_set_sample_stacks(allocator, 0));
        assert_int_equal(samples(), MANY / 2); /* those that were taken stay */
        for (unsigned k = 1; k < MANY; k += 2) assert_non_null(p[k] = sampled(SIZES[i]));
        assert_int_equal(samples(), MANY / 2);
        for (unsigned k = 0; k < MANY; k += 2) {
            drop(p[k]);
            p[k] = sampled(SIZES[i]);
        }
        assert_int_equal(samples(), 0);
        for (unsigned k = 0; k < MANY; k++) drop(p[k]);
        assert_true(slab_set_sample_stacks(allocator, 1));
    }
}

/* A word that hits have claimed meanwhile has places of dead samples. */
static void claimed_meanwhile(void **state) {
    void *p[128], *q[128];
    (void)state;
    for (unsigned i = 0; i < 128; i++) p[i] = sampled(64);
    for (unsigned i = 1; i < 128; i++) drop(p[i]); /* the first keeps its slab */
    slab_thread_idle();
    assert_true(slab_set_sample_stacks(allocator, 0));
    drop(p[0]);
    assert_ptr_equal(q[0] = sampled(64), p[0]);
    q[1] = sampled(64); /* claims */
    assert_int_equal(samples(), 0);
    assert_true(slab_set_sample_stacks(allocator, 1));
    for (unsigned i = 2; i < 128; i++) {
        q[i] = make(64);
        assert_int_equal(samples(), 0);
    }
    for (unsigned i = 0; i < 128; i++) drop(q[i]);
}

/* Only slabs with a live sample pay for it. */
static void few_are_handled(void **state) {
    void *p[32];
    (void)state;
    for (unsigned i = 0; i < 32; i++) p[i] = i == 0 ? sampled(4096) : make(4096);
    assert_false(word_of(p[0]) & TS_UNIT_HANDLED);
    assert_true(slab_set_sample_stacks(allocator, 0));
    assert_int_equal(samples(), 1);
    assert_true(word_of(p[0]) & TS_UNIT_HANDLED);
    assert_false(word_of(p[31]) & TS_UNIT_HANDLED);
}

static ts_os_table table;
static bool no_commit(void *at, size_t bytes) { return (void)at, (void)bytes, false; }

/* Without memory for generations the samples are lost, and none is wrong. Runs before any slab was HANDLED. */
static void no_memory(void **state) {
    (void)state;
    void *p = sampled(100);
    table = ts_os_native;
    table.commit = no_commit;
    ts_os = &table;
    assert_true(slab_set_sample_stacks(allocator, 0));
    ts_os = &ts_os_native;
    assert_int_equal(samples(), 0);
    drop(p);
    for (unsigned i = 0; i < MANY; i++) (void)sampled(100);
    assert_true(slab_owns(allocator, p));
    assert_int_equal(samples(), 0);
}

/* ---- a thread takes the block over ------------------------------------------------------------------------------- */

static void *makes(void *objects) {
    void **p = objects;
    for (unsigned k = 0; k < MANY; k++) p[k] = slab_malloc_epoch(allocator, 100, epoch);
    return NULL;
}

static void taken_over(void **state) {
    static void *p[MANY];
    (void)state;
    sup_in_thread(makes, p);
    assert_true(slab_set_sample_stacks(allocator, 0)); /* the thread that has ended does not follow */
    assert_int_equal(samples(), MANY);
    for (unsigned k = 1; k < MANY; k += 2) drop(p[k]);
    for (unsigned k = 1; k < MANY; k += 2) {
        p[k] = sampled(100);
        assert_int_equal(samples(), MANY / 2);
    }
    const ts_block *block = ts_block_of_word(word_of(p[0]));
    assert_ptr_equal(ts_load_relaxed(&block->heap), ts_thread.heap);
    assert_int_equal(block->slow, 0);
    for (unsigned k = 0; k < MANY; k += 2) {
        drop(p[k]);
        p[k] = sampled(100);
    }
    assert_int_equal(samples(), 0);
}

/* ---- between the steps ------------------------------------------------------------------------------------------- */

static void arm(const void *object) {
    size_t bytes;
    assert_true(ts_object_watch(ts_token(allocator), object, &dead.watch, &bytes));
    assert_int_not_equal(dead.watch.name, 0);
    dead.object = object;
    dead.steps = 0;
}

/* The slow path makes no object live at a place that has a name. */
static void at_each_step(void **state) {
    (void)state;
    for (unsigned fine = 0; fine < 2; fine++) {
        for (unsigned from_bitmap = 0; from_bitmap < 2; from_bitmap++) {
            size_t size = fine ? 48 : 100;
            void *kept = make(size), *p = sampled(size);
            ts_taken t = {.size = size};
            ts_churn_block *block = ts_thread.heap->map[(uint32_t)epoch % TS_HEAP_MAP];
            arm(p);
            drop(p);
            if (from_bitmap) slab_thread_idle();
            block = block ? block : ts_churn(ts_block_of_word(word_of(kept)));
            void *q = NULL;
            for (unsigned i = 0; i < 1000 && q != p; i++) {
                dead.armed = true;
                q = ts_refill_churn(ts_thread.heap, block, ts_classes.of[(size + 15) / 16], epoch, &t);
                dead.armed = false;
                assert_non_null(q);
            }
            assert_ptr_equal(q, p);
            assert_true(dead.steps > 0);
        }
    }
}

/* Before hits may use the slot, the slab is HANDLED or the name gone. */
static void as_it_settles(void **state) {
    (void)state;
    void *live = sampled(100), *p = sampled(100);
    arm(p);
    drop(p);
    ts_share *share = ts_share_of_mine(ts_token(allocator));
    share->slow[false] = 0;
    dead.armed = true;
    ts_name_settle(ts_thread.heap, live);
    ts_name_settle(ts_thread.heap, p);
    dead.armed = false;
    assert_true(dead.steps > 0);
    assert_true(word_of(live) & TS_UNIT_HANDLED);
    assert_int_equal(samples(), 1);
    share->slow[false] = TS_SLOW_COUNTED;
}

static void *asked;
static void between_looks(void) {
    void *p = asked;
    asked = NULL;
    if (p) assert_int_not_equal(slab_handle_of(allocator, p), SLAB_HANDLE_NONE);
}

/* The first handle of the slab is made meanwhile: from then on lives count, and the dead name has none. */
static void handled_as_it_settles(void **state) {
    (void)state;
    void *live = make(100), *p = sampled(100);
    drop(p);
    ts_share *share = ts_share_of_mine(ts_token(allocator));
    share->slow[false] = 0;
    asked = live;
    ts_name_settle(ts_thread.heap, p);
    assert_null(asked);
    assert_true(word_of(live) & TS_UNIT_HANDLED);
    assert_int_equal(name_of(p), 0);
    share->slow[false] = TS_SLOW_COUNTED;
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, begin, end)
int main(void) {
    const struct CMUnitTest tests[] = {
        TEST(no_memory),
        TEST(from_the_magazine),
        TEST(from_the_bitmap),
        TEST(freed_by_another_thread),
        TEST(neighbours),
        TEST(neighbours_with_handles),
        TEST(hits_again),
        TEST(claimed_meanwhile),
        TEST(few_are_handled),
        TEST(taken_over),
        TEST(at_each_step),
        TEST(as_it_settles),
        TEST(handled_as_it_settles),
    };
    return cmocka_run_group_tests_name("diagnose.named", tests, NULL, NULL);
}
