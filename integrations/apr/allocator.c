/*
 * APR's allocators: blocks of whole pages for those that cut them up by themselves, as the buckets of httpd do. Blocks
 * of all allocators lie in one churn epoch. A freed block goes back to temporal-slab at once, so an allocator keeps
 * none, and max_free has nothing to bound; the retain budget of temporal-slab takes its place.
 */
#include "pool.h"

#include <apr_errno.h>
#include <apr_thread_mutex.h>

#define PAGE 4096u
#define LEAST (2u * PAGE)

struct apr_allocator_t {
    apr_pool_t *owner;
    apr_thread_mutex_t *mutex;
};

/* 0: that is too large. */
static apr_size_t bytes_for(apr_size_t size) {
    apr_size_t bytes = size + APR_MEMNODE_T_SIZE;
    if (bytes < size || bytes > SIZE_MAX - PAGE) return 0;
    bytes = (bytes + PAGE - 1) / PAGE * PAGE;
    return bytes < LEAST ? LEAST : bytes;
}

APR_DECLARE(apr_status_t) apr_allocator_create(apr_allocator_t **out) {
    *out = ta_start() ? slab_calloc_epoch(ta_allocator, 1, sizeof **out, ta_records) : NULL;
    return *out ? APR_SUCCESS : APR_ENOMEM;
}

APR_DECLARE(void) apr_allocator_destroy(apr_allocator_t *allocator) { (void)slab_free(ta_allocator, allocator); }

APR_DECLARE(apr_size_t) apr_allocator_align(apr_allocator_t *allocator, apr_size_t size) {
    (void)allocator;
    return bytes_for(size);
}

APR_DECLARE(apr_memnode_t *) apr_allocator_alloc(apr_allocator_t *allocator, apr_size_t size) {
    apr_size_t bytes = bytes_for(size);
    (void)allocator;
    apr_memnode_t *node = bytes ? slab_malloc_epoch(ta_allocator, bytes, ta_records) : NULL;
    if (!node) return NULL;
    *node = (apr_memnode_t){.index = (apr_uint32_t)(bytes / PAGE - 1)};
    node->first_avail = (char *)node + APR_MEMNODE_T_SIZE;
    node->endp = (char *)node + bytes;
    return node;
}

APR_DECLARE(void) apr_allocator_free(apr_allocator_t *allocator, apr_memnode_t *node) {
    (void)allocator;
    for (apr_memnode_t *at = node, *next; at; at = next) {
        next = at->next;
        (void)slab_free(ta_allocator, at);
    }
}

APR_DECLARE(void) apr_allocator_owner_set(apr_allocator_t *allocator, apr_pool_t *pool) { allocator->owner = pool; }
APR_DECLARE(apr_pool_t *) apr_allocator_owner_get(apr_allocator_t *allocator) { return allocator->owner; }

APR_DECLARE(void) apr_allocator_max_free_set(apr_allocator_t *allocator, apr_size_t size) {
    (void)allocator;
    (void)size;
}

APR_DECLARE(void) apr_allocator_mutex_set(apr_allocator_t *allocator, apr_thread_mutex_t *mutex) {
    allocator->mutex = mutex;
}

APR_DECLARE(apr_thread_mutex_t *) apr_allocator_mutex_get(apr_allocator_t *allocator) { return allocator->mutex; }
