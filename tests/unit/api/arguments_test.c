/*
 * Every function with an allocator, epoch, domain or handle that is none: NULL, ended, of another allocator, garbage.
 * The answer is the one that means "no", with errno where the header says so, and nothing changes.
 */
#include "identities.h"
#include "unit.h"

#include <errno.h>
#include <string.h>

static void none_of_these_is_an_allocator(void **state) {
    (void)state;
    SlabAllocator *ended = slab_allocator_create();
    slab_allocator_free(ended);
    SlabAllocator *const wrong[] = {NULL, ended, (SlabAllocator *)(uintptr_t)12345, (SlabAllocator *)UINTPTR_MAX};
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        SlabAllocator *a = wrong[i];
        SlabGlobalStats global;
        SlabClassStats cls;
        SlabEpochStats epoch;
        PerfCounters perf;
        SlabHandle handle = 1;
        int object = 0;
        char text[8] = "x";
        slab_allocator_free(a);
        errno = 0;
        assert_null(slab_malloc(a, 10));
        assert_int_equal(errno, EINVAL);
        assert_null(slab_malloc_epoch(a, 10, 5));
        assert_null(slab_calloc_epoch(a, 1, 10, 5));
        assert_null(slab_calloc_epoch(a, 100, 1000, 5));
        assert_null(slab_aligned_epoch(a, 64, 10, 5));
        assert_null(alloc_obj_epoch(a, 10, 5, &handle));
        assert_int_equal(handle, SLAB_HANDLE_NONE);
        assert_null(slab_realloc(a, &object, 10));
        assert_false(slab_free(a, &object));
        assert_int_equal(slab_usable_size(a, &object), 0);
        assert_false(slab_owns(a, &object));
        assert_false(free_obj(a, 0x123456789));
        assert_null(slab_handle_get(a, 0x123456789));
        assert_int_equal(slab_handle_of(a, &object), SLAB_HANDLE_NONE);
        assert_int_equal(epoch_current(a), EPOCH_NONE);
        assert_int_equal(epoch_advance(a), EPOCH_NONE);
        assert_int_equal(epoch_open(a, "x", 0), EPOCH_NONE);
        assert_false(epoch_close(a, 5));
        assert_false(epoch_destroy(a, 5));
        assert_int_equal(epoch_state(a, 5), EPOCH_CLOSED);
        assert_false(slab_epoch_set_label(a, 5, "x"));
        assert_false(slab_reserve(a, 100));
        assert_int_equal(slab_trim(a), 0);
        assert_false(slab_set_budget(a, 100));
        assert_false(slab_stats_global(a, &global));
        assert_false(slab_stats_class(a, 0, &cls));
        assert_false(slab_stats_epoch(a, 0, 5, &epoch));
        assert_false(get_perf_counters(a, 0, &perf));
        assert_int_equal(slab_epochs(a, NULL, 0), 0);
        assert_int_equal(slab_stats_json(a, text, sizeof text), 0);
        assert_string_equal(text, "");
        if (a != NULL) {
            assert_null(epoch_domain_create(a));
            assert_null(epoch_domain_create_ex(a, "x", 0));
            assert_null(epoch_domain_wrap(a, 5, true));
        }
    }
}

static void none_of_these_is_an_epoch(void **state) {
    SlabAllocator *a = *state, *b = slab_allocator_create();
    EpochId ended = epoch_open(a, NULL, 0), others = epoch_open(b, NULL, 0);
    SlabEpochStats stats;
    assert_true(epoch_destroy(a, ended));
    const EpochId wrong[] = {EPOCH_NONE, ended, others, 1, UINT64_MAX, 77};
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        SlabHandle handle;
        assert_null(slab_malloc_epoch(a, 10, wrong[i]));
        assert_null(slab_malloc_epoch(a, 100000, wrong[i]));
        assert_null(slab_aligned_epoch(a, 4096, 10, wrong[i]));
        assert_null(slab_calloc_epoch(a, 10, 1000, wrong[i]));
        assert_null(alloc_obj_epoch(a, 10, wrong[i], &handle));
        assert_false(epoch_close(a, wrong[i]));
        assert_false(epoch_destroy(a, wrong[i]));
        assert_int_equal(epoch_state(a, wrong[i]), EPOCH_CLOSED);
        assert_false(slab_epoch_set_label(a, wrong[i], "x"));
        bool known = wrong[i] == ended; /* to statistics */
        assert_int_equal(slab_stats_epoch(a, SLAB_ALL_CLASSES, wrong[i], &stats), known);
        assert_null(epoch_domain_wrap(a, wrong[i], false));
    }
    assert_null(alloc_obj_epoch(a, 10, others, NULL));
    assert_int_equal(epoch_state(b, others), EPOCH_ACTIVE);
    assert_int_equal(epoch_open(a, NULL, EPOCH_CHURN | EPOCH_SCOPE), EPOCH_NONE);
    assert_int_equal(errno, EINVAL);
    assert_int_equal(epoch_open(a, NULL, 8), EPOCH_NONE);
    /* Closed and still there: no objects, no domain, no second close. */
    EpochId closing = epoch_open(a, NULL, 0);
    void *object = slab_malloc_epoch(a, 10, closing);
    assert_true(epoch_close(a, closing));
    assert_false(epoch_close(a, closing));
    errno = 0;
    assert_null(epoch_domain_wrap(a, closing, true));
    assert_int_equal(errno, ESTALE);
    errno = 0;
    assert_null(slab_malloc_epoch(a, 100000, closing));
    assert_int_equal(errno, ESTALE);
    assert_int_equal(epoch_state(a, closing), EPOCH_CLOSING);
    assert_true(slab_free(a, object));
    slab_allocator_free(b);
    sup_check_identities(a);
}

