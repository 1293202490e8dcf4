/* The calls that name no allocator, and those that name a domain: where their objects are, which arguments they refuse,
   and why; walks (observe/walk.c). */
#include "unit.h"

#include <errno.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

static uint64_t live(SlabAllocator *a, EpochId epoch) {
    SlabEpochStats s;
    assert_true(slab_stats_epoch(a, SLAB_ALL_CLASSES, epoch, &s));
    return s.live_objects;
}

static void kinds_of_domain(void **state, unsigned flags) {
    SlabAllocator *a = *state;
    EpochDomain *d = epoch_domain_create_ex(a, "family", flags);
    EpochId epoch = epoch_domain_epoch(d);
    assert_true(epoch_domain_enter(d));
    /* Dirty first, so that zero is no accident. */
    for (int i = 0; i < 500; i++) memset(slab_alloc(100), 0xff, 100);
    assert_true(epoch_domain_reset(d, SIZE_MAX));
    static const size_t sizes[] = {0, 1, 100, 4096, 4097, 9000, 100000};
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
        unsigned char *zero = slab_alloc_zero(1, sizes[i]);
        assert_non_null(zero);
        for (size_t b = 0; b < sizes[i]; b++) assert_int_equal(zero[b], 0);
        memset(zero, 0xff, sizes[i]);
        assert_true(slab_owns(a, zero));
    }
    size_t made = sizeof sizes / sizeof *sizes;
    for (size_t alignment = 1; alignment <= 65536; alignment *= 2) {
        for (size_t size = 0; size < 300; size += 37) {
            char *p = slab_alloc_aligned(alignment, size);
            assert_non_null(p);
            assert_int_equal((uintptr_t)p % alignment, 0);
            assert_true(slab_usable_size(a, p) >= size);
            memset(p, 0xff, size);
            made++;
        }
    }
    char *text = slab_alloc_strdup("some text");
    assert_string_equal(text, "some text");
    assert_string_equal(slab_alloc_strdup(""), "");
    assert_string_equal(slab_alloc_strndup("some text", 4), "some");
    assert_string_equal(slab_alloc_strndup("some", SIZE_MAX), "some");
    assert_string_equal(slab_alloc_strndup("x", 0), "");
    static const char unterminated[4] = {'a', 'b', 'c', 'd'};
    assert_string_equal(slab_alloc_strndup(unterminated, 4), "abcd");
    assert_memory_equal(slab_alloc_memdup("a\0b", 3), "a\0b", 3);
    assert_non_null(slab_alloc_memdup(NULL, 0));
    assert_string_equal(slab_alloc_printf("%d-%s", 42, "x"), "42-x");
    char *filled = slab_alloc_printf("%0300d", 7);
    assert_int_equal(strlen(filled), 300);
    assert_int_equal(filled[299], '7');
    char *edge = slab_alloc_printf("%0255d|", 7); /* 256 characters: one more than the buffer has room for */
    assert_int_equal(strlen(edge), 256);
    assert_int_equal(edge[255], '|');
    made += 11;
    assert_int_equal(live(a, epoch), made);
    assert_true(slab_release(text));
    assert_false(slab_release(text));
    assert_int_equal(live(a, epoch), made - 1);
    assert_true(epoch_domain_exit(d));
    /* Named: the same domain, from outside. */
    void *named = epoch_domain_alloc(d, 64);
    assert_non_null(named);
    assert_int_equal(live(a, epoch), made);
    assert_true(slab_release(named));
    epoch_domain_destroy(d);
    errno = 0;
    assert_null(epoch_domain_alloc(d, 64));
    assert_int_equal(errno, EINVAL);
}

static void in_scope(void **state) { kinds_of_domain(state, 0); }
static void in_churn(void **state) { kinds_of_domain(state, EPOCH_CHURN); }

