/* See endpoint.h. */
#include "endpoint.h"

#ifdef WL_HTTP

#include <errno.h>
#include <string.h>

#include <tslab/http.h>

typedef struct LeakMetric {
    const char *labels[5];
    SlabHttpMetric metric;
} LeakMetric;

static void describe(LeakMetric *leaks, const char *pattern, WlAllocator allocator, double (*read)(void *), void *arg) {
    const char *labels[] = {"pattern", pattern, "allocator", wl_allocator_name(allocator), NULL};
    memcpy(leaks->labels, labels, sizeof labels);
    leaks->metric = (SlabHttpMetric){
        .size = sizeof leaks->metric,
        .name = "benchmark_objects_leaked_total",
        .help = "Objects that requests of the workload allocated and will never free; anything but 0 is a leak.",
        .kind = SLAB_HTTP_COUNTER,
        .labels = leaks->labels,
        .read = read,
        .arg = arg,
    };
}

void endpoint_show_leaks(const char *tool, const char *pattern, WlAllocator allocator, double (*read)(void *),
                         void *arg) {
    LeakMetric leaks;
    describe(&leaks, pattern, allocator, read, arg);
    if (!slab_http_metric_add(&leaks.metric)) wl_die(BENCH_EXIT_FAILED, tool, "no metric: %s", strerror(errno));
}

static double nothing(void *unused) {
    (void)unused;
    return 0;
}

void endpoint_hide_leaks(const char *pattern, WlAllocator allocator) {
    LeakMetric leaks;
    describe(&leaks, pattern, allocator, nothing, NULL);
    (void)slab_http_metric_remove(&leaks.metric);
}

#else

void endpoint_show_leaks(const char *tool, const char *pattern, WlAllocator allocator, double (*read)(void *),
                         void *arg) {
    (void)tool, (void)pattern, (void)allocator, (void)read, (void)arg;
}

void endpoint_hide_leaks(const char *pattern, WlAllocator allocator) { (void)pattern, (void)allocator; }

#endif
