/* Allocation of every kind and size, alignment, calloc, realloc, usable size. */
#include "check.h"
#include "identities.h"
#include "pattern.h"
#include "unit.h"

#include "os/os.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

static void check_object(SlabAllocator *allocator, void *object, size_t size) {
    assert_non_null(object);
    assert_int_equal((uintptr_t)object % 16, 0);
    assert_true(slab_usable_size(allocator, object) >= size);
    assert_true(slab_usable_size(allocator, object) > 0);
    assert_true(slab_owns(allocator, object));
}

/* Every size, all live at once: no two overlap, each keeps the pattern over all of its usable bytes. */
static void sizes_in(SlabAllocator *allocator, unsigned flags, bool natural) {
    enum { MOST = 9000 };
    static void *objects[MOST + 1];
    EpochId epoch = epoch_open(allocator, "sizes", flags);
    assert_true(epoch != EPOCH_NONE);
    for (size_t size = 0; size <= MOST; size++) {
        objects[size] = slab_malloc_epoch(allocator, size, epoch);
        check_object(allocator, objects[size], size);
        if (natural && size >= 16 && size <= 8192 && (size & (size - 1)) == 0) {
            assert_int_equal((uintptr_t)objects[size] % size, 0);
        }
        sup_pattern_fill(objects[size], slab_usable_size(allocator, objects[size]), size);
    }
    assert_int_equal(sup_live_objects(allocator), MOST + 1);
    sup_check_identities(allocator);
    for (size_t size = 0; size <= MOST; size++) {
        assert_true(sup_pattern_check(objects[size], slab_usable_size(allocator, objects[size]), size));
    }
    for (size_t size = 0; size <= MOST; size += 2) {
        assert_true(slab_free(allocator, objects[size]));
        assert_false(slab_owns(allocator, objects[size]));
        assert_int_equal(slab_usable_size(allocator, objects[size]), 0);
    }
    for (size_t size = 1; size <= MOST; size += 2) {
        assert_true(sup_pattern_check(objects[size], slab_usable_size(allocator, objects[size]), size));
        assert_true(slab_free(allocator, objects[size]));
    }
    assert_int_equal(sup_live_objects(allocator), 0);
    assert_true(epoch_destroy(allocator, epoch));
    sup_check_identities(allocator);
}

static void every_size_in_churn(void **state) { sizes_in(*state, EPOCH_CHURN, true); }

static void every_size_in_scope(void **state) { sizes_in(*state, EPOCH_SCOPE, false); }

/* A length that any region has in a row: one of 64 GiB, or of 512 MiB where addresses have 32 bits. */
#define LARGEST ((size_t)1 << (sizeof(size_t) < 8 ? 27 : 30))

/* Virtual: only the ends are touched. */
/* Under strict overcommit a process may commit a part of the machine's memory; else no object is larger than
   LARGEST. */
static size_t largest_here(void) {
    int policy = 0;
    FILE *f = fopen("/proc/sys/vm/overcommit_memory", "re");
    if (f && fscanf(f, "%d", &policy) != 1) policy = 0;
    if (f) (void)fclose(f);
    return policy == 2 || ts_os_most_bytes() < LARGEST ? LARGEST / 8 : LARGEST;
}

static void large_sizes(void **state) {
    SlabAllocator *allocator = *state;
    const size_t most = largest_here();
    const unsigned kinds[] = {EPOCH_CHURN, EPOCH_SCOPE};
    for (size_t k = 0; k < 2; k++) {
        EpochId epoch = epoch_open(allocator, "large", kinds[k]);
        for (size_t size = 16u << 10; size <= most; size = size * 3 / 2) {
            unsigned char *object = slab_malloc_epoch(allocator, size, epoch);
            check_object(allocator, object, size);
            sup_pattern_fill(object, size, size);
            assert_true(sup_pattern_check(object, size, size));
            assert_false(slab_free(allocator, object + 16));
            assert_false(slab_free(allocator, object + 16384));
            assert_true(slab_free(allocator, object));
            assert_false(slab_free(allocator, object));
        }
        void *largest = slab_malloc_epoch(allocator, most, epoch);
        check_object(allocator, largest, most);
        assert_true(epoch_destroy(allocator, epoch));
        assert_false(slab_owns(allocator, largest));
    }
    sup_check_identities(allocator);
    sup_check_empty(allocator);
}

