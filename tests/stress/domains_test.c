/*
 * Domains under load: one that all threads share, while a further thread closes it by force and renews it, and chains
 * in which a domain goes from thread to thread, each adding objects and a cleanup, the last destroying it. And domains
 * of one thread, which it resets and destroys, while others name, join, close and destroy their epochs.
 *
 *     domains_test [--seconds N] [--seed N] [--threads N]
 */
#include "identities.h"
#include "pattern.h"
#include "proc.h"
#include "stress.h"

#include "ownership/ownership.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#define LINKS 6u /* threads that a chain passes */
#define CHAINS 8u
#define OFFERS 4u           /* epochs of domains of one thread that others meddle with */
#define SHARED_MOST 200000u /* objects that stay in the shared domain: long runs must not fill the machine */

struct chain {
    EpochDomain *domain;
    unsigned links;
    unsigned cleanups; /* of this domain that ran, and in which order */
    unsigned expected;
    struct stress_object objects[LINKS];
};

struct arena {
    struct sup_args args;
    SlabAllocator *allocator;
    EpochDomain *shared;
    pthread_mutex_t mutex; /* of chains */
    struct chain *free_chains[CHAINS];
    unsigned free_count;
    struct chain chains[CHAINS];
    _Atomic EpochId offers[OFFERS];
    atomic_uint_fast64_t meddled;
    atomic_bool stop;
    atomic_uint_fast64_t shared_objects;
    atomic_uint_fast64_t destroyed;
};

static void count_cleanup(void *argument) {
    struct chain *chain = argument;
    chain->cleanups++;
}

static void use_shared(struct arena *arena, struct sup_rng *rng) {
    uint64_t made = 0;
    bool keeps = atomic_load_explicit(&arena->shared_objects, memory_order_relaxed) < SHARED_MOST;
    SUP_CHECK(epoch_domain_enter(arena->shared), "enter a shared domain: %s", strerror(errno));
    for (unsigned i = 0; i < 20; i++) {
        size_t size = (size_t)sup_rng_below(rng, 600);
        unsigned char *object = slab_alloc(size);
        SUP_CHECK(object != NULL, "slab_alloc in a shared domain: %s", strerror(errno));
        sup_pattern_fill(object, size, i);
        made++;
        if (i % 3 != 0 || !keeps) {
            SUP_CHECK(sup_pattern_check(object, size, i), "%p of %zu bytes has a second owner", (void *)object, size);
            SUP_CHECK(slab_free(arena->allocator, object), "slab_free");
            made--;
        }
    }
    SUP_CHECK(epoch_domain_exit(arena->shared), "exit: %s", strerror(errno));
    atomic_fetch_add_explicit(&arena->shared_objects, made, memory_order_relaxed);
}

/* One link: takes a chain, allocates in its domain, and gives it up again or destroys it. */
static void use_chain(struct arena *arena, struct sup_rng *rng) {
    struct chain *chain = NULL;
    (void)pthread_mutex_lock(&arena->mutex);
    if (arena->free_count > 0) {
        uint64_t at = sup_rng_below(rng, arena->free_count);
        chain = arena->free_chains[at];
        arena->free_chains[at] = arena->free_chains[--arena->free_count];
    }
    (void)pthread_mutex_unlock(&arena->mutex);
    if (chain == NULL) {
        return;
    }
    if (chain->domain == NULL) {
        *chain = (struct chain){.domain = epoch_domain_create(arena->allocator)};
        SUP_CHECK(chain->domain != NULL, "epoch_domain_create: %s", strerror(errno));
    }
    SUP_CHECK(epoch_domain_enter(chain->domain), "enter what was handed over: %s", strerror(errno));
    SUP_CHECK(epoch_domain_current() == chain->domain, "the innermost domain");
    for (unsigned i = 0; i < chain->links; i++) {
        stress_check(&chain->objects[i]);
    }
    struct stress_object *object = &chain->objects[chain->links];
    *object = stress_make(arena->allocator, epoch_domain_epoch(chain->domain), rng);
    SUP_CHECK(object->address != NULL, "an open domain takes objects");
    SUP_CHECK(epoch_domain_on_destroy(chain->domain, count_cleanup, chain), "epoch_domain_on_destroy");
    chain->expected++;
    if (++chain->links == LINKS) {
        epoch_domain_destroy(chain->domain);
        SUP_CHECK(chain->cleanups == chain->expected, "%u of %u cleanups", chain->cleanups, chain->expected);
        SUP_CHECK(epoch_domain_current() == NULL, "left by its destroy");
        chain->domain = NULL;
        atomic_fetch_add_explicit(&arena->destroyed, 1, memory_order_relaxed);
    } else {
        SUP_CHECK(epoch_domain_exit(chain->domain), "exit");
        SUP_CHECK(epoch_domain_hand_over(chain->domain), "hand over: %s", strerror(errno));
    }
    (void)pthread_mutex_lock(&arena->mutex);
    arena->free_chains[arena->free_count++] = chain;
    (void)pthread_mutex_unlock(&arena->mutex);
}

