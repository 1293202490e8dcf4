/*
 * OUTER units, behind the first 64 GiB (region/region.h, slab/slab.h): every kind of object in them, and handles at the
 * ends of regions. The NEAR units are used up by objects of 32 MiB that nobody touches.
 */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include "check.h"
#include "errands.h"
#include "identities.h"
#include "in_child.h"
#include "keeper.h"
#include "pattern.h"
#include "rng.h"
#include "unit.h"

#include "diagnose/diagnose.h"
#include "observe/diagnose.h"
#include "os/os.h"
#include "region/region.h"
#include "slab/slab.h"
#include "walk/check.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

#define MIB ((size_t)1 << 20)
#define GIB ((uint64_t)1 << 30)

/* ---- handles ---------------------------------------------------------------------------------------------------- */

static const uint32_t at_ends[] = {1,
                                   TS_NEAR_UNITS - 1,
                                   TS_NEAR_UNITS,
                                   TS_NEAR_UNITS + 1,
                                   2 * TS_NEAR_UNITS - 1,
                                   2 * TS_NEAR_UNITS,
                                   63 * TS_NEAR_UNITS + 12345,
                                   64 * TS_NEAR_UNITS - 1,
                                   64 * TS_NEAR_UNITS,
                                   65 * TS_NEAR_UNITS,
                                   127 * TS_NEAR_UNITS,
                                   ((uint32_t)1 << TS_UNITS_LOG2) - 1};
#define ENDS (sizeof at_ends / sizeof *at_ends)

static SlabHandle packed(uint32_t unit, uint32_t generation, uint32_t entry) {
    return unit < TS_NEAR_UNITS ? ts_handle_pack(unit, generation, entry, TS_COUNT_SPAN)
                                : ts_handle_pack_outer(unit, generation, entry);
}

static void handles_at_the_ends_of_regions(void **state) {
    (void)state;
    static const uint32_t entries[] = {0, 1, 511, TS_UNIT_ENTRIES - 1}, generations[] = {0, 1, TS_GEN_MAX};
    static SlabHandle all[ENDS * 4 * 3];
    unsigned n = 0;
    for (unsigned u = 0; u < ENDS; u++)
        for (unsigned e = 0; e < 4; e++)
            for (unsigned g = 0; g < 3; g++) {
                SlabHandle h = packed(at_ends[u], generations[g], entries[e]);
                assert_int_equal(ts_handle_unit(h), at_ends[u]);
                assert_int_equal(ts_handle_region(h), at_ends[u] >> 22);
                assert_int_equal(ts_handle_entry(h), entries[e]);
                assert_int_equal(h >> 42, at_ends[u] % TS_NEAR_UNITS); /* the widths that are published */
                assert_int_equal(h >> 18 & TS_GEN_MAX, generations[g]);
                assert_false(h == SLAB_HANDLE_NONE || ts_handle_is_far(h));
                assert_true(ts_is_outer(at_ends[u]) == ((h & 3) != TS_HANDLE_FORMAT));
                for (unsigned kind = 0; kind < TS_COUNT_KINDS; kind++)
                    assert_true(ts_handle_is(h, generations[g], kind) ==
                                (!ts_is_outer(at_ends[u]) && kind == TS_COUNT_SPAN));
                for (unsigned i = 0; i < n; i++) assert_true(all[i] != h);
                all[n++] = h;
            }
    SlabHandle far = ts_handle_pack_far((1u << TS_FAR_UNITS_LOG2) - 1, 7);
    assert_true(ts_handle_is_far(far) && ts_handle_far_unit(far) == (1u << TS_FAR_UNITS_LOG2) - 1);
    assert_int_equal(ts_handle_region(far), 0);
}

/* ---- objects in OUTER units ------------------------------------------------------------------------------------- */

static SlabAllocator *allocator;
static EpochId epoch;

static bool is_outer(const void *p) {
    const ts_part *n = &ts_region.part[TS_NORMAL];
    return ts_is_data_of(TS_NORMAL, p) && (uint64_t)((const char *)p - n->base) >> TS_UNIT_SHIFT >= TS_NEAR_UNITS;
}

/* The system counts each byte that can be written, touched or not. */
static bool counts_every_byte(void) {
    FILE *f = fopen("/proc/sys/vm/overcommit_memory", "r");
    int mode = f ? fgetc(f) : '2';
    if (f) (void)fclose(f);
    return mode == '2';
}

