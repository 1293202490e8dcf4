/*
 * Objects of an epoch that is away (spill/spill.h): each free, size and handle is answered as if the epoch were in
 * memory, by its owner, by other threads and in a child of fork, and the bytes of the objects that are left come
 * back.
 */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include "identities.h"
#include "rng.h"

#include "bins.h"
#include "errands.h"
#include "keeper.h"
#include "walk/check.h"

#include "unit.h"

#include <errno.h>
#include <signal.h>
#include <stdatomic.h>
#include <sys/wait.h>
#include <unistd.h>

enum { OBJECTS = 6000, SLOTS = OBJECTS };
static SlabAllocator *allocator;
static ts_allocator *record;
static EpochId epoch;
static keeper kept;
static struct {
    char *at;
    SlabHandle handle;
    uint32_t bytes;
    bool live;
} object[OBJECTS];
static unsigned objects, live;

static void nothing(void) {}
static int set_up(void **state) {
    (void)state;
    if (!ts_os_native.barrier_all()) return 0;
    allocator = slab_allocator_create();
    begin();
    let(nothing); /* its heap is made: the deep walk looks at it */
    record = ts_allocator_find(ts_token(allocator));
    return record == NULL || ts_heap_mine() == NULL;
}
static int tear_down(void **state) {
    (void)state;
    if (!ts_os_native.barrier_all()) return 0;
    end();
    sup_check_empty(allocator);
    slab_allocator_free(allocator);
    return 0;
}
#define NEEDS_LOANS() \
    if (!ts_os_native.barrier_all() || record->care || ts_os_page_bytes() > TS_UNIT_BYTES) skip()

/* Objects of 64 bytes and more, of which many are the second or third at their place, in a closed epoch. */
static void fill(unsigned flags, uint32_t least, uint32_t most) {
    struct sup_rng rng = {sup_mix(flags + most)};
    epoch = epoch_open(allocator, "away", flags);
    for (unsigned round = 0; round < 3; round++) {
        for (unsigned i = 0; i < SLOTS; i++) {
            if (object[i].live && sup_rng_below(&rng, 3) != 0) continue;
            if (object[i].live) assert_true(free_obj(allocator, object[i].handle));
            object[i].bytes = least + (uint32_t)sup_rng_below(&rng, most - least + 1);
            object[i].at = alloc_obj_epoch(allocator, object[i].bytes, epoch, &object[i].handle);
            assert_non_null(object[i].at);
            memset(object[i].at, (int)i, object[i].bytes);
            object[i].live = true;
        }
    }
    objects = live = SLOTS;
    assert_true(epoch_close(allocator, epoch));
}

static void forget(void) { memset(object, 0, sizeof object); }

static void check_bytes(void) {
    for (unsigned i = 0; i < objects; i++)
        for (uint32_t k = 0; object[i].live && k < object[i].bytes; k++) SUP_CHECK(object[i].at[k] == (char)i, "bytes");
}

/* Freed by its pointer or its handle, once. */
static void free_one(unsigned i) {
    if (!object[i].live) return;
    SUP_CHECK(i % 2 ? slab_free(allocator, object[i].at) : free_obj(allocator, object[i].handle), "object %u", i);
    SUP_CHECK(!slab_free(allocator, object[i].at) && !free_obj(allocator, object[i].handle), "object %u, twice", i);
    object[i].live = false;
    live--;
}

static void check_away(void) {
    static ts_check check;
    SUP_CHECK(sup_live_objects(allocator) == live, "%zu live, not %u", (size_t)sup_live_objects(allocator), live);
    SUP_CHECK(ts_check_all(&check, false), "%s", check.why);
}

static void end_epoch(void) {
    if (live != 0) assert_true(epoch_destroy(allocator, epoch));
    assert_int_equal(epoch_state(allocator, epoch), EPOCH_CLOSED);
    forget();
}

/* ---- meanwhile --------------------------------------------------------------------------------------------------- */

/* Sizes, handles, doubles and foreign addresses. */
static void looks(void **state) {
    (void)state;
    NEEDS_LOANS();
    for (unsigned flags = EPOCH_CHURN; flags <= EPOCH_SCOPE; flags++) {
        fill(flags, 64, 700);
        keep(&kept, record, epoch);
        for (unsigned i = 0; i < objects; i += 7) {
            assert_true(slab_usable_size(allocator, object[i].at) >= object[i].bytes);
            assert_ptr_equal(slab_handle_get(allocator, object[i].handle), object[i].at);
            assert_int_equal(slab_handle_of(allocator, object[i].at), object[i].handle);
            assert_false(slab_free(allocator, object[i].at + 16));
            assert_false(slab_owns(allocator, object[i].at + 1));
        }
        check_away();
        bring_back(&kept);
        check_bytes();
        end_epoch();
    }
}

