#include "heap/purge.h"

#include "base/bits.h"
#include "base/probe.h"
#include "heap/care.h"
#include "os/os.h"
#include "region/pool.h"

static uint64_t limit_of(const ts_allocator *allocator, uint64_t retain) {
    uint64_t reserved = ts_load_relaxed(&allocator->reserved_units);
    /* A budget that was set below what is in use: nothing stays warm until it is met. */
    uint64_t budget = ts_allocator_budget_units(allocator);
    if (TS_UNLIKELY(budget != 0 && ts_load_relaxed(&allocator->committed_units) > budget)) return 0;
    switch (allocator->settings.reclaim_policy) {
    case SLAB_RECLAIM_KEEP: return UINT64_MAX;
    case SLAB_RECLAIM_AT_ONCE: return reserved;
    default: return retain > reserved ? retain : reserved;
    }
}

uint64_t ts_purge_limit(const ts_allocator *allocator) {
    return limit_of(allocator, ts_load_relaxed(&allocator->retain.units));
}

/* Below the limit again with room to spare, so that a program at the limit does not purge at every step. */
static uint64_t low_units(const ts_allocator *allocator) {
    uint64_t reserved = ts_load_relaxed(&allocator->reserved_units);
    uint64_t low = limit_of(allocator, allocator->retain.usual) / 4;
    return low > reserved ? low : reserved;
}

bool ts_purge_is_over(ts_allocator *allocator) {
    if (ts_warm_shared(allocator) <= ts_purge_limit(allocator)) return false;
    if (!allocator->retain.rises) return true;
    ts_lock_acquire(&allocator->warm_lock);
    bool keeps =
        ts_retain_keeps(&allocator->retain, ts_load_relaxed(&allocator->taken_units), ts_warm_shared(allocator));
    ts_lock_release(&allocator->warm_lock);
    return !keeps;
}

uint64_t ts_warm_shared(ts_allocator *allocator) {
    return (uint64_t)ts_load_relaxed(&allocator->warm[0].count) + ts_load_relaxed(&allocator->warm[1].count) +
           ts_load_relaxed(&allocator->span_warm_units);
}

static void sort_units(uint32_t *a, unsigned n) {
    for (unsigned gap = n / 2; gap > 0; gap /= 2) {
        for (unsigned i = gap; i < n; i++) {
            uint32_t v = a[i];
            unsigned j = i;
            for (; j >= gap && a[j - gap] > v; j -= gap) a[j] = a[j - gap];
            a[j] = v;
        }
    }
}

/* The state words of a run of units that are nobody's: a thirty-second of their data (an eighth in part SMALL). Read as
   zeros they say what is true, that nothing is live, and that all generations are used up: ts_slab_leave_states has kept what
   the next use needs. Pages that other units share stay; so do all if the system refuses,
   which loses nothing. The counters of purges are about data. */
static void purge_states(uint32_t first, uint32_t count) {
    unsigned part = ts_part_of_unit(first);
    size_t page = ts_os_page_bytes(), per_unit = ts_granules_per_unit(part) * sizeof(uint16_t);
    uintptr_t states = (uintptr_t)ts_region.part[part].state + ts_unit_in_part(first) * per_unit;
    uintptr_t from = (uintptr_t)ts_align_up(states, page);
    uintptr_t to = (uintptr_t)ts_align_down(states + count * per_unit, page);
    if (from >= to) return;
    for (uint32_t i = 0; i < count; i++) ts_slab_leave_states(first + i);
    (void)ts_os->purge((void *)from, to - from);
}

bool ts_purge_pages(ts_allocator *allocator, const char *begin, const char *end) {
    size_t page = ts_os_page_bytes();
    uintptr_t from = (uintptr_t)ts_align_up((uintptr_t)begin, page);
    uintptr_t to = (uintptr_t)ts_align_down((uintptr_t)end, page);
    if (from >= to) return true;
    ts_fetch_add_relaxed(&allocator->madvise_calls, 1);
    TS_PROBE2(slab__purge, from, (uint64_t)(to - from));
    if (!ts_os->purge((void *)from, to - from)) {
        ts_fetch_add_relaxed(&allocator->madvise_failures, 1);
        return false;
    }
    ts_fetch_add_relaxed(&allocator->madvise_bytes, to - from);
    return true;
}

/* Units whose state words share a page: eight of part NORMAL with pages of 4 KiB. */
static uint32_t units_of_a_state_page(uint32_t unit) {
    return (uint32_t)(ts_os_page_bytes() / (ts_granules_per_unit(ts_part_of_unit(unit)) * sizeof(uint16_t)));
}

/* A page of the units' state words at either end (and of their data, where pages are
   larger than a unit) keeps its memory until its other units are free too: who then purges the last of them takes them
   along; for that moment nobody else can take them. (Two threads that purge parts of one page at the same instant can both
   miss it; the next purge there does not.) */
