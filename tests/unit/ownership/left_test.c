/*
 * Ends beside a thread that has lost its processor in the middle of a call. They wait for nobody. They leave work that
 * they cannot do to that thread, which does it in its next call, or to the next trim or close. The other thread here
 * stands where such a thread stands, inside of an operation, for as long as a test likes; a yield and a nap are
 * failures.
 */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include "identities.h"
#include "proc.h"
#include "unit.h"

#include "api/runtime.h"
#include "errands.h"
#include "os/os.h"
#include "region/region.h"
#include "walk/check_pool.h"
#include "walk/check_slabs.h"

#include <stdatomic.h>

enum { OBJECTS = 300 }; /* more than a slab of them */

static SlabAllocator *allocator;
static ts_allocator *record;
static ts_os_table table;
static EpochId epoch, elsewhere;
static EpochDomain *domain;
static void *objects[OBJECTS];
static atomic_bool inside, go_on;
static _Thread_local bool may_yield = true;

static void yields(void) { SUP_CHECK(may_yield, "a call yields for another thread"); }

static void rest(void) {}

static int start(void **state) {
    (void)state;
    table = ts_os_native;
    table.yield = yields;
    ts_os = &table;
    allocator = slab_allocator_create();
    record = ts_allocator_find(ts_token(allocator));
    elsewhere = epoch_open(allocator, NULL, EPOCH_CHURN);
    begin();
    let(rest); /* it has its heap */
    may_yield = false;
    return record == NULL || ts_heap_mine() == NULL;
}

static int stop(void **state) {
    (void)state;
    may_yield = true;
    end();
    assert_true(epoch_destroy(allocator, elsewhere));
    sup_check_identities(allocator);
    sup_check_empty(allocator);
    slab_allocator_free(allocator);
    return ts_pool_used_units() != 0;
}

static bool skip_without_barrier(void) {
    if (ts_os_native.barrier_all()) {
        return false;
    }
    print_message("skipped: the system has no barrier for all threads\n");
    return true;
}

static void make_objects(void) {
    for (unsigned i = 0; i < OBJECTS; i++) {
        objects[i] = slab_malloc_epoch(allocator, 100, epoch);
        SUP_CHECK(objects[i] != NULL, "object %u", i);
    }
}
static void free_objects(void) {
    for (unsigned i = 0; i < OBJECTS; i++) {
        SUP_CHECK(slab_free(allocator, objects[i]), "object %u", i);
    }
}

/* A usual call in another epoch. */
static void *other_object;
static void usual_alloc(void) {
    other_object = slab_malloc_epoch(allocator, 100, elsewhere);
    SUP_CHECK(other_object != NULL, "slab_malloc_epoch");
}
static void usual_free(void) { SUP_CHECK(slab_free(allocator, other_object), "slab_free"); }
static void usual_handle(void) {
    SlabHandle handle;
    SUP_CHECK(alloc_obj_epoch(allocator, 100, elsewhere, &handle) && free_obj(allocator, handle), "a handle");
}
static void usual_calls(void) {
    for (unsigned i = 0; i < 3; i++) {
        usual_alloc();
        usual_free();
    }
}
static void stay_inside(void) {
    ts_op_begin(&ts_thread);
    atomic_store(&inside, true);
    while (!atomic_load(&go_on)) {
        sup_sleep_ms(1);
    }
    ts_op_end(&ts_thread);
}
static void halt(void) {
    atomic_store(&inside, false);
    atomic_store(&go_on, false);
    let_begin(stay_inside);
    while (!atomic_load(&inside)) {
        sup_sleep_ms(1);
    }
}
static void resume(void) {
    atomic_store(&go_on, true);
    meet();
}

static uint64_t left_total(void) {
    SlabGlobalStats stats;
    assert_true(slab_stats_global(allocator, &stats));
    return stats.epoch_left_total;
}
static uint64_t left_bytes(void) {
    SlabGlobalStats stats;
    assert_true(slab_stats_global(allocator, &stats));
    return stats.left_bytes;
}

