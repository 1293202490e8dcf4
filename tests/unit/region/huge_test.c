/*
 * Which units of a growing pool are asked for as huge pages, and which are not (region/huge.h). A system that only
 * takes notes stands in for the kernel; unit/os/huge_pages has the kernel's part. Each test makes a region of its own
 * in a forked child.
 */
#include "check.h"
#include "in_child.h"
#include "proc.h"
#include "unit.h"

#include "base/base.h"
#include "os/os.h"
#include "region/region.h"
#include "walk/check_pool.h"

#include <string.h>

#define LOG2 15u /* 512 MiB of addresses */
#define RANGE TS_HOME_UNITS

static ts_os_table table;
static unsigned asks, refusals, touches;
static uint32_t asked[1u << LOG2]; /* a unit: 1 if it is asked for now */
static bool handed_out[1u << LOG2];
static uint32_t first_asked, end_asked; /* by the last call */
static uint64_t touch_ns, clock_ns;

static void note_huge_pages(void *at, size_t bytes, bool on) {
    const char *base = ts_region.part[TS_NORMAL].base;
    if (!base || (const char *)at < base || (const char *)at >= base + ((size_t)TS_UNIT_BYTES << LOG2)) return;
    first_asked = (uint32_t)(((const char *)at - base) / TS_UNIT_BYTES);
    end_asked = first_asked + (uint32_t)(bytes / TS_UNIT_BYTES);
    SUP_CHECK((uintptr_t)at % ((size_t)RANGE * TS_UNIT_BYTES) == 0 && (end_asked - first_asked) % RANGE == 0,
              "units %u to %u are no whole ranges", first_asked, end_asked);
    for (uint32_t unit = first_asked; unit < end_asked; unit++) {
        SUP_CHECK(!on || !handed_out[unit], "unit %u is asked for, and was handed out before", unit);
        asked[unit] = on;
    }
    *(on ? &asks : &refusals) += 1;
}

static bool note_populate(void *at, size_t bytes) {
    touches++;
    clock_ns += touch_ns;
    return ts_os_native.populate(at, bytes);
}

static uint64_t fake_cpu_ns(void) { return clock_ns; }

static void make_region(void) {
    table = ts_os_native;
    table.huge_pages = note_huge_pages;
    table.populate = note_populate;
    table.cpu_ns = fake_cpu_ns;
    ts_os = &table;
    SUP_CHECK(ts_region_init(LOG2), "ts_region_init");
    ts_pool_init();
}

static uint32_t take(uint32_t count) {
    uint32_t first = ts_pool_take(TS_NORMAL, count, 1);
    SUP_CHECK(first != 0, "no %u units", count);
    memset(&handed_out[first], true, count);
    return first;
}

static void take_singles(uint32_t count) {
    for (uint32_t i = 0; i < count; i++) (void)take(1);
}

static uint32_t asked_units(void) {
    uint32_t sum = 0;
    for (uint32_t unit = 0; unit < 1u << LOG2; unit++) sum += asked[unit];
    return sum;
}

/* ---- growth ------------------------------------------------------------------------------------------------- */

static void small_asks_for_none(void *argument) {
    (void)argument;
    make_region();
    take_singles(TS_HUGE_LEAST_UNITS - RANGE);
    SUP_CHECK(asks == 0 && touches == 0, "%u asks below the least", asks);
}

/* Every range behind the least is asked for, once, before a unit of it is handed out. */
static void growth_is_asked_for(void *argument) {
    (void)argument;
    make_region();
    take_singles(4 * TS_HUGE_LEAST_UNITS);
    uint32_t high = ts_pool_highest(TS_NORMAL), sum = asked_units();
    SUP_CHECK(sum >= 3 * TS_HUGE_LEAST_UNITS - 4 * RANGE && sum <= high - TS_HUGE_LEAST_UNITS, "%u of %u units", sum,
              high);
    SUP_CHECK(touches == asks, "%u touches, %u asks", touches, asks);
    ts_pool_check();
}

/* Single units come from the front, so a range is used up before the next one is touched. */
static void units_come_from_the_front(void *argument) {
    (void)argument;
    make_region();
    for (uint32_t i = 0, last = 0; i < 2 * TS_HUGE_LEAST_UNITS; i++) {
        uint32_t unit = take(1);
        SUP_CHECK(unit > last, "unit %u after %u", unit, last);
        last = unit;
    }
}

/* ---- what is dense ---------------------------------------------------------------------------------------- */

static void loose_growth(uint32_t one_in) {
    make_region();
    for (uint32_t i = 0; i < 4 * TS_HUGE_LEAST_UNITS; i++) {
        (void)take(1);
        if (i % one_in == 0) ts_huge_note_loose(1);
    }
}

static void a_third_loose(void *argument) {
    (void)argument;
    loose_growth(3);
    SUP_CHECK(asks == 0, "%u asks, and a third is loose", asks);
}

static void a_tenth_loose(void *argument) {
    (void)argument;
    loose_growth(10);
    SUP_CHECK(asks > 0, "no asks, and only a tenth is loose");
}

static void large_objects(void *argument) {
    (void)argument;
    make_region();
    take_singles(2 * TS_HUGE_LEAST_UNITS);
    unsigned before = asks;
    for (unsigned i = 0; i < 4; i++) (void)take(8 * RANGE);
    SUP_CHECK(asks == before, "a new object of 16 MiB is asked for");
    ts_huge_set_growing(true);
    ts_huge_note_loose(1u << LOG2);
    uint32_t first = take(8 * RANGE);
    ts_huge_set_growing(false);
    SUP_CHECK(asks == before + 1 && asked[first + 4 * RANGE], "one that grows is not");
}

