/* What timed operations add up to: of the calling thread, and of all. */
#include "diagnose/sample.h"
#include "stats/snapshot.h"

#include <string.h>

static void fill_samples(SlabThreadStats *out, const uint64_t figure[TS_SAMPLE_FIGURES]) {
    const uint64_t *a = &figure[TS_SAMPLE_ALLOC], *f = &figure[TS_SAMPLE_FREE];
    memset(out, 0, sizeof *out);
    out->version = SLAB_STATS_VERSION;
    out->sample_rate = ts_load_relaxed(&ts_sample_rate);
    out->alloc_samples = a[TS_SAMPLE_COUNT];
    out->alloc_wall_ns_sum = a[TS_SAMPLE_WALL];
    out->alloc_cpu_ns_sum = a[TS_SAMPLE_CPU];
    out->alloc_wait_ns_sum = a[TS_SAMPLE_WAIT];
    out->alloc_wall_ns_max = a[TS_SAMPLE_WALL_MAX];
    out->alloc_cpu_ns_max = a[TS_SAMPLE_CPU_MAX];
    out->free_samples = f[TS_SAMPLE_COUNT];
    out->free_wall_ns_sum = f[TS_SAMPLE_WALL];
    out->free_cpu_ns_sum = f[TS_SAMPLE_CPU];
    out->free_wait_ns_sum = f[TS_SAMPLE_WAIT];
    out->free_wall_ns_max = f[TS_SAMPLE_WALL_MAX];
    out->free_cpu_ns_max = f[TS_SAMPLE_CPU_MAX];
}

SlabThreadStats ts_snapshot_thread(void) {
    SlabThreadStats out;
    uint64_t figure[TS_SAMPLE_FIGURES] = {0};
    const ts_heap *heap = ts_thread.heap;
    for (unsigned i = 0; heap && i < TS_SAMPLE_FIGURES; i++)
        figure[i] =
            ts_sample_is_max(i) ? heap->sample_start[i] : ts_load_relaxed(&heap->sample[i]) - heap->sample_start[i];
    fill_samples(&out, figure);
    return out;
}

SlabThreadStats ts_snapshot_samples(uint64_t slow[4]) {
    SlabThreadStats out;
    uint64_t figure[TS_SAMPLE_FIGURES] = {0};
    for (const ts_heap *h = ts_heaps(); h; h = h->next) {
        for (unsigned i = 0; i < TS_SAMPLE_FIGURES; i++) {
            uint64_t x = ts_load_relaxed(&h->sample[i]);
            if (!ts_sample_is_max(i))
                figure[i] += x;
            else if (x > figure[i])
                figure[i] = x;
        }
    }
    fill_samples(&out, figure);
    slow[0] = figure[TS_SAMPLE_ALLOC + TS_SAMPLE_SLOW];
    slow[1] = figure[TS_SAMPLE_ALLOC + TS_SAMPLE_VERY_SLOW];
    slow[2] = figure[TS_SAMPLE_FREE + TS_SAMPLE_SLOW];
    slow[3] = figure[TS_SAMPLE_FREE + TS_SAMPLE_VERY_SLOW];
    return out;
}
