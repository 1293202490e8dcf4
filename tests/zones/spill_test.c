/* epoch_spill, epoch_load, slab_zones_read, and the calls allowed on objects that are away: the contract of
   tslab/zones.h. */
#define _GNU_SOURCE
#include "support.h"

#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "supply/supply.h"

#define DEVICE "zones=32&zone_size=1M&zone_capacity=768K&max_open=4&max_active=6"
#define REFUSED(call, error)            \
    do {                                \
        errno = 0;                      \
        assert_false(call);             \
        assert_int_equal(errno, error); \
    } while (0)

static SlabZones *zones;
static SlabAllocator *allocator;

static int set_up(void **s) {
    (void)s;
    (void)unlink(zt_path());
    zones = zt_open(DEVICE);
    allocator = slab_allocator_create();
    return 0;
}

static int tear_down(void **s) {
    (void)s;
    slab_allocator_free(allocator);
    SlabZonesStats stats = zt_stats(zones);
    assert_int_equal(stats.spilled_epochs, 0);
    assert_int_equal(stats.empty_zones + stats.failed_zones, 32);
    zt_check();
    assert_true(slab_zones_close(zones));
    return 0;
}

static SlabEpochStats epoch_stats(EpochId id) {
    SlabEpochStats e;
    assert_true(slab_stats_epoch(allocator, SLAB_ALL_CLASSES, id, &e));
    return e;
}

static void there_and_back_of(unsigned flags, size_t count, size_t bytes) {
    zt_epoch e = zt_fill(allocator, flags, count, bytes, 17);
    SlabGlobalStats before, away, after;
    assert_true(slab_stats_global(allocator, &before));
    uint64_t live = epoch_stats(e.id).live_objects;
    assert_int_equal(live, count);
    assert_true(epoch_spill(allocator, e.id, zones));
    assert_int_equal(epoch_state(allocator, e.id), EPOCH_SPILLED);
    zt_check();
    assert_true(slab_stats_global(allocator, &away));
    SlabZonesStats s = zt_stats(zones);
    assert_int_equal(s.spilled_epochs, 1);
    assert_int_equal(before.committed_bytes - away.committed_bytes, s.spilled_bytes);
    assert_int_equal(s.appended_bytes, s.payload_bytes);
    for (size_t i = 0; i < count; i += 7) {
        const zt_object *o = &e.object[i];
        assert_true(zt_faults(o->at));
        assert_true(slab_owns(allocator, o->at));
        assert_true(slab_usable_size(allocator, o->at) >= o->bytes);
        assert_ptr_equal(slab_handle_get(allocator, o->handle), o->at);
        assert_int_equal(slab_handle_of(allocator, o->at), o->handle);
        REFUSED(slab_realloc(allocator, o->at, o->bytes), ESTALE);
        REFUSED(slab_realloc(allocator, o->at, o->bytes * 2 + 100000), ESTALE);
    }
    assert_int_equal(epoch_stats(e.id).live_objects, count);
    assert_true(zt_reads_right(&e, 1));
    assert_true(epoch_load(allocator, e.id));
    assert_int_equal(epoch_state(allocator, e.id), EPOCH_CLOSING);
    zt_check();
    assert_true(slab_stats_global(allocator, &after));
    assert_int_equal(after.committed_bytes, before.committed_bytes);
    assert_true(zt_is_right(&e));
    assert_int_equal(slab_zones_read(allocator, e.object[0].handle, &live, 1), -1);
    assert_int_equal(errno, EINVAL);
    /* Again, and then to its end. */
    assert_true(epoch_spill(allocator, e.id, zones));
    assert_true(epoch_destroy(allocator, e.id));
    assert_int_equal(epoch_state(allocator, e.id), EPOCH_CLOSED);
    assert_false(slab_owns(allocator, e.object[0].at));
    assert_null(slab_handle_get(allocator, e.object[0].handle));
    REFUSED(epoch_load(allocator, e.id), EINVAL);
    assert_int_equal(zt_stats(zones).spilled_epochs, 0);
    zt_check();
    zt_forget(&e);
}

