/*
 * Lends the memory of a closed epoch, and takes it back. spill.h has the states, slab/lent.h the loan of one slab or
 * span.
 *
 * Why a free, a destroy and the keeper agree
 *  1. Begin lends slabs with the heap of their block held, spans under the epoch's lock. The blocks are flushed, so
 *     no slab is added. (A block that is not flushed belongs to a thread that has yet to give it up: EBUSY.) Each
 *     slab has FOREIGN off when it is lent: it is on no queue, and gets on none while it is lent.
 *  2. A free of the last object of a slab, or of a span, takes the bit and makes the extent dead. Return takes the bit
 *     and gives the extent back. The bit has one taker (slab/lent.h, 3).
 *  3. Destroy, and the end of the epoch by its last free, take nothing apart: the spill has the epoch pinned (end.c).
 *     Destroy releases the spans, which takes their bits. Slabs stay in their blocks, stale, with their bits.
 *  4. Return comes after the memory is accessible and counted. A slab that it gives back by the queue is alive or
 *     stale: the drain finds out. Dead extents go to the system. Then the pin goes. If the epoch is over, its blocks
 *     go with the pin.
 * The units of LENT and FETCHED count as committed, those of AWAY do not.
 */
/* Modelled in tests/model: spill. */
#include "spill/spill.h"
#include "base/base.h"

#include "cache/cache.h"
#include "epoch/epoch.h"
#include "os/os.h"
#include "spill/spilled.h"
#include "supply/supply.h"

#include <errno.h>
#include <stdlib.h>

#define HOLD_NAPS 100u /* some milliseconds for a thread in the middle of an operation */

/* ---- begin ------------------------------------------------------------------------------------------------------- */

/* The epoch, locked, if it can be spilled. */
static ts_epoch *find_closing(ts_allocator *allocator, EpochId id) {
    ts_epoch *epoch = allocator ? ts_epoch_find_locked(allocator, id) : NULL;
    if (!epoch) {
        errno = allocator && ts_table_is_past(&ts_epochs, id) ? ESTALE : EINVAL;
        return NULL;
    }
    bool closing = ts_load_relaxed(&epoch->state) == EPOCH_CLOSING;
    if (closing && !epoch->spill) return epoch;
    ts_epoch_release(epoch);
    errno = closing ? EBUSY : EINVAL;
    return NULL;
}

size_t ts_spill_most(uintptr_t token, EpochId id) {
    ts_epoch *epoch = find_closing(ts_allocator_find(token), id);
    if (!epoch) return 0;
    /* In a closing epoch both only fall; begin finds a block that is not flushed yet. */
    size_t most = (size_t)ts_load_relaxed(&epoch->span_units);
    for (const ts_block *b = ts_load_relaxed(&epoch->blocks); b; b = ts_load_relaxed(&b->epoch_next))
        most += ts_load_relaxed(&b->slabs);
    ts_epoch_release(epoch);
    return most + 1;
}

static bool add_piece(ts_spill *spill, uint32_t unit, uint32_t units, bool is_span) {
    if (spill->extents == spill->room) return false;
    uint32_t slabs = (uint32_t)ts_units_weight(unit, units);
    spill->extent[spill->extents++] = (ts_spill_extent){unit, units, slabs, is_span};
    spill->units += slabs;
    return true;
}

/* Caller has the epoch's lock. */
static bool lend_spans(ts_spill *spill) {
    for (uint32_t unit = spill->epoch->spans; unit; unit = ts_slab_at(unit)->next) {
        if (!add_piece(spill, unit, ts_slab_at(unit)->u.span.units, true)) return false;
        ts_lend(unit);
    }
    return true;
}

static bool lend_list(ts_spill *spill, uint32_t unit) {
    for (; unit; unit = ts_slab_at(unit)->next) {
        if (ts_is_piece(unit)) {
            spill->kept_bytes += ts_slab_bytes(unit);
            continue;
        }
        uint64_t word = ts_load_acquire(ts_unit_word(unit));
        uint32_t units = ts_slab_units(ts_slab_at(unit));
        if ((word & TS_UNIT_FOREIGN) || !add_piece(spill, unit, units, false)) return false;
        if (ts_spilled_lend_slab(unit, word)) continue;
        spill->extents--;
        spill->units -= units;
        return false;
    }
    return true;
}

/* Caller holds the heap. */
static bool lend_block(ts_spill *spill, ts_block *block) {
    if (!ts_load_relaxed(&block->flushed)) return false;
    if (block->scope) return lend_list(spill, ts_scope(block)->head);
    for (uint64_t left = ts_load_relaxed(&block->bins_used); left; left &= left - 1)
        if (!lend_list(spill, ts_bin_head(&ts_churn(block)->bin[ts_ctz64(left)]))) return false;
    return true;
}

