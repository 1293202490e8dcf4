/* The pool with other threads between its steps: pool.c is compiled once more, in place of the library's. */
#include "check.h"
#include "in_child.h"
#include "unit.h"

#include "region/cells.h"
#include "region/region.h"

static unsigned stealing; /* calls before which other threads empty the cells */
static uint32_t stolen[64];
static unsigned stolen_count;

static uint32_t take_step(ts_pool *pool) {
    uint32_t unit = ts_cells_take(pool);
    if (stealing == 0) return unit;
    stealing--;
    for (; unit; unit = ts_cells_take(pool)) stolen[stolen_count++] = unit;
    return 0;
}
#define ts_cells_take take_step
#include "region/pool.c"
#include "walk/check_pool.h"
#undef ts_cells_take

/* Other threads take all that a thread has just filled the cells with, while it has the lock. It takes a unit of a
   run. */
static void all_is_taken_meanwhile_child(void *argument) {
    enum { HELD = 240, FREED = 20 };
    uint32_t held[HELD];
    (void)argument;
    SUP_CHECK(ts_region_init(12), "ts_region_init");
    ts_pool_init();
    for (unsigned i = 0; i < HELD; i++) SUP_CHECK((held[i] = ts_pool_take(TS_NORMAL, 1, 1)) != 0, "unit %u", i);
    while (ts_pool_high(TS_NORMAL) - 1 > ts_pool_used(TS_NORMAL)) (void)ts_pool_take(TS_NORMAL, 1, 1);
    uint32_t high = ts_pool_high(TS_NORMAL);
    for (unsigned i = 0; i < FREED; i++) ts_pool_give(held[2 * i], 1);
    stealing = 2;
    uint32_t unit = ts_pool_take(TS_NORMAL, 1, 1);
    SUP_CHECK(unit != 0 && stealing == 0 && stolen_count == TS_POOL_CELLS, "unit %u, %u stolen", unit, stolen_count);
    SUP_CHECK(ts_pool_high(TS_NORMAL) == high, "the pool grew with free units in it");
    ts_pool_check();
}

SUP_IN_CHILD(all_is_taken_meanwhile)

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(all_is_taken_meanwhile)};
    return cmocka_run_group_tests_name("region.pool_steps", tests, NULL, NULL);
}