static void there_and_back(void **s) {
    (void)s;
    there_and_back_of(EPOCH_CHURN, 3000, 64);
    there_and_back_of(EPOCH_CHURN, 3000, 16);
    there_and_back_of(EPOCH_CHURN, 400, 4000);
    there_and_back_of(EPOCH_SCOPE, 3000, 64);
    there_and_back_of(EPOCH_SCOPE, 3000, 200);
    there_and_back_of(EPOCH_CHURN, 20, 200000);
    size_t border = ts_region.far_bytes;
    if (border != SIZE_MAX) ts_store_relaxed(&ts_region.far_bytes, 1 << 20);
    there_and_back_of(EPOCH_CHURN, 1, 18 << 20); /* of the FAR part, where there is one */
    ts_store_relaxed(&ts_region.far_bytes, border);
    there_and_back_of(EPOCH_CHURN, 300, 0);
    there_and_back_of(EPOCH_SCOPE, 300, 0);
    there_and_back_of(EPOCH_CHURN, 1, 1);
}

static void refusals(void **s) {
    (void)s;
    EpochId active = epoch_open(allocator, NULL, EPOCH_CHURN);
    char *p = slab_malloc_epoch(allocator, 100, active);
    assert_non_null(p);
    REFUSED(epoch_spill(allocator, active, zones), EINVAL);
    REFUSED(epoch_load(allocator, active), EINVAL);
    REFUSED(epoch_spill(allocator, 12345, zones), EINVAL);
    REFUSED(epoch_spill(allocator, active, NULL), EINVAL);
    REFUSED(epoch_spill(NULL, active, zones), EINVAL);
    zt_epoch e = zt_fill(allocator, EPOCH_CHURN, 100, 100, 3);
    SlabAllocator *other = slab_allocator_create();
    REFUSED(epoch_spill(other, e.id, zones), EINVAL);
    slab_allocator_free(other);
    assert_true(epoch_spill(allocator, e.id, zones));
    REFUSED(epoch_spill(allocator, e.id, zones), EBUSY);
    REFUSED(slab_zones_close(zones), EBUSY);
    assert_false(epoch_close(allocator, e.id));
    assert_true(epoch_destroy(allocator, e.id));
    REFUSED(epoch_spill(allocator, e.id, zones), ESTALE);
    assert_false(epoch_destroy(allocator, e.id));
    REFUSED(slab_zones_stats(zones, NULL), EINVAL);
    REFUSED(slab_zones_stats(NULL, &(SlabZonesStats){0}), EINVAL);
    zt_forget(&e);
    SlabOptions poison = {.size = sizeof poison, .poison_on_free = 1}, guard = {.size = sizeof guard, .guard_spans = 1};
    for (int i = 0; i < 2; i++) {
        SlabAllocator *careful = slab_allocator_create_ex(i ? &guard : &poison);
        zt_epoch c = zt_fill(careful, EPOCH_CHURN, 10, 9000, 1);
        REFUSED(epoch_spill(careful, c.id, zones), ENOTSUP);
        assert_true(zt_is_right(&c));
        zt_forget(&c);
        slab_allocator_free(careful);
    }
}

/* Frees while it is away work on the words outside of the pages; the remaining objects come back. */
static void frees(void **s) {
    (void)s;
    for (unsigned flags = EPOCH_CHURN; flags <= EPOCH_SCOPE; flags++) {
        zt_epoch e = zt_fill(allocator, flags, 600, 0, 5);
        assert_true(epoch_spill(allocator, e.id, zones));
        for (size_t i = 0; i < e.count; i += 2) zt_free(&e, i, i % 4 == 0);
        assert_int_equal(epoch_stats(e.id).live_objects, e.live);
        zt_check();
        for (size_t i = 0; i < e.count; i++)
            if (!e.object[i].at) assert_int_equal(slab_zones_read(allocator, e.object[i].handle, &(char){0}, 1), -1);
        assert_true(zt_reads_right(&e, 3));
        assert_true(epoch_load(allocator, e.id));
        zt_check();
        assert_true(zt_is_right(&e));
        for (size_t i = 1; i < e.count; i += 4) zt_free(&e, i, false);
        assert_true(epoch_spill(allocator, e.id, zones));
        zt_check();
        for (size_t i = 3; i < e.count; i += 4) {
            assert_int_equal(epoch_state(allocator, e.id), EPOCH_SPILLED);
            zt_free(&e, i, i % 8 == 3);
        }
        assert_int_equal(e.live, 0);
        assert_int_equal(epoch_state(allocator, e.id), EPOCH_CLOSED); /* the last free ends it */
        assert_false(epoch_destroy(allocator, e.id));
        SlabZonesStats z = zt_stats(zones);
        assert_int_equal(z.spilled_epochs, 0);
        assert_int_equal(z.empty_zones, 32);
        zt_check();
        zt_forget(&e);
    }
}

