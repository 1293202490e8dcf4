/*
 * Blocks whose memory goes back the moment that nobody has them, and which other threads take the next moment, while
 * frees of objects that live, that die meanwhile and that are long dead meet them, and statistics are read.
 *
 *     bare_blocks_test [--seconds N] [--seed N]
 */
#include "identities.h"
#include "proc.h"
#include "stress.h"

#include "ownership/ownership.h"
#include "walk/check.h"

#include <inttypes.h>
#include <stdio.h>

enum { MAKERS = 2, EPOCHS = 40, LAST = 64 };

struct arena {
    struct sup_args args;
    SlabAllocator *allocator;
    struct stress_box box; /* objects of epochs that are closed, not destroyed: the thread that takes one frees it */
    _Atomic(unsigned char *) last[LAST]; /* of epochs that are destroyed, sooner or later */
    _Atomic uint64_t epochs, late;
    _Atomic unsigned making;
};

/* A part of the epochs is destroyed with its objects; the others are closed, and other threads free their objects. */
static void make(struct arena *arena, unsigned number) {
    struct sup_rng rng = {sup_mix(arena->args.seed) + number};
    double until = sup_now_s() + arena->args.seconds;
    EpochId epochs[EPOCHS];
    for (unsigned round = 0; sup_now_s() < until || atomic_load(&arena->late) == 0; round++) {
        for (unsigned i = 0; i < EPOCHS; i++) {
            epochs[i] = epoch_open(arena->allocator, NULL, EPOCH_CHURN);
            struct stress_object object = stress_make(arena->allocator, epochs[i], &rng);
            SUP_CHECK(object.address != NULL, "slab_malloc_epoch");
            if (i % 2)
                atomic_store_explicit(&arena->last[sup_rng_below(&rng, LAST)], object.address, memory_order_release);
            else if (!stress_put(&arena->box, &object))
                stress_free(arena->allocator, &object);
        }
        for (unsigned i = 0; i < EPOCHS; i++)
            SUP_CHECK((i % 2 ? epoch_destroy : epoch_close)(arena->allocator, epochs[i]), "epoch %u", i);
        slab_thread_idle();
        if (round % 2) ts_records_purge(true);
        atomic_fetch_add(&arena->epochs, EPOCHS);
    }
    atomic_fetch_sub(&arena->making, 1);
}

static void free_foreign(struct arena *arena) {
    struct stress_object object;
    while (atomic_load(&arena->making))
        if (stress_take(&arena->box, &object)) stress_free(arena->allocator, &object);
}

/* Any object there. (The freed object is of a maker that will be destroyed: only such a one can be in `last`, and
   nobody frees it otherwise; but its place can be one by now that is in the box.) */
static void look_at_the_dead(struct arena *arena) {
    struct sup_rng rng = {sup_mix(arena->args.seed) + MAKERS};
    while (atomic_load(&arena->making)) {
        unsigned char *p = atomic_load_explicit(&arena->last[sup_rng_below(&rng, LAST)], memory_order_acquire);
        if (!p) continue;
        SlabHandle handle = slab_handle_of(arena->allocator, p);
        if (handle == SLAB_HANDLE_NONE) atomic_fetch_add(&arena->late, 1);
        (void)slab_handle_get(arena->allocator, handle);
        (void)slab_usable_size(arena->allocator, p);
        SUP_CHECK(!slab_free(arena->allocator, p + 8), "no object begins there");
    }
}

static void purge_and_read(struct arena *arena) {
    SlabGlobalStats global;
    while (atomic_load(&arena->making)) {
        ts_records_purge(true);
        SUP_CHECK(slab_stats_global(arena->allocator, &global), "slab_stats_global");
    }
}

static void work(void *argument, unsigned number) {
    static void (*const others[])(struct arena *) = {free_foreign, look_at_the_dead, purge_and_read};
    if (number < MAKERS)
        make(argument, number);
    else
        others[number - MAKERS](argument);
}

int main(int argc, char **argv) {
    static struct arena arena = {.args = {.seconds = 2.0, .seed = 1}, .making = MAKERS};
    struct stress_crew crew;
    ts_check check;
    sup_args_parse(argc, argv, &arena.args);
    arena.allocator = slab_allocator_create();
    SUP_CHECK(arena.allocator != NULL, "slab_allocator_create");
    stress_box_init(&arena.box);
    stress_start(&crew, MAKERS + 3, work, &arena);
    stress_join(&crew);
    stress_box_drain(arena.allocator, &arena.box);
    sup_check_empty(arena.allocator);
    SUP_CHECK(ts_check_all(&check, false), "%s", check.why);
    slab_allocator_free(arena.allocator);
    (void)printf("bare_blocks_test: seed %" PRIu64 ", %" PRIu64 " epochs, %" PRIu64 " stale pointers met: good\n",
                 arena.args.seed, arena.epochs, arena.late);
    return 0;
}
