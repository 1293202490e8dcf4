/* Every figure is true: with other threads at work, with frees by other threads, with all locks taken. */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include "check.h"
#include "identities.h"
#include "pin.h"
#include "proc.h"
#include "rng.h"
#include "unit.h"

#include "advice/fields.h"
#include "api/runtime.h"
#include "epoch/epoch.h"
#include "observe/observe.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define COUNT 1000

static SlabGlobalStats global_of(SlabAllocator *allocator) {
    SlabGlobalStats stats;
    assert_true(slab_stats_global(allocator, &stats));
    return stats;
}

static SlabEpochStats epoch_of(SlabAllocator *allocator, uint32_t cls, EpochId epoch) {
    SlabEpochStats stats;
    assert_true(slab_stats_epoch(allocator, cls, epoch, &stats));
    return stats;
}

/* ---- the lists name all fields ----------------------------------------------------------------------------------- */

static void lists_are_complete(void **state) {
#define X(...) +1
    const size_t perf = TS_STATS_PERF(X), shared = TS_STATS_SHARED(X), global = TS_STATS_GLOBAL(X),
                 epoch = TS_STATS_EPOCH(X), samples = TS_STATS_SAMPLES(X);
#undef X
    (void)state;
    /* Before them: the version alone (with padding), or two words of 32 bits. */
    assert_int_equal(sizeof(PerfCounters), offsetof(PerfCounters, slow_path_hits) + 8 * (perf + 1)); /* and a sum */
    assert_int_equal(sizeof(SlabClassStats), 16 + 8 * shared);
#define X(field, ...)                                                                              \
    assert_int_equal(offsetof(SlabGlobalStats, field) - offsetof(SlabGlobalStats, slow_path_hits), \
                     offsetof(SlabClassStats, field) - offsetof(SlabClassStats, slow_path_hits));
    TS_STATS_SHARED(X)
#undef X
    assert_int_equal(sizeof(SlabGlobalStats), 8 + 8 * (shared + global));
    assert_int_equal(sizeof(SlabThreadStats), 8 + 8 * samples);
    assert_int_equal(sizeof(SlabEpochStats), 8 + 8 + 8 + SLAB_LABEL_BYTES + 8 * epoch);
}

/* ---- frees by another thread, the owner asleep ------------------------------------------------------------------- */

struct hand_over {
    SlabAllocator *allocator;
    void *objects[COUNT];
    int count;
};

static void *free_all(void *argument) {
    struct hand_over *h = argument;
    for (int i = 0; i < h->count; i++) {
        SUP_CHECK(slab_free(h->allocator, h->objects[i]), "slab_free of object %d", i);
    }
    return NULL;
}

static void kinds_sum_up(SlabAllocator *allocator, uint64_t want) {
    uint64_t sum = 0;
    SlabClassStats stats;
    for (uint32_t i = 0; i < slab_class_count() + 2; i++) {
        uint32_t cls = i < slab_class_count() ? i : i == slab_class_count() ? SLAB_CLASS_SCOPE : SLAB_CLASS_SPAN;
        assert_true(slab_stats_class(allocator, cls, &stats));
        sum += stats.foreign_frees;
    }
    assert_int_equal(global_of(allocator).foreign_frees, want);
    assert_int_equal(sum, want);
}

/* Foreign frees that the end of the epoch takes in before the owner does: the figures that were shown of them stay, in
   the class and in the whole. */
static void foreign_frees_of_an_ended_epoch(void **state) {
    static struct hand_over h;
    h.allocator = *state;
    for (unsigned i = 0; i < 2; i++) {
        EpochId epoch = epoch_open(h.allocator, NULL, EPOCH_CHURN);
        h.count = i ? 50 : 100;
        for (int k = 0; k < h.count; k++) h.objects[k] = slab_malloc_epoch(h.allocator, i ? 128 : 64, epoch);
        sup_in_thread(free_all, &h);
        kinds_sum_up(h.allocator, i ? 150 : 100);
        assert_true(epoch_destroy(h.allocator, epoch));
        kinds_sum_up(h.allocator, i ? 150 : 100);
    }
}

