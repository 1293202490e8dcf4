/* The options strict and hints: what is refused, and what is told of once. */
#define _GNU_SOURCE
#include "unit.h"

#include <errno.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static int err[2], before;
static char text[4096];

static void listen_to_stderr(void) {
    assert_int_equal(pipe(err), 0);
    before = dup(2);
    assert_int_equal(dup2(err[1], 2), 2);
}

static const char *heard(void) {
    (void)dup2(before, 2);
    (void)close(before);
    (void)close(err[1]);
    ssize_t n = read(err[0], text, sizeof text - 1);
    text[n > 0 ? n : 0] = 0;
    (void)close(err[0]);
    return text;
}

static unsigned lines(const char *s) {
    unsigned n = 0;
    for (; *s; s++) n += *s == '\n';
    return n;
}

static void strict_outside(void **state) {
    (void)state;
    errno = 0;
    assert_null(slab_alloc(10));
    assert_int_equal(errno, EINVAL);
    assert_null(slab_alloc_zero(1, 10));
    assert_null(slab_alloc_zero(1, 100000));
    assert_null(slab_alloc_aligned(64, 10));
    assert_null(slab_alloc_strdup("x"));
    EpochDomain *d = epoch_domain_create(NULL);
    assert_true(epoch_domain_enter(d));
    assert_non_null(slab_alloc(10));
    assert_non_null(slab_malloc(slab_allocator_default(), 10));
    epoch_domain_destroy(d);
    assert_null(slab_alloc(10));
}

static void *destroys_another(void *d) {
    for (int i = 0; i < 3; i++) epoch_domain_destroy(d);
    return NULL;
}
static void *ends_inside(void *a) {
    (void)epoch_domain_enter(epoch_domain_create(a));
    return NULL;
}

static void hints_once(void **state) {
    (void)state;
    SlabOptions options = {.size = sizeof options, .hints = 1};
    SlabAllocator *a = slab_allocator_create_ex(&options);
    EpochDomain *d = epoch_domain_create(a);
    pthread_t t;
    listen_to_stderr();
    bool in = epoch_domain_enter(d);
    for (volatile int i = 0; i < 5; i++) (void)slab_malloc(a, 10); /* one call site: not unrolled */
    (void)epoch_domain_exit(d);
    for (volatile int i = 0; i < 5; i++) (void)slab_malloc(a, 10); /* one call site: not unrolled */
    (void)pthread_create(&t, NULL, destroys_another, d);
    (void)pthread_join(t, NULL);
    (void)pthread_create(&t, NULL, ends_inside, a);
    (void)pthread_join(t, NULL);
    const char *said = heard();
    assert_true(in);
    assert_non_null(strstr(said, "tslab: hint: slab_malloc: "));
    assert_non_null(strstr(said, "tslab: hint: epoch_domain_destroy: "));
    assert_non_null(strstr(said, "tslab: hint: thread: "));
    assert_int_equal(lines(said), 3);
    slab_allocator_free(a);
}

int main(void) {
    (void)setenv("TSLAB_STRICT", "1", 1);
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(strict_outside),
        cmocka_unit_test(hints_once),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
