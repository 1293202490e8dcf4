/* The pool's cells with another thread between the steps: cells.c is compiled once more, in place of the library's. */
#include "check.h"
#include "in_child.h"
#include "unit.h"

#include "region/cells.h"
#include "region/region.h"

static bool stealing; /* another thread takes a unit behind the next look at a cell that has some */
static uint32_t stolen;

static uint32_t units_step(uint64_t cell) {
    uint32_t units = ts_cell_units(cell);
    if (stealing && units != 0) {
        stealing = false;
        stolen = ts_cells_take(&ts_pools[TS_NORMAL]);
    }
    return units;
}
#define ts_cell_units units_step
#include "region/cells.c"
#undef ts_cell_units
#include "walk/check_pool.h"

/* A thread empties the cells and has read one of them when another takes a unit of it. The unit stays that thread's. */
static void a_unit_is_taken_meanwhile_child(void *argument) {
    enum { HELD = 200 };
    uint32_t held[HELD];
    (void)argument;
    SUP_CHECK(ts_region_init(12), "ts_region_init");
    ts_pool_init();
    for (unsigned i = 0; i < HELD; i++) SUP_CHECK((held[i] = ts_pool_take(TS_NORMAL, 1, 1)) != 0, "unit %u", i);
    for (unsigned i = 0; i < HELD / 2; i++) ts_pool_give(held[2 * i], 1);
    held[0] = ts_pool_take(TS_NORMAL, 1, 1); /* and cells are filled */
    uint64_t used = ts_pool_used(TS_NORMAL);
    stealing = true;
    SUP_CHECK(ts_cells_empty(&ts_pools[TS_NORMAL], 0, UINT32_MAX), "the cells were empty");
    SUP_CHECK(!stealing && stolen != 0, "no unit was taken");
    SUP_CHECK(ts_pool_used(TS_NORMAL) == used + 1, "%llu units in use, %llu before the other thread took one",
              (unsigned long long)ts_pool_used(TS_NORMAL), (unsigned long long)used);
    ts_pool_check();
}

SUP_IN_CHILD(a_unit_is_taken_meanwhile)

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(a_unit_is_taken_meanwhile)};
    return cmocka_run_group_tests_name("region.cells_steps", tests, NULL, NULL);
}
