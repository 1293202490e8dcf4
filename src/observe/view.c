#include "epoch/epoch.h"
#include "observe/observe.h"

#include "base/base.h"
#include "observe/top.h"
#include "os/os.h"

#include <string.h>
#include <unistd.h>

#define TEXT_(x) #x
#define TEXT(x) TEXT_(x)
#define VERSION TEXT(TSLAB_VERSION_MAJOR) "." TEXT(TSLAB_VERSION_MINOR) "." TEXT(TSLAB_VERSION_PATCH)

/* Open addressing over distinct labels; the last row is `other`. */
#define LABEL_SLOTS 2048u

typedef struct builder {
    ts_snapshot snapshot;
    uint32_t labels_seen;
    uint16_t slot[LABEL_SLOTS];                    /* number of the label + 1 */
    ts_label_stats label[TS_VIEW_LABELS_SEEN + 1]; /* the last: other */
    SlabEpochStats oldest[TS_VIEW_EPOCHS], largest[TS_VIEW_EPOCHS];
    ts_top tops[2]; /* of these */
    uint64_t epochs;
} builder;

/* ---- rows of epochs ---------------------------------------------------------------------------------------------- */

static bool is_older(const void *a, const void *b) {
    const SlabEpochStats *x = a, *y = b;
    return x->open_since_ns != y->open_since_ns ? x->open_since_ns < y->open_since_ns : x->epoch_id < y->epoch_id;
}

static bool is_larger(const void *a, const void *b) {
    const SlabEpochStats *x = a, *y = b;
    return x->slab_count != y->slab_count ? x->slab_count > y->slab_count : x->epoch_id < y->epoch_id;
}

/* A whole row takes longer than the two figures by which rows are chosen. */
static void offer(ts_top *t, const ts_epoch *e, EpochId id, uint32_t state, const ts_sums *sums) {
    SlabEpochStats row;
    row.epoch_id = id;
    row.open_since_ns = ts_load_relaxed(&e->open_since_ns);
    row.slab_count = 0;
    for (uint64_t left = sums->used; left; left &= left - 1) row.slab_count += sums->kind[ts_ctz64(left)].slabs;
    if (!ts_top_takes(t, &row)) return;
    ts_snapshot_epoch_row(e, id, state, sums, TS_COUNT_KINDS, &row);
    ts_top_put(t, &row);
}

static ts_top rows_by(SlabEpochOrder order, SlabEpochStats *rows, size_t capacity) {
    return (ts_top){rows, sizeof *rows, capacity, 0, order == SLAB_EPOCHS_OLDEST ? is_older : is_larger};
}

/* ---- labels ------------------------------------------------------------------------------------------------------ */

/* NULL: there is none yet, and `make` is off. */
static ts_label_stats *label_row(builder *b, const char *text, bool make) {
    if (strcmp(text, TS_LABEL_OTHER) == 0) return &b->label[TS_VIEW_LABELS_SEEN];
    uint64_t hash = ts_hash(0, text, strlen(text));
    for (uint32_t at = (uint32_t)(hash >> 32) % LABEL_SLOTS;; at = (at + 1) % LABEL_SLOTS) {
        if (b->slot[at] && strcmp(b->label[b->slot[at] - 1].label, text) == 0) return &b->label[b->slot[at] - 1];
        if (b->slot[at]) continue;
        if (b->labels_seen == TS_VIEW_LABELS_SEEN) return &b->label[TS_VIEW_LABELS_SEEN];
        if (!make) return NULL;
        b->slot[at] = (uint16_t)(++b->labels_seen);
        ts_label_stats *row = &b->label[b->labels_seen - 1];
        memcpy(row->label, text, SLAB_LABEL_BYTES);
        return row;
    }
}

static void raise_to(uint64_t *at, uint64_t value) {
    if (value > *at) *at = value;
}