static void impossible_sizes(void **state) {
    static const size_t sizes[] = {SIZE_MAX,        SIZE_MAX - 1, SIZE_MAX - 15,
                                   SIZE_MAX - 4096, SIZE_MAX / 2, SIZE_MAX / 2 + 1};
    SlabAllocator *allocator = *state;
    EpochId epoch = epoch_open(allocator, NULL, 0);
    EpochId scope = epoch_open(allocator, NULL, EPOCH_SCOPE);
    void *object = slab_malloc_epoch(allocator, 100, epoch);
    for (size_t i = 0; i < sizeof sizes / sizeof sizes[0]; i++) {
        SlabHandle handle = SLAB_HANDLE_NONE;
#define REFUSED(call)                    \
    do {                                 \
        errno = 0;                       \
        assert_null(call);               \
        assert_int_equal(errno, ENOMEM); \
    } while (0)
        REFUSED(slab_malloc(allocator, sizes[i]));
        REFUSED(slab_malloc_epoch(allocator, sizes[i], epoch));
        REFUSED(slab_malloc_epoch(allocator, sizes[i], scope));
        REFUSED(slab_calloc_epoch(allocator, 1, sizes[i], epoch));
        REFUSED(slab_calloc_epoch(allocator, sizes[i], 1, epoch));
        REFUSED(slab_aligned_epoch(allocator, 64, sizes[i], epoch));
        REFUSED(slab_aligned_epoch(allocator, (size_t)1 << 30, sizes[i], scope));
        REFUSED(alloc_obj_epoch(allocator, sizes[i], epoch, &handle));
        REFUSED(slab_realloc(allocator, object, sizes[i]));
        REFUSED(slab_realloc(allocator, NULL, sizes[i]));
#undef REFUSED
    }
    assert_int_equal(sup_live_objects(allocator), 1);
    assert_true(slab_free(allocator, object));
}

static void size_zero_is_unique(void **state) {
    SlabAllocator *allocator = *state;
    void *first = slab_malloc(allocator, 0);
    void *second = slab_malloc(allocator, 0);
    check_object(allocator, first, 0);
    check_object(allocator, second, 0);
    assert_ptr_not_equal(first, second);
    assert_true(slab_free(allocator, first));
    assert_false(slab_free(allocator, first));
    assert_true(slab_free(allocator, second));
}

static void aligned(void **state) {
    SlabAllocator *allocator = *state;
    const unsigned kinds[] = {EPOCH_CHURN, EPOCH_SCOPE};
    const size_t sizes[] = {0, 1, 16, 100, 128, 5000, 16384, 100000};
    for (size_t k = 0; k < 2; k++) {
        EpochId epoch = epoch_open(allocator, "aligned", kinds[k]);
        for (size_t alignment = 1; alignment <= 2u << 20; alignment *= 2) {
            void *objects[8];
            for (size_t i = 0; i < 8; i++) {
                objects[i] = slab_aligned_epoch(allocator, alignment, sizes[i], epoch);
                check_object(allocator, objects[i], sizes[i]);
                assert_int_equal((uintptr_t)objects[i] % alignment, 0);
                sup_pattern_fill(objects[i], sizes[i], alignment + i);
            }
            for (size_t i = 0; i < 8; i++) {
                assert_true(sup_pattern_check(objects[i], sizes[i], alignment + i));
                SlabHandle handle = slab_handle_of(allocator, objects[i]);
                assert_ptr_equal(slab_handle_get(allocator, handle), objects[i]);
                assert_true(i % 2 == 0 ? slab_free(allocator, objects[i]) : free_obj(allocator, handle));
                assert_false(slab_free(allocator, objects[i]));
            }
        }
        assert_true(epoch_destroy(allocator, epoch));
    }
    sup_check_identities(allocator);
}

static void bad_alignment(void **state) {
    static const size_t bad[] = {0, 3, 5, 6, 7, 12, 24, 48, 100, 4095, 4097, SIZE_MAX};
    SlabAllocator *allocator = *state;
    EpochId epoch = epoch_open(allocator, NULL, 0);
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        errno = 0;
        assert_null(slab_aligned_epoch(allocator, bad[i], 64, epoch));
        assert_int_equal(errno, EINVAL);
    }
    errno = 0;
    assert_null(slab_aligned_epoch(allocator, (size_t)1 << 31, 64, epoch));
    assert_int_equal(errno, ENOMEM);
    errno = 0;
    assert_null(slab_aligned_epoch(allocator, SIZE_MAX / 2 + 1, 64, epoch));
    assert_int_equal(errno, ENOMEM);
}

