/*
 * Spans: units in a row for one large object, and slabs of several units, which come and go as spans do.
 *
 * A thread retains short spans itself, by length. The others become runs of the allocator (runs.h).
 */
#include "supply/span.h"
#include "base/base.h"

#include "memtools/memtools.h"
#include "os/os.h"
#include "region/region.h"
#include "slab/slab.h"
#include "supply/nodes.h"
#include "supply/purge.h"
#include "supply/retained.h"

void ts_run_keep(ts_allocator *allocator, uint32_t first, uint32_t units) {
    ts_runs_return(allocator, first, units);
    ts_note_retained(allocator, ts_units_weight(first, units));
}

/* Takes free units behind others, within the budget. whole: units of the span with them. */
static bool take_behind(ts_allocator *allocator, uint32_t first, uint32_t units, uint32_t whole) {
    uint64_t weight = ts_units_weight(first, units);
    if (!ts_commit_within_budget(allocator, weight)) return false;
    if (!ts_pool_take_at(first, units, whole)) {
        ts_uncommit(allocator, weight);
        return false;
    }
    ts_note_fresh(allocator, weight);
    ts_nodes_count(allocator, ts_home_of(first), weight);
    return true;
}

/*
 * A ROW is made of retained runs and, between and behind them, free units of the pool: units that went back lie among
 * retained ones.
 */
#define ROW_GAPS 8u   /* rows of units of the pool in it */
#define ROW_LOOKS 16u /* runs that are tried as its first */

typedef struct span_row {
    uint32_t first, retained; /* of its units so many are retained */
    uint32_t gaps;
    ts_range gap[ROW_GAPS];
} span_row;

/* The row of `units` units that begins with a run. false: there is none. Caller has the retained lock. */
static bool find_row(const ts_extents *runs, uint32_t first, uint32_t units, span_row *row) {
    row->first = first;
    row->retained = row->gaps = 0;
    for (uint32_t at = first, left = units, length; left > 0; at += length, left -= length) {
        length = ts_extent_behind(runs, at);
        bool retained = length != 0;
        if (!retained) length = row->gaps < ROW_GAPS ? ts_pool_free_at(at) : 0;
        if (length == 0) return false;
        if (length > left) length = left;
        if (retained)
            row->retained += length;
        else
            row->gap[row->gaps++] = (ts_range){at, length};
    }
    return true;
}

/* The row with the most retained units, half of them at least, of those that begin with the newest runs. false: there
   is none. Caller has the retained lock. */
static bool find_best_row(ts_allocator *allocator, unsigned part, unsigned home, uint32_t units, span_row *best) {
    const ts_extents *runs = ts_runs_of(allocator, part, home);
    uint32_t first = allocator->ages.newest;
    best->retained = units / 2;
    for (unsigned looks = 0; first && looks < ROW_LOOKS; first = ts_region.run[first].older, looks++) {
        span_row row;
        /* The sets of both parts have one number. */
        if (ts_part_of_unit(first) == part && ts_extent_at(runs, first) && find_row(runs, first, units, &row) &&
            row.retained > best->retained)
            *best = row;
    }
    return best->retained > units / 2;
}

/* The retained units of a row become the caller's. It has the retained lock. */
static void take_runs_of(ts_allocator *allocator, const span_row *row, uint32_t units) {
    uint32_t at = row->first;
    for (uint32_t i = 0; i <= row->gaps; i++) {
        uint32_t end = i < row->gaps ? row->gap[i].first : row->first + units;
        if (end > at) (void)ts_runs_take_at(allocator, row->first, at, end - at);
        if (i < row->gaps) at = end + row->gap[i].count;
    }
}

/* A row of which some gaps are missing, the first of them number `missing`, becomes runs. */
static void give_row(ts_allocator *allocator, const span_row *row, uint32_t missing, uint32_t units) {
    uint32_t at = row->first;
    for (uint32_t i = missing; i < row->gaps; at = row->gap[i].first + row->gap[i].count, i++)
        if (row->gap[i].first > at) ts_runs_return(allocator, at, row->gap[i].first - at);
    if (row->first + units > at) ts_runs_return(allocator, at, row->first + units - at);
}

/* Takes a run, or a row. */
static uint32_t take_retained_span(ts_allocator *allocator, unsigned part, unsigned home, uint32_t units) {
    span_row row = {0};
    if (ts_load_relaxed(&allocator->span_retained_units) < units / 2) return 0;
    ts_lock_acquire(&allocator->retained_lock);
    uint64_t before = ts_retained_shared(allocator);
    uint32_t unit = ts_runs_take(allocator, part, home, units);
    if (!unit && units > 1 && find_best_row(allocator, part, home, units, &row)) {
        unit = row.first;
        take_runs_of(allocator, &row, units);
    }
    ts_note_reused(allocator, before);
    ts_lock_release(&allocator->retained_lock);
    for (uint32_t i = 0; i < row.gaps && unit; i++) {
        ts_range gap = row.gap[i];
        if (take_behind(allocator, gap.first, gap.count, units)) {
            if (TS_UNLIKELY(allocator->care))
                ts_care_fill(allocator->care, ts_unit_address(gap.first), ts_units_bytes(gap.first, gap.count));
            continue;
        }
        give_row(allocator, &row, i, units);
        unit = 0;
    }
    return unit;
}

