/*
 * Hand-overs from thread to thread, at the moments at which two of them meet: a heap that is held, a slab that is about
 * to be queued, a thread that is about to end.
 */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include "fixture.h"
#include "identities.h"
#include "proc.h"

#include "bins.h"
#include "cache/cache.h"
#include "epoch/epoch.h"
#include "errands.h"
#include "pin.h"
#include "supply/supply.h"
#include "walk/check_pool.h"

#include <errno.h>
#include <pthread.h>
#include <stdatomic.h>
#include <sys/wait.h>
#include <unistd.h>

static ts_allocator *record;
static ts_os_table table;
static atomic_bool refuse_barrier;

static bool test_barrier(void) { return !refuse_barrier && ts_os_native.barrier_all(); }

static int start(void **state) {
    SlabOptions options = {.size = sizeof options, .reclaim_policy = SLAB_RECLAIM_KEEP};
    (void)state;
    table = ts_os_native;
    table.barrier_all = test_barrier;
    ts_os = &table;
    refuse_barrier = false;
    allocator = slab_allocator_create_ex(&options);
    record = ts_allocator_find(ts_token(allocator));
    return record == NULL || ts_heap_mine() == NULL;
}

enum { COUNT = 100 };
static EpochId epoch;
static size_t size = 100;
static char *objects[COUNT];
static char *object;

static void make_objects(void) {
    for (int i = 0; i < COUNT; i++) {
        objects[i] = slab_malloc_epoch(allocator, size, epoch);
        SUP_CHECK(objects[i] != NULL, "object %d", i);
    }
}

static void free_until_refused(void) {
    for (int i = 0; i < COUNT; i++) {
        (void)slab_free(allocator, objects[i]);
    }
}

static void free_object(void) { SUP_CHECK(slab_free(allocator, object), "slab_free"); }
static void idle(void) { slab_thread_idle(); }
static void nothing(void) {}

static bool hold_other(void) {
    for (int i = 0; i < 1000; i++) {
        if (ts_heap_hold(other_heap)) {
            return true;
        }
        sup_sleep_ms(1);
    }
    return false;
}

static bool have_barrier(void) {
    if (!ts_os_native.barrier_all()) {
        print_message("skipped: the system has no barrier for all threads\n");
        return false;
    }
    return true;
}

static uint64_t word_of(const void *p) {
    uint64_t entry;
    return ts_load_seq(ts_unit_word(unit_of(p, &entry)));
}

static void drain(void) {
    ts_heap_enter(ts_thread.heap);
    ts_foreign_drain(ts_thread.heap);
    ts_heap_leave(ts_thread.heap);
    ts_epoch_run_deferred();
}

/* As a foreign free that was stopped before its last step: bit and flag are set, the slab is on no queue yet. */
static uint32_t free_unqueued(const void *p) {
    uint64_t entry, retries = 0;
    uint32_t unit = unit_of(p, &entry);
    assert_int_equal(ts_foreign_free(unit, entry, record->token, TS_ANY_GENERATION, &retries), TS_FOREIGN_FREED);
    assert_int_equal(ts_exchange_seq(&ts_thread.heap->queue, 0), unit);
    return unit;
}

/* ---- a heap that is held ------------------------------------------------------------------------------------ */

/* Nobody frees a foreign object while somebody holds his heap: the heaps that fork() holds are whole. */
static void foreign_free_waits(void **state) {
    (void)state;
    if (!have_barrier()) {
        skip();
    }
    epoch = epoch_open(allocator, NULL, EPOCH_CHURN);
    object = slab_malloc_epoch(allocator, size, epoch);
    begin();
    let(make_objects); /* so that it is bound to the allocator, and the free is all that it does */
    let(free_until_refused);
    assert_true(hold_other());
    let_begin(free_object);
    until_worker_waits();
    bool done = word_of(object) & TS_UNIT_FOREIGN;
    ts_heap_drop(other_heap);
    meet();
    SUP_CHECK(!done, "a foreign free by a thread whose heap is held");
    SUP_CHECK(word_of(object) & TS_UNIT_FOREIGN, "the free after that");
    end();
    drain();
    assert_int_equal(sup_live_objects(allocator), 0);
    assert_true(epoch_destroy(allocator, epoch));
}

