/* The first rows of many (top.h) beside all rows sorted. */
#include "check.h"
#include "unit.h"

#include "observe/top.h"

#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#define ROWS 1000u

typedef struct row {
    uint64_t key, number; /* the number tells rows with one key apart */
    char rest[48];
} row;

static bool before(const void *a, const void *b) {
    const row *x = a, *y = b;
    return x->key != y->key ? x->key < y->key : x->number < y->number;
}

static int compare(const void *a, const void *b) { return before(a, b) ? -1 : before(b, a); }

static void fill(row *rows, unsigned count, uint64_t keys) {
    for (unsigned i = 0; i < count; i++) {
        rows[i] = (row){.key = (uint64_t)rand() % keys, .number = i};
        memset(rows[i].rest, (int)(i % 100), sizeof rows[i].rest);
    }
}

static void keeps_the_first_in_order(void **state) {
    static row rows[ROWS], kept[ROWS];
    (void)state;
    srand(1);
    for (unsigned capacity = 0; capacity <= ROWS; capacity = capacity < 4 ? capacity + 1 : capacity * 3) {
        for (unsigned count = 0; count <= ROWS; count = count * 2 + 1) {
            ts_top top = {kept, sizeof *kept, capacity, 0, before};
            fill(rows, count, capacity % 2 ? 10 : 100000);
            for (unsigned i = 0; i < count; i++)
                if (ts_top_takes(&top, &rows[i])) ts_top_put(&top, &rows[i]);
            ts_top_sort(&top);
            qsort(rows, count, sizeof *rows, compare);
            assert_int_equal(top.count, count < capacity ? count : capacity);
            if (top.count > 0) assert_memory_equal(kept, rows, top.count * sizeof *rows);
        }
    }
}

static void sorts_rows_that_are_there(void **state) {
    static row rows[ROWS], sorted[ROWS];
    (void)state;
    fill(rows, ROWS, ROWS);
    memcpy(sorted, rows, sizeof rows);
    ts_top_sort(&(ts_top){rows, sizeof *rows, ROWS, ROWS, before});
    qsort(sorted, ROWS, sizeof *sorted, compare);
    assert_memory_equal(rows, sorted, sizeof rows);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(keeps_the_first_in_order),
        cmocka_unit_test(sorts_rows_that_are_there),
    };
    return cmocka_run_group_tests_name("observe.top", tests, NULL, NULL);
}
