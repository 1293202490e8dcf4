/* Pages without an object, in slabs that are in use: slab_trim gives them back, and nobody's object with them. */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include "identities.h"
#include "pattern.h"
#include "proc.h"
#include "rng.h"
#include "unit.h"

#include "bins.h"
#include "walk/check_pool.h"

#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

enum { MOST = 20 * TS_UNIT_BYTES / 64, PAGE = TS_SLAB_PAGE_BYTES };

static SlabAllocator *allocator;
static EpochId epoch;
static void *objects[MOST];
static size_t sizes[MOST];

static ts_os_table table;
static struct {
    unsigned calls, in_an_operation;
    bool refuse;
    void (*before)(void);
} purges;

static bool test_purge(void *at, size_t bytes) {
    if (!ts_is_data(at)) return ts_os_native.purge(at, bytes);
    purges.calls++;
    purges.in_an_operation += ts_is_in_op(&ts_thread);
    if (purges.before && bytes < TS_UNIT_BYTES) { /* a part of a slab, not one that is nobody's */
        void (*before)(void) = purges.before;
        purges.before = NULL;
        before();
    }
    return !purges.refuse && ts_os_native.purge(at, bytes);
}

static int start(void **state) {
    (void)state;
    table = ts_os_native;
    table.purge = test_purge;
    memset(&purges, 0, sizeof purges);
    allocator = slab_allocator_create();
    epoch = epoch_open(allocator, NULL, EPOCH_CHURN);
    ts_os = &table;
    memset(objects, 0, sizeof objects);
    return epoch == EPOCH_NONE;
}

static int stop(void **state) {
    (void)state;
    assert_int_equal(purges.in_an_operation, 0); /* a system call never holds anybody up */
    ts_os = &ts_os_native;
    sup_check_identities(allocator);
    slab_allocator_free(allocator);
    return ts_pool_used_units() != 0;
}

static void make(int i, size_t size) {
    objects[i] = slab_malloc_epoch(allocator, size, epoch);
    sizes[i] = size;
    assert_non_null(objects[i]);
    sup_pattern_fill(objects[i], size, (uint64_t)i);
}

static void drop(int i) {
    assert_true(sup_pattern_check(objects[i], sizes[i], (uint64_t)i));
    assert_true(slab_free(allocator, objects[i]));
    objects[i] = NULL;
}

static void check_all(void) {
    for (int i = 0; i < MOST; i++) assert_true(!objects[i] || sup_pattern_check(objects[i], sizes[i], (uint64_t)i));
}

/* Objects of one size, of which one in `keep` stays; pages of that size are looked at, so the rest goes in order. */
static void make_and_keep(size_t size, int count, int keep) {
    for (int i = 0; i < count; i++) make(i, size);
    for (int i = 0; i < count; i++)
        if (i % keep != 0) drop(i);
}

static bool has_memory(const char *page) {
    unsigned char resident = 0;
    SUP_CHECK(mincore((void *)(uintptr_t)page, PAGE, &resident) == 0, "mincore");
    return resident & 1;
}

static bool holds_an_object(const char *page) {
    for (int i = 0; i < MOST; i++) {
        const char *p = objects[i];
        if (p && p < page + PAGE && p + sizes[i] > page) return true;
    }
    return false;
}

/* Pages of the slabs that the objects are in. */
typedef struct pages {
    unsigned with_object, empty_with_memory, empty;
} pages;

static pages look(void) {
    pages n = {0, 0, 0};
    uint64_t entry;
    uint32_t last = 0;
    for (int i = 0; i < MOST; i++) {
        if (!objects[i]) continue;
        uint32_t unit = unit_of(objects[i], &entry);
        if (unit == last) continue;
        last = unit;
        assert_false(ts_load_relaxed(ts_unit_word(unit)) &
                     TS_UNIT_FOREIGN); /* else each free in it takes the long way */
        for (unsigned page = 0; page < TS_SLAB_PAGES; page++) {
            const char *at = ts_unit_address(unit) + page * PAGE;
            if (holds_an_object(at)) {
                assert_true(has_memory(at));
                n.with_object++;
            } else {
                n.empty++;
                n.empty_with_memory += has_memory(at);
            }
        }
    }
    return n;
}

static const size_t tried[] = {64, 128, 176, 768, 1920, 4096, 8192}; /* the pattern is in all of their pages */

