/*
 * Large objects of the FAR part (region/region.h): threads make them, let them grow and shrink, free each other's, end
 * epochs with them, by pointer and by handle; one more looks up places of the part that nobody gave it, trims, and
 * reads figures. The limit of large objects is lowered here.
 *
 *     far_test [--seconds N] [--seed N] [--threads N]
 */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include "check.h"
#include "identities.h"
#include "pattern.h"
#include "proc.h"
#include "rng.h"
#include "stress.h"

#include "region/region.h"
#include "slab/slab.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

enum { LIMIT = 100000, MOST = 700000, KEPT = 6 };

struct arena {
    struct sup_args args;
    SlabAllocator *allocator, *other;
    EpochId epoch;
    struct stress_box box;
    _Atomic uint64_t far_objects, freed_by_others, lookups;
    atomic_bool stop;
};

static bool has_far(void) { return ts_region.part[TS_FAR].units != 0; }
static bool is_far(const void *p) { return ts_is_data_of(TS_FAR, p); }

static struct stress_object make(struct arena *arena, EpochId epoch, struct sup_rng *rng) {
    struct stress_object o = {NULL, 1 + (size_t)sup_rng_below(rng, MOST), sup_rng_next(rng)};
    o.address = slab_malloc_epoch(arena->allocator, o.size, epoch);
    SUP_CHECK(o.address != NULL, "%zu bytes: %s", o.size, strerror(errno));
    SUP_CHECK(is_far(o.address) == (o.size > LIMIT && has_far()), "%zu bytes lie in the other part", o.size);
    sup_pattern_fill(o.address, o.size, o.key);
    (void)atomic_fetch_add(&arena->far_objects, is_far(o.address));
    return o;
}

static void resize(struct arena *arena, struct stress_object *o, struct sup_rng *rng) {
    size_t size = 1 + (size_t)sup_rng_below(rng, MOST), before = o->size;
    stress_check(o);
    unsigned char *p = slab_realloc(arena->allocator, o->address, size);
    SUP_CHECK(p != NULL, "slab_realloc of %zu bytes to %zu: %s", before, size, strerror(errno));
    SUP_CHECK(sup_pattern_check_prefix(p, before, size < before ? size : before, o->key), "slab_realloc lost bytes");
    o->address = p;
    o->size = size;
    sup_pattern_fill(p, size, o->key);
}

static void an_epoch(struct arena *arena, struct sup_rng *rng) {
    EpochId epoch = epoch_open(arena->allocator, NULL, sup_rng_below(rng, 2) ? EPOCH_CHURN : EPOCH_SCOPE);
    struct stress_object o[3];
    SlabHandle handle[3];
    for (unsigned i = 0; i < 3; i++) {
        o[i] = make(arena, epoch, rng);
        handle[i] = slab_handle_of(arena->allocator, o[i].address);
        SUP_CHECK(slab_handle_get(arena->allocator, handle[i]) == o[i].address, "a handle of %zu bytes", o[i].size);
    }
    if (sup_rng_below(rng, 2)) {
        SUP_CHECK(epoch_close(arena->allocator, epoch), "epoch_close");
        for (unsigned i = 0; i < 3; i++) stress_free(arena->allocator, &o[i]);
    } else {
        for (unsigned i = 0; i < 3; i++) stress_check(&o[i]);
        SUP_CHECK(epoch_destroy(arena->allocator, epoch), "epoch_destroy");
    }
    for (unsigned i = 0; i < 3; i++)
        SUP_CHECK(!free_obj(arena->allocator, handle[i]) && !slab_handle_get(arena->allocator, handle[i]),
                  "a handle outlives its object");
}

static void one_step(struct arena *arena, struct stress_object kept[KEPT], struct sup_rng *rng) {
    struct stress_object *o = &kept[sup_rng_below(rng, KEPT)];
    uint64_t choice = sup_rng_below(rng, 100);
    if (!o->address) {
        *o = make(arena, arena->epoch, rng);
    } else if (choice < 30) {
        resize(arena, o, rng);
    } else if (choice < 50) {
        if (stress_put(&arena->box, o)) o->address = NULL;
    } else if (choice < 60) {
        SlabHandle handle = slab_handle_of(arena->allocator, o->address);
        stress_check(o);
        SUP_CHECK(free_obj(arena->allocator, handle) && !free_obj(arena->allocator, handle), "free_obj");
        o->address = NULL;
    } else if (choice < 70) {
        SUP_CHECK(!slab_free(arena->other, o->address) && !slab_owns(arena->other, o->address), "of another allocator");
        SUP_CHECK(o->size < 32 || !slab_free(arena->allocator, o->address + 16), "an interior pointer was freed");
    } else {
        stress_free(arena->allocator, o);
    }
    struct stress_object theirs;
    for (unsigned i = 0; i < 2 && stress_take(&arena->box, &theirs); i++) {
        stress_free(arena->allocator, &theirs);
        (void)atomic_fetch_add(&arena->freed_by_others, 1);
    }
    if (choice % 10 == 0) an_epoch(arena, rng);
}

