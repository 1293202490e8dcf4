/*
 * Threads that allocate, free and rest in turn, in a few classes, while others visit their heaps all the time as if
 * they rested, so that bins let go of their empty slabs in the middle of any act of the thread: every object keeps its
 * bytes, and at the end nothing is left.
 *
 *     shed_test [--seconds N] [--seed N] [--threads N]
 */
#include "cache/cache.h"
#include "identities.h"
#include "ownership/ownership.h"
#include "proc.h"
#include "stress.h"
#include "supply/supply.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

enum { VISITORS = 2, HELD = 600, CLASSES = 4 };
static const uint32_t bytes_of[CLASSES] = {32, 96, 700, 5000};

struct arena {
    struct sup_args args;
    SlabAllocator *allocator;
    ts_allocator *record;
    atomic_bool last;
    atomic_ullong rounds, visits;
};

struct held {
    unsigned char *at;
    uint32_t bytes;
    unsigned char value;
};

static void drop(struct arena *arena, struct held *h) {
    for (uint32_t i = 0; i < h->bytes; i += 31) SUP_CHECK(h->at[i] == h->value, "an object's byte has changed");
    SUP_CHECK(slab_free(arena->allocator, h->at), "slab_free");
    h->at = NULL;
}

static void own(struct arena *arena, struct sup_rng *rng, struct held *held) {
    /* One class a round, so that the others are idle. */
    uint32_t bytes = bytes_of[sup_rng_below(rng, CLASSES)];
    for (unsigned n = 0; n < 3 * HELD; n++) {
        struct held *h = &held[sup_rng_below(rng, HELD)];
        if (h->at) {
            drop(arena, h);
            continue;
        }
        *h = (struct held){slab_malloc(arena->allocator, bytes), bytes, (unsigned char)sup_rng_below(rng, 255)};
        SUP_CHECK(h->at != NULL, "slab_malloc");
        memset(h->at, h->value, bytes);
    }
    if (sup_rng_below(rng, 2)) {
        for (unsigned i = 0; i < HELD; i++)
            if (held[i].at) drop(arena, &held[i]);
    }
    atomic_fetch_add(&arena->rounds, 1);
}

static void visit_all(struct arena *arena, struct sup_rng *rng) {
    for (ts_heap *heap = ts_heaps(); heap; heap = heap->next)
        if (heap != ts_thread.heap && ts_heap_visit_resting(heap, arena->record, sup_rng_below(rng, 2) != 0))
            atomic_fetch_add(&arena->visits, 1);
    (void)slab_maintain(arena->allocator, 0);
}

static void run(void *argument, unsigned number) {
    struct arena *arena = argument;
    struct sup_rng rng = {sup_mix(arena->args.seed + number)};
    struct held held[HELD] = {{0}};
    while (!atomic_load(&arena->last)) {
        if (number >= VISITORS) {
            own(arena, &rng, held);
        } else {
            visit_all(arena, &rng);
        }
    }
    for (unsigned i = 0; i < HELD; i++)
        if (held[i].at) drop(arena, &held[i]);
}

int main(int argc, char **argv) {
    static struct arena arena = {.args = {.seconds = 2.0, .seed = 1, .threads = 3}};
    struct stress_crew crew;
    sup_args_parse(argc, argv, &arena.args);
    SUP_CHECK(arena.args.threads >= 1 && arena.args.threads <= 60, "1 to 60 threads");
    arena.allocator = slab_allocator_create();
    SUP_CHECK(arena.allocator != NULL, "slab_allocator_create");
    arena.record = ts_allocator_find((uintptr_t)arena.allocator);
    SUP_CHECK(arena.record != NULL, "ts_allocator_find");
    stress_start(&crew, VISITORS + arena.args.threads, run, &arena);
    double from = sup_now_s();
    while (sup_now_s() - from < arena.args.seconds || atomic_load(&arena.visits) == 0) {
        sup_sleep_ms(20);
    }
    atomic_store(&arena.last, true);
    stress_join(&crew);
    sup_check_identities(arena.allocator);
    sup_check_empty(arena.allocator);
    slab_allocator_free(arena.allocator);
    printf("%llu rounds, %llu visits\n", (unsigned long long)atomic_load(&arena.rounds),
           (unsigned long long)atomic_load(&arena.visits));
    return 0;
}
