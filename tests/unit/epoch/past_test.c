/*
 * The last 256 epochs that have ended (epoch/past.h): their records and how long these last, for every kind of end; and
 * that a record is whole while others are written over it.
 */
#include "check.h"
#include "proc.h"
#include "rng.h"
#include "unit.h"

#include "epoch/epoch.h"
#include "epoch/past.h"
#include "supply/supply.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <tslab/stats.h>

#define KEPT 256

static SlabAllocator *make(int record_rss) {
    SlabOptions options = {.size = sizeof options, .record_rss = record_rss};
    SlabAllocator *a = slab_allocator_create_ex(&options);
    assert_non_null(a);
    return a;
}

/* Of an epoch that has ended. */
static SlabEpochStats ended(SlabAllocator *a, EpochId id) {
    SlabEpochStats s;
    memset(&s, 0xff, sizeof s);
    assert_true(slab_stats_epoch(a, SLAB_ALL_CLASSES, id, &s));
    assert_int_equal(s.version, SLAB_STATS_VERSION);
    assert_true(s.epoch_id == id && s.state == EPOCH_CLOSED && s.ended_for_ns != 0);
    assert_true(s.live_objects == 0 && s.live_bytes == 0 && s.alloc_count == 0 && s.slab_count == 0);
    assert_true(s.partial_slab_count == 0 && s.full_slab_count == 0 && s.estimated_rss_bytes == 0);
    assert_true(s.reclaimable_slab_count == 0 && s.reclaimable_bytes == 0);
    return s;
}

/* Drained at its close: its figures of resident memory and of returned memory stay readable. */
static void drained_at_its_close(void **state) {
    (void)state;
    SlabAllocator *a = make(1);
    EpochId id = epoch_open(a, "phase", EPOCH_CHURN);
    static void *object[1000];
    for (int i = 0; i < 1000; i++) assert_non_null(object[i] = slab_malloc_epoch(a, 1000, id));
    for (int i = 0; i < 1000; i++) assert_true(slab_free(a, object[i]));
    SlabEpochStats live;
    assert_true(slab_stats_epoch(a, SLAB_ALL_CLASSES, id, &live));
    assert_true(live.ended_for_ns == 0 && live.returned_bytes == 0);
    assert_true(epoch_close(a, id));
    assert_int_equal(epoch_state(a, id), EPOCH_CLOSED);
    SlabEpochStats s = ended(a, id);
    assert_true(s.rss_before_close > 0 && s.rss_after_close > 0);
    assert_int_equal(s.returned_bytes, live.estimated_rss_bytes);
    assert_string_equal(s.label, "phase");
    assert_int_equal(s.flags, EPOCH_CHURN);
    assert_int_equal(s.open_since_ns, live.open_since_ns);
    assert_int_equal(s.epoch_era, live.epoch_era);
    assert_true(slab_stats_epoch(a, (uint32_t)slab_class_of(1000), id, &s));
    assert_int_equal(s.object_size, slab_class_size((uint32_t)slab_class_of(1000)));
    assert_false(slab_stats_epoch(a, 999, id, &s));
    slab_allocator_free(a);
}

static void *destroy(void *domain) {
    epoch_domain_destroy(domain);
    return NULL;
}

static void measured(SlabAllocator *a, EpochId id, bool recorded) {
    SlabEpochStats s = ended(a, id);
    assert_true((s.rss_before_close != 0) == recorded && (s.rss_after_close != 0) == recorded);
    assert_true(s.returned_bytes != 0 && s.closing_for_ns == 0);
}

/* An epoch that ends without a close reports the same resident memory as a closed one: epochs, domains of one thread
   with a label and without, shared ones that another thread ends, parents with their children, wrapped epochs. */
