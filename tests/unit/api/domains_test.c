/* Domains on one thread: nesting, destroy, cleanups, reset, promote, wrap, force_close. */
#include "epoch/epoch.h"
#include "identities.h"
#include "unit.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

static void ambient_allocation_nests(void **state) {
    SlabAllocator *allocator = *state;
    EpochDomain *outer = epoch_domain_create(allocator);
    EpochDomain *inner = epoch_domain_create_ex(allocator, "inner", EPOCH_CHURN);
    assert_non_null(outer);
    assert_non_null(inner);
    assert_null(epoch_domain_current());
    assert_ptr_equal(epoch_domain_allocator(outer), allocator);
    assert_true(epoch_domain_epoch(outer) != epoch_domain_epoch(inner));
    assert_true(epoch_domain_enter(outer));
    void *in_outer = slab_alloc(100);
    assert_true(epoch_domain_enter(inner));
    void *in_inner = slab_alloc(100);
    assert_true(epoch_domain_enter(outer));
    assert_ptr_equal(epoch_domain_current(), outer);
    void *in_outer_again = slab_alloc(100);
    SlabEpochStats stats;
    assert_true(slab_stats_epoch(allocator, SLAB_ALL_CLASSES, epoch_domain_epoch(outer), &stats));
    assert_int_equal(stats.live_objects, 2);
    assert_true(stats.flags & EPOCH_SCOPE);
    assert_true(slab_stats_epoch(allocator, SLAB_ALL_CLASSES, epoch_domain_epoch(inner), &stats));
    assert_int_equal(stats.live_objects, 1);
    assert_string_equal(stats.label, "inner");
    assert_true(stats.flags & EPOCH_CHURN);
    /* Last in, first out. */
    errno = 0;
    assert_false(epoch_domain_exit(inner));
    assert_int_equal(errno, EINVAL);
    assert_true(epoch_domain_exit(outer));
    assert_ptr_equal(epoch_domain_current(), inner);
    assert_true(epoch_domain_exit(inner));
    assert_true(epoch_domain_exit(outer));
    assert_false(epoch_domain_exit(outer));
    assert_null(epoch_domain_current());
    epoch_domain_destroy(inner);
    assert_false(slab_owns(allocator, in_inner));
    assert_true(slab_owns(allocator, in_outer));
    epoch_domain_destroy(outer);
    assert_false(slab_owns(allocator, in_outer));
    assert_false(slab_free(allocator, in_outer_again));
    sup_check_identities(allocator);
    sup_check_empty(allocator);
}

static void deep_nesting(void **state) {
    enum { DEPTH = 3000 };
    EpochDomain *domain = epoch_domain_create(*state);
    for (int i = 0; i < DEPTH; i++) {
        assert_true(epoch_domain_enter(domain));
    }
    assert_non_null(slab_alloc(10));
    for (int i = 0; i < DEPTH; i++) {
        assert_true(epoch_domain_exit(domain));
    }
    assert_null(epoch_domain_current());
    for (int i = 0; i < DEPTH; i++) {
        assert_true(epoch_domain_enter(domain));
    }
    epoch_domain_destroy(domain);
    assert_null(epoch_domain_current());
}

static void outside_any_domain(void **state) {
    (void)state;
    SlabAllocator *allocator = slab_allocator_default();
    EpochDomain *domain = epoch_domain_create(NULL);
    assert_ptr_equal(epoch_domain_allocator(domain), allocator);
    epoch_domain_destroy(domain);
    SlabEpochStats before = {0};
    SlabEpochStats after = {0};
    assert_true(slab_stats_epoch(allocator, SLAB_ALL_CLASSES, epoch_current(allocator), &before));
    void *object = slab_alloc(33);
    assert_true(slab_stats_epoch(allocator, SLAB_ALL_CLASSES, epoch_current(allocator), &after));
    assert_int_equal(after.live_objects, before.live_objects + 1);
    assert_true(slab_free(allocator, object));
}