static bool cannot(void) {
    return ts_region.part[TS_NORMAL].units <= TS_NEAR_UNITS || counts_every_byte() || SUP_SANITIZED || SUP_EMULATED;
}

/* All tests have one process, so the first one fills the NEAR units for all. */
static EpochId filler;
static SlabAllocator *of_filler;

/* Uses up the units below that number, down to single ones. */
static void fill_below(uint32_t unit) {
    const char *border = ts_region.part[TS_NORMAL].base + (uint64_t)unit * TS_UNIT_BYTES;
    for (size_t bytes = 32 * MIB; bytes > 0;) {
        char *p = slab_malloc_epoch(of_filler, bytes, filler);
        assert_non_null(p);
        if (p < border) continue;
        assert_true(slab_free(of_filler, p));
        (void)slab_trim(of_filler);
        bytes = bytes > 16384 ? bytes / 2 : 0;
    }
}

static void fill_near(void) {
    if (of_filler) return;
    of_filler = slab_allocator_create();
    filler = epoch_open(of_filler, "filler", EPOCH_CHURN);
    fill_below(TS_NEAR_UNITS);
}

/* Of more than four million units, so not often. */
static void walk_all(void) {
    ts_check check = {0};
    SUP_CHECK(ts_check_all(&check, false), "%s", check.why);
}

static int begin_outer(void **state) {
    (void)state;
    allocator = slab_allocator_create();
    epoch = epoch_open(allocator, "outer", EPOCH_CHURN);
    if (!cannot()) fill_near();
    return !allocator || epoch == EPOCH_NONE;
}

static int end_outer(void **state) {
    (void)state;
    sup_check_identities(allocator);
    (void)epoch_destroy(allocator, epoch);
    slab_allocator_free(allocator);
    return 0;
}

static void refuse(void *p) {
    ts_text line = {.used = 0};
    assert_false(slab_free(allocator, p));
    assert_false(slab_release(p));
    assert_int_equal(slab_usable_size(allocator, p), 0);
    assert_int_equal(slab_handle_of(allocator, p), SLAB_HANDLE_NONE);
    assert_null(slab_realloc(allocator, p, 100));
    ts_diagnose_pointer(&line, (uintptr_t)allocator, p);
    assert_true(line.used > 0);
}

static void refuse_handle(SlabHandle handle) {
    ts_text line = {.used = 0};
    assert_false(free_obj(allocator, handle));
    assert_null(slab_handle_get(allocator, handle));
    ts_diagnose_handle(&line, (uintptr_t)allocator, handle);
    assert_true(line.used > 0);
}

static const size_t sizes[] = {16, 40, 64, 112, 1000, 5000, 8192, 12000, 20000, 65536, 70000, 300000, 3 * MIB};
#define SIZES (sizeof sizes / sizeof *sizes)
#define EACH 100u

static struct {
    unsigned char *at;
    SlabHandle handle;
    size_t bytes;
} objects[SIZES * EACH];

static uint64_t key_of(unsigned i) { return 77 + i; }

static void make(unsigned i) {
    SlabHandle handle;
    size_t bytes = sizes[i / EACH];
    unsigned char *p = alloc_obj_epoch(allocator, bytes, epoch, &handle);
    SUP_CHECK(p && is_outer(p), "object %u of %zu bytes", i, bytes);
    SUP_CHECK(slab_handle_of(allocator, p) == handle && slab_handle_get(allocator, handle) == p, "handle %u", i);
    SUP_CHECK(slab_usable_size(allocator, p) >= bytes && slab_owns(allocator, p), "object %u", i);
    sup_pattern_fill(p, bytes, key_of(i));
    objects[i].at = p, objects[i].handle = handle, objects[i].bytes = bytes;
}

static void check(unsigned i) {
    SUP_CHECK(sup_pattern_check(objects[i].at, objects[i].bytes, key_of(i)), "object %u was written to", i);
}

/* By pointer and by handle in turn. */
static void free_one(unsigned i) {
    check(i);
    bool freed = i % 2 ? slab_free(allocator, objects[i].at) : free_obj(allocator, objects[i].handle);
    SUP_CHECK(freed, "object %u of %zu bytes", i, objects[i].bytes);
}

static bool count_one(void *object, size_t bytes, void *count) {
    SUP_CHECK(is_outer(object) && bytes > 0, "an object elsewhere");
    ++*(size_t *)count;
    return true;
}

