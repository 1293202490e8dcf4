/*
 * Repeatable random numbers for tests (splitmix64): the same seed gives the same sequence on every machine.
 */
#ifndef SUP_RNG_H
#define SUP_RNG_H

#include <stdint.h>

struct sup_rng {
    uint64_t state;
};

static inline uint64_t sup_mix(uint64_t x) {
    x += 0x9e3779b97f4a7c15u;
    x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9u;
    x = (x ^ (x >> 27)) * 0x94d049bb133111ebu;
    return x ^ (x >> 31);
}

static inline uint64_t sup_rng_next(struct sup_rng *rng) {
    uint64_t value = sup_mix(rng->state);
    rng->state += 0x9e3779b97f4a7c15u;
    return value;
}

/* 0 .. limit - 1; limit is not 0. */
static inline uint64_t sup_rng_below(struct sup_rng *rng, uint64_t limit) { return sup_rng_next(rng) % limit; }

#endif