/* The walk over all structures is not for while a thread is in the middle of a call. */
static void figures_hold(void) {
    char why[256] = "";
    SUP_CHECK(sup_identities(allocator, why, sizeof why), "%s", why);
}

static void is_over(EpochId id, const char *by) {
    SUP_CHECK(epoch_state(allocator, id) == EPOCH_CLOSED, "not ended by %s", by);
    SUP_CHECK(left_bytes() == 0, "%s: bytes are left", by);
    SUP_CHECK(!ts_load_relaxed(&other_heap->inbox) && !ts_load_relaxed(&other_heap->ending), "%s: a block is left", by);
    sup_check_identities(allocator);
}

/* ---- close ---------------------------------------------------------------------------------------------------- */

static void begin_missed(void (*prepare)(void)) {
    epoch = epoch_open(allocator, NULL, EPOCH_CHURN);
    let(make_objects);
    let(free_objects);
    let(usual_calls); /* from here on these are the usual paths of that thread */
    if (prepare) {
        let(prepare);
    }
    halt();
}

/* The very next call of the thread, of any kind, though it has nothing to do with the epoch. */
static void next_call_of_the_missed(void **state) {
    static const struct {
        const char *name;
        void (*prepare)(void), (*call)(void);
    } calls[] = {{"an allocation", NULL, usual_alloc},
                 {"a free", usual_alloc, usual_free},
                 {"a handle", NULL, usual_handle},
                 {"rest", NULL, slab_thread_idle}};
    (void)state;
    if (skip_without_barrier()) {
        skip();
    }
    for (unsigned i = 0; i < sizeof calls / sizeof *calls; i++) {
        begin_missed(calls[i].prepare);
        uint64_t before = left_total();
        assert_true(epoch_close(allocator, epoch));
        assert_int_equal(left_total(), before + 1);
        assert_int_equal(epoch_state(allocator, epoch), EPOCH_CLOSING);
        figures_hold();
        resume();
        assert_int_equal(epoch_state(allocator, epoch), EPOCH_CLOSING);
        let(calls[i].call);
        is_over(epoch, calls[i].name);
        if (calls[i].call == usual_alloc) {
            let(usual_free);
        }
        let(usual_calls);
        SUP_CHECK(ts_load_relaxed(&other_heap->tls->token) == ts_token(allocator), "the usual paths are not its again");
        SUP_CHECK(!ts_heap_is_notified(other_heap), "it is called for nothing");
    }
}

static void trim(void) { (void)slab_trim(allocator); }
static void close_another(void) {
    EpochId another = epoch_open(allocator, NULL, EPOCH_CHURN);
    assert_true(epoch_close(allocator, another));
}
static void advance(void) { assert_true(epoch_advance(allocator) != EPOCH_NONE); }

/* The missed thread sleeps once it has got out of its call. */
static void taken_by_others(void **state) {
    static const struct {
        const char *name;
        void (*fn)(void);
    } others[] = {{"a trim", trim}, {"a later close", close_another}, {"epoch_advance", advance}};
    (void)state;
    if (skip_without_barrier()) {
        skip();
    }
    (void)epoch_current(allocator);
    for (unsigned i = 0; i < sizeof others / sizeof *others; i++) {
        begin_missed(NULL);
        assert_true(epoch_close(allocator, epoch));
        others[i].fn(); /* cannot either, and waits as little */
        assert_int_equal(epoch_state(allocator, epoch), EPOCH_CLOSING);
        figures_hold();
        resume();
        others[i].fn();
        is_over(epoch, others[i].name);
        let(usual_calls);
    }
}

/* A block that dies afterwards is left only once, for both ends. It comes off the list before its next use, if its heap
   can be held by then. */
