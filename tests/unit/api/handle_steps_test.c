/*
 * A handle is asked for by another thread while the owner is in the middle of a usual free, which has looked at the
 * slab's word already. The asker waits until that free is over: it counts no life. objects.c is compiled once more, in
 * place of the library's, with a place to stop at.
 */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include "errands.h"
#include "identities.h"
#include "proc.h"
#include "unit.h"

#include "base/base.h"
#include "bins.h"

static void stop_here(void);
#define ts_take_bit(x, n) (stop_here(), (ts_take_bit)((x), (n)))
#include "cache/free.h"
#undef ts_take_bit
#include "api/objects.c"

#include <pthread.h>

static _Atomic int armed, stopped;
static SlabAllocator *allocator;
static EpochId epoch;
static void *object, *next;

/* The worker only. */
static void stop_here(void) {
    if (ts_thread.heap != other_heap || !atomic_load(&armed)) return;
    atomic_store(&armed, 0);
    atomic_store(&stopped, 1);
    while (atomic_load(&stopped)) ts_os->yield();
}

static void allocate(void) { object = slab_malloc_epoch(allocator, 64, epoch); }
static void free_it(void) { SUP_CHECK(slab_free(allocator, object), "slab_free"); }
static void allocate_again(void) { next = slab_malloc_epoch(allocator, 64, epoch); }

static _Atomic int answered;
static void *ask(void *handle) {
    *(SlabHandle *)handle = slab_handle_of(allocator, object);
    atomic_store(&answered, 1);
    return NULL;
}

static void asked_for_in_a_free(void **state) {
    (void)state;
    SlabHandle handle = SLAB_HANDLE_NONE, of_next;
    pthread_t asker;
    allocator = slab_allocator_create();
    (void)ts_heap_mine();
    if (!ts_os_native.barrier_all() || ts_allocator_find(ts_token(allocator))->care) {
        slab_allocator_free(allocator);
        skip();
    }
    begin();
    epoch = epoch_open(allocator, NULL, EPOCH_CHURN);
    let(allocate);
    atomic_store(&armed, 1);
    let_begin(free_it);
    for (unsigned ms = 0; !atomic_load(&stopped); ms++) {
        SUP_CHECK(ms < 10000, "the free does not come to its place");
        sup_sleep_ms(1);
    }
    assert_int_equal(pthread_create(&asker, NULL, ask, &handle), 0);
    for (unsigned ms = 0; ms < 30; ms++) sup_sleep_ms(1);
    assert_int_equal(atomic_load(&answered), 0);
    atomic_store(&stopped, 0);
    meet();
    assert_int_equal(pthread_join(asker, NULL), 0);
    assert_int_equal(handle, SLAB_HANDLE_NONE);
    /* The next object there has a handle of its own, which its end makes stale. */
    let(allocate_again);
    assert_ptr_equal(next, object);
    of_next = slab_handle_of(allocator, next);
    assert_ptr_equal(slab_handle_get(allocator, of_next), next);
    let(free_it);
    let(allocate_again);
    assert_ptr_equal(next, object);
    assert_null(slab_handle_get(allocator, of_next));
    end();
    sup_check_identities(allocator);
    slab_allocator_free(allocator);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(asked_for_in_a_free)};
    return cmocka_run_group_tests_name("api.handle_steps", tests, NULL, NULL);
}
