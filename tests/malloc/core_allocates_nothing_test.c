/*
 * The core calls no malloc: it could not be the process's malloc else. Here malloc is this program's own, which ends
 * the program while a call of the core is under way. The documented exceptions are not counted: keeping the library
 * loaded, at the first call, and the preparation of call stacks.
 */
#define _GNU_SOURCE
#include "malloc_test.h"

#include <tslab/stats.h>
#include <tslab/tslab.h>

#include <errno.h>
#include <pthread.h>
#include <string.h>
#include <unistd.h>

extern void *__libc_malloc(size_t);
extern void *__libc_calloc(size_t, size_t);
extern void *__libc_realloc(void *, size_t);
extern void __libc_free(void *);

static _Thread_local int inside;

static void allowed(const char *what) {
    if (!inside) return;
    (void)!write(STDERR_FILENO, what, strlen(what));
    _Exit(1);
}

void *malloc(size_t bytes) {
    allowed("malloc\n");
    return __libc_malloc(bytes);
}
void *calloc(size_t n, size_t bytes) {
    allowed("calloc\n");
    return __libc_calloc(n, bytes);
}
void *realloc(void *p, size_t bytes) {
    allowed("realloc\n");
    return __libc_realloc(p, bytes);
}
void free(void *p) {
    allowed("free\n");
    __libc_free(p);
}

static _Thread_local char text[1 << 18];
static _Thread_local void *object[20000];

static void use(SlabAllocator *a) {
    for (size_t i = 0; i < 20000; i++) {
        object[i] = i % 100 == 99 ? slab_aligned_epoch(a, 4096, i, epoch_current(a)) : slab_malloc(a, (i * 37) % 9000);
        CHECK(object[i] != NULL);
    }
    CHECK(slab_stats_text(a, text, sizeof text) > 0);
    CHECK(slab_stats_json(a, text, sizeof text) > 0);
    CHECK(slab_stats_prometheus(a, text, sizeof text) > 0);
    CHECK(slab_stats_doctor(a, text, sizeof text) > 0);
    for (size_t i = 0; i < 20000; i += 2) object[i] = slab_realloc(a, object[i], (i * 91) % 30000 + 1);
    for (size_t i = 0; i < 20000; i++) CHECK(slab_free(a, object[i]));
    CHECK(!slab_free(a, text));
    (void)epoch_advance(a);
    for (int i = 0; i < 100; i++) {
        EpochDomain *d = epoch_domain_create(a);
        CHECK(d && epoch_domain_enter(d));
        for (size_t k = 0; k < 300; k++) CHECK(slab_alloc(k * 9) != NULL);
        CHECK(epoch_domain_reset(d, 0) && epoch_domain_exit(d));
        epoch_domain_destroy(d);
        EpochId e = epoch_open(a, "an epoch", i % 2 ? EPOCH_CHURN : EPOCH_SCOPE);
        void *p = slab_calloc_epoch(a, 10, 1000, e);
        CHECK(p && epoch_close(a, e) && slab_free(a, p));
    }
    CHECK(slab_reserve(a, 4 << 20));
    (void)slab_trim(a);
    slab_thread_idle();
}

static void *thread_body(void *a) {
    inside++;
    use(a);
    inside--;
    return NULL;
}

int main(void) {
    SlabAllocator *retained = slab_allocator_create(); /* the library stays loaded from here on */
    CHECK(retained != NULL);
    inside++;
    SlabOptions options = {.size = sizeof options, .poison_on_free = 1, .record_rss = 1};
    SlabAllocator *a = slab_allocator_create(), *b = slab_allocator_create_ex(&options);
    CHECK(a && b);
    use(a);
    use(b);
    inside--;
    pthread_t thread[3];
    for (int i = 0; i < 3; i++) CHECK(pthread_create(&thread[i], NULL, thread_body, a) == 0);
    for (int i = 0; i < 3; i++) CHECK(pthread_join(thread[i], NULL) == 0);
    inside++;
    slab_allocator_free(b);
    slab_allocator_free(a);
    inside--;
    slab_allocator_free(retained);
    /* This malloc is not the library's: nothing can be captured. */
    errno = 0;
    CHECK(!epoch_domain_create_ex(NULL, NULL, EPOCH_DOMAIN_CAPTURE) && errno == ENOTSUP);
    return 0;
}
