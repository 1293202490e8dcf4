/* Epochs: open, close, destroy, state, labels (base.h), the rolling epoch, and very many of them. */
#include "check.h"
#include "identities.h"
#include "unit.h"

#include <errno.h>
#include <string.h>

static void life_of_an_epoch(void **state) {
    SlabAllocator *allocator = *state;
    EpochId epoch = epoch_open(allocator, "life", 0);
    assert_int_equal(epoch_state(allocator, epoch), EPOCH_ACTIVE);
    void *object = slab_malloc_epoch(allocator, 100, epoch);
    assert_true(epoch_close(allocator, epoch));
    assert_false(epoch_close(allocator, epoch));
    assert_int_equal(epoch_state(allocator, epoch), EPOCH_CLOSING);
    errno = 0;
    assert_null(slab_malloc_epoch(allocator, 100, epoch));
    assert_int_equal(errno, ESTALE);
    assert_true(slab_owns(allocator, object));
    assert_true(slab_free(allocator, object));
    assert_int_equal(epoch_state(allocator, epoch), EPOCH_CLOSED);
    errno = 0;
    assert_null(slab_malloc_epoch(allocator, 100, epoch));
    assert_int_equal(errno, ESTALE);
    assert_false(epoch_close(allocator, epoch));
    sup_check_identities(allocator);
    sup_check_empty(allocator);
}

static void empty_epoch_closes_at_once(void **state) {
    SlabAllocator *allocator = *state;
    EpochId epoch = epoch_open(allocator, NULL, EPOCH_SCOPE);
    assert_true(epoch_close(allocator, epoch));
    assert_int_equal(epoch_state(allocator, epoch), EPOCH_CLOSED);
    sup_check_empty(allocator);
}

static void destroy_frees_everything(void **state) {
    enum { COUNT = 20000 };
    static void *objects[COUNT];
    SlabAllocator *allocator = *state;
    const unsigned kinds[] = {EPOCH_CHURN, EPOCH_SCOPE};
    for (size_t k = 0; k < 4; k++) {
        EpochId epoch = epoch_open(allocator, "destroy", kinds[k % 2]);
        EpochId bystander = epoch_open(allocator, NULL, kinds[k % 2]);
        unsigned char *kept = slab_malloc_epoch(allocator, 64, bystander);
        memset(kept, 0x3c, 64);
        for (int i = 0; i < COUNT; i++) {
            objects[i] = slab_malloc_epoch(allocator, (size_t)(i % 997), epoch);
            assert_non_null(objects[i]);
        }
        if (k >= 2) {
            assert_true(epoch_close(allocator, epoch));
        }
        assert_true(epoch_destroy(allocator, epoch));
        assert_false(epoch_destroy(allocator, epoch));
        assert_false(epoch_close(allocator, epoch));
        assert_int_equal(epoch_state(allocator, epoch), EPOCH_CLOSED);
        errno = 0;
        assert_null(slab_malloc_epoch(allocator, 8, epoch));
        assert_int_equal(errno, ESTALE);
        for (int i = 0; i < COUNT; i++) {
            assert_false(slab_owns(allocator, objects[i]));
            assert_false(slab_free(allocator, objects[i]));
        }
        assert_int_equal(sup_live_objects(allocator), 1);
        for (int i = 0; i < 64; i++) {
            assert_int_equal(kept[i], 0x3c);
        }
        assert_true(epoch_destroy(allocator, bystander));
        sup_check_identities(allocator);
        sup_check_empty(allocator);
    }
}

