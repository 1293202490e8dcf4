/*
 * The loan of slabs. Three kinds of threads may be at one slab at the same time:
 *
 *     a free, the owner's too   writes a live or a foreign bit, then looks for live objects (ts_foreign_all_freed)
 *     the end of the epoch      writes the block's key; takes nothing apart while the spill has the epoch pinned
 *     the end of the loan       takes the bit in ts_spilled_units
 *
 *  1. One of the frees of the last objects finds the slab empty. Each writes first and looks then, all seq_cst: that
 *     is the argument of ts_foreign_give_closed. A free takes the slab out with the heap held, so no two do.
 *  2. A free that takes the slab out and the end of the loan meet in the bit: one of them gets it. If the free gets
 *     it, it takes the slab out without waiting, and stores 0 in the UNIT word last. The end of the loan waits for
 *     that, some hundred instructions. If the end gets it, it pushes the slab on the queue of its block's heap. The
 *     drain finds the bits that frees left meanwhile.
 *  3. A free may find the bit on, and find it off once it holds the heap. Then it goes the usual way: it takes the
 *     slab off the queue. If the slab is not on it yet, the end of the loan drains it.
 *  4. A free that cannot hold the owner's heap waits. If it did not, the slab would stay until the loan ends. Only
 *     the free of the last object of a slab that is away waits so. Where no heap can be held (no barrier; a thread
 *     lost in a fork) the slab stays.
 */
/* Modelled in tests/model: spill. */
#include "spill/spilled.h"

#include "cache/cache.h"
#include "os/os.h"
#include "supply/supply.h"

bool ts_spilled_lend_slab(uint32_t unit, uint64_t word) {
    ts_lend(unit);
    /* seq_cst: as in ts_foreign_lend. A thread that sees FOREIGN sees the bit. */
    if (ts_cas_seq(ts_unit_word(unit), &word, word | TS_UNIT_FOREIGN)) {
        ts_nodes_queue_empty(unit);
        return true;
    }
    (void)ts_take_lent(unit);
    return false;
}

static ts_block *block_of(uint32_t unit, uint64_t *word) {
    uint64_t w = *word = ts_load_acquire(ts_unit_word(unit));
    if (w == 0 || (w & (TS_UNIT_ZOMBIE | TS_UNIT_SPAN))) return NULL;
    return ts_block_of_word(w);
}

static void take_out_slab(const ts_heap *heap, uint32_t unit) {
    uint64_t word;
    ts_block *block = block_of(unit, &word);
    if (!block || ts_era(block) != ts_word_era(word) || ts_load_relaxed(&block->heap) != heap) return;
    if (!ts_foreign_all_freed(unit, word) || !ts_take_lent(unit)) return;
    ts_foreign_drain_slab(block, unit, word);
    if (block->scope)
        ts_scope_remove(ts_scope(block), unit);
    else
        ts_bin_remove(ts_churn(block), ts_line_address(ts_word_line(word)), unit);
    ts_slab_note_last(unit, word);
    ts_store_release(ts_unit_word(unit), 0); /* partner: wait_until_dead */
}

static void hold_and_take_out(uint32_t unit) {
    while (ts_is_lent(unit)) {
        uint64_t word;
        const ts_block *block = block_of(unit, &word);
        ts_heap *heap = block && ts_era(block) == ts_word_era(word) ? ts_load_acquire(&block->heap) : NULL;
        if (!heap || ts_load_relaxed(&heap->state) == TS_HEAP_LOST) return;
        if (ts_heap_hold(heap)) {
            bool home = ts_load_relaxed(&block->heap) == heap;
            take_out_slab(heap, unit);
            ts_heap_drop(heap);
            if (home) return;
        } else if (!ts_os->barrier_all()) {
            return;
        } else {
            ts_nap();
        }
    }
}

const ts_loan ts_spilled_loan = {take_out_slab, hold_and_take_out};