/* With an epoch that its thread ends or empties, perhaps at this moment. Objects that come into it die with it. */
static void meddle(struct arena *arena, struct sup_rng *rng) {
    EpochId epoch = atomic_load_explicit(&arena->offers[sup_rng_below(rng, OFFERS)], memory_order_relaxed);
    bool done = false;
    switch (epoch == EPOCH_NONE ? 99 : sup_rng_below(rng, 8)) {
    case 0:
    case 1:
    case 2: done = slab_epoch_set_label(arena->allocator, epoch, "met"); break;
    case 3:
    case 4:
    case 5: done = slab_malloc_epoch(arena->allocator, 100, epoch) != NULL; break;
    case 6: done = epoch_close(arena->allocator, epoch); break;
    case 7: done = epoch_destroy(arena->allocator, epoch); break;
    default: break;
    }
    if (done) {
        atomic_fetch_add_explicit(&arena->meddled, 1, memory_order_relaxed);
    }
}

static void use_own(struct arena *arena, struct sup_rng *rng) {
    EpochDomain *own = epoch_domain_create(arena->allocator);
    SUP_CHECK(own != NULL && epoch_domain_enter(own), "a domain of its own: %s", strerror(errno));
    _Atomic EpochId *offer = &arena->offers[sup_rng_below(rng, OFFERS)];
    bool open = true;
    atomic_store_explicit(offer, epoch_domain_epoch(own), memory_order_relaxed);
    for (unsigned i = 0; i < 20 && open; i++) {
        unsigned char *object = slab_alloc(200);
        SUP_CHECK(object != NULL || errno == ESTALE, "slab_alloc: %s", strerror(errno));
        open = epoch_domain_reset(own, SIZE_MAX);
        SUP_CHECK(open || errno == ESTALE, "reset: %s", strerror(errno));
        SUP_CHECK(!open || !slab_owns(arena->allocator, object), "live after the reset");
    }
    SUP_CHECK(epoch_domain_exit(own), "exit: %s", strerror(errno));
    epoch_domain_destroy(own);
    SUP_CHECK(epoch_domain_epoch(own) == EPOCH_NONE, "a domain after its end");
}

static void work(void *argument, unsigned number) {
    struct arena *arena = argument;
    struct sup_rng rng = {sup_mix(arena->args.seed) + number};
    while (!atomic_load_explicit(&arena->stop, memory_order_relaxed)) {
        use_shared(arena, &rng);
        use_chain(arena, &rng);
        for (unsigned i = 0; i < 10; i++) {
            use_own(arena, &rng);
            meddle(arena, &rng);
        }
    }
}

/* A shared domain of its own, closed by force under threads that allocate in it. */
struct doomed {
    struct arena *arena;
    EpochDomain *domain;
    atomic_uint refusals;
};