static unsigned free_slots(const ts_bin *bin) {
    unsigned n = 0;
    for (uint32_t unit = ts_bin_head(bin); unit; unit = ts_slab_at(unit)->next) {
        n += ts_slab_at(unit)->free_count;
    }
    return n;
}

/* The list of a bin stays as it is while the heap is held, also to fast allocations. */
static void fast_allocation_waits(void **state) {
    (void)state;
    if (!have_barrier()) {
        skip();
    }
    epoch = epoch_open(allocator, NULL, EPOCH_CHURN);
    begin();
    let(make_objects);
    ts_bin *bin = &ts_churn(block_of(objects[0]))->bin[ts_classes.of[(size + 15) / 16]];
    assert_true(hold_other());
    unsigned before = free_slots(bin);
    assert_true(before > 0);
    let_begin(make_objects);
    until_worker_waits();
    unsigned after = free_slots(bin);
    ts_heap_drop(other_heap);
    meet();
    SUP_CHECK(after == before, "%u slots free while the heap was held, %u before", after, before);
    SUP_CHECK(free_slots(bin) != before, "the allocations after that");
    end();
    assert_int_equal(sup_live_objects(allocator), 2 * COUNT);
    sup_check_identities(allocator);
    assert_true(epoch_destroy(allocator, epoch));
}

/* So does the first slab of a churn domain, which has more to it than its bump word (alloc.c, small_at_hand). */
static void small_allocation_waits(void **state) {
    (void)state;
    if (!have_barrier()) {
        skip();
    }
    EpochDomain *domain = epoch_domain_create_ex(allocator, NULL, EPOCH_CHURN);
    epoch = epoch_domain_epoch(domain);
    size = 16;
    begin();
    let(make_objects);
    const ts_scope_block *block = ts_scope(block_of(objects[0]));
    SUP_CHECK(block->b.scope, "it starts small");
    assert_true(hold_other());
    uint64_t before = ts_load_seq(&block->bump);
    let_begin(make_objects);
    until_worker_waits();
    uint64_t after = ts_load_seq(&block->bump);
    ts_heap_drop(other_heap);
    meet();
    size = 100;
    SUP_CHECK(after == before, "an object while the heap was held");
    end();
    assert_int_equal(sup_live_objects(allocator), 2 * COUNT);
    epoch_domain_destroy(domain);
}

/* The block ends between the two halves of a free whose magazine was full: the slot is nobody's. */
static void block_ends_in_a_free_past_the_magazine(void **state) {
    (void)state;
    if (!have_barrier()) {
        skip();
    }
    epoch = epoch_open(allocator, NULL, EPOCH_CHURN);
    size = 4096; /* a slot that comes back to a full slab moves it */
    begin();
    let(make_objects);
    ts_block *block = block_of(objects[0]);
    ts_bin *bin = &ts_churn(block)->bin[ts_classes.of[size / 16]];
    ts_epoch *e = ts_load_relaxed(&block->epoch);
    ts_lock_acquire(ts_epoch_lock(e));
    assert_true(e->blocks == block);
    e->blocks = NULL;
    ts_lock_release(ts_epoch_lock(e));
    assert_true(hold_other());
    let_begin(free_until_refused);
    while (ts_load_relaxed(&bin->direct_frees) == 0) {
        sup_sleep_ms(1);
    }
    until_worker_waits();
    ts_block_kill(block);
    ts_block_end(other_heap, block);
    ts_heap_drop(other_heap);
    meet();
    SUP_CHECK(ts_bin_head(bin) == 0 && ts_load_relaxed(&bin->slabs) == 0 && ts_bin_full(bin) == 0,
              "the bin of an ended block has unit %u", ts_bin_head(bin));
    end();
    assert_int_equal(sup_live_objects(allocator), 0);
    size = 100;
    assert_true(epoch_destroy(allocator, epoch));
    sup_check_empty(allocator);
}

static atomic_bool entered, inside;

static void stay_inside(void) {
    ts_heap_enter(ts_thread.heap);
    atomic_store(&inside, true);
    atomic_store(&entered, true);
    for (double until = sup_now_s() + 0.003; sup_now_s() < until;) {
    }
    atomic_store(&inside, false);
    ts_heap_leave(ts_thread.heap);
}