/* Memory that has been written comes back zeroed. */
static void calloc_zeroes(void **state) {
    static const size_t sizes[] = {1, 16, 48, 64, 128, 500, 1024, 3000, 4096, 9000, 20000, 300000};
    SlabAllocator *allocator = *state;
    const unsigned kinds[] = {EPOCH_CHURN, EPOCH_SCOPE};
    for (size_t k = 0; k < 2; k++) {
        for (size_t i = 0; i < sizeof sizes / sizeof sizes[0]; i++) {
            for (int round = 0; round < 6; round++) {
                EpochId epoch = epoch_open(allocator, NULL, kinds[k]);
                unsigned char *dirty[8];
                for (int d = 0; d < 8; d++) {
                    unsigned char *clean = slab_calloc_epoch(allocator, 1, sizes[i], epoch);
                    assert_non_null(clean);
                    for (size_t b = 0; b < sizes[i]; b++) {
                        assert_int_equal(clean[b], 0);
                    }
                    memset(clean, 0xa5, slab_usable_size(allocator, clean));
                    dirty[d] = clean;
                    if (d % 2 == 0) {
                        assert_true(slab_free(allocator, clean));
                    }
                }
                assert_true(slab_free(allocator, dirty[1]));
                assert_true(epoch_destroy(allocator, epoch));
            }
        }
    }
}

#define HALF_BITS ((size_t)1 << (sizeof(size_t) * 4)) /* its square is 0 */

static void calloc_overflow(void **state) {
    static const size_t pairs[][2] = {
        {SIZE_MAX, 2}, {2, SIZE_MAX}, {SIZE_MAX / 2 + 1, 2}, {HALF_BITS, HALF_BITS}, {SIZE_MAX, SIZE_MAX}};
    SlabAllocator *allocator = *state;
    EpochId epoch = epoch_open(allocator, NULL, 0);
    for (size_t i = 0; i < sizeof pairs / sizeof pairs[0]; i++) {
        errno = 0;
        assert_null(slab_calloc_epoch(allocator, pairs[i][0], pairs[i][1], epoch));
        assert_int_equal(errno, ENOMEM);
    }
    void *none = slab_calloc_epoch(allocator, 0, SIZE_MAX, epoch);
    check_object(allocator, none, 0);
    assert_true(slab_free(allocator, none));
}

static void realloc_keeps(void **state) {
    SlabAllocator *allocator = *state;
    const unsigned kinds[] = {EPOCH_CHURN, EPOCH_SCOPE};
    static const size_t sizes[] = {0, 1, 40, 64, 100, 1000, 4000, 9000, 40000, 500000, 30, 300000, 5, 70000, 16, 0};
    for (size_t k = 0; k < 2; k++) {
        EpochId epoch = epoch_open(allocator, NULL, kinds[k]);
        unsigned char *object = slab_malloc_epoch(allocator, 0, epoch);
        size_t before = 0;
        for (size_t i = 0; i < sizeof sizes / sizeof sizes[0]; i++) {
            sup_pattern_fill(object, before, i);
            object = slab_realloc(allocator, object, sizes[i]);
            check_object(allocator, object, sizes[i]);
            assert_true(sup_pattern_check_prefix(object, before, sizes[i] < before ? sizes[i] : before, i));
            before = sizes[i];
            SlabEpochStats stats;
            assert_true(slab_stats_epoch(allocator, SLAB_ALL_CLASSES, epoch, &stats));
            assert_int_equal(stats.live_objects, 1);
        }
        assert_true(epoch_destroy(allocator, epoch));
        assert_false(slab_owns(allocator, object));
    }
    unsigned char *fresh = slab_realloc(allocator, NULL, 77);
    check_object(allocator, fresh, 77);
    assert_true(slab_free(allocator, fresh));
    sup_check_identities(allocator);
}

