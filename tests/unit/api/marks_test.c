/* Marks (mark.c, rewind.c): the objects that a rewind kills and keeps, whose places are used again, and invalid
   marks. */
#define _GNU_SOURCE
#include "epoch/epoch.h"
#include "identities.h"
#include "pattern.h"
#include "rng.h"
#include "unit.h"

#include <errno.h>
#include <pthread.h>
#include <string.h>

static uint64_t live(EpochDomain *d, uint64_t *bytes) {
    SlabEpochStats s;
    assert_true(slab_stats_epoch(epoch_domain_allocator(d), SLAB_ALL_CLASSES, epoch_domain_epoch(d), &s));
    if (bytes) *bytes = s.live_bytes;
    return s.live_objects;
}

static void in_one_slab(void **state) {
    SlabAllocator *a = *state;
    EpochDomain *d = epoch_domain_create(a);
    char *before = epoch_domain_alloc(d, 100);
    memset(before, 7, 100);
    SlabMark m;
    assert_true(epoch_domain_mark(d, &m));
    assert_int_equal(live(d, NULL), 1); /* a mark is no object */
    char *first = NULL;
    for (int round = 0; round < 1000; round++) { /* for ever in the same place */
        uint64_t bytes;
        char *p = epoch_domain_alloc(d, 64), *q = epoch_domain_alloc(d, 500);
        assert_true(slab_free(a, q));
        if (!first) first = p;
        assert_ptr_equal(p, first);
        assert_int_equal(live(d, &bytes), 2);
        assert_int_equal(bytes, 112 + 64);
        assert_true(epoch_domain_rewind(d, m));
        assert_false(slab_owns(a, p));
        assert_false(slab_free(a, p));
        assert_int_equal(live(d, &bytes), 1);
        assert_int_equal(bytes, 112);
    }
    assert_true(slab_usable_size(a, before) >= 100 && before[99] == 7);
    assert_true(epoch_domain_held(d) == 16384);
    sup_check_identities(a);
    epoch_domain_destroy(d);
}

static void many_slabs_and_large(void **state) {
    SlabAllocator *a = *state;
    EpochDomain *d = epoch_domain_create(a);
    struct sup_rng rng = {7};
    static void *kept[300], *gone[3000];
    static size_t kept_size[300];
    for (int i = 0; i < 300; i++) {
        kept_size[i] = sup_rng_below(&rng, i % 50 ? 600 : 60000);
        assert_non_null(kept[i] = epoch_domain_alloc(d, kept_size[i]));
        sup_pattern_fill(kept[i], kept_size[i], (uint64_t)i);
    }
    SlabMark m;
    assert_true(epoch_domain_mark(d, &m));
    uint64_t bytes, held = epoch_domain_held(d), objects = live(d, &bytes);
    for (int round = 0; round < 20; round++) {
        for (int i = 0; i < 3000; i++)
            assert_non_null(gone[i] = epoch_domain_alloc(d, sup_rng_below(&rng, i % 500 ? 900 : 90000)));
        for (int i = 0; i < 3000; i += 3) assert_true(slab_free(a, gone[i]));
        assert_true(epoch_domain_rewind(d, m));
        for (int i = 0; i < 3000; i++) assert_false(slab_owns(a, gone[i]));
        uint64_t now;
        assert_int_equal(live(d, &now), objects);
        assert_int_equal(now, bytes);
        assert_int_equal(epoch_domain_held(d), held);
        sup_check_identities(a);
    }
    for (int i = 0; i < 300; i++) {
        assert_true(sup_pattern_check(kept[i], kept_size[i], (uint64_t)i));
        assert_true(slab_free(a, kept[i]));
    }
    assert_int_equal(live(d, NULL), 0);
    epoch_domain_destroy(d);
    sup_check_identities(a);
}

