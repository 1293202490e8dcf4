/*
 * Other threads act between two steps of a thread that ends an epoch. epoch.c and end.c are compiled once more, in
 * place of the library's, with a place to stop at before every look at a shared word of a block, and before a block is
 * condemned.
 */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include "fixture.h"
#include "identities.h"

#include "bins.h"
#include "cache/allocate.h"
#include "cache/cache.h"
#include "epoch/epoch.h"
#include "errands.h"
#include "proc.h"
#include "region/region.h"
#include "walk/check.h"

#define SUP_OWN_STEP
#include "steps.h"

static void condemns(void);

#define ts_heap_post_end(h, b) (condemns(), (ts_heap_post_end)((h), (b)))
#define ts_heap_enter(h) (step(), (ts_heap_enter)(h))
#define ts_block_flush(h, b, r) (step(), (ts_block_flush)((h), (b), (r)))
#define ts_block_shut(b) (step(), (ts_block_shut)(b), step())
#undef ts_store_release
#define ts_store_release(p, v) (step(), atomic_store_explicit((p), (v), memory_order_release))
#define ts_heap_give_record(t, w, e) (step(), (ts_heap_give_record)((t), (w), (e)))
#define ts_table_publish(e, id) (step(), (ts_table_publish)((e), (id)))
#include "epoch/end.c"
#include "epoch/epoch.c"
#include "epoch/hand_over.c"
#include "walk/check_pool.h"
#undef ts_heap_post_end
#undef ts_heap_enter
#undef ts_block_flush
#undef ts_block_shut
#undef ts_store_release
#define ts_store_release(p, v) atomic_store_explicit((p), (v), memory_order_release)
#undef ts_heap_give_record
#undef ts_table_publish

static sup_stop at_step, at_condemn;
static bool steps_are_free; /* only those at which the thread has no lock and is in no operation */

static _Thread_local bool stops; /* this thread does, the others never */

/* Of those that these sources take, and that nobody else has meanwhile. */
static bool has_a_lock(void) {
    for (unsigned i = 0; i < TS_EPOCH_STRIPES; i++) {
        if (atomic_load(&ts_epoch_stripes[i].lock.word) != TS_LOCK_FREE) {
            return true;
        }
    }
    for (const ts_heap *heap = ts_heaps(); heap; heap = heap->next) {
        if (atomic_load(&heap->lock.word) != TS_LOCK_FREE) {
            return true;
        }
    }
    for (uint32_t i = 1; i < ts_table_high(&ts_allocators); i++) {
        const ts_allocator *a = ts_table_at(&ts_allocators, i);
        if (atomic_load(&a->lock.word) != TS_LOCK_FREE || atomic_load(&a->retained_lock.word) != TS_LOCK_FREE) {
            return true;
        }
    }
    return false;
}

static void step(void) {
    if (!stops || (at_step.fn && steps_are_free && (has_a_lock() || atomic_load(&ts_thread.in_op) != 0))) return;
    sup_stop_here(&at_step);
}

static void condemns(void) { sup_stop_here(&at_condemn); }

static ts_allocator *record;
static ts_os_table table;
static bool refuse_barrier;

static bool barrier(void) { return !refuse_barrier && ts_os_native.barrier_all(); }

static int start(void **state) {
    SlabOptions options = {.size = sizeof options, .reclaim_policy = SLAB_RECLAIM_KEEP};
    (void)state;
    table = ts_os_native;
    table.barrier_all = barrier;
    ts_os = &table;
    refuse_barrier = false;
    at_step = at_condemn = (sup_stop){NULL, 0};
    stops = true;
    steps_are_free = false;
    allocator = slab_allocator_create_ex(&options);
    record = ts_allocator_find(ts_token(allocator));
    return record == NULL || ts_heap_mine() == NULL;
}

/* ---- the thread of the block -------------------------------------------------------------------------------- */

enum { SIZE = 100 };
static EpochId epoch;
static ts_block *block;
static char *object;

static void join_epoch(void) {
    block = ts_epoch_join(ts_thread.heap, record, epoch);
    SUP_CHECK(block != NULL, "ts_epoch_join");
}

