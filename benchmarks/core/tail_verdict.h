/*
 * Whose time a slow operation was: the readings of one operation, and the verdict.
 *
 *     scheduler   the thread was switched out, and did not run for at least half of the time
 *     page_fault  the system had to find memory for a page that was touched for the first time
 *     allocator   it took one of the allocator's longer paths, and this is the cost of that path; or it gave memory
 *                 back to the system, or waited for a lock: the allocator answers for the largest cost of these
 *     machine     none of these: an interrupt, the host of a virtual machine, another program's use of the caches. The
 *                 fast path, or a path that otherwise takes less than a quarter of it in 99 of 100 cases
 */
#ifndef TAIL_VERDICT_H
#define TAIL_VERDICT_H

#include <stdint.h>

/* Steps that an operation took beyond the fast path, from the counters of the allocator. */
enum {
    TAIL_STEP_REFILL = 1 << 0, /* looked for a slab (slow_path_hits) */
    TAIL_STEP_SLAB = 1 << 1,   /* took a slab into use (new_slab_count) */
    TAIL_STEP_FRESH = 1 << 2,  /* which had no memory yet (slow_path_cache_miss) */
    TAIL_STEP_DRAIN = 1 << 3,  /* took in objects that another thread had freed */
    TAIL_STEP_LAST = 1 << 4,   /* claimed the last free slots of a slab (list_move_partial_to_full) */
    TAIL_STEP_FULL = 1 << 5,   /* gave a slot back to a full slab (list_move_full_to_partial) */
    TAIL_STEP_EMPTY = 1 << 6,  /* gave an empty slab to the warm ones (empty_slab_recycled) */
    TAIL_STEP_PURGE = 1 << 7,  /* gave memory back to the system (madvise_calls) */
    TAIL_STEP_LOCK = 1 << 8,   /* waited for a lock (lock_contended) */
    TAIL_STEPS = 9,
};

typedef struct tail_facts {
    uint32_t steps;
    uint64_t wall_ns;
    uint64_t cpu_ns; /* of the thread */
    uint64_t faults;
    uint64_t switches;    /* voluntary and not */
    uint64_t path_p99_ns; /* of all operations with the same steps; 0: too few to say */
} tail_facts;

typedef enum tail_verdict { TAIL_SCHEDULER, TAIL_PAGE_FAULT, TAIL_ALLOCATOR, TAIL_MACHINE, TAIL_VERDICTS } tail_verdict;

static inline uint64_t tail_wait_ns(const tail_facts *facts) {
    return facts->wall_ns > facts->cpu_ns ? facts->wall_ns - facts->cpu_ns : 0;
}

static inline tail_verdict tail_judge(const tail_facts *facts) {
    uint64_t wait_ns = tail_wait_ns(facts);
    if (wait_ns >= facts->wall_ns - wait_ns) return facts->switches > 0 ? TAIL_SCHEDULER : TAIL_MACHINE;
    if (facts->faults > 0) return TAIL_PAGE_FAULT;
    if (facts->steps == 0) return TAIL_MACHINE;
    if (facts->steps & (TAIL_STEP_PURGE | TAIL_STEP_LOCK)) return TAIL_ALLOCATOR;
    if (facts->path_p99_ns != 0 && facts->wall_ns / 4 > facts->path_p99_ns) return TAIL_MACHINE;
    return TAIL_ALLOCATOR;
}

#endif