static void refusals(void **state) {
    SlabAllocator *a = *state;
    EpochDomain *d = epoch_domain_create(a);
    assert_true(epoch_domain_enter(d));
    errno = 0;
    assert_null(slab_alloc_zero(SIZE_MAX / 2, 3));
    assert_int_equal(errno, ENOMEM);
    assert_non_null(slab_alloc_zero(0, SIZE_MAX));
    for (size_t alignment = 0; alignment < 70; alignment++) {
        if (alignment != 0 && (alignment & (alignment - 1)) == 0) continue;
        errno = 0;
        assert_null(slab_alloc_aligned(alignment, 16));
        assert_int_equal(errno, EINVAL);
    }
    errno = 0;
    assert_null(slab_alloc_aligned((size_t)2 << 30, 16));
    assert_int_equal(errno, ENOMEM);
    assert_null(slab_alloc_aligned(64, SIZE_MAX));
    assert_true(slab_release(NULL));
    char on_stack;
    assert_false(slab_release(&on_stack));
    assert_false(slab_release((void *)1));
    assert_false(slab_release((void *)UINTPTR_MAX));
    errno = 0;
    assert_null(slab_alloc_resize(&on_stack, 10));
    assert_int_equal(errno, EINVAL);
    static const uint64_t no_domain[] = {0, 1, 2, UINT64_MAX, (uint64_t)1 << 40, UINT32_MAX};
    for (size_t i = 0; i < sizeof no_domain / sizeof *no_domain; i++) {
        errno = 0;
        EpochDomain *none = (EpochDomain *)(uintptr_t)no_domain[i];
        if (none == d) continue;
        assert_null(epoch_domain_alloc(none, 10));
        assert_int_equal(errno, EINVAL);
    }
    /* An allocator that is none, with an id that is one. */
    errno = 0;
    assert_null(slab_malloc_epoch((SlabAllocator *)UINTPTR_MAX, 10, epoch_domain_epoch(d)));
    assert_int_equal(errno, EINVAL);
    assert_true(epoch_domain_force_close(d));
    errno = 0;
    assert_null(epoch_domain_alloc(d, 10));
    assert_int_equal(errno, ESTALE);
    errno = 0;
    assert_null(slab_alloc_aligned(64, 10));
    assert_int_equal(errno, ESTALE);
    errno = 0;
    assert_null(slab_alloc_zero(1, 10));
    assert_int_equal(errno, ESTALE);
    errno = 0;
    assert_null(slab_alloc_zero(1, 100000));
    assert_int_equal(errno, ESTALE);
    epoch_domain_destroy(d);
}

/* By the id of one allocator's epoch nothing is had of another, however often both were used. */
static void each_in_its_own(void **state) {
    SlabAllocator *a = *state, *b = slab_allocator_create();
    EpochDomain *da = epoch_domain_create(a), *db = epoch_domain_create(b);
    for (int round = 0; round < 3; round++) {
        SlabHandle h;
        void *p = slab_malloc_epoch(a, 64, epoch_domain_epoch(da)),
             *q = slab_malloc_epoch(b, 64, epoch_domain_epoch(db));
        assert_true(slab_owns(a, p) && slab_owns(b, q) && !slab_owns(b, p));
        p = epoch_domain_alloc(da, 64);
        q = epoch_domain_alloc(db, 64);
        assert_true(slab_owns(a, p) && slab_owns(b, q));
        errno = 0;
        assert_null(slab_malloc_epoch(a, 64, epoch_domain_epoch(db)));
        assert_int_equal(errno, EINVAL);
        assert_null(alloc_obj_epoch(a, 64, epoch_domain_epoch(db), &h));
        p = alloc_obj_epoch(a, 64, epoch_domain_epoch(da), &h);
        assert_ptr_equal(slab_handle_get(a, h), p);
        assert_true(slab_handle_of(a, p) == h);
        assert_true(free_obj(a, h));
        assert_false(free_obj(a, h));
        assert_true(slab_release(q));
    }
    void *grown = slab_alloc_resize(NULL, 10);
    assert_non_null(grown);
    assert_true(slab_owns(slab_allocator_default(), grown));
    memcpy(grown, "123456789", 10);
    grown = slab_alloc_resize(grown, 100000);
    assert_string_equal(grown, "123456789");
    assert_true(slab_release(grown));
    void *of_b = epoch_domain_alloc(db, 10);
    memcpy(of_b, "123456789", 10);
    of_b = slab_alloc_resize(of_b, 5000);
    assert_true(slab_owns(b, of_b));
    assert_string_equal(of_b, "123456789");
    void *first = slab_realloc_epoch(b, NULL, 10, epoch_domain_epoch(db));
    assert_true(slab_owns(b, first));
    first = slab_realloc_epoch(b, first, 100, EPOCH_NONE); /* stays where it is, with any id */
    assert_true(slab_owns(b, first));
    epoch_domain_destroy(da);
    epoch_domain_destroy(db);
    assert_false(slab_release(of_b));
    slab_allocator_free(b);
}

