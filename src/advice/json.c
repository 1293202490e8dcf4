/* JSON of a view with its advice. The keys of figures are the names of the fields. */
#include "advice/advice.h"

static void json_decimal(ts_sink *s, const char *key, uint64_t value, unsigned places) {
    ts_json_key(s, key);
    ts_put_decimal(s, value, places, places);
}

static void json_rate(ts_sink *s, double percent) {
    json_decimal(s, "recycle_rate_pct", (uint64_t)(percent * 100.0 + 0.5), 2);
}

static void json_fields(ts_sink *s, const ts_field *fields, const void *row) {
    for (const ts_field *f = fields; f->name; f++)
        if (f->unit == TS_RATIO)
            json_decimal(s, f->name, ts_figure(row, f->offset), 3);
        else
            ts_json_u64(s, f->name, ts_figure(row, f->offset));
}

/* An array with an object for each of the rows, whose keys `one` writes. */
static void json_rows(ts_sink *s, const char *key, const void *rows, size_t bytes, size_t count,
                      void (*one)(ts_sink *, const void *row)) {
    ts_json_begin(s, key, '[');
    for (size_t i = 0; i < count; i++) {
        ts_json_begin(s, NULL, '{');
        one(s, (const char *)rows + i * bytes);
        ts_json_end(s, '}');
    }
    ts_json_end(s, ']');
}

static void json_class(ts_sink *s, const SlabClassStats *c) {
    char name[16];
    ts_json_begin(s, NULL, '{');
    ts_json_text(s, "class", ts_class_name(c->class_index, name));
    if (c->class_index < TS_CLASSES) ts_json_u64(s, "class_index", c->class_index);
    ts_json_u64(s, "object_size", c->object_size);
    json_fields(s, ts_class_fields, c);
    json_rate(s, c->recycle_rate_pct);
    ts_json_end(s, '}');
}

static void json_epoch(ts_sink *s, const void *row) {
    const SlabEpochStats *e = row;
    ts_json_text(s, "label", e->label);
    ts_json_text(s, "state", e->ended_for_ns ? "ended" : ts_state_name(e->state));
    ts_json_text(s, "kind", e->flags & EPOCH_SCOPE ? "scope" : "churn");
    json_fields(s, ts_epoch_fields, e);
}

static void json_epochs(ts_sink *s, const char *key, const SlabEpochStats *rows, size_t count) {
    json_rows(s, key, rows, sizeof *rows, count, json_epoch);
}

static void json_growth(ts_sink *s, const ts_label_stats *l) {
    int64_t rate = l->growth_bytes_per_minute;
    ts_json_key(s, "growth_bytes_per_minute");
    if (l->growth_ns == 0) {
        ts_put(s, "null");
        return;
    }
    if (rate < 0) ts_put(s, "-");
    ts_put_u64(s, (uint64_t)(rate < 0 ? -rate : rate));
}

static void json_label(ts_sink *s, const void *row) {
    const ts_label_stats *l = row;
    char name[16];
    ts_json_text(s, "label", ts_label_name(l));
    json_fields(s, ts_label_fields, l);
    json_growth(s, l);
    ts_json_begin(s, "classes", '[');
    for (unsigned k = 0; k < TS_COUNT_KINDS; k++) {
        if (!l->class_objects[0][k] && !l->class_objects[1][k]) continue;
        ts_json_begin(s, NULL, '{');
        ts_json_text(s, "class", ts_class_name(ts_class_at(k), name));
        ts_json_u64(s, "active_live_objects", l->class_objects[0][k]);
        ts_json_u64(s, "active_live_bytes", l->class_bytes[0][k]);
        ts_json_u64(s, "closing_live_objects", l->class_objects[1][k]);
        ts_json_u64(s, "closing_live_bytes", l->class_bytes[1][k]);
        ts_json_end(s, '}');
    }
    ts_json_end(s, ']');
}

static void json_node(ts_sink *s, const void *row) {
    ts_json_u64(s, "node", (uint64_t)((const SlabNodeStats *)row)->node);
    json_fields(s, ts_node_fields, row);
}

static void json_zones(ts_sink *s, const void *row) {
    ts_json_text(s, "device", ((const ts_zones_stats *)row)->device);
    json_fields(s, ts_state_fields, row);
    json_fields(s, ts_zones_fields, row);
}