static void nested(void **state) {
    SlabAllocator *a = *state;
    EpochDomain *d = epoch_domain_create(a), *other = epoch_domain_create(a);
    enum { DEEP = 12 };
    SlabMark m[DEEP], of_other;
    void *p[DEEP];
    assert_true(epoch_domain_mark(other, &of_other));
    for (int i = 0; i < DEEP; i++) {
        assert_true(epoch_domain_mark(d, &m[i]));
        assert_non_null(p[i] = epoch_domain_alloc(d, 3000));
    }
    errno = 0;
    assert_false(epoch_domain_rewind(d, of_other));
    assert_int_equal(errno, EINVAL);
    assert_true(epoch_domain_rewind(d, m[8]));
    for (int i = 0; i < DEEP; i++) assert_true(slab_owns(a, p[i]) == (i < 8));
    for (int i = 9; i < DEEP; i++) {
        errno = 0;
        assert_false(epoch_domain_rewind(d, m[i])); /* rewound past */
        assert_int_equal(errno, EINVAL);
    }
    assert_true(epoch_domain_rewind(d, m[8])); /* good again and again */
    assert_true(epoch_domain_rewind(d, m[0]));
    assert_int_equal(live(d, NULL), 0);
    SlabMark forged = m[0];
    forged.place++;
    assert_false(epoch_domain_rewind(d, forged));
    assert_true(epoch_domain_reset(d, SIZE_MAX));
    assert_non_null(epoch_domain_alloc(d, 10));
    errno = 0;
    assert_false(epoch_domain_rewind(d, m[0])); /* of before a reset */
    assert_int_equal(errno, EINVAL);
    assert_int_equal(live(d, NULL), 1);
    /* The oldest of very many is given up; the newest are kept. */
    static SlabMark many[1000];
    for (int i = 0; i < 1000; i++) {
        assert_true(epoch_domain_mark(d, &many[i]));
        assert_non_null(epoch_domain_alloc(d, 200));
    }
    for (int i = 999; i > 999 - 8; i--) assert_true(epoch_domain_rewind(d, many[i]));
    assert_false(epoch_domain_rewind(d, many[0]));
    assert_int_equal(live(d, NULL), 1 + 992);
    sup_check_identities(a);
    epoch_domain_destroy(d);
    epoch_domain_destroy(other);
}

static char order[32];
static void note(void *arg) { strncat(order, arg, 1); }

static void cleanups_and_children(void **state) {
    SlabAllocator *a = *state;
    EpochDomain *d = epoch_domain_create(a), *old = epoch_domain_create_child(d, NULL, 0);
    order[0] = 0;
    SlabMark m;
    assert_true(epoch_domain_on_destroy(d, note, "a") && epoch_domain_on_destroy(old, note, "o"));
    assert_true(epoch_domain_mark(d, &m));
    assert_true(epoch_domain_on_destroy(d, note, "b") && epoch_domain_on_destroy(d, note, "c"));
    EpochDomain *young = epoch_domain_create_child(d, NULL, 0);
    assert_true(epoch_domain_on_destroy(young, note, "y"));
    assert_true(epoch_domain_enter(d));
    assert_non_null(slab_alloc(100));
    assert_true(epoch_domain_rewind(d, m));
    assert_string_equal(order, "ycb");
    assert_int_equal(epoch_domain_epoch(young), EPOCH_NONE);
    assert_true(epoch_domain_epoch(old) != EPOCH_NONE);
    assert_ptr_equal(epoch_domain_current(), d);
    assert_non_null(slab_alloc(100));
    assert_int_equal(live(d, NULL), 1);
    epoch_domain_destroy(d);
    assert_string_equal(order, "ycboa");
}

static void *free_on_thread(void *arg) {
    void **pair = arg;
    return (void *)(uintptr_t)slab_free(pair[0], pair[1]);
}
static void *allocates_by_epoch(void *domain) {
    return slab_malloc_epoch(epoch_domain_allocator(domain), 10, epoch_domain_epoch(domain));
}
static void *on_thread(void *(*fn)(void *), void *arg) {
    pthread_t t;
    void *result;
    assert_int_equal(pthread_create(&t, NULL, fn, arg), 0);
    assert_int_equal(pthread_join(t, &result), 0);
    return result;
}

