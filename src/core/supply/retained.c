/*
 * Retained units: slabs without an object whose memory is still there. Each share keeps a few, without a
 * lock for the owner. The others go to the allocator. Units beyond the allocator's limit are purged (purge.h). Spans
 * become runs (runs.h).
 *
 * What could go wrong: a unit is on two lists, or is handed out while a thread still frees an object of its last use.
 * It is not. A share's list is its thread's alone. The allocator's lists are changed under the retained lock, and a
 * unit moves between the two under that lock. A unit on a queue of cross-thread frees is a zombie, and is retained when
 * it comes off that queue.
 *
 * Units that a thread gives up one by one go to the allocator's list in groups of TS_RETAINED_UNITS_MOVED. A thread
 * that takes a group reads only the records of its first and its last unit. The others are out of the caches, and each
 * would be a miss for which the next waits. `prev` of a group's first unit is its last one, whose `prev` is the first
 * of the next group, 0: none. retained_group is the first of all. A list changes only at its head. So a group stays
 * whole until its first unit is taken, which the taker sees.
 */
#include "supply/retained.h"
#include "base/base.h"

#include "memtools/memtools.h"
#include "os/os.h"
#include "region/region.h"
#include "supply/nodes.h"
#include "supply/piece.h"
#include "supply/purge.h"
#include "supply/span.h"

#include <errno.h>

#define RESERVE_LEAVES ((uint64_t)4 << 20) /* bytes of the process's room that a reserve does not take */
#define HOME_LOOKS 4u                      /* rounds of a look for a unit of a home */
#define POPULATED_FROM 512u                /* units, 8 MiB */
#define SORT_UNITS 64u                     /* single units that become runs in each */

void ts_retained_push(ts_retained *retained, uint32_t unit) {
    ts_slab_at(unit)->next = retained->head;
    if (!retained->head) retained->tail = unit;
    retained->head = unit;
    ts_add_owned(&retained->count, 1);
}

void ts_retained_push_run(ts_retained *retained, uint32_t first, uint32_t count) {
    for (uint32_t i = count; i-- > 0;) {
        ts_slab_at(first + i)->given = 0;
        ts_retained_push(retained, first + i);
    }
}

uint32_t ts_allocator_retained_pop(ts_allocator *allocator) {
    uint32_t unit = ts_retained_pop(&allocator->retained);
    if (unit && unit == allocator->retained_group)
        allocator->retained_group = ts_slab_at(ts_slab_at(unit)->prev)->prev; /* the rest of it is no group */
    return unit;
}

void ts_note_reused(ts_allocator *allocator, uint64_t before) {
    uint64_t retained = ts_retained_shared(allocator);
    ts_retain_note(&allocator->retain, retained, before - retained);
}

void ts_note_fresh(ts_allocator *allocator, uint64_t units) {
    ts_fetch_add_relaxed(&allocator->taken_units, units);
    ts_retain_subtract(&allocator->retain, ts_retained_shared(allocator), units);
}

/* Moves the first `count` units of a list, which has more, before another's. Owner of both lists. */
static void move_first(ts_retained *to, ts_retained *from, uint32_t last, uint32_t count) {
    ts_slab *slab = ts_slab_at(last);
    ts_retained first = {from->head, last, count};
    from->head = slab->next;
    ts_add_owned(&from->count, 0u - count);
    ts_retained_splice(to, &first);
}

/* The newest units of the share become a group. Their records are in the caches yet. Caller holds the heap. */
static void give_group(ts_share *share) {
    ts_allocator *allocator = share->allocator;
    ts_retained *from = &share->retained;
    uint32_t first = from->head, last = first;
    for (unsigned i = 1; i < TS_RETAINED_UNITS_MOVED; i++) last = ts_slab_at(last)->next;
    ts_lock_acquire(&allocator->retained_lock);
    ts_slab_at(first)->prev = last;
    ts_slab_at(last)->prev = allocator->retained_group;
    allocator->retained_group = first;
    move_first(&allocator->retained, from, last, TS_RETAINED_UNITS_MOVED);
    ts_lock_release(&allocator->retained_lock);
    ts_note_retained(allocator, TS_RETAINED_UNITS_MOVED);
}