bool ts_purge_run(ts_allocator *allocator, uint32_t first, uint32_t count, bool to_pool) {
    uint32_t state_units = units_of_a_state_page(first), page_units = (uint32_t)(ts_os_page_bytes() / TS_UNIT_BYTES);
    uint32_t from = first, units = count;
    bool around = page_units > 1; /* else the data of the others went back before */
    if (state_units > 1) ts_pool_take_around(&from, &units, state_units);
    if (around) ts_pool_take_around(&from, &units, page_units);
    const char *begin = ts_unit_address(around ? from : first);
    bool purged = ts_purge_pages(allocator, begin, begin + (size_t)(around ? units : count) * TS_UNIT_BYTES);
    if (purged) purge_states(from, units);
    uint32_t before = first - from, after = units - before - count;
    if (purged && to_pool) { /* with their neighbours: one step under the pool's lock */
        ts_pool_give(from, units);
    } else {
        if (before) ts_pool_give(from, before);
        if (after) ts_pool_give(first + count, after);
    }
    return purged;
}

void ts_uncommit(ts_allocator *allocator, uint32_t units) { ts_fetch_sub_relaxed(&allocator->committed_units, units); }

/* Units on no list. Returns those given back; what the system refuses to take stays warm. */
static uint64_t purge_units(ts_allocator *allocator, uint32_t *units, unsigned n) {
    unsigned claimed = 0;
    uint64_t given = 0;
    for (unsigned i = 0; i < n; i++) {
        ts_slab_at(units[i])->allocator = ts_allocator_index(allocator);
        if (ts_slab_claim(units[i], &allocator->pins)) units[claimed++] = units[i];
    }
    sort_units(units, claimed);
    for (unsigned i = 0; i < claimed;) {
        unsigned k = i + 1;
        while (k < claimed && units[k] == units[k - 1] + 1 && ts_part_of_unit(units[k]) == ts_part_of_unit(units[i]))
            k++;
        if (ts_purge_run(allocator, units[i], k - i, true)) {
            ts_uncommit(allocator, k - i);
            given += k - i;
        } else {
            ts_lock_acquire(&allocator->warm_lock);
            for (unsigned j = i; j < k; j++) ts_warm_push(&allocator->warm[ts_part_of_unit(units[j])], units[j]);
            ts_lock_release(&allocator->warm_lock);
        }
        i = k;
    }
    ts_fetch_add_relaxed(&allocator->overflowed, given);
    return given;
}

unsigned ts_purge_batch(ts_allocator *allocator, uint64_t keep, uint64_t most, uint32_t *units, uint32_t *span_units) {
    unsigned n = 0;
    *span_units = 0;
    ts_lock_acquire(&allocator->warm_lock);
    uint64_t have = ts_warm_shared(allocator);
    for (unsigned part = 0; part < TS_PARTS; part++) {
        while (n < most && have > keep) {
            uint32_t unit = ts_warm_pop(&allocator->warm[part]);
            if (!unit) break;
            units[n++] = unit;
            have--;
        }
    }
    for (unsigned length = TS_SPAN_WARM_UNITS; n == 0 && have > keep && length > 0; length--) {
        uint32_t unit = allocator->span_warm[length];
        if (!unit) continue;
        allocator->span_warm[length] = ts_slab_at(unit)->next;
        ts_fetch_sub_relaxed(&allocator->span_warm_units, length);
        units[n++] = unit;
        *span_units = length;
    }
    if (n == 0 && have > keep && allocator->span_warm[TS_STUCK]) {
        uint32_t unit = allocator->span_warm[TS_STUCK];
        allocator->span_warm[TS_STUCK] = ts_slab_at(unit)->next;
        *span_units = ts_slab_at(unit)->u.span.units;
        ts_fetch_sub_relaxed(&allocator->span_warm_units, *span_units);
        units[n++] = unit;
    }
    ts_lock_release(&allocator->warm_lock);
    return n;
}

void ts_purge_span(ts_allocator *allocator, uint32_t unit, uint32_t units) {
    if (ts_purge_run(allocator, unit, units, true)) {
        ts_uncommit(allocator, units);
        ts_fetch_add_relaxed(&allocator->overflowed, units);
        return;
    }
    /* The system keeps it: single warm units, which any later use can have. */
    if (TS_UNLIKELY(allocator->care)) ts_care_fill(allocator, ts_unit_address(unit), (size_t)units * TS_UNIT_BYTES);
    ts_lock_acquire(&allocator->warm_lock);
    ts_warm_push_run(&allocator->warm[TS_NORMAL], unit, units);
    ts_lock_release(&allocator->warm_lock);
}