/* It stays the current one, and stale, until the next is opened. */
static void rolling_epoch_ended_by_hand(void **state) {
    SlabAllocator *allocator = *state;
    for (int k = 0; k < 2; k++) {
        EpochId epoch = epoch_current(allocator);
        void *object = slab_malloc(allocator, 64);
        assert_non_null(object);
        assert_true(k ? epoch_close(allocator, epoch) : epoch_destroy(allocator, epoch));
        errno = 0;
        assert_null(slab_malloc(allocator, 64));
        assert_int_equal(errno, ESTALE);
        assert_true(epoch_current(allocator) == epoch);
        assert_int_equal(slab_free(allocator, object), k);
        EpochId next = epoch_advance(allocator);
        assert_true(next != EPOCH_NONE && next != epoch);
        assert_int_equal(epoch_state(allocator, epoch), EPOCH_CLOSED);
        assert_non_null(object = slab_malloc(allocator, 64));
        assert_true(slab_free(allocator, object));
        sup_check_identities(allocator);
    }
}

static void rolling_epoch(void **state) {
    SlabAllocator *allocator = *state;
    EpochId first = epoch_current(allocator);
    assert_true(first != EPOCH_NONE);
    assert_true(epoch_current(allocator) == first);
    void *object = slab_malloc(allocator, 64);
    EpochId second = epoch_advance(allocator);
    assert_true(second != EPOCH_NONE && second != first);
    assert_true(epoch_current(allocator) == second);
    assert_int_equal(epoch_state(allocator, first), EPOCH_CLOSING);
    assert_int_equal(epoch_state(allocator, second), EPOCH_ACTIVE);
    assert_non_null(slab_malloc(allocator, 64));
    assert_true(slab_free(allocator, object));
    assert_int_equal(epoch_state(allocator, first), EPOCH_CLOSED);
    for (int i = 0; i < 1000; i++) {
        EpochId next = epoch_advance(allocator);
        assert_true(next != second);
        assert_non_null(slab_malloc(allocator, 48));
        assert_true(epoch_destroy(allocator, second));
        second = next;
    }
    assert_int_equal(sup_live_objects(allocator), 1);
    sup_check_identities(allocator);
}

static void bad_arguments(void **state) {
    SlabAllocator *allocator = *state;
    SlabAllocator *other = slab_allocator_create();
    const unsigned bad[] = {EPOCH_CHURN | EPOCH_SCOPE, EPOCH_DOMAIN_SHARED, 8u, ~0u};
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        errno = 0;
        assert_true(epoch_open(allocator, NULL, bad[i]) == EPOCH_NONE);
        assert_int_equal(errno, EINVAL);
    }
    EpochId foreign = epoch_open(other, NULL, 0);
    const EpochId unknown[] = {EPOCH_NONE, UINT64_MAX, foreign, foreign ^ (UINT64_C(1) << 63), foreign + 1000};
    for (size_t i = 0; i < sizeof unknown / sizeof unknown[0]; i++) {
        SlabEpochStats stats;
        errno = 0;
        assert_null(slab_malloc_epoch(allocator, 64, unknown[i]));
        assert_true(errno == EINVAL || (errno == ESTALE && unknown[i] != EPOCH_NONE));
        assert_false(epoch_close(allocator, unknown[i]));
        assert_false(epoch_destroy(allocator, unknown[i]));
        assert_int_equal(epoch_state(allocator, unknown[i]), EPOCH_CLOSED);
        assert_false(slab_epoch_set_label(allocator, unknown[i], "x"));
        assert_false(slab_stats_epoch(allocator, SLAB_ALL_CLASSES, unknown[i], &stats));
    }
    assert_int_equal(epoch_state(other, foreign), EPOCH_ACTIVE);
    slab_allocator_free(other);
}

static void check_label(SlabAllocator *allocator, const char *given, const char *kept) {
    SlabEpochStats stats;
    EpochId epoch = epoch_open(allocator, given, 0);
    assert_true(slab_stats_epoch(allocator, SLAB_ALL_CLASSES, epoch, &stats));
    assert_string_equal(stats.label, kept);
    assert_true(slab_epoch_set_label(allocator, epoch, "between"));
    assert_true(slab_epoch_set_label(allocator, epoch, given));
    assert_true(slab_stats_epoch(allocator, SLAB_ALL_CLASSES, epoch, &stats));
    assert_string_equal(stats.label, kept);
    assert_true(epoch_destroy(allocator, epoch));
}

