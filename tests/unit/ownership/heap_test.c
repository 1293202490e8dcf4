/*
 * Heaps change hands: held by another thread, left by a thread that ends, and left alone where the system has no
 * barrier for all threads.
 */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include "identities.h"
#include "proc.h"
#include "unit.h"

#include "bins.h"
#include "errands.h"
#include "walk/check_pool.h"

#include <errno.h>
#include <pthread.h>
#include <stdatomic.h>
#include <string.h>

static SlabAllocator *allocator;
static ts_os_table table;
static atomic_bool refuse_barrier;
static uint64_t units_before; /* each test looks at its own */

static uint64_t units_used(void) { return ts_pool_used_units() - units_before; }

static void (*after_barrier)(void); /* once */

static bool test_barrier(void) {
    bool done = !refuse_barrier && ts_os_native.barrier_all();
    void (*then)(void) = after_barrier;
    after_barrier = NULL;
    if (done && then) then();
    return done;
}

static int start(void **state) {
    (void)state;
    table = ts_os_native;
    table.barrier_all = test_barrier;
    ts_os = &table;
    refuse_barrier = false;
    allocator = slab_allocator_create();
    units_before = allocator ? ts_pool_used_units() : 0;
    return allocator == NULL;
}

static int stop(void **state) {
    (void)state;
    refuse_barrier = false;
    slab_allocator_free(allocator);
    return 0;
}

enum { COUNT = 400 };
static void *objects[COUNT];
static EpochId epoch;
static size_t size = 100;

static void make_objects(void) {
    for (int i = 0; i < COUNT; i++) {
        objects[i] = slab_malloc_epoch(allocator, size, epoch);
        SUP_CHECK(objects[i] != NULL, "object %d", i);
    }
    other_heap = ts_thread.heap;
}

static void free_objects(void) {
    for (int i = 0; i < COUNT; i++) {
        SUP_CHECK(slab_free(allocator, objects[i]), "object %d", i);
    }
}

static void find_objects_dead(void) {
    for (int i = 0; i < COUNT; i++) {
        SUP_CHECK(!slab_owns(allocator, objects[i]) && !slab_free(allocator, objects[i]), "object %d lives", i);
    }
}

static void allocate_elsewhere(void) {
    EpochId another = epoch_open(allocator, NULL, EPOCH_CHURN);
    SUP_CHECK(slab_malloc_epoch(allocator, 300, another) != NULL, "in another epoch");
    SUP_CHECK(epoch_destroy(allocator, another), "epoch_destroy");
}

/* ---- adoption --------------------------------------------------------------------------------------------- */

static void a_block_of_an_ended_thread(void **state) {
    (void)state;
    for (unsigned flags = EPOCH_CHURN; flags <= EPOCH_SCOPE; flags++) {
        epoch = epoch_open(allocator, NULL, flags);
        begin();
        let(make_objects);
        end();
        ts_block *block = block_of(objects[0]);
        assert_true(ts_load_relaxed(&block->heap) == other_heap);
        assert_int_equal(ts_load_relaxed(&other_heap->state), TS_HEAP_ABANDONED);
        assert_int_equal(sup_live_objects(allocator), COUNT);
        for (int i = 0; i < COUNT; i++) {
            assert_true(slab_owns(allocator, objects[i]));
        }
        /* The next thread that allocates in the epoch takes the block over, with its free slots. */
        void *mine = slab_malloc_epoch(allocator, size, epoch);
        assert_true(block_of(mine) == block && ts_load_relaxed(&block->heap) == ts_thread.heap);
        assert_int_equal(sup_live_objects(allocator), COUNT + 1);
        sup_check_identities(allocator);
        if (flags == EPOCH_CHURN) {
            assert_int_equal(check_bin(ts_churn(block), ts_classes.of[112 / 16]).live, COUNT + 1);
        }
        uint64_t queue = ts_load_relaxed(&ts_thread.heap->queue);
        free_objects(); /* no foreign frees any more */
        assert_int_equal(ts_load_relaxed(&ts_thread.heap->queue), queue);
        assert_true(slab_free(allocator, mine));
        assert_int_equal(sup_live_objects(allocator), 0);
        assert_true(epoch_destroy(allocator, epoch));
    }
}

