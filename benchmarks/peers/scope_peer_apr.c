/*
 * APR pools as a server with a thread per connection has them: an allocator of the thread's own, without a mutex; a
 * pool above; a child of it for each request, destroyed at its end. Objects are aligned to 8 only. SCOPE_APR_CLEAR: the
 * pools are kept, and cleared when their scope is dropped.
 */
#include "scope_worker.h"

#include <apr_allocator.h>
#include <apr_general.h>
#include <apr_pools.h>
#include <apr_version.h>
#include <stdio.h>

#if defined(SCOPE_APR_CLEAR)
#define SCOPE_NAME "apr_clear"
#else
#define SCOPE_NAME "apr"
#endif
#define SCOPE_ALIGN 8

typedef struct scope_ref {
    apr_pool_t *pool;
} scope_ref;

static apr_pool_t *above;

static void scope_version(char *out, size_t capacity) { snprintf(out, capacity, "%s", apr_version_string()); }

static void scope_start(const scope_run *run) {
    apr_allocator_t *allocator;
    (void)run;
    if (apr_initialize() != APR_SUCCESS || apr_allocator_create(&allocator) != APR_SUCCESS ||
        apr_pool_create_ex(&above, NULL, NULL, allocator) != APR_SUCCESS)
        scope_wrong("APR cannot be started");
    apr_allocator_owner_set(allocator, above);
}
static void scope_finish(void) {
    apr_pool_destroy(above);
    apr_terminate();
}

static inline void scope_open(scope_ref *slot) {
#if defined(SCOPE_APR_CLEAR)
    if (__builtin_expect(slot->pool != NULL, 1)) return;
#endif
    if (__builtin_expect(apr_pool_create(&slot->pool, above) != APR_SUCCESS, 0)) scope_wrong("apr_pool_create failed");
}
static inline void *scope_alloc(scope_ref *slot, size_t size) { return apr_palloc(slot->pool, size); }
static inline void scope_leave(scope_ref *slot) { (void)slot; }
static inline void scope_drop(scope_ref *slot) {
#if defined(SCOPE_APR_CLEAR)
    apr_pool_clear(slot->pool);
#else
    apr_pool_destroy(slot->pool);
#endif
}

#include "scope_loop.h"
