/*
 * An epoch that its thread ends or resets by its bias, without the lock, and others that take the lock meanwhile (epoch.h).
 */
#include "biased.h"

/* ---- what others do with it ----------------------------------------------------------------------------------- */

static bool joined;

static void name_it(void) {
    (void)slab_epoch_set_label(allocator, epoch, "a name");
    atomic_store(&done, true);
}
/* A second block in the epoch. */
static void join_it(void) {
    joined = slab_malloc_epoch(allocator, 100, epoch) != NULL;
    atomic_store(&done, true);
}
static void destroy_it(void) {
    ended = epoch_destroy(allocator, epoch);
    if (ended) {
        SUP_CHECK(epoch_state(allocator, epoch) == EPOCH_CLOSED, "destroyed");
        SUP_CHECK(!epoch_close(allocator, epoch) && !epoch_destroy(allocator, epoch), "twice");
    }
    atomic_store(&done, true);
}
static void close_and_destroy_it(void) {
    close_first();
    destroy_it();
}
static void force_it(void) {
    ended = epoch_domain_force_close(domain);
    atomic_store(&done, true);
}
static int end_errno;
static void end_it(void) {
    errno = 0;
    (void)epoch_domain_end(domain); /* which takes the domain with it, or changes nothing */
    end_errno = errno;
    ended = false;
    atomic_store(&done, true);
}
static void wrap_it(void) {
    EpochDomain *wrapped = epoch_domain_wrap(allocator, epoch, true);
    epoch_domain_destroy(wrapped); /* with the epoch */
    atomic_store(&done, true);
}

