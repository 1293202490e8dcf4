/* What is wrong, in words: rules over the figures of a view, each with its evidence and what to do. */
#include "advice/advice.h"
#include "advice/finding.h"
#include "advice/growth.h"
#include "os/room.h"

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

static void put_objects_of(ts_sink *s, unsigned kind) {
    char name[16];
    if (kind == TS_COUNT_SPAN) {
        ts_put(s, "large objects");
    } else if (kind == TS_COUNT_SCOPE) {
        ts_put(s, "objects of scope epochs");
    } else {
        ts_put(s, ts_class_name(kind, name));
        ts_put(s, "-byte objects");
    }
}

static void leaks(ts_report *r, const ts_view *v) {
    for (unsigned i = 0; i < v->label_rows; i++) {
        const ts_label_stats *l = &v->label[i];
        if (l->closing_live_objects == 0 || l->closing_for_ns < LEAK_AFTER) continue;
        unsigned kind = main_class(l, 1);
        if (kind == TS_COUNT_KINDS || !ts_finding_begin(r, l->closing_for_ns >= LEAK_SURELY ? TS_CRITICAL : TS_WARNING,
                                                        l->closing_rss_bytes, "leak_after_close"))
            continue;
        ts_put(&r->what, "`");
        ts_put_shown(&r->what, ts_label_name(l));
        ts_put(&r->what, "` has held ");
        ts_put_size(&r->what, l->class_bytes[1][kind]);
        ts_put(&r->what, " in ");
        put_objects_of(&r->what, kind);
        ts_put(&r->what, " for ");
        ts_put_duration(&r->what, l->closing_for_ns);
        ts_put(&r->what, " after its close");
        ts_put_count(&r->evidence, l->closing_live_objects, "live object", "live objects");
        ts_put(&r->evidence, " (");
        ts_put_size(&r->evidence, l->closing_live_bytes);
        ts_put(&r->evidence, ") in ");
        ts_put_count(&r->evidence, l->closing_epochs, "closed epoch", "closed epochs");
        ts_put(&r->evidence, " keep ");
        ts_put_size(&r->evidence, l->closing_rss_bytes);
        ts_put(&r->evidence, " of slabs");
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
        ts_put_count(&r->what, l->active_epochs, "epoch", "epochs");
        ts_put(&r->what, " labelled `");
        ts_put_shown(&r->what, ts_label_name(l));
        ts_put(&r->what, "` are open, the oldest for ");
        ts_put_duration(&r->what, l->active_age_ns);
        ts_put_count(&r->evidence, l->active_live_objects, "live object", "live objects");
        ts_put(&r->evidence, ", ");
        ts_put_size(&r->evidence, l->active_rss_bytes);
        ts_put(&r->evidence, " of slabs");
        ts_put(&r->advice,
               "If these phases should be over: look for a way out of one that does not close or destroy its epoch.");
        ts_finding_about(r, l, EPOCH_ACTIVE);
        ts_finding_end(r);
    }
}

static void misuse(ts_report *r, const SlabGlobalStats *g) {
    if (g->rejected_frees_total && ts_finding_begin(r, TS_WARNING, g->rejected_frees_total, "rejected_frees")) {
        ts_put_count(&r->what, g->rejected_frees_total, "free was", "frees were");
        ts_put(&r->what, " refused: not a live object");
        ts_put(&r->evidence, "rejected_frees_total ");
        ts_put_u64(&r->evidence, g->rejected_frees_total);
        ts_put(&r->advice,
               "A double free, or a pointer kept beyond its epoch. TSLAB_ON_MISUSE=report names each, =abort "
               "stops at the first.");
        ts_finding_end(r);
    }
    if (g->slow_path_epoch_closed &&
        ts_finding_begin(r, TS_WARNING, g->slow_path_epoch_closed, "allocation_after_close")) {
        ts_put_count(&r->what, g->slow_path_epoch_closed, "allocation was", "allocations were");
        ts_put(&r->what, " refused: the epoch was closed");
        ts_put(&r->evidence, "slow_path_epoch_closed ");
        ts_put_u64(&r->evidence, g->slow_path_epoch_closed);
        ts_put(&r->advice,
               "The caller gets NULL with ESTALE. Close an epoch after the last thread has left its phase.");
        ts_finding_end(r);
    }
}

