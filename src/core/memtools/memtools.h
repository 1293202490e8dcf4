/*
 * Extra work for an allocator "with care": when memory becomes an object, and when it stops being one.
 *
 * Care has no fast paths. No thread is bound to such an allocator (ts_heap_bind), and its blocks are never open to
 * their owners (ts_epoch_open_block). So each of its allocations and frees takes the slow path, which calls the
 * functions below.
 *
 *     FILL   poison_on_free: free memory is filled with 0xDB, and looked at when it is given out again
 *     TELL   with FILL: a filled byte that has changed is reported
 *     MARK   AddressSanitizer or Valgrind's memcheck is told of each object, if the process runs with it (tools.h).
 *            For AddressSanitizer the origin of each object is kept, too (origin.h)
 *
 * With MARK all other bytes of a slab or span are inaccessible: freed slots, places never given out, the end of a slab,
 * and the bytes of a slot behind those that were asked for.
 *
 * Memory that is in no slab stays as it was marked last. The next taker marks it anew. So does an allocator without
 * MARK, whose memory is accessible throughout. For memcheck each slab and each span is a mempool, named by its address.
 */
#ifndef TS_MEMTOOLS_MEMTOOLS_H
#define TS_MEMTOOLS_MEMTOOLS_H

#include "memtools/origin.h"
#include "memtools/tools.h"

/* An allocator's `care`, the first argument of most functions here. 0 is the usual case. */
enum { TS_CARE_FILL = 1, TS_CARE_MARK = 2, TS_CARE_TELL = 4 };
#define TS_CARE_CLEAN SIZE_MAX

/* Whether a tool listens, and whether it is AddressSanitizer. Constant after ts_care_start. */
extern TS_HIDDEN bool ts_care_tools, ts_care_on_asan;
/* The first byte that was found changed when this thread took a slab; NULL: none. The allocation that follows reports
   it, because the thread holds its heap while it takes a slab. */
extern TS_HIDDEN _Thread_local char *ts_care_written;
/* Bytes that OUTER and FAR units may have, as a power of two: the shadow of sanitizers covers some ranges of addresses
   only. */
unsigned ts_care_beyond_log2(void);

/* Before ts_care_start, holding nothing: it may load a library. */
void ts_care_prepare(void);
/* Once, after the region is there. */
void ts_care_start(void);
/* Whether memcheck runs the process. May be asked before ts_care_start. */
bool ts_care_on_memcheck(void);

/* The range becomes a slab or a span without an object in it. fill: it is looked at and filled, too; the first byte
   that has changed is noted in ts_care_written. */
void ts_care_begin_tools(unsigned care, void *at, size_t bytes, bool fill);
static inline void ts_care_begin(unsigned care, void *at, size_t bytes, bool fill) {
    if (TS_UNLIKELY(ts_care_tools || care)) ts_care_begin_tools(care, at, bytes, fill);
}
/* All objects of the slab have died at once, with their epoch. */
void ts_care_end(unsigned care, void *at, size_t bytes, EpochId epoch);
/* A span was freed, or died with its epoch. ts_span_release fills those that are retained. */
void ts_care_span_end(unsigned care, void *at, size_t bytes);

/* A call of the program begins that allocates, or ends live objects. Holds nothing. */
static inline void ts_care_call(unsigned care) {
    if (TS_UNLIKELY(care & TS_CARE_MARK) && ts_care_on_asan) ts_origin_record();
}
/* The call ends that epoch. Only where AddressSanitizer listens: the caller may have read the allocator of an epoch
   that is in another use by now. */
static inline void ts_care_call_ends(unsigned care, EpochId epoch) {
    if (care & TS_CARE_MARK) ts_origin_record_end(epoch);
}

/* The functions below are called only with care. `home` is the start of the slab or span, `usable` the bytes of the
   slot. */

/* The object may be used from now on. check: its bytes are looked at. Returns the place of the first byte that has
   changed since it was filled, or TS_CARE_CLEAN. */
size_t ts_care_allocated(unsigned care, void *home, void *p, size_t size, size_t usable, bool check);
/* The bytes of the object may be read before they are written: they are zero, from the system. */
void ts_care_defined(unsigned care, void *p, size_t size);
void ts_care_freed(unsigned care, void *home, void *p, size_t usable);
/* In place. usable: the larger of the old and the new slot. */
void ts_care_resized(unsigned care, void *home, void *p, size_t size, size_t usable);
/* The bytes of a live object that may be used: with MARK those that were asked for (at least one), else `usable`. */
size_t ts_care_size(unsigned care, const void *p, size_t usable);
/* Fills a range that holds no object. */
void ts_care_fill(unsigned care, void *at, size_t bytes);
/* The place of the first byte of a filled range that has changed, or TS_CARE_CLEAN. */
size_t ts_care_check(unsigned care, void *at, size_t bytes);

/* ---- leaks ------------------------------------------------------------------------------------------------------ */

/* Once, when the region and the tables are there. Does nothing without such a tool. each: shows each pointer that the
   program keeps in lines. */
void ts_leaks_start(void (*each)(void (*keep)(void *pointer)));

#endif
