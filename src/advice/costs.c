/*
 * The costs of the allocator's work, and the part of them that its user can save.
 *
 * A slow path takes a slab. As many as the objects fill are needed; beyond that are the first ones of epochs, which
 * leave them nearly empty if they are small. So rules look at the part above, and say what is known to lower it:
 *
 *     churn epochs of few objects in many classes    a scope has one slab where a churn epoch has one for each class
 *     epochs of few objects                          one epoch for several; a mark and a rewind in a domain that stays
 *     objects freed one by one in scopes             a churn epoch uses their places again
 *     objects that outlive their neighbours          slab_promote
 *
 * tests/unit/advice/advice_test.c follows each of them.
 */
#include "advice/finding.h"

#define ENOUGH_OPERATIONS 100000u /* rates below so many mean nothing */
#define ENOUGH_BYTES ((uint64_t)16 << 20)
#define MANY_EPOCHS 16u

static uint64_t above(uint64_t a, uint64_t b) { return a > b ? a - b : 0; }

/* Slabs of a class, or of all scopes, that were the first of an epoch: not needed because others were full. */
static uint64_t first_slabs(const ts_view *v, unsigned kind) {
    const SlabClassStats *c = &v->cls[kind];
    if (kind == TS_COUNT_SCOPE) return above(c->slow_path_hits, c->list_move_partial_to_full);
    return above(c->slow_path_hits, c->allocated_objects_total / ts_classes.slots[kind]);
}

/* ---- slow paths -------------------------------------------------------------------------------------------------- */

static void slow_paths(ts_report *r, const ts_view *v) {
    const SlabGlobalStats *g = &v->global;
    uint64_t churn = 0, churn_objects = 0, epochs = 0;
    for (unsigned k = 0; k < TS_CLASSES; k++) {
        uint64_t more = first_slabs(v, k);
        churn += more;
        churn_objects += v->cls[k].allocated_objects_total;
        if (more > epochs) epochs = more; /* each of them takes a slab of its classes, of this one too at most */
    }
    uint64_t scope = first_slabs(v, TS_COUNT_SCOPE);
    if (g->allocated_objects_total < ENOUGH_OPERATIONS || churn + scope <= g->allocated_objects_total / 20 ||
        !ts_finding_begin(r, TS_INFO, churn + scope, "slow_paths"))
        return;
    ts_say(&r->what, "% of the allocations take a slab for an epoch of few objects",
           ts_w_percent(churn + scope, g->allocated_objects_total));
    ts_say(&r->evidence, "slow_path_hits %; first slabs of epochs: % of churn epochs, % of scopes",
           ts_w_u64(g->slow_path_hits), ts_w_u64(churn), ts_w_u64(scope));
    if (churn > scope && epochs <= churn_objects / 20)
        ts_put(&r->advice, "Churn epochs of few objects take a slab for each size class: open them with EPOCH_SCOPE, "
                           "which takes one.");
    else
        ts_put(&r->advice,
               "Epochs of few objects: use one for several of them. Or let a domain stay, and epoch_domain_mark and "
               "epoch_domain_rewind take their place: that takes no slab at all.");
    ts_finding_end(r);
}

/* ---- memory that goes back and forth, locks ---------------------------------------------------------------------- */

static void back_and_forth(ts_report *r, const SlabGlobalStats *g) {
    if (g->slow_path_cache_miss <= 10000 || g->empty_slab_overflowed <= g->slow_path_cache_miss / 2 ||
        !ts_finding_begin(r, TS_INFO, g->slow_path_cache_miss, "memory_back_and_forth"))
        return;
    ts_put(&r->what, "memory goes back to the system and is fetched again");
    ts_say(&r->evidence, "empty_slab_overflowed %, slow_path_cache_miss %", ts_w_u64(g->empty_slab_overflowed),
           ts_w_u64(g->slow_path_cache_miss));
    if (g->cache_capacity == 0)
        ts_put(&r->advice, "Nothing is kept retained (reclaim policy at_once, or retain_bytes too small): "
                           "TSLAB_RECLAIM=budget and TSLAB_RETAIN do.");
    else
        ts_put(&r->advice,
               "Raise the option retain_bytes (TSLAB_RETAIN), and keep_bytes where domains are reset. slab_trim "
               "keeps nothing, either.");
    ts_finding_end(r);
}