/* ---- the end of growth ------------------------------------------------------------------------------------ */

static void nothing_is_asked_for_any_more(void *argument) {
    (void)argument;
    make_region();
    take_singles(3 * TS_HUGE_LEAST_UNITS);
    uint32_t most = ts_pool_highest(TS_NORMAL);
    SUP_CHECK(asked_units() > 0, "nothing is asked for");
    ts_huge_give();
    SUP_CHECK(refusals == 1 && asked_units() == 0, "%u calls, and %u units are asked for still", refusals,
              asked_units());
    ts_huge_give();
    SUP_CHECK(refusals == 1, "it says so twice");
    unsigned before = asks;
    while (ts_pool_highest(TS_NORMAL) < most + TS_HUGE_GROWTH_UNITS) (void)take(1);
    SUP_CHECK(asks == before, "asked for at once, after memory went back");
    take_singles(4 * TS_HUGE_GROWTH_UNITS);
    SUP_CHECK(asks > before && first_asked >= most + TS_HUGE_GROWTH_UNITS, "not asked for again");
}

static void loose_ones_are_forgotten(void *argument) {
    (void)argument;
    make_region();
    take_singles(TS_HUGE_LEAST_UNITS);
    ts_huge_note_loose(1u << LOG2);
    take_singles(TS_HUGE_LEAST_UNITS);
    SUP_CHECK(asks == 0, "loose");
    ts_huge_give();
    take_singles(TS_HUGE_LEAST_UNITS);
    SUP_CHECK(asks > 0, "loose ones of before memory went back count still");
}

static void slow_ones_are_left_out(void *argument) {
    (void)argument;
    make_region();
    touch_ns = TS_HUGE_SLOW_NS + 1;
    while (asks == 0) (void)take(1);
    uint32_t from = first_asked;
    touch_ns = TS_HUGE_SLOW_NS;
    while (asks == 1) (void)take(1);
    SUP_CHECK(first_asked - from > TS_HUGE_SKIPPED * 2 * RANGE, "asked for again after %u units", first_asked - from);
    take_singles(8 * RANGE);
    SUP_CHECK(asks > 3, "%u asks: one that took no longer counts as slow", asks);
}

/* ---- who gets none ----------------------------------------------------------------------------------------- */

static void a_wish_of_the_program(void *argument) {
    (void)argument;
    make_region();
    ts_huge_leave_to_program();
    take_singles(4 * TS_HUGE_LEAST_UNITS);
    SUP_CHECK(asks == 0 && touches == 0, "%u asks", asks);
}

/* The library then asks for all memory, or none. It does not take that back for what it had asked for by density. */
static void a_later_wish(void *argument) {
    (void)argument;
    make_region();
    take_singles(2 * TS_HUGE_LEAST_UNITS);
    unsigned before = asks;
    SUP_CHECK(before > 0, "nothing is asked for");
    ts_huge_leave_to_program();
    ts_huge_give();
    take_singles(2 * TS_HUGE_LEAST_UNITS);
    SUP_CHECK(asks == before && refusals == 0, "%u asks, %u before; %u refusals", asks, before, refusals);
}

/* Units become writable when they are handed out: there is nothing to touch before. */
static void a_limit_on_data(void *argument) {
    (void)argument;
    make_region();
    ts_pool_limit_data();
    take_singles(4 * TS_HUGE_LEAST_UNITS);
    SUP_CHECK(asks == 0 && touches == 0, "%u asks", asks);
}

static void run(void (*fn)(void *)) {
    char err[512];
    int status = sup_child(fn, NULL, SUP_CHILD_SECONDS, err, sizeof err);
    if (status != 0) print_error("%s\n", err);
    assert_int_equal(status, 0);
}

#define IN_CHILD(fn)                      \
    static void test_##fn(void **state) { \
        (void)state;                      \
        run(fn);                          \
    }
IN_CHILD(small_asks_for_none)
IN_CHILD(growth_is_asked_for)
IN_CHILD(units_come_from_the_front)
IN_CHILD(a_third_loose)
IN_CHILD(a_tenth_loose)
IN_CHILD(large_objects)
IN_CHILD(nothing_is_asked_for_any_more)
IN_CHILD(loose_ones_are_forgotten)
IN_CHILD(slow_ones_are_left_out)
IN_CHILD(a_wish_of_the_program)
IN_CHILD(a_later_wish)
IN_CHILD(a_limit_on_data)

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_small_asks_for_none),
        cmocka_unit_test(test_growth_is_asked_for),
        cmocka_unit_test(test_units_come_from_the_front),
        cmocka_unit_test(test_a_third_loose),
        cmocka_unit_test(test_a_tenth_loose),
        cmocka_unit_test(test_large_objects),
        cmocka_unit_test(test_nothing_is_asked_for_any_more),
        cmocka_unit_test(test_loose_ones_are_forgotten),
        cmocka_unit_test(test_slow_ones_are_left_out),
        cmocka_unit_test(test_a_wish_of_the_program),
        cmocka_unit_test(test_a_later_wish),
        cmocka_unit_test(test_a_limit_on_data),
    };
    return cmocka_run_group_tests_name("region.huge", tests, NULL, NULL);
}