/* Frees by threads that do not own the objects: their owner rests, has ended, or is in the middle of other work. */
typedef struct work {
    zt_epoch epoch;
    unsigned flags;
    atomic_bool stop;
    pthread_barrier_t made;
} work;

static void *free_all(void *arg) {
    zt_epoch *e = arg;
    for (size_t i = 0; i < e->count; i++)
        if (e->object[i].at) zt_free(e, i, i % 2 == 0);
    return NULL;
}

static void *make_and_end(void *arg) {
    work *w = arg;
    w->epoch = zt_fill(allocator, w->flags, 300, 0, 71);
    return NULL;
}

static void *make_and_go_on(void *arg) {
    work *w = arg;
    w->epoch = zt_fill(allocator, w->flags, 300, 0, 72);
    (void)pthread_barrier_wait(&w->made);
    while (!atomic_load(&w->stop)) {
        void *p = slab_malloc(allocator, 200);
        if (!p || !slab_free(allocator, p)) abort();
    }
    return NULL;
}

static void is_ended_by_frees(zt_epoch *e) {
    assert_int_equal(e->live, 0);
    assert_int_equal(epoch_state(allocator, e->id), EPOCH_CLOSED);
    assert_int_equal(zt_stats(zones).spilled_epochs, 0);
    zt_forget(e);
}

static void frees_by_others(void **s) {
    (void)s;
    pthread_t thread;
    for (unsigned flags = EPOCH_CHURN; flags <= EPOCH_SCOPE; flags++) {
        zt_epoch mine = zt_fill(allocator, flags, 300, 0, 70);
        assert_true(epoch_spill(allocator, mine.id, zones));
        for (size_t i = 0; i < mine.count; i += 3) zt_free(&mine, i, true); /* some by the owner */
        assert_int_equal(pthread_create(&thread, NULL, free_all, &mine), 0);
        assert_int_equal(pthread_join(thread, NULL), 0);
        is_ended_by_frees(&mine);
        zt_check();

        work w = {.flags = flags};
        assert_int_equal(pthread_create(&thread, NULL, make_and_end, &w), 0);
        assert_int_equal(pthread_join(thread, NULL), 0);
        assert_true(epoch_spill(allocator, w.epoch.id, zones) && zt_reads_right(&w.epoch, 1));
        assert_true(epoch_load(allocator, w.epoch.id) && zt_is_right(&w.epoch));
        assert_true(epoch_spill(allocator, w.epoch.id, zones));
        (void)free_all(&w.epoch);
        is_ended_by_frees(&w.epoch);
        zt_check();

        assert_int_equal(pthread_barrier_init(&w.made, NULL, 2), 0);
        assert_int_equal(pthread_create(&thread, NULL, make_and_go_on, &w), 0);
        (void)pthread_barrier_wait(&w.made);
        while (!epoch_spill(allocator, w.epoch.id, zones)) assert_int_equal(errno, EBUSY);
        (void)free_all(&w.epoch);
        is_ended_by_frees(&w.epoch);
        atomic_store(&w.stop, true);
        assert_int_equal(pthread_join(thread, NULL), 0);
        (void)pthread_barrier_destroy(&w.made);
        zt_check();
    }
}

