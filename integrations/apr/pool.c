/* Pools: made, cleared, destroyed; and what they hand out. pool.h says how a pool becomes a domain. */
#include "pool.h"

#include <apr_atomic.h>
#include <apr_errno.h>
#include <apr_thread_mutex.h>
#include <stdatomic.h>
#include <string.h>

#undef apr_pcalloc
#undef apr_pool_create
#undef apr_pool_create_core
#undef apr_pool_create_core_ex

SlabAllocator *ta_allocator;
EpochId ta_records = EPOCH_NONE;
static apr_pool_t *root;             /* APR's global pool: the parent of those that are made without one */
static unsigned initialized;         /* as APR, which counts the calls of one thread */

void *ta_no_memory(const apr_pool_t *pool) {
    if (pool && pool->abort_fn) pool->abort_fn(APR_ENOMEM);
    return NULL;
}

/* The record of a pool names itself until the pool is destroyed, and its memory stays readable after that. The free of
   a destroyed one is counted as misuse, and told if that is asked for. */
static bool is_live(apr_pool_t *pool) { return pool->self == pool || slab_free(ta_allocator, pool); }

/* ---- allocation ------------------------------------------------------------------------------------------- */

/* A number that no other thread has, nor had. */
static uint64_t this_thread(void) {
    static _Atomic uint64_t last;
    static _Thread_local uint64_t number;
    if (!number)
        number = atomic_fetch_add_explicit(&last, 1, memory_order_relaxed) + 1; /* nothing hangs on the order */
    return number;
}

static bool make_domain(apr_pool_t *pool) {
    const char *label = pool->tag ? pool->tag : ta_label_of(pool->creator);
    pool->domain = epoch_domain_create_ex(ta_allocator, label, 0);
    pool->epoch = pool->domain ? epoch_domain_epoch(pool->domain) : EPOCH_NONE;
    pool->thread = this_thread();
    return pool->domain != NULL;
}

void *ta_alloc_alone(apr_pool_t *pool, apr_size_t size) {
    void *p = slab_malloc_epoch(ta_allocator, size, pool->epoch);
    if (p) return p;
    if (!is_live(pool)) return NULL;
    bool made = !pool->domain && make_domain(pool);
    p = made ? slab_malloc_epoch(ta_allocator, size, pool->epoch) : NULL;
    return p ? p : ta_no_memory(pool);
}

#define ALIGNMENT 8u /* APR's */
#define FIRST_CHUNK 256u
#define LAST_CHUNK 4096u

/* What is large has an object of its own, so that it leaves no rest. */
static void *alloc_in_next_chunk(apr_pool_t *pool, apr_size_t size) {
    if (size > LAST_CHUNK / 4) return ta_alloc_alone(pool, size);
    size_t bytes = pool->chunk < FIRST_CHUNK ? FIRST_CHUNK : pool->chunk;
    while (bytes < 2 * size) bytes *= 2;
    char *p = ta_alloc_alone(pool, bytes);
    if (!p) return NULL;
    pool->chunk = bytes < LAST_CHUNK ? 2 * bytes : LAST_CHUNK;
    pool->at = p + size;
    pool->end = p + bytes;
    return p;
}

APR_DECLARE(void *) apr_palloc(apr_pool_t *pool, apr_size_t size) {
    apr_size_t bytes = (size + (ALIGNMENT - 1)) & ~(apr_size_t)(ALIGNMENT - 1);
    if (bytes < size) return ta_no_memory(pool);
    if (bytes >= (apr_size_t)(pool->end - pool->at)) return alloc_in_next_chunk(pool, bytes);
    char *p = pool->at;
    pool->at = p + bytes;
    return p;
}

APR_DECLARE(void *) apr_pcalloc(apr_pool_t *pool, apr_size_t size) {
    void *p = apr_palloc(pool, size);
    return p ? memset(p, 0, size) : NULL;
}

APR_DECLARE(void *) apr_palloc_debug(apr_pool_t *pool, apr_size_t size, const char *file_line) {
    (void)file_line;
    return apr_palloc(pool, size);
}

APR_DECLARE(void *) apr_pcalloc_debug(apr_pool_t *pool, apr_size_t size, const char *file_line) {
    (void)file_line;
    return apr_pcalloc(pool, size);
}

/* ---- the tree ---------------------------------------------------------------------------------------------- */

static apr_thread_mutex_t *lock_of(const apr_pool_t *parent) {
    apr_thread_mutex_t *mutex = parent->allocator ? apr_allocator_mutex_get(parent->allocator) : NULL;
    if (mutex) apr_thread_mutex_lock(mutex);
    return mutex;
}

static void unlock(apr_thread_mutex_t *mutex) {
    if (mutex) apr_thread_mutex_unlock(mutex);
}

