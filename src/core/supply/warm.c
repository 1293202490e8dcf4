/*
 * Warm units: slabs that hold nothing but whose memory is still there. Each share keeps a few (no lock for the
 * owner); what is more goes to the allocator; what exceeds the allocator's limit is purged (purge.h). Spans become runs (runs.h).
 *
 * What could go wrong: a unit is on two lists, or is handed out while a thread still frees an object of its last use.
 * It does not: a share's list is its thread's alone, the allocator's are changed under the warm lock, and a unit moves
 * between them under that lock. A unit on a queue of foreign frees is a zombie: it becomes warm when it is taken off
 * that queue.
 *
 * Units that a thread gives up one by one go to the allocator's list in groups of TS_WARM_UNITS_MOVED in a row, and whoever takes a
 * group reads the records of its first and its last unit only: the others are out of the caches, each a miss that the next waits
 * for. `prev` of a group's first unit is its last one, whose `prev` begins the next group, 0: none; warm_group is the
 * first. A list only ever changes at its head, so a group stays whole until its first unit is taken, and that is seen.
 */
/* Modelled in tests/model: exit. */
#include "base/bits.h"
#include "base/probe.h"
#include "cache/foreign.h"
#include "cache/piece.h"
#include "memtools/care.h"
#include "os/os.h"
#include "region/pool.h"
#include "slab/lent.h"
#include "supply/nodes.h"
#include "supply/purge.h"

#include <errno.h>

void ts_warm_push(ts_warm *warm, uint32_t unit) {
    ts_slab_at(unit)->next = warm->head;
    if (!warm->head) warm->tail = unit;
    warm->head = unit;
    ts_add_owned(&warm->count, 1);
}

void ts_warm_push_run(ts_warm *warm, uint32_t first, uint32_t count) {
    for (uint32_t i = count; i-- > 0;) {
        ts_slab_at(first + i)->touched = TS_SLAB_ALL_PAGES;
        ts_slab_at(first + i)->given = 0;
        ts_warm_push(warm, first + i);
    }
}

uint32_t ts_allocator_warm_pop(ts_allocator *allocator) {
    uint32_t unit = ts_warm_pop(&allocator->warm[TS_NORMAL]);
    if (unit && unit == allocator->warm_group)
        allocator->warm_group = ts_slab_at(ts_slab_at(unit)->prev)->prev; /* what is left of it is no group */
    return unit;
}

/* The first units of a list, of which it has more, come before another's. Owner of both lists. */
static void move_first(ts_warm *to, ts_warm *from, uint32_t last, uint32_t count) {
    ts_slab *slab = ts_slab_at(last);
    ts_warm first = {from->head, last, count};
    from->head = slab->next;
    ts_add_owned(&from->count, 0u - count);
    ts_warm_splice(to, &first);
}

/* The newest units of the share become a group. Their records are in the caches yet. Caller holds the heap. */
static void give_group(ts_share *share) {
    ts_allocator *allocator = share->allocator;
    ts_warm *from = &share->warm[TS_NORMAL];
    uint32_t first = from->head, last = first;
    for (unsigned i = 1; i < TS_WARM_UNITS_MOVED; i++) last = ts_slab_at(last)->next;
    ts_lock_acquire(&allocator->warm_lock);
    ts_slab_at(first)->prev = last;
    ts_slab_at(last)->prev = allocator->warm_group;
    allocator->warm_group = first;
    move_first(&allocator->warm[TS_NORMAL], from, last, TS_WARM_UNITS_MOVED);
    ts_lock_release(&allocator->warm_lock);
    ts_note_warm(allocator, TS_WARM_UNITS_MOVED);
}

/* true: the share has the first group now, if the list begins with one and has four as many units. Caller has the warm lock. */
static bool take_group(ts_allocator *allocator, ts_share *share) {
    ts_warm *from = &allocator->warm[TS_NORMAL];
    uint32_t first = from->head;
    if (first != allocator->warm_group || ts_load_relaxed(&from->count) < 4 * TS_WARM_UNITS_MOVED) return false;
    uint32_t last = ts_slab_at(first)->prev;
    allocator->warm_group = ts_slab_at(last)->prev;
    move_first(&share->warm[TS_NORMAL], from, last, TS_WARM_UNITS_MOVED);
    __builtin_prefetch(ts_slab_at(from->head)); /* of the next group, most likely */
    return true;
}

