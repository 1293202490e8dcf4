/* Spans: large objects (span.c). */
#ifndef TS_EPOCH_SPAN_H
#define TS_EPOCH_SPAN_H

#include "epoch/epoch.h"

/* What is noted of a new span before another thread can end its epoch. */
typedef struct ts_span_note {
    uint64_t word;  /* its UNIT word */
    uint64_t bytes; /* usable, as the next for an allocator with care */
    size_t written; /* where the first byte is that was written since the span was filled, or TS_CARE_CLEAN */
} ts_span_note;
void *ts_span_alloc(ts_allocator *allocator, EpochId epoch, size_t size, size_t align, bool *zero, ts_span_note *note);
bool ts_span_free(ts_allocator *allocator, uint32_t unit, uint64_t word, uint32_t generation);
/* Pieces of so many bytes at least are moved by the system. Each leaves an area of its own in the process's address
   space, of which Linux allows some 65,000: the region has room for 16,384 such pieces. */
#define TS_SPAN_MOVE_BYTES ((size_t)4 << 20)
/* What is in a span without guards is at `to`, or as much of it as there is room, and the span is freed. For an
   allocator without care. false: it was not live, and nothing was done. */
bool ts_span_move(ts_allocator *allocator, uint32_t unit, uint64_t word, uint32_t generation, void *to, size_t room);
/* The live span with that word gets as many units as `size` bytes need, which are more than it has, where it is. false:
   it stays as it is: what lies behind it is not free, or beyond the budget, or it has guards, or lives no more. Not for
   an allocator with care. */
bool ts_span_grow(ts_allocator *allocator, uint32_t unit, uint64_t word, size_t size);
/* The epoch of a live span with its lock taken; NULL without: word is no longer the unit's, or another allocator's. */
ts_epoch *ts_span_lock(ts_allocator *allocator, uint32_t unit, uint64_t word);
/* How many the epoch has ever got, its lower half; and the end of those that came after so many. */
uint32_t ts_span_count(ts_allocator *allocator, EpochId epoch);
void ts_span_release_newer(ts_allocator *allocator, EpochId epoch, uint32_t count);
/* Takes all spans off an epoch; the caller has its lock. Returns the first. */
uint32_t ts_span_detach(ts_epoch *epoch);
void ts_span_release_list(ts_allocator *allocator, uint32_t first);

#endif