/* ---- spans that a thread retains -------------------------------------------------------------------------- */

uint32_t ts_share_take_span(ts_share *share, uint32_t units) {
    uint32_t unit = units <= TS_LOCAL_SPAN_UNITS ? share->spans[units] : 0;
    if (!unit) return 0;
    share->spans[units] = ts_slab_at(unit)->next;
    ts_add_owned(&share->span_units, 0u - units);
    ts_slab_at(unit)->allocator = ts_allocator_index(share->allocator); /* as in ts_share_take */
    return unit;
}

/* The spans that a share retains are of share->home. */
static uint32_t take_own_span(ts_share *share, unsigned home, uint32_t units) {
    if (home != TS_HOME_ANY && share->home != home) return 0;
    ts_heap_enter(ts_thread.heap);
    uint32_t unit = ts_share_take_span(share, units);
    ts_heap_leave(ts_thread.heap);
    return unit;
}

/* false: it has enough of them, or no thread is to keep any. Caller holds the heap. */
TS_ALWAYS_INLINE bool keep_span(ts_share *share, uint32_t unit, uint32_t units) {
    if (units > TS_LOCAL_SPAN_UNITS || ts_load_relaxed(&share->span_units) + units > TS_LOCAL_SPANS_UNITS ||
        share->heap->keeps_nothing || ts_allocator_is_sparing(share->allocator) || !ts_nodes_keeps(share, unit))
        return false;
    ts_slab_at(unit)->next = share->spans[units];
    share->spans[units] = unit;
    ts_add_owned(&share->span_units, units);
    return true;
}

static bool keep_own_span(ts_share *share, uint32_t unit, uint32_t units) {
    ts_heap_enter(ts_thread.heap);
    bool kept = keep_span(share, unit, units);
    ts_heap_leave(ts_thread.heap);
    return kept;
}

void ts_share_keep_slab(ts_share *share, uint32_t unit, uint32_t units) {
    if (units == 1) {
        ts_share_keep(share, unit);
        return;
    }
    TS_PROBE2(slab__recycle, ts_unit_address(unit), (uint64_t)units);
    if (keep_span(share, unit, units)) return;
    ts_thread.released += units;
    ts_run_keep(share->allocator, unit, units);
}

/* Caller has the retained lock, and holds the heap. */
uint32_t ts_share_give_spans(ts_share *share) {
    uint32_t sum = ts_load_relaxed(&share->span_units);
    for (uint32_t units = 1, unit; sum > 0 && units <= TS_LOCAL_SPAN_UNITS; units++) {
        while ((unit = share->spans[units]) != 0) {
            share->spans[units] = ts_slab_at(unit)->next;
            ts_runs_give(share->allocator, unit, units);
        }
    }
    ts_store_relaxed(&share->span_units, 0);
    return sum;
}

/* ---- slabs of several units ----------------------------------------------------------------------------- */

uint32_t ts_slab_acquire_large(ts_share *share, unsigned cls, unsigned home, bool *fresh) {
    ts_allocator *allocator = share->allocator;
    uint32_t units = ts_class_units(cls);
    for (;;) {
        uint32_t unit = take_own_span(share, home, units);
        if (!unit) unit = take_retained_span(allocator, TS_NORMAL, home, units);
        *fresh = unit == 0;
        if (!unit) unit = ts_units_take_fresh(allocator, TS_NORMAL, home, units, 1);
        if (!unit) return 0;
        if (*fresh) ts_huge_note_loose(units);
        ts_slab_at(unit)->allocator = ts_allocator_index(allocator);
        if (ts_slab_reset_churn(unit, cls)) return unit;
        ts_slab_retire(allocator, unit, units);
    }
}

/* ---- spans ------------------------------------------------------------------------------------------------ */

static void fill_record(uint32_t unit, uint32_t units, uint32_t guard, uint64_t bytes, size_t written) {
    ts_slab *slab = ts_slab_at(unit);
    slab->u.span.units = units;
    slab->u.span.guard = guard;
    ts_store_relaxed(&slab->u.span.bytes, bytes);
    ts_store_relaxed(&slab->u.span.with_epoch, 0);
    slab->u.span.written = written == TS_CARE_CLEAN ? 0 : (uint32_t)written + 1;
}

unsigned ts_span_part_of_large(const ts_allocator *allocator) {
    /* Memory tools are told of places of the NORMAL part only (origin.h); and only that has homes. */
    bool near = (allocator->care && ts_care_tools) || ts_nodes_of(allocator);
    return near ? TS_NORMAL : TS_FAR;
}

