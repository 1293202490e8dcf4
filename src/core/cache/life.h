/* Errands that are left to a heap, what a thread settles when it holds nothing, and the end of a thread. */
#ifndef TS_CACHE_LIFE_H
#define TS_CACHE_LIFE_H

#include "supply/purge.h"

/* For ts_heap_init. */
extern TS_HIDDEN const ts_heap_duties ts_cache_duties;

/* ---- errands ------------------------------------------------------------------------------------ */

/* Whether errands wait for the heap's thread. A hint: others may be about to leave some. */
static inline bool ts_heap_has_errands(const ts_heap *heap) {
    return ts_heap_is_waited_for(heap) || ts_heap_is_called(heap) || ts_load_relaxed(&heap->unflushed) != 0;
}
/* Answers all errands of a heap that the caller holds: flushes and ends blocks, drains the queue. */
void ts_heap_work_off(ts_heap *heap);
/* Calls a heap to which an errand was left, and works it off. false: its thread, or its holder, does. */
bool ts_heap_call_for(ts_heap *heap);
/* Answers those of the calling thread's own heap, at the end of a call, in part; or of another heap that can be held
   at once. Holds nothing. */
void ts_heap_answer(ts_heap *heap);
/* Answers those of any heap, and takes its retained units of that allocator. Holds nothing. */
void ts_heap_visit(ts_heap *heap, ts_allocator *allocator);
/* As ts_heap_visit, of a thread that rests. Its bins let go of empty slabs, too (ts_heap_shed). asks: its next call
   is to look at its magazines itself. false: the heap could not be held, or there is more. */
bool ts_heap_visit_resting(ts_heap *heap, ts_allocator *allocator, bool asks);
/* Purges down to `keep_units` retained units, those of all threads included. Holds nothing. */
void ts_allocator_purge_to(ts_allocator *allocator, uint64_t keep_units);
/* Purges all retained units, and sets the adaptive budget back to the usual one (retain.h). Holds nothing. */
void ts_allocator_trim(ts_allocator *allocator);
/* Maintenance (maintain.c): works until `until` on the clock. Caller holds nothing, and has the record pinned. */
void ts_allocator_maintain(ts_allocator *allocator, uint64_t until);

/* ---- a thread that rests or ends ---------------------------------------------------------------- */

/* Empties magazines and claimed words of all blocks, drains, gives retained units away. Caller: the owner, not
   inside. */
void ts_heap_idle(ts_heap *heap);
/* ts_heap_idle for one allocator; free records keep their memory. Caller holds nothing. */
void ts_heap_let_go(ts_heap *heap, const ts_allocator *allocator);
/* Exit callback of the os layer. */
void ts_heap_exit(void *heap);

/* ---- notes for later ---------------------------------------------------------------------------- */

/* A closing block of this thread holds nothing any more, perhaps: ts_epoch_settle looks at its epoch. */
void ts_note_drained(ts_block *block);
/* Drains the heaps that this thread noted, and pays what it owes (purge.h). Holds nothing, in no operation. */
void ts_settle_now(uint64_t purge_units);
static inline bool ts_settle_is_due(void) { return ts_thread.settle != NULL || ts_thread.drain != NULL; }
/* After an operation on objects: pays a bounded part. */
static inline void ts_settle_pending(void) {
    if (TS_UNLIKELY(ts_settle_is_due())) ts_settle_now(TS_PURGE_STEP);
}
/* Called at the end of a phase that released `units` units. Pays in proportion to them, or to the units that frees
   released before. */
static inline void ts_settle_phase(uint64_t units) {
    if (TS_LIKELY(!ts_settle_is_due())) return;
    uint64_t released = ts_thread.released - ts_thread.phase_released;
    if (released < TS_PURGE_PHASE_UNITS) released = 0; /* so few by frees make no phase */
    ts_thread.phase_released = ts_thread.released;
    if (units > released) released = units;
    ts_settle_now(released < 2 * TS_PURGE_LEAST_UNITS ? TS_PURGE_STEP : 2 * released);
}
/* When the thread stops or rests: pays all. */
static inline void ts_settle_all(void) {
    if (TS_UNLIKELY(ts_settle_is_due())) ts_settle_now(UINT64_MAX);
}

#endif
