/* A domain that its thread ends or resets under the lock of its epoch, and others that come meanwhile (epoch/end.c). */
#include "ending.h"

#include "ownership/ownership.h"
#include "supply/supply.h"
#include "walk/check_pool.h"

#include <sys/wait.h>
#include <unistd.h>

/* ---- acts of other threads ------------------------------------------------------------------------------------ */

static bool joined, drains;

static void label_epoch(void) {
    (void)slab_epoch_set_label(allocator, epoch, "a name");
    atomic_store(&done, true);
}
/* A second block in the epoch. */
static void join_epoch(void) {
    joined = slab_malloc_epoch(allocator, 100, epoch) != NULL;
    atomic_store(&done, true);
}
static void destroy_epoch(void) {
    ended = epoch_destroy(allocator, epoch);
    if (ended) {
        SUP_CHECK(epoch_state(allocator, epoch) == EPOCH_CLOSED, "destroyed");
        SUP_CHECK(!epoch_close(allocator, epoch) && !epoch_destroy(allocator, epoch), "twice");
    }
    atomic_store(&done, true);
}
static void force_close_domain(void) {
    ended = epoch_domain_force_close(domain);
    atomic_store(&done, true);
}
static void wrap_epoch(void) {
    SUP_CHECK(!epoch_domain_wrap(allocator, epoch, true), "a second domain");
    atomic_store(&done, true);
}
/* A child begins with no epoch half changed, and has none of a domain that is over. */
static void fork_meanwhile(void) {
    pid_t child = fork();
    SUP_CHECK(child >= 0, "fork");
    if (child == 0) {
        int state = epoch_state(allocator, epoch);
        SUP_CHECK(epoch_domain_epoch(domain) == epoch || state == EPOCH_CLOSED || (state == EPOCH_CLOSING && drains),
                  "the domain is over, and its epoch is %d", state);
        SUP_CHECK(state == EPOCH_CLOSED || slab_epoch_set_label(allocator, epoch, "the child's"), "a label");
        SUP_CHECK(state == EPOCH_CLOSED || epoch_destroy(allocator, epoch), "its end");
        _exit(0);
    }
    int status = -1;
    SUP_CHECK(waitpid(child, &status, 0) == child && status == 0, "the child: %d", status);
    atomic_store(&done, true);
}

/* Ends or resets the domain while the other does that, from each step on. How often that met the lock. */
static unsigned at_each_step(void (*fn)(void), bool reset) {
    unsigned met = 0;
    other = fn;
    for (unsigned at = 0;; at++) {
        make_domain();
        joined = false;
        bool all, emptied = end_meanwhile(at, reset, &all) && reset;
        met += has_met;
        if (ended) {
            errno = 0;
            SUP_CHECK(epoch_state(allocator, epoch) != EPOCH_ACTIVE, "step %u: it was ended", at);
            SUP_CHECK(!slab_malloc_epoch(allocator, 100, epoch) && errno == ESTALE, "step %u: an object", at);
        }
        SlabEpochStats stats;
        if (reset) {
            bool is = slab_stats_epoch(allocator, SLAB_ALL_CLASSES, epoch, &stats);
            SUP_CHECK(!is || !emptied || stats.live_objects <= joined, "step %u: it was reset, and %u are live", at,
                      (unsigned)stats.live_objects);
            epoch_domain_destroy(domain);
        }
        SUP_CHECK(epoch_domain_epoch(domain) == EPOCH_NONE, "step %u: the domain", at);
        SUP_CHECK(epoch_state(allocator, epoch) == EPOCH_CLOSED, "step %u: its epoch", at);
        sup_check_identities(allocator);
        sup_check_empty(allocator);
        if (all) {
            return met;
        }
    }
}

static void others_come(void **state) {
    (void)state;
    void (*const calls[])(void) = {label_epoch, join_epoch,         wrap_epoch,    destroy_epoch,
                                   close_epoch, force_close_domain, fork_meanwhile};
    forks = fork_meanwhile;
    for (unsigned i = 0; i < sizeof calls / sizeof *calls; i++) {
        assert_true(at_each_step(calls[i], false) >= 5);
        assert_true(at_each_step(calls[i], true) >= 5);
    }
}

static void do_nothing(void *arg) { (void)arg; }

enum { USUAL, DRAINS, WRAPS, SHARED, KINDS_OF_ENDS };

