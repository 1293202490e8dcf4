/*
 * The end of generations and tags, seen through handles: a slot that has used up its own is retired, a slab that
 * has used up its own is never handed out again, and no handle of the past is ever accepted.
 */
#include "identities.h"
#include "unit.h"

#include "api/runtime.h"
#include "base/base.h"
#include "diagnose/diagnose.h"
#include "object/object.h"
#include "region/region.h"
#include "slab/slab.h"
#include "walk/check_pool.h"

#include <pthread.h>
#include <stdlib.h>

static uint32_t unit_of(const void *p) {
    uint32_t unit = 0;
    uint64_t entry;
    assert_true(ts_locate(p, &unit, &entry));
    return unit;
}

static int compare(const void *a, const void *b) {
    SlabHandle x = *(const SlabHandle *)a, y = *(const SlabHandle *)b;
    return x < y ? -1 : x > y;
}

static void none_is_accepted(SlabAllocator *allocator, const SlabHandle *handles, unsigned count) {
    for (unsigned i = 0; i < count; i++) {
        assert_null(slab_handle_get(allocator, handles[i]));
        assert_false(free_obj(allocator, handles[i]));
    }
}

/* ---- slots ------------------------------------------------------------------------------------------------ */

enum { TIMES = 10000 };

/* Where an object was, and how often. */
typedef struct use {
    const void *address;
    unsigned times;
} use;

static unsigned count_use(use *uses, unsigned known, const void *address) {
    unsigned i = 0;
    while (i < known && uses[i].address != address) {
        i++;
    }
    uses[i].address = address;
    uses[i].times = i < known ? uses[i].times + 1 : 1;
    /* A slot is used once for every generation there is. */
    assert_true(uses[i].times <= TS_SLOT_GEN_MAX + 1);
    return i < known ? known : known + 1;
}

typedef enum way { BY_POINTER, BY_HANDLE, PAST_THE_MAGAZINE } way;

static bool free_by(way how, SlabAllocator *allocator, void *p, SlabHandle handle) {
    ts_object object;
    if (how == BY_POINTER) return slab_free(allocator, p);
    if (how == BY_HANDLE) return free_obj(allocator, handle);
    assert_true(ts_object_at((uintptr_t)allocator, p, &object));
    return ts_free((uintptr_t)allocator, p, object.generation);
}

/* All slots of one slab but three are taken, and these are used over and over. */
static void a_few_slots_over_and_over(size_t size, way how) {
    static SlabHandle handles[TIMES], sorted[TIMES];
    use uses[4];
    unsigned known = 0, used_up = 0;
    uint64_t before = ts_pool_used_units();
    SlabAllocator *allocator = slab_allocator_create();
    EpochId epoch = epoch_open(allocator, NULL, EPOCH_CHURN);
    uint32_t unit = unit_of(slab_malloc_epoch(allocator, size, epoch));
    uint32_t slots = ts_slab_at(unit)->empty_at;
    for (uint32_t i = 1; i < slots - 3; i++) {
        assert_int_equal(unit_of(slab_malloc_epoch(allocator, size, epoch)), unit);
    }
    for (unsigned i = 0; i < TIMES; i++) {
        void *p = alloc_obj_epoch(allocator, size, epoch, &handles[i]);
        assert_non_null(p);
        assert_int_equal(unit_of(p), unit);
        known = count_use(uses, known, p);
        assert_true(known <= 3);
        assert_true(slab_handle_get(allocator, handles[i]) == p);
        assert_true(free_by(how, allocator, p, handles[i]));
        assert_false(slab_free(allocator, p));
        if (i > 0) {
            assert_null(slab_handle_get(allocator, handles[i - 1]));
        }
        sorted[i] = handles[i];
    }
    qsort(sorted, TIMES, sizeof *sorted, compare);
    for (unsigned i = 1; i < TIMES; i++) {
        assert_true(sorted[i] != sorted[i - 1]);
    }
    none_is_accepted(allocator, handles, TIMES);
    for (unsigned i = 0; i < known; i++) {
        used_up += uses[i].times == TS_SLOT_GEN_MAX + 1;
    }
    /* The magazine gives the newest again. */
    assert_true(how == PAST_THE_MAGAZINE || used_up == TIMES / (TS_SLOT_GEN_MAX + 1));
    assert_int_equal(ts_slab_at(unit)->empty_at, slots - used_up); /* those that are used up are retired */
    sup_check_identities(allocator);
    /* The slab comes back with all its slots, and with generations above all of these. */
    assert_true(epoch_destroy(allocator, epoch));
    epoch = epoch_open(allocator, NULL, EPOCH_CHURN);
    SlabHandle again;
    void *p = alloc_obj_epoch(allocator, size, epoch, &again);
    assert_int_equal(unit_of(p), unit);
    assert_int_equal(ts_slab_at(unit)->empty_at, slots);
    assert_true(slab_handle_get(allocator, again) == p);
    for (uint32_t i = 1; i < slots; i++) {
        assert_int_equal(unit_of(alloc_obj_epoch(allocator, size, epoch, &again)), unit);
    }
    none_is_accepted(allocator, handles, TIMES);
    slab_allocator_free(allocator);
    assert_int_equal(ts_pool_used_units(), before);
}