static void allocate(void) {
    object = slab_malloc_epoch(allocator, SIZE, epoch);
    SUP_CHECK(object != NULL, "slab_malloc_epoch");
}

/* The end of an allocation that found the epoch open: a slab is added, an object is live. Then the flush that the
   closer left to this thread. */
static void end_of_an_allocation(void) {
    ts_heap *heap = ts_thread.heap;
    unsigned cls = ts_classes.of[(SIZE + 15) / 16];
    ts_churn_block *churn = ts_churn(block);
    bool fresh;
    uint32_t unit = ts_slab_acquire_churn(heap, block->share, cls, TS_HOME_ANY, &fresh);
    SUP_CHECK(unit != 0, "a slab");
    ts_heap_enter(heap);
    SUP_CHECK(ts_bin_ready(churn, cls), "a magazine");
    ts_bin_add(churn, cls, unit);
    SUP_CHECK(ts_bin_claim(churn, cls), "a word");
    object = ts_fast_word(&churn->bin[cls]);
    SUP_CHECK(object != NULL, "an object");
    ts_block_flush_if_shut(heap, block);
    ts_heap_leave(heap);
    ts_thread.drained_count = 0; /* it goes on to ask for the end, as this thread does */
}

static void let_it_allocate(void) { let(end_of_an_allocation); }
static void free_object(void) { SUP_CHECK(slab_free(allocator, object), "slab_free"); }

/* ---- the end of an epoch that drains ------------------------------------------------------------------------- */

/* An allocation that began before the close adds the first slab while another thread looks whether anything is left:
   the epoch does not end over the object. */
static void allocated_while_looked_for(void **state) {
    (void)state;
    bool stopped = true;
    for (unsigned at = 0; stopped; at++) {
        epoch = epoch_open(allocator, NULL, EPOCH_CHURN);
        begin();
        let(join_epoch);
        refuse_barrier = true; /* its flush is left to the thread */
        assert_true(epoch_close(allocator, epoch));
        refuse_barrier = false;
        ts_epoch *e = ts_epoch_find(record, epoch);
        assert_non_null(e);
        sup_stop_arm(&at_step, at, let_it_allocate);
        ts_epoch_finish(e, epoch);
        bool over = ts_epoch_is_over(e, epoch);
        stopped = sup_stop_disarm(&at_step);
        SUP_CHECK(!over, "step %u: said to be over", at);
        SUP_CHECK(epoch_state(allocator, epoch) == EPOCH_CLOSING, "step %u: the epoch ended over a live object", at);
        if (stopped) {
            SUP_CHECK(slab_owns(allocator, object), "step %u: the object", at);
            let(free_object);
        }
        end();
        assert_int_equal(epoch_state(allocator, epoch), EPOCH_CLOSED);
        assert_int_equal(sup_live_objects(allocator), 0);
    }
    sup_check_empty(allocator);
}

/* ---- calls that meet a close ------------------------------------------------------------------------------------ */

enum { OBJECTS = 300 };
static void *objects[OBJECTS];

static void make_objects(void) {
    for (unsigned i = 0; i < OBJECTS; i++) {
        objects[i] = slab_malloc_epoch(allocator, SIZE, epoch);
        SUP_CHECK(objects[i] != NULL, "slab_malloc_epoch");
    }
    for (unsigned i = 0; i < OBJECTS / 2; i++) {
        SUP_CHECK(slab_free(allocator, objects[i]), "slab_free");
    }
}

static atomic_bool done;

static void free_the_rest(void) {
    for (unsigned i = OBJECTS / 2; i < OBJECTS; i++) {
        SUP_CHECK(slab_free(allocator, objects[i]), "slab_free");
    }
    atomic_store(&done, true);
}

/* Until the other thread is done, or waits for a lock that this one has. */
static void wait_a_little(void) {
    for (unsigned ms = 0; ms < 20 && !atomic_load(&done); ms++) {
        sup_sleep_ms(1);
    }
}

static pthread_t outsider;