/* Maintenance leaves it alone. */
static void upkeep(void **s) {
    (void)s;
    zt_epoch e = zt_fill(allocator, EPOCH_CHURN, 4000, 64, 5), d = zt_fill(allocator, EPOCH_SCOPE, 2000, 100, 6);
    assert_true(epoch_spill(allocator, e.id, zones) && epoch_spill(allocator, d.id, zones));
    for (size_t i = 0; i < e.count; i++)
        if (i % 50 != 0) zt_free(&e, i, false);
    for (size_t i = 0; i < d.count; i++)
        if (i % 200 != 0) zt_free(&d, i, true);
    for (int round = 0; round < 2; round++) {
        (void)slab_trim(allocator);
        assert_true(slab_reserve(allocator, 4 << 20));
        (void)slab_maintain(allocator, UINT64_MAX);
        slab_thread_idle();
        char text[20000];
        assert_true(slab_stats_doctor(allocator, text, sizeof text) > 0);
        assert_true(slab_stats_json(allocator, text, sizeof text) > 0);
        zt_epoch more = zt_fill(allocator, EPOCH_CHURN, 500, 0, 77);
        assert_true(zt_is_right(&more));
        assert_true(epoch_destroy(allocator, more.id));
        zt_forget(&more);
        zt_check();
    }
    assert_true(zt_faults(e.object[0].at) && zt_faults(d.object[0].at));
    assert_true(zt_reads_right(&e, 1) && zt_reads_right(&d, 1));
    assert_true(epoch_load(allocator, e.id) && epoch_load(allocator, d.id));
    assert_true(zt_is_right(&e) && zt_is_right(&d));
    (void)slab_trim(allocator);
    assert_true(zt_is_right(&e) && zt_is_right(&d));
    assert_true(epoch_destroy(allocator, e.id) && epoch_destroy(allocator, d.id));
    zt_forget(&e);
    zt_forget(&d);
}

static void promote(void **s) {
    (void)s;
    zt_epoch e = zt_fill(allocator, EPOCH_CHURN, 10, 100, 5);
    EpochDomain *domain = epoch_domain_create(allocator);
    assert_true(epoch_spill(allocator, e.id, zones));
    REFUSED(slab_promote(domain, e.object[3].at), ESTALE);
    assert_true(slab_owns(allocator, e.object[3].at));
    assert_true(epoch_load(allocator, e.id));
    char *moved = slab_promote(domain, e.object[3].at);
    assert_non_null(moved);
    epoch_domain_destroy(domain);
    assert_true(epoch_destroy(allocator, e.id));
    zt_forget(&e);
}

static void budget(void **s) {
    (void)s;
    zt_epoch e = zt_fill(allocator, EPOCH_CHURN, 200, 8000, 5);
    assert_true(epoch_spill(allocator, e.id, zones));
    (void)slab_trim(allocator);
    SlabGlobalStats g;
    assert_true(slab_stats_global(allocator, &g));
    assert_true(slab_set_budget(allocator, g.committed_bytes + (1 << 20)));
    REFUSED(epoch_load(allocator, e.id), ENOMEM);
    assert_int_equal(epoch_state(allocator, e.id), EPOCH_SPILLED);
    assert_true(zt_faults(e.object[0].at) && zt_reads_right(&e, 10));
    zt_check();
    assert_true(slab_set_budget(allocator, 0));
    assert_true(epoch_load(allocator, e.id) && zt_is_right(&e));
    assert_true(epoch_destroy(allocator, e.id));
    zt_forget(&e);
}

/* Small epochs share zones; those that need more than one have their own; and the device fills up. */
static void zones_of_epochs(void **s) {
    (void)s;
    zt_epoch small[3], large;
    for (int i = 0; i < 3; i++) {
        small[i] = zt_fill(allocator, EPOCH_CHURN, 20, 8000, (uint32_t)i);
        assert_true(epoch_spill(allocator, small[i].id, zones));
    }
    SlabZonesStats z = zt_stats(zones);
    assert_int_equal(z.empty_zones, 31);
    assert_int_equal(z.shared_zones, 1);
    large = zt_fill(allocator, EPOCH_CHURN, 1, 1 << 20, 9);
    assert_true(epoch_spill(allocator, large.id, zones));
    z = zt_stats(zones);
    assert_int_equal(z.empty_zones, 29);
    assert_int_equal(z.shared_zones, 1);
    assert_int_equal(z.full_zones, 1);
    assert_int_equal(z.active_zones, 2);
    assert_true(epoch_destroy(allocator, small[0].id) && epoch_destroy(allocator, small[2].id));
    assert_int_equal(zt_stats(zones).empty_zones, 29);
    assert_true(zt_reads_right(&small[1], 1));
    assert_true(epoch_destroy(allocator, small[1].id) && epoch_destroy(allocator, large.id));
    z = zt_stats(zones);
    assert_int_equal(z.empty_zones, 32);
    assert_int_equal(z.reset_zones_total, 3);
    assert_int_equal(z.reset_filled_bytes_total, z.appended_bytes);
    /* Full: refused, whole, and room again after a destroy. */
    zt_epoch all = zt_fill(allocator, EPOCH_CHURN, 1, 20 << 20, 1),
             more = zt_fill(allocator, EPOCH_CHURN, 1, 6 << 20, 2);
    assert_true(epoch_spill(allocator, all.id, zones));
    REFUSED(epoch_spill(allocator, more.id, zones), ENOSPC);
    assert_int_equal(epoch_state(allocator, more.id), EPOCH_CLOSING);
    assert_true(zt_is_right(&more));
    assert_true(epoch_destroy(allocator, all.id));
    assert_true(epoch_spill(allocator, more.id, zones) && epoch_load(allocator, more.id) && zt_is_right(&more));
    assert_true(epoch_destroy(allocator, more.id));
    for (int i = 0; i < 3; i++) zt_forget(&small[i]);
    zt_forget(&large);
    zt_forget(&all);
    zt_forget(&more);
}

