/* A frame of tslab top. */
#include "tslab/frame.h"
#include "advice/advice.h"
#include "base/base.h"
#include "common/text.h"
#include "tslab/holders.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

const char *const FRAME_ORDERS[] = {"bytes", "objects", "age", "label"};

static uint64_t bytes_of(const ts_label_stats *l) { return l->active_rss_bytes + l->closing_rss_bytes; }
static uint64_t objects_of(const ts_label_stats *l) {
    return l->active_live_objects + l->closing_live_objects + l->spilled_live_objects;
}
static uint64_t age_of(const ts_label_stats *l) {
    return l->active_age_ns > l->closing_age_ns ? l->active_age_ns : l->closing_age_ns;
}

static frame_order sorted_by;

/* A label's row, and of which allocator it is. */
typedef struct label_row {
    const ts_label_stats *label;
    const ts_view *of;
} label_row;

static int compare(const void *a, const void *b) {
    const label_row *one = a, *other = b;
    const ts_label_stats *x = one->label, *y = other->label;
    uint64_t p = 0, q = 0;
    if (sorted_by == BY_BYTES) p = bytes_of(x), q = bytes_of(y);
    if (sorted_by == BY_OBJECTS) p = objects_of(x), q = objects_of(y);
    if (sorted_by == BY_AGE) p = age_of(x), q = age_of(y);
    int by_name = strcmp(ts_label_name(x), ts_label_name(y));
    if (p != q) return p < q ? 1 : -1;
    return by_name ? by_name : (int)one->of->number - (int)other->of->number;
}

/* As much of the text as `places` hold; each byte of no character becomes '?'. Returns how many are left. */
static unsigned put_shown(ts_sink *s, const char *text, unsigned places) {
    while (*text && places > 0) {
        size_t n = text_character(text);
        ts_put_bytes(s, n ? text : "?", n ? n : 1);
        size_t step = ts_utf8_length(text);
        text += step ? step : 1;
        places--;
    }
    return places;
}

static void line(frame *f, const char *text, const char *colour) {
    if (f->used >= f->rows) return;
    if (f->colours && f->used > 0) ts_put(&f->out, "\r\n");
    if (f->colours)
        ts_put(&f->out, "\033[K"); /* before the text: behind a full line it would take its last character */
    if (f->colours && colour) ts_put(&f->out, colour);
    (void)put_shown(&f->out, text, f->columns);
    if (f->colours && colour) ts_put(&f->out, "\033[0m");
    if (!f->colours) ts_put(&f->out, "\n");
    f->used++;
}

/* On as many lines as it takes, broken at spaces. */
static void wrapped(frame *f, const char *text, const char *colour) {
    while (*text) {
        char part[512];
        size_t n = 0, fits = 0;
        for (unsigned places = 0; text[n] && n < sizeof part - 4 && places < f->columns; places++) {
            size_t length = text_character(text + n);
            n += length ? length : 1;
            if (text[n] == ' ' || !text[n]) fits = n;
        }
        if (fits == 0) fits = n;
        memcpy(part, text, fits);
        part[fits] = 0;
        line(f, part, colour);
        text += fits + strspn(text + fits, " ");
    }
}

static void size_wide(ts_sink *s, uint64_t bytes, int width) {
    char text[32];
    ts_sink t = ts_sink_buffer(text, sizeof text);
    ts_put_size(&t, bytes);
    (void)ts_sink_end(&t);
    ts_put_wide(s, text, width);
}

static void duration_wide(ts_sink *s, uint64_t ns, int width) {
    char text[32];
    ts_sink t = ts_sink_buffer(text, sizeof text);
    if (ns)
        ts_put_duration(&t, ns);
    else
        ts_put(&t, "-");
    (void)ts_sink_end(&t);
    ts_put_wide(s, text, width);
}

/* Of the live bytes of open epochs; "-": not known yet. */
static void growth_wide(ts_sink *s, const ts_label_stats *l, int width) {
    char text[32];
    ts_sink t = ts_sink_buffer(text, sizeof text);
    int64_t more = l->growth_bytes_per_minute;
    if (l->growth_ns == 0) {
        ts_put(&t, "-");
    } else {
        if (more != 0) ts_put(&t, more < 0 ? "-" : "+");
        ts_put_size(&t, (uint64_t)(more < 0 ? -more : more));
    }
    (void)ts_sink_end(&t);
    ts_put_wide(s, text, width);
}

