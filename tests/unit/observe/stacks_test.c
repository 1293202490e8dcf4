/*
 * Sampled stacks. With a mean of one byte every allocation is sampled (but for one in nine million of the smallest), so
 * that the samples of live objects can be counted; with a larger one the estimates are compared with the exact figures.
 * Rows by stack (observe/stack_sums.c) and by the name of the thread (thread_name.c).
 */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include "check.h"
#include "proc.h"
#include "unit.h"

#include "advice/advice.h"
#include "api/runtime.h"
#include "base/base.h"
#include "diagnose/diagnose.h"
#include "observe/observe.h"
#include "observe/stacks.h"
#include "os/os.h"

#include <errno.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

enum { ROWS = 64 };

static SlabAllocator *make(size_t mean) {
    SlabOptions options = {.size = sizeof options, .sample_stacks = mean};
    SlabAllocator *allocator = slab_allocator_create_ex(&options);
    assert_non_null(allocator);
    return allocator;
}

/* Samples of live objects of an epoch, or of all. */
static uint64_t samples(SlabAllocator *allocator, EpochId epoch) {
    static SlabStackSample rows[1024];
    uint64_t sum = 0;
    size_t n = slab_stacks(allocator, epoch, rows, 1024);
    assert_true(n <= 1024);
    for (size_t i = 0; i < n; i++) sum += rows[i].samples;
    return sum;
}

static SlabGlobalStats global(SlabAllocator *allocator) {
    SlabGlobalStats stats;
    assert_true(slab_stats_global(allocator, &stats));
    return stats;
}

/* ---- the table: first, while the process has none ---------------------------------------------------------------- */

static ts_os_table table;
static bool refuse_reserve, refuse_commit;
static void *test_reserve(size_t bytes) { return refuse_reserve ? NULL : ts_os_native.reserve(bytes); }
static bool test_commit(void *at, size_t bytes) { return !refuse_commit && ts_os_native.commit(at, bytes); }

static void without_room_for_the_table(void **state) {
    SlabOptions options = {.size = sizeof options, .sample_stacks = 4096};
    (void)state;
    assert_non_null(slab_allocator_default());
    table = ts_os_native;
    table.reserve = test_reserve;
    table.commit = test_commit;
    ts_os = &table;
    for (unsigned round = 0; round < 2; round++) {
        refuse_reserve = round == 0;
        refuse_commit = round == 1;
        errno = 0;
        assert_null(slab_allocator_create_ex(&options));
        assert_int_equal(errno, ENOMEM);
    }
    refuse_commit = false;
    SlabAllocator *allocator = slab_allocator_create_ex(&options);
    assert_non_null(allocator);
    slab_allocator_free(allocator);
    ts_os = &ts_os_native;
}

/* The doctor asks by the label that its finding shows. */
static void sites_of_a_label_that_is_shown_otherwise(void **state) {
    SlabAllocator *allocator = make(1);
    static char text[1 << 14];
    (void)state;
    EpochId epoch = epoch_open(allocator, "a\tb", EPOCH_CHURN);
    assert_non_null(slab_malloc_epoch(allocator, 100, epoch));
    ts_view *view = ts_advised_view(ts_allocator_find(ts_token(allocator)), ts_token(allocator));
    assert_non_null(view);
    for (unsigned shown = 0; shown < 2; shown++) {
        ts_sink sink = ts_sink_buffer(text, sizeof text);
        ts_finding finding = {.has_label = 1, .state = EPOCH_ACTIVE};
        strcpy(finding.label, shown ? "a?b" : "a\tb");
        ts_put_sites(&sink, view, &finding);
        (void)ts_sink_end(&sink);
        assert_int_equal(strstr(text, "in 1 object") != NULL, shown);
    }
    ts_view_free(view);
    slab_allocator_free(allocator);
}

/* ---- threads ----------------------------------------------------------------------------------------------------- */

static void *allocate_by_name(void *arg) {
    char name[16];
    const uint32_t number = *(uint32_t *)arg;
    snprintf(name, sizeof name, "worker %u", number);
    assert_int_equal(pthread_setname_np(pthread_self(), name), 0);
    static SlabAllocator *allocator;
    if (number == 0) allocator = make(1);
    for (uint32_t i = 0; i <= number; i++) assert_non_null(slab_malloc(allocator, 100));
    return allocator;
}

static SlabAllocator *renamed_in;
static _Atomic unsigned stage;

