/*
 * talloc: a context per scope, every object a child of it; freeing the context frees them all. SCOPE_TALLOC_POOL: the
 * context is a talloc_pool large enough for the scope, as talloc's manual advises for contexts that live shortly.
 */
#include "scope_worker.h"

#include <stdio.h>
#include <talloc.h>

#if defined(SCOPE_TALLOC_POOL)
#define SCOPE_NAME "talloc_pool"
#else
#define SCOPE_NAME "talloc"
#endif
#define SCOPE_ALIGN 16

enum { CHUNK_HEADER_BYTES = 112 }; /* of talloc 2.4, alignment included: only makes the pool large enough */

typedef struct scope_ref {
    void *context;
} scope_ref;

static void *above;
static size_t pool_bytes;

static void scope_version(char *out, size_t capacity) {
    snprintf(out, capacity, "%d.%d", talloc_version_major(), talloc_version_minor());
}

static void scope_start(const scope_run *run) {
    above = talloc_new(NULL);
    if (above == NULL) scope_wrong("talloc_new failed");
    pool_bytes = run->objects * (SCOPE_MAX_BYTES + SCOPE_MIN_BYTES + 2 * CHUNK_HEADER_BYTES + 16) / 2 + 4096;
}
static void scope_finish(void) { talloc_free(above); }

static inline void scope_open(scope_ref *slot) {
#if defined(SCOPE_TALLOC_POOL)
    slot->context = talloc_pool(above, pool_bytes);
#else
    slot->context = talloc_new(above);
#endif
    if (__builtin_expect(slot->context == NULL, 0)) scope_wrong("talloc cannot make a context");
}
static inline void *scope_alloc(scope_ref *slot, size_t size) { return talloc_size(slot->context, size); }
static inline void scope_leave(scope_ref *slot) { (void)slot; }
static inline void scope_drop(scope_ref *slot) { talloc_free(slot->context); }

#include "scope_loop.h"
