/* Bit operations against the obvious loops. */
#include "rng.h"
#include "unit.h"

#include "base/base.h"

static unsigned slow_count(uint64_t x) {
    unsigned n = 0;
    for (unsigned i = 0; i < 64; i++) {
        n += (x >> i) & 1u;
    }
    return n;
}

static unsigned slow_lowest(uint64_t x) {
    unsigned i = 0;
    while (!((x >> i) & 1u)) {
        i++;
    }
    return i;
}

static unsigned slow_highest(uint64_t x) {
    unsigned i = 63;
    while (!((x >> i) & 1u)) {
        i--;
    }
    return i;
}

static void check_word(uint64_t x) {
    assert_int_equal(ts_popcount64(x), slow_count(x));
    assert_int_equal(ts_is_pow2(x), slow_count(x) == 1);
    for (uint64_t n = 0; n < 192; n += 7) assert_int_equal(ts_with_bit(x, n), x | (uint64_t)1 << n % 64);
    if (x) {
        assert_int_equal(ts_ctz64(x), slow_lowest(x));
        assert_int_equal(ts_log2_64(x), slow_highest(x));
    }
}

static void words(void **state) {
    struct sup_rng rng = {1};
    (void)state;
    check_word(0);
    check_word(UINT64_MAX);
    for (unsigned i = 0; i < 64; i++) {
        uint64_t bit = (uint64_t)1 << i;
        check_word(bit);
        check_word(bit - 1);
        check_word(~bit);
        check_word(bit | 1u);
    }
    for (int i = 0; i < 20000; i++) {
        uint64_t x = sup_rng_next(&rng);
        check_word(x);
        check_word(x >> sup_rng_below(&rng, 64));
        check_word(x << sup_rng_below(&rng, 64));
    }
}

static void low_byte(void **state) {
    (void)state;
    for (uint64_t x = 0; x < 70000; x++) assert_int_equal(ts_low_byte(x << 40 | x), x & 0xff);
}

static void bits_of_words(void **state) {
    (void)state;
    for (uint64_t n = 0; n < 200; n++) {
        uint64_t bit = (uint64_t)1 << n % 64, all = UINT64_MAX, none = 0;
        assert_true(ts_has_bit(bit, n) && !ts_has_bit(~bit, n));
        assert_true(ts_take_bit(&all, n) && all == ~bit);
        assert_false(ts_take_bit(&all, n) || all != ~bit);
        assert_false(ts_take_bit(&none, n) || none != 0);
        assert_true(ts_with_bit(all, n) == UINT64_MAX);
    }
}

static void rounding(void **state) {
    struct sup_rng rng = {2};
    (void)state;
    for (int i = 0; i < 20000; i++) {
        uint64_t align = (uint64_t)1 << sup_rng_below(&rng, 32);
        uint64_t x = sup_rng_next(&rng) >> (2 + sup_rng_below(&rng, 62));
        uint64_t up = ts_align_up(x, align), down = ts_align_down(x, align);
        assert_int_equal(up % align, 0);
        assert_int_equal(down % align, 0);
        assert_true(up >= x && up - x < align);
        assert_true(down <= x && x - down < align);
    }
    assert_int_equal(ts_align_up(0, 4096), 0);
    assert_int_equal(ts_align_up(4096, 4096), 4096);
    assert_int_equal(ts_align_up(4097, 4096), 8192);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(words),
        cmocka_unit_test(low_byte),
        cmocka_unit_test(bits_of_words),
        cmocka_unit_test(rounding),
    };
    return cmocka_run_group_tests_name("base.bits", tests, NULL, NULL);
}
