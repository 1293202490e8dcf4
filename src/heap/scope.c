/* Modelled in tests/model: foreign, orders. */
#include "base/assert.h"
#include "base/bits.h"
#include "base/probe.h"
#include "heap/care.h"
#include "heap/heap.h"

/* Scope slabs lie in part NORMAL, whose units are numbered from 0. */
TS_ALWAYS_INLINE char *address_of(uint32_t unit) {
    return ts_region.part[TS_NORMAL].base + (size_t)unit * TS_UNIT_BYTES;
}

/* Without care. */
TS_ALWAYS_INLINE void add_slab(ts_scope_block *block, uint32_t unit) {
    char *at = address_of(unit);
    uint32_t second = block->head;
    ts_slab *slab = ts_slab_at(unit);
    TS_PROBE2(slab__new, at, (uint64_t)0);
    slab->prev = 0;
    slab->next = second;
    if (second)
        ts_slab_at(second)->prev = unit;
    else
        block->tail = unit;
    block->head = unit;
    ts_add_owned(&block->b.slabs, 1);
    ts_store_relaxed(&block->current, unit);
    block->bits = ts_slab_scope_bits(unit);
    block->allocs_before = ts_load_relaxed(&block->allocs);
    block->end = at + TS_UNIT_BYTES;
    ts_store_release(&block->bump, at);
    /* release: who reads the word sees the reset slab */
    ts_store_release(ts_unit_word(unit),
                     TS_UNIT_SCOPE | block->b.era | (uint64_t)ts_line_of(block) << TS_UNIT_LINE_SHIFT);
}

static bool release_slab(ts_scope_block *block, uint32_t unit) {
    ts_slab *slab = ts_slab_at(unit);
    _Atomic uint64_t *word = ts_unit_word(unit);
    uint64_t w = ts_load_relaxed(word);
    /* seq_cst: as in the release of a churn slab */
    while (!(w & TS_UNIT_FOREIGN)) {
        if (!ts_cas_seq(word, &w, 0)) continue;
        if (slab->prev)
            ts_slab_at(slab->prev)->next = slab->next;
        else
            block->head = slab->next;
        if (slab->next)
            ts_slab_at(slab->next)->prev = slab->prev;
        else
            block->tail = slab->prev;
        ts_add_owned(&block->b.slabs, (uint32_t)-1);
        slab->u.last_word = w;
        ts_share_keep(block->b.share, unit);
        ts_count(&block->b.share->count[TS_COUNT_SCOPE].empty_slab_recycled, 1);
        ts_note_drained(&block->b);
        return true;
    }
    return false;
}

/* Objects begun in the current slab; what was skipped for an alignment is one that is freed (ts_scope_bump_aligned). */
TS_ALWAYS_INLINE uint16_t current_allocs(const ts_scope_block *block) {
    return (uint16_t)(ts_load_relaxed(&block->allocs) - block->allocs_before);
}

/* Nothing is added to the current slab any more. Afterwards it is released if it is empty, which can only be done once it is
   no longer the current one. */
TS_ALWAYS_INLINE void seal(ts_scope_block *block, ts_slab *slab) {
    size_t used = TS_UNIT_BYTES - (size_t)(block->end - ts_load_relaxed(&block->bump));
    slab->empty_at = current_allocs(block);
    /* release, and before bump changes: a reader that takes the end from bump looks at `end` before and after */
    ts_store_release(&slab->end, (uint16_t)(used / 16));
    if (TS_COUNTED)
        ts_store_release(&block->bytes_allocated,
                         ts_load_relaxed(&block->bytes_allocated) + used); /* block.c: scope_bytes */
}

void ts_scope_add(ts_scope_block *block, uint32_t unit) {
    ts_assert(2, ts_load_relaxed(&block->current) == 0);
    ts_care_begin(block->b.share->allocator, address_of(unit), TS_UNIT_BYTES, true);
    add_slab(block, unit);
}

void ts_scope_retire_current(ts_scope_block *block) {
    uint32_t unit = ts_load_relaxed(&block->current);
    if (!unit) return;
    seal(block, ts_slab_at(unit));
    ts_store_relaxed(&block->current, 0);
    block->bits = NULL;
    block->end = NULL;
    ts_store_release(&block->bump, NULL);
    ts_scope_release_if_empty(block, unit);
}

TS_ALWAYS_INLINE bool is_current_empty(const ts_scope_block *block) {
    uint32_t unit = ts_load_relaxed(&block->current);
    return unit && ts_slab_at(unit)->free_count == current_allocs(block);
}

bool ts_scope_is_current_empty(const ts_scope_block *block) { return is_current_empty(block); }

