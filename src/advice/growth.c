#include "advice/growth.h"

#include "base/base.h"
#include "os/os.h"

#include <string.h>
#include <unistd.h>

#define HISTORIES 8u
#define LEVELS 3u
#define LOWS 12u /* the last one is still open */
#define FOR_GROWING 4u
#define FOR_LEAK (LOWS - 1)
#define LEAST_BYTES ((uint64_t)64 << 10) /* less is not told */
#define LEAST_EPOCHS 16u
#define LEAST_FREED 10u /* a part of so many freed: the objects are not all kept */
#define TRIES 100u

static const uint64_t spacing_ns[LEVELS] = {2250000000u, 22500000000u, 225000000000u};

/* A label, and what its open epochs held when that was least. */
typedef struct row {
    char label[SLAB_LABEL_BYTES];
    uint64_t at_ns, bytes, epochs, allocated, freed;
    uint64_t of_kind[TS_COUNT_KINDS];
    bool seen; /* in the view that feeds it */
} row;

typedef struct low {
    uint64_t begin_ns;
    uint32_t views, rows, stacks;
    row row[TS_VIEW_LABELS + 1];
    struct {
        uint64_t hash, bytes;
    } stack[TS_VIEW_STACKS]; /* at its beginning */
} low;

typedef struct history {
    uintptr_t token;
    uint64_t first_ns, last_ns;
    uint32_t complete[LEVELS]; /* lows that there ever were; the next one is open */
    low low[LEVELS][LOWS];
} history;

static _Atomic uint32_t kept;
/* The process id of their user; 0: there is none. In a child of fork the user may be a thread that is not there. */
static _Atomic uint64_t user;
static history *histories[HISTORIES]; /* the user's */

void ts_growth_watch(void) { ts_store_relaxed(&kept, 1); }

/* acquire: partner of the release in give. */
static bool take(uint64_t self) {
    for (unsigned i = 0; i < TRIES; i++) {
        uint64_t found = 0;
        if (ts_cas_seq(&user, &found, self)) return true;
        if (found != self && ts_cas_seq(&user, &found, self)) {
            /* It was in the middle of something when the process was copied. */
            for (unsigned k = 0; k < HISTORIES; k++)
                if (histories[k]) histories[k]->token = 0;
            return true;
        }
        ts_os->yield();
    }
    return false;
}

static void give(void) { ts_store_release(&user, 0); }

/* That of the allocator; a new one in the place of the one that was fed longest ago. NULL: no memory. */
static history *history_of(uintptr_t token, uint64_t now) {
    unsigned at = 0;
    for (unsigned i = 0; i < HISTORIES; i++) {
        if (histories[i] && histories[i]->token == token) return histories[i];
        if (!histories[at]) continue;
        if (!histories[i] || histories[i]->last_ns < histories[at]->last_ns) at = i;
    }
    if (!histories[at]) histories[at] = ts_os_map(sizeof(history));
    history *h = histories[at];
    if (!h) return NULL;
    h->token = token;
    h->first_ns = h->last_ns = now;
    for (unsigned l = 0; l < LEVELS; l++) {
        h->complete[l] = 0;
        h->low[l][0].views = h->low[l][0].rows = h->low[l][0].stacks = 0;
    }
    return h;
}

/* ---- feeding ---------------------------------------------------------------------------------------------------- */

static uint64_t stack_hash(const SlabStackSample *s) {
    uint64_t hash = ts_hash((uint64_t)s->state, s->label, strlen(s->label));
    return ts_hash(hash, s->frames, s->frame_count * sizeof *s->frames);
}

static row *find_row(const low *l, const char *label) {
    for (uint32_t i = 0; i < l->rows; i++)
        if (strcmp(l->row[i].label, label) == 0) return (row *)(uintptr_t)&l->row[i];
    return NULL;
}

static void fill(row *r, const ts_label_stats *s, uint64_t now) {
    r->at_ns = now;
    r->bytes = s->active_live_bytes;
    r->epochs = s->active_epochs;
    r->allocated = s->active_allocated;
    r->freed = s->active_freed;
    memcpy(r->of_kind, s->class_bytes[0], sizeof r->of_kind);
}