static void *is_renamed(void *arg) {
    assert_int_equal(pthread_setname_np(pthread_self(), "as it began"), 0);
    assert_non_null(slab_malloc(renamed_in, 100));
    assert_int_equal(pthread_setname_np(pthread_self(), "as it went on"), 0);
    atomic_store(&stage, 1);
    while (atomic_load(&stage) == 1) sup_sleep_ms(1);
    return arg;
}

static void holder_is(const char *name) {
    ts_view *view = ts_advised_view(ts_allocator_find(ts_token(renamed_in)), ts_token(renamed_in));
    assert_non_null(view);
    assert_int_equal(view->thread_rows, 1);
    assert_string_equal(view->thread[0].name, name);
    ts_view_free(view);
}

/* A sample stores the thread's name once; a later name is looked up while the thread lives. */
static void a_thread_that_is_renamed(void **state) {
    pthread_t thread;
    (void)state;
    renamed_in = make(1);
    assert_int_equal(pthread_create(&thread, NULL, is_renamed, NULL), 0);
    while (atomic_load(&stage) == 0) sup_sleep_ms(1);
    holder_is("as it went on");
    pid_t child = fork();
    if (child == 0) {
        holder_is("as it began"); /* it is not there */
        _exit(0);
    }
    int status;
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_int_equal(status, 0);
    atomic_store(&stage, 2);
    assert_int_equal(pthread_join(thread, NULL), 0);
    holder_is("as it began");
    slab_allocator_free(renamed_in);
}

/* Those that hold most by their names, the rest in one row; together they are all samples. */
static void threads_are_told_by_name(void **state) {
    enum { THREADS = 20 };
    SlabAllocator *allocator = NULL;
    uint64_t count = 0;
    (void)state;
    for (uint32_t i = 0; i < THREADS; i++) {
        pthread_t thread;
        void *result;
        assert_int_equal(pthread_create(&thread, NULL, allocate_by_name, &i), 0);
        assert_int_equal(pthread_join(thread, &result), 0);
        allocator = result;
        ts_view *view = ts_advised_view(ts_allocator_find(ts_token(allocator)), ts_token(allocator));
        assert_non_null(view);
        assert_int_equal(view->thread_rows, i < TS_VIEW_THREADS ? i + 1 : TS_VIEW_THREADS);
        assert_int_equal(ts_view_samples(view), count += i + 1);
        ts_view_free(view);
    }
    ts_view *view = ts_advised_view(ts_allocator_find(ts_token(allocator)), ts_token(allocator));
    assert_non_null(view);
    for (uint32_t i = 0; i < TS_VIEW_THREADS - 1; i++) {
        char name[16];
        snprintf(name, sizeof name, "worker %u", THREADS - 1 - i);
        assert_string_equal(view->thread[i].name, name);
        assert_int_equal(view->thread[i].samples, THREADS - i);
        assert_int_equal(view->thread[i].live_objects, THREADS - i);
    }
    assert_string_equal(view->thread[TS_VIEW_THREADS - 1].name, TS_THREADS_OTHER);
    assert_int_equal(view->thread[TS_VIEW_THREADS - 1].samples, 4 + 3 + 2 + 1);
    static char text[1 << 16];
    ts_sink sink = ts_sink_buffer(text, sizeof text);
    const ts_views views = ts_views_of(view);
    ts_render_json(&sink, &views);
    (void)ts_sink_end(&sink);
    assert_non_null(strstr(text, "\"holders\":{\"samples\":210,\"threads\":[{\"name\":\"worker 19\",\"samples\":20,"));
    ts_view_free(view);
    slab_allocator_free(allocator);
}

/* ---- off --------------------------------------------------------------------------------------------------------- */

static void off_it_is_nowhere(void **state) {
    SlabAllocator *off = make(0), *on = make(1 << 20);
    SlabStackSample row;
    (void)state;
    EpochId epoch = epoch_open(off, NULL, EPOCH_CHURN), sampled = epoch_open(on, NULL, EPOCH_CHURN);
    assert_non_null(slab_malloc_epoch(off, 100, epoch));
    /* The thread's next allocation takes the fast path, unless a tool watches. */
    if (ts_allocator_find(ts_token(off))->care == 0) {
        assert_int_equal(ts_load_relaxed(&ts_thread.block->b.open_id), epoch);
        assert_non_null(slab_malloc(off, 100));
        assert_int_not_equal(ts_load_relaxed(&ts_thread.rolling->b.rolling), 0);
    }
    assert_int_equal(slab_stacks(off, EPOCH_NONE, &row, 1), 0);
    assert_int_equal(global(off).stack_samples_taken, 0);
    /* And not where stacks are sampled. */
    void *p = slab_malloc_epoch(on, 100, sampled);
    assert_ptr_equal(ts_thread.block, &ts_no_block);
    assert_non_null(slab_malloc(on, 100));
    assert_ptr_equal(ts_thread.rolling, &ts_no_block);
    EpochDomain *domain = epoch_domain_create(on);
    assert_true(epoch_domain_enter(domain) && slab_alloc(100) && slab_alloc(100));
    assert_ptr_equal(ts_thread.scope, &ts_no_scope);
    epoch_domain_destroy(domain);
    assert_true(slab_free(on, p));
    slab_allocator_free(off);
    slab_allocator_free(on);
}

