/*
 * Many small scopes, whose pieces share units: each thread makes some, publishes their objects, which the others free
 * or look at, and ends them while they do. Between, the units are whole, trimmed, and slabs of other kinds.
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

#include "supply/supply.h"

#include <inttypes.h>
#include <stdio.h>

enum { SCOPES = 40, OBJECTS = 3, SLOTS = 512 };

struct arena {
    struct sup_args args;
    SlabAllocator *allocator;
    _Atomic(void *) slot[SLOTS]; /* objects that anybody may free */
    _Atomic uint64_t handle[SLOTS];
    _Atomic uint64_t freed, longs;
    atomic_bool stop;
};

/* The last one is small, so some of the next begin with a long piece. */
static size_t size_of(unsigned scope, unsigned i) {
    if (scope == SCOPES - 1) return 48;
    return 16u + (scope * 37u + i * 101u) % 400u + (i == 0 && scope % 3 == 1 ? 600u : 0u);
}

static void free_one_of_others(struct arena *arena, struct sup_rng *rng) {
    unsigned at = (unsigned)sup_rng_below(rng, SLOTS);
    if (sup_rng_below(rng, 2)) {
        SlabHandle handle = atomic_exchange(&arena->handle[at], SLAB_HANDLE_NONE);
        if (handle != SLAB_HANDLE_NONE && free_obj(arena->allocator, handle)) {
            SUP_CHECK(!free_obj(arena->allocator, handle), "a handle is good twice");
            atomic_fetch_add(&arena->freed, 1);
        }
        return;
    }
    const void *p = atomic_load(&arena->slot[at]);
    size_t bytes = slab_usable_size(arena->allocator, p); /* any object there by now */
    SUP_CHECK(bytes <= 4096, "%zu bytes", bytes);
    (void)slab_handle_of(arena->allocator, p);
}

static void round_of(struct arena *arena, struct sup_rng *rng) {
    EpochDomain *domains[SCOPES];
    char *own[SCOPES];
    for (unsigned s = 0; s < SCOPES; s++) {
        domains[s] = epoch_domain_create_ex(arena->allocator, NULL, s % 4 ? 0 : EPOCH_CHURN);
        SUP_CHECK(domains[s] && epoch_domain_enter(domains[s]), "domain");
        for (unsigned i = 0; i < OBJECTS; i++) {
            char *p = slab_alloc(size_of(s, i));
            SUP_CHECK(p, "slab_alloc");
            sup_pattern_fill(p, size_of(s, i), s);
            unsigned at = (unsigned)sup_rng_below(rng, SLOTS);
            if (i == 0) { /* nobody else knows it */
                own[s] = p;
                uint32_t slab = ts_slab_of_entry(ts_entry_of(&ts_region.part[TS_NORMAL], p));
                if (ts_is_piece(slab) && ts_piece_is_long(slab)) atomic_fetch_add(&arena->longs, 1);
            } else if (i == 1) {
                atomic_store(&arena->slot[at], p);
            } else {
                atomic_store(&arena->handle[at], slab_handle_of(arena->allocator, p));
            }
        }
        SUP_CHECK(epoch_domain_exit(domains[s]), "exit");
        free_one_of_others(arena, rng);
    }
    EpochId churn = epoch_open(arena->allocator, NULL, EPOCH_CHURN);
    for (unsigned s = 0; s < SCOPES; s++) {
        SUP_CHECK(sup_pattern_check(own[s], size_of(s, 0), s), "object of scope %u is damaged", s);
        SUP_CHECK(slab_malloc_epoch(arena->allocator, size_of(s, 1), churn), "churn");
        /* Its piece may be all free now, and another thread's: nothing can be said of the place. */
        if (s % 3 == 0) SUP_CHECK(slab_free(arena->allocator, own[s]), "own free");
        epoch_domain_destroy(domains[s]);
        free_one_of_others(arena, rng);
    }
    SUP_CHECK(epoch_destroy(arena->allocator, churn), "epoch_destroy");
}

static void work(void *argument, unsigned number) {
    struct arena *arena = argument;
    struct sup_rng rng = {arena->args.seed * 64 + number};
    for (uint64_t rounds = 0; !atomic_load(&arena->stop); rounds++) {
        round_of(arena, &rng);
        if (rounds % 8 == 7) (void)slab_trim(arena->allocator);
        if (rounds % 64 == 63) slab_thread_idle();
    }
}

int main(int argc, char **argv) {
    static struct arena arena = {.args = {.seconds = 2.0, .seed = 1, .threads = 4}};
    struct stress_crew crew;
    sup_args_parse(argc, argv, &arena.args);
    SUP_CHECK(arena.args.threads >= 1 && arena.args.threads <= 64, "1 to 64 threads");
    ts_pieces_after = 0;
    SlabOptions options = {.size = sizeof options, .memory_tools = SLAB_TOOLS_OFF}; /* with care there are no pieces */
    arena.allocator = slab_allocator_create_ex(&options);
    const ts_allocator *record = ts_allocator_find((uintptr_t)arena.allocator);
    stress_start(&crew, (unsigned)arena.args.threads, work, &arena);
    double until = sup_now_s() + arena.args.seconds;
    uint64_t cut = 0;
    while (sup_now_s() < until || cut == 0 || arena.freed == 0) {
        cut += ts_load_relaxed(&record->cut_units) != 0;
        SlabGlobalStats global;
        SUP_CHECK(slab_stats_global(arena.allocator, &global), "slab_stats_global");
        sup_sleep_ms(1);
    }
    atomic_store(&arena.stop, true);
    stress_join(&crew);
    (void)slab_trim(arena.allocator);
    sup_check_identities(arena.allocator);
    sup_check_empty(arena.allocator);
    SUP_CHECK(ts_load_relaxed(&record->cut_units) == 0, "all is free, and a unit is cut");
    SUP_CHECK(arena.longs != 0, "no piece was long");
    slab_allocator_free(arena.allocator);
    (void)printf("pieces_test: seed %" PRIu64 ", %" PRIu64 " objects freed by others: good\n", arena.args.seed,
                 (uint64_t)arena.freed);
    return 0;
}