/* The rest of a renewal: the unit is claimed and reset. */
TS_ALWAYS_INLINE void go_on_with(ts_scope_block *block, uint32_t unit, uint32_t last) {
    if (last) seal(block, ts_slab_at(last));
    add_slab(block, unit);
    ts_count(&block->b.share->count[TS_COUNT_SCOPE].new_slab_count, 1);
}

TS_COLD static bool retire(const ts_share *share, uint32_t unit) {
    ts_allocator_retire(share->allocator, unit);
    return false;
}

TS_NOINLINE static bool renew_with(ts_scope_block *block, uint32_t unit) {
    uint32_t last = ts_load_relaxed(&block->current);
    if (!ts_slab_reset_scope(unit)) return retire(block->b.share, unit);
    ts_care_begin(block->b.share->allocator, address_of(unit), TS_UNIT_BYTES, true);
    go_on_with(block, unit, last);
    if (last) ts_scope_release_if_empty(block, last);
    return true;
}

TS_NOINLINE static bool renew_slowly(ts_scope_block *block) {
    uint32_t unit = ts_share_take(block->b.share, TS_NORMAL);
    return unit && renew_with(block, unit);
}

/* Nothing lives across a call, so it needs no frame: all that takes one ends in a call of what does it. */
bool ts_scope_renew(ts_scope_block *block) {
    ts_share *share = block->b.share;
    ts_warm *warm = &share->warm[TS_NORMAL];
    uint32_t unit = warm->head, last = ts_load_relaxed(&block->current);
    if (TS_UNLIKELY(!unit)) return false;
    ts_slab_at(unit)->allocator = ts_allocator_index(share->allocator); /* as in ts_share_take */
    if (TS_UNLIKELY(!ts_slab_claim_clean(unit))) return renew_slowly(block);
    (void)ts_warm_pop(warm);
    const ts_slab *slab = ts_slab_at(unit);
    /* seq_cst, after the claim: as in ts_slab_next_generation */
    if (TS_UNLIKELY(ts_load_seq(&slab->handled) || share->allocator->care || ts_care_tools || is_current_empty(block)))
        return renew_with(block, unit);
    if (TS_UNLIKELY(!ts_slab_reset_scope_from(unit, ts_load_relaxed(&slab->gen)))) return retire(share, unit);
    go_on_with(block, unit, last);
    return true;
}

static void set_bit(ts_state64 *words, uint32_t entry) {
    ts_store_relaxed(&words[entry >> 6], ts_load_relaxed(&words[entry >> 6]) | (uint64_t)1 << (entry & 63));
}

/* What is skipped is an object that was freed at once, so that the one before it keeps its size. */
void *ts_scope_bump_aligned(ts_scope_block *block, size_t align, size_t bytes) {
    char *at = ts_load_relaxed(&block->bump);
    if (!at) return NULL;
    char *aligned = (char *)(uintptr_t)ts_align_up((uintptr_t)at, align);
    size_t skip = (size_t)(aligned - at);
    if (skip > (size_t)(block->end - at) || bytes > (size_t)(block->end - aligned)) return NULL;
    uint32_t unit = ts_load_relaxed(&block->current);
    const char *base = ts_unit_address(unit);
    if (skip) {
        set_bit(block->bits->freed, (uint32_t)((size_t)(at - base) / 16));
        set_bit(block->bits->start, (uint32_t)((size_t)(at - base) / 16));
        ts_slab_at(unit)->free_count++;
        block->allocs_before--;
        ts_count(&block->bytes_freed, skip);
    }
    set_bit(block->bits->start, (uint32_t)((size_t)(aligned - base) / 16));
    ts_add_owned(&block->allocs, 1);
    ts_store_release(&block->bump, aligned + bytes); /* as in ts_fast_bump */
    return aligned;
}

void ts_scope_release_if_empty(ts_scope_block *block, uint32_t unit) {
    const ts_slab *slab = ts_slab_at(unit);
    if (unit != ts_load_relaxed(&block->current) && slab->free_count == slab->empty_at) release_slab(block, unit);
}

size_t ts_scope_object_bytes(const ts_scope_block *block, uint32_t unit, uint32_t entry_in_unit) {
    const ts_slab *slab = ts_slab_at(unit);
    /* acquire: partner of the releases in ts_scope_retire_current and in the allocation path: start bits of all
       that lies below the end are seen */
    uint32_t end = ts_load_acquire(&slab->end);
    if (end == 0) {
        const char *bump = ts_load_acquire(&block->bump);
        uint32_t again = ts_load_acquire(&slab->end);
        end = again ? again : (uint32_t)((size_t)(bump - ts_unit_address(unit)) / 16);
        if (end > TS_UNIT_ENTRIES) end = TS_UNIT_ENTRIES; /* the slab was reused meanwhile: any answer will do */
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
