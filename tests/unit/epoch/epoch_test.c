/*
 * Epochs from inside: a thread is in the middle of a call while another one ends its epoch, domain or allocator. The
 * calls of the system table are where it is stopped.
 */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include "check.h"
#include "fixture.h"
#include "identities.h"
#include "pin.h"
#include "proc.h"

#include "api/runtime.h"
#include "diagnose/diagnose.h"
#include "epoch/epoch.h"
#include "os/os.h"
#include "region/region.h"
#include "walk/check_pool.h"

#include <errno.h>
#include <pthread.h>
#include <stdatomic.h>
#include <string.h>

/* ---- a thread that stops in a call of the system ----------------------------------------------------------- */

static ts_os_table table;
static pthread_barrier_t meeting;
static atomic_uint armed; /* the next such call of the other thread stops there, once */
static _Thread_local bool is_other;

static void meet(void) { (void)pthread_barrier_wait(&meeting); }

static void stop_here(void) {
    if (is_other && atomic_exchange(&armed, false)) {
        meet();
        meet();
    }
}

static bool stop_in_commit(void *at, size_t bytes) {
    stop_here();
    return ts_os_native.commit(at, bytes);
}

static bool stop_in_purge(void *at, size_t bytes) {
    stop_here();
    return ts_os_native.purge(at, bytes);
}

static uint64_t stop_in_resident(void) {
    stop_here();
    return ts_os_native.resident_bytes();
}

static EpochId epoch;
static EpochDomain *domain;
static pthread_t other;

static void make(int policy) {
    SlabOptions options = {.size = sizeof options, .record_rss = 1, .reclaim_policy = policy};
    table = ts_os_native;
    table.commit = stop_in_commit;
    table.purge = stop_in_purge;
    table.resident_bytes = stop_in_resident;
    ts_os = &table;
    allocator = slab_allocator_create_ex(&options);
    SUP_CHECK(allocator != NULL, "slab_allocator_create_ex");
}

/* fn runs until its next call of the system; then this thread goes on. */
static void start_other(void *(*fn)(void *)) {
    SUP_CHECK(pthread_barrier_init(&meeting, NULL, 2) == 0, "pthread_barrier_init");
    SUP_CHECK(pthread_create(&other, NULL, fn, NULL) == 0, "pthread_create");
    meet();
}

static void let_other_go_on(void) {
    meet();
    SUP_CHECK(pthread_join(other, NULL) == 0, "pthread_join");
    pthread_barrier_destroy(&meeting);
}

static void *allocate_until_refused(void *argument) {
    is_other = true;
    SUP_CHECK(slab_malloc_epoch(allocator, 1000, epoch) != NULL, "the first");
    atomic_store(&armed, true);
    while (slab_malloc_epoch(allocator, 4000, epoch)) {
    }
    SUP_CHECK(errno == ESTALE || errno == EINVAL, "errno %d", errno);
    return argument;
}

static void *allocate_span(void *argument) {
    is_other = true;
    SUP_CHECK(slab_malloc_epoch(allocator, 1000, epoch) != NULL, "the first");
    atomic_store(&armed, true);
    while (slab_malloc_epoch(allocator, 400000, epoch)) {
    }
    SUP_CHECK(errno == ESTALE || errno == EINVAL, "errno %d", errno);
    return argument;
}

static void *allocate_and_close(void *argument) {
    is_other = true;
    for (int i = 0; i < 100; i++) {
        SUP_CHECK(slab_malloc_epoch(allocator, 1000, epoch) != NULL, "object %d", i);
    }
    atomic_store(&armed, true);
    (void)epoch_close(allocator, epoch);
    return argument;
}

static void *allocate_and_destroy(void *argument) {
    is_other = true;
    for (int i = 0; i < 100; i++) {
        SUP_CHECK(slab_malloc_epoch(allocator, 1000, epoch) != NULL, "object %d", i);
    }
    atomic_store(&armed, true);
    (void)epoch_destroy(allocator, epoch);
    return argument;
}

static void *free_and_trim(void *argument) {
    is_other = true;
    for (int i = 0; i < 100; i++) {
        SUP_CHECK(slab_free(allocator, slab_malloc_epoch(allocator, 70000, epoch)), "object %d", i);
    }
    atomic_store(&armed, true);
    (void)slab_trim(allocator);
    return argument;
}

static void nothing_is_left(void) {
    ts_pool_check();
    SUP_CHECK(ts_pool_used_units() == 0, "%llu units belong to nobody", (unsigned long long)ts_pool_used_units());
    SlabAllocator *next = slab_allocator_create();
    EpochId id = epoch_open(next, NULL, 0);
    SUP_CHECK(slab_malloc_epoch(next, 100, id) != NULL, "the next allocator");
    sup_check_identities(next);
}

