/*
 * Of threads that free one handle at one instant exactly one is told that it has, also where one of them owns the
 * object's slab; and afterwards no live object has lost its place.
 *
 *     exact_free_test [--seconds N] [--seed N]
 */
#include "identities.h"
#include "proc.h"
#include "stress.h"

#include <inttypes.h>
#include <stdio.h>

enum { OTHERS = 1, KEPT = 40 };

struct arena {
    struct sup_args args;
    SlabAllocator *allocator;
    _Atomic(SlabHandle) handle;
    atomic_uint_fast64_t round; /* the others go at it when it changes; 0: the end */
    atomic_uint answered, told; /* in this round */
};

static void free_each_round(void *argument, unsigned number) {
    struct arena *arena = argument;
    struct sup_rng rng = {sup_mix(arena->args.seed) + number};
    for (uint64_t seen = 1;;) {
        uint64_t round = atomic_load(&arena->round);
        if (round == 0) return;
        if (round == seen) continue;
        seen = round;
        for (volatile uint32_t wait = sup_rng_below(&rng, 60); wait > 0; wait--) {
        }
        if (free_obj(arena->allocator, atomic_load(&arena->handle))) atomic_fetch_add(&arena->told, 1);
        atomic_fetch_add(&arena->answered, 1);
    }
}

int main(int argc, char **argv) {
    static struct arena arena = {.args = {.seconds = 2.0, .seed = 1}, .round = 1};
    struct stress_crew crew;
    struct stress_object kept[KEPT] = {{0}};
    sup_args_parse(argc, argv, &arena.args);
    struct sup_rng rng = {sup_mix(arena.args.seed) + OTHERS};
    arena.allocator = slab_allocator_create();
    SUP_CHECK(arena.allocator != NULL, "slab_allocator_create");
    EpochId epochs[] = {epoch_open(arena.allocator, NULL, EPOCH_CHURN), epoch_open(arena.allocator, NULL, EPOCH_SCOPE)};
    stress_start(&crew, OTHERS, free_each_round, &arena);
    double until = sup_now_s() + arena.args.seconds;
    uint64_t rounds = 0, own = 0;
    for (; sup_now_s() < until; rounds++) {
        EpochId epoch = epochs[rounds % 8 == 0];
        SlabHandle handle;
        SUP_CHECK(alloc_obj_epoch(arena.allocator, 16 + sup_rng_below(&rng, 300), epoch, &handle) != NULL, "an object");
        atomic_store(&arena.handle, handle);
        atomic_store(&arena.answered, 0);
        atomic_store(&arena.told, 0);
        atomic_fetch_add(&arena.round, 1);
        for (volatile uint32_t wait = sup_rng_below(&rng, 60); wait > 0; wait--) {
        }
        bool mine = free_obj(arena.allocator, handle);
        own += mine;
        while (atomic_load(&arena.answered) < OTHERS) {
        }
        unsigned told = atomic_load(&arena.told) + mine;
        SUP_CHECK(told == 1, "handle %" PRIx64 ": %u threads have freed it", handle, told);
        /* The next object belongs to its thread alone. */
        struct stress_object *slot = &kept[sup_rng_below(&rng, KEPT)];
        if (slot->address) stress_free(arena.allocator, slot);
        *slot = stress_make(arena.allocator, epochs[0], &rng);
        SUP_CHECK(slot->address != NULL, "an object");
    }
    atomic_store(&arena.round, 0);
    stress_join(&crew);
    for (unsigned i = 0; i < KEPT; i++)
        if (kept[i].address) stress_free(arena.allocator, &kept[i]);
    sup_check_identities(arena.allocator);
    SUP_CHECK(sup_live_objects(arena.allocator) == 0, "%" PRIu64 " live objects", sup_live_objects(arena.allocator));
    SUP_CHECK(rounds > 0 && epoch_destroy(arena.allocator, epochs[0]) && epoch_destroy(arena.allocator, epochs[1]),
              "epoch_destroy");
    sup_check_empty(arena.allocator);
    slab_allocator_free(arena.allocator);
    (void)printf("exact_free_test: seed %" PRIu64 ", %" PRIu64 " rounds, %" PRIu64 " freed by their owner: good\n",
                 arena.args.seed, rounds, own);
    return 0;
}