static void foreign_frees_count_at_once(void **state) {
    static const size_t sizes[] = {16, 40, 128, 700, 2000};
    static struct hand_over h;
    h.allocator = *state;
    for (unsigned flags = EPOCH_CHURN;; flags = EPOCH_SCOPE) {
        for (size_t s = 0; s < sizeof sizes / sizeof *sizes; s++) {
            EpochId epoch = epoch_open(h.allocator, "handed over", flags);
            uint32_t cls = flags == EPOCH_SCOPE ? SLAB_CLASS_SCOPE : (uint32_t)slab_class_of(sizes[s]);
            SlabClassStats before, after;
            assert_true(slab_stats_class(h.allocator, cls, &before));
            h.count = COUNT;
            for (int i = 0; i < COUNT; i++) {
                h.objects[i] = slab_malloc_epoch(h.allocator, sizes[s], epoch);
                assert_non_null(h.objects[i]);
            }
            h.count = COUNT / 2;
            sup_in_thread(free_all, &h);
            /* This thread, the owner, has done nothing since. */
            SlabEpochStats e = epoch_of(h.allocator, SLAB_ALL_CLASSES, epoch);
            assert_int_equal(e.live_objects, COUNT / 2);
            assert_int_equal(e.freed_objects_total, COUNT / 2);
            assert_int_equal(epoch_of(h.allocator, (uint32_t)slab_class_of(sizes[s]), epoch).live_objects, COUNT / 2);
            assert_true(slab_stats_class(h.allocator, cls, &after));
            assert_int_equal(after.live_objects - before.live_objects, COUNT / 2);
            assert_int_equal(after.freed_objects_total - before.freed_objects_total, COUNT / 2);
            assert_int_equal(after.foreign_frees - before.foreign_frees, COUNT / 2);
            assert_int_equal(after.allocated_objects_total - before.allocated_objects_total, COUNT);
            assert_int_equal(global_of(h.allocator).live_objects, COUNT / 2);
            sup_check_identities(h.allocator);
            memmove(h.objects, h.objects + COUNT / 2, COUNT / 2 * sizeof *h.objects);
            sup_in_thread(free_all, &h);
            e = epoch_of(h.allocator, SLAB_ALL_CLASSES, epoch);
            assert_int_equal(e.live_objects + e.live_bytes, 0);
            assert_int_equal(e.reclaimable_slab_count, e.slab_count);
            sup_check_identities(h.allocator);
            /* Collected: the same figures. */
            slab_thread_idle();
            assert_int_equal(epoch_of(h.allocator, SLAB_ALL_CLASSES, epoch).freed_objects_total, COUNT);
            assert_true(slab_stats_class(h.allocator, cls, &after));
            assert_int_equal(after.foreign_frees - before.foreign_frees, COUNT);
            assert_true(epoch_destroy(h.allocator, epoch));
            sup_check_identities(h.allocator);
        }
        if (flags == EPOCH_SCOPE) break;
    }
}

/* ---- under load -------------------------------------------------------------------------------------------------- */

#define WORKERS 3
#define ROOM 64

struct load {
    SlabAllocator *allocator;
    EpochId shared;
    _Atomic(void *) box[ROOM];             /* objects on their way from one thread to another */
    atomic_uint_fast64_t allocated, freed; /* counted before the allocation; after the free */
    atomic_uint_fast64_t foreign;
    atomic_bool stop;
};

/* Allocates in the shared epoch and hands over; frees objects that others handed over; and opens, fills and destroys
   epochs. */
static void *work(void *argument) {
    struct load *load = argument;
    struct sup_rng rng = {(uint64_t)(uintptr_t)&rng};
    for (unsigned i = 0; !atomic_load(&load->stop); i++) {
        size_t size = (size_t)sup_rng_below(&rng, 900);
        atomic_fetch_add(&load->allocated, 1);
        void *p = slab_malloc_epoch(load->allocator, size, load->shared);
        SUP_CHECK(p, "slab_malloc_epoch");
        void *old = atomic_exchange(&load->box[sup_rng_below(&rng, ROOM)], p);
        if (old) {
            SUP_CHECK(slab_free(load->allocator, old), "slab_free");
            atomic_fetch_add(&load->freed, 1);
        }
        if (i % 16) continue;
        unsigned n = (unsigned)sup_rng_below(&rng, 30);
        EpochId e = epoch_open(load->allocator, "short", i % 32 ? EPOCH_SCOPE : EPOCH_CHURN);
        atomic_fetch_add(&load->allocated, n);
        for (unsigned k = 0; k < n; k++) SUP_CHECK(slab_malloc_epoch(load->allocator, size, e), "slab_malloc_epoch");
        SUP_CHECK(epoch_destroy(load->allocator, e), "epoch_destroy");
        atomic_fetch_add(&load->freed, n);
    }
    return NULL;
}

