/*
 * The cost of statistics: snapshots and renderers with many epochs open, each holding a few objects.
 *
 *     stats_bench [--epochs N] [--rounds N] [--smoke]
 *
 * One line per call: its median and largest time. --smoke: few epochs, one round, and the figures are checked.
 */
#include <tslab/stats.h>

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#define LABELS 20u

static SlabAllocator *allocator;
static EpochId *epochs;
static size_t epoch_count = 100000;
static unsigned rounds = 21;
static bool smoke;
static char *buffer;
static size_t capacity = (size_t)16 << 20;

static double now_us(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec * 1e6 + (double)t.tv_nsec / 1e3;
}

static void fail(const char *what) {
    fprintf(stderr, "stats_bench: %s\n", what);
    exit(1);
}

static void open_all(void) {
    epochs = malloc(epoch_count * sizeof *epochs);
    buffer = malloc(capacity);
    allocator = slab_allocator_create();
    if (!epochs || !buffer || !allocator) fail("no memory");
    for (size_t i = 0; i < epoch_count; i++) {
        char label[32];
        snprintf(label, sizeof label, "phase-%zu", i % LABELS);
        epochs[i] = epoch_open(allocator, label, i % 2 ? EPOCH_SCOPE : EPOCH_CHURN);
        if (epochs[i] == EPOCH_NONE) fail("epoch_open");
        for (size_t k = 0; k < 3; k++)
            if (!slab_malloc_epoch(allocator, 64 + 64 * (i + k) % 512, epochs[i])) fail("slab_malloc_epoch");
    }
}

static void do_global(void) {
    SlabGlobalStats stats;
    if (!slab_stats_global(allocator, &stats)) fail("slab_stats_global");
    if (stats.live_objects != 3 * epoch_count || stats.active_epoch_count != epoch_count) fail("wrong figures");
}

static void do_class(void) {
    SlabClassStats stats;
    if (!slab_stats_class(allocator, SLAB_CLASS_SCOPE, &stats)) fail("slab_stats_class");
    if (stats.live_objects != 3 * (epoch_count / 2)) fail("wrong figures of the class");
}

static void do_epoch(void) {
    SlabEpochStats stats;
    if (!slab_stats_epoch(allocator, SLAB_ALL_CLASSES, epochs[epoch_count - 1], &stats)) fail("slab_stats_epoch");
    if (stats.live_objects != 3) fail("wrong figures of the epoch");
}

static void render(size_t (*fn)(SlabAllocator *, char *, size_t), const char *has) {
    size_t length = fn(allocator, buffer, capacity);
    if (length == 0 || length >= capacity || !strstr(buffer, has)) fail("a renderer gives not what it should");
}
static void do_json(void) { render(slab_stats_json, "\"phase-7\""); }
static void do_prometheus(void) { render(slab_stats_prometheus, "label=\"phase-7\""); }
static void do_doctor(void) { render(slab_stats_doctor, "\n"); }
static void do_list(void) {
    size_t length = slab_stats_epochs_json(allocator, SLAB_EPOCHS_OLDEST, 100, buffer, capacity);
    if (length == 0 || length >= capacity || !strstr(buffer, "\"phase-7\"")) fail("slab_stats_epochs_json");
}

static int by_value(const void *a, const void *b) {
    double x = *(const double *)a, y = *(const double *)b;
    return x < y ? -1 : x > y;
}

static void measure(const char *name, void (*fn)(void)) {
    double time[101];
    fn();
    for (unsigned i = 0; i < rounds; i++) {
        double from = now_us();
        fn();
        time[i] = now_us() - from;
    }
    qsort(time, rounds, sizeof *time, by_value);
    printf("%-24s %12.1f us median %12.1f us max\n", name, time[rounds / 2], time[rounds - 1]);
}

static uint64_t number(const char *text, uint64_t max) {
    char *end;
    unsigned long long n = text ? strtoull(text, &end, 10) : 0;
    if (!text || *text < '0' || *text > '9' || *end || n == 0 || n > max) {
        fprintf(stderr, "stats_bench: '%s' is not a number from 1 to %" PRIu64 "\n", text ? text : "", max);
        exit(2);
    }
    return n;
}

int main(int argc, char **argv) {
    for (int i = 1; i < argc; i++) {
        if (strcmp(argv[i], "--smoke") == 0) {
            smoke = true;
        } else if (strcmp(argv[i], "--epochs") == 0) {
            epoch_count = (size_t)number(argv[++i], 10000000);
        } else if (strcmp(argv[i], "--rounds") == 0) {
            rounds = (unsigned)number(argv[++i], 101);
        } else {
            fprintf(stderr,
                    "stats_bench: unknown option '%s'\nusage: stats_bench [--epochs N] [--rounds N] [--smoke]\n",
                    argv[i]);
            return 2;
        }
    }
    if (smoke) {
        epoch_count = 1000;
        rounds = 1;
    }
    open_all();
    printf("%zu epochs open, %zu objects live\n", epoch_count, 3 * epoch_count);
    measure("slab_stats_global", do_global);
    measure("slab_stats_class", do_class);
    measure("slab_stats_epoch", do_epoch);
    measure("slab_stats_json", do_json);
    measure("slab_stats_prometheus", do_prometheus);
    measure("slab_stats_doctor", do_doctor);
    measure("slab_stats_epochs_json", do_list);
    slab_allocator_free(allocator);
    free(epochs);
    free(buffer);
    return 0;
}
