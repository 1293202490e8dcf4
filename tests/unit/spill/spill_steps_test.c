/*
 * The loan of slabs with another thread between its steps. spilled.c is compiled once more, in place of the
 * library's, with places to stop at: before and after a slab's word is written that lends it, and before that which
 * says it is dead.
 */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include "identities.h"

#include "bins.h"
#include "cache/cache.h"
#include "epoch/epoch.h"
#include "errands.h"
#include "spill/spill.h"
#include "spill/spilled.h"
#include "stops.h"

#include <errno.h>
#include <signal.h>
#include <stdatomic.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

static sup_stop at_word;

static bool stopping_cas(_Atomic uint64_t *at, uint64_t *expected, uint64_t value) {
    sup_stop_here(&at_word);
    bool done =
        atomic_compare_exchange_strong_explicit(at, expected, value, memory_order_seq_cst, memory_order_acquire);
    sup_stop_here(&at_word);
    return done;
}
#undef ts_cas_seq
#define ts_cas_seq(p, e, v) stopping_cas((p), (e), (v))
#undef ts_store_release
#define ts_store_release(p, v) (sup_stop_here(&at_word), atomic_store_explicit((p), (v), memory_order_release))
#define block_of block_of_unit /* bins.h has another */
#include "spill/spilled.c"
#undef block_of

#include "unit.h"

enum { EXTENTS = 64 };
static SlabAllocator *allocator;
static ts_allocator *record;
static EpochId epoch;
static void *object[2];
static ts_spill_extent extents[EXTENTS];
static ts_spill spill;
static ts_os_table table;
static bool no_barrier;

static bool test_barrier(void) { return !no_barrier && ts_os_native.barrier_all(); }

static int set_up(void **state) {
    (void)state;
    table = ts_os_native;
    table.barrier_all = test_barrier;
    ts_os = &table;
    no_barrier = false;
    if (!ts_os_native.barrier_all()) return 0; /* every test looks */
    allocator = slab_allocator_create();
    begin(); /* its thread makes a heap of its own, which the core has to be there for */
    record = ts_allocator_find(ts_token(allocator));
    spill = (ts_spill){.extent = extents, .room = EXTENTS};
    return record == NULL || ts_heap_mine() == NULL;
}

static int tear_down(void **state) {
    (void)state;
    if (!ts_os_native.barrier_all()) return 0;
    end();
    sup_check_empty(allocator);
    slab_allocator_free(allocator);
    ts_os = &ts_os_native;
    return 0;
}
/* A barrier for all threads, and an allocator that marks nothing for a memory tool: others lend nothing. */
#define NEEDS_LOANS() \
    if (!ts_os_native.barrier_all() || record->care) skip()

static void open_epoch(unsigned flags) {
    epoch = epoch_open(allocator, "lent", flags);
    SUP_CHECK(epoch != EPOCH_NONE, "no epoch");
}

static void fill(void) {
    for (unsigned i = 0; i < 2; i++)
        SUP_CHECK((object[i] = slab_malloc_epoch(allocator, 500, epoch)) != NULL, "no object");
}

static void free_all(void) {
    for (unsigned i = 0; i < 2; i++) SUP_CHECK(slab_free(allocator, object[i]), "object %u is not freed", i);
}

/* ---- the order of lending ---------------------------------------------------------------------------------------- */

static atomic_bool freed;
static void free_all_and_say(void) {
    free_all();
    atomic_store(&freed, true);
}

/* The other thread goes on by itself: it may wait for the heap that this one holds. */
static void others_free(void) {
    let_begin(free_all_and_say);
    until_worker_waits();
}

/* Whichever of the two comes first: the last free ends the epoch, at once, and nothing stays behind. */
static void freed_while_lent(void **state) {
    (void)state;
    NEEDS_LOANS();
    for (unsigned at = 0; at < 4; at++) {
        open_epoch(at < 2 ? EPOCH_CHURN : EPOCH_SCOPE);
        fill();
        assert_true(epoch_close(allocator, epoch));
        atomic_store(&freed, false);
        sup_stop_arm(&at_word, at % 2, others_free);
        bool lent = ts_spill_begin(ts_load_relaxed(&record->token), epoch, &spill);
        int error = errno;
        assert_true(sup_stop_disarm(&at_word));
        meet();
        assert_true(atomic_load(&freed));
        if (lent) {
            assert_true(ts_spill_is_over(&spill));
            assert_true(ts_spill_bury(&spill));
        } else {
            assert_int_equal(error, EBUSY);
            slab_thread_idle();
        }
        assert_int_equal(epoch_state(allocator, epoch), EPOCH_CLOSED);
        assert_int_equal(ts_load_relaxed(&ts_spills), 0);
    }
}

/* ---- a block whose thread has not let go of it ------------------------------------------------------------------- */

