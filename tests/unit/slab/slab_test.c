/* One slab: its state after a reset, the thread that may claim it, and the end of its generations and tags. */
#include "fixture.h"
#include "identities.h"
#include "rng.h"

#include "api/runtime.h"
#include "base/base.h"
#include "os/os.h"
#include "region/region.h"
#include "slab/slab.h"

#include <stdlib.h>
#include <string.h>

static _Atomic uint64_t zombies;

/* By its offset in the unit, in bytes. */
static uint64_t entry_at(uint32_t unit, unsigned at) { return (uint64_t)unit * TS_UNIT_ENTRIES + at / 16; }

/* A unit that nobody has, and back. */
static uint32_t take(unsigned part) {
    uint32_t unit = ts_pool_take(part, 1, 1);
    assert_int_not_equal(unit, 0);
    assert_true(ts_slab_claim(unit, &zombies));
    return unit;
}

static void give(uint32_t unit) {
    ts_store_relaxed(ts_unit_word(unit), 0);
    ts_store_relaxed(&ts_slab_at(unit)->handled, 0);
    assert_true(ts_os->purge(ts_unit_address(unit), TS_UNIT_BYTES));
    ts_pool_give(unit, 1);
}

/* ---- reset ------------------------------------------------------------------------------------------------ */

static unsigned bits_of(const _Atomic uint64_t *words, unsigned count) {
    unsigned n = 0;
    for (unsigned i = 0; i < count; i++) {
        n += ts_popcount64(ts_load_relaxed(&words[i]));
    }
    return n;
}

static void fresh_slab_of_every_class(void **state) {
    (void)state;
    for (unsigned cls = 0; cls < TS_CLASSES; cls++) {
        bool fine = ts_class_is_fine(cls);
        uint32_t unit = take(TS_NORMAL);
        ts_slab *slab = ts_slab_at(unit);
        assert_true(ts_region_commit_fine(unit));
        memset(ts_slab_free_words(fine, slab), 0xff, ts_slab_free_word_count(fine) * 8);
        for (unsigned i = 0; i < TS_LIVE_WORDS; i++) ts_store_relaxed(&ts_unit_live(unit)[i], UINT64_MAX);
        assert_true(ts_slab_reset_churn(unit, cls));
        assert_int_equal(slab->kind, fine ? TS_KIND_FINE : TS_KIND_CHURN);
        assert_int_equal(slab->free_count, ts_classes.slots[cls]);
        assert_int_equal(slab->empty_at, ts_classes.slots[cls]);
        assert_int_equal(ts_slab_count_live(unit), 0);
        const _Atomic uint64_t *free_words = ts_slab_free_words(fine, slab);
        assert_int_equal(bits_of(free_words, ts_slab_free_word_count(fine)), slab->free_count);
        for (unsigned slot = 0; slot < ts_classes.slots[cls]; slot++) {
            unsigned at = slot * ts_class_bytes[cls], place = at / (fine ? 16 : 64);
            assert_true(ts_load_relaxed(&free_words[place / 64]) >> (place % 64) & 1);
            assert_int_equal(ts_class_starts(cls)[place % TS_GRANULES_COARSE], fine ? 0 : at / 16 % 4);
        }
        give(unit);
    }
}

