/*
 * Total allocations by stack. With a mean of one byte every allocation is sampled (but for one in nine million of the
 * smallest), so the counts of the rows are known.
 */
#include "check.h"
#include "proc.h"
#include "unit.h"

#include "observe/stack_totals.h"

#include <pthread.h>
#include <stdio.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

enum { ROWS = TS_STACK_TOTALS + 1 };
static SlabStackTotal row[ROWS];

static SlabAllocator *make(size_t mean) {
    SlabOptions options = {.size = sizeof options, .sample_stacks = mean};
    SlabAllocator *allocator = slab_allocator_create_ex(&options);
    assert_non_null(allocator);
    return allocator;
}

/* Of all rows, in `row`. Returns how many there are. */
static size_t sum(SlabAllocator *a, SlabStackTotal *out) {
    size_t n = slab_stack_totals(a, row, ROWS);
    assert_true(n <= ROWS);
    memset(out, 0, sizeof *out);
    for (size_t i = 0; i < n; i++) {
        out->samples += row[i].samples;
        out->objects += row[i].objects;
        out->bytes += row[i].bytes;
    }
    return n;
}

static uint64_t taken(SlabAllocator *a) {
    SlabGlobalStats stats;
    assert_true(slab_stats_global(a, &stats));
    return stats.stack_samples_taken;
}

TS_NOINLINE static void *allocate(SlabAllocator *a, size_t size, EpochId e) {
    void *volatile p = slab_malloc_epoch(a, size, e);
    return p;
}

static void what_is_freed_counts_on(void **state) {
    SlabStackTotal all;
    const uint64_t slot = slab_class_size((uint32_t)slab_class_of(100));
    (void)state;
    SlabAllocator *a = make(1);
    assert_int_equal(slab_stack_totals(a, row, ROWS), 0);
    EpochId e = epoch_open(a, "request", EPOCH_CHURN);
    for (volatile unsigned i = 0; i < 10; i++) assert_true(slab_free(a, allocate(a, 100, e)));
    assert_int_equal(sum(a, &all), 1);
    assert_string_equal(row[0].label, "request");
    assert_int_equal(row[0].version, SLAB_STATS_VERSION);
    assert_true(all.samples == 10 && all.objects == 10 && all.bytes == 10 * slot); /* the slot, as where it is live */
    assert_true(row[0].frame_count == 0 || row[0].frames[0] - (uintptr_t)allocate < 512);
    assert_int_equal(slab_stack_totals(a, NULL, 0), 1);
    assert_true(epoch_destroy(a, e));
    e = epoch_open(a, "request", EPOCH_SCOPE); /* another of that label */
    for (volatile unsigned i = 0; i < 10; i++) assert_non_null(allocate(a, 100000, e));
    (void)sum(a, &all);
    assert_true(all.samples == 20 && all.objects == 20 && all.bytes == 10 * slot + 10 * 7 * 16384);
    assert_true(epoch_destroy(a, e));
    slab_allocator_free(a);
    assert_int_equal(slab_stack_totals(a, row, ROWS), 0);
}

static void estimates(void **state) {
    SlabStackTotal all;
    (void)state;
    SlabAllocator *a = make(4096);
    EpochId e = epoch_open(a, NULL, EPOCH_CHURN);
    for (volatile unsigned i = 0; i < 400000; i++) assert_true(slab_free(a, allocate(a, 112, e)));
    (void)sum(a, &all);
    assert_in_range(all.objects, 360000, 440000); /* 10,800 samples: about 1 % */
    assert_in_range(all.bytes, 360000 * 112, 440000 * 112);
    slab_allocator_free(a);
}

