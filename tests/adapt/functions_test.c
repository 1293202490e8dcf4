/* The functions of adapt.h by themselves, with no other library: where memory goes, sizes that cannot be, threads,
   domains that have ended or are closed. */
#include "unit.h"

#include <tslab/adapt.h>
#include <tslab/stats.h>

#include <pthread.h>
#include <stdint.h>

static EpochId epoch_of(SlabAdaptHome *home) { return slab_adapt_epoch(home); }

static uint64_t live(EpochId epoch) {
    SlabEpochStats stats;
    assert_true(slab_stats_epoch(slab_allocator_default(), SLAB_ALL_CLASSES, epoch, &stats));
    return stats.live_objects;
}
static uint64_t live_in(EpochDomain *domain) { return live(epoch_domain_epoch(domain)); }

/* ---- one handle ----------------------------------------------------------------------------------------------- */

static void in_the_domain_of_the_handle(void **state) {
    (void)state;
    EpochDomain *d = epoch_domain_create_ex(NULL, "handle", EPOCH_CHURN);
    void *objects[] = {slab_adapt_zlib_alloc(d, 10, 20),    slab_adapt_pcre2_malloc(30, d),
                       slab_adapt_lua(d, NULL, 5, 40),      slab_adapt_nghttp2_malloc(50, d),
                       slab_adapt_nghttp2_calloc(6, 10, d), slab_adapt_nghttp2_realloc(NULL, 70, d)};
    const size_t bytes[] = {200, 30, 40, 50, 60, 70};
    for (size_t i = 0; i < 6; i++) assert_true(slab_usable_size(slab_allocator_default(), objects[i]) >= bytes[i]);
    for (size_t i = 0; i < 60; i++) assert_int_equal(((char *)objects[4])[i], 0);
    assert_int_equal(live_in(d), 6);
    objects[5] = slab_adapt_nghttp2_realloc(objects[5], 7000, d);
    memset(objects[2], 'x', 40);
    objects[2] = slab_adapt_lua(d, objects[2], 40, 4000);
    for (size_t i = 0; i < 40; i++) assert_int_equal(((char *)objects[2])[i], 'x');
    objects[2] = slab_adapt_lua(d, objects[2], 4000, 10);
    assert_int_equal(live_in(d), 6);
    slab_adapt_zlib_free(d, objects[0]);
    slab_adapt_pcre2_free(objects[1], d);
    assert_null(slab_adapt_lua(d, objects[2], 10, 0));
    assert_null(slab_adapt_lua(d, NULL, 0, 0));
    slab_adapt_nghttp2_free(objects[3], d);
    slab_adapt_keep(objects[4], d);
    assert_int_equal(live_in(d), 2);
    epoch_domain_destroy(d);
    assert_null(slab_adapt_in(d, 10)); /* no crash, and nothing anywhere else */
    assert_int_equal(errno, EINVAL);
}

static void sizes_that_cannot_be(void **state) {
    (void)state;
    EpochDomain *d = epoch_domain_create_ex(NULL, "sizes", 0);
    assert_null(slab_adapt_zlib_alloc(d, UINT_MAX, UINT_MAX));
    assert_int_equal(errno, ENOMEM);
    assert_null(slab_adapt_nghttp2_calloc(SIZE_MAX, 2, d));
    assert_null(slab_adapt_libuv_calloc(SIZE_MAX / 2, 3));
    assert_int_equal(errno, ENOMEM);
    assert_null(slab_adapt_libxml2_malloc(SIZE_MAX));
    assert_non_null(slab_adapt_zlib_alloc(d, 0, 100));
    assert_non_null(slab_adapt_zlib_alloc(d, 100, 0));
    epoch_domain_destroy(d);
}

/* Lua takes for granted that nothing which shrinks fails. */
static void lua_never_fails_to_shrink(void **state) {
    (void)state;
    EpochDomain *d = epoch_domain_create_ex(NULL, "lua", EPOCH_CHURN);
    char *p = slab_adapt_lua(d, NULL, 0, 5000);
    memset(p, 'x', 5000);
    assert_true(epoch_domain_force_close(d));
    char *q = slab_adapt_lua(d, p, 5000, 100);
    assert_non_null(q);
    for (size_t i = 0; i < 100; i++) assert_int_equal(q[i], 'x');
    assert_null(slab_adapt_lua(d, q, 100, 100000)); /* to grow, it may */
    assert_true(slab_owns(slab_allocator_default(), q));
    epoch_domain_destroy(d);

    d = epoch_domain_create_ex(NULL, "lua", 0);
    p = slab_adapt_lua_keep(d, NULL, 0, 100);
    q = slab_adapt_lua_keep(d, NULL, 0, 100000);
    assert_null(slab_adapt_lua_keep(d, p, 100, 0));
    assert_null(slab_adapt_lua_keep(d, q, 100000, 0));
    assert_int_equal(live_in(d), 1);
    epoch_domain_destroy(d);
}