static EpochDomain *make_kind(unsigned kind) {
    if (kind == WRAPS) return epoch_domain_wrap(allocator, epoch_open(allocator, NULL, EPOCH_SCOPE), true);
    return epoch_domain_create_ex(allocator, NULL,
                                  kind == DRAINS   ? EPOCH_DOMAIN_DRAIN
                                  : kind == SHARED ? EPOCH_DOMAIN_SHARED
                                                   : 0);
}

/* The id of a domain with a cleanup is over first, and its epoch ends after that. So do those of a domain that drains,
   of one that wraps an epoch, of one that all threads share, and of one with a parent. */
static void forked_between_domain_and_epoch(void **state) {
    (void)state;
    other = forks = fork_meanwhile;
    for (unsigned kind = 0; kind < KINDS_OF_ENDS; kind++) {
        bool all = false;
        for (unsigned at = 0; !all; at++) {
            drains = kind == DRAINS;
            domain = make_kind(kind);
            assert_true(domain && epoch_domain_on_destroy(domain, do_nothing, NULL));
            epoch = epoch_domain_epoch(domain);
            entry = entry_of(domain);
            void *object = slab_malloc_epoch(allocator, 100, epoch);
            assert_non_null(object);
            (void)end_meanwhile(at, false, &all);
            assert_int_equal(slab_free(allocator, object), drains);
            sup_check_empty(allocator);
        }
    }
    drains = false;
}

/* ---- the lock is held for the change alone ----------------------------------------------------------------------- */

static atomic_bool has_lock;
static EpochDomain *large;
static ts_epoch *large_entry;

/* As a thread that has found the epoch by its id, before that ended. */
static void *lock_the_epoch(void *argument) {
    ts_epoch_acquire(large_entry);
    ts_epoch_release(large_entry);
    return argument;
}

/* A lock for which the thread that ends its domain has to wait. */
static void lock_the_retained_units(void) {
    ts_lock *retained = &ts_allocator_find(ts_token(allocator))->retained_lock;
    ts_lock_acquire(retained);
    atomic_store(&has_lock, true);
    while (atomic_load(&retained->word) != TS_LOCK_WAITED) {
        sup_sleep_ms(1);
    }
    sup_in_thread(lock_the_epoch, NULL);
    ts_lock_release(retained);
}

static void waits_without_the_lock(void **state) {
    (void)state;
    large = epoch_domain_create(allocator);
    large_entry = entry_of(large);
    assert_true(epoch_domain_enter(large));
    for (unsigned i = 0; i < 4 * (TS_LOCAL_RETAINED_UNITS + 8); i++) {
        assert_non_null(slab_alloc(4000));
    }
    assert_true(epoch_domain_exit(large));
    atomic_store(&has_lock, false);
    let_begin(lock_the_retained_units);
    while (!atomic_load(&has_lock)) {
        sup_sleep_ms(1);
    }
    epoch_domain_destroy(large);
    meet();
}

/* ---- the entry's next use ---------------------------------------------------------------------------------------- */

static EpochDomain *theirs;

/* An epoch that another thread ended is in use again, by that one, when its domain ends: it is not this thread's. */
static void end_and_begin(void) {
    EpochDomain *some[4 * TS_SPARE_RECORDS];
    const unsigned count = sizeof some / sizeof *some;
    SUP_CHECK(epoch_destroy(allocator, epoch), "epoch_destroy");
    theirs = NULL;
    for (unsigned i = 0; i < count; i++) {
        some[i] = epoch_domain_create(allocator);
        if (entry_of(some[i]) == entry) {
            theirs = some[i];
            some[i] = NULL;
        }
    }
    SUP_CHECK(theirs != NULL, "the entry is in no use");
    for (unsigned i = 0; i < count; i++) {
        epoch_domain_destroy(some[i]);
    }
}
static void end_theirs(void) { epoch_domain_destroy(theirs); }

static EpochId lives_on;
static void check_object_lives(void *unused) {
    (void)unused;
    SUP_CHECK(epoch_state(allocator, lives_on) == EPOCH_ACTIVE, "the child has ended the epoch of another domain");
}
static void lives_in_a_child(EpochId id) {
    lives_on = id;
    assert_int_equal(sup_child(check_object_lives, NULL, SUP_CHILD_SECONDS, NULL, 0), 0);
}

