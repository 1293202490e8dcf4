/*
 * Timing of one in sample_rate allocations and frees, by the wall clock and by processor time. While it is on, a
 * thread's token for the fast paths is UINTPTR_MAX, which no allocator has, and its cached blocks are the empty ones
 * (ts_heap_unbind). So every operation comes by here. While it is off, nothing on the fast paths knows of it.
 *
 * Sampled stacks (observe/stacks.h): a thread counts the bytes down to its next sample, for each allocator
 * (share->stack_left). While an allocator samples, no hit allocates from its blocks (block->slow). So every allocation
 * misses, and is counted. Before the next sample it still takes an object at hand (ts_alloc_counted); the slow path has
 * the rest. Frees keep their hits. While an allocator does not sample, no hit knows of it. Where that changes in a
 * running program (ts_stacks_set_rate), a turn of the process goes on, and each thread tells its own blocks when it
 * next takes the slow path (ts_sample_begin): so `slow` has one writer. The distance is then drawn anew, as the points
 * have no memory.
 */
#include "diagnose/diagnose.h"
#include "supply/supply.h"

#include "base/base.h"

#include <errno.h>

_Atomic uint32_t ts_sample_rate;

void ts_sample_follow(ts_heap *heap, uint32_t rate) {
    heap->sample_rate = rate;
    heap->sample_left[0] = heap->sample_left[1] = rate;
    if (rate) ts_heap_unbind();
}

_Atomic uint32_t ts_stacks_turn;

_Atomic(ts_stacks_settle_fn *) ts_stacks_settle;

/* Whether hits are to use a churn block again that had samples. */
static bool set_shares(ts_heap *heap) {
    bool opens = false;
    for (ts_share *share = heap->shares; share; share = share->heap_next) {
        ts_share_set_slow(share);
        for (const ts_block *b = share->blocks; b; b = b->heap_next)
            opens = opens || (!b->scope && (b->slow & ~share->slow[false] & TS_SLOW_COUNTED));
    }
    return opens;
}

/* The caches are dropped, as those blocks may be slow now; the next slow path fills them again. Settles names first
   (named.c, 3). */
TS_COLD void ts_sample_follow_stacks(ts_heap *heap, uint32_t turn) {
    heap->stack_turn = turn;
    ts_heap_enter(heap);
    bool opens = set_shares(heap);
    ts_heap_leave(heap);
    ts_stacks_settle_fn *settle = ts_load_acquire(&ts_stacks_settle);
    if (opens && settle) settle(heap);
    ts_heap_enter(heap);
    for (ts_share *share = heap->shares; share; share = share->heap_next)
        for (ts_block *b = share->blocks; b; b = b->heap_next)
            b->slow = share->slow[b->scope] | ts_block_slow_as_small(b);
    ts_heap_unbind();
    ts_heap_leave(heap);
}

void ts_sample_add(ts_heap *heap, const ts_timing *timing, unsigned what) {
    uint64_t wall = ts_os->wall_ns() - timing->wall;
    uint64_t cpu = ts_os->cpu_ns() - timing->cpu;
    /* The two clocks are read one after the other: the processor's time never exceeds the wall's. */
    if (cpu > wall) cpu = wall;
    _Atomic uint64_t *s = &heap->sample[what];
    uint64_t *mine = &heap->sample_start[what];
    ts_add_owned(&s[TS_SAMPLE_COUNT], 1);
    ts_add_owned(&s[TS_SAMPLE_WALL], wall);
    ts_add_owned(&s[TS_SAMPLE_CPU], cpu);
    ts_add_owned(&s[TS_SAMPLE_WAIT], wall - cpu);
    if (wall > TS_SLOW_NS) ts_add_owned(&s[TS_SAMPLE_SLOW], 1);
    if (wall > TS_VERY_SLOW_NS) ts_add_owned(&s[TS_SAMPLE_VERY_SLOW], 1);
    if (wall > mine[TS_SAMPLE_WALL_MAX]) mine[TS_SAMPLE_WALL_MAX] = wall;
    if (cpu > mine[TS_SAMPLE_CPU_MAX]) mine[TS_SAMPLE_CPU_MAX] = cpu;
    if (wall > ts_load_relaxed(&s[TS_SAMPLE_WALL_MAX])) ts_store_relaxed(&s[TS_SAMPLE_WALL_MAX], wall);
    if (cpu > ts_load_relaxed(&s[TS_SAMPLE_CPU_MAX])) ts_store_relaxed(&s[TS_SAMPLE_CPU_MAX], cpu);
}

/* ---- stacks ---------------------------------------------------------------------------------------------------- */

_Atomic(ts_stacks_sample_fn *) ts_stacks_keep;
_Atomic uint64_t ts_stacks_seed;

void ts_stacks_set_rate(ts_allocator *allocator, size_t bytes) {
    ts_store_relaxed(&allocator->stack_mean_bytes, bytes);
    ts_store_relaxed(&allocator->sampled, bytes != 0);
    /* release: a thread that sees the turn sees the new rate */
    atomic_fetch_add_explicit(&ts_stacks_turn, 1, memory_order_release);
}

static uint64_t seed(const ts_heap *heap) {
    uint64_t x = ts_load_relaxed(&ts_stacks_seed);
    x = (x ? x : ts_os->wall_ns() ^ (uintptr_t)heap) + heap->serial * 0x9e3779b97f4a7c15u;
    /* splitmix64 (Steele, Lea, Flood) */
    x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9u;
    x = (x ^ (x >> 27)) * 0x94d049bb133111ebu;
    x ^= x >> 31;
    return x ? x : 1;
}

/* Whole bytes suffice, as objects end on them. Not 0, and far from what overflows. */
static int64_t draw(ts_heap *heap, const ts_allocator *allocator) {
    double bytes = ts_exponential(&heap->stack_random) * (double)ts_load_relaxed(&allocator->stack_mean_bytes);
    return bytes < (double)(INT64_MAX / 2) ? (int64_t)bytes + 1 : INT64_MAX / 2;
}

void ts_stacks_sample(ts_heap *heap, ts_share *share, bool begins, EpochId epoch, void *p, size_t bytes, void *caller) {
    ts_allocator *allocator = share->allocator;
    if (heap->stack_random == 0) heap->stack_random = seed(heap);
    if (begins) {
        share->stack_left += draw(heap, allocator);
        if (share->stack_left > 0) return;
    }
    if (heap->stack_busy) return;
    /* The points have no memory: the rest of the object, beyond this point, need not be looked at. And it is drawn
       first: what the sampling allocates may drop the share, if the allocator has ended. */
    share->stack_left = draw(heap, allocator);
    int error = errno;
    heap->stack_busy = true;
    ts_load_acquire (&ts_stacks_keep)(heap, allocator, epoch, p, bytes, caller);
    heap->stack_busy = false;
    errno = error;
}
