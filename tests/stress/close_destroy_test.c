/*
 * Epochs are closed and destroyed by one thread while others allocate in them. ESTALE is the only refusal; an object
 * from before a close stays until it is freed; an object from before a destroy is stale; nobody's bytes are given to
 * somebody else.
 *
 *     close_destroy_test [--seconds N] [--seed N] [--threads N]
 */
#include "identities.h"
#include "proc.h"
#include "stress.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#define SLOTS 4u
#define BATCH 64u

struct arena {
    struct sup_args args;
    SlabAllocator *allocator;
    _Atomic EpochId closing[SLOTS];    /* epochs that are only ever closed */
    _Atomic EpochId destroying[SLOTS]; /* epochs that are destroyed with their objects */
    EpochId steady;
    atomic_bool stop;
    atomic_uint_fast64_t refused;
    atomic_uint_fast64_t objects;
};

/* Objects of these live on after the close: they carry a pattern from the first moment to the free. */
static uint64_t use_closing(struct arena *arena, struct sup_rng *rng) {
    struct stress_object objects[BATCH];
    unsigned count = 0;
    EpochId epoch = arena->closing[sup_rng_below(rng, SLOTS)];
    while (count < BATCH) {
        objects[count] = stress_make(arena->allocator, epoch, rng);
        if (objects[count].address == NULL) {
            atomic_fetch_add_explicit(&arena->refused, 1, memory_order_relaxed);
            SUP_CHECK(epoch_state(arena->allocator, epoch) != EPOCH_ACTIVE, "refused by an open epoch");
            break;
        }
        count++;
    }
    for (unsigned i = 0; i < count; i++) {
        stress_free(arena->allocator, &objects[i]);
    }
    return count;
}

/* Objects of these may die at any moment: they are not touched, and when the epoch is gone, all their handles
   are stale. */
static uint64_t use_destroying(struct arena *arena, struct sup_rng *rng) {
    SlabHandle handles[BATCH];
    unsigned count = 0;
    EpochId epoch = arena->destroying[sup_rng_below(rng, SLOTS)];
    bool refused = false;
    while (count < BATCH && !refused) {
        errno = 0;
        void *object = alloc_obj_epoch(arena->allocator, (size_t)sup_rng_below(rng, 2000), epoch, &handles[count]);
        refused = object == NULL;
        SUP_CHECK(!refused || errno == ESTALE, "alloc_obj_epoch: %s", strerror(errno));
        count += !refused;
    }
    /* The refusal may come before the destroy is complete; from EPOCH_CLOSED on nothing is live. */
    while (refused && epoch_state(arena->allocator, epoch) != EPOCH_CLOSED) {
        sup_sleep_ms(0);
    }
    for (unsigned i = 0; refused && i < count; i++) {
        SUP_CHECK(slab_handle_get(arena->allocator, handles[i]) == NULL, "a handle of a destroyed epoch");
        SUP_CHECK(!free_obj(arena->allocator, handles[i]), "a handle of a destroyed epoch");
    }
    if (!refused && count > 0) {
        (void)free_obj(arena->allocator, handles[0]);
    }
    atomic_fetch_add_explicit(&arena->refused, refused, memory_order_relaxed);
    return count;
}

/* In an epoch that stays: the objects that would be overwritten if memory had two owners. */
static uint64_t use_steady(struct arena *arena, struct sup_rng *rng, struct stress_object *kept) {
    for (unsigned i = 0; i < BATCH; i++) {
        if (kept[i].address != NULL && sup_rng_below(rng, 4) == 0) {
            stress_free(arena->allocator, &kept[i]);
        }
        if (kept[i].address == NULL) {
            kept[i] = stress_make(arena->allocator, arena->steady, rng);
            SUP_CHECK(kept[i].address != NULL, "an open epoch takes objects");
        } else {
            stress_check(&kept[i]);
        }
    }
    return BATCH;
}