/* The other thread is within an operation, and stays there for a while. */
static void other_enters(void) {
    atomic_store(&entered, false);
    let_begin(stay_inside);
    while (!atomic_load(&entered)) {
        ts_os->yield();
    }
}

/* A holder of a heap has waited for the end of its thread's operation. */
static void hold_waits(void **state) {
    (void)state;
    if (!have_barrier()) {
        skip();
    }
    begin();
    let(nothing);
    for (int i = 0; i < 20; i++) {
        other_enters();
        if (ts_heap_hold(other_heap)) {
            SUP_CHECK(!atomic_load(&inside), "held while its thread is inside");
            ts_heap_drop(other_heap);
        }
        meet();
    }
    end();
}

/* A child finds no heap in the middle of something, or does not use it. */
static void fork_waits(void **state) {
    (void)state;
    if (!have_barrier()) {
        skip();
    }
    begin();
    let(nothing);
    for (int i = 0; i < 20; i++) {
        other_enters();
        pid_t child = fork();
        assert_true(child >= 0);
        if (child == 0) {
            _exit(atomic_load(&inside) && ts_load_relaxed(&other_heap->state) != TS_HEAP_LOST);
        }
        int status = 1;
        assert_int_equal(waitpid(child, &status, 0), child);
        SUP_CHECK(status == 0, "the child has a heap in the middle of something");
        meet();
    }
    end();
}

/* As if the thread were in the middle of an allocation: the object is off the magazine, and not live yet. */
static void tear(void) {
    ts_bin *bin = &ts_churn(block_of(objects[0]))->bin[ts_classes.of[(size + 15) / 16]];
    SUP_CHECK(ts_bin_depth(bin) != 0, "nothing in the magazine");
    ts_store_relaxed(&bin->top, ts_load_relaxed(&bin->top) + TS_TOP_POP);
}

static void mend(void) {
    ts_bin *bin = &ts_churn(block_of(objects[0]))->bin[ts_classes.of[(size + 15) / 16]];
    ts_store_relaxed(&bin->top, ts_load_relaxed(&bin->top) - TS_TOP_POP);
}

static void take_over_in_the_child(void *argument) {
    ts_block *block = argument;
    SUP_CHECK(slab_malloc_epoch(allocator, size, epoch) != NULL, "in the child");
    SUP_CHECK(ts_load_relaxed(&block->heap) == ts_thread.heap, "the block of a thread that is not in the child");
    (void)check_bin(ts_churn(block), ts_classes.of[(size + 15) / 16]);
    sup_check_identities(allocator);
}

/* The child completes from the live words the half-done changes of a vanished thread's fast paths. */
static void child_makes_it_whole(void **state) {
    (void)state;
    if (!have_barrier()) {
        skip();
    }
    epoch = epoch_open(allocator, NULL, EPOCH_CHURN);
    begin();
    let(make_objects);
    let(free_until_refused);
    let(tear);
    char err[1024];
    int status = sup_child(take_over_in_the_child, block_of(objects[0]), 20, err, sizeof err);
    SUP_CHECK(status == 0, "the child: %s", err);
    let(mend);
    end();
    assert_int_equal(sup_live_objects(allocator), 0);
    assert_true(epoch_destroy(allocator, epoch));
}

/* ---- a slab with foreign frees ------------------------------------------------------------------------------- */

/* Objects of the block but for those whose free its owner has collected. The statistics count those not yet collected
   as freed too. */
static uint64_t not_collected(ts_block *block) {
    ts_tally t = ts_block_tally(block, UINT32_MAX);
    return t.allocated - t.freed;
}

/* The flag is set and nothing is queued yet: the owner looks at the bit. */
static void freed_but_not_queued(void **state) {
    (void)state;
    for (unsigned flags = EPOCH_CHURN; flags <= EPOCH_SCOPE; flags++) {
        epoch = epoch_open(allocator, NULL, flags);
        make_objects();
        SlabHandle handle = slab_handle_of(allocator, objects[0]);
        uint32_t unit = free_unqueued(objects[0]);
        assert_false(slab_free(allocator, objects[0]));
        assert_false(free_obj(allocator, handle));
        assert_true(slab_free(allocator, objects[1]));
        assert_int_equal(not_collected(block_of(objects[0])), COUNT - 1); /* the bit still waits */
        assert_int_equal(sup_live_objects(allocator), COUNT - 2);
        ts_store_seq(&ts_thread.heap->queue, unit);
        drain();
        assert_int_equal(sup_live_objects(allocator), COUNT - 2);
        sup_check_identities(allocator);
        assert_true(epoch_destroy(allocator, epoch));
    }
}

