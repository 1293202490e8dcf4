/* Text, JSON and Prometheus from one field list. Epochs beyond RENDER_EPOCHS are counted, not listed. */
#include "stats/snapshot.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#define RENDER_EPOCHS 64u

typedef struct sink {
    char *at;
    size_t capacity, length; /* length: of the whole text, written or not */
} sink;

TS_PRINTF(2, 3) static void put(sink *s, const char *format, ...) {
    va_list args;
    va_start(args, format);
    size_t left = s->length < s->capacity ? s->capacity - s->length : 0;
    int n = vsnprintf(left ? s->at + s->length : NULL, left, format, args);
    va_end(args);
    if (n > 0) s->length += (size_t)n;
}

/* A string inside of quotes, in JSON or as a label value. */
static void put_quoted(sink *s, const char *text) {
    put(s, "\"");
    for (const unsigned char *c = (const unsigned char *)text; *c; c++) {
        if (*c == '"' || *c == '\\')
            put(s, "\\%c", *c);
        else if (*c == '\n')
            put(s, "\\n");
        else if (*c < 0x20 || *c == 0x7f)
            put(s, "?");
        else
            put(s, "%c", *c);
    }
    put(s, "\"");
}

static const char *state_name(int state) {
    return state == EPOCH_ACTIVE ? "active" : state == EPOCH_CLOSING ? "closing" : "closed";
}

/* ---- JSON ----------------------------------------------------------------------------------------------- */

static void json_class(sink *s, const SlabClassStats *c, const char *name) {
    put(s, "{\"class\":\"%s\",\"object_size\":%" PRIu64, name, c->object_size);
#define X(field) put(s, ",\"" #field "\":%" PRIu64, c->field);
    TS_STATS_COUNTERS(X)
    TS_STATS_GAUGES(X)
#undef X
    put(s, ",\"recycle_rate_pct\":%.2f}", c->recycle_rate_pct);
}

static void json_epoch(sink *s, const SlabEpochStats *e) {
    put(s, "{\"label\":");
    put_quoted(s, e->label);
    put(s, ",\"state\":\"%s\",\"kind\":\"%s\"", state_name(e->state), e->flags & EPOCH_SCOPE ? "scope" : "churn");
#define X(field) put(s, ",\"" #field "\":%" PRIu64, (uint64_t)e->field);
    TS_STATS_EPOCH(X)
#undef X
    put(s, "}");
}

static void class_name(uint32_t cls, char *name, size_t bytes) {
    if (cls == SLAB_CLASS_SCOPE)
        snprintf(name, bytes, "scope");
    else if (cls == SLAB_CLASS_SPAN)
        snprintf(name, bytes, "span");
    else
        snprintf(name, bytes, "%u", (unsigned)ts_class_bytes[cls]);
}

/* The i-th of the size classes, scope and span; UINT32_MAX past the end. */
static uint32_t class_at(unsigned i) {
    return i < TS_CLASSES ? i : i == TS_CLASSES ? SLAB_CLASS_SCOPE : i == TS_CLASSES + 1 ? SLAB_CLASS_SPAN : UINT32_MAX;
}

size_t ts_render_json(ts_allocator *a, char *buffer, size_t capacity) {
    sink s = {buffer, capacity, 0};
    SlabGlobalStats g;
    ts_snapshot_global(a, &g);
    put(&s, "{\"version\":%u,\"global\":{\"class_count\":%u", SLAB_STATS_VERSION, (unsigned)g.class_count);
#define X(field) put(&s, ",\"" #field "\":%" PRIu64, (uint64_t)g.field);
    TS_STATS_GLOBAL(X)
    TS_STATS_COUNTERS(X)
    TS_STATS_GAUGES(X)
#undef X
    put(&s, ",\"recycle_rate_pct\":%.2f},\"classes\":[", g.recycle_rate_pct);
    bool first = true;
    for (unsigned i = 0; class_at(i) != UINT32_MAX; i++) {
        SlabClassStats c;
        char name[16];
        if (!ts_snapshot_class(a, class_at(i), &c) || c.allocated_objects_total == 0) continue;
        class_name(class_at(i), name, sizeof name);
        put(&s, first ? "" : ",");
        json_class(&s, &c, name);
        first = false;
    }
    EpochId ids[RENDER_EPOCHS];
    size_t count = ts_snapshot_epochs(a, ids, RENDER_EPOCHS);
    put(&s, "],\"epoch_count\":%zu,\"epochs\":[", count);
    first = true;
    for (size_t i = 0; i < count && i < RENDER_EPOCHS; i++) {
        SlabEpochStats e;
        if (!ts_snapshot_epoch(a, SLAB_ALL_CLASSES, ids[i], &e)) continue;
        put(&s, first ? "" : ",");
        json_epoch(&s, &e);
        first = false;
    }
    put(&s, "]}");
    return s.length;
}

