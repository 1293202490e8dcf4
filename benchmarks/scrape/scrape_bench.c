/*
 * Requests as fast as they go, in a program that serves its statistics: scrape_cost.py measures it.
 *
 *     scrape_bench [THREADS [EPOCHS]]     1 thread, 1,000 labelled epochs beside the requests
 *
 * First line: the port. Then it answers each line with one: the requests so far, and in nanoseconds the processor time
 * of the process, that of its threads which serve no requests, and the clock.
 */
#include <tslab/http.h>

#include <inttypes.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#define THREADS_MAX 64ul
#define EPOCHS_MAX 1000000ul
#define LABELS 20ul

static SlabAllocator *allocator;
static atomic_uint_fast64_t requests;
static pthread_t threads[THREADS_MAX];

static void fail(const char *what) {
    fprintf(stderr, "scrape_bench: %s\n", what);
    exit(1);
}

static uint64_t time_ns(clockid_t clock) {
    struct timespec t;
    if (clock_gettime(clock, &t) != 0) fail("a clock cannot be read");
    return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

/* A domain each, 80 to 200 objects of 48 to 624 bytes. */
static void *serve(void *seed) {
    uint64_t random = (uint64_t)(uintptr_t)seed;
    for (;;) {
        EpochDomain *domain = epoch_domain_create_ex(allocator, "request", 0);
        if (!domain || !epoch_domain_enter(domain)) fail("no domain");
        random = random * 6364136223846793005u + 1442695040888963407u;
        for (unsigned n = 80 + (unsigned)(random >> 33) % 121; n > 0; n--) {
            char *p = slab_alloc(48 + n % 10 * 64);
            if (!p) fail("slab_alloc");
            *p = 1;
        }
        (void)epoch_domain_exit(domain);
        epoch_domain_destroy(domain);
        atomic_fetch_add_explicit(&requests, 1, memory_order_relaxed);
    }
    return NULL;
}

static void open_epochs(unsigned long count) {
    for (unsigned long i = 0; i < count; i++) {
        char label[32];
        snprintf(label, sizeof label, "phase-%lu", i % LABELS);
        EpochId epoch = epoch_open(allocator, label, EPOCH_CHURN);
        if (epoch == EPOCH_NONE || !slab_malloc_epoch(allocator, 64 + 64 * (i % 8), epoch)) fail("epoch_open");
    }
}

static uint64_t served_ns(unsigned long count) {
    uint64_t sum = 0;
    for (unsigned long i = 0; i < count; i++) {
        clockid_t clock;
        if (pthread_getcpuclockid(threads[i], &clock) != 0) fail("pthread_getcpuclockid");
        sum += time_ns(clock);
    }
    return sum;
}

static unsigned long number(const char *text, unsigned long min, unsigned long max) {
    char *end;
    unsigned long n = strtoul(text, &end, 10);
    if (*text < '0' || *text > '9' || *end || n < min || n > max) {
        fprintf(stderr, "scrape_bench: '%s' is not a number from %lu to %lu\n", text, min, max);
        exit(2);
    }
    return n;
}

int main(int argc, char **argv) {
    unsigned long count = argc > 1 ? number(argv[1], 1, THREADS_MAX) : 1;
    unsigned long epochs = argc > 2 ? number(argv[2], 0, EPOCHS_MAX) : 1000;
    char line[16];
    allocator = slab_allocator_create();
    if (!allocator) fail("no allocator");
    open_epochs(epochs);
    if (!slab_http_start(allocator, "127.0.0.1:0")) fail("slab_http_start");
    for (unsigned long i = 0; i < count; i++)
        if (pthread_create(&threads[i], NULL, serve, (void *)(uintptr_t)(i + 1)) != 0) fail("pthread_create");
    printf("%d\n", slab_http_port());
    fflush(stdout);
    while (fgets(line, sizeof line, stdin)) {
        uint64_t all = time_ns(CLOCK_PROCESS_CPUTIME_ID), serving = served_ns(count);
        printf("%" PRIu64 " %" PRIu64 " %" PRIu64 " %" PRIu64 "\n", (uint64_t)atomic_load(&requests), all,
               all > serving ? all - serving : 0, time_ns(CLOCK_MONOTONIC));
        fflush(stdout);
    }
    return 0; /* the threads end with the process */
}