/* An empty slab that is about to be queued stays with its block until it comes off the queue. */
static void empty_but_not_queued(void **state) {
    (void)state;
    for (unsigned flags = EPOCH_CHURN; flags <= EPOCH_SCOPE; flags++) {
        epoch = epoch_open(allocator, NULL, flags);
        make_objects();
        uint64_t entry, word = word_of(objects[0]);
        uint32_t unit = unit_of(objects[0], &entry);
        ts_block *block = block_of(objects[0]);
        free_until_refused();
        assert_int_equal(word_of(objects[0]), word);
        ts_store_seq(ts_unit_word(unit), word | TS_UNIT_FOREIGN);
        idle();
        assert_true(word_of(objects[0]) == (word | TS_UNIT_FOREIGN));
        assert_int_equal(ts_load_relaxed(&block->slabs), 1);
        ts_store_relaxed(&ts_slab_at(unit)->queue_next, 0);
        ts_store_seq(&ts_thread.heap->queue, unit);
        drain();
        idle();
        assert_int_equal(word_of(objects[0]), 0);
        assert_int_equal(ts_load_relaxed(&block->slabs), 0);
        sup_check_identities(allocator);
        assert_true(epoch_destroy(allocator, epoch));
    }
}

/* The owner of the block has changed while the slab was pushed: the thread that drains passes it on. */
static void on_the_queue_of_another(void **state) {
    (void)state;
    epoch = epoch_open(allocator, NULL, EPOCH_CHURN);
    make_objects();
    begin();
    let(nothing);
    uint32_t unit = free_unqueued(objects[0]);
    ts_store_seq(&other_heap->queue, unit);
    let(idle);
    SUP_CHECK(ts_load_seq(&other_heap->queue) == 0, "it stays on the wrong queue");
    SUP_CHECK(ts_load_seq(&ts_thread.heap->queue) == unit, "it is not on its owner's queue");
    SUP_CHECK(not_collected(block_of(objects[0])) == COUNT, "the object was taken in by another thread");
    SUP_CHECK(sup_live_objects(allocator) == COUNT - 1, "its free does not count");
    end();
    drain();
    assert_int_equal(sup_live_objects(allocator), COUNT - 1);
    sup_check_identities(allocator);
    assert_true(epoch_destroy(allocator, epoch));
}

/* A visitor of a heap leaves the open blocks of its thread alone. */
static void visitor_of_an_open_block(void **state) {
    (void)state;
    epoch = epoch_open(allocator, NULL, EPOCH_CHURN);
    begin();
    let(make_objects);
    object = objects[0];
    free_object();
    (void)slab_trim(allocator);
    uint64_t entry;
    SUP_CHECK(word_of(object) & TS_UNIT_FOREIGN, "the slab is off the queue");
    SUP_CHECK(ts_load_seq(&other_heap->queue) == unit_of(object, &entry), "the queue");
    ts_block *block = block_of(object);
    SUP_CHECK(not_collected(block) == COUNT, "the object was taken in");
    let(idle);
    assert_int_equal(not_collected(block), COUNT - 1);
    assert_int_equal(sup_live_objects(allocator), COUNT - 1);
    end();
    sup_check_identities(allocator);
    assert_true(epoch_destroy(allocator, epoch));
}

/* One drain can leave slabs to the heaps of several ended threads. */
static void two_ended_threads(void **state) {
    (void)state;
    ts_heap *heaps[2];
    char *kept[2];
    EpochId epochs[2];
    for (int i = 0; i < 2; i++) {
        epochs[i] = epoch = epoch_open(allocator, NULL, EPOCH_CHURN);
        begin();
        let(make_objects);
        kept[i] = objects[0];
        heaps[i] = other_heap;
        end();
    }
    assert_ptr_not_equal(heaps[0], heaps[1]);
    for (int i = 0; i < 2; i++) {
        uint64_t entry, retries = 0;
        uint32_t unit = unit_of(kept[i], &entry);
        assert_int_equal(ts_foreign_free(unit, entry, record->token, TS_ANY_GENERATION, &retries), TS_FOREIGN_FREED);
    }
    ts_epoch_run_deferred();
    for (int i = 0; i < 2; i++) {
        assert_int_equal(ts_load_seq(&heaps[i]->queue), 0);
    }
    assert_int_equal(sup_live_objects(allocator), 2 * COUNT - 2);
    assert_true(epoch_destroy(allocator, epochs[0]) && epoch_destroy(allocator, epochs[1]));
}

