/*
 * The options of synthetic_bench: the presets of its five patterns, and the command line over them.
 * An option that is given wins over the preset, wherever it stands on the line.
 */
#ifndef WORKLOADS_BENCH_OPTIONS_H
#define WORKLOADS_BENCH_OPTIONS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "harness.h"

/* Which epoch an object is allocated in. */
typedef enum EpochPolicy {
    POLICY_PER_REQ, /* one of its own for each request */
    POLICY_BATCH,   /* one for every `batch` requests of a thread */
    POLICY_MANUAL,  /* the rolling epoch, never advanced while the run lasts */
} EpochPolicy;

/* When an object is freed. */
typedef enum FreePolicy {
    FREE_WITHIN_REQ, /* at the end of its request */
    FREE_LAG,        /* at the end of the request that comes `lag` later on the same thread */
    FREE_LEAK,       /* at the end of its request, except leak_pct percent, picked at random: never */
} FreePolicy;

typedef struct BenchOptions {
    WlAllocator allocator;
    const char *pattern;
    double duration_s;
    uint32_t threads;
    uint64_t req_rate; /* requests per second, all threads together; 0: as fast as it goes */
    uint32_t objs_min; /* objects of a request: uniform in [objs_min, objs_max] */
    uint32_t objs_max;
    uint32_t size_min; /* bytes of an object: uniform in [size_min, size_max] ... */
    uint32_t size_max;
    uint32_t hot_pct; /* ... except that so many percent have hot_bytes; 0: none */
    uint32_t hot_bytes;
    EpochPolicy epoch_policy;
    uint32_t batch;
    FreePolicy free_policy;
    uint32_t lag;
    double leak_pct;
    bool reclaim_at_once; /* temporal-slab returns empty slabs to the system at once */
    uint64_t rss_sample_ms;
    uint64_t seed;
    const char *json_path; /* NULL: none */
} BenchOptions;

#define BENCH_POINTERS_MAX (UINT64_C(1) << 27) /* that lag may keep: 1 GiB of them */

/* Requests whose objects are kept at the same time by one thread. */
static inline uint64_t bench_kept_requests(const BenchOptions *options) {
    return options->free_policy == FREE_LAG ? (uint64_t)options->lag + 1 : 1;
}

/* The preset of a pattern with every other option at its default. false: no such pattern. */
bool bench_options_preset(const char *pattern, BenchOptions *out);
/* Fills *out from the command line. --help prints and exits 0; anything wrong is one line that names it,
   and exit 2. */
void bench_options_parse(int argc, char **argv, BenchOptions *out);

/* "per_req", "batch:16", "within_req", "lag:8" and so on, as on the command line. */
void bench_epoch_policy_text(const BenchOptions *options, char *out, size_t capacity);
void bench_free_policy_text(const BenchOptions *options, char *out, size_t capacity);

#endif
