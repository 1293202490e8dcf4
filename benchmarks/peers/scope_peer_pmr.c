/*
 * std::pmr::monotonic_buffer_resource, a resource per scope. Its chunks come from operator new, or
 * (SCOPE_PMR_POOLED) from a pool resource that keeps returned memory.
 */
#include "scope_pmr.h"
#include "scope_worker.h"

#include <stdio.h>

#if defined(SCOPE_PMR_POOLED)
#define SCOPE_NAME "pmr_pooled"
#define POOLED 1
#else
#define SCOPE_NAME "pmr"
#define POOLED 0
#endif
#define SCOPE_ALIGN 16

typedef scope_pmr scope_ref;

static void scope_version(char *out, size_t capacity) { snprintf(out, capacity, "%s", scope_pmr_version()); }
static void scope_start(const scope_run *run) {
    (void)run;
    scope_pmr_start(POOLED);
}
static void scope_finish(void) { scope_pmr_finish(); }

static inline void scope_open(scope_ref *slot) { scope_pmr_open(slot); }
static inline void *scope_alloc(scope_ref *slot, size_t size) { return scope_pmr_alloc(slot, size); }
static inline void scope_leave(scope_ref *slot) { (void)slot; }
static inline void scope_drop(scope_ref *slot) { scope_pmr_drop(slot); }

#include "scope_loop.h"