void ts_share_overflow(ts_share *share, unsigned part) {
    ts_allocator *allocator = share->allocator;
    uint32_t most = allocator->settings.reclaim_policy == SLAB_RECLAIM_AT_ONCE ? 0 : TS_LOCAL_WARM_UNITS;
    if (ts_load_relaxed(&share->warm[part].count) <= most) return;
    uint32_t added = ts_load_relaxed(&share->warm[part].count);
    ts_lock_acquire(&allocator->warm_lock);
    ts_warm_splice(&allocator->warm[part], &share->warm[part]);
    ts_lock_release(&allocator->warm_lock);
    ts_note_warm(allocator, added);
}

void ts_note_warm(ts_allocator *allocator, uint64_t added) {
    if (!ts_purge_is_over(allocator)) return;
    if (ts_thread.settle != allocator) ts_thread.settle_units = 0; /* of the other its later calls take care */
    ts_thread.settle = allocator;
    ts_thread.settle_token = ts_load_relaxed(&allocator->token);
    ts_thread.settle_units += 2 * added;
}

void ts_settle_now(uint64_t purge_units) {
    /* Draining can leave further notes: slabs that are passed on to another heap, units over the limit. */
    while (ts_thread.drain) {
        ts_heap *heap = ts_thread.drain;
        bool others = ts_thread.drain_others;
        ts_thread.drain = NULL;
        ts_thread.drain_others = false;
        if (others)
            ts_foreign_drain_for_all();
        else
            ts_foreign_drain_for(heap);
    }
    ts_allocator *allocator = ts_thread.settle;
    if (!allocator) return;
    ts_thread.settle = NULL;
    uint64_t owed = ts_thread.settle_units;
    ts_thread.settle_units = 0;
    /* Noted by an earlier call, perhaps: the allocator can have ended since. */
    if (!ts_allocator_pin_use(allocator, ts_thread.settle_token)) return;
    uint64_t left;
    if (purge_units == TS_PURGE_STEP) {
        left = ts_allocator_settle_step(allocator, owed);
    } else {
        uint64_t given = ts_allocator_settle(allocator, purge_units);
        left = given == 0 || given > owed ? 0 : owed - given; /* 0: below the limit meanwhile, or refused */
    }
    if (left > 0 && !ts_thread.settle) {
        ts_thread.settle = allocator;
        ts_thread.settle_units = left;
    }
    ts_allocator_unpin(allocator);
}

void ts_share_keep(ts_share *share, uint32_t unit) {
    ts_thread.released++;
    if (TS_LIKELY(ts_nodes_keeps(share, unit))) {
        ts_warm_push(&share->warm[TS_NORMAL], unit);
    } else {
        ts_lock_acquire(&share->allocator->warm_lock);
        ts_warm_push(&share->allocator->warm[TS_NORMAL], unit);
        ts_lock_release(&share->allocator->warm_lock);
        ts_note_warm(share->allocator, 1);
    }
    TS_PROBE2(slab__recycle, ts_unit_address(unit), (uint64_t)1);
    if (share->allocator->settings.reclaim_policy == SLAB_RECLAIM_AT_ONCE)
        ts_share_overflow(share, TS_NORMAL);
    else if (ts_load_relaxed(&share->warm[TS_NORMAL].count) > TS_LOCAL_WARM_UNITS)
        give_group(share);
}

/* Who drains holds a heap: no system call here, the units become warm like any others. */
void ts_zombie_give(uint32_t unit) {
    if (ts_is_piece(unit)) {
        ts_piece_give_zombie(unit);
        return;
    }
    ts_allocator *allocator = ts_table_at(&ts_allocators, ts_slab_at(unit)->allocator);
    uint32_t units = ts_slab_units(ts_slab_at(unit));
    ts_lock_acquire(&allocator->warm_lock);
    if (units > 1)
        ts_runs_give(allocator, unit, units);
    else
        ts_warm_push(&allocator->warm[TS_NORMAL], unit);
    ts_lock_release(&allocator->warm_lock);
    ts_note_warm(allocator, units);
    ts_allocator_unpin(allocator);
}