/* Destroyed while entered on several levels, with others between: it is left on all of them. */
static void destroy_while_entered(void **state) {
    SlabAllocator *allocator = *state;
    EpochDomain *kept = epoch_domain_create(allocator);
    EpochDomain *goes = epoch_domain_create(allocator);
    assert_true(epoch_domain_enter(kept));
    assert_true(epoch_domain_enter(goes));
    assert_true(epoch_domain_enter(kept));
    assert_true(epoch_domain_enter(goes));
    void *object = slab_alloc(64);
    epoch_domain_destroy(goes);
    assert_false(slab_owns(allocator, object));
    assert_ptr_equal(epoch_domain_current(), kept);
    assert_non_null(slab_alloc(64));
    assert_true(epoch_domain_exit(kept));
    assert_true(epoch_domain_exit(kept));
    assert_null(epoch_domain_current());
    epoch_domain_destroy(kept);
}

static void every_call_on_a_dead_domain(void **state) {
    SlabAllocator *allocator = *state;
    EpochDomain *dead = epoch_domain_create(allocator);
    void *object = slab_malloc(allocator, 64);
    epoch_domain_destroy(dead);
    epoch_domain_destroy(dead);
    epoch_domain_destroy(NULL);
    int not_one = 0;
    EpochDomain *bad[] = {dead, NULL, (EpochDomain *)(void *)&not_one, (EpochDomain *)(uintptr_t)-16};
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
#define REFUSED(call)                    \
    do {                                 \
        errno = 0;                       \
        assert_false(call);              \
        assert_int_equal(errno, EINVAL); \
    } while (0)
        REFUSED(epoch_domain_enter(bad[i]));
        REFUSED(epoch_domain_exit(bad[i]));
        REFUSED(epoch_domain_force_close(bad[i]));
        REFUSED(epoch_domain_reset(bad[i], 0));
        REFUSED(epoch_domain_on_destroy(bad[i], free, NULL));
        REFUSED(epoch_domain_hand_over(bad[i]));
        REFUSED(slab_promote(bad[i], object) != NULL);
#undef REFUSED
        assert_null(epoch_domain_allocator(bad[i]));
        assert_true(epoch_domain_epoch(bad[i]) == EPOCH_NONE);
        epoch_domain_destroy(bad[i]);
    }
    assert_true(slab_free(allocator, object));
    const unsigned flags[] = {EPOCH_CHURN | EPOCH_SCOPE, 32u, ~0u};
    for (size_t i = 0; i < sizeof flags / sizeof flags[0]; i++) {
        errno = 0;
        assert_null(epoch_domain_create_ex(allocator, "bad", flags[i]));
        assert_int_equal(errno, EINVAL);
    }
}

static void wrapping(void **state) {
    SlabAllocator *allocator = *state;
    EpochId epoch = epoch_open(allocator, NULL, 0);
    EpochDomain *view = epoch_domain_wrap(allocator, epoch, false);
    assert_true(epoch_domain_epoch(view) == epoch);
    assert_true(epoch_domain_enter(view));
    void *object = slab_alloc(200);
    errno = 0;
    assert_false(epoch_domain_reset(view, 0));
    assert_int_equal(errno, EINVAL);
    assert_true(epoch_domain_exit(view));
    epoch_domain_destroy(view);
    assert_true(slab_owns(allocator, object));
    assert_int_equal(epoch_state(allocator, epoch), EPOCH_ACTIVE);
    EpochDomain *owner = epoch_domain_wrap(allocator, epoch, true);
    assert_non_null(owner);
    assert_ptr_not_equal(owner, view);
    assert_true(epoch_domain_epoch(view) == EPOCH_NONE);
    epoch_domain_destroy(owner);
    assert_false(slab_owns(allocator, object));
    assert_int_equal(epoch_state(allocator, epoch), EPOCH_CLOSED);
    assert_false(epoch_destroy(allocator, epoch));
    assert_null(epoch_domain_wrap(NULL, epoch, false));
    /* Closed with an object and without, destroyed; and no epoch at all. */
    EpochId held = epoch_open(allocator, NULL, 0), empty = epoch_open(allocator, NULL, 0);
    assert_non_null(slab_malloc_epoch(allocator, 100, held));
    assert_true(epoch_close(allocator, held) && epoch_close(allocator, empty));
    EpochId never = held + ((uint64_t)1 << ts_epochs.index_bits << 20);
    const struct {
        EpochId epoch;
        int error;
    } cases[] = {{held, ESTALE}, {empty, ESTALE}, {epoch, ESTALE}, {never, EINVAL}, {EPOCH_NONE, EINVAL}};
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        errno = 0;
        assert_null(epoch_domain_wrap(allocator, cases[i].epoch, false));
        assert_int_equal(errno, cases[i].error);
    }
    assert_true(epoch_destroy(allocator, held));
}

