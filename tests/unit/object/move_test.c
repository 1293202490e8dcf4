/* Large objects that grow: their pages move where the system does that, else they are copied; beside another that
   grows, too. */
#include "check.h"
#include "identities.h"
#include "pattern.h"
#include "unit.h"

#include "epoch/epoch.h"
#include "os/os.h"
#include "region/region.h"

#include <errno.h>
#include <pthread.h>
#include <string.h>

#define MIB ((size_t)1 << 20)
#define BEHIND ((size_t)128 << 10) /* a span */

static ts_os_table table;
static struct {
    unsigned asked, moved,
        area;         /* area: a range above so many MiB is refused, as if it were several areas; 0: nothing is */
    unsigned refused; /* bit n: the n'th time it is refused */
    void (*before)(void);
} moves;

static bool test_move(void *from, void *to, size_t bytes) {
    unsigned n = moves.asked++;
    if (moves.before) moves.before();
    if (n < 32 && moves.refused >> n & 1) return false;
    if (moves.area != 0 && bytes > moves.area * MIB) return false;
    if (SUP_EMULATED) return false; /* as the library finds out at its start (purge_probe.c) */
    bool moved = ts_os_native.move(from, to, bytes);
    moves.moved += moved;
    return moved;
}

static SlabAllocator *allocator;
static EpochId epoch;

static int begin(void **state) {
    (void)state;
    table = ts_os_native;
    table.move = test_move;
    ts_os = &table;
    memset(&moves, 0, sizeof moves);
    allocator = slab_allocator_create();
    epoch = epoch_open(allocator, NULL, EPOCH_CHURN);
    ts_region.far_bytes = SIZE_MAX; /* those of the FAR part have room behind them (far_test.c) */
    return !allocator || epoch == EPOCH_NONE;
}

static int end(void **state) {
    (void)state;
    int failed = sup_end_only(allocator);
    ts_os = &ts_os_native;
    return failed;
}

static unsigned char *made(size_t bytes, uint64_t key) {
    unsigned char *p = slab_malloc_epoch(allocator, bytes, epoch);
    assert_non_null(p);
    sup_pattern_fill(p, bytes, key);
    return p;
}

/* An object right behind that one, so that it cannot grow where it is. Objects that lie elsewhere end with the
   epoch. */
static unsigned char *made_behind(const unsigned char *p, size_t bytes) {
    const unsigned char *at = p + ts_align_up(bytes, TS_UNIT_BYTES);
    for (unsigned i = 0; i < 4096; i++) {
        unsigned char *behind = made(BEHIND, 2);
        if (behind == at) return behind;
    }
    fail_msg("nothing lies behind the object");
    return NULL;
}

/* The old place of a moved or copied object reads as zero for a calloc. */
static void place_is_zero(const unsigned char *p, size_t bytes) {
    unsigned char *again[16];
    unsigned n = 0;
    bool there = false;
    while (!there && n < 16) {
        unsigned char *q = again[n++] = slab_calloc_epoch(allocator, 1, bytes, epoch);
        assert_non_null(q);
        there = q < p + bytes && p < q + bytes;
        for (size_t i = 0; i < bytes; i += 8)
            if (*(const uint64_t *)(const void *)(q + i) != 0) fail_msg("not zero at %zu", i);
    }
    assert_true(there);
    while (n > 0) assert_true(slab_free(allocator, again[--n]));
}

static void grows(size_t bytes, size_t to) {
    unsigned char *p = made(bytes, 1), *behind = made_behind(p, bytes);
    SlabHandle handle = slab_handle_of(allocator, p);
    assert_true(handle != SLAB_HANDLE_NONE);
    errno = 77;
    unsigned char *q = slab_realloc(allocator, p, to);
    assert_non_null(q);
    assert_int_equal(errno, 77);
    assert_true(q != p && slab_usable_size(allocator, q) >= to);
    assert_true(sup_pattern_check(q, bytes, 1));
    memset(q + bytes, 3, to - bytes);
    place_is_zero(p, bytes);
    assert_false(slab_free(allocator, p));
    assert_false(free_obj(allocator, handle));
    assert_true(sup_pattern_check(q, bytes, 1) && sup_pattern_check(behind, BEHIND, 2));
    assert_true(slab_free(allocator, q) && slab_free(allocator, behind));
}

static void by_moving(void **state) {
    (void)state;
    static const size_t sizes[][2] = {{8 * MIB, 9 * MIB}, {8 * MIB, 40 * MIB}, {4 * MIB, 4 * MIB + 1}};
    for (unsigned i = 0; i < 3; i++) {
        grows(sizes[i][0], sizes[i][1]);
        assert_true(moves.asked > 0);
        assert_int_equal(end(NULL), 0);
        assert_int_equal(begin(NULL), 0);
    }
}

static void by_halves(void **state) {
    (void)state;
    moves.area = 5;
    grows(16 * MIB + 16384, 17 * MIB);
    assert_true(moves.asked > 3);
}

/* One half moves, and the other is copied: its old place has memory still. */
static void by_a_half(void **state) {
    (void)state;
    for (unsigned half = 1; half <= 2; half++) {
        moves.refused = 1u | 1u << half;
        grows(8 * MIB, 9 * MIB);
        assert_int_equal(moves.asked, 3);
        assert_int_equal(end(NULL), 0);
        assert_int_equal(begin(NULL), 0);
    }
}