/* Where a handle was made, or another thread has freed, the place is not used again; and a handle is stale for ever. */
static void places_not_used_again(void **state) {
    SlabAllocator *a = *state;
    for (int foreign = 0; foreign < 2; foreign++) {
        EpochDomain *d = epoch_domain_create(a);
        SlabMark m;
        SlabHandle h = SLAB_HANDLE_NONE;
        assert_true(epoch_domain_mark(d, &m));
        void *p = epoch_domain_alloc(d, 64), *q = epoch_domain_alloc(d, 64), *pair[] = {a, q};
        if (foreign)
            assert_non_null(on_thread(free_on_thread, pair));
        else
            h = slab_handle_of(a, p);
        assert_true(epoch_domain_rewind(d, m));
        void *again = epoch_domain_alloc(d, 64);
        assert_true(again != p && again != q);
        assert_false(slab_owns(a, p));
        if (!foreign) {
            assert_null(slab_handle_get(a, h));
            assert_false(free_obj(a, h));
        }
        assert_int_equal(live(d, NULL), 1);
        sup_check_identities(a);
        epoch_domain_destroy(d);
    }
}

static void refusals(void **state) {
    SlabAllocator *a = *state;
    SlabMark m = {0, 0};
    EpochDomain *shared = epoch_domain_create_ex(a, NULL, EPOCH_DOMAIN_SHARED);
    EpochDomain *churn = epoch_domain_create_ex(a, NULL, EPOCH_CHURN), *d = epoch_domain_create(a);
    EpochDomain *bad[] = {shared, churn, NULL, (EpochDomain *)99};
    for (int i = 0; i < 4; i++) {
        errno = 0;
        assert_false(epoch_domain_mark(bad[i], &m));
        assert_int_equal(errno, EINVAL);
        errno = 0;
        assert_false(epoch_domain_rewind(bad[i], m));
        assert_int_equal(errno, EINVAL);
    }
    assert_false(epoch_domain_mark(d, NULL));
    assert_false(epoch_domain_rewind(d, m));
    assert_true(epoch_domain_mark(d, &m));
    assert_true(epoch_domain_hand_over(d) && epoch_domain_enter(d));
    assert_false(epoch_domain_rewind(d, m)); /* of before a hand-over */
    assert_true(epoch_domain_mark(d, &m));
    assert_non_null(on_thread(allocates_by_epoch, d));
    errno = 0;
    assert_false(epoch_domain_rewind(d, m));
    assert_int_equal(errno, EINVAL);
    assert_false(epoch_domain_mark(d, &m));
    assert_true(epoch_domain_force_close(d));
    assert_false(epoch_domain_mark(d, &m));
    assert_false(epoch_domain_rewind(d, m));
    epoch_domain_destroy(d);
    epoch_domain_destroy(churn);
    epoch_domain_destroy(shared);
}

static char first_cleanup[] = "1";

static void *makes_busily_and_gives(void *allocator) {
    EpochDomain *d = epoch_domain_create(allocator);
    for (int i = 0; i < 100; i++) { /* this thread has done more of it than the next one */
        assert_true(epoch_domain_on_destroy(d, note, first_cleanup));
        assert_true(epoch_domain_off_destroy(d, note, first_cleanup));
    }
    assert_true(epoch_domain_on_destroy(d, note, first_cleanup));
    assert_non_null(epoch_domain_create_child(d, NULL, 0));
    assert_true(epoch_domain_hand_over(d));
    return d;
}

/* Cleanups and children of another thread, made before it handed the domain over, are older than any mark. */
static void what_came_before_a_hand_over(void **state) {
    SlabMark m;
    EpochDomain *d = on_thread(makes_busily_and_gives, *state);
    assert_true(epoch_domain_enter(d));
    assert_true(epoch_domain_mark(d, &m));
    order[0] = 0;
    EpochDomain *newer = epoch_domain_create_child(d, NULL, 0);
    assert_true(epoch_domain_rewind(d, m));
    assert_string_equal(order, "");
    assert_ptr_equal(epoch_domain_allocator(newer), NULL);
    assert_true(epoch_domain_end(d));
    assert_string_equal(order, "1");
}

