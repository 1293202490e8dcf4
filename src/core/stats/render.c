/* JSON and text of a view. The keys are the names of the fields. */
#include "stats/view.h"

/* The tables of fields.h. */
#define X(field, type, scope, unit, metric, meaning, worry) \
    {#field, TS_##type, TS_SCOPE_##scope, TS_##unit, metric, meaning, offsetof(ROW, field)},
#define ROW SlabClassStats
const ts_field ts_class_fields[] = {TS_STATS_COUNTERS(X) TS_STATS_GAUGES(X){0}};
#undef ROW
#define ROW SlabGlobalStats
const ts_field ts_shared_fields[] = {TS_STATS_COUNTERS(X) TS_STATS_GAUGES(X){0}};
const ts_field ts_global_fields[] = {TS_STATS_GLOBAL(X){0}};
#undef ROW
#define ROW SlabEpochStats
const ts_field ts_epoch_fields[] = {TS_STATS_EPOCH(X){0}};
#undef ROW
#define ROW SlabThreadStats
const ts_field ts_sample_fields[] = {TS_STATS_SAMPLES(X){0}};
#undef ROW
#define ROW ts_label_stats
const ts_field ts_label_fields[] = {TS_STATS_LABEL(X){0}};
#undef ROW
#define ROW SlabNodeStats
const ts_field ts_node_fields[] = {TS_STATS_NODE_COUNTED(X){0}};
#undef ROW
#define ROW ts_zones_stats
const ts_field ts_state_fields[] = {TS_STATS_ZONE_STATES(X){0}};
const ts_field ts_zones_fields[] = {TS_STATS_ZONE_FIGURES(X){0}};
#undef ROW
#define ROW SlabStackSample
const ts_field ts_stack_fields[] = {TS_STATS_STACK(X){0}};
#undef ROW
#undef X

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
    ts_json_u64(s, "class_index", c->class_index);
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

void ts_render_epochs_json(ts_sink *s, const char *key, const SlabEpochStats *rows, size_t count) {
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
    json_rows(s, "labels", v->label, sizeof *v->label, v->label_rows, json_label);
    json_rows(s, "nodes", v->node, sizeof *v->node, v->node_rows, json_node);
    json_rows(s, "zones", v->zones, sizeof *v->zones, v->zones_rows, json_zones);
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

static void text_lines(ts_sink *s, const ts_field *fields, const void *row) {
    for (const ts_field *f = fields; f->name; f++) text_line(s, f->name, f->unit, ts_figure(row, f->offset));
}

/* A column of a table: a figure, or the sum of two. TS_SLABS: bytes, shown in slabs. TS_NS: shown in seconds. */
typedef struct column {
    const char *head; /* NULL: the end */
    int width;
    ts_field_unit unit;
    size_t offset, more;
} column;
#define NO_MORE SIZE_MAX

static void text_head(ts_sink *s, const char *name, int width, const column *columns) {
    ts_put_wide(s, name, width);
    for (const column *c = columns; c->head; c++) ts_put_wide(s, c->head, c->width);
}

static void text_row(ts_sink *s, const char *name, int width, const column *columns, const void *row) {
    ts_put_wide(s, name, width);
    for (const column *c = columns; c->head; c++) {
        uint64_t value = ts_figure(row, c->offset) + (c->more == NO_MORE ? 0 : ts_figure(row, c->more));
        if (c->unit == TS_SLABS) value /= TS_UNIT_BYTES;
        ts_put_u64_wide(s, c->unit == TS_NS ? value / 1000000000u : value, c->unit == TS_NS ? c->width - 2 : c->width);
        if (c->unit == TS_NS) ts_say(s, ".%", ts_w_u64(value / 100000000u % 10));
    }
}

static void text_classes(ts_sink *s, const ts_view *v) {
#define AT(field) offsetof(SlabClassStats, field), NO_MORE
    static const column columns[] = {
        {"live", 13, TS_COUNT, AT(live_objects)},         {"live bytes", 15, TS_COUNT, AT(live_bytes)},
        {"slabs", 11, TS_SLABS, AT(committed_bytes)},     {"allocated", 15, TS_COUNT, AT(allocated_objects_total)},
        {"slow paths", 13, TS_COUNT, AT(slow_path_hits)}, {0}};
#undef AT
    char name[16];
    text_head(s, "class", 8, columns);
    for (unsigned k = 0; k < TS_COUNT_KINDS; k++) {
        const SlabClassStats *c = &v->cls[k];
        if (c->allocated_objects_total == 0) continue;
        ts_put(s, "\n");
        text_row(s, ts_class_name(c->class_index, name), 8, columns, c);
    }
    ts_put(s, "\n");
}

static void text_labels(ts_sink *s, const ts_view *v) {
#define AT(field) offsetof(ts_label_stats, field)
    static const column columns[] = {{"open", 9, TS_COUNT, AT(active_epochs), NO_MORE},
                                     {"closing", 9, TS_COUNT, AT(closing_epochs), NO_MORE},
                                     {"live", 13, TS_COUNT, AT(active_live_objects), AT(closing_live_objects)},
                                     {"live bytes", 15, TS_COUNT, AT(active_live_bytes), AT(closing_live_bytes)},
                                     {"slab bytes", 15, TS_COUNT, AT(active_rss_bytes), AT(closing_rss_bytes)},
                                     {0}};
#undef AT
    text_head(s, "label", -32, columns);
    ts_put(s, "   after close\n");
    for (unsigned k = 0; k < v->label_rows; k++) {
        const ts_label_stats *l = &v->label[k];
        text_row(s, ts_label_name(l), -32, columns, l);
        ts_put(s, "   ");
        if (l->closing_live_objects)
            ts_put_duration(s, l->closing_for_ns);
        else
            ts_put(s, "-");
        ts_put(s, "\n");
    }
}

#define AT(field) offsetof(SlabEpochStats, field), NO_MORE
static void text_epochs(ts_sink *s, const ts_view *v) {
    static const column columns[] = {{"age s", 10, TS_NS, AT(age_ns)},
                                     {"live", 13, TS_COUNT, AT(live_objects)},
                                     {"live bytes", 15, TS_COUNT, AT(live_bytes)},
                                     {0}};
    ts_put_wide(s, "epoch", -32);
    text_head(s, " state", -9, columns);
    for (unsigned i = 0; i < v->epoch_rows; i++) {
        const SlabEpochStats *e = &v->epoch[i];
        ts_put(s, "\n");
        ts_put_wide(s, e->label[0] ? e->label : "-", -32);
        ts_put(s, " ");
        text_row(s, ts_state_name(e->state), -8, columns, e);
    }
    ts_put(s, "\n");
    if (v->epoch_count > v->epoch_rows) ts_say(s, "... and % more\n", ts_w_u64(v->epoch_count - v->epoch_rows));
}

/* A resident memory of 0 was not measured. */
static void text_ended(ts_sink *s, const ts_view *v) {
    static const column columns[] = {{"ended s ago", 13, TS_NS, AT(ended_for_ns)},
                                     {"returned", 15, TS_COUNT, AT(returned_bytes)},
                                     {"rss before close", 18, TS_COUNT, AT(rss_before_close)},
                                     {"rss after close", 18, TS_COUNT, AT(rss_after_close)},
                                     {0}};
    if (v->ended_rows == 0) return;
    text_head(s, "ended epoch", -32, columns);
    for (unsigned i = 0; i < v->ended_rows; i++) {
        ts_put(s, "\n");
        text_row(s, v->ended[i].label[0] ? v->ended[i].label : "-", -32, columns, &v->ended[i]);
    }
    ts_put(s, "\n");
}
#undef AT

void ts_render_text(ts_sink *s, const ts_view *v) {
    const SlabGlobalStats *g = &v->global;
    ts_say(s, "temporal-slab: % live objects, % bytes live, % committed, % retained; % epochs active, % closing\n",
           ts_w_u64(g->live_objects), ts_w_u64(g->live_bytes), ts_w_u64(g->committed_bytes),
           ts_w_u64(g->retained_bytes), ts_w_u64(g->active_epoch_count), ts_w_u64(g->closing_epoch_count));
    text_lines(s, ts_shared_fields, g);
    text_lines(s, ts_global_fields, g);
    if (v->samples.sample_rate) {
        text_line(s, "sample_rate", TS_COUNT, v->samples.sample_rate);
        text_lines(s, ts_sample_fields, &v->samples);
    }
    for (unsigned i = 0; i < v->node_rows; i++) {
        ts_say(s, "node %\n", ts_w_u64((uint64_t)v->node[i].node));
        text_lines(s, ts_node_fields, &v->node[i]);
    }
    for (unsigned i = 0; i < v->zones_rows; i++) {
        ts_say(s, "zones of %\n", ts_w_shown(v->zones[i].device));
        text_lines(s, ts_state_fields, &v->zones[i]);
        text_lines(s, ts_zones_fields, &v->zones[i]);
    }
    text_classes(s, v);
    text_labels(s, v);
    text_epochs(s, v);
    text_ended(s, v);
}