static void feed(low *l, const ts_view *v) {
    for (uint32_t i = 0; i < l->rows; i++) l->row[i].seen = false;
    for (uint32_t i = 0; i < v->label_rows; i++) {
        const ts_label_stats *s = &v->label[i];
        row *r = find_row(l, ts_label_name(s));
        if (!r && l->rows == TS_VIEW_LABELS + 1) continue;
        if (!r) {
            r = &l->row[l->rows++];
            memset(r, 0, sizeof *r); /* nothing, if it was not there at the interval's beginning */
            memcpy(r->label, ts_label_name(s), strlen(ts_label_name(s)));
            r->at_ns = v->taken_ns;
            if (l->views == 0) fill(r, s, v->taken_ns);
        } else if (s->active_live_bytes < r->bytes) {
            uint64_t epochs = r->epochs;
            fill(r, s, v->taken_ns);
            r->epochs = ts_least(epochs, r->epochs);
        } else {
            r->epochs = ts_least(r->epochs, s->active_epochs);
        }
        r->seen = true;
    }
    for (uint32_t i = 0; i < l->rows; i++)
        if (!l->row[i].seen) l->row[i].bytes = l->row[i].epochs = 0;
    if (l->views++ > 0) return;
    l->stacks = v->stack_rows;
    for (uint32_t i = 0; i < v->stack_rows; i++) {
        l->stack[i].hash = stack_hash(&v->stack[i]);
        l->stack[i].bytes = v->stack[i].live_bytes;
    }
}

static void feed_all(history *h, const ts_view *v) {
    for (unsigned k = 0; k < LEVELS; k++) {
        low *open = &h->low[k][h->complete[k] % LOWS];
        if (open->views > 0 && v->taken_ns - open->begin_ns >= spacing_ns[k]) {
            open = &h->low[k][++h->complete[k] % LOWS];
            open->views = open->rows = open->stacks = 0;
        }
        if (open->views == 0) open->begin_ns = v->taken_ns;
        feed(open, v);
    }
    h->last_ns = v->taken_ns;
}

/* ---- looking ---------------------------------------------------------------------------------------------------- */

/* The i-th of the last n complete lows. */
static const low *low_at(const history *h, unsigned level, unsigned n, unsigned i) {
    return &h->low[level][(h->complete[level] - n + i) % LOWS];
}

static uint64_t value_of(const row *r, bool epochs) { return r ? epochs ? r->epochs : r->bytes : 0; }

/* Whether the label rises over the last n lows, each step at least half as steep as the whole. */
static bool rises(const history *h, unsigned level, unsigned n, const char *label, bool epochs, uint64_t value) {
    if (h->complete[level] < n) return false;
    const low *first = low_at(h, level, n, 0), *last = low_at(h, level, n, n - 1);
    uint64_t from = value_of(find_row(first, label), epochs), to = value_of(find_row(last, label), epochs);
    if (to <= from || to - from < (epochs ? LEAST_EPOCHS : LEAST_BYTES) || value < to) return false;
    double whole = (double)(to - from) / (double)(last->begin_ns - first->begin_ns);
    for (unsigned i = 1; i < n; i++) {
        const low *a = low_at(h, level, n, i - 1), *b = low_at(h, level, n, i);
        uint64_t before = value_of(find_row(a, label), epochs), after = value_of(find_row(b, label), epochs);
        if (after <= before) return false;
        if ((double)(after - before) / (double)(b->begin_ns - a->begin_ns) < whole / 2) return false;
    }
    return true;
}

static void find_sites(ts_growth *g, const ts_view *v, const low *since) {
    uint64_t grown[TS_GROWTH_SITES];
    for (uint32_t i = 0; i < v->stack_rows; i++) {
        const SlabStackSample *s = &v->stack[i];
        char shown[SLAB_LABEL_BYTES];
        memcpy(shown, s->label, sizeof shown);
        ts_label_show(shown);
        if (s->state != EPOCH_ACTIVE || strcmp(shown, g->label->label) != 0 || g->label->is_other) continue;
        uint64_t hash = stack_hash(s), had = 0;
        for (uint32_t k = 0; k < since->stacks; k++)
            if (since->stack[k].hash == hash) had = since->stack[k].bytes;
        uint64_t more = s->live_bytes - ts_least(had, s->live_bytes);
        if (more == 0) continue;
        if (g->sites == TS_GROWTH_SITES && grown[g->sites - 1] >= more) continue;
        unsigned at = g->sites < TS_GROWTH_SITES ? g->sites++ : g->sites - 1;
        for (; at > 0 && grown[at - 1] < more; at--) {
            grown[at] = grown[at - 1];
            g->site[at] = g->site[at - 1];
        }
        grown[at] = more;
        g->site[at] = i;
    }
}

