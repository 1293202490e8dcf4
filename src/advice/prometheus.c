/*
 * Prometheus text and OpenMetrics of a view. Base units, `_total` on counters. The values of labels are bounded:
 * classes, the states of epochs, reasons, and epoch labels, of which there are at most TS_VIEW_LABELS and "(other)".
 *
 * The two formats differ where a counter is introduced (OpenMetrics names the family without _total), in the last line,
 * and in nothing else that is used here.
 */
#include "advice/advice.h"

#include <string.h>

typedef struct out {
    ts_sink *s;
    bool openmetrics;
} out;

/* Of a family the metric, type, unit and meaning count; of a sample the offset, too. */
static void family(const out *o, const ts_field *f) {
    const char *suffix = f->type == TS_COUNTER && !o->openmetrics ? "_total" : "";
    ts_say(o->s, "# HELP temporal_slab_%% ", ts_w_text(f->metric), ts_w_text(suffix));
    for (const char *c = f->meaning; *c; c++) {
        if (*c == '\\' || *c == '\n' || (o->openmetrics && *c == '"')) ts_put(o->s, "\\");
        ts_put_bytes(o->s, *c == '\n' ? "n" : c, 1);
    }
    ts_say(o->s, "\n# TYPE temporal_slab_%% %\n", ts_w_text(f->metric), ts_w_text(suffix),
           ts_w_text(f->type == TS_COUNTER ? "counter" : "gauge"));
}

/* pairs: name, value, ..., NULL. */
static void sample(const out *o, const ts_field *f, const char *const *pairs, uint64_t value) {
    ts_say(o->s, "temporal_slab_%%", ts_w_text(f->metric), ts_w_text(f->type == TS_COUNTER ? "_total" : ""));
    for (unsigned i = 0; pairs[i]; i += 2) {
        ts_say(o->s, "%%=", ts_w_text(i ? "," : "{"), ts_w_text(pairs[i]));
        ts_put_quoted(o->s, pairs[i + 1]);
    }
    ts_put(o->s, pairs[0] ? "} " : " ");
    unsigned scale = f->unit == TS_NS ? 9 : f->unit == TS_RATIO ? 3 : 0;
    ts_put_decimal(o->s, value, scale, scale);
    ts_put(o->s, "\n");
}

/* Rows of the view, each of which has a sample of a family. */
typedef struct rows {
    const void *at;
    size_t bytes, count;
    const char *key; /* label that tells them apart; NULL: there is one row */
    const char *(*name)(const void *row, char text[16]);
} rows;
#define ALL SIZE_MAX

/* Of the rows whose figure at the offset `if_any` is not 0. key, value: one more label; NULL: none. */
static void samples(const out *o, const ts_field *f, const rows *r, size_t if_any, const char *key, const char *value) {
    char text[16];
    for (size_t i = 0; i < r->count; i++) {
        const char *row = (const char *)r->at + i * r->bytes;
        if (if_any != ALL && ts_figure(row, if_any) == 0) continue;
        const char *pairs[] = {r->key ? r->key : key, r->key ? r->name(row, text) : value, key, value, NULL};
        if (!r->key) pairs[2] = NULL;
        sample(o, f, pairs, ts_figure(row, f->offset));
    }
}

static void all(const out *o, const ts_field *fields, const rows *r, size_t if_any) {
    for (const ts_field *f = fields; f->name; f++) {
        if (!f->metric[0]) continue;
        family(o, f);
        samples(o, f, r, if_any, NULL, NULL);
    }
}

static void one(const out *o, const ts_field *fields, const void *row) {
    all(o, fields, &(rows){.at = row, .count = 1}, ALL);
}

static const char *name_of_class(const void *row, char text[16]) {
    return ts_class_name(((const SlabClassStats *)row)->class_index, text);
}
static const char *name_of_label(const void *row, char text[16]) {
    (void)text;
    return ts_label_name(row);
}
static const char *name_of_contention(const void *row, char text[16]) {
    (void)text;
    const ts_contention *c = row;
    return c->label[0] ? c->label : TS_LABEL_NONE;
}
static const char *name_of_zones(const void *row, char text[16]) {
    (void)text;
    return ((const ts_zones_stats *)row)->device;
}
static const char *name_of_node(const void *row, char text[16]) {
    ts_sink s = ts_sink_buffer(text, 16);
    ts_put_u64(&s, (uint64_t)((const SlabNodeStats *)row)->node);
    (void)ts_sink_end(&s);
    return text;
}

