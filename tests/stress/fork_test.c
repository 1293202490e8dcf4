/*
 * fork() while other threads are inside of the allocator: the child, which has only the forking thread, frees the
 * objects it inherited, allocates, opens and destroys epochs, and ends with 0; the parent goes on.
 *
 *     fork_test [--seconds N] [--seed N] [--threads N]
 */
#include "identities.h"
#include "proc.h"
#include "stress.h"

#include <inttypes.h>
#include <stdio.h>

#define KEPT 100u

struct arena {
    struct sup_args args;
    SlabAllocator *allocator;
    EpochId shared;
    struct stress_object inherited[KEPT];
    atomic_bool stop;
};

static void work(void *argument, unsigned number) {
    struct arena *arena = argument;
    struct sup_rng rng = {sup_mix(arena->args.seed) + number};
    struct stress_object kept[KEPT] = {{0}};
    while (!atomic_load_explicit(&arena->stop, memory_order_relaxed)) {
        struct stress_object *slot = &kept[sup_rng_below(&rng, KEPT)];
        if (slot->address != NULL) {
            stress_free(arena->allocator, slot);
        } else {
            *slot = stress_make(arena->allocator, arena->shared, &rng);
        }
        if (sup_rng_below(&rng, 100) == 0) {
            EpochId epoch = epoch_open(arena->allocator, NULL, EPOCH_SCOPE);
            struct stress_object object = stress_make(arena->allocator, epoch, &rng);
            stress_check(&object);
            SUP_CHECK(epoch_destroy(arena->allocator, epoch), "epoch_destroy");
        }
    }
    for (unsigned i = 0; i < KEPT; i++) {
        if (kept[i].address != NULL) {
            stress_free(arena->allocator, &kept[i]);
        }
    }
}

static void live_in_the_child(void *argument) {
    struct arena *arena = argument;
    struct sup_rng rng = {arena->args.seed};
    for (unsigned i = 0; i < KEPT; i++) {
        stress_free(arena->allocator, &arena->inherited[i]);
        arena->inherited[i] = stress_make(arena->allocator, arena->shared, &rng);
        SUP_CHECK(arena->inherited[i].address != NULL, "the epoch is open in the child");
    }
    EpochId epoch = epoch_open(arena->allocator, "child", EPOCH_CHURN);
    for (unsigned i = 0; i < KEPT; i++) {
        struct stress_object object = stress_make(arena->allocator, epoch, &rng);
        SUP_CHECK(object.address != NULL, "an epoch of the child");
    }
    SUP_CHECK(epoch_destroy(arena->allocator, epoch), "epoch_destroy in the child");
    EpochDomain *domain = epoch_domain_create(arena->allocator);
    SUP_CHECK(epoch_domain_enter(domain) && slab_alloc(100) != NULL, "a domain in the child");
    epoch_domain_destroy(domain);
    (void)slab_trim(arena->allocator);
    SlabGlobalStats stats;
    SUP_CHECK(slab_stats_global(arena->allocator, &stats), "figures in the child");
    for (unsigned i = 0; i < KEPT; i++) {
        stress_free(arena->allocator, &arena->inherited[i]);
    }
    SUP_CHECK(epoch_close(arena->allocator, arena->shared), "epoch_close in the child");
    SlabAllocator *another = slab_allocator_create();
    SUP_CHECK(slab_malloc(another, 100) != NULL, "a new allocator in the child");
    slab_allocator_free(another);
}

int main(int argc, char **argv) {
    static struct arena arena = {.args = {.seconds = 3.0, .seed = 1, .threads = 3}};
    struct stress_crew crew;
    uint64_t forks = 0;
    sup_args_parse(argc, argv, &arena.args);
    SUP_CHECK(arena.args.threads >= 1 && arena.args.threads <= 64, "1 to 64 threads");
    struct sup_rng rng = {sup_mix(arena.args.seed)};
    arena.allocator = slab_allocator_create();
    arena.shared = epoch_open(arena.allocator, "shared", EPOCH_CHURN);
    for (unsigned i = 0; i < KEPT; i++) {
        arena.inherited[i] = stress_make(arena.allocator, arena.shared, &rng);
    }
    stress_start(&crew, (unsigned)arena.args.threads, work, &arena);
    double until = sup_now_s() + arena.args.seconds;
    for (; sup_now_s() < until; forks++) {
        int status = sup_child(live_in_the_child, &arena, SUP_CHILD_SECONDS, NULL, 0);
        SUP_CHECK(status == 0, "child %" PRIu64 " ended with status %d%s", forks, status,
                  status == 14 ? " (it hung)" : "");
        unsigned at = (unsigned)sup_rng_below(&rng, KEPT);
        stress_free(arena.allocator, &arena.inherited[at]);
        arena.inherited[at] = stress_make(arena.allocator, arena.shared, &rng);
    }
    atomic_store(&arena.stop, true);
    stress_join(&crew);
    SUP_CHECK(forks > 0, "no fork");
    for (unsigned i = 0; i < KEPT; i++) {
        stress_free(arena.allocator, &arena.inherited[i]);
    }
    sup_check_identities(arena.allocator);
    SUP_CHECK(epoch_destroy(arena.allocator, arena.shared), "epoch_destroy");
    sup_check_empty(arena.allocator);
    slab_allocator_free(arena.allocator);
    (void)printf("fork_test: seed %" PRIu64 ", %" PRIu64 " forks: good\n", arena.args.seed, forks);
    return 0;
}
