/*
 * Threads that end while their objects live: the next ones take over their slabs, verify and free the objects. The
 * memory of the working set stays the same over any number of generations, and the retained memory within its budget:
 * how much of that there is depends on how many of a generation's threads ran at the same time.
 *
 *     exit_test [--seconds N] [--seed N] [--threads N]
 */
#include "identities.h"
#include "stress.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

#define EACH 300u
#define EPOCHS 3u
#define RETAINED_BYTES ((uint64_t)32 << 20) /* the default budget */

struct generation {
    struct sup_args args;
    SlabAllocator *allocator;
    EpochId epochs[EPOCHS];
    uint64_t number;
    struct stress_object (*left)[EACH]; /* by the thread of the generation before */
};

/* Frees the objects that another thread left, in part before and in part after allocating, and leaves as much. */
static void live_and_end(void *argument, unsigned number) {
    struct generation *generation = argument;
    struct stress_object *left = generation->left[(number + generation->number) % generation->args.threads];
    struct sup_rng rng = {sup_mix(generation->args.seed + generation->number) ^ number};
    for (unsigned i = 0; i < EACH; i++) {
        if (left[i].address != NULL && i % 2 == 0) {
            stress_free(generation->allocator, &left[i]);
        }
    }
    for (unsigned i = 0; i < EACH; i++) {
        if (left[i].address != NULL) {
            stress_free(generation->allocator, &left[i]);
        }
        left[i] = stress_make(generation->allocator, generation->epochs[i % EPOCHS], &rng);
        SUP_CHECK(left[i].address != NULL, "an open epoch takes objects");
    }
}

int main(int argc, char **argv) {
    static struct generation generation = {.args = {.seconds = 2.0, .seed = 1, .threads = 4}};
    struct stress_crew crew;
    uint64_t used = 0;
    sup_args_parse(argc, argv, &generation.args);
    SUP_CHECK(generation.args.threads >= 1 && generation.args.threads <= 64, "1 to 64 threads");
    generation.allocator = slab_allocator_create();
    generation.left = calloc(generation.args.threads, sizeof *generation.left);
    SUP_CHECK(generation.allocator != NULL && generation.left != NULL, "out of memory");
    /* Two churn epochs that stay, and one scope epoch, in which no slot is used twice: it is renewed. */
    generation.epochs[0] = epoch_open(generation.allocator, "churn 0", EPOCH_CHURN);
    generation.epochs[1] = epoch_open(generation.allocator, "churn 1", EPOCH_CHURN);
    double until = sup_now_s() + generation.args.seconds;
    for (; sup_now_s() < until || generation.number < 20; generation.number++) {
        EpochId before = generation.epochs[2];
        generation.epochs[2] = epoch_open(generation.allocator, "scope", EPOCH_SCOPE);
        stress_start(&crew, (unsigned)generation.args.threads, live_and_end, &generation);
        stress_join(&crew);
        if (before != EPOCH_NONE) {
            SUP_CHECK(epoch_close(generation.allocator, before), "epoch_close");
            SUP_CHECK(epoch_state(generation.allocator, before) == EPOCH_CLOSED, "all of it was freed");
        }
        sup_check_identities(generation.allocator);
        SUP_CHECK(sup_live_objects(generation.allocator) == generation.args.threads * EACH, "live objects");
        SlabGlobalStats now;
        SUP_CHECK(slab_stats_global(generation.allocator, &now), "slab_stats_global");
        uint64_t in_use = now.committed_bytes - now.retained_bytes;
        if (generation.number == 10) used = in_use;
        SUP_CHECK(generation.number <= 10 || in_use <= used * 3,
                  "generation %" PRIu64 ": %" PRIu64 " bytes in use, %" PRIu64 " at the tenth", generation.number,
                  in_use, used);
        SUP_CHECK(now.retained_bytes <= RETAINED_BYTES, "generation %" PRIu64 ": %" PRIu64 " bytes are retained",
                  generation.number, now.retained_bytes);
    }
    for (unsigned t = 0; t < generation.args.threads; t++) {
        for (unsigned i = 0; i < EACH; i += 2) {
            stress_free(generation.allocator, &generation.left[t][i]);
        }
    }
    for (unsigned e = 0; e < EPOCHS; e++) {
        SUP_CHECK(epoch_destroy(generation.allocator, generation.epochs[e]), "epoch_destroy");
    }
    sup_check_identities(generation.allocator);
    sup_check_empty(generation.allocator);
    slab_allocator_free(generation.allocator);
    free(generation.left);
    (void)printf("exit_test: seed %" PRIu64 ", %" PRIu64 " generations: good\n", generation.args.seed,
                 generation.number);
    return 0;
}
