#include "advise/timeline.h"

#include <string.h>

typedef struct now {
    uint64_t live[TIMELINE_BANDS], all, most;
    size_t bin;
} now;

static size_t band_of(const advice *a, uint32_t stack) {
    uint32_t row = a->turns->row_of[stack];
    return row < SHOWN_BANDS ? row : SHOWN_BANDS;
}

static void add(now *n, size_t band, uint64_t bytes) {
    n->live[band] += bytes;
    n->all += bytes;
}

static void take(now *n, size_t band, uint64_t bytes) {
    if (bytes > n->live[band]) bytes = n->live[band];
    n->live[band] -= bytes;
    n->all -= bytes;
}

/* Bins in which nothing happens have what is live at their beginning. */
static void go_to(timeline *l, now *n, size_t bin) {
    while (n->bin < bin) {
        n->bin++;
        n->most = n->all;
        memcpy(l->live[n->bin], n->live, sizeof n->live);
    }
}

bool timeline_make(timeline *l, const advice *a) {
    uint64_t duration = a->turns->duration_ns + 1;
    now n = {{0}, 0, 0, 0};
    trace_event e;
    *l = (timeline){.peak = 0};
    if (!trace_rewind(a->t)) return false;
    while (trace_next(a->t, &e)) {
        uint64_t bin = (uint64_t)((double)e.time_ns / (double)duration * TIMELINE_BINS);
        go_to(l, &n, bin < TIMELINE_BINS ? bin : TIMELINE_BINS - 1);
        if (e.kind > TRACE_REALLOC || e.scope) continue;
        if (e.kind == TRACE_ALLOC || !e.object) {
            if (e.kind != TRACE_FREE) add(&n, band_of(a, e.stack), e.size);
        } else {
            take(&n, band_of(a, e.birth_stack), e.kind == TRACE_FREE ? e.size : e.from_size);
            if (e.kind == TRACE_REALLOC) add(&n, band_of(a, e.birth_stack), e.size);
        }
        if (n.all <= n.most) continue;
        n.most = n.all;
        memcpy(l->live[n.bin], n.live, sizeof n.live);
        if (n.all > l->peak) l->peak = n.all;
    }
    go_to(l, &n, TIMELINE_BINS - 1);
    return true;
}
