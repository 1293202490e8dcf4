/* EPOCH_DOMAIN_CAPTURE without a malloc: the core tells where the calling thread's malloc is to allocate. */
#include "unit.h"

#include "api/api.h"

#include <errno.h>
#include <pthread.h>

static _Thread_local SlabAllocator *now_allocator;
static _Thread_local EpochId now_epoch;
static _Thread_local unsigned changes;

static void changed(SlabAllocator *allocator, EpochId epoch) {
    now_allocator = allocator;
    now_epoch = epoch;
    changes++;
}

/* Before there is somebody to tell. */
static void test_not_supported(void **state) {
    (void)state;
    SlabAllocator *a = slab_allocator_create();
    EpochDomain *parent = epoch_domain_create(a);
    errno = 0;
    assert_null(epoch_domain_create_ex(a, NULL, EPOCH_DOMAIN_CAPTURE));
    assert_int_equal(errno, ENOTSUP);
    errno = 0;
    assert_null(epoch_domain_create_child(parent, NULL, EPOCH_DOMAIN_CAPTURE));
    assert_int_equal(errno, ENOTSUP);
    slab_allocator_free(a);
    ts_private_capture(changed);
}

static void assert_in(const EpochDomain *d) {
    assert_ptr_equal(now_allocator, epoch_domain_allocator(d));
    assert_int_equal(now_epoch, d ? epoch_domain_epoch(d) : EPOCH_NONE);
}

static void test_innermost(void **state) {
    (void)state;
    SlabAllocator *a = slab_allocator_create();
    for (unsigned kind = 0; kind <= EPOCH_SCOPE; kind++) {
        EpochDomain *outer = epoch_domain_create_ex(a, "outer", EPOCH_DOMAIN_CAPTURE | kind);
        EpochDomain *plain = epoch_domain_create(a);
        EpochDomain *inner = epoch_domain_create_child(outer, "inner", EPOCH_DOMAIN_CAPTURE | kind);
        assert_non_null(outer);
        assert_non_null(inner);
        for (unsigned twice = 0; twice < 2; twice++) {
            assert_true(epoch_domain_enter(outer));
            assert_in(outer);
            unsigned before = changes;
            assert_true(epoch_domain_enter(plain));
            assert_int_equal(changes, before);
            assert_true(epoch_domain_enter(inner));
            assert_in(inner);
            assert_true(epoch_domain_enter(inner));
            assert_true(epoch_domain_exit(inner));
            assert_in(inner);
            assert_true(epoch_domain_exit(inner));
            assert_in(outer);
            assert_true(epoch_domain_exit(plain));
            assert_true(epoch_domain_exit(outer));
            assert_in(NULL);
        }
        /* Ended while the thread is inside of it, on two levels. */
        assert_true(epoch_domain_enter(outer));
        assert_true(epoch_domain_enter(inner));
        assert_true(epoch_domain_enter(plain));
        assert_true(epoch_domain_enter(inner));
        epoch_domain_destroy(inner);
        assert_in(outer);
        epoch_domain_destroy(outer);
        assert_in(NULL);
        assert_true(epoch_domain_exit(plain));
        epoch_domain_destroy(plain);
    }
    slab_allocator_free(a);
}

/* The entry's next domain is another, and captures only if it is asked to. */
static void test_entry_used_again(void **state) {
    (void)state;
    SlabAllocator *a = slab_allocator_create();
    for (unsigned i = 0; i < 100; i++) {
        EpochDomain *d = epoch_domain_create_ex(a, NULL, i % 2 ? EPOCH_DOMAIN_CAPTURE : 0);
        unsigned before = changes;
        assert_true(epoch_domain_enter(d));
        assert_int_equal(changes, before + i % 2);
        assert_true(epoch_domain_exit(d));
        assert_int_equal(changes, before + i % 2 * 2);
        epoch_domain_destroy(d);
    }
    slab_allocator_free(a);
}

static void *ends_inside(void *arg) {
    (void)epoch_domain_enter(arg);
    return now_allocator;
}

static void test_threads(void **state) {
    (void)state;
    SlabAllocator *a = slab_allocator_create();
    EpochDomain *d = epoch_domain_create_ex(a, NULL, EPOCH_DOMAIN_CAPTURE | EPOCH_DOMAIN_SHARED);
    pthread_t thread;
    void *there;
    unsigned before = changes;
    assert_int_equal(pthread_create(&thread, NULL, ends_inside, d), 0);
    assert_int_equal(pthread_join(thread, &there), 0);
    assert_ptr_equal(there, a);
    assert_int_equal(changes, before);
    epoch_domain_destroy(d);
    slab_allocator_free(a);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_not_supported),
        cmocka_unit_test(test_innermost),
        cmocka_unit_test(test_entry_used_again),
        cmocka_unit_test(test_threads),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