static void slots_are_used_up(void **state) {
    const size_t sizes[] = {16, 48, 64, 112, 4096};
    (void)state;
    for (unsigned i = 0; i < sizeof sizes / sizeof *sizes; i++) {
        a_few_slots_over_and_over(sizes[i], BY_POINTER);
        a_few_slots_over_and_over(sizes[i], BY_HANDLE);
        a_few_slots_over_and_over(sizes[i], PAST_THE_MAGAZINE);
    }
}

/* A handle is good from when it is made, not from when its object is there: a number that could be one, but is not, is
   refused. */
static void not_made(void **state) {
    (void)state;
    for (size_t size = 32; size <= 4096; size *= 2) {
        SlabAllocator *allocator = slab_allocator_create();
        EpochId epoch = epoch_open(allocator, NULL, EPOCH_CHURN);
        void *p = slab_malloc_epoch(allocator, size, epoch);
        ts_slab *slab = ts_slab_at(unit_of(p));
        assert_int_equal(ts_load_relaxed(&slab->handled), 0);
        SlabHandle handle, guess = slab_handle_of(allocator, p);
        _Atomic uint64_t *word = ts_unit_word(unit_of(p));
        assert_true(ts_load_relaxed(word) & TS_UNIT_HANDLED);
        ts_store_relaxed(word, ts_load_relaxed(word) & ~TS_UNIT_HANDLED);
        ts_store_relaxed(&slab->handled, 0);
        assert_null(slab_handle_get(allocator, guess));
        assert_false(free_obj(allocator, guess));
        void *q = alloc_obj_epoch(allocator, size, epoch, &handle);
        assert_ptr_equal(ts_slab_at(unit_of(q)), slab);
        assert_int_equal(ts_load_relaxed(&slab->handled), TS_ALL_COUNT);
        assert_ptr_equal(slab_handle_get(allocator, handle), q);
        assert_true(free_obj(allocator, handle) && free_obj(allocator, guess));
        slab_allocator_free(allocator);
    }
}

/* Every slot of a slab: it is empty then, with nothing to hand out, goes back, and is as good as new. */
static void all_of_so_many_slots(unsigned slots, size_t size) {
    uint64_t before = ts_pool_used_units();
    SlabAllocator *allocator = slab_allocator_create();
    EpochId epoch = epoch_open(allocator, NULL, EPOCH_CHURN);
    uint32_t unit = 0;
    for (unsigned i = 0; i < (slots + 1) * (TS_SLOT_GEN_MAX + 1); i++) {
        void *p = slab_malloc_epoch(allocator, size, epoch);
        assert_non_null(p);
        if (i == 0) {
            unit = unit_of(p);
            assert_int_not_equal(slab_handle_of(allocator, p), SLAB_HANDLE_NONE); /* from now on lives are counted */
        }
        if (i < slots * (TS_SLOT_GEN_MAX + 1)) {
            assert_int_equal(unit_of(p), unit);
        }
        assert_true(slab_free(allocator, p));
    }
    sup_check_identities(allocator);
    SlabEpochStats stats;
    assert_true(slab_stats_epoch(allocator, SLAB_ALL_CLASSES, epoch, &stats));
    assert_int_equal(stats.slab_count, slots > 1); /* of one slot the second is used up, too */
    assert_true(epoch_close(allocator, epoch));
    assert_int_equal(epoch_state(allocator, epoch), EPOCH_CLOSED);
    sup_check_empty(allocator);
    slab_allocator_free(allocator);
    assert_int_equal(ts_pool_used_units(), before);
}

