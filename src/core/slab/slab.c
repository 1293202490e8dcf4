/* Modelled in tests/model: foreign, orders. */
#include "slab/slab.h"

#include "base/base.h"
#include "os/os.h"
#include "region/region.h"

#include <string.h>

/* Free bitmaps of a fresh slab, and where its slots start, by size class; constant after ts_slab_init_templates. */
static uint8_t starts[TS_CLASSES][TS_GRANULES_COARSE]; /* low bits of the entry where the slot of a place starts */
static uint64_t coarse_free[TS_CLASSES][4];
static uint64_t fine_free[TS_FINE_CLASSES][16];

const uint8_t *ts_class_starts(unsigned cls) { return starts[cls]; }

void ts_slab_init_templates(void) {
    for (unsigned cls = 0; cls < TS_CLASSES; cls++) {
        bool fine = ts_class_is_fine(cls);
        uint64_t *bits = fine ? fine_free[cls] : coarse_free[cls];
        for (unsigned slot = 0; slot < ts_classes.slots[cls]; slot++) {
            unsigned entry = slot * ts_class_bytes[cls] / 16;
            unsigned place = (unsigned)ts_granule(fine, entry);
            if (!fine) starts[cls][place] = entry & 3;
            bits[place >> 6] |= (uint64_t)1 << (place & 63);
        }
    }
}

/* Raises the slab's generation by the greatest one of a slot in the last use, and by `more`. The words of the slots
   begin anew: the unit has one owner now. Returns the slab's. */
static uint32_t fold(ts_slab *slab, uint32_t more) {
    uint32_t unit = ts_slab_unit(slab), max = 0;
    bool has = ts_kind_is_churn(ts_slab_kind(slab)) && ts_region_has_generations(unit);
    _Atomic uint16_t *word = ts_generation_word((uint64_t)unit * TS_UNIT_ENTRIES);
    for (unsigned i = 0; has && i < TS_UNIT_ENTRIES; i++)
        if (ts_load_relaxed(&word[i]) > max) max = ts_load_relaxed(&word[i]);
    uint32_t gen = ts_load_relaxed(&slab->gen) + max + more;
    ts_store_relaxed(&slab->gen, gen);
    atomic_thread_fence(memory_order_release); /* partner: ts_slab_generation */
    for (unsigned i = 0; has && i < TS_UNIT_ENTRIES; i++) ts_store_relaxed_if_changed(&word[i], 0);
    return gen;
}

uint32_t ts_slab_handled_generation(ts_slab *slab) {
    ts_store_relaxed(&slab->handled, 0);
    return fold(slab, 1);
}

void ts_slab_fold_generations(uint32_t unit) {
    ts_slab *slab = ts_slab_at(unit);
    ts_assert(2, ts_load_relaxed(ts_unit_word(unit)) == 0);
    if (ts_kind_is_churn(ts_slab_kind(slab)) && ts_load_seq(&slab->handled)) (void)fold(slab, 0);
}

void ts_slab_note_handled(uint32_t unit) { ts_store_release(&ts_slab_at(unit)->handled, TS_ALL_COUNT); }

void ts_slab_set_handled(uint32_t unit, uint64_t word) {
    _Atomic uint64_t *at = ts_unit_word(unit);
    uint64_t now = ts_load_relaxed(at);
    /* seq_cst: cross-thread frees change FOREIGN, and claims take the word away */
    while (((now ^ word) & ~(TS_UNIT_FOREIGN | TS_UNIT_HANDLED)) == 0 && !(now & TS_UNIT_HANDLED))
        if (ts_cas_seq(at, &now, now | TS_UNIT_HANDLED)) return;
}

