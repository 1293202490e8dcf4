/* The process's malloc as the core has it (api/private_objects.c): a thread that keeps a block for it allocates and
   frees there, and nowhere else once the block is not its own any more. */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include "check.h"
#include "proc.h"
#include "unit.h"

#include "api/api.h"
#include "bins.h"
#include "memtools/memtools.h"
#include "ownership/ownership.h"

#include <errno.h>
#include <pthread.h>

static SlabAllocator *allocator;
static EpochId epoch;
static unsigned asked, asked_free, refused;
static const void *caller;

static void *rest(size_t size, const void *from) {
    asked++;
    caller = from;
    return ts_private_malloc_epoch(allocator, size, epoch);
}
static void *nothing(size_t size, const void *from) {
    (void)size, (void)from;
    asked++;
    return NULL;
}
static void free_rest(void *p) {
    asked_free++;
    assert_true(slab_free(allocator, p));
}
static bool is_refused(void *p) {
    (void)p;
    refused++;
    return true;
}

static void *make(size_t size) {
    void *p = ts_private_malloc(size, rest, &asked);
    assert_non_null(p);
    return p;
}
static void end(void *p) { ts_private_free(p, free_rest); }

static uint64_t live(void) {
    SlabEpochStats stats;
    assert_true(slab_stats_epoch(allocator, SLAB_ALL_CLASSES, epoch, &stats));
    return stats.live_objects;
}
static bool is_bound(void) { return ts_load_relaxed(&ts_thread.private_word) != TS_WORD_NONE; }

/* The process's allocator and its epoch never end. */
static int start(void **state) {
    (void)state;
    allocator = slab_allocator_create();
    ts_private_ask_before_refusal(allocator, is_refused);
    epoch = epoch_open(allocator, NULL, EPOCH_CHURN);
    ts_private_keep(epoch);
    return epoch == EPOCH_NONE;
}

static int begin(void **state) {
    (void)state;
    ts_private_serve(allocator);
    ts_private_elsewhere();
    end(make(100)); /* bound */
    asked = asked_free = refused = 0;
    return live() != 0;
}

/* Sizes of all classes, more than the magazines hold, and large objects; then impossible requests. */
static void usual(void **state) {
    (void)state;
    enum { OBJECTS = 300 };
    void *p[OBJECTS];
    for (size_t size = 0; size <= 60000; size = size * 5 / 4 + 15) {
        for (unsigned i = 0; i < OBJECTS; i++) p[i] = make(size);
        asked = 0;
        assert_int_equal(live(), OBJECTS);
        for (unsigned i = 0; i < OBJECTS; i++) assert_true(slab_usable_size(allocator, p[i]) >= size);
        for (unsigned i = 0; i < OBJECTS; i++) end(p[i]);
        for (unsigned i = 0; i < 10; i++) end(make(size));
        assert_int_equal(live(), 0);
        assert_int_equal(asked, 0);
    }
    errno = 0;
    unsigned slow = 0; /* where a tool listens, large objects are */
    for (size_t size = 70000; size < 60 << 20; size *= 3) {
        slow += ts_care_tools;
        char *large = make(size);
        assert_int_equal(live(), 1);
        end(large + 16); /* no object begins there */
        end(large + TS_UNIT_BYTES);
        assert_int_equal(live(), 1);
        end(large);
        end(large); /* once more */
        assert_int_equal(live(), 0);
        assert_int_equal(refused, 3);
        refused = 0;
    }
    end(NULL);
    assert_int_equal(asked, slow);
    assert_int_equal(asked_free, 0);
    assert_int_equal(errno, 0);
    asked = 0;
    assert_null(ts_private_malloc(SIZE_MAX, rest, &asked));
    assert_int_equal(asked, 1);
    assert_ptr_equal(caller, &asked);
}

/* As slab_free refuses: each is told, and none changes anything. */
static void not_live(void **state) {
    (void)state;
    static char elsewhere[64];
    SlabAllocator *other = slab_allocator_create();
    void *p = make(100), *q = make(100), *theirs = slab_malloc(other, 100);
    end(p);
    const void *const wrong[] = {p, (char *)q + 16, (char *)q + 1, elsewhere, theirs, (void *)16, (char *)p + 4096};
    for (unsigned i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        end((void *)(uintptr_t)wrong[i]);
        assert_int_equal(refused, i + 1);
    }
    assert_int_equal(live(), 1);
    assert_true(slab_free(other, theirs));
    slab_allocator_free(other);
    void *r = make(100), *s = make(100);
    assert_ptr_not_equal(r, s);
    end(q);
    end(r);
    end(s);
    assert_int_equal(live(), 0);
}

