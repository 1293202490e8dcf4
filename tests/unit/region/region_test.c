/* Where a region may be. */
#include "unit.h"

#include "os/os.h"
#include "region/region.h"

static ts_os_table table;
static uintptr_t place; /* that the system gives, of the first `refused` reservations */
static unsigned refused, reserved, released, exposed;

static void *test_reserve(size_t bytes) { return reserved++ < refused ? (void *)place : ts_os_native.reserve(bytes); }
static void test_release(void *at, size_t bytes) {
    released++;
    if (at != (void *)place) ts_os_native.release(at, bytes);
}
static bool test_expose(void *at, size_t bytes) {
    exposed++;
    return ts_os_native.expose(at, bytes);
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

/* No larger than what the bump word of a scope has room for; what lies higher is given back. */
static void addresses_have_so_many_bits(void **state) {
    (void)state;
    if (sizeof(void *) < 8) skip();
    uintptr_t first_beyond = (uintptr_t)((uint64_t)1 << TS_ADDRESS_BITS);
    start(first_beyond, UINT32_MAX);
    assert_false(ts_region_init(TS_MIN_UNITS_LOG2 + 1));
    assert_int_equal(reserved, 2);
    assert_int_equal(released, reserved);
    assert_int_equal(exposed, 0);
    start(first_beyond - TS_UNIT_BYTES, 1); /* its end is, and the next one is not */
    assert_true(ts_region_init(TS_MIN_UNITS_LOG2 + 1));
    assert_int_equal(reserved, 2);
    assert_int_equal(released, 1);
    assert_true((uint64_t)(uintptr_t)ts_region.part[TS_NORMAL].base + ts_region.reserved_bytes < first_beyond);
    ts_os = &ts_os_native;
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(addresses_have_so_many_bits),
    };
    return cmocka_run_group_tests_name("region.region", tests, NULL, NULL);
}
