/*
 * The command line of core_bench, and the common part of its works. See README.md for the method.
 */
#include "core_bench.h"

#include "bench_clock.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>

typedef struct work_entry {
    const char *name;
    core_work *run;
    const char *metric; /* the one that targets.csv speaks of */
    const char *summary;
} work_entry;

static const work_entry works[] = {
    {"fifo_replace", core_fifo_replace, "pair_ns", "100,000 live x 128 B: free the oldest, allocate one"},
    {"random_replace_100k", core_random_replace_100k, "pair_ns",
     "100,000 live x 128 B: free a random one, allocate one"},
    {"free_all_alloc_all", core_free_all_alloc_all, "pair_ns", "free all of 100,000 x 128 B, then allocate all"},
    {"random_replace_2k", core_random_replace_2k, "pair_ns", "2,000 live x 128 B: free a random one, allocate one"},
    {"mixed_400", core_mixed_400, "op_ns", "400 slots, 16-1039 B: a random slot is freed if full, else allocated"},
    {"request", core_request, "object_ns", "80-200 objects of 48-700 B, first and last byte written, then all dropped"},
    {"threads_1", core_threads_1, "pair_ns", "1 thread, random replace over 2,000 live x 128 B"},
    {"threads_2", core_threads_2, "pair_ns", "2 threads, the same over 2,000 live each"},
    {"threads_8", core_threads_8, "pair_ns", "8 threads, the same"},
    {"threads_16", core_threads_16, "pair_ns", "16 threads, the same"},
    {"producer_consumer", core_producer_consumer, "object_ns", "one thread allocates 128 B, another frees"},
    {"tail_order", core_tail_order, "p999_ns", "100,000 live x 128 B: free 10 % in order, allocate them again"},
    {"tail_random", core_tail_random, "p999_ns", "the same with random victims"},
    {"tail_all", core_tail_all, "p9999_ns", "100,000 x 128 B: free all in order, allocate all again"},
    {"tail_order_free", core_tail_order_free, "p999_ns", "100,000 live x 128 B: free 10 % in order, each free timed"},
    {"small_32", core_small_32, "pair_ns", "2,000 live x 32 B: free a random one, allocate one"},
    {"small_16_48", core_small_16_48, "pair_ns", "the same with 16 to 48 B"},
    {"small_16_128", core_small_16_128, "pair_ns", "the same with 16 to 128 B"},
    {"small_16_48_100k", core_small_16_48_100k, "pair_ns", "100,000 live of 16 to 48 B"},
    {"middle_1_8k", core_middle_1_8k, "pair_ns", "2,000 live of 1 to 8 KB"},
    {"by_size", core_by_size, "pair_ns_8", "one size after the other, 8 B to 8 MiB: free a random one, allocate one"},
    {"large_500", core_large_500, "pair_ns", "500 live of 8.2-32 KB: free a random one, allocate one; peak memory"},
    {"large_100", core_large_100, "pair_ns", "the same with 100 live of 64 KB to 1 MB"},
    {"large_20", core_large_20, "pair_ns", "the same with 20 live of 1.1 to 8 MB"},
    {"memory", core_memory, "bytes_per_object", "resident bytes per live object, 100,000 x 128 B, all touched"},
#if PEER_HAS_DOMAINS
    {"handles_2k", core_handles_2k, "pair_ns", "random_replace_2k by handles: free_obj, alloc_obj_epoch"},
    {"destroy_1000", core_destroy_1000, "destroy_ns", "destroying a domain of 1,000 objects of 64-128 B"},
    {"destroy_200000", core_destroy_200000, "destroy_ns", "destroying a domain of 200,000 objects of 64-128 B"},
    {"destroy_growth", core_destroy_growth, "ratio",
     "200,000 objects against 1,000, side by side, caches equally cold"},
    {"domain_cycle", core_domain_cycle, "cycle_ns", "create a domain, allocate one object in it, destroy it"},
#endif
};
enum { WORK_COUNT = sizeof works / sizeof works[0] };

unsigned char core_null_object[2048];

static struct {
    const char *work;
    bool csv;
    bool quiet;
    peer_identity identity;
} output;

void core_emit(const char *metric, double value, const char *unit) {
    if (output.quiet) return;
    if (output.csv)
        printf("%s,%s,%s,%s,%.6g,%s\n", PEER_NAME, output.identity.version, output.work, metric, value, unit);
    else
        printf("%-9s %-8s %-20s %-24s %12.6g %s\n", PEER_NAME, output.identity.version, output.work, metric, value,
               unit);
}

/* ---- objects ---------------------------------------------------------------------------------- */

void core_out_of_memory(size_t size) {
    bench_die(BENCH_EXIT_FAILED, "%s: %s gave NULL for %zu bytes", output.work, PEER_NAME, size);
}

void core_refused(const void *object) {
    bench_die(BENCH_EXIT_FAILED, "%s: the free of the live object %p was refused", output.work, object);
}