/* ---- Prometheus ------------------------------------------------------------------------------------------- */

static void metric(sink *s, const char *name, const char *type, const char *suffix) {
    put(s, "# TYPE temporal_slab_%s%s %s\n", name, suffix, type);
}

size_t ts_render_prometheus(ts_allocator *a, char *buffer, size_t capacity) {
    sink s = {buffer, capacity, 0};
    SlabGlobalStats g;
    ts_snapshot_global(a, &g);
#define X(field)                                                                                   \
    {                                                                                              \
        const char *suffix = strstr(#field, "_total") ? "" : "_total";                             \
        metric(&s, #field, "counter", suffix);                                                     \
        put(&s, "temporal_slab_" #field "%s %" PRIu64 "\n", suffix, (uint64_t)g.field);            \
    }
    TS_STATS_COUNTERS(X)
#undef X
#define X(field)                                                                                   \
    metric(&s, #field, "gauge", "");                                                               \
    put(&s, "temporal_slab_" #field " %" PRIu64 "\n", (uint64_t)g.field);
    TS_STATS_GAUGES(X)
    TS_STATS_GLOBAL(X)
#undef X
    metric(&s, "class_live_objects", "gauge", "");
    for (unsigned i = 0; class_at(i) != UINT32_MAX; i++) {
        SlabClassStats c;
        char name[16];
        if (!ts_snapshot_class(a, class_at(i), &c) || c.allocated_objects_total == 0) continue;
        class_name(class_at(i), name, sizeof name);
        put(&s, "temporal_slab_class_live_objects{class=\"%s\"} %" PRIu64 "\n", name, c.live_objects);
    }
    return s.length;
}

/* ---- text ------------------------------------------------------------------------------------------------ */

size_t ts_render_text(ts_allocator *a, char *buffer, size_t capacity) {
    sink s = {buffer, capacity, 0};
    SlabGlobalStats g;
    ts_snapshot_global(a, &g);
    put(&s, "temporal-slab: %" PRIu64 " live objects, %" PRIu64 " bytes live, %" PRIu64 " committed, %" PRIu64
            " warm; %" PRIu64 " epochs active, %" PRIu64 " closing\n",
        g.live_objects, g.live_bytes, g.committed_bytes, g.retained_bytes, g.active_epoch_count, g.closing_epoch_count);
#define X(field) put(&s, "  %-28s %" PRIu64 "\n", #field, (uint64_t)g.field);
    TS_STATS_COUNTERS(X)
    TS_STATS_GAUGES(X)
    TS_STATS_GLOBAL(X)
#undef X
    put(&s, "%8s %12s %14s %12s %12s\n", "class", "live", "live bytes", "allocated", "slow paths");
    for (unsigned i = 0; class_at(i) != UINT32_MAX; i++) {
        SlabClassStats c;
        char name[16];
        if (!ts_snapshot_class(a, class_at(i), &c) || c.allocated_objects_total == 0) continue;
        class_name(class_at(i), name, sizeof name);
        put(&s, "%8s %12" PRIu64 " %14" PRIu64 " %12" PRIu64 " %12" PRIu64 "\n", name, c.live_objects, c.live_bytes,
            c.allocated_objects_total, c.slow_path_hits);
    }
    EpochId ids[RENDER_EPOCHS];
    size_t count = ts_snapshot_epochs(a, ids, RENDER_EPOCHS);
    put(&s, "%-32s %-8s %10s %12s %14s\n", "epoch", "state", "age s", "live", "live bytes");
    for (size_t i = 0; i < count && i < RENDER_EPOCHS; i++) {
        SlabEpochStats e;
        if (!ts_snapshot_epoch(a, SLAB_ALL_CLASSES, ids[i], &e)) continue;
        put(&s, "%-32s %-8s %10.1f %12" PRIu64 " %14" PRIu64 "\n", e.label[0] ? e.label : "-", state_name(e.state),
            (double)e.age_ns / 1e9, e.live_objects, e.live_bytes);
    }
    if (count > RENDER_EPOCHS) put(&s, "... and %zu more\n", count - RENDER_EPOCHS);
    return s.length;
}