static void destroyed_without_a_close(void **state) {
    (void)state;
    for (int on = 1; on >= 0; on--) {
        SlabAllocator *a = make(on);
        for (int i = 0; i < 400; i++) { /* more than are kept, so that places are used again */
            EpochId id = epoch_open(a, i % 3 ? "epoch" : NULL, i % 2 ? EPOCH_SCOPE : EPOCH_CHURN);
            assert_non_null(slab_malloc_epoch(a, 100, id));
            assert_true(epoch_destroy(a, id));
            measured(a, id, on);
            EpochDomain *d = epoch_domain_create_ex(a, i % 3 ? "domain" : NULL, 0);
            id = epoch_domain_epoch(d);
            assert_non_null(epoch_domain_alloc(d, 100));
            epoch_domain_destroy(d);
            measured(a, id, on);
        }
        EpochDomain *shared = epoch_domain_create_ex(a, NULL, EPOCH_DOMAIN_SHARED);
        EpochId id = epoch_domain_epoch(shared);
        assert_non_null(epoch_domain_alloc(shared, 100));
        sup_in_thread(destroy, shared);
        measured(a, id, on);
        EpochDomain *parent = epoch_domain_create(a), *child = epoch_domain_create_child(parent, NULL, 0);
        EpochId ids[2] = {epoch_domain_epoch(parent), epoch_domain_epoch(child)};
        assert_true(epoch_domain_alloc(parent, 100) && epoch_domain_alloc(child, 100000));
        epoch_domain_destroy(parent);
        measured(a, ids[0], on);
        measured(a, ids[1], on);
        slab_allocator_free(a);
    }
}

/* The memory goes back in between. */
static void less_after_the_end(void **state) {
    (void)state;
    enum { LARGE = 48 << 20 };
    SlabOptions options = {.size = sizeof options, .record_rss = 1, .reclaim_policy = SLAB_RECLAIM_AT_ONCE};
    SlabAllocator *a = slab_allocator_create_ex(&options);
    EpochDomain *d = epoch_domain_create(a);
    EpochId id = epoch_domain_epoch(d);
    memset(epoch_domain_alloc(d, LARGE), 1, LARGE);
    epoch_domain_destroy(d);
    SlabEpochStats s = ended(a, id);
    assert_true(s.rss_before_close >= LARGE && s.rss_after_close + LARGE / 2 < s.rss_before_close);
    slab_allocator_free(a);
}

/* While it drains the figure grows, and the last free makes it whole. */
static void drained_later(void **state) {
    (void)state;
    SlabAllocator *a = make(1);
    EpochId id = epoch_open(a, NULL, EPOCH_CHURN);
    void *small = slab_malloc_epoch(a, 100, id), *large = slab_malloc_epoch(a, 1000000, id);
    assert_true(small && large && epoch_close(a, id));
    SlabEpochStats before, between;
    assert_true(slab_stats_epoch(a, SLAB_ALL_CLASSES, id, &before));
    assert_int_equal(before.returned_bytes, 0);
    assert_true(slab_free(a, large));
    assert_true(slab_stats_epoch(a, SLAB_ALL_CLASSES, id, &between));
    assert_true(between.state == EPOCH_CLOSING && between.ended_for_ns == 0);
    assert_int_equal(between.returned_bytes, before.estimated_rss_bytes - between.estimated_rss_bytes);
    assert_true(slab_free(a, small));
    SlabEpochStats s = ended(a, id);
    assert_int_equal(s.returned_bytes, before.estimated_rss_bytes);
    assert_true(s.rss_before_close == before.rss_before_close && s.rss_after_close == before.rss_after_close);
    slab_allocator_free(a);
}

static void check_destroyed(SlabAllocator *a, EpochId id, const char *label) {
    SlabEpochStats live;
    assert_non_null(slab_malloc_epoch(a, 3000, id));
    assert_true(slab_stats_epoch(a, SLAB_ALL_CLASSES, id, &live));
    assert_true(epoch_destroy(a, id));
    SlabEpochStats s = ended(a, id);
    assert_int_equal(s.returned_bytes, live.estimated_rss_bytes);
    assert_string_equal(s.label, label);
    assert_int_equal(s.flags, live.flags);
    assert_int_equal(s.open_since_ns, live.open_since_ns);
}

