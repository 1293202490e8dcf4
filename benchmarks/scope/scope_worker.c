/*
 * Measures the cost of the peer's loops; one measurement per process. See scope_worker.h.
 */
#include "scope_worker.h"

#include "bench_clock.h"
#include "bench_util.h"

#include <errno.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum {
    BLOCK_NS = 100000,
    TURN_OVER_NS = 500000000,
    MAX_BLOCKS = 5000,
    MIN_BLOCKS = 3,
    MAX_TIMED = 200000,
    MIN_TIMED = 5,
    FLOOR_SAMPLES = 20000
};

#define NAME (scope_peer_here.name)

void scope_out_of_memory(size_t size) {
    bench_die(BENCH_EXIT_FAILED, "scope_bench_%s: no memory for %zu bytes", NAME, size);
}
void scope_wrong(const char *what) { bench_die(BENCH_EXIT_FAILED, "scope_bench_%s: %s", NAME, what); }
void scope_unavailable(const char *why) { bench_die(BENCH_EXIT_UNAVAILABLE, "%s", why); }

static unsigned char pattern(uint32_t tag, size_t size, size_t offset) {
    return (unsigned char)(tag * 31u + size * 7u + offset * 13u + 1u);
}

void scope_fill(void *object, size_t size, uint32_t tag) {
    unsigned char *bytes = object;
    for (size_t i = 0; i < size; i++) bytes[i] = pattern(tag, size, i);
}

void scope_verify(const void *object, size_t size, uint32_t tag) {
    const unsigned char *bytes = object;
    for (size_t i = 0; i < size; i++)
        if (bytes[i] != pattern(tag, size, i))
            bench_die(BENCH_EXIT_FAILED, "scope_bench_%s: byte %zu of object %p (%zu bytes) was overwritten", NAME, i,
                      object, size);
}

/* ---- one measurement --------------------------------------------------------------------------------- */

static const uint16_t *make_sizes(void) {
    bench_rng rng = {1};
    uint16_t *sizes = bench_map(SCOPE_SIZES * sizeof *sizes);
    for (size_t i = 0; i < SCOPE_SIZES; i++)
        sizes[i] = (uint16_t)(SCOPE_MIN_BYTES + bench_rng_below(&rng, SCOPE_MAX_BYTES - SCOPE_MIN_BYTES + 1));
    return sizes;
}

/* Bytes asked for by the objects that are live: the last ones allocated, as many as fit into all open scopes. */
static uint64_t live_payload(const scope_run *run) {
    uint64_t all = 0, part = 0;
    size_t objects = run->objects * run->open;
    for (size_t i = 0; i < SCOPE_SIZES; i++) all += run->sizes[i];
    for (size_t i = 1; i <= objects % SCOPE_SIZES; i++)
        part += run->sizes[(run->next_size + SCOPE_SIZES - i) % SCOPE_SIZES];
    return all * (objects / SCOPE_SIZES) + part;
}

/* Growth of the resident set since before the peer was started. */
static uint64_t grown(size_t base) {
    size_t now = bench_rss_bytes();
    return now > base ? now - base : 0;
}

/* Steps that take BLOCK_NS at least, so that the clock is a small part of a block. */
static size_t block_steps(scope_run *run) {
    for (size_t steps = 1;; steps *= 2) {
        uint64_t begin_ns = bench_now_ns();
        scope_peer_here.steps(run, steps);
        if (bench_now_ns() - begin_ns >= BLOCK_NS) return steps;
    }
}

/* Nanoseconds per object of each block; returns how many there are. */
static size_t measure_blocks(scope_run *run, double seconds, double *values) {
    size_t steps = block_steps(run), done = 0;
    uint64_t start_ns = bench_now_ns();
    while (done < MAX_BLOCKS && (done < MIN_BLOCKS || (double)(bench_now_ns() - start_ns) < seconds * 1e9)) {
        uint64_t begin_ns = bench_now_ns();
        scope_peer_here.steps(run, steps);
        uint64_t end_ns = bench_now_ns();
        values[done++] = (double)(end_ns - begin_ns) / (double)(steps * run->objects);
    }
    return done;
}