/* The way that counts has the checks of the others. */
static void epochs_of_others_are_refused(void **state) {
    (void)state;
    SlabAllocator *a = make(1 << 20), *b = make(1 << 20);
    for (unsigned flags = EPOCH_CHURN; flags <= EPOCH_SCOPE; flags++) {
        EpochId mine = epoch_open(a, NULL, flags), other = epoch_open(b, NULL, flags);
        assert_non_null(slab_malloc_epoch(a, 100, mine));
        assert_non_null(slab_malloc_epoch(b, 100, other));
        errno = 0;
        assert_null(slab_malloc_epoch(a, 100, other));
        assert_int_equal(errno, EINVAL);
        assert_true(epoch_close(a, mine));
        assert_null(slab_malloc_epoch(a, 100, mine));
        assert_int_equal(errno, ESTALE);
        assert_null(slab_malloc_epoch(a, 100, EPOCH_NONE));
        assert_int_equal(errno, EINVAL);
    }
    slab_allocator_free(a);
    slab_allocator_free(b);
}

/* ---- no sample outlives its object ------------------------------------------------------------------------------- */

struct to_free {
    SlabAllocator *allocator;
    void *object;
};
static void *free_object(void *arg) {
    const struct to_free *f = arg;
    SUP_CHECK(slab_free(f->allocator, f->object), "slab_free");
    return NULL;
}

static const size_t SIZES[] = {1, 48, 100, 4096, 5000, 9000, 300000};
enum { SIZE_COUNT = sizeof SIZES / sizeof *SIZES };

static void frees_of_every_kind(void **state) {
    (void)state;
    SlabAllocator *a = make(1);
    for (unsigned flags = EPOCH_CHURN; flags <= EPOCH_SCOPE; flags++) {
        EpochId e = epoch_open(a, "kinds", flags);
        for (unsigned i = 0; i < SIZE_COUNT; i++) {
            SlabHandle handle;
            void *p = slab_malloc_epoch(a, SIZES[i], e);
            assert_int_equal(samples(a, e), 1);
            assert_true(slab_free(a, p));
            assert_int_equal(samples(a, e), 0);
            p = slab_malloc_epoch(a, SIZES[i], e);
            sup_in_thread(free_object, &(struct to_free){a, p});
            assert_int_equal(samples(a, e), 0);
            /* Its place may be used again: that is another object. */
            p = slab_malloc_epoch(a, SIZES[i], e);
            assert_int_equal(samples(a, e), 1);
            assert_true(slab_free(a, p));
            p = alloc_obj_epoch(a, SIZES[i], e, &handle);
            assert_non_null(p);
            assert_int_equal(samples(a, e), 1);
            assert_true(free_obj(a, handle));
            assert_int_equal(samples(a, e), 0);
            p = slab_calloc_epoch(a, 1, SIZES[i], e);
            void *q = slab_aligned_epoch(a, 64, SIZES[i], e);
            assert_int_equal(samples(a, e), 2);
            assert_true(slab_free(a, p) && slab_free(a, q));
            assert_int_equal(samples(a, e), 0);
        }
        assert_true(epoch_destroy(a, e));
    }
    assert_int_equal(samples(a, EPOCH_NONE), 0);
    assert_int_equal(global(a).stack_samples_dropped, 0);
    slab_allocator_free(a);
}

/* A sampled object that is large enough for guards has them, however much room its scope's slab has. */
static void guards_of_a_sampled_scope(void **state) {
    (void)state;
    SlabOptions options = {
        .size = sizeof options, .sample_stacks = 1, .guard_spans = 1, .memory_tools = SLAB_TOOLS_OFF};
    SlabAllocator *a = slab_allocator_create_ex(&options);
    EpochId e = epoch_open(a, NULL, EPOCH_SCOPE);
    for (size_t size = 4096; size < 16384; size += 1000) {
        assert_non_null(slab_malloc_epoch(a, 16, e));
        assert_int_equal(slab_usable_size(a, slab_malloc_epoch(a, size, e)) % 4096, 0); /* whole pages */
    }
    slab_allocator_free(a);
}