static void limits(ts_report *r, const SlabGlobalStats *g) {
    if (g->budget_bytes && g->committed_bytes >= g->budget_bytes / 10 * 9 &&
        ts_finding_begin(r, TS_CRITICAL, g->committed_bytes, "budget_near")) {
        ts_put(&r->what, "the memory budget is nearly used up: ");
        ts_put_size(&r->what, g->committed_bytes);
        ts_put(&r->what, " of ");
        ts_put_size(&r->what, g->budget_bytes);
        ts_put(&r->evidence, "committed_bytes ");
        ts_put_u64(&r->evidence, g->committed_bytes);
        ts_put(&r->evidence, ", of which warm ");
        ts_put_u64(&r->evidence, g->retained_bytes);
        ts_put(&r->advice,
               "Allocations beyond it fail with ENOMEM. Raise it with slab_set_budget, or see which label holds "
               "the memory.");
        ts_finding_end(r);
    }
    if (g->region_bytes && g->region_used_bytes >= g->region_bytes / 10 * 9 &&
        ts_finding_begin(r, TS_CRITICAL, g->region_used_bytes, "region_near")) {
        ts_put(&r->what, "the address space for objects of up to 16 MiB is nearly used up: ");
        ts_put_size(&r->what, g->region_used_bytes);
        ts_put(&r->what, " of ");
        ts_put_size(&r->what, g->region_bytes);
        ts_put(&r->evidence, "region_used_bytes ");
        ts_put_u64(&r->evidence, g->region_used_bytes);
        ts_put(&r->evidence, ", of all allocators of the process");
        ts_put(&r->advice,
               "Allocations beyond it fail with ENOMEM. A limit of address space (ulimit -v) makes it small; "
               "larger objects do not count where there is none.");
        ts_finding_end(r);
    }
    if (g->madvise_failures && ts_finding_begin(r, TS_WARNING, g->madvise_failures, "purge_failures")) {
        ts_put(&r->what, "the system refused to take memory back ");
        ts_put_count(&r->what, g->madvise_failures, "time", "times");
        ts_put(&r->evidence, "madvise_failures ");
        ts_put_u64(&r->evidence, g->madvise_failures);
        ts_put(&r->evidence, " of ");
        ts_put_count(&r->evidence, g->madvise_calls, "call", "calls");
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

static void put_evidence(ts_sink *s, const ts_growth *g) {
    const bool bytes = !g->is_epochs;
    ts_put(s, "from ");
    bytes ? ts_put_size(s, g->from) : ts_put_u64(s, g->from);
    ts_put(s, " to ");
    bytes ? ts_put_size(s, g->to) : ts_put_u64(s, g->to);
    ts_put(s, bytes ? " live in " : " open in ");
    ts_put_duration(s, g->span_ns);
    if (g->allocated) {
        ts_put(s, "; ");
        ts_put_count(s, g->allocated, "object was", "objects were");
        ts_put(s, " allocated, ");
        ts_put_u64(s, g->freed);
        ts_put(s, " freed");
    }
    if (bytes && g->epochs_more) {
        ts_put(s, "; ");
        ts_put_count(s, g->epochs_more, "open epoch", "open epochs");
        ts_put(s, " more");
    }
}

static void grows(void *arg, const ts_growth *g) {
    growth_report *gr = arg;
    ts_report *r = gr->r;
    uint64_t rate = a_minute(g->to - g->from, g->span_ns), left = 0;
    const char *limit = "";
    bool ends = !g->is_epochs && time_left(gr->v, rate, &left, &limit);
    ts_severity severity = !g->is_leak ? TS_INFO : ends && left < OLD_AFTER ? TS_CRITICAL : TS_WARNING;
    if (!ts_finding_begin(r, severity, g->is_epochs ? g->to : rate, g->is_leak ? "leak" : "growth")) return;
    ts_put(&r->what, g->is_epochs ? "open epochs of `" : "`");
    ts_put_shown(&r->what, ts_label_name(g->label));
    ts_put(&r->what, g->is_leak && !g->is_epochs ? "` leaks " : g->is_epochs ? "` become " : "` grows by ");
    if (g->is_epochs) {
        ts_put_u64(&r->what, rate);
        ts_put(&r->what, " more a minute");
    } else {
        ts_put_size(&r->what, rate);
        ts_put(&r->what, " a minute");
    }
    if (!g->is_epochs && g->kind != TS_COUNT_KINDS) {
        ts_put(&r->what, ", mostly ");
        put_objects_of(&r->what, g->kind);
    }
    put_evidence(&r->evidence, g);
    if (ends) {
        ts_put(&r->evidence, "; ");
        ts_put(&r->evidence, limit);
        ts_put(&r->evidence, " is full in ");
        ts_put_duration(&r->evidence, left);
    }
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

/* The label with the most objects in open epochs: what a phase that is never closed, but not for long yet, would be. */
static void put_most_open(ts_sink *s, const ts_view *v) {
    const ts_label_stats *most = NULL;
    for (unsigned i = 0; i < v->label_rows; i++) {
        const ts_label_stats *l = &v->label[i];
        if (l->active_live_objects > (most ? most->active_live_objects : 0)) most = l;
    }
    if (!most) return;
    ts_put(s, "; most objects are in `");
    ts_put_shown(s, ts_label_name(most));
    ts_put(s, "`: ");
    ts_put_count(s, most->active_live_objects, "object", "objects");
    ts_put(s, " in ");
    ts_put_count(s, most->active_epochs, "open epoch", "open epochs");
    ts_put(s, ", the oldest for ");
    ts_put_duration(s, most->active_age_ns);
}

/* Of a program that is watched for less than growth takes to be seen, nothing is said to be sure. */
static void put_nothing(ts_sink *s, const ts_view *v) {
    if (v->is_watched && v->watched_ns >= WATCHED_ENOUGH) {
        ts_put(s, "nothing found: ");
        return;
    }
    ts_put(s, "nothing found yet, watched for ");
    ts_put_duration(s, v->is_watched ? v->watched_ns : 0);
    ts_put(s, " (what grows shows after 12 s; TSLAB_SHM=1 watches from the start): ");
}

const char *ts_severity_name(ts_severity severity) {
    return severity == TS_CRITICAL ? "critical" : severity == TS_WARNING ? "warning" : "info";
}

int ts_render_doctor(ts_sink *s, const ts_view *v) {
    const ts_finding *f = v->finding;
    unsigned n = (unsigned)v->finding_count;
    int worst = n ? (int)f[0].severity : -1;
    for (unsigned i = 0; i < n; i++) {
        ts_put_u64(s, i + 1);
        ts_put(s, ". ");
        ts_put(s, ts_severity_name(f[i].severity));
        ts_put(s, ": ");
        ts_put(s, f[i].what);
        ts_put(s, "\n   evidence: ");
        ts_put(s, f[i].evidence);
        ts_put(s, "\n   advice:   ");
        ts_put(s, f[i].advice);
        ts_put(s, "\n");
        ts_put_sites(s, v, &f[i]);
    }
    if (!n) {
        put_nothing(s, v);
        ts_put_count(s, v->global.live_objects, "live object", "live objects");
        ts_put(s, ", ");
        ts_put_size(s, v->global.committed_bytes);
        ts_put(s, " committed, ");
        ts_put_count(s, v->epoch_count, "epoch", "epochs");
        put_most_open(s, v);
        ts_put(s, "\n");
    }
    ts_put_holders(s, v);
    return worst;
}