typedef void timed_loop(scope_run *run, size_t count, bench_hist *hist);

/* A percentile of the loop's times, less the cost of reading the clock. */
static double timed_ns(scope_run *run, timed_loop *loop, double fraction, double seconds, uint64_t *steps) {
    bench_hist *hist = bench_hist_create(), *clock = bench_hist_create();
    for (unsigned i = 0; i < FLOOR_SAMPLES; i++) {
        uint64_t begin = bench_tick_begin();
        uint64_t end = bench_tick_end();
        bench_hist_add(clock, end - begin);
    }
    double tick_ns = bench_clock_calibrate();
    uint64_t start_ns = bench_now_ns();
    while (hist->count < MAX_TIMED && (hist->count < MIN_TIMED || (double)(bench_now_ns() - start_ns) < seconds * 1e9))
        loop(run, run->objects >= 100 ? 1 : 10, hist);
    uint64_t step = bench_hist_step(clock);
    double ticks = bench_hist_percentile(hist, fraction, step) - bench_hist_percentile(clock, 0.5, step);
    *steps = hist->count;
    bench_hist_destroy(hist);
    bench_hist_destroy(clock);
    return ticks > 0 ? ticks * tick_ns : 0;
}

/* Fills all scopes, and then each again, or as many as come in a while: from then on memory is used anew. */
static void turn_over(scope_run *run) {
    uint64_t start_ns = bench_now_ns();
    size_t pieces = run->open < 64 ? run->open : 64;
    scope_peer_here.steps(run, run->open);
    for (size_t i = 0; i < pieces && bench_now_ns() - start_ns < TURN_OVER_NS; i++)
        scope_peer_here.steps(run, (run->open + pieces - 1) / pieces);
}

/* ns per object, p99 ns per step, timed steps, bytes at the peak, payload then, bytes after all were dropped, median ns of a drop */
static void measure(scope_run *run, double seconds) {
    double *values = bench_map(MAX_BLOCKS * sizeof *values);
    size_t base = bench_rss_bytes();
    uint64_t timed_steps, timed_drops;
    scope_peer_here.start(run);
    turn_over(run);
    size_t blocks = measure_blocks(run, seconds, values);
    uint64_t peak = grown(base), payload = live_payload(run);
    double p99_ns = timed_ns(run, scope_peer_here.steps_timed, 0.99, seconds / 2, &timed_steps);
    double drop_ns = timed_ns(run, scope_peer_here.drops_timed, 0.5, seconds / 2, &timed_drops);
    scope_peer_here.drop_all(run);
    uint64_t after = grown(base);
    scope_peer_here.finish();
    printf("%.4f,%.1f,%llu,%llu,%llu,%llu,%.1f\n", bench_median(values, blocks), p99_ns,
           (unsigned long long)timed_steps, (unsigned long long)peak, (unsigned long long)payload,
           (unsigned long long)after, drop_ns);
}

static void check(const uint16_t *sizes) {
    static const struct {
        size_t objects, open, steps;
    } shapes[] = {{1, 1, 50}, {1, 200, 500}, {10, 7, 50}, {100, 3, 20}, {3000, 2, 6}};
    scope_run start = {.sizes = sizes, .objects = 3000, .open = 200};
    scope_peer_here.start(&start);
    for (size_t i = 0; i < sizeof shapes / sizeof shapes[0]; i++) {
        scope_run run = {.sizes = sizes, .objects = shapes[i].objects, .open = shapes[i].open};
        scope_peer_here.check(&run, shapes[i].steps);
        scope_peer_here.steps(&run, run.open + 1);
        scope_peer_here.drop_all(&run);
    }
    scope_peer_here.finish();
}

/* ---- command line -------------------------------------------------------------------------------------- */

