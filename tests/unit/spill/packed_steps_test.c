/*
 * Pages of state words that go between the steps of who looks (spill/packed.h, 3). object.c and foreign.c are compiled once more, with a
 * place to stop at behind each look for what is packed, and before each compare-and-swap: there a whole spill is sent, or one comes back.
 */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include "identities.h"

#include "api/runtime.h"
#include "cache/bin.h"
#include "cache/foreign.h"
#include "cache/scope.h"
#include "keeper.h"
#include "memtools/care.h"
#include "spill/packed.h"
#include "supply/allocator.h"

#include <stdatomic.h>

static void (*at_look)(void);
static uint64_t look_and_stop(uint32_t unit) {
    uint64_t turn = ts_states_look(unit);
    void (*fn)(void) = at_look;
    at_look = NULL;
    if (fn) fn();
    return turn;
}
static void (*at_cas)(void);
static bool stopping_cas(_Atomic uint64_t *at, uint64_t *expected, uint64_t value) {
    void (*fn)(void) = at_cas;
    at_cas = NULL;
    if (fn) fn();
    return atomic_compare_exchange_strong_explicit(at, expected, value, memory_order_seq_cst, memory_order_acquire);
}
#undef ts_cas_seq
#define ts_cas_seq(p, e, v) stopping_cas((p), (e), (v))
#define ts_states_look look_and_stop
#define ts_object_at stepped_at
#define ts_object_owner stepped_owner
#define ts_object_at_in_slab stepped_at_in_slab
#define ts_object_usable stepped_usable
#define ts_object_of_handle stepped_of_handle
#define ts_object_handle stepped_handle
#define ts_object_watch stepped_watch
#define ts_object_watched stepped_watched
#include "diagnose/object.c"
#include "foreign_stepped.h"
#undef ts_states_look

#include "unit.h"

enum { OBJECTS = 4000, BYTES = 100 };
static SlabAllocator *allocator;
static ts_allocator *record;
static EpochId epoch;
static char *object[OBJECTS];
static keeper kept;

static int set_up(void **state) {
    (void)state;
    allocator = slab_allocator_create();
    record = ts_allocator_find(ts_token(allocator));
    return record == NULL || ts_heap_mine() == NULL;
}
static int tear_down(void **state) {
    (void)state;
    at_look = at_cas = NULL;
    sup_check_empty(allocator);
    slab_allocator_free(allocator);
    return 0;
}
#define NEEDS_LOANS() \
    if (!ts_os->barrier_all() || record->care || ts_os_page_bytes() > TS_UNIT_BYTES) skip()

static void send_it(void) { keep(&kept, record, epoch, UINT32_MAX); }
static void bring_it_back(void) { bring_back(&kept); }
static void send_and_bring_back(void) {
    send_it();
    bring_it_back();
}
static void bring_back_and_send(void) {
    bring_it_back();
    send_it();
}

static void fill(unsigned flags) {
    epoch = epoch_open(allocator, "steps", flags);
    for (unsigned i = 0; i < OBJECTS; i++) {
        assert_non_null(object[i] = slab_malloc_epoch(allocator, BYTES, epoch));
        memset(object[i], (int)i, BYTES);
    }
    assert_true(epoch_close(allocator, epoch));
}

/* What happens at the stop, and whether the slabs are away before and after it. */
static const struct {
    void (*fn)(void);
    bool before, after;
} MEANWHILE[] = {{send_it, false, true},
                 {send_and_bring_back, false, false},
                 {bring_it_back, true, false},
                 {bring_back_and_send, true, true}};
enum { KINDS = 4 };

static char *middle(void) { return object[OBJECTS / 2]; }

static void ends(unsigned kind) {
    assert_null(at_look); /* it was there */
    if (MEANWHILE[kind].after) bring_it_back();
    assert_true(epoch_destroy(allocator, epoch));
}

static void an_object_is_looked_at(void **state) {
    (void)state;
    NEEDS_LOANS();
    for (unsigned kind = 0; kind < 2 * KINDS; kind++) {
        ts_object o;
        fill(kind < KINDS ? EPOCH_CHURN : EPOCH_SCOPE);
        if (MEANWHILE[kind % KINDS].before) send_it();
        at_look = MEANWHILE[kind % KINDS].fn;
        assert_true(stepped_at(record->token, middle(), &o));
        assert_int_equal(o.bytes, kind < KINDS ? slab_usable_size(allocator, object[0]) : (BYTES + 15) / 16 * 16);
        ends(kind % KINDS);
    }
}

/* What happens meanwhile does so at that stop. */
static void one_is_freed_at(void (**stop)(void)) {
    for (unsigned kind = 0; kind < 2 * KINDS; kind++) {
        uint64_t entry = 0, retries = 0;
        uint32_t unit = 0;
        fill(kind < KINDS ? EPOCH_CHURN : EPOCH_SCOPE);
        if (MEANWHILE[kind % KINDS].before) send_it();
        assert_true(ts_locate(middle(), &unit, &entry));
        *stop = MEANWHILE[kind % KINDS].fn;
        assert_int_equal(stepped_free(unit, entry, record->token, TS_ANY_GENERATION, &retries), TS_FOREIGN_FREED);
        assert_null(*stop);
        /* Whatever happened: who finds the bit reads the words (statistics do, without a look). */
        assert_int_equal(sup_live_objects(allocator), OBJECTS - 1);
        assert_false(slab_free(allocator, middle()));
        ends(kind % KINDS);
    }
}

static void one_is_freed(void **state) {
    (void)state;
    NEEDS_LOANS();
    one_is_freed_at(&at_look);
}

/* The same once it was seen to be live. */
static void one_is_freed_late(void **state) {
    (void)state;
    NEEDS_LOANS();
    one_is_freed_at(&at_cas);
}

/* One is left: that all are freed would end its slab. */
static void all_but_one_are_freed(void **state) {
    (void)state;
    NEEDS_LOANS();
    for (unsigned kind = 0; kind < 2 * KINDS; kind++) {
        uint64_t entry = 0;
        uint32_t unit = 0;
        fill(kind < KINDS ? EPOCH_CHURN : EPOCH_SCOPE);
        assert_true(ts_locate(middle(), &unit, &entry));
        if (MEANWHILE[kind % KINDS].before) send_it();
        at_look = MEANWHILE[kind % KINDS].fn;
        assert_false(stepped_all_freed(unit, ts_load_acquire(ts_unit_word(unit))));
        ends(kind % KINDS);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(an_object_is_looked_at, set_up, tear_down),
        cmocka_unit_test_setup_teardown(one_is_freed, set_up, tear_down),
        cmocka_unit_test_setup_teardown(one_is_freed_late, set_up, tear_down),
        cmocka_unit_test_setup_teardown(all_but_one_are_freed, set_up, tear_down),
    };
    return cmocka_run_group_tests_name("epoch.packed_steps", tests, NULL, NULL);
}
