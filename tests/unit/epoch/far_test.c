/*
 * Large objects of the FAR part (region/region.h): every call and check that other objects have. The limit of large
 * objects is lowered here, so that an object of 300 KB is one; two tests have real ones.
 */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include "check.h"
#include "identities.h"
#include "keeper.h"
#include "pattern.h"
#include "proc.h"
#include "unit.h"

#include "api/runtime.h"
#include "epoch/epoch.h"
#include "observe/diagnose.h"
#include "os/os.h"
#include "region/region.h"
#include "walk/check_pool.h"

#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/wait.h>

#define MIB ((size_t)1 << 20)
#define GIB ((size_t)1 << 30)
#define LIMIT ((size_t)256 << 10)

static SlabAllocator *allocator;
static EpochId epoch;
static ts_os_table table;
static const ts_os_table *chosen; /* by the library at its start */

static bool has_far(void) { return ts_region.part[TS_FAR].units != 0; }
static bool is_far(const void *p) { return ts_is_data_of(TS_FAR, p); }

static SlabAllocator *make(int poison, int guards, size_t budget) {
    SlabOptions options = {.size = sizeof options,
                           .poison_on_free = poison,
                           .guard_spans = guards,
                           .budget_bytes = budget,
                           .memory_tools = SLAB_TOOLS_OFF};
    return slab_allocator_create_ex(&options);
}

static int begin(void **state) {
    (void)state;
    allocator = make(0, 0, 0);
    if (!chosen) chosen = ts_os;
    epoch = epoch_open(allocator, NULL, EPOCH_CHURN);
    if (has_far()) ts_region.far_bytes = LIMIT;
    return !allocator || epoch == EPOCH_NONE;
}

static int end(void **state) {
    (void)state;
    int failed = sup_end_only(allocator);
    ts_os = chosen;
    ts_region.far_bytes = has_far() ? TS_FAR_BYTES : SIZE_MAX;
    return failed;
}

static unsigned char *made(size_t bytes, uint64_t key) {
    unsigned char *p = slab_malloc_epoch(allocator, bytes, epoch);
    assert_non_null(p);
    assert_true(is_far(p) == (bytes > LIMIT && has_far()));
    assert_true(slab_usable_size(allocator, p) >= bytes);
    sup_pattern_fill(p, bytes, key);
    return p;
}