static void realloc_moves_one_sample(void **state) {
    (void)state;
    SlabAllocator *a = make(1);
    for (unsigned flags = EPOCH_CHURN; flags <= EPOCH_SCOPE; flags++) {
        EpochId e = epoch_open(a, NULL, flags);
        void *p = slab_malloc_epoch(a, 16, e);
        for (unsigned i = 0; i < 2 * SIZE_COUNT; i++) {
            p = slab_realloc(a, p, SIZES[i < SIZE_COUNT ? i : 2 * SIZE_COUNT - 1 - i]);
            assert_non_null(p);
            SlabStackSample row;
            assert_int_equal(slab_stacks(a, e, &row, 1), 1);
            assert_int_equal(row.samples, 1);
            if (ts_allocator_find(ts_token(a))->care == 0) assert_int_equal(row.live_bytes, slab_usable_size(a, p));
        }
        assert_true(epoch_destroy(a, e));
    }
    slab_allocator_free(a);
}

static void ends_of_epochs(void **state) {
    (void)state;
    SlabAllocator *a = make(1);
    EpochId e[2] = {epoch_open(a, "closed", EPOCH_CHURN), epoch_open(a, "destroyed", EPOCH_SCOPE)};
    void *left[SIZE_COUNT];
    for (unsigned i = 0; i < SIZE_COUNT; i++) {
        left[i] = slab_malloc_epoch(a, SIZES[i], e[0]);
        assert_non_null(slab_malloc_epoch(a, SIZES[i], e[1]));
    }
    assert_true(epoch_close(a, e[0]));
    assert_int_equal(samples(a, e[0]), SIZE_COUNT);
    SlabStackSample row;
    assert_in_range(slab_stacks(a, e[0], &row, 1), 1, SIZE_COUNT);
    assert_int_equal(row.version, SLAB_STATS_VERSION);
    assert_int_equal(row.state, EPOCH_CLOSING);
    assert_int_equal(row.epoch_id, e[0]);
    assert_string_equal(row.label, "closed");
    assert_true(epoch_destroy(a, e[1]));
    assert_int_equal(samples(a, EPOCH_NONE), SIZE_COUNT);
    for (unsigned i = 0; i < SIZE_COUNT; i++) assert_true(slab_free(a, left[i]));
    assert_int_equal(samples(a, EPOCH_NONE), 0);

    EpochDomain *outer = epoch_domain_create_ex(a, "outer", 0), *inner = epoch_domain_create_ex(a, "inner", 0);
    assert_true(epoch_domain_enter(inner));
    void *kept = NULL;
    for (unsigned i = 0; i < 100; i++) kept = slab_alloc(100);
    assert_int_equal(samples(a, epoch_domain_epoch(inner)), 100);
    kept = slab_promote(outer, kept);
    assert_non_null(kept);
    assert_int_equal(samples(a, epoch_domain_epoch(inner)), 99);
    assert_int_equal(samples(a, epoch_domain_epoch(outer)), 1);
    assert_true(epoch_domain_reset(inner, 0));
    assert_int_equal(samples(a, EPOCH_NONE), 1);
    assert_non_null(slab_alloc(100));
    epoch_domain_destroy(inner);
    assert_int_equal(samples(a, EPOCH_NONE), 1);
    epoch_domain_destroy(outer);
    assert_int_equal(samples(a, EPOCH_NONE), 0);

    /* The end of the allocator, and another in its place. */
    assert_non_null(slab_malloc(a, 100));
    slab_allocator_free(a);
    errno = 0;
    assert_int_equal(slab_stacks(a, EPOCH_NONE, NULL, 0), 0);
    assert_int_equal(errno, EINVAL);
    a = make(1);
    assert_int_equal(samples(a, EPOCH_NONE), 0);
    slab_allocator_free(a);
}

/* A slab that is emptied and used again keeps its bin and its era: only its tag says that the objects are others. */
/* What lies behind a mark dies with a rewind, and its samples do. */
static void gone_behind_a_mark(void **state) {
    SlabMark mark;
    (void)state;
    SlabAllocator *allocator = make(1);
    EpochDomain *domain = epoch_domain_create(allocator);
    assert_true(epoch_domain_enter(domain));
    assert_non_null(slab_alloc(64));
    assert_true(epoch_domain_mark(domain, &mark));
    assert_non_null(slab_alloc(64));
    assert_int_equal(samples(allocator, EPOCH_NONE), 2);
    assert_true(epoch_domain_rewind(domain, mark));
    assert_int_equal(samples(allocator, EPOCH_NONE), 1);
    assert_non_null(slab_alloc(64));
    assert_int_equal(samples(allocator, EPOCH_NONE), 2);
    assert_true(epoch_domain_exit(domain));
    epoch_domain_destroy(domain);
    slab_allocator_free(allocator);
}