static void block_not_flushed(void **state) {
    (void)state;
    NEEDS_LOANS();
    for (unsigned flags = EPOCH_CHURN; flags <= EPOCH_SCOPE; flags++) {
        open_epoch(flags);
        let(fill);
        no_barrier = true; /* so it cannot be done for the other thread */
        assert_true(epoch_close(allocator, epoch));
        no_barrier = false;
        assert_false(ts_load_relaxed(&block_of(object[0])->flushed));
        errno = 0;
        assert_false(ts_spill_begin(ts_load_relaxed(&record->token), epoch, &spill));
        assert_int_equal(errno, EBUSY);
        assert_int_equal(ts_load_relaxed(&ts_spills), 0);
        let(slab_thread_idle);
        assert_true(ts_load_relaxed(&block_of(object[0])->flushed));
        assert_true(ts_spill_begin(ts_load_relaxed(&record->token), epoch, &spill));
        ts_spill_return(&spill);
        let(free_all);
        assert_int_equal(epoch_state(allocator, epoch), EPOCH_CLOSED);
    }
}

/* ---- a slab that dies while its loan ends ------------------------------------------------------------------------ */

static atomic_bool returned;
static bool returned_too_early;
static void return_and_say(void) {
    ts_spill_return(&spill);
    atomic_store(&returned, true);
}
static void others_return(void) {
    let_begin(return_and_say);
    until_worker_waits();
    returned_too_early = atomic_load(&returned);
}

/* The unit is still being taken out of its block: it goes to nobody before that is done. */
static void returned_while_it_dies(void **state) {
    (void)state;
    NEEDS_LOANS();
    for (unsigned flags = EPOCH_CHURN; flags <= EPOCH_SCOPE; flags++) {
        open_epoch(flags);
        fill();
        assert_true(epoch_close(allocator, epoch));
        assert_true(ts_spill_begin(ts_load_relaxed(&record->token), epoch, &spill));
        atomic_store(&returned, false);
        sup_stop_arm(&at_word, 0, others_return);
        free_all();
        assert_true(sup_stop_disarm(&at_word));
        SUP_CHECK(!returned_too_early, "the loan ended in the middle of taking a slab out");
        meet();
        assert_true(atomic_load(&returned));
        assert_int_equal(epoch_state(allocator, epoch), EPOCH_CLOSED);
    }
}

/* ---- a child of fork --------------------------------------------------------------------------------------------- */

static void child(ts_epoch *e) {
    static const int faults[] = {SIGSEGV, SIGBUS, SIGILL, SIGFPE, SIGABRT};
    for (unsigned i = 0; i < sizeof faults / sizeof *faults; i++) (void)signal(faults[i], SIG_DFL); /* not cmocka's */
    SUP_CHECK(e->pins == 1, "%u pins: the record has one, and whoever had the other is not here", e->pins);
    SUP_CHECK(epoch_destroy(allocator, epoch), "no destroy");
    SUP_CHECK(e->pins == 1 && ts_spill_is_over(&spill), "the destroyed epoch is not held for its record");
    EpochId next = epoch_open(allocator, "next", EPOCH_CHURN);
    for (unsigned i = 0; i < 2000; i++) { /* no new object lies in inaccessible memory */
        char *p = slab_malloc_epoch(allocator, 8000, next);
        SUP_CHECK(p, "no memory");
        memset(p, 1, 8000);
    }
    SUP_CHECK(epoch_destroy(allocator, next), "no destroy");
    _exit(0);
}

static void pinned_at_a_fork(void **state) {
    (void)state;
    NEEDS_LOANS();
    open_epoch(EPOCH_CHURN);
    fill();
    assert_true(epoch_close(allocator, epoch));
    assert_true(ts_spill_begin(ts_load_relaxed(&record->token), epoch, &spill) && ts_spill_send(&spill));
    /* Another thread walks the epoch: it has it pinned. */
    ts_epoch *e = ts_epoch_find_locked(record, epoch);
    assert_non_null(e);
    e->pins++;
    ts_epoch_release(e);
    pid_t pid = fork();
    if (pid == 0) child(e);
    int status;
    assert_int_equal(waitpid(pid, &status, 0), pid);
    assert_true(WIFEXITED(status) && WEXITSTATUS(status) == 0);
    ts_epoch_unpin(e);
    assert_true(ts_spill_fetch(&spill));
    ts_spill_return(&spill);
    assert_true(epoch_destroy(allocator, epoch));
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(freed_while_lent, set_up, tear_down),
        cmocka_unit_test_setup_teardown(block_not_flushed, set_up, tear_down),
        cmocka_unit_test_setup_teardown(returned_while_it_dies, set_up, tear_down),
        cmocka_unit_test_setup_teardown(pinned_at_a_fork, set_up, tear_down),
    };
    return cmocka_run_group_tests_name("spill.spill_steps", tests, NULL, NULL);
}
