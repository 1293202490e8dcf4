/*
 * nginx's pools on temporal-slab: this file stands in for src/core/ngx_palloc.c, and ngx_palloc.h stays as it is.
 *
 * Where the memory of a pool lies:
 *   - Two blocks as large as the creator asks, and each large allocation, are objects of a churn epoch. All pools of a
 *     label share it: connections that wait are many, and ngx_pfree() gives a place back.
 *   - What the pool needs beyond two blocks is cut from blocks in a domain of the pool. The domain is made then.
 *
 * A domain for each pool takes 9.4 KiB for an idle connection in place of 0.5. One for all beyond the first block costs
 * a request for a small file, which needs 4.2 KiB, 5 % more instructions than nginx's own pools.
 *
 * The label of a pool says what made it: "connection", "request", "cycle", or the function that called
 * ngx_create_pool().
 *
 * Fields of ngx_pool_t. `d.last` and `d.end` are of the block that is cut now, `d.end` is aligned; nginx's arrays grow
 * at the end of what is cut.
 * `current` is the second block, or the pool; `d.next` the domain, or NULL; `d.failed` the number of the label. nginx
 * itself uses none of the three. The others are as in nginx. As there, one thread at a time uses a pool.
 */
#include <ngx_config.h>
#include <ngx_core.h>

#include <dlfcn.h>
#include <tslab/tslab.h>

/* ---- labels --------------------------------------------------------------------------------------------- */

#define PLACES 128u /* calls of ngx_create_pool(): nginx has some 25 */

static struct {
    const void *address; /* behind the call; NULL: a free place */
    EpochId epoch;
    char label[SLAB_LABEL_BYTES];
} places[PLACES];

static const char *const known[][2] = {
    {"main", "cycle"},
    {"ngx_event_accept", "connection"},
    {"ngx_event_recvmsg", "connection"},
    {"ngx_http_alloc_request", "request"},
    {"ngx_http_create_request", "request"},
    {"ngx_init_cycle", "cycle"},
};

/* A function of nginx is known if it is not static; then the log says what is being done, or the address remains. */
static void describe(char *label, const void *address, const ngx_log_t *log) {
    Dl_info info;
    ngx_memzero(&info, sizeof info);
    const char *name = dladdr((void *)(uintptr_t)address, &info) ? info.dli_sname : NULL;
    for (size_t i = 0; name && i < sizeof known / sizeof *known; i++)
        if (ngx_strcmp(name, known[i][0]) == 0) name = known[i][1];
    if (name)
        snprintf(label, SLAB_LABEL_BYTES, "%s", ngx_strncmp(name, "ngx_", 4) == 0 ? name + 4 : name);
    else if (log && log->action)
        snprintf(label, SLAB_LABEL_BYTES, "%s", log->action);
    else
        snprintf(label, SLAB_LABEL_BYTES, "nginx+0x%zx", (size_t)((uintptr_t)address - (uintptr_t)info.dli_fbase));
}

/* The number of the call's place, with its epoch; PLACES: no memory. Where all are taken another call's serves. */
static ngx_uint_t place_of(const void *address, const ngx_log_t *log) {
    ngx_uint_t at = ((uintptr_t)address >> 2) % PLACES, tries = 0;
    while (places[at].address != address && places[at].address && tries++ < PLACES) at = (at + 1) % PLACES;
    if (places[at].address) return at;
    describe(places[at].label, address, log);
    EpochId epoch = EPOCH_NONE;
    for (ngx_uint_t i = 0; i < PLACES; i++)
        if (places[i].address && ngx_strcmp(places[i].label, places[at].label) == 0) epoch = places[i].epoch;
    if (epoch == EPOCH_NONE) epoch = epoch_open(slab_allocator_default(), places[at].label, EPOCH_CHURN);
    if (epoch == EPOCH_NONE) return PLACES;
    places[at].epoch = epoch;
    places[at].address = address;
    return at;
}

/* ---- pools ---------------------------------------------------------------------------------------------- */

static EpochDomain *domain_of(const ngx_pool_t *pool) { return (EpochDomain *)(void *)pool->d.next; }

static void *no_memory(size_t size, ngx_log_t *log) {
    ngx_log_error(NGX_LOG_EMERG, log, ngx_errno, "%uz bytes in a pool failed", size);
    return NULL;
}

static void cut(ngx_pool_t *pool, u_char *from, u_char *end) {
    pool->d.last = from;
    pool->d.end = end - (uintptr_t)end % NGX_ALIGNMENT; /* so that no aligned address lies beyond it */
}

