/*
 * tail_attribution: for the slowest allocations and frees of a run, their steps, and whose time it was.
 *
 * Every operation is looked at by itself. Around it, outside of the two clock readings, are read: the allocator's
 * counters, the thread's processor time, its page faults and its context switches. The counters that moved tell which
 * steps the operation took beyond the fast path; tail_verdict.h draws the conclusion. Beside each operation stands an
 * empty one, looked at in the same way: the machine's own tail, in the same run.
 *
 * Work, again and again: an epoch is opened; objects of 16-1040 bytes are allocated; another thread frees one in twenty
 * of them, which are allocated again; half as many random ones are freed, others allocated; the epoch is closed, and
 * all are freed in order.
 *
 * The reading between the operations costs some microseconds and leaves the caches colder than a program would: the
 * times are for comparison with each other.
 */
#include "bench_clock.h"
#include "bench_csv.h"
#include "bench_util.h"
#include "tail_verdict.h"

#include <tslab/stats.h>
#include <tslab/tslab.h>

#include <errno.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>

enum {
    MIN_BYTES = 16,
    MAX_BYTES = 1040,
    FOREIGN_ONE_IN = 20,
    MAX_TOP = 10000,
    MAX_PATHS = 128,
    OCTAVE = 16,
    BUCKETS = 64 * OCTAVE
};
enum { OP_ALLOC, OP_FREE, OP_EMPTY, OPS };

static const char *const op_names[OPS] = {"alloc", "free", "empty"};
static const char *const step_names[TAIL_STEPS] = {"refill",        "new_slab",     "fresh_memory",
                                                   "foreign_drain", "slab_used_up", "slab_from_full",
                                                   "slab_emptied",  "purge",        "lock_wait"};
static const char *const verdict_names[TAIL_VERDICTS] = {"scheduler", "page_fault", "allocator", "machine"};
static const uint64_t limits_ns[] = {1000, 10000, 100000, 1000000};
enum { LIMITS = sizeof limits_ns / sizeof limits_ns[0] };

/* All that is read before and after an operation. */
typedef struct reading {
    SlabClassStats stats;
    struct rusage usage;
    uint64_t cpu_ns;
} reading;

typedef struct record {
    uint64_t index; /* of the operation in the run */
    uint64_t wall_ns, cpu_ns, minor_faults, major_faults, voluntary, involuntary;
    uint32_t steps;
    uint16_t bytes;
    uint8_t op;
} record;

/* All operations of one kind that took the same steps. */
typedef struct path {
    uint8_t op;
    uint32_t steps;
    uint64_t count, sum_ns, max_ns;
    uint64_t over[LIMITS];
    uint32_t bucket[BUCKETS]; /* OCTAVE to each power of two of nanoseconds */
} path;

static struct {
    uint64_t ops;
    size_t objects; /* of an epoch */
    size_t top;
    uint64_t seed;
    size_t retain_bytes;
    const char *csv;
    bool smoke;
} config = {.ops = 1000000, .objects = 100000, .top = 40, .seed = 1};

static SlabAllocator *allocator;
static double tick_ns;
static uint64_t floor_ticks, floor_cpu_ns;
static uint64_t done_ops;
static path *paths;
static unsigned path_count;
/* The slowest, slowest first. */
typedef struct slowest {
    record *records;
    size_t count;
} slowest;
static slowest top, top_empty; /* operations, and the empty ones beside them */

/* ---- reading ---------------------------------------------------------------------------------------------- */