/* ---- the allocator is freed meanwhile ---------------------------------------------------------------------- */

typedef struct meanwhile {
    void *(*fn)(void *);
    unsigned flags;
    int policy;
} meanwhile;

static void allocator_freed(void *argument) {
    const meanwhile *m = argument;
    make(m->policy);
    epoch = epoch_open(allocator, NULL, m->flags);
    start_other(m->fn);
    slab_allocator_free(allocator);
    let_other_go_on();
    nothing_is_left();
}

static void epoch_destroyed(void *argument) {
    const meanwhile *m = argument;
    make(m->policy);
    epoch = epoch_open(allocator, NULL, m->flags);
    start_other(m->fn);
    (void)epoch_destroy(allocator, epoch);
    SUP_CHECK(epoch_state(allocator, epoch) == EPOCH_CLOSED, "the epoch is over");
    let_other_go_on();
    sup_check_identities(allocator);
    sup_check_empty(allocator);
    slab_allocator_free(allocator);
    nothing_is_left();
}

static void epoch_closed(void *argument) {
    const meanwhile *m = argument;
    make(m->policy);
    epoch = epoch_open(allocator, NULL, m->flags);
    start_other(m->fn);
    (void)epoch_close(allocator, epoch);
    let_other_go_on();
    sup_check_identities(allocator);
    (void)epoch_destroy(allocator, epoch);
    sup_check_empty(allocator);
    slab_allocator_free(allocator);
    nothing_is_left();
}

static void in_child(void (*fn)(void *), const meanwhile *m) {
    char err[1024];
    meanwhile copy = *m;
    int status = sup_child(fn, &copy, SUP_CHILD_SECONDS, err, sizeof err);
    if (status != 0) {
        print_error("status %#x\n%s", (unsigned)status, err);
    }
    assert_int_equal(status, 0);
}

#define BUDGET SLAB_RECLAIM_BUDGET
#define AT_ONCE SLAB_RECLAIM_AT_ONCE
#define MEANWHILE(name, what, ...)                                \
    static void name(void **state) {                              \
        const meanwhile all[] = {__VA_ARGS__};                    \
        (void)state;                                              \
        for (unsigned i = 0; i < sizeof all / sizeof *all; i++) { \
            in_child(what, &all[i]);                              \
        }                                                         \
    }

MEANWHILE(allocator_freed_in_an_allocation, allocator_freed, {allocate_until_refused, EPOCH_CHURN, BUDGET},
          {allocate_until_refused, EPOCH_SCOPE, BUDGET})
MEANWHILE(allocator_freed_in_an_allocation_of_a_span, allocator_freed, {allocate_span, EPOCH_CHURN, BUDGET},
          {allocate_span, EPOCH_SCOPE, AT_ONCE})
MEANWHILE(allocator_freed_in_a_close, allocator_freed, {allocate_and_close, EPOCH_CHURN, BUDGET},
          {allocate_and_close, EPOCH_SCOPE, BUDGET})
MEANWHILE(allocator_freed_in_a_destroy, allocator_freed, {allocate_and_destroy, EPOCH_CHURN, AT_ONCE},
          {allocate_and_destroy, EPOCH_SCOPE, AT_ONCE})
MEANWHILE(allocator_freed_in_a_trim, allocator_freed, {free_and_trim, EPOCH_CHURN, BUDGET})
MEANWHILE(epoch_destroyed_in_a_call, epoch_destroyed, {allocate_until_refused, EPOCH_CHURN, BUDGET},
          {allocate_until_refused, EPOCH_SCOPE, BUDGET}, {allocate_span, EPOCH_CHURN, BUDGET},
          {allocate_and_close, EPOCH_CHURN, BUDGET}, {allocate_and_close, EPOCH_SCOPE, BUDGET},
          {allocate_and_destroy, EPOCH_CHURN, AT_ONCE}, {free_and_trim, EPOCH_CHURN, BUDGET})
MEANWHILE(epoch_closed_in_a_call, epoch_closed, {allocate_until_refused, EPOCH_CHURN, BUDGET},
          {allocate_until_refused, EPOCH_SCOPE, BUDGET}, {allocate_span, EPOCH_CHURN, BUDGET},
          {allocate_and_close, EPOCH_CHURN, BUDGET}, {allocate_and_destroy, EPOCH_SCOPE, AT_ONCE},
          {free_and_trim, EPOCH_CHURN, BUDGET})

/* ---- pins -------------------------------------------------------------------------------------------------- */