/* A thread that has a block of its own takes over another's when it runs out of slots. */
static void adopted_when_slots_run_out(void **state) {
    (void)state;
    epoch = epoch_open(allocator, NULL, EPOCH_CHURN);
    void *mine[200];
    size = 4000; /* four to a slab */
    for (int i = 0; i < 4; i++) {
        mine[i] = slab_malloc_epoch(allocator, size, epoch);
    }
    begin();
    let(make_objects);
    end();
    for (int i = 0; i < COUNT; i++) {
        if (i % 8 != 0) {
            assert_true(slab_free(allocator, objects[i]));
        }
    }
    uint64_t committed = sup_committed_bytes(allocator);
    for (int i = 4; i < 104; i++) {
        mine[i] = slab_malloc_epoch(allocator, size, epoch);
    }
    assert_int_equal(sup_committed_bytes(allocator), committed); /* all of it where the other one left room */
    assert_true(ts_load_relaxed(&block_of(objects[0])->heap) == ts_thread.heap);
    sup_check_identities(allocator);
    for (int i = 0; i < 104; i++) {
        assert_true(slab_free(allocator, mine[i]));
    }
    for (int i = 0; i < COUNT; i += 8) {
        assert_true(slab_free(allocator, objects[i]));
    }
    sup_check_identities(allocator);
    assert_true(epoch_close(allocator, epoch));
    assert_int_equal(epoch_state(allocator, epoch), EPOCH_CLOSED);
    size = 100;
}

/* But not one of about the same size, which is left to a thread that comes, until its own is twice as large. */
static void not_adopted_by_its_like(void **state) {
    (void)state;
    void *mine[3 * COUNT];
    epoch = epoch_open(allocator, NULL, EPOCH_CHURN);
    begin();
    let(make_objects);
    for (int i = 0; i < COUNT; i++) mine[i] = slab_malloc_epoch(allocator, size, epoch);
    end();
    ts_block *its = block_of(objects[0]), *own = block_of(mine[0]);
    assert_ptr_not_equal(its, own);
    for (int i = 0; i < COUNT; i++) assert_true(i % 8 == 0 || slab_free(allocator, objects[i]));
    uint32_t slabs = ts_load_relaxed(&its->slabs);
    for (int i = COUNT; i < 3 * COUNT && ts_load_relaxed(&its->heap) != ts_thread.heap; i++) {
        mine[i] = slab_malloc_epoch(allocator, size, epoch);
    }
    assert_ptr_equal(ts_load_relaxed(&its->heap), ts_thread.heap);
    assert_int_equal(ts_load_relaxed(&own->slabs), 2 * slabs);
    sup_check_identities(allocator);
    assert_true(epoch_destroy(allocator, epoch));
}

/* Many such blocks are not left: more of them wait than threads live. */
enum { BUILDERS = 4 };
static pthread_barrier_t all_have_built;
static void *build(void *arg) {
    void **p = arg;
    for (int i = 0; i < COUNT; i++)
        SUP_CHECK((p[i] = slab_malloc_epoch(allocator, size, epoch)) != NULL, "object %d", i);
    pthread_barrier_wait(&all_have_built); /* each in a block of its own */
    return NULL;
}
static void adopted_from_many_of_its_like(void **state) {
    (void)state;
    static void *built[BUILDERS][COUNT];
    pthread_t thread[BUILDERS];
    epoch = epoch_open(allocator, NULL, EPOCH_CHURN);
    for (int i = 0; i < COUNT; i++) assert_non_null(slab_malloc_epoch(allocator, size, epoch));
    assert_int_equal(pthread_barrier_init(&all_have_built, NULL, BUILDERS), 0);
    for (int t = 0; t < BUILDERS; t++) assert_int_equal(pthread_create(&thread[t], NULL, build, built[t]), 0);
    for (int t = 0; t < BUILDERS; t++) assert_int_equal(pthread_join(thread[t], NULL), 0);
    for (int i = 0; i < BUILDERS * COUNT; i++)
        assert_true(i % 8 == 0 || slab_free(allocator, built[i / COUNT][i % COUNT]));
    slab_trim(allocator);
    uint64_t committed = sup_committed_bytes(allocator);
    for (int i = 0; i < 2 * COUNT; i++) assert_non_null(slab_malloc_epoch(allocator, size, epoch));
    assert_int_equal(sup_committed_bytes(allocator), committed);
    sup_check_identities(allocator);
    assert_true(epoch_destroy(allocator, epoch));
}

