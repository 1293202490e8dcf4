/*
 * A log-linear histogram of nanoseconds: 128 equal steps per power of two, so that a value is known to
 * within 1/128 (0.8 %) over the whole range of 64 bits, and exactly below 256.
 *
 * Fixed size, no allocation; one writer. Merge the histograms of several threads after they have ended.
 */
#ifndef WORKLOADS_HISTOGRAM_H
#define WORKLOADS_HISTOGRAM_H

#include <stdint.h>

#define HISTOGRAM_SUB_BITS 7u
#define HISTOGRAM_STEPS (1u << HISTOGRAM_SUB_BITS)
#define HISTOGRAM_BUCKETS ((64u - HISTOGRAM_SUB_BITS + 1u) * HISTOGRAM_STEPS)

typedef struct Histogram {
    uint64_t count;
    uint64_t sum;
    uint64_t max;
    uint64_t buckets[HISTOGRAM_BUCKETS]; /* their sum is count */
} Histogram;

void histogram_record(Histogram *histogram, uint64_t value);
void histogram_merge(Histogram *into, const Histogram *from);
/* The smallest recorded value that at least fraction (0..1) of all values do not exceed, rounded up to the
   end of its bucket but never above the maximum; 0 if nothing was recorded. */
uint64_t histogram_quantile(const Histogram *histogram, double fraction);
double histogram_mean(const Histogram *histogram);

#endif