bool ts_slab_reset_churn(uint32_t unit, unsigned cls) {
    ts_slab *slab = ts_slab_at(unit);
    bool fine = ts_class_is_fine(cls);
    ts_assert(2, ts_load_relaxed(ts_unit_word(unit)) == 0);
    ts_assert(2, !fine || ts_region_has_fine(unit));
    if (ts_slab_kind(slab) != TS_KIND_CHURN || fine)
        slab->given = 0; /* in a use of another kind all pages may have got memory */
    if (!ts_slab_next_use(slab, fine ? TS_KIND_FINE : TS_KIND_CHURN, ts_slab_next_generation(slab))) return false;
    ts_slab_clear16(ts_unit_live(unit));
    unsigned first, words;
    _Atomic uint64_t *foreign = ts_slab_foreign_of(unit, fine, &first, &words);
    _Atomic uint64_t *free_words = ts_slab_free_words(fine, slab);
    const uint64_t *all_free = fine ? fine_free[cls] : coarse_free[cls];
    for (unsigned i = 0; i < ts_slab_free_word_count(fine); i++) ts_store_relaxed(&free_words[i], all_free[i]);
    /* The words get the new tag, so a cross-thread free need not read the record's tag, which lies in the owner's
       cache line. */
    uint64_t word = (uint64_t)ts_load_relaxed(&slab->tag) << TS_FOREIGN_TAG_SHIFT;
    for (unsigned i = first; i < words; i++) ts_store_release(&foreign[i], word);
    slab->free_count = slab->empty_at = ts_classes.slots[cls];
    ts_store_relaxed(&slab->end, (uint16_t)(ts_class_units(cls) - 1));
    if (ts_class_units(cls) > 1) slab->given = 0;
    return true;
}

unsigned ts_slab_pages_in_use(const ts_slab *slab, unsigned cls) {
    unsigned used = 0, bytes = ts_class_bytes[cls];
    for (unsigned slot = 0; slot < ts_classes.slots[cls]; slot++) {
        unsigned at = slot * bytes;
        if (ts_load_relaxed(&slab->u.free[at / TS_SLAB_PAGE_BYTES]) >> (at / 64 & 63) & 1) continue;
        used |= ts_slab_pages_between(at, at + bytes);
    }
    return used & TS_SLAB_ALL_PAGES;
}

unsigned ts_slab_count_live(uint32_t unit) {
    unsigned live = 0;
    for (unsigned i = 0; i < TS_LIVE_WORDS; i++) live += ts_popcount64(ts_load_relaxed(&ts_unit_live(unit)[i]));
    return live;
}

void ts_slab_rebuild(uint32_t unit, unsigned cls) {
    bool fine = ts_class_is_fine(cls);
    ts_slab *slab = ts_slab_at(unit);
    _Atomic uint64_t *words = ts_slab_free_words(fine, slab);
    const uint64_t *all = fine ? fine_free[cls] : coarse_free[cls];
    bool handled = (ts_load_relaxed(ts_unit_word(unit)) & TS_UNIT_HANDLED) != 0;
    unsigned free_count = 0, retired = 0;
    for (unsigned w = 0; w < ts_slab_free_word_count(fine); w++) {
        uint64_t word = 0;
        for (uint64_t left = all[w]; left; left &= left - 1) {
            unsigned bit = ts_ctz64(left), place = w * 64 + bit;
            uint64_t entry = (uint64_t)unit * TS_UNIT_ENTRIES + (fine ? place : place * 4 + starts[cls][place]);
            if (ts_is_live(entry)) continue;
            if (handled && ts_slot_is_retired(entry)) {
                retired++;
                continue;
            }
            word |= (uint64_t)1 << bit;
            free_count++;
        }
        ts_store_relaxed(&words[w], word);
    }
    slab->free_count = (uint16_t)free_count;
    slab->empty_at = (uint16_t)(ts_classes.slots[cls] - retired);
}

static unsigned count_starts(uint32_t unit, bool live) {
    const ts_scope_bits *bits = ts_slab_scope_bits(unit);
    unsigned n = 0;
    for (unsigned i = ts_scope_first_word(unit); i < ts_scope_end_word(unit); i++)
        n += ts_popcount64(ts_load_relaxed(&bits->start[i]) & ~(live ? ts_load_relaxed(&bits->freed[i]) : 0));
    return n;
}

unsigned ts_scope_count_started(uint32_t unit) { return count_starts(unit, false); }
unsigned ts_scope_count_live(uint32_t unit) { return count_starts(unit, true); }

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