/* Takes the first group, if the list begins with one and has four times as many units. Caller has the retained lock. */
static bool take_group(ts_allocator *allocator, ts_share *share) {
    ts_retained *from = &allocator->retained;
    uint32_t first = from->head;
    if (first != allocator->retained_group || ts_load_relaxed(&from->count) < 4 * TS_RETAINED_UNITS_MOVED) return false;
    uint32_t last = ts_slab_at(first)->prev;
    allocator->retained_group = ts_slab_at(last)->prev;
    move_first(&share->retained, from, last, TS_RETAINED_UNITS_MOVED);
    __builtin_prefetch(ts_slab_at(from->head)); /* of the next group, most likely */
    return true;
}

void ts_share_overflow(ts_share *share) {
    ts_allocator *allocator = share->allocator;
    uint32_t most = allocator->settings.reclaim_policy == SLAB_RECLAIM_AT_ONCE ? 0 : TS_LOCAL_RETAINED_UNITS;
    if (ts_load_relaxed(&share->retained.count) <= most) return;
    uint32_t added = ts_load_relaxed(&share->retained.count);
    ts_lock_acquire(&allocator->retained_lock);
    ts_retained_splice(&allocator->retained, &share->retained);
    ts_lock_release(&allocator->retained_lock);
    ts_note_retained(allocator, added);
}

static void keep_unit(ts_allocator *allocator, uint32_t unit) {
    ts_lock_acquire(&allocator->retained_lock);
    ts_retained_push(&allocator->retained, unit);
    ts_lock_release(&allocator->retained_lock);
    ts_note_retained(allocator, 1);
}

void ts_share_keep(ts_share *share, uint32_t unit) {
    ts_thread.released++;
    if (TS_LIKELY(ts_nodes_keeps(share, unit)))
        ts_retained_push(&share->retained, unit);
    else
        keep_unit(share->allocator, unit);
    TS_PROBE2(slab__recycle, ts_unit_address(unit), (uint64_t)1);
    if (share->allocator->settings.reclaim_policy == SLAB_RECLAIM_AT_ONCE)
        ts_share_overflow(share);
    else if (ts_load_relaxed(&share->retained.count) > TS_LOCAL_RETAINED_UNITS)
        give_group(share);
}

/* No system call here, because a drain holds a heap: the units are retained like any others. */
void ts_zombie_give(uint32_t unit) {
    if (ts_is_piece(unit)) {
        ts_piece_give_zombie(unit);
        return;
    }
    ts_allocator *allocator = ts_table_at(&ts_allocators, ts_slab_at(unit)->allocator);
    uint32_t units = ts_slab_units(ts_slab_at(unit));
    if (units > 1)
        ts_run_keep(allocator, unit, units);
    else
        keep_unit(allocator, unit);
    ts_allocator_unpin(allocator);
}

/* ---- acquire -------------------------------------------------------------------------------------- */

uint64_t ts_allocator_budget_units(const ts_allocator *allocator) {
    uint64_t bytes = ts_load_relaxed(&allocator->budget_bytes);
    return bytes == 0 ? 0 : bytes < TS_UNIT_BYTES ? 1 : bytes / TS_UNIT_BYTES;
}

bool ts_allocator_is_sparing(const ts_allocator *allocator) {
    uint64_t budget = ts_allocator_budget_units(allocator);
    bool near = budget != 0 && ts_load_relaxed(&allocator->committed_units) + TS_RETAINED_UNITS_MOVED > budget;
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

/* Takes units from the pool, within the budget. Their UNIT words are 0. */
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
    ts_note_fresh(allocator, weight);
    ts_nodes_count(allocator, ts_home_of(first), weight);
    return first;
}

/* If the budget has no room, or the system no memory, first retained memory goes back, and then that of this thread's
   bins. */
uint32_t ts_units_take_fresh(ts_allocator *allocator, unsigned part, unsigned home, uint32_t units, uint32_t align) {
    uint32_t first = take_within_budget(allocator, part, home, units, align);
    for (unsigned pass = 0; !first && pass < 2 && ts_heap_ops->scrape(allocator, pass > 0); pass++)
        first = take_within_budget(allocator, part, home, units, align);
    if (!first) errno = ENOMEM;
    return first;
}

