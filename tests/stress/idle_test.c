/*
 * Threads that fill epochs and go to sleep, again and again, while another one closes and destroys those epochs:
 * the memory is back although the sleepers have not stirred, by our figures and by the kernel's.
 *
 *     idle_test [--seconds N] [--seed N] [--threads N]
 */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include "identities.h"
#include "proc.h"
#include "stress.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#define MIB ((size_t)1 << 20)
#define BYTES_EACH (4 * MIB)

struct arena {
    struct sup_args args;
    SlabAllocator *allocator;
    EpochId closes;   /* all objects freed, then closed */
    EpochId destroys; /* destroyed with its objects */
    pthread_barrier_t barrier;
    bool last; /* written between two barriers */
};

static void fill_and_sleep(void *argument, unsigned number) {
    struct arena *arena = argument;
    struct sup_rng rng = {sup_mix(arena->args.seed) + number};
    for (;;) {
        (void)pthread_barrier_wait(&arena->barrier);
        if (arena->last) {
            return;
        }
        for (size_t bytes = 0; bytes < BYTES_EACH;) {
            size_t size = 100 + (size_t)sup_rng_below(&rng, 2000);
            void *dies = slab_malloc_epoch(arena->allocator, size, arena->destroys);
            void *goes = slab_malloc_epoch(arena->allocator, size, arena->closes);
            SUP_CHECK(dies != NULL && goes != NULL, "slab_malloc_epoch");
            memset(dies, 1, size);
            memset(goes, 1, size);
            SUP_CHECK(slab_free(arena->allocator, goes), "slab_free");
            bytes += size;
        }
        (void)pthread_barrier_wait(&arena->barrier); /* full */
        (void)pthread_barrier_wait(&arena->barrier); /* asleep until the memory was looked at */
    }
}

int main(int argc, char **argv) {
    static struct arena arena = {.args = {.seconds = 2.0, .seed = 1, .threads = 3}};
    struct stress_crew crew;
    SlabOptions options = {.size = sizeof options, .reclaim_policy = SLAB_RECLAIM_AT_ONCE};
    uint64_t rounds = 0;
    sup_args_parse(argc, argv, &arena.args);
    SUP_CHECK(arena.args.threads >= 1 && arena.args.threads <= 64, "1 to 64 threads");
    arena.allocator = slab_allocator_create_ex(&options);
    SUP_CHECK(arena.allocator != NULL, "slab_allocator_create_ex");
    SUP_CHECK(pthread_barrier_init(&arena.barrier, NULL, (unsigned)arena.args.threads + 1) == 0, "barrier");
    stress_start(&crew, (unsigned)arena.args.threads, fill_and_sleep, &arena);
    size_t before = sup_rss_bytes();
    for (double until = sup_now_s() + arena.args.seconds; sup_now_s() < until; rounds++) {
        arena.closes = epoch_open(arena.allocator, "closes", rounds % 2 == 0 ? EPOCH_CHURN : EPOCH_SCOPE);
        arena.destroys = epoch_open(arena.allocator, "destroys", rounds % 3 == 0 ? EPOCH_CHURN : EPOCH_SCOPE);
        (void)pthread_barrier_wait(&arena.barrier);
        (void)pthread_barrier_wait(&arena.barrier);
        size_t full = sup_rss_bytes();
        SUP_CHECK(epoch_close(arena.allocator, arena.closes), "epoch_close");
        SUP_CHECK(epoch_state(arena.allocator, arena.closes) == EPOCH_CLOSED, "all of it was freed");
        SUP_CHECK(epoch_destroy(arena.allocator, arena.destroys), "epoch_destroy");
        (void)slab_trim(arena.allocator);
        sup_check_identities(arena.allocator);
        SUP_CHECK(sup_live_objects(arena.allocator) == 0, "live objects");
        SUP_CHECK(sup_committed_bytes(arena.allocator) == 0, "round %" PRIu64 ": %" PRIu64 " bytes held by sleepers",
                  rounds, sup_committed_bytes(arena.allocator));
        size_t after = sup_rss_bytes();
        SUP_CHECK(SUP_SANITIZED || full >= before + arena.args.threads * BYTES_EACH / 2,
                  "round %" PRIu64 ": the epochs were not resident: %zu, %zu full", rounds, before, full);
        SUP_CHECK(SUP_SANITIZED || after <= before + 4 * MIB,
                  "round %" PRIu64 ": resident %zu at first, %zu full, %zu after", rounds, before, full, after);
        (void)pthread_barrier_wait(&arena.barrier);
    }
    arena.last = true;
    (void)pthread_barrier_wait(&arena.barrier);
    stress_join(&crew);
    SUP_CHECK(rounds > 0, "no round");
    sup_check_empty(arena.allocator);
    (void)pthread_barrier_destroy(&arena.barrier);
    slab_allocator_free(arena.allocator);
    (void)printf("idle_test: seed %" PRIu64 ", %" PRIu64 " rounds: good\n", arena.args.seed, rounds);
    return 0;
}