static void head(frame *f, const ts_views *views, const char *note) {
    char text[512];
    const SlabGlobalStats sum = ts_views_global(views), *g = &sum;
    const ts_view *v = views->at[0];
    ts_sink s = ts_sink_buffer(text, sizeof text);
    ts_say(&s, "process %  resident %  committed %  retained %  live % in % objects", ts_w_u64(v->pid),
           ts_w_size(g->resident_bytes), ts_w_size(g->committed_bytes), ts_w_size(g->retained_bytes),
           ts_w_size(g->live_bytes), ts_w_u64(g->live_objects));
    (void)ts_sink_end(&s);
    line(f, text, NULL);
    s = ts_sink_buffer(text, sizeof text);
    ts_say(&s, "epochs: % open, % closing  rejected frees %  purges %  by %%", ts_w_u64(g->active_epoch_count),
           ts_w_u64(g->closing_epoch_count), ts_w_u64(g->rejected_frees_total), ts_w_u64(g->madvise_calls),
           ts_w_text(FRAME_ORDERS[sorted_by]), ts_w_text(note));
    (void)ts_sink_end(&s);
    line(f, text, NULL);
}

/* A line for each device that epochs are spilled to. */
static void zones(frame *f, const ts_view *v) {
    for (unsigned i = 0; i < v->zones_rows; i++) {
        const ts_zones_stats *z = &v->zones[i];
        char text[512];
        ts_sink s = ts_sink_buffer(text, sizeof text);
        ts_say(&s, "zones: % empty, % active, % full, % failed  spilled % in % epochs  amplification ",
               ts_w_u64(z->empty_zones), ts_w_u64(z->active_zones), ts_w_u64(z->full_zones), ts_w_u64(z->failed_zones),
               ts_w_size(z->spilled_bytes), ts_w_u64(z->spilled_epochs));
        ts_put_decimal(&s, z->write_amplification, 3, 2);
        ts_put(&s, "  fill at reset ");
        ts_put_decimal(&s, z->fill_at_reset, 3, 2);
        ts_put(&s, "  ");
        ts_put(&s, z->device);
        (void)ts_sink_end(&s);
        line(f, text, z->failed_zones ? "\033[33m" : NULL);
    }
}

/* All of them in a line, as far as it goes. */
static void nodes(frame *f, const ts_view *v) {
    if (v->node_rows == 0) return;
    char text[1024];
    ts_sink s = ts_sink_buffer(text, sizeof text);
    ts_put(&s, "nodes: ");
    for (unsigned i = 0; i < v->node_rows && i < TS_NODE_ROWS; i++) {
        ts_say(&s, "%% has %, % remote frees", ts_w_text(i ? "  |  " : ""), ts_w_u64((uint64_t)v->node[i].node),
               ts_w_size(v->node[i].committed_bytes), ts_w_u64(v->node[i].remote_frees_total));
    }
    (void)ts_sink_end(&s);
    line(f, text, NULL);
}

/* The columns behind the label, and which of them a narrow screen has: `rank` 1 goes first. */
enum { OPEN, CLOSING, SPILLED, OBJECTS, LIVE, SLABS, GROWTH, AGE, AFTER_CLOSE, OF, COLUMNS };
static const struct {
    const char *title;
    unsigned width, rank;
} COLUMN[COLUMNS] = {{"OPEN", 8, 2},         {"CLOSING", 9, 4},   {"SPILLED", 10, 0},  {"OBJECTS", 11, 5},
                     {"LIVE", 10, 1},        {"SLABS", 10, 8},    {"A MINUTE", 11, 7}, {"AGE", 8, 3},
                     {"AFTER CLOSE", 12, 6}, {"ALLOCATOR", 12, 9}};
static bool has[COLUMNS]; /* spilled: there are such epochs; allocator: there are several */
#define LABEL_WIDTH 31u
#define LABEL_WIDTH_MIN 22u

/* The places for a label, when the columns of rank `from` and above are shown. */
static unsigned label_width(const frame *f, unsigned *from) {
    unsigned columns = 0;
    for (unsigned c = 0; c < COLUMNS; c++)
        if (has[c]) columns += COLUMN[c].width;
    for (*from = 0; *from <= COLUMNS && columns + LABEL_WIDTH_MIN > f->columns; ++*from)
        for (unsigned c = 0; c < COLUMNS; c++)
            if (has[c] && COLUMN[c].rank == *from) columns -= COLUMN[c].width;
    unsigned left = f->columns > columns ? f->columns - columns : 0;
    return left < LABEL_WIDTH ? left : LABEL_WIDTH;
}

