/*
 * What core dumps leave out (region/dump.h), by a model that knows of every page of the region whether a dump shows it:
 * each unit that is handed out is shown with its metadata, and whole blocks of free ones are not.
 */
#include "check.h"
#include "proc.h"
#include "rng.h"
#include "unit.h"

#include "os/os.h"
#include "region/dump.h"
#include "region/pool.h"
#include "walk/check_pool.h"

#include <pthread.h>

#define LOG2 13u /* 8192 units, 1024 of them SMALL: 56 and 8 blocks */
#define PAGES ((size_t)1 << 16)

static ts_os_table table;
static _Atomic uint8_t shown[PAGES]; /* 4 KiB each, from the data on */
static _Atomic unsigned hides, shows;
static size_t page = 4096; /* as the region is told */

static size_t test_page_bytes(void) { return page; }

static void set(const void *at, size_t bytes, uint8_t value) {
    size_t from = (size_t)((const char *)at - ts_region.part[TS_NORMAL].base) / 4096;
    SUP_CHECK(from + bytes / 4096 <= PAGES, "outside of the model");
    for (size_t i = from; i < from + bytes / 4096; i++) ts_store_relaxed(&shown[i], value);
}

static bool test_commit(void *at, size_t bytes) {
    set(at, bytes, 1);
    return ts_os_native.commit(at, bytes);
}

static void test_dump(void *at, size_t bytes, bool on) {
    (void)atomic_fetch_add(on ? &shows : &hides, 1);
    set(at, bytes, on);
    ts_os_native.dump(at, bytes, on);
}

static void make_region(void) {
    table = ts_os_native;
    table.commit = test_commit;
    table.dump = test_dump;
    table.page_bytes = test_page_bytes;
    ts_os = &table;
    SUP_CHECK(ts_region_init(LOG2) && ts_region.reserved_bytes < PAGES * 4096, "ts_region_init");
    ts_pool_init();
}

static size_t count_shown(const char *at, size_t bytes) {
    size_t from = (size_t)(at - ts_region.part[TS_NORMAL].base), end = from + bytes, sum = 0;
    for (size_t i = from / 4096; i <= (end - 1) / 4096; i++) sum += ts_load_relaxed(&shown[i]);
    return sum;
}

static void all_shown(uint32_t unit, uint32_t count) {
    const ts_part *p = &ts_region.part[TS_NORMAL];
    for (uint32_t u = unit; u < unit + count; u++) SUP_CHECK(ts_region_commit_fine(u), "FINE words");
    const struct {
        const char *base;
        size_t bytes;
    } range[] = {{p->base, TS_UNIT_BYTES},
                 {(const char *)(uintptr_t)p->state[false], TS_STATES_COARSE * 2},
                 {(const char *)(uintptr_t)p->state[true], TS_STATES_FINE * 2},
                 {ts_region.fine, TS_FINE_BYTES},
                 {p->slab, TS_SLAB_BYTES},
                 {(const char *)(uintptr_t)p->unit, 8},
                 {ts_region.wide, TS_WIDE_BYTES}};
    for (unsigned i = 0; i < sizeof range / sizeof *range; i++) {
        const char *at = range[i].base + unit * range[i].bytes, *end = at + count * range[i].bytes - 1;
        size_t pages = (size_t)(end - ts_region.part[0].base) / 4096 - (size_t)(at - ts_region.part[0].base) / 4096 + 1;
        SUP_CHECK(count_shown(at, count * range[i].bytes) == pages, "units %u + %u: table %u is not shown", unit, count,
                  i);
    }
}

static uint32_t take(unsigned part, uint32_t count) {
    uint32_t unit = ts_pool_take(part, count, 1);
    if (unit) all_shown(unit, count);
    return unit;
}

/* A burst that is over: of its data no dump shows more than the ends, nor of its metadata. In any order of the
   frees. */
