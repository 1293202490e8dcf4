/* Rows of zones: taken, written while they are read, shown by every renderer, given back. */
#include "check.h"
#include "fixture.h"

#include "observe/observe.h"

#include <tslab/stats.h>

#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>

static char text[1 << 18];

static ts_zones_stats row_of(uint64_t n) {
    ts_zones_stats s = {.empty_zones = n,
                        .active_zones = n + 1,
                        .full_zones = n + 2,
                        .failed_zones = n + 3,
                        .zones = 4 * n + 6,
                        .appended_bytes = 3000 + n,
                        .payload_bytes = 2000,
                        .padding_bytes = 100,
                        .reset_zones_total = 4,
                        .reset_filled_bytes_total = 3500,
                        .capacity_bytes = 1000};
    snprintf(s.device, sizeof s.device, "/dev/z%llu", (unsigned long long)n);
    return s;
}

static void taken_and_given(void **state) {
    (void)state;
    ts_zones_stats seen[TS_ZONES_ROWS], s = row_of(7);
    uint32_t row[TS_ZONES_ROWS];
    assert_int_equal(ts_zones_rows(seen), 0);
    for (uint32_t i = 0; i < TS_ZONES_ROWS; i++) row[i] = ts_zones_row_take();
    assert_int_equal(ts_zones_row_take(), TS_ZONES_NO_ROW);
    ts_zones_row_write(TS_ZONES_NO_ROW, &s); /* nothing */
    ts_zones_row_give(TS_ZONES_NO_ROW);
    assert_int_equal(ts_zones_rows(seen), 0); /* none is written */
    for (uint32_t i = 0; i < TS_ZONES_ROWS; i++) ts_zones_row_write(row[i], &s);
    assert_int_equal(ts_zones_rows(seen), TS_ZONES_ROWS);
    assert_string_equal(seen[3].device, "/dev/z7");
    assert_int_equal(seen[3].write_amplification, 1554); /* 3107 / 2000, rounded */
    assert_int_equal(seen[3].fill_at_reset, 875);
    for (uint32_t i = 1; i < TS_ZONES_ROWS; i++) ts_zones_row_give(row[i]);
    assert_int_equal(ts_zones_rows(seen), 1);
    uint32_t again = ts_zones_row_take();
    assert_int_not_equal(again, row[0]);
    assert_int_equal(ts_zones_rows(seen), 1); /* not by the earlier user of the row */
    ts_zones_row_give(again);
    ts_zones_row_give(row[0]);
}

static void in_every_text(void **state) {
    (void)state;
    assert_true(slab_stats_json(allocator, text, sizeof text) < sizeof text);
    assert_non_null(strstr(text, ",\"zones\":[],"));
    assert_true(slab_stats_prometheus(allocator, text, sizeof text) < sizeof text);
    assert_null(strstr(text, "temporal_slab_zones"));
    ts_zones_stats s = row_of(7);
    snprintf(s.device, sizeof s.device, "a \"b\"");
    uint32_t row = ts_zones_row_take();
    ts_zones_row_write(row, &s);
    assert_true(slab_stats_json(allocator, text, sizeof text) < sizeof text);
    assert_non_null(
        strstr(text, ",\"zones\":[{\"device\":\"a \\\"b\\\"\",\"empty_zones\":7,\"active_zones\":8,\"full_zones\":9"
                     ",\"failed_zones\":10,\"zones\":34,"));
    assert_non_null(strstr(text, "\"write_amplification\":1.554,\"fill_at_reset\":0.875}]"));
    assert_true(slab_stats_prometheus(allocator, text, sizeof text) < sizeof text);
    assert_non_null(strstr(text, "\ntemporal_slab_zones{device=\"a \\\"b\\\"\",state=\"failed\"} 10\n"));
    assert_non_null(strstr(text, "\ntemporal_slab_zones_appended_bytes_total{device=\"a \\\"b\\\"\"} 3007\n"));
    assert_non_null(strstr(text, "\ntemporal_slab_zones_write_amplification{device=\"a \\\"b\\\"\"} 1.554\n"));
    assert_true(slab_stats_text(allocator, text, sizeof text) < sizeof text);
    assert_non_null(strstr(text, "\nzones of a \"b\"\n"));
    assert_non_null(strstr(text, "  fill_at_reset                0.875\n"));
    ts_zones_row_give(row);
}

static atomic_bool over;
static void *write_rows(void *arg) {
    uint32_t row = *(const uint32_t *)arg;
    for (uint64_t n = 0; !atomic_load(&over); n++) {
        ts_zones_stats s = row_of(n % 1000000);
        ts_zones_row_write(row, &s);
    }
    return NULL;
}

/* A reader gets the figures of one write, never of two. */
static void read_while_written(void **state) {
    (void)state;
    pthread_t thread;
    uint32_t row = ts_zones_row_take();
    unsigned whole = 0;
    assert_int_equal(pthread_create(&thread, NULL, write_rows, &row), 0);
    for (unsigned long turn = 0; whole < SUP_SCALED(20000) && turn < 50000000; turn++) {
        ts_zones_stats seen[TS_ZONES_ROWS];
        if (ts_zones_rows(seen) == 0) continue;
        ts_zones_stats same = row_of(seen[0].empty_zones);
        same.write_amplification = seen[0].write_amplification;
        same.fill_at_reset = 875;
        assert_memory_equal(&seen[0], &same, sizeof same);
        whole++;
    }
    atomic_store(&over, true);
    assert_int_equal(pthread_join(thread, NULL), 0);
    assert_true(whole > 0);
    ts_zones_row_give(row);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(taken_and_given, start_plain, stop),
        cmocka_unit_test_setup_teardown(in_every_text, start_plain, stop),
        cmocka_unit_test_setup_teardown(read_while_written, start_plain, stop),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