static void start(ngx_pool_t *pool, size_t bytes) {
    cut(pool, (u_char *)pool + sizeof(ngx_pool_t), (u_char *)pool + bytes);
    pool->current = pool;
    pool->chain = NULL;
    pool->large = NULL;
}

ngx_pool_t *ngx_create_pool(size_t size, ngx_log_t *log) {
    ngx_uint_t place = place_of(__builtin_return_address(0), log);
    ngx_pool_t *pool = NULL;
    if (place < PLACES && size >= sizeof(ngx_pool_t))
        pool = slab_malloc_epoch(slab_allocator_default(), size, places[place].epoch);
    if (!pool) return no_memory(size, log);
    start(pool, size);
    pool->d.next = NULL;
    pool->d.failed = place;
    pool->max = ngx_min(size - sizeof(ngx_pool_t), NGX_MAX_ALLOC_FROM_POOL);
    pool->cleanup = NULL;
    pool->log = log;
    return pool;
}

/* All but the first block. Any thread may end the domain of another one. */
static void free_contents(ngx_pool_t *pool) {
    if (pool->current != pool) (void)slab_free(slab_allocator_default(), pool->current);
    for (ngx_pool_large_t *large = pool->large; large; large = large->next)
        if (large->alloc) (void)slab_free(slab_allocator_default(), large->alloc);
    if (pool->d.next) (void)epoch_domain_end(domain_of(pool));
}

void ngx_destroy_pool(ngx_pool_t *pool) {
    SlabAllocator *allocator = slab_allocator_default();
    if (!slab_owns(allocator, pool)) {
        (void)slab_free(allocator, pool); /* destroyed before: counted as misuse, and told if that is asked for */
        return;
    }
    for (ngx_pool_cleanup_t *c = pool->cleanup; c; c = c->next) {
        if (!c->handler) continue;
        ngx_log_debug1(NGX_LOG_DEBUG_ALLOC, pool->log, 0, "run cleanup: %p", c);
        c->handler(c->data);
    }
    free_contents(pool);
    (void)slab_free(allocator, pool);
}

/* As in nginx cleanups neither run nor go. */
void ngx_reset_pool(ngx_pool_t *pool) {
    free_contents(pool);
    pool->d.next = NULL;
    start(pool, slab_usable_size(slab_allocator_default(), pool));
}

/* ---- allocation ----------------------------------------------------------------------------------------- */

static u_char *next_block(ngx_pool_t *pool, size_t bytes) {
    SlabAllocator *allocator = slab_allocator_default();
    if (pool->current == pool) {
        void *second = slab_malloc_epoch(allocator, bytes, places[pool->d.failed].epoch);
        if (second) pool->current = second;
        return second;
    }
    if (!pool->d.next)
        pool->d.next = (ngx_pool_t *)(void *)epoch_domain_create_ex(allocator, places[pool->d.failed].label, 0);
    return pool->d.next ? slab_malloc_epoch(allocator, bytes, epoch_domain_epoch(domain_of(pool))) : NULL;
}

/* From a new block, which is the one that is cut from now on if more of it is left. */
static void *alloc_in_next_block(ngx_pool_t *pool, size_t size) {
    size_t bytes = pool->max == NGX_MAX_ALLOC_FROM_POOL ? ngx_pagesize : pool->max + sizeof(ngx_pool_t);
    u_char *block = next_block(pool, bytes);
    if (!block) return no_memory(bytes, pool->log);
    if (bytes - size > (size_t)(pool->d.end - pool->d.last)) cut(pool, block + size, block + bytes);
    return block;
}

static ngx_inline void *alloc_small(ngx_pool_t *pool, size_t size, u_char *from) {
    if ((size_t)(pool->d.end - from) < size) return alloc_in_next_block(pool, size);
    pool->d.last = from + size;
    return from;
}

static ngx_inline void *alloc_aligned(ngx_pool_t *pool, size_t size) {
    return alloc_small(pool, size, ngx_align_ptr(pool->d.last, NGX_ALIGNMENT));
}

/* Puts the object on the pool's list. One of the first entries is used again, as a connection gets and frees a buffer
   for each request. NULL: p is NULL, or there is no memory for the entry. */
