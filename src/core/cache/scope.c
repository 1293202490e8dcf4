/* Modelled in tests/model: foreign, orders. */
#include "base/base.h"
#include "cache/allocate.h"
#include "cache/cache.h"
#include "memtools/memtools.h"
#include "os/os.h"
#include "supply/supply.h"

/* All of the slab's objects are freed, and no thread frees anything in it any more. */
void ts_scope_remove(ts_scope_block *block, uint32_t unit) {
    const ts_slab *slab = ts_slab_at(unit);
    if (slab->prev)
        ts_slab_at(slab->prev)->next = slab->next;
    else
        block->head = slab->next;
    if (slab->next)
        ts_slab_at(slab->next)->prev = slab->prev;
    else
        block->tail = slab->prev;
    ts_add_owned(&block->b.slabs, (uint32_t)-1);
    if (ts_is_piece(unit))
        ts_scope_count_piece(block, unit, -1);
    else
        ts_block_gives(&block->b, 1);
    ts_note_drained(&block->b);
}

static bool release_slab(ts_scope_block *block, uint32_t unit) {
    _Atomic uint64_t *word = ts_unit_word(unit);
    uint64_t w = ts_load_relaxed(word);
    /* seq_cst: as in the release of a churn slab */
    while (!(w & TS_UNIT_FOREIGN)) {
        if (!ts_cas_seq(word, &w, 0)) continue;
        ts_scope_remove(block, unit);
        ts_slab_note_last(unit, w);
        if (ts_is_piece(unit))
            ts_share_keep_piece(block->b.share, unit);
        else
            ts_share_keep(block->b.share, unit);
        return true;
    }
    return false;
}

/*
 * How objects are counted. `allocs` has the objects of the slabs before the current one, and the bump word counts
 * those of the current one. Each has a bit, its turn. Sealing a slab adds its count to `allocs` and flips the turn
 * there. Then the bump word gets another slab, and that turn (a release store each). A reader loads `allocs`, `bump`
 * (acquire each), and `allocs` again.
 *   - Both loads of `allocs` agree, and the turns are equal. Then `bump` is of the slab that came after those in
 *     `allocs`. It cannot be of an earlier slab: the bump words of the turn before came before this `allocs`, and
 *     those of the turn before that yet earlier. It cannot be of a later slab: before that slab `allocs` would have
 *     changed.
 *   - Both agree, and the turns differ. Then the objects that `bump` counts are in `allocs` already, or its slab had
 *     none.
 *   - They differ. The reader looks again.
 * The number of looks is limited, so that a thread that fills slabs all the time keeps no reader. All this is within
 * one use of the block. Its end sets both words to 0. A reader of a block that ends learns of the end afterwards
 * (ts_epoch_read_blocks).
 */
uint64_t ts_scope_allocs(const ts_scope_block *block) {
    uint64_t allocs = 0;
    for (unsigned looks = 0; looks < 16; looks++) {
        allocs = ts_load_acquire(&block->allocs);
        uint64_t bump = ts_load_acquire(&block->bump);
        if (TS_UNLIKELY(ts_load_relaxed(&block->allocs) != allocs)) continue;
        bool same = (allocs & TS_ALLOCS_TURN) * TS_BUMP_TURN == (bump & TS_BUMP_TURN);
        return (allocs >> TS_ALLOCS_SHIFT) + (same ? ts_bump_count(bump) : 0);
    }
    return allocs >> TS_ALLOCS_SHIFT;
}

void ts_scope_add(ts_scope_block *block, uint32_t unit) {
    bool piece = ts_is_piece(unit); /* an allocator with care has no pieces */
    if (!piece) ts_care_begin(block->b.share->allocator->care, ts_unit_address(unit), TS_UNIT_BYTES, true);
    (void)ts_scope_append(block, unit, ts_slab_at(unit), piece, 0);
}

void ts_scope_seal_current(ts_scope_block *block) {
    uint32_t unit = ts_load_relaxed(&block->current);
    if (!unit) return;
    ts_scope_seal(block, ts_slab_at(unit));
    ts_store_relaxed(&block->current, 0);
    block->bits = NULL;
    ts_store_relaxed(&block->limit, 0);
    ts_store_release(&block->bump, 0);
}

void ts_scope_retire_current(ts_scope_block *block) {
    uint32_t unit = ts_load_relaxed(&block->current);
    ts_scope_seal_current(block);
    if (unit) ts_scope_release_if_empty(block, unit);
}

/* Whether the next slab is a piece that the share has. */
static bool takes_piece(const ts_scope_block *block, size_t bytes, size_t align) {
    const ts_share *share = block->b.share;
    if (!share->pieces[ts_scope_takes_long(block, bytes)]) return false;
    if (ts_scope_may_leak(block)) return ts_scope_takes_piece(block, bytes, align);
    if (ts_scope_begins_small(block)) return bytes <= 2 * TS_PIECE_BYTES && align <= TS_PIECE_BYTES;
    return share->retained.head == 0 && ts_scope_takes_piece(block, bytes, align);
}

