/* JSON of a view with its advice. */
#include "advice/advice.h"

/* "row": which of the sites of "stacks" is the largest of those that come from the same place of the program. */
static void json_sites(ts_sink *s, const ts_view *view, const ts_finding *f) {
    ts_site site[TS_SITES_SHOWN];
    unsigned n = ts_sites_of(view, f, site);
    ts_json_begin(s, "sites", '[');
    for (unsigned i = 0; i < n; i++) {
        ts_json_begin(s, NULL, '{');
        ts_json_u64(s, "row", site[i].row);
        ts_json_u64(s, "stacks", site[i].stacks);
        ts_json_u64(s, "samples", site[i].samples);
        ts_json_u64(s, "live_objects", site[i].objects);
        ts_json_u64(s, "live_bytes", site[i].bytes);
        ts_json_end(s, '}');
    }
    ts_json_end(s, ']');
}

static void json_findings(ts_sink *s, const ts_view *view) {
    ts_json_begin(s, "findings", '[');
    for (unsigned i = 0; i < view->finding_count; i++) {
        const ts_finding *f = &view->finding[i];
        ts_json_begin(s, NULL, '{');
        ts_json_text(s, "id", f->id);
        ts_json_text(s, "severity", ts_severity_name(f->severity));
        ts_json_text(s, "what", f->what);
        ts_json_text(s, "evidence", f->evidence);
        ts_json_text(s, "advice", f->advice);
        if (f->has_label) {
            ts_json_text(s, "label", f->label);
            ts_json_text(s, "state", ts_state_name(f->state));
        }
        json_sites(s, view, f);
        ts_json_end(s, '}');
    }
    ts_json_end(s, ']');
}

static void json_held(ts_sink *s, uint64_t samples, uint64_t objects, uint64_t bytes) {
    ts_json_u64(s, "samples", samples);
    ts_json_u64(s, "live_objects", objects);
    ts_json_u64(s, "live_bytes", bytes);
}

static void json_holders(ts_sink *s, const ts_view *v) {
    ts_holder_row rows[TS_HOLDERS_SHOWN];
    unsigned n = ts_holders_of(v, rows);
    ts_json_begin(s, "holders", '{');
    ts_json_u64(s, "samples", ts_view_samples(v));
    ts_json_begin(s, "threads", '[');
    for (unsigned i = 0; i < v->thread_rows; i++) {
        const ts_thread_share *t = &v->thread[i];
        ts_json_begin(s, NULL, '{');
        ts_json_text(s, "name", ts_thread_share_name(t));
        json_held(s, t->samples, t->live_objects, t->live_bytes);
        ts_json_end(s, '}');
    }
    ts_json_end(s, ']');
    ts_json_begin(s, "functions", '[');
    for (unsigned i = 0; i < n; i++) {
        ts_json_begin(s, NULL, '{');
        json_held(s, rows[i].samples, rows[i].live_objects, rows[i].live_bytes);
        ts_json_begin(s, "frames", '[');
        for (unsigned k = 0; k < rows[i].frame_count; k++) ts_json_hex(s, NULL, rows[i].frame[k]);
        ts_json_end(s, ']');
        ts_json_end(s, '}');
    }
    ts_json_end(s, ']');
    ts_json_end(s, '}');
}

void ts_render_json(ts_sink *s, const ts_view *v) {
    ts_json_begin(s, NULL, '{');
    ts_render_figures_json(s, v);
    json_holders(s, v);
    json_findings(s, v);
    ts_json_end(s, '}');
}
