/*
 * synthetic_bench: five request patterns on malloc or temporal-slab, one of them per process, so that the
 * resident memory seen is that of one allocator only. --help says how it is called.
 *
 * The two sides of a run are checked against each other: temporal-slab's count of live objects must be the
 * number that the requests allocated and did not free. Exit 1 if it is not.
 */
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <tslab/stats.h>
#include <tslab/tslab.h>

#include "bench_engine.h"
#include "bench_options.h"
#include "endpoint.h"
#include "report.h"
#include "rss.h"

#define TOOL "synthetic_bench"

typedef struct Outcome {
    BenchTotals totals;
    uint64_t counted_leaks; /* the final benchmark_objects_leaked_total */
    bench_hist latencies;
    RssSeries series;
    MemoryReport memory;
    SlabGlobalStats stats; /* temporal-slab only, like leaks; taken with the leaks still there */
    LeakReport leaks;
} Outcome;

static SlabAllocator *make_allocator(const BenchOptions *options) {
    SlabOptions slab_options = {.size = sizeof slab_options};
    if (options->reclaim_at_once) slab_options.reclaim_policy = SLAB_RECLAIM_AT_ONCE;
    SlabAllocator *slab = slab_allocator_create_ex(&slab_options);
    if (slab == NULL) wl_die(BENCH_EXIT_FAILED, TOOL, "no allocator: %s", strerror(errno));
    if (options->epoch_policy == POLICY_MANUAL) slab_epoch_set_label(slab, epoch_current(slab), "rolling");
    return slab;
}

/* Asks temporal-slab for the remaining objects, then lets it take the leaked ones back. */
static void examine(SlabAllocator *slab, Outcome *outcome) {
    if (!slab_stats_global(slab, &outcome->stats) || !leak_report_collect(slab, &outcome->leaks))
        wl_die(BENCH_EXIT_FAILED, TOOL, "no statistics: %s", strerror(errno));
    outcome->memory.after_destroy_bytes = outcome->memory.after_bytes;
    if (leak_report_destroy_epochs(slab) != 0) outcome->memory.after_destroy_bytes = bench_rss_bytes();
}

static double leaked_so_far(void *bench) { return (double)bench_leaked_objects(bench); }

static void run(const BenchOptions *options, SlabAllocator *slab, Outcome *outcome) {
    BenchRun *bench = bench_create(options, slab);
    if (bench == NULL)
        wl_die(BENCH_EXIT_FAILED, TOOL, "no memory for %u threads of %u objects", options->threads, options->objs_max);
    endpoint_show_leaks(TOOL, options->pattern, options->allocator, leaked_so_far, bench);
    MemoryReport *memory = &outcome->memory;
    memory->series = &outcome->series;
    memory->sample_ms = options->rss_sample_ms;
    memory->before_bytes = bench_rss_bytes();
    rss_series_init(&outcome->series);
    if (!rss_sampler_start(&outcome->series, options->rss_sample_ms))
        wl_die(BENCH_EXIT_FAILED, TOOL, "no thread for the memory samples");
    if (!bench_execute(bench, &outcome->totals, &outcome->latencies))
        wl_die(BENCH_EXIT_FAILED, TOOL, "--threads=%u: %s", options->threads, strerror(errno));
    if (slab != NULL && options->epoch_policy == POLICY_MANUAL) epoch_advance(slab);
    rss_sampler_stop();
    memory->after_bytes = bench_rss_bytes();
    memory->after_destroy_bytes = memory->after_bytes;
    memory_report_finish(memory);
    if (slab != NULL) examine(slab, outcome);
    outcome->counted_leaks = bench_leaked_objects(bench);
    endpoint_hide_leaks(options->pattern, options->allocator);
    bench_destroy(bench);
}

static double requests_per_s(const BenchTotals *totals) {
    return totals->elapsed_ns == 0 ? 0.0 : (double)totals->requests * 1e9 / (double)totals->elapsed_ns;
}

/* ---- results ---------------------------------------------------------------------------------- */

static void range_text(char *out, size_t capacity, uint32_t low, uint32_t high) {
    if (low == high)
        snprintf(out, capacity, "%u", low);
    else
        snprintf(out, capacity, "%u-%u", low, high);
}

static void print_setting(const BenchOptions *options) {
    char epochs[32], frees[48], objects[32], sizes[32], rate[48] = "as fast as it goes";
    bench_epoch_policy_text(options, epochs, sizeof epochs);
    bench_free_policy_text(options, frees, sizeof frees);
    if (options->req_rate != 0) snprintf(rate, sizeof rate, "%" PRIu64 " requests/s", options->req_rate);
    printf("%s with %s (%s), %g s, %u thread%s, seed %" PRIu64 "\n", options->pattern,
           wl_allocator_name(options->allocator), options->allocator == WL_TSLAB ? slab_version() : "of the system",
           options->duration_s, options->threads, options->threads == 1 ? "" : "s", options->seed);
    range_text(objects, sizeof objects, options->objs_min, options->objs_max);
    range_text(sizes, sizeof sizes, options->size_min, options->size_max);
    printf("  %s, %s objects of %s bytes", rate, objects, sizes);
    if (options->hot_pct != 0) printf(" (%u %% of them %u)", options->hot_pct, options->hot_bytes);
    if (options->allocator == WL_TSLAB)
        printf(", epochs %s, memory returned %s", epochs, options->reclaim_at_once ? "at once" : "by the budget");
    printf(", freed %s\n", frees);
}

