/*
 * Places to which a scope can go back. Objects that began behind a place die at once, and their memory is used again
 * if that is safe.
 *
 * A place is an ANCHOR: 16 bytes of the current slab that are skipped like a gap for an alignment. One more object is
 * counted for it, which never was and is never freed. So a slab with an anchor is never empty, and stays in its
 * block's list. The object before the anchor keeps its size, whatever comes behind. Slabs that came later are before
 * it in the list.
 */
#include "cache/allocate.h"
#include "cache/cache.h"

#include "base/base.h"
#include "memtools/memtools.h"
#include "os/os.h"
#include "supply/supply.h"

static uint64_t bits_from(unsigned word, uint32_t entry) {
    if (entry >= (word + 1) * 64) return 0;
    return entry <= word * 64 ? UINT64_MAX : UINT64_MAX << (entry & 63);
}

bool ts_scope_anchor(ts_scope_block *block, const void *object, ts_place *out) {
    uint64_t bump = ts_load_relaxed(&block->bump);
    uint32_t unit = ts_load_relaxed(&block->current);
    if (!unit || (const char *)object + 16 != ts_bump_at(bump) ||
        ts_slab_start((void *)(uintptr_t)object) != ts_slab_unit_address(unit))
        return false;
    uint32_t entry = (uint32_t)((size_t)((const char *)object - ts_slab_unit_address(unit)) / 16);
    _Atomic uint64_t *freed = &block->bits->freed[entry >> 6];
    /* One object less, and one gap more. release: as in a free. */
    ts_store_release(freed, ts_with_bit(ts_load_relaxed(freed), entry));
    block->skipped = (uint16_t)(block->skipped + 2); /* the gap, and the object that never was */
    block->anchored = 1;
    ts_slab_at(unit)->free_count++;
    ts_count(&block->bytes_freed, 16);
    ts_store_release(&block->bump, bump - 1);
    out->unit = unit;
    out->tag = ts_load_relaxed(&ts_slab_at(unit)->tag);
    out->entry = (uint16_t)(entry + 1);
    out->count = (uint16_t)ts_bump_count(bump - 1);
    return true;
}

/* Takes a number of anchors of the slab away. */
static void drop_anchors(ts_scope_block *block, uint32_t unit, uint32_t anchors) {
    if (unit == ts_load_relaxed(&block->current))
        block->skipped = (uint16_t)(block->skipped - anchors);
    else
        ts_slab_at(unit)->empty_at = (uint16_t)(ts_slab_at(unit)->empty_at - anchors);
}

/* Kills all objects of the slab from an entry on, as by a free each. Returns how many were live. */
static uint32_t kill_from(ts_scope_block *block, uint32_t unit, uint32_t entry) {
    const ts_allocator *allocator = block->b.share->allocator;
    ts_scope_bits *bits = ts_slab_scope_bits(unit);
    uint32_t killed = 0;
    unsigned first = entry >> 6 > ts_scope_first_word(unit) ? entry >> 6 : ts_scope_first_word(unit);
    for (unsigned w = first; w < ts_scope_end_word(unit); w++) {
        uint64_t start = ts_load_relaxed(&bits->start[w]) & bits_from(w, entry),
                 freed = ts_load_relaxed(&bits->freed[w]);
        for (uint64_t live = start & ~freed; live; live &= live - 1, killed++) {
            uint32_t at = w * 64 + ts_ctz64(live);
            size_t bytes = ts_scope_object_bytes(block, unit, at);
            char *home = ts_slab_unit_address(unit);
            if (TS_UNLIKELY(allocator->care)) ts_care_freed(allocator->care, home, home + at * 16, bytes);
            ts_count(&block->bytes_freed, bytes);
        }
        ts_store_release(&bits->freed[w], freed | start); /* as in a free */
    }
    ts_count(&block->frees, killed);
    return killed;
}

/* Whether the memory behind the place can be used again. No handle was made in the slab, and no stack sampled in the
   allocator: so none names an object that has died there. No other thread has freed an object behind the place, or is
   seen to be freeing one. (A free that is under way and not seen yet frees an object that has died: two threads free it
   at once, as in foreign.c, 8.) */