void ts_allocator_retire(ts_allocator *allocator, uint32_t unit) {
    ts_purge_run(allocator, unit, 1, false);
    ts_uncommit_of(allocator, ts_home_of(unit), ts_units_weight(unit, 1));
}

/* Some of the allocator's units become the share's: a group, or an eighth of them and one more, so that other threads
   find some, too. One unit where threads keep none, and near the budget, where another thread may need the rest.
   Without groups each unit's record is read under the lock, which the thread reads soon anyway. If there are no
   single units, or a home is wanted, a piece of a run is taken. false: there was none. Caller holds the heap. */
static bool take_shared(ts_share *share, unsigned home) {
    ts_allocator *allocator = share->allocator;
    ts_retained *from = &allocator->retained, *to = &share->retained;
    if ((ts_load_relaxed(&from->count) | ts_load_relaxed(&allocator->span_retained_units)) == 0) return false;
    bool one = ts_allocator_is_sparing(allocator) || (home != TS_HOME_ANY && share->home != home);
    uint32_t most = one ? 1 : TS_RETAINED_UNITS_MOVED, unit;
    ts_lock_acquire(&allocator->retained_lock);
    uint64_t before = ts_retained_shared(allocator);
    if (ts_load_relaxed(&from->count) == 0 || home != TS_HOME_ANY) {
        unit = ts_runs_take(allocator, TS_NORMAL, home, most);
        if (!unit && most > 1) unit = ts_runs_take(allocator, TS_NORMAL, home, most = 1);
        if (unit) ts_retained_push_run(to, unit, most);
    } else if (one || !take_group(allocator, share)) {
        uint32_t some = ts_load_relaxed(&from->count) / 8 + 1;
        for (uint32_t n = some < most ? some : most; n > 0 && (unit = ts_allocator_retained_pop(allocator)) != 0; n--) {
            ts_retained_push(to, unit);
            if (from->head == allocator->retained_group) break; /* it stays whole */
        }
    }
    bool taken = ts_retained_shared(allocator) != before;
    ts_note_reused(allocator, before);
    ts_lock_release(&allocator->retained_lock);
    return taken;
}

/* Takes one of the thread's own. Units of other homes that come before it become runs. Caller holds the heap. */
static uint32_t take_own(ts_share *share, unsigned home) {
    ts_allocator *allocator = share->allocator;
    for (uint32_t unit; (unit = ts_share_take(share)) != 0;) {
        if (home == TS_HOME_ANY || ts_home_of(unit) == home) return unit;
        ts_runs_return(allocator, unit, 1);
    }
    return 0;
}

/* Each round is an operation of its own: the units that it takes may all be on queues yet. */
uint32_t ts_unit_acquire(ts_heap *heap, ts_share *share, unsigned home, bool *fresh) {
    ts_allocator *allocator = share->allocator;
    bool any = home == TS_HOME_ANY, more = true;
    uint32_t unit = 0;
    for (unsigned looks = 0; !unit && more; looks++) {
        ts_heap_enter(heap);
        if (any || share->home == home) unit = take_own(share, home);
        if (!unit && take_shared(share, home)) unit = ts_share_take(share);
        more = ts_load_relaxed(&allocator->retained.count) != 0 && (any || looks < HOME_LOOKS);
        ts_heap_leave(heap);
        if (!unit && more && !any) (void)ts_purge_gather(allocator, SORT_UNITS);
    }
    *fresh = unit == 0;
    if (unit) return unit;
    unit = ts_units_take_fresh(allocator, TS_NORMAL, home, 1, 1);
    if (!unit) return 0;
    ts_slab_at(unit)->given = 0;
    if (TS_UNLIKELY(allocator->care)) ts_care_fill(allocator->care, ts_unit_address(unit), TS_UNIT_BYTES);
    return unit;
}

/* ---- slabs ------------------------------------------------------------------------------------------------ */

/* The others are as good as new. */
void ts_slab_retire(ts_allocator *allocator, uint32_t unit, uint32_t units) {
    ts_allocator_retire(allocator, unit);
    if (units > 1) ts_purge_span(allocator, unit + 1, units - 1);
}

