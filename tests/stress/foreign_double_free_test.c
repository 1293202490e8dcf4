/*
 * A handle is stale from the moment in which a free of its object has answered true, also when the thread that
 * freed it is not the one that owns the slab, and for every act of the owner on that slab at that instant.
 *
 *     foreign_double_free_test [--seconds N] [--seed N] [--threads N]
 *
 * One thread allocates, keeps patterned objects of its own in the same slabs, and so takes in the foreign frees
 * again and again; the others free the objects that it sends, and then try the handle once more.
 */
#include "identities.h"
#include "proc.h"
#include "stress.h"

#include <inttypes.h>
#include <stdio.h>

#define KEPT 256u
#define ROOM 1024u

struct arena {
    struct sup_args args;
    SlabAllocator *allocator;
    EpochId epochs[2];
    pthread_mutex_t mutex; /* of the handles on their way */
    SlabHandle handles[ROOM];
    unsigned count;
    atomic_bool stop;
    atomic_uint_fast64_t freed;
};

static void send(struct arena *arena, SlabHandle handle) {
    (void)pthread_mutex_lock(&arena->mutex);
    bool room = arena->count < ROOM;
    if (room) {
        arena->handles[arena->count++] = handle;
    }
    (void)pthread_mutex_unlock(&arena->mutex);
    SUP_CHECK(room || free_obj(arena->allocator, handle), "free_obj of a live handle");
}

static unsigned receive(struct arena *arena, SlabHandle *handles, unsigned most) {
    unsigned got = 0;
    (void)pthread_mutex_lock(&arena->mutex);
    while (got < most && arena->count > 0) {
        handles[got++] = arena->handles[--arena->count];
    }
    (void)pthread_mutex_unlock(&arena->mutex);
    return got;
}

static void own(void *argument, unsigned number) {
    struct arena *arena = argument;
    struct sup_rng rng = {sup_mix(arena->args.seed) + number};
    struct stress_object kept[KEPT] = {{0}};
    while (!atomic_load_explicit(&arena->stop, memory_order_relaxed)) {
        struct stress_object *slot = &kept[sup_rng_below(&rng, KEPT)];
        if (slot->address != NULL) {
            stress_free(arena->allocator, slot);
        }
        *slot = stress_make(arena->allocator, arena->epochs[0], &rng);
        SUP_CHECK(slot->address != NULL, "an open epoch takes objects");
        for (unsigned i = 0; i < 4; i++) {
            SlabHandle handle = SLAB_HANDLE_NONE;
            size_t size = 300 + (size_t)sup_rng_below(&rng, 100);
            void *object = alloc_obj_epoch(arena->allocator, size, arena->epochs[i % 2], &handle);
            SUP_CHECK(object != NULL, "an open epoch takes objects");
            send(arena, handle);
        }
    }
    for (unsigned i = 0; i < KEPT; i++) {
        if (kept[i].address != NULL) {
            stress_free(arena->allocator, &kept[i]);
        }
    }
}

static void free_twice(void *argument, unsigned number) {
    enum { BATCH = 32 };
    struct arena *arena = argument;
    SlabHandle handles[BATCH];
    while (!atomic_load_explicit(&arena->stop, memory_order_relaxed)) {
        unsigned got = receive(arena, handles, BATCH);
        for (unsigned i = 0; i < got; i++) {
            void *object = slab_handle_get(arena->allocator, handles[i]);
            SUP_CHECK(object != NULL, "the handle of a live object");
            SUP_CHECK((i + number) % 2 == 0 ? slab_free(arena->allocator, object)
                                            : free_obj(arena->allocator, handles[i]),
                      "the first free");
            for (unsigned turn = 0; turn < 4; turn++) {
                SUP_CHECK(slab_handle_get(arena->allocator, handles[i]) == NULL, "handle %" PRIx64 " after its free",
                          handles[i]);
                SUP_CHECK(!free_obj(arena->allocator, handles[i]), "the second free of handle %" PRIx64, handles[i]);
            }
            atomic_fetch_add_explicit(&arena->freed, 1, memory_order_relaxed);
        }
        for (unsigned i = 0; i < got; i++) {
            SUP_CHECK(!free_obj(arena->allocator, handles[i]), "the late second free of handle %" PRIx64, handles[i]);
        }
    }
}

int main(int argc, char **argv) {
    static struct arena arena = {.args = {.seconds = 2.0, .seed = 1, .threads = 3}};
    struct stress_crew owner;
    struct stress_crew others;
    sup_args_parse(argc, argv, &arena.args);
    SUP_CHECK(arena.args.threads >= 1 && arena.args.threads <= 64, "1 to 64 threads");
    arena.allocator = slab_allocator_create();
    SUP_CHECK(arena.allocator != NULL, "slab_allocator_create");
    arena.epochs[0] = epoch_open(arena.allocator, "churn", EPOCH_CHURN);
    arena.epochs[1] = epoch_open(arena.allocator, "scope", EPOCH_SCOPE);
    (void)pthread_mutex_init(&arena.mutex, NULL);
    stress_start(&owner, 1, own, &arena);
    stress_start(&others, (unsigned)arena.args.threads, free_twice, &arena);
    for (double until = sup_now_s() + arena.args.seconds; sup_now_s() < until || arena.freed == 0;) sup_sleep_ms(5);
    atomic_store(&arena.stop, true);
    stress_join(&owner);
    stress_join(&others);
    for (unsigned i = 0; i < arena.count; i++) {
        SUP_CHECK(free_obj(arena.allocator, arena.handles[i]), "what was on its way");
    }
    sup_check_identities(arena.allocator);
    SUP_CHECK(sup_live_objects(arena.allocator) == 0, "%" PRIu64 " live objects", sup_live_objects(arena.allocator));
    SUP_CHECK(epoch_destroy(arena.allocator, arena.epochs[0]) && epoch_destroy(arena.allocator, arena.epochs[1]),
              "epoch_destroy");
    sup_check_empty(arena.allocator);
    slab_allocator_free(arena.allocator);
    (void)pthread_mutex_destroy(&arena.mutex);
    (void)printf("foreign_double_free_test: seed %" PRIu64 ", %" PRIu64 " objects: good\n", arena.args.seed,
                 (uint64_t)arena.freed);
    return 0;
}