/* "1 default" */
static void allocator_wide(ts_sink *s, const ts_view *v, int width) {
    char text[32];
    ts_sink t = ts_sink_buffer(text, sizeof text);
    ts_say(&t, "% %", ts_w_u64(v->number), ts_w_shown(v->name));
    (void)ts_sink_end(&t);
    ts_put_wide(s, text, width);
}

static void put_cell(ts_sink *s, unsigned column, const label_row *r) {
    int width = (int)COLUMN[column].width;
    const ts_label_stats *l = r->label;
    switch (column) {
    case OPEN: ts_put_u64_wide(s, l->active_epochs, width); break;
    case CLOSING: ts_put_u64_wide(s, l->closing_epochs, width); break;
    case SPILLED: size_wide(s, l->spilled_bytes, width); break;
    case OBJECTS: ts_put_u64_wide(s, objects_of(l), width); break;
    case LIVE: size_wide(s, l->active_live_bytes + l->closing_live_bytes + l->spilled_live_bytes, width); break;
    case SLABS: size_wide(s, bytes_of(l), width); break;
    case GROWTH: growth_wide(s, l, width); break;
    case AGE: duration_wide(s, age_of(l), width); break;
    case AFTER_CLOSE: duration_wide(s, l->closing_live_objects ? l->closing_for_ns : 0, width); break;
    default: allocator_wide(s, r->of, width); break;
    }
}

/* A label's row; NULL: the titles. */
static void row(frame *f, const label_row *r) {
    char text[512];
    const ts_label_stats *l = r ? r->label : NULL;
    unsigned from, width = label_width(f, &from);
    ts_sink s = ts_sink_buffer(text, sizeof text);
    for (unsigned left = put_shown(&s, l ? ts_label_name(l) : "LABEL", width); left > 0; left--) ts_put(&s, " ");
    for (unsigned c = 0; c < COLUMNS; c++) {
        if (!has[c] || COLUMN[c].rank < from) continue;
        if (r)
            put_cell(&s, c, r);
        else
            ts_put_wide(&s, COLUMN[c].title, (int)COLUMN[c].width);
    }
    (void)ts_sink_end(&s);
    bool leaks = l && l->closing_live_objects && l->closing_for_ns >= 10000000000u;
    line(f, text, !l ? "\033[7m" : leaks ? "\033[31m" : NULL);
}

static void holder_line(void *arg, const char *text, bool is_title) { line(arg, text, is_title ? "\033[7m" : NULL); }

/* The three worst, on as many lines as they take. */
static void findings(frame *f, const ts_views *views) {
    ts_view_finding found[TS_FOUND];
    unsigned count = ts_views_findings(views, found);
    char text[512];
    for (unsigned i = 0; i < count && i < 3; i++) {
        const ts_finding *one = found[i].finding;
        ts_sink s = ts_sink_buffer(text, sizeof text);
        ts_say(&s, "%: %", ts_w_text(ts_severity_name(one->severity)), ts_w_text(one->what));
        if (views->count > 1) {
            ts_put(&s, ", in ");
            ts_put_allocator(&s, views->at[found[i].view]);
        }
        (void)ts_sink_end(&s);
        wrapped(f, text, one->severity == TS_CRITICAL ? "\033[1;31m" : one->severity == TS_WARNING ? "\033[33m" : NULL);
    }
}

static void labels(frame *f, const ts_views *views) {
    label_row rows[TS_VIEWS * (TS_VIEW_LABELS + 1)];
    unsigned count = 0;
    for (unsigned c = 0; c < COLUMNS; c++) has[c] = c != SPILLED && (c != OF || views->count > 1);
    for (unsigned i = 0; i < views->count; i++)
        for (unsigned k = 0; k < views->at[i]->label_rows; k++) {
            rows[count++] = (label_row){&views->at[i]->label[k], views->at[i]};
            if (views->at[i]->label[k].spilled_epochs) has[SPILLED] = true;
        }
    row(f, NULL);
    qsort(rows, count, sizeof *rows, compare);
    for (unsigned i = 0; i < count; i++) row(f, &rows[i]);
}

void frame_draw(frame *f, const ts_views *views, frame_order order, pid_t files_of, const char *note) {
    sorted_by = order;
    head(f, views, note);
    for (unsigned i = 0; i < views->count; i++) nodes(f, views->at[i]);
    zones(f, views->at[0]);
    findings(f, views);
    labels(f, views);
    for (unsigned i = 0; i < views->count; i++) holders_show(views->at[i], views->count == 1, files_of, holder_line, f);
}