/* ---- acquire -------------------------------------------------------------------------------------- */

uint64_t ts_allocator_budget_units(const ts_allocator *allocator) {
    uint64_t bytes = ts_load_relaxed(&allocator->budget_bytes);
    return bytes == 0 ? 0 : bytes < TS_UNIT_BYTES ? 1 : bytes / TS_UNIT_BYTES;
}

bool ts_allocator_is_sparing(const ts_allocator *allocator) {
    uint64_t budget = ts_allocator_budget_units(allocator);
    bool near = budget != 0 && ts_load_relaxed(&allocator->committed_units) + TS_WARM_UNITS_MOVED > budget;
    return near || allocator->settings.reclaim_policy == SLAB_RECLAIM_AT_ONCE;
}

bool ts_commit_within_budget(ts_allocator *allocator, uint64_t units) {
    uint64_t budget = ts_allocator_budget_units(allocator);
    if (budget == 0) {
        ts_fetch_add_relaxed(&allocator->committed_units, units);
        return true;
    }
    uint64_t before = ts_load_relaxed(&allocator->committed_units);
    do {
        if (units > budget || before > budget - units) return false;
    } while (!atomic_compare_exchange_weak_explicit(&allocator->committed_units, &before, before + units,
                                                    memory_order_relaxed, memory_order_relaxed));
    return true;
}

/* From the pool, within the budget. Units come with UNIT word 0. */
static uint32_t take_within_budget(ts_allocator *allocator, unsigned part, unsigned home, uint32_t units,
                                   uint32_t align) {
    uint64_t weight = part == TS_FAR ? (uint64_t)units << TS_FAR_WEIGHT_SHIFT : units;
    if (!ts_commit_within_budget(allocator, weight)) return 0;
    uint32_t first = part == TS_FAR ? ts_pool_take(part, units, align) : ts_pool_take_of(home, units, align);
    if (!first) {
        ts_uncommit(allocator, weight);
        return 0;
    }
    ts_slab_at(first)->allocator = ts_allocator_index(allocator);
    ts_fetch_add_relaxed(&allocator->taken_units, weight);
    ts_nodes_count(allocator, ts_home_of(first), weight);
    return first;
}

/* When it does not fit, or the system has no memory, what is warm goes back first, then what this thread's bins keep. */
static uint32_t take_fresh(ts_allocator *allocator, unsigned part, unsigned home, uint32_t units, uint32_t align) {
    uint32_t first = take_within_budget(allocator, part, home, units, align);
    for (unsigned pass = 0; !first && pass < 2; pass++) {
        if (pass > 0 && (!ts_thread.heap || !ts_heap_flush_bins(ts_thread.heap, allocator))) break;
        ts_allocator_trim(allocator, 0);
        first = take_within_budget(allocator, part, home, units, align);
    }
    if (!first) errno = ENOMEM;
    return first;
}

void ts_allocator_retire(ts_allocator *allocator, uint32_t unit) {
    ts_purge_run(allocator, unit, 1, false);
    ts_uncommit_of(allocator, ts_home_of(unit), ts_units_weight(unit, 1));
}

/* Some of the allocator's warm units become the share's: a group, or an eighth of them and one more, so that other threads find some
   too; one where a thread keeps none, and near the budget, where what it keeps may be all that another could have. Where they are no
   group each one's record is read under the lock, which whoever uses it reads soon. Where no single ones are warm a piece of a run
   is taken. Caller holds the heap. */