uint64_t ts_purge_shared(ts_allocator *allocator, uint64_t keep, uint64_t most) {
    uint32_t units[TS_PURGE_BATCH];
    uint64_t given = 0, failures = ts_load_relaxed(&allocator->madvise_failures);
    while (given < most) {
        uint32_t span_units;
        uint64_t left = most - given;
        unsigned n = ts_purge_batch(allocator, keep, left < TS_PURGE_BATCH ? left : TS_PURGE_BATCH, units, &span_units);
        if (n == 0) break;
        if (span_units) {
            if (ts_slab_at(units[0])->u.span.guard)
                ts_purge_guarded(allocator, units[0]);
            else
                ts_purge_span(allocator, units[0], span_units);
            given += span_units;
        } else {
            given += purge_units(allocator, units, n);
        }
        /* What the system refuses now it will refuse again: a later call tries. */
        if (ts_load_relaxed(&allocator->madvise_failures) != failures) break;
    }
    return given;
}

void ts_allocator_settle_over(ts_allocator *allocator) {
    if (ts_purge_is_over(allocator)) (void)ts_allocator_settle(allocator, UINT64_MAX);
}

uint64_t ts_allocator_settle(ts_allocator *allocator, uint64_t most) {
    if (ts_warm_shared(allocator) <= low_units(allocator)) return 0;
    uint64_t taken = ts_load_relaxed(&allocator->taken_units);
    uint64_t given = ts_purge_shared(allocator, low_units(allocator),
                                     most < TS_PURGE_UNITS_PER_CALL ? most : TS_PURGE_UNITS_PER_CALL);
    ts_lock_acquire(&allocator->warm_lock);
    ts_retain_give(&allocator->retain, taken, given);
    ts_lock_release(&allocator->warm_lock);
    return given;
}

uint64_t ts_allocator_warm_units(ts_allocator *allocator) {
    uint64_t sum = ts_warm_shared(allocator);
    /* acquire: partner of the release in ts_heap_share */
    for (ts_share *s = ts_load_acquire(&allocator->shares); s; s = s->allocator_next)
        sum += (uint64_t)ts_load_relaxed(&s->warm[0].count) + ts_load_relaxed(&s->warm[1].count);
    return sum;
}

/* Others have left work to the heap. Hints: what comes while this is read is for the next who looks. */
static bool has_work_left(const ts_heap *heap) {
    return ts_load_relaxed(&heap->queue) != 0 || ts_load_relaxed(&heap->backlog) != 0 ||
           ts_load_relaxed(&heap->condemned) != NULL || ts_load_relaxed(&heap->ending) != NULL ||
           ts_load_relaxed(&heap->unflushed) != 0;
}

/* A thread whose heap is visited waits meanwhile, so none is that has nothing for this. */
static void collect(ts_allocator *allocator) {
    /* acquire: partner of the release in ts_heap_share. Nobody drops a share between read_begin and read_end; nor does the record go:
       the caller has it pinned, or is ending it. Locks of heaps are waited for in between, and who has one of these may be giving back a
       record, for which he waits for its readers (ts_allocator_unpin): of this record it is not, as it is pinned, so no circle. */
    bool reads = ts_allocator_read_begin(allocator, allocator->token);
    for (ts_heap *heap = ts_heaps(); heap; heap = heap->next)
        if (!reads || heap == ts_thread.heap || has_work_left(heap)) ts_heap_visit(heap, allocator);
    if (!reads) return;
    for (ts_share *s = ts_load_acquire(&allocator->shares); s; s = s->allocator_next) {
        bool warm = (ts_load_relaxed(&s->warm[0].count) | ts_load_relaxed(&s->warm[1].count)) != 0;
        if (s->heap == ts_thread.heap) continue;
        /* Nobody waits for an ended thread's; and shares of allocators that have ended are dropped there. */
        if (warm || ts_load_relaxed(&s->heap->state) == TS_HEAP_ABANDONED) ts_heap_visit(s->heap, allocator);
    }
    ts_allocator_read_end(allocator);
}

size_t ts_allocator_trim(ts_allocator *allocator, uint64_t keep_units) {
    collect(allocator);
    ts_lock_acquire(&allocator->warm_lock);
    ts_retain_forget(&allocator->retain);
    ts_lock_release(&allocator->warm_lock);
    return (size_t)ts_purge_shared(allocator, keep_units, UINT64_MAX) * TS_UNIT_BYTES;
}

void ts_purge_guarded(ts_allocator *allocator, uint32_t unit) {
    ts_slab *slab = ts_slab_at(unit);
    uint32_t first = unit - slab->u.span.guard, units = slab->u.span.units;
    if (ts_os->commit(ts_unit_address(first), units * TS_UNIT_BYTES)) {
        ts_purge_span(allocator, first, units);
        return;
    }
    ts_fetch_add_relaxed(&allocator->madvise_failures, 1);
    ts_lock_acquire(&allocator->warm_lock);
    slab->next = allocator->span_warm[TS_STUCK];
    allocator->span_warm[TS_STUCK] = unit;
    ts_fetch_add_relaxed(&allocator->span_warm_units, units);
    ts_lock_release(&allocator->warm_lock);
}
