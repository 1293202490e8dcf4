/* Homes: which nodes are told apart, where a thread is at home, and a pool for each home. One machine for each test, in
   a child. */
#include "check.h"
#include "in_child.h"
#include "proc.h"
#include "topology.h"
#include "unit.h"

#include "api/runtime.h"
#include "region/region.h"
#include "walk/check_pool.h"

static void start(const sup_topology *topology) {
    bool first;
    sup_topology_use(topology);
    SUP_CHECK(ts_runtime_start(&first) && first, "start");
    (void)ts_runtime_start_homes();
}

/* ---- nodes --------------------------------------------------------------------------------------- */

static void gaps_child(void *arg) {
    (void)arg;
    const sup_topology machine = {.nodes = {0, 8, 250}, .count = 3, .nearest = 8, .full = -1};
    start(&machine);
    unsigned home = 99;
    SUP_CHECK(ts_homes_count() == 3 && ts_homes_nodes() == 3 && ts_homes_bind(), "three homes");
    SUP_CHECK(ts_home_node(0) == -1 && ts_home_node(1) == 0 && ts_home_node(3) == 250 && ts_home_node(4) == -1, "ids");
    SUP_CHECK(ts_home_of_node(8, &home) && home == 2 && ts_home_of_node(250, &home) && home == 3, "by id");
    SUP_CHECK(!ts_home_of_node(1, &home) && !ts_home_of_node(-1, &home) && !ts_home_of_node(5000, &home), "no node");
    SUP_CHECK(ts_home_here() == 1, "a thread is on the first");
    sup_topology_go_to(250);
    SUP_CHECK(ts_home_here() == 3, "gone to the last");
    sup_topology_go_to(4); /* has processors and no memory: its pages come from 8 */
    unsigned before = sup_topology_heres();
    SUP_CHECK(ts_home_here() == 2 && ts_home_here() == 2, "the nearest");
    SUP_CHECK(sup_topology_heres() == before + 2, "one question each");
    sup_topology_go_to(1000000);
    SUP_CHECK(ts_home_here() == TS_HOME_ANY, "an id beyond all");
    sup_topology_now()->refuse_here = true;
    SUP_CHECK(ts_home_here() == TS_HOME_ANY, "the system does not say");
}
SUP_IN_CHILD(gaps)

static void one_node_child(void *arg) {
    (void)arg;
    const sup_topology machine = {.nodes = {3}, .count = 1, .nearest = 3, .full = -1};
    start(&machine);
    unsigned home = 99;
    SUP_CHECK(ts_homes_count() == 0 && ts_homes_nodes() == 1 && ts_home_here() == TS_HOME_ANY, "one home");
    SUP_CHECK(ts_home_of_node(3, &home) && home == TS_HOME_ANY && !ts_home_of_node(0, &home),
              "the node is all there is");
    SUP_CHECK(sup_topology_binds() == 0 && sup_topology_heres() == 0, "nothing is asked");
    uint32_t unit = ts_pool_take_of(5, 1, 1); /* a home that is not there */
    SUP_CHECK(unit != 0 && ts_home_of(unit) == TS_HOME_ANY, "from the only pool");
    ts_pool_give(unit, 1);
    ts_pool_check();
}
SUP_IN_CHILD(one_node)

static void refused_child(void *arg) {
    (void)arg;
    const sup_topology machine = {.nodes = {0, 1}, .count = 2, .refuse_nodes = true, .full = -1};
    start(&machine);
    unsigned home;
    SUP_CHECK(ts_homes_count() == 0 && ts_homes_nodes() == 0 && !ts_home_of_node(0, &home), "nothing is known");
}
SUP_IN_CHILD(refused)