/* Holds the heap of a block that no thread takes apart, and returns it. NULL: not now. */
static ts_heap *hold_heap_of(const ts_block *block) {
    for (unsigned naps = 0; naps < HOLD_NAPS; naps++) {
        ts_heap *heap = ts_load_acquire(&block->heap);
        if (ts_heap_hold(heap)) {
            if (ts_load_relaxed(&block->heap) == heap) return heap;
            ts_heap_drop(heap);
        } else if (ts_load_relaxed(&heap->state) == TS_HEAP_LOST) {
            return NULL;
        } else {
            ts_nap();
        }
    }
    return NULL;
}

static bool lend_slabs(ts_spill *spill, ts_block *blocks) {
    for (ts_block *b = blocks; b; b = ts_load_relaxed(&b->epoch_next)) {
        ts_heap *heap = hold_heap_of(b);
        if (!heap) return false;
        ts_foreign_drain(heap); /* so that FOREIGN is off */
        bool lent = ts_era(b) == ts_load_relaxed(&b->era) && lend_block(spill, b);
        ts_heap_drop(heap);
        if (!lent) return false;
    }
    return true;
}

static int by_unit(const void *a, const void *b) {
    uint32_t x = ((const ts_spill_extent *)a)->unit, y = ((const ts_spill_extent *)b)->unit;
    return (x > y) - (x < y);
}

/* The run that begins with the extent. Returns the extent behind it. */
static size_t run_from(const ts_spill *spill, size_t first, uint32_t *units) {
    uint32_t end = spill->extent[first].unit;
    size_t i = first;
    while (i < spill->extents && spill->extent[i].unit == end) end += spill->extent[i++].units;
    *units = end - spill->extent[first].unit;
    return i;
}

static void sort_pieces(ts_spill *spill) {
    if (spill->extents > 1) qsort(spill->extent, spill->extents, sizeof *spill->extent, by_unit);
    spill->runs = 0;
    for (size_t i = 0; i < spill->extents; spill->runs++) {
        uint32_t units;
        i = run_from(spill, i, &units);
    }
}

bool ts_spill_begin(uintptr_t token, EpochId id, ts_spill *spill) {
    ts_allocator *allocator = ts_allocator_find(token);
    if (allocator && (allocator->care || allocator->settings.guard_spans || ts_os_page_bytes() > TS_UNIT_BYTES))
        return ts_fail(ENOTSUP);
    ts_epoch *epoch = find_closing(allocator, id);
    if (!epoch) return false;
    spill->allocator = allocator;
    spill->epoch = epoch;
    spill->id = id;
    spill->state = TS_SPILL_LENT;
    spill->extents = spill->runs = 0;
    spill->units = spill->kept_bytes = 0;
    spill->hides = false;
    epoch->spill = spill;
    epoch->pins++;
    /* The end of the allocator ends this epoch first, and so comes after this. */
    ts_allocator_pin(allocator);
    ts_store_relaxed(&ts_loans, &ts_spilled_loan);
    ts_fetch_add_relaxed(&ts_spills, 1);
    bool lent = lend_spans(spill);
    ts_block *blocks = ts_load_relaxed(&epoch->blocks);
    ts_epoch_release(epoch);
    lent = lent && lend_slabs(spill, blocks);
    sort_pieces(spill);
    if (lent) return true;
    ts_spill_return(spill);
    return ts_fail(EBUSY);
}

/* ---- memory ------------------------------------------------------------------------------------------------------ */

/* Does fn to all runs. false: it said no to some. */
static bool each_run(const ts_spill *spill, bool (*fn)(const ts_spill *, char *at, size_t bytes)) {
    bool all = true;
    for (size_t i = 0; i < spill->extents;) {
        uint32_t units, first = spill->extent[i].unit;
        i = run_from(spill, i, &units);
        all = fn(spill, ts_unit_address(first), ts_units_bytes(first, units)) && all;
    }
    return all;
}

static bool forbid(const ts_spill *spill, char *at, size_t bytes) {
    return (spill->hides && ts_os->hide(at, bytes, true)) || ts_os->protect(at, bytes);
}
static bool allow(const ts_spill *spill, char *at, size_t bytes) {
    return (!spill->hides || ts_os->hide(at, bytes, false)) && ts_os->commit(at, bytes);
}
static bool purge(const ts_spill *spill, char *at, size_t bytes) {
    return ts_purge_pages(spill->allocator, at, at + bytes); /* a refusal is counted, and harms nothing */
}

/* Memory that is away counts on no node. When it comes back it counts on the node of its addresses. */
static void count_nodes(const ts_spill *spill, bool back) {
    if (!ts_nodes_of(spill->allocator)) return;
    for (size_t i = 0; i < spill->extents; i++) {
        uint64_t units = spill->extent[i].slabs;
        ts_nodes_count(spill->allocator, ts_home_of(spill->extent[i].unit), back ? units : (uint64_t)0 - units);
    }
}

bool ts_spill_hides(void) { return ts_os->hide(NULL, 0, true); }

