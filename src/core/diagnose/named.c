/*
 * Watches of objects, and names of places.
 *
 * In a PLAIN use of a churn slab nothing counts the lives of a slot. So the place of a watched object has a NAME: the
 * number of the watch, and which of the entries of its 64 bytes the object starts at. The bitmaps of scope slabs have
 * room for it, as a churn slab does not use them: a word for each 64 bytes. The slab's owner alone writes it.
 *
 * What could go wrong: a later object in the same slot is taken for the watched one. It is not.
 *  1. While an allocator samples stacks, no hit allocates in a thread's block (TS_SLOW_COUNTED). Each way that does
 *     takes the name of the place first, and then makes the object live: none is on top of the magazine
 *     (ts_counted_slot), and none in a word that is claimed (ts_name_take_word). release fence of ts_name_take, acquire
 *     of the live bit: a look that finds the later object live finds the name gone.
 *  2. A name is given only in such a block, by the thread that has allocated the object, with its heap entered, if the
 *     object lives there still.
 *  3. When hits are to use the block again, its thread first makes each slab HANDLED that has a name at a live object,
 *     and takes the other names (ts_name_settle). From then on the generation tells. It is the same before and after,
 *     as the slab's words count from 0. Only ts_sample_follow_stacks takes COUNTED off: a thread that takes a block
 *     over leaves it on, and follows anew.
 *  4. Two places can be too many for a word: objects of up to 48 bytes may share its 64 bytes. Then the slab becomes
 *     HANDLED, and the second has no name. So it does where it is OUTER, as `cache` takes objects there one by one.
 *  5. The name is read between a look and the tag. The tag rises with every reset, so all of it is of one use. Between
 *     a look without HANDLED and a life that is counted the UNIT word has changed.
 *  6. A number that has another watch by now is the caller's matter (observe/stacks.c: the turn of a record).
 * The bits of an earlier scope use are names of no watch.
 */
#include "cache/cache.h"
#include "diagnose/diagnose.h"
#include "epoch/epoch.h"

/* ---- the same object still ----------------------------------------------------------------------------------- */

static bool is_churn(uint64_t word) { return (word & (TS_UNIT_SPAN | TS_UNIT_SCOPE)) == 0; }
static uint64_t named_entry(uint64_t entry, uint16_t name) { return (entry & ~(uint64_t)3) | (name & 3); }

bool ts_object_watch(uintptr_t token, const void *p, ts_watch *out, size_t *bytes) {
    uint32_t unit;
    uint64_t entry;
    ts_object o = {.word = 0};
    if (!ts_locate(p, &unit, &entry)) return false;
    bool in_slab = ts_object_at_in_slab(token, p, &o);
    /* The word of a span has the tag. The record may be read with the epoch's lock alone. */
    if (!in_slab && (!(o.word & TS_UNIT_SPAN) || o.entry_in_unit != 0)) return false;
    *out = (ts_watch){.word = o.word & ~TS_UNIT_HANDLED};
    *bytes = in_slab ? o.bytes : 0;
    if (!in_slab) return true;
    atomic_thread_fence(memory_order_acquire); /* partner: ts_name_take */
    if (is_churn(o.word)) {
        uint16_t name = ts_load_relaxed(ts_name_word(entry));
        if (named_entry(entry, name) == entry) out->name = name;
    }
    atomic_thread_fence(memory_order_acquire);
    out->tag = ts_load_relaxed(&ts_slab_at(unit)->tag);
    out->generation = o.generation;
    return true;
}

bool ts_object_watched(uintptr_t token, const void *p, const ts_watch *watch, size_t *bytes) {
    ts_watch now;
    return ts_object_watch(token, p, &now, bytes) && now.word == watch->word && now.tag == watch->tag &&
           now.generation == watch->generation && (watch->name == 0 || now.name == watch->name);
}

/* ---- names ---------------------------------------------------------------------------------------------------- */

