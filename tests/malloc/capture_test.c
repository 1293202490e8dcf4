/* EPOCH_DOMAIN_CAPTURE: objects that a thread allocates by malloc while it is inside are the domain's, and no others.
   Argument: a plugin; none in a static program, which loads nothing. */
#define _GNU_SOURCE
#include "live.h"
#include "malloc_test.h"

#include <tslab/malloc.h>
#include <tslab/stats.h>

#ifndef MALLOC_TEST_STATIC
#include <dlfcn.h>
#endif
#include <errno.h>
#include <pthread.h>
#include <stdint.h>
#include <string.h>

static uint64_t live_in(SlabAllocator *a, EpochId epoch) {
    SlabEpochStats stats;
    return slab_stats_epoch(a, SLAB_ALL_CLASSES, epoch, &stats) ? stats.live_objects : 0;
}

static uint64_t refused(SlabAllocator *a) {
    SlabGlobalStats stats;
    CHECK(slab_stats_global(a, &stats));
    return stats.rejected_frees_total;
}

/* Of the allocator, and one more in its epoch. */
#define CAPTURED(call)                           \
    do {                                         \
        uint64_t before_ = live_in(a, epoch);    \
        void *p_ = (call);                       \
        CHECK(p_ &&slab_owns(a, p_));            \
        CHECK(live_in(a, epoch) == before_ + 1); \
        memset(p_, 1, 1);                        \
    } while (0)

static void *not_captured(void *arg) {
    SlabAllocator *a = arg;
    void *p = malloc(77);
    bool right = p && is_live(p);
    EpochId malloc_epoch;
    CHECK(slab_epochs(slab_malloc_allocator(), &malloc_epoch, 1) >= 1); /* the oldest */
    uint64_t before = live_in(slab_malloc_allocator(), malloc_epoch);
    void *q = malloc(78);
    right &= live_in(slab_malloc_allocator(), malloc_epoch) == before + 1;
    (void)a;
    free(q);
    free(p);
    return right ? arg : NULL;
}

static void test_every_call(SlabAllocator *a, unsigned flags) {
    EpochDomain *d = epoch_domain_create_ex(a, "captured", EPOCH_DOMAIN_CAPTURE | flags);
    CHECK(d != NULL);
    EpochId epoch = epoch_domain_epoch(d);
    void *outside = malloc(100), *kept = malloc(100);
    CHECK(epoch_domain_enter(d));
    for (size_t bytes = 0; bytes < 300000; bytes = bytes * 3 + 7) {
        CAPTURED(malloc(bytes));
        CAPTURED(calloc(1, bytes));
        CAPTURED(realloc(NULL, bytes));
        CAPTURED(aligned_alloc(256, bytes));
        void *out = NULL;
        uint64_t before = live_in(a, epoch);
        CHECK(posix_memalign(&out, 64, bytes) == 0 && slab_owns(a, out) && live_in(a, epoch) == before + 1);
        free(out);
        CHECK(live_in(a, epoch) == before);
    }
    char *zero = calloc(100, 10);
    for (int i = 0; i < 1000; i++) CHECK(zero[i] == 0);
    CAPTURED(strdup("by libc"));
    char *grown = malloc(10);
    strcpy(grown, "grown");
    for (size_t bytes = 10; bytes < 100000; bytes *= 2) grown = realloc(grown, bytes);
    CHECK(strcmp(grown, "grown") == 0 && slab_owns(a, grown));
    kept = realloc(kept, 5000); /* it stays where it was */
    uint64_t before = live_in(a, epoch);
    free(kept);
    free(outside);
    CHECK(live_in(a, epoch) == before);
    errno = 0;
    CHECK(malloc(hidden_size(SIZE_MAX)) == NULL && errno == ENOMEM);

    /* Another thread is not inside. */
    pthread_t thread;
    void *answer;
    CHECK(pthread_create(&thread, NULL, not_captured, a) == 0 && pthread_join(thread, &answer) == 0 && answer == a);

    /* An inner domain that does not capture changes nothing; one that does is where it goes. */
    EpochDomain *inner = epoch_domain_create(a), *other = epoch_domain_create_ex(a, "inner", EPOCH_DOMAIN_CAPTURE);
    CHECK(epoch_domain_enter(inner));
    CAPTURED(malloc(50));
    CHECK(epoch_domain_enter(other));
    before = live_in(a, epoch);
    CHECK(malloc(50) != NULL && live_in(a, epoch) == before && live_in(a, epoch_domain_epoch(other)) == 1);
    CHECK(epoch_domain_exit(other) && epoch_domain_exit(inner));
    CAPTURED(malloc(50));
    epoch_domain_destroy(inner);
    epoch_domain_destroy(other);
    CAPTURED(malloc(50));

    CHECK(epoch_domain_exit(d));
    before = live_in(a, epoch);
    void *after = malloc(60);
    CHECK(live_in(a, epoch) == before && is_live(after));
    free(after);
    CHECK(epoch_domain_enter(d));
    CAPTURED(malloc(1));
    CHECK(epoch_domain_reset(d, SIZE_MAX)); /* all are dead, and it goes on */
    CHECK(live_in(a, epoch) == 0);
    CAPTURED(malloc(1));
    epoch_domain_destroy(d); /* while inside */
    CHECK(!slab_owns(a, hidden(grown)));
    after = malloc(60);
    CHECK(is_live(after));
    free(after);
}

