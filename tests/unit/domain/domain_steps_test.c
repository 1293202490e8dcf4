/*
 * A shared domain that two threads end at once. domain.c and domain_end.c are compiled once more, in place of the
 * library's, with a place to stop at before every look at a shared word: the other thread is stopped at each step after
 * it has begun to end the domain, and goes on when this thread is at each of its own.
 */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include "identities.h"
#include "proc.h"
#include "turns.h"
#include "unit.h"

#include "cache/allocate.h"
#include "cache/cache.h"
#include "cache/free.h"
#include "domain/domain.h"
#include "epoch/blocks.h"
#include "epoch/epoch.h"
#include "errands.h"
#include "memtools/memtools.h"
#include "ownership/ownership.h"

#include <sched.h>
#include <stdatomic.h>

#define SUP_OWN_STEP
#include "steps.h"

/* An owner counts with a load and a store, and may be stopped between the two. */
static void add_owned(_Atomic uint32_t *p, uint32_t n) {
    uint32_t before = atomic_load_explicit(p, memory_order_relaxed);
    step();
    atomic_store_explicit(p, before + n, memory_order_relaxed);
}

#define ts_epoch_leave_empty(a, e) ((ts_epoch_leave_empty)((a), (e)), step())
#undef ts_add_owned
#define ts_add_owned(p, n) add_owned((p), (n))
#include "domain/domain.c"
#include "domain/domain_end.c"
#include "domain/domain_tree.c"
#include "domain/enter.c"
#include "domain/record.c"

static ts_epoch *epoch_of_domain(const ts_domain *d) {
    return ts_table_at(&ts_epochs, ts_table_index(&ts_epochs, atomic_load(&d->epoch)));
}
#undef ts_add_owned
#undef ts_epoch_leave_empty
#undef ts_load_relaxed
#undef ts_load_acquire
#define ts_load_relaxed(p) atomic_load_explicit((p), memory_order_relaxed)
#define ts_load_acquire(p) atomic_load_explicit((p), memory_order_acquire)

static SlabAllocator *allocator;
static EpochDomain *domain, *newer;
static ts_domain *entry;
static unsigned cleanups, cleanups_of_newer;
static atomic_bool stopped, go, done;

/* Of the other thread: steps with the domain ending until it stops; of this one: steps until that goes on. */
enum { HERE, THERE, THIRD };
static _Thread_local int who;
static unsigned stop_after;
static bool stops, stops_here;
static unsigned here_after;

/* Within a call of this thread: the act before its step'th look. */
static void (*meanwhile)(void);
static unsigned looks_left;
static bool in_operation; /* instead: before the first look in an operation of its heap */

static atomic_bool over; /* the other thread's end of the domain */
static atomic_long main_id, third_id;

/* Until the third thread is done, or cannot be: the other or the third waits for a lock that this thread has. */
static void until_done_or_stuck(void) {
    sup_until_set_or_waits(&over, &worker_id);
    if (atomic_load(&over)) sup_until_set_or_waits(&done, &third_id);
}

static void step(void) {
    if (sup_side != SUP_NEITHER) {
        sup_turn_step();
    } else if (who == THERE) {
        if (!stops || atomic_load(&entry->busy) != 1 || stop_after-- != 0) {
            return;
        }
        stops = false;
        atomic_store(&stopped, true);
        sup_until_set_or_waits(&go, &main_id); /* this thread may wait for a lock that the other has */
    } else if (who == HERE && meanwhile && (in_operation ? atomic_load(&ts_thread.in_op) != 0 : looks_left-- == 0)) {
        void (*fn)(void) = meanwhile;
        meanwhile = NULL;
        who = THIRD;
        fn();
        who = HERE;
    } else if (who == HERE && stops_here && here_after-- == 0) {
        stops_here = false;
        atomic_store(&go, true);
        until_done_or_stuck();
    }
}

static void count(void *n) { ++*(unsigned *)n; }

/* It has all the spare entries that it keeps: the domains that it ends come to others by way of the table. */
static void fill_spares(void) {
    EpochDomain *some[TS_SPARE_RECORDS + 1];
    for (unsigned i = 0; i <= TS_SPARE_RECORDS; i++) {
        some[i] = epoch_domain_create(allocator);
    }
    for (unsigned i = 0; i <= TS_SPARE_RECORDS; i++) {
        epoch_domain_destroy(some[i]);
    }
}

