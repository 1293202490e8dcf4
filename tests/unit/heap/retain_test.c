/* The retain budget by itself (retain.h): when it rises, and when it falls. */
#include "unit.h"

#include "heap/retain.h"

enum { USUAL = 1000 };

static ts_retain retain;
static uint64_t taken;
static uint64_t now; /* two seconds pass between what goes and what comes, unless a test says otherwise */

static int begin(void **state) {
    (void)state;
    ts_retain_init(&retain, USUAL, true);
    taken = 0;
    now = 1;
    return 0;
}

static uint64_t budget(void) { return ts_load_relaxed(&retain.units); }
static uint64_t low(void) { return ts_load_relaxed(&retain.low); }

static bool keeps(uint64_t taken_now, uint64_t warm, uint64_t live) {
    return ts_retain_keeps(&retain, taken_now, warm, live, now);
}
static void give(uint64_t taken_now, uint64_t units) {
    ts_retain_give(&retain, taken_now, units, now);
    now += 2000000000u;
}

/* A phase that takes so much, and at whose end `warm` is warm; what is too much goes back down to a quarter. */
static bool phase(uint64_t take, uint64_t warm) {
    taken += take;
    if (warm <= USUAL) return true;
    if (keeps(taken, warm, 0)) return true;
    give(taken, warm - USUAL / 4);
    return false;
}

static void rises_when_all_is_taken_back(void **state) {
    (void)state;
    assert_false(phase(1600, 1600));
    assert_int_equal(budget(), USUAL);
    assert_true(phase(1350, 1600));
    assert_int_equal(budget(), 2 * USUAL);
    for (int i = 0; i < 5; i++) {
        assert_true(phase(0, 1600));
    }
}

static void not_for_less_than_three_quarters(void **state) {
    (void)state;
    assert_false(phase(1250, 1250)); /* gives 1000 */
    assert_false(phase(749, 1001));  /* gives 751 */
    assert_int_equal(budget(), USUAL);
    assert_true(phase(564, 1001)); /* three quarters of 751, rounded up */
    assert_int_equal(budget(), 2 * USUAL);
}

static void not_for_one_that_would_not_fit(void **state) {
    (void)state;
    for (int i = 0; i < 5; i++) {
        assert_false(phase(2001, 2001));
        assert_int_equal(budget(), USUAL);
    }
    assert_true(phase(2001, 2000));
}

/* Beside much that is in use more may stay: the budget and as much as that. */
static void as_much_as_is_in_use(void **state) {
    (void)state;
    assert_false(phase(3000, 3000));
    taken += 3000;
    assert_false(keeps(taken, 3000, 1999));
    assert_true(keeps(taken, 3000, 2000));
    assert_int_equal(budget(), 2 * USUAL);
    assert_false(keeps(taken, 3001, 2000));
    /* Four times the usual budget at most. */
    assert_true(keeps(taken, 5 * USUAL, 100 * USUAL));
    assert_false(keeps(taken, 5 * USUAL + 1, 100 * USUAL));
}

/* A little more than that: only what is too much goes back, and the budget stays. */
static void a_part_of_it_goes_back(void **state) {
    (void)state;
    assert_false(phase(3000, 3000));
    assert_int_equal(low(), USUAL / 4);
    taken += 3000;
    assert_true(keeps(taken, 3000, 2000));
    assert_false(keeps(taken, 4000, 2000));
    assert_int_equal(low(), 2500);
    give(taken, 1500);
    /* Nothing was taken back yet. */
    assert_int_equal(budget(), 2 * USUAL);
    assert_true(keeps(taken, 2500, 2000));
    /* More than twice what is in use is a spike. */
    assert_false(keeps(taken, 4001, 2000));
    assert_int_equal(budget(), USUAL);
    assert_int_equal(low(), USUAL / 4);
    assert_false(keeps(taken, 2500, 2000));
}

/* Twice the usual budget goes and comes within a moment: what is warm stays, though little is in use. */
static void what_turns_over_stays(void **state) {
    (void)state;
    for (int i = 0; i < 2; i++) {
        assert_false(keeps(taken, 3000, 0));
        ts_retain_give(&retain, taken, USUAL, now);
        now += TS_RETAIN_WINDOW_NS / 3;
        taken += 750;
    }
    assert_false(keeps(taken, TS_RETAIN_MOST * USUAL + 1, 0));
    assert_false(keeps(taken - 1, 3000, 0));
    assert_true(keeps(taken, 3000, 0));
    assert_int_equal(budget(), TS_RETAIN_MOST * USUAL);
    /* From then on as much as fits; what is more goes back, half of the usual budget beside. */
    assert_true(keeps(taken, TS_RETAIN_MOST * USUAL, 0));
    assert_false(keeps(taken, 2 * TS_RETAIN_MOST * USUAL, 0));
    assert_int_equal(low(), TS_RETAIN_MOST * USUAL - USUAL / 2);
    assert_true(keeps(taken, TS_RETAIN_MOST * USUAL, 0));
    /* All of much more does. */
    now += TS_RETAIN_WINDOW_NS;
    assert_false(keeps(taken, 2 * TS_RETAIN_MOST * USUAL + 1, 0));
    assert_int_equal(budget(), USUAL);
    assert_int_equal(low(), USUAL / 4);
    assert_false(keeps(taken, TS_RETAIN_MOST * USUAL, 0));
}