static void link_to(apr_pool_t *pool, apr_pool_t *parent) {
    pool->parent = parent;
    if (!parent) return;
    apr_thread_mutex_t *mutex = lock_of(parent);
    pool->sibling = parent->child;
    if (pool->sibling) pool->sibling->link = &pool->sibling;
    parent->child = pool;
    pool->link = &parent->child;
    unlock(mutex);
}

static void unlink_from_parent(apr_pool_t *pool) {
    if (!pool->parent) return;
    apr_thread_mutex_t *mutex = lock_of(pool->parent);
    *pool->link = pool->sibling;
    if (pool->sibling) pool->sibling->link = pool->link;
    unlock(mutex);
}

static apr_status_t create(apr_pool_t **out, apr_pool_t *parent, apr_abortfunc_t abort_fn, apr_allocator_t *allocator,
                           const char *tag, const void *creator) {
    *out = NULL;
    apr_pool_t *pool = slab_calloc_epoch(ta_allocator, 1, sizeof *pool, ta_records);
    if (!pool) {
        if (abort_fn) abort_fn(APR_ENOMEM);
        return APR_ENOMEM;
    }
    pool->self = pool;
    pool->abort_fn = abort_fn;
    pool->allocator = allocator;
    pool->tag = tag;
    pool->creator = creator;
    link_to(pool, parent);
    *out = pool;
    return APR_SUCCESS;
}

static apr_status_t create_managed(apr_pool_t **out, apr_pool_t *parent, apr_abortfunc_t abort_fn,
                                   apr_allocator_t *allocator, const char *tag, const void *creator) {
    if (!parent) parent = root;
    if (!abort_fn && parent) abort_fn = parent->abort_fn;
    if (!allocator && parent) allocator = parent->allocator;
    return create(out, parent, abort_fn, allocator, tag, creator);
}

/* Such a pool owns an allocator if it was given none, as with APR. */
static apr_status_t create_unmanaged(apr_pool_t **out, apr_abortfunc_t abort_fn, apr_allocator_t *allocator,
                                     const char *tag, const void *creator) {
    apr_allocator_t *own = NULL;
    *out = NULL;
    if (!initialized) return APR_ENOPOOL;
    if (!allocator && apr_allocator_create(&own) != APR_SUCCESS) {
        if (abort_fn) abort_fn(APR_ENOMEM);
        return APR_ENOMEM;
    }
    apr_status_t status = create(out, NULL, abort_fn, allocator ? allocator : own, tag, creator);
    if (own && status == APR_SUCCESS) apr_allocator_owner_set(own, *out);
    if (own && status != APR_SUCCESS) apr_allocator_destroy(own);
    return status;
}

APR_DECLARE(apr_status_t)
apr_pool_create_ex(apr_pool_t **out, apr_pool_t *parent, apr_abortfunc_t abort_fn, apr_allocator_t *allocator) {
    return create_managed(out, parent, abort_fn, allocator, NULL, __builtin_return_address(0));
}

APR_DECLARE(apr_status_t)
apr_pool_create_ex_debug(apr_pool_t **out, apr_pool_t *parent, apr_abortfunc_t abort_fn, apr_allocator_t *allocator,
                         const char *file_line) {
    return create_managed(out, parent, abort_fn, allocator, file_line, NULL);
}

APR_DECLARE(apr_status_t)
apr_pool_create_unmanaged_ex(apr_pool_t **out, apr_abortfunc_t abort_fn, apr_allocator_t *allocator) {
    return create_unmanaged(out, abort_fn, allocator, NULL, __builtin_return_address(0));
}

APR_DECLARE(apr_status_t)
apr_pool_create_unmanaged_ex_debug(apr_pool_t **out, apr_abortfunc_t abort_fn, apr_allocator_t *allocator,
                                   const char *file_line) {
    return create_unmanaged(out, abort_fn, allocator, file_line, NULL);
}

APR_DECLARE(apr_status_t)
apr_pool_create_core_ex(apr_pool_t **out, apr_abortfunc_t abort_fn, apr_allocator_t *allocator) {
    return create_unmanaged(out, abort_fn, allocator, NULL, __builtin_return_address(0));
}

APR_DECLARE(apr_status_t)
apr_pool_create_core_ex_debug(apr_pool_t **out, apr_abortfunc_t abort_fn, apr_allocator_t *allocator,
                              const char *file_line) {
    return create_unmanaged(out, abort_fn, allocator, file_line, NULL);
}

/* ---- clear and destroy --------------------------------------------------------------------------------------- */

static void end_domain(apr_pool_t *pool) {
    if (pool->domain && pool->thread == this_thread())
        epoch_domain_destroy(pool->domain);
    else if (pool->domain)
        (void)epoch_domain_end(pool->domain);
    pool->domain = NULL;
    pool->epoch = EPOCH_NONE;
}