static void work(void *argument, unsigned number) {
    struct arena *arena = argument;
    struct sup_rng rng = {sup_mix(arena->args.seed) + number};
    struct stress_object kept[BATCH] = {{0}};
    uint64_t count = 0;
    while (!atomic_load_explicit(&arena->stop, memory_order_relaxed)) {
        count += use_closing(arena, &rng);
        count += use_destroying(arena, &rng);
        count += use_steady(arena, &rng, kept);
    }
    for (unsigned i = 0; i < BATCH; i++) {
        if (kept[i].address != NULL) {
            stress_free(arena->allocator, &kept[i]);
        }
    }
    atomic_fetch_add(&arena->objects, count);
}

static void renew(void *argument, unsigned number) {
    struct arena *arena = argument;
    struct sup_rng rng = {sup_mix(arena->args.seed) ^ (number + 99)};
    while (!atomic_load_explicit(&arena->stop, memory_order_relaxed)) {
        unsigned slot = (unsigned)sup_rng_below(&rng, SLOTS);
        unsigned flags = sup_rng_below(&rng, 2) == 0 ? EPOCH_CHURN : EPOCH_SCOPE;
        EpochId next = epoch_open(arena->allocator, "next", flags);
        SUP_CHECK(next != EPOCH_NONE, "epoch_open: %s", strerror(errno));
        if (sup_rng_below(&rng, 2) == 0) {
            EpochId before = atomic_exchange(&arena->closing[slot], next);
            SUP_CHECK(epoch_close(arena->allocator, before), "epoch_close");
        } else {
            EpochId before = atomic_exchange(&arena->destroying[slot], next);
            SUP_CHECK(epoch_destroy(arena->allocator, before), "epoch_destroy");
            SUP_CHECK(!epoch_destroy(arena->allocator, before), "epoch_destroy twice");
            SUP_CHECK(epoch_state(arena->allocator, before) == EPOCH_CLOSED, "the state of a destroyed epoch");
        }
        if (sup_rng_below(&rng, 64) == 0) {
            (void)slab_trim(arena->allocator);
        }
        sup_sleep_ms((unsigned)sup_rng_below(&rng, 2));
    }
}

int main(int argc, char **argv) {
    static struct arena arena = {.args = {.seconds = 3.0, .seed = 1, .threads = 3}};
    struct stress_crew workers;
    struct stress_crew renewers;
    sup_args_parse(argc, argv, &arena.args);
    SUP_CHECK(arena.args.threads >= 1 && arena.args.threads <= 64, "1 to 64 threads");
    arena.allocator = slab_allocator_create();
    arena.steady = epoch_open(arena.allocator, "steady", EPOCH_CHURN);
    for (unsigned i = 0; i < SLOTS; i++) {
        arena.closing[i] = epoch_open(arena.allocator, "closing", EPOCH_CHURN);
        arena.destroying[i] = epoch_open(arena.allocator, "destroying", EPOCH_SCOPE);
    }
    stress_start(&workers, (unsigned)arena.args.threads, work, &arena);
    stress_start(&renewers, 2, renew, &arena);
    for (double until = sup_now_s() + arena.args.seconds; sup_now_s() < until || arena.refused == 0;) sup_sleep_ms(5);
    atomic_store(&arena.stop, true);
    stress_join(&workers);
    stress_join(&renewers);
    sup_check_identities(arena.allocator);
    for (unsigned i = 0; i < SLOTS; i++) {
        SUP_CHECK(epoch_destroy(arena.allocator, arena.closing[i]), "epoch_destroy");
        SUP_CHECK(epoch_destroy(arena.allocator, arena.destroying[i]), "epoch_destroy");
    }
    SUP_CHECK(sup_live_objects(arena.allocator) == 0, "%" PRIu64 " live objects", sup_live_objects(arena.allocator));
    SUP_CHECK(epoch_destroy(arena.allocator, arena.steady), "epoch_destroy");
    SUP_CHECK(slab_epochs(arena.allocator, NULL, 0) == 0, "epochs are left");
    sup_check_identities(arena.allocator);
    sup_check_empty(arena.allocator);
    slab_allocator_free(arena.allocator);
    (void)printf("close_destroy_test: seed %" PRIu64 ", %" PRIu64 " objects, %" PRIu64 " refusals: good\n",
                 arena.args.seed, (uint64_t)arena.objects, (uint64_t)arena.refused);
    return 0;
}