static void closed_then_destroyed(void **state) {
    (void)state;
    for (unsigned held = 0; held < 2; held++) {
        begin_missed(make_objects);
        assert_true(epoch_close(allocator, epoch));
        if (held) {
            resume();
        }
        assert_true(epoch_destroy(allocator, epoch));
        SUP_CHECK(!slab_free(allocator, objects[0]), "alive in an epoch that was destroyed");
        assert_int_equal(sup_live_objects(allocator), 0);
        if (!held) {
            SUP_CHECK(left_bytes() > 0, "dead slabs are not told");
            figures_hold();
            resume();
            let(usual_alloc);
            let(usual_free);
        } else if (!ts_os_native.barrier_all()) {
            let(slab_thread_idle);
        }
        is_over(epoch, held ? "a destroy" : "an allocation");
    }
}

/* ---- destroy, reset, the end of an allocator --------------------------------------------------------------------- */

static SlabHandle handle;
static void make_objects_and_a_handle(void) {
    make_objects();
    handle = slab_handle_of(allocator, objects[7]); /* another thread would wait for the operation to come */
}

/* Objects are stale at once. Committed memory is in use or retained, also while a dead block waits for its thread to
   take it apart. */
static void destroyed(void **state) {
    (void)state;
    for (unsigned i = 0; i < 3; i++) {
        begin_missed(make_objects_and_a_handle);
        assert_true(epoch_destroy(allocator, epoch));
        assert_int_equal(epoch_state(allocator, epoch), EPOCH_CLOSED);
        for (unsigned k = 0; k < OBJECTS; k++) {
            SUP_CHECK(!slab_owns(allocator, objects[k]), "object %u is alive", k);
        }
        assert_null(slab_handle_get(allocator, handle));
        SUP_CHECK(left_bytes() == 3 * TS_UNIT_BYTES, "%llu bytes are left", (unsigned long long)left_bytes());
        figures_hold();
        assert_int_equal(sup_live_objects(allocator), 0);
        resume();
        sup_check_identities(allocator);
        if (i == 0) {
            let(usual_alloc);
            let(usual_free);
        } else if (i == 1 && ts_os_native.barrier_all()) {
            trim();
        } else {
            let(slab_thread_idle);
        }
        is_over(epoch, "what came next");
    }
}

static void join_domain(void) {
    SUP_CHECK(epoch_domain_enter(domain) && slab_alloc(5000) && epoch_domain_exit(domain), "a shared domain");
}

static void reset_and_end(void **state) {
    (void)state;
    domain = epoch_domain_create_ex(allocator, NULL, EPOCH_DOMAIN_SHARED);
    let(join_domain);
    halt();
    assert_true(epoch_domain_reset(domain, SIZE_MAX));
    figures_hold();
    assert_int_equal(sup_live_objects(allocator), 0);
    resume();
    let(join_domain);
    is_over(epoch, "the next call");
    halt();
    epoch_domain_destroy(domain);
    figures_hold();
    assert_int_equal(sup_live_objects(allocator), 0);
    resume();
    let(usual_alloc);
    let(usual_free);
}

static void allocator_ends(void **state) {
    (void)state;
    SlabAllocator *kept = allocator;
    EpochId kept_epoch = elsewhere;
    allocator = slab_allocator_create();
    epoch = epoch_open(allocator, NULL, EPOCH_CHURN);
    let(make_objects);
    halt();
    slab_allocator_free(allocator);
    assert_false(slab_free(allocator, objects[0]));
    allocator = kept;
    elsewhere = kept_epoch;
    resume();
    let(usual_alloc);
    let(usual_free);
    let(slab_thread_idle);
    assert_true(ts_pool_used_units() * TS_UNIT_BYTES <= sup_committed_bytes(allocator));
}

/* ---- a heap that a third thread holds ---------------------------------------------------------------------------- */

static atomic_bool has_it, let_go;
static void *hold_other_heap(void *unused) {
    while (!ts_heap_hold(other_heap)) {
    }
    atomic_store(&has_it, true);
    while (!atomic_load(&let_go)) {
        sup_sleep_ms(1);
    }
    ts_heap_drop(other_heap);
    return unused;
}
static pthread_t third;
static void begin_third(void) {
    atomic_store(&has_it, false);
    atomic_store(&let_go, false);
    assert_int_equal(pthread_create(&third, NULL, hold_other_heap, NULL), 0);
    while (!atomic_load(&has_it)) {
        sup_sleep_ms(1);
    }
}
static void end_third(void) {
    atomic_store(&let_go, true);
    assert_int_equal(pthread_join(third, NULL), 0);
}