/* Makes all runs inaccessible. false: they are accessible. Where pages can be hidden it is all (spill.h, 4). */
static bool forbid_all(ts_spill *spill) {
    spill->hides = spill->extents != 0 && ts_os->hide(ts_unit_address(spill->extent[0].unit), ts_os_page_bytes(), true);
    if (!spill->hides && spill->no_mappings) return false;
    if (each_run(spill, forbid) || spill->hides) return true;
    (void)each_run(spill, allow); /* a run that was accessible all along costs a call */
    return false;
}

bool ts_spill_send(ts_spill *spill) {
    /* What is FETCHED without its bytes is AWAY in any case: where that is refused the addresses read as zero until
       they are fetched. */
    if (!forbid_all(spill) && spill->state == TS_SPILL_LENT) return ts_fail(EBUSY);
    (void)each_run(spill, purge);
    count_nodes(spill, false);
    ts_uncommit(spill->allocator, spill->units);
    spill->state = TS_SPILL_AWAY;
    ts_epoch_acquire(spill->epoch);
    ts_store_release(&spill->epoch->is_away, true);
    ts_epoch_release(spill->epoch);
    return true;
}

static bool commit_units(ts_allocator *allocator, uint64_t units) {
    if (ts_commit_within_budget(allocator, units)) return true;
    (void)ts_purge_shared(allocator, 0, UINT64_MAX);
    return ts_commit_within_budget(allocator, units);
}

bool ts_spill_fetch(ts_spill *spill) {
    if (commit_units(spill->allocator, spill->units)) {
        if (each_run(spill, allow)) {
            count_nodes(spill, true);
            spill->state = TS_SPILL_FETCHED;
            return true;
        }
        (void)each_run(spill, forbid);
        ts_uncommit(spill->allocator, spill->units);
    }
    return ts_fail(ENOMEM);
}

/* ---- return ------------------------------------------------------------------------------------------------------ */

/* Drains the slabs that came back by the queues, as far as heaps can be held. The epoch may have closed long ago, and
   then no other call would drain them. */
static void drain_blocks(const ts_block *blocks) {
    for (const ts_block *b = blocks; b; b = ts_load_relaxed(&b->epoch_next)) {
        ts_heap *heap = ts_load_acquire(&b->heap);
        if (ts_heap_hold(heap) || ts_heap_notify(heap)) {
            ts_heap_run_posted(heap);
            ts_heap_drop(heap);
        }
    }
}

/* A free takes the slab out of its block, which takes a moment. The word of a span is 0 already. */
static void wait_until_dead(uint32_t unit) {
    while (ts_load_acquire(ts_unit_word(unit)) != 0) ts_nap();
}

void ts_spill_return(ts_spill *spill) {
    ts_epoch *epoch = spill->epoch;
    ts_allocator *allocator = spill->allocator;
    uint32_t dead = 0, dead_units = 0; /* dead extents in a row */
    for (size_t i = 0; i < spill->extents; i++) {
        const ts_spill_extent *extent = &spill->extent[i];
        if (ts_take_lent(extent->unit)) {
            if (!extent->is_span) ts_foreign_return(extent->unit);
            continue;
        }
        if (!extent->is_span) wait_until_dead(extent->unit);
        if (dead_units != 0 && dead + dead_units != extent->unit) {
            (void)ts_purge_span(allocator, dead, dead_units);
            dead_units = 0;
        }
        if (dead_units == 0) dead = extent->unit;
        dead_units += extent->units;
    }
    if (dead_units != 0) (void)ts_purge_span(allocator, dead, dead_units);
    ts_epoch_acquire(epoch);
    epoch->spill = NULL;
    ts_store_release(&epoch->is_away, false);
    const ts_block *blocks = ts_load_relaxed(&epoch->blocks); /* pinned: they stay */
    ts_epoch_release(epoch);
    drain_blocks(blocks);
    spill->state = TS_SPILL_NONE;
    spill->extents = 0;
    atomic_fetch_sub_explicit(&ts_spills, 1, memory_order_release); /* partner: ts_is_lent */
    uint64_t released = ts_thread.released;
    ts_epoch_unpin(epoch);
    ts_epoch_purge_after_end(ts_thread.released - released);
    ts_allocator_unpin(allocator);
}

bool ts_spill_is_over(const ts_spill *spill) {
    ts_epoch_acquire(spill->epoch);
    bool over = ts_load_relaxed(&spill->epoch->record.id) != spill->id;
    ts_epoch_release(spill->epoch);
    return over;
}

bool ts_spill_bury(ts_spill *spill) {
    if (spill->state == TS_SPILL_AWAY) {
        if (!each_run(spill, allow)) return false; /* some are accessible: the rest comes later */
        ts_fetch_add_relaxed(&spill->allocator->committed_units, spill->units);
        count_nodes(spill, true);
        spill->state = TS_SPILL_FETCHED;
    }
    ts_spill_return(spill);
    return true;
}
