/*
 * Other threads act between two steps of a thread that visits a heap or drops one. heap.c is compiled once more, in
 * place of the library's, with a place to stop at before every lock that is acquired, and behind every one that is
 * released. The barrier of a hold is a place too, and so is the end of each block's flush.
 */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include "fixture.h"
#include "identities.h"

#include "bins.h"
#include "cache/cache.h"
#include "errands.h"
#include "stops.h"
#include "supply/supply.h"
#include "walk/check_slabs.h"

static void acquires(const ts_lock *lock);
static void released(const ts_lock *lock);

#define ts_lock_acquire(l) (acquires(l), (ts_lock_acquire)(l))
#define ts_lock_release(l) ((ts_lock_release)(l), released(l))

static sup_stop at_flush;
static uint32_t flush_and_stop(ts_heap *heap, ts_block *b, uint64_t *recycled) {
    uint32_t scanned = ts_block_flush(heap, b, recycled);
    sup_stop_here(&at_flush);
    return scanned;
}
#define ts_block_flush flush_and_stop
#include "cache/life.c"
#undef ts_block_flush
#include "ownership/heap.c"
#undef ts_lock_acquire
#undef ts_lock_release

static ts_allocator *record;
static ts_os_table table;

static bool (*at_barrier)(void);
static bool barrier(void) { return at_barrier ? at_barrier() : ts_os_native.barrier_all(); }
static bool no_barrier(void) { return false; }

static const ts_lock *stop_lock;
static sup_stop at_acquire, at_release;

static void acquires(const ts_lock *lock) {
    if (lock == stop_lock) sup_stop_here(&at_acquire);
}

static void released(const ts_lock *lock) {
    if (lock == stop_lock) sup_stop_here(&at_release);
}

static int start(void **state) {
    SlabOptions options = {.size = sizeof options, .reclaim_policy = SLAB_RECLAIM_KEEP};
    (void)state;
    table = ts_os_native;
    table.barrier_all = barrier;
    ts_os = &table;
    at_barrier = NULL;
    stop_lock = NULL;
    at_acquire = at_release = (sup_stop){NULL, 0};
    allocator = slab_allocator_create_ex(&options);
    record = ts_allocator_find(ts_token(allocator));
    return record == NULL || ts_heap_mine() == NULL;
}

static bool have_barrier(void) {
    if (!ts_os_native.barrier_all()) {
        print_message("skipped: the system has no barrier for all threads\n");
        return false;
    }
    return true;
}

enum { COUNT = 100 };
static EpochId epoch, other;
static char *objects[COUNT];
static ts_block *block;

static void make_objects(void) {
    for (int i = 0; i < COUNT; i++) {
        objects[i] = slab_malloc_epoch(allocator, 100, epoch);
        SUP_CHECK(objects[i] != NULL, "object %d", i);
    }
}

static void free_objects(void) {
    for (int i = 0; i < COUNT; i++) {
        SUP_CHECK(slab_free(allocator, objects[i]), "object %d", i);
    }
}

static void nothing(void) {}
static void idle(void) { slab_thread_idle(); }

/* A thread with a block in `epoch`. */
static void begin_with_objects(void) {
    epoch = epoch_open(allocator, NULL, EPOCH_CHURN);
    begin();
    let(make_objects);
    block = block_of(objects[0]);
}

/* ---- a heap that is let go ------------------------------------------------------------------------------------ */

static ts_heap *seen;

/* Another thread lists the heap as free, and a third takes it, allocates and ends. */
static void served_a_thread_more(void) {
    assert_true(ts_heap_hold(seen));
    ts_heap_drop(seen);
    assert_true(seen->listed_free);
    epoch = other;
    begin();
    let(make_objects);
    end();
    assert_ptr_equal(other_heap, seen);
    assert_int_equal(ts_load_relaxed(&seen->state), TS_HEAP_ABANDONED);
}

/* A heap that was unused when it was let go, and has blocks when it is to be listed as free. */
static void used_again_before_it_is_listed(void **state) {
    (void)state;
    begin_with_objects();
    end();
    seen = other_heap;
    EpochId first = epoch;
    other = epoch_open(allocator, NULL, EPOCH_CHURN);
    stop_lock = &seen->lock;
    sup_stop_arm(&at_release, 0, served_a_thread_more);
    assert_true(epoch_destroy(allocator, first)); /* holds the heap, ends its last block, lets go */
    assert_true(sup_stop_disarm(&at_release));
    assert_non_null(ts_heap_first_block(seen));
    SUP_CHECK(!seen->listed_free, "a heap with blocks is listed as free");
    begin();
    let(nothing);
    SUP_CHECK(other_heap != seen, "a new thread got a heap with blocks");
    end();
    assert_int_equal(sup_live_objects(allocator), COUNT);
    sup_check_identities(allocator);
    assert_true(epoch_destroy(allocator, other));
    sup_check_empty(allocator);
}