/* Takes a retained unit of the share, or else a piece if the block gets one for this object, and resets it. */
static uint32_t take_at_hand(ts_scope_block *block, size_t bytes, size_t align) {
    ts_share *share = block->b.share;
    /* A unit that is charged to an account is charged by a caller that holds no heap, before it is taken. A unit of a
       NUMA home (nodes.h) is taken elsewhere, too. */
    if (block->b.account || ts_load_relaxed(&share->allocator->nodes)) return 0;
    if (takes_piece(block, bytes, align)) return ts_share_take_piece(share, ts_scope_takes_long(block, bytes));
    bool small = ts_scope_may_leak(block) ? ts_scope_takes_piece(block, bytes, align)
                                          : ts_scope_begins_small(block) && bytes <= 2 * TS_PIECE_BYTES;
    uint32_t unit = small ? 0 : ts_share_take(share);
    if (!unit) return 0;
    if (ts_slab_reset_scope(unit)) return unit;
    ts_allocator_retire(share->allocator, unit);
    return 0;
}

bool ts_scope_renew(ts_scope_block *block, size_t bytes, size_t align) {
    uint32_t unit = take_at_hand(block, bytes, align), last = ts_load_relaxed(&block->current);
    if (!unit) return false;
    if (last) ts_scope_fill(block, ts_slab_at(last));
    ts_scope_add(block, unit);
    /* after the block's own count: snapshot.c, `rising` */
    ts_count_release(&block->b.share->count[TS_COUNT_SCOPE].new_slab_count, 1);
    if (last) ts_scope_release_if_empty(block, last);
    return true;
}

void *ts_scope_next_piece(ts_scope_block *block, size_t bytes) {
    return takes_piece(block, bytes, 16) ? ts_scope_next(block, bytes, true) : NULL;
}

void *ts_scope_renew_for(ts_scope_block *block, size_t bytes) {
    void *p = ts_scope_next_piece(block, bytes);
    if (TS_LIKELY(p != NULL)) return p;
    if (!ts_scope_renew(block, bytes, 16)) return NULL;
    ts_count(&block->b.share->count[TS_COUNT_SCOPE].slow_path_hits, 1);
    uint64_t bump = ts_load_relaxed(&block->bump);
    return ts_fast_bump(block, bump, ts_bump_next(bump, bytes));
}

static void set_bit(_Atomic uint64_t *words, uint32_t entry) {
    ts_store_relaxed(&words[entry >> 6], ts_load_relaxed(&words[entry >> 6]) | (uint64_t)1 << (entry & 63));
}

/* The gap counts as an object that was freed at once, so that the object before it keeps its size. */
void *ts_scope_bump_aligned(ts_scope_block *block, size_t align, size_t bytes) {
    uint64_t bump = ts_load_relaxed(&block->bump);
    char *at = ts_bump_at(bump);
    if (!at) return NULL;
    char *aligned = (char *)(uintptr_t)ts_align_up((uintptr_t)at, align);
    size_t skip = (size_t)(aligned - at);
    uint32_t unit = ts_load_relaxed(&block->current);
    const char *base = ts_slab_unit_address(unit), *end = ts_slab_address(unit) + ts_slab_bytes(unit);
    if (skip > (size_t)(end - at) || bytes > (size_t)(end - aligned)) return NULL;
    if (skip) {
        set_bit(block->bits->freed, (uint32_t)((size_t)(at - base) / 16));
        set_bit(block->bits->start, (uint32_t)((size_t)(at - base) / 16));
        ts_slab_at(unit)->free_count++;
        block->skipped = (uint16_t)(block->skipped + 1);
        ts_count(&block->bytes_freed, skip);
    }
    set_bit(block->bits->start, (uint32_t)((size_t)(aligned - base) / 16));
    ts_store_release(&block->bump, ts_bump_next(bump, skip + bytes)); /* as in ts_fast_bump */
    return aligned;
}

void ts_scope_release_if_empty(ts_scope_block *block, uint32_t unit) {
    const ts_slab *slab = ts_slab_at(unit);
    if (unit != ts_load_relaxed(&block->current) && slab->free_count == slab->empty_at) release_slab(block, unit);
}

size_t ts_scope_object_bytes(const ts_scope_block *block, uint32_t unit, uint32_t entry_in_unit) {
    const ts_slab *slab = ts_slab_at(unit);
    /* acquire: partner of the releases in ts_scope_seal_current and in the allocation path: start bits of all
       that lies below the end are seen */
    uint32_t end = ts_load_acquire(&slab->end);
    if (end == 0) {
        const char *bump = ts_bump_at(ts_load_acquire(&block->bump));
        uint32_t again = ts_load_acquire(&slab->end);
        end = again ? again : (uint32_t)((size_t)(bump - ts_slab_unit_address(unit)) / 16);
        if (end > TS_UNIT_ENTRIES)
            end = TS_UNIT_ENTRIES; /* the slab has had another use meanwhile: any answer will do */
    }
    if (end <= entry_in_unit) return 16;
    return (size_t)ts_scope_entries(unit, entry_in_unit, end) * 16u;
}

bool ts_scope_free(ts_scope_block *block, uint32_t unit, uint32_t entry_in_unit) {
    ts_scope_bits *bits = ts_slab_scope_bits(unit);
    unsigned w = entry_in_unit >> 6;
    uint64_t bit = (uint64_t)1 << (entry_in_unit & 63);
    uint64_t freed = ts_load_relaxed(&bits->freed[w]);
    if (!(ts_load_relaxed(&bits->start[w]) & bit) || (freed & bit)) return false;
    size_t bytes = ts_scope_object_bytes(block, unit, entry_in_unit);
    ts_store_release(&bits->freed[w], freed | bit); /* before its foreign bit is cleared: see foreign.c */
    ts_count(&block->frees, 1);
    ts_count(&block->bytes_freed, bytes);
    ts_slab_at(unit)->free_count++;
    return true;
}
