/*
 * What is done besides when memory becomes an object or stops being one. An allocator with CARE has no fast paths: no
 * thread is bound to it (ts_heap_bind) and its blocks are never open to their owners (ts_epoch_open_block), so every one of its
 * allocations and frees comes by the slow path, which calls these; the fast paths know nothing of it.
 *
 *     FILL   poison_on_free: what is free is filled with 0xDB, and looked at when it is given out again.
 *     MARK   AddressSanitizer or Valgrind's memcheck is told of every object, if the process runs with it (tools.h); for the first
 *            it is kept where each came from (origin.h). All else in a slab or span is inaccessible: freed slots, places never given out, the
 *            end of a slab, and what of a slot lies beyond the bytes asked for.
 *
 * Memory in nobody's slab stays as it was marked last. Whoever takes it marks it anew, also an allocator without MARK,
 * whose memory is accessible throughout. For memcheck each slab and each span is a mempool, named by its address.
 */
#ifndef TS_MEMTOOLS_CARE_H
#define TS_MEMTOOLS_CARE_H

#include "memtools/origin.h"
#include "memtools/tools.h"
#include "supply/allocator.h"

enum { TS_CARE_FILL = 1, TS_CARE_MARK = 2 };
#define TS_CARE_CLEAN SIZE_MAX

/* Whether a tool listens, and whether it is AddressSanitizer; constant after ts_care_start. */
extern TS_HIDDEN bool ts_care_tools, ts_care_on_asan;
/* Bytes of the FAR part that sanitizers leave room for, as a power of two: their shadow is of some ranges of addresses
   only. */
unsigned ts_care_far_log2(void);

/* Before that, holding nothing: it may load a library. */
void ts_care_prepare(void);
/* Once, after the region is there. */
void ts_care_start(void);
/* Whether memcheck runs the process: before ts_care_start too. */
bool ts_care_on_memcheck(void);

/* The range becomes a slab or a span of the allocator, without an object in it. fill: for FILL too, and where the first byte is that is no
   longer 0xDB is left in ts_thread.written. */
void ts_care_begin_tools(const ts_allocator *allocator, void *at, size_t bytes, bool fill);
static inline void ts_care_begin(const ts_allocator *allocator, void *at, size_t bytes, bool fill) {
    if (TS_UNLIKELY(ts_care_tools || allocator->care)) ts_care_begin_tools(allocator, at, bytes, fill);
}
/* All objects of the slab have died at once, with their epoch. */
void ts_care_end(const ts_allocator *allocator, void *at, size_t bytes, EpochId epoch);
/* The same for a span, which was freed or died with its epoch; filling is for what stays warm (ts_span_release). */
void ts_care_span_end(const ts_allocator *allocator, void *at, size_t bytes);

/* Where a call of the program begins that allocates, or ends what is live: before anything is held. */
static inline void ts_care_call(const ts_allocator *allocator) {
    if (TS_UNLIKELY(allocator->care & TS_CARE_MARK) && ts_care_on_asan) ts_origin_take();
}
/* A hint: the epoch, or the domain, of which the allocator was read may be in another use, so its record is looked at only where somebody
   is told. */
static inline void ts_care_call_ends(const ts_allocator *allocator, EpochId epoch) {
    if (TS_UNLIKELY(ts_care_on_asan) && (allocator->care & TS_CARE_MARK)) ts_origin_take_end(epoch);
}

/* The rest: only with allocator->care. `home` is the start of the slab or span, `usable` the bytes of the slot. */

/* The object may be used from now on. Returns where, in FILL, its first byte is that is no longer 0xDB, or
   TS_CARE_CLEAN; check: look at it. */
size_t ts_care_allocated(const ts_allocator *allocator, void *home, void *p, size_t size, size_t usable, bool check);
/* Its bytes are what they should be before anything is written to them: zero, from the system. */
void ts_care_defined(const ts_allocator *allocator, void *p, size_t size);
void ts_care_freed(const ts_allocator *allocator, void *home, void *p, size_t usable);
/* In place. usable: the larger of what it was before and after. */
void ts_care_resized(const ts_allocator *allocator, void *home, void *p, size_t size, size_t usable);
/* The bytes of a live object that may be used: with MARK those asked for (one, if that was none), else `usable`. */
size_t ts_care_size(const ts_allocator *allocator, const void *p, size_t usable);
/* A range that keeps nothing: filled, to be looked at by ts_care_check. */
void ts_care_fill(const ts_allocator *allocator, void *at, size_t bytes);
/* Where the first byte is that is no longer 0xDB. */
size_t ts_care_check(const ts_allocator *allocator, void *at, size_t bytes);

#endif