/* All that comes before the pool's memory goes: what was to be done first, the children, the cleanups, the processes. */
static void end_contents(apr_pool_t *pool) {
    ta_run_cleanups(&pool->pre_cleanups);
    while (pool->child) apr_pool_destroy(pool->child);
    ta_run_cleanups(&pool->cleanups);
    ta_end_processes(pool->processes);
    pool->at = pool->end = NULL;
    pool->chunk = 0;
    pool->unused = NULL;
    pool->processes = NULL;
    pool->user_data = NULL;
}

APR_DECLARE(void) apr_pool_clear(apr_pool_t *pool) {
    if (!is_live(pool)) return;
    end_contents(pool);
    /* Only the thread that made a domain may reset it. */
    bool mine = pool->domain && pool->thread == this_thread();
    if (!mine || !epoch_domain_reset(pool->domain, SIZE_MAX)) end_domain(pool);
}

APR_DECLARE(void) apr_pool_destroy(apr_pool_t *pool) {
    if (!is_live(pool)) return;
    end_contents(pool);
    unlink_from_parent(pool);
    apr_allocator_t *own = pool->allocator && apr_allocator_owner_get(pool->allocator) == pool ? pool->allocator : NULL;
    if (own) apr_allocator_mutex_set(own, NULL); /* it may lie in the pool */
    end_domain(pool);
    pool->self = NULL;
    (void)slab_free(ta_allocator, pool);
    if (own) apr_allocator_destroy(own);
}

APR_DECLARE(void) apr_pool_clear_debug(apr_pool_t *pool, const char *file_line) {
    (void)file_line;
    apr_pool_clear(pool);
}

APR_DECLARE(void) apr_pool_destroy_debug(apr_pool_t *pool, const char *file_line) {
    (void)file_line;
    apr_pool_destroy(pool);
}

/* ---- start and end -------------------------------------------------------------------------------------------- */

bool ta_start(void) {
    if (!ta_allocator) ta_allocator = slab_allocator_default();
    if (ta_allocator && ta_records == EPOCH_NONE) ta_records = epoch_open(ta_allocator, "apr pools", EPOCH_CHURN);
    return ta_records != EPOCH_NONE;
}

static apr_status_t give_up(apr_allocator_t *allocator, apr_status_t status) {
    if (root)
        apr_pool_destroy(root);
    else if (allocator)
        apr_allocator_destroy(allocator);
    root = NULL;
    initialized = 0;
    return status;
}

APR_DECLARE(apr_status_t) apr_pool_initialize(void) {
    apr_allocator_t *allocator = NULL;
    apr_thread_mutex_t *mutex = NULL;
    if (initialized++) return APR_SUCCESS;
    apr_status_t status = apr_allocator_create(&allocator);
    if (status != APR_SUCCESS) return give_up(NULL, status);
    status = create(&root, NULL, NULL, allocator, "apr_global_pool", NULL);
    if (status != APR_SUCCESS) return give_up(allocator, status);
    apr_allocator_owner_set(allocator, root);
    status = apr_atomic_init(root);
    if (status == APR_SUCCESS) status = apr_thread_mutex_create(&mutex, APR_THREAD_MUTEX_DEFAULT, root);
    if (status != APR_SUCCESS) return give_up(allocator, status);
    apr_allocator_mutex_set(allocator, mutex);
    return APR_SUCCESS;
}

APR_DECLARE(void) apr_pool_terminate(void) {
    if (initialized == 0 || --initialized > 0) return;
    if (root) apr_pool_destroy(root);
    root = NULL;
}

/* ---- questions -------------------------------------------------------------------------------------------------- */

APR_DECLARE(apr_allocator_t *) apr_pool_allocator_get(apr_pool_t *pool) { return pool->allocator; }
APR_DECLARE(void) apr_pool_abort_set(apr_abortfunc_t abort_fn, apr_pool_t *pool) { pool->abort_fn = abort_fn; }
APR_DECLARE(apr_abortfunc_t) apr_pool_abort_get(apr_pool_t *pool) { return pool->abort_fn; }
APR_DECLARE(apr_pool_t *) apr_pool_parent_get(apr_pool_t *pool) { return pool->parent; }

APR_DECLARE(int) apr_pool_is_ancestor(apr_pool_t *a, apr_pool_t *b) {
    while (a && b && a != b) b = b->parent;
    return !a || b;
}

APR_DECLARE(void) apr_pool_tag(apr_pool_t *pool, const char *tag) {
    pool->tag = tag;
    if (pool->epoch != EPOCH_NONE) (void)slab_epoch_set_label(ta_allocator, pool->epoch, tag);
}

apr_pool_t *ta_root(void) { return root; }
