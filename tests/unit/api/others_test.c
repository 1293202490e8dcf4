/* A thread that goes from one allocator to another, and from one alignment to another: its objects are where they were
   asked for, and the slow path's refusals hold here. */
#include "unit.h"

#include "identities.h"
#include "ownership/ownership.h"
#include "pattern.h"
#include "rng.h"

#include <errno.h>
#include <string.h>

enum { ALLOCATORS = 11, LIVE = 60, STEPS = 40000 };
_Static_assert(ALLOCATORS > TS_RECENT_SHARES, "some are found by a search");

static SlabAllocator *allocators[ALLOCATORS];
static EpochId churn[ALLOCATORS], scope[ALLOCATORS];

typedef struct object {
    unsigned char *at;
    size_t bytes;
    unsigned owner;
} object;

static object live[ALLOCATORS * LIVE];
static uint64_t count[ALLOCATORS];

static size_t size_of(struct sup_rng *rng) {
    return sup_rng_below(rng, 20) == 0 ? 1 + sup_rng_below(rng, 100000) : 1 + sup_rng_below(rng, 700);
}

static void make(struct sup_rng *rng, object *o, unsigned owner) {
    SlabAllocator *a = allocators[owner];
    o->owner = owner;
    o->bytes = size_of(rng);
    size_t align = 16;
    switch (sup_rng_below(rng, 8)) {
    case 0: o->at = slab_malloc(a, o->bytes); break;
    case 1: o->at = slab_malloc_epoch(a, o->bytes, scope[owner]); break;
    case 2:
    case 3:
        align = (size_t)32 << sup_rng_below(rng, 9);
        o->at = slab_aligned_epoch(a, align, o->bytes, churn[owner]);
        break;
    default: o->at = slab_malloc_epoch(a, o->bytes, churn[owner]);
    }
    assert_non_null(o->at);
    assert_int_equal((uintptr_t)o->at % align, 0);
    assert_true(slab_usable_size(a, o->at) >= o->bytes);
    memset(o->at, (int)(o->bytes & 0xff), o->bytes);
    count[owner]++;
}

static void end(struct sup_rng *rng, object *o) {
    unsigned wrong = (o->owner + 1 + sup_rng_below(rng, ALLOCATORS - 1)) % ALLOCATORS;
    for (size_t i = 0; i < o->bytes; i++)
        if (o->at[i] != (unsigned char)(o->bytes & 0xff)) fail();
    assert_false(slab_owns(allocators[wrong], o->at));
    assert_false(slab_free(allocators[wrong], o->at));
    assert_true(slab_free(allocators[o->owner], o->at));
    assert_false(slab_free(allocators[o->owner], o->at));
    count[o->owner]--;
    o->at = NULL;
}

static void look(void) {
    for (unsigned i = 0; i < ALLOCATORS; i++) {
        assert_int_equal(sup_live_objects(allocators[i]), count[i]);
        sup_check_identities(allocators[i]);
    }
}

static int open_all(void **state) {
    (void)state;
    for (unsigned i = 0; i < ALLOCATORS; i++) {
        SlabOptions options = {.size = sizeof options, .on_misuse = SLAB_MISUSE_IGNORE, .memory_tools = SLAB_TOOLS_OFF};
        allocators[i] = slab_allocator_create_ex(&options);
        churn[i] = epoch_open(allocators[i], NULL, EPOCH_CHURN);
        scope[i] = epoch_open(allocators[i], NULL, EPOCH_SCOPE);
        if (scope[i] == EPOCH_NONE) return -1;
    }
    return 0;
}

static int free_all(void **state) {
    (void)state;
    for (unsigned i = 0; i < ALLOCATORS; i++) slab_allocator_free(allocators[i]);
    return 0;
}

