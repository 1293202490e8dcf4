/* What is wrong, in words: rules over the figures of a view, each with its evidence and what to do. */
#include "advice/advice.h"
#include "advice/finding.h"
#include "advice/growth.h"
#include "os/os.h"

#include <string.h>

#define SECOND ((uint64_t)1000000000u)
#define LEAK_AFTER (10 * SECOND)     /* live objects so long after the close: a warning */
#define LEAK_SURELY (60 * SECOND)    /* and so long: critical */
#define MANY_OPEN 100u               /* epochs of one label with objects, of which the oldest is open */
#define OPEN_AFTER (60 * SECOND)     /* for so long: information, */
#define OLD_AFTER (600 * SECOND)     /* and for so long: a warning */
#define WATCHED_ENOUGH (12 * SECOND) /* four intervals of growth.c, whenever it begins */

/* The class with the most bytes of a label; TS_COUNT_KINDS: none. */
static unsigned main_class(const ts_label_stats *l, unsigned state) {
    unsigned best = TS_COUNT_KINDS;
    for (unsigned k = 0; k < TS_COUNT_KINDS; k++)
        if (l->class_objects[state][k] &&
            (best == TS_COUNT_KINDS || l->class_bytes[state][k] > l->class_bytes[state][best]))
            best = k;
    return best;
}

static const char *objects_of(unsigned kind, char text[32]) {
    char name[16];
    if (kind == TS_COUNT_SPAN) return "large objects";
    if (kind == TS_COUNT_SCOPE) return "objects of mixed sizes";
    ts_sink s = ts_sink_buffer(text, 32);
    ts_say(&s, "%-byte objects", ts_w_text(ts_class_name(kind, name)));
    (void)ts_sink_end(&s);
    return text;
}

static void leaks(ts_report *r, const ts_view *v) {
    char objects[32];
    for (unsigned i = 0; i < v->label_rows; i++) {
        const ts_label_stats *l = &v->label[i];
        if (l->closing_live_objects == 0 || l->closing_for_ns < LEAK_AFTER) continue;
        unsigned kind = main_class(l, 1);
        if (kind == TS_COUNT_KINDS || !ts_finding_begin(r, l->closing_for_ns >= LEAK_SURELY ? TS_CRITICAL : TS_WARNING,
                                                        l->closing_rss_bytes, "leak_after_close"))
            continue;
        ts_say(&r->what, "`%` has held % in % for % after its close", ts_w_shown(ts_label_name(l)),
               ts_w_size(l->class_bytes[1][kind]), ts_w_text(objects_of(kind, objects)), ts_w_time(l->closing_for_ns));
        ts_say(&r->evidence, "% (%) in % keep % of slabs",
               ts_w_count(l->closing_live_objects, "live object", "live objects"), ts_w_size(l->closing_live_bytes),
               ts_w_count(l->closing_epochs, "closed epoch", "closed epochs"), ts_w_size(l->closing_rss_bytes));
        ts_put(&r->advice,
               "Free these objects before epoch_close, or end the phase with epoch_destroy, which frees all of "
               "them at once.");
        if (!ts_view_has_stacks(v)) ts_put(&r->advice, " TSLAB_SAMPLE_STACKS=64K names the lines that allocated them.");
        ts_finding_about(r, l, EPOCH_CLOSING);
        ts_finding_end(r);
    }
}

