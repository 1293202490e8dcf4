/* The arithmetic of the benchmark harness against answers computed by hand. */
#include "bench_hist.h"
#include "bench_util.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>

static int failures;

static void expect(const char *what, double got, double wanted) {
    if (fabs(got - wanted) > 1e-9) {
        printf("%s: %g, expected %g\n", what, got, wanted);
        failures++;
    }
}

static void test_percentiles(void) {
    bench_hist *hist = bench_hist_create();
    expect("percentile of nothing", bench_hist_percentile(hist, 0.5, 1), 0);
    expect("step of nothing", (double)bench_hist_step(hist), 1);
    /* 60 values of 100, 30 of 120, 9 of 180, one far above the exact buckets */
    for (int i = 0; i < 60; i++) bench_hist_add(hist, 100);
    for (int i = 0; i < 30; i++) bench_hist_add(hist, 120);
    for (int i = 0; i < 9; i++) bench_hist_add(hist, 180);
    bench_hist_add(hist, 5000000);
    expect("count", (double)hist->count, 100);
    expect("max", (double)hist->max, 5000000);
    expect("step", (double)bench_hist_step(hist), 20);
    expect("p30, the middle of the first step", bench_hist_percentile(hist, 0.30, 20), 100);
    expect("p60, its upper edge", bench_hist_percentile(hist, 0.60, 20), 110);
    expect("p75, the middle of the second", bench_hist_percentile(hist, 0.75, 20), 120);
    expect("p90", bench_hist_percentile(hist, 0.90, 20), 130);
    expect("p99", bench_hist_percentile(hist, 0.99, 20), 190);
    expect("p99.9, bounded by the maximum", bench_hist_percentile(hist, 0.999, 20), 5000000);
    bench_hist_add(hist, 7);
    expect("step with a value between", (double)bench_hist_step(hist), 1);
    bench_hist_destroy(hist);
}

/* 128 buckets to a power of two: 2^20 to 2^21 in steps of 8,192. */
static void test_percentiles_above(void) {
    bench_hist *hist = bench_hist_create();
    bench_hist_add(hist, BENCH_HIST_EXACT);
    expect("one value, at the lowest edge", bench_hist_percentile(hist, 0.5, 1), BENCH_HIST_EXACT);
    for (int i = 0; i < 4; i++) bench_hist_add(hist, 1048576 + 8192 * 2 + 5);
    for (int i = 0; i < 4; i++) bench_hist_add(hist, 1048576 + 8192 * 7);
    bench_hist_add(hist, UINT64_MAX / 2);
    expect("p30, half of the first four", bench_hist_percentile(hist, 0.30, 1), 1048576 + 8192 * 2.5);
    expect("p50, their upper edge", bench_hist_percentile(hist, 0.50, 1), 1048576 + 8192 * 3);
    expect("p80, three quarters of the next", bench_hist_percentile(hist, 0.80, 1), 1048576 + 8192 * 7.75);
    bench_hist *twice = bench_hist_create();
    bench_hist_add(twice, 3);
    bench_hist_merge(twice, hist);
    expect("merged", (double)twice->count, 11);
    expect("its maximum", (double)twice->max, (double)(UINT64_MAX / 2));
    expect("its median", bench_hist_percentile(twice, 0.5, 1), 1048576 + 8192 * (2 + 3.5 / 4));
    bench_hist_destroy(twice);
    expect("p100", bench_hist_percentile(hist, 1, 1), (double)(UINT64_MAX / 2));
    bench_hist_destroy(hist);
    hist = bench_hist_create();
    bench_hist_add(hist, 1000);
    bench_hist_add(hist, 1048576 + 5);
    bench_hist_add(hist, 1048576 + 8192 * 127);
    expect("sum", bench_hist_sum(hist), 1000 + 1048576 + 8192 * 0.5 + 1048576 + 8192 * 127.5);
    bench_hist_destroy(hist);
}

/* Values of every magnitude: as the sorted values, to the width of a bucket. */
static void test_sorted(void) {
    enum { VALUES = 20000 };
    static double values[VALUES];
    bench_hist *hist = bench_hist_create();
    bench_rng rng = {7};
    for (size_t i = 0; i < VALUES; i++) {
        uint64_t value = bench_rng_next(&rng) >> bench_rng_between(&rng, 0, 63);
        bench_hist_add(hist, value);
        values[i] = (double)value;
    }
    bench_median(values, VALUES); /* sorts */
    for (size_t i = 1; i <= 9; i++) {
        double exact = values[VALUES * i / 10 - 1], got = bench_hist_percentile(hist, (double)i / 10, 1);
        if (got < exact * (1 - 1.0 / 128) - 1 || got > exact * (1 + 1.0 / 128) + 1) {
            printf("p%zu0 of values of every magnitude: %g, exact %g\n", i, got, exact);
            failures++;
        }
    }
    bench_hist_destroy(hist);
}

static void test_median(void) {
    double odd[] = {5, 1, 3}, even[] = {4, 1, 2, 10};
    expect("median of 1 3 5", bench_median(odd, 3), 3);
    expect("median of 1 2 4 10", bench_median(even, 4), 3);
    expect("median of nothing", bench_median(odd, 0), 0);
}

static void test_random(void) {
    bench_rng rng = {42}, again = {42};
    unsigned seen[10] = {0};
    for (int i = 0; i < 10000; i++) {
        uint32_t value = bench_rng_below(&rng, 10);
        expect("the same seed", value, bench_rng_below(&again, 10));
        if (value >= 10) {
            printf("a random number below 10 is %u\n", value);
            failures++;
            return;
        }
        seen[value]++;
    }
    for (int i = 0; i < 10; i++)
        if (seen[i] < 850 || seen[i] > 1150) {
            printf("10,000 random numbers below 10: %u times %d\n", seen[i], i);
            failures++;
        }
}

int main(void) {
    test_percentiles();
    test_percentiles_above();
    test_sorted();
    test_median();
    test_random();
    if (failures == 0) printf("percentiles, median and random numbers: as computed by hand\n");
    return failures == 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}