static void tags_and_generations_rise(void **state) {
    (void)state;
    uint32_t unit = take(TS_NORMAL);
    ts_slab *slab = ts_slab_at(unit);
    assert_true(ts_slab_reset_churn(unit, 5));
    uint32_t gen = ts_load_relaxed(&slab->gen), tag = ts_load_relaxed(&slab->tag);
    assert_true(gen >= 1);
    /* No handle was made: no generation is used up, however often the slots were used. */
    assert_true(ts_slab_reset_churn(unit, 5));
    assert_int_equal(ts_load_relaxed(&slab->gen), gen);
    assert_int_equal(ts_load_relaxed(&slab->tag), tag + 1);
    /* One was: the next generations are above all of this use. */
    assert_true(ts_region_commit_generations(unit));
    ts_store_relaxed(ts_generation_word(entry_at(unit, 64)), 100);
    ts_store_relaxed(&slab->handled, 1);
    assert_true(ts_slab_reset_churn(unit, 7));
    assert_int_equal(ts_load_relaxed(&slab->gen), gen + 101);
    assert_int_equal(ts_load_relaxed(ts_generation_word(entry_at(unit, 64))), 0);
    assert_int_equal(ts_load_relaxed(&slab->handled), 0);
    /* In a scope slab and a span all objects have the slab's. */
    ts_store_relaxed(&slab->handled, 1);
    assert_true(ts_slab_reset_scope(unit));
    assert_int_equal(ts_load_relaxed(&slab->gen), gen + 102);
    ts_store_relaxed(&slab->handled, 1);
    assert_true(ts_slab_reset_span(unit));
    assert_int_equal(ts_load_relaxed(&slab->gen), gen + 103);
    ts_store_relaxed(&slab->handled, 1);
    assert_true(ts_slab_reset_churn(unit, 7));
    assert_int_equal(ts_load_relaxed(&slab->gen), gen + 104);
    assert_int_equal(ts_load_relaxed(&slab->tag), tag + 5);
    give(unit);
}

/* Every generation that a slot of a slab can reach fits in a handle. */
static void generations_never_wrap(void **state) {
    (void)state;
    uint32_t unit = take(TS_NORMAL);
    ts_slab *slab = ts_slab_at(unit);
    assert_true(ts_slab_reset_churn(unit, 5));
    uint32_t before = ts_load_relaxed(&slab->gen);
    ts_store_relaxed(&slab->gen, TS_GEN_MAX - TS_SLOT_GEN_MAX - 20);
    unsigned uses = 0;
    for (;;) {
        ts_store_relaxed(&slab->handled, 1);
        if (!ts_slab_reset_churn(unit, 5)) {
            break;
        }
        uses++;
        assert_true((uint64_t)ts_load_relaxed(&slab->gen) + TS_SLOT_GEN_MAX <= TS_GEN_MAX);
        assert_true(uses <= 20);
    }
    assert_true(uses >= 15);
    ts_store_relaxed(&slab->gen, before);
    give(unit);
}

static void tags_never_wrap(void **state) {
    (void)state;
    uint32_t unit = take(TS_NORMAL);
    ts_slab *slab = ts_slab_at(unit);
    assert_true(ts_slab_reset_churn(unit, 5));
    uint32_t before = ts_load_relaxed(&slab->tag);
    ts_store_relaxed(&slab->tag, (uint32_t)TS_UNIT_ERA_MASK - 2);
    unsigned uses = 0;
    while (uses < 10 && ts_slab_reset_span(unit)) {
        uses++;
        assert_true(ts_load_relaxed(&slab->tag) <= TS_UNIT_ERA_MASK);
    }
    assert_int_equal(uses, 2);
    assert_false(ts_slab_reset_churn(unit, 5));
    assert_false(ts_slab_reset_scope(unit));
    ts_store_relaxed(&slab->tag, before);
    give(unit);
}

/* ---- claim ------------------------------------------------------------------------------------------------ */

static void claim(void **state) {
    (void)state;
    uint32_t unit = take(TS_NORMAL);
    _Atomic uint64_t *word = ts_unit_word(unit);
    uint64_t owned = (uint64_t)77 << TS_UNIT_LINE_SHIFT | 5;
    ts_store_relaxed(word, owned);
    assert_true(ts_slab_claim(unit, &zombies));
    assert_int_equal(ts_load_relaxed(word), 0);
    assert_true(ts_slab_claim(unit, &zombies));
    assert_true(ts_slab_claim_clean(unit));
    ts_store_relaxed(word, owned);
    assert_true(ts_slab_claim_clean(unit));
    assert_int_equal(ts_load_relaxed(word), 0);
    assert_int_equal(ts_slab_at(unit)->u.last_word, owned);
    ts_store_relaxed(word, owned | TS_UNIT_FOREIGN);
    assert_false(ts_slab_claim_clean(unit));
    assert_int_equal(ts_load_relaxed(word), owned | TS_UNIT_FOREIGN);
    assert_false(ts_slab_claim(unit, &zombies));
    assert_int_equal(ts_load_relaxed(word), owned | TS_UNIT_FOREIGN | TS_UNIT_ZOMBIE);
    give(unit);
}