static void old_epochs(ts_report *r, const ts_view *v) {
    for (unsigned i = 0; i < v->label_rows; i++) {
        const ts_label_stats *l = &v->label[i];
        /* One old epoch is a program's base; many of one label that hold objects are a phase that is not closed. */
        if (l->active_age_ns < OPEN_AFTER || l->active_epochs < MANY_OPEN || l->active_live_objects == 0 || l->is_other)
            continue;
        ts_severity severity = l->active_age_ns >= OLD_AFTER ? TS_WARNING : TS_INFO;
        if (!ts_finding_begin(r, severity, l->active_rss_bytes, "epochs_not_closed")) continue;
        ts_say(&r->what, "% labelled `%` are open, the oldest for %", ts_w_count(l->active_epochs, "epoch", "epochs"),
               ts_w_shown(ts_label_name(l)), ts_w_time(l->active_age_ns));
        ts_say(&r->evidence, "%, % of slabs", ts_w_count(l->active_live_objects, "live object", "live objects"),
               ts_w_size(l->active_rss_bytes));
        ts_put(&r->advice,
               "If these phases should be over: look for a way out of one that does not close or destroy its epoch.");
        ts_finding_about(r, l, EPOCH_ACTIVE);
        ts_finding_end(r);
    }
}

static void misuse(ts_report *r, const SlabGlobalStats *g) {
    if (g->rejected_frees_total && ts_finding_begin(r, TS_WARNING, g->rejected_frees_total, "rejected_frees")) {
        ts_say(&r->what, "% refused: not a live object", ts_w_count(g->rejected_frees_total, "free was", "frees were"));
        ts_say(&r->evidence, "rejected_frees_total %", ts_w_u64(g->rejected_frees_total));
        ts_put(&r->advice,
               "A double free, or a pointer kept beyond its epoch. TSLAB_ON_MISUSE=report names each, =abort "
               "stops at the first.");
        ts_finding_end(r);
    }
    if (g->slow_path_epoch_closed &&
        ts_finding_begin(r, TS_WARNING, g->slow_path_epoch_closed, "allocation_after_close")) {
        ts_say(&r->what, "% refused: the epoch was closed",
               ts_w_count(g->slow_path_epoch_closed, "allocation was", "allocations were"));
        ts_say(&r->evidence, "slow_path_epoch_closed %", ts_w_u64(g->slow_path_epoch_closed));
        ts_put(&r->advice,
               "The caller gets NULL with ESTALE. Close an epoch after the last thread has left its phase.");
        ts_finding_end(r);
    }
}

static void limits(ts_report *r, const SlabGlobalStats *g) {
    if (g->budget_bytes && g->committed_bytes >= g->budget_bytes / 10 * 9 &&
        ts_finding_begin(r, TS_CRITICAL, g->committed_bytes, "budget_near")) {
        ts_say(&r->what, "the memory budget is nearly used up: % of %", ts_w_size(g->committed_bytes),
               ts_w_size(g->budget_bytes));
        ts_say(&r->evidence, "committed_bytes %, of which retained %", ts_w_u64(g->committed_bytes),
               ts_w_u64(g->retained_bytes));
        ts_put(&r->advice,
               "Allocations beyond it fail with ENOMEM. Raise it with slab_set_budget, or see which label holds "
               "the memory.");
        ts_finding_end(r);
    }
    if (g->region_bytes && g->region_used_bytes >= g->region_bytes / 10 * 9 &&
        ts_finding_begin(r, TS_CRITICAL, g->region_used_bytes, "region_near")) {
        ts_say(&r->what, "the address space for objects of up to 32 MiB is nearly used up: % of %",
               ts_w_size(g->region_used_bytes), ts_w_size(g->region_bytes));
        ts_say(&r->evidence, "region_used_bytes %, of all allocators of the process", ts_w_u64(g->region_used_bytes));
        ts_put(&r->advice,
               "Allocations beyond it fail with ENOMEM. A limit of address space (ulimit -v) makes it small; "
               "larger objects do not count where there is none.");
        ts_finding_end(r);
    }
    if (g->madvise_failures && ts_finding_begin(r, TS_WARNING, g->madvise_failures, "purge_failures")) {
        ts_say(&r->what, "the system refused to take memory back %", ts_w_count(g->madvise_failures, "time", "times"));
        ts_say(&r->evidence, "madvise_failures % of %", ts_w_u64(g->madvise_failures),
               ts_w_count(g->madvise_calls, "call", "calls"));
        ts_put(&r->advice, "Locked memory (mlockall) cannot be given back, and some sandboxes forbid madvise.");
        ts_finding_end(r);
    }
}

