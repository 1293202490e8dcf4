/* State words packed and written again: all are as they were, whatever the slab's slots have been through. */
#include "identities.h"
#include "rng.h"
#include "unit.h"

#include "os/os.h"
#include "region/pool.h"
#include "spill/state_words.h"

#include <string.h>

static SlabAllocator *allocator;
static _Atomic uint64_t zombies;
static uint32_t unit;
static struct sup_rng rng;

static int start(void **state) {
    (void)state;
    allocator = slab_allocator_create();
    return allocator == NULL;
}
static int stop(void **state) {
    (void)state;
    slab_allocator_free(allocator);
    return ts_pool_used_units() != 0;
}

static int take(void **state) {
    (void)state;
    rng = (struct sup_rng){sup_mix(7)};
    unit = ts_pool_take(TS_NORMAL, 1, 1);
    return unit == 0 || !ts_slab_claim(unit, &zombies);
}
static int give(void **state) {
    (void)state;
    ts_store_relaxed(ts_unit_word(unit), 0);
    bool purged = ts_os->purge(ts_unit_address(unit), TS_UNIT_BYTES);
    ts_pool_give(unit, 1);
    return !purged;
}

/* Packs, spoils the words, and writes them again. Returns the bytes. */
static size_t there_and_back(unsigned cls, size_t words) {
    uint8_t packed[TS_PACKED_MOST + 1], again[TS_PACKED_MOST];
    uint16_t before[TS_STATES_COARSE], after[TS_STATES_COARSE];
    _Atomic uint16_t *state = ts_unit_states(unit, false);
    for (unsigned i = 0; i < TS_STATES_COARSE; i++) before[i] = ts_load_relaxed(&state[i]);
    packed[TS_PACKED_MOST] = 0x5a;
    size_t bytes = ts_slab_pack(unit, cls, packed);
    assert_int_equal(packed[TS_PACKED_MOST], 0x5a);
    assert_in_range(bytes, 1, TS_PACKED_MOST);
    for (unsigned i = 0; i < TS_STATES_COARSE; i++) ts_store_relaxed(&state[i], (uint16_t)sup_rng_next(&rng));
    memset(packed + bytes, 0xee, TS_PACKED_MOST - bytes); /* what is behind it does not count */
    ts_slab_unpack(unit, packed);
    for (unsigned i = 0; i < TS_STATES_COARSE; i++) after[i] = ts_load_relaxed(&state[i]);
    assert_memory_equal(before, after, words * sizeof *before);
    assert_int_equal(ts_slab_pack(unit, cls, again), bytes);
    assert_memory_equal(packed, again, bytes);
    return bytes;
}

static _Atomic uint16_t *state_of(unsigned cls, unsigned slot) {
    return &ts_unit_states(unit, false)[ts_granule(false, slot * ts_class_bytes[cls] / 16)];
}

static void allocate(unsigned cls, unsigned slot) {
    ts_store_relaxed(state_of(cls, slot), (uint16_t)(ts_load_relaxed(state_of(cls, slot)) | TS_STATE_LIVE));
}
static void release(unsigned cls, unsigned slot) {
    ts_store_relaxed(state_of(cls, slot), (uint16_t)(ts_load_relaxed(state_of(cls, slot)) + TS_STATE_FREE_STEP));
}

/* Each slot has been used and freed so many times, as they are counted in a program: to the end of the generations and over. */
static void churn(void **state) {
    (void)state;
    static const unsigned most[] = {0, 1, 2, 5, 40, TS_STATE_GEN_MAX, TS_STATE_GEN_MAX + 1};
    for (unsigned cls = TS_FINE_CLASSES; cls < TS_CLASSES; cls++) {
        for (unsigned i = 0; i < sizeof most / sizeof *most; i++) {
            assert_true(ts_slab_reset_churn(unit, cls));
            for (unsigned slot = 0; slot < ts_classes.slots[cls]; slot++) {
                unsigned uses = slot == 0 ? most[i] : (unsigned)sup_rng_below(&rng, most[i] + 1);
                for (unsigned n = 0; n < uses; n++) {
                    allocate(cls, slot);
                    release(cls, slot);
                }
                if (uses <= TS_STATE_GEN_MAX && sup_rng_below(&rng, 2)) allocate(cls, slot);
            }
            assert_int_equal(ts_state_is_retired(ts_load_relaxed(state_of(cls, 0))), most[i] > TS_STATE_GEN_MAX);
            (void)there_and_back(cls, TS_STATES_COARSE);
        }
    }
}

/* What it is for: the words of a slab that was filled once, or a few times over, take little. */
static void is_small(void **state) {
    (void)state;
    for (unsigned cls = TS_FINE_CLASSES; cls < TS_CLASSES; cls++) {
        assert_true(ts_slab_reset_churn(unit, cls));
        for (unsigned slot = 0; slot < ts_classes.slots[cls]; slot++) allocate(cls, slot);
        assert_in_range(there_and_back(cls, TS_STATES_COARSE), 1, 36);
        for (unsigned slot = 0; slot < ts_classes.slots[cls]; slot += 2) release(cls, slot);
        assert_in_range(there_and_back(cls, TS_STATES_COARSE), 1, 68);
    }
    for (unsigned step = 4; step <= 256; step *= 4) { /* entries of 16 bytes to an object */
        assert_true(ts_slab_reset_scope(unit));
        ts_scope_bits *bits = ts_slab_scope_bits(unit);
        for (unsigned e = 0; e < TS_UNIT_ENTRIES; e += step)
            ts_store_relaxed(&bits->start[e / 64], ts_load_relaxed(&bits->start[e / 64]) | (uint64_t)1 << e % 64);
        assert_in_range(there_and_back(TS_PACKED_SCOPE, 128), 1, step > 64 ? 84 : 12);
    }
}

static void scope(void **state) {
    (void)state;
    for (unsigned round = 0; round < 400; round++) {
        ts_slab_at(unit)->free_count = 1; /* there were frees: so that the reset clears their bits */
        assert_true(ts_slab_reset_scope(unit));
        ts_scope_bits *bits = ts_slab_scope_bits(unit);
        unsigned largest = 1 + (unsigned)sup_rng_below(&rng, round % 2 ? 4 : 256), freed = round % 4;
        for (unsigned e = 0; e < TS_UNIT_ENTRIES; e += 1 + (unsigned)sup_rng_below(&rng, largest)) {
            uint64_t bit = (uint64_t)1 << e % 64;
            ts_store_relaxed(&bits->start[e / 64], ts_load_relaxed(&bits->start[e / 64]) | bit);
            if (freed != 0 && sup_rng_below(&rng, 4) < freed)
                ts_store_relaxed(&bits->freed[e / 64], ts_load_relaxed(&bits->freed[e / 64]) | bit);
        }
        (void)there_and_back(TS_PACKED_SCOPE, 128); /* the rest of the words a scope does not use */
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(churn, take, give),
        cmocka_unit_test_setup_teardown(is_small, take, give),
        cmocka_unit_test_setup_teardown(scope, take, give),
    };
    return cmocka_run_group_tests(tests, start, stop);
}