static void all_slots_are_used_up(void **state) {
    (void)state;
    all_of_so_many_slots(4, 4096);
    all_of_so_many_slots(3, 5000);
    all_of_so_many_slots(2, 8192);
    all_of_so_many_slots(1, 10000);
}

/* ---- slabs ------------------------------------------------------------------------------------------------ */

typedef struct kind {
    size_t size;
    unsigned flags;
    bool by_tag;
} kind;

/* A slab at the end of its generations or tags is used once more, then never again. */
static void used_up(const kind *k, uint64_t *retired) {
    enum { ROUNDS = 12, MOST = 40 };
    SlabHandle old[ROUNDS * MOST];
    unsigned count = 0;
    SlabOptions options = {.size = sizeof options, .reclaim_policy = SLAB_RECLAIM_KEEP};
    SlabAllocator *allocator = slab_allocator_create_ex(&options);
    assert_non_null(allocator);
    EpochId epoch = epoch_open(allocator, NULL, k->flags);
    void *p = slab_malloc_epoch(allocator, k->size, epoch);
    uint32_t unit = unit_of(p);
    ts_slab *slab = ts_slab_at(unit);
    if (!k->by_tag) {
        ts_store_relaxed(&slab->gen, TS_GEN_MAX - TS_SLOT_GEN_MAX - 1);
    } else {
        ts_store_relaxed(&slab->tag, (uint32_t)TS_UNIT_ERA_MASK);
    }
    if (k->by_tag && k->size > TS_MAX_SLAB_BYTES) {
        /* The tag of a span is in its UNIT word, which must be there to be freed. */
        ts_store_relaxed(ts_unit_word(unit), TS_UNIT_SPAN | TS_UNIT_ERA_MASK);
    }
    old[count++] = slab_handle_of(allocator, p);
    assert_true(slab_handle_get(allocator, old[0]) == p);
    assert_true(free_obj(allocator, old[0]));
    assert_true(epoch_destroy(allocator, epoch));
    for (int round = 0; round < ROUNDS; round++) {
        epoch = epoch_open(allocator, NULL, k->flags);
        unsigned first = count;
        for (int i = 0; i < MOST - 1; i++) {
            p = alloc_obj_epoch(allocator, k->size, epoch, &old[count]);
            assert_non_null(p);
            assert_int_not_equal(unit_of(p), unit);
            assert_true(slab_handle_get(allocator, old[count++]) == p);
            assert_true((char *)p + k->size <= ts_unit_address(unit) ||
                        (char *)p >= ts_unit_address(unit) + TS_UNIT_BYTES);
        }
        none_is_accepted(allocator, old, first);
        assert_true(epoch_destroy(allocator, epoch));
        none_is_accepted(allocator, old, count);
    }
    (void)slab_trim(allocator);
    sup_check_identities(allocator);
    sup_check_empty(allocator);
    assert_int_equal(sup_committed_bytes(allocator), 0);
    slab_allocator_free(allocator);
    ++*retired;
    assert_int_equal(ts_pool_used_units(), *retired); /* its address is nobody's for ever */
    unsigned char *at = (unsigned char *)ts_unit_address(unit);
    assert_int_equal(at[0] | at[TS_UNIT_BYTES - 1], 0); /* its memory went back */
    ts_pool_check();
}

static void slabs_are_used_up(void **state) {
    const kind kinds[] = {
        {48, EPOCH_CHURN, false},     {48, EPOCH_CHURN, true},      {500, EPOCH_CHURN, false},
        {500, EPOCH_CHURN, true},     {700, EPOCH_SCOPE, false},    {700, EPOCH_SCOPE, true},
        {10000, EPOCH_CHURN, false},  {10000, EPOCH_CHURN, true},   {40000, EPOCH_CHURN, false},
        {40000, EPOCH_CHURN, true},   {100000, EPOCH_CHURN, false}, {100000, EPOCH_CHURN, true},
        {100000, EPOCH_SCOPE, false}, {100000, EPOCH_SCOPE, true},
    };
    uint64_t retired = ts_pool_used_units();
    (void)state;
    for (unsigned i = 0; i < sizeof kinds / sizeof *kinds; i++) {
        used_up(&kinds[i], &retired);
    }
}