static void take_shared(ts_share *share) {
    const unsigned part = TS_NORMAL;
    ts_allocator *allocator = share->allocator;
    ts_warm *from = &allocator->warm[part], *to = &share->warm[part];
    if ((ts_load_relaxed(&from->count) | ts_load_relaxed(&allocator->span_warm_units)) == 0) return;
    uint32_t most = ts_allocator_is_sparing(allocator) ? 1 : TS_WARM_UNITS_MOVED, unit;
    ts_lock_acquire(&allocator->warm_lock);
    if (ts_load_relaxed(&from->count) == 0) {
        unit = ts_runs_take(allocator, TS_NORMAL, TS_HOME_ANY, most);
        if (!unit && most > 1) unit = ts_runs_take(allocator, TS_NORMAL, TS_HOME_ANY, most = 1);
        if (unit) ts_warm_push_run(to, unit, most);
        ts_retain_note(&allocator->retain, ts_warm_shared(allocator));
        ts_lock_release(&allocator->warm_lock);
        return;
    }
    if (most < TS_WARM_UNITS_MOVED || !take_group(allocator, share)) {
        uint32_t some = ts_load_relaxed(&from->count) / 8 + 1;
        for (uint32_t n = some < most ? some : most; n > 0 && (unit = ts_allocator_warm_pop(allocator)) != 0; n--) {
            ts_warm_push(to, unit);
            if (from->head == allocator->warm_group) break; /* it stays whole */
        }
    }
    ts_retain_note(&allocator->retain, ts_warm_shared(allocator));
    ts_lock_release(&allocator->warm_lock);
}

uint32_t ts_unit_acquire(ts_heap *heap, ts_share *share, unsigned home, bool *fresh) {
    uint32_t unit = TS_UNLIKELY(home != TS_HOME_ANY) ? ts_nodes_take(heap, share, home) : 0;
    bool more = home == TS_HOME_ANY;
    while (!unit && more) { /* each round in an operation of its own: those it takes may all be on queues yet */
        ts_heap_enter(heap);
        unit = ts_share_take(share, TS_NORMAL);
        if (!unit) {
            take_shared(share);
            unit = ts_share_take(share, TS_NORMAL);
        }
        more = ts_load_relaxed(&share->allocator->warm[TS_NORMAL].count) != 0;
        ts_heap_leave(heap);
    }
    *fresh = unit == 0;
    if (unit) return unit;
    unit = take_fresh(share->allocator, TS_NORMAL, home, 1, 1);
    if (!unit) return 0;
    ts_slab_at(unit)->touched = ts_slab_at(unit)->given = 0;
    if (TS_UNLIKELY(share->allocator->care)) ts_care_fill(share->allocator->care, ts_unit_address(unit), TS_UNIT_BYTES);
    return unit;
}

TS_ALWAYS_INLINE void keep_run(ts_allocator *allocator, uint32_t first, uint32_t units) {
    ts_lock_acquire(&allocator->warm_lock);
    ts_runs_give(allocator, first, units);
    ts_lock_release(&allocator->warm_lock);
    ts_note_warm(allocator, ts_units_weight(first, units));
}

/* A run, or one that is half as long and the free units behind it: what went back piece by piece lies between what is warm. */
static uint32_t take_warm_span(ts_allocator *allocator, unsigned part, unsigned home, uint32_t units) {
    uint32_t unit, length = 0;
    if (ts_load_relaxed(&allocator->span_warm_units) < units / 2) return 0;
    ts_lock_acquire(&allocator->warm_lock);
    unit = ts_runs_take(allocator, part, home, units);
    bool whole = unit != 0;
    if (!whole && units > 1) unit = ts_runs_take_longest(allocator, part, home, (units + 1) / 2, units, &length);
    ts_retain_note(&allocator->retain, ts_warm_shared(allocator));
    ts_lock_release(&allocator->warm_lock);
    if (whole || !unit) return unit;
    uint64_t weight = ts_units_weight(unit, units - length);
    if (ts_commit_within_budget(allocator, weight)) {
        if (ts_pool_take_at(unit + length, units - length, units)) {
            ts_fetch_add_relaxed(&allocator->taken_units, weight);
            ts_nodes_count(allocator, ts_home_of(unit + length), weight);
            if (TS_UNLIKELY(allocator->care))
                ts_care_fill(allocator->care, ts_unit_address(unit + length), ts_units_bytes(unit, units - length));
            return unit;
        }
        ts_uncommit(allocator, weight);
    }
    ts_lock_acquire(&allocator->warm_lock);
    ts_runs_give(allocator, unit, length);
    ts_lock_release(&allocator->warm_lock);
    return 0;
}

/* ---- spans that a thread keeps ---------------------------------------------------------------------------- */