static int start(void **state) {
    (void)state;
    make(SLAB_RECLAIM_KEEP);
    return 0;
}

static void destroyed_while_pinned(void **state) {
    (void)state;
    ts_allocator *a = ts_allocator_find(ts_token(allocator));
    for (unsigned flags = EPOCH_CHURN; flags <= EPOCH_SCOPE; flags++) {
        epoch = epoch_open(allocator, NULL, flags);
        void *p = slab_malloc_epoch(allocator, 100, epoch), *span = slab_malloc_epoch(allocator, 100000, epoch);
        ts_block *list, *again;
        ts_epoch *e = sup_epoch_pin(a, epoch, &list);
        assert_non_null(e);
        assert_true(sup_epoch_pin(a, epoch, &again) == e && again == list && list == e->blocks);
        assert_true(epoch_destroy(allocator, epoch));
        /* Stale at once, taken apart by the last thread that unpins it. */
        assert_int_equal(epoch_state(allocator, epoch), EPOCH_CLOSED);
        assert_false(epoch_destroy(allocator, epoch) || epoch_close(allocator, epoch));
        assert_null(sup_epoch_pin(a, epoch, &again));
        assert_false(slab_owns(allocator, p) || slab_free(allocator, p));
        /* The pinning thread can still walk the list. */
        assert_true(ts_load_relaxed(&list->heap) == ts_thread.heap && !list->epoch_next);
        assert_int_equal(ts_load_relaxed(&list->slabs), 1);
        ts_epoch_unpin(e);
        assert_int_equal(ts_load_relaxed(&list->slabs), 1);
        ts_epoch_unpin(e);
        assert_int_equal(ts_load_relaxed(&list->slabs), 0);
        assert_false(slab_owns(allocator, span) || slab_free(allocator, span));
        sup_check_identities(allocator);
        sup_check_empty(allocator);
    }
}

/* The last object goes while another thread looks: the last unpin ends the epoch. */
static void drained_while_pinned(void **state) {
    (void)state;
    ts_allocator *a = ts_allocator_find(ts_token(allocator));
    for (unsigned flags = EPOCH_CHURN; flags <= EPOCH_SCOPE; flags++) {
        epoch = epoch_open(allocator, NULL, flags);
        void *p = slab_malloc_epoch(allocator, 100, epoch), *span = slab_malloc_epoch(allocator, 100000, epoch);
        assert_true(epoch_close(allocator, epoch));
        ts_block *list;
        ts_epoch *e = sup_epoch_pin(a, epoch, &list);
        assert_true(slab_free(allocator, p) && slab_free(allocator, span));
        assert_int_equal(ts_load_relaxed(&e->state), EPOCH_CLOSING);
        ts_epoch_unpin(e);
        assert_null(ts_epoch_find(a, epoch));
        assert_int_equal(epoch_state(allocator, epoch), EPOCH_CLOSED);
        sup_check_empty(allocator);
    }
}

/* ---- ids, blocks and spans ----------------------------------------------------------------------------------- */

static void old_unknown_and_foreign_ids(void **state) {
    (void)state;
    SlabAllocator *another = slab_allocator_create();
    epoch = epoch_open(allocator, NULL, EPOCH_CHURN);
    EpochId foreign = epoch_open(another, NULL, EPOCH_CHURN);
    assert_true(epoch_destroy(allocator, epoch));
    const struct {
        EpochId id;
        int error;
    } ids[] = {{epoch, ESTALE},
               {epoch + ((uint64_t)1 << ts_epochs.index_bits << 20), EINVAL}, /* an era that has not come */
               {EPOCH_NONE, EINVAL},
               {UINT64_MAX, EINVAL},
               {ts_table_high(&ts_epochs) | (uint64_t)1 << ts_epochs.index_bits, EINVAL},
               {foreign, EINVAL}};
    const size_t sizes[] = {0, 100, 5000, 1000000};
    for (unsigned i = 0; i < sizeof ids / sizeof *ids; i++) {
        for (unsigned k = 0; k < 4; k++) {
            errno = 0;
            assert_null(slab_malloc_epoch(allocator, sizes[k], ids[i].id));
            if (errno != ids[i].error) {
                print_error("id %u, %zu bytes: ", i, sizes[k]);
            }
            assert_int_equal(errno, i == 5 ? errno : ids[i].error);
            assert_true(errno == ESTALE || errno == EINVAL);
        }
    }
    slab_allocator_free(another);
}

/* A block goes on in an epoch of another allocator, whose care keeps this thread's fast paths for the first: they do
   not find it by the id of its new epoch. */