/* Nobody allocates from the bins of a thread that has ended: slabs of these bins that become empty later are retained,
   and go back in a trim. */
static void *fill_and_end(void *argument) {
    char **all = argument;
    for (int i = 0; i < COUNT; i++) {
        all[i] = slab_malloc_epoch(allocator, 5000, epoch);
        SUP_CHECK(all[i] != NULL, "object %d", i);
    }
    return NULL;
}

static void keeps_no_empty_slabs(void **state) {
    (void)state;
    SlabEpochStats stats;
    epoch = epoch_open(allocator, NULL, EPOCH_CHURN);
    sup_in_thread(fill_and_end, objects);
    for (int i = 0; i < COUNT; i++) {
        assert_true(slab_free(allocator, objects[i]));
    }
    assert_true(slab_stats_epoch(allocator, SLAB_ALL_CLASSES, epoch, &stats));
    assert_int_equal(stats.state, EPOCH_ACTIVE);
    assert_int_equal(stats.slab_count, 0);
    assert_true(slab_trim(allocator) > 0);
    sup_check_empty(allocator);
    assert_true(epoch_destroy(allocator, epoch));
}

/* A thread that still holds the value of an ended allocator does not revive its record. */
static void record_of_an_ended_allocator(void **state) {
    (void)state;
    uint64_t pins = ts_load_relaxed(&record->pins);
    assert_false(ts_allocator_pin_use(record, record->token + 1));
    assert_int_equal(ts_load_relaxed(&record->pins), pins);
    ts_store_relaxed(&record->pins, 0);
    assert_false(ts_allocator_pin_use(record, record->token));
    assert_int_equal(ts_load_relaxed(&record->pins), 0);
    ts_store_relaxed(&record->pins, pins);
    ts_store_relaxed(&record->record.id, 0);
    errno = 0;
    assert_null(ts_heap_share(ts_thread.heap, record));
    assert_int_equal(errno, EINVAL);
    ts_store_relaxed(&record->record.id, record->token);
    assert_true(ts_allocator_pin_use(record, record->token));
    ts_allocator_unpin(record);
}

/* ---- epochs ------------------------------------------------------------------------------------------------- */

static void join_epoch(void) { SUP_CHECK(ts_epoch_join(ts_thread.heap, record, epoch) != NULL, "ts_epoch_join"); }

/* A block without slabs whose thread may be on its way to one: the epoch ends when the thread has seen the close. */
static void closed_before_the_first_slab(void **state) {
    (void)state;
    epoch = epoch_open(allocator, NULL, EPOCH_CHURN);
    begin();
    let(join_epoch);
    refuse_barrier = true;
    assert_true(epoch_close(allocator, epoch));
    SUP_CHECK(epoch_state(allocator, epoch) == EPOCH_CLOSING, "the epoch ended before its thread looked");
    let(idle);
    assert_int_equal(epoch_state(allocator, epoch), EPOCH_CLOSED);
    end();
    refuse_barrier = false;
    sup_check_empty(allocator);
}

/* A thread that pinned the epoch walks its blocks: a reset takes them apart later. */
static void reset_while_pinned(void **state) {
    (void)state;
    for (unsigned flags = EPOCH_CHURN; flags <= EPOCH_SCOPE; flags++) {
        uint64_t units = 0;
        ts_block *list;
        epoch = epoch_open(allocator, NULL, flags);
        make_objects();
        ts_epoch *e = sup_epoch_pin(record, epoch, &list);
        assert_non_null(e);
        assert_true(ts_epoch_reset(record, epoch, &units));
        assert_true(units >= 1 && ts_load_relaxed(&list->slabs) == units);
        assert_true(ts_load_relaxed(&list->epoch) == e);
        assert_false(slab_owns(allocator, objects[0]));
        ts_epoch_unpin(e);
        assert_int_equal(ts_load_relaxed(&list->slabs), 0);
        assert_int_equal(sup_live_objects(allocator), 0);
        assert_true(epoch_destroy(allocator, epoch));
        sup_check_empty(allocator);
    }
}

