/* See histogram.h. */
#include "histogram.h"

#include <math.h>

_Static_assert(HISTOGRAM_BUCKETS == 7424, "57 scaled rows of 128 steps above the first");

static uint32_t bucket_of(uint64_t value) {
    if (value < 2 * HISTOGRAM_STEPS) return (uint32_t)value;
    uint32_t exponent = 63u - (uint32_t)__builtin_clzll(value);
    uint32_t shift = exponent - HISTOGRAM_SUB_BITS;
    return shift * HISTOGRAM_STEPS + (uint32_t)(value >> shift);
}

/* The largest value that falls into the bucket. */
static uint64_t bucket_end(uint32_t bucket) {
    if (bucket < 2 * HISTOGRAM_STEPS) return bucket;
    uint32_t shift = bucket / HISTOGRAM_STEPS - 1;
    uint64_t step = bucket % HISTOGRAM_STEPS + HISTOGRAM_STEPS;
    return (step << shift) + ((UINT64_C(1) << shift) - 1);
}

void histogram_record(Histogram *histogram, uint64_t value) {
    histogram->buckets[bucket_of(value)]++;
    histogram->count++;
    histogram->sum += value;
    if (value > histogram->max) histogram->max = value;
}

void histogram_merge(Histogram *into, const Histogram *from) {
    for (uint32_t bucket = 0; bucket < HISTOGRAM_BUCKETS; bucket++) into->buckets[bucket] += from->buckets[bucket];
    into->count += from->count;
    into->sum += from->sum;
    if (from->max > into->max) into->max = from->max;
}

uint64_t histogram_quantile(const Histogram *histogram, double fraction) {
    if (histogram->count == 0) return 0;
    uint64_t wanted = (uint64_t)ceil(fraction * (double)histogram->count);
    if (wanted < 1) wanted = 1;
    uint64_t seen = 0;
    for (uint32_t bucket = 0; bucket < HISTOGRAM_BUCKETS; bucket++) {
        seen += histogram->buckets[bucket];
        if (seen >= wanted) {
            uint64_t end = bucket_end(bucket);
            return end < histogram->max ? end : histogram->max;
        }
    }
    return histogram->max;
}

double histogram_mean(const Histogram *histogram) {
    return histogram->count == 0 ? 0.0 : (double)histogram->sum / (double)histogram->count;
}
