/*
 * For every benchmark program, besides the allocator: memory that does not come from it, random numbers, processors,
 * the resident set, medians.
 */
#ifndef BENCH_UTIL_H
#define BENCH_UTIL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Exit codes of a benchmark program. */
#define BENCH_EXIT_FAILED 1      /* a check did not hold */
#define BENCH_EXIT_USAGE 2       /* bad command line */
#define BENCH_EXIT_UNAVAILABLE 3 /* this machine cannot run that work */

#if defined(__GNUC__) || defined(__clang__)
#define BENCH_INLINE static inline __attribute__((always_inline))
#define BENCH_PRINTF(text, first) __attribute__((format(printf, text, first)))
#else
#define BENCH_INLINE static inline
#define BENCH_PRINTF(text, first)
#endif

/* One line on stderr, then exit(code). */
_Noreturn void bench_die(int code, const char *format, ...) BENCH_PRINTF(2, 3);

/* How this was compiled: "sanitized", "optimized" or "debug". Only the figures of an optimized build mean something. */
const char *bench_build_kind(void);

/* From now on the program ends with code 2 if not all that it printed could be written. */
void bench_watch_stdout(void);
/* The argument behind option argv[*i], to which *i moves on. None, or another option there: an error (BENCH_EXIT_USAGE) of the
   program, whose name may come in two pieces. */
const char *bench_option_value(const char *program, const char *peer, int argc, char **argv, int *i);

/* Zeroed and populated pages straight from the system, so that the harness neither uses nor disturbs the
   allocator that it measures. Never NULL. */
void *bench_map(size_t bytes);
void bench_unmap(void *memory, size_t bytes);

typedef struct bench_rng {
    uint64_t state;
} bench_rng;

static inline uint64_t bench_rng_next(bench_rng *rng) /* splitmix64 */
{
    uint64_t z = (rng->state += UINT64_C(0x9e3779b97f4a7c15));
    z = (z ^ (z >> 30)) * UINT64_C(0xbf58476d1ce4e5b9);
    z = (z ^ (z >> 27)) * UINT64_C(0x94d049bb133111eb);
    return z ^ (z >> 31);
}

/* Uniform in [0, bound), bound below 2^32. */
static inline uint32_t bench_rng_below(bench_rng *rng, uint32_t bound) {
    return (uint32_t)((bench_rng_next(rng) >> 32) * bound >> 32);
}

/* Uniform in [low, high]; low <= high. */
static inline uint32_t bench_rng_between(bench_rng *rng, uint32_t low, uint32_t high) {
    return low + (uint32_t)(((bench_rng_next(rng) >> 32) * ((uint64_t)high - low + 1)) >> 32);
}

/* Sorts values. 0 for none; the mean of the middle two for an even count. */
double bench_median(double *values, size_t count);

/* Resident bytes of the process, exact (smaps_rollup), without allocating. 0 if the system does not say. */
size_t bench_rss_bytes(void);

/* The processors this process may run on: fills at most capacity, returns how many there are. */
int bench_cpus(int *out, int capacity);
bool bench_pin_thread(int cpu);

static inline void bench_cpu_relax(void) {
#if defined(__x86_64__) || defined(__i386__)
    __builtin_ia32_pause();
#elif defined(__aarch64__)
    __asm__ volatile("yield");
#endif
}

#endif
