/* The retain budget by itself (retain.h): when it rises, when it falls, and how much unneeded memory goes back. */
#include "unit.h"

#include "supply/retain.h"

enum { USUAL = 1600, MOST = TS_RETAIN_MOST * USUAL, KEEP = 200, PIECE = 64 };

static ts_retain retain;
static uint64_t taken;
static uint64_t now;

static int begin(void **state) {
    (void)state;
    ts_retain_init(&retain, USUAL, true);
    taken = 0;
    now = 2 * TS_RETAIN_NS;
    return 0;
}

static uint64_t budget(void) { return ts_load_relaxed(&retain.units); }

/* With `retained` units retained beside `in_use`, gives units above the limit back at once. Returns their number. */
static uint64_t settle(uint64_t retained, uint64_t in_use) {
    if (retained <= ts_retain_limit(&retain, retained, in_use)) return 0;
    ts_retain_adapt(&retain, taken, retained, in_use, now);
    uint64_t limit = ts_retain_limit(&retain, retained, in_use);
    if (retained <= limit) return 0;
    ts_retain_add(&retain, taken, limit, retained - limit, now);
    return retained - limit;
}

/* Takes `units` units, retained ones first. Returns the number of retained units that remain. */
static uint64_t take(uint64_t units, uint64_t retained) {
    uint64_t rest = retained > units ? retained - units : 0;
    taken += units - (retained - rest);
    ts_retain_note(&retain, rest, retained - rest);
    ts_retain_subtract(&retain, rest, units - (retained - rest));
    return rest;
}

/* Takes `units` units, retained ones first, then frees them, 100 at a time, while `beside` stay in use. */
static uint64_t swing(uint64_t units, uint64_t beside) {
    static uint64_t retained;
    uint64_t given = 0;
    if (taken == 0) retained = 0;
    retained = take(units, retained);
    for (uint64_t freed = 100; freed <= units; freed += 100) {
        retained += 100;
        uint64_t back = settle(retained, beside + units - freed);
        retained -= back;
        given += back;
    }
    return given;
}

static uint64_t spike(uint64_t units) { return swing(units, 0); }

static uint64_t look(uint64_t retained) { return ts_retain_look(&retain, taken, retained, KEEP, PIECE, now); }
static void end_second(void) { now += TS_RETAIN_NS + 1; }

static void spikes_that_fit_stay(void **state) {
    (void)state;
    assert_int_equal(spike(4000), 4000 - USUAL);
    assert_int_equal(budget(), USUAL);
    for (int i = 0; i < 20; i++) assert_int_equal(spike(4000), 0);
    assert_int_equal(budget(), MOST);
    assert_int_equal(spike(MOST), 0);
}

/* All of them give back the same, however often they come, and whenever a window ends. */
static void spikes_that_do_not_fit_go_back(void **state) {
    (void)state;
    for (uint64_t i = 0; i < 300; i++) {
        assert_int_equal(spike(MOST + 2000), MOST + 2000 - USUAL);
        assert_int_equal(budget(), USUAL);
        now += TS_RETAIN_NS / 7 * (i % 11);
        (void)look(i % 3 == 0 ? USUAL : 100);
    }
}

/* Also where one takes as long as several windows. */
static void slow_spikes_do_not_fit_either(void **state) {
    uint64_t retained = 0;
    (void)state;
    for (uint64_t i = 0; i < 50; i++) {
        retained = take(2 * MOST, retained);
        (void)look(0);
        for (uint64_t freed = 100; freed <= 2 * MOST; freed += 100) {
            retained += 100;
            retained -= settle(retained, 2 * MOST - freed);
            now += TS_RETAIN_NS / (25 + i); /* two to six windows */
            (void)look(retained);
            assert_int_equal(budget(), USUAL);
        }
    }
}

/* A thread has read the clock before another one, and looks after it. */
static void an_earlier_time_ends_no_second(void **state) {
    (void)state;
    assert_int_equal(look(1000), 0);
    now--;
    assert_int_equal(look(1000), 0);
    assert_int_equal(ts_load_relaxed(&retain.spare), 0);
    now++;
    end_second();
    assert_int_equal(look(1000), PIECE);
}

/* A budget that has risen falls when such a spike comes. */
static void a_large_spike_lowers_the_budget(void **state) {
    (void)state;
    (void)spike(4000);
    (void)spike(4000);
    assert_int_equal(budget(), MOST);
    assert_true(spike(3 * MOST) > 0);
    assert_int_equal(budget(), USUAL);
    assert_int_equal(spike(3 * MOST), 3 * MOST - USUAL);
}

