/*
 * A domain that its thread ends or resets, and a second thread that does something to it from a chosen step of the
 * first on. domain.c and domain_end.c are compiled once more, in place of the library's, with a place to stop at before
 * every look at a shared word.
 */
#ifndef EPOCH_TEST_ENDING_H
#define EPOCH_TEST_ENDING_H

#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include "identities.h"
#include "proc.h"
#include "unit.h"

#include "api/runtime.h"
#include "cache/cache.h"
#include "cache/free.h"
#include "domain/domain.h"
#include "epoch/blocks.h"
#include "epoch/epoch.h"
#include "errands.h"
#include "memtools/memtools.h"
#include "walk/check.h"

#define SUP_OWN_STEP
#include "steps.h"

/* The domain has ended by then, its epoch not yet; the thread has the lock. */
#define ts_epoch_end_only(h, e, b, r) (step(), (ts_epoch_end_only)((h), (e), (b), (r)))
#define ts_epoch_destroy_locked(e) (step(), (ts_epoch_destroy_locked)(e))
#define ts_epoch_close_locked(e) (step(), (ts_epoch_close_locked)(e))
#include "domain/domain.c"
#include "domain/domain_end.c"
#include "domain/enter.c"
#undef ts_epoch_end_only
#undef ts_epoch_destroy_locked
#undef ts_epoch_close_locked
#undef ts_load_relaxed
#undef ts_load_acquire
#define ts_load_relaxed(p) atomic_load_explicit((p), memory_order_relaxed)
#define ts_load_acquire(p) atomic_load_explicit((p), memory_order_acquire)

static SlabAllocator *allocator;
static EpochDomain *domain;
static EpochId epoch;
static ts_epoch *entry;
static ts_os_table table;
static bool refuse_barrier;
static void (*at_barrier)(void);

static bool barrier(void) {
    if (refuse_barrier) {
        return false;
    }
    void (*fn)(void) = at_barrier;
    at_barrier = NULL;
    if (fn) {
        fn();
    }
    return ts_os_native.barrier_all();
}

/* The act that begins in this thread before its step'th look. */
static _Thread_local bool stops;
static void (*meanwhile)(void);
static unsigned looks_left;

static void step(void) {
    if (stops && meanwhile && looks_left-- == 0) {
        void (*fn)(void) = meanwhile;
        meanwhile = NULL;
        fn();
    }
}

static int start(void **state) {
    (void)state;
    table = ts_os_native;
    table.barrier_all = barrier;
    ts_os = &table;
    refuse_barrier = false;
    at_barrier = NULL;
    allocator = slab_allocator_create();
    begin();
    stops = true;
    return allocator == NULL;
}

static int stop(void **state) {
    static ts_check check;
    (void)state;
    end();
    sup_check_identities(allocator);
    sup_check_empty(allocator);
    slab_allocator_free(allocator);
    SUP_CHECK(ts_check_all(&check, false), "%s", check.why);
    return 0;
}

static ts_epoch *entry_of(const EpochDomain *d) {
    return ts_table_at(&ts_epochs, ts_table_index(&ts_epochs, epoch_domain_epoch(d)));
}

/* With some objects. */
static void make_domain(void) {
    domain = epoch_domain_create(allocator);
    assert_non_null(domain);
    epoch = epoch_domain_epoch(domain);
    entry = entry_of(domain);
    assert_true(epoch_domain_enter(domain));
    for (unsigned i = 0; i < 3; i++) {
        assert_non_null(slab_alloc(4000));
    }
    assert_true(epoch_domain_exit(domain));
}

/* ---- the other thread's part --------------------------------------------------------------------------------- */

static atomic_bool done;

static bool ended; /* the result of the call */
static void close_first(void) {
    ended = epoch_close(allocator, epoch);
    if (ended) {
        SUP_CHECK(epoch_state(allocator, epoch) != EPOCH_ACTIVE, "closed");
        SUP_CHECK(!epoch_close(allocator, epoch), "twice");
    }
}
static void close_epoch(void) {
    close_first();
    atomic_store(&done, true);
}

static bool has_met; /* the other began while this thread had the lock, and domain and epoch could still be found */
static void (*other)(void);
static void (*forks)(void); /* which takes every lock */

/* While this thread has the lock nobody else gets the epoch; without the lock, and outside of its operations, it is
   waited for by nobody. */
static void let_other_begin(void) {
    bool locked = atomic_load(&ts_epoch_lock(entry)->word) != TS_LOCK_FREE;
    bool rests = !locked && atomic_load(&ts_thread.in_op) == 0;
    bool there = epoch_domain_epoch(domain) == epoch && atomic_load(&entry->record.id) == epoch;
    has_met = locked && (other == forks || there);
    let_begin(other);
    if (has_met) {
        until_worker_waits();
        SUP_CHECK(!atomic_load(&done), "another thread has the epoch while its own ends or resets it");
    }
    while (rests && !atomic_load(&done)) {
        sup_sleep_ms(1);
    }
}

/* This thread ends or resets the domain, in which the other begins before the look that is so many on. Returns whether
   the reset has emptied it. *all: there are no more looks. */
static bool end_meanwhile(unsigned at, bool reset, bool *all) {
    bool emptied = true;
    atomic_store(&done, false);
    has_met = ended = false;
    looks_left = at;
    meanwhile = let_other_begin;
    if (reset)
        emptied = epoch_domain_reset(domain, SIZE_MAX);
    else
        epoch_domain_destroy(domain);
    *all = meanwhile != NULL;
    meanwhile = NULL;
    if (!*all) meet();
    return emptied;
}

#define WITH(test) cmocka_unit_test_setup_teardown(test, start, stop)

#endif
