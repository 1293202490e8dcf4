/* What timed operations add up to: of the calling thread, and of all. */
#include "diagnose/diagnose.h"
#include "observe/snapshot.h"

#include <stddef.h>
#include <string.h>

#define SHOWN ((TS_SAMPLE_CPU_MAX + 1 - TS_SAMPLE_COUNT) * sizeof(uint64_t))

static void fill_samples(SlabThreadStats *out, const uint64_t figure[TS_SAMPLE_FIGURES]) {
    memset(out, 0, sizeof *out);
    out->version = SLAB_STATS_VERSION;
    out->sample_rate = ts_load_relaxed(&ts_sample_rate);
    memcpy((char *)out + offsetof(SlabThreadStats, alloc_samples), &figure[TS_SAMPLE_ALLOC + TS_SAMPLE_COUNT], SHOWN);
    memcpy((char *)out + offsetof(SlabThreadStats, free_samples), &figure[TS_SAMPLE_FREE + TS_SAMPLE_COUNT], SHOWN);
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