static void begin_outside(void *(*fn)(void *)) {
    atomic_store(&done, false);
    SUP_CHECK(pthread_create(&outsider, NULL, fn, NULL) == 0, "pthread_create");
    wait_a_little();
}

static atomic_bool is_left;

static void *visit_from_outside(void *argument) {
    /* As if the close had missed it. This waits for no lock; the rest may. */
    ts_block *b = ts_load_relaxed(&ts_epoch_find(record, epoch)->blocks);
    if (b && ts_load_acquire(&b->open_id) == TS_ID_NEVER) ts_heap_post_flush(other_heap, b);
    atomic_store(&is_left, true);
    ts_heap_visit(other_heap, record);
    atomic_store(&done, true);
    return argument;
}

/* A trim finds blocks that are shut, and flushes them; then their owner frees. */
static void visit_and_let_it_free(void) {
    atomic_store(&is_left, false);
    begin_outside(visit_from_outside);
    while (!atomic_load(&is_left)) { /* however late it begins: the epoch is there until the close goes on */
        sup_sleep_ms(1);
    }
    wait_a_little();
    atomic_store(&done, false);
    let_begin(free_the_rest);
    wait_a_little();
}

static void *free_from_outside(void *argument) {
    free_the_rest();
    return argument;
}

static void free_outside(void) { begin_outside(free_from_outside); }

/* At each step of a close. false: there are not so many. */
static bool close_with(unsigned at, void (*fn)(void)) {
    epoch = epoch_open(allocator, NULL, EPOCH_CHURN);
    begin();
    let(make_objects);
    sup_stop_arm(&at_step, at, fn);
    assert_true(epoch_close(allocator, epoch));
    bool stopped = sup_stop_disarm(&at_step);
    if (!stopped) {
        fn();
    }
    assert_int_equal(pthread_join(outsider, NULL), 0);
    return stopped;
}

static void all_is_back(unsigned at) {
    SUP_CHECK(epoch_state(allocator, epoch) == EPOCH_CLOSED, "step %u: the epoch holds memory without an object", at);
    end();
    sup_check_identities(allocator);
    sup_check_empty(allocator);
}

/* A block that another thread takes for shut while its epoch is being closed is shut to its owner's fast frees as well:
   objects that the owner frees afterwards do not stay in a flushed magazine. */
static void visited_while_closing(void **state) {
    (void)state;
    bool stopped = true;
    for (unsigned at = 0; stopped; at++) {
        stopped = close_with(at, visit_and_let_it_free);
        meet();
        all_is_back(at);
    }
}

/* A third thread frees the last objects at any step of the close, and their owner sleeps: the epoch ends. */
static void freed_while_closing(void **state) {
    (void)state;
    bool stopped = true;
    for (unsigned at = 0; stopped; at++) {
        stopped = close_with(at, free_outside);
        all_is_back(at);
    }
}

/* ---- the rolling epoch ------------------------------------------------------------------------------------------- */

static SlabAllocator *next_allocator;

static void exchange_allocators(void) {
    slab_allocator_free(allocator);
    next_allocator = slab_allocator_create();
    atomic_store(&done, true);
}

static void let_exchange(void) {
    atomic_store(&done, false);
    let_begin(exchange_allocators);
    wait_a_little();
}

/* The allocator ends, and another begins, at any step of a call that makes its rolling epoch or the next: the other
   one's is not touched. */
static void ended_while_rolling(void **state) {
    (void)state;
    for (int advance = 0; advance < 2; advance++) {
        bool stopped = true;
        for (unsigned at = 0; stopped; at++) {
            begin();
            sup_stop_arm(&at_step, at, let_exchange);
            (void)(advance ? ts_epoch_advance(record, ts_token(allocator))
                           : ts_epoch_current(record, ts_token(allocator)));
            stopped = sup_stop_disarm(&at_step);
            if (stopped) {
                meet();
                /* Without an allocation: this thread has no share that keeps the record from its next use. */
                SUP_CHECK(epoch_state(next_allocator, epoch_current(next_allocator)) == EPOCH_ACTIVE,
                          "step %u: the next allocator's rolling epoch is another's", at);
                slab_allocator_free(next_allocator);
                allocator = slab_allocator_create(); /* has none yet */
                record = ts_allocator_find(ts_token(allocator));
            }
            end();
        }
    }
}