static void many_child(void *arg) {
    (void)arg;
    sup_topology machine = {.count = 40, .nearest = 0, .full = -1};
    for (int i = 0; i < 40; i++) machine.nodes[i] = 2 * i;
    start(&machine);
    unsigned home;
    SUP_CHECK(ts_homes_count() == TS_HOME_NODES && ts_homes_nodes() == 40, "as many as are told apart");
    SUP_CHECK(ts_home_of_node(30, &home) && home == 16 && !ts_home_of_node(32, &home), "the others are not");
    sup_topology_go_to(78); /* memory of its own, which is not told apart */
    SUP_CHECK(ts_home_here() == TS_HOME_ANY, "wherever");
}
SUP_IN_CHILD(many)

/* ---- pools --------------------------------------------------------------------------------------- */

static void check_run(uint32_t unit, uint32_t count, unsigned home, int node) {
    SUP_CHECK(unit != 0, "no units");
    for (uint32_t u = unit; u < unit + count; u++) {
        SUP_CHECK(ts_home_of(u) == home, "unit %u is of home %u", u, ts_home_of(u));
        SUP_CHECK(sup_topology_bound(ts_unit_address(u)) == node, "unit %u is bound to %d", u,
                  sup_topology_bound(ts_unit_address(u)));
    }
}

static void pools_child(void *arg) {
    (void)arg;
    const sup_topology machine = {.nodes = {1, 4}, .count = 2, .nearest = 1, .full = -1};
    start(&machine);
    uint64_t used = ts_pool_used_units();
    uint32_t a = ts_pool_take_of(1, 1, 1), b = ts_pool_take_of(2, 1, 1), c = ts_pool_take_of(TS_HOME_EACH, 1, 1),
             any = ts_pool_take(TS_NORMAL, 1, 1);
    check_run(a, 1, 1, 1);
    check_run(b, 1, 2, 4);
    check_run(c, 1, TS_HOME_EACH, -2);
    check_run(any, 1, TS_HOME_ANY, -1);
    SUP_CHECK((uintptr_t)ts_unit_address(a & ~(TS_HOME_UNITS - 1)) % ((size_t)2 << 20) == 0, "a block is a huge page");
    uint32_t large = ts_pool_take_of(2, 3000, 1), aligned = ts_pool_take_of(1, 5, 64);
    check_run(large, 3000, 2, 4);
    check_run(aligned, 5, 1, 1);
    SUP_CHECK((uintptr_t)ts_unit_address(aligned) % (64 * TS_UNIT_BYTES) == 0, "aligned");
    SUP_CHECK(ts_pool_used_units() == used + 3000 + 5 + 4, "%u units", (unsigned)(ts_pool_used_units() - used));
    ts_pool_check();
    /* Returned units belong to their home again: the next request to that home gets them, and no other. */
    ts_pool_give(large, 3000);
    check_run(ts_pool_take_of(1, 2000, 1), 2000, 1, 1);
    unsigned binds = sup_topology_binds();
    uint32_t again = ts_pool_take_of(2, 2900, 1);
    check_run(again, 2900, 2, 4);
    SUP_CHECK(sup_topology_binds() == binds, "bound already");
    ts_pool_check();
}
SUP_IN_CHILD(pools)

/* A run ends where its home ends, also if the next block is free. */
static void edges_child(void *arg) {
    (void)arg;
    const sup_topology machine = {.nodes = {0, 1}, .count = 2, .nearest = 1, .full = -1};
    start(&machine);
    uint32_t first[8];
    for (unsigned i = 0; i < 8; i++) first[i] = ts_pool_take_of(1 + i % 2, 256, TS_HOME_UNITS);
    for (unsigned i = 0; i < 8; i++) {
        check_run(first[i], 256, 1 + i % 2, (int)(i % 2));
        uint32_t end = first[i] + 256;
        SUP_CHECK(ts_home_is_same(end - 1, end) || !ts_pool_take_at(end, 1, 257), "a span goes on in another home");
    }
    for (unsigned i = 0; i < 8; i += 2) ts_pool_give(first[i], 256);
    ts_pool_check();
    for (unsigned i = 1; i < 8; i += 2) ts_pool_give(first[i], 256);
    ts_pool_check();
    uint32_t unit = ts_pool_take_of(1, 256, TS_HOME_UNITS);
    check_run(unit, 256, 1, 0);
    ts_pool_give(unit + 100, 156);
    SUP_CHECK(ts_pool_take_at(unit + 100, 50, 150), "within its home it goes on");
    ts_pool_give(unit, 150);
    ts_pool_check();
}
SUP_IN_CHILD(edges)

