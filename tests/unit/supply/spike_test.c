/*
 * Spikes: many small objects come, and are freed one by one, again and again, by a clock that the test moves. The same
 * number of units stays each time; unneeded memory goes back in the calls of the next second; no free pays for much.
 */
#include "unit.h"

#include "os/os.h"
#include "ownership/ownership.h"
#include "supply/supply.h"

#include <stdlib.h>

#define UNIT ((size_t)TS_UNIT_BYTES)
#define OBJECT_BYTES ((size_t)4096)
#define MIB ((size_t)1 << 20)
#define SECOND_NS UINT64_C(1000000000)

enum { SHIFTS = 8, SETTLED = 2, BASE = 2000, OPERATION_NS = 1000 };

static ts_os_table table;
static uint64_t now_ns;
static size_t purged_bytes;
static struct {
    size_t bytes;
    unsigned calls;
} purged; /* of data */
static SlabAllocator *allocator;
static void *base[BASE];

static uint64_t test_time(void) { return now_ns; }
static bool test_purge(void *address, size_t bytes) {
    purged_bytes += bytes;
    if (ts_is_data(address)) {
        purged.bytes += bytes;
        purged.calls++;
    }
    return ts_os_native.purge(address, bytes);
}

static int start(void **state) {
    SlabOptions options = {.size = sizeof options, .memory_tools = SLAB_TOOLS_OFF};
    (void)state;
    table = ts_os_native;
    table.purge = test_purge;
    table.wall_ns = table.coarse_ns = test_time;
    now_ns = ts_os_native.wall_ns();
    ts_os = &table;
    allocator = slab_allocator_create_ex(&options);
    assert_non_null(allocator);
    for (int i = 0; i < BASE; i++) assert_non_null(base[i] = slab_malloc(allocator, 500));
    return 0;
}

static int finish(void **state) {
    (void)state;
    slab_allocator_free(allocator);
    ts_os = &ts_os_native;
    return 0;
}

static SlabGlobalStats stats_now(void) {
    SlabGlobalStats stats;
    assert_true(slab_stats_global(allocator, &stats));
    return stats;
}

/* Objects that live on are freed, and as many allocated. */
static void work(unsigned rounds) {
    for (unsigned round = 0; round < rounds; round++) {
        for (int i = 0; i < BASE / 2; i++) assert_true(slab_free(allocator, base[i]));
        for (int i = 0; i < BASE / 2; i++) assert_non_null(base[i] = slab_malloc(allocator, 500));
        now_ns += BASE * (uint64_t)OPERATION_NS;
    }
}

/* Returns the most that one free gave back. */
static size_t spike(size_t bytes, uint64_t operation_ns) {
    size_t count = bytes / OBJECT_BYTES, most = 0;
    void **objects = malloc(count * sizeof *objects);
    assert_non_null(objects);
    EpochId epoch = epoch_open(allocator, "pressure", EPOCH_CHURN);
    for (size_t i = 0; i < count; i++, now_ns += operation_ns)
        assert_non_null(objects[i] = slab_malloc_epoch(allocator, OBJECT_BYTES, epoch));
    for (size_t i = 0; i < count; i++, now_ns += operation_ns) {
        size_t before = purged_bytes;
        assert_true(slab_free(allocator, objects[i]));
        if (purged_bytes - before > most) most = purged_bytes - before;
    }
    assert_true(epoch_close(allocator, epoch));
    free(objects);
    return most;
}

static void stay(size_t bytes, uint64_t operation_ns, size_t least, size_t limit) {
    uint64_t committed = 0;
    for (int i = 0; i < SHIFTS; i++) {
        /* A piece, and the bits of its units. */
        assert_in_range(spike(bytes, operation_ns), 0, TS_PURGE_PIECE_UNITS * (UNIT + UNIT / 16));
        work(1);
        SlabGlobalStats stats = stats_now();
        if (i < SETTLED) continue;
        if (i == SETTLED) committed = stats.committed_bytes;
        assert_in_range(stats.committed_bytes, committed - UNIT, committed + UNIT);
        assert_in_range(stats.retained_bytes, least, limit + 2 * TS_LOCAL_RETAINED_UNITS * UNIT);
    }
}

/* An operation takes 1, 5 or 25 us, and a spike 0.1 to 3 s. */
static void a_large_spike_goes_back_each_time(void **state) {
    (void)state;
    for (uint64_t ns = 1000; ns <= 32000; ns *= 5) stay(256 * MIB, ns, 31 * MIB, 32 * MIB);
}