static void *others_domain(void *arg) {
    errno = 0;
    void *p = epoch_domain_alloc(arg, 16);
    return p ? p : (void *)(intptr_t)errno;
}

static void *on_thread(void *(*fn)(void *), void *arg) {
    pthread_t t;
    void *result;
    assert_int_equal(pthread_create(&t, NULL, fn, arg), 0);
    assert_int_equal(pthread_join(t, &result), 0);
    return result;
}

static void threads(void **state) {
    SlabAllocator *a = *state;
    EpochDomain *mine = epoch_domain_create(a), *shared = epoch_domain_create_ex(a, NULL, EPOCH_DOMAIN_SHARED);
    assert_non_null(epoch_domain_alloc(mine, 16));
    assert_int_equal((intptr_t)on_thread(others_domain, mine), EPERM);
    assert_true(slab_owns(a, on_thread(others_domain, shared)));
    assert_non_null(epoch_domain_alloc(shared, 16));
    /* Handed over it is nobody's until a thread enters it. */
    assert_true(epoch_domain_hand_over(mine));
    errno = 0;
    assert_null(epoch_domain_alloc(mine, 16));
    assert_int_equal(errno, EPERM);
    assert_true(epoch_domain_enter(mine));
    assert_true(epoch_domain_exit(mine));
    assert_non_null(epoch_domain_alloc(mine, 16));
    epoch_domain_destroy(mine);
    epoch_domain_destroy(shared);
}

/* A free in one's own scope by every way in which its size is found: in the middle, at the end of 1024 bytes, the last
   one. */
static void frees_of_a_scope(void **state) {
    SlabAllocator *a = *state;
    static const size_t sizes[] = {16, 48, 64, 1024, 1040, 4096};
    for (size_t s = 0; s < sizeof sizes / sizeof *sizes; s++) {
        EpochDomain *d = epoch_domain_create(a);
        EpochId epoch = epoch_domain_epoch(d);
        static void *p[3000];
        uint64_t n = sizes[s] > 1000 ? 40 : 3000;
        for (int order = 0; order < 3; order++) {
            assert_true(epoch_domain_enter(d));
            for (uint64_t i = 0; i < n; i++) assert_non_null(p[i] = slab_alloc(sizes[s]));
            for (uint64_t i = 0; i < n; i++) {
                uint64_t at = order == 0 ? i : order == 1 ? n - 1 - i : i * 7 % n;
                if (order == 2 && n % 7 == 0) at = i;
                assert_true(slab_free(a, p[at]));
                assert_false(slab_free(a, p[at]));
                SlabEpochStats e;
                assert_true(slab_stats_epoch(a, SLAB_ALL_CLASSES, epoch, &e));
                assert_int_equal(e.live_objects, n - 1 - i);
                assert_int_equal(e.live_bytes, (n - 1 - i) * sizes[s]);
            }
            assert_true(epoch_domain_exit(d));
        }
        epoch_domain_destroy(d);
    }
}