/* A span that shrinks stays where it is, unless its size is one that has a place in a slab. */
static void realloc_of_spans(void **state) {
    (void)state;
    for (int policy = SLAB_RECLAIM_BUDGET; policy <= SLAB_RECLAIM_AT_ONCE; policy++) {
        for (unsigned flags = EPOCH_CHURN; flags <= EPOCH_SCOPE; flags++) {
            SlabOptions options = {.size = sizeof options, .reclaim_policy = policy, .memory_tools = SLAB_TOOLS_OFF};
            SlabAllocator *own = slab_allocator_create_ex(&options);
            EpochId epoch = epoch_open(own, NULL, flags);
            void *span = slab_malloc_epoch(own, 17000, epoch);
            assert_int_equal(slab_usable_size(own, span), 32768);
            bool scope = flags == EPOCH_SCOPE, in_slab = scope || policy != SLAB_RECLAIM_AT_ONCE;
            void *smaller = slab_realloc(own, span, 5000);
            assert_int_equal(slab_usable_size(own, smaller), !in_slab ? 32768 : scope ? 5008 : 5456);
            assert_int_equal(smaller == span, !in_slab);
            assert_int_equal(slab_usable_size(own, slab_realloc(own, smaller, 1000)), !scope ? 1024 : 1008);
            slab_allocator_free(own);
        }
    }
}

/* A span that grows stays where it is while the units behind it are free and the budget has room, in any state of its
   epoch. */
static void realloc_in_place(void **state) {
    (void)state;
    enum { MOST = 44 * 16384 };
    SlabOptions options = {.size = sizeof options, .memory_tools = SLAB_TOOLS_OFF, .budget_bytes = 2 * MOST};
    SlabAllocator *own = slab_allocator_create_ex(&options);
    EpochId epoch = epoch_open(own, NULL, EPOCH_CHURN);
    SlabGlobalStats stats;
    unsigned char *span = slab_malloc_epoch(own, 70000, epoch), *behind;
    sup_pattern_fill(span, 70000, 9);
    SlabHandle handle = slab_handle_of(own, span);
    assert_true(epoch_close(own, epoch));
    for (size_t size = 90000; size <= MOST; size += 30000) {
        assert_ptr_equal(slab_realloc(own, span, size), span);
        assert_int_equal(slab_usable_size(own, span), (size + 16383) / 16384 * 16384);
        span[slab_usable_size(own, span) - 1] = 1;
        assert_true(slab_stats_global(own, &stats));
        assert_int_equal(stats.live_bytes, slab_usable_size(own, span));
        assert_int_equal(stats.live_objects, 1);
        sup_check_identities(own);
    }
    assert_true(sup_pattern_check(span, 70000, 9));
    assert_ptr_equal(slab_handle_get(own, handle), span);
    errno = 0;
    assert_null(
        slab_realloc(own, span, 3 * MOST)); /* over the budget: it would have to move, and its epoch is closed */
    assert_int_equal(errno, ESTALE);
    assert_true(free_obj(own, handle));
    assert_int_equal(epoch_state(own, epoch), EPOCH_CLOSED);
    (void)slab_trim(own);
    /* A span in the way stays where it is. */
    epoch = epoch_open(own, NULL, EPOCH_CHURN);
    span = slab_malloc_epoch(own, 70000, epoch);
    do {
        behind = slab_malloc_epoch(own, 70000, epoch);
        assert_non_null(behind);
    } while (behind < span);
    sup_pattern_fill(span, 70000, 9);
    sup_pattern_fill(behind, 70000, 7);
    unsigned char *moved = slab_realloc(own, span, 700000);
    assert_non_null(moved);
    assert_true(behind != span + 81920 || moved != span);
    assert_true(sup_pattern_check(moved, 70000, 9) && sup_pattern_check(behind, 70000, 7));
    assert_int_equal(slab_owns(own, span), moved == span);
    sup_check_identities(own);
    slab_allocator_free(own);
}

static void realloc_refuses(void **state) {
    SlabAllocator *allocator = *state;
    SlabAllocator *other = slab_allocator_create();
    EpochId epoch = epoch_open(allocator, NULL, 0);
    unsigned char *object = slab_malloc_epoch(allocator, 100, epoch);
    sup_pattern_fill(object, 100, 9);
    SlabHandle handle = slab_handle_of(allocator, object);
    char stack[64];
    void *bad[] = {stack, object + 1, object + 16, (void *)(uintptr_t)-1, (void *)16};
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        errno = 0;
        assert_null(slab_realloc(allocator, bad[i], 50));
        assert_int_equal(errno, EINVAL);
    }
    errno = 0;
    assert_null(slab_realloc(other, object, 50));
    assert_int_equal(errno, EINVAL);
    assert_true(epoch_close(allocator, epoch));
    errno = 0;
    assert_null(slab_realloc(allocator, object, 100000));
    assert_int_equal(errno, ESTALE);
    SlabGlobalStats stats;
    assert_true(slab_stats_global(allocator, &stats));
    uint64_t refused = stats.slow_path_epoch_closed;
    assert_ptr_equal(slab_realloc(allocator, object, 100), object);
    assert_ptr_equal(slab_realloc(allocator, object, 1), object); /* a smaller one cannot be had: nothing is refused */
    assert_true(slab_stats_global(allocator, &stats));
    assert_int_equal(stats.slow_path_epoch_closed, refused);
    assert_ptr_equal(slab_handle_get(allocator, handle), object);
    assert_true(sup_pattern_check(object, 100, 9));
    assert_true(slab_free(allocator, object));
    errno = 0;
    assert_null(slab_realloc(allocator, object, 50));
    assert_int_equal(errno, EINVAL);
    slab_allocator_free(other);
}

