/* JSON and text of a view. The keys are the names of the fields. */
#include "stats/view.h"

const char *ts_state_name(int state) {
    return state == EPOCH_ACTIVE    ? "active"
           : state == EPOCH_CLOSING ? "closing"
           : state == EPOCH_SPILLED ? "spilled"
                                    : "closed";
}

const char *ts_class_name(uint32_t cls, char name[16]) {
    if (cls == SLAB_CLASS_SCOPE) return "scope";
    if (cls == SLAB_CLASS_SPAN) return "span";
    ts_sink s = ts_sink_buffer(name, 16);
    ts_put_u64(&s, cls < TS_CLASSES ? ts_class_bytes[cls] : 0);
    (void)ts_sink_end(&s);
    return name;
}

const char *ts_label_name(const ts_label_stats *label) {
    return label->is_other ? TS_LABEL_OTHER : label->label[0] ? label->label : TS_LABEL_NONE;
}

/* ---- JSON ----------------------------------------------------------------------------------------------- */

static void json_decimal(ts_sink *s, const char *key, uint64_t value, unsigned places) {
    ts_json_key(s, key);
    ts_put_decimal(s, value, places, places);
}

static void json_rate(ts_sink *s, double percent) {
    json_decimal(s, "recycle_rate_pct", (uint64_t)(percent * 100.0 + 0.5), 2);
}

static void json_class(ts_sink *s, const SlabClassStats *c) {
    char name[16];
    ts_json_begin(s, NULL, '{');
    ts_json_text(s, "class", ts_class_name(c->class_index, name));
    ts_json_u64(s, "class_index", c->class_index);
    ts_json_u64(s, "object_size", c->object_size);
#define X(field, ...) ts_json_u64(s, #field, c->field);
    TS_STATS_COUNTERS(X)
    TS_STATS_GAUGES(X)
#undef X
    json_rate(s, c->recycle_rate_pct);
    ts_json_end(s, '}');
}