/* In a domain that captures. */
static void elsewhere(void **state) {
    (void)state;
    void *p = make(100);
    ts_private_elsewhere();
    assert_null(ts_private_malloc(100, nothing, NULL));
    end(p); /* is fast all the same, and does not bring the block back */
    assert_null(ts_private_malloc(100, nothing, NULL));
    ts_forget_private(&ts_thread);
    p = slab_malloc_epoch(allocator, 100, epoch);
    assert_false(is_bound());
    end(p); /* this is slow, and makes the next frees fast, and no more */
    assert_true(is_bound());
    assert_null(ts_private_malloc(100, nothing, NULL));
    assert_int_equal(asked, 3);
    end(make(100));
    end(make(100));
    assert_int_equal(asked, 4);
    assert_int_equal(live(), 0);
}

/* Nobody is served: early in the process, and in the hard mode. */
static void not_served(void **state) {
    (void)state;
    static char early[64];
    ts_private_serve(NULL);
    ts_forget_private(&ts_thread);
    void *p = slab_malloc_epoch(allocator, 100, epoch);
    end(NULL);
    assert_int_equal(asked_free, 0);
    end(p);
    assert_int_equal(asked_free, 1);
    assert_int_equal(live(), 0);
    ts_private_serve(allocator);
    end(early);
    assert_int_equal(asked_free, 1);
    assert_int_equal(refused, 1);
}

/* The epoch does not end. */
static void kept(void **state) {
    (void)state;
    void *p = make(100);
    errno = 0;
    assert_false(epoch_close(allocator, epoch));
    assert_int_equal(errno, EBUSY);
    errno = 0;
    assert_false(epoch_destroy(allocator, epoch));
    assert_int_equal(errno, EBUSY);
    for (unsigned closes = 0; closes < 2; closes++) { /* a domain could close it, or hand it over */
        errno = 0;
        EpochDomain *domain = epoch_domain_wrap(allocator, epoch, closes);
        if (domain && closes)
            epoch_domain_destroy(domain);
        else if (domain)
            (void)epoch_domain_hand_over(domain);
        assert_null(domain);
        assert_int_equal(errno, EBUSY);
    }
    slab_allocator_free(allocator);
    end(p);
    end(make(100));
    assert_int_equal(asked + refused, 0);
    assert_int_equal(live(), 0);
    assert_false(epoch_close(allocator, EPOCH_NONE)); /* and there is no such one */
}

/* A thread is bound by an allocation in the epoch alone, and while its fast paths are for that allocator. */
static void bound(void **state) {
    (void)state;
    SlabAllocator *other = slab_allocator_create();
    EpochId second = epoch_open(allocator, NULL, EPOCH_CHURN), theirs = epoch_open(other, NULL, EPOCH_CHURN);
    ts_churn_block *block = ts_load_relaxed(&ts_thread.private_block);
    for (unsigned i = 0; i < 2; i++) {
        ts_heap *heap = ts_thread.heap;
        ts_forget_private(&ts_thread);
        void *p = i ? ts_private_malloc_epoch(other, 100, theirs) : ts_private_malloc_epoch(allocator, 100, second);
        assert_true(ts_load_relaxed(&ts_thread.private_block) == (i ? &ts_no_block : block));
        assert_ptr_not_equal(ts_load_relaxed(&ts_thread.private_block), ts_thread.block);
        assert_true(slab_free(i ? other : allocator, p));
        /* in the place where the thread looks for the block there is another */
        ts_churn_block **at = &heap->map[(uint32_t)epoch % TS_HEAP_MAP];
        ts_forget_private(&ts_thread);
        *at = ts_thread.block;
        assert_true(slab_free(allocator, slab_malloc_epoch(allocator, 100, second)));
        p = ts_private_malloc_epoch(allocator, 100, second);
        assert_ptr_equal(ts_load_relaxed(&ts_thread.private_block), &ts_no_block);
        assert_true(slab_free(allocator, p));
        *at = block;
    }
    assert_true(epoch_destroy(allocator, second));
    slab_allocator_free(other);
    assert_int_equal(live(), 0);
}

