/*
 * Blocks that are made while others look at them without having synchronized with their maker: frees of addresses that
 * came from nowhere, statistics, foreign frees. For ThreadSanitizer, first of all.
 *
 *     new_blocks_test [--seconds N] [--seed N]
 */
#include "identities.h"
#include "proc.h"
#include "stress.h"

#include <inttypes.h>
#include <stdio.h>

enum { MOST_EPOCHS = 2000, LAST = 8 };

struct arena {
    struct sup_args args;
    SlabAllocator *allocator, *other;
    EpochId epochs[MOST_EPOCHS];
    unsigned made;
    struct stress_box box;
    _Atomic(unsigned char *) last[LAST]; /* relaxed: nothing is handed over with them */
    _Atomic bool over;
};

/* Every epoch is a new block: none is given back before the end. */
static void make(struct arena *arena) {
    struct sup_rng rng = {sup_mix(arena->args.seed)};
    double until = sup_now_s() + arena->args.seconds;
    for (; arena->made < MOST_EPOCHS && sup_now_s() < until; arena->made++) {
        EpochId epoch = epoch_open(arena->allocator, NULL, arena->made % 2 ? EPOCH_SCOPE : EPOCH_CHURN);
        SUP_CHECK(epoch != EPOCH_NONE, "epoch_open");
        arena->epochs[arena->made] = epoch;
        for (unsigned i = 0; i < 3; i++) {
            struct stress_object object = stress_make(arena->allocator, epoch, &rng);
            SUP_CHECK(object.address != NULL, "slab_malloc_epoch");
            atomic_store_explicit(&arena->last[(arena->made * 3 + i) % LAST], object.address, memory_order_relaxed);
            if (i == 0) (void)stress_put(&arena->box, &object);
        }
    }
    atomic_store(&arena->over, true);
}

static void free_foreign(struct arena *arena) {
    struct stress_object object;
    while (!atomic_load(&arena->over))
        if (stress_take(&arena->box, &object)) stress_free(arena->allocator, &object);
}

static void free_nothing(struct arena *arena) {
    struct sup_rng rng = {sup_mix(arena->args.seed) + 1};
    void *own = slab_malloc(arena->other, 100);
    SUP_CHECK(own != NULL, "slab_malloc");
    while (!atomic_load(&arena->over)) {
        unsigned char *p = atomic_load_explicit(&arena->last[sup_rng_below(&rng, LAST)], memory_order_relaxed);
        if (p != NULL) SUP_CHECK(!slab_free(arena->other, p) && !slab_owns(arena->other, p), "another allocator's");
        SUP_CHECK(slab_free(arena->other, own) && (own = slab_malloc(arena->other, 100)) != NULL, "its own");
    }
    SUP_CHECK(slab_free(arena->other, own), "its own");
}

static void read_figures(struct arena *arena) {
    SlabClassStats stats;
    SlabGlobalStats global;
    while (!atomic_load(&arena->over)) {
        SUP_CHECK(slab_stats_class(arena->allocator, 5, &stats), "slab_stats_class");
        SUP_CHECK(slab_stats_global(arena->allocator, &global), "slab_stats_global");
    }
}

static void work(void *argument, unsigned number) {
    static void (*const roles[])(struct arena *) = {make, free_foreign, free_nothing, read_figures};
    roles[number](argument);
}

int main(int argc, char **argv) {
    static struct arena arena = {.args = {.seconds = 2.0, .seed = 1}};
    struct stress_crew crew;
    sup_args_parse(argc, argv, &arena.args);
    arena.allocator = slab_allocator_create();
    arena.other = slab_allocator_create();
    SUP_CHECK(arena.allocator != NULL && arena.other != NULL, "slab_allocator_create");
    stress_box_init(&arena.box);
    stress_start(&crew, 4, work, &arena);
    stress_join(&crew);
    stress_box_drain(arena.allocator, &arena.box);
    SUP_CHECK(arena.made > 0, "no epoch was made");
    sup_check_identities(arena.allocator);
    for (unsigned i = 0; i < arena.made; i++)
        SUP_CHECK(epoch_destroy(arena.allocator, arena.epochs[i]), "epoch_destroy");
    sup_check_empty(arena.allocator);
    sup_check_empty(arena.other);
    slab_allocator_free(arena.allocator);
    slab_allocator_free(arena.other);
    (void)printf("new_blocks_test: seed %" PRIu64 ", %u epochs: good\n", arena.args.seed, arena.made);
    return 0;
}