/* ---- when frees begin to count ------------------------------------------------------------------------------ */

static bool is_handled(uint32_t unit) { return (ts_load_relaxed(ts_unit_word(unit)) & TS_UNIT_HANDLED) != 0; }

/* The next slabs of a bin that has handles count from the beginning, until its epoch ends. */
static void next_slabs_count(void **state) {
    (void)state;
    for (size_t size = 32; size <= 4096; size *= 2) {
        SlabAllocator *allocator = slab_allocator_create();
        EpochId epoch = epoch_open(allocator, NULL, EPOCH_CHURN);
        void *p = slab_malloc_epoch(allocator, size, epoch), *q = p;
        assert_false(is_handled(unit_of(p)));
        assert_int_not_equal(slab_handle_of(allocator, p), SLAB_HANDLE_NONE);
        while (unit_of(q) == unit_of(p)) q = slab_malloc_epoch(allocator, size, epoch);
        assert_true(is_handled(unit_of(q)));
        assert_int_equal(ts_load_relaxed(&ts_slab_at(unit_of(q))->handled), TS_ALL_COUNT);
        void *other = slab_malloc_epoch(allocator, size * 2, epoch); /* of another bin */
        assert_false(is_handled(unit_of(other)));
        assert_true(epoch_destroy(allocator, epoch));
        epoch = epoch_open(allocator, NULL, EPOCH_CHURN);
        assert_false(is_handled(unit_of(slab_malloc_epoch(allocator, size, epoch))));
        slab_allocator_free(allocator);
    }
}

typedef struct maker {
    SlabAllocator *allocator;
    void *p;
    SlabHandle handle;
    _Atomic bool done;
    pthread_t thread;
} maker;

static void *make(void *arg) {
    maker *m = arg;
    m->handle = slab_handle_of(m->allocator, m->p);
    ts_store_release(&m->done, true);
    return NULL;
}

/* Another thread's first handle comes when the operation is over that the owner was in: it may be a free that does not
   count. So does one of a thread that finds the slab HANDLED by then. */
static void handles_wait_for_the_owner(void **state) {
    (void)state;
    SlabAllocator *allocator = slab_allocator_create();
    EpochId epoch = epoch_open(allocator, NULL, EPOCH_CHURN);
    maker makers[2] = {{.allocator = allocator}, {.allocator = allocator}};
    for (unsigned i = 0; i < 2; i++) makers[i].p = slab_malloc_epoch(allocator, 64, epoch);
    uint32_t unit = unit_of(makers[0].p);
    assert_int_equal(unit_of(makers[1].p), unit);
    ts_op_begin(&ts_thread);
    for (unsigned i = 0; i < 2; i++) {
        assert_int_equal(pthread_create(&makers[i].thread, NULL, make, &makers[i]), 0);
        for (unsigned n = 0; n < 5000 && !is_handled(unit); n++) ts_nap();
        assert_true(is_handled(unit)); /* so the owner's next free counts, whenever it begins */
    }
    for (unsigned n = 0; n < 100; n++) ts_nap();
    assert_false(ts_load_acquire(&makers[0].done) || ts_load_acquire(&makers[1].done));
    ts_op_end(&ts_thread);
    for (unsigned i = 0; i < 2; i++) {
        assert_int_equal(pthread_join(makers[i].thread, NULL), 0);
        assert_ptr_equal(slab_handle_get(allocator, makers[i].handle), makers[i].p);
        assert_true(slab_free(allocator, makers[i].p));
        assert_ptr_equal(slab_malloc_epoch(allocator, 64, epoch), makers[i].p);
        assert_null(slab_handle_get(allocator, makers[i].handle));
    }
    slab_allocator_free(allocator);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(slots_are_used_up),     cmocka_unit_test(not_made),
        cmocka_unit_test(all_slots_are_used_up), cmocka_unit_test(slabs_are_used_up),
        cmocka_unit_test(next_slabs_count),      cmocka_unit_test(handles_wait_for_the_owner),
    };
    return cmocka_run_group_tests_name("slab.generation", tests, NULL, NULL);
}
