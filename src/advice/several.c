#include "advice/several.h"
#include "advice/figures.h"

static void add_figures(SlabGlobalStats *sum, const ts_field *fields, const SlabGlobalStats *g) {
    for (const ts_field *f = fields; f->name; f++) {
        uint64_t a = ts_figure(sum, f->offset), b = ts_figure(g, f->offset);
        a = a + b < a ? UINT64_MAX : a + b; /* cache_capacity can be UINT64_MAX */
        memcpy((char *)sum + f->offset, &a, sizeof a);
    }
}

SlabGlobalStats ts_views_global(const ts_views *views) {
    SlabGlobalStats sum = views->at[0]->global;
    const SlabGlobalStats first = sum;
    for (unsigned i = 1; i < views->count; i++) {
        add_figures(&sum, ts_shared_fields, &views->at[i]->global);
        add_figures(&sum, ts_global_fields, &views->at[i]->global);
    }
    sum.current_epoch = first.current_epoch;
    sum.resident_bytes = first.resident_bytes;
    sum.metadata_bytes = first.metadata_bytes;
    sum.reserved_bytes = first.reserved_bytes;
    sum.region_bytes = first.region_bytes;
    sum.region_used_bytes = first.region_used_bytes;
    sum.process_lock_waits = first.process_lock_waits;
    for (unsigned i = 0; i < views->count; i++)
        if (views->at[i]->global.budget_bytes == 0) sum.budget_bytes = 0; /* a part of them has one: together none */
    uint64_t all = sum.empty_slab_recycled + sum.empty_slab_overflowed;
    sum.recycle_rate_pct = all ? 100.0 * (double)sum.empty_slab_recycled / (double)all : 0.0;
    return sum;
}

static bool is_worse(const ts_finding *a, const ts_finding *b) {
    return a->severity != b->severity ? a->severity > b->severity : a->weight > b->weight;
}

/* The one finding that is of the whole process. */
static bool is_said(const ts_view_finding *found, unsigned count, const ts_finding *f) {
    for (unsigned i = 0; i < count && strcmp(f->id, "region_near") == 0; i++)
        if (strcmp(found[i].finding->id, f->id) == 0) return true;
    return false;
}

unsigned ts_views_findings(const ts_views *views, ts_view_finding out[TS_FOUND]) {
    unsigned count = 0;
    for (unsigned i = 0; i < views->count; i++) {
        const ts_view *v = views->at[i];
        for (unsigned k = 0; k < v->finding_count; k++) {
            const ts_finding *f = &v->finding[k];
            if (is_said(out, count, f)) continue;
            unsigned at = count++;
            for (; at > 0 && is_worse(f, out[at - 1].finding); at--) out[at] = out[at - 1];
            out[at] = (ts_view_finding){i, f};
        }
    }
    return count;
}

void ts_put_allocator(ts_sink *s, const ts_view *v) {
    ts_say(s, "allocator % (%)", ts_w_u64(v->number), ts_w_shown(v->name));
}