/* ---- growth ---- */

typedef struct growth_report {
    ts_report *r;
    const ts_view *v;
} growth_report;

static uint64_t a_minute(uint64_t more, uint64_t ns) {
    return ns ? (uint64_t)((double)more * 60.0 * (double)SECOND / (double)ns) : 0;
}

/* How long until there is no room any more. false: not to be foreseen. */
static bool time_left(const ts_view *v, uint64_t bytes_a_minute, uint64_t *ns, const char **what) {
    uint64_t room = ts_room_bytes(what);
    const SlabGlobalStats *g = &v->global;
    if (g->budget_bytes && g->budget_bytes - ts_least(g->committed_bytes, g->budget_bytes) < room) {
        room = g->budget_bytes - ts_least(g->committed_bytes, g->budget_bytes);
        *what = "the memory budget";
    }
    if (room == UINT64_MAX || bytes_a_minute == 0) return false;
    double left = (double)room / (double)bytes_a_minute * 60.0 * (double)SECOND;
    *ns = (uint64_t)left;
    return left < 30.0 * 86400.0 * (double)SECOND;
}

/* An amount of a growth: epochs, or bytes. */
static ts_word amount(const ts_growth *g, uint64_t n) { return g->is_epochs ? ts_w_u64(n) : ts_w_size(n); }

static void put_evidence(ts_sink *s, const ts_growth *g) {
    ts_say(s, g->is_epochs ? "from % to % open in %" : "from % to % live in %", amount(g, g->from), amount(g, g->to),
           ts_w_time(g->span_ns));
    if (g->allocated)
        ts_say(s, "; % allocated, % freed", ts_w_count(g->allocated, "object was", "objects were"), ts_w_u64(g->freed));
    if (!g->is_epochs && g->epochs_more) ts_say(s, "; % more", ts_w_count(g->epochs_more, "open epoch", "open epochs"));
}

static void grows(void *arg, const ts_growth *g) {
    growth_report *gr = arg;
    ts_report *r = gr->r;
    uint64_t rate = a_minute(g->to - g->from, g->span_ns), left = 0;
    const char *limit = "";
    char objects[32];
    bool ends = !g->is_epochs && time_left(gr->v, rate, &left, &limit);
    ts_severity severity = !g->is_leak ? TS_INFO : ends && left < OLD_AFTER ? TS_CRITICAL : TS_WARNING;
    if (!ts_finding_begin(r, severity, g->is_epochs ? g->to : rate, g->is_leak ? "leak" : "growth")) return;
    ts_say(&r->what,
           g->is_epochs ? "open epochs of `%` become % more a minute"
           : g->is_leak ? "`%` leaks % a minute"
                        : "`%` grows by % a minute",
           ts_w_shown(ts_label_name(g->label)), amount(g, rate));
    if (!g->is_epochs && g->kind != TS_COUNT_KINDS)
        ts_say(&r->what, ", mostly %", ts_w_text(objects_of(g->kind, objects)));
    put_evidence(&r->evidence, g);
    if (ends) ts_say(&r->evidence, "; % is full in %", ts_w_text(limit), ts_w_time(left));
    if (!g->is_leak)
        ts_put(&r->advice, "May be a cache that fills, or more work than before: look again in a minute.");
    else if (g->is_epochs || g->epochs_more)
        ts_put(&r->advice, "Look for a way out of the phase that does not close or destroy its epoch or domain.");
    else
        ts_put(&r->advice, "Free what these lines allocate, or give it an epoch that ends.");
    if (!ts_view_has_stacks(gr->v)) ts_put(&r->advice, " TSLAB_SAMPLE_STACKS=64K names the lines that allocate it.");
    ts_finding_about(r, g->label, EPOCH_ACTIVE);
    for (unsigned i = 0; i < g->sites; i++) r->at->site[i] = g->site[i] + 1;
    ts_finding_end(r);
}