static bool count_object(void *object, size_t bytes, void *count) {
    SUP_CHECK(object != NULL && bytes > 0, "%p of %zu bytes", object, bytes);
    ++*(size_t *)count;
    return true;
}

/* Places around the highest unit, below and above. */
static void look(struct arena *arena, struct sup_rng *rng) {
    const ts_part *part = &ts_region.part[TS_FAR];
    for (uint64_t steps = 0; !atomic_load(&arena->stop); steps++) {
        uint64_t unit = sup_rng_below(rng, 2 * (uint64_t)ts_pool_highest(TS_FAR));
        if (unit < part->units) {
            char *at = part->base + ts_part_bytes(TS_FAR, unit) + 16 * sup_rng_below(rng, 3);
            SlabHandle handle = ts_handle_pack_far((uint32_t)unit, (uint32_t)sup_rng_below(rng, 8));
            SUP_CHECK(!slab_free(arena->other, at) && !slab_owns(arena->other, at), "%p is nobody's here", (void *)at);
            SUP_CHECK(!free_obj(arena->other, handle) && !slab_handle_get(arena->other, handle), "a guessed handle");
            (void)slab_usable_size(arena->allocator, at); /* any object there by now */
        }
        (void)atomic_fetch_add(&arena->lookups, 1);
        if (steps % 512 == 0) (void)slab_trim(arena->allocator);
        if (steps % 128 == 0) {
            size_t count = 0;
            SlabGlobalStats stats;
            (void)slab_walk(arena->allocator, arena->epoch, count_object, &count);
            SUP_CHECK(slab_stats_global(arena->allocator, &stats), "slab_stats_global");
        }
    }
}

static void work(void *argument, unsigned number) {
    struct arena *arena = argument;
    struct sup_rng rng = {arena->args.seed * 64 + number};
    struct stress_object kept[KEPT] = {{NULL, 0, 0}};
    if (number == 0) {
        look(arena, &rng);
        return;
    }
    while (!atomic_load(&arena->stop)) one_step(arena, kept, &rng);
    for (unsigned i = 0; i < KEPT; i++)
        if (kept[i].address) stress_free(arena->allocator, &kept[i]);
}

/* Something was freed by others, and looked up, and lay in the FAR part. */
static bool met_all(struct arena *arena) {
    return arena->freed_by_others > 0 && arena->lookups > 0 && (!has_far() || arena->far_objects > 0);
}

int main(int argc, char **argv) {
    static struct arena arena = {.args = {.seconds = 2.0, .seed = 1, .threads = 4}};
    struct stress_crew crew;
    sup_args_parse(argc, argv, &arena.args);
    SUP_CHECK(arena.args.threads >= 2 && arena.args.threads <= 64, "2 to 64 threads");
    SlabOptions options = {.size = sizeof options, .memory_tools = SLAB_TOOLS_OFF}; /* with tools there are none */
    arena.allocator = slab_allocator_create_ex(&options);
    arena.other = slab_allocator_create_ex(&options);
    SUP_CHECK(arena.allocator != NULL && arena.other != NULL, "slab_allocator_create");
    if (has_far()) ts_region.far_bytes = LIMIT;
    arena.epoch = epoch_open(arena.allocator, "large", EPOCH_CHURN);
    stress_box_init(&arena.box);
    stress_start(&crew, (unsigned)arena.args.threads, work, &arena);
    for (double until = sup_now_s() + arena.args.seconds; sup_now_s() < until || !met_all(&arena);) sup_sleep_ms(5);
    atomic_store(&arena.stop, true);
    stress_join(&crew);
    stress_box_drain(arena.allocator, &arena.box);
    SUP_CHECK(epoch_destroy(arena.allocator, arena.epoch), "epoch_destroy");
    (void)slab_trim(arena.allocator);
    sup_check_identities(arena.allocator);
    sup_check_empty(arena.allocator);
    SUP_CHECK(sup_committed_bytes(arena.allocator) == 0 && ts_pool_used(TS_FAR) == 0, "memory that nothing is in");
    slab_allocator_free(arena.allocator);
    slab_allocator_free(arena.other);
    (void)printf("far_test: seed %" PRIu64 ", %" PRIu64 " objects of the FAR part, %" PRIu64 " lookups: good\n",
                 arena.args.seed, (uint64_t)arena.far_objects, (uint64_t)arena.lookups);
    return 0;
}