/* Entered here, so that it does not end at once. */
static void end_domain(void) {
    who = THERE;
    SUP_CHECK(epoch_domain_enter(domain), "enter");
    stops = true;
    epoch_domain_destroy(domain);
    stops = false;
    atomic_store(&over, true);
    atomic_store(&stopped, true);
}

/* A third thread: as soon as the domain has ended, its entry gets another use. */
static void *renew(void *argument) {
    who = THIRD;
    atomic_store(&third_id, sup_thread_id());
    while (epoch_domain_epoch(domain) != EPOCH_NONE) {
        (void)sched_yield();
    }
    newer = epoch_domain_create_ex(allocator, NULL, EPOCH_DOMAIN_SHARED);
    SUP_CHECK(newer != NULL && epoch_domain_on_destroy(newer, count, &cleanups_of_newer), "another domain");
    atomic_store(&done, true);
    return argument;
}

static bool two_end(void (*here)(void), unsigned there_after, unsigned after) {
    domain = epoch_domain_create_ex(allocator, NULL, EPOCH_DOMAIN_SHARED);
    assert_non_null(domain);
    entry = ts_domain_find((uint64_t)(uintptr_t)domain);
    assert_non_null(entry);
    cleanups = cleanups_of_newer = 0;
    stop_after = there_after;
    here_after = after;
    stopped = go = done = over = false;
    main_id = sup_thread_id();
    third_id = 0;
    pthread_t third;
    let_begin(end_domain);
    sup_until_set(&stopped);
    assert_int_equal(pthread_create(&third, NULL, renew, NULL), 0);
    stops_here = true;
    here();
    bool all = stops_here;
    stops_here = false;
    go = true;
    meet();
    assert_int_equal(pthread_join(third, NULL), 0);
    assert_true(epoch_domain_epoch(newer) != EPOCH_NONE);
    assert_int_equal(cleanups_of_newer, 0);
    assert_int_equal(epoch_domain_epoch(domain), EPOCH_NONE);
    /* No entry is free twice. */
    EpochDomain *more[4];
    for (unsigned i = 0; i < 4; i++) {
        more[i] = epoch_domain_create(allocator);
        assert_non_null(more[i]);
        assert_ptr_not_equal(ts_domain_find((uint64_t)(uintptr_t)more[i]), ts_domain_find((uint64_t)(uintptr_t)newer));
    }
    for (unsigned i = 0; i < 4; i++) {
        epoch_domain_destroy(more[i]);
    }
    epoch_domain_destroy(newer);
    assert_int_equal(cleanups_of_newer, 1);
    sup_check_empty(allocator);
    return all;
}

static void start_threads(void) {
    SlabOptions options = {.size = sizeof options, .on_misuse = SLAB_MISUSE_IGNORE};
    allocator = slab_allocator_create_ex(&options);
    assert_non_null(allocator);
    begin();
    let(fill_spares);
}

static void stop_threads(void) {
    end();
    slab_allocator_free(allocator);
}

enum { STEPS_THERE = 12, STEPS_HERE = 20 };

static void destroy_here(void) { epoch_domain_destroy(domain); }

static void destroyed_twice(void **state) {
    (void)state;
    start_threads();
    for (unsigned there = 0; there < STEPS_THERE; there++) {
        for (unsigned here = 0; here < STEPS_HERE && !two_end(destroy_here, there, here); here++) {
        }
    }
    stop_threads();
}

static bool registered;
static void register_here(void) { registered = epoch_domain_on_destroy(domain, count, &cleanups); }

/* A cleanup that was taken runs once. */
static void registered_at_its_end(void **state) {
    (void)state;
    start_threads();
    for (unsigned there = 0; there < STEPS_THERE; there++) {
        for (unsigned here = 0; here < STEPS_HERE; here++) {
            bool all = two_end(register_here, there, here);
            assert_int_equal(cleanups, registered);
            if (all) break;
        }
    }
    stop_threads();
}

static void exchange(void) {
    epoch_domain_destroy(domain);
    newer = epoch_domain_create_ex(allocator, NULL, EPOCH_DOMAIN_SHARED);
    SUP_CHECK(newer != NULL, "another domain");
}