static void print_usage(FILE *out) {
    fprintf(out,
            "usage: scope_bench_%s --objects N --open N [--seconds S]\n"
            "       scope_bench_%s --identify | --smoke | --help\n"
            "\n"
            "  --objects N   objects a scope (1-%d)\n"
            "  --open N      scopes open at once (1-%d); at most %d objects in all\n"
            "  --seconds S   measure for S seconds (default 0.04, up to 60)\n"
            "  --identify    allocator,version\n"
            "  --smoke       small scopes, every object filled, and compared before it is dropped\n"
            "\n"
            "Prints ns_per_object,p99_ns_per_scope,timed_scopes,peak_rss_bytes,payload_bytes,after_rss_bytes,\n"
            "drop_ns_per_scope.\n",
            NAME, NAME, SCOPE_MAX_OBJECTS, SCOPE_MAX_OPEN, SCOPE_MAX_OBJECTS);
}

_Noreturn static void usage_error(const char *what, const char *value) {
    bench_die(BENCH_EXIT_USAGE, "scope_bench_%s: %s '%s' (see --help)", NAME, what, value);
}

static const char *option_value(int argc, char **argv, int *i) {
    return bench_option_value("scope_bench_", NAME, argc, argv, i);
}

static size_t parse_count(const char *text, size_t high) {
    char *end;
    errno = 0;
    unsigned long value = strtoul(text, &end, 10);
    if (text[0] < '0' || text[0] > '9' || *end != '\0' || errno != 0 || value == 0 || value > high)
        usage_error("not a number in its range:", text);
    return value;
}

static double parse_seconds(const char *text) {
    char *end;
    errno = 0;
    double value = strtod(text, &end);
    if (end == text || *end != '\0' || errno != 0 || !(value > 0 && value <= 60))
        usage_error("--seconds takes a number above 0 and up to 60, not", text);
    return value;
}

int main(int argc, char **argv) {
    static char stdout_buffer[4096]; /* so that stdio takes nothing from the allocator under test */
    scope_run run = {0};
    double seconds = 0.04;
    bool smoke = false;
    int cpus[1024];

    setvbuf(stdout, stdout_buffer, _IOFBF, sizeof stdout_buffer);
    for (int i = 1; i < argc; i++) {
        const char *option = argv[i];
        if (strcmp(option, "--objects") == 0) {
            run.objects = parse_count(option_value(argc, argv, &i), SCOPE_MAX_OBJECTS);
        } else if (strcmp(option, "--open") == 0) {
            run.open = parse_count(option_value(argc, argv, &i), SCOPE_MAX_OPEN);
        } else if (strcmp(option, "--seconds") == 0) {
            seconds = parse_seconds(option_value(argc, argv, &i));
        } else if (strcmp(option, "--identify") == 0) {
            char version[64];
            scope_peer_here.version(version, sizeof version);
            printf("%s,%s\n", NAME, version);
            return 0;
        } else if (strcmp(option, "--smoke") == 0) {
            smoke = true;
        } else if (strcmp(option, "--help") == 0) {
            print_usage(stdout);
            return 0;
        } else {
            usage_error("unknown option", option);
        }
    }
    run.sizes = make_sizes();
    if (smoke) {
        check(run.sizes);
        return 0;
    }
    if (run.objects == 0 || run.open == 0) usage_error("needed:", run.objects == 0 ? "--objects" : "--open");
    if (run.objects > SCOPE_MAX_OBJECTS / run.open) usage_error("too many objects in all:", "--objects x --open");
    if (!bench_clock_is_invariant())
        scope_unavailable("the tick counter " BENCH_TICK_SOURCE " of this processor changes its rate");
    int count = bench_cpus(cpus, (int)(sizeof cpus / sizeof cpus[0]));
    if (count > 0 && count <= (int)(sizeof cpus / sizeof cpus[0])) bench_pin_thread(cpus[count - 1]);
    measure(&run, seconds);
    return 0;
}
