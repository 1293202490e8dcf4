/* The RSS series against the samples, and the parsing of numbers. */
#include <inttypes.h>

#include "check.h"
#include "harness.h"
#include "rss.h"

static void a_series_keeps_every_peak(void) {
    static RssSeries series;
    rss_series_init(&series);
    uint64_t samples = 5 * RSS_SERIES_CAPACITY + 3;
    for (uint64_t i = 0; i < samples; i++) rss_series_add(&series, i, i == 1234 ? 999999 : 1000 + i % 7);
    CHECK(series.taken == samples, "%" PRIu64, series.taken);
    CHECK(series.peak_bytes == 999999, "%" PRIu64, series.peak_bytes);
    CHECK(series.count <= RSS_SERIES_CAPACITY, "%zu", series.count);
    CHECK(series.count > RSS_SERIES_CAPACITY / 2, "%zu", series.count);
    size_t peaks = 0;
    for (size_t i = 0; i < series.count; i++) {
        peaks += series.points[i].bytes == 999999 && series.points[i].at_ms == 1234;
        CHECK(i == 0 || series.points[i].at_ms > series.points[i - 1].at_ms, "point %zu is out of order", i);
    }
    CHECK(peaks == 1, "%zu points hold the peak", peaks);
}

static void the_sampler_sees_memory_come_and_go(void) {
    static RssSeries series;
    size_t bytes = (size_t)64 << 20;
    rss_series_init(&series);
    uint64_t before = bench_rss_bytes();
    CHECK(rss_sampler_start(&series, 1), "no thread");
    void *pages = bench_map(bytes);
    uint64_t during = bench_rss_bytes();
    wl_sleep_until_ns(bench_now_ns() + 50 * WL_NS_PER_MS);
    bench_unmap(pages, bytes);
    uint64_t after = bench_rss_bytes();
    rss_sampler_stop();
    CHECK(during >= before + bytes, "%" PRIu64 " -> %" PRIu64, before, during);
    CHECK(after + bytes / 2 < during, "%" PRIu64 " -> %" PRIu64, during, after);
    CHECK(series.taken >= 5, "%" PRIu64 " samples in 50 ms", series.taken);
    CHECK(series.peak_bytes + (4 << 20) >= before + bytes, "peak %" PRIu64 " of %" PRIu64, series.peak_bytes, during);
    CHECK(rss_high_water_bytes() + (4 << 20) >= during, "%" PRIu64, rss_high_water_bytes());
}

static void numbers_are_whole_numbers(void) {
    uint64_t number = 77;
    double fraction = 7.5;
    static const char *const bad[] = {"", "x", "5x", " 5", "-1", "+5", "0x10", "1.5", "101", "99999999999999999999"};
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++)
        CHECK(!wl_parse_u64(bad[i], 0, 100, &number), "\"%s\" gives %" PRIu64, bad[i], number);
    CHECK(number == 77, "%" PRIu64, number);
    CHECK(wl_parse_u64("100", 0, 100, &number) && number == 100, "%" PRIu64, number);
    static const char *const bad_fractions[] = {"", ".", "-1", "1e3", "nan", "inf", "1.2.3", "101", "0"};
    for (size_t i = 0; i < sizeof bad_fractions / sizeof bad_fractions[0]; i++)
        CHECK(!wl_parse_double(bad_fractions[i], 0, true, 100, &fraction), "\"%s\" gives %g", bad_fractions[i],
              fraction);
    CHECK(wl_parse_double("0.25", 0, true, 100, &fraction) && fraction == 0.25, "%g", fraction);
    CHECK(wl_parse_double("0", 0, false, 100, &fraction) && fraction == 0.0, "%g", fraction);
}

int main(void) {
    a_series_keeps_every_peak();
    the_sampler_sees_memory_come_and_go();
    numbers_are_whole_numbers();
    return check_result();
}
