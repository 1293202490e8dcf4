/*
 * Epochs are closed, destroyed, reset and trimmed beside threads that allocate and free without a pause, more of them
 * than there are processors: so the ends meet threads that have lost theirs in the middle of a call, and leave work to
 * them. The threads go to another allocator and back all the time. From time to time all stand still, and each makes
 * one call more, for either of the two: then nothing is left, and no object was lost or given out twice.
 *
 *     busy_close_test [--seconds N] [--seed N]
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

enum { WORKERS = 6, ENDERS = 2, THREADS = WORKERS + ENDERS, LIVE = 40, OPERATIONS = 3000, ENDS = 60 };

struct arena {
    struct sup_args args;
    SlabAllocator *allocator, *side;
    EpochId side_epoch;
    pthread_barrier_t barrier;
    _Atomic EpochId kept[ENDERS], doomed[ENDERS]; /* of each ender: the one that it closes, and destroys, next */
    EpochDomain *shared;
    EpochId shared_epoch;
    struct stress_box boxes[WORKERS];
    atomic_bool last;
    atomic_ullong ends, refused;
};

static void meet(struct arena *arena) { (void)pthread_barrier_wait(&arena->barrier); }

/* In an epoch that dies as a whole, and is not written to: the memory can be another object's at once, so it is freed
   by its handle. */
static void touch_doomed(struct arena *arena, struct sup_rng *rng) {
    bool domain = sup_rng_below(rng, 2) == 0;
    EpochId epoch = domain ? arena->shared_epoch : atomic_load(&arena->doomed[sup_rng_below(rng, ENDERS)]);
    SlabHandle handle;
    void *p = alloc_obj_epoch(arena->allocator, 1 + sup_rng_below(rng, 2000), epoch, &handle);
    if (p && sup_rng_below(rng, 2) == 0) {
        (void)free_obj(arena->allocator, handle);
    }
}

/* Of another allocator, in each way that an operation begins. */
static void one_beside(struct arena *arena, struct sup_rng *rng) {
    void *p;
    switch (sup_rng_below(rng, 3)) {
    case 0: p = slab_malloc(arena->side, 100); break;
    case 1: p = slab_aligned_epoch(arena->side, 64, 100, arena->side_epoch); break;
    default: p = slab_malloc_epoch(arena->side, 100, arena->side_epoch);
    }
    SUP_CHECK(p && slab_free(arena->side, p), "an object of the other allocator");
}

static void work(struct arena *arena, unsigned number, struct sup_rng *rng, struct stress_object *live) {
    for (unsigned n = 0; n < OPERATIONS; n++) {
        struct stress_object *o = &live[sup_rng_below(rng, LIVE)];
        if (o->address && (sup_rng_below(rng, 4) != 0 || !stress_put(&arena->boxes[sup_rng_below(rng, WORKERS)], o))) {
            stress_free(arena->allocator, o); /* or another thread does */
        }
        *o = stress_make(arena->allocator, atomic_load(&arena->kept[sup_rng_below(rng, ENDERS)]), rng);
        if (sup_rng_below(rng, 3) == 0) {
            touch_doomed(arena, rng);
        }
        if (sup_rng_below(rng, 2) == 0) {
            one_beside(arena, rng);
        }
        struct stress_object theirs;
        if (sup_rng_below(rng, 4) == 0 && stress_take(&arena->boxes[number], &theirs)) {
            stress_free(arena->allocator, &theirs);
        }
    }
    for (unsigned i = 0; i < LIVE; i++) {
        if (live[i].address) {
            stress_free(arena->allocator, &live[i]);
            live[i].address = NULL;
        }
    }
}

static EpochId open_one(struct arena *arena, struct sup_rng *rng) {
    EpochId id = epoch_open(arena->allocator, NULL, sup_rng_below(rng, 4) == 0 ? EPOCH_SCOPE : EPOCH_CHURN);
    SUP_CHECK(id != EPOCH_NONE, "epoch_open");
    return id;
}

static void end_some(struct arena *arena, unsigned number, struct sup_rng *rng) {
    for (unsigned n = 0; n < ENDS; n++) {
        EpochId before;
        switch (sup_rng_below(rng, 5)) {
        case 0:
        case 1:
            before = atomic_exchange(&arena->kept[number], open_one(arena, rng));
            SUP_CHECK(epoch_close(arena->allocator, before), "epoch_close");
            SUP_CHECK(!slab_malloc_epoch(arena->allocator, 100, before), "an object after the close");
            break;
        case 2:
            before = atomic_exchange(&arena->doomed[number], open_one(arena, rng));
            SUP_CHECK(epoch_destroy(arena->allocator, before), "epoch_destroy");
            SUP_CHECK(epoch_state(arena->allocator, before) == EPOCH_CLOSED, "after its destroy");
            break;
        case 3:
            if (number == 0) {
                SUP_CHECK(epoch_domain_reset(arena->shared, 1 << 20), "epoch_domain_reset");
            } else {
                SUP_CHECK(epoch_advance(arena->allocator) != EPOCH_NONE, "epoch_advance");
            }
            break;
        default:
            (void)slab_trim(arena->allocator);
            SUP_CHECK(epoch_advance(arena->side) != EPOCH_NONE, "epoch_advance of the other allocator");
        }
        atomic_fetch_add(&arena->ends, 1);
    }
}

