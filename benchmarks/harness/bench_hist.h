/*
 * A histogram of durations in ticks, or nanoseconds: one bucket per tick up to BENCH_HIST_EXACT, 128 buckets to each
 * power of two above (each 0.8 % wide at most), and the largest value itself. 115 KiB. Owner: one thread at a time.
 *
 * Many processors count ticks in steps: AMD's TSC advances by 26 or so every 10 ns. A duration between two
 * steps is then seen as the one or the other, in proportion to how near it is, so a percentile is
 * interpolated inside its step as for any grouped data: the values seen as v lie evenly in
 * [v - step/2, v + step/2).
 */
#ifndef BENCH_HIST_H
#define BENCH_HIST_H

#include <stdint.h>

#define BENCH_HIST_EXACT_BITS 14u
#define BENCH_HIST_EXACT (1u << BENCH_HIST_EXACT_BITS)
#define BENCH_HIST_PARTS_BITS 7u
#define BENCH_HIST_PARTS (1u << BENCH_HIST_PARTS_BITS)
#define BENCH_HIST_ABOVE ((64u - BENCH_HIST_EXACT_BITS) * BENCH_HIST_PARTS)

typedef struct bench_hist {
    uint64_t count;
    uint64_t max;
    uint64_t above[BENCH_HIST_ABOVE]; /* by the highest bit, then the bits after it */
    uint32_t exact[BENCH_HIST_EXACT];
} bench_hist;

bench_hist *bench_hist_create(void);
void bench_hist_destroy(bench_hist *hist);
void bench_hist_add_above(bench_hist *hist, uint64_t ticks);
/* The step in which the values come: their greatest common divisor; 1 if there are none below the limit. */
uint64_t bench_hist_step(const bench_hist *hist);
/* Sum of all values; above BENCH_HIST_EXACT each counts as the middle of its bucket. */
double bench_hist_sum(const bench_hist *hist);
/* Adds all of `from`. */
void bench_hist_merge(bench_hist *to, const bench_hist *from);
/* The value that a fraction of all values do not exceed, interpolated within its step, above BENCH_HIST_EXACT within its
   bucket; at most the maximum there. 0 if the histogram is empty. */
double bench_hist_percentile(const bench_hist *hist, double fraction, uint64_t step);

static inline void bench_hist_add(bench_hist *hist, uint64_t ticks) {
    if (__builtin_expect(ticks < BENCH_HIST_EXACT, 1)) {
        hist->exact[ticks]++;
        hist->count++;
        if (ticks > hist->max) hist->max = ticks;
    } else {
        bench_hist_add_above(hist, ticks);
    }
}

#endif