static unsigned char pattern_byte(core_mark mark, size_t offset) {
    return (unsigned char)(mark.tag * 31u + mark.size * 7u + offset * 13u + 1u);
}

void core_fill(void *object, size_t size, uint32_t tag) {
    core_mark mark = {tag, (uint32_t)size};
    unsigned char *bytes = object;
    size_t align = size < 16 ? 8 : 16; /* a smaller object cannot hold a type of 16: peers leave it at 8 */
    if ((uintptr_t)object % align != 0)
        bench_die(BENCH_EXIT_FAILED, "%s: object %p of %zu bytes is not aligned to %zu", output.work, object, size,
                  align);
    memcpy(bytes, &mark, sizeof mark);
    for (size_t i = sizeof mark; i < size; i++) bytes[i] = pattern_byte(mark, i);
}

void core_verify(const void *object, uint32_t tag) {
    core_mark mark;
    const unsigned char *bytes = object;
    memcpy(&mark, bytes, sizeof mark);
    if (mark.tag != tag || mark.size > CORE_MOST_BYTES)
        bench_die(BENCH_EXIT_FAILED, "%s: object %p should carry tag %u and carries %u with %u bytes", output.work,
                  object, tag, mark.tag, mark.size);
    for (size_t i = sizeof mark; i < mark.size; i++)
        if (bytes[i] != pattern_byte(mark, i))
            bench_die(BENCH_EXIT_FAILED, "%s: byte %zu of object %p (%u bytes, tag %u) was overwritten", output.work, i,
                      object, mark.size, tag);
}

/* ---- blocks ----------------------------------------------------------------------------------- */

enum { MAX_BLOCKS = 100000 };

bool core_enough(const core_config *config, unsigned done, unsigned default_reps, uint64_t start_ns) {
    if (config->smoke) return done >= 2;
    if (config->seconds > 0 && config->reps == 0)
        return done >= MAX_BLOCKS || (double)(bench_now_ns() - start_ns) >= config->seconds * 1e9;
    return done >= (config->reps ? config->reps : default_reps);
}

void core_measure_blocks(const core_config *config, core_block *block, void *state, uint64_t ops, unsigned warmup,
                         unsigned default_reps, const char *metric) {
    double *values = bench_map(MAX_BLOCKS * sizeof *values);
    enum bench_mode mode = core_mode(config);
    unsigned done = 0;
    for (unsigned i = 0; i < (config->smoke ? 1 : warmup); i++) block(state, mode);
    uint64_t start_ns = bench_now_ns();
    while (!core_enough(config, done, default_reps, start_ns)) {
        uint64_t begin_ns = bench_now_ns();
        block(state, mode);
        uint64_t end_ns = bench_now_ns();
        values[done++] = (double)(end_ns - begin_ns) / (double)ops;
    }
    core_emit(metric, bench_median(values, done), "ns");
    bench_unmap(values, MAX_BLOCKS * sizeof *values);
}

void core_measure_floor(const core_config *config, core_block *block, void *state, uint64_t ops) {
    enum { FLOOR_BLOCKS = 5 };
    double values[FLOOR_BLOCKS];
    if (config->smoke) {
        block(state, MODE_EMPTY);
        return;
    }
    block(state, MODE_EMPTY);
    for (unsigned i = 0; i < FLOOR_BLOCKS; i++) {
        uint64_t begin_ns = bench_now_ns();
        block(state, MODE_EMPTY);
        values[i] = (double)(bench_now_ns() - begin_ns) / (double)ops;
    }
    core_emit("floor_ns", bench_median(values, FLOOR_BLOCKS), "ns");
}

uint32_t *core_random_slots(uint64_t seed, size_t count, uint32_t slots) {
    bench_rng rng = {seed};
    uint32_t *sequence = bench_map(count * sizeof *sequence);
    for (size_t i = 0; i < count; i++) sequence[i] = bench_rng_below(&rng, slots);
    return sequence;
}

/* ---- command line ----------------------------------------------------------------------------- */

static void print_usage(FILE *out) {
    fprintf(out,
            "usage: core_bench_%s --work NAME [--reps N | --seconds S] [--seed N] [--touch] [--csv]\n"
            "       core_bench_%s --list | --identify | --smoke | --help\n"
            "\n"
            "  --work NAME   measure one work, once, and print its metrics\n"
            "  --reps N      measure N blocks (1-%d; default: a number fixed per work)\n"
            "  --seconds S   measure blocks for S seconds instead (up to 600; destroy_* keep their number of samples)\n"
            "  --seed N      seed of sizes and order (default 1)\n"
            "  --touch       write the first byte of every new object in the works that do not say so themselves\n"
            "  --csv         allocator,version,work,metric,value,unit\n"
            "  --list        the works of this program: name, main metric, what it does\n"
            "  --identify    allocator,version,library,build\n"
            "  --smoke       every work with tiny amounts and every object checked\n",
            PEER_NAME, PEER_NAME, MAX_BLOCKS);
}