/* A thread that is called answers in its next allocation, and in its next free. */
static void a_call_is_answered(void **state) {
    (void)state;
    ts_heap *heap = ts_thread.heap;
    for (unsigned way = 0; way < 4; way++) {
        void *p = make(100);
        end(make(100));
        asked = 0;
        ts_fetch_add_relaxed(&heap->revoked, TS_CALLED); /* as ts_heap_notify, which met an operation */
        if (way < 2)
            ts_heap_notify_thread(heap);
        else
            ts_heap_bind_private(heap, ts_thread.private_bins, true); /* after that was written over */
        if (way % 2)
            end(make(100));
        else
            end(p);
        assert_false(ts_heap_is_notified(heap));
        assert_int_equal(asked, way % 2);
        if (way % 2) end(p);
        end(make(100));
        assert_true(is_bound());
        asked = 0;
        end(make(100));
        assert_int_equal(asked, 0);
    }
    assert_int_equal(live(), 0);
}

static void *free_theirs(void *arg) {
    void **p = arg;
    for (unsigned i = 0; i < 300; i++) end(p[i]);
    for (unsigned i = 0; i < 300; i++) p[i] = make(200);
    return NULL;
}

/* Objects of threads that have ended, and of others. */
static void of_other_threads(void **state) {
    (void)state;
    void *p[300];
    for (unsigned round = 0; round < 5; round++) {
        for (unsigned i = 0; i < 300; i++) p[i] = make(100);
        pthread_t thread;
        assert_int_equal(pthread_create(&thread, NULL, free_theirs, p), 0);
        assert_int_equal(pthread_join(thread, NULL), 0);
        assert_int_equal(live(), 300);
        for (unsigned i = 0; i < 300; i++) end(p[i]);
        assert_int_equal(live(), 0);
        end(p[7]);
        assert_int_equal(refused, round + 1);
    }
}

static pthread_barrier_t both;
static void *leave_some(void *arg) {
    void **p = arg;
    for (unsigned i = 0; i < 50; i++) p[i] = slab_malloc_epoch(allocator, 100, epoch);
    pthread_barrier_wait(&both); /* each in a block of its own */
    return NULL;
}
static ts_heap *heap_of(const void *p) { return ts_load_relaxed(&block_of(p)->heap); }
/* A thread goes on in the block of the ended thread an object of which it has freed. */
static void *come_after(void *arg) {
    void **p = arg;
    end(p[1]);
    p[1] = make(100);
    SUP_CHECK(heap_of(p[0]) == ts_thread.heap && heap_of(p[1]) == ts_thread.heap, "it goes on elsewhere");
    SUP_CHECK(heap_of(p[50]) != ts_thread.heap && heap_of(p[99]) != ts_thread.heap, "it takes a second one");
    return NULL;
}
static void inherited(void **state) {
    (void)state;
    void *p[100];
    pthread_t thread[2];
    assert_int_equal(pthread_barrier_init(&both, NULL, 2), 0);
    for (unsigned i = 0; i < 2; i++) assert_int_equal(pthread_create(&thread[i], NULL, leave_some, &p[50 * i]), 0);
    for (unsigned i = 0; i < 2; i++) assert_int_equal(pthread_join(thread[i], NULL), 0);
    /* of the two blocks, whichever is first in the epoch's list */
    for (unsigned i = 0; i < 2; i++) {
        void *turned[100];
        for (unsigned k = 0; k < 100; k++) turned[k] = p[(k + 50 * i) % 100];
        assert_int_equal(pthread_create(&thread[0], NULL, come_after, turned), 0);
        assert_int_equal(pthread_join(thread[0], NULL), 0);
        for (unsigned k = 0; k < 100; k++) p[(k + 50 * i) % 100] = turned[k];
    }
    for (unsigned i = 0; i < 100; i++) end(p[i]);
    assert_int_equal(live() + refused, 0);
}