/* What the last n lows of a level say of a label that rises over them. */
static ts_growth describe(const history *h, const ts_view *v, const ts_label_stats *s, unsigned level, unsigned n,
                          bool epochs) {
    static const row nothing;
    const low *first = low_at(h, level, n, 0), *last = low_at(h, level, n, n - 1);
    const row *a = find_row(first, ts_label_name(s)), *b = find_row(last, ts_label_name(s));
    ts_growth g = {.label = s, .is_epochs = epochs, .kind = TS_COUNT_KINDS};
    if (!a) a = &nothing;
    g.from = value_of(a, epochs);
    g.to = value_of(b, epochs);
    g.span_ns = last->begin_ns - first->begin_ns;
    g.epochs_more = b->epochs - ts_least(a->epochs, b->epochs);
    /* Epochs that have ended took their counts along. */
    g.allocated = b->allocated - ts_least(a->allocated, b->allocated);
    g.freed = b->freed - ts_least(a->freed, b->freed);
    uint64_t most = 0;
    for (unsigned k = 0; k < TS_COUNT_KINDS; k++) {
        uint64_t more = b->of_kind[k] - ts_least(a->of_kind[k], b->of_kind[k]);
        if (more <= most) continue;
        most = more;
        g.kind = k;
    }
    find_sites(&g, v, first);
    return g;
}

static bool is_kept(const ts_growth *g) { return g->allocated > 0 && g->freed < g->allocated / LEAST_FREED; }

static bool look_at(const history *h, const ts_view *v, const ts_label_stats *s, bool epochs,
                    void (*fn)(void *, const ts_growth *), void *arg) {
    const char *name = ts_label_name(s);
    uint64_t value = epochs ? s->active_epochs : s->active_live_bytes;
    ts_growth g;
    unsigned level = LEVELS;
    while (level > 0 && !rises(h, level - 1, FOR_LEAK, name, epochs, value)) level--;
    if (level > 0) {
        g = describe(h, v, s, level - 1, FOR_LEAK, epochs);
        g.is_leak = level > 1 || is_kept(&g) || (epochs && s->active_live_objects == 0);
    } else if (rises(h, 0, FOR_GROWING, name, epochs, value)) {
        g = describe(h, v, s, 0, FOR_GROWING, epochs);
    } else {
        return false;
    }
    fn(arg, &g);
    return true;
}

/* How fast each label grows, or shrinks, over the lows of the first ring. */
static void fill_growth(const history *h, ts_view *v) {
    unsigned n = h->complete[0] < FOR_LEAK ? h->complete[0] : FOR_LEAK;
    if (n < 2) return;
    const low *first = low_at(h, 0, n, 0), *last = low_at(h, 0, n, n - 1);
    double minutes = (double)(last->begin_ns - first->begin_ns) / 60e9;
    for (uint32_t i = 0; i < v->label_rows; i++) {
        ts_label_stats *s = &v->label[i];
        double more = (double)value_of(find_row(last, ts_label_name(s)), false) -
                      (double)value_of(find_row(first, ts_label_name(s)), false);
        s->growth_ns = last->begin_ns - first->begin_ns;
        s->growth_bytes_per_minute = (int64_t)(more / minutes);
    }
}

void ts_growth_look(ts_view *v, uintptr_t token, void (*fn)(void *, const ts_growth *), void *arg) {
    if (!ts_load_relaxed(&kept) || !take(v->pid)) return;
    history *h = history_of(token, v->taken_ns);
    if (h) {
        v->is_watched = 1;
        v->watched_ns = v->taken_ns - ts_least(h->first_ns, v->taken_ns);
        if (v->taken_ns >= h->last_ns) feed_all(h, v); /* else another view was made meanwhile */
        fill_growth(h, v);
        for (uint32_t i = 0; i < v->label_rows; i++)
            if (!look_at(h, v, &v->label[i], false, fn, arg)) (void)look_at(h, v, &v->label[i], true, fn, arg);
    }
    give();
}
