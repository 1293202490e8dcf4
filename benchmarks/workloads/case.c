/* See case.h. */
#include "case.h"

#include <getopt.h>
#include <inttypes.h>
#include <stdlib.h>

#define SECONDS_MAX 3600.0

enum {
    OPT_ALLOCATOR = 256,
    OPT_SECONDS,
    OPT_JSON,
    OPT_HELP,
};

static Case the_case;

static void print_help(const char *tool, const char *what) {
    printf("usage: %s --allocator=tslab|malloc [--seconds=N] [--json=FILE] [FILE]\n%s\n", tool, what);
}

static void take_option(Case *run, int option, char **argv, const char *what) {
    switch (option) {
    case OPT_ALLOCATOR:
        if (!wl_allocator_parse(optarg, &run->allocator))
            wl_die(BENCH_EXIT_USAGE, run->tool, "--allocator=%s: must be tslab or malloc", optarg);
        break;
    case OPT_SECONDS:
        if (!wl_parse_double(optarg, 0.0, true, SECONDS_MAX, &run->seconds))
            wl_die(BENCH_EXIT_USAGE, run->tool, "--seconds=%s: must be seconds, more than 0 and at most 3600", optarg);
        break;
    case OPT_JSON: run->json_path = optarg; break;
    case OPT_HELP:
    case 'h': print_help(run->tool, what); exit(0);
    default: wl_bad_option(run->tool, option, argv);
    }
}

Case *case_begin(int argc, char **argv, const char *tool, const char *what) {
    static const struct option long_options[] = {
        {"allocator", required_argument, NULL, OPT_ALLOCATOR},
        {"seconds", required_argument, NULL, OPT_SECONDS},
        {"json", required_argument, NULL, OPT_JSON},
        {"help", no_argument, NULL, OPT_HELP},
        {NULL, 0, NULL, 0},
    };
    Case *run = &the_case;
    run->tool = tool;
    run->allocator = WL_TSLAB;
    run->seconds = 1.0;
    opterr = 0;
    int option;
    while ((option = getopt_long(argc, argv, ":h", long_options, NULL)) != -1) {
        if (option != ':' && option != '?') wl_check_value(tool, argv);
        take_option(run, option, argv, what);
    }
    if (optind + 1 < argc) wl_die(BENCH_EXIT_USAGE, tool, "%s: one file at most", argv[optind + 1]);
    if (optind < argc) run->input = argv[optind];
    if (run->json_path != NULL) run->json = report_open_json(run->json_path, tool);
    return run;
}

void case_start(Case *run) {
    run->memory.series = &run->series;
    run->memory.sample_ms = 5;
    run->memory.before_bytes = bench_rss_bytes();
    rss_series_init(&run->series);
    if (!rss_sampler_start(&run->series, run->memory.sample_ms))
        wl_die(BENCH_EXIT_FAILED, run->tool, "no thread for the memory samples");
    run->begin_ns = bench_now_ns();
    run->end_ns = run->begin_ns + (uint64_t)(run->seconds * (double)WL_NS_PER_S);
}

bool case_goes_on(const Case *run) { return run->latencies.count == 0 || bench_now_ns() < run->end_ns; }

uint64_t case_hash(uint64_t hash, const void *bytes, size_t count) {
    const unsigned char *next = bytes;
    for (size_t i = 0; i < count; i++) hash = (hash ^ next[i]) * UINT64_C(0x100000001b3);
    return hash;
}

void case_same(Case *run, uint64_t digest) {
    if (run->digest != 0 && run->digest != digest)
        wl_die(BENCH_EXIT_FAILED, run->tool, "two requests computed different results");
    run->digest = digest;
}

int case_finish(Case *run) {
    double elapsed_s = (double)(bench_now_ns() - run->begin_ns) / 1e9;
    run->memory.after_bytes = run->memory.after_destroy_bytes = bench_rss_bytes();
    rss_sampler_stop();
    memory_report_finish(&run->memory);
    printf("%s with %s: %" PRIu64 " requests\n", run->tool, wl_allocator_name(run->allocator), run->latencies.count);
    report_print_latencies(&run->latencies);
    report_print_memory(&run->memory, run->allocator);
    if (run->json == NULL) return 0;
    char digest[17];
    snprintf(digest, sizeof digest, "%016" PRIx64, run->digest);
    json_t *json =
        json_pack("{s:s, s:s, s:s, s:I, s:f, s:s, s:o, s:o}", "tool", run->tool, "workload", run->tool, "allocator",
                  wl_allocator_name(run->allocator), "requests", (json_int_t)run->latencies.count, "requests_per_s",
                  (double)run->latencies.count / elapsed_s, "digest", digest, "latency_ns",
                  report_json_latencies(&run->latencies), "rss", report_json_memory(&run->memory));
    report_write_json(json, run->json, run->json_path, run->tool);
    return 0;
}