/* A handle that was made by alloc_obj_epoch in a scope outlives the use of its slab, and names nothing then. */
static void handles_of_a_scope(void **state) {
    SlabAllocator *a = *state;
    EpochDomain *d = epoch_domain_create(a);
    EpochId epoch = epoch_domain_epoch(d);
    assert_non_null(slab_malloc_epoch(a, 64, epoch));
    assert_true(epoch_domain_reset(d, SIZE_MAX));
    SlabHandle h;
    void *p = alloc_obj_epoch(a, 64, epoch, &h), *again = NULL;
    assert_ptr_equal(slab_handle_get(a, h), p);
    assert_true(epoch_domain_reset(d, SIZE_MAX));
    for (int i = 0; i < 1000 && again != p; i++) again = slab_malloc_epoch(a, 64, epoch);
    assert_ptr_equal(again, p);
    assert_null(slab_handle_get(a, h));
    assert_false(free_obj(a, h));
    assert_true(slab_owns(a, p));
    epoch_domain_destroy(d);
}

/* Many named domains in turn: each object is in the one that was named. */
static void many_named(void **state) {
    SlabAllocator *a = *state;
    enum { DOMAINS = 200 };
    static EpochDomain *d[DOMAINS];
    for (int i = 0; i < DOMAINS; i++) d[i] = epoch_domain_create(a);
    for (int round = 0; round < 20; round++)
        for (int i = 0; i < DOMAINS; i++) {
            assert_non_null(epoch_domain_alloc(d[i], 700));
            assert_non_null(slab_malloc_epoch(a, 700, epoch_domain_epoch(d[(i * 64) % DOMAINS])));
        }
    uint64_t sum = 0;
    for (int i = 0; i < DOMAINS; i++) {
        uint64_t of_it = live(a, epoch_domain_epoch(d[i]));
        assert_true(of_it >= 20);
        sum += of_it;
        epoch_domain_destroy(d[i]);
    }
    assert_int_equal(sum, 2 * 20 * DOMAINS);
}

typedef struct walked {
    void *seen[64];
    size_t count, stop, bytes;
} walked;

static bool note(void *p, size_t bytes, void *arg) {
    walked *w = arg;
    w->seen[w->count++] = p;
    w->bytes += bytes;
    return w->count != w->stop;
}

static bool has(const walked *w, const void *p) {
    for (size_t i = 0; i < w->count; i++)
        if (w->seen[i] == p) return true;
    return false;
}

static void walks(void **state) {
    SlabAllocator *a = *state;
    for (unsigned flags = EPOCH_CHURN; flags <= EPOCH_SCOPE; flags++) {
        EpochId epoch = epoch_open(a, NULL, flags), other = epoch_open(a, NULL, flags);
        static const size_t sizes[] = {1, 16, 48, 64, 100, 128, 4096, 5000, 8192, 20000, 100000};
        enum { KINDS = sizeof sizes / sizeof *sizes };
        void *p[KINDS][2];
        for (int i = 0; i < KINDS; i++) {
            for (int j = 0; j < 2; j++) assert_non_null(p[i][j] = slab_malloc_epoch(a, sizes[i], epoch));
            assert_non_null(slab_malloc_epoch(a, sizes[i], other));
            assert_true(slab_free(a, p[i][0]));
        }
        walked w = {.stop = SIZE_MAX};
        assert_int_equal(slab_walk(a, epoch, note, &w), KINDS);
        assert_int_equal(w.count, KINDS);
        for (int i = 0; i < KINDS; i++) assert_true(has(&w, p[i][1]) && !has(&w, p[i][0]));
        SlabEpochStats e;
        assert_true(slab_stats_epoch(a, SLAB_ALL_CLASSES, epoch, &e));
        assert_int_equal(w.bytes, e.live_bytes);
        walked some = {.stop = 3};
        assert_int_equal(slab_walk(a, epoch, note, &some), 3);
        assert_true(epoch_close(a, epoch)); /* an epoch that drains can be walked */
        walked drains = {.stop = SIZE_MAX};
        assert_int_equal(slab_walk(a, epoch, note, &drains), KINDS);
        assert_true(epoch_destroy(a, epoch));
        errno = 0;
        assert_int_equal(slab_walk(a, epoch, note, &w), 0);
        assert_int_equal(errno, EINVAL);
        errno = 0;
        assert_int_equal(slab_walk(a, other, NULL, NULL), 0);
        assert_int_equal(errno, EINVAL);
    }
}