static void never(void *argument) { (void)argument; }

static void none_of_these_is_a_domain(void **state) {
    SlabAllocator *a = *state;
    EpochDomain *ended = epoch_domain_create(a);
    epoch_domain_destroy(ended);
    EpochDomain *const wrong[] = {NULL, ended, (EpochDomain *)(uintptr_t)3, (EpochDomain *)UINTPTR_MAX};
    void *object = slab_malloc(a, 10);
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        assert_false(epoch_domain_enter(wrong[i]));
        assert_false(epoch_domain_exit(wrong[i]));
        epoch_domain_destroy(wrong[i]);
        assert_false(epoch_domain_force_close(wrong[i]));
        assert_false(epoch_domain_reset(wrong[i], 0));
        assert_false(epoch_domain_on_destroy(wrong[i], never, NULL));
        assert_false(epoch_domain_hand_over(wrong[i]));
        assert_null(epoch_domain_allocator(wrong[i]));
        assert_int_equal(epoch_domain_epoch(wrong[i]), EPOCH_NONE);
        assert_null(slab_promote(wrong[i], object));
    }
    assert_null(epoch_domain_create_ex(a, NULL, 1u << 20));
    assert_null(epoch_domain_create_ex(a, NULL, EPOCH_CHURN | EPOCH_SCOPE));
    EpochDomain *domain = epoch_domain_create(a);
    assert_false(epoch_domain_on_destroy(domain, NULL, NULL));
    assert_null(slab_promote(domain, &domain));
    assert_true(epoch_domain_force_close(domain));
    assert_false(epoch_domain_force_close(domain));
    errno = 0;
    assert_false(epoch_domain_enter(domain));
    assert_int_equal(errno, ESTALE);
    assert_false(epoch_domain_reset(domain, 0));
    epoch_domain_destroy(domain);
    /* A domain that wraps an epoch of the program's cannot be emptied. */
    EpochId epoch = epoch_open(a, NULL, 0);
    EpochDomain *wrap = epoch_domain_wrap(a, epoch, false);
    assert_false(epoch_domain_reset(wrap, 0));
    epoch_domain_destroy(wrap);
    assert_int_equal(epoch_state(a, epoch), EPOCH_ACTIVE);
    assert_true(slab_free(a, object));
}

/* More than the address space of the region; its number of units fits in 32 bits. */
#define MORE_THAN_THERE_IS ((size_t)(SIZE_MAX > UINT32_MAX ? UINT64_C(1) << 45 : UINT64_C(1) << 30))

static void sizes_that_cannot_be(void **state) {
    SlabAllocator *a = *state;
    EpochId epoch = epoch_open(a, NULL, 0);
    const size_t sizes[] = {SIZE_MAX, SIZE_MAX - 15, SIZE_MAX / 2 + 1, (size_t)PTRDIFF_MAX, MORE_THAN_THERE_IS};
    void *object = slab_malloc_epoch(a, 100, epoch);
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
        errno = 0;
        assert_null(slab_malloc_epoch(a, sizes[i], epoch));
        assert_int_equal(errno, ENOMEM);
        assert_null(slab_malloc(a, sizes[i]));
        assert_null(slab_alloc(sizes[i]));
        errno = 0;
        assert_null(slab_realloc(a, object, sizes[i]));
        assert_int_equal(errno, ENOMEM);
        assert_null(slab_aligned_epoch(a, 1 << 20, sizes[i], epoch));
        assert_null(slab_calloc_epoch(a, sizes[i], 3, epoch));
    }
    errno = 0;
    assert_null(slab_aligned_epoch(a, 48, 10, epoch));
    assert_int_equal(errno, EINVAL);
    assert_null(slab_aligned_epoch(a, 0, 10, epoch));
    errno = 0;
    assert_null(slab_aligned_epoch(a, MORE_THAN_THERE_IS, 10, epoch));
    assert_int_equal(errno, ENOMEM);
    assert_true(slab_owns(a, object) && slab_free(a, object));
    sup_check_identities(a);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(none_of_these_is_an_allocator),
        SUP_WITH_ALLOCATOR(none_of_these_is_an_epoch),
        SUP_WITH_ALLOCATOR(none_of_these_is_a_domain),
        SUP_WITH_ALLOCATOR(sizes_that_cannot_be),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
