/*
 * Timing of one in sample_rate allocations and frees, by the wall clock and by processor time. While it is on, a
 * thread's token for the fast paths is UINTPTR_MAX, which no allocator has, and its cached blocks are the empty ones
 * (ts_heap_unbind). So every operation comes by here. While it is off, nothing on the fast paths knows of it.
 *
 * Sampled stacks (observe/stacks.h): a thread counts the bytes down to its next sample, for each allocator
 * (share->stack_left). While an allocator samples, no hit allocates from its blocks (block->slow). So every allocation
 * misses, and is counted. Before the next sample it still takes an object at hand (ts_take_counted); the slow path has
 * the rest. Frees keep their hits. While an allocator does not sample, no hit knows of it. Where that changes in a
 * running program (ts_stacks_set_rate), a turn of the process goes on, and each thread tells its own blocks when it
 * next takes the slow path (ts_sample_begin): so `slow` has one writer. The distance is then drawn anew, as the points
 * have no memory.
 */
#ifndef TS_DIAGNOSE_SAMPLE_H
#define TS_DIAGNOSE_SAMPLE_H

#include "epoch/epoch.h"
#include "os/os.h"

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

/* ---- stacks ---------------------------------------------------------------------------------------------------- */

/* Where the calling function returns to, for systems that cannot walk a stack. */
#define TS_CALLER() __builtin_return_address(0)

/* The allocator samples one in `bytes` bytes from this call on; 0: none. */
void ts_stacks_set_rate(ts_allocator *allocator, size_t bytes);

/* Counts an allocation that the calling thread has just made, and samples it if its turn has come. share: the thread's,
   of the allocator. errno is kept. Not in an operation, no lock held. */
static inline void ts_stacks_count(ts_heap *heap, ts_share *share, EpochId epoch, void *p, size_t size, void *caller);
/* begins: the distance to the next sample was not drawn before that object. */
void ts_stacks_take(ts_heap *heap, ts_share *share, bool begins, EpochId epoch, void *p, size_t bytes, void *caller);
/* Keeps the sample of an object. Set by src/observe before an allocator samples. */
typedef void ts_stacks_keep_fn(ts_heap *heap, ts_allocator *allocator, EpochId epoch, const void *p, size_t bytes,
                               void *caller);
extern TS_HIDDEN _Atomic(ts_stacks_keep_fn *) ts_stacks_keep;
/* From the next thread on, the same numbers at every run; 0: not. For tests. */
extern TS_HIDDEN _Atomic uint64_t ts_stacks_seed;

/* Bytes that an allocation counts as. */
static inline size_t ts_stacks_bytes(size_t size) { return size <= 16 ? 16 : (size + 15) & ~(size_t)15; }

static inline void ts_stacks_count(ts_heap *heap, ts_share *share, EpochId epoch, void *p, size_t size, void *caller) {
    size_t bytes = ts_stacks_bytes(size);
    int64_t left = share->stack_left;
    share->stack_left = left - (int64_t)bytes;
    if (TS_UNLIKELY(share->stack_left <= 0)) ts_stacks_take(heap, share, left == 0, epoch, p, bytes, caller);
}

#endif
