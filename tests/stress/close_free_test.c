/*
 * An epoch is closed while its last objects are freed: by two other threads, with or without their owner, and beside a
 * trim; of one thread or of three, whose blocks leave it one by one while somebody reads its row. It ends with the last
 * of them. Where its owner sleeps meanwhile, nobody else has to do anything for that; where it is among the freeing
 * threads it can lose its processor in the middle of an operation, and then one slab_trim is enough.
 *
 *     close_free_test [--seconds N] [--seed N]
 */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include "identities.h"
#include "proc.h"
#include "stress.h"

#include "os/os.h"

#include <inttypes.h>
#include <stdio.h>

enum { MOST = 900, OWNER = 0, FREERS = 2, TRIMMER = FREERS + 1, ROLES };

struct arena {
    struct sup_args args;
    SlabAllocator *allocator;
    pthread_barrier_t barrier;
    /* Written by main between two barriers. */
    EpochId epoch;
    size_t size;
    unsigned count, makers;
    bool owner_frees, trims, last;
    /* Written by the owner. */
    void *objects[MOST];
};

static void meet(struct arena *arena) { (void)pthread_barrier_wait(&arena->barrier); }

static void make_part(struct arena *arena, unsigned who) {
    for (unsigned i = 0; i < arena->count; i++) {
        if (i / 4 % arena->makers != who) continue;
        arena->objects[i] = slab_malloc_epoch(arena->allocator, arena->size, arena->epoch);
        SUP_CHECK(arena->objects[i] != NULL, "slab_malloc_epoch");
    }
}

/* No more than there are, whichever blocks have left the epoch. */
static void look(const struct arena *arena) {
    SlabEpochStats row;
    if (!slab_stats_epoch(arena->allocator, SLAB_ALL_CLASSES, arena->epoch, &row)) return;
    SUP_CHECK(row.allocated_objects_total <= arena->count && row.live_objects <= arena->count,
              "%u objects, and the row has %" PRIu64 ", %" PRIu64 " of them live", arena->count,
              row.allocated_objects_total, row.live_objects);
}

/* Every third object is the owner's to free, if it frees. */
static void free_part(struct arena *arena, unsigned who) {
    unsigned sharers = arena->owner_frees ? FREERS + 1 : FREERS, first = arena->owner_frees ? who : who - 1;
    for (unsigned i = first; i < arena->count; i += sharers)
        SUP_CHECK(slab_free(arena->allocator, arena->objects[i]), "slab_free");
}

static void work(void *argument, unsigned number) {
    struct arena *arena = argument;
    for (;;) {
        meet(arena);
        if (arena->last) return;
        if (number < arena->makers) make_part(arena, number);
        meet(arena);
        if (number == TRIMMER) {
            if (arena->trims) (void)slab_trim(arena->allocator);
        } else if (number != OWNER || arena->owner_frees) {
            free_part(arena, number);
        }
        meet(arena);
    }
}

static void spin(unsigned looks) {
    for (volatile unsigned i = 0; i < looks; i++) {
    }
}

int main(int argc, char **argv) {
    static struct arena arena = {.args = {.seconds = 2.0, .seed = 1}};
    static const size_t sizes[] = {16, 64, 100, 500, 2000};
    struct stress_crew crew;
    uint64_t rounds = 0, trimmed = 0;
    sup_args_parse(argc, argv, &arena.args);
    arena.allocator = slab_allocator_create();
    SUP_CHECK(arena.allocator != NULL, "slab_allocator_create");
    bool barrier = ts_os->barrier_all();
    struct sup_rng rng = {sup_mix(arena.args.seed)};
    SUP_CHECK(pthread_barrier_init(&arena.barrier, NULL, ROLES + 1) == 0, "barrier");
    stress_start(&crew, ROLES, work, &arena);
    for (double until = sup_now_s() + arena.args.seconds; sup_now_s() < until; rounds++) {
        arena.epoch = epoch_open(arena.allocator, NULL, sup_rng_below(&rng, 4) ? EPOCH_CHURN : EPOCH_SCOPE);
        arena.size = sizes[sup_rng_below(&rng, sizeof sizes / sizeof *sizes)];
        arena.count = 1 + (unsigned)sup_rng_below(&rng, sup_rng_below(&rng, 2) ? 8 : MOST);
        arena.makers = sup_rng_below(&rng, 2) ? 1 : FREERS + 1;
        arena.owner_frees = sup_rng_below(&rng, 2) != 0;
        arena.trims = arena.owner_frees && sup_rng_below(&rng, 2) != 0;
        meet(&arena);
        meet(&arena);
        spin((unsigned)sup_rng_below(&rng, 20 * arena.count));
        SUP_CHECK(epoch_close(arena.allocator, arena.epoch), "epoch_close");
        for (uint64_t looks = sup_rng_below(&rng, 8); looks > 0; looks--) look(&arena);
        meet(&arena);
        if (epoch_state(arena.allocator, arena.epoch) != EPOCH_CLOSED) {
            SUP_CHECK(arena.owner_frees || arena.makers > 1 || !barrier,
                      "round %" PRIu64
                      ": %u objects of %zu bytes, all freed, and the epoch waits for its sleeping owner",
                      rounds, arena.count, arena.size);
            (void)slab_trim(arena.allocator);
            trimmed++;
        }
        SUP_CHECK(epoch_state(arena.allocator, arena.epoch) == EPOCH_CLOSED || !barrier,
                  "round %" PRIu64 ": %u objects of %zu bytes, all freed, and the epoch does not end", rounds,
                  arena.count, arena.size);
        sup_check_identities(arena.allocator);
        SUP_CHECK(sup_live_objects(arena.allocator) == 0, "live objects");
    }
    arena.last = true;
    meet(&arena);
    stress_join(&crew);
    SUP_CHECK(rounds > 0, "no round");
    sup_check_empty(arena.allocator);
    (void)pthread_barrier_destroy(&arena.barrier);
    slab_allocator_free(arena.allocator);
    (void)printf("close_free_test: seed %" PRIu64 ", %" PRIu64 " rounds, %" PRIu64 " ended by a trim: good\n",
                 arena.args.seed, rounds, trimmed);
    return 0;
}