/* The highest budget is a quarter of the units in use, if that is more. */
static void much_in_use_keeps_much(void **state) {
    enum { SWING = MOST + 2000, MUCH = 4 * SWING };
    (void)state;
    assert_int_equal(swing(SWING, MUCH), SWING - USUAL);
    for (int i = 0; i < 20; i++) assert_int_equal(swing(SWING, MUCH), 0);
    assert_in_range(budget(), SWING, (MUCH + SWING) / 4);
}

/* A program that frees and allocates in turn keeps up to the highest budget, and its budget does not change. */
static void what_is_taken_in_turn_stays(void **state) {
    enum { BLOCK = USUAL - 100, LESS = BLOCK / 64 + 1 };
    uint64_t retained = 0, most = 0;
    (void)state;
    retained = take(2 * MOST, retained);
    for (int i = 0; i < 200; i++) {
        retained += BLOCK;
        retained -= settle(retained, 2 * MOST);
        assert_true(retained <= MOST);
        if (retained > most) most = retained;
        retained = take(LESS, retained);
    }
    assert_int_equal(most, MOST);
    assert_int_equal(budget(), USUAL);
    /* One that frees alone does not. */
    for (int i = 0; i < 2; i++) {
        retained += BLOCK;
        retained -= settle(retained, 2 * MOST);
    }
    assert_int_equal(retained, USUAL);
}

/* Where less than the usual budget is left in use, a phase ends when as much was freed in a row. */
static void what_lets_go_of_most_has_ended(void **state) {
    uint64_t retained = 4000, in_use = 1000;
    (void)state;
    retained = take(1000, take(1000, retained) + 1000 + 2000); /* nothing was freed in a row */
    assert_int_equal(settle(retained, in_use), 0);
    retained += 499, in_use -= 499;
    assert_int_equal(settle(retained, in_use), 0);
    retained += 2, in_use -= 2;
    assert_int_equal(settle(retained, in_use), retained - USUAL);
}

/* A little that is taken meanwhile ends no row: a 64th does. */
static void a_row_goes_on_beside_a_little(void **state) {
    (void)state;
    ts_retain_subtract(&retain, 1000, 100);
    assert_int_equal(ts_retain_row(&retain, 1000), 0);
    assert_int_equal(ts_retain_row(&retain, 7500), 6500);
    ts_retain_subtract(&retain, 7400, 100);
    assert_int_equal(ts_retain_row(&retain, 7400), 0);
    ts_retain_subtract(&retain, 14000, 100);
    assert_int_equal(ts_retain_row(&retain, 14000), 14000 - 7400 - 6400);
    /* Units that go back count as freed, too. */
    ts_retain_add(&retain, taken, 10000, 4000, now);
    assert_int_equal(ts_retain_row(&retain, 10000), 200);
}

/* Units that are needed before they go back were not given back in vain, nor were units that nobody needs again. */
static void not_for_what_does_not_come_again(void **state) {
    (void)state;
    taken = 10 * USUAL;
    assert_int_equal(settle(2 * USUAL, MOST), USUAL);
    assert_int_equal(settle(USUAL + 1, MOST), 1);
    taken += USUAL * 3 / 4 - 1;
    assert_int_equal(settle(USUAL + 1, MOST), 1);
    taken += 3;
    assert_int_equal(settle(USUAL + 1, MOST), 0);
    assert_int_equal(budget(), MOST);
}

static void not_for_little(void **state) {
    (void)state;
    for (int i = 0; i < 3; i++) {
        assert_int_equal(settle(USUAL + 99, MOST), 99);
        taken += 99;
    }
    assert_int_equal(settle(USUAL + 103, MOST), 103); /* a quarter of the usual budget */
    taken += 103;
    assert_int_equal(settle(USUAL + 1, MOST), 0);
}

static void not_for_what_comes_later(void **state) {
    (void)state;
    assert_int_equal(settle(2 * USUAL, MOST), USUAL);
    end_second();
    taken += USUAL;
    assert_int_equal(settle(USUAL + 1, MOST), 1);
    assert_int_equal(budget(), USUAL);
}

/* Units that went back long ago do not count for ever. */
static void one_spike_is_forgotten(void **state) {
    (void)state;
    (void)spike(3 * MOST);
    taken += 2000;
    assert_int_equal(settle(4000, 100), 4000 - USUAL);
    taken += 2400;
    assert_int_equal(settle(4000, 100), 4000 - USUAL); /* it may be a part of that spike */
    for (int i = 0; i < 60; i++) {
        end_second();
        assert_int_equal(settle(USUAL + 1, 0), 1);
    }
    end_second();
    assert_int_equal(settle(4000, 100), 4000 - USUAL);
    taken += 2400;
    assert_int_equal(settle(4000, 100), 0);
}

