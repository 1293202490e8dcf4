/*
 * A stale pointer can be read through, for every kind of object and of end, also after its allocator was freed. The
 * bytes may be any; a signal that ends a process here is a failure. (docs/security.md has the exceptions: guards, hard
 * mode, spilled epochs.)
 */
#include "check.h"
#include "unit.h"

#include <string.h>
#include <tslab/tslab.h>

#define MIB ((size_t)1 << 20)
/* How much an object grows by when it moves: beyond all that lies in units. A region of 512 MiB holds nine of them. */
#define GROWTH (sizeof(void *) < 8 ? 24 * MIB : 60 * MIB)

static const size_t sizes[] = {1, 48, 100, 1000, 5000, 20000, 100000, MIB, sizeof(void *) < 8 ? 20 * MIB : 40 * MIB};
enum { SIZES = sizeof sizes / sizeof *sizes };

static volatile unsigned char sink;

static void read_through(const void *object, size_t bytes) {
    const volatile unsigned char *p = object;
    for (size_t at = 0; at < bytes; at += 4096) sink = p[at];
    sink = p[bytes - 1];
}

static void read_all(void *const object[SIZES]) {
    for (unsigned i = 0; i < SIZES; i++) read_through(object[i], sizes[i]);
}

static void fill(SlabAllocator *a, EpochId epoch, void *object[SIZES]) {
    for (unsigned i = 0; i < SIZES; i++) {
        object[i] = slab_malloc_epoch(a, sizes[i], epoch);
        assert_non_null(object[i]);
        memset(object[i], 1, sizes[i]);
    }
}

static void free_each(SlabAllocator *a, EpochId epoch, void *object[SIZES]) {
    (void)epoch;
    for (unsigned i = 0; i < SIZES; i++) assert_true(slab_free(a, object[i]));
}

static void move_each(SlabAllocator *a, EpochId epoch, void *object[SIZES]) {
    (void)epoch;
    for (unsigned i = 0; i < SIZES; i++) assert_non_null(slab_realloc(a, object[i], 3 * sizes[i] + GROWTH));
}

static void destroy(SlabAllocator *a, EpochId epoch, void *object[SIZES]) {
    (void)object;
    assert_true(epoch_destroy(a, epoch));
}

static void close_and_free(SlabAllocator *a, EpochId epoch, void *object[SIZES]) {
    assert_true(epoch_close(a, epoch));
    free_each(a, epoch, object);
}

typedef void ends(SlabAllocator *a, EpochId epoch, void *object[SIZES]);

static void after(ends *end, unsigned flags, int policy) {
    SlabOptions options = {.size = sizeof options, .memory_tools = SLAB_TOOLS_OFF, .reclaim_policy = policy};
    SlabAllocator *a = slab_allocator_create_ex(&options);
    assert_non_null(a);
    EpochId epoch = epoch_open(a, NULL, flags);
    void *object[SIZES];
    fill(a, epoch, object);
    end(a, epoch, object);
    read_all(object);
    (void)slab_trim(a);
    read_all(object);
    slab_allocator_free(a);
    read_all(object);
}

static void after_a_free(void **state) {
    (void)state;
    after(free_each, EPOCH_CHURN, SLAB_RECLAIM_BUDGET);
    after(free_each, EPOCH_SCOPE, SLAB_RECLAIM_AT_ONCE);
    after(close_and_free, EPOCH_CHURN, SLAB_RECLAIM_AT_ONCE);
}

static void after_a_move(void **state) {
    (void)state;
    after(move_each, EPOCH_CHURN, SLAB_RECLAIM_AT_ONCE);
    after(move_each, EPOCH_SCOPE, SLAB_RECLAIM_BUDGET);
}

static void after_an_end(void **state) {
    (void)state;
    after(destroy, EPOCH_CHURN, SLAB_RECLAIM_AT_ONCE);
    after(destroy, EPOCH_SCOPE, SLAB_RECLAIM_BUDGET);
}

/* Nothing ends the objects but the end of their allocator. */
static void after_the_allocator(void **state) {
    (void)state;
    SlabOptions options = {.size = sizeof options, .memory_tools = SLAB_TOOLS_OFF};
    SlabAllocator *a = slab_allocator_create_ex(&options);
    void *object[SIZES];
    fill(a, epoch_current(a), object);
    slab_allocator_free(a);
    read_all(object);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(after_a_free),
        cmocka_unit_test(after_a_move),
        cmocka_unit_test(after_an_end),
        cmocka_unit_test(after_the_allocator),
    };
    return cmocka_run_group_tests_name("misuse.read", tests, NULL, NULL);
}