static void allocate_until_closed(void *argument, unsigned number) {
    struct doomed *doomed = argument;
    (void)number;
    if (!epoch_domain_enter(doomed->domain)) {
        SUP_CHECK(errno == ESTALE, "enter: %s", strerror(errno));
        atomic_fetch_add(&doomed->refusals, 1);
        return;
    }
    void *object = NULL;
    do {
        errno = 0;
        object = slab_alloc(100);
        if (object != NULL) {
            memset(object, 1, 100);
        }
    } while (object != NULL);
    SUP_CHECK(errno == ESTALE, "slab_alloc: %s", strerror(errno));
    SUP_CHECK(epoch_domain_exit(doomed->domain), "exit a closed domain");
    atomic_fetch_add(&doomed->refusals, 1);
}

static void force_closes(struct arena *arena, double seconds) {
    double until = sup_now_s() + seconds;
    while (sup_now_s() < until || arena->destroyed == 0 || arena->meddled == 0) {
        struct doomed doomed = {.arena = arena,
                                .domain = epoch_domain_create_ex(arena->allocator, "doomed", EPOCH_DOMAIN_SHARED)};
        struct stress_crew crew;
        stress_start(&crew, 2, allocate_until_closed, &doomed);
        sup_sleep_ms(2);
        SUP_CHECK(epoch_domain_force_close(doomed.domain), "force_close");
        stress_join(&crew);
        SUP_CHECK(doomed.refusals == 2, "both threads were refused");
        epoch_domain_destroy(doomed.domain);
    }
}

int main(int argc, char **argv) {
    static struct arena arena = {.args = {.seconds = 2.0, .seed = 1, .threads = 4}};
    struct stress_crew crew;
    sup_args_parse(argc, argv, &arena.args);
    SUP_CHECK(arena.args.threads >= 1 && arena.args.threads <= 64, "1 to 64 threads");
    arena.allocator = slab_allocator_create();
    arena.shared = epoch_domain_create_ex(arena.allocator, "shared", EPOCH_DOMAIN_SHARED | EPOCH_CHURN);
    (void)pthread_mutex_init(&arena.mutex, NULL);
    for (unsigned i = 0; i < CHAINS; i++) {
        arena.free_chains[arena.free_count++] = &arena.chains[i];
    }
    stress_start(&crew, (unsigned)arena.args.threads, work, &arena);
    force_closes(&arena, arena.args.seconds);
    atomic_store(&arena.stop, true);
    stress_join(&crew);
    sup_check_identities(arena.allocator);
    SlabEpochStats stats;
    SUP_CHECK(slab_stats_epoch(arena.allocator, SLAB_ALL_CLASSES, epoch_domain_epoch(arena.shared), &stats),
              "slab_stats_epoch");
    SUP_CHECK(stats.live_objects == arena.shared_objects, "%" PRIu64 " live in the shared domain, %" PRIu64 " made",
              stats.live_objects, (uint64_t)arena.shared_objects);
    SUP_CHECK(arena.destroyed > 0, "no chain came to its end");
    SUP_CHECK(arena.meddled > 0, "no epoch was met");
    epoch_domain_destroy(arena.shared);
    for (unsigned i = 0; i < CHAINS; i++) {
        if (arena.chains[i].domain != NULL) {
            SUP_CHECK(epoch_domain_enter(arena.chains[i].domain), "enter: %s", strerror(errno));
            epoch_domain_destroy(arena.chains[i].domain);
        }
    }
    sup_check_identities(arena.allocator);
    sup_check_empty(arena.allocator);
    slab_allocator_free(arena.allocator);
    (void)pthread_mutex_destroy(&arena.mutex);
    (void)printf("domains_test: seed %" PRIu64 ", %" PRIu64 " shared objects, %" PRIu64 " chains, %" PRIu64
                 " epochs met: good\n",
                 arena.args.seed, (uint64_t)arena.shared_objects, (uint64_t)arena.destroyed, (uint64_t)arena.meddled);
    return 0;
}