/* An epoch has one domain at a time, whichever call made it. It has none once that has ended. */
static void wrapping_twice(void **state) {
    SlabAllocator *allocator = *state;
    enum { CREATED, SHARED, CHURN, DRAINS, CHILD, WRAPPED, WAYS };
    EpochDomain *parent = epoch_domain_create(allocator);
    for (int way = 0; way < WAYS; way++) {
        EpochId opened = epoch_open(allocator, NULL, EPOCH_SCOPE);
        EpochDomain *domain = way == CREATED  ? epoch_domain_create(allocator)
                              : way == SHARED ? epoch_domain_create_ex(allocator, "s", EPOCH_DOMAIN_SHARED)
                              : way == CHURN  ? epoch_domain_create_ex(allocator, "c", EPOCH_CHURN)
                              : way == DRAINS ? epoch_domain_create_ex(allocator, NULL, EPOCH_DOMAIN_DRAIN)
                              : way == CHILD  ? epoch_domain_create_child(parent, NULL, 0)
                                              : epoch_domain_wrap(allocator, opened, false);
        EpochId epoch = epoch_domain_epoch(domain);
        void *object = epoch_domain_alloc(domain, 100);
        for (int closes = 0; closes < 2; closes++) {
            errno = 0;
            assert_null(epoch_domain_wrap(allocator, epoch, closes));
            assert_int_equal(errno, EBUSY);
        }
        assert_true(slab_owns(allocator, object) && epoch_domain_epoch(domain) == epoch);
        epoch_domain_destroy(domain);
        errno = 0;
        EpochDomain *next = epoch_domain_wrap(allocator, epoch, true);
        assert_int_equal(next != NULL, way == WRAPPED);
        assert_int_equal(errno, way == WRAPPED ? 0 : ESTALE);
        epoch_domain_destroy(next);
        assert_int_equal(slab_free(allocator, object), way == DRAINS);
        assert_int_equal(epoch_destroy(allocator, opened), way != WRAPPED);
    }
    epoch_domain_destroy(parent);
    /* In an entry that had none in its last use. */
    EpochId plain = epoch_open(allocator, NULL, EPOCH_SCOPE);
    assert_non_null(slab_malloc_epoch(allocator, 100, plain));
    assert_true(epoch_destroy(allocator, plain));
    EpochDomain *usual = epoch_domain_create(allocator);
    EpochId epoch = epoch_domain_epoch(usual);
    assert_int_equal(ts_table_index(&ts_epochs, epoch), ts_table_index(&ts_epochs, plain));
    errno = 0;
    assert_null(epoch_domain_wrap(allocator, epoch, true));
    assert_int_equal(errno, EBUSY);
    epoch_domain_destroy(usual);
    sup_check_empty(allocator);
}

struct trail {
    int order[8];
    int count;
    SlabAllocator *allocator;
    EpochDomain *domain;
    unsigned char *object; /* of the domain: alive while the cleanups run */
    bool good;
};

struct step {
    struct trail *trail;
    int number;
};

static void note_step(void *argument) {
    struct step *step = argument;
    struct trail *trail = step->trail;
    trail->order[trail->count++] = step->number;
    trail->good &= trail->object[0] == 0x77 && slab_owns(trail->allocator, trail->object);
    unsigned char *more = slab_malloc_epoch(trail->allocator, 500, epoch_domain_epoch(trail->domain));
    trail->good &= more != NULL;
    if (more != NULL) {
        memset(more, 0x11, 500);
    }
    errno = 0;
    epoch_domain_destroy(trail->domain);
    trail->good &= errno == EPERM;
}

