/*
 * The addresses of lent slabs (spill/spill.h, 4): hidden in the mappings that they are in (os.h), or protected in
 * mappings of their own; touching them is a fault; and the bytes come back unchanged, also after any refusal by the
 * system.
 */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include "in_child.h"

#include "api/runtime.h"
#include "keeper.h"

#include "unit.h"

#include <fcntl.h>
#include <stdio.h>
#include <unistd.h>

enum { SLABS = 64, BYTES = 16384 };

static SlabAllocator *allocator;
static ts_allocator *record;
static EpochId one, other;
static char *at[SLABS], *beside[SLABS];
static keeper kept;
static ts_os_table table;
static unsigned hides_left, protects_left; /* calls that are granted */

static bool hide(void *p, size_t bytes, bool on) {
    if (bytes != 0 && on && hides_left-- == 0) {
        hides_left = 0;
        return false;
    }
    return ts_os_native.hide(p, bytes, on);
}
static bool protect(void *p, size_t bytes) {
    if (protects_left == 0) return false;
    protects_left--;
    return ts_os_native.protect(p, bytes);
}

static int set_up(void **state) {
    (void)state;
    table = ts_os_native;
    table.hide = hide;
    table.protect = protect;
    ts_os = &table;
    hides_left = protects_left = UINT32_MAX;
    allocator = slab_allocator_create();
    record = ts_allocator_find(ts_token(allocator));
    one = epoch_open(allocator, "one", EPOCH_CHURN);
    other = epoch_open(allocator, "other", EPOCH_CHURN);
    for (unsigned i = 0; i < SLABS; i++) { /* an object is a slab; no two of one epoch lie side by side */
        assert_non_null(at[i] = slab_malloc_epoch(allocator, BYTES, one));
        assert_non_null(beside[i] = slab_malloc_epoch(allocator, BYTES, other));
        memset(at[i], (int)i, BYTES);
        memset(beside[i], (int)~i, BYTES);
    }
    assert_true(epoch_close(allocator, one));
    return 0;
}

static int tear_down(void **state) {
    (void)state;
    slab_allocator_free(allocator);
    ts_os = &ts_os_native;
    return 0;
}
#define NEEDS_LOANS() \
    if (!ts_os_native.barrier_all() || record->care || ts_os_page_bytes() > TS_UNIT_BYTES) skip()

/* The kernel reads there for us. */
static bool is_accessible(const char *p) {
    static int pipes[2];
    if (pipes[1] == 0) SUP_CHECK(pipe(pipes) == 0, "a pipe");
    char byte;
    bool could = write(pipes[1], p, 1) == 1;
    if (could) SUP_CHECK(read(pipes[0], &byte, 1) == 1, "a pipe");
    return could;
}

static unsigned inaccessible(void) {
    unsigned n = 0;
    for (unsigned i = 0; i < SLABS; i++) n += !is_accessible(at[i]) && !is_accessible(at[i] + BYTES - 1);
    return n;
}

static unsigned mappings(void) {
    char line[512];
    unsigned n = 0;
    FILE *f = fopen("/proc/self/maps", "r");
    SUP_CHECK(f != NULL, "maps");
    while (fgets(line, sizeof line, f)) n += strchr(line, '\n') != NULL;
    (void)fclose(f);
    return n;
}

static void check(void) {
    for (unsigned i = 0; i < SLABS; i++) {
        for (unsigned k = 0; k < BYTES; k++) {
            SUP_CHECK(at[i][k] == (char)i && beside[i][k] == (char)~i, "slab %u, byte %u", i, k);
        }
    }
}

static void in_their_mappings(void **state) {
    (void)state;
    NEEDS_LOANS();
    for (unsigned round = 0; round < 3; round++) {
        bool hidden = ts_spill_hides();
        unsigned before = mappings();
        errno = 7;
        keep(&kept, record, one);
        assert_int_equal(errno, 7);
        assert_int_equal(kept.spill.runs, SLABS);
        assert_true(kept.spill.hides == hidden || SUP_EMULATED);
        if (!SUP_EMULATED) assert_int_equal(inaccessible(), SLABS);
        if (hidden) assert_true(mappings() < before + SLABS / 2); /* else two for each slab */
        for (unsigned i = 0; i < SLABS; i++) SUP_CHECK(beside[i][i] == (char)~i, "what lies beside");
        bring_back(&kept);
        assert_int_equal(inaccessible(), 0);
        check();
    }
}