/* Of `units` units, or of up to `most`: *units then. */
static uint32_t take_span(ts_share *share, uint32_t *units, uint32_t most) {
    if (ts_load_relaxed(&share->span_units) < *units) return 0;
    for (uint32_t n = *units; n <= most; n++) {
        uint32_t unit = share->spans[n];
        if (!unit) continue;
        share->spans[n] = ts_slab_at(unit)->next;
        ts_add_owned(&share->span_units, 0u - n);
        *units = n;
        return unit;
    }
    return 0;
}

uint32_t ts_share_take_span(ts_share *share, uint32_t units) {
    uint32_t unit = take_span(share, &units, units);
    if (unit) ts_slab_at(unit)->allocator = ts_allocator_index(share->allocator); /* as in ts_share_take */
    return unit;
}

/* The share's are of share->home. */
static bool may_take_span(const ts_share *share, unsigned home) { return home == TS_HOME_ANY || share->home == home; }

static uint32_t take_own_span(ts_share *share, uint32_t *units) {
    uint32_t most = *units + *units / 8;
    if (most > TS_LOCAL_SPAN_UNITS) most = TS_LOCAL_SPAN_UNITS;
    if (*units > most || ts_load_relaxed(&share->span_units) < *units) return 0;
    ts_heap_enter(ts_thread.heap);
    uint32_t unit = take_span(share, units, most);
    ts_heap_leave(ts_thread.heap);
    return unit;
}

/* false: it has enough of them, or no thread is to keep any. Caller holds the heap. */
static bool keep_span(ts_share *share, uint32_t unit, uint32_t units) {
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
    keep_run(share->allocator, unit, units);
}

/* Caller has the warm lock, and holds the heap. */
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

/* ---- slabs ------------------------------------------------------------------------------------------------ */

/* The others are as good as new. */
void ts_slab_retire(ts_allocator *allocator, uint32_t unit, uint32_t units) {
    ts_allocator_retire(allocator, unit);
    if (units > 1) ts_purge_span(allocator, unit + 1, units - 1);
}

/* As a span is got: not for an allocator with care, whose large objects are spans. */
static uint32_t acquire_large(ts_heap *heap, ts_share *share, unsigned cls, unsigned home, bool *fresh) {
    ts_allocator *allocator = share->allocator;
    uint32_t units = ts_class_units(cls);
    for (;;) {
        ts_heap_enter(heap);
        uint32_t unit = may_take_span(share, home) ? ts_share_take_span(share, units) : 0;
        ts_heap_leave(heap);
        if (!unit) unit = take_warm_span(allocator, TS_NORMAL, home, units);
        *fresh = unit == 0;
        if (!unit) unit = take_fresh(allocator, TS_NORMAL, home, units, 1);
        if (!unit) return 0;
        ts_slab_at(unit)->allocator = ts_allocator_index(allocator);
        if (ts_slab_reset_churn(unit, cls)) return unit;
        ts_slab_retire(allocator, unit, units);
    }
}

uint32_t ts_slab_acquire_churn(ts_heap *heap, ts_share *share, unsigned cls, unsigned home, bool *fresh) {
    if (ts_class_units(cls) > 1) return acquire_large(heap, share, cls, home, fresh);
    for (;;) {
        uint32_t unit = ts_unit_acquire(heap, share, home, fresh);
        if (unit && ts_class_is_fine(cls) && !ts_region_commit_fine(unit)) {
            ts_heap_enter(heap);
            ts_share_keep(share, unit);
            ts_heap_leave(heap);
            ts_settle_pending();
            errno = ENOMEM;
            return 0;
        }
        if (!unit || ts_slab_reset_churn(unit, cls)) return unit;
        ts_allocator_retire(share->allocator, unit);
    }
}