static bool may_use_again(const ts_allocator *allocator, uint32_t unit, uint32_t entry) {
    if (ts_load_relaxed(&allocator->stack_samples) != 0) return false; /* its thread has taken those of this slab */
    atomic_thread_fence(memory_order_seq_cst); /* comes after the death of the objects; partner: ts_object_handle */
    if (ts_load_seq(&ts_slab_at(unit)->handled) || (ts_load_seq(ts_unit_word(unit)) & TS_UNIT_FOREIGN)) return false;
    unsigned first, words;
    const _Atomic uint64_t *foreign = ts_slab_foreign_words(unit, TS_UNIT_SCOPE, &first, &words);
    ts_assert(2, entry >> 5 >= first);
    uint64_t tag = ts_load_relaxed(&ts_slab_at(unit)->tag);
    for (unsigned i = entry >> 5; i < words; i++) {
        uint64_t x = ts_load_seq(&foreign[i]);
        if ((x >> TS_FOREIGN_TAG_SHIFT) == tag && (x << (64 - TS_FOREIGN_TAG_SHIFT)) != 0) return false;
    }
    return true;
}

/* Everything behind the place is dead, and the next object begins there. The objects that had begun there count as
   those of an earlier slab (scope.c; the turn flips, so that a reader never counts them twice). */
static void go_back(ts_scope_block *block, const ts_place *place) {
    ts_slab *slab = ts_slab_at(place->unit);
    ts_scope_bits *bits = block->bits;
    uint64_t bump = ts_load_relaxed(&block->bump), allocs = ts_load_relaxed(&block->allocs);
    char *to = ts_slab_unit_address(place->unit) + place->entry * 16u;
    size_t bytes = (size_t)(ts_bump_at(bump) - to);
    uint64_t begun = ts_bump_count(bump) - place->count;
    uint32_t started = 0;
    for (unsigned w = place->entry >> 6; w < ts_scope_end_word(place->unit); w++)
        started += ts_popcount64(ts_load_relaxed(&bits->start[w]) & bits_from(w, place->entry));
    slab->free_count = (uint16_t)(slab->free_count - started);
    block->skipped = (uint16_t)(block->skipped - (started - (uint32_t)begun));
    ts_store_release(&block->bytes_allocated, ts_load_relaxed(&block->bytes_allocated) + bytes);
    ts_store_release(&block->allocs, (allocs + (begun << TS_ALLOCS_SHIFT)) ^ TS_ALLOCS_TURN);
    /* release: as in ts_fast_bump */
    ts_store_release(&block->bump, ts_bump_word(to, ((bump ^ TS_BUMP_TURN) & TS_BUMP_TURN) | place->count));
    for (unsigned w = place->entry >> 6; w < ts_scope_end_word(place->unit); w++) {
        uint64_t behind = bits_from(w, place->entry);
        ts_store_relaxed(&bits->start[w], ts_load_relaxed(&bits->start[w]) & ~behind);
        ts_store_relaxed(&bits->freed[w], ts_load_relaxed(&bits->freed[w]) & ~behind);
    }
}

bool ts_scope_is_there(const ts_scope_block *block, const ts_place *place) {
    return (ts_load_relaxed(ts_unit_word(place->unit)) & ~TS_UNIT_FOREIGN) == ts_scope_word(block) &&
           ts_load_relaxed(&ts_slab_at(place->unit)->tag) == place->tag;
}

bool ts_scope_rewind(ts_scope_block *block, const ts_place *place, uint32_t anchors) {
    if (!ts_scope_is_there(block, place)) return false;
    if (ts_load_relaxed(&block->current) != place->unit) ts_scope_seal_current(block);
    for (uint32_t unit = block->head, next; unit != place->unit; unit = next) {
        next = ts_slab_at(unit)->next;
        ts_slab *newer = ts_slab_at(unit);
        newer->free_count = (uint16_t)(newer->free_count + kill_from(block, unit, 0));
        newer->empty_at = newer->free_count; /* its anchors are gone, too */
        ts_scope_release_if_empty(block, unit);
    }
    ts_slab *slab = ts_slab_at(place->unit);
    slab->free_count = (uint16_t)(slab->free_count + kill_from(block, place->unit, place->entry));
    drop_anchors(block, place->unit, anchors);
    if (ts_load_relaxed(&block->current) == place->unit &&
        may_use_again(block->b.share->allocator, place->unit, place->entry))
        go_back(block, place);
    return true;
}

void ts_scope_forget(ts_scope_block *block, const ts_place *place) {
    if (!ts_scope_is_there(block, place)) return;
    drop_anchors(block, place->unit, 1);
    ts_scope_release_if_empty(block, place->unit);
}

/* A full slab counts more objects than began there: the others are its anchors. */
void ts_scope_forget_all(ts_scope_block *block) {
    if (TS_LIKELY(!block->anchored)) return;
    ts_assert(2, ts_load_relaxed(&block->current) == 0);
    for (uint32_t unit = block->head, next; unit; unit = next) {
        ts_slab *slab = ts_slab_at(unit);
        next = slab->next;
        slab->empty_at = (uint16_t)ts_scope_count_started(unit);
        ts_scope_release_if_empty(block, unit);
    }
}