static void in_use_again(void **state) {
    (void)state;
    make_domain();
    let(end_and_begin);
    EpochId now = epoch_domain_epoch(theirs);
    epoch_domain_destroy(domain);
    lives_in_a_child(now);
    assert_int_equal(epoch_domain_epoch(domain), EPOCH_NONE);
    assert_int_equal(epoch_domain_epoch(theirs), now);
    assert_int_equal(epoch_state(allocator, now), EPOCH_ACTIVE);
    let(end_theirs);
}

/* By this thread. */
static void in_use_again_here(void **state) {
    (void)state;
    make_domain();
    EpochDomain *old = domain;
    assert_true(epoch_destroy(allocator, epoch));
    domain = epoch_domain_create(allocator);
    assert_ptr_equal(entry_of(domain), entry);
    epoch = epoch_domain_epoch(domain);
    errno = 0;
    assert_false(epoch_domain_reset(old, SIZE_MAX));
    epoch_domain_destroy(old);
    assert_int_equal(epoch_domain_epoch(old), EPOCH_NONE);
    assert_int_equal(epoch_domain_epoch(domain), epoch);
    assert_int_equal(epoch_state(allocator, epoch), EPOCH_ACTIVE);
    epoch_domain_destroy(domain);
}

/* After a domain whose end was not the usual one. */
static void in_use_again_after_a_cleanup(void **state) {
    (void)state;
    make_domain();
    assert_true(epoch_domain_on_destroy(domain, do_nothing, NULL));
    epoch_domain_destroy(domain);
    const ts_epoch *was = entry;
    domain = epoch_domain_create(allocator);
    assert_ptr_equal(entry_of(domain), was);
    let(label_epoch); /* so that there is another thread, and a fork puts its half-done work in order */
    lives_in_a_child(epoch_domain_epoch(domain));
    epoch_domain_destroy(domain);
}

static void wrap_here(void) { theirs = epoch_domain_wrap(allocator, epoch, true); }

/* Domains of one epoch, one after the other: one that does not end it, and one of another thread. */
static void wrapped(void **state) {
    (void)state;
    epoch = epoch_open(allocator, NULL, EPOCH_SCOPE);
    assert_non_null(slab_malloc_epoch(allocator, 100, epoch));
    EpochDomain *mine = epoch_domain_wrap(allocator, epoch, false);
    assert_non_null(mine);
    epoch_domain_destroy(mine);
    assert_int_equal(epoch_state(allocator, epoch), EPOCH_ACTIVE);
    let(wrap_here);
    errno = 0;
    epoch_domain_destroy(theirs);
    assert_int_equal(errno, EPERM);
    assert_int_equal(epoch_state(allocator, epoch), EPOCH_ACTIVE);
    assert_int_equal(epoch_domain_epoch(theirs), epoch);
    let(end_theirs);
    assert_int_equal(epoch_state(allocator, epoch), EPOCH_CLOSED);
}

/* ---- left to this thread ----------------------------------------------------------------------------------------- */

/* A block that a close has left to its thread, while a visitor has taken it off the list, and then puts it back: a
   hand-over that ends it meanwhile would give it to its next use while it is on that list. */
static void left_and_put_back(void **state) {
    (void)state;
    domain = epoch_domain_create(allocator);
    assert_non_null(domain);
    epoch = epoch_domain_epoch(domain);
    entry = entry_of(domain);
    ts_heap *heap = ts_thread.heap;
    ts_block *block = ts_load_relaxed(&entry->blocks);
    ts_op_begin(&ts_thread);
    let(close_epoch);
    ts_op_end(&ts_thread);
    assert_ptr_equal(ts_exchange_seq(&heap->inbox, NULL), block);
    assert_true(epoch_domain_hand_over(domain));
    assert_ptr_equal(ts_load_relaxed(&entry->blocks), block);
    assert_ptr_not_equal(heap->free_scope, block);
    assert_int_equal(ts_load_relaxed(&block->left), TS_POST_FLUSH);
    ts_heap_post_list(heap, block);
    slab_thread_idle();
    assert_int_equal(ts_load_relaxed(&block->left), 0);
    assert_true(epoch_domain_end(domain));
    assert_int_equal(epoch_state(allocator, epoch), EPOCH_CLOSED);
}

