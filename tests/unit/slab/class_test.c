/* Size classes: the table against a search, slots, waste, alignment. */
#include "unit.h"

#include "base/base.h"
#include "slab/class.h"

static int make_classes(void **state) {
    (void)state;
    ts_class_init();
    return 0;
}

static unsigned search(size_t size, size_t align) {
    for (unsigned c = 0; c < TS_CLASSES; c++) {
        if (ts_class_bytes[c] >= size && ts_class_bytes[c] % align == 0) {
            return c;
        }
    }
    return TS_CLASSES;
}

static void table_is_the_search(void **state) {
    (void)state;
    for (size_t size = 0; size <= TS_MAX_CLASS_BYTES; size++) {
        assert_int_equal(ts_classes.of[(size + 15) / 16], search(size, 1));
    }
}

static void sizes(void **state) {
    static const unsigned required[] = {64, 96, 128, 192, 256, 384, 512, 768};
    (void)state;
    for (unsigned c = 0; c < TS_CLASSES; c++) {
        assert_int_equal(ts_class_bytes[c] % 16, 0);
        assert_true(c == 0 || ts_class_bytes[c] > ts_class_bytes[c - 1]);
        assert_int_equal(ts_class_is_fine(c), ts_class_bytes[c] <= 48);
        if (c >= TS_LARGE_CLASS) { /* a slab is one object, of whole units, and full magazines have 1 MiB at most */
            assert_int_equal(ts_classes.slots[c], 1);
            assert_int_equal(ts_class_bytes[c], (size_t)ts_class_units(c) * TS_UNIT_BYTES);
            assert_true((size_t)ts_classes.full_at[c] * ts_class_bytes[c] <= 1024u << 10);
            continue;
        }
        if (ts_class_is_pair(c)) { /* the second object begins in the first unit, and ends with a page */
            assert_true(ts_classes.slots[c] == 2 && ts_class_units(c) == 2 && 2 * ts_class_bytes[c] % 4096 == 0);
            assert_in_range(ts_class_bytes[c], TS_UNIT_BYTES / 2, TS_UNIT_BYTES - 1);
            assert_true((size_t)ts_classes.full_at[c] * ts_class_bytes[c] <= 1024u << 10);
            continue;
        }
        assert_int_equal(ts_class_units(c), 1);
        size_t room = ts_class_is_short(c) ? TS_SHORT_BYTES : TS_UNIT_BYTES, rest = room % ts_class_bytes[c];
        assert_int_equal(ts_classes.slots[c], room / ts_class_bytes[c]);
        /* The unusable rest of a slab is an eighth of it at the most, and nothing of three pages. */
        assert_true(rest * 8 <= TS_UNIT_BYTES && (!ts_class_is_short(c) || rest == 0));
    }
    assert_int_equal(ts_class_bytes[TS_PAIR_CLASS - 1], TS_MAX_CLASS_BYTES);
    assert_int_equal(ts_class_bytes[TS_CLASSES - 1], TS_MAX_SLAB_BYTES);
    for (size_t size = TS_MAX_CLASS_BYTES + 1; size <= TS_MAX_SLAB_BYTES; size++)
        assert_int_equal(ts_class_of_large(size), search(size, 1));
    for (unsigned i = 0; i < sizeof required / sizeof *required; i++) {
        assert_int_equal(ts_class_bytes[search(required[i], 1)], required[i]);
    }
}

/* Steps of 16 up to 128; four classes to a doubling from there to 1024, so that rounding up wastes a fifth of a slot at
   the worst and less than an eighth on average over the sizes of a class. Above, no larger multiple of 16 fits a unit
   as often, and from 4096 on rounding up wastes a third at the worst. */
static void waste(void **state) {
    (void)state;
    unsigned c = 1;
    for (; ts_class_bytes[c] <= 1024; c++) {
        size_t slot = ts_class_bytes[c], below = ts_class_bytes[c - 1];
        if (slot <= 128) {
            assert_int_equal(slot - below, 16);
        } else {
            assert_true((slot - below - 1) * 5 <= slot);
            assert_true((slot - below - 1) * 4 <= slot);
            assert_true(4 * (slot - below) <= ((size_t)1 << ts_log2_64(slot - 1)));
        }
    }
    for (; c < TS_PAIR_CLASS; c++) {
        size_t slot = ts_class_bytes[c], below = ts_class_bytes[c - 1];
        assert_true(ts_class_is_short(c) || TS_UNIT_BYTES / (slot + 16) < ts_classes.slots[c]);
        assert_true((slot - below - 1) * (slot <= TS_QUARTER_BYTES ? 400 : 299) <= slot * 100);
    }
}

static void aligned(void **state) {
    (void)state;
    for (size_t align = 1; align <= 2 * TS_UNIT_BYTES; align *= 2) {
        for (size_t size = 0; size <= TS_MAX_SLAB_BYTES + 100; size += size < 2 * TS_MAX_CLASS_BYTES ? 7 : 1001) {
            unsigned want = align > TS_UNIT_BYTES ? TS_CLASSES : search(size ? size : 1, align);
            assert_int_equal(ts_class_aligned(size, align), want);
        }
    }
    assert_int_equal(ts_class_aligned(SIZE_MAX, 16), TS_CLASSES);
    assert_int_equal(ts_class_aligned(16, SIZE_MAX / 2 + 1), TS_CLASSES);
    /* Powers of two keep their natural alignment. */
    for (size_t size = 16; size <= TS_UNIT_BYTES; size *= 2) {
        assert_int_equal(ts_class_bytes[ts_class_aligned(size, size)], size);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(table_is_the_search),
        cmocka_unit_test(sizes),
        cmocka_unit_test(waste),
        cmocka_unit_test(aligned),
    };
    return cmocka_run_group_tests_name("slab.class", tests, make_classes, NULL);
}
