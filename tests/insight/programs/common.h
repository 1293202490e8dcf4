/* Common to the programs of this folder: a repeatable random number, and functions that stay functions. */
#ifndef TESTS_INSIGHT_COMMON_H
#define TESTS_INSIGHT_COMMON_H

#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define FUNCTION __attribute__((noinline, noclone))

static inline uint32_t random_below(uint32_t bound) {
    static _Thread_local uint64_t state = 88172645463325252u;
    state ^= state << 13;
    state ^= state >> 7;
    state ^= state << 17;
    return (uint32_t)(state >> 32) % bound;
}

static inline void *get(size_t bytes) {
    void *p = malloc(bytes);
    if (!p) {
        abort();
    }
    memset(p, 1, bytes);
    return p;
}

#endif