static void empty_pages_go(void **state) {
    (void)state;
    for (size_t s = 0; s < sizeof tried / sizeof *tried; s++) {
        int count = (int)(20 * TS_UNIT_BYTES / tried[s]);
        make_and_keep(tried[s], count, (int)(2 * PAGE / tried[s]) + 2);
        pages before = look();
        assert_true(before.empty_with_memory >= 10);
        SlabGlobalStats a, b;
        assert_true(slab_stats_global(allocator, &a));
        size_t given = slab_trim(allocator);
        pages after = look();
        assert_true(slab_stats_global(allocator, &b));
        assert_int_equal(after.empty_with_memory, 0);
        assert_int_equal(after.with_object, before.with_object);
        assert_true(given >= (size_t)before.empty_with_memory * PAGE);
        assert_int_equal(b.madvise_bytes - a.madvise_bytes, given);
        check_all();
        /* Pages that have gone do not go again, and the slab counts as before. */
        unsigned calls = purges.calls;
        assert_int_equal(slab_trim(allocator), 0);
        assert_int_equal(purges.calls, calls);
        sup_check_identities(allocator);
        for (int i = 0; i < count; i++)
            if (!objects[i]) make(i, tried[s]);
        check_all();
        for (int i = 0; i < count; i++) drop(i);
        (void)slab_trim(allocator);
    }
}

/* Pages with memory are filled first; a page that came back goes again. */
static void pages_with_memory_first(void **state) {
    enum { COUNT = 128, KEPT = 64 };
    (void)state;
    make_and_keep(128, COUNT, KEPT); /* two pages of the slab hold one object each */
    (void)slab_trim(allocator);
    pages before = look();
    assert_true(before.empty == 2 && before.empty_with_memory == 0);
    int room = (int)(before.with_object * (PAGE / 128) - COUNT / KEPT), made = 0;
    for (int i = 0; made < room; i++) {
        if (objects[i]) continue;
        make(i, 128);
        made++;
    }
    pages after = look();
    assert_int_equal(after.with_object, before.with_object);
    assert_int_equal(after.empty_with_memory, 0);
    for (int i = 0; i < COUNT; i++)
        if (!objects[i]) make(i, 128);
    assert_int_equal(look().empty, 0);
    for (int i = 0; i < COUNT; i++)
        if (i % KEPT != 0) drop(i);
    assert_int_equal(look().empty_with_memory, before.empty);
    assert_true(slab_trim(allocator) >= (size_t)before.empty * PAGE);
    assert_int_equal(look().empty_with_memory, 0);
    check_all();
}

static void what_is_refused_stays(void **state) {
    SlabGlobalStats stats;
    (void)state;
    make_and_keep(128, 1000, 100);
    pages before = look();
    purges.refuse = true;
    assert_int_equal(slab_trim(allocator), 0);
    assert_true(slab_stats_global(allocator, &stats));
    assert_int_equal(stats.madvise_failures, purges.calls);
    assert_int_equal(look().empty_with_memory, before.empty);
    purges.refuse = false;
    assert_true(slab_trim(allocator) >= (size_t)before.empty * PAGE);
    assert_int_equal(look().empty_with_memory, 0);
    check_all();
}

/* The memory of a span that the system did not take is memory of the slabs that its units become, in all of their
   pages. */
static void what_was_a_span_goes_too(void **state) {
    (void)state;
    enum { SLABS = 24, STAYS = 9, NEXT = 16, IN_ONE = TS_UNIT_BYTES / 128 };
    make_and_keep(128, SLABS * IN_ONE, IN_ONE / 2);
    assert_true(slab_trim(allocator) > 0); /* so that their records say that pages are away */
    /* Those between go alone: no page has the bits of them alone, so their records stay as they are. */
    for (int i = 0; i < SLABS * IN_ONE; i++)
        if (objects[i] && i / IN_ONE != STAYS && i / IN_ONE != NEXT) drop(i);
    (void)slab_trim(allocator);
    for (int i = NEXT * IN_ONE; i < (NEXT + 1) * IN_ONE; i++)
        if (objects[i]) drop(i);
    (void)slab_trim(allocator);
    size_t bytes = 2000 * (size_t)TS_UNIT_BYTES; /* more than may stay retained */
    size_t far = ts_region.far_bytes;
    ts_region.far_bytes = SIZE_MAX;
    char *span = slab_malloc_epoch(allocator, bytes, epoch);
    ts_region.far_bytes = far;
    assert_non_null(span);
    memset(span, 1, bytes);
    purges.refuse = true;
    assert_true(slab_free(allocator, span));
    int count = 0; /* an object in each of many slabs, so that some have the records of before */
    for (size_t size = 64; size <= 4096; size += size / 4) make(count++, size);
    purges.refuse = false;
    pages before = look();
    assert_true(before.empty_with_memory >= (unsigned)count);
    (void)slab_trim(allocator);
    assert_int_equal(look().empty_with_memory, 0);
    check_all();
}

/* Poison is looked at when a slot is used again: it stays. */
static void under_care_they_stay(void **state) {
    (void)state;
    SlabOptions options = {.size = sizeof options, .poison_on_free = true};
    SlabAllocator *before = allocator;
    allocator = slab_allocator_create_ex(&options);
    epoch = epoch_open(allocator, NULL, EPOCH_CHURN);
    make_and_keep(128, 1000, 100);
    pages now = look();
    (void)slab_trim(allocator);
    assert_int_equal(look().empty_with_memory, now.empty);
    for (int i = 0; i < 1000; i++)
        if (!objects[i]) make(i, 128);
    check_all();
    memset(objects, 0, sizeof objects);
    slab_allocator_free(allocator);
    allocator = before;
}