static void block_of_another_allocator(void **state) {
    (void)state;
    SlabOptions options = {.size = sizeof options, .poison_on_free = 1};
    SlabAllocator *careful = slab_allocator_create_ex(&options);
    assert_non_null(careful);
    epoch = epoch_open(allocator, NULL, EPOCH_CHURN);
    assert_non_null(slab_malloc_epoch(allocator, 64, epoch));
    assert_true(epoch_destroy(allocator, epoch));
    EpochId other = epoch_open(careful, NULL, EPOCH_CHURN);
    void *p = slab_malloc_epoch(careful, 64, other);
    assert_true(slab_owns(careful, p));
    errno = 0;
    assert_null(slab_malloc_epoch(allocator, 64, other));
    assert_int_equal(errno, EINVAL);
    assert_true(slab_free(careful, p));
    slab_allocator_free(careful);
}

/* A thread that has found an allocator which has ended since gets no epoch of the next allocator in its record. */
static void record_in_its_next_use(void **state) {
    (void)state;
    SlabAllocator *first = slab_allocator_create();
    ts_allocator *record = ts_allocator_find(ts_token(first));
    slab_allocator_free(first);
    SlabAllocator *next = slab_allocator_create();
    assert_ptr_equal(ts_allocator_find(ts_token(next)), record);
    EpochId id = epoch_current(next);
    assert_true(id != EPOCH_NONE);
    errno = 0;
    assert_int_equal(ts_epoch_current(record, ts_token(first)), EPOCH_NONE);
    assert_int_equal(errno, EINVAL);
    assert_int_equal(ts_epoch_current(record, ts_token(next)), id);
    slab_allocator_free(next);
}

static SlabAllocator *freed_in_a_close, *made_in_a_close;

static uint64_t free_in_resident(void) {
    if (freed_in_a_close) {
        slab_allocator_free(freed_in_a_close);
        freed_in_a_close = NULL;
        made_in_a_close = slab_allocator_create();
    }
    return ts_os_native.resident_bytes();
}

/* A close of an epoch in which nobody has a block: nothing else keeps the record from its next use. */
static void close_keeps_the_record(void **state) {
    (void)state;
    SlabOptions options = {.size = sizeof options, .record_rss = 1};
    SlabGlobalStats stats;
    SlabAllocator *a = slab_allocator_create_ex(&options);
    const ts_allocator *record = ts_allocator_find(ts_token(a));
    EpochId empty = epoch_open(a, NULL, EPOCH_CHURN);
    table.resident_bytes = free_in_resident;
    freed_in_a_close = a;
    (void)epoch_close(a, empty);
    table.resident_bytes = stop_in_resident;
    assert_non_null(made_in_a_close);
    assert_ptr_not_equal(ts_allocator_find(ts_token(made_in_a_close)), record);
    assert_true(slab_stats_global(made_in_a_close, &stats) && stats.epoch_close_calls == 0);
    SlabAllocator *next = slab_allocator_create(); /* it is free again */
    assert_ptr_equal(ts_allocator_find(ts_token(next)), record);
    slab_allocator_free(next);
    slab_allocator_free(made_in_a_close);
}

static unsigned measures, held_in_a_measure;

static uint64_t look_at_locks(void) {
    uint32_t high = ts_table_high(&ts_epochs);
    measures++;
    for (uint32_t i = 1; i < high; i++) {
        ts_lock *lock = ts_epoch_lock(ts_table_at(&ts_epochs, i));
        if (ts_lock_try(lock))
            ts_lock_release(lock);
        else
            held_in_a_measure++;
    }
    return ts_os_native.resident_bytes();
}

/* A thread that reads /proc for record_rss has no epoch's lock, however the epoch ends. */
static void measured_without_a_lock(void **state) {
    (void)state;
    measures = held_in_a_measure = 0;
    for (unsigned i = 0; i < 12; i++) {
        if (i == 1) table.resident_bytes = look_at_locks; /* from the second use of this thread's records on */
        EpochDomain *d = epoch_domain_create_ex(allocator, i % 2 ? "domain" : NULL, i < 6 ? 0 : EPOCH_CHURN);
        assert_non_null(epoch_domain_alloc(d, i % 3 ? 100 : 100000));
        if (i % 4 < 2)
            epoch_domain_destroy(d);
        else
            assert_true(epoch_domain_end(d));
        epoch = epoch_open(allocator, NULL, i % 2 ? EPOCH_CHURN : EPOCH_SCOPE);
        assert_non_null(slab_malloc_epoch(allocator, 100, epoch));
        assert_true(i % 3 ? epoch_destroy(allocator, epoch) : epoch_close(allocator, epoch));
        if (i % 3 == 0) assert_true(epoch_destroy(allocator, epoch));
    }
    table.resident_bytes = stop_in_resident;
    assert_true(measures >= 4 * 11); /* before and after each end */
    assert_int_equal(held_in_a_measure, 0);
}