static void a_smaller_one_stays(void **state) {
    (void)state;
    stay(100 * MIB, 1000, 100 * MIB, 101 * MIB);
}

/* And stays small, in the calls of the second after it, which give back little each. */
static void what_is_left_goes_back_in_a_second(void **state) {
    (void)state;
    for (int i = 0; i < 3; i++) (void)spike(256 * MIB, 1000);
    uint64_t until = now_ns + SECOND_NS;
    while (now_ns < until) work(1);
    assert_in_range(stats_now().retained_bytes, 31 * MIB, 34 * MIB);
    work(100);
    assert_in_range(stats_now().retained_bytes, 4 * MIB, 6 * MIB);
}

/* own: units that the call itself has freed. */
static void check_bound(size_t own) {
    assert_in_range(purged.bytes, 0, own + MIB);
    assert_in_range(purged.calls, 0, TS_PURGE_CALLS + own / (TS_PURGE_BATCH * UNIT));
    purged.bytes = purged.calls = 0;
}

static void free_within_bound(void *p) {
    size_t own = slab_usable_size(allocator, p);
    purged.bytes = purged.calls = 0;
    assert_true(slab_free(allocator, p));
    check_bound(own);
}

static void *malloc_within_bound(size_t bytes) {
    purged.bytes = purged.calls = 0;
    void *p = slab_malloc(allocator, bytes);
    assert_non_null(p);
    check_bound(0);
    return p;
}

/* Blocks of 32 KiB to 32 MiB come and go, and now and then all of them go. The limit falls with that, far below the
   retained memory of that moment. The following calls give it back, 1 MiB each. */
static void no_call_gives_back_much_for_others(void **state) {
    enum { LIVE = 24, STEPS = 6000, PHASE = 500, AFTER = 200 };
    void *block[LIVE] = {NULL}, *after[AFTER];
    size_t most = 0;
    uint64_t rng = 88172645463325252u;
    (void)state;
    if (sizeof(void *) < 8) skip(); /* the blocks need more addresses than there are */
    for (unsigned i = 0; i < AFTER; i++) after[i] = malloc_within_bound(MIB);
    for (unsigned i = 1; i <= STEPS; i++, now_ns += 100000) {
        rng ^= rng << 13;
        rng ^= rng >> 7;
        rng ^= rng << 17;
        size_t bytes = (32 * 1024 + (rng >> 32) % (32 * 1024)) << rng % 10;
        void **p = &block[rng / 1024 % LIVE];
        if (*p) free_within_bound(*p);
        *p = malloc_within_bound(bytes);
        if (i % PHASE != 0) continue;
        for (unsigned k = 0; k < LIVE; k++) {
            if (block[k]) free_within_bound(block[k]);
            block[k] = NULL;
        }
        size_t retained = stats_now().retained_bytes;
        if (retained > most) most = retained;
    }
    assert_true(most > 64 * MIB);
    for (unsigned i = 0; i < AFTER; i++) free_within_bound(after[i]);
    assert_in_range(stats_now().retained_bytes, 0, 34 * MIB);
}

/* As many bytes go back as are freed, so little is left at the end. */
static void long_ones_in_a_row_go_back(void **state) {
    void *p[12];
    (void)state;
    ts_store_relaxed(&ts_region.far_bytes, SIZE_MAX);
    for (int i = 0; i < 12; i++) assert_non_null(p[i] = slab_malloc(allocator, 30 * MIB));
    for (int i = 0; i < 12; i++) assert_true(slab_free(allocator, p[i]));
    assert_in_range(stats_now().retained_bytes, 0, 64 * MIB);
}

#define WITH_ALLOCATOR(test) cmocka_unit_test_setup_teardown(test, start, finish)

int main(void) {
    const struct CMUnitTest tests[] = {
        WITH_ALLOCATOR(a_large_spike_goes_back_each_time),  WITH_ALLOCATOR(a_smaller_one_stays),
        WITH_ALLOCATOR(what_is_left_goes_back_in_a_second), WITH_ALLOCATOR(no_call_gives_back_much_for_others),
        WITH_ALLOCATOR(long_ones_in_a_row_go_back),
    };
    return cmocka_run_group_tests_name("supply.spike", tests, NULL, NULL);
}