static void labels(void **state) {
    SlabAllocator *allocator = *state;
    check_label(allocator, NULL, "");
    check_label(allocator, "", "");
    check_label(allocator, "request", "request");
    check_label(allocator, "exactly thirty-one bytes long..", "exactly thirty-one bytes long..");
    check_label(allocator, "exactly thirty-two bytes, longer", "exactly thirty-two bytes, longe");
    /* Cut at a character: 30 bytes and a character of two, three, four bytes. */
    check_label(allocator, "thirty bytes before the char..\xc3\xa9", "thirty bytes before the char..");
    check_label(allocator, "twenty-nine bytes before it..\xc3\xa9", "twenty-nine bytes before it..\xc3\xa9");
    check_label(allocator, "twenty-nine bytes before it..\xe2\x82\xac", "twenty-nine bytes before it..");
    check_label(allocator, "twenty-eight bytes before it\xf0\x9f\x98\x80", "twenty-eight bytes before it");
    check_label(allocator, "twenty-seven bytes before..\xf0\x9f\x98\x80",
                "twenty-seven bytes before..\xf0\x9f\x98\x80");
    check_label(allocator, "\xe2\x82\xac\xc3\xa9", "\xe2\x82\xac\xc3\xa9");
    check_label(allocator,
                "a\xff"
                "b",
                "a?b");
    check_label(allocator,
                "a\x80"
                "b",
                "a?b");
    check_label(allocator, "end\xc3", "end?");
}

/* A label with a broken character of several bytes ends up without an invalid byte. */
static void labels_are_always_utf8(void **state) {
    static const char *const bad[] = {"\xc0\xaf",         "\xed\xa0\x80",     "\xf5\x80\x80\x80",
                                      "\xe2\x82",         "\xf0\x9f\x98",     "\xe0\x80\xaf",
                                      "\xf0\x8f\xbf\xbf", "\xf4\x90\x80\x80", "\xed\xbf\xbf"};
    /* The first and last of each length, and the neighbours of the surrogates. */
    static const char *const good[] = {"\xc2\x80",     "\xdf\xbf",     "\xe0\xa0\x80",     "\xed\x9f\xbf",
                                       "\xee\x80\x80", "\xef\xbf\xbf", "\xf0\x90\x80\x80", "\xf4\x8f\xbf\xbf"};
    SlabAllocator *allocator = *state;
    EpochId epoch = epoch_open(allocator, NULL, 0);
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        SlabEpochStats stats;
        assert_true(slab_epoch_set_label(allocator, epoch, bad[i]));
        assert_true(slab_stats_epoch(allocator, SLAB_ALL_CLASSES, epoch, &stats));
        assert_true(stats.label[0] == '?');
        for (const char *at = stats.label; *at != '\0'; at++) {
            assert_int_equal(*at, '?');
        }
    }
    for (size_t i = 0; i < sizeof good / sizeof good[0]; i++) {
        check_label(allocator, good[i], good[i]);
    }
}

static void old_ids_after_a_million(void **state) {
    SlabAllocator *allocator = *state;
    enum { KEPT = 1000 };
    EpochId old[KEPT];
    const int opens = SUP_SCALED(1000000);
    int every = opens / KEPT;
    for (int i = 0; i < opens; i++) {
        EpochId epoch = epoch_open(allocator, NULL, i % 2 == 0 ? EPOCH_CHURN : EPOCH_SCOPE);
        assert_true(epoch != EPOCH_NONE);
        if (i % every == 0 && i / every < KEPT) {
            old[i / every] = epoch;
        }
        if (!epoch_destroy(allocator, epoch)) {
            fail_msg("epoch_destroy of opening %d", i);
        }
    }
    EpochId now = epoch_open(allocator, NULL, 0);
    for (int i = 0; i < KEPT; i++) {
        assert_true(old[i] != now);
        assert_true(i == 0 || old[i] != old[i - 1]);
        assert_int_equal(epoch_state(allocator, old[i]), EPOCH_CLOSED);
        assert_false(epoch_destroy(allocator, old[i]));
        errno = 0;
        assert_null(slab_malloc_epoch(allocator, 16, old[i]));
        assert_int_equal(errno, ESTALE);
    }
    sup_check_identities(allocator);
}

