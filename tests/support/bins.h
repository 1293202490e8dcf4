/* For the tests of the heap layer: the slots of a bin, counted from all places where one can be. */
#ifndef HEAP_TEST_BINS_H
#define HEAP_TEST_BINS_H

#include "check.h"

#include "api/runtime.h"
#include "base/base.h"
#include "cache/cache.h"
#include "diagnose/diagnose.h"
#include "os/os.h"
#include "region/region.h"

static inline uint32_t unit_of(const void *p, uint64_t *entry) {
    uint32_t unit = 0;
    SUP_CHECK(ts_locate(p, &unit, entry), "not in the region");
    return unit;
}

/* The block that an object belongs to. */
static inline ts_block *block_of(const void *p) {
    uint64_t entry;
    uint64_t word = ts_load_relaxed(ts_unit_word(unit_of(p, &entry)));
    SUP_CHECK(word != 0 && !(word & TS_UNIT_SPAN), "not in a slab of a block");
    return ts_block_of_word(word);
}

/* The live word of an object, and its bit. */
static inline _Atomic uint64_t *live_of(const void *p) {
    uint64_t entry;
    (void)unit_of(p, &entry);
    return ts_live_word(entry);
}
static inline uint64_t live_bit(const void *p) {
    uint64_t entry;
    (void)unit_of(p, &entry);
    return (uint64_t)1 << (entry & 63);
}

typedef struct places {
    unsigned slabs, slots, live, bitmap, retired, magazine, word;
} places;

/* Invariant 1 of slab.h and the conservation of heap.c; the thread of the block is in no operation. */
static inline places check_bin(const ts_churn_block *block, unsigned cls) {
    const ts_bin *bin = &block->bin[cls];
    bool fine = ts_class_is_fine(cls);
    places n = {0};
    for (uint32_t unit = ts_bin_head(bin); unit; unit = ts_slab_at(unit)->next) {
        ts_slab *slab = ts_slab_at(unit);
        const _Atomic uint64_t *words = ts_slab_free_words(fine, slab);
        unsigned in_bitmap = 0;
        for (unsigned i = 0; i < ts_slab_free_word_count(fine); i++) {
            in_bitmap += ts_popcount64(ts_load_relaxed(&words[i]));
        }
        SUP_CHECK(in_bitmap == slab->free_count, "unit %u: %u free bits, free_count %u", unit, in_bitmap,
                  slab->free_count);
        SUP_CHECK(slab->next == 0 || ts_slab_at(slab->next)->prev == unit, "unit %u: list", unit);
        n.slabs++;
        n.slots += ts_classes.slots[cls];
        n.live += ts_slab_count_live(unit);
        n.bitmap += in_bitmap;
        n.retired += ts_classes.slots[cls] - slab->empty_at;
        SUP_CHECK(n.slabs < 100000, "the list is a circle");
    }
    n.magazine = (unsigned)ts_bin_depth(bin);
    SUP_CHECK(n.magazine <= TS_MAGAZINE_SLOTS, "%u objects in the magazine", n.magazine);
    for (unsigned i = 0; i < n.magazine; i++) {
        const char *p = bin->magazine->object[i];
        SUP_CHECK(!(ts_load_relaxed(live_of(p)) & live_bit(p)), "a live slot in the magazine");
        for (unsigned k = 0; k < i; k++) {
            SUP_CHECK(bin->magazine->object[k] != bin->magazine->object[i], "a slot is in the magazine twice");
        }
    }
    n.word = ts_popcount64(ts_load_relaxed(&bin->word));
    SUP_CHECK(n.slabs == ts_load_relaxed(&bin->slabs), "%u slabs in the list, %u counted", n.slabs,
              ts_load_relaxed(&bin->slabs));
    SUP_CHECK(n.live + n.bitmap + n.retired + n.magazine + n.word == n.slots,
              "class %u: %u live + %u in bitmaps + %u retired + %u in the magazine + %u claimed != %u slots", cls,
              n.live, n.bitmap, n.retired, n.magazine, n.word, n.slots);
    ts_magazine_counts counts = ts_bin_magazine_counts(bin);
    uint64_t balance = counts.pops + ts_bin_word_allocs(bin) - counts.frees;
    SUP_CHECK(balance == n.live, "class %u: the counters say %llu live, the live words %u", cls,
              (unsigned long long)balance, n.live);
    return n;
}

#endif