/* What is in zones takes no memory, and was not forgotten. */
static void add_spilled_to_label(ts_label_stats *row, const ts_sums *sums) {
    row->spilled_epochs++;
    for (uint64_t left = sums->used; left; left &= left - 1) {
        const ts_tally *t = &sums->kind[ts_ctz64(left)];
        row->spilled_live_objects += t->allocated - t->freed;
        row->spilled_live_bytes += t->bytes_allocated > t->bytes_freed ? t->bytes_allocated - t->bytes_freed : 0;
        row->spilled_bytes += ts_tally_units(t) * TS_UNIT_BYTES;
    }
}

static void add_to_label(ts_label_stats *row, const ts_epoch *e, uint32_t state, const ts_sums *sums, uint64_t now) {
    unsigned closed = state != EPOCH_ACTIVE;
    if (state == EPOCH_SPILLED) {
        add_spilled_to_label(row, sums);
        return;
    }
    uint64_t live = 0, bytes = 0, memory = 0;
    for (uint64_t left = sums->used; left; left &= left - 1) {
        unsigned k = ts_ctz64(left);
        const ts_tally *t = &sums->kind[k];
        uint64_t b = t->bytes_allocated > t->bytes_freed ? t->bytes_allocated - t->bytes_freed : 0;
        row->class_objects[closed][k] += t->allocated - t->freed;
        row->class_bytes[closed][k] += b;
        row->class_slabs[closed][k] += t->slabs;
        row->class_rss_bytes[closed][k] += ts_tally_bytes(t);
        live += t->allocated - t->freed;
        if (!closed) row->active_allocated += t->allocated;
        if (!closed) row->active_freed += t->freed;
        bytes += b;
        memory += ts_tally_bytes(t);
    }
    uint64_t opened = ts_load_relaxed(&e->open_since_ns), closed_at = ts_load_relaxed(&e->closed_at_ns);
    uint64_t age = live && now > opened ? now - opened : 0;
    if (!closed) {
        row->active_epochs++;
        row->active_live_objects += live;
        row->active_live_bytes += bytes;
        row->active_rss_bytes += memory;
        raise_to(&row->active_age_ns, age);
    } else {
        row->closing_epochs++;
        row->closing_live_objects += live;
        row->closing_live_bytes += bytes;
        row->closing_rss_bytes += memory;
        raise_to(&row->closing_age_ns, age);
        /* 0: it has ended since it was counted, and its entry may be in its next use */
        if (live && closed_at != 0 && now > closed_at) raise_to(&row->closing_for_ns, now - closed_at);
    }
}

static void take_off(uint64_t *from, uint64_t n) { *from -= ts_least(*from, n); }

/* An epoch's state may have changed since it was counted, and its entry may have its next use. Then the objects are
   taken off another row, for this view. */
static void take_off_label(ts_label_stats *row, uint32_t state, uint32_t kind, uint64_t objects, uint64_t bytes) {
    bool closed = state != EPOCH_ACTIVE;
    if (state == EPOCH_SPILLED) {
        take_off(&row->spilled_live_objects, objects);
        take_off(&row->spilled_live_bytes, bytes);
        return;
    }
    take_off(&row->class_objects[closed][kind], objects);
    take_off(&row->class_bytes[closed][kind], bytes);
    take_off(closed ? &row->closing_live_objects : &row->active_live_objects, objects);
    take_off(closed ? &row->closing_live_bytes : &row->active_live_bytes, bytes);
    /* Where nothing is live nothing has an age. */
    if (!closed && row->active_live_objects == 0) row->active_age_ns = 0;
    if (closed && row->closing_live_objects == 0) row->closing_age_ns = row->closing_for_ns = 0;
}

static void label_add(ts_label_stats *to, const ts_label_stats *from) {
    raise_to(&to->active_age_ns, from->active_age_ns);
    raise_to(&to->closing_age_ns, from->closing_age_ns);
    raise_to(&to->closing_for_ns, from->closing_for_ns);
    for (unsigned i = 0; i < TS_LABEL_SUMS; i++) to->sum[i] += from->sum[i];
}