static void close_and_free(void) {
    SUP_CHECK(epoch_close(allocator, other), "epoch_close");
    for (int i = 0; i < COUNT; i += 8) SUP_CHECK(slab_free(allocator, objects[i]), "object %d", i);
}
static void let_close_and_free(void) { let(close_and_free); }

/* The last flush of a block comes after all that drains: the thread has a block that was closed meanwhile, and objects
   of the block that is flushed first are freed behind its flush, so few that they go to the magazine. */
static void freed_behind_the_flush(void **state) {
    (void)state;
    epoch = epoch_open(allocator, NULL, EPOCH_CHURN);
    other = epoch_open(allocator, NULL, EPOCH_CHURN);
    void *p = slab_malloc_epoch(allocator, 100, other);
    make_objects();
    for (int i = 0; i < COUNT; i++) assert_true(i % 8 == 0 || slab_free(allocator, objects[i]));
    block = block_of(objects[0]);
    begin();
    sup_stop_arm(&at_flush, 0, let_close_and_free);
    ts_heap_exit(ts_thread.heap);
    assert_true(sup_stop_disarm(&at_flush));
    SUP_CHECK(ts_load_relaxed(&block->slabs) == 0, "an ended thread's magazine keeps a slab");
    end();
    assert_true(slab_free(allocator, p));
    assert_true(epoch_destroy(allocator, epoch));
    sup_check_empty(allocator);
}

/* ---- visits of a heap ------------------------------------------------------------------------------------------- */

/* As a destroy by another thread that cannot hold the heap. */
static void kill_block(void) {
    ts_epoch *e = ts_load_relaxed(&block->epoch);
    ts_lock_acquire(ts_epoch_lock(e));
    assert_ptr_equal(ts_load_relaxed(&e->blocks), block);
    ts_store_relaxed(&e->blocks, NULL);
    ts_lock_release(ts_epoch_lock(e));
    ts_store_relaxed(&block->open_id, TS_ID_NEVER);
    ts_block_kill(block);
    ts_allocator_pin(record);
    ts_heap_post_end(other_heap, block);
}

static unsigned barriers;

/* Inside of the hold, where no lock of a lower rank may be taken: only the last steps of the destroy. */
static bool barrier_then_condemn(void) {
    bool done = ts_os_native.barrier_all();
    if (barriers++ == 0) {
        ts_store_relaxed(&block->open_id, TS_ID_NEVER);
        ts_block_kill(block);
        ts_allocator_pin(record);
        ts_heap_post_end(other_heap, block);
    } else {
        SUP_CHECK(ts_load_relaxed(&block->slabs) > 0, "a block was ended that was condemned after the only barrier");
    }
    return done;
}

/* An operation of the thread that began before the kill may still be at work in a block that is condemned after the
   visitor's barrier: it is left to the next visitor, which takes a barrier of its own. */
static void condemned_after_the_barrier(void **state) {
    (void)state;
    if (!have_barrier()) {
        skip();
    }
    begin_with_objects();
    ts_epoch *e = ts_load_relaxed(&block->epoch);
    ts_lock_acquire(ts_epoch_lock(e));
    ts_store_relaxed(&e->blocks, NULL);
    ts_lock_release(ts_epoch_lock(e));
    barriers = 0;
    at_barrier = barrier_then_condemn;
    ts_heap_visit(other_heap, record);
    at_barrier = NULL;
    SUP_CHECK(barriers == 2, "%u barriers", barriers);
    SUP_CHECK(ts_load_seq(&other_heap->inbox) == NULL && ts_load_relaxed(&block->slabs) == 0, "not ended");
    end();
    assert_true(epoch_destroy(allocator, epoch));
    sup_check_empty(allocator);
}

