/*
 * Prometheus text and OpenMetrics of a view. Base units, `_total` on counters. The values of labels are bounded:
 * classes, the states of epochs, reasons, and epoch labels, of which there are at most TS_VIEW_LABELS and "(other)".
 *
 * The two formats differ where a counter is introduced (OpenMetrics names the family without _total), in the last line,
 * and in nothing else that is used here.
 */
#include "stats/view.h"

#include <string.h>

typedef struct out {
    ts_sink *s;
    bool openmetrics;
} out;

static void family(const out *o, const char *name, ts_field_type type, const char *help) {
    const char *suffix = type == TS_COUNTER && !o->openmetrics ? "_total" : "";
    ts_put(o->s, "# HELP temporal_slab_");
    ts_put(o->s, name);
    ts_put(o->s, suffix);
    ts_put(o->s, " ");
    for (const char *c = help; *c; c++) {
        if (*c == '\\' || *c == '\n' || (o->openmetrics && *c == '"')) ts_put(o->s, "\\");
        ts_put_bytes(o->s, *c == '\n' ? "n" : c, 1);
    }
    ts_put(o->s, "\n# TYPE temporal_slab_");
    ts_put(o->s, name);
    ts_put(o->s, suffix);
    ts_put(o->s, type == TS_COUNTER ? " counter\n" : " gauge\n");
}

static void value_of(const out *o, ts_field_unit unit, uint64_t value) {
    ts_put(o->s, " ");
    if (unit == TS_NS)
        ts_put_decimal(o->s, value, 9, 9);
    else if (unit == TS_RATIO)
        ts_put_decimal(o->s, value, 3, 3);
    else
        ts_put_u64(o->s, value);
    ts_put(o->s, "\n");
}

/* pairs: name, value, ..., NULL. */
static void sample(const out *o, const char *name, ts_field_type type, const char *const *pairs, ts_field_unit unit,
                   uint64_t value) {
    ts_put(o->s, "temporal_slab_");
    ts_put(o->s, name);
    if (type == TS_COUNTER) ts_put(o->s, "_total");
    for (unsigned i = 0; pairs && pairs[i]; i += 2) {
        ts_put(o->s, i ? "," : "{");
        ts_put(o->s, pairs[i]);
        ts_put(o->s, "=");
        ts_put_quoted(o->s, pairs[i + 1]);
    }
    if (pairs && pairs[0]) ts_put(o->s, "}");
    value_of(o, unit, value);
}

/* ---- by class ---------------------------------------------------------------------------------------------------- */

static uint64_t class_field(const SlabClassStats *c, size_t offset) {
    uint64_t v;
    memcpy(&v, (const char *)c + offset, sizeof v);
    return v;
}

static void by_class(const out *o, const ts_view *v, const char *name, ts_field_type type, ts_field_unit unit,
                     const char *help, size_t offset) {
    char text[16];
    family(o, name, type, help);
    for (unsigned k = 0; k < TS_COUNT_KINDS; k++) {
        if (v->cls[k].allocated_objects_total == 0) continue;
        const char *pairs[] = {"class", ts_class_name(v->cls[k].class_index, text), NULL};
        sample(o, name, type, pairs, unit, class_field(&v->cls[k], offset));
    }
}

static void shared_field(const out *o, const ts_view *v, const char *name, ts_field_type type, ts_field_scope scope,
                         ts_field_unit unit, const char *help, size_t offset) {
    if (!name[0]) return;
    if (scope == TS_SCOPE_CLASS) {
        by_class(o, v, name, type, unit, help, offset);
        return;
    }
    family(o, name, type, help);
    sample(o, name, type, NULL, unit, class_field(&v->cls[0], offset));
}

static uint64_t above(uint64_t a, uint64_t b) { return a > b ? a - b : 0; }

