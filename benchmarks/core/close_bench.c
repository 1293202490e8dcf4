/*
 * Ends of epochs beside threads that allocate and free without pause, more of them than there are processors.
 *
 *     close_bench [--threads N] [--calls N] [--pause US] [--csv FILE] [--quick] [--smoke]      8 threads, 2,000 calls,
 *     1,000 us
 *
 * One line for each kind of end: epoch_advance, epoch_close, epoch_destroy, epoch_domain_reset and slab_trim. `raw` is
 * the time of the call on the clock. `net` is less the time that the calling thread stood in the run queue
 * (/proc/thread-self/schedstat), which is the system's: the rest is the work of the call, and its waits for others.
 * Then the work that the last call left undone, before and after the next calls of every thread. --smoke: few calls,
 * and that is checked to be nothing.
 */
#include "bench_clock.h"
#include "bench_csv.h"
#include "bench_util.h"

#include <tslab/stats.h>

#include <fcntl.h>
#include <inttypes.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define LIVE 64u
#define MAX_THREADS 256u

typedef enum kind { ADVANCE, CLOSE, DESTROY, RESET, TRIM, KINDS } kind;
static const char *const kind_name[KINDS] = {"epoch_advance", "epoch_close", "epoch_destroy", "epoch_domain_reset",
                                             "slab_trim"};

static SlabAllocator *allocator;
static unsigned threads = 8, calls = 2000, pause_us = 1000;
static bool smoke;
static FILE *csv;
static _Atomic EpochId target; /* EPOCH_NONE: the rolling epoch */
static atomic_bool stop, last_call;
static pthread_barrier_t meet;

/* ---- threads without a pause ---------------------------------------------------------------------------------- */

static void *work(EpochId *epoch, size_t bytes) {
    EpochId now = atomic_load_explicit(&target, memory_order_relaxed);
    *epoch = now;
    return now == EPOCH_NONE ? slab_malloc(allocator, bytes) : slab_malloc_epoch(allocator, bytes, now);
}

static void *busy(void *argument) {
    void *live[LIVE] = {NULL};
    bench_rng rng = {.state = (uintptr_t)argument};
    EpochId epoch;
    while (!atomic_load_explicit(&stop, memory_order_relaxed)) {
        uint32_t i = bench_rng_below(&rng, LIVE);
        (void)slab_free(allocator, live[i]); /* false: it died with its epoch */
        live[i] = work(&epoch, 16 + bench_rng_below(&rng, 512));
    }
    for (unsigned i = 0; i < LIVE; i++) (void)slab_free(allocator, live[i]);
    pthread_barrier_wait(&meet); /* nobody is in the middle of a call */
    pthread_barrier_wait(&meet);
    if (atomic_load(&last_call)) {
        void *p = slab_malloc(allocator, 100);
        if (!p || !slab_free(allocator, p)) bench_die(BENCH_EXIT_FAILED, "close_bench: slab_malloc");
    }
    pthread_barrier_wait(&meet);
    pthread_barrier_wait(&meet);
    return NULL;
}

/* ---- the ends --------------------------------------------------------------------------------------------------- */

static int schedstat = -1;

/* Nanoseconds that the calling thread has stood in the run queue. */
static uint64_t queued_ns(void) {
    char text[96];
    ssize_t n = schedstat < 0 ? -1 : pread(schedstat, text, sizeof text - 1, 0);
    if (n <= 0) return 0;
    text[n] = 0;
    uint64_t ran, waited;
    return sscanf(text, "%" SCNu64 " %" SCNu64, &ran, &waited) == 2 ? waited : 0;
}

static void prepare(kind k, EpochDomain **domain) {
    EpochId next = EPOCH_NONE;
    if (k == CLOSE || k == DESTROY) next = epoch_open(allocator, NULL, EPOCH_CHURN);
    if (k == RESET && !*domain) {
        *domain = epoch_domain_create_ex(allocator, NULL, EPOCH_DOMAIN_SHARED | EPOCH_CHURN);
        next = epoch_domain_epoch(*domain);
    }
    if (k != RESET || next != EPOCH_NONE) atomic_store(&target, next);
}

static bool end(kind k, EpochId epoch, EpochDomain *domain) {
    switch (k) {
    case ADVANCE: return epoch_advance(allocator) != EPOCH_NONE;
    case CLOSE: return epoch_close(allocator, epoch);
    case DESTROY: return epoch_destroy(allocator, epoch);
    case RESET: return epoch_domain_reset(domain, SIZE_MAX);
    default: slab_trim(allocator); return true;
    }
}

static int by_value(const void *a, const void *b) {
    uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;
    return (x > y) - (x < y);
}

static void print_times(kind k, const char *what, uint64_t *ns) {
    uint64_t sum = 0;
    for (unsigned i = 0; i < calls; i++) sum += ns[i];
    qsort(ns, calls, sizeof *ns, by_value);
    printf("  %s mean %.1f  p50 %.1f  p99 %.1f  p99.9 %.1f  max %.1f us\n", what, (double)sum / calls / 1e3,
           (double)ns[calls / 2] / 1e3, (double)ns[calls * 99ul / 100] / 1e3, (double)ns[calls * 999ul / 1000] / 1e3,
           (double)ns[calls - 1] / 1e3);
    if (csv)
        (void)fprintf(csv, "%s,%s,%u,%u,%.1f,%" PRIu64 ",%" PRIu64 ",%" PRIu64 "\n", kind_name[k], what, threads, calls,
                      (double)sum / calls, ns[calls / 2], ns[calls * 99ul / 100], ns[calls * 999ul / 1000]);
}