/* A wrapped scope is as good as any. The marks of one domain are not those of the epoch's next domain. */
static void of_a_wrapped_epoch(void **state) {
    SlabAllocator *a = *state;
    SlabMark m;
    EpochId e = epoch_open(a, NULL, EPOCH_SCOPE);
    EpochDomain *w = epoch_domain_wrap(a, e, false);
    assert_true(epoch_domain_mark(w, &m));
    epoch_domain_destroy(w);
    w = epoch_domain_wrap(a, e, true);
    assert_false(epoch_domain_rewind(w, m));
    assert_true(epoch_domain_mark(w, &m));
    assert_non_null(epoch_domain_alloc(w, 100));
    assert_true(epoch_domain_rewind(w, m));
    assert_int_equal(live(w, NULL), 0);
    epoch_domain_destroy(w);
}

/* A mark keeps nothing of a closed epoch: nobody comes back to it. */
static void of_a_closed_epoch(void **state) {
    SlabAllocator *a = *state;
    SlabMark m;
    for (int how = 0; how < 4; how++) {
        EpochDomain *d = epoch_domain_create_ex(a, "marked", how == 2 ? EPOCH_DOMAIN_DRAIN : 0);
        EpochId e = epoch_domain_epoch(d);
        void *p = epoch_domain_alloc(d, 100);
        assert_true(epoch_domain_mark(d, &m));
        for (int i = 0; i < 300; i++)
            assert_true(slab_free(a, epoch_domain_alloc(d, 100)) && (i % 100 || epoch_domain_mark(d, &m)));
        if (how == 0) assert_true(epoch_domain_force_close(d));
        if (how == 1) assert_true(slab_free(a, p) && epoch_close(a, e));
        if (how == 2) epoch_domain_destroy(d);
        if (how == 3) assert_true(slab_free(a, p) && epoch_domain_force_close(d));
        if (how == 0 || how == 2) {
            assert_int_equal(epoch_state(a, e), EPOCH_CLOSING);
            assert_true(slab_free(a, p));
        }
        assert_int_equal(epoch_state(a, e), EPOCH_CLOSED);
        assert_false(epoch_domain_rewind(d, m));
        if (how != 2) epoch_domain_destroy(d);
        sup_check_identities(a);
        sup_check_empty(a);
    }
}

/* The marks of a domain that ends before its epoch keep nothing either. */
static void of_many_wrappers(void **state) {
    SlabAllocator *a = *state;
    SlabMark m;
    EpochId e = epoch_open(a, NULL, EPOCH_SCOPE);
    SlabEpochStats s;
    for (int i = 0; i < 3000; i++) {
        EpochDomain *w = epoch_domain_wrap(a, e, false);
        assert_true(epoch_domain_mark(w, &m));
        assert_true(slab_free(a, epoch_domain_alloc(w, 1000)));
        epoch_domain_destroy(w);
    }
    assert_true(slab_stats_epoch(a, SLAB_ALL_CLASSES, e, &s));
    assert_true(s.slab_count <= 2);
    epoch_destroy(a, e);
}

static void *hands_over(void *domain) {
    assert_true(epoch_domain_enter(domain) && epoch_domain_exit(domain));
    assert_true(epoch_domain_hand_over(domain));
    return NULL;
}

