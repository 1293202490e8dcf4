/* The fixture, by a clock that the test moves. */
#ifndef SUP_OWN_CLOCK_H
#define SUP_OWN_CLOCK_H

#include "fixture.h"

#define SECOND ((uint64_t)1000000000u)

static ts_os_table own_clock_table;
static uint64_t now;

static uint64_t own_clock(void) { return now; }

static void own_clock_begin(void) {
    own_clock_table = ts_os_native;
    own_clock_table.wall_ns = own_clock;
    own_clock_table.coarse_ns = own_clock;
    ts_os = &own_clock_table;
    now = 1000 * SECOND;
}

#endif