_Noreturn static void usage_error(const char *what, const char *value) {
    bench_die(BENCH_EXIT_USAGE, "core_bench_%s: %s '%s' (see --help)", PEER_NAME, what, value);
}

static uint64_t parse_count(const char *option, const char *text, uint64_t low, uint64_t high) {
    char what[80];
    char *end;
    errno = 0;
    unsigned long long value = strtoull(text, &end, 10);
    if (text[0] < '0' || text[0] > '9' || *end != '\0' || errno != 0 || value < low || value > high) {
        snprintf(what, sizeof what, "%s takes a whole number from %llu to %llu, not", option, (unsigned long long)low,
                 (unsigned long long)high);
        usage_error(what, text);
    }
    return value;
}

static double parse_seconds(const char *text) {
    char *end;
    errno = 0;
    double value = strtod(text, &end);
    if (end == text || *end != '\0' || errno != 0 || !(value > 0 && value <= 600))
        usage_error("--seconds takes a number above 0 and up to 600, not", text);
    return value;
}

static const work_entry *find_work(const char *name) {
    for (size_t i = 0; i < WORK_COUNT; i++)
        if (strcmp(works[i].name, name) == 0) return &works[i];
    usage_error("unknown work", name);
}

static int run_smoke(core_config config) {
    config.smoke = true;
    output.quiet = true;
    uint64_t begin_ns = bench_now_ns();
    for (size_t i = 0; i < WORK_COUNT; i++) {
        output.work = works[i].name;
        works[i].run(&config);
    }
    printf("core_bench_%s %s: %d works, every object checked, %.2f s\n", PEER_NAME, output.identity.version,
           (int)WORK_COUNT, (double)(bench_now_ns() - begin_ns) * 1e-9);
    return 0;
}

static const char *option_value(int argc, char **argv, int *i) {
    return bench_option_value("core_bench_", PEER_NAME, argc, argv, i);
}

int main(int argc, char **argv) {
    static char stdout_buffer[8192]; /* so that stdio takes nothing from the allocator under test */
    core_config config = {.seed = 1};
    const work_entry *work = NULL;
    enum { RUN_WORK, RUN_LIST, RUN_IDENTIFY, RUN_SMOKE } action = RUN_WORK;

#if !PEER_HAS_DOMAINS
    const char *peer = strstr(argv[0], "core_bench_");
    if (peer) peer_become(peer + strlen("core_bench_"), argv);
#endif
    setvbuf(stdout, stdout_buffer, _IOFBF, sizeof stdout_buffer);
    bench_watch_stdout();
    for (int i = 1; i < argc; i++) {
        const char *option = argv[i];
        if (strcmp(option, "--work") == 0) {
            work = find_work(option_value(argc, argv, &i));
        } else if (strcmp(option, "--reps") == 0) {
            config.reps = (unsigned)parse_count(option, option_value(argc, argv, &i), 1, MAX_BLOCKS);
        } else if (strcmp(option, "--seconds") == 0) {
            config.seconds = parse_seconds(option_value(argc, argv, &i));
        } else if (strcmp(option, "--seed") == 0) {
            config.seed = parse_count(option, option_value(argc, argv, &i), 0, UINT64_MAX);
        } else if (strcmp(option, "--touch") == 0) {
            config.touch = true;
        } else if (strcmp(option, "--csv") == 0) {
            output.csv = true;
        } else if (strcmp(option, "--list") == 0) {
            action = RUN_LIST;
        } else if (strcmp(option, "--identify") == 0) {
            action = RUN_IDENTIFY;
        } else if (strcmp(option, "--smoke") == 0) {
            action = RUN_SMOKE;
        } else if (strcmp(option, "--help") == 0) {
            print_usage(stdout);
            return 0;
        } else {
            usage_error("unknown option", option);
        }
    }
    if (config.reps != 0 && config.seconds > 0)
        bench_die(BENCH_EXIT_USAGE, "core_bench_%s: --reps and --seconds exclude each other", PEER_NAME);
    if (action == RUN_LIST) {
        for (size_t i = 0; i < WORK_COUNT; i++)
            printf("%s\t%s\t%s\n", works[i].name, works[i].metric, works[i].summary);
        return 0;
    }
    output.identity = peer_identify();
    if (action == RUN_IDENTIFY) {
        printf("%s,%s,%s,%s\n", PEER_NAME, output.identity.version, output.identity.library, bench_build_kind());
        return 0;
    }
    if (action == RUN_SMOKE) return run_smoke(config);
    if (work == NULL) bench_die(BENCH_EXIT_USAGE, "core_bench_%s: --work NAME is missing (see --list)", PEER_NAME);
    output.work = work->name;
    work->run(&config);
    return 0;
}
