/*
 * How retained memory goes back to the system.
 *
 * What could go wrong: pages go from under an object, or units are lost or counted twice when the system refuses.
 * They do not. A run is first taken off the allocator's lists, under the retained lock, so nobody else has it while the
 * system is asked. No lock is held meanwhile. A run that the system refuses goes back to the lists, and counts as
 * retained.
 */
#include "supply/purge.h"
#include "supply/retained.h"
#include "supply/share.h"

#include "base/base.h"
#include "memtools/memtools.h"
#include "os/os.h"
#include "region/region.h"
#include "supply/nodes.h"

#include <limits.h>

uint64_t ts_purge_limit(ts_allocator *allocator) {
    uint64_t reserved = ts_load_relaxed(&allocator->reserved_units);
    /* A budget below the memory in use: nothing is retained until the budget is met. */
    uint64_t budget = ts_allocator_budget_units(allocator);
    if (TS_UNLIKELY(budget != 0 && ts_load_relaxed(&allocator->committed_units) > budget)) return 0;
    switch (allocator->settings.reclaim_policy) {
    case SLAB_RECLAIM_KEEP: return UINT64_MAX;
    case SLAB_RECLAIM_AT_ONCE: return reserved;
    default: {
        uint64_t most = ts_retain_limit(&allocator->retain, ts_retained_shared(allocator), ts_units_in_use(allocator));
        return most > reserved ? most : reserved;
    }
    }
}

bool ts_purge_is_over(ts_allocator *allocator) {
    if (ts_retained_shared(allocator) <= ts_purge_limit(allocator)) return false;
    if (!allocator->retain.rises) return true;
    ts_lock_acquire(&allocator->retained_lock);
    uint64_t retained = ts_retained_shared(allocator);
    ts_retain_adapt(&allocator->retain, ts_load_relaxed(&allocator->taken_units), retained, ts_units_in_use(allocator),
                    ts_os->coarse_ns());
    ts_lock_release(&allocator->retained_lock);
    return ts_retained_shared(allocator) > ts_purge_limit(allocator);
}

uint64_t ts_retained_shared(ts_allocator *allocator) {
    return (uint64_t)ts_load_relaxed(&allocator->retained.count) + ts_load_relaxed(&allocator->span_retained_units);
}

uint64_t ts_units_in_use(ts_allocator *allocator) {
    uint64_t retained = ts_retained_shared(allocator), committed = ts_load_relaxed(&allocator->committed_units);
    return committed > retained ? committed - retained : 0;
}

/* Purges the words of a run of units that are in no slab. As zeros they say that nothing is live, which is true. Pages
   that other units share stay. If the system refuses, all stay, and nothing is lost. The counters of purges are about
   data. */
static bool purge_words(void *at, size_t bytes) {
    size_t page = ts_os_page_bytes();
    uintptr_t from = (uintptr_t)ts_align_up((uintptr_t)at, page);
    uintptr_t to = (uintptr_t)ts_align_down((uintptr_t)at + bytes, page);
    return from < to && ts_os->purge((void *)from, to - from);
}

/* How many units have the bitmaps of scope slabs in one page: eight with pages of 4 KiB; and their generations: two. */
static uint32_t units_of_a_scope_page(void) { return (uint32_t)(ts_os_page_bytes() / sizeof(ts_scope_bits[2])); }
static uint32_t units_of_a_generation_page(void) {
    return (uint32_t)(ts_os_page_bytes() / (TS_UNIT_ENTRIES * sizeof(uint16_t)));
}

/* One call, from the first unit whose generations were written to the last. As zeros they are those of the next use,
   which ts_slab_fold_generations has told the record. A unit that shares a page with another keeps its note, and its
   page, until that unit is free, too. */
static void purge_generations(uint32_t first, uint32_t count) {
    ts_run *run = ts_region.run;
    uint32_t from = first, to = first + count, share = units_of_a_generation_page();
    if (share == 0) share = 1;
    while (from < to && !run[from].counted) from++;
    if (from == to) return;
    while (!run[to - 1].counted) to--;
    from -= from % share;
    to = (uint32_t)ts_align_up(to, share);
    if (from < first) from += share;
    if (to > first + count) to -= share;
    if (from >= to) return;
    for (uint32_t unit = from; unit < to; unit++) ts_slab_fold_generations(unit);
    _Atomic uint16_t *words = ts_generation_word((uint64_t)from * TS_UNIT_ENTRIES);
    if (!purge_words((void *)(uintptr_t)words, (to - from) * TS_UNIT_ENTRIES * sizeof *words)) return;
    for (uint32_t unit = from; unit < to; unit++) run[unit].counted = 0;
}