/* ---- threads that live, and threads that end ------------------------------------------------------------------ */

static void nothing_is_taken_from_the_living(void **state) {
    (void)state;
    for (unsigned flags = EPOCH_CHURN; flags <= EPOCH_SCOPE; flags++) {
        epoch = epoch_open(allocator, NULL, flags);
        begin();
        let(make_objects);
        object = slab_malloc_epoch(allocator, size, epoch);
        SUP_CHECK(ts_load_relaxed(&block_of(objects[0])->heap) == other_heap, "taken from a thread that lives");
        SUP_CHECK(ts_load_relaxed(&block_of(object)->heap) == ts_thread.heap, "no block of its own");
        end();
        assert_true(epoch_destroy(allocator, epoch));
    }
}

/* Stops the other thread's end where it has given everything back and not yet said that it has ended. */
static void stop_its_end(const ts_block *block) {
    ts_lock_acquire(&other_heap->lock);
    let_begin(NULL);
    while (ts_load_seq(&block->key) >> TS_KEY_SHARE_SHIFT != 0) {
        sup_sleep_ms(1);
    }
    assert_int_equal(ts_load_relaxed(&other_heap->state), TS_HEAP_LIVE);
}

static void let_it_end(void) {
    ts_lock_release(&other_heap->lock);
    join();
    assert_int_equal(ts_load_relaxed(&other_heap->state), TS_HEAP_ABANDONED);
}

static void foreign_free_at_its_end(void **state) {
    (void)state;
    for (unsigned flags = EPOCH_CHURN; flags <= EPOCH_SCOPE; flags++) {
        epoch = epoch_open(allocator, NULL, flags);
        begin();
        let(make_objects);
        object = objects[0];
        stop_its_end(block_of(object));
        free_object();
        let_it_end();
        assert_int_equal(ts_load_seq(&other_heap->queue), 0);
        assert_int_equal(sup_live_objects(allocator), COUNT - 1);
        assert_true(epoch_destroy(allocator, epoch));
    }
}

static void condemned_at_its_end(void **state) {
    (void)state;
    epoch = epoch_open(allocator, NULL, EPOCH_CHURN);
    begin();
    let(make_objects);
    ts_block *block = block_of(objects[0]);
    ts_epoch *e = ts_load_relaxed(&block->epoch);
    ts_lock_acquire(ts_epoch_lock(e));
    assert_true(e->blocks == block);
    e->blocks = NULL;
    ts_lock_release(ts_epoch_lock(e));
    stop_its_end(block);
    /* ts_epoch_destroy meets a block whose heap cannot be held. */
    ts_store_relaxed(&block->open_id, TS_ID_NEVER);
    ts_block_kill(block);
    ts_allocator_pin(record);
    ts_heap_post_end(other_heap, block);
    assert_false(ts_heap_notify(other_heap));
    let_it_end();
    assert_null(ts_load_seq(&other_heap->inbox));
    assert_int_equal(sup_live_objects(allocator), 0);
    assert_true(epoch_destroy(allocator, epoch));
    sup_check_empty(allocator);
}

/* An allocator ends while slabs of it still wait in the backlog of a thread, which takes in a bounded part at a time:
   its record is not given back, and so not another's, before they are. */
static SlabAllocator *first, *second, *third;
enum { WAITING = 128 };
static char *waiting[4 * WAITING];

static void fill_slabs(void) {
    for (int i = 0; i < 4 * WAITING; i++) {
        waiting[i] = slab_malloc_epoch(first, 4096, epoch);
        SUP_CHECK(waiting[i] != NULL, "object %d", i);
    }
}
static void allocate_in_second(void) { SUP_CHECK(slab_malloc(second, 100) != NULL, "slab_malloc"); }
static void allocate_in_third(void) { SUP_CHECK(slab_malloc(third, 100) != NULL, "slab_malloc"); }