static void null_and_dead_allocators(void **state) {
    (void)state;
    SlabAllocator *dead = slab_allocator_create();
    void *object = slab_malloc(dead, 64);
    EpochId epoch = epoch_current(dead);
    SlabHandle handle = slab_handle_of(dead, object);
    slab_allocator_free(dead);
    slab_allocator_free(dead);
    slab_allocator_free(NULL);
    int not_one = 0;
    SlabAllocator *bad[] = {NULL, dead, (SlabAllocator *)(void *)&not_one, (SlabAllocator *)(uintptr_t)-8};
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        errno = 0;
        assert_null(slab_malloc(bad[i], 64));
        assert_int_equal(errno, EINVAL);
        errno = 0;
        assert_null(slab_malloc_epoch(bad[i], 64, epoch));
        assert_int_equal(errno, EINVAL);
        assert_null(slab_realloc(bad[i], object, 64));
        assert_false(slab_free(bad[i], object));
        assert_false(free_obj(bad[i], handle));
        assert_null(slab_handle_get(bad[i], handle));
        assert_true(slab_handle_of(bad[i], object) == SLAB_HANDLE_NONE);
        assert_int_equal(slab_usable_size(bad[i], object), 0);
        assert_false(slab_owns(bad[i], object));
        assert_true(epoch_current(bad[i]) == EPOCH_NONE);
        assert_true(epoch_advance(bad[i]) == EPOCH_NONE);
        assert_true(epoch_open(bad[i], NULL, 0) == EPOCH_NONE);
        assert_false(epoch_close(bad[i], epoch));
        assert_false(epoch_destroy(bad[i], epoch));
        assert_int_equal(slab_trim(bad[i]), 0);
        assert_false(slab_reserve(bad[i], 4096));
        assert_false(slab_set_budget(bad[i], 4096));
    }
}

static void default_allocator(void **state) {
    (void)state;
    SlabAllocator *allocator = slab_allocator_default();
    assert_non_null(allocator);
    assert_ptr_equal(slab_allocator_default(), allocator);
    void *object = slab_alloc(100);
    assert_true(slab_owns(allocator, object));
    slab_allocator_free(allocator);
    assert_true(slab_owns(allocator, object));
    assert_true(slab_free(allocator, object));
    const char *version = slab_version();
    char expected[32];
    (void)snprintf(expected, sizeof expected, "%d.%d.%d", TSLAB_VERSION_MAJOR, TSLAB_VERSION_MINOR,
                   TSLAB_VERSION_PATCH);
    assert_string_equal(version, expected);
}

/* A thread that goes from one epoch and allocator to another: each object is where it was asked for, an epoch is of its
   own allocator only, and the fast paths forget an object with its end. */