static void slabs_used_again(void **state) {
    enum { N = 2000 };
    static void *p[N];
    (void)state;
    SlabAllocator *a = make(1);
    EpochId e = epoch_open(a, NULL, EPOCH_CHURN);
    for (unsigned round = 0; round < 4; round++) {
        for (unsigned i = 0; i < N; i++) assert_non_null(p[i] = slab_malloc_epoch(a, 200, e));
        for (unsigned i = 0; i < N; i++) assert_true(slab_free(a, p[i]));
        slab_thread_idle();
        assert_int_equal(samples(a, e), 0);
        /* Allocated where no sample is taken of them: none of the old ones may come alive. */
        ts_thread.heap->stack_busy = true;
        for (unsigned i = 0; i < N; i++) assert_non_null(p[i] = slab_malloc_epoch(a, 200, e));
        ts_thread.heap->stack_busy = false;
        assert_int_equal(samples(a, e), 0);
        for (unsigned i = 0; i < N; i++) assert_true(slab_free(a, p[i]));
        assert_true(slab_trim(a) > 0 || round > 0 || ts_allocator_find(ts_token(a))->care);
    }
    slab_allocator_free(a);
}

/* An allocator's first object, which the taking of another one's sample allocates, begins the distance to a sample. */
static void begun_in_a_sample(void **state) {
    (void)state;
    SlabAllocator *a = make(1 << 30);
    assert_non_null(ts_heap_mine());
    ts_thread.heap->stack_busy = true;
    assert_non_null(slab_malloc(a, 16));
    ts_thread.heap->stack_busy = false;
    assert_non_null(slab_malloc(a, 16));
    assert_int_equal(samples(a, EPOCH_NONE), 0); /* there is one in thirty million runs */
    slab_allocator_free(a);
}

/* ---- estimates --------------------------------------------------------------------------------------------------- */

struct truth {
    double objects, bytes, objects_variance, bytes_variance;
};

static void add_truth(struct truth *t, size_t size, size_t usable, double mean) {
    double p = ts_exponential_cdf((double)ts_stacks_bytes(size) / mean), spread = (1 - p) / p;
    t->objects += 1;
    t->bytes += (double)usable;
    t->objects_variance += spread;
    t->bytes_variance += spread * (double)usable * (double)usable;
}

/* Within five standard deviations, and half an object of rounding for each row. */
static bool is_near(double estimate, double truth, double variance) {
    double off = estimate - truth;
    if (off < 0) off = -off;
    return off <= ROWS || (off - ROWS) * (off - ROWS) <= 25 * variance;
}

struct work {
    SlabAllocator *allocator;
    EpochId epoch;
    size_t mean;
    struct truth truth;
};

static void *estimated_work(void *arg) {
    enum { N = 60000 };
    struct work *w = arg;
    unsigned random = 7;
    for (unsigned i = 0; i < N; i++) {
        random = random * 1103515245u + 12345u;
        size_t size = random >> 16 & 1 ? random >> 20 & 255 : random >> 20 & 2047;
        if (i % 100 == 0) size = 10000 + (random >> 8 & 65535);
        void *p = slab_malloc_epoch(w->allocator, size, w->epoch);
        SUP_CHECK(p != NULL, "slab_malloc_epoch");
        if (random >> 17 & 1)
            SUP_CHECK(slab_free(w->allocator, p), "slab_free");
        else
            add_truth(&w->truth, size, slab_usable_size(w->allocator, p), (double)w->mean);
    }
    return NULL;
}