static void ended_with_a_backlog(void **state) {
    (void)state;
    first = slab_allocator_create();
    second = slab_allocator_create();
    third = slab_allocator_create();
    const uintptr_t token = ts_token(first);
    ts_allocator *old = ts_allocator_find(token);
    epoch = epoch_open(first, NULL, EPOCH_CHURN);
    begin();
    let(fill_slabs);
    for (int i = 0; i < WAITING; i++) {
        assert_true(slab_free(first, waiting[4 * i]));
    }
    refuse_barrier = true; /* the end is left to the thread */
    assert_true(epoch_destroy(first, epoch));
    slab_allocator_free(first);
    let(allocate_in_second); /* takes in some, then ends the block */
    assert_true(other_heap->backlog != 0);
    let(allocate_in_third); /* drops the share of the allocator that has ended */
    refuse_barrier = false;
    SlabAllocator *next = slab_allocator_create(); /* has the record of the first, if that has been given back */
    let(idle);
    assert_int_equal(other_heap->backlog, 0);
    assert_ptr_not_equal(ts_allocator_find(ts_token(next)), NULL);
    void *object_of_next = slab_malloc(next, 100);
    assert_non_null(object_of_next);
    assert_true(slab_free(next, object_of_next));
    assert_ptr_equal(ts_table_at(&ts_allocators, ts_table_index(&ts_allocators, token)), old);
    end();
    slab_allocator_free(next);
    slab_allocator_free(second);
    slab_allocator_free(third);
    slab_thread_idle();
    assert_int_equal(ts_load_relaxed(&old->pins), 0);
}

/* ---- an allocator that ends while a call of another thread uses its record ------------------------------------ */

static _Thread_local bool is_freeing;
static void *free_first(void *argument) {
    is_freeing = true;
    slab_allocator_free(first);
    return argument;
}

static pthread_t freeing;
static void (*at_call)(void);
static void call(void) {
    if (is_freeing) {
        return;
    }
    void (*fn)(void) = at_call;
    at_call = NULL;
    if (fn) fn();
}
/* Another thread does all of it, before the next step of this one. */
static void free_it_now(void) { sup_in_thread(free_first, NULL); }
static bool test_populate(void *at, size_t bytes) {
    call();
    return ts_os_native.populate(at, bytes);
}
static bool refuse_purge(void *at, size_t bytes) {
    (void)at, (void)bytes;
    call();
    return false;
}

static void freed_while_it_reserves(void **state) {
    (void)state;
    first = slab_allocator_create();
    ts_allocator *old = ts_allocator_find(ts_token(first));
    table.populate = test_populate;
    at_call = free_it_now;
    assert_true(slab_reserve(first, 10 * TS_UNIT_BYTES));
    assert_null(at_call);
    assert_int_equal(ts_load_relaxed(&old->pins), 0);
    assert_int_equal(ts_pool_used_units(), 0);
}

static void *a_span;
static void *allocate_span(void *argument) {
    a_span = slab_malloc_epoch(first, 100 * TS_UNIT_BYTES, epoch);
    return argument;
}

/* By a thread that has a share of it, as it has allocated there, and by one that has none. */
static void freed_while_a_span_goes_back(void **state) {
    (void)state;
    for (unsigned k = 0; k < 4; k++) {
        bool destroys = k & 1, has_share = k & 2;
        const SlabOptions options = {.size = sizeof options, .reclaim_policy = SLAB_RECLAIM_AT_ONCE};
        first = slab_allocator_create_ex(&options);
        ts_allocator *old = ts_allocator_find(ts_token(first));
        epoch = epoch_open(first, NULL, EPOCH_CHURN);
        if (has_share) {
            (void)allocate_span(NULL);
        } else {
            sup_in_thread(allocate_span, NULL);
        }
        assert_non_null(a_span);
        table.purge = refuse_purge;
        at_call = free_it_now;
        assert_true(destroys ? epoch_destroy(first, epoch) : slab_free(first, a_span));
        assert_null(at_call);
        slab_thread_idle();
        assert_int_equal(ts_load_relaxed(&old->pins), 0);
        assert_int_equal(ts_pool_used_units(), 0);
        table.purge = ts_os_native.purge;
    }
}