/* The other thread's own, with the entry of the old one: it has no other to spare. */
static void exchange_for_own(void) {
    EpochDomain *some[TS_SPARE_RECORDS];
    for (unsigned i = 0; i < TS_SPARE_RECORDS; i++) {
        some[i] = epoch_domain_create(allocator);
    }
    const ts_domain *old = ts_domain_find((uint64_t)(uintptr_t)domain);
    epoch_domain_destroy(domain);
    newer = epoch_domain_create(allocator);
    SUP_CHECK(newer != NULL && ts_domain_find((uint64_t)(uintptr_t)newer) == old, "another domain");
    for (unsigned i = 0; i < TS_SPARE_RECORDS; i++) {
        epoch_domain_destroy(some[i]);
    }
}
static void let_exchange_for_own(void) { let(exchange_for_own); }
/* By the other thread: this one has entered the domain before its last looks, and would leave it. */
static void let_exchange(void) { let(exchange); }
static void end_newer(void) { epoch_domain_destroy(newer); }

/* ---- two that compete for a domain that was handed over ---------------------------------------------------------- */

static unsigned looks_between;
static bool newer_entered;

static void enter_newer(void) {
    who = THIRD;
    SUP_CHECK(epoch_domain_enter(newer) && epoch_domain_exit(newer), "nobody owns the newer domain: errno %d", errno);
    newer_entered = true;
}
static void let_enter_newer(void) { let(enter_newer); }

/* The other thread is the first to enter it, ends it, and makes another with its entry, which it gives up as well. */
static void take_and_renew(void) {
    who = THIRD;
    if (!epoch_domain_enter(domain)) {
        return; /* this thread was not the first */
    }
    SUP_CHECK(epoch_domain_exit(domain), "exit");
    exchange_for_own();
    SUP_CHECK(epoch_domain_hand_over(newer), "hand over");
}
static void let_take_and_renew(void) {
    let(take_and_renew);
    meanwhile = newer ? let_enter_newer : NULL;
    looks_left = looks_between;
}

/* A thread that comes too late does not enter the next domain in the entry, not even for a moment. */
static void too_late_for_one_handed_over(void **state) {
    (void)state;
    start_threads();
    for (unsigned at = 0;; at++) {
        bool met = false;
        for (looks_between = 0; looks_between < 8; looks_between++) {
            domain = epoch_domain_create(allocator);
            assert_true(domain && epoch_domain_hand_over(domain));
            newer = NULL;
            newer_entered = false;
            looks_left = at;
            meanwhile = let_take_and_renew;
            bool entered = epoch_domain_enter(domain);
            meanwhile = NULL;
            met = newer != NULL;
            if (!met) {
                assert_true(entered && epoch_domain_exit(domain));
                epoch_domain_destroy(domain);
                break;
            }
            if (entered) { /* the end of it came behind the last look */
                (void)epoch_domain_exit(domain);
            }
            if (!newer_entered) {
                let(enter_newer);
            }
            let(end_newer);
        }
        if (!met) break;
    }
    sup_check_empty(allocator);
    stop_threads();
}

/* ---- a thread that enters too late is counted in its own domain, and in no other --------------------------------- */

static bool second_time;

static void enter_newer_again(void) {
    who = THIRD;
    SUP_CHECK(epoch_domain_enter(newer), "enter");
}
static void let_enter_newer_again(void) {
    second_time = true;
    let(enter_newer_again);
}

/* The other thread ends the domain, if nobody is inside, and makes one of its own, in the same entry if it gets that.
   It enters it, and once more at a later step. */
static void end_and_renew(void) {
    who = THIRD;
    EpochDomain *some[TS_SPARE_RECORDS];
    for (unsigned i = 0; i < TS_SPARE_RECORDS; i++) {
        some[i] = epoch_domain_create(allocator);
    }
    if (epoch_domain_end(domain)) {
        newer = epoch_domain_create(allocator);
        SUP_CHECK(newer != NULL && epoch_domain_enter(newer), "another domain");
    }
    for (unsigned i = 0; i < TS_SPARE_RECORDS; i++) {
        epoch_domain_destroy(some[i]);
    }
}
static void let_end_and_renew(void) {
    let(end_and_renew);
    second_time = false;
    meanwhile = newer ? let_enter_newer_again : NULL;
    looks_left = looks_between;
}

static void leave_newer(void) {
    who = THIRD;
    SUP_CHECK(epoch_domain_exit(newer), "exit");
}

enum { OWN, SHARED, HANDED_OVER, KINDS_OF_DOMAINS };