static uint64_t thread_cpu_ns(void) {
    struct timespec now;
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
    return (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
}

static void read_before(reading *r) {
    if (!slab_stats_class(allocator, SLAB_ALL_CLASSES, &r->stats))
        bench_die(BENCH_EXIT_FAILED, "slab_stats_class failed");
    getrusage(RUSAGE_THREAD, &r->usage);
    r->cpu_ns = thread_cpu_ns();
}

static void read_after(reading *r) {
    r->cpu_ns = thread_cpu_ns();
    getrusage(RUSAGE_THREAD, &r->usage);
    if (!slab_stats_class(allocator, SLAB_ALL_CLASSES, &r->stats))
        bench_die(BENCH_EXIT_FAILED, "slab_stats_class failed");
}

/* foreign_frees counts at the free. An allocation that takes more objects of other threads in than its magazine has room
   for puts them into slabs that were full, which nothing else in an allocation does. The objects that the magazine
   takes cannot be told, nor those that a free takes in. */
static uint32_t steps_between(unsigned op, const SlabClassStats *a, const SlabClassStats *b) {
    uint32_t steps = 0;
    if (b->slow_path_hits != a->slow_path_hits) steps |= TAIL_STEP_REFILL;
    if (b->new_slab_count != a->new_slab_count) steps |= TAIL_STEP_SLAB;
    if (b->slow_path_cache_miss != a->slow_path_cache_miss) steps |= TAIL_STEP_FRESH;
    if (b->list_move_partial_to_full != a->list_move_partial_to_full) steps |= TAIL_STEP_LAST;
    if (b->list_move_full_to_partial != a->list_move_full_to_partial)
        steps |= op == OP_ALLOC ? TAIL_STEP_DRAIN : TAIL_STEP_FULL;
    if (b->empty_slab_recycled != a->empty_slab_recycled) steps |= TAIL_STEP_EMPTY;
    if (b->madvise_calls != a->madvise_calls) steps |= TAIL_STEP_PURGE;
    if (b->lock_contended != a->lock_contended) steps |= TAIL_STEP_LOCK;
    return steps;
}

static const char *steps_text(uint32_t steps) {
    static char text[256];
    size_t used = 0;
    if (steps == 0) return "fast";
    for (unsigned i = 0; i < TAIL_STEPS; i++)
        if (steps & 1u << i)
            used += (size_t)snprintf(text + used, sizeof text - used, "%s%s", used ? "+" : "", step_names[i]);
    return text;
}

/* ---- paths -------------------------------------------------------------------------------------------------- */

static unsigned bucket_of(uint64_t ns) {
    if (ns < OCTAVE) return (unsigned)ns;
    unsigned high = 63u - (unsigned)__builtin_clzll(ns);
    return (high - 3) * OCTAVE + (unsigned)(ns >> (high - 4) & (OCTAVE - 1));
}

/* The largest value of a bucket. */
static uint64_t bucket_edge(unsigned bucket) {
    if (bucket < OCTAVE) return bucket;
    unsigned high = bucket / OCTAVE + 3;
    return (((uint64_t)OCTAVE + bucket % OCTAVE + 1) << (high - 4)) - 1;
}

static uint64_t path_percentile_ns(const path *p, double fraction) {
    uint64_t seen = 0;
    for (unsigned i = 0; i < BUCKETS; i++) {
        seen += p->bucket[i];
        if ((double)seen >= fraction * (double)p->count) return bucket_edge(i) < p->max_ns ? bucket_edge(i) : p->max_ns;
    }
    return p->max_ns;
}

static path *path_of(unsigned op, uint32_t steps) {
    for (unsigned i = 0; i < path_count; i++)
        if (paths[i].op == op && paths[i].steps == steps) return &paths[i];
    if (path_count == MAX_PATHS) bench_die(BENCH_EXIT_FAILED, "more than %d different paths", MAX_PATHS);
    path *p = &paths[path_count++];
    p->op = (uint8_t)op;
    p->steps = steps;
    return p;
}

static void insert(slowest *list, const record *r) {
    if (list->count == config.top && r->wall_ns <= list->records[list->count - 1].wall_ns) return;
    size_t at = list->count < config.top ? list->count++ : list->count - 1;
    for (; at > 0 && list->records[at - 1].wall_ns < r->wall_ns; at--) list->records[at] = list->records[at - 1];
    list->records[at] = *r;
}

/* Of as many empty operations, those that took as long or longer, as far as they are known. */
static size_t empty_as_slow(const record *r) {
    size_t n = 0;
    while (n < top_empty.count && top_empty.records[n].wall_ns >= r->wall_ns) n++;
    return n;
}

static void note(const record *r) {
    path *p = path_of(r->op, r->steps);
    p->count++;
    p->sum_ns += r->wall_ns;
    if (r->wall_ns > p->max_ns) p->max_ns = r->wall_ns;
    for (unsigned i = 0; i < LIMITS; i++) p->over[i] += r->wall_ns > limits_ns[i];
    p->bucket[bucket_of(r->wall_ns)]++;
    insert(r->op == OP_EMPTY ? &top_empty : &top, r);
}

/* ---- operations ------------------------------------------------------------------------------------------- */

static void finish_record(unsigned op, size_t bytes, uint64_t ticks, const reading *before, const reading *after) {
    uint64_t net = ticks > floor_ticks ? ticks - floor_ticks : 0;
    uint64_t cpu_ns = after->cpu_ns - before->cpu_ns;
    record r = {
        .index = done_ops,
        .wall_ns = (uint64_t)((double)net * tick_ns),
        .cpu_ns = cpu_ns > floor_cpu_ns ? cpu_ns - floor_cpu_ns : 0,
        .minor_faults = (uint64_t)(after->usage.ru_minflt - before->usage.ru_minflt),
        .major_faults = (uint64_t)(after->usage.ru_majflt - before->usage.ru_majflt),
        .voluntary = (uint64_t)(after->usage.ru_nvcsw - before->usage.ru_nvcsw),
        .involuntary = (uint64_t)(after->usage.ru_nivcsw - before->usage.ru_nivcsw),
        .steps = steps_between(op, &before->stats, &after->stats),
        .bytes = (uint16_t)bytes,
        .op = (uint8_t)op,
    };
    note(&r);
}

static void look_at_nothing(void) {
    reading before, after;
    read_before(&before);
    uint64_t begin = bench_tick_begin();
    uint64_t end = bench_tick_end();
    read_after(&after);
    finish_record(OP_EMPTY, 0, end - begin, &before, &after);
}

static unsigned char *allocate(EpochId epoch, size_t bytes) {
    reading before, after;
    read_before(&before);
    uint64_t begin = bench_tick_begin();
    unsigned char *object = slab_malloc_epoch(allocator, bytes, epoch);
    uint64_t end = bench_tick_end();
    read_after(&after);
    if (object == NULL) bench_die(BENCH_EXIT_FAILED, "no memory for %zu bytes", bytes);
    finish_record(OP_ALLOC, bytes, end - begin, &before, &after);
    done_ops++;
    object[0] = 1;
    object[bytes - 1] = 1;
    look_at_nothing();
    return object;
}

static void release(unsigned char *object, size_t bytes) {
    reading before, after;
    read_before(&before);
    uint64_t begin = bench_tick_begin();
    bool freed = slab_free(allocator, object);
    uint64_t end = bench_tick_end();
    read_after(&after);
    if (!freed) bench_die(BENCH_EXIT_FAILED, "the free of the live object %p was refused", (void *)object);
    finish_record(OP_FREE, bytes, end - begin, &before, &after);
    done_ops++;
    look_at_nothing();
}

static int compare_u64(const void *left, const void *right) {
    uint64_t a = *(const uint64_t *)left, b = *(const uint64_t *)right;
    return (a > b) - (a < b);
}

/* The cost of looking by itself: the median over many. */
static void measure_floor(void) {
    enum { SAMPLES = 5000 };
    uint64_t *ticks = bench_map(SAMPLES * sizeof *ticks), *cpu = bench_map(SAMPLES * sizeof *cpu);
    for (unsigned i = 0; i < SAMPLES; i++) {
        uint64_t cpu_begin = thread_cpu_ns();
        uint64_t begin = bench_tick_begin();
        ticks[i] = bench_tick_end() - begin;
        cpu[i] = thread_cpu_ns() - cpu_begin;
    }
    qsort(ticks, SAMPLES, sizeof *ticks, compare_u64);
    qsort(cpu, SAMPLES, sizeof *cpu, compare_u64);
    floor_ticks = ticks[SAMPLES / 2];
    floor_cpu_ns = cpu[SAMPLES / 2];
    bench_unmap(ticks, SAMPLES * sizeof *ticks);
    bench_unmap(cpu, SAMPLES * sizeof *cpu);
}

/* ---- the work ------------------------------------------------------------------------------------------------ */

typedef struct live {
    unsigned char *object;
    uint16_t bytes;
} live;

typedef struct handed_over {
    live *objects;
    size_t count, stride;
} handed_over;

static void *free_elsewhere(void *arg) {
    const handed_over *h = arg;
    for (size_t i = 0; i < h->count; i += h->stride)
        if (!slab_free(allocator, h->objects[i].object))
            bench_die(BENCH_EXIT_FAILED, "the other thread's free of the live object %p was refused",
                      (void *)h->objects[i].object);
    return NULL;
}

static size_t random_bytes(bench_rng *rng) { return MIN_BYTES + bench_rng_below(rng, MAX_BYTES - MIN_BYTES + 1); }

static void one_epoch(live *objects, size_t count, bench_rng *rng) {
    pthread_t other;
    handed_over h = {objects, count, FOREIGN_ONE_IN};
    EpochId epoch = epoch_open(allocator, "tail", EPOCH_CHURN);
    if (epoch == EPOCH_NONE) bench_die(BENCH_EXIT_FAILED, "epoch_open failed");
    for (size_t i = 0; i < count; i++) {
        objects[i].bytes = (uint16_t)random_bytes(rng);
        objects[i].object = allocate(epoch, objects[i].bytes);
    }
    if (pthread_create(&other, NULL, free_elsewhere, &h) != 0 || pthread_join(other, NULL) != 0)
        bench_die(BENCH_EXIT_FAILED, "a second thread cannot be started");
    for (size_t i = 0; i < count; i += FOREIGN_ONE_IN) objects[i].object = allocate(epoch, objects[i].bytes);
    for (size_t n = 0; n < count / 2; n++) {
        live *victim = &objects[bench_rng_below(rng, (uint32_t)count)];
        release(victim->object, victim->bytes);
        victim->bytes = (uint16_t)random_bytes(rng);
        victim->object = allocate(epoch, victim->bytes);
    }
    if (!epoch_close(allocator, epoch)) bench_die(BENCH_EXIT_FAILED, "epoch_close failed");
    for (size_t i = 0; i < count; i++) release(objects[i].object, objects[i].bytes);
    if (epoch_state(allocator, epoch) != EPOCH_CLOSED)
        bench_die(BENCH_EXIT_FAILED, "all objects of a closed epoch were freed, and it is not CLOSED");
}

static void run(void) {
    SlabOptions options = {.size = sizeof options, .retain_bytes = config.retain_bytes};
    live *objects = bench_map(config.objects * sizeof *objects);
    bench_rng rng = {config.seed};
    SlabGlobalStats stats;
    allocator = slab_allocator_create_ex(&options);
    if (allocator == NULL) bench_die(BENCH_EXIT_FAILED, "slab_allocator_create_ex failed");
    paths = bench_map(MAX_PATHS * sizeof *paths);
    top.records = bench_map(config.top * sizeof *top.records);
    top_empty.records = bench_map(config.top * sizeof *top_empty.records);
    tick_ns = bench_clock_calibrate();
    measure_floor();
    while (done_ops < config.ops) one_epoch(objects, config.objects, &rng);
    if (!slab_stats_global(allocator, &stats) || stats.live_objects != 0 || stats.rejected_frees_total != 0 ||
        stats.allocated_objects_total != stats.freed_objects_total)
        bench_die(BENCH_EXIT_FAILED,
                  "everything was freed, and the allocator counts %llu live objects and %llu refused frees",
                  (unsigned long long)stats.live_objects, (unsigned long long)stats.rejected_frees_total);
    slab_allocator_free(allocator);
    bench_unmap(objects, config.objects * sizeof *objects);
}

/* The allocator's own timing of every operation (option sample_rate), which takes the fast paths away. */
static SlabThreadStats run_sampled(void) {
    SlabOptions options = {.size = sizeof options, .sample_rate = 1};
    size_t count = config.objects;
    bench_rng rng = {config.seed};
    void **objects = bench_map(count * sizeof *objects);
    SlabAllocator *sampled = slab_allocator_create_ex(&options);
    EpochId epoch = epoch_open(sampled, "sampled", EPOCH_CHURN);
    for (size_t i = 0; i < count; i++) {
        objects[i] = slab_malloc_epoch(sampled, random_bytes(&rng), epoch);
        if (objects[i] == NULL) bench_die(BENCH_EXIT_FAILED, "no memory in the sampled run");
    }
    for (size_t i = 0; i < count; i++)
        if (!slab_free(sampled, objects[i])) bench_die(BENCH_EXIT_FAILED, "a free was refused in the sampled run");
    SlabThreadStats stats = slab_stats_thread();
    slab_allocator_free(sampled);
    bench_unmap(objects, count * sizeof *objects);
    if (stats.alloc_samples < count || stats.free_samples < count)
        bench_die(BENCH_EXIT_FAILED, "with sample_rate 1 the allocator timed %llu allocations of %zu",
                  (unsigned long long)stats.alloc_samples, count);
    return stats;
}

/* ---- report -------------------------------------------------------------------------------------------------- */

static tail_verdict judge(const record *r) {
    const path *p = path_of(r->op, r->steps);
    tail_facts facts = {
        .steps = r->steps,
        .wall_ns = r->wall_ns,
        .cpu_ns = r->cpu_ns,
        .faults = r->minor_faults + r->major_faults,
        .switches = r->voluntary + r->involuntary,
        .path_p99_ns = p->count >= 200 ? path_percentile_ns(p, 0.99) : 0,
    };
    return tail_judge(&facts);
}

static uint64_t wait_ns(const record *r) { return r->wall_ns > r->cpu_ns ? r->wall_ns - r->cpu_ns : 0; }

static int compare_paths(const void *left, const void *right) {
    const path *a = left, *b = right;
    if (a->op != b->op) return a->op < b->op ? -1 : 1;
    return a->count < b->count ? 1 : a->count > b->count ? -1 : 0;
}

static void print_paths(void) {
    printf("%-6s %10s %8s %8s %9s %8s %7s %7s %6s  %s\n", "op", "count", "p50_ns", "p99_ns", "max_ns", ">1us", ">10us",
           ">100us", ">1ms", "path");
    for (unsigned i = 0; i < path_count; i++) {
        const path *p = &paths[i];
        printf("%-6s %10llu %8llu %8llu %9llu %8llu %7llu %7llu %6llu  %s\n", op_names[p->op],
               (unsigned long long)p->count, (unsigned long long)path_percentile_ns(p, 0.5),
               (unsigned long long)path_percentile_ns(p, 0.99), (unsigned long long)p->max_ns,
               (unsigned long long)p->over[0], (unsigned long long)p->over[1], (unsigned long long)p->over[2],
               (unsigned long long)p->over[3], p->op == OP_EMPTY ? "no operation" : steps_text(p->steps));
    }
}

static void print_top(void) {
    uint64_t count[TAIL_VERDICTS] = {0}, sum[TAIL_VERDICTS] = {0}, all = 0;
    printf("\n%5s %-5s %5s %9s %9s %9s %6s %8s %13s %-10s %s\n", "rank", "op", "bytes", "wall_ns", "cpu_ns", "wait_ns",
           "faults", "switches", "empty_as_slow", "verdict", "path");
    for (size_t i = 0; i < top.count; i++) {
        const record *r = &top.records[i];
        tail_verdict verdict = judge(r);
        count[verdict]++;
        sum[verdict] += r->wall_ns;
        all += r->wall_ns;
        printf("%5zu %-5s %5u %9llu %9llu %9llu %6llu %8llu %13zu %-10s %s\n", i + 1, op_names[r->op], r->bytes,
               (unsigned long long)r->wall_ns, (unsigned long long)r->cpu_ns, (unsigned long long)wait_ns(r),
               (unsigned long long)(r->minor_faults + r->major_faults),
               (unsigned long long)(r->voluntary + r->involuntary), empty_as_slow(r), verdict_names[verdict],
               steps_text(r->steps));
    }
    printf("\nof the %zu slowest of %llu operations:", top.count, (unsigned long long)done_ops);
    for (unsigned v = 0; v < TAIL_VERDICTS; v++)
        printf(" %s %llu (%.0f %% of their time)%s", verdict_names[v], (unsigned long long)count[v],
               all ? 100.0 * (double)sum[v] / (double)all : 0.0, v + 1 < TAIL_VERDICTS ? "," : "\n");
}

static void print_sampled(const SlabThreadStats *s) {
    printf("the allocator's own timing of every operation, fast paths off: alloc %llu ns wall, %llu ns cpu, %llu ns "
           "wait on "
           "average, at most %llu ns; free %llu, %llu, %llu, at most %llu\n",
           (unsigned long long)(s->alloc_wall_ns_sum / s->alloc_samples),
           (unsigned long long)(s->alloc_cpu_ns_sum / s->alloc_samples),
           (unsigned long long)(s->alloc_wait_ns_sum / s->alloc_samples), (unsigned long long)s->alloc_wall_ns_max,
           (unsigned long long)(s->free_wall_ns_sum / s->free_samples),
           (unsigned long long)(s->free_cpu_ns_sum / s->free_samples),
           (unsigned long long)(s->free_wait_ns_sum / s->free_samples), (unsigned long long)s->free_wall_ns_max);
}

static void write_rows(FILE *file) {
    fputs("allocator,version,rank,op,bytes,path,verdict,wall_ns,cpu_ns,wait_ns,minor_faults,major_faults,voluntary_"
          "switches,"
          "involuntary_switches,path_p50_ns,path_p99_ns,operation,operations,empty_as_slow,allocations,slow_"
          "allocations\n",
          file);
    uint64_t allocations = 0, slow = 0; /* slow: looked for a slab */
    for (size_t i = 0; i < path_count; i++) {
        if (paths[i].op != OP_ALLOC) continue;
        allocations += paths[i].count;
        if (paths[i].steps & TAIL_STEP_REFILL) slow += paths[i].count;
    }
    for (size_t i = 0; i < top.count; i++) {
        const record *r = &top.records[i];
        const path *p = path_of(r->op, r->steps);
        fprintf(file, "tslab,%s,%zu,%s,%u,%s,%s,%llu,%llu,%llu,%llu,%llu,%llu,%llu,%llu,%llu,%llu,%llu,%zu,%llu,%llu\n",
                slab_version(), i + 1, op_names[r->op], r->bytes, steps_text(r->steps), verdict_names[judge(r)],
                (unsigned long long)r->wall_ns, (unsigned long long)r->cpu_ns, (unsigned long long)wait_ns(r),
                (unsigned long long)r->minor_faults, (unsigned long long)r->major_faults,
                (unsigned long long)r->voluntary, (unsigned long long)r->involuntary,
                (unsigned long long)path_percentile_ns(p, 0.5), (unsigned long long)path_percentile_ns(p, 0.99),
                (unsigned long long)r->index, (unsigned long long)done_ops, empty_as_slow(r),
                (unsigned long long)allocations, (unsigned long long)slow);
    }
}

/* ---- command line ---------------------------------------------------------------------------------------------- */

static void print_usage(FILE *out) {
    fprintf(out,
            "usage: tail_attribution [--csv FILE] [--ops N] [--top N] [--seed N] [--quick] | --smoke [--csv FILE] | "
            "--help\n"
            "\n"
            "  --csv FILE  write the slowest operations to FILE too\n"
            "  --ops N     operations, at least (default 1,000,000; up to 1,000,000,000)\n"
            "  --top N     how many of the slowest (default 40; up to %d)\n"
            "  --seed N    seed of sizes and victims (default 1)\n"
            "  --quick     200,000 operations, at least\n"
            "  --smoke     a few thousand operations, with so little memory kept that every path is taken\n",
            MAX_TOP);
}

_Noreturn static void usage_error(const char *what, const char *value) {
    bench_die(BENCH_EXIT_USAGE, "tail_attribution: %s '%s' (see --help)", what, value);
}

static uint64_t parse_number(const char *what, const char *text, uint64_t low, uint64_t high) {
    char *end;
    errno = 0;
    unsigned long long value = strtoull(text, &end, 10);
    if (text[0] < '0' || text[0] > '9' || *end != '\0' || errno != 0 || value < low || value > high)
        usage_error(what, text);
    return value;
}

static const char *option_value(int argc, char **argv, int *i) {
    return bench_option_value("tail_attribution", "", argc, argv, i);
}

static void parse(int argc, char **argv) {
    for (int i = 1; i < argc; i++) {
        const char *option = argv[i];
        if (strcmp(option, "--csv") == 0) {
            config.csv = option_value(argc, argv, &i);
        } else if (strcmp(option, "--ops") == 0) {
            config.ops = parse_number("--ops takes a whole number from 1 to 1000000000, not",
                                      option_value(argc, argv, &i), 1, 1000000000);
        } else if (strcmp(option, "--top") == 0) {
            config.top = parse_number("--top takes a whole number from 1 to 10000, not", option_value(argc, argv, &i),
                                      1, MAX_TOP);
        } else if (strcmp(option, "--seed") == 0) {
            config.seed = parse_number("--seed takes a whole number, not", option_value(argc, argv, &i), 0, UINT64_MAX);
        } else if (strcmp(option, "--quick") == 0) {
            config.ops = 200000;
        } else if (strcmp(option, "--smoke") == 0) {
            config.smoke = true;
        } else if (strcmp(option, "--help") == 0) {
            print_usage(stdout);
            exit(0);
        } else {
            usage_error("unknown option", option);
        }
    }
    if (config.smoke) {
        config.ops = 30000;
        config.objects = 5000;
        config.retain_bytes = (size_t)256 << 10;
    }
}

/* The work of --smoke is such that it must take each of these. */
static void check_paths(void) {
    static const struct {
        unsigned op;
        uint32_t step;
    } wanted[] = {{OP_ALLOC, TAIL_STEP_REFILL}, {OP_ALLOC, TAIL_STEP_SLAB}, {OP_ALLOC, TAIL_STEP_FRESH},
                  {OP_ALLOC, TAIL_STEP_LAST},   {OP_FREE, TAIL_STEP_FULL},  {OP_FREE, TAIL_STEP_EMPTY},
                  {OP_FREE, TAIL_STEP_PURGE}};
    uint64_t counted = 0, fast = 0;
    for (unsigned i = 0; i < path_count; i++) {
        if (paths[i].op == OP_EMPTY && paths[i].steps != 0)
            bench_die(BENCH_EXIT_FAILED, "counters moved around no operation at all: %s", steps_text(paths[i].steps));
        if (paths[i].op != OP_EMPTY) counted += paths[i].count;
        if (paths[i].op != OP_EMPTY && paths[i].steps == 0) fast += paths[i].count;
    }
    if (counted != done_ops) bench_die(BENCH_EXIT_FAILED, "not every operation was counted");
    if (fast < counted / 2) bench_die(BENCH_EXIT_FAILED, "most operations should take the fast path, and did not");
    for (unsigned w = 0; w < sizeof wanted / sizeof wanted[0]; w++) {
        bool found = false;
        for (unsigned i = 0; i < path_count; i++)
            if (paths[i].op == wanted[w].op && (paths[i].steps & wanted[w].step)) found = true;
        if (!found)
            bench_die(BENCH_EXIT_FAILED, "no %s was seen to take the step %s", op_names[wanted[w].op],
                      steps_text(wanted[w].step));
    }
}

int main(int argc, char **argv) {
    bench_watch_stdout();
    parse(argc, argv);
    if (!config.smoke && !bench_clock_is_invariant())
        bench_die(BENCH_EXIT_UNAVAILABLE, "the tick counter %s of this processor changes its rate", BENCH_TICK_SOURCE);
    FILE *csv = bench_csv_open("tail_attribution", config.csv);
    run();
    SlabThreadStats sampled = run_sampled();
    qsort(paths, path_count, sizeof *paths, compare_paths);
    if (config.smoke) check_paths();
    print_paths();
    print_top();
    print_sampled(&sampled);
    if (csv != NULL) write_rows(csv);
    bench_csv_close(csv);
    return 0;
}