static bool first_barrier(void) { return barriers++ == 0 && ts_os_native.barrier_all(); }
static void usual_call(void) {
    void *p = slab_malloc_epoch(allocator, 100, other);
    SUP_CHECK(p != NULL && slab_free(allocator, p), "a usual call");
}
static uintptr_t their_token(void) { return ts_load_relaxed(&other_heap->tls->token); }

/* The visitor has the list, and the second barrier does not come: the list is put back whole, and the thread is
   called. */
static void list_is_put_back(void **state) {
    (void)state;
    if (!have_barrier()) {
        skip();
    }
    begin_with_objects();
    other = epoch_open(allocator, NULL, EPOCH_CHURN);
    let(usual_call);
    let(usual_call);
    assert_int_equal(their_token(), ts_token(allocator));
    kill_block();
    ts_block *second = ts_load_relaxed(&ts_epoch_find(record, other)->blocks);
    assert_true(epoch_close(allocator, other)); /* flushed; a mark more does no harm */
    ts_heap_post_flush(other_heap, second);
    barriers = 0;
    at_barrier = first_barrier;
    ts_heap_visit(other_heap, record);
    at_barrier = NULL;
    SUP_CHECK(barriers == 3 && ts_load_relaxed(&block->slabs) > 0, "%u barriers", barriers); /* and the call */
    assert_ptr_equal(ts_load_relaxed(&other_heap->inbox), second);
    assert_ptr_equal((ts_block *)(ts_load_relaxed(&second->left) & ~TS_LEFT_MARKS), block);
    assert_int_equal(ts_load_relaxed(&block->left), TS_POST_END);
    assert_true(ts_heap_is_notified(other_heap));
    assert_int_equal(their_token(), TS_TOKEN_CALLED);
    other = epoch_open(allocator, NULL, EPOCH_CHURN);
    let(usual_call);
    SUP_CHECK(ts_load_seq(&other_heap->inbox) == NULL && ts_load_relaxed(&block->slabs) == 0, "not worked off");
    assert_false(ts_heap_is_notified(other_heap));
    let(usual_call);
    assert_int_equal(their_token(), ts_token(allocator));
    end();
    assert_true(epoch_destroy(allocator, epoch));
    assert_true(epoch_destroy(allocator, other));
    sup_check_empty(allocator);
}

static bool barrier_then_shut(void) {
    bool done = ts_os_native.barrier_all();
    if (barriers++ == 0) {
        ts_store_relaxed(&block->open_id, TS_ID_NEVER);
        ts_block_shut(block);
        ts_heap_post_flush(other_heap, block);
    } else {
        SUP_CHECK(!ts_load_relaxed(&block->flushed), "a block was flushed that was shut after the only barrier");
    }
    return done;
}

/* A block that is shut after the barrier of the hold needs a barrier more before it is flushed. */
static void shut_after_the_barrier(void **state) {
    (void)state;
    if (!have_barrier()) {
        skip();
    }
    begin_with_objects();
    barriers = 0;
    at_barrier = barrier_then_shut;
    ts_heap_visit(other_heap, record);
    at_barrier = NULL;
    SUP_CHECK(barriers == 2, "%u barriers", barriers);
    SUP_CHECK(ts_load_relaxed(&block->flushed), "not flushed");
    assert_int_equal(block->closing, TS_CLOSING);
    let(free_objects);
    let(idle);
    end();
    assert_int_equal(sup_live_objects(allocator), 0);
    assert_true(epoch_destroy(allocator, epoch));
    sup_check_empty(allocator);
}

static bool only_the_first_barrier(void) { return barriers > 0 ? (barriers++, false) : barrier_then_shut(); }

/* If the second hold fails the next visitor goes on. */
static void not_held_again(void **state) {
    (void)state;
    if (!have_barrier()) {
        skip();
    }
    begin_with_objects();
    barriers = 0;
    at_barrier = only_the_first_barrier;
    ts_heap_visit(other_heap, record);
    SUP_CHECK(barriers == 3 && block->closing == TS_OPEN, "%u barriers", barriers); /* the last to call the thread */
    at_barrier = NULL;
    ts_heap_visit(other_heap, record);
    SUP_CHECK(ts_load_relaxed(&block->flushed), "not flushed");
    end();
    assert_true(epoch_destroy(allocator, epoch));
    sup_check_empty(allocator);
}

/* The thread that closes an epoch cannot hold the heap of another thread with a block in it. The next holder of that
   heap flushes the block, and its last slabs end the epoch. */
