/* What becomes resident of fresh units at once. */
#include "check.h"
#include "identities.h"
#include "unit.h"

#include "os/os.h"
#include "region/region.h"
#include "slab/slab.h"

#include <string.h>

enum { MOST = 4096, SMALL_UNITS = 512 };

static ts_os_table table;
static unsigned calls;
static size_t data_bytes;
static const char *last_data;

static bool test_populate(void *at, size_t bytes) {
    calls++;
    data_bytes += bytes;
    last_data = at;
    return ts_os_native.populate(at, bytes);
}

static void *object[MOST];
static SlabAllocator *allocator;

static int start(void **state) {
    (void)state;
    table = ts_os_native;
    table.populate = test_populate;
    ts_os = &table;
    SlabOptions options = {.size = sizeof options, .memory_tools = SLAB_TOOLS_OFF, .huge_pages = SLAB_HUGE_OFF};
    allocator = slab_allocator_create_ex(&options);
    assert_non_null(allocator);
    return 0;
}

static int end(void **state) {
    (void)state;
    sup_check_identities(allocator);
    slab_allocator_free(allocator);
    ts_os = &ts_os_native;
    return 0;
}

static uint32_t unit_of(const void *p) {
    return (uint32_t)(ts_entry_of(&ts_region.part[TS_NORMAL], p) >> TS_ENTRY_UNIT_SHIFT);
}

static void free_all(void) {
    for (unsigned i = 0; i < MOST; i++) {
        assert_true(slab_free(allocator, object[i]));
        object[i] = NULL;
    }
}

/* A small program: nothing is populated. It comes first, as no unit comes back to the pool in between. */
static void small_program(void **state) {
    (void)state;
    for (unsigned i = 0; i < MOST; i++) {
        object[i] = slab_malloc(allocator, 32);
        assert_non_null(object[i]);
        if (i % 64 != 0) continue;
        object[i] = slab_realloc(allocator, object[i], 4097);
        assert_non_null(object[i]);
        assert_true(unit_of(object[i]) < SMALL_UNITS);
    }
    assert_int_equal(calls, 0);
    free_all();
}

/* A slab in which objects come to lie that grow: one call for its four pages, or for three where the last one stays
   without memory. A new object of that size: none. */
static void objects_that_grow(void **state) {
    (void)state;
    static const struct {
        size_t bytes, resident;
    } kinds[] = {{8000, TS_UNIT_BYTES}, {6100, 3 * 4096}, {5400, TS_UNIT_BYTES}};
    enum { OBJECTS = 200 };
    (void)slab_trim(allocator);
    void *reserve = slab_malloc(allocator, SMALL_UNITS * TS_UNIT_BYTES);
    assert_non_null(reserve);
    for (unsigned k = 0; k < sizeof kinds / sizeof *kinds; k++) {
        unsigned before = calls;
        EpochId epoch = epoch_open(allocator, NULL, EPOCH_CHURN);
        for (unsigned i = 0; i < OBJECTS; i++) assert_non_null(slab_malloc_epoch(allocator, kinds[k].bytes, epoch));
        assert_int_equal(calls, before);
        for (unsigned i = 0; i < OBJECTS; i++) {
            size_t populated = data_bytes;
            unsigned seen = calls;
            object[i] = slab_malloc_epoch(allocator, 4000, epoch);
            assert_non_null(object[i]);
            object[i] = slab_realloc(allocator, object[i], kinds[k].bytes);
            assert_non_null(object[i]);
            if (calls == seen) continue;
            assert_int_equal(calls, seen + 1);
            assert_ptr_equal(last_data, ts_unit_address(unit_of(object[i])));
            if (ts_os_page_bytes() == 4096) assert_int_equal(data_bytes - populated, kinds[k].resident);
        }
        assert_true(calls - before >= OBJECTS / 4 && calls - before <= OBJECTS);
        assert_true(epoch_destroy(allocator, epoch));
        (void)slab_trim(allocator); /* so that the next ones are fresh */
        memset(object, 0, sizeof object);
    }
    assert_true(slab_free(allocator, reserve));
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(small_program),
        cmocka_unit_test(objects_that_grow),
    };
    return cmocka_run_group_tests_name("supply.fresh", tests, start, end);
}
