/* Which labels meet contention: waits and repeated frees count for the epoch in which the thread works. */
#include "check.h"
#include "fixture.h"

#include "observe/observe.h"
#include "os/os.h"

#include <pthread.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static ts_lock lock;

static int start(void **state) {
    (void)state;
    ts_lock_init(&lock, TS_RANK_POOL);
    allocator = slab_allocator_create();
    return allocator == NULL;
}

/* Both figures are 0 where the label has no row. */
static ts_contention of(const char *label) {
    ts_contention rows[TS_CONTENTION_ROWS], found = {0};
    unsigned n = ts_contention_rows(rows);
    for (unsigned i = 0; i < n; i++) {
        if (rows[i].is_other || strcmp(rows[i].label, label) != 0) continue;
        assert_int_equal(found.lock_waits + found.cas_retries, 0); /* no two rows of one label */
        found = rows[i];
    }
    return found;
}

/* Takes the lock, which another thread has, inside of a domain with that label; NULL: in none. */
static void *wait_in(void *label) {
    EpochDomain *domain = label ? epoch_domain_create_ex(allocator, label, 0) : NULL;
    if (domain) SUP_CHECK(epoch_domain_enter(domain), "enter");
    ts_lock_acquire(&lock);
    ts_lock_release(&lock);
    if (domain) SUP_CHECK(epoch_domain_exit(domain), "exit");
    epoch_domain_destroy(domain);
    return NULL;
}

/* One wait of a thread that works there. */
static void one_wait(const char *label) {
    pthread_t thread;
    ts_lock_acquire(&lock);
    assert_int_equal(pthread_create(&thread, NULL, wait_in, (void *)(uintptr_t)label), 0);
    while (ts_load_relaxed(&lock.word) != TS_LOCK_WAITED) sched_yield();
    ts_lock_release(&lock);
    assert_int_equal(pthread_join(thread, NULL), 0);
}

static void waits_by_label(void **state) {
    (void)state;
    uint64_t none = of("").lock_waits;
    one_wait("checkout");
    one_wait("search");
    one_wait("checkout");
    one_wait(NULL); /* a thread that works in no epoch */
    assert_int_equal(of("checkout").lock_waits, 2);
    assert_int_equal(of("search").lock_waits, 1);
    assert_int_equal(of("").lock_waits, none + 1);
    assert_int_equal(of("checkout").cas_retries, 0);
}

/* Outside of domains: the epoch in which the thread allocated last. */
static void the_epoch_used_last(void **state) {
    (void)state;
    EpochId epoch = epoch_open(allocator, "import", EPOCH_CHURN);
    for (int i = 0; i < 2; i++) assert_non_null(slab_malloc_epoch(allocator, 64, epoch));
    ts_load_relaxed (&ts_cas_repeated)(3);
    assert_int_equal(of("import").cas_retries, 3);
    assert_int_equal(of("import").lock_waits, 0);
    EpochDomain *domain = epoch_domain_create_ex(allocator, "inside", 0);
    assert_true(domain && epoch_domain_enter(domain));
    ts_load_relaxed (&ts_cas_repeated)(1);
    assert_true(epoch_domain_exit(domain));
    epoch_domain_destroy(domain);
    assert_int_equal(of("inside").cas_retries, 1);
    assert_int_equal(of("import").cas_retries, 3);
    assert_true(epoch_destroy(allocator, epoch));
}

static uint64_t metric(const char *name, const char *label) {
    static char text[1 << 20];
    char key[96];
    size_t length = slab_stats_prometheus(allocator, text, sizeof text);
    assert_true(length > 0 && length < sizeof text);
    snprintf(key, sizeof key, "\ntemporal_slab_label_%s_total{label=\"%s\"} ", name, label);
    const char *at = strstr(text, key);
    if (!at) return 0;
    assert_null(strstr(at + 1, key)); /* a series once */
    return strtoull(at + strlen(key), NULL, 10);
}

static void retry_in(const char *label) {
    EpochDomain *domain = epoch_domain_create_ex(allocator, label, 0);
    assert_true(domain && epoch_domain_enter(domain));
    ts_load_relaxed (&ts_cas_repeated)(1);
    assert_true(epoch_domain_exit(domain));
    epoch_domain_destroy(domain);
}

static void metrics_are_bounded(void **state) {
    char label[16];
    (void)state;
    one_wait("metrics");
    assert_int_equal(metric("lock_waits", "metrics"), 1);
    assert_int_equal(metric("cas_retries", "metrics"), 0);
    retry_in("a\tb"); /* shown alike */
    retry_in("a\nb");
    retry_in("a\rb");
    assert_int_equal(metric("cas_retries", "a?b"), 2);
    for (unsigned i = 0; i < 2 * TS_CONTENTION_LABELS; i++) {
        snprintf(label, sizeof label, "one of %u", i);
        retry_in(label);
    }
    ts_contention rows[TS_CONTENTION_ROWS];
    assert_int_equal(ts_contention_rows(rows), TS_CONTENTION_ROWS);
    assert_true(rows[TS_CONTENTION_LABELS].is_other);
    assert_true(metric("cas_retries", "(other)") >= TS_CONTENTION_LABELS);
    assert_int_equal(metric("cas_retries", "one of 0"), 1);
}

#define WITH_ALLOCATOR(test) cmocka_unit_test_setup_teardown(test, start, stop)

int main(void) {
    const struct CMUnitTest tests[] = {
        WITH_ALLOCATOR(waits_by_label),
        WITH_ALLOCATOR(the_epoch_used_last),
        WITH_ALLOCATOR(metrics_are_bounded),
    };
    return cmocka_run_group_tests_name("observe.contention", tests, NULL, NULL);
}