static uint64_t label_weight(const ts_label_stats *row) {
    return row->active_rss_bytes + row->closing_rss_bytes + row->active_epochs + row->closing_epochs +
           row->spilled_epochs;
}

/* The heaviest rows go to the view, heaviest first; the rest goes to `other`. */
static void choose_labels(builder *b, ts_view *view) {
    ts_label_stats other = b->label[TS_VIEW_LABELS_SEEN];
    uint32_t n = b->labels_seen;
    while (n > 0 && view->label_rows < TS_VIEW_LABELS) {
        uint32_t best = 0;
        for (uint32_t i = 1; i < n; i++)
            if (label_weight(&b->label[i]) > label_weight(&b->label[best])) best = i;
        view->label[view->label_rows++] = b->label[best];
        b->label[best] = b->label[--n];
    }
    for (uint32_t i = 0; i < n; i++) label_add(&other, &b->label[i]);
    if (other.active_epochs + other.closing_epochs + other.spilled_epochs == 0) return;
    memset(other.label, 0, sizeof other.label);
    other.is_other = 1;
    view->label[view->label_rows++] = other;
}

/* ---- the view ---------------------------------------------------------------------------------------------------- */

static void read_shown_label(const ts_epoch *e, char label[SLAB_LABEL_BYTES]) {
    ts_epoch_read_label(e, label);
    ts_label_show(label);
}

/* From the objects of mixed sizes to those of their size classes. What the row does not have has been freed, or was
   allocated since it was counted. */
static void share_out(ts_label_stats *row, uint32_t state, const ts_sizes *sizes) {
    unsigned closed = state != EPOCH_ACTIVE;
    uint64_t *objects = row->class_objects[closed], *bytes = row->class_bytes[closed];
    for (uint64_t left = state == EPOCH_SPILLED ? 0 : sizes->used; left; left &= left - 1) {
        unsigned k = ts_ctz64(left);
        uint64_t n = ts_least(sizes->objects[k], objects[TS_COUNT_SCOPE]);
        uint64_t b = ts_least(sizes->bytes[k], bytes[TS_COUNT_SCOPE]);
        objects[k] += n;
        objects[TS_COUNT_SCOPE] -= n;
        bytes[k] += b;
        bytes[TS_COUNT_SCOPE] -= b;
    }
}

static void on_slab(void *arg, const ts_epoch *e, uint32_t kind, uint64_t objects, uint64_t bytes,
                    const ts_sizes *sizes) {
    char label[SLAB_LABEL_BYTES];
    read_shown_label(e, label);
    ts_label_stats *row = label_row(arg, label, false);
    uint32_t state = ts_epoch_shown_state(e);
    if (row) take_off_label(row, state, kind, objects, bytes);
    if (row && sizes) share_out(row, state, sizes);
}

static void on_epoch(void *arg, const ts_epoch *e, EpochId id, uint32_t state, const ts_sums *sums) {
    builder *b = arg;
    char label[SLAB_LABEL_BYTES];
    read_shown_label(e, label);
    add_to_label(label_row(b, label, true), e, state, sums, ts_os->wall_ns());
    offer(&b->tops[0], e, id, state, sums);
    offer(&b->tops[1], e, id, state, sums);
    b->epochs++;
}

static bool is_among(const SlabEpochStats *rows, unsigned count, EpochId id) {
    for (unsigned i = 0; i < count; i++)
        if (rows[i].epoch_id == id) return true;
    return false;
}

static void choose_epochs(builder *b, ts_view *view) {
    ts_top_sort(&b->tops[0]);
    ts_top_sort(&b->tops[1]);
    unsigned n = 0, half = TS_VIEW_EPOCHS / 2;
    if (b->epochs <= TS_VIEW_EPOCHS) half = TS_VIEW_EPOCHS;
    for (unsigned i = 0; i < b->tops[0].count && n < half; i++) view->epoch[n++] = b->oldest[i];
    for (unsigned i = 0; i < b->tops[1].count && n < TS_VIEW_EPOCHS; i++)
        if (!is_among(view->epoch, n, b->largest[i].epoch_id)) view->epoch[n++] = b->largest[i];
    view->epoch_rows = n;
    ts_top order = rows_by(SLAB_EPOCHS_OLDEST, view->epoch, n);
    order.count = n;
    ts_top_sort(&order);
}

