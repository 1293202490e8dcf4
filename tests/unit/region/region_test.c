/* Where a region may be. */
#include "unit.h"

#include "os/os.h"
#include "ownership/ownership.h"
#include "region/region.h"

static ts_os_table table;
static uintptr_t place; /* that the system gives, of the first `refused` reservations */
static unsigned refused, reserved, released, committed;
static bool refuse_commit;

static void *test_reserve(size_t bytes) { return reserved++ < refused ? (void *)place : ts_os_native.reserve(bytes); }
static void test_release(void *at, size_t bytes) {
    released++;
    if (at != (void *)place) ts_os_native.release(at, bytes);
}
static bool test_commit(void *at, size_t bytes) {
    committed++;
    return !refuse_commit && ts_os_native.commit(at, bytes);
}

static void start(uintptr_t at, unsigned most) {
    table = ts_os_native;
    table.reserve = test_reserve;
    table.release = test_release;
    table.commit = test_commit;
    ts_os = &table;
    place = at;
    refused = most;
    reserved = released = committed = 0;
}

/* Addresses are no longer than a scope's bump word has room for; reservations at higher addresses are given back. */
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
        assert_int_equal(committed, 0);
    }
    start((uintptr_t)wrong[2], 1); /* the next one is not */
    assert_true(ts_region_init(TS_MIN_UNITS_LOG2 + 1));
    assert_int_equal(reserved, 2);
    assert_int_equal(released, 1);
    assert_true((uint64_t)(uintptr_t)ts_region.part[TS_NORMAL].base + ts_region.reserved_bytes < beyond);
    ts_os = &ts_os_native;
}

/* At the upper end, where some systems place memory: all of it but making it accessible, which is refused here. */
static void addresses_at_the_upper_end(void **state) {
    (void)state;
    if (sizeof(void *) < 8) skip();
    const uint64_t places[] = {0 - ((uint64_t)1 << (TS_ADDRESS_BITS - 1)), UINT64_C(0xfff8000100000000)};
    for (unsigned i = 0; i < sizeof places / sizeof places[0]; i++) {
        char *at = (char *)(uintptr_t)places[i];
        start((uintptr_t)at, 1);
        refuse_commit = true;
        assert_true(ts_region_init(TS_MIN_UNITS_LOG2));
        assert_int_equal(committed, 0); /* nothing is accessible before it is needed */
        assert_false(ts_region_raise(TS_NORMAL, 1));
        assert_int_equal(committed, 2); /* a large step, and then a small one */
        assert_int_equal(ts_region_marked_units(TS_NORMAL), 0);
        assert_false(ts_is_in_part(&ts_region.part[TS_NORMAL], 0) || ts_is_unit_of(TS_NORMAL, 0));
        refuse_commit = false;
        uint64_t bump = ts_bump_word(at, 5);
        assert_ptr_equal(ts_bump_at(bump), at);
        assert_ptr_equal(ts_bump_at(ts_bump_next(bump, 4096)), at + 4096);
        assert_int_equal(ts_bump_count(ts_bump_next(bump, 4096)), 6);
        assert_true(ts_bump_next(bump, TS_UNIT_BYTES) <= ts_bump_limit(at, TS_UNIT_BYTES));
        assert_false(ts_bump_next(bump, TS_UNIT_BYTES + 16) <= ts_bump_limit(at, TS_UNIT_BYTES));
    }
    ts_os = &ts_os_native;
}

/* A system with so many bytes of address space. */
static size_t room;
static void *reserve_of_room(size_t bytes) {
    void *at = bytes <= room ? ts_os_native.reserve(bytes) : NULL;
    if (at) room -= bytes;
    return at;
}
static void release_to_room(void *at, size_t bytes) {
    room += bytes;
    ts_os_native.release(at, bytes);
}

/* A quarter of the address space, and more, stays free for the program, also where all of the region would just fit;
   half can be data. */
static void room_is_left(void **state) {
    (void)state;
    assert_true(ts_region_init(14));
    size_t whole = ts_region.reserved_bytes;
    for (size_t percent = 40; percent <= 200; percent += 20) {
        size_t all = room = whole / 100 * percent;
        table = ts_os_native;
        table.reserve = reserve_of_room;
        table.release = release_to_room;
        ts_os = &table;
        assert_true(ts_region_init(14));
        assert_int_equal(room, all - ts_region.reserved_bytes);
        size_t data = (size_t)ts_region.part[TS_NORMAL].units * TS_UNIT_BYTES, most = (size_t)TS_UNIT_BYTES << 14;
        assert_true(room >= all / 5);
        assert_true(data == most || data >= all / 100 * 47);
    }
    ts_os = &ts_os_native;
}

/* Every lookup refuses addresses above the mark, which are not readable. Memory below it reads as zero. Addresses and
   handles' units alike. */
static void the_mark_rises(void **state) {
    (void)state;
    table = ts_os_native;
    table.commit = test_commit;
    ts_os = &table;
    assert_true(ts_region_init(13));
    for (unsigned part = 0; part < TS_FAR; part++) {
        const ts_part *p = &ts_region.part[part];
        uint32_t end = 0;
        for (uint32_t want = 1; end < p->units; want = end + 1) {
            committed = 0;
            assert_true(ts_region_raise(part, want));
            assert_int_equal(committed, 6);
            assert_true(ts_region_marked_units(part) >= want && ts_region_marked_units(part) > end);
            end = ts_region_marked_units(part);
            uint64_t last = (uint64_t)end * TS_UNIT_ENTRIES - 1;
            assert_true(ts_is_in_part(p, last) && ts_is_unit_of(TS_NORMAL, p->first_unit + end - 1));
            assert_false(ts_is_in_part(p, last + 1) || ts_is_in_part(p, UINT64_MAX));
            assert_true(end == p->units || !ts_is_unit_of(TS_NORMAL, p->first_unit + end));
            for (uint32_t u = 0; u < end; u += 63) {
                assert_int_equal(ts_load_relaxed(&p->unit[u]), 0);
                assert_int_equal(p->slab[(size_t)u * TS_SLAB_BYTES + 127], 0);
                assert_int_equal(ts_load_relaxed(&ts_unit_live(u)[0]), 0);
                assert_int_equal(ts_region.run[p->first_unit + u].length, 0);
                assert_int_equal(ts_region.wide[(size_t)u * TS_WIDE_BYTES], 0);
            }
            committed = 0;
            assert_true(ts_region_raise(part, end)); /* there already: no call */
            assert_int_equal(committed, 0);
            refuse_commit = true;
            assert_true(end == p->units || !ts_region_raise(part, end + 1));
            assert_int_equal(ts_region_marked_units(part), end);
            refuse_commit = false;
        }
        assert_int_equal(end, p->units);
        assert_false(ts_is_unit_of(TS_NORMAL, UINT32_MAX) || ts_is_unit_of(TS_NORMAL, p->units));
    }
    ts_os = &ts_os_native;
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(addresses_have_so_many_bits),
        cmocka_unit_test(addresses_at_the_upper_end),
        cmocka_unit_test(room_is_left),
        cmocka_unit_test(the_mark_rises),
    };
    return cmocka_run_group_tests_name("region.region", tests, NULL, NULL);
}
