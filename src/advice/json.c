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

/* The rows that a view has of something. */
typedef struct rows {
    const void *at;
    size_t bytes, count;
} rows;
#define ROWS(list, n) ((rows){(list), sizeof *(list), (n)})

/* Of which allocator a row is. */
static void json_allocator(ts_sink *s, uint32_t number, const char *name) {
    ts_json_begin(s, "allocator", '{');
    ts_json_u64(s, "number", number);
    ts_json_text(s, "name", name);
    ts_json_end(s, '}');
}

/* Objects whose keys `one` writes. name: of their allocator; NULL: they are of none. */
static void json_some(ts_sink *s, uint32_t number, const char *name, rows r, void (*one)(ts_sink *, const void *row)) {
    for (size_t i = 0; i < r.count; i++) {
        ts_json_begin(s, NULL, '{');
        one(s, (const char *)r.at + i * r.bytes);
        if (name) json_allocator(s, number, name);
        ts_json_end(s, '}');
    }
}

static void json_rows(ts_sink *s, const char *key, rows r, void (*one)(ts_sink *, const void *row)) {
    ts_json_begin(s, key, '[');
    json_some(s, 0, NULL, r, one);
    ts_json_end(s, ']');
}

/* The same rows of all views. */
static void json_all(ts_sink *s, const char *key, const ts_views *views, rows (*of)(const ts_view *),
                     void (*one)(ts_sink *, const void *row)) {
    ts_json_begin(s, key, '[');
    for (unsigned i = 0; i < views->count; i++)
        json_some(s, views->at[i]->number, views->at[i]->name, of(views->at[i]), one);
    ts_json_end(s, ']');
}

static void json_class(ts_sink *s, const void *row) {
    const SlabClassStats *c = row;
    char name[16];
    ts_json_text(s, "class", ts_class_name(c->class_index, name));
    if (c->class_index < TS_CLASSES) ts_json_u64(s, "class_index", c->class_index);
    ts_json_u64(s, "object_size", c->object_size);
    json_fields(s, ts_class_fields, c);
    json_rate(s, c->recycle_rate_pct);
}