static void in_random_order(void **state) {
    (void)state;
    struct sup_rng rng = {17};
    for (unsigned step = 0; step < STEPS; step++) {
        object *o = &live[sup_rng_below(&rng, ALLOCATORS * LIVE)];
        if (o->at)
            end(&rng, o);
        else
            make(&rng, o, sup_rng_below(&rng, ALLOCATORS));
        if (step % (STEPS / 4) == 0) look();
    }
    look();
    for (unsigned i = 0; i < ALLOCATORS * LIVE; i++)
        if (live[i].at) end(&rng, &live[i]);
    look();
}

/* The thread's binding changes once in many calls, and not with each. */
static void without_being_bound_anew(void **state) {
    (void)state;
    unsigned changes = 0, calls = 0;
    void *first = slab_malloc_epoch(allocators[0], 100, churn[0]);
    assert_true(slab_free(allocators[0], first));
    /* With a tool there a thread is not bound to another allocator by the usual paths either. */
    if (ts_heap_find_share(ts_thread.heap, (uintptr_t)allocators[0])->care) skip();
    for (unsigned retained = 0; retained < 2; retained++) {
        changes = calls = 0;
        for (unsigned i = 0; i < 1000; i++) {
            unsigned owner = i % 4;
            uintptr_t before = ts_load_relaxed(&ts_thread.token);
            void *p = slab_malloc_epoch(allocators[owner], 100, churn[owner]), *q = slab_malloc(allocators[owner], 100);
            assert_true(slab_free(allocators[owner], p) && slab_free(allocators[owner], q));
            changes += ts_load_relaxed(&ts_thread.token) != before;
            calls += 4;
        }
    }
    assert_true(changes <= calls / TS_OTHERS_MOST + 2);
    /* One that stays with another is bound to it before long. */
    for (unsigned i = 0; i < 2 * TS_OTHERS_MOST; i++)
        assert_true(slab_free(allocators[5], slab_malloc_epoch(allocators[5], 100, churn[5])));
    assert_int_equal(ts_load_relaxed(&ts_thread.token), (uintptr_t)allocators[5]);
}

/* A thread that is called answers in its next allocation or free, whichever allocator it is for. */
static void a_call_is_answered(void **state) {
    (void)state;
    ts_heap *heap = ts_thread.heap;
    for (unsigned way = 0; way < 10; way++) {
        SlabAllocator *a = allocators[way % 2];
        void *p[2];
        for (unsigned i = 0; i < 2; i++)
            p[i] = slab_malloc_epoch(allocators[i], 100, churn[i]); /* now bound to either */
        for (unsigned i = 0; i < 2; i++) assert_true(slab_free(allocators[i], slab_malloc(allocators[i], 100)));
        ts_fetch_add_relaxed(&heap->revoked, TS_CALLED); /* as ts_heap_notify, which met an operation */
        ts_store_relaxed(&ts_thread.token, TS_TOKEN_CALLED);
        void *made = NULL;
        switch (way / 2) {
        case 0: made = slab_malloc(a, 100); break;
        case 1: made = slab_malloc_epoch(a, 100, churn[way % 2]); break;
        case 2: made = slab_malloc_epoch(a, 20000, churn[way % 2]); break;
        case 3: made = slab_aligned_epoch(a, 64, 100, churn[way % 2]); break;
        default: assert_true(slab_free(a, p[way % 2])); p[way % 2] = NULL;
        }
        assert_false(ts_heap_is_notified(heap));
        assert_true(slab_free(a, made));
        for (unsigned i = 0; i < 2; i++) assert_true(slab_free(allocators[i], p[i]));
    }
    look();
}

/* One ends while the thread is bound to another: its objects are gone, and its epoch, and the next allocator gets
   neither. */