/* Ends or resets the domain while the other does that, from each step on. How often that met the operation. */
static unsigned at_each_step(void (*fn)(void), bool reset, bool biased) {
    unsigned met = 0;
    other = fn;
    for (unsigned at = 0;; at++) {
        make_domain(biased);
        joined = false;
        bool all, has_met, emptied = end_meanwhile(at, reset, &has_met, &all) && reset;
        met += has_met;
        if (ended) {
            errno = 0;
            SUP_CHECK(atomic_load(&entry->asked) == 0 && epoch_state(allocator, epoch) != EPOCH_ACTIVE,
                      "step %u: it was asked for, and nobody did it", at);
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

static void others_wait(void **state) {
    (void)state;
    void (*const calls[])(void) = {name_it, join_it, wrap_it};
    for (unsigned i = 0; i < sizeof calls / sizeof *calls; i++) {
        assert_true(at_each_step(calls[i], false, true) >= 3);
        assert_true(at_each_step(calls[i], true, true) >= 5);
        assert_int_equal(at_each_step(calls[i], false, false), 0);
        assert_int_equal(at_each_step(calls[i], true, false), 0);
    }
}

static uint64_t left_in_all(void) {
    SlabGlobalStats stats;
    SUP_CHECK(slab_stats_global(allocator, &stats), "slab_stats_global");
    return stats.epoch_left_total;
}

/* An end that meets an operation is left to the thread whose that is, and counted; and is done when that call has returned. */
static void ends_are_left(void **state) {
    (void)state;
    void (*const calls[])(void) = {destroy_it, close_it, close_and_destroy_it, force_it};
    const unsigned of_each[] = {1, 1, 2, 1};
    asks = true;
    for (unsigned i = 0; i < sizeof calls / sizeof *calls; i++) {
        uint64_t before = left_in_all();
        unsigned met = at_each_step(calls[i], false, true);
        assert_true(met >= 3);
        unsigned more = at_each_step(calls[i], true, true);
        assert_true(more >= 5);
        assert_int_equal(left_in_all() - before, of_each[i] * (met + more));
        assert_int_equal(at_each_step(calls[i], false, false), 0);
        assert_int_equal(at_each_step(calls[i], true, false), 0);
    }
    asks = false;
}

/* epoch_domain_end answers: somebody empties or ends it. */
static void end_is_refused(void **state) {
    (void)state;
    asks = true;
    for (unsigned at = 0, met = 0;; at++) {
        make_domain(true);
        atomic_store(&done, false);
        was_biased = false;
        other = end_it;
        looks_left = at;
        meanwhile = let_it_begin;
        bool emptied = epoch_domain_reset(domain, SIZE_MAX);
        if (meanwhile) {
            assert_true(met >= 5);
            break;
        }
        meet();
        met += was_biased;
        if (was_biased) {
            assert_int_equal(end_errno, EBUSY);
            assert_true(emptied);
        }
        epoch_domain_destroy(domain);
        assert_int_equal(epoch_domain_epoch(domain), EPOCH_NONE);
    }
    meanwhile = NULL;
    epoch_domain_destroy(domain);
    asks = false;
}

static atomic_bool may_go;

/* In the barrier behind what it asks for: the operation is over then, and its thread waits for the lock, to do it. */
static void let_it_leave(void) {
    if (atomic_load(&entry->asked) != ts_epoch_asking(epoch, TS_ASKED_CLOSE)) {
        return; /* the operation had not begun, and this is the barrier of the close itself */
    }
    atomic_store(&may_go, true);
    while (atomic_load(&ts_epoch_lock(entry)->word) != TS_LOCK_WAITED) {
        sup_sleep_ms(1);
    }
}
static void ask_next(void) { at_barrier = let_it_leave; }
static void begin_to_close(void) {
    at_barrier = ask_next;
    let_begin(close_it);
    while (!atomic_load(&may_go) && !atomic_load(&done)) {
        sup_sleep_ms(1);
    }
}

/* Who asks finds that the operation is over by now, and does it himself: once. */
static void asked_too_late(void **state) {
    (void)state;
    if (ts_care_tools) { /* a reset looks at its objects with the lock held: nobody asks meanwhile */
        skip();
    }
    for (unsigned at = 0, met = 0;; at++) {
        make_domain(true);
        uint64_t before = left_in_all();
        atomic_store(&may_go, false);
        atomic_store(&done, false);
        looks_left = at;
        meanwhile = begin_to_close;
        (void)epoch_domain_reset(domain, SIZE_MAX);
        bool all = meanwhile != NULL;
        meanwhile = NULL;
        if (!all) {
            meet();
            assert_true(ended);
            assert_int_equal(left_in_all(), before);
            assert_int_not_equal(epoch_state(allocator, epoch), EPOCH_ACTIVE);
            assert_int_equal(atomic_load(&entry->asked), 0);
        }
        at_barrier = NULL;
        met += atomic_load(&may_go);
        epoch_domain_destroy(domain);
        if (all) {
            assert_true(met >= 5);
            return;
        }
    }
}

static EpochDomain *beside;
static void name_beside(void) {
    SUP_CHECK(slab_epoch_set_label(allocator, epoch_domain_epoch(beside), "a name"), "a label");
    atomic_store(&done, true);
}
static void let_name_beside(void) {
    let_begin(name_beside);
    SUP_CHECK(is_done_within(10000), "who wants an epoch waits for an operation on another");
}

/* In the middle of an operation a thread keeps no other of its epochs from anybody. */
static void another_epoch(void **state) {
    (void)state;
    for (unsigned at = 0;; at++) {
        make_domain(true);
        rest(TS_BIAS_REST - 1);
        beside = epoch_domain_create(allocator);
        assert_int_equal(atomic_load(&entry_of(beside)->bias), my_bias());
        atomic_store(&done, false);
        looks_left = at;
        /* They can have one lock. */
        meanwhile = ts_epoch_lock(entry) == ts_epoch_lock(entry_of(beside)) ? NULL : let_name_beside;
        bool all = meanwhile != NULL;
        assert_true(epoch_domain_reset(domain, SIZE_MAX));
        all = all && meanwhile != NULL;
        bool met = atomic_load(&done);
        meanwhile = NULL;
        if (met) {
            meet();
        }
        epoch_domain_destroy(beside);
        epoch_domain_destroy(domain);
        if (all) {
            assert_true(at >= 5);
            return;
        }
    }
}

/* What is seen of an epoch that its thread was asked to close, and has not yet. */
static void see_it_asked(void) {
    SUP_CHECK(epoch_state(allocator, epoch) == EPOCH_CLOSING, "its state");
    SUP_CHECK(!epoch_close(allocator, epoch), "twice");
    const size_t sizes[] = {100, 100000, 10 << 20};
    for (unsigned i = 0; i < sizeof sizes / sizeof *sizes; i++) {
        errno = 0;
        SUP_CHECK(!slab_malloc_epoch(allocator, sizes[i], epoch) && errno == ESTALE, "an object of %zu", sizes[i]);
    }
    errno = 0;
    SUP_CHECK(!epoch_domain_wrap(allocator, epoch, true) && errno == ESTALE, "a domain");
}

static void in_the_child(void) {
    pid_t child = fork();
    SUP_CHECK(child >= 0, "fork");
    if (child == 0) {
        _exit(epoch_state(allocator, epoch) == EPOCH_CLOSED ? 0 : 1);
    }
    int status = -1;
    SUP_CHECK(waitpid(child, &status, 0) == child && status == 0, "the child has it open: %d", status);
}

static void asked(void **state) {
    (void)state;
    make_domain(true);
    atomic_store(&entry->asked, ts_epoch_asking(epoch, TS_ASKED_CLOSE));
    let(see_it_asked);
    (void)epoch_domain_reset(domain, SIZE_MAX);
    assert_int_equal(epoch_state(allocator, epoch), EPOCH_CLOSING); /* before the reset */
    assert_int_equal(atomic_load(&entry->asked), 0);
    epoch_domain_destroy(domain);
    /* Of another use than this. */
    make_domain(true);
    atomic_store(&entry->asked, ts_epoch_asking(epoch, TS_ASKED_DESTROY) - 4);
    assert_int_equal(epoch_state(allocator, epoch), EPOCH_ACTIVE);
    assert_true(epoch_domain_reset(domain, SIZE_MAX));
    assert_int_equal(epoch_state(allocator, epoch), EPOCH_ACTIVE);
    assert_int_equal(atomic_load(&entry->asked), 0);
    /* It ends, and what was asked with it. */
    atomic_store(&entry->asked, ts_epoch_asking(epoch, TS_ASKED_CLOSE));
    assert_true(epoch_destroy(allocator, epoch));
    assert_int_equal(atomic_load(&entry->asked), 0);
    epoch_domain_destroy(domain);
    /* Its thread is not in the child. */
    make_domain(true);
    assert_true(epoch_domain_reset(domain, SIZE_MAX)); /* which holds nothing */
    atomic_store(&entry->asked, ts_epoch_asking(epoch, TS_ASKED_CLOSE));
    let(in_the_child);
    epoch_domain_destroy(domain);
    assert_int_equal(atomic_load(&entry->asked), 0);
}

/* A child begins with no epoch half changed. */
static void fork_it(void) {
    pid_t child = fork();
    SUP_CHECK(child >= 0, "fork");
    if (child == 0) {
        int state = epoch_state(allocator, epoch);
        SUP_CHECK(state == EPOCH_CLOSED || slab_epoch_set_label(allocator, epoch, "the child's"), "a label");
        SUP_CHECK(state == EPOCH_CLOSED || epoch_destroy(allocator, epoch), "its end");
        static ts_check check;
        char why[256] = "";
        if (refuse_barrier) {
            _exit(0); /* the heap is lost to the child */
        }
        SUP_CHECK(sup_live_objects(allocator) == 0, "something is left of it");
        SUP_CHECK(sup_identities(allocator, why, sizeof why), "%s", why);
        SUP_CHECK(ts_check_all(&check, true), "%s", check.why);
        _exit(0);
    }
    int status = -1;
    SUP_CHECK(waitpid(child, &status, 0) == child && status == 0, "the child: %d", status);
    atomic_store(&done, true);
}

static void fork_waits(void **state) {
    (void)state;
    forks = fork_it;
    assert_true(at_each_step(fork_it, false, true) >= 3);
    assert_true(at_each_step(fork_it, true, true) >= 5);
}

/* ---- how it is taken -------------------------------------------------------------------------------------------- */

static uint32_t bias_at_barrier, turn_at_barrier, lock_at_barrier;
static _Atomic uint32_t *mine;
static void look(void) {
    bias_at_barrier = atomic_load(&entry->bias);
    turn_at_barrier = atomic_load(mine);
    lock_at_barrier = atomic_load(&ts_epoch_lock(entry)->word);
}

/* The turn, then the barrier, then the look at its thread and the bias, under the lock. Once. */
static void taken_in_order(void **state) {
    (void)state;
    make_domain(true);
    uint32_t before = my_bias();
    mine = &ts_heap_mine()->biased;
    bias_at_barrier = 1;
    lock_at_barrier = TS_LOCK_FREE;
    at_barrier = look;
    barriers = 0;
    let(name_it);
    assert_int_equal(barriers, 1);
    assert_int_equal(bias_at_barrier, before);
    assert_int_not_equal(turn_at_barrier, before);
    assert_int_equal(atomic_load(&entry->bias), 0);
    assert_int_not_equal(lock_at_barrier, TS_LOCK_FREE);
    let(name_it);
    assert_int_equal(barriers, 1);
    epoch_domain_destroy(domain);
    assert_int_equal(barriers, 1);
    /* This thread's own calls leave it. */
    make_domain(true);
    assert_true(slab_epoch_set_label(allocator, epoch, "a name"));
    assert_int_equal(atomic_load(&entry->bias), my_bias());
    epoch_domain_destroy(domain);
    assert_int_equal(barriers, 1);
}

/* What a thread has lost once it does not risk again so soon. */
static void rests(void **state) {
    (void)state;
    make_domain(true);
    barriers = 0;
    let(name_it);
    epoch_domain_destroy(domain);
    for (unsigned i = 1; i < TS_BIAS_REST; i++) {
        domain = epoch_domain_create(allocator);
        epoch = epoch_domain_epoch(domain);
        entry = entry_of(domain);
        assert_int_equal(atomic_load(&entry->bias), 0);
        let(name_it);
        epoch_domain_destroy(domain);
    }
    assert_int_equal(barriers, 1);
    domain = epoch_domain_create(allocator);
    assert_int_equal(atomic_load(&entry_of(domain)->bias), my_bias());
    epoch_domain_destroy(domain);
}

enum { MANY = 40 };
static EpochDomain *many[MANY];
static void name_all(void) {
    for (unsigned i = 0; i < MANY; i++) {
        SUP_CHECK(slab_epoch_set_label(allocator, epoch_domain_epoch(many[i]), "a name"), "a label");
    }
}

/* A thread loses the biases of all of its epochs at once; it goes on with their locks. */
static void all_at_once(void **state) {
    (void)state;
    rest(TS_BIAS_REST - 1);
    for (unsigned i = 0; i < MANY; i++) {
        many[i] = epoch_domain_create(allocator);
        assert_int_equal(atomic_load(&entry_of(many[i])->bias), my_bias());
    }
    domain = epoch_domain_create(allocator);
    barriers = 0;
    let(name_all);
    assert_int_equal(barriers, 1);
    entry = entry_of(domain); /* of the turn that is over */
    assert_int_not_equal(atomic_load(&entry->bias), my_bias());
    uint64_t before = atomic_load(&ts_epoch_lock(entry)->fast_acquired);
    assert_true(epoch_domain_reset(domain, SIZE_MAX));
    assert_true(atomic_load(&ts_epoch_lock(entry)->fast_acquired) > before);
    for (unsigned i = 0; i < MANY; i++) {
        assert_int_equal(atomic_load(&entry_of(many[i])->bias), 0);
        epoch_domain_destroy(many[i]);
    }
    epoch_domain_destroy(domain);
    assert_int_equal(barriers, 1);
}

static atomic_bool has_lock;
static bool was_done;

/* Without taking the bias: who goes by that does not wait. */
static void have_the_lock(void) {
    ts_lock_acquire(ts_epoch_lock(entry));
    atomic_store(&has_lock, true);
    was_done = is_done_within(2000);
    ts_lock_release(ts_epoch_lock(entry));
}

/* A bias whose turn has come again is one again, to both sides. */
static void turns_come_again(void **state) {
    (void)state;
    EpochDomain *first = NULL;
    for (unsigned i = 0; i <= TS_BIAS_NEVER; i++) {
        make_domain(true);
        if (i == 0) {
            first = domain;
            make_domain(true);
        }
        barriers = 0;
        if (i < TS_BIAS_NEVER) {
            let(name_it);
            assert_int_equal(barriers, 1);
        }
        epoch_domain_destroy(domain);
    }
    domain = first;
    epoch = epoch_domain_epoch(first);
    entry = entry_of(first);
    assert_int_equal(atomic_load(&entry->bias), my_bias());
    atomic_store(&done, false);
    atomic_store(&has_lock, false);
    let_begin(have_the_lock);
    while (!atomic_load(&has_lock)) {
        sup_sleep_ms(1);
    }
    assert_true(epoch_domain_reset(first, SIZE_MAX));
    atomic_store(&done, true);
    meet();
    assert_true(was_done || ts_care_tools); /* which look at each object of what is emptied: not without the lock */
    let(name_it);
    assert_int_equal(barriers, 1);
    assert_int_equal(atomic_load(&entry->bias), 0);
    epoch_domain_destroy(first);
}

/* Who takes a bias can meet the entry's next use, which has none. */
static void nothing_to_take(void **state) {
    (void)state;
    const ts_block *none = ts_line_address(0);
    make_domain(false);
    barriers = 0;
    ts_lock_acquire(ts_epoch_lock(entry));
    ts_epoch_unbias(entry);
    ts_epoch_release(entry);
    assert_int_equal(barriers, 0);
    assert_true(atomic_load(&none->key) == UINT64_MAX);
    epoch_domain_destroy(domain);
}

static EpochDomain *large;
static ts_epoch *large_entry;

/* As who has found the epoch by its id, before that ended. */
static void *lock_on_a_third(void *argument) {
    ts_epoch_acquire(large_entry);
    ts_epoch_release(large_entry);
    atomic_store(&done, true);
    return argument;
}

/* With a lock for which the thread that ends its domain has to wait. */
static void lock_it_while_it_waits(void) {
    ts_lock *warm = &ts_allocator_find(ts_token(allocator))->warm_lock;
    pthread_t third;
    ts_lock_acquire(warm);
    atomic_store(&has_lock, true);
    while (atomic_load(&warm->word) != TS_LOCK_WAITED) {
        sup_sleep_ms(1);
    }
    SUP_CHECK(pthread_create(&third, NULL, lock_on_a_third, NULL) == 0, "pthread_create");
    was_done = is_done_within(10000);
    ts_lock_release(warm);
    SUP_CHECK(pthread_join(third, NULL) == 0, "pthread_join");
}

/* Who ends an epoch by its bias waits for a lock only when the epoch is done with. */
static void waits_for_nothing(void **state) {
    (void)state;
    rest(TS_BIAS_REST - 1);
    large = epoch_domain_create(allocator);
    large_entry = entry_of(large);
    assert_int_equal(atomic_load(&large_entry->bias), my_bias());
    assert_true(epoch_domain_enter(large));
    for (unsigned i = 0; i < 4 * (TS_LOCAL_WARM_UNITS + 8); i++) {
        assert_non_null(slab_alloc(4000));
    }
    assert_true(epoch_domain_exit(large));
    atomic_store(&done, false);
    atomic_store(&has_lock, false);
    let_begin(lock_it_while_it_waits);
    while (!atomic_load(&has_lock)) {
        sup_sleep_ms(1);
    }
    epoch_domain_destroy(large);
    meet();
    assert_true(was_done);
    assert_int_equal(atomic_load(&large_entry->bias), 0);
}

static uint32_t line;
static EpochDomain *left;
static void leave_a_domain(void) {
    rest(TS_BIAS_REST - 1);
    left = epoch_domain_create(allocator);
    SUP_CHECK(atomic_load(&entry_of(left)->bias) == my_bias(), "with its bias");
    line = my_bias();
}
static void have_another_turn(void) {
    SUP_CHECK(my_bias() / 16 == line / 16 && my_bias() != line, "the heap of the last thread, with another turn");
    SUP_CHECK(ts_heap_mine()->bias == my_bias(), "which is its epochs'");
}

/* What a thread that ends leaves is taken without a barrier, and the heap's next thread has lost nothing. */
static void of_an_ended_thread(void **state) {
    (void)state;
    let(leave_a_domain);
    end();
    barriers = 0;
    assert_true(slab_epoch_set_label(allocator, epoch_domain_epoch(left), "a name"));
    assert_int_equal(atomic_load(&entry_of(left)->bias), 0);
    assert_true(epoch_destroy(allocator, epoch_domain_epoch(left)));
    assert_int_equal(barriers, 0);
    begin();
    let(have_another_turn);
}

static EpochDomain *theirs;
static void take_over(void) {
    SUP_CHECK(epoch_domain_enter(domain) && slab_alloc(100) && epoch_domain_exit(domain), "handed over");
    SUP_CHECK(epoch_domain_reset(domain, SIZE_MAX), "reset");
    SUP_CHECK(atomic_load(&entry->bias) == 0, "its bias is another's");
    epoch_domain_destroy(domain);
}

/* A domain that goes to another thread, which ends it; this one's bias does not go with it. */
static void handed_over(void **state) {
    (void)state;
    barriers = 0;
    rest(TS_BIAS_REST - 1);
    domain = epoch_domain_create(allocator);
    entry = entry_of(domain);
    assert_int_equal(atomic_load(&entry->bias), my_bias());
    assert_true(epoch_domain_hand_over(domain));
    let(take_over);
    assert_int_equal(epoch_domain_epoch(domain), EPOCH_NONE);
    assert_int_equal(barriers, 0);
    make_domain(true); /* with a block of this thread in it */
    assert_true(epoch_domain_hand_over(domain));
    let(take_over);
}

/* An epoch that ended by another thread is in use again, by that one, when its domain ends: it is not this thread's. */
static void end_and_begin(void) {
    EpochDomain *some[4 * TS_SPARE_ENTRIES];
    const unsigned count = sizeof some / sizeof *some;
    SUP_CHECK(epoch_destroy(allocator, epoch), "epoch_destroy");
    rest(TS_BIAS_REST - 1);
    theirs = NULL;
    for (unsigned i = 0; i < count; i++) {
        some[i] = epoch_domain_create(allocator);
        if (entry_of(some[i]) == entry) {
            theirs = some[i];
            some[i] = NULL;
        }
    }
    SUP_CHECK(theirs != NULL, "the entry is in no use");
    SUP_CHECK(atomic_load(&entry->bias) == my_bias(), "and not biased");
    for (unsigned i = 0; i < count; i++) {
        epoch_domain_destroy(some[i]);
    }
}
static void end_theirs(void) { epoch_domain_destroy(theirs); }

static void in_use_again(void **state) {
    (void)state;
    make_domain(true);
    let(end_and_begin);
    EpochId now = epoch_domain_epoch(theirs);
    epoch_domain_destroy(domain);
    assert_int_equal(epoch_domain_epoch(domain), EPOCH_NONE);
    assert_int_equal(epoch_domain_epoch(theirs), now);
    assert_int_equal(epoch_state(allocator, now), EPOCH_ACTIVE);
    let(end_theirs);
}

/* The same by this thread, so with the same bias. */
static void in_use_again_here(void **state) {
    (void)state;
    make_domain(true);
    EpochDomain *old = domain;
    assert_true(epoch_destroy(allocator, epoch));
    domain = epoch_domain_create(allocator);
    assert_ptr_equal(entry_of(domain), entry);
    assert_int_equal(atomic_load(&entry->bias), my_bias());
    epoch = epoch_domain_epoch(domain);
    errno = 0;
    assert_false(epoch_domain_reset(old, SIZE_MAX));
    epoch_domain_destroy(old);
    assert_int_equal(epoch_domain_epoch(old), EPOCH_NONE);
    assert_int_equal(epoch_domain_epoch(domain), epoch);
    assert_int_equal(epoch_state(allocator, epoch), EPOCH_ACTIVE);
    epoch_domain_destroy(domain);
}

static void wrap_here(void) { theirs = epoch_domain_wrap(allocator, epoch, true); }

/* Other domains of an epoch that this thread has by its bias: one that does not end it, and one of another thread. */
static void wrapped(void **state) {
    (void)state;
    make_domain(true);
    EpochDomain *mine = epoch_domain_wrap(allocator, epoch, false);
    assert_non_null(mine);
    epoch_domain_destroy(mine);
    assert_int_equal(epoch_state(allocator, epoch), EPOCH_ACTIVE);
    let(wrap_here);
    assert_int_equal(atomic_load(&entry->bias), my_bias());
    errno = 0;
    epoch_domain_destroy(theirs);
    assert_int_equal(errno, EPERM);
    assert_int_equal(epoch_state(allocator, epoch), EPOCH_ACTIVE);
    assert_int_equal(epoch_domain_epoch(theirs), epoch);
    let(end_theirs);
    assert_int_equal(epoch_state(allocator, epoch), EPOCH_CLOSED);
    epoch_domain_destroy(domain);
    assert_int_equal(epoch_domain_epoch(domain), EPOCH_NONE);
}

/* ---- systems without a barrier, and those that refuse it later ----------------------------------------------------- */

/* The first call that is refused, and what it leaves in errno. */
static void free_large(void) {
    void *p = slab_malloc_epoch(allocator, 1 << 20, epoch);
    errno = 77;
    SUP_CHECK(slab_free(allocator, p) && errno == 77, "errno %d", errno);
}

static void refused_later(void **state) {
    (void)state;
    make_domain(true);
    EpochDomain *first = domain;
    domain = epoch_domain_create(allocator);
    refuse_barrier = true;
    let(free_large);
    assert_int_equal(my_bias() & TS_BIAS_NEVER, TS_BIAS_NEVER);
    let(name_it); /* of a turn that is over, like the first: nothing is waited for */
    epoch_domain_destroy(domain);
    epoch_domain_destroy(first);
    /* Never again, but for what is biased: */
    for (unsigned i = 0; i < 2 * TS_BIAS_REST; i++) {
        domain = epoch_domain_create(allocator);
        assert_int_equal(atomic_load(&entry_of(domain)->bias), 0);
        epoch_domain_destroy(domain);
    }
    bias_again = true;
    assert_true(at_each_step(name_it, true, true) >= 5);
    forks = fork_it;
    assert_true(at_each_step(fork_it, false, true) >= 3);
    bias_again = false;
    refuse_barrier = false;
}

static void only_begin(void) {}

static void without_a_barrier(void **state) {
    (void)state;
    let(only_begin); /* a thread that begins looks at ts_barriers */
    refuse_barrier = true;
    ts_barriers = false;
    unsigned before = barriers;
    make_domain(false);
    epoch_domain_destroy(domain);
    for (unsigned i = 0; i < 2 * TS_BIAS_REST; i++) {
        domain = epoch_domain_create(allocator);
        assert_int_equal(atomic_load(&entry_of(domain)->bias), 0);
        epoch_domain_destroy(domain);
    }
    assert_int_equal(at_each_step(name_it, true, false), 0);
    assert_int_equal(barriers, before);
    ts_barriers = ts_os_native.barrier_all();
    refuse_barrier = false;
}

/* ---- the allocator ends ---------------------------------------------------------------------------------------------- */

static uint64_t token_at_barrier;
static void look_at_token(void) { token_at_barrier = ts_allocator_find(ts_token(allocator)) != NULL; }

/* Who makes a domain has no fence between its id and the look at the allocator: the barrier of who ends that one stands
   for it, and comes between the two. */
static void allocator_ends(void **state) {
    (void)state;
    SlabAllocator *kept = allocator;
    allocator = slab_allocator_create();
    domain = epoch_domain_create(allocator);
    assert_non_null(domain);
    token_at_barrier = 1;
    barriers = 0;
    at_barrier = look_at_token;
    slab_allocator_free(allocator);
    assert_in_range(barriers, 1, 1000);
    assert_int_equal(token_at_barrier, 0);
    assert_int_equal(epoch_domain_epoch(domain), EPOCH_NONE);
    allocator = kept;
}

int main(void) {
    const struct CMUnitTest tests[] = {
        WITH(others_wait),    WITH(fork_waits),         WITH(taken_in_order),  WITH(rests),
        WITH(all_at_once),    WITH(turns_come_again),   WITH(nothing_to_take), WITH(waits_for_nothing),
        WITH(handed_over),    WITH(of_an_ended_thread), WITH(in_use_again),    WITH(in_use_again_here),
        WITH(wrapped),        WITH(without_a_barrier),  WITH(allocator_ends),  WITH(ends_are_left),
        WITH(end_is_refused), WITH(asked_too_late),     WITH(another_epoch),   WITH(asked),
        WITH(refused_later), /* the last */
    };
    const struct CMUnitTest without[] = {WITH(without_a_barrier)};
    if (!ts_os_native.barrier_all()) {
        return cmocka_run_group_tests_name("epoch.bias", without, NULL, NULL);
    }
    return cmocka_run_group_tests_name("epoch.bias", tests, NULL, NULL);
}