/* Every slow path has one reason, so that the sum over the reasons is the number of slow paths. */
static void slow_paths(const out *o, const ts_view *v) {
    char text[16];
    family(
        o, "slow_path_hits", TS_COUNTER,
        "Allocations off the fast path. reason: cache_miss, fresh memory; warm_slab, a slab from the retained cache; "
        "other, "
        "what another thread had freed or left; epoch_closed, refused (class all).");
    for (unsigned k = 0; k < TS_COUNT_KINDS; k++) {
        const SlabClassStats *c = &v->cls[k];
        if (c->allocated_objects_total == 0) continue;
        const char *name = ts_class_name(c->class_index, text);
        const char *const reasons[] = {"cache_miss", "warm_slab", "other"};
        const uint64_t values[] = {c->slow_path_cache_miss, above(c->new_slab_count, c->slow_path_cache_miss),
                                   above(c->slow_path_hits, c->new_slab_count)};
        for (unsigned i = 0; i < 3; i++) {
            const char *pairs[] = {"class", name, "reason", reasons[i], NULL};
            sample(o, "slow_path_hits", TS_COUNTER, pairs, TS_COUNT, values[i]);
        }
    }
    const char *pairs[] = {"class", "all", "reason", "epoch_closed", NULL};
    sample(o, "slow_path_hits", TS_COUNTER, pairs, TS_COUNT, v->global.slow_path_epoch_closed);
}

/* ---- by label ---------------------------------------------------------------------------------------------------- */

static uint64_t label_field(const ts_label_stats *l, size_t offset) {
    uint64_t v;
    memcpy(&v, (const char *)l + offset, sizeof v);
    return v;
}

#define NOT_SPILLED SIZE_MAX /* a figure that spilled epochs have not got */
static void by_label(const out *o, const ts_view *v, const char *name, const char *help, ts_field_unit unit,
                     size_t active, size_t closing, size_t spilled) {
    static const char *const state[] = {"active", "closing", "spilled"};
    const size_t offset[] = {active, closing, spilled};
    family(o, name, TS_GAUGE, help);
    for (unsigned i = 0; i < v->label_rows; i++) {
        const ts_label_stats *l = &v->label[i];
        const uint64_t epochs[] = {l->active_epochs, l->closing_epochs, l->spilled_epochs};
        for (unsigned s = 0; s < 3; s++) {
            if (epochs[s] == 0 || offset[s] == NOT_SPILLED) continue;
            const char *pairs[] = {"label", ts_label_name(l), "state", state[s], NULL};
            sample(o, name, TS_GAUGE, pairs, unit, label_field(l, offset[s]));
        }
    }
}
#define BY_LABEL(name, help, unit, active, closing) \
    by_label(o, v, name, help, unit, offsetof(ts_label_stats, active), offsetof(ts_label_stats, closing), NOT_SPILLED)
#define BY_LABEL_3(name, help, unit, active, closing, spilled)                                            \
    by_label(o, v, name, help, unit, offsetof(ts_label_stats, active), offsetof(ts_label_stats, closing), \
             offsetof(ts_label_stats, spilled))

/* offset: of the figures in a ts_label_stats, by state and class. A figure of 0 has no sample. */
static void by_label_and_class(const out *o, const ts_view *v, const char *name, const char *help, ts_field_unit unit,
                               size_t offset) {
    char text[16];
    family(o, name, TS_GAUGE, help);
    for (unsigned i = 0; i < v->label_rows; i++) {
        const ts_label_stats *l = &v->label[i];
        for (unsigned s = 0; s < 2; s++) {
            for (unsigned k = 0; k < TS_COUNT_KINDS; k++) {
                uint64_t value = label_field(l, offset + (s * TS_COUNT_KINDS + k) * sizeof(uint64_t));
                if (value == 0) continue;
                const char *pairs[] = {"label", ts_label_name(l),
                                       "state", s ? "closing" : "active",
                                       "class", ts_class_name(ts_class_at(k), text),
                                       NULL};
                sample(o, name, TS_GAUGE, pairs, unit, value);
            }
        }
    }
}
#define BY_LABEL_AND_CLASS(name, help, unit, field) \
    by_label_and_class(o, v, name, help, unit, offsetof(ts_label_stats, field))

