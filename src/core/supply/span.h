/* Spans: units in a row, for one large object. */
#ifndef TS_SUPPLY_SPAN_H
#define TS_SUPPLY_SPAN_H

#include "supply/allocator.h"

/* The part in which a span of `bytes` bytes lies. */
unsigned ts_span_part_of_large(const ts_allocator *allocator);
static inline unsigned ts_span_part(const ts_allocator *allocator, size_t bytes) {
    return TS_LIKELY(bytes <= ts_load_relaxed(&ts_region.far_bytes)) ? TS_NORMAL : ts_span_part_of_large(allocator);
}
/* Takes units in a row for a span, and resets its record, except for the epoch. share: this thread's share of the
   allocator, or NULL. home: ANY for the FAR part. *fresh: the memory reads as zero. 0: no memory. Caller holds
   nothing. */
uint32_t ts_span_acquire(ts_allocator *allocator, ts_share *share, unsigned part, unsigned home, uint32_t units,
                         uint32_t align_units, bool *fresh);
/* As ts_span_acquire, with inaccessible pages before the first unit and behind the page in which `size` bytes end.
   They are part of the span: a unit at least on either side, and `align_units` before it. */
uint32_t ts_span_acquire_guarded(ts_allocator *allocator, unsigned part, unsigned home, uint32_t units,
                                 uint32_t align_units, size_t size, bool *fresh);
/* How many units such a span takes. */
uint64_t ts_span_guarded_units(unsigned part, uint32_t units, uint32_t align_units);
/* Takes units behind a span of the caller's, if they are retained, or free and within the budget. Nothing is given back
   for them. whole: units of the span with them. *fresh: they come from the pool. */
bool ts_span_acquire_behind(ts_allocator *allocator, uint32_t first, uint32_t units, uint32_t whole, bool *fresh);
/* Gives such units back, untouched. */
void ts_span_give_behind(ts_allocator *allocator, uint32_t first, uint32_t units, bool fresh);
/* Gives back the units of a span that is on no list and whose UNIT word is 0, with its guards. The caller settles
   afterwards. */
void ts_span_release(ts_allocator *allocator, ts_share *share, uint32_t unit, uint32_t units);
/* Gives back units without guards, whose memory is gone. */
void ts_span_release_bare(ts_allocator *allocator, uint32_t unit, uint32_t units);

/* ---- spans that a thread retains; the caller holds the heap ------------------------------------- */

/* Takes a span of `units` units that the share retains. 0: there is none. */
uint32_t ts_share_take_span(ts_share *share, uint32_t units);
/* Makes runs of the spans that the share retains. Caller has the retained lock, too. Returns their units. */
uint32_t ts_share_give_spans(ts_share *share);

/* Retains units in a row, which are in no slab and on no list. */
void ts_run_keep(ts_allocator *allocator, uint32_t first, uint32_t units);

/* ---- slabs of several units ---------------------------------------------------------------------- */

/* As ts_slab_acquire_churn. Not for an allocator with care, whose large objects are spans. */
uint32_t ts_slab_acquire_large(ts_share *share, unsigned cls, unsigned home, bool *fresh);
/* Retains an empty slab of `units` units, which are on no list. Caller holds the heap. */
void ts_share_keep_slab(ts_share *share, uint32_t unit, uint32_t units);

#endif