static void json_module(ts_sink *s, const void *row) {
    const ts_stack_module *m = row;
    ts_json_hex(s, "base", m->base);
    ts_json_hex(s, "start", m->start);
    ts_json_hex(s, "end", m->end);
    ts_json_text(s, "path", m->path);
}

static void json_stack(ts_sink *s, const void *row) {
    const SlabStackSample *stack = row;
    ts_json_text(s, "label", stack->label);
    ts_json_text(s, "state", ts_state_name(stack->state));
    json_fields(s, ts_stack_fields, stack);
    ts_json_begin(s, "frames", '[');
    for (unsigned k = 0; k < stack->frame_count; k++) ts_json_hex(s, NULL, stack->frames[k]);
    ts_json_end(s, ']');
}

void ts_render_stacks_json(ts_sink *s, const char *key, const ts_view *v) {
    ts_json_begin(s, key, '{');
    ts_json_u64(s, "sample_stacks", v->stack_mean_bytes);
    ts_json_u64(s, "samples_taken", v->global.stack_samples_taken);
    ts_json_u64(s, "samples_dropped", v->global.stack_samples_dropped);
    ts_json_u64(s, "count", v->stack_count);
    json_rows(s, "modules", v->module, sizeof *v->module, v->module_rows, json_module);
    json_rows(s, "sites", v->stack, sizeof *v->stack, v->stack_rows, json_stack);
    ts_json_end(s, '}');
}

static void json_global(ts_sink *s, const ts_view *v) {
    ts_json_begin(s, "global", '{');
    ts_json_u64(s, "class_count", v->global.class_count);
    json_fields(s, ts_global_fields, &v->global);
    json_fields(s, ts_shared_fields, &v->global);
    json_rate(s, v->global.recycle_rate_pct);
    ts_json_end(s, '}');
    ts_json_begin(s, "samples", '{');
    ts_json_u64(s, "sample_rate", v->samples.sample_rate);
    json_fields(s, ts_sample_fields, &v->samples);
    ts_json_end(s, '}');
}

static void json_figures(ts_sink *s, const ts_view *v) {
    ts_json_u64(s, "version", v->version);
    ts_json_text(s, "library", v->library);
    ts_json_u64(s, "pid", v->pid);
    ts_json_u64(s, "taken_ns", v->taken_ns);
    ts_json_u64(s, "took_ns", v->took_ns);
    if (v->is_watched) ts_json_u64(s, "watched_ns", v->watched_ns);
    json_global(s, v);
    ts_json_begin(s, "classes", '[');
    for (unsigned i = 0; i < TS_COUNT_KINDS; i++)
        if (v->cls[i].allocated_objects_total != 0) json_class(s, &v->cls[i]);
    ts_json_end(s, ']');
    ts_json_u64(s, "epoch_count", v->epoch_count);
    json_epochs(s, "epochs", v->epoch, v->epoch_rows);
    json_epochs(s, "ended", v->ended, v->ended_rows);
    json_rows(s, "labels", v->label, sizeof *v->label, v->label_rows, json_label);
    json_rows(s, "nodes", v->node, sizeof *v->node, v->node_rows, json_node);
    json_rows(s, "zones", v->zones, sizeof *v->zones, v->zones_rows, json_zones);
    ts_render_stacks_json(s, "stacks", v);
}

/* ---- advice ----------------------------------------------------------------------------------------------------- */

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
    json_figures(s, v);
    json_holders(s, v);
    json_findings(s, v);
    ts_json_end(s, '}');
}

/* ---- epochs alone ---------------------------------------------------------------------------------------------- */

static void json_listed(void *arg, const SlabEpochStats *rows, size_t count, uint64_t all) {
    ts_sink *s = arg;
    ts_json_begin(s, NULL, '{');
    ts_json_u64(s, "version", SLAB_STATS_VERSION);
    ts_json_u64(s, "epoch_count", all);
    json_epochs(s, "epochs", rows, count);
    ts_json_end(s, '}');
}

bool ts_render_epochs(ts_sink *s, ts_allocator *a, uintptr_t token, SlabEpochOrder order, size_t limit) {
    return ts_view_epochs(a, token, order, limit, json_listed, s);
}