static void labels(const out *o, const ts_view *v) {
    BY_LABEL_3("epochs", "Epochs by label and state.", TS_COUNT, active_epochs, closing_epochs, spilled_epochs);
    BY_LABEL("epoch_age_seconds", "Age of the oldest epoch of that label that holds live objects; 0 if none does.",
             TS_NS, active_age_ns, closing_age_ns);
    BY_LABEL_3("epoch_live_objects", "Live objects in epochs of that label.", TS_COUNT, active_live_objects,
               closing_live_objects, spilled_live_objects);
    BY_LABEL_3("epoch_live_bytes", "Bytes of the slots of these objects.", TS_BYTES, active_live_bytes,
               closing_live_bytes, spilled_live_bytes);
    BY_LABEL("epoch_estimated_rss_bytes", "Slabs of these epochs in bytes.", TS_BYTES, active_rss_bytes,
             closing_rss_bytes);
    BY_LABEL_AND_CLASS("epoch_class_live_objects", "Live objects by label and class.", TS_COUNT, class_objects);
    BY_LABEL_AND_CLASS("epoch_class_live_bytes", "Bytes of these objects' slots.", TS_BYTES, class_bytes);
    BY_LABEL_AND_CLASS("epoch_class_slabs", "Slabs of these epochs by label and class.", TS_COUNT, class_slabs);
    BY_LABEL_AND_CLASS("epoch_class_estimated_rss_bytes", "These slabs in bytes.", TS_BYTES, class_rss_bytes);
    family(o, "epoch_spilled_bytes", TS_GAUGE, "Slabs of these epochs that are in zones, in bytes.");
    for (unsigned i = 0; i < v->label_rows; i++) {
        if (v->label[i].spilled_epochs == 0) continue;
        const char *pairs[] = {"label", ts_label_name(&v->label[i]), NULL};
        sample(o, "epoch_spilled_bytes", TS_GAUGE, pairs, TS_BYTES, v->label[i].spilled_bytes);
    }
    family(o, "epoch_closing_seconds", TS_GAUGE,
           "Longest time since its close of an epoch of that label that holds live objects.");
    for (unsigned i = 0; i < v->label_rows; i++) {
        if (v->label[i].closing_epochs == 0) continue;
        const char *pairs[] = {"label", ts_label_name(&v->label[i]), NULL};
        sample(o, "epoch_closing_seconds", TS_GAUGE, pairs, TS_NS, v->label[i].closing_for_ns);
    }
}

/* ---- contention -------------------------------------------------------------------------------------------------- */

static void contention(const out *o, const ts_view *v) {
    static const char *const name[] = {"label_lock_waits", "label_cas_retries"};
    static const char *const help[] = {
        "Waits for any lock of the core, by the label of the epoch in which the thread works; of the whole process.",
        "Foreign frees that met another writer and tried again, likewise."};
    for (unsigned k = 0; k < 2; k++) {
        family(o, name[k], TS_COUNTER, help[k]);
        for (unsigned i = 0; i < v->contention_rows; i++) {
            const ts_contention *c = &v->contention[i];
            const char *pairs[] = {"label", c->label[0] ? c->label : TS_LABEL_NONE, NULL};
            sample(o, name[k], TS_COUNTER, pairs, TS_COUNT, k ? c->cas_retries : c->lock_waits);
        }
    }
}

/* ---- zones ------------------------------------------------------------------------------------------------------- */

static uint64_t zones_field(const ts_zones_stats *z, size_t offset) {
    uint64_t v;
    memcpy(&v, (const char *)z + offset, sizeof v);
    return v;
}

static void by_zones(const out *o, const ts_view *v, const char *name, ts_field_type type, ts_field_unit unit,
                     const char *help, size_t offset) {
    if (!name[0]) return;
    family(o, name, type, help);
    for (unsigned i = 0; i < v->zones_rows; i++) {
        const char *pairs[] = {"device", v->zones[i].device, NULL};
        sample(o, name, type, pairs, unit, zones_field(&v->zones[i], offset));
    }
}