static void a_burst(void *argument) {
    enum { COUNT = 4096 };
    unsigned part = *(unsigned *)argument;
    static uint32_t unit[COUNT];
    struct sup_rng rng = {7};
    make_region();
    uint32_t count = part == TS_NORMAL ? COUNT : COUNT / 8;
    for (unsigned round = 0; round < 4; round++) {
        for (uint32_t i = 0; i < count; i++) SUP_CHECK((unit[i] = take(part, 1)) != 0, "unit %u", i);
        for (uint32_t i = 0; i < count && round % 2; i++) {
            uint32_t k = (uint32_t)sup_rng_below(&rng, count), u = unit[i];
            unit[i] = unit[k], unit[k] = u;
        }
        if (round > 0) SUP_CHECK(shows > 0, "nothing was shown again");
        unsigned calls = hides + shows;
        for (uint32_t i = 0; i < count; i++) ts_pool_give(unit[i], 1);
        ts_pool_check();
        SUP_CHECK(hides + shows - calls <= 6 * (count / TS_DUMP_UNITS + 1), "%u calls", hides + shows - calls);
        const ts_part *p = &ts_region.part[part];
        size_t left = count_shown(p->base, (size_t)p->units * TS_UNIT_BYTES) * 4096;
        SUP_CHECK(left < 2 * TS_DUMP_UNITS * TS_UNIT_BYTES + ((size_t)4 << 20), "%zu bytes of data are shown", left);
        /* Blocks with units in the pool's cells are not hidden. */
        SUP_CHECK(ts_dump_runs(part) >= 1 && ts_dump_runs(part) <= 3, "%u runs", ts_dump_runs(part));
    }
    uint32_t large = take(part, count / 2);
    SUP_CHECK(large != 0 && ts_pool_take_at(large + count / 2, 150, count / 2 + 150), "a run, and more behind it");
    all_shown(large, count / 2 + 150);
}

/* Runs of blocks are mappings of their own: there are not more than so many, whatever is freed. */
static void few_mappings(void *argument) {
    (void)argument;
    static uint32_t unit[64][2];
    make_region();
    for (unsigned i = 0; i < 20; i++) {
        unit[i][0] = take(TS_NORMAL, 2 * TS_DUMP_UNITS);
        unit[i][1] = take(TS_NORMAL, 1);
        SUP_CHECK(unit[i][0] && unit[i][1], "run %u", i);
    }
    for (unsigned i = 0; i < 20; i++) ts_pool_give(unit[i][0], 2 * TS_DUMP_UNITS);
    /* And what the pool grew by and nobody took. */
    SUP_CHECK(ts_dump_runs(TS_NORMAL) >= 20 && ts_dump_runs(TS_NORMAL) <= 21, "%u runs", ts_dump_runs(TS_NORMAL));
    for (unsigned i = 0; i < 20; i++) ts_pool_give(unit[i][1], 1);
    SUP_CHECK(ts_dump_runs(TS_NORMAL) <= 2, "%u runs", ts_dump_runs(TS_NORMAL));
    /* 63 runs there are, and no unit is in them: one more may be, and then none but beside another. */
    for (unsigned i = 0; i < TS_DUMP_WORDS; i++) ts_store_relaxed(&ts_dump_hidden[TS_NORMAL][i], 0);
    for (unsigned i = 0; i < TS_DUMP_RUNS - 1; i++) ts_store_relaxed(&ts_dump_hidden[TS_NORMAL][8 + i], UINT64_C(2));
    enum { B = TS_DUMP_UNITS };
    uint32_t from = 20 * B, end = 21 * B;
    SUP_CHECK(ts_dump_choose(TS_NORMAL, 20 * B + 5, 1, &from, &end) && from == 20 * B && end == 21 * B, "one more");
    ts_store_relaxed(&ts_dump_hidden[TS_NORMAL][0], UINT64_C(1) << 20);
    SUP_CHECK(!ts_dump_choose(TS_NORMAL, 20 * B, B, &from, &end), "it is hidden");
    from = 30 * B, end = 31 * B;
    SUP_CHECK(!ts_dump_choose(TS_NORMAL, 30 * B, B, &from, &end), "one too many");
    from = 20 * B, end = 23 * B;
    SUP_CHECK(ts_dump_choose(TS_NORMAL, 22 * B, 1, &from, &end) && from == 21 * B && end == 23 * B, "beside another");
    from = 40 * B + 1, end = 42 * B - 1;
    SUP_CHECK(!ts_dump_choose(TS_NORMAL, 41 * B, 1, &from, &end), "in use at both ends");
    /* What the pool grew by, beside what comes back; unit 0 is nobody's. */
    ts_dump_init();
    from = 1, end = 3 * B;
    SUP_CHECK(ts_dump_choose(TS_NORMAL, 3 * B - 1, 1, &from, &end) && from == 1 && end == 3 * B, "the first block");
    from = 2, end = 3 * B;
    SUP_CHECK(ts_dump_choose(TS_NORMAL, 3 * B - 1, 1, &from, &end) && from == B && end == 3 * B, "unit 1 is in use");
    from = 1, end = 30 * B;
    SUP_CHECK(ts_dump_choose(TS_NORMAL, 10 * B, 1, &from, &end) && from == 8 * B && end == 13 * B, "and not more");
}