static void one_of_them_ends(void **state) {
    (void)state;
    for (unsigned round = 0; round < 3 * TS_RECENT_SHARES; round++) {
        SlabAllocator *a = slab_allocator_create(), *kept = allocators[round % ALLOCATORS];
        EpochId epoch = epoch_open(a, NULL, EPOCH_CHURN);
        void *p[20];
        for (unsigned i = 0; i < 20; i++) {
            p[i] = slab_malloc_epoch(a, 80, epoch);
            assert_true(slab_free(kept, slab_malloc_epoch(kept, 80, churn[round % ALLOCATORS])));
        }
        assert_true(slab_free(a, p[0]));
        slab_allocator_free(a);
        assert_false(slab_free(a, p[1]));
        errno = 0;
        assert_null(slab_malloc_epoch(a, 80, epoch));
        assert_int_equal(errno, EINVAL);
        assert_null(slab_malloc(a, 80));
        assert_null(slab_aligned_epoch(a, 64, 80, epoch));
        assert_true(slab_free(kept, slab_malloc_epoch(kept, 80, churn[round % ALLOCATORS])));
    }
    look();
}

/* A closed epoch of one gets nothing from the usual paths of a thread that is bound to another. */
static void one_epoch_closes(void **state) {
    (void)state;
    EpochId epoch = epoch_open(allocators[1], NULL, EPOCH_CHURN);
    void *p = slab_malloc_epoch(allocators[1], 200, epoch), *q = slab_malloc_epoch(allocators[1], 200, epoch);
    assert_true(slab_free(allocators[1], q));
    assert_true(slab_free(allocators[0], slab_malloc_epoch(allocators[0], 200, churn[0])));
    assert_true(epoch_close(allocators[1], epoch));
    assert_null(slab_malloc_epoch(allocators[1], 200, epoch));
    assert_null(slab_aligned_epoch(allocators[1], 128, 200, epoch));
    assert_true(slab_free(allocators[1], p));
    assert_int_equal(epoch_state(allocators[1], epoch), EPOCH_CLOSED);
    EpochId before = epoch_current(allocators[1]);
    void *r = slab_malloc(allocators[1], 200);
    assert_true(slab_free(allocators[0], slab_malloc(allocators[0], 200)));
    EpochId after = epoch_advance(allocators[1]);
    assert_true(after != EPOCH_NONE && after != before);
    void *s = slab_malloc(allocators[1], 200);
    SlabEpochStats stats;
    assert_true(slab_stats_epoch(allocators[1], SLAB_ALL_CLASSES, after, &stats));
    assert_int_equal(stats.live_objects, 1);
    assert_true(slab_free(allocators[1], r) && slab_free(allocators[1], s));
    look();
}

/* From the bins as without them: the smallest class whose objects all lie so. */
static void aligned_in_the_usual_path(void **state) {
    (void)state;
    for (unsigned round = 0; round < 2; round++) { /* the second time from the magazine */
        for (size_t align = 32; align <= 16384; align *= 2) {
            static const size_t sizes[] = {0, 1, 31, 33, 100, 1000, 1024, 1025, 4096, 5000, 8191, 8192, 8193, 60000};
            for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
                unsigned cls = ts_class_aligned(sizes[i], align);
                unsigned char *p = slab_aligned_epoch(allocators[0], align, sizes[i], churn[0]);
                assert_non_null(p);
                assert_int_equal((uintptr_t)p % align, 0);
                if (cls < TS_CLASSES) assert_int_equal(slab_usable_size(allocators[0], p), ts_class_bytes[cls]);
                memset(p, 1, sizes[i]);
                assert_true(slab_free(allocators[0], p));
            }
        }
    }
    errno = 0;
    assert_null(slab_aligned_epoch(allocators[0], 64, SIZE_MAX, churn[0]));
    assert_int_equal(errno, ENOMEM);
    assert_null(slab_aligned_epoch(allocators[0], 4096, SIZE_MAX - 100, churn[0]));
    look();
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(in_random_order),    cmocka_unit_test(without_being_bound_anew),
        cmocka_unit_test(a_call_is_answered), cmocka_unit_test(one_of_them_ends),
        cmocka_unit_test(one_epoch_closes),   cmocka_unit_test(aligned_in_the_usual_path),
    };
    return cmocka_run_group_tests_name("api.others", tests, open_all, free_all);
}
