#include "diagnose/sample.h"
#include "supply/share.h"

#include "epoch/epoch.h"

_Atomic uint32_t ts_sample_rate;

void ts_sample_follow(ts_heap *heap, uint32_t rate) {
    heap->sample_rate = rate;
    heap->sample_left[0] = heap->sample_left[1] = rate;
    if (rate) ts_heap_unbind();
}

_Atomic uint32_t ts_stacks_turn;

/* The caches are dropped, as those blocks may be slow now; the next slow path fills them again. */
TS_COLD void ts_sample_follow_stacks(ts_heap *heap, uint32_t turn) {
    heap->stack_turn = turn;
    ts_heap_enter(heap);
    for (ts_share *share = heap->shares; share; share = share->heap_next) {
        ts_share_set_slow(share);
        for (ts_block *b = share->blocks; b; b = b->heap_next)
            b->slow = share->slow[b->scope] | ts_block_slow_as_small(b);
    }
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
