#include "advise/costs.h"

#include <tslab/tslab.h>

#include <stdlib.h>
#include <string.h>
#include <time.h>

enum { OBJECTS = 64, ROUNDS = 2000, TRIALS = 9 };

static double now_ns(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec * 1e9 + (double)t.tv_nsec;
}

/* 16 to 256 bytes, in no order. */
static size_t size_of(unsigned i) { return 16 + (i * 37u) % 241u; }

static void touch(void *p) {
    if (p) *(volatile char *)p = 1;
}

static double malloc_ns(void) {
    void *object[OBJECTS];
    double from = now_ns();
    for (unsigned round = 0; round < ROUNDS; round++) {
        for (unsigned i = 0; i < OBJECTS; i++) touch(object[i] = malloc(size_of(i + round)));
        for (unsigned i = 0; i < OBJECTS; i++) free(object[(i * 29u) % OBJECTS]);
    }
    return (now_ns() - from) / ROUNDS / OBJECTS;
}

/* A turn of so many objects. */
static double domain_ns(SlabAllocator *a, unsigned objects) {
    double from = now_ns();
    for (unsigned round = 0; round < ROUNDS; round++) {
        EpochDomain *d = epoch_domain_create(a);
        if (!d) return 0;
        epoch_domain_enter(d);
        for (unsigned i = 0; i < objects; i++) touch(slab_alloc(size_of(i + round)));
        epoch_domain_exit(d);
        epoch_domain_destroy(d);
    }
    return (now_ns() - from) / ROUNDS;
}

static double least(double a, double b) { return a < b ? a : b; }

turn_costs costs_measure(void) {
    double pair = 1e9, empty = 1e9, full = 1e9;
    SlabAllocator *a = slab_allocator_create();
    for (unsigned i = 0; a && i < TRIALS; i++) { /* by turns, so that a busy machine slows all alike */
        pair = least(pair, malloc_ns());
        empty = least(empty, domain_ns(a, 1));
        full = least(full, domain_ns(a, OBJECTS));
    }
    if (!a) return (turn_costs){20, 5, 80};
    slab_allocator_free(a);
    double each = (full - empty) / (OBJECTS - 1);
    return (turn_costs){pair, each > 0 ? each : 0, empty > each ? empty - each : empty};
}
