/*
 * The stacks of a finding. Those that come from the same place of the program are one: stacks that differ only in what
 * libraries do below its call would be a dozen small leaks of one line.
 */
#include "advice/advice.h"

#include <string.h>

/* The innermost frame that lies in the program itself; else the innermost of all. */
static uint64_t own_frame(const ts_view *v, const SlabStackSample *row) {
    for (unsigned k = 0; k < row->frame_count; k++) {
        const ts_stack_module *m = ts_view_module(v, row->frames[k]);
        if (m && m->is_program) return row->frames[k];
    }
    return row->frame_count ? row->frames[0] : 0;
}

static bool is_of(const SlabStackSample *row, const ts_finding *f) {
    char shown[SLAB_LABEL_BYTES];
    memcpy(shown, row->label, sizeof shown);
    ts_label_show(shown);
    return row->state == f->state && strcmp(shown, f->label) == 0;
}

static void add(ts_site *all, unsigned *count, const ts_view *v, unsigned at) {
    const SlabStackSample *row = &v->stack[at];
    uint64_t frame = own_frame(v, row);
    unsigned i = 0;
    while (i < *count && all[i].frame != frame) i++;
    if (i == *count) all[(*count)++] = (ts_site){.row = at, .frame = frame};
    all[i].stacks++;
    all[i].samples += row->samples;
    all[i].objects += row->live_objects;
    all[i].bytes += row->live_bytes;
}

unsigned ts_sites_of(const ts_view *v, const ts_finding *f, ts_site out[TS_SITES_SHOWN]) {
    ts_site all[TS_VIEW_STACKS];
    unsigned count = 0, shown = 0;
    bool given = f->site[0] != 0;
    for (unsigned i = 0; given && i < TS_FINDING_STACKS; i++)
        if (f->site[i] - 1 < v->stack_rows) add(all, &count, v, f->site[i] - 1);
    for (unsigned i = 0; !given && f->has_label && i < v->stack_rows; i++)
        if (is_of(&v->stack[i], f)) add(all, &count, v, i);
    for (; shown < count && shown < TS_SITES_SHOWN; shown++) {
        unsigned best = shown;
        for (unsigned i = shown + 1; !given && i < count; i++)
            if (all[i].bytes > all[best].bytes) best = i;
        ts_site t = all[shown];
        out[shown] = all[shown] = all[best];
        all[best] = t;
    }
    return shown;
}

void ts_put_sites(ts_sink *s, const ts_view *v, const ts_finding *f) {
    ts_site site[TS_SITES_SHOWN];
    unsigned n = ts_sites_of(v, f, site);
    for (unsigned i = 0; i < n; i++) {
        ts_put(s, "   site:     ");
        ts_put_held(s, site[i].bytes, site[i].objects, site[i].samples);
        if (site[i].stacks > 1) ts_say(s, ", % stacks, of which the largest is", ts_w_u64(site[i].stacks));
        ts_put(s, "\n");
        ts_put_frames(s, v, &v->stack[site[i].row], TS_SITE_FRAMES);
    }
}
