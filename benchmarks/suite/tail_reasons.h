/*
 * Where p99.9 comes from: the slowest allocations in a thousand, by the steps that the allocator's counters show.
 *
 * Around each allocation all counters are read, outside of its time. That takes some microseconds and leaves the caches
 * colder, so these allocations are apart from those whose percentiles are printed. tail_attribution says more: frees,
 * page faults, the scheduler.
 */
#ifndef BENCH_TAIL_REASONS_H
#define BENCH_TAIL_REASONS_H

#include "suite.h"

typedef struct tail_reasons tail_reasons;

/* For so many allocations. NULL: the allocator has no such counters. */
tail_reasons *tail_reasons_create(size_t most);
void tail_reasons_destroy(tail_reasons *reasons);
/* peer_alloc, looked at. Beyond `most` it is not. */
void *tail_reasons_alloc(tail_reasons *reasons, peer_ref peer, size_t size);
/* One line; then it begins anew. */
void tail_reasons_print(tail_reasons *reasons, size_t size, const char *op);

#endif