static void locks(ts_report *r, const SlabGlobalStats *g) {
    if (g->lock_contended <= 1000 || g->lock_contended <= g->lock_fast_acquire / 100 ||
        !ts_finding_begin(r, TS_INFO, g->lock_contended, "lock_contention"))
        return;
    ts_put(&r->what, "threads wait for the locks of the retained cache");
    ts_say(&r->evidence, "lock_contended %, lock_fast_acquire %", ts_w_u64(g->lock_contended),
           ts_w_u64(g->lock_fast_acquire));
    ts_put(&r->advice, "Large epochs on many threads: give each thread, or each group of few, an allocator.");
    ts_finding_end(r);
}

/* ---- slabs that are nearly empty --------------------------------------------------------------------------------- */

static uint64_t rss_of(const ts_label_stats *l) { return l->active_rss_bytes + l->closing_rss_bytes; }
static uint64_t live_of(const ts_label_stats *l) { return l->active_live_bytes + l->closing_live_bytes; }

/* Bytes of slabs if each of the label's epochs were a scope. */
static uint64_t as_scopes(const ts_label_stats *l) {
    uint64_t epochs = l->active_epochs + l->closing_epochs, each = epochs ? live_of(l) / epochs : 0;
    return epochs * (each / TS_UNIT_BYTES + 1) * TS_UNIT_BYTES;
}

static void advise(ts_sink *s, const ts_label_stats *l) {
    bool scope = l->class_rss_bytes[0][TS_COUNT_SCOPE] + l->class_rss_bytes[1][TS_COUNT_SCOPE] > rss_of(l) / 2;
    bool kept = l->active_freed < l->active_allocated / 2 && l->active_rss_bytes > l->closing_rss_bytes;
    if (kept && l->active_epochs >= MANY_EPOCHS) {
        if (!scope && live_of(l) > as_scopes(l) / 2)
            ts_put(s, "These epochs hold few objects, and a slab for each size class: open them with EPOCH_SCOPE.");
        else if (!scope && as_scopes(l) < rss_of(l) / 2)
            ts_put(s, "These epochs hold few objects, and a slab for each size class: open them with EPOCH_SCOPE, "
                      "which takes "
                      "one, and use one epoch for several of them.");
        else
            ts_put(s,
                   "These epochs hold few objects, and each takes 16 KiB at least: use one epoch for several of them.");
    } else if (scope && !kept && l->active_rss_bytes > l->closing_rss_bytes) {
        ts_put(
            s,
            "Objects are freed one by one in scope epochs, which use no place again before a whole slab is empty: open "
            "them with EPOCH_CHURN.");
    } else {
        ts_put(s,
               "Few objects have outlived their neighbours: move them into a domain of their own with slab_promote, or "
               "allocate what lives so long there.");
    }
}

static void sparse_slabs(ts_report *r, const ts_view *v) {
    const SlabGlobalStats *g = &v->global;
    uint64_t slabs = above(g->committed_bytes, g->retained_bytes), most = 0;
    const ts_label_stats *worst = NULL;
    if (slabs < ENOUGH_BYTES || g->live_bytes > slabs / 2 ||
        !ts_finding_begin(r, TS_INFO, slabs - g->live_bytes, "sparse_slabs"))
        return;
    ts_say(&r->what, "slabs in use are % empty", ts_w_percent(slabs - g->live_bytes, slabs));
    ts_say(&r->evidence, "% live in % of slabs", ts_w_size(g->live_bytes), ts_w_size(slabs));
    for (unsigned i = 0; i < v->label_rows; i++) {
        uint64_t waste = above(rss_of(&v->label[i]), live_of(&v->label[i]));
        if (waste <= most) continue;
        most = waste;
        worst = &v->label[i];
    }
    if (worst) {
        ts_say(&r->evidence, "; most of it `%`, % in %", ts_w_shown(ts_label_name(worst)), ts_w_size(most),
               ts_w_count(worst->active_epochs + worst->closing_epochs, "epoch", "epochs"));
        advise(&r->advice, worst);
    } else {
        ts_put(&r->advice, "What took them has ended meanwhile: look again.");
    }
    ts_finding_end(r);
}

void ts_doctor_costs(ts_report *r, const ts_view *v) {
    slow_paths(r, v);
    back_and_forth(r, &v->global);
    locks(r, &v->global);
    sparse_slabs(r, v);
}