/* ---- by class ---------------------------------------------------------------------------------------------------- */

static uint64_t above(uint64_t a, uint64_t b) { return a > b ? a - b : 0; }

/* Every slow path has one reason, so that the sum over the reasons is the number of slow paths. */
static void slow_paths(const out *o, const ts_view *v) {
    static const ts_field f = {
        .metric = "slow_path_hits",
        .type = TS_COUNTER,
        .meaning =
            "Allocations off the fast path. reason: cache_miss, fresh memory; warm_slab, a slab from the retained "
            "cache; other, what another thread had freed or left; epoch_closed, refused (class all)."};
    char text[16];
    family(o, &f);
    for (unsigned k = 0; k < TS_COUNT_KINDS; k++) {
        const SlabClassStats *c = &v->cls[k];
        if (c->allocated_objects_total == 0) continue;
        const char *name = ts_class_name(c->class_index, text);
        const char *const reasons[] = {"cache_miss", "warm_slab", "other"};
        const uint64_t values[] = {c->slow_path_cache_miss, above(c->new_slab_count, c->slow_path_cache_miss),
                                   above(c->slow_path_hits, c->new_slab_count)};
        for (unsigned i = 0; i < 3; i++)
            sample(o, &f, (const char *[]){"class", name, "reason", reasons[i], NULL}, values[i]);
    }
    sample(o, &f, (const char *[]){"class", "all", "reason", "epoch_closed", NULL}, v->global.slow_path_epoch_closed);
}

static void classes(const out *o, const ts_view *v) {
    const rows each = {v->cls, sizeof *v->cls, TS_COUNT_KINDS, "class", name_of_class},
               whole = {.at = v->cls, .count = 1};
    for (const ts_field *f = ts_class_fields; f->name; f++) {
        if (!f->metric[0]) continue;
        bool by_class = f->scope == TS_SCOPE_CLASS;
        family(o, f);
        samples(o, f, by_class ? &each : &whole, by_class ? offsetof(SlabClassStats, allocated_objects_total) : ALL,
                NULL, NULL);
    }
}

/* ---- by state ---------------------------------------------------------------------------------------------------- */

/* Fields of one metric are its samples by the label `state`, which their names begin with. epochs: how many epochs of
   that state a row sums up, by the first letter of the state; a row without any has no sample. NULL: each row has. */
static void by_state(const out *o, const ts_field *fields, const rows *r, size_t (*epochs)(char state)) {
    for (const ts_field *f = fields; f->name; f++) {
        const ts_field *first = fields;
        while (strcmp(first->metric, f->metric) != 0) first++;
        if (first != f) continue;
        family(o, f);
        for (const ts_field *g = f; g->name; g++) {
            char state[16] = "";
            if (strcmp(g->metric, f->metric) != 0) continue;
            memcpy(state, g->name, strcspn(g->name, "_"));
            samples(o, g, r, epochs ? epochs(state[0]) : ALL, "state", state);
        }
    }
}

#define AT(field) offsetof(ts_label_stats, field)
static size_t epochs_of(char state) {
    return state == 'a' ? AT(active_epochs) : state == 'c' ? AT(closing_epochs) : AT(spilled_epochs);
}

/* `offset` is of the figures by state and class. A figure of 0 has no sample. */
static const ts_field by_class[] = {
    {"", TS_GAUGE, 0, TS_COUNT, "epoch_class_live_objects", "Live objects by label and size class.", AT(class_objects)},
    {"", TS_GAUGE, 0, TS_BYTES, "epoch_class_live_bytes", "Bytes of these objects' slots.", AT(class_bytes)},
    {"", TS_GAUGE, 0, TS_COUNT, "epoch_class_slabs", "Slabs of these epochs by label and class.", AT(class_slabs)},
    {"", TS_GAUGE, 0, TS_BYTES, "epoch_class_estimated_rss_bytes", "These slabs in bytes.", AT(class_rss_bytes)}};