uint32_t ts_span_acquire(ts_allocator *allocator, ts_share *share, unsigned part, unsigned home, uint32_t units,
                         uint32_t align_units, bool *fresh) {
    for (;;) {
        bool own = align_units == 1 && share && part == TS_NORMAL;
        uint32_t unit = own ? take_own_span(share, home, units) : 0;
        if (!unit && align_units == 1) unit = take_retained_span(allocator, part, home, units);
        size_t written = TS_CARE_CLEAN;
        *fresh = false;
        if (!unit) {
            unit = ts_units_take_fresh(allocator, part, home, units, align_units);
            if (unit && part == TS_NORMAL) ts_huge_note_loose(units);
            *fresh = ts_pool_is_zero();
        } else if (TS_UNLIKELY(allocator->care)) {
            written = ts_care_check(allocator->care, ts_unit_address(unit), ts_units_bytes(unit, units));
        }
        if (!unit) return 0;
        if (ts_slab_reset_span(unit)) {
            fill_record(unit, units, 0, ts_units_bytes(unit, units), written);
            return unit;
        }
        ts_slab_retire(allocator, unit, units);
    }
}

bool ts_span_acquire_behind(ts_allocator *allocator, uint32_t first, uint32_t units, uint32_t whole, bool *fresh) {
    ts_lock_acquire(&allocator->retained_lock);
    uint64_t before = ts_retained_shared(allocator);
    *fresh = !ts_runs_take_at(allocator, first - 1, first, units);
    ts_note_reused(allocator, before);
    ts_lock_release(&allocator->retained_lock);
    return !*fresh || take_behind(allocator, first, units, whole);
}

void ts_span_give_behind(ts_allocator *allocator, uint32_t first, uint32_t units, bool fresh) {
    if (!fresh) {
        ts_run_keep(allocator, first, units);
        return;
    }
    ts_uncommit_of(allocator, ts_home_of(first), ts_units_weight(first, units));
    ts_pool_give(first, units);
}

/* A unit or a page, whichever is more. */
static uint32_t guard_units(unsigned part) {
    size_t page = ts_os_page_bytes(), unit = ts_part_bytes(part, 1);
    return page <= unit ? 1 : (uint32_t)(page / unit);
}

uint64_t ts_span_guarded_units(unsigned part, uint32_t units, uint32_t align_units) {
    uint32_t behind = guard_units(part), before = align_units > behind ? align_units : behind;
    return (uint64_t)before + ts_align_up(units, behind) + behind;
}

uint32_t ts_span_acquire_guarded(ts_allocator *allocator, unsigned part, unsigned home, uint32_t units,
                                 uint32_t align_units, size_t size, bool *fresh) {
    uint32_t behind = guard_units(part), before = align_units > behind ? align_units : behind;
    uint64_t total = ts_span_guarded_units(part, units, align_units);
    if (total > ts_region.part[part].units) return ts_fail(ENOMEM);
    for (;;) {
        uint32_t first = ts_units_take_fresh(allocator, part, home, (uint32_t)total, before), unit = first + before;
        *fresh = ts_pool_is_zero();
        if (!first) return 0;
        if (!ts_slab_reset_span(unit)) {
            ts_allocator_retire(allocator, unit);
            ts_purge_span(allocator, first, before);
            ts_purge_span(allocator, unit + 1, (uint32_t)total - before - 1);
            continue;
        }
        size_t bytes = ts_align_up(size > 0 ? size : 1, ts_os_page_bytes());
        char *at = ts_unit_address(unit), *end = ts_unit_address(first) + ts_part_bytes(part, total);
        fill_record(unit, (uint32_t)total, before, bytes, TS_CARE_CLEAN);
        /* A change of protection splits a mapping. Linux joins the parts again only if their pages were first written
           to while they were one mapping (they have the same anon_vma then). So one page is written to before the
           guards are there: the object's first, which the program writes to anyway. Else each such span would stay a
           mapping for good. */
        (void)ts_os->populate(at, ts_os_page_bytes());
        if (ts_os->protect(ts_unit_address(first), ts_part_bytes(part, before)) &&
            ts_os->protect(at + bytes, (size_t)(end - (at + bytes))))
            return unit;
        ts_purge_guarded(allocator, unit);
        return ts_fail(ENOMEM);
    }
}

void ts_span_release(ts_allocator *allocator, ts_share *share, uint32_t unit, uint32_t units) {
    if (TS_UNLIKELY(ts_is_lent(unit)) && ts_take_lent(unit)) return; /* the spill's now */
    if (ts_slab_at(unit)->u.span.guard) {
        ts_purge_guarded(allocator, unit);
        return;
    }
    if (allocator->settings.reclaim_policy == SLAB_RECLAIM_AT_ONCE) {
        ts_purge_span(allocator, unit, units);
        return;
    }
    if (TS_UNLIKELY(allocator->care)) ts_care_fill(allocator->care, ts_unit_address(unit), ts_units_bytes(unit, units));
    bool far = ts_part_of_unit(unit) == TS_FAR;
    if (share && !far && TS_LIKELY(keep_own_span(share, unit, units))) return;
    ts_thread.released += ts_units_weight(unit, units);
    ts_run_keep(allocator, unit, units);
}

void ts_span_release_bare(ts_allocator *allocator, uint32_t unit, uint32_t units) {
    ts_uncommit_of(allocator, ts_home_of(unit), ts_units_weight(unit, units));
    ts_pool_give(unit, units);
}