/* An allocation over the budget trims, and finds that its allocator has ended meanwhile: its share is still its own. */
static EpochId budget_epoch;
static ts_block *budget_block;
static void free_it_soon(void) {
    ts_allocator *a = ts_allocator_find(ts_token(first));
    SUP_CHECK(pthread_create(&freeing, NULL, free_first, NULL) == 0, "pthread_create");
    while (ts_load_seq(&a->record.id) != 0 || epoch_state(second, budget_epoch) == EPOCH_ACTIVE ||
           ts_load_acquire(&budget_block->epoch) != NULL) {
        sup_sleep_ms(1);
    }
}
static void *left_there;
static void allocate_there(void) { left_there = slab_malloc_epoch(first, 4096, budget_epoch); }
static bool call_barrier(void) {
    call();
    return test_barrier();
}

static void freed_while_it_trims(void **state) {
    (void)state;
    if (!have_barrier()) {
        skip();
    }
    slab_thread_idle();
    first = slab_allocator_create();
    second = first;
    ts_allocator *old = ts_allocator_find(ts_token(first));
    budget_epoch = epoch_open(first, NULL, EPOCH_CHURN);
    begin();
    let(allocate_there);
    assert_non_null(left_there);
    for (unsigned i = 0; i < 4; i++) {
        object = slab_malloc_epoch(first, 4096, budget_epoch);
        assert_non_null(object);
    }
    budget_block = block_of(object);
    assert_true(slab_set_budget(first, TS_UNIT_BYTES));
    assert_true(slab_free(first, left_there)); /* so that a trim has to hold that thread's heap */
    table.barrier_all = call_barrier;
    at_call = free_it_soon;
    void *p = slab_malloc_epoch(first, 4096, budget_epoch);
    SUP_CHECK(at_call == NULL, "nothing was trimmed");
    SUP_CHECK(pthread_join(freeing, NULL) == 0, "pthread_join");
    table.barrier_all = test_barrier;
    assert_null(p);
    end();
    slab_thread_idle(); /* drops the share */
    assert_int_equal(ts_load_relaxed(&old->pins), 0);
    assert_int_equal(ts_pool_used_units(), 0);
}

static void free_the_first(void) { slab_allocator_free(first); }

/* A call of this thread may be using a share when it trims: that of an allocator that ended since stays until the
   thread drops it. */
static void keeps_its_share_in_a_trim(void **state) {
    (void)state;
    slab_thread_idle();
    first = slab_allocator_create();
    uintptr_t of_first = ts_token(first);
    ts_allocator *old = ts_allocator_find(of_first);
    assert_non_null(slab_malloc(first, 100));
    begin();
    let(free_the_first);
    end();
    ts_heap_visit(ts_thread.heap, old);
    SUP_CHECK(ts_heap_find_share(ts_thread.heap, of_first) != NULL, "a share was dropped that a call may be using");
    slab_thread_idle();
    assert_null(ts_heap_find_share(ts_thread.heap, of_first));
    assert_int_equal(ts_load_relaxed(&old->pins), 0);
    assert_int_equal(ts_pool_used_units(), 0);
}

#define WITH(test) cmocka_unit_test_setup_teardown(test, start, stop)

int main(void) {
    const struct CMUnitTest tests[] = {
        WITH(foreign_free_waits),
        WITH(keeps_its_share_in_a_trim),
        WITH(fast_allocation_waits),
        WITH(small_allocation_waits),
        WITH(block_ends_in_a_free_past_the_magazine),
        WITH(hold_waits),
        WITH(fork_waits),
        WITH(child_makes_it_whole),
        WITH(freed_but_not_queued),
        WITH(empty_but_not_queued),
        WITH(on_the_queue_of_another),
        WITH(visitor_of_an_open_block),
        WITH(two_ended_threads),
        WITH(keeps_no_empty_slabs),
        WITH(record_of_an_ended_allocator),
        WITH(closed_before_the_first_slab),
        WITH(reset_while_pinned),
        WITH(nothing_is_taken_from_the_living),
        WITH(foreign_free_at_its_end),
        WITH(condemned_at_its_end),
        WITH(ended_with_a_backlog),
        WITH(freed_while_it_reserves),
        WITH(freed_while_a_span_goes_back),
        WITH(freed_while_it_trims),
    };
    return cmocka_run_group_tests_name("ownership.handover", tests, NULL, NULL);
}
