/*
 * The mark of the region rises (region/region.h) while other threads look up places around it which nobody gave them:
 * addresses and handles just below it, at it, and above it. No lookup faults, each is refused, and objects handed out
 * meanwhile are found.
 *
 *     mark_test [--seconds N] [--seed N]
 */
#include "proc.h"
#include "stress.h"

#include "region/region.h"
#include "slab/slab.h"

#include <inttypes.h>
#include <stdio.h>

struct arena {
    struct sup_args args;
    SlabAllocator *allocator, *other;
    _Atomic bool over;
    _Atomic uint64_t lookups;
    uint64_t growths;
};

/* Spans and small objects by turns, none given back: both marks rise, in steps of every length. */
static void grow(struct arena *arena) {
    struct sup_rng rng = {sup_mix(arena->args.seed)};
    double until = sup_now_s() + arena->args.seconds;
    EpochId epoch = epoch_open(arena->allocator, NULL, EPOCH_CHURN);
    uint32_t before = 0;
    if (ts_region.part[TS_FAR].units != 0) ts_region.far_bytes = (size_t)7 << 20; /* that of the FAR part rises, too */
    while (sup_now_s() < until || arena->growths < 2) {
        size_t bytes = sup_rng_below(&rng, 4) ? (size_t)(1 + sup_rng_below(&rng, 512)) * TS_UNIT_BYTES : 32;
        for (unsigned i = 0; i < (bytes == 32 ? 20000u : 1u); i++) {
            char *p = slab_malloc_epoch(arena->allocator, bytes, epoch);
            if (!p) break; /* the region is used up */
            SUP_CHECK(slab_owns(arena->allocator, p), "%p was handed out", (void *)p);
            SlabHandle handle = i % 64 == 0 ? slab_handle_of(arena->allocator, p) : SLAB_HANDLE_NONE;
            SUP_CHECK(i % 64 != 0 || slab_handle_get(arena->allocator, handle) == p, "the handle of %p", (void *)p);
        }
        uint32_t marks = ts_region_marked_units(TS_NORMAL);
        SUP_CHECK(marks >= before, "a mark went down");
        arena->growths += marks > before;
        before = marks;
        if (marks > ts_region.part[TS_NORMAL].units / 2 ||
            ts_pool_used(TS_FAR) > 20000) { /* all of it again, and the same places */
            SUP_CHECK(epoch_destroy(arena->allocator, epoch), "epoch_destroy");
            epoch = epoch_open(arena->allocator, NULL, EPOCH_CHURN);
        }
    }
    SUP_CHECK(epoch_destroy(arena->allocator, epoch), "epoch_destroy");
    atomic_store(&arena->over, true);
}

static void look(struct arena *arena, unsigned number) {
    struct sup_rng rng = {sup_mix(arena->args.seed) + number};
    uint64_t done = 0;
    while (!atomic_load_explicit(&arena->over, memory_order_relaxed)) {
        unsigned which = (unsigned)sup_rng_below(&rng, TS_PARTS);
        const ts_part *part = &ts_region.part[which];
        uint64_t mark = ts_region_marked_units(which); /* the lookup finds it again, or a later one */
        uint64_t unit = mark + sup_rng_below(&rng, 4100);
        unit = unit < 2050 ? 0 : unit - 2050;
        if (unit >= part->units) continue;
        char *at = part->base + ts_part_bytes(which, unit) + 16 * sup_rng_below(&rng, 8);
        SlabHandle handle = which == TS_FAR ? ts_handle_pack_far((uint32_t)unit, 1)
                                            : unit << 42 | (uint64_t)1 << 18 | TS_HANDLE_FORMAT | 5 << 2;
        SUP_CHECK(!slab_free(arena->other, at) && !slab_owns(arena->other, at), "%p is nobody's here", (void *)at);
        SUP_CHECK(!free_obj(arena->other, handle) && !slab_handle_get(arena->other, handle), "a guessed handle");
        done++;
    }
    (void)atomic_fetch_add(&arena->lookups, done);
}

static void work(void *argument, unsigned number) {
    if (number == 0)
        grow(argument);
    else
        look(argument, number);
}

int main(int argc, char **argv) {
    static struct arena arena = {.args = {.seconds = 2.0, .seed = 1}};
    struct stress_crew crew;
    sup_args_parse(argc, argv, &arena.args);
    arena.allocator = slab_allocator_create();
    arena.other = slab_allocator_create();
    SUP_CHECK(arena.allocator != NULL && arena.other != NULL, "slab_allocator_create");
    stress_start(&crew, 4, work, &arena);
    stress_join(&crew);
    SUP_CHECK(arena.growths > 1, "no mark has risen");
    slab_allocator_free(arena.allocator);
    slab_allocator_free(arena.other);
    (void)printf("mark_test: seed %" PRIu64 ", %" PRIu64 " growths, %" PRIu64 " lookups: good\n", arena.args.seed,
                 arena.growths, (uint64_t)arena.lookups);
    return 0;
}
