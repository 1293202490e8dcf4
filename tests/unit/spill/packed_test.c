/*
 * State words of slabs that are away (spill/packed.h): pages of them go, every word comes back, and meanwhile each free, size and handle
 * is answered as if they were there.
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
static ts_os_table table;
static bool refuses_states;
static void (*at_purge)(void);

static struct {
    char *at;
    SlabHandle handle;
    uint32_t bytes;
    bool live;
} object[OBJECTS];
static unsigned objects, live;

static bool is_of_states(const void *at) {
    const char *states = (const char *)(uintptr_t)ts_unit_states(0, false);
    return (const char *)at >= states && (const char *)at < states + (size_t)ts_region_marked_units(TS_NORMAL) * 512;
}
static bool test_purge(void *at, size_t bytes) {
    void (*fn)(void) = at_purge;
    if (!is_of_states(at)) return ts_os_native.purge(at, bytes);
    at_purge = NULL;
    if (fn) fn();
    return !refuses_states && ts_os_native.purge(at, bytes);
}

static void nothing(void) {}
static int set_up(void **state) {
    (void)state;
    table = ts_os_native;
    table.purge = test_purge;
    ts_os = &table;
    refuses_states = false;
    at_purge = NULL;
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
    ts_os = &ts_os_native;
    for (uint32_t i = 0; i < TS_PACK_GROUPS / 64; i++) assert_int_equal(ts_load_relaxed(&ts_packed_groups[i]), 0);
    return 0;
}
#define NEEDS_LOANS() \
    if (!ts_os_native.barrier_all() || record->care || ts_os_page_bytes() > TS_UNIT_BYTES) skip()

/* Objects of 64 bytes and more, of which many are the second or third at their place, in a closed epoch. */
static void fill(unsigned flags, uint32_t least, uint32_t most) {
    struct sup_rng rng = {sup_mix(flags + most)};
    epoch = epoch_open(allocator, "packed", flags);
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

/* The number of live objects, first: the deep walk has all words written again. */
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

static uint16_t words[4096 * TS_STATES_COARSE];
static void copy_words(uint16_t *to) {
    for (size_t i = 0, n = 0; i < kept.spill.pieces; i++)
        for (unsigned k = 0; k < TS_STATES_COARSE; k++)
            to[n++] = ts_load_relaxed(&ts_unit_states(kept.piece[i].unit, false)[k]);
}

/* ---- there and back ---------------------------------------------------------------------------------------------- */

static void every_word(void **state) {
    (void)state;
    NEEDS_LOANS();
    static const uint32_t sizes[][2] = {{64, 64}, {64, 768}, {100, 4000}, {3000, 4000}};
    static uint16_t after[sizeof words / sizeof *words];
    for (unsigned i = 0; i < 8; i++) {
        unsigned flags = i % 2 ? EPOCH_SCOPE : EPOCH_CHURN;
        fill(flags, sizes[i / 2][0], sizes[i / 2][1]);
        /* What the words were is seen when they are lent, by a keeper who sends nothing. */
        kept.spill = (ts_spill){.piece = kept.piece, .room = 4096};
        assert_true(ts_spill_begin(record, epoch, &kept.spill));
        copy_words(words);
        size_t pieces = kept.spill.pieces;
        ts_spill_return(&kept.spill);
        keep(&kept, record, epoch, UINT32_MAX);
        assert_int_equal(kept.spill.pieces, pieces);
        unsigned packed = units_packed(&kept);
        SUP_CHECK(packed + kept.spill.runs * 2 * (TS_PACK_GROUP - 1) >= pieces, "%u of %zu slabs are packed", packed,
                  pieces);
        unsigned gone = 0;
        for (const ts_pack *p = kept.spill.packs; p; p = p->next)
            gone += !is_resident((const void *)(uintptr_t)ts_unit_states(p->first, false));
        SUP_CHECK(gone * TS_PACK_GROUP >= packed, "%u pages have gone, of %u slabs", gone, packed);
        bring_back(&kept);
        kept.spill = (ts_spill){.piece = kept.piece, .room = 4096};
        assert_true(ts_spill_begin(record, epoch, &kept.spill));
        copy_words(after);
        ts_spill_return(&kept.spill);
        size_t used = flags == EPOCH_SCOPE ? TS_STATES_COARSE / 2 : TS_STATES_COARSE;
        for (size_t k = 0; k < pieces; k++)
            SUP_CHECK(memcmp(words + k * TS_STATES_COARSE, after + k * TS_STATES_COARSE, used * 2) == 0, "slab %zu", k);
        check_bytes();
        sup_check_identities(allocator);
        end_epoch();
    }
}

/* ---- meanwhile ---------------------------------------------------------------------------------------------------- */

/* Sizes, handles, doubles and foreign addresses. */
static void looks(void **state) {
    (void)state;
    NEEDS_LOANS();
    for (unsigned flags = EPOCH_CHURN; flags <= EPOCH_SCOPE; flags++) {
        fill(flags, 64, 700);
        keep(&kept, record, epoch, UINT32_MAX);
        unsigned packed = units_packed(&kept);
        for (unsigned i = 0; i < objects; i += 7) {
            assert_true(slab_usable_size(allocator, object[i].at) >= object[i].bytes);
            assert_ptr_equal(slab_handle_get(allocator, object[i].handle), object[i].at);
            assert_int_equal(slab_handle_of(allocator, object[i].at), object[i].handle);
            assert_false(slab_free(allocator, object[i].at + 16));
            assert_false(slab_owns(allocator, object[i].at + 1));
        }
        assert_true(units_packed(&kept) < packed); /* who is asked for has its words again */
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
/* Freed between the two: statistics count by the state words what is freed and not collected yet. */
static void freed_before(void **state) {
    (void)state;
    NEEDS_LOANS();
    for (unsigned flags = EPOCH_CHURN; flags <= EPOCH_SCOPE; flags++) {
        fill(flags, 64, 64);
        keeper_copied = free_few;
        keep(&kept, record, epoch, UINT32_MAX);
        assert_true(units_packed(&kept) > 0);
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
        keep(&kept, record, epoch, UINT32_MAX);
        assert_true(units_packed(&kept) > 0);
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

/* Handles of what died while it was away name nothing that comes after, at the same place. */
static void stale(void **state) {
    (void)state;
    NEEDS_LOANS();
    static SlabHandle old[SLOTS];
    for (unsigned round = 0; round < 4; round++) {
        fill(round % 2 ? EPOCH_SCOPE : EPOCH_CHURN, 64, 900);
        for (unsigned i = 0; i < SLOTS; i++) old[i] = object[i].handle;
        keep(&kept, record, epoch, UINT32_MAX);
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

/* ---- what goes wrong ------------------------------------------------------------------------------------------------ */

/* No memory for what is packed, at each call; a system that keeps its pages. */
static void refused(void **state) {
    (void)state;
    NEEDS_LOANS();
    for (unsigned i = 0; i < 12; i++) {
        refuses_states = i >= 6;
        fill(i % 2 ? EPOCH_SCOPE : EPOCH_CHURN, 64, 700);
        keep(&kept, record, epoch, i < 6 ? i / 2 : UINT32_MAX);
        if (i < 4) assert_int_equal(units_packed(&kept), 0); /* not even the first call, or only that */
        for (unsigned k = 0; k < objects; k += 2) free_one(k);
        check_away();
        bring_back(&kept);
        check_bytes();
        sup_check_identities(allocator);
        end_epoch();
    }
}

/* A free while pages go: it waits, and is not lost. */
static atomic_bool done;
static void free_half(void) {
    for (unsigned i = 0; i < objects; i += 2) free_one(i);
    atomic_store(&done, true);
}
static bool was_early;
static void others_free(void) {
    let_begin(free_half);
    for (unsigned naps = 0; naps < 50 && !atomic_load(&done); naps++) (void)usleep(100);
    was_early = atomic_load(&done);
}
static void while_pages_go(void **state) {
    (void)state;
    NEEDS_LOANS();
    for (unsigned flags = EPOCH_CHURN; flags <= EPOCH_SCOPE; flags++) {
        fill(flags, 64, 64);
        atomic_store(&done, false);
        at_purge = others_free;
        keep(&kept, record, epoch, UINT32_MAX);
        assert_null(at_purge);
        meet();
        assert_false(was_early);
        check_away();
        bring_back(&kept);
        check_bytes();
        sup_check_identities(allocator);
        end_epoch();
    }
}

/* ---- a child of fork ---------------------------------------------------------------------------------------------- */

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

/* While they are away, and in the middle of the call by which they go. */
static void forked(void **state) {
    (void)state;
    NEEDS_LOANS();
    for (unsigned round = 0; round < 4; round++) {
        fill(round % 2 ? EPOCH_SCOPE : EPOCH_CHURN, 64, 700);
        if (round < 2) at_purge = forks;
        keep(&kept, record, epoch, UINT32_MAX);
        if (round >= 2) forks();
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
        cmocka_unit_test_setup_teardown(every_word, set_up, tear_down),
        cmocka_unit_test_setup_teardown(looks, set_up, tear_down),
        cmocka_unit_test_setup_teardown(freed_before, set_up, tear_down),
        cmocka_unit_test_setup_teardown(frees, set_up, tear_down),
        cmocka_unit_test_setup_teardown(stale, set_up, tear_down),
        cmocka_unit_test_setup_teardown(refused, set_up, tear_down),
        cmocka_unit_test_setup_teardown(while_pages_go, set_up, tear_down),
        cmocka_unit_test_setup_teardown(forked, set_up, tear_down),
    };
    return cmocka_run_group_tests_name("epoch.packed", tests, NULL, NULL);
}
