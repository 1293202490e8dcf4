/*
 * What nginx's modules may rely on of pools, with the ngx_palloc.c that is linked: nginx's own (the same must hold) or
 * ours, of which more is asked (WITH_TSLAB): labels, misuse, no memory, a child, another thread.
 */
#include <ngx_config.h>
#include <ngx_core.h>
#ifdef WITH_TSLAB
#include <tslab/stats.h>
#include <tslab/tslab.h>
#endif

#include <pthread.h>

/* What the pools need of the rest of nginx. */
static ngx_log_t log_ = {.log_level = NGX_LOG_NOTICE, .action = "testing"};
static unsigned logged;
volatile ngx_cycle_t *ngx_cycle;
void ngx_log_error_core(ngx_uint_t level, ngx_log_t *log, ngx_err_t err, const char *format, ...) {
    (void)level, (void)log, (void)err, (void)format;
    logged++;
}

/* With NGX_DEBUG_PALLOC each allocation is as a large one. */
#if (NGX_DEBUG_PALLOC)
enum { IN_BLOCKS = 0 };
#else
enum { IN_BLOCKS = 1 };
#endif

static unsigned checks;
static void check(int good, const char *what, int line) {
    checks++;
    if (good) return;
    fprintf(stderr, "pools_test.c:%d: %s\n", line, what);
    exit(1);
}
#define CHECK(x) check(!!(x), #x, __LINE__)

static ngx_pool_t *make(size_t size) {
    ngx_pool_t *pool = ngx_create_pool(size, &log_);
    CHECK(pool && (uintptr_t)pool % NGX_POOL_ALIGNMENT == 0);
    CHECK(pool->log == &log_ && pool->current == pool && !pool->chain && !pool->large && !pool->cleanup);
    return pool;
}

/* ---- allocation ------------------------------------------------------------------------------------------- */

/* So many pieces of all sizes: none overlaps another one, and each keeps what was written to it. */
static void pieces(size_t size) {
    enum { COUNT = 3000 };
    static u_char *at[COUNT];
    ngx_pool_t *pool = make(size);
    for (size_t i = 0; i < COUNT; i++) {
        size_t bytes = i * 7 % 601;
        at[i] = i % 3 == 0 ? ngx_palloc(pool, bytes) : i % 3 == 1 ? ngx_pnalloc(pool, bytes) : ngx_pcalloc(pool, bytes);
        CHECK(at[i]);
        if (i % 3 != 1) CHECK((uintptr_t)at[i] % NGX_ALIGNMENT == 0);
        for (size_t j = 0; i % 3 == 2 && j < bytes; j++) CHECK(at[i][j] == 0);
        memset(at[i], (int)(i % 251), bytes);
    }
    for (size_t i = 0; i < COUNT; i++)
        for (size_t j = 0; j < i * 7 % 601; j++) CHECK(at[i][j] == i % 251);
    ngx_destroy_pool(pool);
}

static void unaligned(void) {
    ngx_pool_t *pool = make(1024);
    u_char *a = ngx_pnalloc(pool, 3), *b = ngx_pnalloc(pool, 5), *c = ngx_palloc(pool, 8);
    CHECK(!IN_BLOCKS || (b == a + 3 && c == a + 8)); /* side by side, and the next aligned place */
    ngx_destroy_pool(pool);
}

/* A piece that needs a new block leaves the rest of the old one to those that fit there. */
static void rest(void) {
    ngx_pool_t *pool = make(1024);
    u_char *first = ngx_palloc(pool, 400), *large = ngx_palloc(pool, 900);
    CHECK(first && large && (!IN_BLOCKS || ngx_palloc(pool, 500) == first + 400));
    ngx_destroy_pool(pool);
}

/* A pool that has room for nothing. */
static void smallest(void) {
    u_char *at[100];
    ngx_pool_t *pool = make(sizeof(ngx_pool_t));
    for (int i = 0; i < 100; i++) {
        CHECK((at[i] = ngx_palloc(pool, 100)));
        memset(at[i], i, 100);
    }
    for (int i = 0; i < 100; i++) CHECK(at[i][0] == i && at[i][99] == i && ngx_pfree(pool, at[i]) == NGX_OK);
    ngx_destroy_pool(pool);
}