static void purge_tables(uint32_t first, uint32_t count) {
    (void)purge_words((void *)(uintptr_t)ts_slab_scope_bits(first), count * sizeof(ts_scope_bits[2]));
    (void)purge_words((void *)(uintptr_t)ts_unit_live(first), count * (size_t)TS_LIVE_WORDS * sizeof(uint64_t));
    purge_generations(first, count);
}

bool ts_purge_pages(ts_allocator *allocator, const char *begin, const char *end) {
    size_t page = ts_os_page_bytes();
    uintptr_t from = (uintptr_t)ts_align_up((uintptr_t)begin, page);
    uintptr_t to = (uintptr_t)ts_align_down((uintptr_t)end, page);
    if (from >= to) return true;
    ts_fetch_add_relaxed(&allocator->madvise_calls, 1);
    TS_PROBE2(slab__purge, from, (uint64_t)(to - from));
    ts_huge_give();
    if (!ts_os->purge((void *)from, to - from)) {
        ts_fetch_add_relaxed(&allocator->madvise_failures, 1);
        return false;
    }
    ts_fetch_add_relaxed(&allocator->madvise_bytes, to - from);
    return true;
}

/* A page of bitmaps at either end of the run (and a page of data, where pages are larger than a unit) keeps its
   memory until its other units are free, too. The thread that purges the last of them takes the others along; for
   that moment nobody else can take them. Two threads that purge parts of one page at the same instant can both miss
   it. The next purge there does not. */
static bool purge_run(ts_allocator *allocator, uint32_t first, uint32_t count, bool to_pool, bool states) {
    if (TS_UNLIKELY(ts_part_of_unit(first) == TS_FAR)) {
        const char *at = ts_unit_address(first);
        bool gone = ts_purge_pages(allocator, at, at + ts_units_bytes(first, count));
        if (gone && to_pool) ts_pool_give(first, count);
        return gone;
    }
    uint32_t state_units = units_of_a_scope_page(), page_units = (uint32_t)(ts_os_page_bytes() / TS_UNIT_BYTES);
    uint32_t from = first, units = count;
    bool around = page_units > 1; /* else the data of the others went back before */
    if (states && state_units > 1) ts_pool_take_around(&from, &units, state_units);
    if (around) ts_pool_take_around(&from, &units, page_units);
    const char *begin = ts_unit_address(around ? from : first);
    bool purged = ts_purge_pages(allocator, begin, begin + (size_t)(around ? units : count) * TS_UNIT_BYTES);
    if (purged && states) {
        purge_tables(from, units);
    }
    uint32_t before = first - from, after = units - before - count;
    if (purged && to_pool) { /* with their neighbours: one step under the pool's lock */
        ts_pool_give(from, units);
    } else {
        if (before) ts_pool_give(from, before);
        if (after) ts_pool_give(first + count, after);
    }
    return purged;
}

bool ts_purge_run(ts_allocator *allocator, uint32_t first, uint32_t count, bool to_pool) {
    return purge_run(allocator, first, count, to_pool, true);
}

void ts_uncommit_of(ts_allocator *allocator, unsigned home, uint64_t units) {
    ts_nodes_count(allocator, home, (uint64_t)0 - units);
    ts_uncommit(allocator, units);
}

void ts_uncommit(ts_allocator *allocator, uint64_t units) { ts_fetch_sub_relaxed(&allocator->committed_units, units); }

/* Makes runs of up to `most` single units of the allocator's lists. A unit that is on a queue of cross-thread frees
   still becomes a zombie instead. */
unsigned ts_purge_gather(ts_allocator *allocator, uint64_t most) {
    uint32_t units[TS_PURGE_BATCH];
    unsigned n = 0, claimed = 0;
    ts_lock_acquire(&allocator->retained_lock);
    while (n < most && n < TS_PURGE_BATCH) {
        uint32_t unit = ts_allocator_retained_pop(allocator);
        if (!unit) break;
        units[n++] = unit;
    }
    ts_lock_release(&allocator->retained_lock);
    for (unsigned i = 0; i < n; i++) {
        ts_slab_at(units[i])->allocator = ts_allocator_index(allocator);
        if (ts_slab_claim(units[i], &allocator->pins)) units[claimed++] = units[i];
    }
    ts_lock_acquire(&allocator->retained_lock);
    for (unsigned i = 0; i < claimed; i++) ts_runs_give(allocator, units[i], 1);
    ts_lock_release(&allocator->retained_lock);
    return n;
}

static bool purge_span(ts_allocator *allocator, uint32_t unit, uint32_t units, bool states) {
    unsigned home = ts_home_of(unit); /* a unit of the pool may get another */
    if (purge_run(allocator, unit, units, true, states)) {
        ts_uncommit_of(allocator, home, ts_units_weight(unit, units));
        ts_fetch_add_relaxed(&allocator->overflowed, ts_units_weight(unit, units));
        return true;
    }
    if (TS_UNLIKELY(allocator->care)) ts_care_fill(allocator->care, ts_unit_address(unit), ts_units_bytes(unit, units));
    ts_runs_return(allocator, unit, units);
    return false;
}