/* More large epochs with a tail than zones may be active: the fullest tails are finished, and that is counted. */
static void more_lives_than_active_zones(void **s) {
    (void)s;
    zt_epoch e[10];
    uint64_t bytes = 0;
    for (int i = 0; i < 10; i++) {
        e[i] = zt_fill(allocator, EPOCH_CHURN, 1, (48 + 16u * (unsigned)i) * 1024 + (768 << 10), (uint32_t)i);
        assert_true(epoch_spill(allocator, e[i].id, zones));
        bytes += (48 + 16u * (unsigned)i) * 1024 + (768 << 10);
    }
    SlabZonesStats z = zt_stats(zones);
    assert_int_equal(z.payload_bytes, bytes);
    assert_int_equal(z.active_zones, 6);
    assert_int_equal(z.errors_total, 0);
    assert_true(z.padding_bytes > 0);
    assert_int_equal(z.full_zones, 14);
    for (int i = 0; i < 10; i++) {
        assert_true(zt_reads_right(&e[i], 1));
        assert_true(i % 2 ? epoch_destroy(allocator, e[i].id) : epoch_load(allocator, e[i].id));
        if (i % 2 == 0) assert_true(zt_is_right(&e[i]) && epoch_destroy(allocator, e[i].id));
        zt_forget(&e[i]);
    }
}

/* The allocator ends with epochs that are away: its record goes when their addresses have come back. */
static void allocator_ends(void **s) {
    (void)s;
    SlabAllocator *a = slab_allocator_create();
    zt_epoch e = zt_fill(a, EPOCH_CHURN, 1000, 0, 5), d = zt_fill(a, EPOCH_SCOPE, 500, 100, 6);
    assert_true(epoch_spill(a, e.id, zones) && epoch_spill(a, d.id, zones));
    slab_allocator_free(a);
    assert_false(slab_free(a, e.object[0].at));
    assert_int_equal(slab_zones_read(a, e.object[0].handle, &(char){0}, 1), -1);
    assert_int_equal(zt_stats(zones).spilled_epochs, 0);
    zt_check();
    zt_forget(&e);
    zt_forget(&d);
}

static void partial_reads(void **s) {
    (void)s;
    zt_epoch e = zt_fill(allocator, EPOCH_CHURN, 40, 0, 11);
    char text[8];
    assert_true(epoch_spill(allocator, e.id, zones));
    assert_int_equal(slab_zones_read(allocator, e.object[5].handle, text, 0), 0);
    assert_int_equal(slab_zones_read(allocator, e.object[5].handle, NULL, 0), 0);
    assert_int_equal(slab_zones_read(allocator, e.object[5].handle, NULL, 1), -1);
    assert_int_equal(errno, EINVAL);
    assert_int_equal(slab_zones_read(allocator, SLAB_HANDLE_NONE, text, 1), -1);
    assert_int_equal(errno, ESTALE);
    size_t usable = slab_usable_size(allocator, e.object[5].at);
    char *all = malloc(usable + 100);
    assert_int_equal(slab_zones_read(allocator, e.object[5].handle, all, usable + 100), usable);
    free(all);
    assert_true(epoch_destroy(allocator, e.id));
    zt_forget(&e);
}

/* Small scopes begin with slabs of 512 bytes, which are not lent: they stay, are counted, and their objects are
   there. */