static void destroyed(void **state) {
    (void)state;
    SlabAllocator *a = make(0), *other = make(0);
    for (int i = 0; i < 3; i++) {
        check_destroyed(a, epoch_open(a, "one", EPOCH_CHURN), "one");
        check_destroyed(a, epoch_open(a, "two", EPOCH_SCOPE), "two");
        check_destroyed(a, epoch_open(a, NULL, EPOCH_SCOPE), "");
    }
    EpochId id = epoch_open(a, NULL, EPOCH_CHURN); /* which nothing was ever in */
    SlabEpochStats s;
    assert_true(epoch_destroy(a, id));
    assert_int_equal(ended(a, id).returned_bytes, 0);
    assert_false(slab_stats_epoch(other, SLAB_ALL_CLASSES, id, &s)); /* another allocator's */
    assert_false(slab_stats_epoch(a, SLAB_ALL_CLASSES, id + 1, &s));
    assert_false(slab_stats_epoch(a, SLAB_ALL_CLASSES, UINT64_MAX, &s));
    assert_false(slab_stats_epoch(a, SLAB_ALL_CLASSES, 0, &s));
    slab_allocator_free(other);
    slab_allocator_free(a);
}

/* The ends of domains: with a label, without, with a large object, closed before, from another thread. */
static void of_domains(void **state) {
    (void)state;
    SlabAllocator *a = make(0);
    for (int i = 0; i < 12; i++) {
        EpochDomain *d = epoch_domain_create_ex(a, i % 2 ? "request" : NULL, i % 4 == 3 ? EPOCH_DOMAIN_SHARED : 0);
        EpochId id = epoch_domain_epoch(d);
        SlabEpochStats live;
        assert_non_null(epoch_domain_alloc(d, i % 6 == 5 ? 100000 : 100));
        assert_true(slab_stats_epoch(a, SLAB_ALL_CLASSES, id, &live));
        if (i == 4 || i == 7) assert_true(epoch_domain_force_close(d));
        if (i % 3 == 0)
            assert_true(epoch_domain_end(d));
        else
            epoch_domain_destroy(d);
        SlabEpochStats s = ended(a, id);
        assert_string_equal(s.label, i % 2 ? "request" : "");
        assert_int_equal(s.flags, EPOCH_SCOPE);
        assert_int_equal(s.open_since_ns, live.open_since_ns);
        assert_int_equal(s.returned_bytes, live.estimated_rss_bytes);
    }
    slab_allocator_free(a);
}

static EpochId end_one(SlabAllocator *a, int how) {
    EpochId id;
    if (how >= 2) {
        EpochDomain *d = epoch_domain_create_ex(a, how == 2 ? NULL : "label", 0);
        id = epoch_domain_epoch(d);
        assert_non_null(epoch_domain_alloc(d, 16));
        epoch_domain_destroy(d);
        return id;
    }
    id = epoch_open(a, NULL, EPOCH_CHURN);
    if (how == 1) {
        void *p = slab_malloc_epoch(a, 16, id);
        assert_true(p && epoch_close(a, id) && slab_free(a, p));
    } else {
        assert_true(epoch_destroy(a, id));
    }
    return id;
}

/* The last 256 of each kind are known, and the 257th is not. */
static void the_last_256(void **state) {
    (void)state;
    static EpochId id[KEPT + 44];
    for (int how = 0; how < 4; how++) {
        SlabAllocator *a = make(0);
        for (int i = 0; i < KEPT + 44; i++) {
            id[i] = end_one(a, how);
            (void)ended(a, id[i]);
            SlabEpochStats s;
            if (i >= KEPT) assert_false(slab_stats_epoch(a, SLAB_ALL_CLASSES, id[i - KEPT], &s));
        }
        for (int i = 44; i < KEPT + 44; i++) (void)ended(a, id[i]);
        slab_allocator_free(a);
    }
}