static void boundary(void) {
    for (size_t size = 512; size <= 16384; size *= 2) {
        ngx_pool_t *pool = make(size);
        CHECK(pool->max == ngx_min(size - sizeof(ngx_pool_t), ngx_pagesize - 1));
        void *small = ngx_palloc(pool, pool->max), *large = ngx_palloc(pool, pool->max + 1);
        CHECK(small && large);
        memset(small, 1, pool->max);
        memset(large, 2, pool->max + 1);
        CHECK(ngx_pfree(pool, small) == (IN_BLOCKS ? NGX_DECLINED : NGX_OK) && ngx_pfree(pool, large) == NGX_OK);
        CHECK(ngx_pfree(pool, large) == NGX_DECLINED && ngx_pfree(pool, pool) == NGX_DECLINED);
        ngx_destroy_pool(pool);
    }
}

static void large(void) {
    ngx_pool_t *pool = make(512), *other = make(512);
    void *of_other = ngx_palloc(other, 100000);
    for (int i = 0; i < 100000; i++) { /* a connection that stays: a buffer for each request */
        void *p = ngx_palloc(pool, 1024);
        CHECK(p && ngx_pfree(pool, p) == NGX_OK);
    }
    size_t entries = 0;
    for (ngx_pool_large_t *l = pool->large; l; l = l->next) entries++;
    CHECK(entries == 1);
    CHECK(ngx_pfree(pool, of_other) == NGX_DECLINED);
    memset(of_other, 3, 100000);
    for (size_t alignment = 16; alignment <= 8192; alignment *= 2) {
        u_char *p = ngx_pmemalign(pool, 3000, alignment);
        CHECK(p && (uintptr_t)p % alignment == 0);
        memset(p, 4, 3000);
        if (alignment % 32) CHECK(ngx_pfree(pool, p) == NGX_OK);
    }
    ngx_destroy_pool(pool);
    ngx_destroy_pool(other);
}

/* An array at the end of what is cut grows where it is, and moves where it cannot. */
static void arrays(void) {
    for (size_t size = 256; size <= 4096; size *= 4) {
        ngx_pool_t *pool = make(size);
        ngx_array_t *array = ngx_array_create(pool, 4, sizeof(size_t));
        for (size_t i = 0; i < 500; i++) {
            void *before = array->elts;
            size_t *place = ngx_array_push(array);
            CHECK(place);
            if (i == 4 && IN_BLOCKS) CHECK(array->elts == before && array->nalloc == 5);
            *place = i;
        }
        for (size_t i = 0; i < 500; i++) CHECK(((size_t *)array->elts)[i] == i);
        ngx_array_destroy(array);
        ngx_destroy_pool(pool);
    }
}

static void reset(void) {
    ngx_pool_t *pool = make(1024);
    void *first = ngx_palloc(pool, 100);
    for (int round = 0; round < 50; round++) {
        for (int i = 0; i < 100; i++) CHECK(ngx_palloc(pool, 300) && (i % 10 || ngx_palloc(pool, 5000)));
        ngx_reset_pool(pool);
        CHECK(!pool->large && !pool->chain && pool->current == pool && (!IN_BLOCKS || ngx_palloc(pool, 100) == first));
    }
    ngx_destroy_pool(pool);
}

/* ---- cleanups --------------------------------------------------------------------------------------------- */

static char order[16];
static void note(void *data) { strcat(order, data); }

static void cleanups(void) {
    ngx_pool_t *pool = make(256);
    for (const char *name = "abcdefgh"; *name; name++) {
        ngx_pool_cleanup_t *c = ngx_pool_cleanup_add(pool, *name == 'c' ? 0 : 2);
        CHECK(c && !c->handler && pool->cleanup == c && (*name == 'c' ? !c->data : !!c->data));
        if (*name == 'c') continue; /* without a handler: nothing runs */
        memcpy(c->data, (char[]){*name, 0}, 2);
        c->handler = note;
    }
    ngx_reset_pool(pool);
    CHECK(order[0] == 0);
    ngx_destroy_pool(make(256));
    /* The reset has emptied their memory, which nobody has used again. */
    pool->cleanup = NULL;
    ngx_destroy_pool(pool);
    pool = make(256);
    for (const char *name = "abcdefgh"; *name; name++) {
        ngx_pool_cleanup_t *c = ngx_pool_cleanup_add(pool, 1000);
        memcpy(c->data, (char[]){*name, 0}, 2);
        c->handler = note;
    }
    ngx_destroy_pool(pool);
    CHECK(strcmp(order, "hgfedcba") == 0);
}

static ngx_fd_t opened(ngx_pool_t *pool, char *name, ngx_pool_cleanup_pt handler) {
    ngx_fd_t fd = open(name, O_CREAT | O_RDWR, 0600);
    ngx_pool_cleanup_t *c = ngx_pool_cleanup_add(pool, sizeof(ngx_pool_cleanup_file_t));
    CHECK(fd >= 0 && c);
    c->handler = handler;
    *(ngx_pool_cleanup_file_t *)c->data = (ngx_pool_cleanup_file_t){.fd = fd, .name = (u_char *)name, .log = &log_};
    return fd;
}