uint32_t ts_slab_acquire_scope(ts_heap *heap, ts_share *share, unsigned home, bool *fresh) {
    for (;;) {
        uint32_t unit = ts_unit_acquire(heap, share, home, fresh);
        if (!unit || ts_slab_reset_scope(unit)) return unit;
        ts_allocator_retire(share->allocator, unit);
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
        bool own = align_units == 1 && share && part == TS_NORMAL && may_take_span(share, home);
        uint32_t unit = own ? take_own_span(share, &units) : 0;
        if (!unit && align_units == 1) unit = take_warm_span(allocator, part, home, units);
        size_t written = TS_CARE_CLEAN;
        *fresh = false;
        if (!unit) {
            unit = take_fresh(allocator, part, home, units, align_units);
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
    ts_lock_acquire(&allocator->warm_lock);
    *fresh = !ts_runs_take_at(allocator, first, units);
    ts_retain_note(&allocator->retain, ts_warm_shared(allocator));
    ts_lock_release(&allocator->warm_lock);
    if (!*fresh) return true;
    uint64_t weight = ts_units_weight(first, units);
    if (!ts_commit_within_budget(allocator, weight)) return false;
    if (ts_pool_take_at(first, units, whole)) {
        ts_nodes_count(allocator, ts_home_of(first), weight);
        return true;
    }
    ts_uncommit(allocator, weight);
    return false;
}

void ts_span_give_behind(ts_allocator *allocator, uint32_t first, uint32_t units, bool fresh) {
    if (!fresh) {
        keep_run(allocator, first, units);
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
    if (total > ts_region.part[part].units) {
        errno = ENOMEM;
        return 0;
    }
    for (;;) {
        uint32_t first = take_fresh(allocator, part, home, (uint32_t)total, before), unit = first + before;
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
        /* Linux makes one mapping again of those that a change of protection has split if their pages were first written
           to while they were one (they have the same anon_vma then). So one page is, before the guards are there: the
           object's first, which is written to anyway. Without it each span that was written to is a mapping for good. */
        (void)ts_os->populate(at, ts_os_page_bytes());
        if (ts_os->protect(ts_unit_address(first), ts_part_bytes(part, before)) &&
            ts_os->protect(at + bytes, (size_t)(end - (at + bytes))))
            return unit;
        ts_purge_guarded(allocator, unit);
        errno = ENOMEM;
        return 0;
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
    keep_run(allocator, unit, units);
}

void ts_span_release_bare(ts_allocator *allocator, uint32_t unit, uint32_t units) {
    ts_uncommit_of(allocator, ts_home_of(unit), ts_units_weight(unit, units));
    ts_pool_give(unit, units);
}

static bool populate_pages(void *at, size_t bytes) {
    size_t page = ts_os_page_bytes();
    uintptr_t from = (uintptr_t)ts_align_down((uintptr_t)at, page);
    return ts_os->populate((void *)from, (uintptr_t)ts_align_up((uintptr_t)at + bytes, page) - from);
}

/* Units, and what is written of them when they become slabs that are not FINE. */
static bool populate(uint32_t first, uint32_t units) {
    const ts_part *part = &ts_region.part[TS_NORMAL];
    size_t granules = TS_STATES_COARSE;
    return populate_pages(ts_unit_address(first), units * (size_t)TS_UNIT_BYTES) &&
           populate_pages((void *)ts_unit_states(first, false), units * granules * sizeof(uint16_t)) &&
           populate_pages((void *)&part->unit[first], units * sizeof *part->unit);
}

bool ts_allocator_reserve(ts_allocator *allocator, uint64_t units) {
    if (units > ts_region.part[TS_NORMAL].units) { /* there is nowhere for so much: nothing is populated in vain */
        errno = ENOMEM;
        return false;
    }
    uint32_t most = TS_PURGE_BATCH;
    unsigned home = ts_nodes_wanted(allocator, NULL, NULL); /* that of the caller */
    while (units > 0) {
        uint32_t n = units > most ? most : (uint32_t)units;
        uint32_t first = take_within_budget(allocator, TS_NORMAL, home, n, 1);
        if (!first) {
            if (n == 1) {
                errno = ENOMEM;
                return false;
            }
            most = n / 2; /* what can be had is kept */
            continue;
        }
        bool populated = populate(first, n);
        if (TS_UNLIKELY(allocator->care))
            ts_care_fill(allocator->care, ts_unit_address(first), n * (size_t)TS_UNIT_BYTES);
        ts_fetch_add_relaxed(&allocator->reserved_units, n);
        ts_lock_acquire(&allocator->warm_lock);
        ts_warm_push_run(&allocator->warm[TS_NORMAL], first, n);
        ts_lock_release(&allocator->warm_lock);
        if (!populated) {
            errno = ENOMEM;
            return false;
        }
        units -= n;
    }
    return true;
}