/* ---- rebuild ---------------------------------------------------------------------------------------------- */

/* HANDLED is of one use: the word may be another by now, or have FOREIGN. */
static void handled_in_the_same_use(void **state) {
    (void)state;
    uint32_t unit = take(TS_NORMAL);
    assert_true(ts_slab_reset_churn(unit, 0));
    _Atomic uint64_t *word = ts_unit_word(unit);
    const uint64_t others[] = {0, 6, 5 | TS_UNIT_ZOMBIE, 5 | TS_UNIT_SCOPE};
    for (unsigned i = 0; i < sizeof others / sizeof *others; i++) {
        ts_store_relaxed(word, others[i]);
        ts_slab_set_handled(unit, 5);
        assert_int_equal(ts_load_relaxed(word), others[i]);
    }
    ts_store_relaxed(word, 5 | TS_UNIT_FOREIGN);
    ts_slab_set_handled(unit, 5);
    assert_int_equal(ts_load_relaxed(word), 5 | TS_UNIT_FOREIGN | TS_UNIT_HANDLED);
    assert_int_equal(ts_load_relaxed(&ts_slab_at(unit)->handled), 0);
    ts_store_relaxed(word, 5 | TS_UNIT_HANDLED);
    assert_true(ts_slab_claim(unit, &zombies));
    assert_int_equal(ts_load_relaxed(&ts_slab_at(unit)->handled), 1); /* the next reset knows */
    give(unit);
}

static void rebuild_from_the_live_bits(void **state) {
    struct sup_rng rng = {11};
    (void)state;
    for (unsigned cls = 0; cls < TS_CLASSES; cls++) {
        bool fine = ts_class_is_fine(cls);
        uint32_t unit = take(TS_NORMAL);
        ts_slab *slab = ts_slab_at(unit);
        assert_true(ts_region_commit_fine(unit) && ts_region_commit_generations(unit));
        assert_true(ts_slab_reset_churn(unit, cls));
        bool handled = cls % 2 != 0;
        if (handled) ts_slab_make_handled(unit);
        unsigned live = 0, retired = 0;
        for (unsigned slot = 0; slot < ts_classes.slots[cls]; slot++) {
            uint64_t entry = entry_at(unit, slot * ts_class_bytes[cls]), kind = sup_rng_below(&rng, 4);
            live += kind == 0;
            retired += kind == 1 && handled;
            if (kind == 0) ts_store_relaxed(ts_live_word(entry), *ts_live_word(entry) | (uint64_t)1 << (entry & 63));
            uint64_t generation = kind == 1 ? TS_SLOT_GEN_MAX + 1 : sup_rng_below(&rng, TS_SLOT_GEN_MAX + 1);
            ts_store_relaxed(ts_generation_word(entry), (uint16_t)generation);
        }
        slab->free_count = 0;
        ts_slab_rebuild(unit, cls);
        assert_int_equal(ts_slab_count_live(unit), live);
        assert_int_equal(slab->free_count, ts_classes.slots[cls] - live - retired);
        assert_int_equal(slab->empty_at, ts_classes.slots[cls] - retired);
        const _Atomic uint64_t *free_words = ts_slab_free_words(fine, slab);
        assert_int_equal(bits_of(free_words, ts_slab_free_word_count(fine)), slab->free_count);
        for (unsigned slot = 0; slot < ts_classes.slots[cls]; slot++) {
            uint64_t entry = entry_at(unit, slot * ts_class_bytes[cls]);
            unsigned place = slot * ts_class_bytes[cls] / (fine ? 16 : 64);
            assert_int_equal(ts_load_relaxed(&free_words[place / 64]) >> (place % 64) & 1,
                             !ts_is_live(entry) && !(handled && ts_slot_is_retired(entry)));
        }
        ts_store_relaxed(&slab->handled, 1);
        ts_store_relaxed(ts_unit_word(unit), 0);
        assert_true(ts_slab_reset_churn(unit, cls)); /* the generations begin anew */
        give(unit);
    }
}