/* At any step of an enter the domain ends, and the next one in its entry is entered and entered again. */
static bool enter_too_late(int kind, unsigned at) {
    domain =
        kind == SHARED ? epoch_domain_create_ex(allocator, NULL, EPOCH_DOMAIN_SHARED) : epoch_domain_create(allocator);
    assert_non_null(domain);
    assert_true(kind != HANDED_OVER || epoch_domain_hand_over(domain));
    newer = NULL;
    looks_left = at;
    meanwhile = let_end_and_renew;
    bool entered = epoch_domain_enter(domain);
    int error = errno;
    bool met = meanwhile != let_end_and_renew;
    meanwhile = NULL;
    if (!newer) { /* the other one came when this thread was inside, or not at all */
        assert_true(entered && epoch_domain_exit(domain));
        epoch_domain_destroy(domain);
        return met;
    }
    if (entered) { /* the end came behind the last look */
        (void)epoch_domain_exit(domain);
    } else {
        assert_true(error == ESTALE || error == EINVAL);
    }
    for (unsigned times = second_time ? 2 : 1; times > 0;
         times--) { /* the other thread is inside, so often and no more */
        assert_false(epoch_domain_end(newer));
        assert_int_equal(errno, EBUSY);
        let(leave_newer);
    }
    assert_true(epoch_domain_end(newer));
    return true;
}

static void entered_too_late(void **state) {
    (void)state;
    start_threads();
    for (int kind = 0; kind < KINDS_OF_DOMAINS; kind++) {
        for (looks_between = 0; looks_between < 10; looks_between++) {
            for (unsigned at = 0; enter_too_late(kind, at); at++) {
            }
        }
    }
    sup_check_empty(allocator); /* no entry is lost */
    stop_threads();
}

static void take_and_leave(void) {
    who = THIRD;
    SUP_CHECK(epoch_domain_enter(newer) && epoch_domain_exit(newer), "take over");
}

static ts_heap *home; /* where blocks of this thread wait that are handed over */
static void hold_home(void) { SUP_CHECK(ts_heap_hold(home), "hold"); }
static void drop_home(void) { ts_heap_drop(home); }

/* A domain that this thread made and handed over, and in which it has an object, is another's: a thread that enters it
   all the same is refused, and does not write to the other's count meanwhile. stays: its block is its own still, as
   that found no place to wait in. */
static bool enter_as_if_owner(unsigned at, bool stays) {
    domain = newer = epoch_domain_create(allocator);
    assert_true(epoch_domain_enter(domain) && slab_alloc(10) && epoch_domain_exit(domain));
    const ts_block *block = atomic_load(&epoch_of_domain(ts_domain_find((uint64_t)(uintptr_t)domain))->blocks);
    if (stays) let(hold_home);
    assert_true(epoch_domain_hand_over(domain));
    if (stays) let(drop_home);
    ts_heap *heap = atomic_load(&block->heap);
    assert_true((heap == ts_heap_mine()) == stays);
    if (!stays) home = heap;
    let(take_and_leave);
    looks_left = at;
    meanwhile = let_enter_newer_again;
    assert_false(epoch_domain_enter(domain));
    assert_int_equal(errno, EPERM);
    bool met = meanwhile == NULL;
    meanwhile = NULL;
    if (met) {
        assert_false(epoch_domain_end(domain));
        assert_int_equal(errno, EBUSY);
        let(leave_newer);
    }
    assert_true(epoch_domain_end(domain));
    return met;
}

static void entered_by_who_was_its_owner(void **state) {
    (void)state;
    start_threads();
    for (unsigned stays = 0; stays < 2; stays++) { /* the first says where they wait */
        for (unsigned at = 0; enter_as_if_owner(at, stays); at++) {
        }
    }
    sup_check_empty(allocator);
    stop_threads();
}

static bool taken;

static void take_over_in_steps(void) {
    who = THERE;
    sup_turn_begin(SUP_FIRST);
    taken = epoch_domain_enter(domain);
    SUP_CHECK(taken || errno == ESTALE || errno == EINVAL, "enter: errno %d", errno);
    sup_turn_end();
}

static void leave_taken(void) { SUP_CHECK(epoch_domain_exit(domain), "exit"); }

/* The other thread is about to own a domain that was handed over, and stops at a step; this one ends it, and stops at
   one of its own until the other has gone on. false: the other one had no more steps. */