/* None of an allocator's is known in the next use of its record, nor that of a share. */
static void not_in_the_next_use(void **state) {
    (void)state;
    for (int i = 0; i < 20; i++) {
        SlabAllocator *a = make(0);
        EpochId id[4];
        for (int how = 0; how < 4; how++) id[how] = end_one(a, how);
        slab_allocator_free(a);
        SlabAllocator *next = make(0);
        SlabEpochStats s;
        for (int how = 0; how < 4; how++) {
            (void)end_one(next, how);
            assert_false(slab_stats_epoch(next, SLAB_ALL_CLASSES, id[how], &s));
            assert_false(slab_stats_epoch(a, SLAB_ALL_CLASSES, id[how], &s));
        }
        slab_allocator_free(next);
    }
}

static void in_json_and_text(void **state) {
    (void)state;
    static char text[1 << 20];
    SlabAllocator *a = make(1);
    for (int i = 0; i < 20; i++) {
        char label[32];
        (void)snprintf(label, sizeof label, "phase %d", i);
        EpochId id = epoch_open(a, label, EPOCH_CHURN);
        void *p = slab_malloc_epoch(a, 100, id);
        assert_true(p && slab_free(a, p) && epoch_close(a, id));
    }
    assert_in_range(slab_stats_json(a, text, sizeof text), 1, sizeof text - 1);
    const char *at = strstr(text, "\"ended\":[{\"label\":\"phase ");
    assert_non_null(at);
    int shown = 0;
    for (const char *p = at; (p = strstr(p, "\"state\":\"ended\"")) != NULL; p++) shown++;
    assert_int_equal(shown, 16);
    assert_non_null(strstr(at, "\"label\":\"phase 19\""));
    assert_non_null(strstr(at, "\"rss_before_close\":"));
    assert_null(strstr(text, "\"label\":\"phase 0\""));
    assert_in_range(slab_stats_text(a, text, sizeof text), 1, sizeof text - 1);
    assert_non_null(strstr(text, "\nended epoch"));
    slab_allocator_free(a);
}

/* ---- a writer in the middle ------------------------------------------------------------------------------------- */

static void write_one(ts_past_ring *ring, uint64_t id) {
    ts_past *p = ts_past_begin(ring);
    assert_non_null(p);
    ts_store_relaxed(&p->opened_ns, id);
    ts_store_release(&p->id, id);
}

/* The record that a writer overwrites is not found any more, and the new one not yet. Another writer that comes to the
   same record leaves it. */
static void a_writer_in_the_middle(void **state) {
    (void)state;
    SlabAllocator *public = make(0);
    ts_allocator *a = ts_allocator_find((uintptr_t) public);
    assert_non_null(a);
    ts_past_ring *ring = ts_past_ring_of(&a->past);
    ts_past_note note;
    for (uint64_t id = 1; id <= KEPT; id++) write_one(ring, id);
    for (unsigned round = 0; round < 2; round++) {
        uint64_t oldest = ts_load_relaxed(&ring->at[ts_load_relaxed(&ring->next) % TS_PAST].id), next = 5000u + round;
        assert_true(ts_past_find(a, oldest, &note));
        assert_int_equal(note.opened_ns, oldest);
        ts_past *p = ts_past_begin(ring);
        assert_non_null(p);
        assert_false(ts_past_find(a, oldest, &note));
        ts_store_relaxed(&p->opened_ns, next);
        assert_false(ts_past_find(a, oldest, &note));
        assert_false(ts_past_find(a, next, &note));
        for (uint64_t id = 1; id < KEPT; id++) write_one(ring, 1000 * (round + 1) + id);
        assert_null(ts_past_begin(ring));
        assert_int_equal(ts_load_relaxed(&p->opened_ns), next);
        ts_store_release(&p->id, next);
        assert_true(ts_past_find(a, next, &note));
        assert_int_equal(note.opened_ns, next);
    }
    slab_allocator_free(public);
}

/* ---- threads ---------------------------------------------------------------------------------------------------- */

#define WRITERS 4
#define ENDS SUP_SCALED(40000u)
#define ENDS_MOST 40000u

