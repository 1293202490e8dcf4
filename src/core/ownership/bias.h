/*
 * Barriers of all threads, and the bias of a heap: by it the thread has its own epochs without their lock. The argument is in
 * epoch/epoch.h.
 */
/* Modelled in tests/model: bias, orders. */
#ifndef TS_OWNERSHIP_BIAS_H
#define TS_OWNERSHIP_BIAS_H

#include "ownership/heap.h"

/* Whether the system has a barrier_all. Constant after init. */
extern TS_HIDDEN bool ts_barriers;
/* Where it has: every other thread has passed a full memory barrier since the call began; false: it was refused now, and what they
   had stored before is seen. */
bool ts_heap_barrier(void);
/* The bias of an epoch that the calling thread, whose heap it is, makes for itself; 0: none. */
uint32_t ts_heap_bias_again(ts_heap *heap);
TS_ALWAYS_INLINE uint32_t ts_heap_bias(ts_heap *heap) {
    uint32_t bias = heap->bias;
    return TS_LIKELY(bias == ts_load_relaxed(&heap->biased)) ? bias : ts_heap_bias_again(heap);
}
/* Of any turn. */
static inline bool ts_heap_is_bias_of(const ts_heap *heap, uint32_t bias) {
    return heap && ((bias ^ ts_load_relaxed(&heap->biased)) >> TS_BIAS_TURN_BITS) == 0;
}
/* The thread whose bias it is has no epoch by it any more. true: and is in no operation by which it had that one, whose bias is 0 now, or
   that of its entry's next use; what it wrote there is seen. false: it may be in one, and the epoch has its bias still, of a turn that is
   over. Waits for nobody. */
bool ts_heap_unbias(uint32_t bias, const ts_entry *epoch, _Atomic uint32_t *of);
/* Waits, after a barrier, until that thread is in no operation in which it may have an epoch by its bias. For fork. */
void ts_heap_wait_for_end(const ts_tls *tls);
/* The heap gets a thread, or NULL. Caller has the heap's lock. A thread begins with a turn of its own: what the last one left has
   that one's. */
void ts_heap_set_tls(ts_heap *heap, ts_tls *tls);

#endif