static void files(void) {
    ngx_pool_t *pool = make(512);
    ngx_fd_t a = opened(pool, "kept_a", ngx_pool_cleanup_file), b = opened(pool, "kept_b", ngx_pool_cleanup_file);
    ngx_fd_t c = opened(pool, "deleted", ngx_pool_delete_file);
    ngx_pool_run_cleanup_file(pool, c); /* not of that kind: nothing */
    ngx_pool_run_cleanup_file(pool, a);
    CHECK(fcntl(a, F_GETFD) < 0 && fcntl(b, F_GETFD) >= 0 && fcntl(c, F_GETFD) >= 0 && logged == 0);
    ngx_destroy_pool(pool);
    CHECK(fcntl(b, F_GETFD) < 0 && fcntl(c, F_GETFD) < 0 && logged == 0);
    CHECK(access("kept_a", F_OK) == 0 && access("kept_b", F_OK) == 0 && access("deleted", F_OK) < 0);
    CHECK(unlink("kept_a") == 0 && unlink("kept_b") == 0);
    pool = make(512);
    b = opened(pool, "gone", ngx_pool_delete_file);
    CHECK(unlink("gone") == 0);
    ngx_destroy_pool(pool);
    CHECK(logged == 0); /* a file that is gone is no error */
}

#ifdef WITH_TSLAB
/* ---- more of ours ------------------------------------------------------------------------------------------- */

static uint64_t live(void) {
    SlabGlobalStats stats;
    CHECK(slab_stats_global(slab_allocator_default(), &stats));
    return stats.live_bytes;
}

static void nothing_is_lost(void) {
    uint64_t before = live();
    for (int i = 0; i < 1000; i++) {
        ngx_pool_t *pool = make(512 << i % 4);
        for (int j = 0; j < i % 50; j++) CHECK(ngx_palloc(pool, (size_t)j * 40));
        void *p = ngx_palloc(pool, 20000), *q = ngx_palloc(pool, 20000);
        CHECK(p && q && ngx_pfree(pool, p) == NGX_OK && ngx_pfree(pool, p) == NGX_DECLINED);
        if (i % 3 == 0) ngx_reset_pool(pool);
        ngx_destroy_pool(pool);
    }
    CHECK(live() == before);
}

static unsigned lines;
static void count_lines(const char *line, size_t bytes, void *arg) {
    (void)line, (void)bytes, (void)arg;
    lines++;
}

static void destroyed_twice(void) {
    ngx_pool_t *pool = make(512);
    ngx_pool_cleanup_t *c = ngx_pool_cleanup_add(pool, 2);
    memcpy(c->data, "x", 2);
    c->handler = note;
    order[0] = 0;
    ngx_destroy_pool(pool);
    slab_set_message_sink(count_lines, NULL);
    ngx_destroy_pool(pool);
    slab_set_message_sink(NULL, NULL);
    CHECK(lines == 1 && strcmp(order, "x") == 0);
}

static void no_memory(void) {
    ngx_pool_t *pool = make(512), *other = make(512), *one = make(512);
    SlabGlobalStats stats;
    void *kept = ngx_palloc(other, 600);
    CHECK(kept && ngx_pfree(other, ngx_palloc(other, 600)) == NGX_OK); /* leaves place for another one beside it */
    CHECK(ngx_palloc(one, 400));
    logged = 0;
    CHECK(slab_stats_global(slab_allocator_default(), &stats) && stats.committed_bytes > 0);
    CHECK(slab_set_budget(slab_allocator_default(), stats.committed_bytes + (1 << 20)));
    size_t had = 0;
    for (void *p; (p = ngx_palloc(pool, 16)); had++) memset(p, 1, 16);
    CHECK(had > 100 && logged == 1);
    static ngx_pool_t *more[10000];
    size_t pools = 0; /* in what earlier ones have left */
    while (pools < 10000 && (more[pools] = ngx_create_pool(512, &log_))) pools++;
    CHECK(pools < 10000 && logged == 2);
    if (IN_BLOCKS) CHECK(!ngx_palloc(one, 400) && logged == 3);
    uint64_t before = live();
    /* There is place for the piece, and none for the entry in the list. */
    if (IN_BLOCKS) CHECK(!ngx_palloc(pool, 600) && live() == before && logged == 4);
    logged = 3;
    CHECK(!ngx_palloc(pool, 1 << 24) && logged == 4 && !ngx_pmemalign(pool, 1 << 24, 64) && logged == 5);
    CHECK(!ngx_create_pool(1 << 24, &log_) && logged == 6);
    CHECK(slab_set_budget(slab_allocator_default(), 0));
    CHECK(ngx_palloc(pool, 400) && ngx_palloc(one, 400) && ngx_palloc(pool, 600));
    while (pools) ngx_destroy_pool(more[--pools]);
    ngx_destroy_pool(pool);
    ngx_destroy_pool(other);
    ngx_destroy_pool(one);
}