/* Unneeded units go back step by step, and the needed ones stay. */
static void what_nobody_needs_goes_back(void **state) {
    uint64_t retained = USUAL;
    (void)state;
    assert_int_equal(look(retained), 0); /* begins the window */
    now += TS_RETAIN_NS;
    assert_int_equal(look(retained), 0);
    now++;
    for (uint64_t units; (units = look(retained)) > 0;) {
        assert_in_range(units, 1, PIECE);
        retained -= units;
    }
    assert_int_equal(retained, KEEP);
    assert_int_equal(ts_retain_row(&retain, retained), USUAL); /* it was freed, wherever it is */
    end_second();
    assert_int_equal(look(retained), 0);
}

/* A tenth of it is needed now and then. */
static void what_somebody_needs_stays(void **state) {
    (void)state;
    (void)look(1000);
    ts_retain_note(&retain, 900, 0);
    end_second();
    assert_int_equal(look(1000), PIECE);
    ts_retain_note(&retain, KEEP + PIECE, 0);
    assert_int_equal(look(1000), PIECE); /* as much as was not needed in this window either */
    assert_int_equal(look(1000), 0);
    /* Where more than a quarter is needed now and then, all may be. */
    end_second();
    (void)look(1000);
    ts_retain_note(&retain, 799, 0);
    end_second();
    assert_int_equal(look(1000), 0);
    ts_retain_note(&retain, 800, 0);
    end_second();
    assert_int_equal(look(1000), PIECE);
}

/* The second begins anew. */
static void not_while_something_goes_or_comes(void **state) {
    (void)state;
    (void)look(USUAL);
    for (int i = 0; i < 2; i++) {
        now += TS_RETAIN_NS / 2;
        if (i == 0)
            assert_int_equal(settle(USUAL + 100, 0), 100);
        else
            taken++;
        assert_int_equal(look(USUAL), 0);
        now += TS_RETAIN_NS;
        assert_int_equal(look(USUAL), 0);
        now++;
        assert_int_equal(look(USUAL), PIECE);
        taken++; /* nor does the rest of it go then */
        assert_int_equal(look(USUAL), 0);
    }
}

/* The risen budget falls by the units that go back. */
static void the_budget_falls_when_nobody_needs_it(void **state) {
    (void)state;
    (void)spike(4000);
    (void)spike(4000);
    assert_int_equal(budget(), MOST);
    end_second();
    (void)look(3000);
    end_second();
    (void)look(3000);
    assert_int_equal(budget(), MOST - (3000 - KEEP));
    for (int i = 0; i < 5; i++) {
        end_second();
        (void)look(3000);
    }
    assert_int_equal(budget(), USUAL);
}

static void forgets(void **state) {
    (void)state;
    (void)spike(4000);
    (void)spike(4000);
    ts_retain_forget(&retain);
    assert_int_equal(budget(), USUAL);
    taken += 4000;
    assert_int_equal(settle(4000, 0), 4000 - USUAL); /* nothing was given in vain, as far as is known */
}

#define FROM_BEGIN(test) cmocka_unit_test_setup(test, begin)

int main(void) {
    const struct CMUnitTest tests[] = {
        FROM_BEGIN(spikes_that_fit_stay),
        FROM_BEGIN(an_earlier_time_ends_no_second),
        FROM_BEGIN(spikes_that_do_not_fit_go_back),
        FROM_BEGIN(slow_spikes_do_not_fit_either),
        FROM_BEGIN(a_large_spike_lowers_the_budget),
        FROM_BEGIN(much_in_use_keeps_much),
        FROM_BEGIN(what_is_taken_in_turn_stays),
        FROM_BEGIN(what_lets_go_of_most_has_ended),
        FROM_BEGIN(a_row_goes_on_beside_a_little),
        FROM_BEGIN(not_for_what_does_not_come_again),
        FROM_BEGIN(not_for_little),
        FROM_BEGIN(not_for_what_comes_later),
        FROM_BEGIN(one_spike_is_forgotten),
        FROM_BEGIN(what_nobody_needs_goes_back),
        FROM_BEGIN(what_somebody_needs_stays),
        FROM_BEGIN(not_while_something_goes_or_comes),
        FROM_BEGIN(the_budget_falls_when_nobody_needs_it),
        FROM_BEGIN(forgets),
    };
    return cmocka_run_group_tests_name("supply.retain", tests, NULL, NULL);
}