/* Only where there are any: most programs have none. */
static void zones(const out *o, const ts_view *v) {
    if (v->zones_rows == 0) return;
    family(o, "zones", TS_GAUGE, "Zones by state: empty, active (begun and not full), full, failed.");
    for (unsigned i = 0; i < v->zones_rows; i++) {
        const ts_zones_stats *z = &v->zones[i];
        const char *const state[] = {"empty", "active", "full", "failed"};
        const uint64_t value[] = {z->empty_zones, z->active_zones, z->full_zones, z->failed_zones};
        for (unsigned k = 0; k < 4; k++) {
            const char *pairs[] = {"device", z->device, "state", state[k], NULL};
            sample(o, "zones", TS_GAUGE, pairs, TS_COUNT, value[k]);
        }
    }
#define X(field, type, scope, unit, metric, help, ...) \
    by_zones(o, v, metric, TS_##type, TS_##unit, help, offsetof(ts_zones_stats, field));
    TS_STATS_ZONE_FIGURES(X)
#undef X
}

/* ---- nodes ------------------------------------------------------------------------------------------------------- */

static void by_node(const out *o, const ts_view *v, const char *name, ts_field_type type, ts_field_unit unit,
                    const char *help, size_t offset) {
    family(o, name, type, help);
    for (unsigned i = 0; i < v->node_rows; i++) {
        char node[16];
        uint64_t value;
        ts_sink s = ts_sink_buffer(node, sizeof node);
        ts_put_u64(&s, (uint64_t)v->node[i].node);
        (void)ts_sink_end(&s);
        memcpy(&value, (const char *)&v->node[i] + offset, sizeof value);
        const char *pairs[] = {"node", node, NULL};
        sample(o, name, type, pairs, unit, value);
    }
}

/* Only where the allocator tells nodes apart. */
static void nodes(const out *o, const ts_view *v) {
    if (v->node_rows == 0) return;
#define X(field, type, scope, unit, metric, help, ...) \
    by_node(o, v, metric, TS_##type, TS_##unit, help, offsetof(ts_node_row, field));
    TS_STATS_NODE_COUNTED(X)
#undef X
}

/* ---- timed operations -------------------------------------------------------------------------------------------- */

static void slow_samples(const out *o, const ts_view *v) {
    static const char *const what[] = {"alloc", "free"}, *const above[] = {"2e-07", "1e-05"};
    family(
        o, "slow_samples", TS_COUNTER,
        "Timed operations (sample_rate) that took longer than so many seconds. Beside alloc_samples: above a half of "
        "them, p50 is above it; above a hundredth, p99 is.");
    for (unsigned i = 0; i < 4; i++) {
        const char *pairs[] = {"op", what[i / 2], "above", above[i % 2], NULL};
        sample(o, "slow_samples", TS_COUNTER, pairs, TS_COUNT, v->slow_samples[i]);
    }
}

/* ---- all --------------------------------------------------------------------------------------------------------- */

static void whole(const out *o, const char *name, ts_field_type type, ts_field_unit unit, const char *help,
                  uint64_t value) {
    if (!name[0]) return;
    family(o, name, type, help);
    sample(o, name, type, NULL, unit, value);
}

void ts_render_prometheus(ts_sink *sink, const ts_view *v, bool openmetrics) {
    const out o = {sink, openmetrics};
    const char *pairs[] = {"version", v->library, NULL};
    family(&o, "build_info", TS_GAUGE, "The library, by its label; always 1.");
    sample(&o, "build_info", TS_GAUGE, pairs, TS_COUNT, 1);
    slow_paths(&o, v);
#define X(field, type, scope, unit, metric, help, ...) \
    shared_field(&o, v, metric, TS_##type, TS_SCOPE_##scope, TS_##unit, help, offsetof(SlabClassStats, field));
    TS_STATS_COUNTERS(X)
    TS_STATS_GAUGES(X)
#undef X
#define X(field, type, scope, unit, metric, help, ...) \
    whole(&o, metric, TS_##type, TS_##unit, help, (uint64_t)v->global.field);
    TS_STATS_GLOBAL(X)
#undef X
    whole(&o, "committed_bytes", TS_GAUGE, TS_BYTES, "Slabs in use and retained ones: what the budget limits.",
          v->global.committed_bytes);
    whole(&o, "sample_rate", TS_GAUGE, TS_COUNT, "One operation in so many is timed; 0: none.", v->samples.sample_rate);
#define X(field, type, scope, unit, metric, help, ...) whole(&o, metric, TS_##type, TS_##unit, help, v->samples.field);
    TS_STATS_SAMPLES(X)
#undef X
    slow_samples(&o, v);
    labels(&o, v);
    contention(&o, v);
    nodes(&o, v);
    zones(&o, v);
    if (openmetrics) ts_put(sink, "# EOF\n");
}