/* A thread to which work was left, and which only makes and ends domains, answers. */
static void called(void **state) {
    (void)state;
    ts_heap *heap = ts_heap_mine();
    for (unsigned reset = 0; reset < 2; reset++) {
        make_domain();
        atomic_fetch_add(&heap->revoked, TS_CALLED);
        assert_true(ts_heap_is_notified(heap));
        if (reset) {
            assert_true(epoch_domain_reset(domain, SIZE_MAX));
        } else {
            epoch_domain_destroy(domain);
        }
        assert_false(ts_heap_is_notified(heap));
        if (reset) {
            epoch_domain_destroy(domain);
        }
    }
}

/* ---- the allocator ends ------------------------------------------------------------------------------------------ */

static bool known_at_barrier, lives_at_barrier;
static void look_at_barrier(void) {
    lives_at_barrier = epoch_domain_epoch(domain) != EPOCH_NONE;
    known_at_barrier = ts_allocator_find(ts_token(allocator)) != NULL;
}

/* A thread that makes a domain has no fence between its id and the look at the allocator: the barrier in the end of the
   allocator stands for it, and comes between the two. */
static void allocator_ends(void **state) {
    (void)state;
    SlabAllocator *kept = allocator;
    allocator = slab_allocator_create();
    domain = epoch_domain_create(allocator);
    assert_non_null(domain);
    lives_at_barrier = false;
    at_barrier = look_at_barrier;
    slab_allocator_free(allocator);
    assert_true(lives_at_barrier); /* it comes before domains and epochs are looked for */
    assert_false(known_at_barrier);
    assert_int_equal(epoch_domain_epoch(domain), EPOCH_NONE);
    allocator = kept;
}

static void check_object_was_freed(void *unused) {
    static ts_check check;
    (void)unused;
    SUP_CHECK(epoch_domain_epoch(domain) == EPOCH_NONE && atomic_load(&entry->record.id) == 0, "its domain, its epoch");
    SUP_CHECK(ts_check_all(&check, true), "%s", check.why);
    SUP_CHECK(ts_pool_used_units() == 0, "%u units", (unsigned)ts_pool_used_units());
}
static void fork_and_look(void) {
    SUP_CHECK(sup_child(check_object_was_freed, NULL, SUP_CHILD_SECONDS, NULL, 0) == 0, "the child");
}
static void let_fork(void) { let(fork_and_look); }

/* Another thread forks while this one frees the allocator: the child frees it. */
static void allocator_ends_in_a_fork(void **state) {
    (void)state;
    SlabAllocator *kept = allocator;
    allocator = slab_allocator_create();
    make_domain();
    at_barrier = let_fork;
    slab_allocator_free(allocator);
    assert_null(at_barrier);
    allocator = kept;
}

/* Where the system has no such barrier there is a fence in every domain. */
static void without_a_barrier(void **state) {
    (void)state;
    refuse_barrier = true;
    ts_barriers = false;
    assert_int_equal(ts_domain_make(ts_token(allocator)), 0);
    assert_true(at_each_step(label_epoch, true) >= 5);
    assert_true(at_each_step(label_epoch, false) >= 5);
    refuse_barrier = false;
    ts_barrier_init();
}

/* One that the system refuses later: time stands for it, and errno stays. */
static void refused_later(void **state) {
    (void)state;
    make_domain();
    epoch_domain_destroy(domain);
    refuse_barrier = true;
    uint64_t from = ts_os->wall_ns();
    errno = 77;
    ts_barrier_or_wait();
    assert_int_equal(errno, 77);
    assert_true(ts_os->wall_ns() - from >= 20000000);
    refuse_barrier = false;
}

int main(void) {
    const struct CMUnitTest tests[] = {
        WITH(others_come),
        WITH(forked_between_domain_and_epoch),
        WITH(called),
        WITH(waits_without_the_lock),
        WITH(in_use_again),
        WITH(in_use_again_here),
        WITH(in_use_again_after_a_cleanup),
        WITH(wrapped),
        WITH(allocator_ends),
        WITH(allocator_ends_in_a_fork),
        WITH(without_a_barrier),
        WITH(refused_later),
        WITH(left_and_put_back),
    };
    const struct CMUnitTest without[] = {WITH(without_a_barrier)};
    if (!ts_os_native.barrier_all()) {
        return cmocka_run_group_tests_name("domain.end_steps", without, NULL, NULL);
    }
    return cmocka_run_group_tests_name("domain.end_steps", tests, NULL, NULL);
}