static void refuse(void *p) {
    ts_text line = {.used = 0};
    assert_false(slab_free(allocator, p));
    assert_false(slab_release(p));
    assert_int_equal(slab_usable_size(allocator, p), 0);
    assert_int_equal(slab_handle_of(allocator, p), SLAB_HANDLE_NONE);
    assert_null(slab_realloc(allocator, p, 100));
    assert_int_equal(errno, EINVAL);
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

static void only_its_start_is_the_object(void **state) {
    (void)state;
    if (!has_far()) skip();
    unsigned char *p = made(3 * MIB + 5, 1), *q = made(LIMIT + 1, 2);
    static const size_t inside[] = {1, 8, 16, 16384, MIB - 16, MIB, MIB + 16, 2 * MIB, 3 * MIB, 4 * MIB - 16};
    for (unsigned i = 0; i < sizeof inside / sizeof *inside; i++) refuse(p + inside[i]);
    const ts_part *far = &ts_region.part[TS_FAR];
    refuse(far->base); /* unit 0 */
    refuse(far->base + ts_part_bytes(TS_FAR, far->units) - 16);
    refuse(far->base + ts_part_bytes(TS_FAR, far->units));
    refuse(far->base + ts_part_bytes(TS_FAR, ts_pool_highest(TS_FAR)));
    refuse(far->base - 16);
    assert_true(slab_owns(allocator, p) && slab_owns(allocator, q) && !slab_owns(allocator, p + 16));
    assert_true(sup_pattern_check(p, 3 * MIB + 5, 1) && sup_pattern_check(q, LIMIT + 1, 2));
    assert_true(slab_free(allocator, p));
    refuse(p); /* twice */
    unsigned char *again = made(3 * MIB + 5, 3);
    assert_true(slab_free(allocator, again) && slab_free(allocator, q));
}

static void diagnoses(void **state) {
    ts_text line = {.used = 0};
    (void)state;
    if (!has_far()) skip();
    unsigned char *p = made(5 * MIB, 1);
    ts_diagnose_pointer(&line, (uintptr_t)allocator, p + 2 * MIB + 7);
    line.text[line.used < sizeof line.text ? line.used : sizeof line.text - 1] = 0;
    assert_non_null(strstr(line.text, "2097159 bytes into a live object"));
    assert_true(slab_free(allocator, p));
    line.used = 0;
    ts_diagnose_pointer(&line, (uintptr_t)allocator, p);
    line.text[line.used < sizeof line.text ? line.used : sizeof line.text - 1] = 0;
    assert_non_null(strstr(line.text, "freed already"));
}

static void handles(void **state) {
    (void)state;
    unsigned char *p = made(2 * MIB, 1), *small = made(100, 2);
    SlabHandle handle = slab_handle_of(allocator, p), other = slab_handle_of(allocator, small);
    assert_true(handle != SLAB_HANDLE_NONE && handle != other);
    assert_ptr_equal(slab_handle_get(allocator, handle), p);
    for (unsigned bit = 0; bit < 64; bit++) {
        SlabHandle wrong = handle ^ (uint64_t)1 << bit;
        if (wrong != other) refuse_handle(wrong);
    }
    assert_true(free_obj(allocator, handle));
    refuse_handle(handle);
    unsigned char *again = made(2 * MIB, 3); /* the same place */
    refuse_handle(handle);
    SlabHandle later = slab_handle_of(allocator, again);
    assert_true(later != handle && free_obj(allocator, later) && slab_free(allocator, small));
    void *object = NULL;
    SlabHandle made_with = SLAB_HANDLE_NONE;
    object = alloc_obj_epoch(allocator, MIB, epoch, &made_with);
    assert_true(object && slab_handle_get(allocator, made_with) == object && free_obj(allocator, made_with));
}

static void of_another_allocator(void **state) {
    (void)state;
    SlabAllocator *other = make(0, 0, 0);
    unsigned char *p = made(MIB, 1);
    SlabHandle handle = slab_handle_of(allocator, p);
    assert_false(slab_free(other, p) || slab_owns(other, p) || free_obj(other, handle));
    assert_null(slab_handle_get(other, handle));
    assert_null(slab_realloc(other, p, 2 * MIB));
    assert_true(sup_pattern_check(p, MIB, 1) && slab_release(p));
    slab_allocator_free(other);
}

static void an_epoch_ends(void **state) {
    (void)state;
    for (unsigned scope = 0; scope < 2; scope++) {
        epoch = epoch_open(allocator, NULL, scope ? EPOCH_SCOPE : EPOCH_CHURN);
        unsigned char *p = made(MIB, 1), *q = made(2 * MIB, 2);
        SlabHandle handle = slab_handle_of(allocator, p);
        epoch_destroy(allocator, epoch);
        refuse(p), refuse(q), refuse_handle(handle);
        epoch = epoch_open(allocator, NULL, scope ? EPOCH_SCOPE : EPOCH_CHURN);
        p = made(MIB, 1), q = made(2 * MIB, 2);
        epoch_close(allocator, epoch);
        assert_null(slab_malloc_epoch(allocator, MIB, epoch));
        assert_int_equal(epoch_state(allocator, epoch), EPOCH_CLOSING);
        assert_true(slab_free(allocator, p) && slab_free(allocator, q));
        assert_int_equal(epoch_state(allocator, epoch), EPOCH_CLOSED);
    }
    EpochDomain *domain = epoch_domain_create(allocator);
    SlabMark mark;
    epoch = epoch_domain_epoch(domain);
    unsigned char *stays = made(MIB, 1);
    assert_true(epoch_domain_mark(domain, &mark));
    unsigned char *goes = made(MIB, 2);
    assert_true(epoch_domain_rewind(domain, mark));
    refuse(goes);
    assert_true(sup_pattern_check(stays, MIB, 1));
    EpochDomain *to = epoch_domain_create(allocator);
    unsigned char *moved = slab_promote(to, stays);
    assert_true(moved && is_far(moved) == has_far() && sup_pattern_check(moved, MIB, 1));
    epoch_domain_destroy(domain);
    assert_true(sup_pattern_check(moved, MIB, 1));
    assert_true(epoch_domain_reset(to, 0));
    refuse(moved);
    epoch_domain_destroy(to);
}

static void limits_and_budgets(void **state) {
    (void)state;
    if (!has_far()) skip();
    assert_true(epoch_set_limit(allocator, epoch, 5 * MIB));
    unsigned char *p = made(2 * MIB, 1), *q = made(2 * MIB + 1, 2);
    assert_null(slab_malloc_epoch(allocator, MIB, epoch));
    assert_int_equal(errno, ENOMEM);
    assert_null(slab_realloc(allocator, p, 3 * MIB));
    assert_true(slab_free(allocator, q));
    p = slab_realloc(allocator, p, 3 * MIB);
    assert_true(p && sup_pattern_check(p, 2 * MIB, 1));
    assert_true(slab_set_budget(allocator, 8 * MIB));
    assert_true(epoch_set_limit(allocator, epoch, 0));
    assert_null(slab_malloc_epoch(allocator, 6 * MIB, epoch));
    q = made(4 * MIB, 2);
    assert_null(slab_malloc_epoch(allocator, 2 * MIB, epoch));
    assert_true(slab_free(allocator, p) && slab_free(allocator, q));
    p = made(8 * MIB - LIMIT, 3); /* of retained memory, or instead of it */
    assert_true(slab_free(allocator, p));
}

struct walked {
    void *want;
    size_t bytes, found, count;
};
static bool walked(void *object, size_t bytes, void *arg) {
    struct walked *w = arg;
    w->count++;
    if (object == w->want && bytes >= w->bytes) w->found++;
    return true;
}

static void statistics(void **state) {
    SlabGlobalStats before, during, after;
    SlabEpochStats of_epoch;
    (void)state;
    if (!has_far()) skip();
    assert_true(slab_stats_global(allocator, &before));
    unsigned char *p = made(3 * MIB, 1), *small = made(100, 2);
    assert_true(slab_stats_global(allocator, &during));
    assert_int_equal(during.live_bytes - before.live_bytes, 3 * MIB + slab_usable_size(allocator, small));
    assert_true(during.committed_bytes >= before.committed_bytes + 3 * MIB);
    assert_true(slab_stats_epoch(allocator, SLAB_CLASS_SPAN, epoch, &of_epoch));
    assert_int_equal(of_epoch.live_bytes, 3 * MIB);
    assert_int_equal(of_epoch.live_objects, 1);
    struct walked w = {.want = p, .bytes = 3 * MIB};
    assert_int_equal(slab_walk(allocator, epoch, walked, &w), 2);
    assert_true(w.found == 1 && w.count == 2);
    assert_true(slab_free(allocator, p) && slab_free(allocator, small));
    assert_true(slab_stats_global(allocator, &during));
    assert_true(during.retained_bytes >= 3 * MIB); /* within the budget it is retained */
    assert_true(slab_trim(allocator) >= 3 * MIB);
    assert_true(slab_stats_global(allocator, &after));
    assert_int_equal(after.live_bytes, before.live_bytes);
    assert_true(after.committed_bytes <= before.committed_bytes);
}

/* An object larger than the retain limit goes back with its end, in one call; retained memory is used again. */
static void memory_goes_back(void **state) {
    SlabGlobalStats stats;
    (void)state;
    if (!has_far()) skip();
    unsigned char *p = slab_malloc_epoch(allocator, 600 * MIB, epoch);
    assert_non_null(p);
    for (size_t i = 0; i < 600 * MIB; i += 8 * MIB) p[i] = 1;
    assert_true(slab_free(allocator, p));
    assert_true(slab_stats_global(allocator, &stats));
    assert_true(stats.retained_bytes <= 64 * MIB);
    assert_true(slab_trim(allocator) <= 64 * MIB);
    p = made(4 * MIB, 1);
    assert_true(slab_free(allocator, p));
    unsigned char *q = made(4 * MIB, 2);
    assert_ptr_equal(p, q);
    assert_true(slab_free(allocator, q));
    q = slab_calloc_epoch(allocator, 1, 4 * MIB, epoch);
    assert_non_null(q);
    for (size_t i = 0; i < 4 * MIB; i += 512) assert_int_equal(q[i], 0);
    assert_true(slab_free(allocator, q));
}

static void write_byte(void *p) {
    (void)signal(SIGSEGV, SIG_DFL); /* cmocka has a handler, and sanitizers have */
    *(volatile unsigned char *)p = 1;
}

/* Free memory can be read, and is no data of the process. */
static void free_memory_is_read_only(void **state) {
    (void)state;
    if (!has_far() || SUP_EMULATED) skip();
    unsigned char *p = made(4 * MIB, 1);
    assert_true(slab_free(allocator, p));
    (void)slab_trim(allocator);
    for (size_t at = 0; at < 4 * MIB; at += MIB) {
        assert_int_equal(*(volatile unsigned char *)(p + at), 0);
        int status = sup_child(write_byte, p + at, SUP_CHILD_SECONDS, NULL, 0);
        assert_true(WIFSIGNALED(status) && WTERMSIG(status) == SIGSEGV);
    }
    unsigned char *q = slab_calloc_epoch(allocator, 1, 4 * MIB, epoch);
    assert_ptr_equal(p, q);
    for (size_t i = 0; i < 4 * MIB; i += 512) assert_int_equal(q[i], 0);
    assert_true(slab_free(allocator, q));
}

static bool no_commit(void *at, size_t bytes) {
    return ts_is_data_of(TS_FAR, at) ? false : ts_os_native.commit(at, bytes);
}
static bool no_freeze(void *at, size_t bytes) { return (void)at, (void)bytes, false; }

static void the_system_refuses(void **state) {
    (void)state;
    if (!has_far()) skip();
    unsigned char *kept = made(MIB, 1);
    table = ts_os_native;
    table.commit = no_commit;
    ts_os = &table;
    uint64_t units = ts_pool_used_units();
    assert_null(slab_malloc_epoch(allocator, 7 * MIB, epoch));
    assert_int_equal(errno, ENOMEM);
    assert_null(slab_realloc(allocator, kept, 9 * MIB));
    assert_int_equal(ts_pool_used_units(), units);
    assert_true(sup_pattern_check(kept, MIB, 1));
    table = ts_os_native;
    table.freeze = no_freeze;
    unsigned char *p = made(7 * MIB, 2);
    assert_true(slab_free(allocator, p) && slab_free(allocator, kept));
    (void)slab_trim(allocator);
    p = made(7 * MIB, 3);
    assert_true(slab_free(allocator, p));
}

static void aligned(void **state) {
    (void)state;
    for (size_t align = 4096; align <= 64 * MIB; align *= 2) {
        void *p = slab_aligned_epoch(allocator, align, 2 * MIB, epoch), *q = made(LIMIT + 1, 1);
        assert_non_null(p);
        assert_int_equal((uintptr_t)p % align, 0);
        memset(p, 1, 2 * MIB);
        assert_true(slab_free(allocator, q) && slab_free(allocator, p));
    }
}

/* From the other part into this one, in place, by its pages, and back. */
static void grows_and_shrinks(void **state) {
    (void)state;
    unsigned char *p = made(30000, 1), *behind = NULL;
    size_t bytes = 30000;
    for (size_t to = 60000; to <= 40 * MIB; to = to * 5 / 3) {
        unsigned char *old = p;
        if (to > 10 * MIB && !behind) behind = made(MIB, 2);
        p = slab_realloc(allocator, p, to);
        assert_non_null(p);
        assert_true(is_far(p) == (to > LIMIT && has_far()));
        assert_true(sup_pattern_check(p, bytes, 1));
        if (p != old) refuse(old);
        sup_pattern_fill(p, to, 1);
        bytes = to;
    }
    for (size_t to = bytes; to > 100; to /= 3) {
        memset(p, 5, to);
        p = slab_realloc(allocator, p, to);
        assert_non_null(p);
        for (size_t i = 0; i < to; i++) assert_int_equal(p[i], 5);
    }
    assert_true(slab_free(allocator, p));
    if (behind) assert_true(sup_pattern_check(behind, MIB, 2) && slab_free(allocator, behind));
}

static void read_at(void *p) {
    (void)signal(SIGSEGV, SIG_DFL);
    (void)*(volatile unsigned char *)p;
}

static void guarded(void **state) {
    (void)state;
    SlabAllocator *other = make(0, 1, 0);
    size_t page = ts_os_page_bytes();
    for (size_t bytes = LIMIT + 1; bytes < 9 * MIB; bytes = bytes * 3 + 1) {
        unsigned char *p = slab_malloc(other, bytes);
        assert_non_null(p);
        size_t whole = (bytes + page - 1) / page * page;
        assert_int_equal(slab_usable_size(other, p), whole);
        memset(p, 1, whole);
        unsigned char *const beyond[] = {p - 1, p + whole};
        for (unsigned i = 0; i < 2 && !SUP_EMULATED; i++) {
            int status = sup_child(read_at, beyond[i], SUP_CHILD_SECONDS, NULL, 0);
            assert_true(WIFSIGNALED(status) && WTERMSIG(status) == SIGSEGV);
        }
        assert_true(slab_free(other, p));
        assert_false(slab_free(other, p));
    }
    sup_check_identities(other);
    slab_allocator_free(other);
}

static void poisoned(void **state) {
    (void)state;
    SlabAllocator *other = make(1, 0, 0);
    unsigned char *p = slab_malloc(other, 2 * MIB);
    assert_non_null(p);
    memset(p, 1, 2 * MIB);
    assert_true(slab_free(other, p));
    for (size_t i = 0; i < 2 * MIB; i += 997) assert_int_equal(p[i], 0xdb); /* it is retained */
    unsigned char *q = slab_malloc(other, 2 * MIB);
    assert_ptr_equal(q, p);
    assert_true(slab_free(other, q));
    sup_check_identities(other);
    slab_allocator_free(other);
}

static void in_the_child(void *p) {
    SUP_CHECK(sup_pattern_check(p, 3 * MIB, 1), "its bytes");
    SUP_CHECK(slab_free(allocator, p) && !slab_free(allocator, p), "slab_free");
    unsigned char *q = slab_malloc_epoch(allocator, 5 * MIB, epoch);
    SUP_CHECK(q != NULL, "slab_malloc_epoch");
    sup_pattern_fill(q, 5 * MIB, 2);
    epoch_destroy(allocator, epoch);
    sup_check_identities(allocator);
}

static void after_a_fork(void **state) {
    (void)state;
    unsigned char *p = made(3 * MIB, 1);
    assert_int_equal(sup_child(in_the_child, p, SUP_CHILD_SECONDS, NULL, 0), 0);
    assert_true(sup_pattern_check(p, 3 * MIB, 1) && slab_free(allocator, p));
}

/* Its bytes are with a keeper (spill/spill.h): every call answers as before, and a free meanwhile counts. */
static void away(void **state) {
    static keeper k;
    ts_allocator *record = ts_allocator_find(ts_token(allocator));
    (void)state;
    if (!has_far() || record->care || !ts_os->barrier_all() || ts_os_page_bytes() > TS_UNIT_BYTES) skip();
    unsigned char *p = made(3 * MIB, 1), *q = made(LIMIT + 1, 2), *r = made(5 * MIB, 3), *small = made(100, 4);
    SlabHandle handle = slab_handle_of(allocator, p);
    assert_true(epoch_close(allocator, epoch));
    keep(&k, record, epoch);
    assert_true(slab_owns(allocator, p) && slab_usable_size(allocator, q) == MIB);
    assert_ptr_equal(slab_handle_get(allocator, handle), p);
    assert_false(slab_free(allocator, p + MIB) || slab_free(allocator, p + 16) || slab_free(allocator, q + 16));
    assert_null(slab_realloc(allocator, p, 9 * MIB));
    assert_int_equal(errno, ESTALE);
    assert_true(slab_free(allocator, q) && !slab_free(allocator, q) && !slab_owns(allocator, q));
    bring_back(&k);
    assert_true(sup_pattern_check(p, 3 * MIB, 1) && sup_pattern_check(r, 5 * MIB, 3));
    assert_true(sup_pattern_check(small, 100, 4) && !slab_owns(allocator, q));
    assert_true(free_obj(allocator, handle) && slab_free(allocator, r) && slab_free(allocator, small));
    assert_int_equal(epoch_state(allocator, epoch), EPOCH_CLOSED);
    epoch = epoch_open(allocator, NULL, EPOCH_CHURN);
    p = made(3 * MIB, 1), r = made(2 * MIB, 3);
    assert_true(epoch_close(allocator, epoch));
    keep(&k, record, epoch);
    assert_true(slab_free(allocator, p) && epoch_destroy(allocator, epoch));
    assert_false(slab_owns(allocator, p) || slab_free(allocator, r));
    assert_true(ts_spill_is_over(&k.spill) && ts_spill_bury(&k.spill));
    free(k.bytes);
}

/* Where a system counts every accessible byte, the library takes no room that no program touches. */
static bool counts_every_byte(void) {
    char mode = '0';
    FILE *f = fopen("/proc/sys/vm/overcommit_memory", "r");
    if (f) {
        (void)!fread(&mode, 1, 1, f);
        (void)fclose(f);
    }
    return mode == '2';
}

/* Larger than all of the NORMAL part; touched in places. */
static void one_of_a_hundred_gib(void **state) {
    (void)state;
    size_t bytes = 100 * GIB, usual = ts_region.far_most_bytes;
    if (ts_region.part[TS_FAR].units < 256u << 10 || counts_every_byte() || SUP_SANITIZED || SUP_EMULATED) skip();
    ts_region.far_most_bytes = SIZE_MAX;
    unsigned char *p = slab_malloc_epoch(allocator, bytes, epoch), *q = slab_malloc_epoch(allocator, bytes, epoch);
    assert_true(p && q && slab_usable_size(allocator, p) == bytes);
    SlabHandle handle = slab_handle_of(allocator, p);
    for (size_t at = 0; at < bytes; at += 7 * GIB + 4099) p[at] = (unsigned char)(at >> 12);
    static const size_t inside[] = {16, MIB, 64 * GIB, 100 * GIB - MIB, 100 * GIB - 16};
    for (unsigned i = 0; i < sizeof inside / sizeof *inside; i++) refuse(p + inside[i]);
    for (size_t at = 0; at < bytes; at += 7 * GIB + 4099) assert_int_equal(p[at], (unsigned char)(at >> 12));
    assert_ptr_equal(slab_handle_get(allocator, handle), p);
    assert_true(free_obj(allocator, handle) && slab_free(allocator, q));
    refuse(p), refuse(q), refuse_handle(handle);
    ts_region.far_most_bytes = usual;
}

/* Untouched, so that they need no memory. */
static void eight_of_fifteen_gib(void **state) {
    (void)state;
    if (ts_region.part[TS_FAR].units < 256u << 10 || ts_region.far_most_bytes < 15 * GIB || counts_every_byte() ||
        SUP_SANITIZED || SUP_EMULATED)
        skip();
    ts_region.far_bytes = TS_FAR_BYTES;
    unsigned char *p[8];
    for (unsigned i = 0; i < 8; i++) {
        p[i] = slab_malloc_epoch(allocator, 15 * GIB, epoch);
        assert_non_null(p[i]);
        for (size_t at = 0; at < 15 * GIB; at += 5 * GIB - 1) p[i][at] = (unsigned char)i;
        p[i][15 * GIB - 1] = (unsigned char)i;
    }
    for (unsigned i = 0; i < 8; i++) {
        for (size_t at = 0; at < 15 * GIB; at += 5 * GIB - 1) assert_int_equal(p[i][at], i);
        assert_int_equal(p[i][15 * GIB - 1], i);
        refuse(p[i] + 8 * GIB);
        assert_true(slab_free(allocator, p[i]) && !slab_free(allocator, p[i]));
    }
}

/* A size that the machine could never have is refused, as the system would. */
static void more_than_the_machine_has(void **state) {
    (void)state;
    if (!has_far()) skip();
    size_t most = ts_os_most_bytes(), usual = ts_region.far_most_bytes;
    assert_int_equal(most, usual);
    ts_region.far_most_bytes = 20 * MIB;
    unsigned char *p = made(19 * MIB, 1);
    assert_null(slab_malloc_epoch(allocator, 20 * MIB + 1, epoch));
    assert_int_equal(errno, ENOMEM);
    assert_null(slab_realloc(allocator, p, 21 * MIB));
    assert_int_equal(errno, ENOMEM);
    assert_true(sup_pattern_check(p, 19 * MIB, 1) && slab_free(allocator, p));
    ts_region.far_most_bytes = usual;
}

/* Where the address space is limited there is no such part, and all is as large as it was. */
static void limited(void *unused) {
    (void)unused;
    struct rlimit limit = {4 * GIB, 4 * GIB};
    SUP_CHECK(setrlimit(RLIMIT_AS, &limit) == 0, "setrlimit");
    SlabAllocator *a = slab_allocator_create();
    SUP_CHECK(a && !has_far() && ts_region.far_bytes == SIZE_MAX, "a FAR part of %u units",
              ts_region.part[TS_FAR].units);
    unsigned char *p = slab_malloc(a, 64 * MIB);
    SUP_CHECK(p && ts_is_data_of(TS_NORMAL, p) && !slab_free(a, p + MIB) && slab_free(a, p), "64 MiB");
    SUP_CHECK(!slab_free(a, (void *)16) && !slab_free(a, p + (1 << 30)), "no objects");
    SUP_CHECK(!free_obj(a, ts_handle_pack_far(5, 1)) && !slab_handle_get(a, ts_handle_pack_far(5, 1)), "no handle");
    slab_allocator_free(a);
}

static void a_limited_address_space(void **state) {
    (void)state;
    if (sizeof(void *) < 8 || SUP_SANITIZED || SUP_EMULATED) skip();
    assert_int_equal(sup_child(limited, NULL, SUP_CHILD_SECONDS, NULL, 0), 0);
}

/* The retained runs of both parts are in one list by age. A FAR object never takes those of the NORMAL part. */
static void runs_of_the_other_part(void **state) {
    (void)state;
    if (!has_far()) skip();
    enum { RUNS = 8, UNITS = 20 };
    unsigned char *near[RUNS], *between[RUNS];
    ts_region.far_bytes = 32 * MIB;
    for (unsigned i = 0; i < RUNS; i++) {
        near[i] = slab_malloc_epoch(allocator, UNITS * TS_UNIT_BYTES, epoch);
        between[i] = slab_malloc_epoch(allocator, UNITS * TS_UNIT_BYTES, epoch);
        assert_true(near[i] && between[i] && !is_far(near[i]));
    }
    for (unsigned i = 0; i < RUNS; i++) assert_true(slab_free(allocator, between[i]));
    assert_true(slab_trim(allocator) >= RUNS * UNITS * TS_UNIT_BYTES);
    for (unsigned i = 0; i < RUNS; i++) assert_true(slab_free(allocator, near[i]));
    ts_region.far_bytes = LIMIT;
    unsigned char *p = made(22 * MIB, 7);
    assert_true(sup_pattern_check(p, 22 * MIB, 7));
    assert_true(slab_free(allocator, p));
}

#define WITH(test) cmocka_unit_test_setup_teardown(test, begin, end)
int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_limited_address_space), /* before anything is allocated */
        WITH(only_its_start_is_the_object),
        WITH(diagnoses),
        WITH(handles),
        WITH(of_another_allocator),
        WITH(an_epoch_ends),
        WITH(limits_and_budgets),
        WITH(statistics),
        WITH(memory_goes_back),
        WITH(free_memory_is_read_only),
        WITH(the_system_refuses),
        WITH(aligned),
        WITH(grows_and_shrinks),
        WITH(runs_of_the_other_part),
        WITH(guarded),
        WITH(poisoned),
        WITH(after_a_fork),
        WITH(away),
        WITH(eight_of_fifteen_gib),
        WITH(one_of_a_hundred_gib),
        WITH(more_than_the_machine_has),
    };
    return cmocka_run_group_tests_name("epoch.far", tests, NULL, NULL);
}