/* A child that was made by fork has its own copy of each pool. */
static void child(void) {
    ngx_pool_t *pool = make(512);
    u_char *mine = ngx_palloc(pool, 400), *more = ngx_palloc(pool, 400);
    memset(mine, 5, 400);
    memset(more, 5, 400);
    pid_t pid = fork();
    if (pid == 0) {
        for (int i = 0; i < 1000; i++) memset(ngx_palloc(pool, 300), 6, 300);
        ngx_pool_t *own = make(4096);
        CHECK(ngx_palloc(own, 4000) && ngx_palloc(own, 4000) && more[399] == 5);
        ngx_destroy_pool(own);
        ngx_reset_pool(pool);
        ngx_destroy_pool(pool);
        _exit(0);
    }
    int status = -1;
    CHECK(waitpid(pid, &status, 0) == pid && status == 0);
    CHECK(mine[0] == 5 && more[399] == 5 && ngx_palloc(pool, 300));
    ngx_destroy_pool(pool);
}

static void *use(void *pool) {
    for (int i = 0; i < 100; i++) memset(ngx_palloc(pool, 300), 7, 300);
    return NULL;
}

static void *end(void *pool) {
    ngx_reset_pool(pool);
    use(pool);
    ngx_destroy_pool(pool);
    return NULL;
}

/* One at a time, but not always the same one: the pool's domain is the first one's. */
static void other_thread(void) {
    uint64_t before = live();
    for (int i = 0; i < 20; i++) {
        pthread_t thread;
        ngx_pool_t *pool = make(512);
        if (i % 2) use(pool);
        CHECK(pthread_create(&thread, NULL, use, pool) == 0 && pthread_join(thread, NULL) == 0);
        use(pool);
        CHECK(pthread_create(&thread, NULL, end, pool) == 0 && pthread_join(thread, NULL) == 0);
    }
    CHECK(live() == before);
}

static int labelled(const char *label) {
    int found = 0;
    EpochId ids[64];
    size_t n = slab_epochs(slab_allocator_default(), ids, 64);
    for (size_t i = 0; i < n && i < 64; i++) {
        SlabEpochStats stats;
        if (!slab_stats_epoch(slab_allocator_default(), SLAB_ALL_CLASSES, ids[i], &stats)) continue;
        found += strcmp(stats.label, label) == 0;
    }
    return found;
}

/* A function that can be seen gives its name; one that cannot, what the log says. */
ngx_pool_t *ngx_seen(void);
__attribute__((noinline)) ngx_pool_t *ngx_seen(void) {
    ngx_pool_t *volatile pool = ngx_create_pool(512, &log_);
    return pool;
}

static __attribute__((noinline)) ngx_pool_t *unseen(void) {
    ngx_log_t log = {.action = "connecting to upstream"};
    ngx_pool_t *volatile pool = ngx_create_pool(512, &log);
    return pool;
}

static __attribute__((noinline)) ngx_pool_t *also_unseen(void) {
    ngx_log_t log = {.action = "connecting to upstream"};
    ngx_pool_t *volatile pool = ngx_create_pool(512, &log);
    return pool;
}

/* Pools of one label share an epoch. */
static void labels(void) {
    ngx_pool_t *a = ngx_seen(), *b = unseen(), *c = also_unseen();
    CHECK(labelled("seen") == 1 && labelled("connecting to upstream") == 1);
    ngx_destroy_pool(c);
    ngx_destroy_pool(a);
    ngx_destroy_pool(b);
}

static void ours(void) {
    pieces(1003); /* nginx hands out what lies beyond such a block */
    nothing_is_lost();
    destroyed_twice();
    labels();
    child();
    other_thread();
    no_memory();
}
#else
static void ours(void) {}
#endif

int main(void) {
    ngx_pagesize = (ngx_uint_t)getpagesize();
    setenv("TSLAB_ON_MISUSE", "report", 1);
    for (size_t size = 128; size <= 16384; size *= 2) pieces(size);
    unaligned();
    rest();
    smallest();
    boundary();
    large();
    arrays();
    reset();
    cleanups();
    files();
    ours();
    printf("ok      pools: %u checks\n", checks);
    return 0;
}