static void estimates_are_unbiased(void **state) {
    (void)state;
    static const size_t means[] = {1, 1000, 16384, 1 << 17};
    static SlabStackSample rows[ROWS];
    for (unsigned flags = EPOCH_CHURN; flags <= EPOCH_SCOPE; flags++) {
        for (unsigned m = 1; m < sizeof means / sizeof *means; m++) {
            ts_store_relaxed(&ts_stacks_seed, 2000 * flags + m);
            SlabOptions options = {.size = sizeof options, .sample_stacks = means[m], .memory_tools = SLAB_TOOLS_OFF};
            struct work w = {.allocator = slab_allocator_create_ex(&options), .mean = means[m]};
            w.epoch = epoch_open(w.allocator, NULL, flags);
            sup_in_thread(estimated_work, &w);
            double objects = 0, bytes = 0;
            uint64_t count = 0;
            size_t n = slab_stacks(w.allocator, w.epoch, rows, ROWS);
            assert_in_range(n, 1, ROWS);
            for (size_t i = 0; i < n; i++) {
                objects += (double)rows[i].live_objects;
                bytes += (double)rows[i].live_bytes;
                count += rows[i].samples;
                assert_true(i == 0 || rows[i - 1].live_bytes >= rows[i].live_bytes);
            }
            if (!is_near(objects, w.truth.objects, w.truth.objects_variance))
                fail_msg("mean %zu: %.0f objects for %.0f", means[m], objects, w.truth.objects);
            if (!is_near(bytes, w.truth.bytes, w.truth.bytes_variance))
                fail_msg("mean %zu: %.0f bytes for %.0f", means[m], bytes, w.truth.bytes);
            /* The exact counters give the true figures. */
            SlabEpochStats exact;
            assert_true(slab_stats_epoch(w.allocator, SLAB_ALL_CLASSES, w.epoch, &exact));
            assert_int_equal(exact.live_objects, (uint64_t)w.truth.objects);
            assert_int_equal(exact.live_bytes, (uint64_t)w.truth.bytes);
            assert_true(count < exact.live_objects);
            assert_int_equal(global(w.allocator).stack_samples_dropped, 0);
            slab_allocator_free(w.allocator);
        }
    }
    ts_store_relaxed(&ts_stacks_seed, 0);
}

/* ---- stacks ------------------------------------------------------------------------------------------------------ */

TS_NOINLINE static void *allocate_here(SlabAllocator *a, size_t size, EpochId e) {
    void *volatile p = slab_malloc_epoch(a, size, e);
    return p;
}
TS_NOINLINE static void *allocate_there(SlabAllocator *a, size_t size, EpochId e) {
    void *volatile p = slab_calloc_epoch(a, 2, size, e);
    return p;
}
static bool is_in(uint64_t frame, void *(*fn)(SlabAllocator *, size_t, EpochId)) {
    return frame > (uintptr_t)fn && frame < (uintptr_t)fn + 512;
}

static void stacks_begin_at_the_caller(void **state) {
    (void)state;
    SlabAllocator *a = make(1);
    EpochId e[2] = {epoch_open(a, "same", EPOCH_CHURN), epoch_open(a, "same", EPOCH_CHURN)};
    for (volatile unsigned i = 0; i < 10; i++) { /* volatile: one call each, the loop is not unrolled */
        assert_non_null(allocate_here(a, 100, e[i % 2]));
        assert_non_null(allocate_there(a, 100, e[0]));
    }
    SlabStackSample rows[ROWS];
    size_t n = slab_stacks(a, EPOCH_NONE, rows, ROWS);
    assert_int_equal(n, 2);
    /* Twice the bytes. A C library that cannot walk stacks knows the caller of the innermost call only, and
       slab_calloc_epoch makes one of its own. */
#ifdef __GLIBC__
    assert_true(rows[0].frame_count > 0);
#endif
    assert_true(rows[0].frame_count == 0 || is_in(rows[0].frames[0], allocate_there));
    assert_true(is_in(rows[1].frames[0], allocate_here));
    assert_int_equal(rows[1].epoch_id, EPOCH_NONE);
    assert_int_equal(rows[0].epoch_id, e[0]);
    assert_int_equal(rows[0].samples + rows[1].samples, 20);
    /* Both were called from here. */
    if (rows[0].frame_count > 1) assert_true(rows[1].frame_count > 1);
    assert_int_equal(slab_stacks(a, EPOCH_NONE, NULL, 0), 2);
    assert_int_equal(slab_stacks(a, EPOCH_NONE, rows, 1), 2);
    slab_allocator_free(a);
}

TS_NOINLINE static void *recurse(SlabAllocator *a, unsigned depth) {
    void *volatile p = depth == 0 ? slab_malloc(a, 100) : recurse(a, depth - 1);
    return p;
}

static void deep_stacks_are_cut(void **state) {
    (void)state;
    SlabAllocator *a = make(1);
    SlabStackSample row;
    assert_non_null(recurse(a, 200));
    assert_int_equal(slab_stacks(a, EPOCH_NONE, &row, 1), 1);
    assert_in_range(row.frame_count, 1, SLAB_STACK_FRAMES);
    for (unsigned i = row.frame_count; i < SLAB_STACK_FRAMES; i++) assert_int_equal(row.frames[i], 0);
    slab_allocator_free(a);
}

