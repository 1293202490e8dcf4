/*
 * Timing of one in sample_rate allocations and frees, by the wall clock and by processor time. While it is on, a
 * thread's token for the fast paths is UINTPTR_MAX, which no allocator has, and its cached blocks are the empty ones
 * (ts_heap_unbind). So every operation comes by here. While it is off, nothing on the fast paths knows of it.
 */
#ifndef TS_DIAGNOSE_SAMPLE_H
#define TS_DIAGNOSE_SAMPLE_H

#include "os/os.h"
#include "ownership/heap.h"

/* Process-wide; 0: off. Threads notice at their next slow path. */
extern TS_HIDDEN _Atomic uint32_t ts_sample_rate;

typedef struct ts_timing {
    bool on;
    uint64_t wall, cpu;
} ts_timing;

void ts_sample_follow(ts_heap *heap, uint32_t rate);
/* How often an allocator began to sample stacks, or ended it, or changed its rate. */
extern TS_HIDDEN _Atomic uint32_t ts_stacks_turn;
/* The calling thread's blocks learn whether their allocators sample stacks now. Holds nothing. */
void ts_sample_follow_stacks(ts_heap *heap, uint32_t turn);
static inline bool ts_sample_is_news(const ts_heap *heap) {
    return heap->stack_turn != ts_load_relaxed(&ts_stacks_turn);
}
static inline void ts_sample_look(ts_heap *heap) {
    uint32_t turn = ts_load_acquire(&ts_stacks_turn); /* partner: ts_stacks_set_rate */
    if (TS_UNLIKELY(heap->stack_turn != turn)) ts_sample_follow_stacks(heap, turn);
}

/* what: TS_SAMPLE_ALLOC or TS_SAMPLE_FREE; each is counted by itself, so that a program that does one after the other
   has both timed. */
static inline ts_timing ts_sample_begin(ts_heap *heap, unsigned what) {
    ts_timing t = {0};
    uint32_t rate = ts_load_relaxed(&ts_sample_rate);
    if (TS_UNLIKELY(heap->sample_rate != rate)) ts_sample_follow(heap, rate);
    ts_sample_look(heap);
    if (TS_LIKELY(rate == 0)) return t;
    uint32_t *left = &heap->sample_left[what / TS_SAMPLE_FREE];
    if (*left > 1) {
        --*left;
        return t;
    }
    *left = rate;
    t.on = true;
    t.cpu = ts_os->cpu_ns();
    t.wall = ts_os->wall_ns();
    return t;
}

void ts_sample_add(ts_heap *heap, const ts_timing *timing, unsigned what);

static inline void ts_sample_end(ts_heap *heap, const ts_timing *timing, unsigned what) {
    if (TS_UNLIKELY(timing->on)) ts_sample_add(heap, timing, what);
}

#endif