/* Nor is it left to others where there is no memory, or a limit is met. */
static void adopted_for_want_of_memory(void **state) {
    (void)state;
    for (unsigned limited = 0; limited < 2; limited++) {
        epoch = epoch_open(allocator, NULL, EPOCH_CHURN);
        begin();
        let(make_objects);
        for (int i = 0; i < COUNT; i++) assert_non_null(slab_malloc_epoch(allocator, size, epoch));
        end();
        for (int i = 0; i < COUNT; i++) assert_true(i % 8 == 0 || slab_free(allocator, objects[i]));
        slab_trim(allocator);
        size_t most = sup_committed_bytes(allocator);
        assert_true(limited ? epoch_set_limit(allocator, epoch, most) : slab_set_budget(allocator, most));
        for (int i = 0; i < COUNT; i++) assert_non_null(slab_malloc_epoch(allocator, size, epoch));
        assert_ptr_equal(ts_load_relaxed(&block_of(objects[0])->heap), ts_thread.heap);
        assert_true(limited || slab_set_budget(allocator, 0));
        sup_check_identities(allocator);
        assert_true(epoch_destroy(allocator, epoch));
    }
}

/* Threads come and go and leave an object each in an epoch in which this one goes on: it takes blocks of theirs over,
   and not one more with each of them while there is room in those that it has. */
static void *leave_one(void *argument) {
    *(void **)argument = slab_malloc_epoch(allocator, 128, epoch);
    return NULL;
}

static void blocks_do_not_pile_up(void **state) {
    enum { THREADS = 300, LIVE = 1000 };
    static void *live[LIVE], *left[THREADS];
    unsigned half = 0, blocks = 0;
    (void)state;
    epoch = epoch_open(allocator, NULL, EPOCH_CHURN);
    for (int i = 0; i < LIVE; i++) assert_non_null(live[i] = slab_malloc_epoch(allocator, 128, epoch));
    for (int t = 0; t < THREADS; t++) {
        sup_in_thread(leave_one, &left[t]);
        for (int i = 0; i < LIVE; i++) { /* the oldest go first */
            assert_true(slab_free(allocator, live[i]));
            assert_non_null(live[i] = slab_malloc_epoch(allocator, 128, epoch));
        }
        assert_true(slab_free(allocator, live[t % LIVE])); /* one fewer, one more: the magazine runs empty */
        void *more[80];
        for (int i = 0; i < 80; i++) assert_non_null(more[i] = slab_malloc_epoch(allocator, 128, epoch));
        for (int i = 0; i < 80; i++) assert_true(slab_free(allocator, more[i]));
        assert_non_null(live[t % LIVE] = slab_malloc_epoch(allocator, 128, epoch));
        blocks = 0;
        for (const ts_block *b = ts_heap_first_block(ts_thread.heap); b; b = ts_heap_next_block(b)) blocks++;
        if (t == THREADS / 2) half = blocks;
    }
    SUP_CHECK(blocks <= half + 2, "%u blocks after %d threads, %u after half of them", blocks, (int)THREADS, half);
    sup_check_identities(allocator);
    assert_true(epoch_destroy(allocator, epoch));
}