static void every_size(void **state) {
    static const unsigned flags[] = {EPOCH_CHURN, EPOCH_SCOPE};
    (void)state;
    if (cannot()) skip();
    for (unsigned kind = 0; kind < 2; kind++) {
        (void)epoch_destroy(allocator, epoch);
        epoch = epoch_open(allocator, "every size", flags[kind]);
        for (unsigned i = 0; i < SIZES * EACH; i++) make(i);
        size_t shown = 0;
        assert_int_equal(slab_walk(allocator, epoch, count_one, &shown), SIZES * EACH);
        assert_int_equal(shown, SIZES * EACH);
        for (unsigned i = 0; i < SIZES * EACH; i += 7) {
            refuse(objects[i].at + 8);
            if (objects[i].bytes > 16) refuse(objects[i].at + 16);
            for (unsigned bit = 0; bit < 64; bit++) /* another unit, region, slot, generation or kind */
                if (objects[i].bytes > 8192 || bit < 8 || bit >= 18) {
                    SlabHandle wrong = objects[i].handle ^ (SlabHandle)1 << bit;
                    void *p = slab_handle_get(allocator, wrong);
                    /* Another object has the same generation where no slot was ever used again. */
                    SUP_CHECK(!p || (p != objects[i].at && slab_handle_of(allocator, p) == wrong), "bit %u", bit);
                }
        }
        for (unsigned i = 0; i < SIZES * EACH; i++) check(i);
        for (unsigned i = 0; i < SIZES * EACH; i += 2) free_one(i);
        for (unsigned i = 0; i < SIZES * EACH; i += 2) refuse(objects[i].at), refuse_handle(objects[i].handle);
        walk_all();
        for (unsigned i = 1; i < SIZES * EACH; i += 2) {
            assert_ptr_equal(slab_handle_get(allocator, objects[i].handle), objects[i].at);
            free_one(i);
        }
    }
}

static int compare(const void *a, const void *b) {
    SlabHandle x = *(const SlabHandle *)a, y = *(const SlabHandle *)b;
    return (x > y) - (x < y);
}

/* Stale for ever, however often a place is used again, and as a slab of another size, a scope or a span. */
static void stale_handles(void **state) {
    enum { TURNS = 6000 };
    static SlabHandle past[TURNS];
    (void)state;
    if (cannot()) skip();
    for (unsigned i = 0; i < TURNS; i++) {
        if (i % 500 == 0) {
            assert_true(epoch_destroy(allocator, epoch));
            epoch = epoch_open(allocator, NULL, i % 1000 ? EPOCH_SCOPE : EPOCH_CHURN);
        }
        void *p = alloc_obj_epoch(allocator, sizes[i / 100 % SIZES], epoch, &past[i]);
        assert_true(p && is_outer(p) && slab_handle_get(allocator, past[i]) == p);
        assert_true(i % 3 ? free_obj(allocator, past[i]) : slab_free(allocator, p));
    }
    for (unsigned i = 0; i < TURNS; i++)
        assert_false(slab_handle_get(allocator, past[i]) || free_obj(allocator, past[i]));
    qsort(past, TURNS, sizeof *past, compare);
    for (unsigned i = 1; i < TURNS; i++) assert_true(past[i] != past[i - 1]);
}

/* Objects grow and shrink between classes, slabs and spans. */
static void realloc_moves(void **state) {
    (void)state;
    if (cannot()) skip();
    size_t bytes = 20;
    unsigned char *p = slab_malloc_epoch(allocator, bytes, epoch);
    sup_pattern_fill(p, bytes, 5);
    for (unsigned i = 0; i < 60; i++) {
        size_t next = sizes[i * 5 % SIZES] + i;
        unsigned char *q = slab_realloc(allocator, p, next);
        assert_true(q && is_outer(q) && (q == p || !slab_owns(allocator, p)));
        assert_true(sup_pattern_check_prefix(q, bytes, next < bytes ? next : bytes, 5));
        p = q, bytes = next;
        sup_pattern_fill(p, bytes, 5);
    }
    assert_true(slab_free(allocator, p));
}

