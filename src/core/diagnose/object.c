/*
 * Looks at an object without changing it, from any thread. A look is good if afterwards the UNIT word and the block's
 * era are unchanged, but for flags that change in a use: then the slab was in one use all the while.
 */
/* Modelled in tests/model: orders. */
#include "cache/cache.h"
#include "diagnose/diagnose.h"
#include "epoch/epoch.h"
#include "memtools/memtools.h"

#include <errno.h>

static bool look_span(ts_allocator *allocator, ts_object *o) {
    if (o->entry_in_unit != 0) return false;
    ts_epoch *epoch = ts_span_lock(allocator, o->unit, o->word);
    if (!epoch) return false;
    const ts_slab *slab = ts_slab_at(o->unit);
    o->kind = TS_COUNT_SPAN;
    o->bytes = (size_t)ts_load_relaxed(&slab->u.span.bytes);
    o->epoch = ts_load_relaxed(&slab->u.span.epoch);
    o->generation = ts_load_relaxed(&slab->gen);
    o->block = NULL;
    ts_epoch_release(epoch);
    return true;
}

static bool look_scope(uint32_t unit, ts_object *o) {
    const ts_scope_bits *bits = ts_slab_scope_bits(unit);
    uint64_t mask = (uint64_t)1 << (o->entry_in_unit & 63);
    if (!(ts_load_acquire(&bits->start[o->entry_in_unit >> 6]) & mask)) return false;
    if (ts_load_acquire(&bits->freed[o->entry_in_unit >> 6]) & mask) return false;
    o->kind = TS_COUNT_SCOPE;
    o->bytes = ts_scope_object_bytes((const ts_scope_block *)(const void *)o->block, unit, o->entry_in_unit);
    o->generation = ts_load_relaxed(&ts_slab_at(unit)->gen);
    return true;
}

static bool look_churn(uint32_t unit, uint64_t entry, ts_object *o) {
    if (!ts_is_live(entry)) return false;
    const ts_bin *bin = ts_line_address(ts_word_line(o->word));
    o->kind = ts_bin_class((const ts_churn_block *)(const void *)o->block, bin);
    o->bytes = ts_class_bytes[o->kind];
    o->generation = ts_slab_generation(ts_slab_at(unit), o->word, entry);
    return true;
}

/* In a slab whose UNIT word was w. */
static bool look_slab(uintptr_t token, uint32_t unit, uint64_t entry, uint64_t w, ts_object *o) {
    bool scope = (w & TS_UNIT_SCOPE) != 0;
    o->block = ts_block_of_line(ts_word_line(w), scope);
    if (ts_era(o->block) != ts_word_era(w)) return false;
    if (ts_load_relaxed(&o->block->allocator) != token) return false;
    /* The foreign bit before the live bit: see foreign.c, 6. */
    if (ts_foreign_pending(unit, w, entry)) return false;
    ts_epoch *epoch = ts_load_relaxed(&o->block->epoch);
    o->epoch = epoch ? ts_load_relaxed(&epoch->record.id) : EPOCH_NONE;
    if (!(scope ? look_scope(unit, o) : look_churn(unit, entry, o))) return false;
    /* acquire fence: the loads above come before the second look */
    atomic_thread_fence(memory_order_acquire);
    if (!ts_is_same_use(ts_load_relaxed(ts_unit_word(unit)), w)) return false;
    return ts_era(o->block) == ts_word_era(w);
}

static bool look(uintptr_t token, uint32_t unit, uint64_t entry, const bool spans, ts_object *o) {
    uint64_t w = ts_load_acquire(ts_unit_word(unit));
    ts_allocator *allocator = ts_allocator_find(token);
    if (w == 0 || (w & TS_UNIT_ZOMBIE) || !allocator) return false;
    o->unit = unit;
    o->care_of = allocator;
    o->entry_in_unit = (uint32_t)entry & (TS_UNIT_ENTRIES - 1);
    o->word = w & ~TS_UNIT_FOREIGN;
    o->address = ts_slab_unit_address(unit) + (size_t)o->entry_in_unit * 16;
    if (w & TS_UNIT_SPAN) return spans && look_span(allocator, o);
    return look_slab(token, unit, entry, w, o);
}

bool ts_object_at(uintptr_t token, const void *p, ts_object *out) {
    uint32_t unit;
    uint64_t entry;
    return ts_locate(p, &unit, &entry) && look(token, unit, entry, true, out);
}

uintptr_t ts_span_owner(uint32_t unit) {
    uint32_t index = ts_load_relaxed(&ts_slab_at(unit)->queue_next);
    if (index == 0 || index >= ts_table_high(&ts_epochs)) return 0;
    const ts_epoch *epoch = ts_table_at(&ts_epochs, index);
    const ts_allocator *allocator = ts_load_relaxed(&epoch->allocator);
    return allocator ? (uintptr_t)ts_load_acquire(&allocator->record.id) : 0;
}

