/*
 * Warm units: slabs that hold nothing but whose memory is still there. Each share keeps a few (no lock for the
 * owner); what is more goes to the allocator; what exceeds the allocator's limit is purged, in runs of
 * neighbours, with no lock held, and goes to the pool.
 */
/* Modelled in tests/model: exit, record. */
#include "base/assert.h"
#include "base/bits.h"
#include "base/probe.h"
#include "heap/allocator.h"
#include "heap/care.h"
#include "os/os.h"
#include "region/pool.h"

#include <errno.h>

void ts_warm_push(ts_warm *warm, uint32_t unit) {
    ts_slab_at(unit)->next = warm->head;
    if (!warm->head) warm->tail = unit;
    warm->head = unit;
    ts_add_owned(&warm->count, 1);
}

static uint64_t limit_units(const ts_allocator *allocator) {
    uint64_t reserved = ts_load_relaxed(&allocator->reserved_units);
    switch (allocator->settings.reclaim_policy) {
    case SLAB_RECLAIM_KEEP: return UINT64_MAX;
    case SLAB_RECLAIM_AT_ONCE: return reserved;
    default: break;
    }
    uint64_t retain = allocator->settings.retain_bytes / TS_UNIT_BYTES;
    return retain > reserved ? retain : reserved;
}

/* Below the limit again with room to spare, so that a program at the limit does not purge at every step. */
static uint64_t low_units(const ts_allocator *allocator) {
    uint64_t reserved = ts_load_relaxed(&allocator->reserved_units);
    uint64_t low = limit_units(allocator) / 4;
    return low > reserved ? low : reserved;
}

static uint64_t shared_warm_units(ts_allocator *allocator) {
    return (uint64_t)ts_load_relaxed(&allocator->warm[0].count) + ts_load_relaxed(&allocator->warm[1].count) +
           ts_load_relaxed(&allocator->span_warm_units);
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
    if (shared_warm_units(allocator) <= limit_units(allocator)) return;
    if (ts_thread.settle != allocator) ts_thread.settle_units = 0; /* of the other its later calls take care */
    ts_thread.settle = allocator;
    ts_thread.settle_token = allocator->token;
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
            ts_foreign_drain_all_abandoned();
        else
            ts_foreign_drain_abandoned(heap);
    }
    ts_allocator *allocator = ts_thread.settle;
    if (!allocator) return;
    ts_thread.settle = NULL;
    uint64_t owed = ts_thread.settle_units;
    ts_thread.settle_units = 0;
    /* Noted by an earlier call, perhaps: the allocator can have ended since. */
    if (!ts_allocator_pin_use(allocator, ts_thread.settle_token)) return;
    uint64_t given = ts_allocator_settle(allocator, owed < purge_units ? owed : purge_units);
    /* 0: below the limit meanwhile, or refused. */
    if (given > 0 && given < owed && !ts_thread.settle) {
        ts_thread.settle = allocator;
        ts_thread.settle_units = owed - given;
    }
    ts_allocator_unpin(allocator);
}

void ts_share_keep(ts_share *share, uint32_t unit) {
    unsigned part = ts_part_of_unit(unit);
    ts_thread.released++;
    ts_warm_push(&share->warm[part], unit);
    TS_PROBE2(slab__recycle, ts_unit_address(unit), (uint64_t)1);
    ts_share_overflow(share, part);
}

/* ---- purge ---------------------------------------------------------------------------------------- */

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
   zeros they say what is true, that nothing is live. Pages that other units share stay; so do all if the system refuses,
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