static void *keep(ngx_pool_t *pool, void *p, size_t size) {
    if (!p) return no_memory(size, pool->log);
    ngx_uint_t n = 0;
    for (ngx_pool_large_t *large = pool->large; large && n < 5; large = large->next, n++) {
        if (large->alloc) continue;
        large->alloc = p;
        return p;
    }
    ngx_pool_large_t *large = alloc_aligned(pool, sizeof *large);
    if (!large) {
        (void)slab_free(slab_allocator_default(), p);
        return NULL;
    }
    large->alloc = p;
    large->next = pool->large;
    pool->large = large;
    return p;
}

static void *alloc_large(ngx_pool_t *pool, size_t size) {
    return keep(pool, slab_malloc_epoch(slab_allocator_default(), size, places[pool->d.failed].epoch), size);
}

#if (NGX_DEBUG_PALLOC)
#define IS_SMALL(pool, size) 0
#else
#define IS_SMALL(pool, size) ((size) <= (pool)->max)
#endif

void *ngx_palloc(ngx_pool_t *pool, size_t size) {
    return IS_SMALL(pool, size) ? alloc_aligned(pool, size) : alloc_large(pool, size);
}

void *ngx_pnalloc(ngx_pool_t *pool, size_t size) {
    return IS_SMALL(pool, size) ? alloc_small(pool, size, pool->d.last) : alloc_large(pool, size);
}

void *ngx_pcalloc(ngx_pool_t *pool, size_t size) {
    void *p = ngx_palloc(pool, size);
    if (p) ngx_memzero(p, size);
    return p;
}

void *ngx_pmemalign(ngx_pool_t *pool, size_t size, size_t alignment) {
    void *p = slab_aligned_epoch(slab_allocator_default(), alignment, size, places[pool->d.failed].epoch);
    return keep(pool, p, size);
}

ngx_int_t ngx_pfree(ngx_pool_t *pool, void *p) {
    for (ngx_pool_large_t *large = pool->large; large; large = large->next) {
        if (p != large->alloc) continue;
        ngx_log_debug1(NGX_LOG_DEBUG_ALLOC, pool->log, 0, "free: %p", p);
        (void)slab_free(slab_allocator_default(), p);
        large->alloc = NULL;
        return NGX_OK;
    }
    return NGX_DECLINED;
}

/* ---- cleanups ------------------------------------------------------------------------------------------- */

ngx_pool_cleanup_t *ngx_pool_cleanup_add(ngx_pool_t *pool, size_t size) {
    ngx_pool_cleanup_t *c = ngx_palloc(pool, sizeof *c);
    void *data = c && size ? ngx_palloc(pool, size) : NULL;
    if (!c || (size && !data)) return NULL;
    *c = (ngx_pool_cleanup_t){.handler = NULL, .data = data, .next = pool->cleanup};
    pool->cleanup = c;
    ngx_log_debug1(NGX_LOG_DEBUG_ALLOC, pool->log, 0, "add cleanup: %p", c);
    return c;
}

void ngx_pool_run_cleanup_file(ngx_pool_t *pool, ngx_fd_t fd) {
    for (ngx_pool_cleanup_t *c = pool->cleanup; c; c = c->next) {
        if (c->handler != ngx_pool_cleanup_file || ((ngx_pool_cleanup_file_t *)c->data)->fd != fd) continue;
        c->handler(c->data);
        c->handler = NULL;
        return;
    }
}

void ngx_pool_cleanup_file(void *data) {
    ngx_pool_cleanup_file_t *file = data;
    ngx_log_debug1(NGX_LOG_DEBUG_ALLOC, file->log, 0, "file cleanup: fd:%d", file->fd);
    if (ngx_close_file(file->fd) == NGX_FILE_ERROR)
        ngx_log_error(NGX_LOG_ALERT, file->log, ngx_errno, ngx_close_file_n " \"%s\" failed", file->name);
}

void ngx_pool_delete_file(void *data) {
    ngx_pool_cleanup_file_t *file = data;
    ngx_log_debug2(NGX_LOG_DEBUG_ALLOC, file->log, 0, "file cleanup: fd:%d %s", file->fd, file->name);
    if (ngx_delete_file(file->name) == NGX_FILE_ERROR && ngx_errno != NGX_ENOENT)
        ngx_log_error(NGX_LOG_CRIT, file->log, ngx_errno, ngx_delete_file_n " \"%s\" failed", file->name);
    if (ngx_close_file(file->fd) == NGX_FILE_ERROR)
        ngx_log_error(NGX_LOG_ALERT, file->log, ngx_errno, ngx_close_file_n " \"%s\" failed", file->name);
}