/* A hint: the call that gets it looks at the object itself. */
uintptr_t ts_object_owner(const void *p) {
    uint32_t unit;
    uint64_t entry;
    if (!ts_locate(p, &unit, &entry)) return 0;
    uint64_t w = ts_load_acquire(ts_unit_word(unit));
    if (w == 0 || (w & TS_UNIT_ZOMBIE)) return 0;
    if (w & TS_UNIT_SPAN) return ts_span_owner(unit);
    const ts_block *block = ts_block_of_word(w);
    return ts_era(block) == ts_word_era(w) ? ts_load_relaxed(&block->allocator) : 0;
}

bool ts_object_at_in_slab(uintptr_t token, const void *p, ts_object *out) {
    uint32_t unit;
    uint64_t entry;
    return ts_locate(p, &unit, &entry) && look(token, unit, entry, false, out);
}

size_t ts_object_usable(const ts_object *object) {
    if (TS_LIKELY(!object->care_of->care)) return object->bytes;
    return ts_care_size(object->care_of->care, object->address, object->bytes);
}

static SlabHandle make_handle(const ts_object *o) {
    if (TS_UNLIKELY(ts_part_of_unit(ts_unit_of(o->unit)) == TS_FAR))
        return ts_handle_pack_far(ts_unit_in_part(o->unit), o->generation);
    if (!ts_is_piece(o->unit) && ts_is_outer(o->unit))
        return ts_handle_pack_outer(o->unit, o->generation, o->entry_in_unit);
    return ts_handle_pack(ts_unit_of(o->unit), o->generation, o->entry_in_unit, o->kind);
}

bool ts_object_of_handle(uintptr_t token, SlabHandle handle, ts_object *out) {
    bool far = ts_handle_is_far(handle);
    uint32_t in_part = far ? ts_handle_far_unit(handle) : ts_handle_unit(handle);
    unsigned part = far ? TS_FAR : TS_NORMAL;
    if (!ts_is_unit_of(part, in_part)) return false;
    uint32_t unit = ts_region.part[part].first_unit + in_part;
    uint64_t entry = (uint64_t)unit * TS_UNIT_ENTRIES + (far ? 0 : ts_handle_entry(handle));
    if (!far) unit = ts_slab_of_entry(entry);
    /* A handle was made of this use only if the slab says so: in the word of a churn slab, else in the record. */
    return look(token, unit, entry, true, out) && make_handle(out) == handle &&
           (out->kind < TS_CLASSES ? (out->word & TS_UNIT_HANDLED) != 0 : ts_load_relaxed(&ts_slab_at(unit)->handled));
}

/* Makes the use of the object's slab HANDLED, and waits for all frees that have not seen that: slab.h. false, with
   errno: there is no memory, or the use is over. */
static bool make_handled(const ts_object *object) {
    ts_heap *held;
    if (!ts_region_commit_generations(object->unit)) return ts_fail(ENOMEM);
    ts_slab_set_handled(object->unit, object->word);
    if (!ts_heap_hold_of(object->block, &held)) return ts_fail(ESTALE);
    const ts_heap *owner = ts_load_acquire(&object->block->heap);
    if (!held && owner && ts_load_relaxed(&owner->state) != TS_HEAP_LOST) return ts_fail(ENOTSUP);
    /* In the same use, the slab is the block's as long as the heap is held. */
    uint64_t word = ts_load_relaxed(ts_unit_word(object->unit));
    bool same =
        (word & TS_UNIT_HANDLED) && ts_is_same_use(word, object->word) && ts_era(object->block) == ts_word_era(word);
    if (same) {
        ts_slab_note_handled(object->unit);
        ts_churn(object->block)->handled |= (uint64_t)1 << object->kind;
    }
    if (held) ts_heap_drop(held);
    return same || ts_fail(ESTALE);
}

SlabHandle ts_object_handle(uintptr_t token, const ts_object *object) {
    ts_object again;
    ts_slab *slab = ts_slab_at(object->unit);
    bool churn = object->kind < TS_CLASSES;
    /* acquire: partner of ts_slab_note_handled */
    bool counts = (object->word & TS_UNIT_HANDLED) && ts_load_acquire(&slab->handled) == TS_ALL_COUNT;
    if (churn && TS_UNLIKELY(!counts) && !make_handled(object)) return SLAB_HANDLE_NONE;
    if (!churn) ts_store_relaxed_if_changed(&slab->handled, 1);
    /* The note, then the second look; a reset changes the era or the word, then reads the note. A note that another
       thread has made needs the second look, too: the thread that resets may not have seen it. */
    atomic_thread_fence(memory_order_seq_cst);
    /* The object is still there, now that its generation is bound to move on. */
    uint64_t entry = (uint64_t)ts_unit_of(object->unit) * TS_UNIT_ENTRIES + object->entry_in_unit;
    if (!look(token, object->unit, entry, true, &again) || !ts_is_same_use(again.word, object->word) ||
        again.generation != object->generation)
        return ts_fail(ESTALE);
    return make_handle(&again);
}