void ts_doctor(ts_view *v, uintptr_t token) {
    ts_finding *out = v->finding;
    ts_report r = {.f = out};
    growth_report gr = {&r, v};
    if (token) ts_growth_look(v, token, grows, &gr);
    leaks(&r, v);
    old_epochs(&r, v);
    misuse(&r, &v->global);
    limits(&r, &v->global);
    ts_doctor_costs(&r, v);
    for (unsigned i = 1; i < r.count; i++) {
        for (unsigned k = i; k > 0; k--) {
            ts_finding *a = &out[k - 1], *b = &out[k];
            if (a->severity > b->severity || (a->severity == b->severity && a->weight >= b->weight)) break;
            ts_finding t = *a;
            *a = *b;
            *b = t;
        }
    }
    v->finding_count = r.count;
}

ts_view *ts_advised_view(ts_allocator *allocator, uintptr_t token) {
    ts_view *view = ts_view_make(allocator, token);
    if (view) ts_doctor(view, token);
    return view;
}

/* The label with the most objects in open epochs. A phase that is never closed shows so before it is old. */
static void put_most_open(ts_sink *s, const ts_view *v) {
    const ts_label_stats *most = NULL;
    for (unsigned i = 0; i < v->label_rows; i++) {
        const ts_label_stats *l = &v->label[i];
        if (l->active_live_objects > (most ? most->active_live_objects : 0)) most = l;
    }
    if (!most) return;
    ts_say(s, "; most objects are in `%`: % in %, the oldest for %", ts_w_shown(ts_label_name(most)),
           ts_w_count(most->active_live_objects, "object", "objects"),
           ts_w_count(most->active_epochs, "open epoch", "open epochs"), ts_w_time(most->active_age_ns));
}

/* Growth takes a while to be seen. Until then the sentence says "yet". */
static void put_nothing(ts_sink *s, const ts_view *v, bool alone) {
    bool yet = !v->is_watched || v->watched_ns < WATCHED_ENOUGH;
    ts_put(s, yet ? "nothing found yet" : "nothing found");
    if (!alone) {
        ts_put(s, " in ");
        ts_put_allocator(s, v);
    }
    if (yet)
        ts_say(s, ", watched for % (what grows shows after 12 s%)", ts_w_time(v->is_watched ? v->watched_ns : 0),
               ts_w_text(v->is_watched ? "" : "; TSLAB_SHM=1 watches from the start"));
    ts_say(s, ": %, % committed, %", ts_w_count(v->global.live_objects, "live object", "live objects"),
           ts_w_size(v->global.committed_bytes), ts_w_count(v->epoch_count, "epoch", "epochs"));
    put_most_open(s, v);
    ts_put(s, "\n");
}

const char *ts_severity_name(ts_severity severity) {
    return severity == TS_CRITICAL ? "critical" : severity == TS_WARNING ? "warning" : "info";
}

int ts_render_doctor(ts_sink *s, const ts_views *views) {
    ts_view_finding found[TS_FOUND];
    unsigned n = ts_views_findings(views, found);
    for (unsigned i = 0; i < n; i++) {
        const ts_finding *f = found[i].finding;
        const ts_view *v = views->at[found[i].view];
        ts_say(s, "%. %: %\n", ts_w_u64(i + 1), ts_w_text(ts_severity_name(f->severity)), ts_w_text(f->what));
        if (views->count > 1) {
            ts_put(s, "   in:       ");
            ts_put_allocator(s, v);
            ts_put(s, "\n");
        }
        ts_say(s, "   evidence: %\n   advice:   %\n", ts_w_text(f->evidence), ts_w_text(f->advice));
        ts_put_sites(s, v, f);
    }
    for (unsigned i = 0; i < views->count && n == 0; i++) put_nothing(s, views->at[i], views->count == 1);
    for (unsigned i = 0; i < views->count; i++) ts_put_holders(s, views->at[i], views->count == 1);
    return n ? (int)found[0].finding->severity : -1;
}