/* A hundred thousand open at once (20,000 where addresses have 32 bits: as many as units); the metadata of one that
   holds nothing is at most 256 bytes. */
static void very_many_open(void **state) {
    enum { MOST = sizeof(void *) < 8 ? 20000 : 100000 };
    static EpochId epochs[MOST];
    static void *objects[MOST / 100];
    static EpochId listed[MOST];
    SlabAllocator *allocator = *state;
    const size_t count = SUP_SCALED(MOST);
    SlabGlobalStats before;
    SlabGlobalStats after;
    assert_true(slab_stats_global(allocator, &before));
    for (size_t i = 0; i < count; i++) {
        epochs[i] = epoch_open(allocator, NULL, i % 2 == 0 ? EPOCH_CHURN : EPOCH_SCOPE);
        if (epochs[i] == EPOCH_NONE) {
            fail_msg("epoch_open number %zu: %s", i, strerror(errno));
        }
    }
    assert_true(slab_stats_global(allocator, &after));
    assert_int_equal(after.active_epoch_count - before.active_epoch_count, count);
    assert_true(after.metadata_bytes - before.metadata_bytes <= count * 256u + (1u << 20));
    assert_int_equal(slab_epochs(allocator, listed, MOST), count);
    for (size_t i = 0; i < count; i++) {
        assert_true(listed[i] == epochs[i]);
    }
    assert_int_equal(slab_epochs(allocator, NULL, 0), count);
    for (size_t i = 0; i < count; i += 100) {
        objects[i / 100] = slab_malloc_epoch(allocator, 64, epochs[i]);
        assert_non_null(objects[i / 100]);
    }
    for (size_t i = 0; i < count; i++) {
        if (i % 200 == 0) {
            assert_true(slab_free(allocator, objects[i / 100]));
        }
        if (!epoch_destroy(allocator, epochs[i])) {
            fail_msg("epoch_destroy number %zu", i);
        }
    }
    assert_int_equal(slab_epochs(allocator, NULL, 0), 0);
    sup_check_identities(allocator);
    sup_check_empty(allocator);
}

/* With a constant working set the committed memory does not move by a byte. */
static void no_drift(void **state) {
    SlabAllocator *allocator = *state;
    uint64_t committed = 0;
    for (int cycle = 0; cycle < 300; cycle++) {
        EpochId epoch = epoch_open(allocator, NULL, cycle % 2 == 0 ? EPOCH_CHURN : EPOCH_SCOPE);
        for (int i = 0; i < 500; i++) {
            assert_non_null(slab_malloc_epoch(allocator, (size_t)(i % 7) * 100, epoch));
        }
        assert_true(epoch_destroy(allocator, epoch));
        assert_int_equal(sup_live_objects(allocator), 0);
        if (cycle == 20) {
            committed = sup_committed_bytes(allocator);
        } else if (cycle > 20) {
            assert_int_equal(sup_committed_bytes(allocator), committed);
        }
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        SUP_WITH_ALLOCATOR(life_of_an_epoch),
        SUP_WITH_ALLOCATOR(empty_epoch_closes_at_once),
        SUP_WITH_ALLOCATOR(destroy_frees_everything),
        SUP_WITH_ALLOCATOR(rolling_epoch),
        SUP_WITH_ALLOCATOR(rolling_epoch_ended_by_hand),
        SUP_WITH_ALLOCATOR(bad_arguments),
        SUP_WITH_ALLOCATOR(labels),
        SUP_WITH_ALLOCATOR(labels_are_always_utf8),
        SUP_WITH_ALLOCATOR(old_ids_after_a_million),
        SUP_WITH_ALLOCATOR(very_many_open),
        SUP_WITH_ALLOCATOR(no_drift),
    };
    return cmocka_run_group_tests_name("api.epochs", tests, NULL, NULL);
}
