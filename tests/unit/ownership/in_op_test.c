/* Whether a thread is inside of an operation, by the words that it has stored. */
#include "unit.h"

#include "ownership/ownership.h"

static char place[64]; /* as if a slab's */
static ts_scope_block block, no_block;
static ts_tls tls;

/* An allocation that has begun, at the first place. */
static void begin(void) {
    atomic_store(&block.bump, ts_bump_word(place, 3));
    atomic_store(&tls.scope, &block);
    atomic_store(&tls.in_op, ts_bump_name(ts_bump_word(place, 3)));
}

static void nothing_is_none(void **state) {
    (void)state;
    begin();
    atomic_store(&tls.in_op, 0);
    assert_false(ts_is_in_op(&tls));
    ts_op_begin(&tls);
    assert_true(ts_is_in_op(&tls));
    ts_op_end(&tls);
    assert_false(ts_is_in_op(&tls));
}

static void an_allocation_ends_with_bump(void **state) {
    (void)state;
    begin();
    assert_true(ts_is_in_op(&tls));
    atomic_store(&block.bump, ts_bump_word(place + 16, 4));
    assert_false(ts_is_in_op(&tls));
    ts_op_begin_bump(&tls, ts_bump_word(place + 16, 4));
    assert_true(ts_is_in_op(&tls));
    atomic_store(&block.bump, 0); /* as the end of the block leaves it */
    assert_false(ts_is_in_op(&tls));
}

/* A thread that has gone to another block is done with the last. */
static void so_it_does_with_the_block(void **state) {
    (void)state;
    begin();
    ts_set_scope(&tls, &no_block);
    assert_false(ts_is_in_op(&tls));
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(nothing_is_none),
        cmocka_unit_test(an_allocation_ends_with_bump),
        cmocka_unit_test(so_it_does_with_the_block),
    };
    return cmocka_run_group_tests_name("ownership.in_op", tests, NULL, NULL);
}
