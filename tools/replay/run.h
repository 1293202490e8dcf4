/* Plays operations under allocators, each time in a process of its own. */
#ifndef REPLAY_RUN_H
#define REPLAY_RUN_H

#include "replay/ops.h"

#include <limits.h>

enum { RUN_ALLOCATORS = 7 /* tslab three times: with a plan, by both of its steps */, RUN_ROUNDS_MOST = 99 };

typedef struct spread {
    double median, low, high;
} spread;

/* Of one allocator, over all rounds. */
typedef struct run_figures {
    spread time_ns, cpu_ns; /* less the player's own */
    spread peak_bytes, final_bytes;
    double resident[OPS_SAMPLES_MOST]; /* by sample: medians */
    buckets alloc_ns, free_ns;         /* of all rounds */
    uint64_t allocs, frees, reallocs;  /* of one round */
} run_figures;

typedef struct run_allocator {
    const char *name, *library; /* as the loader knows it */
    char path[PATH_MAX];        /* what is preloaded; "": nothing */
    run_figures *figures;
    int ops_fd; /* what it plays */
    uint32_t samples;
} run_allocator;

/* "malloc", "jemalloc", ... false: there is none of that name. */
bool run_allocator_named(const char *name, run_allocator *out);
/* Whether it is installed. */
bool run_is_installed(run_allocator *a);
/* Interleaved: each round plays all of them, one after the other. NULL, or what is wrong. done: called before each. */
const char *run_rounds(run_allocator *const *list, unsigned count, unsigned rounds, double *player_ns,
                       void (*progress)(double share));

#endif