static void pieces_stay(void **s) {
    (void)s;
    enum { EPOCHS = 6 };
    zt_epoch e[EPOCHS];
    uint32_t after = ts_pieces_after;
    ts_pieces_after = 0;
    for (uint32_t i = 0; i < EPOCHS; i++) e[i] = zt_fill(allocator, EPOCH_SCOPE, 400, 100, i);
    ts_pieces_after = after;
    for (int i = 0; i < EPOCHS; i++) assert_true(epoch_spill(allocator, e[i].id, zones));
    SlabZonesStats stats = zt_stats(zones);
    assert_in_range(stats.kept_bytes, 512, EPOCHS * 8 * 1024);
    assert_int_equal(stats.kept_bytes % 512, 0);
    for (int i = 0; i < EPOCHS; i++) {
        assert_true(zt_reads_right(&e[i], 3));
        assert_true(i % 2 ? epoch_load(allocator, e[i].id) && zt_is_right(&e[i]) : epoch_destroy(allocator, e[i].id));
        if (i % 2) assert_true(epoch_destroy(allocator, e[i].id));
        zt_forget(&e[i]);
    }
    assert_int_equal(zt_stats(zones).kept_bytes, 0);
}

/* Where the last scopes were small, an object above 512 bytes begins most scopes with a piece of 1 KiB. */
static void long_pieces_stay(void **s) {
    (void)s;
    enum { EPOCHS = 8 };
    EpochId id[EPOCHS];
    uint32_t after = ts_pieces_after;
    ts_pieces_after = 0;
    for (int i = 0; i < 100; i++) {
        id[0] = epoch_open(allocator, NULL, EPOCH_SCOPE);
        assert_non_null(slab_malloc_epoch(allocator, 40, id[0]));
        assert_true(epoch_destroy(allocator, id[0]));
    }
    for (int i = 0; i < EPOCHS; i++) {
        id[i] = epoch_open(allocator, NULL, EPOCH_SCOPE);
        assert_non_null(slab_malloc_epoch(allocator, 600, id[i]));
        assert_non_null(slab_malloc_epoch(allocator, 7000, id[i])); /* in a unit, which is lent */
        assert_true(epoch_close(allocator, id[i]));
    }
    ts_pieces_after = after;
    uint64_t kept = 0;
    for (int i = 0; i < EPOCHS; i++) {
        assert_true(epoch_spill(allocator, id[i], zones));
        uint64_t more = zt_stats(zones).kept_bytes - kept;
        assert_true(more == 0 || more == 1024);
        kept += more;
    }
    assert_int_not_equal(kept, 0);
    for (int i = 0; i < EPOCHS; i++) assert_true(epoch_destroy(allocator, id[i]));
    assert_int_equal(zt_stats(zones).kept_bytes, 0);
}

static uint64_t told, told_all;
static void progress(uint64_t done, uint64_t whole, void *arg) {
    assert_ptr_equal(arg, &told);
    assert_true(done > told || told == told_all);
    told = done;
    told_all = whole;
}

static void options(void **s) {
    (void)s;
    assert_true(slab_zones_close(zones));
    SlabZonesOptions o = {.size = sizeof o, .progress = progress, .progress_arg = &told, .append_bytes = 100000};
    zones = slab_zones_open(zt_where(DEVICE), &o);
    assert_non_null(zones);
    zt_epoch e = zt_fill(allocator, EPOCH_CHURN, 300, 8000, 11);
    assert_true(epoch_spill(allocator, e.id, zones));
    assert_true(told == told_all && told == zt_stats(zones).spilled_bytes);
    assert_true(epoch_load(allocator, e.id) && zt_is_right(&e));
    assert_int_equal(told, told_all);
    assert_true(epoch_destroy(allocator, e.id));
    zt_forget(&e);
}

int main(void) {
#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)
    const struct CMUnitTest tests[] = {
        TEST(there_and_back), TEST(refusals),         TEST(frees),
        TEST(upkeep),         TEST(frees_by_others),  TEST(promote),
        TEST(budget),         TEST(zones_of_epochs),  TEST(more_lives_than_active_zones),
        TEST(allocator_ends), TEST(partial_reads),    TEST(options),
        TEST(pieces_stay),    TEST(long_pieces_stay),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