static void what_a_close_has_missed(void **state) {
    (void)state;
    if (!have_barrier()) {
        skip();
    }
    begin_with_objects();
    let(free_objects);
    at_barrier = no_barrier;
    assert_true(epoch_close(allocator, epoch));
    SUP_CHECK(!ts_load_relaxed(&block->flushed) && ts_load_relaxed(&block->slabs) > 0, "held without a barrier");
    at_barrier = NULL;
    (void)slab_trim(allocator);
    SUP_CHECK(ts_load_relaxed(&block->slabs) == 0, "a closed block was not flushed");
    assert_int_equal(epoch_state(allocator, epoch), EPOCH_CLOSED);
    end();
    sup_check_empty(allocator);
}

/* A visit looks at no block while none was missed: its time does not depend on how many there are. */
static void nothing_was_missed(void **state) {
    (void)state;
    begin_with_objects();
    SUP_CHECK(!ts_load_relaxed(&other_heap->inbox), "a block is to be looked for");
    let(free_objects);
    assert_true(epoch_close(allocator, epoch));
    SUP_CHECK(!have_barrier() || !ts_load_relaxed(&other_heap->inbox), "a block that was flushed is looked for");
    end();
    (void)slab_trim(allocator);
    sup_check_empty(allocator);
}

static bool count_barriers(void) {
    barriers++;
    return ts_os_native.barrier_all();
}

static void make_retained(void) {
    EpochId phase = epoch_open(allocator, NULL, EPOCH_SCOPE);
    SUP_CHECK(slab_malloc_epoch(allocator, 100, phase) != NULL && epoch_destroy(allocator, phase), "a phase");
}

/* A trim stops no thread that has nothing for it. */
static void holds_who_has_something(void **state) {
    (void)state;
    if (!have_barrier()) {
        skip();
    }
    begin_with_objects();
    ts_share *share = ts_heap_find_share(other_heap, ts_token(allocator));
    at_barrier = count_barriers;
    barriers = 0;
    (void)slab_trim(allocator);
    SUP_CHECK(barriers == 0, "%u barriers for nothing", barriers);
    let(make_retained);
    assert_int_equal(ts_load_relaxed(&share->retained.count), 1);
    (void)slab_trim(allocator);
    SUP_CHECK(barriers > 0 && ts_load_relaxed(&share->retained.count) == 0, "what a thread keeps was not taken");
    barriers = 0;
    assert_true(slab_free(allocator, objects[0])); /* another thread's */
    (void)slab_trim(allocator);
    SUP_CHECK(barriers > 0, "a heap with foreign frees was not held"); /* those of open blocks stay on its queue */
    at_barrier = NULL;
    end();
    assert_true(epoch_destroy(allocator, epoch));
    sup_check_empty(allocator);
}

/* ---- a thread that ends ---------------------------------------------------------------------------------------- */

static void *free_and_drain(void *unused) {
    free_objects();
    if (ts_heap_hold(other_heap)) {
        ts_foreign_drain(other_heap);
        ts_heap_drop(other_heap);
    }
    return unused;
}

/* In the thread that ends, which has flushed its bins and holds nothing: a third one comes. */
static void third_thread(void) { sup_in_thread(free_and_drain, NULL); }

/* No object that others free while the thread ends stays with its heap, as the epoch stays open. */
static void freed_while_its_thread_ends(void **state) {
    (void)state;
    begin_with_objects();
    stop_lock = &other_heap->lock;
    sup_stop_arm(&at_acquire, 0, third_thread);
    end();
    assert_true(sup_stop_disarm(&at_acquire));
    assert_int_equal(ts_load_relaxed(&block->slabs), 0);
    assert_int_equal(sup_live_objects(allocator), 0);
    assert_true(epoch_destroy(allocator, epoch));
    sup_check_empty(allocator);
}

#define WITH(test) cmocka_unit_test_setup_teardown(test, start, stop)

int main(void) {
    const struct CMUnitTest tests[] = {
        WITH(used_again_before_it_is_listed), WITH(freed_behind_the_flush),
        WITH(condemned_after_the_barrier),    WITH(list_is_put_back),
        WITH(shut_after_the_barrier),         WITH(not_held_again),
        WITH(what_a_close_has_missed),        WITH(nothing_was_missed),
        WITH(freed_while_its_thread_ends),    WITH(holds_who_has_something),
    };
    return cmocka_run_group_tests_name("ownership.heap_steps", tests, NULL, NULL);
}
