/*
 * Pages of state words that slabs of two epochs share (spill/packed.h): they go when both are away, whoever came
 * last, and all is as it was whoever comes back first, also when both go and come at once.
 */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include "identities.h"

#include "api/runtime.h"
#include "keeper.h"
#include "walk/check.h"

#include "unit.h"

#include <pthread.h>
#include <stdatomic.h>

enum { SLABS = 200, BYTES = 256, IN_SLAB = TS_UNIT_BYTES / BYTES, OBJECTS = SLABS * IN_SLAB };

typedef struct half {
    EpochId epoch;
    keeper kept;
    char *at[OBJECTS];
    SlabHandle handle[OBJECTS];
    bool freed[OBJECTS];
} half;
static half halves[2];
static SlabAllocator *allocator;
static ts_allocator *record;
static const ts_pack_memory memory = {malloc, free};

static int set_up(void **state) {
    (void)state;
    allocator = slab_allocator_create();
    record = ts_allocator_find(ts_token(allocator));
    return record == NULL;
}
static int tear_down(void **state) {
    (void)state;
    sup_check_empty(allocator);
    slab_allocator_free(allocator);
    for (uint32_t i = 0; i < TS_PACK_GROUPS / 64; i++) assert_int_equal(ts_load_relaxed(&ts_packed_groups[i]), 0);
    return 0;
}
#define NEEDS_LOANS() \
    if (!ts_os_native.barrier_all() || record->care || ts_os_page_bytes() > TS_UNIT_BYTES) skip()

/* A slab of the one, a slab of the other, and so on. Closed. */
static void fill(unsigned flags) {
    for (unsigned k = 0; k < 2; k++) {
        halves[k].epoch = epoch_open(allocator, "half", flags);
        memset(halves[k].freed, 0, sizeof halves[k].freed);
    }
    for (unsigned i = 0; i < OBJECTS; i += IN_SLAB) {
        for (unsigned k = 0; k < 2; k++) {
            for (unsigned n = i; n < i + IN_SLAB; n++) {
                half *h = &halves[k];
                SUP_CHECK((h->at[n] = alloc_obj_epoch(allocator, BYTES, h->epoch, &h->handle[n])) != NULL, "object %u",
                          n);
                memset(h->at[n], (int)(n + k), BYTES);
            }
        }
    }
    for (unsigned k = 0; k < 2; k++) assert_true(epoch_close(allocator, halves[k].epoch));
}

static void send(half *h) {
    h->kept.spill =
        (ts_spill){.piece = h->kept.piece, .room = sizeof h->kept.piece / sizeof *h->kept.piece, .memory = &memory};
    while (!ts_spill_begin(record, h->epoch, &h->kept.spill)) SUP_CHECK(errno == EBUSY, "begin: %s", strerror(errno));
    char *to = h->kept.bytes = malloc((size_t)h->kept.spill.units * TS_UNIT_BYTES);
    for (size_t i = 0; i < h->kept.spill.pieces; i++, to += TS_UNIT_BYTES)
        memcpy(to, ts_unit_address(h->kept.piece[i].unit), TS_UNIT_BYTES);
    SUP_CHECK(ts_spill_send(&h->kept.spill), "send: %s", strerror(errno));
}

static void check_half(unsigned k) {
    for (unsigned n = 0; n < OBJECTS; n++)
        for (unsigned b = 0; !halves[k].freed[n] && b < BYTES; b += 51)
            SUP_CHECK(halves[k].at[n][b] == (char)(n + k), "object %u of %u", n, k);
}

static void check_answers(unsigned k) {
    const half *h = &halves[k];
    for (unsigned n = 0; n < OBJECTS; n += 7) {
        SUP_CHECK(slab_owns(allocator, h->at[n]) == !h->freed[n], "object %u of %u", n, k);
        SUP_CHECK(slab_handle_get(allocator, h->handle[n]) == (h->freed[n] ? NULL : h->at[n]), "handle %u of %u", n, k);
    }
}

static void free_some(unsigned k, unsigned from, unsigned step) {
    half *h = &halves[k];
    for (unsigned n = from; n < OBJECTS; n += step) {
        if (h->freed[n]) continue;
        SUP_CHECK(n % 2 ? slab_free(allocator, h->at[n]) : free_obj(allocator, h->handle[n]), "object %u of %u", n, k);
        SUP_CHECK(!slab_free(allocator, h->at[n]), "object %u of %u, twice", n, k);
        h->freed[n] = true;
    }
}

static void walk(void) {
    static ts_check check;
    SUP_CHECK(ts_check_all(&check, false), "%s", check.why);
}

static void end_both(void) {
    for (unsigned k = 0; k < 2; k++) {
        if (epoch_state(allocator, halves[k].epoch) != EPOCH_CLOSED)
            assert_true(epoch_destroy(allocator, halves[k].epoch));
        assert_int_equal(epoch_state(allocator, halves[k].epoch), EPOCH_CLOSED);
    }
    sup_check_identities(allocator);
}