static bool ended_when_taken(unsigned there, unsigned here, bool *all) {
    domain = epoch_domain_create(allocator);
    assert_true(domain && epoch_domain_hand_over(domain));
    sup_turns_start(there, SUP_NO_STOP, here);
    let_begin(take_over_in_steps);
    sup_turn_begin(SUP_SECOND);
    bool ended = epoch_domain_end(domain);
    int error = errno;
    sup_turn_end();
    meet();
    bool more = sup_turns.stopped[SUP_FIRST] > 0;
    *all = sup_turns.stopped[SUP_SECOND] == 0;
    assert_true(ended != taken);
    if (!ended) {
        assert_int_equal(error, EBUSY);
        assert_false(epoch_domain_enter(domain)); /* it is the other's now */
        assert_int_equal(errno, EPERM);
        let(leave_taken);
        assert_true(epoch_domain_end(domain));
    }
    return more;
}

static void ended_or_taken_over(void **state) {
    (void)state;
    start_threads();
    for (unsigned there = 0, more = 1; more; there++) {
        bool all = false;
        for (unsigned here = 0; more && !all; here++) {
            more = ended_when_taken(there, here, &all);
        }
    }
    sup_check_empty(allocator);
    stop_threads();
}

enum { ENTER, PROMOTE, FORCE_CLOSE, EPOCH_OF, HAND_OVER, CALLS };

/* The domain ends and its entry is in use again, at any step of a call: the call is for the old one or fails. */
static void in_use_again(void **state) {
    (void)state;
    start_threads();
    for (int call = 0; call < CALLS; call++) {
        for (unsigned at = 0;; at++) {
            domain = epoch_domain_create_ex(allocator, NULL, EPOCH_DOMAIN_SHARED);
            EpochId epoch = epoch_open(allocator, NULL, EPOCH_CHURN), of_domain = epoch_domain_epoch(domain), found;
            void *object = slab_malloc_epoch(allocator, 100, epoch);
            bool entered = false;
            assert_non_null(object);
            newer = NULL;
            looks_left = at;
            meanwhile = call == HAND_OVER ? let_exchange_for_own : call == ENTER ? let_exchange : exchange;
            switch (call) {
            case ENTER: entered = epoch_domain_enter(domain); break;
            case PROMOTE: (void)slab_promote(domain, object); break;
            case FORCE_CLOSE: (void)epoch_domain_force_close(domain); break;
            case EPOCH_OF:
                found = epoch_domain_epoch(domain);
                assert_true(found == of_domain || found == EPOCH_NONE);
                break;
            default: (void)epoch_domain_hand_over(domain);
            }
            meanwhile = NULL;
            bool met = newer != NULL;
            if (met && entered) {
                assert_int_not_equal(ts_thread.domain->epoch, epoch_domain_epoch(newer));
                assert_null(slab_alloc(10));
            }
            assert_true(!entered || epoch_domain_exit(domain));
            if (met) {
                SlabEpochStats stats;
                assert_int_equal(epoch_state(allocator, epoch_domain_epoch(newer)), EPOCH_ACTIVE);
                assert_true(slab_stats_epoch(allocator, SLAB_ALL_CLASSES, epoch_domain_epoch(newer), &stats));
                assert_int_equal(stats.live_objects, 0);
                if (call == HAND_OVER) {
                    let(end_newer);
                } else {
                    end_newer();
                }
                assert_int_equal(epoch_domain_epoch(newer), EPOCH_NONE);
            }
            epoch_domain_destroy(domain);
            assert_true(epoch_destroy(allocator, epoch));
            if (!met) break;
        }
    }
    stop_threads();
}

static pthread_t sleeper;
static ts_lock *wanted;
static uint32_t found;

static atomic_long waiter_id; /* of the thread that the other looks at; 0: it has not begun to wait */

/* Waits for the lock of the domain's epoch, to give the epoch a name. */
static void *label_epoch(void *epoch) {
    atomic_store(&waiter_id, sup_thread_id());
    (void)slab_epoch_set_label(allocator, *(EpochId *)epoch, "a name");
    atomic_store(&done, true);
    return epoch;
}

/* If this thread has that lock: another goes to sleep at it. */
static void let_one_sleep(void) {
    static EpochId epoch;
    found = atomic_load(&wanted->word);
    if (found == TS_LOCK_FREE) return;
    epoch = atomic_load(&entry->epoch);
    SUP_CHECK(pthread_create(&sleeper, NULL, label_epoch, &epoch) == 0, "pthread_create");
    while (atomic_load(&wanted->word) != TS_LOCK_WAITED) {
        sup_sleep_ms(1);
    }
    sup_until_waits(&waiter_id);
}