/* Heaps of ended threads are used again: as many heaps as threads at once. */
static void heaps_are_used_again(void **state) {
    (void)state;
    unsigned before = 0, after = 0;
    for (int round = 0; round < 40; round++) {
        epoch = epoch_open(allocator, NULL, round % 2 ? EPOCH_SCOPE : EPOCH_CHURN);
        begin();
        let(make_objects);
        end();
        assert_true(epoch_destroy(allocator, epoch));
        find_objects_dead();
        if (round == 0) {
            for (ts_heap *h = ts_heaps(); h; h = h->next) {
                before++;
            }
        }
    }
    for (ts_heap *h = ts_heaps(); h; h = h->next) {
        after++;
    }
    assert_int_equal(before, after);
    assert_int_equal(ts_load_relaxed(&ts_heaps_abandoned), 0);
    sup_check_empty(allocator);
}

/* ---- hold ------------------------------------------------------------------------------------------------- */

static bool have_barrier(void) {
    if (!ts_os_native.barrier_all()) {
        print_message("skipped: the system has no barrier for all threads\n");
        return false;
    }
    return true;
}

static atomic_bool stop_busy;
static uint64_t inside; /* (h) */
static atomic_ulong rounds;

static void *busy(void *argument) {
    EpochId mine = epoch_open(allocator, NULL, EPOCH_CHURN);
    void *kept[32] = {0};
    other_heap = ts_heap_mine();
    for (unsigned i = 0; !atomic_load(&stop_busy); i++) {
        void **p = &kept[i * 7 % 32];
        if (*p) {
            SUP_CHECK(slab_free(allocator, *p), "slab_free");
        }
        *p = slab_malloc_epoch(allocator, i % 500, mine);
        SUP_CHECK(*p != NULL, "slab_malloc_epoch");
        ts_heap_enter(ts_thread.heap);
        inside++;
        ts_heap_leave(ts_thread.heap);
        atomic_fetch_add(&rounds, 1);
    }
    SUP_CHECK(epoch_destroy(allocator, mine), "epoch_destroy");
    return argument;
}

static void held_against_a_busy_thread(void **state) {
    pthread_t thread;
    unsigned held = 0, tries = 0;
    (void)state;
    if (!have_barrier()) {
        skip();
    }
    stop_busy = false;
    rounds = 0;
    inside = 0;
    assert_int_equal(pthread_create(&thread, NULL, busy, NULL), 0);
    while (atomic_load(&rounds) < 10) {
        ts_os->yield();
    }
    uint64_t mine = 0;
    while (held < SUP_SCALED(2000u) && tries < 1000000) {
        tries++;
        if (!ts_heap_hold(other_heap)) {
            ts_os->yield(); /* it lost its processor in the middle of something */
            continue;
        }
        held++;
        uint64_t seen = inside;
        for (volatile int i = 0; i < 200; i++) {
        }
        SUP_CHECK(inside == seen, "the owner is inside of a heap that is held");
        inside = seen + 1;
        mine++;
        ts_heap_drop(other_heap);
    }
    atomic_store(&stop_busy, true);
    assert_int_equal(pthread_join(thread, NULL), 0);
    assert_int_equal(held, SUP_SCALED(2000u));
    assert_int_equal(inside, mine + atomic_load(&rounds));
    assert_int_equal(ts_load_relaxed(&other_heap->revoked), 0);
    sup_check_identities(allocator);
}

static void own_heap(void **state) {
    (void)state;
    ts_heap *heap = ts_heap_mine();
    assert_non_null(heap);
    assert_true(ts_heap_hold(heap));
    assert_int_equal(ts_load_relaxed(&ts_thread.in_op), 1);
    ts_heap_drop(heap);
    assert_int_equal(ts_load_relaxed(&ts_thread.in_op), 0);
}

static void cannot_be_held_without_a_barrier(void **state) {
    (void)state;
    epoch = epoch_open(allocator, NULL, EPOCH_CHURN);
    begin();
    let(make_objects);
    refuse_barrier = true;
    assert_false(ts_heap_hold(other_heap));
    assert_int_equal(ts_load_relaxed(&other_heap->revoked), 0);
    let(free_objects);
    refuse_barrier = false;
    if (ts_os->barrier_all()) {
        assert_true(ts_heap_hold(other_heap));
        ts_heap_drop(other_heap);
    }
    end();
    assert_true(ts_heap_hold(other_heap)); /* an ended thread's heap needs no barrier */
    ts_heap_drop(other_heap);
    assert_true(epoch_destroy(allocator, epoch));
}

