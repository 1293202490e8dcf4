/* Handles: values that name one object for ever. */
#include "identities.h"
#include "unit.h"

#include <errno.h>
#include <string.h>

#define LIVE 300

static void names_its_object(void **state) {
    SlabAllocator *allocator = *state;
    const unsigned kinds[] = {EPOCH_CHURN, EPOCH_SCOPE};
    const size_t sizes[] = {0, 16, 48, 64, 128, 700, 4096, 12000, 200000};
    for (size_t k = 0; k < 2; k++) {
        EpochId epoch = epoch_open(allocator, NULL, kinds[k]);
        for (size_t i = 0; i < sizeof sizes / sizeof sizes[0]; i++) {
            SlabHandle handle = SLAB_HANDLE_NONE;
            void *object = alloc_obj_epoch(allocator, sizes[i], epoch, &handle);
            assert_non_null(object);
            assert_true(handle != SLAB_HANDLE_NONE);
            assert_int_equal(handle & 3u, 2);
            assert_true(slab_handle_of(allocator, object) == handle);
            assert_ptr_equal(slab_handle_get(allocator, handle), object);
            assert_true(free_obj(allocator, handle));
            assert_false(free_obj(allocator, handle));
            assert_null(slab_handle_get(allocator, handle));
            assert_true(slab_handle_of(allocator, object) == SLAB_HANDLE_NONE);
            assert_false(slab_free(allocator, object));
        }
        assert_true(epoch_destroy(allocator, epoch));
    }
    sup_check_identities(allocator);
}

/* The same slot again and again: no handle of the past is ever taken. */
static void stale_for_ever(void **state) {
    enum { TURNS = 20000 };
    static SlabHandle past[TURNS];
    SlabAllocator *allocator = *state;
    EpochId epoch = epoch_open(allocator, NULL, 0);
    for (int i = 0; i < TURNS; i++) {
        void *object = alloc_obj_epoch(allocator, 128, epoch, &past[i]);
        assert_non_null(object);
        assert_true(i % 2 == 0 ? slab_free(allocator, object) : free_obj(allocator, past[i]));
    }
    void *objects[LIVE];
    for (int i = 0; i < LIVE; i++) {
        objects[i] = slab_malloc_epoch(allocator, 128, epoch);
        memset(objects[i], i & 0xff, 128);
    }
    for (int i = 0; i < TURNS; i++) {
        assert_null(slab_handle_get(allocator, past[i]));
        assert_false(free_obj(allocator, past[i]));
    }
    for (int i = 0; i < LIVE; i++) {
        assert_int_equal(*(unsigned char *)objects[i], i & 0xff);
        assert_true(slab_free(allocator, objects[i]));
    }
}

static void stale_after_destroy_and_free(void **state) {
    SlabAllocator *allocator = *state;
    const unsigned kinds[] = {EPOCH_CHURN, EPOCH_SCOPE};
    for (size_t k = 0; k < 2; k++) {
        SlabHandle handles[LIVE];
        void *objects[LIVE];
        EpochId epoch = epoch_open(allocator, NULL, kinds[k]);
        for (int i = 0; i < LIVE; i++) {
            objects[i] = alloc_obj_epoch(allocator, (size_t)i * 13, epoch, &handles[i]);
            assert_non_null(objects[i]);
        }
        assert_true(epoch_destroy(allocator, epoch));
        for (int i = 0; i < LIVE; i++) {
            assert_null(slab_handle_get(allocator, handles[i]));
            assert_false(free_obj(allocator, handles[i]));
            assert_false(slab_free(allocator, objects[i]));
            assert_int_equal(slab_usable_size(allocator, objects[i]), 0);
        }
        /* The memory is used again: the old handles stay stale. */
        EpochId next = epoch_open(allocator, NULL, kinds[k]);
        for (int i = 0; i < LIVE; i++) {
            assert_non_null(slab_malloc_epoch(allocator, (size_t)i * 13, next));
        }
        for (int i = 0; i < LIVE; i++) {
            assert_null(slab_handle_get(allocator, handles[i]));
            assert_false(free_obj(allocator, handles[i]));
        }
        assert_true(epoch_destroy(allocator, next));
    }
    SlabAllocator *gone = slab_allocator_create();
    SlabHandle handle = slab_handle_of(gone, slab_malloc(gone, 64));
    slab_allocator_free(gone);
    assert_null(slab_handle_get(allocator, handle));
    assert_false(free_obj(allocator, handle));
    SlabAllocator *next = slab_allocator_create();
    assert_non_null(slab_malloc(next, 64));
    assert_null(slab_handle_get(next, handle));
    assert_false(free_obj(next, handle));
    slab_allocator_free(next);
}