static void cleanups_newest_first(void **state) {
    SlabAllocator *allocator = *state;
    EpochDomain *domain = epoch_domain_create(allocator);
    struct trail trail = {.allocator = allocator, .domain = domain, .good = true};
    struct step steps[4];
    trail.object = slab_malloc_epoch(allocator, 40, epoch_domain_epoch(domain));
    memset(trail.object, 0x77, 40);
    for (int i = 0; i < 4; i++) {
        steps[i] = (struct step){&trail, i};
        assert_true(epoch_domain_on_destroy(domain, note_step, &steps[i]));
    }
    assert_true(epoch_domain_reset(domain, 1u << 20));
    assert_int_equal(trail.count, 4);
    assert_true(trail.good);
    for (int i = 0; i < 4; i++) {
        assert_int_equal(trail.order[i], 3 - i);
    }
    assert_int_equal(sup_live_objects(allocator), 0);
    /* They ran: the destroy runs only cleanups registered since. */
    trail.count = 0;
    trail.object = slab_malloc_epoch(allocator, 40, epoch_domain_epoch(domain));
    memset(trail.object, 0x77, 40);
    assert_true(epoch_domain_on_destroy(domain, note_step, &steps[2]));
    assert_true(epoch_domain_on_destroy(domain, note_step, &steps[1]));
    epoch_domain_destroy(domain);
    assert_int_equal(trail.count, 2);
    assert_int_equal(trail.order[0], 1);
    assert_int_equal(trail.order[1], 2);
    assert_true(trail.good);
    sup_check_identities(allocator);
    sup_check_empty(allocator);
}

static void reset_keeps_usable_and_bounded(void **state) {
    SlabAllocator *allocator = *state;
    EpochDomain *domain = epoch_domain_create(allocator);
    EpochId epoch = epoch_domain_epoch(domain);
    const size_t keep = 256u << 10;
    assert_true(epoch_domain_enter(domain));
    void *last = NULL;
    for (int round = 0; round < 40; round++) {
        for (int i = 0; i < 2000; i++) {
            last = slab_alloc(1000);
            assert_non_null(last);
        }
        SlabHandle handle = slab_handle_of(allocator, last);
        assert_true(epoch_domain_reset(domain, round % 2 == 0 ? keep : 0));
        assert_ptr_equal(epoch_domain_current(), domain);
        assert_true(epoch_domain_epoch(domain) == epoch);
        assert_false(slab_owns(allocator, last));
        assert_null(slab_handle_get(allocator, handle));
        assert_int_equal(sup_live_objects(allocator), 0);
        assert_true(sup_committed_bytes(allocator) <= keep);
        sup_check_identities(allocator);
    }
    assert_non_null(slab_alloc(10));
    epoch_domain_destroy(domain);
    sup_check_empty(allocator);
}

/* Of no size, of one near the end of a slab, and of sizes of which only some bits would be left. */
static void sizes_at_the_edges(void **state) {
    SlabAllocator *allocator = *state;
    EpochDomain *domain = epoch_domain_create(allocator);
    assert_true(epoch_domain_enter(domain));
    assert_non_null(slab_alloc(16)); /* there is a slab */
    char *one = slab_alloc(0), *other = slab_alloc(0), *third = slab_alloc(16);
    assert_true(one && other && third && one != other && other != third);
    assert_true(slab_usable_size(allocator, one) >= 1);
    const size_t sizes[] = {16384 - 64, 16384, 16385, 100000};
    for (size_t i = 0; i < sizeof sizes / sizeof sizes[0]; i++) {
        char *object = slab_alloc(sizes[i]), *next = slab_alloc(16);
        assert_true(object && next);
        assert_true(slab_usable_size(allocator, object) >= sizes[i]);
        memset(object, 0x5a, sizes[i]);
        assert_true(slab_free(allocator, next));
        assert_true(slab_free(allocator, object));
    }
    for (unsigned bit = 45; bit < sizeof(size_t) * 8; bit++) {
        for (size_t more = 0; more <= 64; more += 16) {
            assert_null(slab_alloc(((size_t)1 << bit) + more));
            assert_int_equal(errno, ENOMEM);
        }
    }
    for (size_t less = 0; less < 64; less++) assert_null(slab_alloc(SIZE_MAX - less));
    epoch_domain_destroy(domain);
    sup_check_empty(allocator);
}

