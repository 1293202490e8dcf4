/* libtslab-apr by APR's interface alone, preloaded: order of what a pool does at its end, pools that go from thread to
   thread, forks, a budget that is reached, and pools that are used wrongly. Prints what fails. */
#include <apr_allocator.h>
#include <apr_general.h>
#include <apr_pools.h>
#include <apr_strings.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>
#include <sys/wait.h>
#include <tslab/stats.h>
#include <unistd.h>

static int failures;
#define EXPECT(what) ((what) ? (void)0 : (void)(failures++, printf("line %d: %s\n", __LINE__, #what)))

static SlabGlobalStats stats(void) {
    SlabGlobalStats s;
    EXPECT(slab_stats_global(slab_allocator_default(), &s));
    return s;
}

static char order[64];
static apr_status_t note(void *letter) {
    strncat(order, letter, 1);
    return APR_SUCCESS;
}

static void ends_in_order(void) {
    apr_pool_t *parent, *child;
    for (int clears = 0; clears < 2; clears++) {
        order[0] = '\0';
        EXPECT(apr_pool_create(&parent, NULL) == APR_SUCCESS && apr_pool_create(&child, parent) == APR_SUCCESS);
        apr_pool_cleanup_register(parent, "a", note, apr_pool_cleanup_null);
        apr_pool_cleanup_register(parent, "b", note, apr_pool_cleanup_null);
        apr_pool_cleanup_register(parent, "x", note, apr_pool_cleanup_null);
        apr_pool_pre_cleanup_register(parent, "p", note);
        apr_pool_cleanup_register(child, "c", note, apr_pool_cleanup_null);
        apr_pool_cleanup_kill(parent, "x", note);
        clears ? apr_pool_clear(parent) : apr_pool_destroy(parent);
        EXPECT(strcmp(order, "pcba") == 0);
        if (clears) apr_pool_destroy(parent);
    }
}

static void texts_and_sizes(void) {
    apr_pool_t *pool;
    EXPECT(apr_pool_create(&pool, NULL) == APR_SUCCESS);
    for (unsigned length = 0; length < 5000; length += 7) {
        char *text = apr_psprintf(pool, "%*d|%s", (int)length + 1, 7, "end");
        EXPECT(text && strlen(text) == length + 5 && strcmp(text + length, "7|end") == 0);
    }
    EXPECT(apr_palloc(pool, 0) != NULL);
    for (size_t size = 1; size < 3u << 20; size = size * 3 / 2 + 1) {
        unsigned char *p = apr_pcalloc(pool, size);
        EXPECT(p && p[0] == 0 && p[size - 1] == 0 && (uintptr_t)p % 8 == 0);
        memset(p, 0xff, size);
    }
    volatile size_t too_much = SIZE_MAX; /* so that no compiler warns of it */
    EXPECT(apr_palloc(pool, too_much) == NULL && apr_palloc(pool, too_much / 2) == NULL);
    apr_pool_destroy(pool);
}

static void *use_and_clear(void *pool) {
    EXPECT(apr_pcalloc(pool, 100) != NULL);
    apr_pool_clear(pool);
    EXPECT(apr_pstrdup(pool, "of this thread") != NULL);
    return NULL;
}

static void go_from_thread_to_thread(void) {
    apr_pool_t *pool, *parent;
    EXPECT(apr_pool_create(&parent, NULL) == APR_SUCCESS && apr_pool_create(&pool, parent) == APR_SUCCESS);
    uint64_t rejected = stats().rejected_frees_total;
    for (int i = 0; i < 20; i++) {
        pthread_t thread;
        EXPECT(apr_palloc(pool, 50) != NULL);
        EXPECT(pthread_create(&thread, NULL, use_and_clear, pool) == 0 && pthread_join(thread, NULL) == 0);
    }
    apr_pool_destroy(parent);
    EXPECT(stats().rejected_frees_total == rejected);
}

static void children_of_fork(void) {
    apr_pool_t *pool;
    EXPECT(apr_pool_create(&pool, NULL) == APR_SUCCESS && apr_palloc(pool, 50));
    pid_t child = fork();
    if (child == 0) {
        apr_pool_clear(pool);
        bool good = apr_pstrdup(pool, "child") != NULL;
        apr_pool_destroy(pool);
        _exit(good && failures == 0 ? 0 : 1);
    }
    int status = -1;
    EXPECT(waitpid(child, &status, 0) == child && status == 0);
    EXPECT(apr_palloc(pool, 50) != NULL);
    apr_pool_destroy(pool);
}

static int aborts;
static int count_abort(int status) {
    EXPECT(status == APR_ENOMEM);
    return ++aborts;
}

static void without_memory(void) {
    apr_pool_t *pool, *other;
    EXPECT(apr_pool_create_ex(&pool, NULL, count_abort, NULL) == APR_SUCCESS);
    (void)slab_trim(slab_allocator_default());
    EXPECT(slab_set_budget(slab_allocator_default(), (size_t)stats().committed_bytes + (1u << 20)));
    size_t got = 0;
    while (got < 64u << 20 && apr_palloc(pool, 10000)) got += 10000;
    EXPECT(got < 2u << 20 && aborts == 1);
    EXPECT(apr_palloc(pool, 10000) == NULL && aborts == 2);
    EXPECT(apr_psprintf(pool, "%20000d", 1) == NULL && aborts == 3);
    EXPECT(slab_set_budget(slab_allocator_default(), 0));
    EXPECT(apr_palloc(pool, 10000) != NULL);
    EXPECT(apr_pool_create(&other, pool) == APR_SUCCESS && apr_pool_abort_get(other) == count_abort);
    apr_pool_destroy(pool);
}

static void used_wrongly(void) {
    apr_pool_t *pool;
    EXPECT(apr_pool_create(&pool, NULL) == APR_SUCCESS && apr_palloc(pool, 50));
    uint64_t rejected = stats().rejected_frees_total;
    apr_pool_destroy(pool);
    apr_pool_destroy(pool);
    EXPECT(stats().rejected_frees_total == rejected + 1);
    apr_pool_clear(pool);
    EXPECT(stats().rejected_frees_total == rejected + 2);
}

static void nothing_stays(void) {
    apr_pool_t *pool;
    uint64_t live = stats().live_objects;
    for (int i = 0; i < 1000; i++) {
        apr_allocator_t *allocator;
        EXPECT(apr_allocator_create(&allocator) == APR_SUCCESS);
        EXPECT(apr_pool_create_unmanaged_ex(&pool, NULL, allocator) == APR_SUCCESS);
        apr_allocator_owner_set(allocator, pool);
        apr_memnode_t *node = apr_allocator_alloc(allocator, 3000);
        EXPECT(node && node->endp - node->first_avail >= 3000);
        apr_allocator_free(allocator, node);
        EXPECT(apr_palloc(pool, 3000) != NULL);
        apr_pool_destroy(pool);
    }
    EXPECT(stats().live_objects == live);
}

int main(void) {
    if (apr_initialize() != APR_SUCCESS) return 1;
    ends_in_order();
    texts_and_sizes();
    go_from_thread_to_thread();
    children_of_fork();
    without_memory();
    used_wrongly();
    nothing_stays();
    apr_terminate();
    EXPECT(stats().live_objects == 0);
    printf("pools_test: %d failures\n", failures);
    return failures != 0;
}
