/*
 * Threads that set the labels of two epochs of one lock without pause, each label a row of one character of several
 * bytes: a reader meanwhile, another thread or a signal handler that interrupts a setter, sees one of that epoch's
 * labels, whole.
 *
 *     labels_test [--seconds N] [--seed N] [--threads N]
 */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include "check.h"
#include "stress.h"

#include <inttypes.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define LABELS 6u
#define EPOCHS 2u
#define STRIPES 64u /* epochs have one lock if their ids are the same modulo that (epoch.h) */
#define PAGE_BYTES 65536u

/* The longest that fit; none begins as another one does. Each second one is of the one epoch, the others of the
   other. */
static const char *const character[LABELS] = {
    "a", "\xc3\xa9", "\xc3\xa0", "\xe2\x82\xac", "\xef\xbf\xbd", "\xf0\x9f\x98\x80",
};

static struct {
    struct sup_args args;
    SlabAllocator *allocator;
    EpochId epoch[EPOCHS];
    char label[LABELS][SLAB_LABEL_BYTES];
    _Atomic bool last;
    _Atomic uint64_t sets, looks, looks_in_handler;
} arena = {.args = {.seconds = 2.0, .seed = 1, .threads = 2}};

static bool is_whole(const char *label, size_t length, unsigned epoch) {
    for (unsigned i = epoch; i < LABELS; i += EPOCHS)
        if (strlen(arena.label[i]) == length && memcmp(arena.label[i], label, length) == 0) return true;
    return false;
}

static void look(void) {
    SlabEpochStats stats;
    unsigned epoch = (unsigned)(atomic_load(&arena.looks) % EPOCHS);
    SUP_CHECK(slab_stats_epoch(arena.allocator, SLAB_ALL_CLASSES, arena.epoch[epoch], &stats), "the epoch is open");
    SUP_CHECK(is_whole(stats.label, strlen(stats.label), epoch), "a mixture of labels, or another's: \"%s\"",
              stats.label);
    atomic_fetch_add(&arena.looks, 1);
}

static void on_signal(int number) {
    (void)number;
    look();
    atomic_fetch_add(&arena.looks_in_handler, 1);
}

/* Every label of the rendered page. */
static void look_at_page(char *page) {
    static const char mark[] = "label=\"";
    size_t length = slab_stats_prometheus(arena.allocator, page, PAGE_BYTES);
    SUP_CHECK(length > 0 && length < PAGE_BYTES, "%zu bytes", length);
    unsigned found = 0;
    for (const char *at = page; (at = strstr(at, mark)) != NULL; found++) {
        at += sizeof mark - 1;
        size_t n = strcspn(at, "\"");
        SUP_CHECK(is_whole(at, n, 0) || is_whole(at, n, 1) || strncmp(at, "(other)", n) == 0 ||
                      strncmp(at, "(none)", n) == 0,
                  "a mixture of labels: \"%.*s\"", (int)n, at);
    }
    SUP_CHECK(found > 0, "the page has labels");
}

static void set_on(void *unused, unsigned number) {
    struct sup_rng rng = {sup_mix(arena.args.seed) + number};
    (void)unused;
    while (!atomic_load(&arena.last)) {
        unsigned i = (unsigned)sup_rng_below(&rng, LABELS);
        SUP_CHECK(slab_epoch_set_label(arena.allocator, arena.epoch[i % EPOCHS], arena.label[i]), "the epoch is open");
        atomic_fetch_add_explicit(&arena.sets, 1, memory_order_relaxed);
    }
}

static void read_on(void *unused, unsigned number) {
    char *page = malloc(PAGE_BYTES);
    (void)unused;
    SUP_CHECK(page != NULL, "malloc");
    while (!atomic_load(&arena.last)) {
        for (unsigned i = 0; i < 100; i++) look();
        if (number == 0) look_at_page(page);
    }
    free(page);
}

static void open_epochs(void) {
    EpochId spare[2 * STRIPES];
    unsigned spares = 0;
    for (unsigned i = 0; i < EPOCHS;) {
        EpochId id = epoch_open(arena.allocator, arena.label[i], EPOCH_SCOPE);
        SUP_CHECK(slab_malloc_epoch(arena.allocator, 100, id) != NULL, "the epoch is open");
        if (i == 0 || id % STRIPES == arena.epoch[0] % STRIPES)
            arena.epoch[i++] = id;
        else
            spare[spares++] = id;
        SUP_CHECK(spares < 2 * STRIPES, "no second epoch has the lock of the first");
    }
    while (spares > 0) SUP_CHECK(epoch_destroy(arena.allocator, spare[--spares]), "an epoch of another lock");
}

static bool met_all(void) { return atomic_load(&arena.sets) > 0 && atomic_load(&arena.looks_in_handler) > 0; }

int main(int argc, char **argv) {
    struct stress_crew setters, readers;
    struct sigaction action = {.sa_handler = on_signal, .sa_flags = SA_RESTART};
    sup_args_parse(argc, argv, &arena.args);
    SUP_CHECK(arena.args.threads >= 1 && arena.args.threads <= 16, "1 to 16 threads");
    for (unsigned i = 0; i < LABELS; i++)
        while (strlen(arena.label[i]) + strlen(character[i]) < SLAB_LABEL_BYTES) strcat(arena.label[i], character[i]);
    arena.allocator = slab_allocator_create();
    SUP_CHECK(arena.allocator != NULL, "slab_allocator_create");
    open_epochs();
    (void)sigemptyset(&action.sa_mask);
    SUP_CHECK(sigaction(SIGUSR1, &action, NULL) == 0, "sigaction");
    stress_start(&setters, (unsigned)arena.args.threads, set_on, NULL);
    stress_start(&readers, 2, read_on, NULL);
    uint64_t sent = 0;
    for (double until = sup_now_s() + arena.args.seconds; sup_now_s() < until || !met_all(); sent++) {
        SUP_CHECK(pthread_kill(setters.threads[sent % arena.args.threads], SIGUSR1) == 0, "pthread_kill");
        const struct timespec wait = {0, 50000};
        (void)nanosleep(&wait, NULL);
    }
    atomic_store(&arena.last, true);
    stress_join(&setters);
    stress_join(&readers);
    slab_allocator_free(arena.allocator);
    (void)printf(
        "labels_test: seed %" PRIu64 ", %" PRIu64 " labels, %" PRIu64 " looks, %" PRIu64 " in a handler: good\n",
        arena.args.seed, atomic_load(&arena.sets), atomic_load(&arena.looks), atomic_load(&arena.looks_in_handler));
    return 0;
}
