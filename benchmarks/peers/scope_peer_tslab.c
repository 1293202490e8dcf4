/*
 * A domain per scope: created, entered, left; destroyed when the scope is dropped. SCOPE_TSLAB_KEEP: the allocator
 * keeps all memory until it is asked for it, as most of the others do by default. SCOPE_TSLAB_RESET: the domains are
 * kept, and emptied in one step when their scope is dropped.
 */
#include "bench_util.h"
#include "scope_worker.h"

#include <tslab/stats.h>
#include <tslab/tslab.h>

#include <stdbool.h>
#include <stdio.h>

#if defined(SCOPE_TSLAB_KEEP)
#define SCOPE_NAME "tslab_keep"
#elif defined(SCOPE_TSLAB_RESET)
#define SCOPE_NAME "tslab_reset"
#else
#define SCOPE_NAME "tslab"
#endif
#if defined(SCOPE_TSLAB_KEEP)
#define RECLAIM SLAB_RECLAIM_KEEP
#else
#define RECLAIM SLAB_RECLAIM_BUDGET
#endif
#define SCOPE_ALIGN 16

typedef struct scope_ref {
    EpochDomain *domain;
} scope_ref;

static SlabAllocator *allocator;

static void scope_version(char *out, size_t capacity) { snprintf(out, capacity, "%s", slab_version()); }

static void scope_start(const scope_run *run) {
    SlabOptions options = {.size = sizeof options, .reclaim_policy = RECLAIM};
    (void)run;
    allocator = slab_allocator_create_ex(&options);
    if (allocator == NULL) scope_wrong("slab_allocator_create_ex failed");
}

static void scope_finish(void) {
    SlabGlobalStats stats;
    if (!slab_stats_global(allocator, &stats)) scope_wrong("slab_stats_global failed");
    if (stats.live_objects != 0 || stats.allocated_objects_total != stats.freed_objects_total)
        scope_wrong("every scope was dropped, and objects are live");
#if !defined(SCOPE_TSLAB_RESET)
    if (stats.active_epoch_count != 0 || stats.closing_epoch_count != 0)
        scope_wrong("every scope was dropped, and epochs are open");
#endif
    slab_allocator_free(allocator);
}

static inline void scope_open(scope_ref *slot) {
#if defined(SCOPE_TSLAB_RESET)
    if (__builtin_expect(slot->domain == NULL, 0)) slot->domain = epoch_domain_create(allocator);
#else
    slot->domain = epoch_domain_create(allocator);
#endif
    if (__builtin_expect(!epoch_domain_enter(slot->domain), 0)) scope_wrong("a domain cannot be created and entered");
}
static inline void *scope_alloc(scope_ref *slot, size_t size) {
    (void)slot;
    return slab_alloc(size);
}
static inline void scope_leave(scope_ref *slot) {
    if (__builtin_expect(!epoch_domain_exit(slot->domain), 0)) scope_wrong("a domain cannot be left");
}
static inline void scope_drop(scope_ref *slot) {
#if defined(SCOPE_TSLAB_RESET)
    if (__builtin_expect(!epoch_domain_reset(slot->domain, SIZE_MAX), 0)) scope_wrong("a domain cannot be reset");
#else
    epoch_domain_destroy(slot->domain);
#endif
}
#define SCOPE_KNOWS_DEAD 1
static bool scope_gone(const void *object) { return !slab_owns(allocator, object); }

#include "scope_loop.h"