/* No guard pages: mappings, if they may be used. */
static void none_can_be_hidden(void **state) {
    (void)state;
    NEEDS_LOANS();
    hides_left = 0;
    keep(&kept, record, one);
    assert_false(kept.spill.hides);
    if (!SUP_EMULATED) assert_int_equal(inaccessible(), SLABS);
    bring_back(&kept);
    check();
    /* It is lent still, and every byte is there. */
    kept.spill = (ts_spill){.extent = kept.extent, .room = 4096, .no_mappings = true};
    assert_true(ts_spill_begin(ts_load_relaxed(&record->token), one, &kept.spill));
    errno = 0;
    assert_false(ts_spill_send(&kept.spill));
    assert_true(errno == EBUSY && kept.spill.state == TS_SPILL_LENT);
    ts_spill_return(&kept.spill);
    check();
    /* A send fails in this way at each call for which the system has no more mappings. */
    for (unsigned granted = 0; granted < SLABS; granted += 9) {
        protects_left = granted;
        kept.spill = (ts_spill){.extent = kept.extent, .room = 4096};
        assert_true(ts_spill_begin(ts_load_relaxed(&record->token), one, &kept.spill));
        errno = 0;
        assert_false(ts_spill_send(&kept.spill));
        assert_int_equal(errno, EBUSY);
        ts_spill_return(&kept.spill);
        check();
    }
}

/* A slab that is refused after the first page is protected, or reads as zero. */
static void some_can_be_hidden(void **state) {
    (void)state;
    NEEDS_LOANS();
    if (!ts_spill_hides()) skip();
    for (unsigned granted = 1; granted < SLABS; granted += 7) {
        for (unsigned protects = 0; protects < 2; protects++) {
            hides_left = granted;
            protects_left = protects ? UINT32_MAX : 0;
            keep(&kept, record, one);
            assert_true(kept.spill.hides);
            assert_int_equal(inaccessible(), protects ? SLABS : granted - 1);
            for (unsigned i = 0; i < SLABS; i++)
                if (is_accessible(at[i])) SUP_CHECK(at[i][0] == 0 && at[i][BYTES - 1] == 0, "slab %u", i);
            bring_back(&kept);
            check();
        }
    }
}

/* In a child of fork lent slabs are away, too. */
static void forked_child(void *arg) {
    (void)arg;
    SUP_CHECK(SUP_EMULATED || inaccessible() == SLABS, "%u", inaccessible());
    SUP_CHECK(slab_free(allocator, at[3]) && !slab_free(allocator, at[3]), "free");
}
static void forked(void **state) {
    (void)state;
    NEEDS_LOANS();
    keep(&kept, record, one);
    sup_in_child(forked_child, NULL);
    bring_back(&kept);
    check();
}

/* Ends while it is away: its units are used again. */
static void buried(void **state) {
    (void)state;
    NEEDS_LOANS();
    keep(&kept, record, one);
    assert_true(epoch_destroy(allocator, one));
    assert_true(ts_spill_bury(&kept.spill));
    free(kept.bytes);
    assert_int_equal(inaccessible(), 0);
    EpochId again = epoch_open(allocator, "again", EPOCH_CHURN);
    for (unsigned i = 0; i < 2 * SLABS; i++) {
        char *p = slab_calloc_epoch(allocator, 1, BYTES, again);
        assert_non_null(p);
        for (unsigned k = 0; k < BYTES; k++) SUP_CHECK(p[k] == 0, "zero");
        memset(p, 1, BYTES);
    }
}

int main(void) {
#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)
    const struct CMUnitTest tests[] = {TEST(in_their_mappings), TEST(none_can_be_hidden), TEST(some_can_be_hidden),
                                       TEST(forked), TEST(buried)};
    return cmocka_run_group_tests_name("spill.hidden", tests, NULL, NULL);
}