/* All pages but those at the ends go with the second one, and are there again with what comes back. */
static void there_and_back(void **state) {
    (void)state;
    NEEDS_LOANS();
    for (unsigned round = 0; round < 8; round++) {
        unsigned first = round & 1, back = round >> 1 & 1;
        fill(round & 4 ? EPOCH_SCOPE : EPOCH_CHURN);
        send(&halves[first]);
        assert_int_equal(units_packed(&halves[first].kept), 0);
        send(&halves[!first]);
        unsigned packed = units_packed(&halves[!first].kept), gone = 0;
        SUP_CHECK(packed + 4 * TS_PACK_GROUP >= 2 * SLABS, "%u of %u slabs are packed", packed, 2 * SLABS);
        for (const ts_pack *p = halves[!first].kept.spill.packs; p; p = p->next)
            gone += !is_resident((const void *)(uintptr_t)ts_unit_states(p->first, false));
        SUP_CHECK(gone * TS_PACK_GROUP >= packed, "%u pages have gone, of %u slabs", gone, packed);
        check_answers(0);
        check_answers(1);
        free_some(first, round, 5);
        free_some(!first, round, 9);
        bring_back(&halves[back].kept);
        check_half(back);
        walk();
        free_some(back, round + 1, 3);
        check_answers(!back);
        bring_back(&halves[!back].kept);
        check_half(!back);
        walk();
        check_answers(0);
        check_answers(1);
        end_both();
    }
}

/* What comes back is used again, and goes again, while the other, which has sent the page, is still away. */
static void again(void **state) {
    (void)state;
    NEEDS_LOANS();
    fill(EPOCH_CHURN);
    send(&halves[0]);
    send(&halves[1]);
    for (unsigned round = 0; round < 3; round++) {
        unsigned packed = units_packed(&halves[1].kept);
        bring_back(&halves[0].kept);
        SUP_CHECK(units_packed(&halves[1].kept) <= SLABS && packed >= units_packed(&halves[1].kept), "%u", packed);
        check_half(0);
        free_some(0, round, 11);
        send(&halves[0]);
        check_answers(0);
        check_answers(1);
    }
    bring_back(&halves[1].kept);
    check_half(1);
    SUP_CHECK(units_packed(&halves[0].kept) == 0, "of a page with slabs in memory");
    bring_back(&halves[0].kept);
    check_half(0);
    walk();
    end_both();
}

/* The first ends while the page is the second's, and its units are another epoch's. */
static void ends(void **state) {
    (void)state;
    NEEDS_LOANS();
    fill(EPOCH_CHURN);
    send(&halves[0]);
    send(&halves[1]);
    assert_true(epoch_destroy(allocator, halves[0].epoch));
    assert_true(ts_spill_is_over(&halves[0].kept.spill) && ts_spill_bury(&halves[0].kept.spill));
    free(halves[0].kept.bytes);
    EpochId other = epoch_open(allocator, "other", EPOCH_CHURN);
    for (unsigned i = 0; i < OBJECTS; i++) SUP_CHECK(slab_malloc_epoch(allocator, 64 + i % 300, other), "object %u", i);
    walk();
    check_answers(1);
    bring_back(&halves[1].kept);
    check_half(1);
    walk();
    assert_true(epoch_destroy(allocator, other));
    end_both();
}

static atomic_bool over;
static atomic_uint going = 2;
static unsigned rounds;

static void *goes(void *arg) {
    unsigned k = arg == &halves[1];
    for (unsigned round = 0; round < rounds; round++) {
        send(&halves[k]);
        free_some(k, 7 * round % 512 * 2 + 1, 1024); /* odd ones, which nobody looks at */
        bring_back(&halves[k].kept);
        if (round % 8 == 7) check_half(k);
    }
    if (atomic_fetch_sub(&going, 1) == 1) over = true;
    return NULL;
}
static void *looks(void *arg) {
    (void)arg;
    for (unsigned n = 0; !over; n = (n + 34) % OBJECTS) {
        const half *h = &halves[n / 2 % 2];
        SUP_CHECK(slab_usable_size(allocator, h->at[n]) >= BYTES, "object %u", n);
        SUP_CHECK(slab_handle_get(allocator, h->handle[n]) == h->at[n], "handle %u", n);
    }
    return NULL;
}

static void at_once(void **state) {
    (void)state;
    NEEDS_LOANS();
    rounds = SUP_SCALED(240);
    for (unsigned flags = EPOCH_CHURN; flags <= EPOCH_SCOPE; flags++) {
        pthread_t thread[3];
        going = 2;
        over = false;
        fill(flags);
        slab_thread_idle();
        for (unsigned k = 0; k < 2; k++) assert_int_equal(pthread_create(&thread[k], NULL, goes, &halves[k]), 0);
        assert_int_equal(pthread_create(&thread[2], NULL, looks, NULL), 0);
        for (unsigned k = 0; k < 3; k++) assert_int_equal(pthread_join(thread[k], NULL), 0);
        for (unsigned k = 0; k < 2; k++) check_half(k);
        walk();
        end_both();
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(there_and_back, set_up, tear_down),
        cmocka_unit_test_setup_teardown(again, set_up, tear_down),
        cmocka_unit_test_setup_teardown(ends, set_up, tear_down),
        cmocka_unit_test_setup_teardown(at_once, set_up, tear_down),
    };
    return cmocka_run_group_tests_name("epoch.packed_shared", tests, NULL, NULL);
}