static void *use_elsewhere(void *domain) {
    void *p = slab_adapt_zlib_alloc(domain, 10, 10);
    void *q = slab_adapt_pcre2_malloc(10, domain);
    slab_adapt_zlib_free(domain, p);
    return q;
}

static void from_any_thread(void **state) {
    (void)state;
    EpochDomain *d = epoch_domain_create_ex(NULL, "threads", EPOCH_CHURN);
    pthread_t thread;
    void *made;
    assert_int_equal(pthread_create(&thread, NULL, use_elsewhere, d), 0);
    assert_int_equal(pthread_join(thread, &made), 0);
    assert_non_null(made);
    assert_int_equal(live_in(d), 1);
    slab_adapt_pcre2_free(made, d);
    assert_int_equal(live_in(d), 0);
    epoch_domain_destroy(d);
}

/* ---- the whole process ------------------------------------------------------------------------------------------ */

static void outside_of_domains(void **state) {
    (void)state;
    EpochDomain *d = epoch_domain_create_ex(NULL, "request", 0);
    epoch_domain_enter(d);
    void *p = slab_adapt_libxml2_malloc(100), *q = slab_adapt_openssl_malloc(100, "file", 1);
    char *text = slab_adapt_libxml2_strdup("text");
    int *zero = slab_adapt_libuv_calloc(5, sizeof(int));
    assert_string_equal(text, "text");
    assert_int_equal(zero[0] | zero[4], 0);
    assert_int_equal(live_in(d), 0);
    epoch_domain_exit(d);
    epoch_domain_destroy(d);
    SlabEpochStats stats;
    assert_true(
        slab_stats_epoch(slab_allocator_default(), SLAB_ALL_CLASSES, epoch_of(&slab_adapt_home_libxml2), &stats));
    assert_string_equal(stats.label, "libxml2");
    assert_int_equal(stats.live_objects, 2);
    p = slab_adapt_libxml2_realloc(p, 10000);
    assert_int_equal(live(epoch_of(&slab_adapt_home_libxml2)), 2);
    assert_null(slab_adapt_libxml2_realloc(p, 0)); /* which frees */
    assert_null(slab_adapt_openssl_realloc(q, 0, "file", 2));
    slab_adapt_openssl_free(NULL, "file", 3);
    slab_adapt_free(text);
    slab_adapt_free(zero);
    assert_int_equal(live(epoch_of(&slab_adapt_home_libxml2)), 0);
    assert_int_equal(live(epoch_of(&slab_adapt_home_openssl)), 0);
    assert_int_equal(live(epoch_of(&slab_adapt_home_libuv)), 0);
    assert_true(epoch_of(&slab_adapt_home_libxml2) != epoch_of(&slab_adapt_home_openssl));
}

static void in_domains_who_opts_in(void **state) {
    (void)state;
    slab_adapt_set(&slab_adapt_home_jansson, SLAB_ADAPT_IN_DOMAINS);
    void *outside = slab_adapt_jansson_malloc(10);
    EpochDomain *d = epoch_domain_create_ex(NULL, "request", EPOCH_CHURN | EPOCH_DOMAIN_DRAIN);
    EpochId epoch = epoch_domain_epoch(d);
    epoch_domain_enter(d);
    char *p = slab_adapt_jansson_malloc(10);
    assert_int_equal(live_in(d), 1);
    slab_adapt_free(outside);
    assert_int_equal(live(epoch_of(&slab_adapt_home_jansson)), 0);

    /* The domain is closed while the thread is inside of it: as if outside. An object that has to grow moves there. */
    assert_true(epoch_domain_force_close(d));
    memset(p, 'x', 10);
    errno = 0;
    void *q = slab_adapt_jansson_malloc(10);
    p = slab_adapt_resize(&slab_adapt_home_jansson, p, 3000);
    assert_int_equal(errno, 0);
    for (size_t i = 0; i < 10; i++) assert_int_equal(p[i], 'x');
    assert_int_equal(live(epoch_of(&slab_adapt_home_jansson)), 2);
    epoch_domain_exit(d);
    epoch_domain_destroy(d);
    assert_int_equal(epoch_state(slab_allocator_default(), epoch), EPOCH_CLOSED);
    slab_adapt_free(p);
    slab_adapt_free(q);
    slab_adapt_set(&slab_adapt_home_jansson, SLAB_ADAPT_OUTSIDE);
}

