/* Spans: large objects (span.c). */
#ifndef TS_EPOCH_SPAN_H
#define TS_EPOCH_SPAN_H

#include "epoch/epoch.h"

/* A note of a new span, made before another thread can end its epoch. */
typedef struct ts_span_note {
    uint64_t word;  /* its UNIT word */
    uint64_t bytes; /* usable; this field and the next are for an allocator with care */
    size_t written; /* place of the first byte that was written since the span was filled, or TS_CARE_CLEAN */
} ts_span_note;
void *ts_span_alloc(ts_allocator *allocator, EpochId epoch, size_t size, size_t align, bool *zero, ts_span_note *note);
bool ts_span_free(ts_allocator *allocator, uint32_t unit, uint64_t word, uint32_t generation);
/* The system moves spans of at least this many bytes. Each moved span leaves a mapping of its own in the process, and
   Linux allows some 65,000 of these. The region has room for 16,384 such spans. */
#define TS_SPAN_MOVE_BYTES ((size_t)4 << 20)
/* Moves the bytes of a span without guards to `to`, as many as there is room for, and frees the span. Not for an
   allocator with care. false: it was not live, and nothing was done. */
bool ts_span_move(ts_allocator *allocator, uint32_t unit, uint64_t word, uint32_t generation, void *to, size_t room);
/* Grows the live span with this word in place, to the units that `size` bytes need. false: it stays as it is. The
   units behind it are not free, or beyond the budget, or it has guards, or it is not live any more. Not for an
   allocator with care. */
bool ts_span_grow(ts_allocator *allocator, uint32_t unit, uint64_t word, size_t size);
/* The epoch of a live span, with its lock taken. NULL, without a lock: the unit has another word by now, or the span
   belongs to another allocator. */
ts_epoch *ts_span_lock(ts_allocator *allocator, uint32_t unit, uint64_t word);
/* The spans of an epoch are numbered by the count of those that it ever got, which 64 bits hold. */
static inline void ts_span_set_number(ts_slab *slab, uint64_t number) {
    slab->free_count = (uint16_t)number;
    slab->empty_at = (uint16_t)(number >> 16);
    slab->u.span.number = (uint32_t)(number >> 32);
}
static inline uint64_t ts_span_number(const ts_slab *slab) {
    return (uint64_t)slab->u.span.number << 32 | (uint64_t)slab->empty_at << 16 | slab->free_count;
}
/* How many spans the epoch ever got. And the end of all spans that came after the first `count`. */
uint64_t ts_span_count(ts_allocator *allocator, EpochId epoch);
void ts_span_release_newer(ts_allocator *allocator, EpochId epoch, uint64_t count);
/* Takes all spans off an epoch; the caller has its lock. Returns the first. */
uint32_t ts_span_detach(ts_epoch *epoch);
void ts_span_release_list(ts_allocator *allocator, uint32_t first);

#endif
