/*
 * Every allocation sampled (a mean of one byte) while threads hand objects to one another, epochs are destroyed under
 * them and a reader looks at the stacks all the time: at each quiet point the samples are exactly the live objects.
 *
 *     stacks_test [--seconds N] [--seed N] [--threads N]
 */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include "identities.h"
#include "proc.h"
#include "stress.h"

#include <inttypes.h>
#include <stdio.h>

#define STEPS 400u
#define ROWS 512u
#define TOTALS 4097u

struct arena {
    struct sup_args args;
    SlabAllocator *allocator;
    EpochId shared, doomed;
    struct stress_box boxes[64];
    pthread_barrier_t barrier;
    _Atomic bool last;
};

static void work(struct arena *arena, unsigned number, struct sup_rng *rng) {
    for (unsigned step = 0; step < STEPS; step++) {
        /* Dies with its epoch at any moment, so it is not touched; or is refused. */
        (void)slab_malloc_epoch(arena->allocator, (size_t)sup_rng_below(rng, 2000), arena->doomed);
        struct stress_object made = stress_make(arena->allocator, arena->shared, rng), got;
        SUP_CHECK(made.address != NULL, "the epoch is open");
        unsigned to = (unsigned)sup_rng_below(rng, arena->args.threads);
        if (!stress_put(&arena->boxes[to], &made)) stress_free(arena->allocator, &made);
        if (sup_rng_below(rng, 2) && stress_take(&arena->boxes[number], &got)) stress_free(arena->allocator, &got);
    }
}

static void run(void *argument, unsigned number) {
    struct arena *arena = argument;
    struct sup_rng rng = {sup_mix(arena->args.seed) + number};
    for (;;) {
        (void)pthread_barrier_wait(&arena->barrier);
        if (atomic_load(&arena->last)) return;
        work(arena, number, &rng);
        (void)pthread_barrier_wait(&arena->barrier);
        (void)pthread_barrier_wait(&arena->barrier); /* looked at */
        struct stress_object got;
        while (stress_take(&arena->boxes[number], &got)) stress_free(arena->allocator, &got);
        (void)pthread_barrier_wait(&arena->barrier);
    }
}

static uint64_t samples(const struct arena *arena, SlabStackSample *rows) {
    uint64_t sum = 0;
    size_t n = slab_stacks(arena->allocator, EPOCH_NONE, rows, ROWS);
    SUP_CHECK(n <= ROWS, "%zu stacks", n);
    for (size_t i = 0; i < n; i++) {
        SUP_CHECK(rows[i].frame_count >= 1 && rows[i].frame_count <= SLAB_STACK_FRAMES, "%u frames",
                  rows[i].frame_count);
        SUP_CHECK(rows[i].samples > 0 && rows[i].live_objects > 0, "an empty row");
        SUP_CHECK(rows[i].frames[0] != 0, "no address");
        sum += rows[i].samples;
    }
    return sum;
}

static void read_on(void *argument, unsigned number) {
    struct arena *arena = argument;
    static SlabStackSample rows[ROWS];
    (void)number;
    while (!atomic_load(&arena->last)) (void)samples(arena, rows);
}

static void check(struct arena *arena, uint64_t round, const char *when) {
    static SlabStackSample rows[ROWS];
    SlabGlobalStats stats;
    uint64_t have = samples(arena, rows), live = sup_live_objects(arena->allocator);
    SUP_CHECK(slab_stats_global(arena->allocator, &stats) && stats.stack_samples_dropped == 0, "samples were dropped");
    SUP_CHECK(have == live, "round %" PRIu64 ", %s: %" PRIu64 " samples of %" PRIu64 " live objects", round, when, have,
              live);
    static SlabStackTotal totals[TOTALS];
    size_t n = slab_stack_totals(arena->allocator, totals, TOTALS);
    uint64_t ever = 0;
    SUP_CHECK(n <= TOTALS, "%zu totals", n);
    for (size_t i = 0; i < n; i++) ever += totals[i].samples;
    SUP_CHECK(ever == stats.stack_samples_taken, "round %" PRIu64 ", %s: totals of %" PRIu64 " of %" PRIu64 " samples",
              round, when, ever, stats.stack_samples_taken);
}

int main(int argc, char **argv) {
    static struct arena arena = {.args = {.seconds = 2.0, .seed = 1, .threads = 4}};
    struct stress_crew crew, reader;
    SlabOptions options = {.size = sizeof options, .sample_stacks = 1};
    uint64_t rounds = 0;
    sup_args_parse(argc, argv, &arena.args);
    SUP_CHECK(arena.args.threads >= 1 && arena.args.threads <= 16, "1 to 16 threads");
    arena.allocator = slab_allocator_create_ex(&options);
    SUP_CHECK(arena.allocator != NULL, "slab_allocator_create_ex");
    SUP_CHECK(pthread_barrier_init(&arena.barrier, NULL, (unsigned)arena.args.threads + 1) == 0, "barrier");
    for (unsigned i = 0; i < 64; i++) stress_box_init(&arena.boxes[i]);
    stress_start(&crew, (unsigned)arena.args.threads, run, &arena);
    stress_start(&reader, 1, read_on, &arena);
    for (double until = sup_now_s() + arena.args.seconds; sup_now_s() < until; rounds++) {
        unsigned flags = rounds % 2 ? EPOCH_SCOPE : EPOCH_CHURN;
        arena.shared = epoch_open(arena.allocator, "shared", flags);
        arena.doomed = epoch_open(arena.allocator, "doomed", rounds % 3 ? EPOCH_CHURN : EPOCH_SCOPE);
        (void)pthread_barrier_wait(&arena.barrier);
        if (rounds % 4) SUP_CHECK(epoch_destroy(arena.allocator, arena.doomed), "epoch_destroy");
        (void)pthread_barrier_wait(&arena.barrier);
        check(&arena, rounds, "objects in the boxes");
        if (rounds % 4 == 0) SUP_CHECK(epoch_destroy(arena.allocator, arena.doomed), "epoch_destroy");
        check(&arena, rounds, "destroyed");
        (void)pthread_barrier_wait(&arena.barrier);
        (void)pthread_barrier_wait(&arena.barrier);
        SUP_CHECK(sup_live_objects(arena.allocator) == 0, "live objects");
        check(&arena, rounds, "all freed");
        SUP_CHECK(epoch_destroy(arena.allocator, arena.shared), "epoch_destroy");
    }
    atomic_store(&arena.last, true);
    (void)pthread_barrier_wait(&arena.barrier);
    stress_join(&crew);
    stress_join(&reader);
    SUP_CHECK(rounds > 0, "no round");
    for (unsigned i = 0; i < 64; i++) stress_box_drain(arena.allocator, &arena.boxes[i]);
    (void)pthread_barrier_destroy(&arena.barrier);
    slab_allocator_free(arena.allocator);
    (void)printf("stacks_test: seed %" PRIu64 ", %" PRIu64 " rounds: good\n", arena.args.seed, rounds);
    return 0;
}