static void free_thirds(void) {
    for (unsigned i = 0; i < objects; i++)
        if (i % 3 == 1) free_one(i);
}

static void free_few(void) {
    for (unsigned i = 0; i < 3; i++) free_one(i); /* side by side */
}
/* Freed between the two: statistics count by the live words the objects that are freed and not collected yet. */
static void freed_before(void **state) {
    (void)state;
    NEEDS_LOANS();
    for (unsigned flags = EPOCH_CHURN; flags <= EPOCH_SCOPE; flags++) {
        fill(flags, 64, 64);
        keeper_copied = free_few;
        keep(&kept, record, epoch);
        SUP_CHECK(sup_live_objects(allocator) == live, "%zu live", (size_t)sup_live_objects(allocator));
        check_away();
        bring_back(&kept);
        check_bytes();
        sup_check_identities(allocator);
        end_epoch();
    }
}

/* By the owner, by another thread, some and all; then they come back, or nobody is left. */
static void frees(void **state) {
    (void)state;
    NEEDS_LOANS();
    for (unsigned round = 0; round < 8; round++) {
        fill(round % 2 ? EPOCH_SCOPE : EPOCH_CHURN, 64, 900);
        keep(&kept, record, epoch);
        let(free_thirds);
        check_away();
        for (unsigned i = 0; i < objects; i += 3) free_one(i);
        check_away();
        for (unsigned i = 0; round & 2 && i < objects; i++) free_one(i);
        if (round & 4 && live != 0) {
            assert_true(epoch_destroy(allocator, epoch));
            live = 0;
        }
        if (live == 0) {
            assert_true(ts_spill_is_over(&kept.spill) && ts_spill_bury(&kept.spill));
            free(kept.bytes);
            forget();
        } else {
            bring_back(&kept);
            sup_check_identities(allocator);
            check_bytes();
            for (unsigned i = 0; i < objects; i++) free_one(i);
        }
        assert_int_equal(epoch_state(allocator, epoch), EPOCH_CLOSED);
        forget();
    }
}

/* Handles of objects that died while away name no later object at the same place. */
static void stale(void **state) {
    (void)state;
    NEEDS_LOANS();
    static SlabHandle old[SLOTS];
    for (unsigned round = 0; round < 4; round++) {
        fill(round % 2 ? EPOCH_SCOPE : EPOCH_CHURN, 64, 900);
        for (unsigned i = 0; i < SLOTS; i++) old[i] = object[i].handle;
        keep(&kept, record, epoch);
        if (round < 2) {
            assert_true(epoch_destroy(allocator, epoch));
            live = 0;
        } else {
            for (unsigned i = 0; i < SLOTS; i++) free_one(i);
        }
        assert_true(ts_spill_bury(&kept.spill));
        free(kept.bytes);
        forget();
        fill(EPOCH_CHURN, 64, 900);
        for (unsigned i = 0; i < SLOTS; i++) {
            assert_null(slab_handle_get(allocator, old[i]));
            assert_false(free_obj(allocator, old[i]));
        }
        check_bytes();
        end_epoch();
    }
}

/* ---- a child of fork --------------------------------------------------------------------------------------------- */

static void child(void) {
    static const int faults[] = {SIGSEGV, SIGBUS, SIGILL, SIGFPE, SIGABRT};
    for (unsigned i = 0; i < sizeof faults / sizeof *faults; i++) (void)signal(faults[i], SIG_DFL); /* not cmocka's */
    alarm(60);
    for (unsigned i = 0; i < objects; i += 2) free_one(i);
    SUP_CHECK(sup_live_objects(allocator) == live, "%zu live", (size_t)sup_live_objects(allocator));
    SUP_CHECK(epoch_destroy(allocator, epoch), "no destroy");
    _exit(0);
}
static pid_t pid;
static void forks(void) {
    pid = fork();
    if (pid == 0) child();
}

static void forked(void **state) {
    (void)state;
    NEEDS_LOANS();
    for (unsigned round = 0; round < 2; round++) {
        fill(round % 2 ? EPOCH_SCOPE : EPOCH_CHURN, 64, 700);
        keep(&kept, record, epoch);
        forks();
        int status;
        assert_int_equal(waitpid(pid, &status, 0), pid);
        assert_true(WIFEXITED(status) && WEXITSTATUS(status) == 0);
        bring_back(&kept);
        check_bytes();
        sup_check_identities(allocator);
        end_epoch();
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(looks, set_up, tear_down),
        cmocka_unit_test_setup_teardown(freed_before, set_up, tear_down),
        cmocka_unit_test_setup_teardown(frees, set_up, tear_down),
        cmocka_unit_test_setup_teardown(stale, set_up, tear_down),
        cmocka_unit_test_setup_teardown(forked, set_up, tear_down),
    };
    return cmocka_run_group_tests_name("spill.away", tests, NULL, NULL);
}
