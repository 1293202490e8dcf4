/*
 * Programs that leak and programs that do not, for tools that tell them apart.
 *
 *     growth_program NAME      runs until its input ends; prints "ready" first
 *     growth_program --list    "leak NAME LABEL" and "sound NAME" in lines
 *
 * A function whose name begins with leak_ allocates the leaked objects.
 */
#include <tslab/tslab.h>

#include <math.h>
#include <poll.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#define NOINLINE __attribute__((noinline))
#define TICKS 20u /* a second */

static SlabAllocator *allocator;
static EpochId epoch;
static unsigned tick; /* since the start */
static uint64_t seed = 88172645463325252u;

static unsigned below(unsigned n) {
    seed ^= seed << 13;
    seed ^= seed >> 7;
    seed ^= seed << 17;
    return (unsigned)(seed % n);
}

static void *good(void *object) {
    if (!object) exit(1);
    *(char *)object = 1;
    return object;
}

NOINLINE static void *work(size_t size) { return good(slab_malloc_epoch(allocator, size, epoch)); }

/* ---- leaks: each called TICKS times a second -------------------------------------------------------------------- */

NOINLINE static void leak_open(void) {
    for (unsigned i = 0; i < 400; i++) (void)good(slab_malloc_epoch(allocator, 128, epoch));
}

/* Handlers of requests that leave early now and then. */
NOINLINE static void leak_domain(void) {
    for (unsigned i = 0; i < 10; i++) {
        EpochDomain *d = epoch_domain_create_ex(allocator, "request", 0);
        if (!d || !epoch_domain_enter(d)) exit(1);
        for (unsigned k = 0; k < 10; k++) (void)good(slab_alloc(200));
        if (!epoch_domain_exit(d)) exit(1);
        if (i % 3) epoch_domain_destroy(d);
    }
}

NOINLINE static void leak_tenth(void) {
    for (unsigned i = 0; i < 30; i++) {
        void *object[10];
        for (unsigned k = 0; k < 9; k++) object[k] = work(300);
        object[9] = good(slab_malloc_epoch(allocator, 300, epoch));
        for (unsigned k = 0; k < 9; k++)
            if (!slab_free(allocator, object[k])) exit(1);
    }
}

NOINLINE static void leak_large(void) {
    if (tick % 4 == 0) (void)good(slab_malloc_epoch(allocator, 100000, epoch));
}

NOINLINE static void leak_scope(void) {
    for (unsigned i = 0; i < 100; i++) (void)good(slab_malloc_epoch(allocator, 60, epoch));
}

NOINLINE static void leak_rolling(void) {
    for (unsigned i = 0; i < 100; i++) (void)good(slab_malloc(allocator, 500));
}

static EpochId other;

NOINLINE static void leak_one_of_two(void) {
    void *object = good(slab_malloc_epoch(allocator, 5000, other));
    for (unsigned i = 0; i < 20; i++) (void)good(slab_malloc_epoch(allocator, 100, epoch));
    if (!slab_free(allocator, object)) exit(1);
}

NOINLINE static void leak_slowly(void) {
    if (tick % 2 == 0) (void)good(slab_malloc_epoch(allocator, 1000, epoch));
}

static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static void *boxed;

NOINLINE static void leak_by_threads(void) {
    (void)good(slab_malloc_epoch(allocator, 700, epoch));
    void *mine = work(700);
    pthread_mutex_lock(&mutex); /* each frees objects of another one */
    void *theirs = boxed;
    boxed = mine;
    pthread_mutex_unlock(&mutex);
    if (theirs && !slab_free(allocator, theirs)) exit(1);
}

static void *thread(void *unused) {
    for (;;) {
        (void)nanosleep(&(struct timespec){0, 5000000}, NULL);
        leak_by_threads();
    }
    return unused;
}

static void start_threads(void) {
    pthread_t t;
    for (unsigned i = 0; i < 4; i++)
        if (pthread_create(&t, NULL, thread, NULL) != 0) exit(1);
}

static void nothing(void) {}

static void base(void) {
    for (unsigned i = 0; i < 20000; i++) (void)work(1000);
}

NOINLINE static void leak_beside_a_base(void) {
    for (unsigned i = 0; i < 20; i++) (void)good(slab_malloc_epoch(allocator, 200, epoch));
}

/* ---- sound ------------------------------------------------------------------------------------------------------- */

#define ROOM 20000u
static void *held[ROOM];
static unsigned held_count;

/* So many objects are held. */
static void hold(unsigned count) {
    while (held_count < count && held_count < ROOM) held[held_count++] = work(200 + below(100));
    while (held_count > count)
        if (!slab_free(allocator, held[--held_count])) exit(1);
}

static unsigned a_part(double of) { return (unsigned)(of * (double)ROOM); }

static void fills_for_20_s(void) { hold(tick < 20 * TICKS ? ROOM / (20 * TICKS) * tick : held_count); }

