/*
 * Holders of memory, from sampled stacks: by threads, and in a program without epochs of its own (one under
 * libtslab-malloc) by functions.
 *
 * Only the frames of a stack that lie in the program itself count, from the outermost on. The frames with which all
 * stacks of a holder begin (main, its loop) say nothing: they are passed over, to where the stacks part. A holder of
 * more than a quarter of all bytes is parted there, again and again, so the rows name functions that do different
 * things.
 */
#include "advice/advice.h"
#include "base/base.h"
#include "os/os.h"

#include <string.h>

_Static_assert(TS_VIEW_STACKS <= 64, "a set of stacks is a word");

/* Stacks with the same own frames before `depth`; the last of them tells them from their siblings. */
typedef struct holder {
    uint64_t stacks; /* a bit for each row of the view */
    uint64_t bytes;
    unsigned parted, depth; /* where its frames begin to be its own; as far as they were looked at */
    bool is_final;
} holder;

typedef struct holders {
    const ts_view *view;
    unsigned frames[TS_VIEW_STACKS];
    uint64_t frame[TS_VIEW_STACKS][SLAB_STACK_FRAMES]; /* the own ones, outermost first */
    holder list[TS_VIEW_STACKS];
    unsigned count;
    uint64_t bytes;
} holders;

static void add_stack(holders *h, unsigned i) {
    const SlabStackSample *row = &h->view->stack[i];
    for (unsigned k = row->frame_count; k-- > 0;) {
        const ts_stack_module *m = ts_view_module(h->view, row->frames[k]);
        if (m && m->is_program) h->frame[i][h->frames[i]++] = row->frames[k];
    }
    h->list[0].stacks |= (uint64_t)1 << i;
    h->list[0].bytes += row->live_bytes;
}

/* 0: the program's own part of the stack has ended. */
static uint64_t frame_at(const holders *h, unsigned stack, unsigned depth) {
    return depth < h->frames[stack] ? h->frame[stack][depth] : 0;
}

/* Those of the set that have the same frame at the depth as the first of them. */
static uint64_t take_alike(const holders *h, uint64_t *set, unsigned depth, uint64_t *bytes) {
    uint64_t frame = frame_at(h, ts_ctz64(*set), depth), alike = 0;
    *bytes = 0;
    for (uint64_t rest = *set; rest != 0; rest &= rest - 1) {
        unsigned i = ts_ctz64(rest);
        if (frame_at(h, i, depth) != frame) continue;
        alike |= (uint64_t)1 << i;
        *bytes += h->view->stack[i].live_bytes;
    }
    *set &= ~alike;
    return alike;
}

/* A frame deeper; where the ways part the holder becomes several. */
static void follow(holders *h, holder *one) {
    holder whole = *one;
    if (frame_at(h, ts_ctz64(whole.stacks), whole.depth) == 0) {
        one->is_final = true;
        return;
    }
    uint64_t rest = whole.stacks, bytes;
    uint64_t alike = take_alike(h, &rest, whole.depth, &bytes);
    if (rest == 0) {
        one->depth++;
        return;
    }
    *one = (holder){alike, bytes, whole.depth, whole.depth + 1, false};
    while (rest != 0) {
        alike = take_alike(h, &rest, whole.depth, &bytes);
        bool ends = frame_at(h, ts_ctz64(alike), whole.depth) == 0;
        h->list[h->count++] = (holder){alike, bytes, ends ? whole.parted : whole.depth, whole.depth + 1, ends};
    }
}

static holder *find_largest(holders *h, unsigned from, bool open) {
    holder *best = NULL;
    for (unsigned i = from; i < h->count; i++)
        if (!(open && h->list[i].is_final) && (!best || h->list[i].bytes > best->bytes)) best = &h->list[i];
    return best;
}

static ts_holder_row row_of(const holders *h, const holder *one) {
    ts_holder_row out = {.live_bytes = one->bytes};
    unsigned largest = ts_ctz64(one->stacks);
    for (uint64_t rest = one->stacks; rest != 0; rest &= rest - 1) {
        const SlabStackSample *row = &h->view->stack[ts_ctz64(rest)];
        out.live_objects += row->live_objects;
        out.samples += row->samples;
        if (row->live_bytes > h->view->stack[largest].live_bytes) largest = ts_ctz64(rest);
    }
    for (unsigned k = one->parted; out.frame_count < TS_HOLDER_FRAMES && frame_at(h, largest, k); k++)
        out.frame[out.frame_count++] = frame_at(h, largest, k);
    return out;
}

unsigned ts_holders_of(const ts_view *v, ts_holder_row out[TS_HOLDERS_SHOWN]) {
    /* Where there are other labels these tell. */
    if (v->stack_rows == 0 || v->label_rows != 1 || strcmp(v->label[0].label, TS_LABEL_MALLOC) != 0) return 0;
    holders *h = ts_os_map(sizeof *h);
    if (!h) return 0;
    h->view = v;
    h->count = 1;
    for (unsigned i = 0; i < v->stack_rows; i++) add_stack(h, i);
    h->bytes = h->list[0].bytes;
    for (holder *most; (most = find_largest(h, 0, true)) != NULL && most->bytes > h->bytes / 4;) follow(h, most);
    unsigned n = 0;
    for (; n < h->count && n < TS_HOLDERS_SHOWN; n++) {
        holder *best = find_largest(h, n, false), first = h->list[n];
        out[n] = row_of(h, best);
        h->list[n] = *best;
        *best = first;
    }
    ts_os_unmap(h, sizeof *h);
    return n;
}

uint64_t ts_view_samples(const ts_view *v) {
    uint64_t samples = 0;
    for (unsigned i = 0; i < v->thread_rows; i++) samples += v->thread[i].samples;
    return samples;
}

/* ---- shown ------------------------------------------------------------------------------------------------------- */

static void put_head(ts_sink *s, const ts_view *v, bool alone, const char *rest) {
    ts_put(s, "who holds what");
    if (!alone) {
        ts_put(s, " of ");
        ts_put_allocator(s, v);
    }
    ts_say(s, ", estimated from %%", ts_w_count(ts_view_samples(v), "sample", "samples"), ts_w_text(rest));
}

const char *ts_thread_share_name(const ts_thread_share *t) { return t->name[0] ? t->name : "(no name)"; }

void ts_put_holders(ts_sink *s, const ts_view *v, bool alone) {
    ts_holder_row rows[TS_HOLDERS_SHOWN];
    unsigned n = ts_holders_of(v, rows);
    if (n > 0) put_head(s, v, alone, " (each with the functions that it comes by, outermost first):\n");
    for (unsigned i = 0; i < n; i++) {
        SlabStackSample way = {.frame_count = rows[i].frame_count};
        memcpy(way.frames, rows[i].frame, sizeof rows[i].frame);
        ts_put(s, "   ");
        ts_put_held(s, rows[i].live_bytes, rows[i].live_objects, rows[i].samples);
        ts_put(s, way.frame_count == 0 ? ", by no code of the program itself\n" : "\n");
        ts_put_frames(s, v, &way, TS_HOLDER_FRAMES);
    }
    if (v->thread_rows < 2) return; /* a program of one thread */
    put_head(s, v, alone, ", by the thread that allocated it:\n");
    for (unsigned i = 0; i < v->thread_rows; i++) {
        ts_say(s, "   %: ", ts_w_shown(ts_thread_share_name(&v->thread[i])));
        ts_put_held(s, v->thread[i].live_bytes, v->thread[i].live_objects, v->thread[i].samples);
        ts_put(s, "\n");
    }
}