/* ---- rows shown -------------------------------------------------------------------------------------------------- */

/* The closed epochs hold the fewest objects of all here, and are shown all the same. */
static void closed_epochs_have_places(void **state) {
    enum { OPEN = 80, CLOSED = 8, SHOWN = 64 };
    static char text[1 << 20];
    char label[16], more[32];
    EpochId closed[CLOSED];
    (void)state;
    SlabAllocator *a = make(1);
    for (unsigned i = 0; i < OPEN; i++) {
        snprintf(label, sizeof label, "open%u", i);
        assert_non_null(slab_malloc_epoch(a, 2000, epoch_open(a, label, EPOCH_CHURN)));
    }
    for (unsigned i = 0; i < CLOSED; i++) {
        snprintf(label, sizeof label, "shut%u", i);
        closed[i] = epoch_open(a, label, EPOCH_CHURN);
        assert_non_null(slab_malloc_epoch(a, 100, closed[i]));
        assert_true(epoch_close(a, closed[i]));
    }
    size_t length = slab_stacks_text(a, text, sizeof text);
    assert_in_range(length, 1, sizeof text - 1);
    for (unsigned i = 0; i < CLOSED; i++) {
        snprintf(label, sizeof label, "shut%u, ", i);
        SUP_CHECK(strstr(text, label) != NULL, "%s is not shown", label);
    }
    unsigned shown = 0;
    for (const char *at = text; (at = strstr(at, "   open")) != NULL; at++) shown++;
    assert_int_equal(shown, SHOWN - CLOSED);
    snprintf(more, sizeof more, "... and %d more", OPEN + CLOSED - SHOWN);
    assert_non_null(strstr(text, more));
    slab_allocator_free(a);
}

/* ---- in a running program ---------------------------------------------------------------------------------------- */

static void text_has(SlabAllocator *allocator, const char *words, bool has) {
    static char text[65536], json[65536];
    assert_in_range(slab_stacks_text(allocator, text, sizeof text), 1, sizeof text - 1);
    assert_in_range(slab_stacks_json(allocator, json, sizeof json), 1, sizeof json - 1);
    SUP_CHECK((strstr(text, words) || strstr(json, words)) == has, "'%s' in: %.200s", words, text);
}

/* The rows shown follow slab_set_sample_stacks, not the option that the allocator began with. */
static void what_is_shown_is_what_is_sampled_now(void **state) {
    (void)state;
    SlabAllocator *a = make(0);
    text_has(a, "stacks are not sampled; start", true);
    assert_true(slab_set_sample_stacks(a, 1));
    assert_non_null(slab_malloc(a, 100));
    text_has(a, "1 stack of live objects, sampled once in 1 bytes; 1 samples taken", true);
    text_has(a, "\"sample_stacks\":1,", true);
    assert_true(slab_set_sample_stacks(a, 0));
    text_has(a, "1 stack of live objects, no more are sampled; 1 samples taken", true);
    text_has(a, "\"sample_stacks\":0,", true);
    const size_t means[] = {3, 524288, 524289, (size_t)1 << (sizeof(size_t) * 6 + 5)};
    for (unsigned i = 0; i < sizeof means / sizeof *means; i++) {
        assert_true(slab_set_sample_stacks(a, means[i]));
        ts_view *view = ts_advised_view(ts_allocator_find(ts_token(a)), ts_token(a));
        assert_non_null(view);
        assert_int_equal(view->stack_mean_bytes, means[i]);
        ts_view_free(view);
    }
    slab_allocator_free(a);
    SlabAllocator *b = make(4096);
    assert_true(slab_set_sample_stacks(b, 0));
    text_has(b, "stacks are not sampled; start", true);
    slab_allocator_free(b);
}

/* ---- the table full ---------------------------------------------------------------------------------------------- */