static void print_outcome(const BenchOptions *options, const Outcome *outcome) {
    const BenchTotals *totals = &outcome->totals;
    bool tslab = options->allocator == WL_TSLAB;
    print_setting(options);
    printf("requests                %" PRIu64 ", %.1f/s\n", totals->requests, requests_per_s(totals));
    printf("objects                 %" PRIu64 ", %.1f MiB; %" PRIu64 " freed, %" PRIu64 " not; %" PRIu64
           " allocations failed\n",
           totals->objects, (double)totals->object_bytes / (1024.0 * 1024.0), totals->freed,
           totals->objects - totals->freed, totals->failures);
    report_print_latencies(&outcome->latencies);
    report_print_allocator(tslab ? &outcome->stats : NULL);
    report_print_memory(&outcome->memory, options->allocator);
    report_print_leaks(tslab ? &outcome->leaks : NULL);
}

static json_t *options_json(const BenchOptions *options) {
    char epochs[32], frees[48];
    bench_epoch_policy_text(options, epochs, sizeof epochs);
    bench_free_policy_text(options, frees, sizeof frees);
    return json_pack("{s:f, s:i, s:I, s:i, s:i, s:i, s:i, s:i, s:i, s:s, s:s, s:b, s:I, s:I}", "duration_s",
                     options->duration_s, "threads", (int)options->threads, "req_rate", (json_int_t)options->req_rate,
                     "objs_min", (int)options->objs_min, "objs_max", (int)options->objs_max, "size_min",
                     (int)options->size_min, "size_max", (int)options->size_max, "hot_pct", (int)options->hot_pct,
                     "hot_bytes", (int)options->hot_bytes, "epoch_policy", epochs, "free_policy", frees,
                     "reclaim_at_once", (int)options->reclaim_at_once, "rss_sample_ms",
                     (json_int_t)options->rss_sample_ms, "seed", (json_int_t)options->seed);
}

static json_t *outcome_json(const BenchOptions *options, const Outcome *outcome) {
    const BenchTotals *totals = &outcome->totals;
    bool tslab = options->allocator == WL_TSLAB;
    json_t *leaked = json_pack("{s:I, s:I, s:o}", "objects", (json_int_t)(totals->objects - totals->freed), "bytes",
                               (json_int_t)totals->leaked_bytes, "by_epoch_label",
                               report_json_leaks(tslab ? &outcome->leaks : NULL));
    return json_pack("{s:s, s:s, s:s, s:s, s:o, s:f, s:I, s:f, s:I, s:I, s:I, s:I, s:o, s:o, s:o, s:o}", "tool", TOOL,
                     "workload", options->pattern, "allocator", wl_allocator_name(options->allocator), "tslab_version",
                     slab_version(), "options", options_json(options), "elapsed_s", (double)totals->elapsed_ns / 1e9,
                     "requests", (json_int_t)totals->requests, "requests_per_s", requests_per_s(totals), "objects",
                     (json_int_t)totals->objects, "object_bytes", (json_int_t)totals->object_bytes, "freed",
                     (json_int_t)totals->freed, "allocation_failures", (json_int_t)totals->failures, "latency_ns",
                     report_json_latencies(&outcome->latencies), "rss", report_json_memory(&outcome->memory), "leaked",
                     leaked, "tslab", report_json_allocator(tslab ? &outcome->stats : NULL));
}

/* Requirements that hold for any figures. */
static int check(const BenchOptions *options, const Outcome *outcome) {
    const BenchTotals *totals = &outcome->totals;
    if (totals->objects == 0) {
        fprintf(stderr, TOOL ": no object could be allocated (%" PRIu64 " failures)\n", totals->failures);
        return BENCH_EXIT_FAILED;
    }
    uint64_t left = totals->objects - totals->freed;
    if (outcome->counted_leaks != left) {
        fprintf(stderr, TOOL ": %" PRIu64 " objects are left, %" PRIu64 " were counted as leaked\n", left,
                outcome->counted_leaks);
        return BENCH_EXIT_FAILED;
    }
    if (options->allocator == WL_MALLOC) return 0;
    if (totals->refused_frees != 0) {
        fprintf(stderr, TOOL ": slab_free refused %" PRIu64 " live objects\n", totals->refused_frees);
        return BENCH_EXIT_FAILED;
    }
    if (outcome->stats.live_objects != left || outcome->leaks.objects != left) {
        fprintf(stderr,
                TOOL ": %" PRIu64 " objects are left, the allocator counts %" PRIu64 " and its epochs %" PRIu64 "\n",
                left, outcome->stats.live_objects, outcome->leaks.objects);
        return BENCH_EXIT_FAILED;
    }
    return 0;
}

int main(int argc, char **argv) {
    BenchOptions options;
    bench_options_parse(argc, argv, &options);
    Outcome *outcome = bench_map(sizeof *outcome);
    FILE *json = options.json_path != NULL ? report_open_json(options.json_path, TOOL) : NULL;
    SlabAllocator *slab = options.allocator == WL_TSLAB ? make_allocator(&options) : NULL;
    run(&options, slab, outcome);
    print_outcome(&options, outcome);
    if (json != NULL) report_write_json(outcome_json(&options, outcome), json, options.json_path, TOOL);
    int code = check(&options, outcome);
    slab_allocator_free(slab);
    return code;
}