static bool is_one_of(const SlabHandle *handles, int count, SlabHandle handle) {
    for (int i = 0; i < count; i++) {
        if (handles[i] == handle) {
            return true;
        }
    }
    return false;
}

/* Each of the 64 bits of each handle, wrong: nobody's, or exactly the handle of another live object. */
static void forged_bits(void **state) {
    SlabAllocator *allocator = *state;
    SlabAllocator *other = slab_allocator_create();
    const unsigned kinds[] = {EPOCH_CHURN, EPOCH_SCOPE};
    static SlabHandle handles[2 * LIVE];
    EpochId epochs[2];
    int count = 0;
    for (size_t k = 0; k < 2; k++) {
        epochs[k] = epoch_open(allocator, NULL, kinds[k]);
        for (int i = 0; i < LIVE; i++, count++) {
            void *object =
                alloc_obj_epoch(allocator, (size_t)(i % 12 == 11 ? 20000 : i * 7), epochs[k], &handles[count]);
            assert_non_null(object);
            assert_false(is_one_of(handles, count, handles[count]));
        }
    }
    for (int i = 0; i < count; i++) {
        for (unsigned bit = 0; bit < 64; bit++) {
            SlabHandle forged = handles[i] ^ ((SlabHandle)1 << bit);
            void *found = slab_handle_get(allocator, forged);
            if (is_one_of(handles, count, forged)) {
                assert_true(slab_handle_of(allocator, found) == forged);
                continue;
            }
            assert_null(found);
            assert_false(free_obj(allocator, forged));
        }
        assert_null(slab_handle_get(other, handles[i]));
        assert_false(free_obj(other, handles[i]));
    }
    assert_int_equal(sup_live_objects(allocator), count);
    for (int i = 0; i < count; i++) {
        assert_true(free_obj(allocator, handles[i]));
    }
    assert_false(free_obj(allocator, SLAB_HANDLE_NONE));
    assert_null(slab_handle_get(allocator, UINT64_MAX));
    slab_allocator_free(other);
}

static void handle_out_is_needed(void **state) {
    SlabAllocator *allocator = *state;
    errno = 0;
    assert_null(alloc_obj_epoch(allocator, 64, epoch_current(allocator), NULL));
    assert_int_equal(errno, EINVAL);
    assert_int_equal(sup_live_objects(allocator), 0);
}

/* Either way of freeing ends the other's name for the object, also in a closed epoch. */
static void in_a_closed_epoch(void **state) {
    SlabAllocator *allocator = *state;
    EpochId epoch = epoch_open(allocator, NULL, 0);
    SlabHandle first = SLAB_HANDLE_NONE;
    SlabHandle second = SLAB_HANDLE_NONE;
    void *a = alloc_obj_epoch(allocator, 64, epoch, &first);
    void *b = alloc_obj_epoch(allocator, 64, epoch, &second);
    assert_true(epoch_close(allocator, epoch));
    assert_ptr_equal(slab_handle_get(allocator, first), a);
    assert_true(slab_free(allocator, a));
    assert_null(slab_handle_get(allocator, first));
    assert_ptr_equal(slab_handle_get(allocator, second), b);
    assert_true(free_obj(allocator, second));
    assert_false(slab_owns(allocator, b));
    assert_int_equal(epoch_state(allocator, epoch), EPOCH_CLOSED);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        SUP_WITH_ALLOCATOR(names_its_object),
        SUP_WITH_ALLOCATOR(stale_for_ever),
        SUP_WITH_ALLOCATOR(stale_after_destroy_and_free),
        SUP_WITH_ALLOCATOR(forged_bits),
        SUP_WITH_ALLOCATOR(handle_out_is_needed),
        SUP_WITH_ALLOCATOR(in_a_closed_epoch),
    };
    return cmocka_run_group_tests_name("api.handles", tests, NULL, NULL);
}