#define NOT_BELOW(field) SUP_CHECK(now.field >= last.field, #field " goes back")

static void true_under_load(void **state) {
    static struct load load;
    pthread_t threads[WORKERS];
    memset(&load, 0, sizeof load);
    load.allocator = *state;
    load.shared = epoch_open(load.allocator, "shared", EPOCH_CHURN);
    for (int i = 0; i < WORKERS; i++) assert_int_equal(pthread_create(&threads[i], NULL, work, &load), 0);
    SlabGlobalStats last;
    memset(&last, 0, sizeof last);
    uint64_t of_class[64] = {0}, of_epoch = 0;
    for (unsigned i = 0; i < SUP_SCALED(4000u); i++) {
        SlabGlobalStats now = global_of(load.allocator);
        uint64_t allocated = atomic_load(&load.allocated), freed = atomic_load(&load.freed);
        SUP_CHECK(now.allocated_objects_total - now.freed_objects_total == now.live_objects, "the identity");
        SUP_CHECK(now.allocated_objects_total <= allocated, "more allocated than there ever were");
        /* An object is freed before it is counted here: at most one for each thread, and its short epoch. */
        SUP_CHECK(now.freed_objects_total <= freed + WORKERS * 31, "more freed than there ever were");
#define X(field, type, ...) \
    if (TS_##type == TS_COUNTER) NOT_BELOW(field);
        TS_STATS_COUNTERS(X)
#undef X
        last = now;
        SlabClassStats c;
        uint32_t cls = ts_class_at(i % TS_COUNT_KINDS);
        SUP_CHECK(slab_stats_class(load.allocator, cls, &c), "slab_stats_class");
        SUP_CHECK(c.allocated_objects_total - c.freed_objects_total == c.live_objects, "the identity of a class");
        SUP_CHECK(c.allocated_objects_total >= of_class[i % TS_COUNT_KINDS], "a class goes back");
        of_class[i % TS_COUNT_KINDS] = c.allocated_objects_total;
        SlabEpochStats e = epoch_of(load.allocator, SLAB_ALL_CLASSES, load.shared);
        SUP_CHECK(e.allocated_objects_total - e.freed_objects_total == e.live_objects, "the identity of an epoch");
        SUP_CHECK(e.allocated_objects_total >= of_epoch && e.reclaimable_slab_count <= e.slab_count, "the epoch");
        of_epoch = e.allocated_objects_total;
    }
    atomic_store(&load.stop, true);
    for (int i = 0; i < WORKERS; i++) assert_int_equal(pthread_join(threads[i], NULL), 0);
    /* Quiet: every figure is exact. */
    uint64_t held = 0;
    for (int i = 0; i < ROOM; i++) held += atomic_load(&load.box[i]) != NULL;
    SlabGlobalStats end = global_of(load.allocator);
    assert_int_equal(end.allocated_objects_total, atomic_load(&load.allocated));
    assert_int_equal(end.freed_objects_total, atomic_load(&load.freed));
    assert_int_equal(end.live_objects, held);
    assert_int_equal(epoch_of(load.allocator, SLAB_ALL_CLASSES, load.shared).live_objects, held);
    assert_true(end.foreign_frees > 0 && end.foreign_frees <= end.freed_objects_total);
    sup_check_identities(load.allocator);
    for (int i = 0; i < ROOM; i++)
        if (load.box[i]) assert_true(slab_free(load.allocator, load.box[i]));
    assert_int_equal(global_of(load.allocator).live_objects, 0);
    sup_check_identities(load.allocator);
}

/* The objects of an epoch on its way from its blocks to the shares are in neither: the counts stay. */
static void on_the_way_to_the_shares(void **state) {
    SlabAllocator *allocator = *state;
    uint32_t cls = (uint32_t)slab_class_of(128);
    EpochId epoch = epoch_open(allocator, NULL, EPOCH_CHURN);
    for (int i = 0; i < COUNT; i++) assert_non_null(slab_malloc_epoch(allocator, 128, epoch));
    assert_int_equal(global_of(allocator).allocated_objects_total, COUNT);
    SlabClassStats c;
    assert_true(slab_stats_class(allocator, cls, &c));
    ts_block *blocks;
    ts_epoch *pinned = sup_epoch_pin(ts_allocator_find(ts_token(allocator)), epoch, &blocks);
    assert_non_null(pinned);
    assert_true(epoch_destroy(allocator, epoch)); /* its blocks end with the last pin */
    for (int look = 0; look < 2; look++) {
        SlabGlobalStats g = global_of(allocator);
        assert_int_equal(g.allocated_objects_total, COUNT);
        assert_int_equal(g.freed_objects_total, COUNT);
        assert_int_equal(g.live_objects, 0);
        assert_true(slab_stats_class(allocator, cls, &c));
        assert_int_equal(c.allocated_objects_total, COUNT);
        assert_int_equal(c.freed_objects_total, COUNT);
        if (look == 0) ts_epoch_unpin(pinned);
    }
    sup_check_identities(allocator);
}

/* An allocator that ends while others look at it: they get an answer or false, never a crash. */
static void *look(void *argument) {
    struct load *load = argument;
    static char text[1 << 20];
    while (!atomic_load(&load->stop)) {
        SlabGlobalStats stats;
        if (!slab_stats_global(load->allocator, &stats)) break;
        SUP_CHECK(stats.live_objects <= 100000, "figures of nobody");
        (void)slab_stats_json(load->allocator, text, sizeof text);
    }
    return NULL;
}

static void ends_meanwhile(void **state) {
    (void)state;
    for (int round = 0; round < 20; round++) {
        static struct load load;
        pthread_t thread;
        memset(&load, 0, sizeof load);
        load.allocator = slab_allocator_create();
        for (int i = 0; i < 1000; i++) assert_non_null(slab_malloc(load.allocator, 100));
        assert_int_equal(pthread_create(&thread, NULL, look, &load), 0);
        for (int i = 0; i < round * 200; i++) assert_non_null(slab_malloc(load.allocator, 100));
        slab_allocator_free(load.allocator);
        atomic_store(&load.stop, true);
        assert_int_equal(pthread_join(thread, NULL), 0);
    }
}

/* ---- no lock ----------------------------------------------------------------------------------------------------- */

/* With every lock of the allocator taken, everything answers. A lock would be a hang: the alarm ends it. */
static void takes_no_lock(void **state) {
    SlabAllocator *allocator = *state;
    static char text[1 << 20];
    EpochId epoch = epoch_open(allocator, "some", EPOCH_CHURN), closed = epoch_open(allocator, "shut", EPOCH_SCOPE);
    assert_non_null(slab_malloc_epoch(allocator, 100, epoch));
    assert_non_null(slab_malloc_epoch(allocator, 100000, epoch));
    assert_non_null(slab_malloc_epoch(allocator, 100, closed));
    assert_true(epoch_close(allocator, closed));
    ts_allocator *a = ts_allocator_find(ts_token(allocator));
    /* One in which nothing is left, and that nobody has ended. */
    EpochId over = epoch_open(allocator, "over", EPOCH_CHURN);
    void *last = slab_malloc_epoch(allocator, 100, over);
    ts_block *blocks;
    ts_epoch *pinned = sup_epoch_pin(a, over, &blocks);
    assert_true(pinned && epoch_close(allocator, over) && slab_free(allocator, last));
    assert_true(ts_epoch_is_over(pinned, over));
    (void)alarm(20);
    ts_lock_acquire_for_fork(&a->lock);
    ts_epoch_for_locks(ts_lock_acquire_for_fork);
    ts_heap_fork_prepare();
    ts_lock_acquire_for_fork(&a->retained_lock);
    ts_lock_acquire_for_fork(&ts_epochs.lock);
    SlabGlobalStats global;
    SlabClassStats cls;
    SlabEpochStats e;
    PerfCounters perf;
    bool good = slab_stats_global(allocator, &global) && slab_stats_class(allocator, 3, &cls) &&
                slab_stats_epoch(allocator, SLAB_ALL_CLASSES, epoch, &e) && get_perf_counters(allocator, 3, &perf) &&
                slab_stats_json(allocator, text, sizeof text) > 100 &&
                slab_stats_text(allocator, text, sizeof text) > 100 &&
                slab_stats_prometheus(allocator, text, sizeof text) > 100 &&
                slab_stats_openmetrics(allocator, text, sizeof text) > 100 &&
                slab_stats_epochs_json(allocator, SLAB_EPOCHS_LARGEST, 10, text, sizeof text) > 100 &&
                slab_stats_doctor(allocator, text, sizeof text) > 10 && slab_epochs(allocator, NULL, 0) == 2;
    int null = open("/dev/null", O_WRONLY);
    good = good && slab_stats_dump_fd(allocator, null);
    (void)close(null);
    ts_lock_release_for_fork(&ts_epochs.lock);
    ts_lock_release_for_fork(&a->retained_lock);
    ts_heap_fork_parent();
    ts_epoch_for_locks(ts_lock_release_for_fork);
    ts_lock_release_for_fork(&a->lock);
    (void)alarm(0);
    ts_epoch_unpin(pinned);
    assert_true(good);
    assert_int_equal(epoch_state(allocator, over), EPOCH_CLOSED);
    assert_int_equal(global.live_objects, 3);
    assert_int_equal(e.live_objects, 2);
}

/* ---- the dump ---------------------------------------------------------------------------------------------------- */

static SlabAllocator *dumped;
static int dump_to;
static volatile sig_atomic_t dumping, dumps, bad_dumps;

static void on_signal(int number) {
    (void)number;
    if (slab_stats_dump_fd(dumped, dump_to))
        dumps++;
    else
        bad_dumps++;
    /* The next one comes after a while of the test's own: a dump can take longer than the time between two. */
    if (dumping) (void)ualarm(SUP_SANITIZED ? 20000 : 2000, 0);
}

/* The handler interrupts allocations and frees at any instruction; with a small stack of its own. */
static void dump_in_a_signal_handler(void **state) {
    static char stack[65536];
    char name[] = "dump_test_XXXXXX";
    stack_t alternate = {.ss_sp = stack, .ss_size = sizeof stack};
    struct sigaction action;
    memset(&action, 0, sizeof action);
    action.sa_handler = on_signal;
    action.sa_flags = SA_ONSTACK | SA_RESTART;
    dumped = *state;
    dump_to = mkstemp(name);
    assert_true(dump_to >= 0);
    assert_int_equal(unlink(name), 0);
    assert_int_equal(sigaltstack(&alternate, NULL), 0);
    assert_int_equal(sigaction(SIGALRM, &action, NULL), 0);
    EpochId epoch = epoch_open(dumped, "in the handler", EPOCH_CHURN);
    void *kept[64] = {0};
    dumps = bad_dumps = 0;
    dumping = 1;
    (void)ualarm(2000, 0);
    for (unsigned i = 0; dumps < (SUP_SANITIZED ? 20 : 100); i++) {
        void **p = &kept[i * 7 % 64];
        if (*p) assert_true(slab_free(dumped, *p));
        *p = slab_malloc_epoch(dumped, i % 1500, epoch);
        assert_non_null(*p);
    }
    dumping = 0;
    (void)ualarm(0, 0);
    assert_int_equal(bad_dumps, 0);
    off_t bytes = lseek(dump_to, 0, SEEK_END);
    char head[64] = "";
    assert_true(bytes > 1000);
    assert_true(pread(dump_to, head, 14, 0) == 14);
    assert_string_equal(head, "temporal-slab:");
    (void)close(dump_to);
    (void)signal(SIGALRM, SIG_DFL);
    alternate.ss_flags = SS_DISABLE;
    (void)sigaltstack(&alternate, NULL);
    sup_check_identities(dumped);
}

static void allocators_are_listed(void **state) {
    SlabAllocator *out[3] = {NULL, NULL, NULL};
    size_t before = slab_allocators(NULL, 0);
    assert_true(before >= 1);
    SlabAllocator *made = slab_allocator_create();
    assert_int_equal(slab_allocators(out, 1), before + 1);
    assert_true(out[0] != NULL && out[1] == NULL);
    slab_allocator_free(made);
    assert_int_equal(slab_allocators(out, 3), before);
    assert_true(out[0] == *state || out[1] == *state);
}

static void dump_refuses(void **state) {
    int ends[2];
    assert_false(slab_stats_dump_fd(NULL, 1));
    assert_int_equal(errno, EINVAL);
    assert_false(slab_stats_dump_fd(*state, -1));
    assert_int_equal(errno, EBADF);
    assert_int_equal(pipe(ends), 0);
    assert_false(slab_stats_dump_fd(*state, ends[0])); /* cannot be written to */
    (void)close(ends[0]);
    (void)close(ends[1]);
    assert_false(slab_stats_dump_fd(*state, ends[1])); /* closed */
    assert_int_equal(errno, EBADF);
}

/* ---- work of slabs, known by differences ------------------------------------------------------------------------- */

#define FULL_SLABS 1000

struct filler {
    SlabAllocator *allocator;
    atomic_bool stop;
};

/* At least one round: slabs that are full when their epoch ends, or their domain is reset. An epoch of epoch_open does
   not start small, so its objects fill whole slabs. */
static void *fill_and_end(void *argument) {
    struct filler *f = argument;
    EpochDomain *domain = epoch_domain_wrap(f->allocator, epoch_open(f->allocator, NULL, EPOCH_CHURN), true);
    SUP_CHECK(domain, "no domain");
    do {
        EpochId epoch = epoch_open(f->allocator, NULL, EPOCH_CHURN);
        for (int i = 0; i < FULL_SLABS * 128; i++) SUP_CHECK(slab_malloc_epoch(f->allocator, 128, epoch), "no memory");
        SUP_CHECK(epoch_destroy(f->allocator, epoch), "not destroyed");
        for (int i = 0; i < 2 * 128; i++)
            SUP_CHECK(slab_malloc_epoch(f->allocator, 128, epoch_domain_epoch(domain)), "no memory");
        SUP_CHECK(epoch_domain_reset(domain, SIZE_MAX), "not reset");
    } while (!atomic_load_explicit(&f->stop, memory_order_relaxed));
    epoch_domain_destroy(domain);
    return NULL;
}

static void slabs_that_end_full(void **state) {
    struct filler f = {.allocator = *state};
    uint32_t cls = (uint32_t)slab_class_of(128);
    SlabClassStats last, now;
    pthread_t thread;
    /* So that there is some time between the shares and the epoch that is filled. */
    for (int i = 0; i < 20000; i++) assert_int_not_equal(epoch_open(f.allocator, NULL, EPOCH_SCOPE), EPOCH_NONE);
    assert_true(slab_stats_class(f.allocator, cls, &last));
    assert_int_equal(pthread_create(&thread, NULL, fill_and_end, &f), 0);
    for (int i = 0; i < 1000; i++) {
        assert_true(slab_stats_class(f.allocator, cls, &now));
        assert_true(now.list_move_full_to_partial >= last.list_move_full_to_partial);
        assert_true(now.list_move_full_to_partial <= now.list_move_partial_to_full);
        assert_true(now.empty_slab_recycled >= last.empty_slab_recycled);
        assert_true(now.empty_slab_recycled <= now.new_slab_count);
        last = now;
    }
    atomic_store(&f.stop, true);
    assert_int_equal(pthread_join(thread, NULL), 0);
    assert_true(slab_stats_class(f.allocator, cls, &now));
    assert_true(now.new_slab_count >= FULL_SLABS);
    assert_int_equal(now.list_move_full_to_partial, now.list_move_partial_to_full);
    assert_int_equal(now.list_move_partial_to_full, now.new_slab_count);
    assert_int_equal(now.empty_slab_recycled, now.new_slab_count);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        SUP_WITH_ALLOCATOR(slabs_that_end_full),
        cmocka_unit_test(lists_are_complete),
        SUP_WITH_ALLOCATOR(foreign_frees_count_at_once),
        SUP_WITH_ALLOCATOR(foreign_frees_of_an_ended_epoch),
        SUP_WITH_ALLOCATOR(true_under_load),
        SUP_WITH_ALLOCATOR(on_the_way_to_the_shares),
        cmocka_unit_test(ends_meanwhile),
        SUP_WITH_ALLOCATOR(takes_no_lock),
        SUP_WITH_ALLOCATOR(dump_in_a_signal_handler),
        SUP_WITH_ALLOCATOR(dump_refuses),
        SUP_WITH_ALLOCATOR(allocators_are_listed),
    };
    return cmocka_run_group_tests_name("observe.conservation", tests, NULL, NULL);
}