static void promotion(void **state) {
    SlabAllocator *allocator = *state;
    SlabAllocator *other = slab_allocator_create();
    EpochDomain *outer = epoch_domain_create(allocator);
    EpochDomain *inner = epoch_domain_create(allocator);
    const size_t sizes[] = {0, 1, 100, 4096, 60000};
    for (size_t i = 0; i < 5; i++) {
        assert_true(epoch_domain_enter(inner));
        unsigned char *object = slab_alloc(sizes[i]);
        memset(object, (int)i + 1, sizes[i]);
        SlabHandle handle = slab_handle_of(allocator, object);
        unsigned char *moved = slab_promote(outer, object);
        assert_non_null(moved);
        assert_null(slab_handle_get(allocator, handle));
        assert_true(epoch_domain_exit(inner));
        assert_true(epoch_domain_reset(inner, 0));
        assert_true(slab_owns(allocator, moved));
        assert_true(slab_usable_size(allocator, moved) >= sizes[i]);
        for (size_t b = 0; b < sizes[i]; b++) {
            assert_int_equal(moved[b], i + 1);
        }
    }
    assert_int_equal(sup_live_objects(allocator), 5);
    void *foreign = slab_malloc(other, 64);
    char stack[32];
    errno = 0;
    assert_null(slab_promote(outer, foreign));
    assert_int_equal(errno, EINVAL);
    errno = 0;
    assert_null(slab_promote(outer, stack));
    assert_int_equal(errno, EINVAL);
    assert_true(slab_owns(other, foreign));
    void *object = slab_malloc(allocator, 64);
    assert_true(epoch_domain_force_close(outer));
    errno = 0;
    assert_null(slab_promote(outer, object));
    assert_int_equal(errno, ESTALE);
    assert_true(slab_owns(allocator, object));
    epoch_domain_destroy(inner);
    epoch_domain_destroy(outer);
    slab_allocator_free(other);
}

static void forced_close(void **state) {
    SlabAllocator *allocator = *state;
    EpochDomain *domain = epoch_domain_create(allocator);
    assert_true(epoch_domain_enter(domain));
    void *object = slab_alloc(64);
    assert_true(epoch_domain_force_close(domain));
    assert_false(epoch_domain_force_close(domain));
    errno = 0;
    assert_null(slab_alloc(64));
    assert_int_equal(errno, ESTALE);
    errno = 0;
    assert_false(epoch_domain_enter(domain));
    assert_int_equal(errno, ESTALE);
    errno = 0;
    assert_false(epoch_domain_reset(domain, 0));
    assert_int_equal(errno, ESTALE);
    assert_true(slab_owns(allocator, object));
    assert_true(epoch_domain_exit(domain));
    epoch_domain_destroy(domain);
    assert_false(slab_owns(allocator, object));
}

/* A scope that is wrapped, all of it this thread's, ends with its domain only if that was asked for. */
static void wrapped_scope(void **state) {
    SlabAllocator *allocator = *state;
    for (int ends = 0; ends < 2; ends++) {
        EpochId epoch = epoch_open(allocator, NULL, EPOCH_SCOPE);
        EpochDomain *domain = epoch_domain_wrap(allocator, epoch, ends);
        assert_true(epoch_domain_enter(domain));
        void *object = slab_alloc(64);
        assert_true(slab_owns(allocator, object));
        assert_true(epoch_domain_exit(domain));
        epoch_domain_destroy(domain);
        assert_int_equal(slab_owns(allocator, object), !ends);
        assert_int_equal(epoch_state(allocator, epoch), ends ? EPOCH_CLOSED : EPOCH_ACTIVE);
        assert_int_equal(epoch_destroy(allocator, epoch), !ends);
    }
}