static void one_call(SlabAllocator *allocator) {
    void *p = slab_malloc(allocator, 100);
    SUP_CHECK(p && slab_free(allocator, p), "one call more");
}

static void run(void *argument, unsigned number) {
    struct arena *arena = argument;
    struct sup_rng rng = {sup_mix(arena->args.seed + number)};
    struct stress_object live[LIVE] = {{NULL, 0, 0}};
    bool worker = number < WORKERS;
    for (;;) {
        meet(arena);
        if (atomic_load(&arena->last)) {
            return;
        }
        if (worker) {
            work(arena, number, &rng, live);
        } else {
            end_some(arena, number - WORKERS, &rng);
        }
        meet(arena);
        if (worker) {
            struct stress_object theirs;
            while (stress_take(&arena->boxes[number], &theirs)) {
                stress_free(arena->allocator, &theirs);
            }
        }
        meet(arena);
        /* The missed blocks end in their thread's next calls, of which an allocation works off eight blocks at most. */
        for (unsigned i = 0; i < 200; i++) {
            one_call(number % 2 ? arena->side : arena->allocator);
        }
        meet(arena);
    }
}

static void look(struct arena *arena, bool barrier) {
    SlabGlobalStats stats;
    if (!barrier) {
        return;
    }
    SUP_CHECK(slab_stats_global(arena->allocator, &stats), "slab_stats_global");
    SUP_CHECK(stats.left_bytes == 0, "%" PRIu64 " bytes are left", stats.left_bytes);
    /* Where objects of a closed epoch lived the last free ended it; one slab more may wait for a thread that was missed
       then. */
    SUP_CHECK(stats.closing_epoch_count == 0, "%" PRIu64 " closed epochs hold nothing, and stay",
              stats.closing_epoch_count);
    sup_check_identities(arena->allocator);
    sup_check_identities(arena->side);
    SUP_CHECK(sup_live_objects(arena->side) == 0, "objects of the other allocator are left");
}

int main(int argc, char **argv) {
    static struct arena arena = {.args = {.seconds = 2.0, .seed = 1}};
    struct stress_crew crew;
    uint64_t rounds = 0;
    sup_args_parse(argc, argv, &arena.args);
    arena.allocator = slab_allocator_create();
    arena.side = slab_allocator_create();
    SUP_CHECK(arena.allocator && arena.side, "slab_allocator_create");
    arena.side_epoch = epoch_open(arena.side, NULL, EPOCH_CHURN);
    bool barrier = ts_os->barrier_all();
    SUP_CHECK(pthread_barrier_init(&arena.barrier, NULL, THREADS + 1) == 0, "pthread_barrier_init");
    arena.shared = epoch_domain_create_ex(arena.allocator, NULL, EPOCH_DOMAIN_SHARED | EPOCH_CHURN);
    SUP_CHECK(arena.shared != NULL, "epoch_domain_create_ex");
    arena.shared_epoch = epoch_domain_epoch(arena.shared);
    for (unsigned i = 0; i < ENDERS; i++) {
        atomic_store(&arena.kept[i], epoch_open(arena.allocator, NULL, EPOCH_CHURN));
        atomic_store(&arena.doomed[i], epoch_open(arena.allocator, NULL, EPOCH_CHURN));
    }
    for (unsigned i = 0; i < WORKERS; i++) {
        stress_box_init(&arena.boxes[i]);
    }
    stress_start(&crew, THREADS, run, &arena);
    double from = sup_now_s();
    do {
        for (unsigned i = 0; i < 4; i++) {
            meet(&arena);
        }
        look(&arena, barrier);
        rounds++;
    } while (sup_now_s() - from < arena.args.seconds);
    atomic_store(&arena.last, true);
    meet(&arena);
    stress_join(&crew);
    SlabGlobalStats stats;
    SUP_CHECK(slab_stats_global(arena.allocator, &stats), "slab_stats_global");
    for (unsigned i = 0; i < WORKERS; i++) {
        stress_box_drain(arena.allocator, &arena.boxes[i]);
    }
    epoch_domain_destroy(arena.shared);
    slab_allocator_free(arena.allocator);
    slab_allocator_free(arena.side);
    printf("%" PRIu64 " rounds, %llu ends, of which %" PRIu64 " left something to a thread\n", rounds,
           (unsigned long long)atomic_load(&arena.ends), stats.epoch_left_total);
    return 0;
}
