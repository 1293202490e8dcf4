/*
 * For the workloads, beside ../harness: their allocators' names, pacing by absolute deadlines, and the parsing of
 * option values with getopt_long.
 *
 * Nothing here calls malloc or temporal-slab, so the figures of a run are those of the work alone.
 */
#ifndef WORKLOADS_HARNESS_H
#define WORKLOADS_HARNESS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "bench_clock.h"
#include "bench_util.h"

#define WL_NS_PER_S UINT64_C(1000000000)
#define WL_NS_PER_MS UINT64_C(1000000)

typedef enum WlAllocator {
    WL_MALLOC,
    WL_TSLAB,
} WlAllocator;

const char *wl_allocator_name(WlAllocator allocator);
/* false: neither "malloc" nor "tslab"; *out is untouched. */
bool wl_allocator_parse(const char *text, WlAllocator *out);

/* Prints "TOOL: message" as one line on stderr and exits with code. */
_Noreturn void wl_die(int code, const char *tool, const char *format, ...) __attribute__((format(printf, 3, 4)));

/* Exits 2 with a line that names the option getopt_long stopped at; answer is its result, '?' or ':'.
   Long options must have values of 256 and more. */
_Noreturn void wl_bad_option(const char *tool, int answer, char *const *argv);
/* Exits 2 with a line if the value that getopt_long has found is the next option. --json=--file means a file of that
   name. */
void wl_check_value(const char *tool, char *const *argv);

/* Returns at the deadline, at once if it has passed. */
void wl_sleep_until_ns(uint64_t deadline_ns);

/* The whole text must be a decimal number in [low, high]; otherwise false and *out is untouched. */
bool wl_parse_u64(const char *text, uint64_t low, uint64_t high, uint64_t *out);
/* As wl_parse_u64, for a decimal fraction such as 0.5; low itself is refused if open_low. */
bool wl_parse_double(const char *text, double low, bool open_low, double high, double *out);

#endif
