/*
 * Common to the programs of the suite: benchmark_accurate, churn_test, smoke_tests, benchmark_threads,
 * fragmentation_over_time. (core_bench has a command line of its own.)
 *
 * Command line   one table of options per program; the common ones are here. A program is built for temporal-slab and
 *                for malloc; --allocator NAME replaces the process by one with that allocator (peers.h).
 * CSV            a file is there completely or not at all: the text is collected in the harness's own memory, and
 *                written to a temporary file that is renamed. An interrupted or failed program leaves nothing.
 * Progress       on stderr; results for people on stdout.
 *
 * None of it allocates from the allocator under test while that is measured.
 */
#ifndef BENCH_SUITE_H
#define BENCH_SUITE_H

#include "bench_hist.h"
#include "bench_util.h"
#include "peers.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* The allocator's name in file names, in CSV files and after --allocator. */
#define SUITE_ALLOCATOR suite_allocator()
const char *suite_allocator(void);

/* ---- command line ----------------------------------------------------------------------------- */

typedef struct suite_option {
    const char *name;  /* "--rounds" */
    const char *value; /* the value's name, for --help; NULL: a switch */
    const char *help;
    bool *flag; /* of these three, the one that fits */
    const char **text;
    uint64_t *number;
    uint64_t low, high; /* of number */
} suite_option;

typedef struct suite_program {
    const char *name;
    const char *summary; /* for --help */
    const suite_option *options;
    size_t option_count;
    const suite_option *operand; /* a number without a name, or NULL */
    void (*check)(void);         /* a check of values beyond the table, or NULL */
} suite_program;

typedef struct suite_common {
    const char *csv; /* NULL: none */
    uint64_t seed;
    bool quick;
    bool smoke; /* tiny amounts, every object checked */
    peer_identity identity;
} suite_common;

extern suite_common suite;

/* Reads the command line, becomes the program of another allocator if asked to, makes sure that the allocator is the
   one that it is named after. Does not return on --help, --identify, or an error. */
void suite_begin(const suite_program *program, int argc, char **argv);
/* Bad command line: one line that names the program, exit 2. */
_Noreturn void suite_usage(const char *format, ...) BENCH_PRINTF(1, 2);
/* A check did not hold: likewise, exit 1. */
_Noreturn void suite_fail(const char *format, ...) BENCH_PRINTF(1, 2);

/* One of three amounts. */
static inline uint64_t suite_amount(uint64_t full, uint64_t quick, uint64_t smoke) {
    return suite.smoke ? smoke : suite.quick ? quick : full;
}

/* ---- CSV -------------------------------------------------------------------------------------- */

typedef struct suite_csv suite_csv;

/* path NULL: a file that is never written. Dies with exit 2 if the place cannot be written to. */
suite_csv *suite_csv_open(const char *path, const char *header);
void suite_csv_line(suite_csv *csv, const char *format, ...) BENCH_PRINTF(2, 3);
/* Puts all files that are open in their places. */
void suite_csv_commit(void);

/* ---- processes -------------------------------------------------------------------------------- */

/* Runs a part of the work in a process of its own, so that it finds the allocator unused, and its memory is gone
   afterwards. It may add lines to the CSV files that are open. If it fails, so does the program. */
typedef void suite_phase(const void *arg);
void suite_run(suite_phase *phase, const void *arg);
/* As suite_run, but a failure is an answer: the exit code. */
int suite_try(suite_phase *phase, const void *arg);
/* Zeroed memory that these processes share with the program. */
void *suite_shared(size_t bytes);

/* ---- progress --------------------------------------------------------------------------------- */

/* A line on stderr, at most one a second on a terminal and one in ten seconds elsewhere; `now` makes it appear. */
void suite_progress(bool now, const char *format, ...) BENCH_PRINTF(2, 3);

/* ---- objects whose content is checked ----------------------------------------------------------- */

/* A program's first act on an object. */
static inline void suite_touch(void *object) { *(volatile unsigned char *)object = 1; }
/* Fills an object of at least one byte; verify says whether it is still so. */
void suite_fill(void *object, size_t size, uint32_t tag);
bool suite_verify(const void *object, size_t size, uint32_t tag);

/* ---- times of single operations ----------------------------------------------------------------- */

typedef struct suite_clock {
    double tick_ns;
    uint64_t step; /* ticks in which the counter advances */
} suite_clock;

/* Dies where the counter does not run at a constant rate, unless in smoke mode. */
suite_clock suite_clock_start(void);
/* The percentile in nanoseconds, less floor_ns, 0 at least. */
double suite_percentile_ns(const bench_hist *hist, double fraction, const suite_clock *clock, double floor_ns);
double suite_mean_ns(const bench_hist *hist, const suite_clock *clock, double floor_ns);

/* ---- the allocator, beyond peers.h -------------------------------------------------------------- */

typedef struct suite_counters {
    bool known; /* whether the allocator counts these; the rest is 0 if not */
    uint64_t live_objects;
    uint64_t live_bytes;
    uint64_t committed_bytes;
    uint64_t metadata_bytes;
    uint64_t retain_bytes; /* that may stay retained: the retain budget as it is now, and one thread's share */
    uint64_t slabs_allocated;
    uint64_t slabs_recycled;
    uint64_t slabs_overflowed;
    uint64_t lock_acquired;  /* the allocator's lock and that of its retained units */
    uint64_t lock_contended; /* the same, waited for */
    uint64_t lock_waits;     /* for any lock of the library */
    uint64_t foreign_frees;
    uint64_t cas_retries;
    uint64_t rejected_frees;
} suite_counters;

suite_counters suite_count(peer_ref peer);
/* Bytes that may be used at object, and those that the allocator keeps beside every object. */
size_t suite_usable_size(peer_ref peer, void *object);
size_t suite_header_bytes(void);
/* Anonymous memory of the process that is resident: heap and the allocator's own data, not program text, not the lines
   that suite_csv_line collects. The kernel's count (smaps_rollup); takes about as long as the process has mappings.
   Dies where the kernel does not say. */
size_t suite_resident_bytes(void);
/* Asks the allocator to give memory back: slab_trim, malloc_trim, and the like of the others. */
void suite_trim(peer_ref peer);

/* An epoch of its own in the same allocator; where there are no epochs, the same thing again. scope: by bump
   allocation. Dies if it cannot be opened. */
peer_ref suite_epoch_open(peer_ref peer, const char *label, bool scope);
/* Closes the epoch; true where there are none. */
bool suite_epoch_close(peer_ref epoch);

BENCH_INLINE void *suite_alloc(peer_ref peer, size_t size) {
    void *object = peer_alloc(peer, size);
    if (__builtin_expect(object == NULL, 0))
        bench_die(BENCH_EXIT_FAILED, "%s gave NULL for %zu bytes", SUITE_ALLOCATOR, size);
    return object;
}

/* A field of a CSV: the number, or nothing where the allocator does not count it. */
typedef struct suite_field {
    char text[24];
} suite_field;
suite_field suite_count_field(bool known, uint64_t value);

#endif
