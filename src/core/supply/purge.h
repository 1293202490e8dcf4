/*
 * Giving warm memory back to the system: single units become runs (runs.h), which are purged with no lock held and go to
 * the pool, the longest first. What the system refuses to take stays warm. All of it is called by who holds nothing.
 */
#ifndef TS_SUPPLY_PURGE_H
#define TS_SUPPLY_PURGE_H

#include "supply/allocator.h"

/* Units warm in the allocator's own lists, spans included; how many may be; and whether they are too many, which may raise the
   budget (retain.h). The last holding no lock of rank WARM or above. */
uint64_t ts_warm_shared(ts_allocator *allocator);
uint64_t ts_purge_limit(const ts_allocator *allocator);
bool ts_purge_is_over(ts_allocator *allocator);
/* So many more units are the allocator's. false: its budget has no room. */
bool ts_commit_within_budget(ts_allocator *allocator, uint64_t units);
/* The units, of that home, are the allocator's no more; or were taken within its budget, and never came. */
void ts_uncommit_of(ts_allocator *allocator, unsigned home, uint64_t units);
void ts_uncommit(ts_allocator *allocator, uint64_t units);
/* One of the longest runs, if it has `least` units, or of it `most` units, while more than `keep` are warm; of a FAR
   one what is more. 0: there is none. */
uint32_t ts_purge_take_longest(ts_allocator *allocator, uint64_t keep, uint32_t least, uint64_t most, uint32_t *units);
/* A guarded span that waits for the system. 0: there is none. */
uint32_t ts_purge_take_stuck(ts_allocator *allocator);
/* Up to `most` of the allocator's single warm units become runs, 512 at most. Returns how many it looked at. */
unsigned ts_purge_gather(ts_allocator *allocator, uint64_t most);
/* Purges warm units down to `keep`, at most `most` of them, whatever their runs' lengths. Returns those given back. */
uint64_t ts_purge_shared(ts_allocator *allocator, uint64_t keep, uint64_t most);
/* Purges the whole pages between two addresses. false: the system refused. */
bool ts_purge_pages(ts_allocator *allocator, const char *begin, const char *end);
/* Purges one run of units that are nobody's; if they went, and to_pool, they are the pool's. false: the system refused. */
bool ts_purge_run(ts_allocator *allocator, uint32_t first, uint32_t count, bool to_pool);
/* The units of a span, or a run, that is on no list go back; false: the system refuses, and they are a warm run. */
bool ts_purge_span(ts_allocator *allocator, uint32_t unit, uint32_t units);
/* The same for a span with guards, or units that were to be one. While the system does not make the guards accessible
   again they are kept apart, and a later purge tries again. */
void ts_purge_guarded(ts_allocator *allocator, uint32_t unit);

#endif