static void *take_and_give(void *argument) {
    struct sup_rng rng = {(uintptr_t)argument};
    struct {
        uint32_t first, count;
    } mine[64] = {{0, 0}};
    for (unsigned i = 0; i < SUP_SCALED(30000u); i++) {
        unsigned k = (unsigned)sup_rng_below(&rng, 64);
        if (mine[k].count) {
            all_shown(mine[k].first, mine[k].count); /* still */
            ts_pool_give(mine[k].first, mine[k].count);
            mine[k].count = 0;
            continue;
        }
        mine[k].count =
            sup_rng_below(&rng, 3) ? 1 + (uint32_t)sup_rng_below(&rng, 3) : 100 + (uint32_t)sup_rng_below(&rng, 200);
        mine[k].first = take(TS_NORMAL, mine[k].count);
        if (!mine[k].first) mine[k].count = 0;
    }
    for (unsigned k = 0; k < 64; k++)
        if (mine[k].count) ts_pool_give(mine[k].first, mine[k].count);
    return NULL;
}

static void threads(void *argument) {
    enum { THREADS = 4 };
    pthread_t thread[THREADS];
    (void)argument;
    make_region();
    for (uintptr_t i = 0; i < THREADS; i++)
        SUP_CHECK(pthread_create(&thread[i], NULL, take_and_give, (void *)(i + 1)) == 0, "pthread_create");
    for (unsigned i = 0; i < THREADS; i++) SUP_CHECK(pthread_join(thread[i], NULL) == 0, "pthread_join");
    ts_pool_check();
    SUP_CHECK(hides > 10 && shows > 10, "%u hides, %u shows", hides, shows);
}

static void in_child(void (*fn)(void *), void *argument) {
    char err[1024];
    if (ts_os_page_bytes() != 4096) skip();
    int status = sup_child(fn, argument, SUP_CHILD_SECONDS, err, sizeof err);
    if (status != 0) print_error("status %#x\n%s", (unsigned)status, err);
    assert_int_equal(status, 0);
}

static void test_a_burst(void **state) {
    (void)state;
    for (unsigned part = 0; part < TS_SLAB_PARTS; part++) in_child(a_burst, &part);
}
static void test_few_mappings(void **state) {
    (void)state;
    in_child(few_mappings, NULL);
}
static void test_threads(void **state) {
    (void)state;
    for (page = 4096; page <= TS_PAGE_BYTES_MAX; page *= 4) in_child(threads, NULL);
    page = 4096;
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_a_burst),
        cmocka_unit_test(test_few_mappings),
        cmocka_unit_test(test_threads),
    };
    return cmocka_run_group_tests_name("region.dump", tests, NULL, NULL);
}