bool ts_purge_span(ts_allocator *allocator, uint32_t unit, uint32_t units) {
    return purge_span(allocator, unit, units, true);
}

uint32_t ts_purge_take_run(ts_allocator *allocator, uint64_t keep, uint32_t least, uint64_t most, uint32_t *units) {
    uint32_t first = 0;
    ts_lock_acquire(&allocator->retained_lock);
    uint64_t have = ts_retained_shared(allocator), over = have > keep ? have - keep : 0;
    if (over < most) most = over;
    unsigned homes = ts_nodes_of(allocator) ? TS_HOMES : 1;
    if (most > 0) first = ts_runs_take_oldest(allocator, most, units);
    if (most > TS_EXTENT_AGED) most = TS_EXTENT_AGED; /* no run without an age is longer */
    for (unsigned home = 0; home < homes && !first && most > 0; home++)
        first = ts_runs_take_longest(allocator, TS_NORMAL, home, least, (uint32_t)most, units);
    ts_lock_release(&allocator->retained_lock);
    return first;
}

uint32_t ts_purge_take_stuck(ts_allocator *allocator) {
    ts_lock_acquire(&allocator->retained_lock);
    uint32_t unit = allocator->stuck;
    if (unit) {
        allocator->stuck = ts_slab_at(unit)->next;
        ts_fetch_sub_relaxed(&allocator->span_retained_units, ts_span_weight(ts_slab_at(unit)));
    }
    ts_lock_release(&allocator->retained_lock);
    return unit;
}

/* Purges runs of at least `least` units, the oldest first, in up to `calls` system calls. If the system refuses one,
   it will refuse more: a later call tries again. lazy: short runs keep their words, a twenty-fifth of the
   memory, which saves a call for each. */
static uint64_t purge_runs(ts_allocator *allocator, uint64_t keep, uint32_t least, uint64_t most, unsigned calls,
                           bool lazy) {
    uint64_t given = 0;
    for (uint32_t units, first; given < most && calls > 0; given += ts_units_weight(first, units), calls--) {
        first = ts_purge_take_run(allocator, keep, least, most - given, &units);
        if (!first || !purge_span(allocator, first, units, !lazy || units >= TS_PURGE_PIECE_UNITS)) break;
    }
    return given;
}

uint64_t ts_purge_shared(ts_allocator *allocator, uint64_t keep, uint64_t most) {
    uint64_t have = ts_retained_shared(allocator), over = have > keep ? have - keep : 0, gathered = 0;
    if (most > over) most = over;
    /* Neighbours first grow together. */
    for (unsigned n = 1; n > 0 && gathered < most; gathered += n) n = ts_purge_gather(allocator, most - gathered);
    uint64_t given = purge_runs(allocator, keep, 1, most, UINT_MAX, false),
             failures = ts_load_relaxed(&allocator->madvise_failures);
    for (uint32_t unit; given < most && (unit = ts_purge_take_stuck(allocator)) != 0;) {
        given += ts_span_weight(ts_slab_at(unit));
        ts_purge_guarded(allocator, unit);
        if (ts_load_relaxed(&allocator->madvise_failures) != failures) break;
    }
    return given;
}

static void note_given(ts_allocator *allocator, uint64_t given) {
    ts_lock_acquire(&allocator->retained_lock);
    ts_retain_add(&allocator->retain, ts_load_relaxed(&allocator->taken_units), ts_retained_shared(allocator), given,
                  ts_os->coarse_ns());
    ts_lock_release(&allocator->retained_lock);
}

uint64_t ts_purge_to_limit(ts_allocator *allocator, uint64_t most) {
    if (!ts_purge_is_over(allocator)) return 0;
    uint64_t given = ts_purge_shared(allocator, ts_purge_limit(allocator), most);
    note_given(allocator, given);
    return given;
}

uint64_t ts_allocator_look(ts_allocator *allocator, uint64_t most) {
    ts_retain *retain = &allocator->retain;
    uint64_t now = ts_os->coarse_ns();
    if (!retain->rises ||
        (ts_load_relaxed(&retain->spare) == 0 && !ts_retain_is_past(ts_load_relaxed(&retain->calm_ns), now)))
        return 0;
    uint64_t reserved = ts_load_relaxed(&allocator->reserved_units), keep = retain->usual / TS_RETAIN_KEEP;
    if (reserved > keep) keep = reserved;
    ts_lock_acquire(&allocator->retained_lock);
    uint64_t units = ts_retain_look(retain, ts_load_relaxed(&allocator->taken_units), ts_retained_shared(allocator),
                                    keep, most, now);
    ts_lock_release(&allocator->retained_lock);
    return units > 0 ? ts_purge_shared(allocator, keep, units) : 0;
}