/* expat has no pointer: the innermost domain of the thread. */
static void expat_in_the_innermost_domain(void **state) {
    (void)state;
    EpochDomain *d = epoch_domain_create_ex(NULL, "parser", EPOCH_CHURN);
    epoch_domain_enter(d);
    void *p = slab_adapt_expat_realloc(slab_adapt_expat_malloc(10), 1000);
    assert_int_equal(live_in(d), 1);
    epoch_domain_exit(d);
    p = slab_adapt_expat_realloc(p, 100000); /* stays in its domain */
    assert_int_equal(live_in(d), 1);
    slab_adapt_keep_all(p);
    assert_int_equal(live_in(d), 1);
    slab_adapt_free(p);
    assert_int_equal(live_in(d), 0);
    epoch_domain_destroy(d);
    void *outside = slab_adapt_expat_malloc(10);
    assert_int_equal(live(epoch_of(&slab_adapt_home_expat)), 1);
    slab_adapt_free(outside);
}

static void sqlite_knows_sizes(void **state) {
    (void)state;
    slab_adapt_set(&slab_adapt_home_sqlite3, SLAB_ADAPT_IN_DOMAINS);
    SlabAllocator *other = slab_allocator_create();
    EpochDomain *elsewhere = epoch_domain_create_ex(other, "other allocator", 0),
                *d = epoch_domain_create_ex(NULL, "own", 0);
    epoch_domain_enter(elsewhere);
    void *p = slab_adapt_sqlite3_malloc(100);
    assert_true(slab_adapt_sqlite3_size(p) >= 100);
    epoch_domain_exit(elsewhere);
    assert_int_equal(live(epoch_of(&slab_adapt_home_sqlite3)), 1);
    epoch_domain_enter(d);
    void *q = slab_adapt_sqlite3_malloc(100);
    assert_true(slab_adapt_sqlite3_size(q) >= 100 && live_in(d) == 1);
    p = slab_adapt_sqlite3_realloc(p, 5000);
    assert_true(slab_adapt_sqlite3_size(p) >= 5000);
    epoch_domain_exit(d);
    slab_adapt_free(p);
    slab_adapt_free(q);
    assert_int_equal(slab_adapt_sqlite3_size(NULL), 0);
    assert_int_equal(slab_adapt_sqlite3_roundup(17), 32);
    assert_int_equal(slab_adapt_sqlite3_roundup(16), 16);
    assert_int_equal(slab_adapt_sqlite3_roundup(INT_MAX), INT_MAX);
    assert_int_equal(slab_adapt_sqlite3_init(NULL), 0);
    slab_adapt_sqlite3_shutdown(NULL);
    epoch_domain_destroy(d);
    slab_allocator_free(other);
}

/* Several threads use a library for the first time at once: one epoch. */
static SlabAdaptHome raced = {"raced", EPOCH_NONE, SLAB_ADAPT_OUTSIDE};
static pthread_barrier_t start;

static void *first_use(void *arg) {
    (void)arg;
    pthread_barrier_wait(&start);
    return slab_adapt_take(&raced, 10);
}

static void one_epoch_for_all_threads(void **state) {
    (void)state;
    for (int round = 0; round < 20; round++) {
        pthread_t threads[4];
        void *objects[4];
        raced.epoch = EPOCH_NONE;
        pthread_barrier_init(&start, NULL, 4);
        for (int i = 0; i < 4; i++) assert_int_equal(pthread_create(&threads[i], NULL, first_use, NULL), 0);
        for (int i = 0; i < 4; i++) assert_int_equal(pthread_join(threads[i], &objects[i]), 0);
        pthread_barrier_destroy(&start);
        assert_int_equal(live(raced.epoch), 4);
        for (int i = 0; i < 4; i++) slab_adapt_free(objects[i]);
        assert_true(epoch_destroy(slab_allocator_default(), raced.epoch));
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(in_the_domain_of_the_handle),
        cmocka_unit_test(sizes_that_cannot_be),
        cmocka_unit_test(lua_never_fails_to_shrink),
        cmocka_unit_test(from_any_thread),
        cmocka_unit_test(outside_of_domains),
        cmocka_unit_test(in_domains_who_opts_in),
        cmocka_unit_test(expat_in_the_innermost_domain),
        cmocka_unit_test(sqlite_knows_sizes),
        cmocka_unit_test(one_epoch_for_all_threads),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
