/* See bench_options.h. */
#include "bench_options.h"

#include <getopt.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define TOOL "synthetic_bench"

#define THREADS_MAX 1024u
#define OBJECTS_MAX 1000000u
#define SIZE_MAX_BYTES (1u << 30)
#define RATE_MAX WL_NS_PER_S
#define REQUESTS_MAX 1000000u /* of batch and lag */
#define DURATION_MAX_S 86400.0
#define SAMPLE_MAX_MS 60000u

static const BenchOptions defaults = {
    .allocator = WL_TSLAB,
    .duration_s = 5.0,
    .threads = 1,
    .rss_sample_ms = 10,
    .seed = 1,
};

typedef struct Preset {
    const char *name;
    const char *summary;
    uint64_t req_rate;
    uint32_t objs_min, objs_max, size_min, size_max, hot_pct, hot_bytes;
    EpochPolicy epoch_policy;
    uint32_t batch;
    FreePolicy free_policy;
    uint32_t lag;
    double leak_pct;
    bool reclaim_at_once;
} Preset;

static const Preset presets[] = {
    {"burst", "80-200 objects of 128 bytes, an epoch per request, all freed in it", 2000, 80, 200, 128, 128, 0, 0,
     POLICY_PER_REQ, 0, FREE_WITHIN_REQ, 0, 0.0, false},
    {"steady", "50 objects of 128 bytes, freed 8 requests later, 16 requests an epoch", 5000, 50, 50, 128, 128, 0, 0,
     POLICY_BATCH, 16, FREE_LAG, 8, 0.0, false},
    {"leak", "80-200 objects of 128 bytes, 1 % never freed, an epoch per request", 2000, 80, 200, 128, 128, 0, 0,
     POLICY_PER_REQ, 0, FREE_LEAK, 0, 1.0, false},
    {"hotspot", "120 objects of 48-768 bytes, 80 % of them 128, all in the rolling epoch", 4000, 120, 120, 48, 768, 80,
     128, POLICY_MANUAL, 0, FREE_WITHIN_REQ, 0, 0.0, false},
    {"kernel", "300 objects of 256 bytes, an epoch per request, memory returned at every close", 2000, 300, 300, 256,
     256, 0, 0, POLICY_PER_REQ, 0, FREE_WITHIN_REQ, 0, 0.0, true},
};

#define PRESET_COUNT (sizeof presets / sizeof presets[0])

bool bench_options_preset(const char *pattern, BenchOptions *out) {
    for (size_t i = 0; i < PRESET_COUNT; i++) {
        const Preset *preset = &presets[i];
        if (strcmp(preset->name, pattern) != 0) continue;
        *out = defaults;
        out->pattern = preset->name;
        out->req_rate = preset->req_rate;
        out->objs_min = preset->objs_min;
        out->objs_max = preset->objs_max;
        out->size_min = preset->size_min;
        out->size_max = preset->size_max;
        out->hot_pct = preset->hot_pct;
        out->hot_bytes = preset->hot_bytes;
        out->epoch_policy = preset->epoch_policy;
        out->batch = preset->batch;
        out->free_policy = preset->free_policy;
        out->lag = preset->lag;
        out->leak_pct = preset->leak_pct;
        out->reclaim_at_once = preset->reclaim_at_once;
        return true;
    }
    return false;
}

static void print_help(void) {
    printf("usage: " TOOL " [OPTION]...\n"
           "Runs requests that allocate, touch and free objects, and says what it cost.\n\n"
           "  --allocator=tslab|malloc      default tslab\n"
           "  --pattern=NAME                default burst; sets all that follows:\n");
    for (size_t i = 0; i < PRESET_COUNT; i++)
        printf("      %-8s %5llu req/s, %s\n", presets[i].name, (unsigned long long)presets[i].req_rate,
               presets[i].summary);
    printf("  --duration_s=N                default 5; fractions are fine\n"
           "  --threads=N                   default 1\n"
           "  --req_rate=N                  requests per second, all threads together; 0: as fast as it goes\n"
           "  --objs_min=N, --objs_max=N    objects of a request\n"
           "  --size=N|MIN-MAX              bytes of an object\n"
           "  --epoch_policy=per_req|batch:N|manual\n"
           "  --free_policy=within_req|lag:N|leak:PCT\n"
           "  --rss_sample_ms=N             default 10\n"
           "  --seed=N                      default 1\n"
           "  --json=FILE                   the results as JSON\n"
           "  --help\n");
}