ts_view *ts_view_make(ts_allocator *a, uintptr_t token) {
    if (!ts_allocator_read_begin(a, token)) return NULL;
    ts_view *view = ts_os_map(sizeof *view);
    builder *b = view ? ts_os_map(sizeof *b) : NULL;
    if (b) {
        b->tops[0] = rows_by(SLAB_EPOCHS_OLDEST, b->oldest, TS_VIEW_EPOCHS);
        b->tops[1] = rows_by(SLAB_EPOCHS_LARGEST, b->largest, TS_VIEW_EPOCHS);
        view->magic = TS_VIEW_MAGIC;
        view->version = SLAB_STATS_VERSION;
        view->bytes = sizeof *view;
        strncpy(view->library, VERSION, sizeof view->library - 1);
        view->pid = (uint64_t)getpid();
        view->taken_ns = ts_os->wall_ns();
        ts_snapshot_take(a, &b->snapshot, on_epoch, on_slab, b);
        ts_snapshot_global(&b->snapshot, &view->global, true);
        for (unsigned i = 0; i < TS_COUNT_KINDS; i++)
            (void)ts_snapshot_class(&b->snapshot, ts_class_at(i), &view->cls[i]);
        view->samples = ts_snapshot_samples(view->slow_samples);
        view->epoch_count = b->epochs;
        choose_labels(b, view);
        view->zones_rows = ts_zones_rows(view->zones);
        view->contention_rows = ts_contention_rows(view->contention);
        view->node_rows = ts_node_rows(a, view->node);
        choose_epochs(b, view);
        ts_snapshot_epoch_slabs(a, view->epoch, view->epoch_rows);
        view->ended_rows = ts_snapshot_ended(a, view->ended);
        ts_view_stacks(view, a, token);
        view->took_ns = ts_os->wall_ns() - view->taken_ns;
    } else {
        ts_view_free(view);
        view = NULL;
    }
    ts_os_unmap(b, sizeof *b);
    ts_allocator_read_end(a);
    return view;
}

void ts_view_free(ts_view *view) { ts_os_unmap(view, sizeof *view); }

/* ---- epochs alone ------------------------------------------------------------------------------------------------ */

#define ROWS_AT_ONCE 128u /* of ts_snapshot_epoch_slabs */

typedef struct list {
    ts_top top;
    uint64_t epochs;
    ts_snapshot snapshot;
} list;

static void on_listed(void *arg, const ts_epoch *e, EpochId id, uint32_t state, const ts_sums *sums) {
    list *l = arg;
    l->epochs++;
    offer(&l->top, e, id, state, sums);
}

bool ts_view_epochs(ts_allocator *a, uintptr_t token, SlabEpochOrder order, size_t limit,
                    void (*fn)(void *, const SlabEpochStats *, size_t, uint64_t), void *arg) {
    size_t high = ts_table_high(&ts_epochs);
    if (limit > high) limit = high;
    size_t bytes = sizeof(list) + limit * sizeof(SlabEpochStats);
    if (!ts_allocator_read_begin(a, token)) return false;
    list *l = ts_os_map(bytes);
    if (l) {
        SlabEpochStats *rows = (SlabEpochStats *)(void *)(l + 1);
        l->top = rows_by(order, rows, limit);
        ts_snapshot_take(a, &l->snapshot, on_listed, NULL, l);
        ts_top_sort(&l->top);
        for (size_t i = 0; i < l->top.count; i += ROWS_AT_ONCE)
            ts_snapshot_epoch_slabs(a, rows + i, (unsigned)ts_least(l->top.count - i, ROWS_AT_ONCE));
        fn(arg, rows, l->top.count, l->epochs);
    }
    ts_os_unmap(l, bytes);
    ts_allocator_read_end(a);
    return l != NULL;
}