static void json_epoch(ts_sink *s, const void *row) {
    const SlabEpochStats *e = row;
    ts_json_text(s, "label", e->label);
    ts_json_text(s, "state", e->ended_for_ns ? "ended" : ts_state_name(e->state));
    ts_json_text(s, "kind", e->flags & EPOCH_SCOPE ? "scope" : "churn");
    json_fields(s, ts_epoch_fields, e);
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

static rows sites_of(const ts_view *v) { return ROWS(v->stack, v->stack_rows); }
static rows modules_of(const ts_view *v) { return ROWS(v->module, v->module_rows); }

void ts_render_stacks_json(ts_sink *s, const char *key, const ts_views *views) {
    const SlabGlobalStats g = ts_views_global(views);
    uint64_t mean = 0, count = 0;
    for (unsigned i = 0; i < views->count; i++) {
        if (mean == 0) mean = views->at[i]->stack_mean_bytes;
        count += views->at[i]->stack_count;
    }
    ts_json_begin(s, key, '{');
    ts_json_u64(s, "sample_stacks", mean);
    ts_json_u64(s, "samples_taken", g.stack_samples_taken);
    ts_json_u64(s, "samples_dropped", g.stack_samples_dropped);
    ts_json_u64(s, "count", count);
    ts_json_begin(s, "modules", '[');
    for (unsigned i = 0; i < views->count; i++) json_some(s, 0, NULL, modules_of(views->at[i]), json_module);
    ts_json_end(s, ']');
    json_all(s, "sites", views, sites_of, json_stack);
    ts_json_end(s, '}');
}

static void json_whole(ts_sink *s, const SlabGlobalStats *g) {
    ts_json_u64(s, "class_count", g->class_count);
    json_fields(s, ts_global_fields, g);
    json_fields(s, ts_shared_fields, g);
    json_rate(s, g->recycle_rate_pct);
}

static void json_global(ts_sink *s, const ts_views *views) {
    const SlabGlobalStats g = ts_views_global(views);
    const ts_view *v = views->at[0];
    ts_json_begin(s, "global", '{');
    json_whole(s, &g);
    ts_json_end(s, '}');
    ts_json_begin(s, "allocators", '[');
    for (unsigned i = 0; i < views->count; i++) {
        ts_json_begin(s, NULL, '{');
        json_whole(s, &views->at[i]->global);
        json_allocator(s, views->at[i]->number, views->at[i]->name);
        ts_json_end(s, '}');
    }
    ts_json_end(s, ']');
    ts_json_begin(s, "samples", '{'); /* of the threads of the process */
    ts_json_u64(s, "sample_rate", v->samples.sample_rate);
    json_fields(s, ts_sample_fields, &v->samples);
    ts_json_end(s, '}');
}

static rows epochs_of(const ts_view *v) { return ROWS(v->epoch, v->epoch_rows); }
static rows ended_of(const ts_view *v) { return ROWS(v->ended, v->ended_rows); }
static rows labels_of(const ts_view *v) { return ROWS(v->label, v->label_rows); }
static rows nodes_of(const ts_view *v) { return ROWS(v->node, v->node_rows); }

static void json_classes(ts_sink *s, const ts_views *views) {
    ts_json_begin(s, "classes", '[');
    for (unsigned i = 0; i < views->count; i++) {
        const ts_view *v = views->at[i];
        for (unsigned k = 0; k < TS_COUNT_KINDS; k++)
            if (v->cls[k].allocated_objects_total != 0)
                json_some(s, v->number, v->name, ROWS(&v->cls[k], 1), json_class);
    }
    ts_json_end(s, ']');
}

static void json_contention(ts_sink *s, const void *row) {
    const ts_contention *c = row;
    ts_json_text(s, "label", c->label[0] ? c->label : TS_LABEL_NONE);
    ts_json_u64(s, "lock_waits", c->lock_waits);
    ts_json_u64(s, "cas_retries", c->cas_retries);
}

static void json_figures(ts_sink *s, const ts_views *views) {
    const ts_view *v = views->at[0];
    uint64_t took = 0, epochs = 0;
    for (unsigned i = 0; i < views->count; i++) {
        took += views->at[i]->took_ns;
        epochs += views->at[i]->epoch_count;
    }
    ts_json_u64(s, "version", v->version);
    ts_json_text(s, "library", v->library);
    ts_json_u64(s, "pid", v->pid);
    ts_json_u64(s, "taken_ns", v->taken_ns);
    ts_json_u64(s, "took_ns", took);
    if (v->is_watched) ts_json_u64(s, "watched_ns", v->watched_ns);
    json_global(s, views);
    json_classes(s, views);
    ts_json_u64(s, "epoch_count", epochs);
    json_all(s, "epochs", views, epochs_of, json_epoch);
    json_all(s, "ended", views, ended_of, json_epoch);
    json_all(s, "labels", views, labels_of, json_label);
    json_all(s, "nodes", views, nodes_of, json_node);
    json_rows(s, "zones", ROWS(v->zones, v->zones_rows), json_zones);
    json_rows(s, "contention", ROWS(v->contention, v->contention_rows), json_contention);
    ts_render_stacks_json(s, "stacks", views);
}

/* ---- advice ----------------------------------------------------------------------------------------------------- */

/* "row": which of the sites of "stacks" is the largest of those that come from the same place of the program. before:
   the sites of other allocators that come first there. */
static void json_sites(ts_sink *s, const ts_view *view, const ts_finding *f, uint64_t before) {
    ts_site site[TS_SITES_SHOWN];
    unsigned n = ts_sites_of(view, f, site);
    ts_json_begin(s, "sites", '[');
    for (unsigned i = 0; i < n; i++) {
        ts_json_begin(s, NULL, '{');
        ts_json_u64(s, "row", before + site[i].row);
        ts_json_u64(s, "stacks", site[i].stacks);
        ts_json_u64(s, "samples", site[i].samples);
        ts_json_u64(s, "live_objects", site[i].objects);
        ts_json_u64(s, "live_bytes", site[i].bytes);
        ts_json_end(s, '}');
    }
    ts_json_end(s, ']');
}

static void json_findings(ts_sink *s, const ts_views *views) {
    ts_view_finding found[TS_FOUND];
    unsigned count = ts_views_findings(views, found);
    ts_json_begin(s, "findings", '[');
    for (unsigned i = 0; i < count; i++) {
        const ts_finding *f = found[i].finding;
        const ts_view *view = views->at[found[i].view];
        uint64_t before = 0;
        for (unsigned k = 0; k < found[i].view; k++) before += views->at[k]->stack_rows;
        ts_json_begin(s, NULL, '{');
        ts_json_text(s, "id", f->id);
        ts_json_text(s, "severity", ts_severity_name(f->severity));
        ts_json_text(s, "what", f->what);
        ts_json_text(s, "evidence", f->evidence);
        ts_json_text(s, "advice", f->advice);
        json_allocator(s, view->number, view->name);
        if (f->has_label) {
            ts_json_text(s, "label", f->label);
            ts_json_text(s, "state", ts_state_name(f->state));
        }
        json_sites(s, view, f, before);
        ts_json_end(s, '}');
    }
    ts_json_end(s, ']');
}

static void json_held(ts_sink *s, uint64_t samples, uint64_t objects, uint64_t bytes) {
    ts_json_u64(s, "samples", samples);
    ts_json_u64(s, "live_objects", objects);
    ts_json_u64(s, "live_bytes", bytes);
}

static void json_thread(ts_sink *s, const void *row) {
    const ts_thread_share *t = row;
    ts_json_text(s, "name", ts_thread_share_name(t));
    json_held(s, t->samples, t->live_objects, t->live_bytes);
}

static void json_function(ts_sink *s, const void *row) {
    const ts_holder_row *h = row;
    json_held(s, h->samples, h->live_objects, h->live_bytes);
    ts_json_begin(s, "frames", '[');
    for (unsigned k = 0; k < h->frame_count; k++) ts_json_hex(s, NULL, h->frame[k]);
    ts_json_end(s, ']');
}

static rows threads_of(const ts_view *v) { return ROWS(v->thread, v->thread_rows); }

static void json_holders(ts_sink *s, const ts_views *views) {
    uint64_t samples = 0;
    for (unsigned i = 0; i < views->count; i++) samples += ts_view_samples(views->at[i]);
    ts_json_begin(s, "holders", '{');
    ts_json_u64(s, "samples", samples);
    json_all(s, "threads", views, threads_of, json_thread);
    ts_json_begin(s, "functions", '[');
    for (unsigned i = 0; i < views->count; i++) {
        ts_holder_row row[TS_HOLDERS_SHOWN];
        const ts_view *v = views->at[i];
        json_some(s, v->number, v->name, ROWS(row, ts_holders_of(v, row)), json_function);
    }
    ts_json_end(s, ']');
    ts_json_end(s, '}');
}

void ts_render_json(ts_sink *s, const ts_views *views) {
    ts_json_begin(s, NULL, '{');
    json_figures(s, views);
    json_holders(s, views);
    json_findings(s, views);
    ts_json_end(s, '}');
}

/* ---- epochs alone ---------------------------------------------------------------------------------------------- */

typedef struct listing {
    ts_sink *sink;
    const ts_shown *of;
    uint64_t all;
} listing;

static void json_listed(void *arg, const SlabEpochStats *list, size_t count, uint64_t all) {
    listing *l = arg;
    l->all += all;
    json_some(l->sink, l->of->number, l->of->name, ROWS(list, count), json_epoch);
}

bool ts_render_epochs(ts_sink *s, const ts_shown *shown, unsigned count, SlabEpochOrder order, size_t limit) {
    listing l = {s, shown, 0};
    bool any = false;
    ts_json_begin(s, NULL, '{');
    ts_json_u64(s, "version", SLAB_STATS_VERSION);
    ts_json_begin(s, "epochs", '[');
    for (; l.of < shown + count; l.of++)
        any |= ts_view_epochs(l.of->allocator, l.of->token, order, limit, json_listed, &l);
    ts_json_end(s, ']');
    ts_json_u64(s, "epoch_count", l.all);
    ts_json_end(s, '}');
    if (!any) s->length = 0;
    return any;
}