bool ts_name_give(ts_heap *heap, uintptr_t token, const void *p, uint32_t number, ts_watch *watch) {
    uint32_t unit;
    uint64_t entry;
    size_t bytes;
    if (!is_churn(watch->word)) return true;
    if (!ts_locate(p, &unit, &entry)) return false;
    uint16_t beside = ts_load_relaxed(ts_name_word(entry));
    uint64_t other = named_entry(entry, beside);
    bool counts = ts_is_outer(unit) || (beside != 0 && other != entry && ts_is_live(other)); /* 4 */
    if (counts && !ts_region_commit_generations(unit)) return false;
    const ts_block *block = ts_block_of_word(watch->word);
    ts_heap_enter(heap);
    bool given = ts_load_relaxed(&block->heap) == heap && (block->slow & TS_SLOW_COUNTED) &&
                 ts_object_watched(token, p, watch, &bytes);
    if (given) watch->name = counts ? 0 : (uint16_t)(number << 2 | (entry & 3));
    if (given && counts)
        ts_slab_make_handled(unit);
    else if (given)
        ts_store_relaxed(ts_name_word(entry), watch->name);
    ts_heap_leave(heap);
    return given;
}

/* A name of no live object goes, too: bits of a scope use. */
void ts_name_take(uint64_t entry) {
    uint16_t name = ts_load_relaxed(ts_name_word(entry));
    uint64_t named = named_entry(entry, name);
    if (name == 0 || (named != entry && ts_is_live(named))) return;
    ts_store_relaxed(ts_name_word(entry), 0);
    atomic_thread_fence(memory_order_release); /* before the live bit */
}

void ts_name_take_top(const ts_bin *bin) {
    uint64_t depth = ts_low_byte(ts_load_relaxed(&bin->top));
    if (depth != 0) ts_name_take(ts_entry_of(&ts_region.part[TS_NORMAL], bin->magazine->object[depth - 1]));
}

typedef _Atomic uint64_t TS_MAY_ALIAS four_names;
void ts_name_take_word(const ts_bin *bin) {
    bool fine = ts_bin_is_fine(bin);
    const four_names *four = (four_names *)(void *)ts_name_word((uint64_t)bin->word_place * (fine ? 1 : 4));
    uint64_t any = 0;
    for (unsigned i = 0; i < (fine ? 4u : 16u); i++) any |= ts_load_relaxed(&four[i]);
    if (TS_LIKELY(any == 0)) return;
    for (uint64_t left = ts_load_relaxed(&bin->word); left; left &= left - 1) {
        uint64_t place = (uint64_t)bin->word_place + ts_ctz64(left);
        ts_name_take((fine ? place : place * 4) + bin->starts[place & 255]);
    }
}

void ts_name_settle(ts_heap *heap, const void *p) {
    uint32_t unit;
    uint64_t entry;
    if (!ts_locate(p, &unit, &entry) || ts_is_piece(unit)) return;
    uint64_t word = ts_load_acquire(ts_unit_word(unit));
    if (word == 0 || (word & (TS_UNIT_ZOMBIE | TS_UNIT_SPAN | TS_UNIT_SCOPE))) return;
    ts_block *block = ts_block_of_word(word);
    if (ts_load_relaxed(&block->heap) != heap) return;
    bool room = ts_region_commit_generations(unit);
    ts_heap_enter(heap);
    if (ts_is_same_use(ts_load_relaxed(ts_unit_word(unit)), word) && ts_era(block) == ts_word_era(word) &&
        ts_load_relaxed(&block->heap) == heap && !(block->share->slow[false] & TS_SLOW_COUNTED)) {
        uint16_t name = ts_load_relaxed(ts_name_word(entry));
        if (room && name != 0 && ts_is_live(named_entry(entry, name)))
            ts_slab_make_handled(unit);
        else /* also in a HANDLED slab: the object may have died before */
            ts_store_relaxed(ts_name_word(entry), 0);
        atomic_thread_fence(memory_order_release); /* before a live bit of a hit */
    }
    ts_heap_leave(heap);
}
