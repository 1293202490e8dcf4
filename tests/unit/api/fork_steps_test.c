/*
 * A fork while another thread is between two steps that no lock and no operation holds together: in a rewind, in an
 * advance, in its first allocation, and in the start of sampled stacks. The child finds both steps done, or goes on as
 * if none was. The files of these steps are compiled once more, in place of the library's, with a place to fork at.
 */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include "errands.h"
#include "in_child.h"
#include "unit.h"
#include "walk/check.h"

#include "domain/domain.h"
#include "epoch/epoch.h"
#include "observe/stack_totals.h"
#include "supply/supply.h"

static void between(void);
#define ts_lines_give(kind, line) (between(), (ts_lines_give)((kind), (line)))
#include "domain/mark.c"
#undef ts_lines_give
#define ts_epoch_close(allocator, id) (between(), (ts_epoch_close)((allocator), (id)))
#include "epoch/epoch.c"
#define ts_lock_acquire(lock) (between(), (ts_lock_acquire)(lock))
#include "supply/share.c"
#undef ts_lock_acquire
#define ts_stack_totals_start(at) (between(), (ts_stack_totals_start)(at))
#include "observe/stacks.c"

enum { SIZE = 64 };

static SlabAllocator *allocator;
static EpochId epoch;
static EpochDomain *domain;
static char *object;
static void (*in_the_child)(void *);

static void fork_there(void) { sup_in_child(in_the_child, NULL); }
static void between(void) {
    if (!in_the_child || ts_thread.heap == other_heap) return;
    let(fork_there);
    in_the_child = NULL;
}

static void walk(void) {
    static ts_check check;
    SUP_CHECK(ts_check_all(&check, true), "%s", check.why);
}

static int start(void **state) {
    (void)state;
    allocator = slab_allocator_create();
    begin();
    return allocator == NULL;
}
static int stop(void **state) {
    (void)state;
    end();
    slab_allocator_free(allocator);
    return 0;
}

/* ---- a rewind ------------------------------------------------------------------------------------------------- */

static void end_the_domain(void *unused) {
    (void)unused;
    walk();
    SUP_CHECK(epoch_domain_end(domain), "epoch_domain_end: %s", strerror(errno));
    walk();
    (void)slab_trim(allocator);
    SUP_CHECK(object[0] == 'o' && slab_usable_size(allocator, object) >= SIZE, "an object of before the mark");
    SUP_CHECK(slab_free(allocator, object), "slab_free");
    SUP_CHECK(epoch_destroy(allocator, epoch), "epoch_destroy");
    walk();
}

static void anchors_are_taken_away_once(void **state) {
    (void)state;
    SlabMark mark[3];
    epoch = epoch_open(allocator, NULL, EPOCH_SCOPE);
    domain = epoch_domain_wrap(allocator, epoch, false);
    object = slab_malloc_epoch(allocator, SIZE, epoch);
    object[0] = 'o';
    for (int i = 0; i < 3; i++) assert_true(epoch_domain_mark(domain, &mark[i]));
    in_the_child = end_the_domain;
    assert_true(epoch_domain_rewind(domain, mark[0]));
    assert_null(in_the_child);
    assert_false(epoch_domain_rewind(domain, mark[1]) || epoch_domain_rewind(domain, mark[2]));
    epoch_domain_destroy(domain);
    assert_true(epoch_destroy(allocator, epoch));
}

/* ---- a thread's first object ----------------------------------------------------------------------------------- */

static void count_in_the_child(void *unused) {
    (void)unused;
    walk();
    SUP_CHECK(slab_malloc(allocator, SIZE), "slab_malloc");
    walk();
}

static void a_share_is_listed(void **state) {
    (void)state;
    in_the_child = count_in_the_child;
    assert_non_null(slab_malloc(allocator, SIZE));
    assert_null(in_the_child);
}

/* ---- an advance ----------------------------------------------------------------------------------------------- */

static void allocate(void) { object = slab_malloc(allocator, SIZE); }

static void allocate_again(void *unused) {
    (void)unused;
    EpochId now = epoch_current(allocator);
    SlabEpochStats stats;
    for (int i = 0; i < 10; i++) allocate();
    SUP_CHECK(now != epoch, "the next epoch is not shown");
    SUP_CHECK(slab_stats_epoch(allocator, SLAB_ALL_CLASSES, now, &stats) && stats.alloc_count == 10,
              "objects of the next epoch");
    SUP_CHECK(!slab_malloc_epoch(allocator, SIZE, epoch) && errno == ESTALE, "the epoch before goes on");
    walk();
}

static void an_epoch_is_closed_with_the_next_one(void **state) {
    (void)state;
    let(allocate);
    let(allocate);
    epoch = epoch_current(allocator);
    in_the_child = allocate_again;
    assert_int_not_equal(epoch_advance(allocator), EPOCH_NONE);
    assert_null(in_the_child);
}

/* ---- sampled stacks ------------------------------------------------------------------------------------------- */

static SlabAllocator *sampling(void) {
    SlabOptions options = {.size = sizeof options, .sample_stacks = 1};
    return slab_allocator_create_ex(&options);
}

static void sample(void *unused) {
    (void)unused;
    SlabAllocator *other = sampling();
    for (int i = 0; i < 100; i++) SUP_CHECK(slab_malloc(other, SIZE), "slab_malloc");
    SUP_CHECK(slab_stack_totals(other, NULL, 0) > 0, "no totals");
    walk();
}

static void stacks_begin_whole(void **state) {
    (void)state;
    in_the_child = sample;
    SlabAllocator *first = sampling();
    assert_non_null(first);
    assert_null(in_the_child);
    slab_allocator_free(first);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(stacks_begin_whole, start, stop),
        cmocka_unit_test_setup_teardown(a_share_is_listed, start, stop),
        cmocka_unit_test_setup_teardown(anchors_are_taken_away_once, start, stop),
        cmocka_unit_test_setup_teardown(an_epoch_is_closed_with_the_next_one, start, stop),
    };
    return cmocka_run_group_tests_name("api.fork_steps", tests, NULL, NULL);
}