static void measure(kind k, uint64_t *raw, uint64_t *net, EpochDomain **domain) {
    for (unsigned i = 0; i < calls; i++) {
        EpochId epoch = atomic_load(&target);
        if (k != RESET || !*domain) prepare(k, domain); /* the next one, before this one ends */
        if (k == RESET || k == TRIM || i > 0) usleep(pause_us);
        if ((k == CLOSE || k == DESTROY) && i == 0) {
            epoch = atomic_load(&target);
            usleep(pause_us);
            prepare(k, domain);
        }
        uint64_t queued = queued_ns(), from = bench_now_ns();
        bool done = end(k, epoch, *domain);
        raw[i] = bench_now_ns() - from;
        queued = queued_ns() - queued;
        net[i] = raw[i] > queued ? raw[i] - queued : 0;
        if (!done) bench_die(BENCH_EXIT_FAILED, "close_bench: %s failed", kind_name[k]);
    }
}

/* Nothing is live: the remaining memory was left undone. */
static uint64_t print_left(const char *when) {
    SlabGlobalStats stats;
    if (!slab_stats_global(allocator, &stats)) bench_die(BENCH_EXIT_FAILED, "close_bench: slab_stats_global");
    uint64_t in_use = stats.committed_bytes - stats.retained_bytes;
    printf("  %s: %" PRIu64 " closed epochs, %" PRIu64 " KiB in use\n", when, stats.closing_epoch_count, in_use / 1024);
    return stats.closing_epoch_count;
}

static void run(kind k) {
    pthread_t id[MAX_THREADS];
    uint64_t *raw = calloc(calls, sizeof *raw), *net = calloc(calls, sizeof *net);
    EpochDomain *domain = NULL;
    allocator = slab_allocator_create();
    if (!raw || !net || !allocator) bench_die(BENCH_EXIT_FAILED, "close_bench: no memory");
    atomic_store(&stop, false);
    atomic_store(&last_call, true);
    atomic_store(&target, EPOCH_NONE);
    pthread_barrier_init(&meet, NULL, threads + 1);
    for (unsigned i = 0; i < threads; i++)
        if (pthread_create(&id[i], NULL, busy, (void *)(uintptr_t)(i + 1)) != 0)
            bench_die(BENCH_EXIT_FAILED, "close_bench: pthread_create");
    measure(k, raw, net, &domain);
    if (domain) atomic_store(&target, EPOCH_NONE);
    if (k == CLOSE || k == DESTROY) {
        EpochId epoch = atomic_exchange(&target, EPOCH_NONE);
        (void)end(k, epoch, domain);
    } else if (k == ADVANCE) {
        (void)end(k, EPOCH_NONE, domain);
    }
    atomic_store(&stop, true);
    pthread_barrier_wait(&meet);
    printf("%s, %u calls beside %u threads\n", kind_name[k], calls, threads);
    print_times(k, "raw", raw);
    print_times(k, "net", net);
    (void)print_left("left by the last call");
    pthread_barrier_wait(&meet);
    pthread_barrier_wait(&meet);
    uint64_t left = print_left("after the next calls of all");
    if (smoke && left != 0) bench_die(BENCH_EXIT_FAILED, "close_bench: a closed epoch stays");
    pthread_barrier_wait(&meet);
    for (unsigned i = 0; i < threads; i++) pthread_join(id[i], NULL);
    pthread_barrier_destroy(&meet);
    if (domain) epoch_domain_destroy(domain);
    slab_allocator_free(allocator);
    free(raw);
    free(net);
}

static unsigned number(int argc, char **argv, int *i, unsigned most) {
    const char *text = bench_option_value("close_bench", "", argc, argv, i);
    char *rest;
    unsigned long value = strtoul(text, &rest, 10);
    if (*rest || value == 0 || value > most)
        bench_die(BENCH_EXIT_USAGE, "close_bench: '%s' is no number up to %u", text, most);
    return (unsigned)value;
}

int main(int argc, char **argv) {
    const char *file = NULL;
    for (int i = 1; i < argc; i++) {
        if (strcmp(argv[i], "--threads") == 0)
            threads = number(argc, argv, &i, MAX_THREADS);
        else if (strcmp(argv[i], "--calls") == 0)
            calls = number(argc, argv, &i, 1000000);
        else if (strcmp(argv[i], "--pause") == 0)
            pause_us = number(argc, argv, &i, 1000000);
        else if (strcmp(argv[i], "--csv") == 0)
            file = bench_option_value("close_bench", "", argc, argv, &i);
        else if (strcmp(argv[i], "--quick") == 0)
            calls = 500;
        else if (strcmp(argv[i], "--smoke") == 0)
            smoke = true;
        else
            bench_die(BENCH_EXIT_USAGE, "close_bench: unknown option '%s'", argv[i]);
    }
    if (smoke) calls = 40;
    bench_watch_stdout();
    csv = bench_csv_open("close_bench", file);
    if (csv) (void)fprintf(csv, "call,time,threads,calls,mean_ns,p50_ns,p99_ns,p999_ns\n");
    schedstat = open("/proc/thread-self/schedstat", O_RDONLY | O_CLOEXEC);
    if (schedstat < 0) printf("no /proc/thread-self/schedstat: net is raw\n");
    for (unsigned k = 0; k < KINDS; k++) run((kind)k);
    bench_csv_close(csv);
    return 0;
}
