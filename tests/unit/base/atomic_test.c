/* Words that one thread writes, and comparisons of words, against the C standard. */
#include "unit.h"

#include "base/base.h"

/* An owned word, with the instructions of any machine. */
static void owned_words(void **state) {
    (void)state;
    _Atomic uint64_t a = UINT64_MAX - 3;
    ts_add_owned(&a, 7);
    assert_int_equal(ts_load_relaxed(&a), 3);
    ts_add_owned(&a, (uint64_t)1 << 40);
    assert_int_equal(ts_load_relaxed(&a), ((uint64_t)1 << 40) + 3);
    assert_int_equal(ts_low_byte_owned(&a), 3);
    _Atomic uint64_t low = UINT64_MAX - 0x7f;
    assert_int_equal(ts_low_byte_owned(&low), 0x80);
    _Atomic uint32_t b[3] = {5, UINT32_MAX, 5};
    ts_add_owned(&b[1], 2);
    assert_int_equal(ts_load_relaxed(&b[1]), 1);
    _Atomic uint64_t c[3] = {1, 2, 3};
    ts_store_owned_at_release((uintptr_t)c, 1, UINT64_MAX - 5);
    assert_int_equal(ts_load_owned_at((uintptr_t)c, 1), UINT64_MAX - 5);
    assert_int_equal(ts_load_relaxed(&c[1]), UINT64_MAX - 5);
    assert_int_equal(ts_load_relaxed(&b[0]) + ts_load_relaxed(&b[2]), 10);
    assert_int_equal(ts_load_owned_at((uintptr_t)c, 0) + ts_load_owned_at((uintptr_t)c, 2), 4);
}

static void comparisons(void **state) {
    (void)state;
    _Atomic uint64_t a = 0x123456789abcdef0;
    assert_true(ts_is_relaxed_64(&a, 0x123456789abcdef0));
    assert_false(ts_is_relaxed_64(&a, 0x123456789abcdef1));
    assert_false(ts_is_relaxed_64(&a, 0x9abcdef0));
    assert_true(ts_is_below_relaxed_64(&a, 0x123456789abcdef1));
    assert_false(ts_is_below_relaxed_64(&a, 0x123456789abcdef0));
    assert_false(ts_is_below_relaxed_64(&a, 0xffffffff));
    assert_true(ts_is_below_relaxed_64(&a, UINT64_MAX));
    assert_false(ts_is_other_relaxed_64(&a, 0x123456789abcdef0));
    assert_true(ts_is_other_relaxed_64(&a, 0x123456789abcdef1));
    assert_true(ts_is_other_relaxed_64(&a, 0x9abcdef0));
    assert_true(ts_is_other_relaxed_64(&a, 0x1234567800000000));
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(owned_words), cmocka_unit_test(comparisons)};
    return cmocka_run_group_tests_name("base.atomic", tests, NULL, NULL);
}
