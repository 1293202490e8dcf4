/* Counts of times: 16 buckets for each power of two, so a quantile is right to 6 %. */
#ifndef REPLAY_BUCKETS_H
#define REPLAY_BUCKETS_H

#include <stdint.h>

enum { BUCKETS_FINE = 16, BUCKETS = 40 * BUCKETS_FINE };

typedef struct buckets {
    uint64_t count[BUCKETS];
} buckets;

static inline unsigned bucket_of(uint64_t value) {
    if (value < BUCKETS_FINE) return (unsigned)value;
    const unsigned shift = 59u - (unsigned)__builtin_clzll(value);
    const unsigned n = (shift + 1) * BUCKETS_FINE + (unsigned)(value >> shift & (BUCKETS_FINE - 1));
    return n < BUCKETS ? n : BUCKETS - 1;
}

/* The least value of the bucket. */
static inline uint64_t bucket_value(unsigned n) {
    if (n < BUCKETS_FINE) return n;
    return (uint64_t)(BUCKETS_FINE + n % BUCKETS_FINE) << (n / BUCKETS_FINE - 1);
}

static inline void buckets_add(buckets *to, const buckets *from) {
    for (unsigned i = 0; i < BUCKETS; i++) to->count[i] += from->count[i];
}

/* share: 0.99 for p99. 0: there are no values. */
static inline uint64_t buckets_quantile(const buckets *b, double share) {
    uint64_t all = 0, seen = 0;
    for (unsigned i = 0; i < BUCKETS; i++) all += b->count[i];
    for (unsigned i = 0; i < BUCKETS; i++) {
        seen += b->count[i];
        if (seen && (double)seen >= share * (double)all) return bucket_value(i);
    }
    return 0;
}

#endif
