/* Modelled in tests/model: foreign, orders. */
#include "slab/slab.h"

#include "base/assert.h"
#include "base/bits.h"

#include <string.h>

/* What a fresh slab of a class looks like; constant after ts_slab_init_templates. */
static uint64_t normal_states[TS_CLASSES][TS_STATES_NORMAL / 4];
static uint64_t normal_free[TS_CLASSES][4];
static uint64_t small_free[TS_SMALL_CLASSES][16];

void ts_slab_init_templates(void) {
    for (unsigned cls = 0; cls < TS_CLASSES; cls++) {
        uint16_t states[TS_STATES_NORMAL];
        for (unsigned i = 0; i < TS_STATES_NORMAL; i++) states[i] = TS_STATE_USABLE;
        for (unsigned slot = 0; slot < ts_classes.slots[cls]; slot++) {
            unsigned entry = slot * ts_class_bytes[cls] / 16;
            if (ts_class_part(cls) == TS_SMALL) {
                small_free[cls][entry >> 6] |= (uint64_t)1 << (entry & 63);
            } else {
                unsigned granule = (unsigned)ts_granule(TS_NORMAL, entry);
                states[granule] = (uint16_t)(TS_STATE_USABLE | (entry & 3) << 1);
                normal_free[cls][granule >> 6] |= (uint64_t)1 << (granule & 63);
            }
        }
        memcpy(normal_states[cls], states, sizeof states);
    }
}

/* Highest slot generation of the last churn use. */
static uint32_t max_slot_generation(uint32_t unit) {
    unsigned part = ts_part_of_unit(unit);
    unsigned count = ts_granules_per_unit(part);
    const _Atomic uint16_t *state = &ts_region.part[part].state[(size_t)ts_unit_in_part(unit) * count];
    uint32_t max = 0;
    for (unsigned i = 0; i < count; i++) {
        uint32_t g = ts_state_generation(ts_load_relaxed(&state[i]));
        if (g > max) max = g;
    }
    return max;
}

uint32_t ts_slab_handled_generation(ts_slab *slab) {
    uint32_t gen = ts_load_relaxed(&slab->gen);
    gen += 1 + (slab->kind == TS_KIND_CHURN ? max_slot_generation(ts_slab_unit(slab)) : 0);
    ts_store_relaxed(&slab->handled, 0);
    return gen;
}

void ts_slab_leave_states(uint32_t unit) {
    ts_slab *slab = ts_slab_at(unit);
    ts_assert(2, ts_load_relaxed(ts_unit_word(unit)) == 0);
    if (slab->kind != TS_KIND_CHURN) return;
    if (ts_load_seq(&slab->handled))
        ts_store_relaxed(&slab->gen, ts_load_relaxed(&slab->gen) + max_slot_generation(unit));
    slab->kind = TS_KIND_NONE; /* ts_slab_next_generation adds no more than one */
}

/* Eight bytes at a time, atomically: another thread may look at the words with a stale pointer. */
static void reset_states(uint32_t unit, const uint64_t *from) {
    unsigned part = ts_part_of_unit(unit);
    unsigned per_unit = ts_granules_per_unit(part);
    _Atomic uint16_t *state = &ts_region.part[part].state[(size_t)ts_unit_in_part(unit) * per_unit];
    ts_state64 *words = (ts_state64 *)(void *)state;
    for (unsigned i = 0; i < per_unit / 4; i++)
        ts_store_relaxed(&words[i], from ? from[i] : TS_STATE_USABLE * 0x0001000100010001u);
}

bool ts_slab_reset_churn(uint32_t unit, unsigned cls) {
    ts_slab *slab = ts_slab_at(unit);
    bool small = ts_part_of_unit(unit) == TS_SMALL;
    ts_assert(2, ts_load_relaxed(ts_unit_word(unit)) == 0);
    if (slab->kind != TS_KIND_CHURN) slab->given = 0; /* as another kind it may have had memory in all pages */
    if (!ts_slab_next_use(slab, TS_KIND_CHURN, ts_slab_next_generation(slab))) return false;
    reset_states(unit, small ? NULL : normal_states[cls]);
    if (small)
        memcpy(ts_slab_small(unit)->free, small_free[cls], sizeof small_free[cls]);
    else
        memcpy(slab->u.free, normal_free[cls], sizeof slab->u.free);
    if (!small) {
        /* Eight words: set anew, so that a foreign free need not look at the tag, which lies in the owner's line. */
        uint64_t word = (uint64_t)ts_load_relaxed(&slab->tag) << TS_FOREIGN_TAG_SHIFT;
        for (unsigned i = 0; i < 8; i++) ts_store_release(&slab->foreign[i], word);
    }
    slab->free_count = slab->empty_at = ts_classes.slots[cls];
    return true;
}