static void fill_rolling_magazine(void) {
    for (int i = 0; i < 40; i++) objects[i] = slab_malloc(allocator, size);
    for (int i = 0; i < 40; i++) SUP_CHECK(slab_free(allocator, objects[i]), "object %d", i);
}
static void allocate_rolling(void) { objects[0] = slab_malloc(allocator, size); }
static void let_it_allocate(void) {
    let_begin(allocate_rolling);
    until_worker_waits();
}

/* The other thread has objects at hand in the rolling epoch that is over. While its heap is held it takes none. */
static void rolling_epoch_ended(void **state) {
    (void)state;
    if (!have_barrier()) skip();
    begin();
    let(fill_rolling_magazine);
    after_barrier = let_it_allocate;
    EpochId first = epoch_current(allocator), second = epoch_advance(allocator);
    meet();
    assert_true(second != EPOCH_NONE);
    (void)epoch_destroy(allocator, first);
    assert_true(slab_owns(allocator, objects[0]) && slab_free(allocator, objects[0]));
    end();
}

/* ---- without a barrier: the owner does it ------------------------------------------------------------------ */

static void idle(void) { slab_thread_idle(); }
static void nothing(void) {}

/* After the destroy everything is stale at once; the memory comes back when the owner acts. NULL: it ends. */
static void destroyed(unsigned flags, void (*act)(void)) {
    epoch = epoch_open(allocator, NULL, flags);
    begin();
    let(make_objects);
    uint64_t used = units_used();
    refuse_barrier = true;
    assert_true(epoch_destroy(allocator, epoch));
    assert_int_equal(epoch_state(allocator, epoch), EPOCH_CLOSED);
    assert_false(epoch_destroy(allocator, epoch));
    find_objects_dead();
    assert_non_null(ts_load_relaxed(&other_heap->inbox));
    assert_int_equal(units_used(), used);
    errno = 0;
    assert_null(slab_malloc_epoch(allocator, size, epoch));
    assert_int_equal(errno, ESTALE);
    sup_check_identities(allocator);
    sup_check_empty(allocator);
    if (act) {
        let(act);
        assert_null(ts_load_relaxed(&other_heap->inbox));
        let(find_objects_dead);
    }
    end();
    assert_null(ts_load_relaxed(&other_heap->inbox));
    assert_int_equal(sup_live_objects(allocator), 0);
    sup_check_identities(allocator);
    sup_check_empty(allocator);
    (void)slab_trim(allocator);
    assert_int_equal(sup_committed_bytes(allocator), 0);
    assert_int_equal(units_used(), 0);
}

static void condemned(void **state) {
    (void)state;
    for (unsigned flags = EPOCH_CHURN; flags <= EPOCH_SCOPE; flags++) {
        destroyed(flags, allocate_elsewhere);
        destroyed(flags, idle);
        destroyed(flags, NULL);
    }
}

static void closed(unsigned flags, bool free_before, void (*act)(void)) {
    epoch = epoch_open(allocator, NULL, flags);
    begin();
    let(make_objects);
    if (free_before) {
        let(free_objects);
    }
    refuse_barrier = true;
    assert_true(epoch_close(allocator, epoch));
    errno = 0;
    assert_null(slab_malloc_epoch(allocator, size, epoch));
    assert_int_equal(errno, ESTALE);
    if (!free_before) {
        assert_int_equal(epoch_state(allocator, epoch), EPOCH_CLOSING);
        let(free_objects);
    } else {
        let(act ? act : nothing);
    }
    if (!act) {
        end();
    }
    assert_int_equal(epoch_state(allocator, epoch), EPOCH_CLOSED);
    sup_check_identities(allocator);
    sup_check_empty(allocator);
    if (act) {
        end();
    }
    (void)slab_trim(allocator);
    assert_int_equal(units_used(), 0);
}