/* When the region is used up, homes get blocks from one another, and ANY gets them from all. */
static void blocks_move_child(void *arg) {
    (void)arg;
    const sup_topology machine = {.nodes = {0, 1}, .count = 2, .nearest = 1, .full = -1};
    static uint32_t mine[1 << 16];
    sup_topology_use(&machine);
    SUP_CHECK(ts_region_init(TS_MIN_UNITS_LOG2 + 6), "a region of 512 MiB");
    ts_pool_init();
    ts_homes_start();
    ts_pool_start_homes();
    SUP_CHECK(ts_homes_count() == 2, "two homes");
    uint32_t n = 0, blocks = ts_region.part[TS_NORMAL].units / TS_HOME_UNITS, unit;
    while ((unit = ts_pool_take_of(1, TS_HOME_UNITS, TS_HOME_UNITS)) != 0) mine[n++] = unit;
    SUP_CHECK(n >= blocks - 8 && n <= blocks, "%u of %u blocks", n, blocks);
    /* The remaining units of ANY are no whole blocks: they serve other homes as they are. */
    while ((unit = ts_pool_take_of(2, TS_HOME_UNITS, 1)) != 0) check_run(unit, TS_HOME_UNITS, TS_HOME_ANY, -1);
    ts_pool_give(mine[3], TS_HOME_UNITS);
    ts_pool_give(mine[7], TS_HOME_UNITS);
    unit = ts_pool_take_of(2, 100, 1);
    check_run(unit, 100, 2, 1);
    uint32_t any = ts_pool_take(TS_NORMAL, 100, 1);
    check_run(any, 100, TS_HOME_ANY, -1);
    ts_pool_check();
    /* Single units of ANY, where it has no whole block, serve any home. */
    while ((any = ts_pool_take(TS_NORMAL, 1, 1)) != 0) mine[n++] = any;
    ts_pool_give(mine[n - 1], 1);
    while (ts_home_of(unit = ts_pool_take_of(2, 1, 1)) == 2 && unit != 0) continue; /* the rest of its own block */
    SUP_CHECK(unit == mine[n - 1], "the last unit");
    ts_pool_check();
}
SUP_IN_CHILD(blocks_move)

static void small_region_child(void *arg) {
    (void)arg;
    const sup_topology machine = {.nodes = {0, 1}, .count = 2, .full = -1};
    sup_topology_use(&machine);
    SUP_CHECK(ts_region_init(TS_MIN_UNITS_LOG2), "a region of 8 MiB");
    ts_pool_init();
    ts_homes_start();
    SUP_CHECK(ts_homes_count() == 0 && ts_homes_nodes() == 2, "too small for blocks of several homes");
}
SUP_IN_CHILD(small_region)

/* Where the system refuses to place memory, the homes exist all the same: the thread that touches a page first decides
   on its node. */
static void bind_refused_child(void *arg) {
    (void)arg;
    const sup_topology machine = {.nodes = {0, 1}, .count = 2, .refuse_bind = true, .full = -1};
    start(&machine);
    SUP_CHECK(ts_homes_count() == 2 && !ts_homes_bind(), "known, and not bound");
    uint32_t unit = ts_pool_take_of(2, 1, 1);
    check_run(unit, 1, 2, -1);
    ts_pool_check();
}
SUP_IN_CHILD(bind_refused)

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(gaps),        cmocka_unit_test(one_node),     cmocka_unit_test(refused),
        cmocka_unit_test(many),        cmocka_unit_test(pools),        cmocka_unit_test(edges),
        cmocka_unit_test(blocks_move), cmocka_unit_test(small_region), cmocka_unit_test(bind_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
