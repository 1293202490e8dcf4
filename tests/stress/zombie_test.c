/*
 * No zombie slab: one whose list says something else than its bitmap, so that its free slots are never found, or an
 * allocation looks for ever in a slab that has none. Sixteen threads use up and free the slabs of one class in one
 * epoch, each other's objects too. At the end of each round the walk compares every slab's bitmap, live words, counts
 * and place in its list, and no slab is there that the live objects do not explain.
 *
 *     zombie_test [--seconds N] [--seed N] [--threads N]
 */
#include "identities.h"
#include "proc.h"
#include "stress.h"

#include <inttypes.h>
#include <stdio.h>

#define BYTES 512u /* 32 slots a slab: slabs fill and empty all the time */
#define KEPT 96u
#define TURNS 4000u

struct siege {
    struct sup_args args;
    SlabAllocator *allocator;
    EpochId epoch;
    _Atomic(void *) shared[64][KEPT]; /* objects that any thread may take out, and free */
    uint64_t round;
};

static void put(struct siege *siege, _Atomic(void *) *place, void *object) {
    void *old = atomic_exchange(place, object);
    SUP_CHECK(old == NULL || slab_free(siege->allocator, old), "slab_free of a live object");
}

static void fight(void *argument, unsigned number) {
    struct siege *siege = argument;
    struct sup_rng rng = {sup_mix(siege->args.seed + siege->round) + number};
    for (unsigned turn = 0; turn < TURNS; turn++) {
        unsigned whose = turn % 4 == 0 ? (unsigned)sup_rng_below(&rng, siege->args.threads) : number;
        _Atomic(void *) *place = &siege->shared[whose][sup_rng_below(&rng, KEPT)];
        void *object = NULL;
        if (sup_rng_below(&rng, 8) < 5) {
            object = slab_malloc_epoch(siege->allocator, BYTES, siege->epoch);
            SUP_CHECK(object != NULL, "an open epoch takes objects");
        }
        put(siege, place, object);
    }
}

/* The threads of a round have ended: their slabs are free for the next one's. Live objects are at most KEPT a thread,
   and so are their slabs, but for the slab that a thread has begun, and left. */
static void look(struct siege *siege) {
    SlabEpochStats stats;
    uint64_t slots = 16384 / BYTES, most = siege->args.threads * (KEPT / slots + 6);
    SUP_CHECK(slab_stats_epoch(siege->allocator, SLAB_ALL_CLASSES, siege->epoch, &stats), "slab_stats_epoch");
    SUP_CHECK(stats.live_objects <= siege->args.threads * KEPT, "%" PRIu64 " live objects", stats.live_objects);
    SUP_CHECK(stats.slab_count <= most, "round %" PRIu64 ": %" PRIu64 " slabs for %" PRIu64 " objects", siege->round,
              stats.slab_count, stats.live_objects);
    sup_check_identities(siege->allocator);
}

int main(int argc, char **argv) {
    static struct siege siege = {.args = {.seconds = 1.0, .seed = 1, .threads = 16}};
    sup_args_parse(argc, argv, &siege.args);
    SUP_CHECK(siege.args.threads >= 1 && siege.args.threads <= 64, "1 to 64 threads");
    siege.allocator = slab_allocator_create();
    siege.epoch = epoch_open(siege.allocator, "siege", EPOCH_CHURN);
    for (double until = sup_now_s() + siege.args.seconds; siege.round < 8 || sup_now_s() < until; siege.round++) {
        struct stress_crew crew;
        stress_start(&crew, (unsigned)siege.args.threads, fight, &siege);
        stress_join(&crew);
        look(&siege);
    }
    for (unsigned i = 0; i < siege.args.threads; i++)
        for (unsigned k = 0; k < KEPT; k++) put(&siege, &siege.shared[i][k], NULL);
    SUP_CHECK(sup_live_objects(siege.allocator) == 0, "live objects after all were freed");
    SUP_CHECK(epoch_destroy(siege.allocator, siege.epoch), "epoch_destroy");
    sup_check_identities(siege.allocator);
    sup_check_empty(siege.allocator);
    slab_allocator_free(siege.allocator);
    (void)printf("zombie_test: seed %" PRIu64 ", %" PRIu64 " rounds: good\n", siege.args.seed, siege.round);
    return 0;
}
