/*
 * observe/sizes.c: an object in a slab of mixed sizes counts in its size class: for an epoch, by label, to the doctor
 * and in the metrics. An object that any thread frees there counts in none.
 */
#include "check.h"
#include "identities.h"
#include "proc.h"
#include "unit.h"

#include "advice/advice.h"
#include "api/runtime.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <tslab/stats.h>

static SlabEpochStats of_class(SlabAllocator *a, EpochId id, uint32_t cls) {
    SlabEpochStats s;
    assert_true(slab_stats_epoch(a, cls, id, &s));
    assert_int_equal(s.allocated_objects_total - s.freed_objects_total, s.live_objects);
    return s;
}
static uint64_t live(SlabAllocator *a, EpochId id, size_t size) {
    return of_class(a, id, (uint32_t)slab_class_of(size)).live_objects;
}

static void *free_one(void *p) {
    SUP_CHECK(slab_release(p), "slab_release of %p", p);
    return NULL;
}

/* Sizes on both sides of classes, gaps for alignments, the last object of a slab and of the epoch, pieces. */
static void of_an_epoch(void **state) {
    SlabAllocator *a = *state;
    static const size_t sizes[] = {16, 100, 128, 129, 1000, 5000, 3000, 8192};
    enum { SIZES = sizeof sizes / sizeof *sizes, EACH = 20 };
    EpochId e = epoch_open(a, "mixed", EPOCH_SCOPE);
    void *p[EACH][SIZES];
    uint64_t bytes = 0, want[64] = {0};
    for (unsigned n = 0; n < EACH; n++)
        for (unsigned i = 0; i < SIZES; i++) {
            p[n][i] = i % 2 ? slab_malloc_epoch(a, sizes[i], e) : slab_aligned_epoch(a, 256, sizes[i], e);
            assert_non_null(p[n][i]);
            bytes += slab_usable_size(a, p[n][i]);
            want[slab_class_of(slab_usable_size(a, p[n][i]))]++;
        }
    assert_int_equal(of_class(a, e, SLAB_ALL_CLASSES).live_bytes, bytes);
    for (uint32_t cls = 0; cls < slab_class_count(); cls++)
        assert_int_equal(of_class(a, e, cls).live_objects, want[cls]);
    SlabEpochStats rest = of_class(a, e, SLAB_CLASS_SCOPE), of_100 = of_class(a, e, (uint32_t)slab_class_of(100));
    assert_true(rest.live_objects == 0 && rest.live_bytes == 0 && rest.slab_count > 0);
    assert_true(of_100.live_bytes == EACH * 112 && of_100.slab_count == 0 && of_100.estimated_rss_bytes == 0);
    for (unsigned n = 0; n < EACH; n += 2) {
        assert_true(slab_free(a, p[n][1]));
        sup_in_thread(free_one, p[n][3]); /* its owner, this thread, does nothing since */
    }
    assert_true(live(a, e, 100) == EACH / 2 && live(a, e, 129) == EACH / 2 && live(a, e, 5000) == EACH);
    assert_int_equal(of_class(a, e, SLAB_CLASS_SCOPE).freed_objects_total, EACH);
    sup_check_identities(a);
    assert_true(epoch_destroy(a, e));
    assert_int_equal(live(a, e, 100), 0);
}

/* The first objects of an epoch lie in a slab of mixed sizes where many closed epochs hold some. */
enum { LEAKS = 300, LEAST = 64 };

static void leak(SlabAllocator *a) {
    for (unsigned n = 0; n < LEAKS; n++) {
        EpochId e = epoch_open(a, "handler:/api/upload", EPOCH_CHURN);
        void *p[9];
        for (unsigned i = 0; i < 9; i++) assert_non_null(p[i] = slab_malloc_epoch(a, i % 3 ? 128 : 300, e));
        for (unsigned i = 0; i < 9; i++) assert_true(i == 1 || slab_free(a, p[i]));
        assert_true(epoch_close(a, e));
    }
}

static ts_view *view_of(SlabAllocator *a) {
    ts_view *view = ts_advised_view(ts_allocator_find(ts_token(a)), ts_token(a));
    assert_non_null(view);
    return view;
}

static void of_a_leak(void **state) {
    SlabAllocator *a = *state;
    unsigned cls = (unsigned)slab_class_of(128);
    leak(a);
    ts_view *view = view_of(a);
    const ts_label_stats *l = &view->label[0];
    assert_true(view->label_rows == 1 && l->closing_live_objects == LEAKS);
    assert_int_equal(l->class_objects[1][cls], LEAKS);
    assert_int_equal(l->class_bytes[1][cls], LEAKS * 128);
    assert_true(l->class_objects[1][TS_COUNT_SCOPE] == 0 && l->class_bytes[1][TS_COUNT_SCOPE] == 0);
    assert_true(l->class_slabs[1][TS_COUNT_SCOPE] >= LEAKS - LEAST - 1); /* they do lie there */
    view->label[0].closing_for_ns = 20000000000u;
    ts_doctor(view, 0);
    assert_non_null(strstr(view->finding[0].what, "in 128-byte objects for 20 s after its close"));
    ts_view_free(view);
    static char text[1 << 20];
    assert_true(slab_stats_prometheus(a, text, sizeof text) < sizeof text);
    const char *of_128 = "class_live_objects{label=\"handler:/api/upload\",state=\"closing\",class=\"128\"} 300\n";
    assert_non_null(strstr(text, of_128));
    assert_null(strstr(text, "class_live_objects{label=\"handler:/api/upload\",state=\"closing\",class=\"scope\""));
    assert_true(slab_stats_json(a, text, sizeof text) < sizeof text);
    assert_non_null(strstr(text, "\"class\":\"128\",\"active_live_objects\":0,\"active_live_bytes\":0,"
                                 "\"closing_live_objects\":300,\"closing_live_bytes\":38400"));
}

/* Of a domain, which is a scope: in its label's classes; objects that another thread has freed are in none. */
static void of_a_domain(void **state) {
    SlabAllocator *a = *state;
    EpochDomain *d = epoch_domain_create_ex(a, "request", 0);
    void *p[10];
    for (unsigned i = 0; i < 10; i++) assert_non_null(p[i] = epoch_domain_alloc(d, 40));
    for (unsigned i = 0; i < 4; i++) sup_in_thread(free_one, p[2 * i]);
    ts_view *view = view_of(a);
    assert_int_equal(view->label[0].class_objects[0][(unsigned)slab_class_of(40)], 6);
    assert_int_equal(view->label[0].class_objects[0][TS_COUNT_SCOPE], 0);
    assert_int_equal(view->label[0].active_live_objects, 6);
    ts_view_free(view);
    epoch_domain_destroy(d);
}

int main(void) {
    const struct CMUnitTest tests[] = {SUP_WITH_ALLOCATOR(of_an_epoch), SUP_WITH_ALLOCATOR(of_a_leak),
                                       SUP_WITH_ALLOCATOR(of_a_domain)};
    return cmocka_run_group_tests_name("observe.sizes", tests, NULL, NULL);
}
