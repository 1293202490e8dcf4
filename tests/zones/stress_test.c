/*
 * Threads that spill, load, free, read and destroy the same epochs at once, while the threads whose objects they are
 * go on with others, rest, or have ended. At the end every object that is left is right, all that were freed were
 * freed once, and the deep walk finds everything in its place. --seed N, --ops N (of each thread), --programs N
 * (rounds).
 */
#define _GNU_SOURCE
#include "rng.h"
#include "support.h"

#include <pthread.h>
#include <stdatomic.h>

#define EPOCHS 4
#define OWNERS 3 /* each has a part of every epoch's objects */
#define PART 120
#define OBJECTS (OWNERS * PART)
#define KEEPERS 2
#define FREERS 3
#define DEVICE "zones=40&zone_size=256K&zone_capacity=192K&max_open=3&max_active=4"

typedef struct object {
    unsigned char *at;
    SlabHandle handle;
    uint32_t bytes;
    _Atomic bool taken; /* by the thread that frees it */
} object;

static struct {
    SlabAllocator *allocator;
    SlabZones *zones;
    EpochId epoch[EPOCHS];
    object object[EPOCHS][OBJECTS];
    _Atomic bool destroyed[EPOCHS]; /* or about to be */
    _Atomic uint64_t freed[EPOCHS], spills, loads, reads;
    pthread_barrier_t filled, closed;
    _Atomic bool stop;
    uint64_t seed, ops;
} all;

static unsigned char byte_of(unsigned e, size_t o, size_t i) { return (unsigned char)(e * 57 + o * 13 + i * 3 + 1); }

static bool is_filled(const unsigned char *at, unsigned e, size_t o) {
    for (size_t i = 0; i < all.object[e][o].bytes; i++)
        if (at[i] != byte_of(e, o, i)) return false;
    return true;
}

/* Fills its part of all epochs; then the first ends, the second rests, and the third goes on in an epoch of its own. */
static void *own(void *arg) {
    unsigned self = (unsigned)(uintptr_t)arg;
    struct sup_rng rng = {sup_mix(all.seed + self)};
    for (unsigned e = 0; e < EPOCHS; e++) {
        for (size_t o = self * PART; o < (self + 1) * PART; o++) {
            static const uint32_t sizes[] = {16, 64, 64, 100, 700, 2000, 9000, 40000};
            object *p = &all.object[e][o];
            p->bytes = sizes[sup_rng_below(&rng, 8)];
            p->at = alloc_obj_epoch(all.allocator, p->bytes, all.epoch[e], &p->handle);
            SUP_CHECK(p->at, "no object: %s", strerror(errno));
            for (size_t i = 0; i < p->bytes; i++) p->at[i] = byte_of(e, o, i);
            atomic_store(&p->taken, false);
        }
    }
    (void)pthread_barrier_wait(&all.filled);
    if (self == 0) return NULL;
    (void)pthread_barrier_wait(&all.closed);
    EpochId mine = epoch_open(all.allocator, "busy", EPOCH_CHURN);
    unsigned char *ring[64] = {0};
    for (uint64_t n = 0; !atomic_load(&all.stop); n++) {
        if (self == 1) {
            (void)usleep(500);
            continue;
        }
        unsigned char **p = &ring[sup_rng_below(&rng, 64)];
        SUP_CHECK(slab_free(all.allocator, *p), "an own object is not freed");
        size_t bytes = 1 + sup_rng_below(&rng, 3000);
        *p = slab_malloc_epoch(all.allocator, bytes, mine);
        SUP_CHECK(*p, "no object: %s", strerror(errno));
        memset(*p, 0x55, bytes); /* faults if the slab is one that is away */
    }
    SUP_CHECK(epoch_destroy(all.allocator, mine), "an own epoch");
    return NULL;
}