static void what_was_learned_holds_for_a_while(void **state) {
    (void)state;
    assert_false(phase(1600, 1600));
    assert_true(phase(1600, 1600));
    now += TS_RETAIN_HOLDS_NS;
    assert_true(phase(1600, 1600));
    now += 1;
    assert_false(phase(1600, 1600));
    assert_int_equal(budget(), USUAL);
    assert_true(phase(1600, 1600));
}

static void not_what_turns_over_slowly(void **state) {
    (void)state;
    for (int i = 0; i < 2; i++) {
        ts_retain_give(&retain, taken, USUAL, now);
        now += TS_RETAIN_WINDOW_NS / 3 * 2;
        taken += USUAL;
    }
    assert_false(keeps(taken, 3000, 0)); /* all of it, but not within a moment */
    ts_retain_give(&retain, taken, 2 * USUAL - 1, now);
    taken += 2 * USUAL;
    assert_false(keeps(taken, 3000, 0)); /* less than twice the budget */
    ts_retain_give(&retain, taken, 1, now);
    assert_true(keeps(taken, 3000, 0));
}

static void falls_when_told(void **state) {
    (void)state;
    assert_false(phase(3000, 3000));
    taken += 3000;
    assert_true(keeps(taken, 3000, 2000));
    assert_false(keeps(taken, 4000, 2000));
    ts_retain_fall(&retain);
    assert_int_equal(budget(), USUAL);
    assert_int_equal(low(), USUAL / 4);
    /* What was learned stays. */
    assert_true(keeps(taken, 3000, 2000));
}

static void falls_when_more_comes(void **state) {
    (void)state;
    assert_false(phase(1600, 1600));
    assert_true(phase(1600, 1600));
    assert_false(phase(10000, 10000));
    assert_int_equal(budget(), USUAL);
    /* What was given is of that round alone. */
    assert_false(phase(1600, 1600));
    assert_true(phase(1600, 1600));
}

/* A round may be of several steps, and other takes end it. */
static void a_round_of_steps(void **state) {
    (void)state;
    taken = 5000;
    for (int i = 0; i < 10; i++) {
        assert_false(keeps(taken, USUAL + 1, 0));
        give(taken, 100);
    }
    assert_int_equal(retain.given, 1000);
    assert_false(keeps(taken + 749, USUAL + 1, 0));
    assert_true(keeps(taken + 750, USUAL + 1, 0));
    /* Others that come now are told the same. */
    assert_true(keeps(taken + 750, USUAL + 2, 0));
    assert_false(keeps(taken + 750, 2 * USUAL + 1, 0));
}

static void forgets(void **state) {
    (void)state;
    assert_false(phase(1600, 1600));
    ts_retain_forget(&retain);
    assert_false(phase(1600, 1600)); /* nothing was given in vain, as far as is known */
    assert_true(phase(1600, 1600));
    ts_retain_forget(&retain);
    assert_int_equal(budget(), USUAL);
}

static void never_of_a_budget_that_was_given(void **state) {
    (void)state;
    ts_retain_init(&retain, USUAL, false);
    for (int i = 0; i < 5; i++) {
        assert_false(phase(1600, 1600));
        assert_int_equal(budget(), USUAL);
    }
}

#define FROM_BEGIN(test) cmocka_unit_test_setup(test, begin)

int main(void) {
    const struct CMUnitTest tests[] = {
        FROM_BEGIN(rises_when_all_is_taken_back),
        FROM_BEGIN(not_for_less_than_three_quarters),
        FROM_BEGIN(not_for_one_that_would_not_fit),
        FROM_BEGIN(as_much_as_is_in_use),
        FROM_BEGIN(a_part_of_it_goes_back),
        FROM_BEGIN(what_turns_over_stays),
        FROM_BEGIN(not_what_turns_over_slowly),
        FROM_BEGIN(what_was_learned_holds_for_a_while),
        FROM_BEGIN(falls_when_told),
        FROM_BEGIN(falls_when_more_comes),
        FROM_BEGIN(a_round_of_steps),
        FROM_BEGIN(forgets),
        FROM_BEGIN(never_of_a_budget_that_was_given),
    };
    return cmocka_run_group_tests_name("heap.retain", tests, NULL, NULL);
}
