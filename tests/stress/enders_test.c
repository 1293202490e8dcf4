/*
 * Epochs of domains are closed, destroyed, ended and limited by threads that are not theirs, while their own threads
 * fill, reset and end them without a pause, more of them than there are processors: so an end, or a limit, meets a
 * thread that has lost its processor in the middle of an allocation or a reset. An ended epoch takes no more objects, a
 * limit holds, and at the end nothing is left.
 *
 *     enders_test [--seconds N] [--seed N]
 */
#include "identities.h"
#include "proc.h"
#include "stress.h"

#include <inttypes.h>
#include <stdio.h>

enum { OWNERS = 3, ENDERS = 2, ROUNDS = 60 };

#define LIMIT ((size_t)4 * 16384) /* more than an owner has at a time */

struct arena {
    struct sup_args args;
    SlabAllocator *allocator;
    _Atomic(EpochDomain *) domain[OWNERS]; /* of each owner: the one that it has now */
    _Atomic EpochId epoch[OWNERS];
    atomic_bool last;
    atomic_ullong resets, ends, limits;
};

/* Whether it takes objects still. */
static bool fill(EpochDomain *domain, struct sup_rng *rng) {
    bool all = true;
    if (!epoch_domain_enter(domain)) {
        return false;
    }
    for (uint64_t n = sup_rng_below(rng, 4); n > 0; n--) {
        all = slab_alloc(16 + sup_rng_below(rng, 3000)) != NULL && all;
    }
    SUP_CHECK(epoch_domain_exit(domain) || epoch_domain_epoch(domain) == EPOCH_NONE, "epoch_domain_exit");
    return all;
}

/* While a thread that sets a limit has the epoch pinned, blocks that resets have emptied are held: that thread may have
   no processor. */
static void check_held(EpochDomain *domain) {
    for (unsigned ms = 0; ms < 60000 && epoch_domain_held(domain) > LIMIT; ms++) {
        sup_sleep_ms(1);
    }
    SUP_CHECK(epoch_domain_held(domain) <= LIMIT, "it holds %zu bytes", epoch_domain_held(domain));
}

static void own(struct arena *arena, unsigned number, struct sup_rng *rng) {
    EpochDomain *domain = epoch_domain_create(arena->allocator);
    SUP_CHECK(domain != NULL, "epoch_domain_create");
    EpochId epoch = epoch_domain_epoch(domain);
    atomic_store(&arena->epoch[number], epoch);
    atomic_store(&arena->domain[number], domain);
    bool ended = false;
    for (unsigned n = 0; n < ROUNDS && !ended; n++) {
        bool was = epoch_state(arena->allocator, epoch) != EPOCH_ACTIVE;
        ended = !fill(domain, rng) || !epoch_domain_reset(domain, SIZE_MAX);
        SUP_CHECK(!was || ended, "it was ended, and goes on");
        check_held(domain);
        atomic_fetch_add(&arena->resets, 1);
    }
    if (!ended || epoch_domain_epoch(domain) != EPOCH_NONE) {
        (void)epoch_domain_end(domain); /* or another thread does, at this moment */
    }
}

static void end_one(struct arena *arena, struct sup_rng *rng) {
    unsigned number = (unsigned)sup_rng_below(rng, OWNERS);
    EpochDomain *domain = atomic_load(&arena->domain[number]);
    EpochId epoch = atomic_load(&arena->epoch[number]);
    if (!domain || epoch == EPOCH_NONE) {
        return;
    }
    bool done = false;
    switch (sup_rng_below(rng, 4)) {
    case 3:
        if (epoch_set_limit(arena->allocator, epoch, LIMIT)) {
            atomic_fetch_add(&arena->limits, 1);
        }
        return;
    case 0: done = epoch_close(arena->allocator, epoch); break;
    case 1: done = epoch_destroy(arena->allocator, epoch); break;
    default: (void)epoch_domain_end(domain); return;
    }
    if (done) {
        SUP_CHECK(epoch_state(arena->allocator, epoch) != EPOCH_ACTIVE, "after its end");
        SUP_CHECK(!epoch_close(arena->allocator, epoch), "twice");
        SUP_CHECK(!slab_malloc_epoch(arena->allocator, 100, epoch), "an object after its end");
        atomic_fetch_add(&arena->ends, 1);
    }
}

static void run(void *argument, unsigned number) {
    struct arena *arena = argument;
    struct sup_rng rng = {sup_mix(arena->args.seed + number)};
    while (!atomic_load(&arena->last)) {
        if (number < OWNERS) {
            own(arena, number, &rng);
        } else {
            end_one(arena, &rng);
        }
    }
}

static void say_nothing(const char *line, size_t bytes, void *argument) {
    (void)line;
    (void)bytes;
    (void)argument;
}

int main(int argc, char **argv) {
    static struct arena arena = {.args = {.seconds = 2.0, .seed = 1}};
    struct stress_crew crew;
    sup_args_parse(argc, argv, &arena.args);
    slab_set_message_sink(say_nothing, NULL); /* a domain that has ended is misuse */
    arena.allocator = slab_allocator_create();
    SUP_CHECK(arena.allocator != NULL, "slab_allocator_create");
    stress_start(&crew, OWNERS + ENDERS, run, &arena);
    double from = sup_now_s();
    while (sup_now_s() - from < arena.args.seconds) {
        sup_sleep_ms(20);
    }
    atomic_store(&arena.last, true);
    stress_join(&crew);
    SlabGlobalStats stats;
    SUP_CHECK(slab_stats_global(arena.allocator, &stats), "slab_stats_global");
    SUP_CHECK(stats.active_epoch_count + stats.closing_epoch_count == 0, "%" PRIu64 " epochs are left",
              stats.active_epoch_count + stats.closing_epoch_count);
    sup_check_identities(arena.allocator);
    sup_check_empty(arena.allocator);
    slab_allocator_free(arena.allocator);
    printf("%llu resets, %llu limits, %llu ends, of which %" PRIu64 " were left to a thread\n",
           (unsigned long long)atomic_load(&arena.resets), (unsigned long long)atomic_load(&arena.limits),
           (unsigned long long)atomic_load(&arena.ends), stats.epoch_left_total);
    return 0;
}