/* A sample of a stack is of no later object in the same slot, and stays when sampling ends. */
static void samples_of_stacks(void **state) {
    SlabStackSample row;
    (void)state;
    if (cannot()) skip();
    for (unsigned turn = 0; turn < 2 * SIZES; turn++) {
        assert_true(slab_set_sample_stacks(allocator, 1));
        void *p = slab_malloc_epoch(allocator, sizes[turn / 2], epoch);
        assert_true(p && is_outer(p));
        if (turn % 2) assert_true(slab_set_sample_stacks(allocator, 0));
        assert_int_equal(slab_stacks(allocator, epoch, &row, 1), 1);
        assert_true(slab_free(allocator, p));
        ts_thread.heap->stack_busy = true; /* no sample */
        void *q = slab_malloc_epoch(allocator, sizes[turn / 2], epoch);
        ts_thread.heap->stack_busy = false;
        assert_true(q == p || sizes[turn / 2] > 8192); /* elsewhere if it had its slab alone */
        assert_int_equal(slab_stacks(allocator, epoch, &row, 1), 0);
        assert_true(slab_free(allocator, q));
    }
}

static unsigned others_from;
static void free_for_another(void) {
    for (unsigned i = others_from; i < SIZES * EACH; i += 2) free_one(i);
}

/* The other thread frees half of the objects; then the owner makes them anew, and ends while the other one has the
   rest. */
static void another_thread(void **state) {
    (void)state;
    if (cannot()) skip();
    begin();
    for (unsigned turn = 0; turn < 3; turn++) {
        for (unsigned i = 0; i < SIZES * EACH; i++) make(i);
        others_from = 0;
        let(free_for_another);
        for (unsigned i = 0; i < SIZES * EACH; i += 2) make(i);
        for (unsigned i = 1; i < SIZES * EACH; i += 2) free_one(i);
        for (unsigned i = 1; i < SIZES * EACH; i += 2) refuse_handle(objects[i].handle);
        others_from = 0;
        if (turn == 1) assert_true(epoch_close(allocator, epoch));
        let(free_for_another);
        if (turn == 1) epoch = epoch_open(allocator, NULL, EPOCH_CHURN);
        if (turn == 2) walk_all();
    }
    end();
}

#define THREADS 3u
#define PLACES 512u
static _Atomic uintptr_t places[PLACES];

/* Exchanges objects with the other threads: each frees what any of them has made. */
static void *exchange_some(void *argument) {
    struct sup_rng rng = {(uintptr_t)argument};
    for (unsigned i = 0; i < 30000; i++) {
        size_t bytes = sizes[sup_rng_below(&rng, SIZES - 2)];
        size_t *p = slab_malloc_epoch(allocator, bytes, epoch);
        SUP_CHECK(p && is_outer(p), "%zu bytes", bytes);
        p[0] = bytes, p[1] = (uintptr_t)p;
        size_t *q = (size_t *)atomic_exchange(&places[sup_rng_below(&rng, PLACES)], (uintptr_t)p);
        if (!q) continue;
        SUP_CHECK(q[1] == (uintptr_t)q && slab_usable_size(allocator, q) >= q[0], "an object of two owners");
        SUP_CHECK(i % 2 ? slab_free(allocator, q) : free_obj(allocator, slab_handle_of(allocator, q)), "a free");
    }
    return NULL;
}

static void threads_exchange(void **state) {
    (void)state;
    if (cannot()) skip();
    pthread_t thread[THREADS];
    for (uintptr_t t = 0; t < THREADS; t++)
        assert_int_equal(pthread_create(&thread[t], NULL, exchange_some, (void *)(t + 1)), 0);
    for (unsigned t = 0; t < THREADS; t++) assert_int_equal(pthread_join(thread[t], NULL), 0);
    size_t shown = 0;
    (void)slab_walk(allocator, epoch, count_one, &shown);
    for (unsigned i = 0; i < PLACES; i++) {
        void *p = (void *)atomic_exchange(&places[i], 0);
        assert_true(!p || slab_free(allocator, p));
        shown -= p != NULL;
    }
    assert_int_equal(shown, 0);
}

/* NEAR objects that were freed come first again, and the bins then have slabs of both kinds. */
static void both_kinds(void **state) {
    (void)state;
    if (cannot()) skip();
    EpochId filling = epoch_open(allocator, NULL, EPOCH_CHURN);
    for (unsigned i = 0; i < SIZES * EACH; i++) make(i);
    /* A class whose slabs lie on both sides of the border. */
    unsigned char *p[2000];
    for (unsigned i = 0; i < 2000; i++) {
        p[i] = slab_malloc_epoch(allocator, 500, filling);
        assert_non_null(p[i]);
    }
    for (unsigned i = 0; i < 2000; i += 3) assert_true(slab_free(allocator, p[i]) && !slab_free(allocator, p[i]));
    walk_all();
    for (unsigned i = 0; i < 2000; i += 3) assert_non_null(p[i] = slab_malloc_epoch(allocator, 500, filling));
    for (unsigned i = 0; i < 2000; i++) memset(p[i], (int)i, 500);
    for (unsigned i = 0; i < 2000; i++) {
        for (unsigned k = 0; k < 500; k += 499) assert_int_equal(p[i][k], i & 255);
        assert_true(slab_free(allocator, p[i]));
    }
    for (unsigned i = 0; i < SIZES * EACH; i++) free_one(i);
    assert_true(epoch_destroy(allocator, filling));
}