enum {
    OPT_ALLOCATOR = 256,
    OPT_PATTERN,
    OPT_DURATION,
    OPT_THREADS,
    OPT_RATE,
    OPT_OBJS_MIN,
    OPT_OBJS_MAX,
    OPT_SIZE,
    OPT_EPOCH_POLICY,
    OPT_FREE_POLICY,
    OPT_RSS_SAMPLE,
    OPT_SEED,
    OPT_JSON,
    OPT_HELP,
    OPT_END,
};

static const struct option long_options[] = {
    {"allocator", required_argument, NULL, OPT_ALLOCATOR},
    {"pattern", required_argument, NULL, OPT_PATTERN},
    {"duration_s", required_argument, NULL, OPT_DURATION},
    {"threads", required_argument, NULL, OPT_THREADS},
    {"req_rate", required_argument, NULL, OPT_RATE},
    {"objs_min", required_argument, NULL, OPT_OBJS_MIN},
    {"objs_max", required_argument, NULL, OPT_OBJS_MAX},
    {"size", required_argument, NULL, OPT_SIZE},
    {"epoch_policy", required_argument, NULL, OPT_EPOCH_POLICY},
    {"free_policy", required_argument, NULL, OPT_FREE_POLICY},
    {"rss_sample_ms", required_argument, NULL, OPT_RSS_SAMPLE},
    {"seed", required_argument, NULL, OPT_SEED},
    {"json", required_argument, NULL, OPT_JSON},
    {"help", no_argument, NULL, OPT_HELP},
    {NULL, 0, NULL, 0},
};

_Noreturn static void bad_value(const char *option, const char *value, const char *wanted) {
    wl_die(BENCH_EXIT_USAGE, TOOL, "--%s=%s: %s", option, value, wanted);
}

static uint64_t number(const char *option, const char *value, uint64_t low, uint64_t high) {
    uint64_t result;
    if (wl_parse_u64(value, low, high, &result)) return result;
    char wanted[96];
    snprintf(wanted, sizeof wanted, "must be a number from %llu to %llu", (unsigned long long)low,
             (unsigned long long)high);
    bad_value(option, value, wanted);
}

/* Whether text starts with word and a colon; *rest is the text behind it. */
static bool has_prefix(const char *text, const char *word, const char **rest) {
    size_t length = strlen(word);
    if (strncmp(text, word, length) != 0 || text[length] != ':') return false;
    *rest = text + length + 1;
    return true;
}

static void set_size(const char *value, BenchOptions *out) {
    char low_text[32];
    uint64_t low, high;
    const char *dash = strchr(value, '-');
    if (dash == NULL) {
        if (!wl_parse_u64(value, 1, SIZE_MAX_BYTES, &low))
            bad_value("size", value, "must be bytes from 1 to 1073741824, or MIN-MAX");
        high = low;
    } else {
        size_t length = (size_t)(dash - value);
        if (length >= sizeof low_text) bad_value("size", value, "must be bytes from 1 to 1073741824, or MIN-MAX");
        memcpy(low_text, value, length);
        low_text[length] = '\0';
        if (!wl_parse_u64(low_text, 1, SIZE_MAX_BYTES, &low) || !wl_parse_u64(dash + 1, 1, SIZE_MAX_BYTES, &high))
            bad_value("size", value, "must be bytes from 1 to 1073741824, or MIN-MAX");
        if (low > high) bad_value("size", value, "the smaller size must come first");
    }
    out->size_min = (uint32_t)low;
    out->size_max = (uint32_t)high;
    if (out->hot_bytes < out->size_min || out->hot_bytes > out->size_max) out->hot_bytes = out->size_min;
}

static void set_epoch_policy(const char *value, BenchOptions *out) {
    const char *rest;
    uint64_t count;
    if (strcmp(value, "per_req") == 0) {
        out->epoch_policy = POLICY_PER_REQ;
    } else if (strcmp(value, "manual") == 0) {
        out->epoch_policy = POLICY_MANUAL;
    } else if (has_prefix(value, "batch", &rest)) {
        if (!wl_parse_u64(rest, 1, REQUESTS_MAX, &count))
            bad_value("epoch_policy", value, "batch:N needs a number from 1 to 1000000");
        out->epoch_policy = POLICY_BATCH;
        out->batch = (uint32_t)count;
    } else {
        bad_value("epoch_policy", value, "must be per_req, batch:N or manual");
    }
}

static void set_free_policy(const char *value, BenchOptions *out) {
    const char *rest;
    uint64_t count;
    if (strcmp(value, "within_req") == 0) {
        out->free_policy = FREE_WITHIN_REQ;
    } else if (has_prefix(value, "lag", &rest)) {
        if (!wl_parse_u64(rest, 1, REQUESTS_MAX, &count))
            bad_value("free_policy", value, "lag:N needs a number from 1 to 1000000");
        out->free_policy = FREE_LAG;
        out->lag = (uint32_t)count;
    } else if (has_prefix(value, "leak", &rest)) {
        if (!wl_parse_double(rest, 0.0, false, 100.0, &out->leak_pct))
            bad_value("free_policy", value, "leak:PCT needs a percentage from 0 to 100");
        out->free_policy = FREE_LEAK;
    } else {
        bad_value("free_policy", value, "must be within_req, lag:N or leak:PCT");
    }
}