/* A thread that waits for the epoch of a domain is woken at its end. */
static void waited_for_at_its_end(void **state) {
    (void)state;
    start_threads();
    unsigned slept = 0;
    for (unsigned at = 0;; at++) {
        domain = epoch_domain_create(allocator);
        entry = ts_domain_find((uint64_t)(uintptr_t)domain);
        assert_non_null(entry);
        wanted = ts_epoch_lock(epoch_of_domain(entry));
        atomic_store(&done, false);
        found = TS_LOCK_FREE;
        looks_left = at;
        meanwhile = let_one_sleep;
        epoch_domain_destroy(domain);
        bool all = meanwhile != NULL;
        meanwhile = NULL;
        if (found != TS_LOCK_FREE) {
            slept++;
            sup_until_set(&done);
            assert_int_equal(pthread_join(sleeper, NULL), 0);
        }
        assert_int_equal(epoch_domain_epoch(domain), EPOCH_NONE);
        if (all) break;
    }
    assert_true(slept > 0);
    sup_check_empty(allocator);
    stop_threads();
}

static ts_heap *to_hold;
static uint32_t free_then, free_now;

/* Whether anything changes in a heap while it is held. */
static void hold_a_while(void) {
    bool held = ts_heap_hold(to_hold);
    SUP_CHECK(held, "the heap cannot be held");
    free_then = ts_load_relaxed(&to_hold->free_blocks[true]);
    atomic_store(&stopped, true);
    sup_until_waits(&waiter_id);
    free_now = ts_load_relaxed(&to_hold->free_blocks[true]);
    ts_heap_drop(to_hold);
}

/* A domain begins and ends when nobody else has the heap. */
static void while_the_heap_is_held(void **state) {
    (void)state;
    start_threads();
    to_hold = ts_heap_mine();
    domain = epoch_domain_create(allocator);
    for (int call = 0; call < 4; call++) {
        atomic_store(&stopped, false);
        atomic_store(&waiter_id, 0);
        let_begin(hold_a_while);
        sup_until_set(&stopped);
        atomic_store(&waiter_id, sup_thread_id());
        if (call % 2 == 0) {
            epoch_domain_destroy(domain);
            assert_int_equal(epoch_domain_epoch(domain), EPOCH_NONE);
        } else {
            domain = epoch_domain_create(allocator);
            assert_non_null(domain);
        }
        meet();
        assert_int_equal(free_now, free_then);
    }
    sup_check_empty(allocator);
    stop_threads();
}

static void hold_heap(void) { SUP_CHECK(ts_heap_hold(to_hold), "hold"); }
static void give_one_and_drop_heap(void) {
    ts_heap_give_blocks(to_hold, UINT32_MAX, ts_load_relaxed(&to_hold->free_blocks[true]) - 1, 1);
    ts_heap_drop(to_hold);
}
static void let_give_one(void) { let(give_one_and_drop_heap); }

/* Its operation begins while the heap is held, and goes on after the drop: it then takes the blocks that the holder has
   left. */
static void as_the_heap_is_let_go(void **state) {
    (void)state;
    start_threads();
    to_hold = ts_heap_mine();
    EpochDomain *some[3];
    for (unsigned i = 0; i < 3; i++) some[i] = epoch_domain_create(allocator);
    for (unsigned i = 0; i < 3; i++) epoch_domain_destroy(some[i]);
    const ts_block *first = to_hold->free_scope;
    assert_true(first && first->heap_next);
    let(hold_heap);
    meanwhile = let_give_one;
    in_operation = true;
    domain = epoch_domain_create(allocator);
    in_operation = false;
    assert_true(domain && !meanwhile);
    const ts_epoch *epoch = epoch_of_domain(ts_domain_find((uint64_t)(uintptr_t)domain));
    assert_ptr_equal(atomic_load(&first->heap), ts_heap_nobody);
    assert_ptr_not_equal(atomic_load(&epoch->blocks), first);
    epoch_domain_destroy(domain);
    sup_check_empty(allocator);
    stop_threads();
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(destroyed_twice),
        cmocka_unit_test(registered_at_its_end),
        cmocka_unit_test(in_use_again),
        cmocka_unit_test(waited_for_at_its_end),
        cmocka_unit_test(while_the_heap_is_held),
        cmocka_unit_test(as_the_heap_is_let_go),
        cmocka_unit_test(too_late_for_one_handed_over),
        cmocka_unit_test(entered_too_late),
        cmocka_unit_test(ended_or_taken_over),
        cmocka_unit_test(entered_by_who_was_its_owner),
    };
    return cmocka_run_group_tests_name("domain.domain_steps", tests, NULL, NULL);
}
