/*
 * Resident memory of this process, as the kernel counts it.
 *
 *   bench_rss_bytes     exact, from /proc/self/smaps_rollup: walks the page tables; for single moments.
 *   the sampler         /proc/self/statm every few milliseconds on a thread of its own: cheap, and good to
 *                       some pages per processor (the kernel keeps that counter in parts).
 *
 * Neither allocates memory.
 */
#ifndef WORKLOADS_RSS_H
#define WORKLOADS_RSS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* The largest resident memory there ever was in this process (VmHWM); 0 if the system does not say. */
uint64_t rss_high_water_bytes(void);

typedef struct RssSample {
    uint64_t at_ms; /* since the sampler started */
    uint64_t bytes;
} RssSample;

#define RSS_SERIES_CAPACITY 1024u

/* At most RSS_SERIES_CAPACITY points over the whole run: when they are full, each pair becomes one point
   with the larger of the two, and from then on a point stands for twice as many samples. */
typedef struct RssSeries {
    uint64_t taken;      /* samples, all of them */
    uint64_t peak_bytes; /* the largest sample */
    size_t count;        /* points */
    uint64_t per_point;  /* samples in a point */
    uint64_t in_last;    /* samples in the newest point */
    RssSample points[RSS_SERIES_CAPACITY];
} RssSeries;

void rss_series_init(RssSeries *series);
void rss_series_add(RssSeries *series, uint64_t at_ms, uint64_t bytes);

/* Samples into series from a thread of its own until rss_sampler_stop; series belongs to it meanwhile.
   One sampler at a time. false: no thread could be made. */
bool rss_sampler_start(RssSeries *series, uint64_t period_ms);
void rss_sampler_stop(void);

#endif