static void labels_are_bounded(void **state) {
    enum { LABELS = 3000 };
    SlabStackTotal all;
    char label[32];
    unsigned others = 0;
    (void)state;
    SlabAllocator *a = make(1);
    for (volatile unsigned i = 0; i < LABELS; i++) {
        (void)snprintf(label, sizeof label, "request %u", i);
        EpochId e = epoch_open(a, label, EPOCH_SCOPE);
        assert_non_null(allocate(a, 64, e));
        assert_true(epoch_destroy(a, e));
    }
    size_t n = sum(a, &all);
    assert_in_range(n, TS_STACK_TOTALS / 2 - 50, TS_STACK_TOTALS / 2 + 1); /* less: where many lie side by side */
    assert_int_equal(all.samples, LABELS);
    for (size_t i = 0; i < n; i++) {
        if (strcmp(row[i].label, TS_LABEL_OF_MANY) != 0) continue;
        assert_true(row[i].samples >= LABELS - TS_STACK_TOTALS / 2);
        others++;
    }
    assert_int_equal(others, 1);
    slab_allocator_free(a); /* and its rows are others' now */
    a = make(1);
    assert_non_null(allocate(a, 64, epoch_open(a, "next", EPOCH_CHURN)));
    assert_int_equal(sum(a, &all), 1);
    slab_allocator_free(a);
}

static void *by_way(SlabAllocator *a, unsigned way, unsigned depth);
/* By a pointer: no compiler makes one call of this and a direct one. */
static void *(*volatile to_the_left)(SlabAllocator *a, unsigned way, unsigned depth) = by_way;

/* One of 2^depth ways from here to the allocation. */
TS_NOINLINE static void *by_way(SlabAllocator *a, unsigned way, unsigned depth) {
    void *volatile p;
    if (depth == 0)
        p = slab_malloc(a, 64);
    else if (way & 1)
        p = to_the_left(a, way >> 1, depth - 1);
    else
        p = by_way(a, way >> 1, depth - 1);
    return p;
}

static void stacks_are_bounded(void **state) {
    enum { DEPTH = 13, WAYS = 1 << DEPTH };
    SlabStackTotal all;
    (void)state;
    SlabAllocator *a = make(1);
    for (unsigned round = 0; round < 2; round++)
        for (unsigned i = 0; i < WAYS; i++) assert_true(slab_free(a, by_way(a, i, DEPTH)));
    size_t n = sum(a, &all);
    assert_int_equal(all.samples, taken(a));
    assert_int_equal(all.samples, 2 * WAYS);
    assert_true(all.objects == 2 * WAYS && all.bytes == 2 * WAYS * 64);
    if (row[0].frame_count > 2) { /* where the C library can walk a stack */
        assert_in_range(n, TS_STACK_TOTALS / 2, ROWS);
        assert_string_equal(row[n - 1].label, "(dropped)");
        assert_int_equal(row[n - 1].frame_count, 0);
        assert_true(row[n - 1].samples > 0);
    }
    slab_allocator_free(a);
}

static void *allocate_some(void *arg) {
    for (unsigned i = 0; i < 20000; i++)
        if (!slab_free(arg, by_way(arg, i % 512, 9))) return NULL;
    return arg;
}

static void threads_lose_nothing(void **state) {
    pthread_t thread[4];
    SlabStackTotal all;
    (void)state;
    SlabAllocator *a = make(1);
    for (unsigned i = 0; i < 4; i++) assert_int_equal(pthread_create(&thread[i], NULL, allocate_some, a), 0);
    for (unsigned i = 0; i < 4; i++) {
        void *good;
        assert_int_equal(pthread_join(thread[i], &good), 0);
        assert_non_null(good);
    }
    (void)sum(a, &all);
    assert_true(all.samples == 80000 && all.objects == 80000 && all.bytes == 80000 * 64);
    slab_allocator_free(a);
}

static void a_child_goes_on(void **state) {
    SlabStackTotal all;
    int status;
    (void)state;
    SlabAllocator *a = make(1);
    EpochId e = epoch_open(a, "base", EPOCH_CHURN);
    assert_non_null(allocate(a, 64, e));
    pid_t child = fork();
    if (child == 0) {
        for (volatile unsigned i = 0; i < 9; i++) (void)allocate(a, 64, e);
        (void)sum(a, &all);
        _exit(all.samples == 10 ? 0 : 1);
    }
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_true(WIFEXITED(status) && WEXITSTATUS(status) == 0);
    (void)sum(a, &all);
    assert_int_equal(all.samples, 1);
    slab_allocator_free(a);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_is_freed_counts_on), cmocka_unit_test(estimates),
        cmocka_unit_test(labels_are_bounded),      cmocka_unit_test(stacks_are_bounded),
        cmocka_unit_test(threads_lose_nothing),    cmocka_unit_test(a_child_goes_on),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