static void by_copying(void **state) {
    (void)state;
    moves.area = 1;
    grows(16 * MIB, 17 * MIB);
    assert_int_equal(moves.moved, 0);
    assert_int_equal(end(NULL), 0);
    assert_int_equal(begin(NULL), 0);
    grows(4 * MIB - 16384, 5 * MIB);
    assert_int_equal(moves.asked, 0); /* short ones are copied */
}

/* An object that moved leaves no memory behind, and is not counted as if it had. */
static void moved_memory_is_not_retained(void **state) {
    SlabGlobalStats before, after;
    (void)state;
    unsigned char *p = made(8 * MIB, 1), *behind = made_behind(p, 8 * MIB);
    assert_true(slab_stats_global(allocator, &before));
    unsigned char *q = slab_realloc(allocator, p, 16 * MIB);
    assert_non_null(q);
    assert_true(slab_stats_global(allocator, &after));
    assert_true(moves.asked > 0);
    bool whole = moves.moved == moves.asked; /* else it was of several areas: a part was copied */
    if (whole) assert_int_equal(after.retained_bytes, before.retained_bytes);
    assert_int_equal(after.live_objects, before.live_objects);
    if (whole) assert_int_equal(after.committed_bytes, before.committed_bytes + 8 * MIB);
    /* The place is free, and zero. */
    unsigned char *again = slab_calloc_epoch(allocator, 1, 8 * MIB, epoch);
    assert_non_null(again);
    for (size_t i = 0; i < 8 * MIB; i += 512) assert_int_equal(again[i], 0);
    assert_true(sup_pattern_check(q, 8 * MIB, 1) && sup_pattern_check(behind, BEHIND, 2));
}

/* Two that grow in turn by little: each moves once in a while. */
static void two_in_turn(void **state) {
    enum { STEP = 256 << 10, STEPS = 64 };
    unsigned char *p[2] = {made(4 * MIB, 0), made(4 * MIB, 1)};
    unsigned changes = 0;
    (void)state;
    for (size_t i = 1; i <= STEPS; i++) {
        for (unsigned k = 0; k < 2; k++) {
            unsigned char *q = slab_realloc(allocator, p[k], 4 * MIB + i * STEP);
            assert_non_null(q);
            changes += q != p[k];
            p[k] = q;
            q[4 * MIB + i * STEP - 1] = (unsigned char)i;
        }
    }
    for (unsigned k = 0; k < 2; k++) {
        assert_true(sup_pattern_check(p[k], 4 * MIB, k));
        for (size_t i = 1; i <= STEPS; i++) assert_int_equal(p[k][4 * MIB + i * STEP - 1], i);
    }
    assert_true(changes <= 8); /* 7; without room for more 10 */
}

/* Another thread frees the old object when its successor has been allocated: it is told so, and the realloc is
   refused. */
static void *old;
static ts_os_table stepping;
static bool freed_meanwhile;
static void *free_old(void *unused) {
    freed_meanwhile = slab_free(allocator, old);
    return unused;
}
static bool free_at_commit(void *at, size_t bytes) {
    pthread_t other;
    if (old) assert_true(pthread_create(&other, NULL, free_old, NULL) == 0 && pthread_join(other, NULL) == 0);
    old = NULL;
    return ts_os_native.commit(at, bytes);
}
static void freed_meanwhile_it_is_not_moved(void **state) {
    (void)state;
    unsigned char *p = made(8 * MIB, 1), *behind = made_behind(p, 8 * MIB);
    stepping = table;
    stepping.commit = free_at_commit;
    ts_os = &stepping;
    old = p;
    uint64_t live = sup_live_objects(allocator);
    errno = 0;
    unsigned char *q = slab_realloc(allocator, p, 400 * MIB); /* the pool grows for it */
    assert_true(freed_meanwhile && !q);
    assert_int_equal(errno, EINVAL);
    assert_int_equal(moves.asked, 0);
    assert_int_equal(sup_live_objects(allocator), live - 1);
    assert_true(sup_pattern_check(behind, BEHIND, 2));
}

/* Pages would take the place of those of a retained span: there it is copied, and both places keep their memory. */
static void into_retained_memory_it_is_copied(void **state) {
    (void)state;
    unsigned char *there = made(10 * MIB, 5), *p = made(8 * MIB, 1), *behind = made_behind(p, 8 * MIB);
    assert_true(slab_free(allocator, there));
    SlabHandle handle = slab_handle_of(allocator, p);
    unsigned char *q = slab_realloc(allocator, p, 9 * MIB);
    assert_true(q == there && sup_pattern_check(q, 8 * MIB, 1) && sup_pattern_check(behind, BEHIND, 2));
    assert_int_equal(moves.asked, 0);
    assert_false(slab_free(allocator, p));
    assert_false(free_obj(allocator, handle));
    ts_allocator *record = ts_allocator_find(ts_token(allocator));
    assert_true(ts_retained_shared(record) >= 8 * MIB / TS_UNIT_BYTES);
}

#define MOVES(test) cmocka_unit_test_setup_teardown(test, begin, end)

int main(void) {
    const struct CMUnitTest tests[] = {
        MOVES(by_moving),
        MOVES(by_halves),
        MOVES(by_a_half),
        MOVES(by_copying),
        MOVES(moved_memory_is_not_retained),
        MOVES(into_retained_memory_it_is_copied),
        MOVES(two_in_turn),
        MOVES(freed_meanwhile_it_is_not_moved),
    };
    return cmocka_run_group_tests_name("object.move", tests, NULL, NULL);
}
