/*
 * The record of an allocator (allocator.h): its readers, its pins, and its end.
 *
 * What could go wrong: the record gets its next use while a thread still reads it, or it is given back twice. Neither
 * happens. A reader counts itself and then looks at the id. The end changes the id and then looks at the count. One
 * sees the other, and nobody waits. Either the last reader or the last pin finds the mark that says that the use is
 * over, never both.
 */
/* Modelled in tests/model: record. */
#include "core/read.h"
#include "supply/allocator.h"

#include "os/os.h"
#include "region/region.h"
#include "supply/nodes.h"
#include "supply/purge.h"

ts_table ts_allocators;

void ts_allocators_init(void) {
    ts_table_init(&ts_allocators, TS_TABLE_ALLOCATOR, TS_ALLOCATOR_STRIDE, 8 * sizeof(void *));
}

/* seq_cst: the end of an allocator changes its id and then looks at readers (ts_heap_drop_dead_shares, the last unpin);
   a reader counts itself and then looks at the id: one of the two sees the other. */
bool ts_allocator_read_begin(ts_allocator *allocator, uintptr_t token) {
    atomic_fetch_add_explicit(&allocator->readers, 1, memory_order_seq_cst);
    if (ts_load_seq(&allocator->record.id) == token) return true;
    ts_allocator_read_end(allocator);
    return false;
}

/* Nobody waits for readers. The last of them gives the record back, if its use is over by then. The last unpin, and
   readers that come and go meanwhile, look for the mark alone in the count; one of them finds it, and takes it off.
   acq_rel: that thread has seen all that the others did with the record. */
static void give_unread(ts_allocator *allocator) {
    uint32_t over = TS_READERS_OVER;
    if (atomic_compare_exchange_strong_explicit(&allocator->readers, &over, 0, memory_order_acq_rel,
                                                memory_order_acquire)) {
        ts_nodes_end(allocator);
        struct ts_past_ring *past = ts_load_relaxed(&allocator->past);
        ts_store_relaxed(&allocator->past, NULL);
        if (past) ts_lines_give(TS_LINES_PAST, past);
        ts_table_give(&ts_allocators, allocator);
    }
}

void ts_allocator_read_end(ts_allocator *allocator) {
    uint32_t before = atomic_fetch_sub_explicit(&allocator->readers, 1, memory_order_acq_rel);
    if (TS_UNLIKELY(before == TS_READERS_OVER + 1)) give_unread(allocator);
}

void ts_allocator_fork_child(ts_allocator *allocator) {
    uint32_t over = ts_load_relaxed(&allocator->readers) & TS_READERS_OVER;
    ts_store_relaxed(&allocator->readers, over);
    if (over) give_unread(allocator);
}

void ts_allocator_pin(ts_allocator *allocator) { ts_fetch_add_relaxed(&allocator->pins, 1); }

/* A record at 0 is being given back, or has been: it is not woken. One that is in another use by now has a pin too
   many for a moment, which its own pin makes harmless. acquire: the id is read after the pin is on. */
bool ts_allocator_pin_use(ts_allocator *allocator, uintptr_t token) {
    uint64_t pins = ts_load_relaxed(&allocator->pins);
    do {
        if (pins == 0) return false;
    } while (!atomic_compare_exchange_weak_explicit(&allocator->pins, &pins, pins + 1, memory_order_acq_rel,
                                                    memory_order_relaxed));
    if (ts_load_acquire(&allocator->record.id) == token) return true;
    ts_allocator_unpin(allocator);
    return false;
}

/* Gives all retained memory back. By the last pin. */
static void give_retained_back(ts_allocator *allocator) {
    ts_purge_shared(allocator, 0, UINT64_MAX);
    /* Memory that the system refuses to take even now goes to the pool as it is. */
    uint32_t unit, units;
    while ((unit = ts_purge_take_run(allocator, 0, 1, UINT64_MAX, &units)) != 0) ts_pool_give_unpurged(unit, units);
    while ((unit = ts_purge_take_stuck(allocator)) != 0) {
        uint32_t first = unit - ts_slab_at(unit)->u.span.guard;
        units = ts_slab_at(unit)->u.span.units;
        /* A guard that stays to the last costs its addresses, and no memory. */
        if (!ts_os->commit(ts_unit_address(first), ts_units_bytes(first, units)))
            ts_purge_run(allocator, first, units, false);
        else
            ts_pool_give_unpurged(first, units);
    }
}

/* The last pin stays until nothing is retained. A slab that is on a queue becomes a zombie when it is taken, which
   pins the record until it comes off. acq_rel: the thread that gives the record back sees all that the others did
   with it. */
void ts_allocator_unpin(ts_allocator *allocator) {
    uint64_t pins = ts_load_acquire(&allocator->pins);
    for (;;) {
        if (pins == 1) {
            give_retained_back(allocator);
            pins = ts_load_acquire(&allocator->pins);
        }
        if (!atomic_compare_exchange_strong_explicit(&allocator->pins, &pins, pins - 1, memory_order_acq_rel,
                                                     memory_order_acquire))
            continue;
        if (pins != 1) return;
        if (ts_retained_shared(allocator) == 0) break;
        /* Put there by a pin that came and went meanwhile; at 0 no other comes. */
        ts_store_relaxed(&allocator->pins, pins);
    }
    atomic_fetch_or_explicit(&allocator->readers, TS_READERS_OVER, memory_order_acq_rel);
    give_unread(allocator);
}

/* ---- for readers (core/read.h) ---------------------------------------------------------------------------------- */

ts_allocator *ts_read_find(const SlabAllocator *allocator) {
    ts_allocator *a = ts_allocator_find(ts_token(allocator));
    return a ? a : ts_fail_null(EINVAL);
}

ts_allocator *ts_read_begin(const SlabAllocator *allocator) {
    ts_allocator *a = ts_read_find(allocator);
    return !a || ts_allocator_read_begin(a, ts_token(allocator)) ? a : ts_fail_null(EINVAL);
}

void ts_read_end(ts_allocator *allocator) { ts_allocator_read_end(allocator); }
ts_allocator *ts_read_next(uint32_t *index, uintptr_t *token) { return ts_allocator_next(index, token); }
uint64_t ts_read_committed_units(const ts_allocator *a) { return ts_load_relaxed(&a->committed_units); }
uint64_t ts_read_stack_samples(const ts_allocator *a) { return ts_load_relaxed(&a->stack_samples); }
uint64_t ts_read_stack_mean(const ts_allocator *a) { return ts_load_relaxed(&a->stack_mean_bytes); }