/* slab_alloc in a domain: one that is refused counts once, and a churn epoch's takes no lock once the thread is in
   it. */
static void allocations_in_domains(void **state) {
    (void)state;
    for (unsigned kind = EPOCH_CHURN; kind <= EPOCH_SCOPE; kind++) {
        EpochDomain *domain = epoch_domain_create_ex(allocator, NULL, kind | EPOCH_DOMAIN_SHARED);
        assert_true(domain && epoch_domain_enter(domain));
        ts_epoch *e = ts_table_at(&ts_epochs, ts_table_index(&ts_epochs, epoch_domain_epoch(domain)));
        assert_non_null(slab_alloc(100));
        uint64_t locked = ts_load_relaxed(&ts_epoch_lock(e)->fast_acquired);
        for (unsigned i = 0; i < 50; i++) {
            assert_non_null(slab_alloc(100));
            assert_non_null(slab_alloc(20));
        }
        assert_int_equal(ts_load_relaxed(&ts_epoch_lock(e)->fast_acquired), locked);
        SlabGlobalStats before, after;
        assert_true(epoch_domain_force_close(domain));
        slab_stats_global(allocator, &before);
        errno = 0;
        assert_null(slab_alloc(100));
        assert_int_equal(errno, ESTALE);
        slab_stats_global(allocator, &after);
        assert_int_equal(after.slow_path_epoch_closed - before.slow_path_epoch_closed, 1);
        assert_true(epoch_domain_exit(domain));
        epoch_domain_destroy(domain);
    }
}

/* A thread has one block in an epoch, however often it looks; one that is over is used again. */
static void blocks(void **state) {
    (void)state;
    ts_allocator *a = ts_allocator_find(ts_token(allocator));
    ts_heap *heap = ts_heap_mine();
    for (unsigned flags = EPOCH_CHURN; flags <= EPOCH_SCOPE; flags++) {
        epoch = epoch_open(allocator, NULL, flags);
        ts_block *block = ts_epoch_join(heap, a, epoch);
        assert_true(block && ts_epoch_join(heap, a, epoch) == block);
        assert_int_equal(ts_load_relaxed(&block->open_id), epoch);
        assert_int_equal(block->scope, flags == EPOCH_SCOPE);
        uint64_t era = ts_era(block);
        assert_true(epoch_destroy(allocator, epoch));
        assert_int_equal(ts_load_relaxed(&block->open_id), TS_ID_NEVER);
        assert_true(ts_era(block) > era);
        epoch = epoch_open(allocator, NULL, flags);
        assert_true(ts_epoch_join(heap, a, epoch) == block);
        assert_true(epoch_close(allocator, epoch));
        assert_null(ts_epoch_join(heap, a, epoch));
        assert_int_equal(errno, ESTALE);
    }
}

/* A block at the end of its eras is not used again. */
static void eras_of_a_block(void **state) {
    (void)state;
    ts_allocator *a = ts_allocator_find(ts_token(allocator));
    ts_heap *heap = ts_heap_mine();
    for (unsigned flags = EPOCH_CHURN; flags <= EPOCH_SCOPE; flags++) {
        epoch = epoch_open(allocator, NULL, flags);
        ts_block *block = ts_epoch_join(heap, a, epoch);
        atomic_fetch_or(&block->key, TS_UNIT_ERA_MASK - 7); /* no slab has the old one */
        ts_store_relaxed(&block->era, (uint32_t)ts_era(block));
        unsigned uses = 0;
        while (ts_epoch_join(heap, a, epoch) == block && uses < 20) {
            void *p = slab_malloc_epoch(allocator, 100, epoch);
            assert_true(slab_owns(allocator, p));
            assert_true(ts_era(block) < TS_UNIT_ERA_MASK);
            assert_true(epoch_destroy(allocator, epoch));
            assert_false(slab_owns(allocator, p));
            epoch = epoch_open(allocator, NULL, flags);
            uses++;
        }
        assert_true(uses >= 1 && uses < 8);
        assert_non_null(slab_malloc_epoch(allocator, 100, epoch));
        assert_true(epoch_destroy(allocator, epoch));
        sup_check_empty(allocator);
    }
}

