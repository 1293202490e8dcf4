/*
 * Time for benchmarks: a monotonic clock for whole blocks of work, and ticks for single operations.
 *
 * bench_now_ns     CLOCK_MONOTONIC; for anything that lasts longer than some tens of microseconds.
 * bench_tick_*     the cheapest counter the processor has; bench_clock_calibrate says how long a tick is. On x86 it is
 *                  rdtsc, fenced so that the operation between begin and end is neither started early nor finished
 *                  late; on AArch64 the virtual counter; elsewhere the clock.
 */
#ifndef BENCH_CLOCK_H
#define BENCH_CLOCK_H

#include <stdint.h>
#include <time.h>

static inline uint64_t bench_now_ns(void) {
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
}

#if defined(__x86_64__) || defined(__i386__)
#define BENCH_TICK_SOURCE "rdtsc"
static inline uint64_t bench_tick_begin(void) {
    uint32_t low, high;
    __asm__ volatile("lfence\n\trdtsc\n\tlfence" : "=a"(low), "=d"(high)::"memory");
    return (uint64_t)high << 32 | low;
}
static inline uint64_t bench_tick_end(void) {
    uint32_t low, high;
    __asm__ volatile("rdtscp\n\tlfence" : "=a"(low), "=d"(high)::"memory", "ecx");
    return (uint64_t)high << 32 | low;
}
#elif defined(__aarch64__)
#define BENCH_TICK_SOURCE "cntvct"
static inline uint64_t bench_tick_begin(void) {
    uint64_t ticks;
    __asm__ volatile("isb\n\tmrs %0, cntvct_el0\n\tisb" : "=r"(ticks)::"memory");
    return ticks;
}
static inline uint64_t bench_tick_end(void) { return bench_tick_begin(); }
#else
#define BENCH_TICK_SOURCE "clock_gettime"
static inline uint64_t bench_tick_begin(void) { return bench_now_ns(); }
static inline uint64_t bench_tick_end(void) { return bench_now_ns(); }
#endif

/* Nanoseconds per tick, measured against the clock for about 20 ms. */
double bench_clock_calibrate(void);
/* Whether the tick counter runs at a constant rate through idle and frequency changes. */
int bench_clock_is_invariant(void);

#endif
