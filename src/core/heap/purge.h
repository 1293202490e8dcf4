/*
 * Giving warm memory back to the system: units that are nobody's are sorted, purged in runs of neighbours with no lock held,
 * and go to the pool. What the system refuses to take stays warm. All of it is called by who holds nothing.
 */
#ifndef TS_HEAP_PURGE_H
#define TS_HEAP_PURGE_H

#include "heap/allocator.h"

/* Units warm in the allocator's own lists, spans included; how many may be; and whether they are too many, which may raise the
   budget (retain.h). The last holding no lock of rank WARM or above. */
uint64_t ts_warm_shared(ts_allocator *allocator);
uint64_t ts_purge_limit(const ts_allocator *allocator);
bool ts_purge_is_over(ts_allocator *allocator);
/* The units are the allocator's no more. */
void ts_uncommit(ts_allocator *allocator, uint32_t units);
/* Up to `most` single units off the allocator's lists while more than `keep` are there, or else one warm span, whose length
   is then in *span_units. Returns how many entries of `units` are filled. */
unsigned ts_purge_batch(ts_allocator *allocator, uint64_t keep, uint64_t most, uint32_t *units, uint32_t *span_units);
/* Purges warm units down to `keep`, about `most` of them. Returns those given back. */
uint64_t ts_purge_shared(ts_allocator *allocator, uint64_t keep, uint64_t most);
/* Purges the whole pages between two addresses. false: the system refused. */
bool ts_purge_pages(ts_allocator *allocator, const char *begin, const char *end);
/* Purges one run of units that are nobody's; if they went, and to_pool, they are the pool's. false: the system refused. */
bool ts_purge_run(ts_allocator *allocator, uint32_t first, uint32_t count, bool to_pool);
/* The units of a span that is on no list go back; if the system refuses, they are single warm units. */
void ts_purge_span(ts_allocator *allocator, uint32_t unit, uint32_t units);
/* The same for a span with guards, or units that were to be one. While the system does not make the guards accessible
   again they are kept apart, and a later purge tries again. */
void ts_purge_guarded(ts_allocator *allocator, uint32_t unit);

#endif