static void spans(void **state) {
    (void)state;
    epoch = epoch_open(allocator, NULL, EPOCH_CHURN);
    char *a = slab_malloc_epoch(allocator, 100000, epoch), *b = slab_malloc_epoch(allocator, 66000, epoch);
    char *c = slab_aligned_epoch(allocator, 1 << 20, 300000, epoch);
    assert_int_equal((uintptr_t)c % (1 << 20), 0);
    assert_int_equal(slab_usable_size(allocator, a), 7 * TS_UNIT_BYTES);
    assert_int_equal(slab_usable_size(allocator, b), 5 * TS_UNIT_BYTES);
    for (size_t k = 16; k < 7 * TS_UNIT_BYTES; k += 16) {
        assert_false(slab_owns(allocator, a + k) && a + k != b);
        assert_false(a + k != b && slab_free(allocator, a + k));
    }
    SlabHandle handle = slab_handle_of(allocator, a);
    assert_true(slab_free(allocator, a));
    char *again = slab_malloc_epoch(allocator, 100000, epoch);
    assert_true(again == a); /* retained, by its length */
    assert_null(slab_handle_get(allocator, handle));
    assert_false(free_obj(allocator, handle));
    SlabEpochStats stats;
    assert_true(slab_stats_epoch(allocator, SLAB_CLASS_SPAN, epoch, &stats));
    assert_int_equal(stats.live_objects, 3);
    assert_int_equal(stats.slab_count, 7 + 5 + 19);
    assert_int_equal(stats.live_bytes, 31 * TS_UNIT_BYTES);
    assert_true(epoch_close(allocator, epoch));
    assert_true(slab_free(allocator, again) && slab_free(allocator, c));
    assert_int_equal(epoch_state(allocator, epoch), EPOCH_CLOSING);
    assert_true(slab_free(allocator, b));
    assert_int_equal(epoch_state(allocator, epoch), EPOCH_CLOSED);
    sup_check_empty(allocator);
}

/* ---- domains ----------------------------------------------------------------------------------------------- */

static void *destroy_domain(void *argument) {
    epoch_domain_destroy(domain);
    SUP_CHECK(epoch_domain_epoch(domain) == EPOCH_NONE, "a shared domain can be destroyed by any thread");
    return argument;
}

static void leave_domain(void *d) { assert_true(epoch_domain_exit(d)); }

/* Domain ids, scopes and cleanups all come back: a million domains take no more than one. */
static void domains_leave_nothing(void **state) {
    (void)state;
    size_t metadata = 0;
    for (int i = 0; i < 20000; i++) {
        EpochDomain *d = epoch_domain_create_ex(allocator, NULL, 0), *old = domain;
        assert_non_null(d);
        assert_ptr_not_equal(d, old);
        assert_true(epoch_domain_enter(d) && epoch_domain_enter(d));
        assert_non_null(slab_alloc(100));
        assert_true(epoch_domain_on_destroy(d, leave_domain, d));
        assert_true(epoch_domain_exit(d));
        epoch_domain_destroy(d); /* its cleanup leaves it */
        assert_null(epoch_domain_current());
        assert_false(epoch_domain_enter(d));
        domain = d;
        if (i == 10) {
            metadata = ts_region_metadata_bytes();
        }
    }
    assert_int_equal(ts_region_metadata_bytes(), metadata);
    sup_check_empty(allocator);
}

/* A thread keeps so many entries of either kind, in any order of ends; the rest serve all threads. */
static void entries_beyond_the_spare_ones(void **state) {
    (void)state;
    enum { MANY = 2 * TS_SPARE_RECORDS + 1 };
    const ts_heap *heap = ts_thread.heap;
    EpochId epochs[MANY];
    EpochDomain *domains[MANY], *last;
    for (unsigned round = 0; round < 2; round++) {
        last = epoch_domain_create(allocator);
        for (unsigned i = 0; i < MANY; i++) {
            epochs[i] = epoch_open(allocator, NULL, EPOCH_SCOPE);
            domains[i] = epoch_domain_wrap(allocator, epochs[i], false);
            assert_true(epochs[i] != EPOCH_NONE && domains[i]);
        }
        for (unsigned i = 0; i < MANY; i++) { /* of one kind all, of the other none */
            if (round == 0) {
                assert_true(epoch_destroy(allocator, epochs[i]));
            } else {
                epoch_domain_destroy(domains[i]);
            }
        }
        assert_int_equal(heap->spares[round == 0 ? TS_TABLE_EPOCH : TS_TABLE_DOMAIN], TS_SPARE_RECORDS);
        assert_true(heap->spares[round == 0 ? TS_TABLE_DOMAIN : TS_TABLE_EPOCH] < TS_SPARE_RECORDS);
        epoch_domain_destroy(last);
        assert_in_range(heap->spares[TS_TABLE_EPOCH], 0, TS_SPARE_RECORDS);
        assert_in_range(heap->spares[TS_TABLE_DOMAIN], 0, TS_SPARE_RECORDS);
        for (unsigned i = 0; i < MANY; i++) {
            if (round == 0) {
                epoch_domain_destroy(domains[i]);
            } else {
                assert_true(epoch_destroy(allocator, epochs[i]));
            }
        }
    }
    sup_check_empty(allocator);
}