/* A holder that drops the heap does the work that others have left meanwhile. The owner sleeps, or has ended. */
static void who_lets_go_looks(void **state) {
    (void)state;
    if (skip_without_barrier()) {
        skip();
    }
    for (unsigned destroy = 0; destroy < 2; destroy++) {
        epoch = epoch_open(allocator, NULL, EPOCH_CHURN);
        let(make_objects);
        if (!destroy) {
            let(free_objects);
        }
        begin_third();
        assert_true(destroy ? epoch_destroy(allocator, epoch) : epoch_close(allocator, epoch));
        SUP_CHECK(ts_load_relaxed(&other_heap->inbox) != NULL, "nothing is left");
        assert_int_equal(sup_live_objects(allocator), 0);
        end_third();
        SUP_CHECK(!ts_load_relaxed(&other_heap->inbox), "what was left meanwhile still is");
        is_over(epoch, "who lets go");
    }
    epoch = epoch_open(allocator, NULL, EPOCH_CHURN);
    let(make_objects);
    let(free_objects);
    end(); /* its heap has no thread */
    begin_third();
    assert_true(epoch_close(allocator, epoch));
    end_third();
    is_over(epoch, "who lets go of an ended thread's heap");
    begin();
    let(rest);
}

/* The calling thread's own heap is held by another when it closes. */
static void held_by_another(void **state) {
    (void)state;
    if (skip_without_barrier()) {
        skip();
    }
    ts_heap *theirs = other_heap;
    epoch = epoch_open(allocator, NULL, EPOCH_CHURN);
    for (unsigned i = 0; i < OBJECTS; i++) {
        assert_non_null(slab_malloc_epoch(allocator, 100, epoch));
    }
    EpochDomain *own = epoch_domain_create(allocator);
    assert_true(epoch_domain_enter(own) && slab_alloc(100) && epoch_domain_exit(own));
    other_heap = ts_thread.heap;
    begin_third();
    assert_true(epoch_domain_reset(own, SIZE_MAX));
    epoch_domain_destroy(own);
    assert_true(epoch_close(allocator, epoch));
    assert_true(epoch_destroy(allocator, epoch));
    (void)slab_trim(allocator);
    assert_int_equal(sup_live_objects(allocator), 0);
    end_third();
    is_over(epoch, "who lets go");
    other_heap = theirs;
}

/* The last object of a closed epoch's slab, freed by another while its owner is in the middle of a call and then
   rests. */
static void last_object(void **state) {
    (void)state;
    if (skip_without_barrier()) {
        skip();
    }
    for (unsigned i = 0; i < 2; i++) {
        epoch = epoch_open(allocator, NULL, EPOCH_CHURN);
        let(make_objects);
        assert_true(epoch_close(allocator, epoch));
        let(usual_calls);
        halt();
        free_objects();
        assert_int_equal(epoch_state(allocator, epoch), EPOCH_CLOSING);
        resume();
        if (i == 0) {
            let(usual_alloc);
            let(usual_free);
        } else {
            trim();
        }
        is_over(epoch, i == 0 ? "its next call" : "a trim");
    }
}

#define WITH(test) cmocka_unit_test_setup_teardown(test, start, stop)

int main(void) {
    const struct CMUnitTest tests[] = {
        WITH(next_call_of_the_missed),
        WITH(taken_by_others),
        WITH(closed_then_destroyed),
        WITH(destroyed),
        WITH(reset_and_end),
        WITH(allocator_ends),
        WITH(who_lets_go_looks),
        WITH(held_by_another),
        WITH(last_object),
    };
    return cmocka_run_group_tests_name("ownership.left", tests, NULL, NULL);
}