/* The records that a writer has written; the reader looks at those that are about to be overwritten. */
struct written {
    EpochId id;
    uint64_t opened_ns;
    char letter; /* of which the label is full; 0: none */
};
static struct written history[WRITERS][ENDS_MOST];
static _Atomic unsigned written[WRITERS];
static SlabAllocator *shared;
static _Atomic bool done;

/* Epochs without a block come into the ring of the allocator; domains into those of their thread, by the label. */
static void *write_records(void *argument) {
    uintptr_t number = (uintptr_t)argument;
    for (unsigned i = 0; i < ENDS; i++) {
        struct written *w = &history[number][i];
        char label[25] = "";
        w->letter = number == 3 ? 0 : (char)('a' + i % 26);
        memset(label, w->letter, 24);
        EpochDomain *d = number >= 2 ? epoch_domain_create_ex(shared, label, 0) : NULL;
        w->id = d ? epoch_domain_epoch(d) : epoch_open(shared, label, EPOCH_CHURN);
        SlabEpochStats s;
        SUP_CHECK(slab_stats_epoch(shared, SLAB_CLASS_SPAN, w->id, &s), "an epoch");
        w->opened_ns = s.open_since_ns;
        if (d)
            epoch_domain_destroy(d);
        else
            SUP_CHECK(epoch_destroy(shared, w->id), "epoch_destroy");
        atomic_store(&written[number], i + 1);
    }
    return NULL;
}

static void *read_records(void *argument) {
    struct sup_rng rng = {1};
    unsigned *found = argument;
    while (!atomic_load(&done)) {
        for (int number = 0; number < WRITERS; number++) {
            /* Two threads share the ring of the allocator. */
            unsigned count = atomic_load(&written[number]);
            unsigned age = number < 2 ? 90 + (unsigned)sup_rng_below(&rng, 80) : 255 + (unsigned)sup_rng_below(&rng, 2);
            SlabEpochStats s;
            if (count < age) continue;
            const struct written *w = &history[number][count - age];
            if (!slab_stats_epoch(shared, SLAB_CLASS_SPAN, w->id, &s)) continue;
            ++*found;
            char letters[2] = {w->letter, 0};
            SUP_CHECK(s.epoch_id == w->id && s.state == EPOCH_CLOSED, "the record of another");
            SUP_CHECK(strspn(s.label, letters) == (w->letter ? 24 : 0) && strlen(s.label) == (w->letter ? 24 : 0),
                      "writer %d: \"%s\" for %s", number, s.label, letters);
            SUP_CHECK(s.open_since_ns == w->opened_ns, "writer %d: opened at another time", number);
        }
    }
    return NULL;
}

static void whole_while_others_write(void **state) {
    (void)state;
    pthread_t writer[WRITERS], reader;
    unsigned found = 0;
    shared = make(0);
    assert_int_equal(pthread_create(&reader, NULL, read_records, &found), 0);
    for (uintptr_t i = 0; i < WRITERS; i++)
        assert_int_equal(pthread_create(&writer[i], NULL, write_records, (void *)i), 0);
    for (int i = 0; i < WRITERS; i++) assert_int_equal(pthread_join(writer[i], NULL), 0);
    atomic_store(&done, true);
    assert_int_equal(pthread_join(reader, NULL), 0);
    print_message("%u records read meanwhile\n", found);
    slab_allocator_free(shared);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(drained_at_its_close),
        cmocka_unit_test(destroyed_without_a_close),
        cmocka_unit_test(less_after_the_end),
        cmocka_unit_test(drained_later),
        cmocka_unit_test(destroyed),
        cmocka_unit_test(of_domains),
        cmocka_unit_test(the_last_256),
        cmocka_unit_test(not_in_the_next_use),
        cmocka_unit_test(in_json_and_text),
        cmocka_unit_test(a_writer_in_the_middle),
        cmocka_unit_test(whole_while_others_write),
    };
    return cmocka_run_group_tests_name("epoch.past", tests, NULL, NULL);
}
