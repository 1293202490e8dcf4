/* The retain budget by itself (retain.h): when it rises, when it falls, and what goes back because nobody needs it. */
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

/* `retained` is retained beside `live`: more than the budget goes back at once. Returns what went back. */
static uint64_t settle(uint64_t retained, uint64_t live) {
    if (retained <= budget()) return 0;
    ts_retain_adapt(&retain, taken, retained, live, now);
    if (retained <= budget()) return 0;
    uint64_t units = retained - budget();
    ts_retain_give(&retain, taken, budget(), units, now);
    return units;
}

/* So much is freed, 100 units at a time, and `beside` stay in use; first it is taken, from what is retained as far as
   that goes. */
static uint64_t swing(uint64_t units, uint64_t beside) {
    static uint64_t retained;
    uint64_t given = 0;
    if (taken == 0) retained = 0;
    taken += units > retained ? units - retained : 0;
    retained = 0;
    ts_retain_note(&retain, 0);
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
        taken += 2 * MOST - retained;
        ts_retain_note(&retain, 0);
        (void)look(0);
        retained = 0;
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

/* Not where much more is in use than what is retained. */
static void what_is_in_use_keeps_it_up(void **state) {
    (void)state;
    (void)spike(4000);
    (void)spike(4000);
    for (int i = 0; i < 50; i++) {
        assert_int_equal(settle(MOST + 100, 2 * MOST), 100);
        assert_int_equal(budget(), MOST);
        if (i % 2 == 0) taken += 100;
    }
}

/* What swings by more than fits is no spike while an eighth of it stays in use: the budget rises, and only what is more
   goes back. */
static void what_swings_beside_enough_in_use_stays(void **state) {
    enum { SWING = MOST + 2000, ENOUGH = SWING / TS_RETAIN_SPIKE };
    (void)state;
    assert_int_equal(swing(SWING, ENOUGH), SWING - USUAL);
    for (int i = 0; i < 20; i++) {
        assert_int_equal(swing(SWING, ENOUGH), SWING - MOST);
        assert_int_equal(budget(), MOST);
    }
    for (int i = 0; i < 20; i++) {
        assert_int_equal(swing(SWING, ENOUGH - 1), SWING - USUAL);
        assert_int_equal(budget(), USUAL);
    }
    (void)swing(SWING, ENOUGH);
    assert_int_equal(swing(SWING, ENOUGH), SWING - MOST);
}

/* What comes before it goes was not given in vain, nor was what does not come. */
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

/* What went back long ago does not count for ever. */
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

/* Piece by piece, and what stays, stays. */
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
    end_second();
    assert_int_equal(look(retained), 0);
}

/* A tenth of it is needed now and then. */
static void what_somebody_needs_stays(void **state) {
    (void)state;
    (void)look(1000);
    ts_retain_note(&retain, 900);
    end_second();
    assert_int_equal(look(1000), PIECE);
    ts_retain_note(&retain, KEEP + PIECE);
    assert_int_equal(look(1000), PIECE); /* as much as was not needed in this window either */
    assert_int_equal(look(1000), 0);
    /* Where more than a quarter is needed now and then, all may be. */
    end_second();
    (void)look(1000);
    ts_retain_note(&retain, 799);
    end_second();
    assert_int_equal(look(1000), 0);
    ts_retain_note(&retain, 800);
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

/* The risen budget falls by what goes back. */
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
        FROM_BEGIN(what_is_in_use_keeps_it_up),
        FROM_BEGIN(what_swings_beside_enough_in_use_stays),
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