/* The head of a bin's list has 24 bits in one word and the rest in another: from 256 GiB on the rest counts. */
static void behind_a_quarter_of_a_tib(void **state) {
    (void)state;
    if (cannot()) skip();
    fill_below((uint32_t)1 << TS_HEAD_LOW_BITS);
    for (unsigned i = 0; i < SIZES * EACH; i++) make(i);
    unsigned char *p[2000];
    for (unsigned i = 0; i < 2000; i++) {
        SlabHandle handle;
        assert_non_null(p[i] = alloc_obj_epoch(allocator, 3000, epoch, &handle));
        assert_ptr_equal(slab_handle_get(allocator, handle), p[i]);
        memset(p[i], (int)i, 3000);
    }
    const ts_part *n = &ts_region.part[TS_NORMAL];
    assert_true(ts_entry_of(n, p[1999]) >> TS_ENTRY_UNIT_SHIFT >= (uint32_t)1 << TS_HEAD_LOW_BITS);
    for (unsigned turn = 0; turn < 2; turn++)
        for (unsigned i = turn; i < 2000; i += 2) {
            assert_true(p[i][0] == (i & 255) && p[i][2999] == (i & 255));
            assert_true(slab_free(allocator, p[i]) && !slab_free(allocator, p[i]));
        }
    for (unsigned i = 0; i < SIZES * EACH; i++) free_one(i);
}

/* Their bytes are with a keeper (spill/spill.h): every call answers as before, and a free meanwhile counts. */
static void spilled(void **state) {
    static keeper k;
    (void)state;
    if (cannot()) skip();
    for (unsigned i = 0; i < SIZES * EACH; i++) make(i);
    assert_true(epoch_close(allocator, epoch));
    keep(&k, ts_allocator_find((uintptr_t)allocator), epoch);
    for (unsigned i = 0; i < SIZES * EACH; i++)
        SUP_CHECK(slab_handle_get(allocator, objects[i].handle) == objects[i].at, "object %u", i);
    for (unsigned i = 0; i < SIZES * EACH; i += 3)
        assert_true(i % 2 ? slab_free(allocator, objects[i].at) : free_obj(allocator, objects[i].handle));
    for (unsigned i = 0; i < SIZES * EACH; i += 3) refuse(objects[i].at), refuse_handle(objects[i].handle);
    bring_back(&k);
    for (unsigned i = 0; i < SIZES * EACH; i++)
        if (i % 3 != 0) free_one(i);
}

/* ---- 150 GiB ---------------------------------------------------------------------------------------------------- */

typedef struct kept {
    char *at;
    SlabHandle handle;
} kept;

/* Bytes, and how many of them. */
static const struct {
    size_t bytes, count;
} heap[] = {{32 * MIB, 3900}, {7 * MIB + 5, 2000}, {MIB, 12000},   {300000, 10000},
            {65536, 40000},   {40000, 40000},      {8192, 100000}, {1000, 200000}};
#define HEAP (sizeof heap / sizeof *heap)