static void a_full_table_drops(void **state) {
    enum { N = TS_STACK_SAMPLES + 3000 };
    static void *p[N];
    (void)state;
    SlabAllocator *a = make(1);
    for (unsigned i = 0; i < N; i++) assert_non_null(p[i] = slab_malloc(a, 100));
    SlabGlobalStats g = global(a);
    uint64_t live = samples(a, EPOCH_NONE);
    assert_int_equal(g.stack_samples_taken, N);
    assert_true(g.stack_samples_dropped >= N - TS_STACK_SAMPLES);
    assert_int_equal(live + g.stack_samples_dropped, N);
    assert_true(live > TS_STACK_SAMPLES / 10 * 9);
    for (unsigned i = 0; i < N; i++) assert_true(slab_free(a, p[i]));
    assert_int_equal(samples(a, EPOCH_NONE), 0);
    /* All places are free again. */
    for (unsigned i = 0; i < 1000; i++) assert_non_null(slab_malloc(a, 100));
    assert_int_equal(samples(a, EPOCH_NONE), 1000);
    assert_int_equal(global(a).stack_samples_dropped, g.stack_samples_dropped);
    slab_allocator_free(a);
}

/* ---- fork -------------------------------------------------------------------------------------------------------- */

static void a_child_has_what_was_live(void **state) {
    (void)state;
    SlabAllocator *a = make(1);
    void *p[10];
    for (unsigned i = 0; i < 10; i++) p[i] = slab_malloc(a, 100);
    pid_t child = fork();
    if (child == 0) {
        bool good = samples(a, EPOCH_NONE) == 10;
        for (unsigned i = 0; i < 5; i++) good &= slab_free(a, p[i]);
        good &= samples(a, EPOCH_NONE) == 5;
        good &= slab_malloc(a, 100) && samples(a, EPOCH_NONE) == 6;
        _exit(good ? 0 : 1);
    }
    int status;
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_true(WIFEXITED(status) && WEXITSTATUS(status) == 0);
    assert_int_equal(samples(a, EPOCH_NONE), 10);
    slab_allocator_free(a);
}

static atomic_bool sampling, over;

static void *vanishes_in_a_sample(void *arg) {
    assert_non_null(ts_heap_mine());
    ts_thread.heap->stack_busy = true;
    sampling = true;
    while (!over) sup_sleep_ms(1);
    ts_thread.heap->stack_busy = false;
    return arg;
}

static void *allocate_ten(void *arg) {
    SlabAllocator *a = arg;
    for (unsigned i = 0; i < 10; i++) (void)slab_malloc(a, 100);
    return NULL;
}

/* The heap of a thread that vanished in the middle of a sample samples for the next one. */
static void threads_of_a_child_are_sampled(void **state) {
    (void)state;
#if SUP_EMULATED || defined(__SANITIZE_THREAD__)
    print_message("skipped: qemu and ThreadSanitizer have no threads in a child of several\n");
    skip();
#endif
    SlabAllocator *a = make(1);
    pthread_t thread;
    assert_int_equal(pthread_create(&thread, NULL, vanishes_in_a_sample, NULL), 0);
    while (!sampling) sup_sleep_ms(1);
    pid_t child = fork();
    if (child == 0) {
        slab_trim(a); /* finds that the heap has no blocks */
        for (unsigned i = 0; i < 4; i++) {
            pthread_t t;
            if (pthread_create(&t, NULL, allocate_ten, a) != 0 || pthread_join(t, NULL) != 0) _exit(2);
        }
        _exit(samples(a, EPOCH_NONE) == 40 ? 0 : 1);
    }
    int status;
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_true(WIFEXITED(status) && WEXITSTATUS(status) == 0);
    over = true;
    assert_int_equal(pthread_join(thread, NULL), 0);
    slab_allocator_free(a);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(without_room_for_the_table),
        cmocka_unit_test(sites_of_a_label_that_is_shown_otherwise),
        cmocka_unit_test(threads_are_told_by_name),
        cmocka_unit_test(a_thread_that_is_renamed),
        cmocka_unit_test(off_it_is_nowhere),
        cmocka_unit_test(epochs_of_others_are_refused),
        cmocka_unit_test(frees_of_every_kind),
        cmocka_unit_test(guards_of_a_sampled_scope),
        cmocka_unit_test(realloc_moves_one_sample),
        cmocka_unit_test(ends_of_epochs),
        cmocka_unit_test(gone_behind_a_mark),
        cmocka_unit_test(slabs_used_again),
        cmocka_unit_test(begun_in_a_sample),
        cmocka_unit_test(estimates_are_unbiased),
        cmocka_unit_test(stacks_begin_at_the_caller),
        cmocka_unit_test(deep_stacks_are_cut),
        cmocka_unit_test(closed_epochs_have_places),
        cmocka_unit_test(what_is_shown_is_what_is_sampled_now),
        cmocka_unit_test(a_full_table_drops),
        cmocka_unit_test(a_child_has_what_was_live),
        cmocka_unit_test(threads_of_a_child_are_sampled),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