static void closed_with_objects(void **state) {
    (void)state;
    closed(EPOCH_CHURN, false, nothing);
    closed(EPOCH_SCOPE, false, nothing);
}

static void closed_and_idle(void **state) {
    (void)state;
    closed(EPOCH_CHURN, true, idle);
    closed(EPOCH_SCOPE, true, idle);
}

static void closed_and_ended(void **state) {
    (void)state;
    closed(EPOCH_CHURN, true, NULL);
    closed(EPOCH_SCOPE, true, NULL);
}

/* The whole allocator goes; the other thread's memory of it comes back when that thread acts. */
static void allocator_freed(void (*act)(void), bool retained) {
    SlabAllocator *kept = allocator;
    allocator = slab_allocator_create();
    epoch = epoch_open(allocator, NULL, EPOCH_CHURN);
    begin();
    let(make_objects);
    if (retained) {
        let(free_objects); /* in the retained units of the thread's share */
    }
    refuse_barrier = true;
    slab_allocator_free(allocator);
    assert_false(slab_free(allocator, objects[0]));
    let(find_objects_dead);
    allocator = kept;
    if (act) {
        let(act);
    }
    uint64_t when_it_acted = units_used();
    end();
    refuse_barrier = false;
    assert_int_equal(act ? when_it_acted : 0, 0);
    assert_int_equal(units_used(), 0);
}

static void allocator_freed_then_idle(void **state) {
    (void)state;
    allocator_freed(idle, false);
    allocator_freed(idle, true);
}

static void allocator_freed_then_ended(void **state) {
    (void)state;
    allocator_freed(NULL, false);
    allocator_freed(NULL, true);
}

/* An idle thread, with a barrier, does not keep anything back. */
static void taken_from_an_idle_thread(void **state) {
    (void)state;
    if (!have_barrier()) {
        skip();
    }
    for (unsigned flags = EPOCH_CHURN; flags <= EPOCH_SCOPE; flags++) {
        epoch = epoch_open(allocator, NULL, flags);
        begin();
        let(make_objects);
        assert_true(epoch_destroy(allocator, epoch));
        (void)slab_trim(allocator);
        assert_int_equal(units_used(), 0);
        epoch = epoch_open(allocator, NULL, flags);
        let(make_objects);
        let(free_objects);
        assert_true(epoch_close(allocator, epoch));
        assert_int_equal(epoch_state(allocator, epoch), EPOCH_CLOSED);
        (void)slab_trim(allocator);
        assert_int_equal(units_used(), 0);
        end();
    }
}

#define WITH_ALLOCATOR(test) cmocka_unit_test_setup_teardown(test, start, stop)

int main(void) {
    const struct CMUnitTest tests[] = {
        WITH_ALLOCATOR(a_block_of_an_ended_thread),
        WITH_ALLOCATOR(adopted_when_slots_run_out),
        WITH_ALLOCATOR(not_adopted_by_its_like),
        WITH_ALLOCATOR(adopted_from_many_of_its_like),
        WITH_ALLOCATOR(adopted_for_want_of_memory),
        WITH_ALLOCATOR(blocks_do_not_pile_up),
        WITH_ALLOCATOR(heaps_are_used_again),
        WITH_ALLOCATOR(own_heap),
        WITH_ALLOCATOR(held_against_a_busy_thread),
        WITH_ALLOCATOR(cannot_be_held_without_a_barrier),
        WITH_ALLOCATOR(condemned),
        WITH_ALLOCATOR(rolling_epoch_ended),
        WITH_ALLOCATOR(closed_with_objects),
        WITH_ALLOCATOR(closed_and_idle),
        WITH_ALLOCATOR(closed_and_ended),
        WITH_ALLOCATOR(taken_from_an_idle_thread),
        WITH_ALLOCATOR(allocator_freed_then_idle),
        WITH_ALLOCATOR(allocator_freed_then_ended),
    };
    return cmocka_run_group_tests_name("ownership.heap", tests, NULL, NULL);
}