/* Keys at random: it is full at the end, and takes longer and longer. */
static void fills_at_random(void) {
    for (unsigned i = 0; i < 200; i++) {
        unsigned k = below(ROOM);
        if (!held[k]) held[k] = work(250);
    }
}

static void breathes_in_a_second(void) { hold(a_part(0.5 + 0.4 * sin(tick * 6.283 / TICKS))); }
static void breathes_in_8_s(void) { hold(a_part(0.5 + 0.4 * sin(tick * 6.283 / (8 * TICKS)))); }

static void starts_for_10_s(void) {
    hold(tick < 10 * TICKS ? ROOM / (10 * TICKS) * tick : held_count);
    for (unsigned i = 0; i < 100; i++)
        if (!slab_free(allocator, work(400))) exit(1);
}

static void day_and_night(void) { hold(a_part(0.5 - 0.5 * cos(tick * 6.283 / (36 * TICKS)))); }

static void serves(void) {
    for (unsigned i = 0; i < 20; i++) {
        EpochId request = epoch_open(allocator, "request", i % 2 ? EPOCH_SCOPE : EPOCH_CHURN);
        for (unsigned k = below(200); k > 0; k--) (void)good(slab_malloc_epoch(allocator, 16 + below(2000), request));
        if (!epoch_destroy(allocator, request)) exit(1);
    }
}

static void replaces(void) {
    hold(ROOM / 2);
    for (unsigned i = 0; i < 500; i++) {
        unsigned k = below(held_count);
        if (!slab_free(allocator, held[k])) exit(1);
        held[k] = work(16 + below(2000));
    }
}

static void in_batches(void) {
    if (tick % (15 * TICKS) == 0) hold(0);
    hold(ROOM / (15 * TICKS) * (tick % (15 * TICKS)));
}

static const struct {
    const char *kind, *name, *label;
    void (*begin)(void), (*step)(void);
} PROGRAMS[] = {
    {"leak", "open", "cache", nothing, leak_open},
    {"leak", "domain", "request", nothing, leak_domain},
    {"leak", "tenth", "connections", nothing, leak_tenth},
    {"leak", "large", "uploads", nothing, leak_large},
    {"leak", "scope", "parser", nothing, leak_scope},
    {"leak", "rolling", "(none)", nothing, leak_rolling},
    {"leak", "one_of_two", "sessions", nothing, leak_one_of_two},
    {"leak", "slowly", "drops", nothing, leak_slowly},
    {"leak", "threads", "workers", start_threads, nothing},
    {"leak", "beside_a_base", "index", base, leak_beside_a_base},
    {"sound", "idle", "index", base, nothing},
    {"sound", "fills_for_20_s", "cache", nothing, fills_for_20_s},
    {"sound", "fills_at_random", "cache", nothing, fills_at_random},
    {"sound", "breathes_in_a_second", "queue", nothing, breathes_in_a_second},
    {"sound", "breathes_in_8_s", "queue", nothing, breathes_in_8_s},
    {"sound", "starts_for_10_s", "index", nothing, starts_for_10_s},
    {"sound", "day_and_night", "sessions", nothing, day_and_night},
    {"sound", "serves", "idle", nothing, serves},
    {"sound", "replaces", "cache", nothing, replaces},
    {"sound", "in_batches", "batch", nothing, in_batches},
};
enum { COUNT = sizeof PROGRAMS / sizeof *PROGRAMS };

int main(int argc, char **argv) {
    struct timespec start, now;
    unsigned which = 0;
    if (argc == 2 && strcmp(argv[1], "--list") == 0) {
        for (unsigned i = 0; i < COUNT; i++)
            printf("%s %s %s\n", PROGRAMS[i].kind, PROGRAMS[i].name, PROGRAMS[i].label);
        return 0;
    }
    while (which < COUNT && (argc != 2 || strcmp(argv[1], PROGRAMS[which].name) != 0)) which++;
    if (which == COUNT) return 2;
    allocator = slab_allocator_default();
    if (!allocator) return 1;
    bool scope = strcmp(PROGRAMS[which].name, "scope") == 0;
    epoch = epoch_open(allocator, PROGRAMS[which].label, scope ? EPOCH_SCOPE : EPOCH_CHURN);
    other = epoch_open(allocator, "other", EPOCH_CHURN);
    PROGRAMS[which].begin();
    puts("ready");
    fflush(stdout);
    (void)clock_gettime(CLOCK_MONOTONIC, &start);
    for (;;) {
        struct pollfd in = {STDIN_FILENO, POLLIN, 0};
        if (poll(&in, 1, 1000 / (int)TICKS) != 0) return 0;
        (void)clock_gettime(CLOCK_MONOTONIC, &now);
        double seconds = (double)(now.tv_sec - start.tv_sec) + (double)(now.tv_nsec - start.tv_nsec) / 1e9;
        for (; tick < (unsigned)(seconds * TICKS); tick++) PROGRAMS[which].step();
    }
}