/* ---- scope bits ------------------------------------------------------------------------------------------- */

static void scope_bits(void **state) {
    struct sup_rng rng = {12};
    (void)state;
    uint32_t unit = take(TS_NORMAL);
    for (int round = 0; round < 200; round++) {
        static uint32_t starts[TS_UNIT_ENTRIES + 1];
        unsigned count = 0, freed = 0;
        uint32_t end = 0;
        assert_true(ts_slab_reset_scope(unit));
        ts_scope_bits *bits = ts_slab_scope_bits(unit);
        uint64_t most = round % 2 ? 256 : 4;
        for (uint32_t at = 0; at < TS_UNIT_ENTRIES; at = end) {
            end = at + 1 + (uint32_t)sup_rng_below(&rng, most);
            end = end > TS_UNIT_ENTRIES ? TS_UNIT_ENTRIES : end;
            starts[count++] = at;
            ts_store_relaxed(&bits->start[at / 64], ts_load_relaxed(&bits->start[at / 64]) | (uint64_t)1 << at % 64);
            if (sup_rng_below(&rng, 3) == 0) {
                ts_store_relaxed(&bits->freed[at / 64],
                                 ts_load_relaxed(&bits->freed[at / 64]) | (uint64_t)1 << at % 64);
                freed++;
            }
        }
        starts[count] = end;
        ts_slab_at(unit)->free_count = (uint16_t)freed; /* the next reset goes by it */
        assert_int_equal(ts_scope_count_started(unit), count);
        assert_int_equal(ts_scope_count_live(unit), count - freed);
        for (unsigned i = 0; i < count; i++) {
            assert_int_equal(ts_scope_entries(unit, starts[i], end), starts[i + 1] - starts[i]);
        }
    }
    give(unit);
}

/* Every entry of an object has a word and a bit of its own. */
static void foreign_words(void **state) {
    const struct {
        uint64_t unit_word;
        unsigned step, words;
    } kinds[] = {{(uint64_t)60 << TS_UNIT_LINE_SHIFT, 4, 8},
                 {TS_UNIT_SCOPE, 1, 32},
                 {(uint64_t)(TS_FINE_LINES_END - 1) << TS_UNIT_LINE_SHIFT, 1, 32}};
    (void)state;
    for (unsigned k = 0; k < 3; k++) {
        uint32_t unit = take(TS_NORMAL);
        unsigned first, count;
        _Atomic uint64_t *words = ts_slab_foreign_words(unit, kinds[k].unit_word, &first, &count);
        uint64_t seen[32] = {0};
        assert_int_equal(first, 0);
        assert_int_equal(count, kinds[k].words);
        for (uint64_t e = 0; e < TS_UNIT_ENTRIES; e += kinds[k].step) {
            uint64_t bit;
            _Atomic uint64_t *word =
                ts_slab_foreign_word(kinds[k].unit_word, (uint64_t)unit * TS_UNIT_ENTRIES + e, &bit);
            assert_true(word >= words && word < words + count);
            assert_true(ts_is_pow2(bit) && bit <= UINT32_MAX);
            assert_false(seen[word - words] & bit);
            seen[word - words] |= bit;
        }
        for (unsigned i = 0; i < count; i++) {
            assert_int_equal(seen[i], UINT32_MAX);
        }
        give(unit);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(fresh_slab_of_every_class),
        cmocka_unit_test(tags_and_generations_rise),
        cmocka_unit_test(generations_never_wrap),
        cmocka_unit_test(tags_never_wrap),
        cmocka_unit_test(claim),
        cmocka_unit_test(rebuild_from_the_live_bits),
        cmocka_unit_test(handled_in_the_same_use),
        cmocka_unit_test(scope_bits),
        cmocka_unit_test(foreign_words),
    };
    return cmocka_run_group_tests_name("slab.slab", tests, start_plain, stop);
}