/* Promoted objects live on until they are freed; an object that grows moves to where malloc would put it. */
static void test_survivors(SlabAllocator *a) {
    EpochDomain *d = epoch_domain_create_ex(a, "survivors", EPOCH_DOMAIN_CAPTURE | EPOCH_DOMAIN_DRAIN);
    EpochId epoch = epoch_domain_epoch(d);
    CHECK(epoch_domain_enter(d));
    char *cache = strdup("a cache"), *table = malloc(100000);
    for (int i = 0; i < 1000; i++) free(malloc((size_t)i));
    strcpy(table, "a table");
    CHECK(epoch_domain_exit(d));
    epoch_domain_destroy(d);
    CHECK(epoch_state(a, epoch) == EPOCH_CLOSING && live_in(a, epoch) == 2);
    CHECK(strcmp(cache, "a cache") == 0);
    cache = realloc(cache, 5000);
    CHECK(strcmp(cache, "a cache") == 0 && is_live(cache) && live_in(a, epoch) == 1);
    free(cache);
    free(table);
    CHECK(epoch_state(a, epoch) == EPOCH_CLOSED);
}

/* Closed while the thread is inside: malloc goes on, elsewhere. */
static void test_closed_inside(SlabAllocator *a) {
    EpochDomain *d = epoch_domain_create_ex(a, NULL, EPOCH_DOMAIN_CAPTURE);
    EpochId epoch = epoch_domain_epoch(d);
    CHECK(epoch_domain_enter(d));
    CAPTURED(malloc(10));
    CHECK(epoch_domain_force_close(d));
    errno = 7;
    void *p = malloc(10), *q = calloc(1, 5000), *r = aligned_alloc(64, 64);
    CHECK(p && q && r && errno == 7 && live_in(a, epoch) == 1);
    free(p);
    free(q);
    free(r);
    CHECK(epoch_domain_exit(d));
    epoch_domain_destroy(d);
}

#ifndef MALLOC_TEST_STATIC
static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static void *lives_on(void *arg) {
    pthread_mutex_lock(&mutex);
    pthread_mutex_unlock(&mutex);
    for (int i = 0; i < 1000; i++) free(malloc(100));
    return arg;
}

/* Threads and libraries that a captured call makes are not the domain's. */
static void test_loader(SlabAllocator *a, const char *path) {
    EpochDomain *d = epoch_domain_create_ex(a, "loads", EPOCH_DOMAIN_CAPTURE);
    pthread_t thread;
    int (*work)(void);
    CHECK(epoch_domain_enter(d));
    uint64_t before = live_in(a, epoch_domain_epoch(d));
    pthread_mutex_lock(&mutex);
    CHECK(pthread_create(&thread, NULL, lives_on, NULL) == 0);
    void *library = dlopen(path, RTLD_NOW | RTLD_LOCAL);
    CHECK(library != NULL);
    void *symbol = dlsym(library, "plugin_work");
    CHECK(symbol != NULL);
    memcpy(&work, &symbol, sizeof work);
    CHECK(live_in(a, epoch_domain_epoch(d)) == before);
    CHECK(work() == 0); /* it touches thread storage, which the loader allocates now */
    CHECK(epoch_domain_exit(d));
    epoch_domain_destroy(d);
    pthread_mutex_unlock(&mutex);
    CHECK(pthread_join(thread, NULL) == 0);
    CHECK(work() == 0 && dlclose(library) == 0);
}
#else
static void test_loader(SlabAllocator *a, const char *path) { CHECK(a && !path); }
#endif

/* A thread that ends inside leaves. */
static void *ends_inside(void *arg) {
    EpochDomain *d = epoch_domain_create_ex(arg, NULL, EPOCH_DOMAIN_CAPTURE | EPOCH_DOMAIN_SHARED);
    CHECK(d && epoch_domain_enter(d) && malloc(100));
    return d;
}

int main(int argc, char **argv) {
    SlabAllocator *mine = slab_malloc_allocator(), *other = slab_allocator_create();
    CHECK(argc <= 2 && mine && other);
    test_every_call(mine, 0);
    test_every_call(mine, EPOCH_SCOPE);
    test_every_call(other, 0);
    test_every_call(other, EPOCH_SCOPE | EPOCH_DOMAIN_SHARED);
    test_survivors(mine);
    test_survivors(other);
    test_closed_inside(mine);
    test_closed_inside(other);
    test_loader(mine, argv[1]);
    test_loader(other, argv[1]);
    pthread_t thread;
    void *d;
    CHECK(pthread_create(&thread, NULL, ends_inside, mine) == 0 && pthread_join(thread, &d) == 0);
    epoch_domain_destroy(d);
    CHECK(refused(mine) == 0 && refused(other) == 0);
    return 0;
}