/* Its cleanups did not run, as its allocator ended first; nor do they in the entry's next use. */
static void entry_of_a_domain_with_cleanups(void **state) {
    (void)state;
    enum { MANY = 64 };
    SlabAllocator *other = slab_allocator_create();
    EpochDomain *d = epoch_domain_create(other), *domains[MANY];
    const ts_domain *entry = ts_domain_find((uintptr_t)d);
    assert_true(epoch_domain_on_destroy(d, leave_domain, d));
    slab_allocator_free(other);
    bool found = false;
    for (unsigned i = 0; i < MANY; i++) {
        domains[i] = epoch_domain_create(allocator);
        if (ts_domain_find((uintptr_t)domains[i]) != entry) continue;
        found = true;
        assert_null(ts_load_relaxed(&entry->cleanups));
    }
    assert_true(found);
    for (unsigned i = 0; i < MANY; i++) {
        epoch_domain_destroy(domains[i]);
    }
    sup_check_empty(allocator);
}

/* A domain does not begin with leftovers of its entry's last use. */
static void domains_begin_clean(void **state) {
    (void)state;
    enum { NOTHING, LABEL, SPAN, LIVE_SPAN, CLOSED, LEFT };
    for (unsigned left = NOTHING; left < LEFT; left++) {
        SlabEpochStats stats;
        EpochDomain *d = epoch_domain_create_ex(allocator, left == LABEL ? "a label" : NULL, 0);
        assert_true(d && epoch_domain_enter(d));
        const ts_epoch *e = ts_table_at(&ts_epochs, ts_table_index(&ts_epochs, epoch_domain_epoch(d)));
        assert_non_null(slab_alloc(100));
        if (left == SPAN) assert_true(slab_free(allocator, slab_alloc(100000)));
        if (left == LIVE_SPAN) assert_non_null(slab_alloc(100000));
        if (left == CLOSED) assert_true(epoch_domain_force_close(d));
        assert_true(epoch_domain_exit(d));
        epoch_domain_destroy(d);
        assert_int_equal(ts_load_relaxed(&e->record.id), 0);
        assert_int_equal(e->clean, left == NOTHING);
        d = epoch_domain_create(allocator);
        EpochId now = epoch_domain_epoch(d);
        assert_int_equal(ts_load_relaxed(&e->record.id), now);
        assert_true(slab_stats_epoch(allocator, SLAB_ALL_CLASSES, now, &stats));
        assert_int_equal(stats.allocated_objects_total, 0);
        assert_int_equal(stats.freed_objects_total, 0);
        assert_string_equal(stats.label, "");
        assert_int_equal(ts_load_relaxed(&e->span_allocated), 0);
        assert_int_equal(ts_load_relaxed(&e->closed_at_ns), 0);
        assert_int_equal(epoch_state(allocator, now), EPOCH_ACTIVE);
        epoch_domain_destroy(d);
    }
    sup_check_empty(allocator);
}

/* A slab's record says whose it is, however its unit came: it becomes a zombie of that allocator's perhaps. */
static void slabs_know_their_allocator(void **state) {
    (void)state;
    enum { UNITS = 40 };
    SlabAllocator *others[] = {slab_allocator_create(), slab_allocator_create()};
    for (unsigned turn = 0; turn < 2; turn++) { /* the second has the slabs of the first */
        SlabAllocator *other = others[turn];
        assert_true(slab_reserve(other, UNITS * TS_UNIT_BYTES));
        const ts_allocator *a = ts_allocator_find(ts_token(other));
        EpochDomain *d = epoch_domain_create(other);
        assert_true(d && epoch_domain_enter(d));
        for (unsigned i = 0; i < UNITS; i++) {
            for (unsigned k = 0; k < TS_UNIT_BYTES / 4096; k++) {
                uint32_t unit = 0;
                uint64_t entry = 0;
                assert_true(ts_locate(slab_alloc(4096), &unit, &entry));
                assert_int_equal(ts_slab_at(unit)->allocator, ts_allocator_index(a));
            }
        }
        assert_true(epoch_domain_exit(d));
        epoch_domain_destroy(d);
        slab_allocator_free(other);
    }
}