/* own: units of a span that the thread has just freed. */
static uint64_t purge_step(ts_allocator *allocator, uint64_t owed, uint64_t own) {
    /* Whether the debt may wait for a piece: not where memory goes back at once, or a limit is to be kept. */
    bool piece =
        ts_purge_limit(allocator) > ts_load_relaxed(&allocator->reserved_units) && !ts_allocator_is_sparing(allocator);
    if (piece && owed < TS_PURGE_LEAST_UNITS) return owed;
    if (!ts_purge_is_over(allocator)) return 0;
    uint64_t limit = ts_purge_limit(allocator), retained = ts_retained_shared(allocator),
             over = retained > limit ? retained - limit : 0, most = own + TS_PURGE_PIECE_UNITS;
    if (owed > 2 * over) owed = 2 * over;
    if (!piece || most > owed) most = owed;
    (void)ts_purge_gather(allocator, most < 2 * TS_PURGE_LEAST_UNITS ? most : 2 * TS_PURGE_LEAST_UNITS);
    uint32_t least = !piece || retained / 2 > limit    ? 1
                     : retained - retained / 3 > limit ? TS_PURGE_LEAST_UNITS
                                                       : TS_PURGE_PIECE_UNITS;
    if (piece && (owed < least || over < least)) return owed;
    unsigned calls = piece ? TS_PURGE_CALLS + (unsigned)(own / TS_PURGE_BATCH) : UINT_MAX;
    uint64_t given = purge_runs(allocator, limit, least, most, calls, piece);
    /* No run is long enough. Later frees make longer ones, and note their debts anew. The end of a phase sees the
       note that stays. */
    if (given == 0) return piece ? 1 : 0;
    note_given(allocator, given);
    return owed > given ? owed - given : 0;
}

/* ---- debts ---------------------------------------------------------------------------------------------- */

void ts_note_retained(ts_allocator *allocator, uint64_t added) {
    if (!ts_purge_is_over(allocator)) return;
    if (ts_thread.settle != allocator)
        ts_thread.settle_units = 0; /* later calls for the other allocator note its debt anew */
    ts_thread.settle = allocator;
    ts_thread.settle_token = ts_load_relaxed(&allocator->token);
    ts_thread.settle_units += 2 * added;
    if (added >= TS_PURGE_PIECE_UNITS && added > ts_thread.settle_own) ts_thread.settle_own = added;
}

void ts_purge_owed(uint64_t purge_units) {
    ts_allocator *allocator = ts_thread.settle;
    if (!allocator) return;
    ts_thread.settle = NULL;
    uint64_t owed = ts_thread.settle_units, own = ts_thread.settle_own;
    ts_thread.settle_units = ts_thread.settle_own = 0;
    /* The note may be of an earlier call, and the allocator can have ended since. */
    if (!ts_allocator_pin_use(allocator, ts_thread.settle_token)) return;
    uint64_t left;
    if (purge_units == TS_PURGE_STEP) {
        left = purge_step(allocator, owed, own);
    } else {
        uint64_t given = ts_purge_to_limit(allocator, purge_units);
        left = given == 0 || given > owed ? 0 : owed - given; /* 0: the limit is met meanwhile, or the system refused */
    }
    if (left > 0 && !ts_thread.settle) {
        ts_thread.settle = allocator;
        ts_thread.settle_units = left;
    }
    ts_allocator_unpin(allocator);
}

uint64_t ts_allocator_retained_units(ts_allocator *allocator) {
    uint64_t sum = ts_retained_shared(allocator);
    /* acquire: partner of the release in ts_heap_share */
    for (ts_share *s = ts_load_acquire(&allocator->shares); s; s = s->allocator_next) sum += ts_share_retained_units(s);
    return sum;
}

void ts_purge_guarded(ts_allocator *allocator, uint32_t unit) {
    ts_slab *slab = ts_slab_at(unit);
    uint32_t first = unit - slab->u.span.guard, units = slab->u.span.units;
    if (ts_os->commit(ts_unit_address(first), ts_units_bytes(first, units))) {
        ts_purge_span(allocator, first, units);
        return;
    }
    ts_fetch_add_relaxed(&allocator->madvise_failures, 1);
    ts_lock_acquire(&allocator->retained_lock);
    slab->next = allocator->stuck;
    allocator->stuck = unit;
    ts_fetch_add_relaxed(&allocator->span_retained_units, ts_span_weight(slab));
    ts_lock_release(&allocator->retained_lock);
}