/* Untouched, so that they need no memory but for their records. */
static void a_hundred_and_fifty_gib(void *unused) {
    (void)unused;
    SlabAllocator *a = slab_allocator_create();
    EpochId e = epoch_open(a, "150 GiB", EPOCH_CHURN);
    size_t count = 0, outer = 0, n = 0;
    uint64_t bytes = 0;
    for (unsigned k = 0; k < HEAP; k++) count += heap[k].count, bytes += (uint64_t)heap[k].count * heap[k].bytes;
    SUP_CHECK(bytes > 150 * GIB, "%" PRIu64 " GiB", bytes >> 30);
    kept *all = calloc(count, sizeof *all);
    for (unsigned k = 0; k < HEAP; k++)
        for (size_t i = 0; i < heap[k].count; i++, n++) {
            all[n].at =
                i % 2 ? slab_malloc_epoch(a, heap[k].bytes, e) : alloc_obj_epoch(a, heap[k].bytes, e, &all[n].handle);
            SUP_CHECK(all[n].at != NULL, "object %zu of %zu bytes", i, heap[k].bytes);
            outer += is_outer(all[n].at);
        }
    SUP_CHECK(outer > count / 2, "%zu objects behind the first 64 GiB", outer);
    walk_all();
    n = 0;
    for (unsigned k = 0; k < HEAP; k++)
        for (size_t i = 0; i < heap[k].count; i++, n++) {
            size_t usable = slab_usable_size(a, all[n].at);
            SUP_CHECK(usable >= heap[k].bytes && usable <= heap[k].bytes + heap[k].bytes / 2, "%zu bytes", usable);
            SUP_CHECK(!slab_owns(a, all[n].at + 16), "inside of object %zu", n);
            SUP_CHECK(i % 2 || slab_handle_get(a, all[n].handle) == all[n].at, "handle of object %zu", n);
        }
    for (size_t first = 0; first < 3; first++) /* each third, so that slabs are free in part first */
        for (size_t i = first; i < count; i += 3) {
            SUP_CHECK(i % 5 && all[i].handle ? free_obj(a, all[i].handle) : slab_free(a, all[i].at), "object %zu", i);
            SUP_CHECK(!slab_free(a, all[i].at) && !slab_handle_get(a, all[i].handle), "object %zu is live", i);
        }
    for (size_t i = 0; i < count; i++) SUP_CHECK(!free_obj(a, all[i].handle), "a stale handle, %zu", i);
    SUP_CHECK(slab_walk(a, e, count_one, &outer) == 0, "objects are left");
    walk_all();
    slab_allocator_free(a);
}

static void of_untouched_objects(void **state) {
    (void)state;
    slab_allocator_free(slab_allocator_create()); /* the region is there */
    if (cannot()) skip();
    sup_in_child(a_hundred_and_fifty_gib, NULL);
}

/* ---- addresses -------------------------------------------------------------------------------------------------- */

/* No more addresses than 16 TiB beside the first 64 GiB and their records. */
static void reserved(void **state) {
    (void)state;
    uint64_t bytes = ts_region.reserved_bytes;
    assert_true(bytes <= ((uint64_t)16 << 40) + 105 * GIB);
}

static void limited(void *unused) {
    (void)unused;
    struct rlimit limit = {(rlim_t)(4 * GIB), (rlim_t)(4 * GIB)};
    SUP_CHECK(setrlimit(RLIMIT_AS, &limit) == 0, "setrlimit");
    SlabAllocator *a = slab_allocator_create();
    const ts_part *n = &ts_region.part[TS_NORMAL];
    uint64_t bytes = ts_region.reserved_bytes;
    SUP_CHECK(a && n->units < TS_NEAR_UNITS && bytes < 4 * GIB, "%u units", n->units);
    SlabHandle handle, beyond;
    char *p = alloc_obj_epoch(a, 100, epoch_current(a), &handle);
    beyond = ts_handle_pack_outer(TS_NEAR_UNITS + (uint32_t)(handle >> 42), (uint32_t)(handle >> 18), 0);
    SUP_CHECK(p && slab_handle_get(a, handle) == p, "an object");
    SUP_CHECK(!slab_handle_get(a, beyond) && !free_obj(a, beyond), "a handle of no region");
    SUP_CHECK(!slab_free(a, n->base + (size_t)(80 * GIB)), "no object");
    SUP_CHECK(!slab_malloc(a, (size_t)(5 * GIB)), "more than the limit");
    SUP_CHECK(free_obj(a, handle), "the object");
    slab_allocator_free(a);
}

static void a_limited_address_space(void **state) {
    (void)state;
    if (sizeof(void *) < 8 || SUP_SANITIZED || SUP_EMULATED) skip();
    sup_in_child(limited, NULL);
}

#define WITH(test) cmocka_unit_test_setup_teardown(test, begin_outer, end_outer)
int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(handles_at_the_ends_of_regions),
        cmocka_unit_test(a_limited_address_space), /* before anything is allocated, as the next */
        cmocka_unit_test(of_untouched_objects),
        WITH(reserved),
        WITH(every_size),
        WITH(stale_handles),
        WITH(realloc_moves),
        WITH(samples_of_stacks),
        WITH(another_thread),
        WITH(threads_exchange),
        WITH(both_kinds),
        WITH(spilled),
        WITH(behind_a_quarter_of_a_tib),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