/* The thread's last share is another allocator's: the domain is that of the allocator it was asked for. */
static void domains_of_two_allocators(void **state) {
    (void)state;
    SlabAllocator *other = slab_allocator_create();
    for (unsigned i = 0; i < 4; i++) {
        SlabAllocator *of = i % 2 ? other : allocator;
        EpochDomain *d = epoch_domain_create(of);
        assert_true(d && epoch_domain_enter(d) && epoch_domain_allocator(d) == of);
        void *p = slab_alloc(100);
        assert_true(slab_owns(of, p));
        assert_false(slab_owns(of == other ? allocator : other, p));
        assert_true(epoch_domain_exit(d));
        epoch_domain_destroy(d);
        assert_false(slab_owns(of, p));
    }
    sup_check_empty(other);
    slab_allocator_free(other);
    errno = 0;
    assert_null(epoch_domain_create(other));
    assert_int_equal(errno, EINVAL);
}

/* The last thread that leaves gives the record back: the table does not grow with each. */
static void shared_domain_destroyed_by_another(void **state) {
    (void)state;
    uint32_t high = ts_table_high(&ts_domains);
    for (unsigned i = 0; i < 200; i++) {
        domain = epoch_domain_create_ex(allocator, NULL, EPOCH_DOMAIN_SHARED);
        assert_true(epoch_domain_enter(domain));
        void *p = slab_alloc(100);
        assert_non_null(p);
        sup_in_thread(destroy_domain, NULL);
        assert_false(slab_owns(allocator, p));
        errno = 0;
        assert_null(slab_alloc(100)); /* still entered here, and over */
        assert_int_equal(errno, ESTALE);
        assert_true(epoch_domain_exit(domain));
        assert_null(epoch_domain_current());
    }
    assert_true(ts_table_high(&ts_domains) < high + 100);
    sup_check_empty(allocator);
}

static void *others;
static void *allocate_and_wait(void *argument) {
    others = slab_malloc_epoch(allocator, 100, epoch);
    meet();
    meet();
    return argument;
}

/* Its first block is this thread's, and not its only one. */
static void scope_of_two_threads(void **state) {
    (void)state;
    epoch = epoch_open(allocator, NULL, EPOCH_SCOPE);
    start_other(allocate_and_wait);
    void *mine = slab_malloc_epoch(allocator, 100, epoch);
    assert_true(slab_owns(allocator, others) && slab_owns(allocator, mine));
    assert_true(epoch_destroy(allocator, epoch));
    assert_false(slab_owns(allocator, others) || slab_owns(allocator, mine));
    let_other_go_on();
    sup_check_empty(allocator);
}

#define WITH_ALLOCATOR(test) cmocka_unit_test_setup_teardown(test, start, stop)

int main(void) {
    /* Those in forked children first: they want a process in which nothing has begun. */
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(allocator_freed_in_an_allocation),
        cmocka_unit_test(allocator_freed_in_an_allocation_of_a_span),
        cmocka_unit_test(allocator_freed_in_a_close),
        cmocka_unit_test(allocator_freed_in_a_destroy),
        cmocka_unit_test(allocator_freed_in_a_trim),
        cmocka_unit_test(epoch_destroyed_in_a_call),
        cmocka_unit_test(epoch_closed_in_a_call),
        WITH_ALLOCATOR(destroyed_while_pinned),
        WITH_ALLOCATOR(drained_while_pinned),
        WITH_ALLOCATOR(old_unknown_and_foreign_ids),
        WITH_ALLOCATOR(block_of_another_allocator),
        WITH_ALLOCATOR(allocations_in_domains),
        WITH_ALLOCATOR(record_in_its_next_use),
        WITH_ALLOCATOR(close_keeps_the_record),
        WITH_ALLOCATOR(measured_without_a_lock),
        WITH_ALLOCATOR(blocks),
        WITH_ALLOCATOR(eras_of_a_block),
        WITH_ALLOCATOR(spans),
        WITH_ALLOCATOR(domains_leave_nothing),
        WITH_ALLOCATOR(entries_beyond_the_spare_ones),
        WITH_ALLOCATOR(entry_of_a_domain_with_cleanups),
        WITH_ALLOCATOR(domains_begin_clean),
        WITH_ALLOCATOR(slabs_know_their_allocator),
        WITH_ALLOCATOR(domains_of_two_allocators),
        WITH_ALLOCATOR(shared_domain_destroyed_by_another),
        WITH_ALLOCATOR(scope_of_two_threads),
    };
    return cmocka_run_group_tests_name("epoch.epoch", tests, NULL, NULL);
}