/* Whole pages between two addresses. */
static bool purge_pages(ts_allocator *allocator, const char *begin, const char *end) {
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

/* Purges one run of units that are nobody's. A page of their state words at either end (and of their data, where pages are
   larger than a unit) keeps its memory until its other units are free too: who then purges the last of them takes them
   along; for that moment nobody else can take them. (Two threads that purge parts of one page at the same instant can both
   miss it; the next purge there does not.) */
static bool purge_run(ts_allocator *allocator, uint32_t first, uint32_t count) {
    uint32_t state_units = units_of_a_state_page(first), page_units = (uint32_t)(ts_os_page_bytes() / TS_UNIT_BYTES);
    uint32_t from = first, units = count;
    bool around = page_units > 1; /* else the data of the others went back before */
    if (state_units > 1) ts_pool_take_around(&from, &units, state_units);
    if (around) ts_pool_take_around(&from, &units, page_units);
    const char *begin = ts_unit_address(around ? from : first);
    bool purged = purge_pages(allocator, begin, begin + (size_t)(around ? units : count) * TS_UNIT_BYTES);
    if (purged) purge_states(from, units);
    uint32_t before = first - from, after = units - before - count;
    if (before) ts_pool_give(from, before);
    if (after) ts_pool_give(first + count, after);
    return purged;
}

static void uncommit(ts_allocator *allocator, uint32_t units) {
    ts_fetch_sub_relaxed(&allocator->committed_units, units);
}

/* Units on no list. Returns those given back; what the system refuses to take stays warm. */
static uint64_t purge_units(ts_allocator *allocator, uint32_t *units, unsigned n) {
    unsigned claimed = 0;
    uint64_t given = 0;
    for (unsigned i = 0; i < n; i++) {
        ts_slab_at(units[i])->allocator = allocator->entry.index;
        if (ts_slab_claim(units[i], &allocator->pins)) units[claimed++] = units[i];
    }
    sort_units(units, claimed);
    for (unsigned i = 0; i < claimed;) {
        unsigned k = i + 1;
        while (k < claimed && units[k] == units[k - 1] + 1 &&
               ts_part_of_unit(units[k]) == ts_part_of_unit(units[i]))
            k++;
        if (purge_run(allocator, units[i], k - i)) {
            ts_pool_give(units[i], k - i);
            uncommit(allocator, k - i);
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

/* Takes up to `most` single units from the allocator's lists, or else one warm span. */
static unsigned take_batch(ts_allocator *allocator, uint64_t keep, uint64_t most, uint32_t *units, uint32_t *span_units) {
    unsigned n = 0;
    *span_units = 0;
    ts_lock_acquire(&allocator->warm_lock);
    uint64_t have = shared_warm_units(allocator);
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

static void give_span(ts_allocator *allocator, uint32_t unit, uint32_t units) {
    if (purge_run(allocator, unit, units)) {
        ts_pool_give(unit, units);
        uncommit(allocator, units);
        ts_fetch_add_relaxed(&allocator->overflowed, units);
        return;
    }
    /* The system keeps it: single warm units, which any later use can have. */
    ts_lock_acquire(&allocator->warm_lock);
    for (uint32_t i = 0; i < units; i++) ts_warm_push(&allocator->warm[ts_part_of_unit(unit)], unit + i);
    ts_lock_release(&allocator->warm_lock);
}

static void give_guarded(ts_allocator *allocator, uint32_t unit);

static uint64_t purge_shared(ts_allocator *allocator, uint64_t keep, uint64_t most) {
    uint32_t units[TS_PURGE_BATCH];
    uint64_t given = 0, failures = ts_load_relaxed(&allocator->madvise_failures);
    while (given < most) {
        uint32_t span_units;
        uint64_t left = most - given;
        unsigned n = take_batch(allocator, keep, left < TS_PURGE_BATCH ? left : TS_PURGE_BATCH, units, &span_units);
        if (n == 0) break;
        if (span_units) {
            if (ts_slab_at(units[0])->u.span.guard)
                give_guarded(allocator, units[0]);
            else
                give_span(allocator, units[0], span_units);
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
    if (shared_warm_units(allocator) > limit_units(allocator)) (void)ts_allocator_settle(allocator, UINT64_MAX);
}

uint64_t ts_allocator_settle(ts_allocator *allocator, uint64_t most) {
    if (shared_warm_units(allocator) <= low_units(allocator)) return 0;
    return purge_shared(allocator, low_units(allocator), most < TS_PURGE_UNITS_PER_CALL ? most : TS_PURGE_UNITS_PER_CALL);
}

uint64_t ts_allocator_warm_units(ts_allocator *allocator) {
    uint64_t sum = shared_warm_units(allocator);
    /* acquire: partner of the release in ts_heap_share */
    for (ts_share *s = ts_load_acquire(&allocator->shares); s; s = s->allocator_next)
        sum += (uint64_t)ts_load_relaxed(&s->warm[0].count) + ts_load_relaxed(&s->warm[1].count);
    return sum;
}

static void collect(ts_allocator *allocator) {
    for (ts_heap *heap = ts_heaps(); heap; heap = heap->next) ts_heap_visit(heap, allocator);
}

size_t ts_allocator_trim(ts_allocator *allocator, uint64_t keep_units) {
    collect(allocator);
    return (size_t)purge_shared(allocator, keep_units, UINT64_MAX) * TS_UNIT_BYTES;
}

/* Who drains holds a heap: no system call here, the unit becomes warm like any other. */
void ts_zombie_give(uint32_t unit) {
    ts_allocator *allocator = ts_table_at(&ts_allocators, ts_slab_at(unit)->allocator);
    ts_lock_acquire(&allocator->warm_lock);
    ts_warm_push(&allocator->warm[ts_part_of_unit(unit)], unit);
    ts_lock_release(&allocator->warm_lock);
    ts_note_warm(allocator, 1);
    ts_allocator_unpin(allocator);
}

/* ---- acquire -------------------------------------------------------------------------------------- */

uint64_t ts_allocator_budget_units(const ts_allocator *allocator) {
    uint64_t bytes = ts_load_relaxed(&allocator->budget_bytes);
    return bytes == 0 ? 0 : bytes < TS_UNIT_BYTES ? 1 : bytes / TS_UNIT_BYTES;
}

static bool commit_within_budget(ts_allocator *allocator, uint64_t units) {
    uint64_t budget = ts_allocator_budget_units(allocator);
    uint64_t before = ts_fetch_add_relaxed(&allocator->committed_units, units);
    if (budget == 0 || (units <= budget && before <= budget - units)) return true;
    ts_fetch_sub_relaxed(&allocator->committed_units, units);
    return false;
}

/* From the pool, within the budget. Units come with UNIT word 0. */
static uint32_t take_within_budget(ts_allocator *allocator, unsigned part, uint32_t units, uint32_t align) {
    if (!commit_within_budget(allocator, units)) return 0;
    uint32_t first = ts_pool_take(part, units, align);
    if (!first) {
        uncommit(allocator, units);
        return 0;
    }
    ts_slab_at(first)->allocator = allocator->entry.index;
    return first;
}

/* When it does not fit, or the system has no memory, what is warm goes back first. */
static uint32_t take_fresh(ts_allocator *allocator, unsigned part, uint32_t units, uint32_t align) {
    uint32_t first = take_within_budget(allocator, part, units, align);
    if (!first) {
        ts_allocator_trim(allocator, 0);
        first = take_within_budget(allocator, part, units, align);
    }
    if (!first) errno = ENOMEM;
    return first;
}

void ts_allocator_retire(ts_allocator *allocator, uint32_t unit) {
    purge_run(allocator, unit, 1);
    uncommit(allocator, 1);
}

uint32_t ts_unit_acquire(ts_heap *heap, ts_share *share, unsigned part, bool *fresh) {
    ts_allocator *allocator = share->allocator;
    *fresh = false;
    for (;;) {
        ts_heap_enter(heap);
        uint32_t unit = ts_share_take(share, part);
        ts_heap_leave(heap);
        if (unit) return unit;
        if (ts_load_relaxed(&allocator->warm[part].count)) {
            ts_lock_acquire(&allocator->warm_lock);
            unit = ts_warm_pop(&allocator->warm[part]);
            ts_lock_release(&allocator->warm_lock);
        }
        if (!unit) {
            *fresh = true;
            return take_fresh(allocator, part, 1, 1);
        }
        ts_slab_at(unit)->allocator = allocator->entry.index;
        if (ts_slab_claim(unit, &allocator->pins)) return unit;
    }
}

uint32_t ts_slab_acquire_churn(ts_heap *heap, ts_share *share, unsigned cls, bool *fresh) {
    for (;;) {
        uint32_t unit = ts_unit_acquire(heap, share, ts_class_part(cls), fresh);
        if (!unit || ts_slab_reset_churn(unit, cls)) return unit;
        ts_allocator_retire(share->allocator, unit);
    }
}

uint32_t ts_slab_acquire_scope(ts_heap *heap, ts_share *share, bool *fresh) {
    for (;;) {
        uint32_t unit = ts_unit_acquire(heap, share, TS_NORMAL, fresh);
        if (!unit || ts_slab_reset_scope(unit)) return unit;
        ts_allocator_retire(share->allocator, unit);
    }
}

static uint32_t take_warm_span(ts_allocator *allocator, uint32_t units) {
    uint32_t unit = 0;
    if (units > TS_SPAN_WARM_UNITS) return 0;
    ts_lock_acquire(&allocator->warm_lock);
    unit = allocator->span_warm[units];
    if (unit) {
        allocator->span_warm[units] = ts_slab_at(unit)->next;
        ts_fetch_sub_relaxed(&allocator->span_warm_units, units);
    }
    ts_lock_release(&allocator->warm_lock);
    return unit;
}

static void fill_record(uint32_t unit, uint32_t units, uint32_t guard, uint64_t bytes, size_t written) {
    ts_slab *slab = ts_slab_at(unit);
    slab->u.span.units = units;
    slab->u.span.guard = guard;
    slab->u.span.bytes = bytes;
    slab->u.span.with_epoch = 0;
    slab->u.span.written = written == TS_CARE_CLEAN ? 0 : (uint32_t)written + 1;
}

uint32_t ts_span_acquire(ts_allocator *allocator, uint32_t units, uint32_t align_units, bool *fresh) {
    for (;;) {
        uint32_t unit = align_units == 1 ? take_warm_span(allocator, units) : 0;
        size_t written = TS_CARE_CLEAN;
        *fresh = false;
        if (!unit) {
            unit = take_fresh(allocator, TS_NORMAL, units, align_units);
            *fresh = ts_pool_is_zero();
        } else if (TS_UNLIKELY(allocator->care)) {
            written = ts_care_check(allocator, ts_unit_address(unit), units * TS_UNIT_BYTES);
        }
        if (!unit) return 0;
        if (ts_slab_reset_span(unit)) {
            fill_record(unit, units, 0, units * TS_UNIT_BYTES, written);
            return unit;
        }
        /* Its first unit is used up; the others are as good as new. */
        ts_allocator_retire(allocator, unit);
        if (units > 1) give_span(allocator, unit + 1, units - 1);
    }
}

/* A unit or a page, whichever is more. */
static uint32_t guard_units(void) {
    size_t page = ts_os_page_bytes();
    return page <= TS_UNIT_BYTES ? 1 : (uint32_t)(page / TS_UNIT_BYTES);
}

/* Makes the guards of a span, or of units that were to be one, accessible again and gives all of them back. While
   the system refuses they are kept apart, and a later purge tries again. */
static void give_guarded(ts_allocator *allocator, uint32_t unit) {
    ts_slab *slab = ts_slab_at(unit);
    uint32_t first = unit - slab->u.span.guard, units = slab->u.span.units;
    if (ts_os->commit(ts_unit_address(first), units * TS_UNIT_BYTES)) {
        give_span(allocator, first, units);
        return;
    }
    ts_fetch_add_relaxed(&allocator->madvise_failures, 1);
    ts_lock_acquire(&allocator->warm_lock);
    slab->next = allocator->span_warm[TS_STUCK];
    allocator->span_warm[TS_STUCK] = unit;
    ts_fetch_add_relaxed(&allocator->span_warm_units, units);
    ts_lock_release(&allocator->warm_lock);
}

uint32_t ts_span_acquire_guarded(ts_allocator *allocator, uint32_t units, uint32_t align_units, size_t size, bool *fresh) {
    uint32_t behind = guard_units(), before = align_units > behind ? align_units : behind;
    uint64_t total = (uint64_t)before + ts_align_up(units, behind) + behind;
    if (total > ts_region.part[TS_NORMAL].units) {
        errno = ENOMEM;
        return 0;
    }
    for (;;) {
        uint32_t first = take_fresh(allocator, TS_NORMAL, (uint32_t)total, before), unit = first + before;
        *fresh = ts_pool_is_zero();
        if (!first) return 0;
        if (!ts_slab_reset_span(unit)) {
            ts_allocator_retire(allocator, unit);
            give_span(allocator, first, before);
            give_span(allocator, unit + 1, (uint32_t)total - before - 1);
            continue;
        }
        size_t bytes = ts_align_up(size > 0 ? size : 1, ts_os_page_bytes());
        char *at = ts_unit_address(unit), *end = ts_unit_address(first) + total * TS_UNIT_BYTES;
        fill_record(unit, (uint32_t)total, before, bytes, TS_CARE_CLEAN);
        if (ts_os->protect(ts_unit_address(first), before * TS_UNIT_BYTES) &&
            ts_os->protect(at + bytes, (size_t)(end - (at + bytes))))
            return unit;
        give_guarded(allocator, unit);
        errno = ENOMEM;
        return 0;
    }
}

void ts_span_release(ts_allocator *allocator, uint32_t unit, uint32_t units) {
    if (ts_slab_at(unit)->u.span.guard) {
        give_guarded(allocator, unit);
        return;
    }
    if (units > TS_SPAN_WARM_UNITS || allocator->settings.reclaim_policy == SLAB_RECLAIM_AT_ONCE) {
        give_span(allocator, unit, units);
        return;
    }
    if (TS_UNLIKELY(allocator->care)) ts_care_fill(allocator, ts_unit_address(unit), units * TS_UNIT_BYTES);
    ts_lock_acquire(&allocator->warm_lock);
    ts_slab_at(unit)->next = allocator->span_warm[units];
    allocator->span_warm[units] = unit;
    ts_fetch_add_relaxed(&allocator->span_warm_units, units);
    ts_lock_release(&allocator->warm_lock);
    ts_thread.released += units;
    ts_note_warm(allocator, units);
}

bool ts_allocator_reserve(ts_allocator *allocator, uint64_t units) {
    uint32_t most = TS_PURGE_BATCH;
    while (units > 0) {
        uint32_t n = units > most ? most : (uint32_t)units;
        uint32_t first = take_within_budget(allocator, TS_NORMAL, n, 1);
        if (!first) {
            if (n == 1) {
                errno = ENOMEM;
                return false;
            }
            most = n / 2; /* what can be had is kept */
            continue;
        }
        size_t page = ts_os_page_bytes();
        uintptr_t from = (uintptr_t)ts_align_down((uintptr_t)ts_unit_address(first), page);
        uintptr_t to = (uintptr_t)ts_align_up((uintptr_t)ts_unit_address(first) + (size_t)n * TS_UNIT_BYTES, page);
        bool populated = ts_os->populate((void *)from, to - from);
        ts_fetch_add_relaxed(&allocator->reserved_units, n);
        ts_lock_acquire(&allocator->warm_lock);
        for (uint32_t i = n; i-- > 0;) ts_warm_push(&allocator->warm[TS_NORMAL], first + i);
        ts_lock_release(&allocator->warm_lock);
        if (!populated) {
            errno = ENOMEM;
            return false;
        }
        units -= n;
    }
    return true;
}

/* ---- record --------------------------------------------------------------------------------------- */

/* seq_cst: the end of an allocator changes its id and then looks at readers (ts_heap_drop_dead_shares, the last unpin);
   a reader counts itself and then looks at the id: one of the two sees the other. */
bool ts_allocator_read_begin(ts_allocator *allocator, uintptr_t token) {
    atomic_fetch_add_explicit(&allocator->readers, 1, memory_order_seq_cst);
    if (ts_load_seq(&allocator->entry.id) == token) return true;
    ts_allocator_read_end(allocator);
    return false;
}

/* release: partner of the loads of readers */
void ts_allocator_read_end(ts_allocator *allocator) {
    atomic_fetch_sub_explicit(&allocator->readers, 1, memory_order_release);
}

void ts_allocator_wait_readers(ts_allocator *allocator) {
    while (ts_load_seq(&allocator->readers) != 0) ts_os->yield();
}

void ts_allocator_pin(ts_allocator *allocator) { ts_fetch_add_relaxed(&allocator->pins, 1); }

/* A record at 0 is being given back, or has been: it is not woken. One that is in another use by now has a pin too many for
   a moment, which its own pin makes harmless. acquire: the id is read after the pin is on. */
bool ts_allocator_pin_use(ts_allocator *allocator, uintptr_t token) {
    uint64_t pins = ts_load_relaxed(&allocator->pins);
    do {
        if (pins == 0) return false;
    } while (!atomic_compare_exchange_weak_explicit(&allocator->pins, &pins, pins + 1, memory_order_acq_rel,
                                                    memory_order_relaxed));
    if (ts_load_acquire(&allocator->entry.id) == token) return true;
    ts_allocator_unpin(allocator);
    return false;
}

/* All that is warm in the record: the last who has it. */
static void give_warm_back(ts_allocator *allocator) {
    purge_shared(allocator, 0, UINT64_MAX);
    /* What the system refuses to take even now goes to the pool as it is. */
    uint32_t units[TS_PURGE_BATCH], span_units;
    for (unsigned n; (n = take_batch(allocator, 0, TS_PURGE_BATCH, units, &span_units)) > 0;)
        for (unsigned i = 0; i < n; i++) {
            uint32_t guard = span_units ? ts_slab_at(units[i])->u.span.guard : 0;
            /* A guard that stays to the last costs its addresses, and no memory. */
            if (guard && !ts_os->commit(ts_unit_address(units[i] - guard), span_units * TS_UNIT_BYTES))
                purge_run(allocator, units[i] - guard, span_units);
            else if (span_units || ts_slab_claim(units[i], &allocator->pins))
                ts_pool_give_unpurged(units[i] - guard, span_units ? span_units : 1);
        }
}

/* The last pin stays until nothing is warm: a slab that is on a queue yet becomes a zombie when it is taken, which pins the
   record until it comes off. acq_rel: who gives the record back sees all that the others did with it. */
void ts_allocator_unpin(ts_allocator *allocator) {
    uint64_t pins = ts_load_acquire(&allocator->pins);
    for (;;) {
        if (pins == 1) {
            give_warm_back(allocator);
            pins = ts_load_acquire(&allocator->pins);
        }
        if (!atomic_compare_exchange_strong_explicit(&allocator->pins, &pins, pins - 1, memory_order_acq_rel,
                                                     memory_order_acquire))
            continue;
        if (pins != 1) return;
        if (shared_warm_units(allocator) == 0) break;
        /* Put there by a pin that came and went meanwhile; at 0 no other comes. */
        ts_store_relaxed(&allocator->pins, pins);
    }
    ts_allocator_wait_readers(allocator);
    ts_table_give(&ts_allocators, allocator);
}