/* The heap of a living thread cannot be held, and the thread ends before its block is condemned. */
static void ends_before_its_block_is_condemned(void **state) {
    (void)state;
    epoch = epoch_open(allocator, NULL, EPOCH_CHURN);
    begin();
    let(allocate);
    refuse_barrier = true;
    sup_stop_arm(&at_condemn, 0, end);
    assert_true(epoch_destroy(allocator, epoch));
    assert_true(sup_stop_disarm(&at_condemn));
    assert_int_equal(ts_load_relaxed(&other_heap->state), TS_HEAP_ABANDONED);
    SUP_CHECK(atomic_load(&other_heap->inbox) == NULL, "a dead block is left to nobody");
    sup_check_empty(allocator);
}

/* ---- a fork in the middle --------------------------------------------------------------------------------------- */

static void *others_object;

static void make_anothers(void) {
    others_object = slab_malloc_epoch(allocator, SIZE, epoch);
    SUP_CHECK(others_object != NULL, "slab_malloc_epoch");
}

static void in_the_child(void *argument) {
    static ts_check check;
    (void)argument;
    SUP_CHECK(ts_check_all(&check, true), "%s", check.why);
    slab_allocator_free(allocator);
    SUP_CHECK(ts_pool_used_units() == 0, "%llu units are lost", (unsigned long long)ts_pool_used_units());
    SUP_CHECK(ts_load_relaxed(&ts_heaps_abandoned) == 0, "a heap without a thread has blocks");
    SUP_CHECK(ts_check_all(&check, true), "at the end: %s", check.why);
}

static void fork_here(void) {
    int status = sup_child(in_the_child, NULL, SUP_CHILD_SECONDS, NULL, 0);
    SUP_CHECK(status == 0, "the child ended with status %d", status);
}

static void fork_elsewhere(void) {
    bool refused = refuse_barrier;
    refuse_barrier = false; /* the fork has to find this thread at rest */
    let(fork_here);
    refuse_barrier = refused;
}

/* Another thread forks between two steps of a thread that opens an epoch with its block, closes or destroys it: the
   child completes the call that the vanished thread had begun. */
static void forked_in_the_middle(void **state) {
    (void)state;
    for (unsigned kind = 0; kind < 16; kind++) {
        unsigned flags = kind & 1 ? EPOCH_SCOPE : EPOCH_CHURN;
        bool stopped = true;
        for (unsigned at = 0; stopped; at++) {
            begin();
            steps_are_free = true;
            if ((kind & ~8u) < 2) {
                sup_stop_arm(&at_step, at, fork_elsewhere);
                epoch = ts_epoch_open(record, record->token, NULL, flags, TS_FIRST_JOINS);
                stopped = sup_stop_disarm(&at_step);
                assert_int_not_equal(epoch, EPOCH_NONE);
            } else {
                epoch = ts_epoch_open(record, record->token, NULL, flags, TS_FIRST_JOINS);
                allocate();
                if (kind & 4) {
                    let(make_anothers);
                }
                refuse_barrier = (kind & 8) != 0; /* the other thread's block is left to it */
                sup_stop_arm(&at_step, at, fork_elsewhere);
                assert_true(kind & 2 ? ts_epoch_destroy(record, epoch) : ts_epoch_close(record, epoch));
                stopped = sup_stop_disarm(&at_step);
                refuse_barrier = false;
            }
            (void)epoch_destroy(allocator, epoch);
            steps_are_free = false;
            end();
        }
    }
}

#define WITH(test) cmocka_unit_test_setup_teardown(test, start, stop)

int main(void) {
    const struct CMUnitTest tests[] = {
        WITH(allocated_while_looked_for),
        WITH(visited_while_closing),
        WITH(freed_while_closing),
        WITH(ended_while_rolling),
        WITH(ends_before_its_block_is_condemned),
        WITH(forked_in_the_middle),
    };
    return cmocka_run_group_tests_name("epoch.epoch_steps", tests, NULL, NULL);
}
