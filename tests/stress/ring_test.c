/*
 * Threads in a ring: each allocates in an epoch of its own and in one that all share, frees some objects itself and
 * sends the others to the next thread, which frees them, some after they have grown. A further thread reads the figures
 * and trims all the while.
 *
 *     ring_test [--seconds N] [--seed N] [--threads N]
 */
#include "identities.h"
#include "stress.h"

#include "proc.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

#define KEPT 200u

struct ring {
    struct sup_args args;
    SlabAllocator *allocator;
    EpochId shared[2];
    EpochId own[64];
    struct stress_box boxes[64];
    atomic_bool stop;
    atomic_uint_fast64_t objects;
};

static void work(void *argument, unsigned number) {
    struct ring *ring = argument;
    struct sup_rng rng = {sup_mix(ring->args.seed) + number};
    struct stress_object kept[KEPT] = {{0}};
    struct stress_box *next = &ring->boxes[(number + 1) % ring->args.threads];
    uint64_t made = 0;
    while (!atomic_load_explicit(&ring->stop, memory_order_relaxed)) {
        struct stress_object *slot = &kept[sup_rng_below(&rng, KEPT)];
        uint64_t choice = sup_rng_below(&rng, 8);
        if (slot->address == NULL) {
            EpochId epoch = choice < 4 ? ring->own[number] : ring->shared[choice % 2];
            *slot = stress_make(ring->allocator, epoch, &rng);
            SUP_CHECK(slot->address != NULL, "an open epoch takes objects");
            made++;
        } else if (choice < 4 || !stress_put(next, slot)) {
            stress_free(ring->allocator, slot);
        } else {
            slot->address = NULL;
        }
        struct stress_object got;
        if (choice >= 3 && stress_take(&ring->boxes[number], &got)) {
            while (sup_rng_below(&rng, 8) == 0) {
                made += stress_grow(ring->allocator, &got, &rng); /* one that moves is allocated again */
            }
            stress_free(ring->allocator, &got);
        }
    }
    for (unsigned i = 0; i < KEPT; i++) {
        if (kept[i].address != NULL) {
            stress_free(ring->allocator, &kept[i]);
        }
    }
    atomic_fetch_add(&ring->objects, made);
}

/* While others run each figure was true at some moment: here, that nothing is absurd and nothing stops. */
static void observe(void *argument, unsigned number) {
    struct ring *ring = argument;
    static char text[1u << 18];
    uint64_t allocated = 0;
    (void)number;
    while (!atomic_load_explicit(&ring->stop, memory_order_relaxed)) {
        SlabGlobalStats stats;
        SlabEpochStats epoch;
        EpochId ids[8];
        SUP_CHECK(slab_stats_global(ring->allocator, &stats), "slab_stats_global");
        SUP_CHECK(stats.allocated_objects_total >= allocated, "a total went down");
        SUP_CHECK(stats.live_objects < (uint64_t)1 << 40, "live_objects %" PRIu64, stats.live_objects);
        allocated = stats.allocated_objects_total;
        SUP_CHECK(slab_stats_epoch(ring->allocator, SLAB_ALL_CLASSES, ring->shared[0], &epoch), "slab_stats_epoch");
        SUP_CHECK(epoch.live_objects < (uint64_t)1 << 40, "live_objects %" PRIu64, epoch.live_objects);
        SUP_CHECK(slab_epochs(ring->allocator, ids, 8) == ring->args.threads + 2, "slab_epochs");
        SUP_CHECK(slab_stats_json(ring->allocator, text, sizeof text) > 0, "slab_stats_json");
        SUP_CHECK(slab_stats_prometheus(ring->allocator, text, sizeof text) > 0, "slab_stats_prometheus");
        (void)slab_trim(ring->allocator);
        sup_sleep_ms(2);
    }
}

/* Whether threads have freed objects of others; one alone cannot. */
static bool foreign_frees(struct ring *ring) {
    SlabGlobalStats stats;
    SUP_CHECK(slab_stats_global(ring->allocator, &stats), "slab_stats_global");
    return ring->args.threads == 1 || stats.foreign_frees > 0;
}

int main(int argc, char **argv) {
    static struct ring ring = {.args = {.seconds = 2.0, .seed = 1, .threads = 4}};
    struct stress_crew workers;
    struct stress_crew observers;
    sup_args_parse(argc, argv, &ring.args);
    SUP_CHECK(ring.args.threads >= 1 && ring.args.threads <= 64, "1 to 64 threads");
    ring.allocator = slab_allocator_create();
    ring.shared[0] = epoch_open(ring.allocator, "shared churn", EPOCH_CHURN);
    ring.shared[1] = epoch_open(ring.allocator, "shared scope", EPOCH_SCOPE);
    for (unsigned i = 0; i < ring.args.threads; i++) {
        ring.own[i] = epoch_open(ring.allocator, "own", i % 2 == 0 ? EPOCH_CHURN : EPOCH_SCOPE);
        stress_box_init(&ring.boxes[i]);
    }
    stress_start(&workers, (unsigned)ring.args.threads, work, &ring);
    stress_start(&observers, 1, observe, &ring);
    for (double until = sup_now_s() + ring.args.seconds; sup_now_s() < until || !foreign_frees(&ring);) sup_sleep_ms(5);
    atomic_store(&ring.stop, true);
    stress_join(&workers);
    stress_join(&observers);
    for (unsigned i = 0; i < ring.args.threads; i++) {
        stress_box_drain(ring.allocator, &ring.boxes[i]);
    }
    sup_check_identities(ring.allocator);
    SlabGlobalStats stats;
    SUP_CHECK(slab_stats_global(ring.allocator, &stats), "slab_stats_global");
    SUP_CHECK(stats.live_objects == 0, "%" PRIu64 " live objects after all were freed", stats.live_objects);
    SUP_CHECK(stats.allocated_objects_total == ring.objects, "%" PRIu64 " objects counted, %" PRIu64 " made",
              stats.allocated_objects_total, (uint64_t)ring.objects);
    for (unsigned i = 0; i < ring.args.threads; i++) {
        SUP_CHECK(epoch_destroy(ring.allocator, ring.own[i]), "epoch_destroy");
    }
    SUP_CHECK(epoch_destroy(ring.allocator, ring.shared[0]) && epoch_destroy(ring.allocator, ring.shared[1]),
              "epoch_destroy");
    sup_check_identities(ring.allocator);
    sup_check_empty(ring.allocator);
    slab_allocator_free(ring.allocator);
    (void)printf("ring_test: seed %" PRIu64 ", %" PRIu64 " objects: good\n", ring.args.seed, (uint64_t)ring.objects);
    return 0;
}