static void apply(int option, const char *value, BenchOptions *out) {
    switch (option) {
    case OPT_ALLOCATOR:
        if (!wl_allocator_parse(value, &out->allocator)) bad_value("allocator", value, "must be tslab or malloc");
        break;
    case OPT_DURATION:
        if (!wl_parse_double(value, 0.0, true, DURATION_MAX_S, &out->duration_s))
            bad_value("duration_s", value, "must be seconds, more than 0 and at most 86400");
        break;
    case OPT_THREADS: out->threads = (uint32_t)number("threads", value, 1, THREADS_MAX); break;
    case OPT_RATE: out->req_rate = number("req_rate", value, 0, RATE_MAX); break;
    case OPT_OBJS_MIN: out->objs_min = (uint32_t)number("objs_min", value, 1, OBJECTS_MAX); break;
    case OPT_OBJS_MAX: out->objs_max = (uint32_t)number("objs_max", value, 1, OBJECTS_MAX); break;
    case OPT_SIZE: set_size(value, out); break;
    case OPT_EPOCH_POLICY: set_epoch_policy(value, out); break;
    case OPT_FREE_POLICY: set_free_policy(value, out); break;
    case OPT_RSS_SAMPLE: out->rss_sample_ms = number("rss_sample_ms", value, 1, SAMPLE_MAX_MS); break;
    case OPT_SEED: out->seed = number("seed", value, 0, INT64_MAX); break;
    case OPT_JSON:
        if (*value == '\0') bad_value("json", value, "needs a file name");
        out->json_path = value;
        break;
    default: break;
    }
}

static void check_combination(const BenchOptions *options) {
    if (options->objs_min > options->objs_max)
        wl_die(BENCH_EXIT_USAGE, TOOL, "--objs_min=%u: is above --objs_max=%u", options->objs_min, options->objs_max);
    uint64_t kept = bench_kept_requests(options) * options->objs_max * options->threads;
    if (kept > BENCH_POINTERS_MAX)
        wl_die(BENCH_EXIT_USAGE, TOOL,
               "--free_policy=lag:%u: with --objs_max=%u and --threads=%u keeps %llu objects, "
               "at most %llu are possible",
               options->lag, options->objs_max, options->threads, (unsigned long long)kept,
               (unsigned long long)BENCH_POINTERS_MAX);
}

void bench_options_parse(int argc, char **argv, BenchOptions *out) {
    const char *given[OPT_END - OPT_ALLOCATOR] = {NULL};
    int option;
    opterr = 0;
    while ((option = getopt_long(argc, argv, "+:h", long_options, NULL)) != -1) {
        if (option == OPT_HELP || option == 'h') {
            print_help();
            exit(0);
        }
        if (option == ':' || option == '?') wl_bad_option(TOOL, option, argv);
        wl_check_value(TOOL, argv);
        given[option - OPT_ALLOCATOR] = optarg;
    }
    if (optind < argc) wl_die(BENCH_EXIT_USAGE, TOOL, "%s: unexpected argument", argv[optind]);

    const char *pattern = given[OPT_PATTERN - OPT_ALLOCATOR];
    if (pattern == NULL) pattern = presets[0].name;
    if (!bench_options_preset(pattern, out))
        bad_value("pattern", pattern, "must be burst, steady, leak, hotspot or kernel");
    for (int i = OPT_ALLOCATOR; i < OPT_END; i++)
        if (given[i - OPT_ALLOCATOR] != NULL) apply(i, given[i - OPT_ALLOCATOR], out);
    check_combination(out);
}

void bench_epoch_policy_text(const BenchOptions *options, char *out, size_t capacity) {
    if (options->epoch_policy == POLICY_BATCH)
        snprintf(out, capacity, "batch:%u", options->batch);
    else
        snprintf(out, capacity, "%s", options->epoch_policy == POLICY_MANUAL ? "manual" : "per_req");
}

void bench_free_policy_text(const BenchOptions *options, char *out, size_t capacity) {
    if (options->free_policy == FREE_LAG)
        snprintf(out, capacity, "lag:%u", options->lag);
    else if (options->free_policy == FREE_LEAK)
        snprintf(out, capacity, "leak:%g", options->leak_pct);
    else
        snprintf(out, capacity, "within_req");
}