/* A domain that drains closes its epoch once: not if that was closed before it. */
static void drains_once(void **state) {
    SlabAllocator *allocator = *state;
    for (unsigned closed = 0; closed < 2; closed++) {
        EpochDomain *domain = epoch_domain_create_ex(allocator, NULL, EPOCH_DOMAIN_DRAIN);
        EpochId epoch = epoch_domain_epoch(domain);
        void *object = epoch_domain_alloc(domain, 100);
        SlabClassStats before, after;
        assert_true(slab_stats_class(allocator, 0, &before));
        if (closed) assert_true(epoch_domain_force_close(domain));
        epoch_domain_destroy(domain);
        assert_int_equal(epoch_state(allocator, epoch), EPOCH_CLOSING);
        assert_true(slab_stats_class(allocator, 0, &after));
        assert_int_equal(after.epoch_close_calls - before.epoch_close_calls, 1);
        assert_true(slab_free(allocator, object));
        assert_int_equal(epoch_state(allocator, epoch), EPOCH_CLOSED);
    }
}

/* Its epoch has ended, and the entry of that is another's: that one stays. */
static void destroyed_after_its_epoch(void **state) {
    SlabAllocator *allocator = *state;
    EpochDomain *domain = epoch_domain_create(allocator);
    assert_true(epoch_destroy(allocator, epoch_domain_epoch(domain)));
    EpochId other = epoch_open(allocator, NULL, EPOCH_SCOPE);
    EpochId ended = epoch_domain_epoch(domain);
    assert_int_equal(ts_table_index(&ts_epochs, other), ts_table_index(&ts_epochs, ended));
    assert_int_not_equal(other, ended);
    void *object = slab_malloc_epoch(allocator, 64, other);
    epoch_domain_destroy(domain);
    assert_int_equal(epoch_domain_epoch(domain), EPOCH_NONE);
    assert_true(slab_owns(allocator, object));
    assert_true(epoch_destroy(allocator, other));
}

/* The allocator goes while its domain is entered: the calls that follow get an answer. */
static void allocator_freed_under_a_domain(void **state) {
    (void)state;
    SlabAllocator *allocator = slab_allocator_create();
    EpochDomain *domain = epoch_domain_create(allocator);
    assert_true(epoch_domain_enter(domain));
    void *object = slab_alloc(64);
    slab_allocator_free(allocator);
    assert_false(slab_owns(allocator, object));
    assert_true(epoch_domain_epoch(domain) == EPOCH_NONE);
    assert_false(epoch_domain_enter(domain));
    void *after = slab_alloc(64);
    assert_true(after == NULL || slab_owns(slab_allocator_default(), after));
    (void)epoch_domain_exit(domain);
    epoch_domain_destroy(domain);
    void *later = slab_alloc(64);
    assert_true(slab_owns(slab_allocator_default(), later));
    assert_null(epoch_domain_current());
    assert_true(slab_free(slab_allocator_default(), later));
    assert_true(after == NULL || slab_free(slab_allocator_default(), after));
}

int main(void) {
    const struct CMUnitTest tests[] = {
        SUP_WITH_ALLOCATOR(ambient_allocation_nests),
        SUP_WITH_ALLOCATOR(deep_nesting),
        cmocka_unit_test(outside_any_domain),
        SUP_WITH_ALLOCATOR(sizes_at_the_edges),
        SUP_WITH_ALLOCATOR(destroy_while_entered),
        SUP_WITH_ALLOCATOR(every_call_on_a_dead_domain),
        SUP_WITH_ALLOCATOR(wrapping),
        SUP_WITH_ALLOCATOR(wrapping_twice),
        SUP_WITH_ALLOCATOR(drains_once),
        SUP_WITH_ALLOCATOR(cleanups_newest_first),
        SUP_WITH_ALLOCATOR(reset_keeps_usable_and_bounded),
        SUP_WITH_ALLOCATOR(promotion),
        SUP_WITH_ALLOCATOR(forced_close),
        SUP_WITH_ALLOCATOR(wrapped_scope),
        SUP_WITH_ALLOCATOR(destroyed_after_its_epoch),
        cmocka_unit_test(allocator_freed_under_a_domain),
    };
    return cmocka_run_group_tests_name("api.domains", tests, NULL, NULL);
}
