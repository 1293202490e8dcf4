/* The text of a view, and of its stacks. */
#include "advice/advice.h"

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

static void text_of(ts_sink *s, const ts_view *v) {
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

/* A line before each of several. */
static void put_title(ts_sink *s, const ts_views *views, unsigned i) {
    if (i > 0) ts_put(s, "\n");
    if (views->count == 1) return;
    ts_put_allocator(s, views->at[i]);
    ts_put(s, "\n");
}

void ts_render_text(ts_sink *s, const ts_views *views) {
    for (unsigned i = 0; i < views->count; i++) {
        put_title(s, views, i);
        text_of(s, views->at[i]);
    }
}

/* ---- stacks ---------------------------------------------------------------------------------------------------- */

void ts_put_frames(ts_sink *s, const ts_view *v, const SlabStackSample *row, unsigned frames) {
    for (unsigned k = 0; k < row->frame_count && k < frames; k++) {
        const ts_stack_module *m = ts_view_module(v, row->frames[k]);
        ts_say(s, "      at %+", ts_w_shown(m && m->path[0] ? m->path : "?"));
        ts_put_hex(s, row->frames[k] - (m ? m->base : 0));
        ts_put(s, "\n");
    }
}

void ts_put_held(ts_sink *s, uint64_t bytes, uint64_t objects, uint64_t samples) {
    ts_say(s, "about % in %, %", ts_w_size(bytes), ts_w_count(objects, "object", "objects"),
           ts_w_count(samples, "sample", "samples"));
}

static void stacks_of(ts_sink *s, const ts_view *v) {
    if (!ts_view_has_stacks(v)) {
        ts_put(s, "stacks are not sampled; start the program with TSLAB_SAMPLE_STACKS=512K\n");
        return;
    }
    ts_say(s, "% of live objects, ", ts_w_count(v->stack_count, "stack", "stacks"));
    if (v->stack_mean_bytes)
        ts_say(s, "sampled once in % bytes; ", ts_w_u64(v->stack_mean_bytes));
    else
        ts_put(s, "no more are sampled; ");
    ts_say(s, "% samples taken, % dropped\n", ts_w_u64(v->global.stack_samples_taken),
           ts_w_u64(v->global.stack_samples_dropped));
    for (unsigned i = 0; i < v->stack_rows; i++) {
        const SlabStackSample *row = &v->stack[i];
        ts_say(s, "\n   %, %: ", ts_w_shown(row->label[0] ? row->label : TS_LABEL_NONE),
               ts_w_text(ts_state_name(row->state)));
        ts_put_held(s, row->live_bytes, row->live_objects, row->samples);
        ts_put(s, "\n");
        ts_put_frames(s, v, row, SLAB_STACK_FRAMES);
    }
    if (v->stack_count > v->stack_rows) ts_say(s, "\n... and % more\n", ts_w_u64(v->stack_count - v->stack_rows));
}

void ts_render_stacks(ts_sink *s, const ts_views *views) {
    for (unsigned i = 0; i < views->count; i++) {
        put_title(s, views, i);
        stacks_of(s, views->at[i]);
    }
}