enum { LEFT = 40, LEFT_BYTES = 3000 };
static void *leave_large_ones(void *arg) {
    void **p = arg;
    for (unsigned i = 0; i < LEFT; i++) p[i] = slab_malloc_epoch(allocator, LEFT_BYTES, epoch);
    return NULL;
}

/* A thread adopts a block for a class of which it has no slot, and works there from then on. Frees in its other block
   go to magazines as well: none of them is a step in a slab. */
static void free_in_the_other_block(void **state) {
    (void)state;
    static void *own[400], *more[3000];
    void *p[LEFT];
    for (unsigned i = 0; i < 400; i++) own[i] = make(1000); /* twice as many slabs as the other thread's, and more */
    sup_in_thread(leave_large_ones, p);
    end(p[0]);
    unsigned count = 0, freed = 0;
    while (count < 3000 && heap_of(p[1]) != ts_thread.heap) more[count++] = make(LEFT_BYTES);
    ts_churn_block *other = ts_churn(block_of(own[399]));
    assert_ptr_equal(heap_of(p[1]), ts_thread.heap);
    assert_ptr_equal(other->b.heap, ts_thread.heap);
    assert_ptr_not_equal(other, ts_load_relaxed(&ts_thread.private_block));
    unsigned cls = (unsigned)slab_class_of(1000), depth = (unsigned)ts_bin_depth(&other->bin[cls]);
    uint64_t direct = ts_load_relaxed(&other->bin[cls].direct_frees), before = live();
    for (unsigned i = 399; depth + freed < TS_MAGAZINE_SLOTS; i--) {
        assert_ptr_equal(block_of(own[i]), &other->b);
        end(own[i]);
        end(own[i]); /* once more */
        assert_int_equal(refused, ++freed);
        assert_int_equal(live(), before - freed);
        assert_int_equal(ts_bin_depth(&other->bin[cls]), depth + freed);
    }
    assert_true(freed > 0);
    assert_int_equal(ts_load_relaxed(&other->bin[cls].direct_frees), direct);
    (void)check_bin(other, cls);
    for (unsigned i = 0; i < 400 - freed; i++) end(own[i]);
    for (unsigned i = 1; i < LEFT; i++) end(p[i]);
    for (unsigned i = 0; i < count; i++) end(more[i]);
    assert_int_equal(live(), 0);
}

static void *times(void *arg) {
    SlabOptions options = {.size = sizeof options, .sample_rate = 1};
    *(SlabAllocator **)arg = slab_allocator_create_ex(&options);
    return NULL;
}

/* While operations are timed none is fast. Also a large object notices that another thread began with it. */
static void timed(void **state) {
    (void)state;
    SlabAllocator *other = NULL;
    sup_in_thread(times, &other);
    end(make(70000));
    for (unsigned i = 0; i < 4; i++) end(make(100));
    assert_int_equal(asked, 5);
    assert_false(is_bound());
    slab_allocator_free(other);
    ts_store_relaxed(&ts_thread.private_word, 0);
    ts_heap_unbind(); /* as the thread's end does */
    assert_ptr_equal(ts_load_relaxed(&ts_thread.private_block), &ts_no_block);
    assert_false(is_bound());
}

static void *samples(void *arg) {
    (void)arg;
    SUP_CHECK(slab_set_sample_stacks(allocator, 1), "slab_set_sample_stacks");
    return NULL;
}

/* The first large object that comes after another thread began with it is sampled. */
static void sampled(void **state) {
    (void)state;
    SlabGlobalStats stats;
    sup_in_thread(samples, NULL);
    end(make(70000));
    assert_true(slab_stats_global(allocator, &stats));
    assert_true(slab_set_sample_stacks(allocator, 0));
    assert_int_equal(asked, 1);
    assert_true(stats.stack_samples_taken > 0);
}

#define TEST(name) cmocka_unit_test_setup(name, begin)
int main(void) {
    const struct CMUnitTest tests[] = {
        TEST(usual),
        TEST(not_live),
        TEST(elsewhere),
        TEST(not_served),
        TEST(kept),
        TEST(bound),
        TEST(a_call_is_answered),
        TEST(of_other_threads),
        TEST(inherited),
        TEST(free_in_the_other_block),
        TEST(sampled),
        TEST(timed),
    };
    return cmocka_run_group_tests_name("api.private_objects", tests, start, NULL);
}