static void in_turn(void **state) {
    enum { ALLOCATORS = 3, EPOCHS = 4, OBJECTS = 240 };
    SlabAllocator *own[ALLOCATORS];
    EpochId epoch[ALLOCATORS][EPOCHS];
    void *object[OBJECTS];
    SlabHandle handle[OBJECTS];
    (void)state;
    for (int a = 0; a < ALLOCATORS; a++) {
        own[a] = slab_allocator_create();
        for (int e = 0; e < EPOCHS; e++) epoch[a][e] = epoch_open(own[a], NULL, e == 3 ? EPOCH_SCOPE : EPOCH_CHURN);
    }
    for (int round = 0; round < 3; round++) {
        for (int i = 0; i < OBJECTS; i++) {
            int a = i % ALLOCATORS, e = i / ALLOCATORS % EPOCHS;
            object[i] = slab_malloc_epoch(own[a], i % 7 == 0 ? 20000 : 100, epoch[a][e]);
            assert_non_null(object[i]);
            errno = 0;
            assert_null(slab_malloc_epoch(own[(a + 1) % ALLOCATORS], 100, epoch[a][e]));
            assert_int_equal(errno, EINVAL);
        }
        for (int i = 0; i < OBJECTS; i++) {
            SlabAllocator *mine = own[i % ALLOCATORS], *other = own[(i + 1) % ALLOCATORS];
            handle[i] = slab_handle_of(mine, object[i]);
            assert_ptr_equal(slab_handle_get(mine, handle[i]), object[i]);
            assert_null(slab_handle_get(other, handle[i]));
            assert_int_equal(slab_usable_size(other, object[i]), 0);
            assert_true(slab_usable_size(mine, object[i]) >= 100 && !slab_free(other, object[i]));
            assert_null(slab_realloc(other, object[i], 50));
            assert_true(slab_free(mine, object[i]) && !slab_free(mine, object[i]));
            assert_null(slab_handle_get(mine, handle[i]));
            assert_int_equal(slab_usable_size(mine, object[i]), 0);
            assert_null(slab_realloc(mine, object[i], 0));
        }
        for (int a = 0; a < ALLOCATORS; a++) sup_check_identities(own[a]);
    }
    for (int a = 0; a < ALLOCATORS; a++) slab_allocator_free(own[a]);
}

/* In every kind, from every size to every size: aligned wherever it is, with its pattern. */
static void realloc_aligned(void **state) {
    static const size_t sizes[] = {1, 60, 200, 3000, 5000, 20000, 70000, 300000, 3 << 20, 36 << 20};
    static const unsigned kinds[] = {EPOCH_CHURN, EPOCH_SCOPE};
    SlabAllocator *allocator = *state;
    for (size_t alignment = 8; alignment <= 65536; alignment *= 8) {
        for (int i = 0; i < 2 * 100; i++) {
            size_t from = sizes[i / 2 / 10], to = sizes[i / 2 % 10], kept = from < to ? from : to;
            EpochId epoch = epoch_open(allocator, "resized", kinds[i % 2]);
            void *p = slab_aligned_epoch(allocator, alignment, from, epoch);
            void *next = slab_malloc_epoch(allocator, 40, epoch); /* in the way of one that grows */
            assert_true(p && next);
            kept = kept < 4096 ? kept : 4096;
            sup_pattern_fill(p, kept, from);
            errno = 0;
            void *q = slab_realloc_aligned(allocator, p, alignment, to);
            check_object(allocator, q, to);
            assert_int_equal((uintptr_t)q % alignment, 0);
            assert_true(sup_pattern_check_prefix(q, kept, kept, from));
            assert_int_equal(errno, 0);
            assert_true(q == p || !slab_owns(allocator, p));
            assert_true(epoch_destroy(allocator, epoch));
        }
    }
    errno = 0;
    assert_true(slab_realloc_aligned(allocator, NULL, 48, 10) == NULL && errno == EINVAL);
    assert_true(slab_realloc_aligned(allocator, NULL, (size_t)1 << 31, 10) == NULL && errno == ENOMEM);
    assert_true(slab_realloc_aligned(allocator, &errno, 64, 10) == NULL && errno == EINVAL);
    void *first = slab_realloc_aligned(allocator, NULL, 4096, 10);
    assert_true(first && (uintptr_t)first % 4096 == 0 && slab_free(allocator, first));
    sup_check_identities(allocator);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        SUP_WITH_ALLOCATOR(every_size_in_churn), SUP_WITH_ALLOCATOR(every_size_in_scope),
        SUP_WITH_ALLOCATOR(large_sizes),         SUP_WITH_ALLOCATOR(impossible_sizes),
        SUP_WITH_ALLOCATOR(size_zero_is_unique), SUP_WITH_ALLOCATOR(aligned),
        SUP_WITH_ALLOCATOR(bad_alignment),       SUP_WITH_ALLOCATOR(calloc_zeroes),
        SUP_WITH_ALLOCATOR(calloc_overflow),     SUP_WITH_ALLOCATOR(realloc_keeps),
        cmocka_unit_test(realloc_of_spans),      cmocka_unit_test(realloc_in_place),
        SUP_WITH_ALLOCATOR(realloc_refuses),     cmocka_unit_test(null_and_dead_allocators),
        cmocka_unit_test(default_allocator),     cmocka_unit_test(in_turn),
        SUP_WITH_ALLOCATOR(realloc_aligned),
    };
    return cmocka_run_group_tests_name("api.objects", tests, NULL, NULL);
}
