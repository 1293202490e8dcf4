/*
 * A domain whose epoch its thread has by its bias, and a second thread that does something to it from a chosen step of the first on. domain.c
 * and domain_end.c are compiled once more, in place of the library's, with a place to stop at before every look at a shared word.
 */
#ifndef EPOCH_TEST_BIASED_H
#define EPOCH_TEST_BIASED_H

#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include "identities.h"
#include "proc.h"
#include "unit.h"

#include "api/runtime.h"
#include "cache/free.h"
#include "domain/domain.h"
#include "epoch/blocks.h"
#include "errands.h"
#include "memtools/care.h"
#include "walk/check.h"

#include <stdatomic.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define SUP_OWN_STEP
#include "steps.h"

#ifdef STOPS_BEFORE_END_OF_USE /* the domain has ended by then, its epoch not yet */
#define ts_epoch_end_use(e, b, plain) (step(), (ts_epoch_end_use)((e), (b), (plain)))
#endif
#include "domain/domain.c"
#include "domain/domain_end.c"
#undef ts_epoch_end_use
#undef ts_load_relaxed
#undef ts_load_acquire
#define ts_load_relaxed(p) atomic_load_explicit((p), memory_order_relaxed)
#define ts_load_acquire(p) atomic_load_explicit((p), memory_order_acquire)

static SlabAllocator *allocator;
static EpochDomain *domain;
static EpochId epoch;
static ts_epoch *entry;
static ts_os_table table;
static atomic_uint barriers;
static bool refuse_barrier;
static void (*at_barrier)(void);

static bool barrier(void) {
    if (refuse_barrier) {
        return false;
    }
    barriers++;
    void (*fn)(void) = at_barrier;
    at_barrier = NULL;
    if (fn) {
        fn();
    }
    return ts_os_native.barrier_all();
}

/* What begins in this thread before its step'th look. */
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

static atomic_bool done;

static bool is_done_within(unsigned ms) {
    for (unsigned i = 0; i < 10 * ms && !atomic_load(&done); i++) {
        struct timespec t = {0, 100000};
        nanosleep(&t, NULL);
    }
    return atomic_load(&done);
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

static uint32_t my_bias(void) { return atomic_load(&ts_heap_mine()->biased); }

/* So many epochs since it lost its bias. */
static bool bias_again; /* though the barrier was refused */
static void rest(unsigned epochs) {
    if (bias_again) {
        atomic_store(&ts_heap_mine()->biased, my_bias() / 16 * 16 + 3);
    }
    ts_heap_mine()->bias = bias_again && epochs != 0 ? my_bias() : 0;
    ts_heap_mine()->bias_rest = epochs;
}

/* With some objects. */
static void make_domain(bool biased) {
    rest(biased ? TS_BIAS_REST - 1 : 0);
    domain = epoch_domain_create(allocator);
    assert_non_null(domain);
    epoch = epoch_domain_epoch(domain);
    entry = entry_of(domain);
    assert_int_equal(atomic_load(&entry->bias), biased ? my_bias() : 0);
    assert_true(epoch_domain_enter(domain));
    for (unsigned i = 0; i < 3; i++) {
        assert_non_null(slab_alloc(4000));
    }
    assert_true(epoch_domain_exit(domain));
}

/* ---- what the other does ------------------------------------------------------------------------------------- */

static bool ended; /* what the call has answered */
static void close_first(void) {
    ended = epoch_close(allocator, epoch);
    if (ended) {
        SUP_CHECK(epoch_state(allocator, epoch) != EPOCH_ACTIVE, "closed");
        SUP_CHECK(!epoch_close(allocator, epoch), "twice");
    }
}
static void close_it(void) {
    close_first();
    atomic_store(&done, true);
}

static bool was_biased; /* when the other began, inside of the operation */

static void (*other)(void);
static void (*forks)(void); /* which waits for any operation */
static bool asks;           /* what the other does is an end, which waits for nobody */

/* While an operation of this thread can be changing the epoch nobody else gets it, nor its copy in a child. */
static void let_it_begin(void) {
    was_biased = atomic_load(&ts_thread.in_op) == TS_IN_END && atomic_load(&entry->bias) == my_bias() &&
                 (other == forks || atomic_load(&entry->entry.id) == epoch);
    bool locked = atomic_load(&ts_epoch_lock(entry)->word) != TS_LOCK_FREE; /* by this thread */
    let_begin(other);
    if (asks) {
        SUP_CHECK(locked || is_done_within(10000), "an end waits");
    } else if (was_biased) {
        SUP_CHECK(!is_done_within(10), "another thread has the epoch while its own ends or resets it");
    } else if (atomic_load(&ts_thread.in_op) == 0 && atomic_load(&ts_epoch_lock(entry)->word) == TS_LOCK_FREE) {
        SUP_CHECK(is_done_within(10000), "it waits for nobody");
    }
}

/* This thread ends or resets the domain, in which the other begins before the look that is so many on. Returns whether the reset has emptied
   it. *met: the other met the operation. *all: there are no more looks. */
static bool end_meanwhile(unsigned at, bool reset, bool *met, bool *all) {
    bool emptied = true;
    atomic_store(&done, false);
    was_biased = ended = false;
    looks_left = at;
    meanwhile = let_it_begin;
    if (reset)
        emptied = epoch_domain_reset(domain, SIZE_MAX);
    else
        epoch_domain_destroy(domain);
    *all = meanwhile != NULL;
    meanwhile = NULL;
    if (!*all) meet();
    *met = !*all && was_biased;
    return emptied;
}

#define WITH(test) cmocka_unit_test_setup_teardown(test, start, stop)

#endif