void ts_render_epochs_json(ts_sink *s, const char *key, const SlabEpochStats *rows, size_t count) {
    ts_json_begin(s, key, '[');
    for (size_t i = 0; i < count; i++) {
        const SlabEpochStats *e = &rows[i];
        ts_json_begin(s, NULL, '{');
        ts_json_text(s, "label", e->label);
        ts_json_text(s, "state", e->ended_for_ns ? "ended" : ts_state_name(e->state));
        ts_json_text(s, "kind", e->flags & EPOCH_SCOPE ? "scope" : "churn");
#define X(field, ...) ts_json_u64(s, #field, e->field);
        TS_STATS_EPOCH(X)
#undef X
        ts_json_end(s, '}');
    }
    ts_json_end(s, ']');
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

static void json_label(ts_sink *s, const ts_label_stats *l) {
    char name[16];
    ts_json_begin(s, NULL, '{');
    ts_json_text(s, "label", ts_label_name(l));
#define X(field, ...) ts_json_u64(s, #field, l->field);
    TS_STATS_LABEL(X)
#undef X
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
    ts_json_end(s, '}');
}

static void json_zones(ts_sink *s, const ts_view *v) {
    ts_json_begin(s, "zones", '[');
    for (unsigned i = 0; i < v->zones_rows; i++) {
        ts_json_begin(s, NULL, '{');
        ts_json_text(s, "device", v->zones[i].device);
#define X(field, type, scope, unit, ...)               \
    if (TS_##unit == TS_RATIO)                         \
        json_decimal(s, #field, v->zones[i].field, 3); \
    else                                               \
        ts_json_u64(s, #field, v->zones[i].field);
        TS_STATS_ZONES(X)
#undef X
        ts_json_end(s, '}');
    }
    ts_json_end(s, ']');
}

static void json_nodes(ts_sink *s, const ts_view *v) {
    ts_json_begin(s, "nodes", '[');
    for (unsigned i = 0; i < v->node_rows; i++) {
        ts_json_begin(s, NULL, '{');
        ts_json_u64(s, "node", (uint64_t)v->node[i].node);
#define X(field, ...) ts_json_u64(s, #field, v->node[i].field);
        TS_STATS_NODE_COUNTED(X)
#undef X
        ts_json_end(s, '}');
    }
    ts_json_end(s, ']');
}

static void json_global(ts_sink *s, const ts_view *v) {
    ts_json_begin(s, "global", '{');
    ts_json_u64(s, "class_count", v->global.class_count);
#define X(field, ...) ts_json_u64(s, #field, v->global.field);
    TS_STATS_GLOBAL(X)
    TS_STATS_COUNTERS(X)
    TS_STATS_GAUGES(X)
#undef X
    json_rate(s, v->global.recycle_rate_pct);
    ts_json_end(s, '}');
    ts_json_begin(s, "samples", '{');
    ts_json_u64(s, "sample_rate", v->samples.sample_rate);
#define X(field, ...) ts_json_u64(s, #field, v->samples.field);
    TS_STATS_SAMPLES(X)
#undef X
    ts_json_end(s, '}');
}

void ts_render_figures_json(ts_sink *s, const ts_view *v) {
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
    ts_render_epochs_json(s, "epochs", v->epoch, v->epoch_rows);
    ts_render_epochs_json(s, "ended", v->ended, v->ended_rows);
    ts_json_begin(s, "labels", '[');
    for (unsigned i = 0; i < v->label_rows; i++) json_label(s, &v->label[i]);
    ts_json_end(s, ']');
    json_nodes(s, v);
    json_zones(s, v);
    ts_render_stacks_json(s, "stacks", v);
}

/* ---- text ------------------------------------------------------------------------------------------------ */

static void text_line(ts_sink *s, const char *name, ts_field_unit unit, uint64_t value) {
    ts_put(s, "  ");
    ts_put_wide(s, name, -28);
    ts_put(s, " ");
    if (unit == TS_RATIO)
        ts_put_decimal(s, value, 3, 3);
    else
        ts_put_u64(s, value);
    if (unit == TS_BYTES && value >= 1000) ts_say(s, "  (%)", ts_w_size(value));
    if (unit == TS_NS && value) ts_say(s, "  (%)", ts_w_time(value));
    ts_put(s, "\n");
}

static void text_zones(ts_sink *s, const ts_view *v) {
    for (unsigned i = 0; i < v->zones_rows; i++) {
        ts_say(s, "zones of %\n", ts_w_shown(v->zones[i].device));
#define X(field, type, scope, unit, ...) text_line(s, #field, TS_##unit, v->zones[i].field);
        TS_STATS_ZONES(X)
#undef X
    }
}

static void text_nodes(ts_sink *s, const ts_view *v) {
    for (unsigned i = 0; i < v->node_rows; i++) {
        ts_say(s, "node %\n", ts_w_u64((uint64_t)v->node[i].node));
#define X(field, type, scope, unit, ...) text_line(s, #field, TS_##unit, v->node[i].field);
        TS_STATS_NODE_COUNTED(X)
#undef X
    }
}

static void text_classes(ts_sink *s, const ts_view *v) {
    static const char *const head[] = {"live", "live bytes", "slabs", "allocated", "slow paths"};
    static const int width[] = {12, 14, 10, 14, 12};
    char name[16];
    ts_put_wide(s, "class", 8);
    for (unsigned i = 0; i < 5; i++) ts_put_wide(s, head[i], width[i] + 1);
    ts_put(s, "\n");
    for (unsigned k = 0; k < TS_COUNT_KINDS; k++) {
        const SlabClassStats *c = &v->cls[k];
        if (c->allocated_objects_total == 0) continue;
        ts_put_wide(s, ts_class_name(c->class_index, name), 8);
        const uint64_t value[] = {c->live_objects, c->live_bytes, c->committed_bytes / TS_UNIT_BYTES,
                                  c->allocated_objects_total, c->slow_path_hits};
        for (unsigned i = 0; i < 5; i++) ts_put_u64_wide(s, value[i], width[i] + 1);
        ts_put(s, "\n");
    }
}

static void text_labels(ts_sink *s, const ts_view *v) {
    static const char *const head[] = {"open", "closing", "live", "live bytes", "slab bytes"};
    static const int width[] = {8, 8, 12, 14, 14};
    ts_put_wide(s, "label", -32);
    for (unsigned i = 0; i < 5; i++) ts_put_wide(s, head[i], width[i] + 1);
    ts_put(s, "   after close\n");
    for (unsigned k = 0; k < v->label_rows; k++) {
        const ts_label_stats *l = &v->label[k];
        ts_put_wide(s, ts_label_name(l), -32);
        const uint64_t value[] = {l->active_epochs, l->closing_epochs, l->active_live_objects + l->closing_live_objects,
                                  l->active_live_bytes + l->closing_live_bytes,
                                  l->active_rss_bytes + l->closing_rss_bytes};
        for (unsigned i = 0; i < 5; i++) ts_put_u64_wide(s, value[i], width[i] + 1);
        ts_put(s, "   ");
        if (l->closing_live_objects)
            ts_put_duration(s, l->closing_for_ns);
        else
            ts_put(s, "-");
        ts_put(s, "\n");
    }
}

static void text_epochs(ts_sink *s, const ts_view *v) {
    ts_put_wide(s, "epoch", -32);
    ts_put(s, " state         age s         live     live bytes\n");
    for (unsigned i = 0; i < v->epoch_rows; i++) {
        const SlabEpochStats *e = &v->epoch[i];
        ts_put_wide(s, e->label[0] ? e->label : "-", -32);
        ts_put(s, " ");
        ts_put_wide(s, ts_state_name(e->state), -8);
        ts_put_u64_wide(s, e->age_ns / 1000000000u, 8);
        ts_put(s, ".");
        ts_put_u64(s, e->age_ns / 100000000u % 10);
        ts_put_u64_wide(s, e->live_objects, 13);
        ts_put_u64_wide(s, e->live_bytes, 15);
        ts_put(s, "\n");
    }
    if (v->epoch_count > v->epoch_rows) ts_say(s, "... and % more\n", ts_w_u64(v->epoch_count - v->epoch_rows));
}

/* A resident memory of 0 was not measured. */
static void text_ended(ts_sink *s, const ts_view *v) {
    if (v->ended_rows == 0) return;
    ts_put_wide(s, "ended epoch", -32);
    ts_put(s, "  ended s ago       returned  rss before close   rss after close\n");
    for (unsigned i = 0; i < v->ended_rows; i++) {
        const SlabEpochStats *e = &v->ended[i];
        ts_put_wide(s, e->label[0] ? e->label : "-", -32);
        ts_put_u64_wide(s, e->ended_for_ns / 1000000000u, 11);
        ts_put(s, ".");
        ts_put_u64(s, e->ended_for_ns / 100000000u % 10);
        ts_put_u64_wide(s, e->returned_bytes, 15);
        ts_put_u64_wide(s, e->rss_before_close, 18);
        ts_put_u64_wide(s, e->rss_after_close, 18);
        ts_put(s, "\n");
    }
}

void ts_render_text(ts_sink *s, const ts_view *v) {
    const SlabGlobalStats *g = &v->global;
    ts_say(s, "temporal-slab: % live objects, % bytes live, % committed, % retained; % epochs active, % closing\n",
           ts_w_u64(g->live_objects), ts_w_u64(g->live_bytes), ts_w_u64(g->committed_bytes),
           ts_w_u64(g->retained_bytes), ts_w_u64(g->active_epoch_count), ts_w_u64(g->closing_epoch_count));
#define X(field, type, scope, unit, ...) text_line(s, #field, TS_##unit, g->field);
    TS_STATS_COUNTERS(X)
    TS_STATS_GAUGES(X)
    TS_STATS_GLOBAL(X)
#undef X
    if (v->samples.sample_rate) {
        text_line(s, "sample_rate", TS_COUNT, v->samples.sample_rate);
#define X(field, type, scope, unit, ...) text_line(s, #field, TS_##unit, v->samples.field);
        TS_STATS_SAMPLES(X)
#undef X
    }
    text_nodes(s, v);
    text_zones(s, v);
    text_classes(s, v);
    text_labels(s, v);
    text_epochs(s, v);
    text_ended(s, v);
}