static void label_classes(const out *o, const ts_field *f, const ts_label_stats *l) {
    char text[16];
    for (unsigned i = 0; i < 2 * TS_COUNT_KINDS; i++) {
        uint64_t value = ts_figure(l, f->offset + i * sizeof value);
        const char *state = i < TS_COUNT_KINDS ? "active" : "closing";
        const char *cls = ts_class_name(ts_class_at(i % TS_COUNT_KINDS), text);
        if (value == 0) continue;
        sample(o, f, (const char *[]){"label", ts_label_name(l), "state", state, "class", cls, NULL}, value);
    }
}

static void labels(const out *o, const ts_view *v) {
    const rows each = {v->label, sizeof *v->label, v->label_rows, "label", name_of_label};
    by_state(o, ts_label_fields, &each, epochs_of);
    for (unsigned i = 0; i < sizeof by_class / sizeof *by_class; i++) {
        family(o, &by_class[i]);
        for (unsigned k = 0; k < v->label_rows; k++) label_classes(o, &by_class[i], &v->label[k]);
    }
}

/* ---- of the process ---------------------------------------------------------------------------------------------- */

static const ts_field of_contention[] = {
    {"", TS_COUNTER, 0, TS_COUNT, "label_lock_waits",
     "Waits for any lock of the core, by the label of the epoch in which the thread works; of the whole process.",
     offsetof(ts_contention, lock_waits)},
    {"", TS_COUNTER, 0, TS_COUNT, "label_cas_retries",
     "Foreign frees that met another writer and tried again, likewise.", offsetof(ts_contention, cas_retries)},
    {0}};

/* Only where there are any: most programs have none. */
static void zones(const out *o, const ts_view *v) {
    const rows each = {v->zones, sizeof *v->zones, v->zones_rows, "device", name_of_zones};
    if (v->zones_rows == 0) return;
    by_state(o, ts_state_fields, &each, NULL);
    all(o, ts_zones_fields, &each, ALL);
}

static void slow_samples(const out *o, const ts_view *v) {
    static const ts_field f = {
        .metric = "slow_samples",
        .type = TS_COUNTER,
        .meaning =
            "Timed operations (sample_rate) that took longer than so many seconds. Beside alloc_samples: above a "
            "half of them, p50 is above it; above a hundredth, p99 is."};
    static const char *const what[] = {"alloc", "free"}, *const longer[] = {"2e-07", "1e-05"};
    family(o, &f);
    for (unsigned i = 0; i < 4; i++)
        sample(o, &f, (const char *[]){"op", what[i / 2], "above", longer[i % 2], NULL}, v->slow_samples[i]);
}

/* ---- all --------------------------------------------------------------------------------------------------------- */

static void whole(const out *o, const char *metric, ts_field_unit unit, const char *meaning, uint64_t value) {
    one(o, (const ts_field[]){{.name = "", .metric = metric, .type = TS_GAUGE, .unit = unit, .meaning = meaning}, {0}},
        &value);
}

void ts_render_prometheus(ts_sink *sink, const ts_view *v, bool openmetrics) {
    const out o = {sink, openmetrics};
    const rows by_node = {v->node, sizeof *v->node, v->node_rows, "node", name_of_node};
    const rows contended = {v->contention, sizeof *v->contention, v->contention_rows, "label", name_of_contention};
    static const ts_field info = {
        .metric = "build_info", .type = TS_GAUGE, .meaning = "The library, by its label; always 1."};
    family(&o, &info);
    sample(&o, &info, (const char *[]){"version", v->library, NULL}, 1);
    slow_paths(&o, v);
    classes(&o, v);
    one(&o, ts_global_fields, &v->global);
    whole(&o, "committed_bytes", TS_BYTES, "Slabs in use and retained ones: what the budget limits.",
          v->global.committed_bytes);
    whole(&o, "sample_rate", TS_COUNT, "One operation in so many is timed; 0: none.", v->samples.sample_rate);
    one(&o, ts_sample_fields, &v->samples);
    slow_samples(&o, v);
    labels(&o, v);
    all(&o, of_contention, &contended, ALL);
    if (v->node_rows > 0) all(&o, ts_node_fields, &by_node, ALL); /* only where the allocator tells nodes apart */
    zones(&o, v);
    if (openmetrics) ts_put(sink, "# EOF\n");
}