static void *keep(void *arg) {
    struct sup_rng rng = {sup_mix(all.seed + 100 + (uintptr_t)arg)};
    for (uint64_t n = 0; n < all.ops; n++) {
        unsigned e = (unsigned)sup_rng_below(&rng, EPOCHS);
        errno = 0;
        switch (sup_rng_below(&rng, 40)) {
        case 0: /* the last one is never destroyed */
            if (e == EPOCHS - 1 || atomic_exchange(&all.destroyed[e], true)) break;
            (void)epoch_destroy(all.allocator, all.epoch[e]); /* false: its last object was freed */
            break;
        case 1: (void)zt_stats(all.zones); break;
        case 2: (void)slab_trim(all.allocator); break;
        case 3: (void)epoch_state(all.allocator, all.epoch[e]); break;
        default:
            if (sup_rng_below(&rng, 2)) {
                if (epoch_spill(all.allocator, all.epoch[e], all.zones))
                    atomic_fetch_add(&all.spills, 1);
                else
                    SUP_CHECK(errno == EBUSY || errno == ESTALE || errno == ENOSPC, "spill: %s", strerror(errno));
            } else {
                if (epoch_load(all.allocator, all.epoch[e]))
                    atomic_fetch_add(&all.loads, 1);
                else
                    SUP_CHECK(errno == EINVAL, "load: %s", strerror(errno));
            }
        }
    }
    return NULL;
}

static void *free_and_read(void *arg) {
    struct sup_rng rng = {sup_mix(all.seed + 200 + (uintptr_t)arg)};
    unsigned char *copy = malloc(40000);
    for (uint64_t n = 0; n < all.ops * 4; n++) {
        unsigned e = (unsigned)sup_rng_below(&rng, EPOCHS);
        size_t o = sup_rng_below(&rng, OBJECTS);
        object *p = &all.object[e][o];
        if (n % 4 == 0) (void)usleep((useconds_t)sup_rng_below(&rng, 300)); /* so that they are away meanwhile */
        if (sup_rng_below(&rng, 4) == 0) {
            ssize_t got = slab_zones_read(all.allocator, p->handle, copy, p->bytes);
            SUP_CHECK(got == -1 || (got == (ssize_t)p->bytes && is_filled(copy, e, o)),
                      "epoch %u, object %zu is read wrong", e, o);
            atomic_fetch_add(&all.reads, got != -1);
            continue;
        }
        /* Of the last epoch some stay, so that there is something to look at. */
        if ((e == EPOCHS - 1 && o % 4 == 0) || atomic_exchange(&p->taken, true)) continue;
        /* By pointer only where nobody destroys: the place could be another object's by now. */
        bool by_pointer = e == EPOCHS - 1 && sup_rng_below(&rng, 2);
        bool done = by_pointer ? slab_free(all.allocator, p->at) : free_obj(all.allocator, p->handle);
        SUP_CHECK(done || atomic_load(&all.destroyed[e]), "epoch %u, object %zu is not freed", e, o);
        atomic_fetch_add(&all.freed[e], 1);
        SUP_CHECK(!free_obj(all.allocator, p->handle), "epoch %u, object %zu is freed twice", e, o);
    }
    free(copy);
    return NULL;
}

static void look_at_epoch(unsigned e) {
    if (atomic_load(&all.destroyed[e]) || atomic_load(&all.freed[e]) == OBJECTS) {
        SUP_CHECK(epoch_state(all.allocator, all.epoch[e]) == EPOCH_CLOSED, "epoch %u is over, and not closed", e);
        return;
    }
    SlabEpochStats s;
    SUP_CHECK(slab_stats_epoch(all.allocator, SLAB_ALL_CLASSES, all.epoch[e], &s), "no statistics");
    SUP_CHECK(s.live_objects == OBJECTS - atomic_load(&all.freed[e]), "epoch %u: %llu live", e,
              (unsigned long long)s.live_objects);
    /* The rest is freed where it is: in memory, or away. */
    bool away = epoch_state(all.allocator, all.epoch[e]) == EPOCH_SPILLED ||
                epoch_spill(all.allocator, all.epoch[e], all.zones);
    if (away && all.seed % 2 == 0)
        SUP_CHECK(epoch_load(all.allocator, all.epoch[e]), "load at the end: %s", strerror(errno));
    for (size_t o = 0; o < OBJECTS; o++) {
        object *p = &all.object[e][o];
        if (atomic_load(&p->taken)) continue;
        SUP_CHECK((away && all.seed % 2 != 0) || is_filled(p->at, e, o), "epoch %u, object %zu is wrong", e, o);
        SUP_CHECK(slab_free(all.allocator, p->at), "epoch %u, object %zu", e, o);
    }
    SUP_CHECK(epoch_state(all.allocator, all.epoch[e]) == EPOCH_CLOSED, "epoch %u: all is freed, and it is not closed",
              e);
}

