/* Where a region may be. */
#include "unit.h"

#include "heap/types.h"
#include "os/os.h"
#include "region/region.h"

static ts_os_table table;
static uintptr_t place; /* that the system gives, of the first `refused` reservations */
static unsigned refused, reserved, released, exposed;
static bool refuse_expose;

static void *test_reserve(size_t bytes) { return reserved++ < refused ? (void *)place : ts_os_native.reserve(bytes); }
static void test_release(void *at, size_t bytes) {
    released++;
    if (at != (void *)place) ts_os_native.release(at, bytes);
}
static bool test_expose(void *at, size_t bytes) {
    exposed++;
    return !refuse_expose && ts_os_native.expose(at, bytes);
}

static void start(uintptr_t at, unsigned most) {
    table = ts_os_native;
    table.reserve = test_reserve;
    table.release = test_release;
    table.expose = test_expose;
    ts_os = &table;
    place = at;
    refused = most;
    reserved = released = exposed = 0;
}

/* No longer than what the bump word of a scope has room for; what lies elsewhere is given back. */
static void addresses_have_so_many_bits(void **state) {
    (void)state;
    if (sizeof(void *) < 8) skip();
    uint64_t beyond = (uint64_t)1 << (TS_ADDRESS_BITS - 1);
    const uint64_t wrong[] = {beyond, beyond * 2, beyond - TS_UNIT_BYTES, 0 - beyond * 2, 0 - beyond - TS_UNIT_BYTES};
    for (unsigned i = 0; i < sizeof wrong / sizeof wrong[0]; i++) {
        start((uintptr_t)wrong[i], UINT32_MAX);
        assert_false(ts_region_init(TS_MIN_UNITS_LOG2 + 1));
        assert_int_equal(reserved, 2);
        assert_int_equal(released, reserved);
        assert_int_equal(exposed, 0);
    }
    start((uintptr_t)wrong[2], 1); /* the next one is not */
    assert_true(ts_region_init(TS_MIN_UNITS_LOG2 + 1));
    assert_int_equal(reserved, 2);
    assert_int_equal(released, 1);
    assert_true((uint64_t)(uintptr_t)ts_region.part[TS_NORMAL].base + ts_region.reserved_bytes < beyond);
    ts_os = &ts_os_native;
}

/* At the upper end, where some systems place memory: as far as making it accessible, which is refused here. */
static void addresses_at_the_upper_end(void **state) {
    (void)state;
    if (sizeof(void *) < 8) skip();
    const uint64_t places[] = {0 - ((uint64_t)1 << (TS_ADDRESS_BITS - 1)), UINT64_C(0xfff8000100000000)};
    for (unsigned i = 0; i < sizeof places / sizeof places[0]; i++) {
        char *at = (char *)(uintptr_t)places[i];
        start((uintptr_t)at, 1);
        refuse_expose = true;
        assert_false(ts_region_init(TS_MIN_UNITS_LOG2));
        assert_int_equal(exposed, 1);
        refuse_expose = false;
        uint64_t bump = ts_bump_word(at, 5);
        assert_ptr_equal(ts_bump_at(bump), at);
        assert_ptr_equal(ts_bump_at(ts_bump_next(bump, 4096)), at + 4096);
        assert_int_equal(ts_bump_count(ts_bump_next(bump, 4096)), 6);
        assert_true(ts_bump_next(bump, TS_UNIT_BYTES) <= ts_bump_limit(at));
        assert_false(ts_bump_next(bump, TS_UNIT_BYTES + 16) <= ts_bump_limit(at));
    }
    ts_os = &ts_os_native;
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(addresses_have_so_many_bits),
        cmocka_unit_test(addresses_at_the_upper_end),
    };
    return cmocka_run_group_tests_name("region.region", tests, NULL, NULL);
}