bool ts_slab_reset_span(uint32_t unit) {
    ts_slab *slab = ts_slab_at(unit);
    return ts_slab_next_use(slab, TS_KIND_SPAN, ts_slab_next_generation(slab));
}

unsigned ts_slab_pages_in_use(const ts_slab *slab, unsigned cls) {
    unsigned used = 0, bytes = ts_class_bytes[cls];
    for (unsigned slot = 0; slot < ts_classes.slots[cls]; slot++) {
        unsigned at = slot * bytes;
        uint64_t granule = ts_granule(TS_NORMAL, at / 16);
        if (slab->u.free[granule >> 6] >> (granule & 63) & 1) continue;
        used |= ts_slab_pages_between(at, at + bytes);
    }
    return used;
}

unsigned ts_slab_count_live(uint32_t unit) {
    unsigned part = ts_part_of_unit(unit);
    unsigned count = ts_granules_per_unit(part), live = 0;
    const _Atomic uint16_t *state = &ts_region.part[part].state[(size_t)ts_unit_in_part(unit) * count];
    for (unsigned i = 0; i < count; i++) live += ts_load_relaxed(&state[i]) & TS_STATE_LIVE;
    return live;
}

void ts_slab_rebuild(uint32_t unit, unsigned cls) {
    unsigned part = ts_part_of_unit(unit);
    unsigned per_unit = ts_granules_per_unit(part);
    ts_slab *slab = ts_slab_at(unit);
    uint64_t *words = ts_slab_free_words(part, slab);
    const _Atomic uint16_t *state = &ts_region.part[part].state[(size_t)ts_unit_in_part(unit) * per_unit];
    const uint64_t *all = part == TS_NORMAL ? normal_free[cls] : small_free[cls];
    unsigned free_count = 0, retired = 0;
    for (unsigned w = 0; w < ts_slab_free_word_count(part); w++) {
        uint64_t word = 0;
        for (uint64_t left = all[w]; left; left &= left - 1) {
            unsigned bit = ts_ctz64(left);
            uint16_t s = ts_load_relaxed(&state[w * 64 + bit]);
            if (s & TS_STATE_LIVE) continue;
            if (ts_state_is_retired(s)) {
                retired++;
                continue;
            }
            word |= (uint64_t)1 << bit;
            free_count++;
        }
        words[w] = word;
    }
    slab->free_count = (uint16_t)free_count;
    slab->empty_at = (uint16_t)(ts_classes.slots[cls] - retired);
}

unsigned ts_scope_count_started(uint32_t unit) {
    const ts_scope_bits *bits = ts_slab_scope_bits(unit);
    unsigned n = 0;
    for (unsigned i = 0; i < 16; i++) n += ts_popcount64(ts_load_relaxed(&bits->start[i]));
    return n;
}

unsigned ts_scope_count_live(uint32_t unit) {
    const ts_scope_bits *bits = ts_slab_scope_bits(unit);
    unsigned n = 0;
    for (unsigned i = 0; i < 16; i++)
        n += ts_popcount64(ts_load_relaxed(&bits->start[i]) & ~ts_load_relaxed(&bits->freed[i]));
    return n;
}

uint32_t ts_scope_entries(uint32_t unit, uint32_t entry_in_unit, uint32_t end) {
    const ts_scope_bits *bits = ts_slab_scope_bits(unit);
    uint32_t from = entry_in_unit + 1;
    while (from < end) {
        uint64_t word = ts_load_relaxed(&bits->start[from >> 6]) >> (from & 63);
        if (word) {
            uint32_t next = from + ts_ctz64(word);
            return (next < end ? next : end) - entry_in_unit;
        }
        from = (from | 63) + 1;
    }
    return end - entry_in_unit;
}
