/* The alignment of an object that moves: promote keeps the requested one, realloc 16. */
#include "unit.h"

#include "pattern.h"

#include <errno.h>
#include <string.h>

#define KIB ((size_t)1 << 10)

static const size_t sizes[] = {1, 24, 64, 100, 1000, 4000, 5000, 8192, 20000};
#define SIZES (sizeof sizes / sizeof *sizes)

static SlabAllocator *make(int guards) {
    SlabOptions options = {.size = sizeof options, .guard_spans = guards};
    SlabAllocator *a = slab_allocator_create_ex(&options);
    assert_non_null(a);
    return a;
}

/* First: nobody has asked for more yet, so objects lie as close in their next place as in the first. */
static void nothing_is_kept_that_nobody_asked_for(void **state) {
    (void)state;
    SlabAllocator *a = make(0);
    EpochDomain *from = epoch_domain_create(a), *to = epoch_domain_create(a);
    assert_true(from != NULL && to != NULL);
    char *before = NULL;
    (void)slab_malloc_epoch(a, 16, epoch_domain_epoch(to)); /* other places than the first ones have */
    for (unsigned i = 0; i < 50; i++) {
        void *p = slab_malloc_epoch(a, 48, epoch_domain_epoch(from));
        char *q = slab_promote(to, p);
        assert_non_null(q);
        assert_true(before == NULL || q == before + 48);
        before = q;
    }
    epoch_domain_destroy(from);
    epoch_domain_destroy(to);
    slab_allocator_free(a);
}

static void promote_all(SlabAllocator *a, EpochId from, EpochDomain *to, size_t most) {
    for (size_t align = 32; align <= most; align *= 2) {
        for (unsigned i = 0; i < SIZES; i++) {
            (void)slab_malloc_epoch(a, 16, epoch_domain_epoch(to)); /* the next place is no round one */
            char *p = slab_aligned_epoch(a, align, sizes[i], from);
            assert_non_null(p);
            sup_pattern_fill(p, sizes[i], i);
            char *q = slab_promote(to, p);
            assert_non_null(q);
            if ((uintptr_t)q % align != 0) {
                fail_msg("%zu bytes aligned to %zu are at %p", sizes[i], align, (void *)q);
            }
            assert_true(sup_pattern_check(q, sizes[i], i));
            assert_false(slab_owns(a, p));
            assert_true(slab_owns(a, q));
        }
    }
}

/* From each kind of epoch into each, and on from there. */
static void promote_keeps_what_was_asked_for(void **state) {
    (void)state;
    for (int guards = 0; guards < 2; guards++) {
        SlabAllocator *a = make(guards);
        for (unsigned from = EPOCH_CHURN; from <= EPOCH_SCOPE; from++) {
            for (unsigned to = EPOCH_CHURN; to <= EPOCH_SCOPE; to++) {
                EpochId epoch = epoch_open(a, NULL, from);
                EpochDomain *outer = epoch_domain_create_ex(a, NULL, to);
                assert_true(epoch != EPOCH_NONE && outer != NULL);
                promote_all(a, epoch, outer, 64 * KIB);
                epoch_domain_destroy(outer);
                assert_true(epoch_destroy(a, epoch));
            }
        }
        slab_allocator_free(a);
    }
}

/* By the call that names no allocator, whose usual case has a path of its own: the first time, too. */
static void asked_for_in_a_domain(void **state) {
    (void)state;
    SlabAllocator *a = make(0);
    for (size_t align = 32; align <= 512 * KIB; align *= 2) {
        EpochDomain *inner = epoch_domain_create(a), *outer = epoch_domain_create(a);
        assert_true(inner != NULL && outer != NULL && epoch_domain_enter(inner));
        assert_non_null(slab_alloc(align <= 2048 ? align : 16)); /* the next place is right as it is */
        for (unsigned i = 0; i < 3; i++) {
            (void)slab_malloc_epoch(a, 16, epoch_domain_epoch(outer));
            void *p = slab_alloc_aligned(align, 80), *q = slab_promote(outer, p);
            assert_true(p != NULL && q != NULL);
            assert_int_equal((uintptr_t)q % align, 0);
        }
        epoch_domain_destroy(inner);
        epoch_domain_destroy(outer);
    }
    slab_allocator_free(a);
}

static void realloc_keeps_16(void **state) {
    (void)state;
    SlabAllocator *a = make(0);
    for (unsigned kind = EPOCH_CHURN; kind <= EPOCH_SCOPE; kind++) {
        EpochId epoch = epoch_open(a, NULL, kind);
        for (size_t align = 32; align <= 4096; align *= 2) {
            char *p = slab_aligned_epoch(a, align, 100, epoch), *q = slab_realloc(a, p, 90);
            assert_int_equal((uintptr_t)q % 16, 0);
            (void)slab_malloc_epoch(a, 16, epoch);
            q = slab_realloc(a, q, 3000);
            assert_non_null(q);
            assert_int_equal((uintptr_t)q % 16, 0);
        }
        assert_true(epoch_destroy(a, epoch));
    }
    slab_allocator_free(a);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(nothing_is_kept_that_nobody_asked_for), /* first */
        cmocka_unit_test(asked_for_in_a_domain),
        cmocka_unit_test(promote_keeps_what_was_asked_for),
        cmocka_unit_test(realloc_keeps_16),
    };
    return cmocka_run_group_tests_name("api.alignment", tests, NULL, NULL);
}