/* A refused rewind has done nothing: no object more, no child or cleanup less. */
static void refusals_do_nothing(void **state) {
    SlabAllocator *a = *state;
    SlabMark m;
    EpochDomain *d = epoch_domain_create(a);
    assert_true(epoch_domain_mark(d, &m));
    order[0] = 0;
    EpochDomain *c = epoch_domain_create_child(d, NULL, 0);
    assert_true(epoch_domain_on_destroy(d, note, first_cleanup));
    assert_non_null(epoch_domain_alloc(d, 64));
    assert_true(epoch_domain_force_close(d)); /* no mark's place is there any more */
    errno = 0;
    assert_false(epoch_domain_rewind(d, m));
    assert_int_equal(errno, EINVAL);
    assert_string_equal(order, "");
    assert_ptr_equal(epoch_domain_parent(c), d);
    assert_int_equal(live(d, NULL), 1);
    epoch_domain_destroy(d);
    assert_string_equal(order, "1");
    /* The block is another thread's. */
    d = epoch_domain_create(a);
    assert_non_null(epoch_domain_alloc(d, 64));
    assert_true(epoch_domain_hand_over(d));
    (void)on_thread(hands_over, d);
    assert_true(epoch_domain_enter(d));
    assert_non_null(on_thread(allocates_by_epoch, d));
    uint64_t before = live(d, NULL);
    assert_false(epoch_domain_mark(d, &m));
    assert_int_equal(live(d, NULL), before);
    assert_true(epoch_domain_end(d));
}

/* As if so many large objects had come and gone. */
static void come_and_go(EpochDomain *d, uint64_t spans) {
    ts_epoch *epoch = ts_epoch_at_id(epoch_domain_epoch(d));
    ts_add_owned(&epoch->span_allocated, spans);
    ts_add_owned(&epoch->span_freed, spans);
}

static void mark_after(SlabAllocator *a, uint64_t spans, bool another) {
    EpochDomain *d = epoch_domain_create(a);
    char *old = epoch_domain_alloc(d, 50000), *last = old, *newer[4];
    memset(old, 3, 50000);
    come_and_go(d, spans);
    if (another) assert_non_null(last = epoch_domain_alloc(d, 50000));
    SlabMark m;
    assert_true(epoch_domain_mark(d, &m));
    for (int n = 0; n < 4; n++) assert_non_null(newer[n] = epoch_domain_alloc(d, 50000));
    sup_check_identities(a);
    assert_true(epoch_domain_rewind(d, m));
    assert_true(slab_owns(a, old) && slab_owns(a, last));
    assert_int_equal(old[49999], 3);
    for (int n = 0; n < 4; n++) assert_false(slab_owns(a, newer[n]));
    epoch_domain_destroy(d);
}

/* A rewind ends the large objects that came after the mark, and no other, for any count of them. */
static void after_many_large_objects(void **state) {
    for (unsigned bits = 14; bits < 64; bits++)
        for (unsigned before = 0; before < 6; before++) {
            mark_after(*state, ((uint64_t)1 << bits) - before, false);
            mark_after(*state, ((uint64_t)1 << bits) - before, true);
        }
}

static void poisoned(void **state) {
    (void)state;
    SlabOptions options = {.size = sizeof options, .poison_on_free = 1, .on_misuse = SLAB_MISUSE_ABORT};
    SlabAllocator *a = slab_allocator_create_ex(&options);
    EpochDomain *d = epoch_domain_create(a);
    SlabMark m;
    for (int round = 0; round < 50; round++) {
        assert_true(epoch_domain_mark(d, &m));
        for (int i = 0; i < 100; i++) memset(epoch_domain_alloc(d, 300), round, 300);
        assert_true(epoch_domain_rewind(d, m));
    }
    epoch_domain_destroy(d);
    slab_allocator_free(a);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        SUP_WITH_ALLOCATOR(in_one_slab),
        SUP_WITH_ALLOCATOR(many_slabs_and_large),
        SUP_WITH_ALLOCATOR(nested),
        SUP_WITH_ALLOCATOR(cleanups_and_children),
        SUP_WITH_ALLOCATOR(places_not_used_again),
        SUP_WITH_ALLOCATOR(refusals),
        SUP_WITH_ALLOCATOR(what_came_before_a_hand_over),
        SUP_WITH_ALLOCATOR(of_a_wrapped_epoch),
        SUP_WITH_ALLOCATOR(of_a_closed_epoch),
        SUP_WITH_ALLOCATOR(of_many_wrappers),
        SUP_WITH_ALLOCATOR(refusals_do_nothing),
        SUP_WITH_ALLOCATOR(after_many_large_objects),
        cmocka_unit_test(poisoned),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