/* The remaining objects of an epoch that nobody destroys go away, if there is room, and are read. */
static void read_rest(unsigned e) {
    static unsigned char copy[40000];
    if (epoch_state(all.allocator, all.epoch[e]) != EPOCH_SPILLED &&
        !epoch_spill(all.allocator, all.epoch[e], all.zones)) {
        SUP_CHECK(errno == ENOSPC, "spill at the end: %s", strerror(errno));
        return;
    }
    for (size_t o = 0; o < OBJECTS; o++) {
        const object *p = &all.object[e][o];
        if (atomic_load(&p->taken)) continue;
        SUP_CHECK(slab_zones_read(all.allocator, p->handle, copy, p->bytes) == (ssize_t)p->bytes &&
                      is_filled(copy, e, o),
                  "epoch %u, object %zu is read wrong", e, o);
        atomic_fetch_add(&all.reads, 1);
    }
}

static void round_of(uint64_t seed) {
    pthread_t owner[OWNERS], keeper[KEEPERS], freer[FREERS];
    (void)unlink(zt_path());
    sup_set_seed(seed);
    all.seed = sup_mix(seed);
    all.allocator = slab_allocator_create();
    all.zones = zt_open(DEVICE);
    atomic_store(&all.stop, false);
    SUP_CHECK(pthread_barrier_init(&all.filled, NULL, OWNERS + 1) == 0 &&
                  pthread_barrier_init(&all.closed, NULL, OWNERS) == 0,
              "no barrier");
    for (unsigned e = 0; e < EPOCHS; e++) {
        all.epoch[e] = epoch_open(all.allocator, "shared", e % 2 ? EPOCH_SCOPE : EPOCH_CHURN);
        atomic_store(&all.destroyed[e], false);
        atomic_store(&all.freed[e], 0);
    }
    for (uintptr_t i = 0; i < OWNERS; i++) SUP_CHECK(pthread_create(&owner[i], NULL, own, (void *)i) == 0, "no thread");
    (void)pthread_barrier_wait(&all.filled);
    SUP_CHECK(pthread_join(owner[0], NULL) == 0, "no thread");
    for (unsigned e = 0; e < EPOCHS; e++) SUP_CHECK(epoch_close(all.allocator, all.epoch[e]), "it does not close");
    (void)pthread_barrier_wait(&all.closed);
    for (uintptr_t i = 0; i < KEEPERS; i++)
        SUP_CHECK(pthread_create(&keeper[i], NULL, keep, (void *)i) == 0, "no thread");
    for (uintptr_t i = 0; i < FREERS; i++)
        SUP_CHECK(pthread_create(&freer[i], NULL, free_and_read, (void *)i) == 0, "no thread");
    for (unsigned i = 0; i < KEEPERS; i++) SUP_CHECK(pthread_join(keeper[i], NULL) == 0, "no thread");
    for (unsigned i = 0; i < FREERS; i++) SUP_CHECK(pthread_join(freer[i], NULL) == 0, "no thread");
    atomic_store(&all.stop, true);
    for (unsigned i = 1; i < OWNERS; i++) SUP_CHECK(pthread_join(owner[i], NULL) == 0, "no thread");
    (void)zt_stats(all.zones);
    zt_check();
    read_rest(EPOCHS - 1);
    for (unsigned e = 0; e < EPOCHS; e++) look_at_epoch(e);
    slab_allocator_free(all.allocator);
    SlabZonesStats s = zt_stats(all.zones);
    SUP_CHECK(s.empty_zones == s.zones && s.errors_total == 0 && s.spilled_epochs == 0, "%u zones are empty",
              s.empty_zones);
    zt_check();
    SUP_CHECK(slab_zones_close(all.zones), "%s", strerror(errno));
    (void)pthread_barrier_destroy(&all.filled);
    (void)pthread_barrier_destroy(&all.closed);
}

int main(int argc, char **argv) {
    struct sup_args args = {.seed = 1, .programs = SUP_SANITIZED ? 6 : 20, .ops = SUP_SANITIZED ? 60 : 150};
    sup_args_parse(argc, argv, &args);
    zt_in_memory();
    all.ops = args.ops;
    for (uint64_t i = 0; i < args.programs; i++) round_of(args.seed * 1000 + i);
    printf("stress_test: %llu spills, %llu loads, %llu reads\n", (unsigned long long)atomic_load(&all.spills),
           (unsigned long long)atomic_load(&all.loads), (unsigned long long)atomic_load(&all.reads));
    SUP_CHECK(atomic_load(&all.spills) > 10 && atomic_load(&all.loads) > 10 && atomic_load(&all.reads) > 10,
              "too little was done");
    return 0;
}