static char order[16];
static void cleanup(void *arg) { strncat(order, arg, 1); }
static void another(void *arg) { strncat(order, arg, 0); }

static void cleanups_taken_back(void **state) {
    SlabAllocator *a = *state;
    EpochDomain *d = epoch_domain_create(a);
    char x[] = "x", y[] = "y", z[] = "z";
    order[0] = 0;
    assert_true(epoch_domain_on_destroy(d, cleanup, x));
    assert_true(epoch_domain_on_destroy(d, cleanup, y));
    assert_true(epoch_domain_on_destroy(d, cleanup, x));
    assert_true(epoch_domain_on_destroy(d, cleanup, z));
    errno = 0;
    assert_false(epoch_domain_off_destroy(d, another, x));
    assert_int_equal(errno, ENOENT);
    assert_true(epoch_domain_off_destroy(d, cleanup, x)); /* the newer of the two */
    assert_true(epoch_domain_off_destroy(d, cleanup, z)); /* the newest of all */
    assert_false(epoch_domain_off_destroy(d, cleanup, z));
    epoch_domain_destroy(d);
    assert_string_equal(order, "yx");
    errno = 0;
    assert_false(epoch_domain_off_destroy(d, cleanup, x));
    assert_int_equal(errno, EINVAL);
}

static _Atomic bool goes_on;
static _Atomic unsigned advanced;
static void *advances(void *allocator) {
    while (atomic_load(&goes_on)) {
        if (epoch_advance(allocator) == EPOCH_NONE) return allocator;
        atomic_fetch_add(&advanced, 1);
    }
    return NULL;
}

/* Outside of any domain: no call fails because the epoch that it began with is closed by then. */
static void while_another_thread_advances(void **state) {
    (void)state;
    SlabAllocator *a = slab_allocator_default();
    pthread_t thread;
    atomic_store(&goes_on, true);
    assert_int_equal(pthread_create(&thread, NULL, advances, a), 0);
    for (unsigned round = 0; round < 500 || atomic_load(&advanced) < 500; round++) {
        errno = 7;
        void *made[] = {slab_alloc(100),
                        slab_alloc(100000),
                        slab_alloc_zero(1, 60),
                        slab_alloc_zero(1, 3000),
                        slab_alloc_zero(3, 3000),
                        slab_alloc_zero(1, 100000),
                        slab_alloc_aligned(64, 100),
                        slab_alloc_aligned(8192, 100),
                        slab_alloc_aligned(64, 100000),
                        slab_alloc_resize(NULL, 100000),
                        slab_alloc_memdup("x", 1),
                        slab_alloc_strdup("x"),
                        slab_alloc_printf("%d", 1),
                        slab_malloc(a, 100000),
                        slab_realloc(a, NULL, 5000),
                        slab_realloc_aligned(a, NULL, 64, 100),
                        slab_realloc_aligned(a, NULL, 4096, 100000)};
        for (size_t i = 0; i < sizeof made / sizeof *made; i++) {
            if (!made[i]) fail_msg("call %zu of round %u: %s", i, round, strerror(errno));
            assert_true(slab_free(a, made[i]));
        }
        assert_int_equal(errno, 7);
    }
    void *failed;
    atomic_store(&goes_on, false);
    assert_int_equal(pthread_join(thread, &failed), 0);
    assert_null(failed);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        SUP_WITH_ALLOCATOR(in_scope),
        SUP_WITH_ALLOCATOR(in_churn),
        SUP_WITH_ALLOCATOR(refusals),
        SUP_WITH_ALLOCATOR(each_in_its_own),
        SUP_WITH_ALLOCATOR(threads),
        SUP_WITH_ALLOCATOR(frees_of_a_scope),
        SUP_WITH_ALLOCATOR(handles_of_a_scope),
        SUP_WITH_ALLOCATOR(many_named),
        SUP_WITH_ALLOCATOR(walks),
        SUP_WITH_ALLOCATOR(cleanups_taken_back),
        cmocka_unit_test(while_another_thread_advances),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