static bool populate_pages(void *at, size_t bytes) {
    size_t page = ts_os_page_bytes();
    uintptr_t from = (uintptr_t)ts_align_down((uintptr_t)at, page);
    return ts_os->populate((void *)from, (uintptr_t)ts_align_up((uintptr_t)at + bytes, page) - from);
}

/* A fresh unit becomes a slab of that class. Where realloc lets an object grow its pages become resident in one
   call, in place of a page fault each: it copies to them. The first units are left out: a small program writes to few
   of them. */
static void note_fresh(uint32_t unit, unsigned cls) {
    bool large = ts_class_bytes[cls] > TS_QUARTER_BYTES, is_short = ts_class_is_short(cls);
    if (large && ts_huge_is_growing() && unit >= POPULATED_FROM)
        (void)populate_pages(ts_unit_address(unit), is_short ? TS_SHORT_BYTES : TS_UNIT_BYTES);
    if (large || is_short) ts_huge_note_loose(1);
}

uint32_t ts_slab_acquire_churn(ts_heap *heap, ts_share *share, unsigned cls, unsigned home, bool *fresh) {
    if (ts_class_units(cls) > 1) return ts_slab_acquire_large(share, cls, home, fresh);
    for (;;) {
        uint32_t unit = ts_unit_acquire(heap, share, home, fresh);
        if (unit && ts_class_is_fine(cls) && !ts_region_commit_fine(unit)) {
            ts_heap_enter(heap);
            ts_share_keep(share, unit);
            ts_heap_leave(heap);
            ts_purge_owed(TS_PURGE_STEP);
            return ts_fail(ENOMEM);
        }
        if (unit && *fresh) note_fresh(unit, cls);
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

/* Populates units, and the metadata that is written when they become slabs that are not FINE. */
static bool populate_units(uint32_t first, uint32_t units) {
    const ts_part *part = &ts_region.part[TS_NORMAL];
    return populate_pages(ts_unit_address(first), units * (size_t)TS_UNIT_BYTES) &&
           populate_pages(ts_slab_scope_bits(first), units * (size_t)TS_SCOPE_BITS_BYTES) &&
           populate_pages((void *)ts_unit_live(first), units * (size_t)TS_LIVE_WORDS * 8) &&
           populate_pages((void *)&part->unit[first], units * sizeof *part->unit);
}

/* How many units can be populated with their records: a little room is left, as a process that has none is killed. */
static uint64_t units_with_room(void) {
    uint64_t room = ts_os->room_bytes();
    if (room == UINT64_MAX) return UINT64_MAX;
    return room > RESERVE_LEAVES ? (room - RESERVE_LEAVES) / (TS_UNIT_BYTES + TS_UNIT_BYTES / 16) : 0;
}

bool ts_allocator_reserve(ts_allocator *allocator, uint64_t units) {
    /* If there is no room for all of them, nothing is populated in vain. */
    if (units > ts_region.part[TS_NORMAL].units || units > ts_region.far_most_bytes / TS_UNIT_BYTES)
        return ts_fail(ENOMEM);
    uint32_t most = TS_PURGE_BATCH;
    unsigned home = ts_nodes_by_option(allocator); /* that of the caller */
    while (units > 0) {
        uint64_t room = units_with_room(); /* others take of it meanwhile */
        uint32_t n = units > most ? most : (uint32_t)units;
        if (n > room) n = (uint32_t)room;
        uint32_t first = n > 0 ? take_within_budget(allocator, TS_NORMAL, home, n, 1) : 0;
        if (!first) {
            if (n <= 1) return ts_fail(ENOMEM);
            most = n / 2; /* units that could be had are kept */
            continue;
        }
        bool populated = populate_units(first, n);
        if (TS_UNLIKELY(allocator->care))
            ts_care_fill(allocator->care, ts_unit_address(first), n * (size_t)TS_UNIT_BYTES);
        ts_fetch_add_relaxed(&allocator->reserved_units, n);
        ts_lock_acquire(&allocator->retained_lock);
        ts_retained_push_run(&allocator->retained, first, n);
        ts_lock_release(&allocator->retained_lock);
        if (!populated) return ts_fail(ENOMEM);
        units -= n;
    }
    return true;
}