/* Without it nobody holds the heap of a thread that lives: ended blocks wait for that thread. */
static bool have_barrier(void) { return ts_os->barrier_all(); }

/* ---- other threads, while the system takes the page -------------------------------------------------------------- */

static char *taken[MOST];

/* Takes all the memory that others have no more, and writes to it. */
static void fill_what_is_free(void) {
    EpochId other = epoch_open(allocator, NULL, EPOCH_CHURN);
    for (int i = 0; i < MOST; i++) {
        taken[i] = slab_malloc_epoch(allocator, 1024, other);
        SUP_CHECK(taken[i] != NULL, "no memory");
        sup_pattern_fill(taken[i], 1024, (uint64_t)i);
    }
}

static void *destroy_and_fill(void *argument) {
    SUP_CHECK(epoch_destroy(allocator, epoch), "not destroyed");
    fill_what_is_free();
    return argument;
}
static void *close_and_fill(void *argument) {
    SUP_CHECK(epoch_close(allocator, epoch), "not closed");
    for (int i = 0; i < MOST; i++)
        if (objects[i]) drop(i);
    fill_what_is_free();
    return argument;
}
static void destroyed(void) { sup_in_thread(destroy_and_fill, NULL); }
static void closed(void) { sup_in_thread(close_and_fill, NULL); }

/* More slabs than its thread keeps for itself, each with pages to give back. */
static void ends_meanwhile(void (*end)(void)) {
    make_and_keep(4096, 800, 4);
    purges.before = end;
    (void)slab_trim(allocator);
    assert_null(purges.before);
    for (int i = 0; i < MOST; i++) assert_true(sup_pattern_check(taken[i], 1024, (uint64_t)i));
    sup_check_identities(allocator);
    assert_int_equal(epoch_state(allocator, epoch), EPOCH_CLOSED);
}

static void destroyed_meanwhile(void **state) {
    (void)state;
    if (!have_barrier()) skip();
    ends_meanwhile(destroyed);
}

static void closed_meanwhile(void **state) {
    (void)state;
    if (!have_barrier()) skip();
    ends_meanwhile(closed);
}

static void *free_the_rest(void *argument) {
    (void)argument;
    for (int i = 0; i < 2000; i++)
        if (objects[i]) drop(i);
    return NULL;
}
static void freed(void) { sup_in_thread(free_the_rest, NULL); }

/* All that was left is freed by another thread meanwhile: the slabs are lent, so it does not queue the one. */
static void freed_meanwhile(void **state) {
    SlabGlobalStats stats;
    (void)state;
    make_and_keep(128, 2000, 100);
    purges.before = freed;
    (void)slab_trim(allocator);
    (void)slab_trim(allocator);
    assert_true(slab_stats_global(allocator, &stats));
    assert_int_equal(stats.live_objects, 0);
    assert_int_equal(stats.committed_bytes, 0);
}

/* The child has the slab that was lent: its objects die in it one by one, and the slab goes back. */
static void in_the_child(void *argument) {
    SlabGlobalStats stats;
    (void)argument;
    ts_os = &ts_os_native;
    for (int i = 0; i < 2000; i++)
        if (objects[i]) drop(i);
    SUP_CHECK(epoch_destroy(allocator, epoch), "destroy");
    (void)slab_trim(allocator);
    SUP_CHECK(slab_stats_global(allocator, &stats) && stats.committed_bytes == 0, "%llu bytes are left",
              (unsigned long long)stats.committed_bytes);
    slab_allocator_free(allocator);
    SUP_CHECK(ts_pool_used_units() == 0, "units are left");
}
static void *fork_now(void *argument) {
    char err[1000];
    (void)argument;
    SUP_CHECK(sup_child(in_the_child, NULL, SUP_CHILD_SECONDS, err, sizeof err) == 0, "the child: %s", err);
    return NULL;
}
static void forked(void) { sup_in_thread(fork_now, NULL); }

static void forked_meanwhile(void **state) {
    (void)state;
    if (!have_barrier()) skip();
    make_and_keep(128, 2000, 100);
    purges.before = forked;
    (void)slab_trim(allocator);
    assert_null(purges.before);
    check_all();
}

#define WITH(test) cmocka_unit_test_setup_teardown(test, start, stop)

int main(void) {
    const struct CMUnitTest tests[] = {
        WITH(empty_pages_go),           WITH(pages_with_memory_first), WITH(what_is_refused_stays),
        WITH(what_was_a_span_goes_too), WITH(under_care_they_stay),    WITH(destroyed_meanwhile),
        WITH(closed_meanwhile),         WITH(freed_meanwhile),         WITH(forked_meanwhile),
    };
    if (sysconf(_SC_PAGESIZE) != PAGE) {
        (void)puts("pages have another size: nothing goes back by pages");
        return 0;
    }
    return cmocka_run_group_tests_name("supply.hollow", tests, NULL, NULL);
}
