/* Every counter of the statistics against a script of which the figures are known; times by a clock of the test. */
#include "check.h"
#include "fixture.h"
#include "identities.h"
#include "proc.h"

#include "api/runtime.h"
#include "cache/cache.h"
#include "observe/snapshot.h"
#include "os/os.h"

#include <pthread.h>
#include <string.h>

#define UNIT TS_UNIT_BYTES

static ts_os_table table;
static uint64_t now, step, resident, behind;

static uint64_t test_wall(void) { return now += step; }
static uint64_t test_coarse(void) { return now - behind; }
static uint64_t test_resident(void) { return resident += 1024; }

static EpochId epoch;

static int start(void **state) {
    SlabOptions options = {.size = sizeof options, .reclaim_policy = SLAB_RECLAIM_KEEP, .record_rss = 1};
    (void)state;
    table = ts_os_native;
    table.wall_ns = test_wall;
    table.coarse_ns = test_coarse;
    table.resident_bytes = test_resident;
    ts_os = &table;
    now = 1000000;
    step = 0;
    behind = 0;
    resident = 0;
    allocator = slab_allocator_create_ex(&options);
    epoch = epoch_open(allocator, "the epoch", EPOCH_CHURN);
    return epoch == EPOCH_NONE;
}

static SlabClassStats class_stats(uint32_t cls) {
    SlabClassStats stats;
    assert_true(slab_stats_class(allocator, cls, &stats));
    return stats;
}

static SlabEpochStats epoch_stats(uint32_t cls, EpochId id) {
    SlabEpochStats stats;
    assert_true(slab_stats_epoch(allocator, cls, id, &stats));
    return stats;
}

static void make(void **objects, int count, size_t size) {
    for (int i = 0; i < count; i++) {
        objects[i] = slab_malloc_epoch(allocator, size, epoch);
        assert_non_null(objects[i]);
    }
}

static void drop(void **objects, int count) {
    for (int i = 0; i < count; i++) {
        assert_true(slab_free(allocator, objects[i]));
    }
}

/* ---- classes ------------------------------------------------------------------------------------------------ */

static void slabs_of_a_class(void **state) {
    enum { COUNT = 128 * 5 };
    static void *objects[COUNT];
    (void)state;
    uint32_t cls = (uint32_t)slab_class_of(128);
    make(objects, COUNT, 128);
    SlabClassStats stats = class_stats(cls);
    assert_int_equal(stats.object_size, 128);
    assert_int_equal(stats.new_slab_count, 5);
    assert_int_equal(stats.slow_path_cache_miss, 5); /* none was retained */
    assert_int_equal(stats.slow_path_hits, 5);
    assert_int_equal(stats.list_move_partial_to_full, 5);
    assert_int_equal(stats.total_full_slabs, 5);
    assert_int_equal(stats.total_partial_slabs, 0);
    assert_int_equal(stats.live_objects, COUNT);
    assert_int_equal(stats.live_bytes, COUNT * 128);
    assert_int_equal(stats.committed_bytes, 5 * UNIT);
    assert_int_equal(stats.allocated_objects_total, COUNT);
    assert_int_equal(stats.freed_objects_total, 0);
    /* Other classes have none of it. */
    stats = class_stats(cls + 1);
    assert_int_equal(stats.new_slab_count + stats.live_objects + stats.committed_bytes + stats.slow_path_hits, 0);
    drop(objects, COUNT);
    slab_thread_idle();
    stats = class_stats(cls);
    assert_int_equal(stats.list_move_full_to_partial, 5);
    assert_int_equal(stats.freed_objects_total, COUNT);
    assert_int_equal(stats.live_objects + stats.live_bytes, 0);
    assert_int_equal(stats.committed_bytes + stats.empty_slab_recycled * UNIT, 5 * UNIT);
    assert_int_equal(stats.cache_size, stats.empty_slab_recycled);
    assert_int_equal(stats.empty_slab_overflowed, 0);
    assert_true(stats.recycle_rate_pct > 99.99);
    uint64_t kept = stats.committed_bytes / UNIT;
    make(objects, COUNT, 128);
    stats = class_stats(cls);
    assert_int_equal(stats.new_slab_count, 5 + 5 - kept);
    assert_int_equal(stats.slow_path_cache_miss, 5); /* all of them retained this time */
    sup_check_identities(allocator);
    assert_int_equal(stats.list_move_full_to_partial, 5);
    /* The end of the epoch takes all of them back. */
    assert_true(epoch_destroy(allocator, epoch));
    stats = class_stats(cls);
    assert_int_equal(stats.list_move_full_to_partial, 10);
    assert_int_equal(stats.list_move_partial_to_full, 10);
    assert_int_equal(stats.empty_slab_recycled, stats.new_slab_count);
}

static void refused_and_rejected(void **state) {
    (void)state;
    void *p = slab_malloc_epoch(allocator, 100, epoch);
    assert_true(slab_free(allocator, p));
    for (int i = 0; i < 5; i++) {
        assert_false(slab_free(allocator, p));
        assert_false(free_obj(allocator, 12345));
    }
    assert_int_equal(class_stats(SLAB_ALL_CLASSES).rejected_frees_total, 10);
    assert_true(epoch_close(allocator, epoch));
    EpochId open = epoch_open(allocator, NULL, EPOCH_CHURN);
    void *keeps_it = slab_malloc_epoch(allocator, 100, open);
    assert_non_null(keeps_it);
    assert_true(epoch_close(allocator, open));
    for (int i = 0; i < 7; i++) {
        assert_null(slab_malloc_epoch(allocator, 100, open));
    }
    assert_int_equal(class_stats(SLAB_ALL_CLASSES).slow_path_epoch_closed, 7);
    PerfCounters counters;
    assert_true(get_perf_counters(allocator, 0, &counters));
    assert_int_equal(counters.slow_path_epoch_closed, 7);
    /* Nor does one that has come to its end. */
    assert_true(slab_free(allocator, keeps_it));
    assert_int_equal(epoch_state(allocator, open), EPOCH_CLOSED);
    assert_null(slab_malloc_epoch(allocator, 100, open));
    EpochId destroyed = epoch_open(allocator, NULL, EPOCH_SCOPE);
    assert_true(epoch_destroy(allocator, destroyed));
    assert_null(slab_malloc_epoch(allocator, 100, destroyed));
    assert_null(slab_malloc_epoch(allocator, 100, 12345)); /* never was one */
    assert_int_equal(class_stats(SLAB_ALL_CLASSES).slow_path_epoch_closed, 9);
}

static void kinds_apart(void **state) {
    void *p[3];
    (void)state;
    EpochId scope = epoch_open(allocator, NULL, EPOCH_SCOPE);
    p[0] = slab_malloc_epoch(allocator, 100, epoch);
    p[1] = slab_malloc_epoch(allocator, 100, scope);
    p[2] = slab_malloc_epoch(allocator, 100000, scope);
    SlabClassStats churn = class_stats((uint32_t)slab_class_of(100)), in_scope = class_stats(SLAB_CLASS_SCOPE),
                   spans = class_stats(SLAB_CLASS_SPAN), all = class_stats(SLAB_ALL_CLASSES);
    assert_int_equal(churn.live_bytes, 112);
    assert_int_equal(in_scope.live_bytes, 112);
    assert_int_equal(spans.live_bytes, 7 * UNIT);
    assert_int_equal(churn.live_objects + in_scope.live_objects + spans.live_objects, 3);
    assert_int_equal(all.live_bytes, 224 + 7 * UNIT);
    assert_int_equal(all.committed_bytes, 9 * UNIT);
    assert_int_equal(spans.committed_bytes, 7 * UNIT);
    assert_int_equal(epoch_stats(SLAB_ALL_CLASSES, scope).live_objects, 2);
    assert_int_equal(epoch_stats(SLAB_CLASS_SCOPE, scope).slab_count, 1);
    assert_int_equal(epoch_stats(SLAB_CLASS_SPAN, scope).slab_count, 7);
    assert_int_equal(epoch_stats((uint32_t)slab_class_of(100), scope).live_objects, 1);
    for (int i = 0; i < 3; i++) {
        assert_true(slab_free(allocator, p[i]));
    }
    SlabClassStats stats;
    memset(&stats, 7, sizeof stats);
    const SlabClassStats untouched = stats;
    assert_false(slab_stats_class(allocator, TS_CLASSES, &stats));
    assert_false(slab_stats_class(allocator, SLAB_CLASS_SPAN - 1, &stats));
    assert_memory_equal(&stats, &untouched, sizeof stats);
    sup_check_identities(allocator);
}

/* ---- epochs ------------------------------------------------------------------------------------------------- */

static void times_of_an_epoch(void **state) {
    (void)state;
    now = 5000;
    EpochId first = epoch_open(allocator, NULL, EPOCH_CHURN);
    now = 7000;
    EpochId second = epoch_open(allocator, "ä label", EPOCH_SCOPE);
    now = 10000;
    SlabEpochStats stats = epoch_stats(SLAB_ALL_CLASSES, first);
    assert_int_equal(stats.open_since_ns, 5000);
    assert_int_equal(stats.age_ns, 5000);
    assert_string_equal(stats.label, "");
    stats = epoch_stats(SLAB_ALL_CLASSES, second);
    assert_int_equal(stats.age_ns, 3000);
    assert_string_equal(stats.label, "ä label");
    assert_int_equal(stats.flags, EPOCH_SCOPE);
    assert_int_equal(stats.epoch_id, second);
    assert_int_equal(stats.epoch_era, second >> ts_epochs.index_bits);
    now = 1; /* a clock that went back */
    assert_int_equal(epoch_stats(SLAB_ALL_CLASSES, second).age_ns, 0);
}

/* Oldest first, by the time they were opened and then by id; the oldest ones when there is no room for all. */
static void oldest_first(void **state) {
    enum { COUNT = 300 };
    static EpochId by_age[COUNT], out[COUNT + 10];
    (void)state;
    assert_true(epoch_destroy(allocator, epoch));
    for (int i = 0; i < COUNT; i++) {
        int place = i * 7 % COUNT;
        now = 1000 + (uint64_t)place;
        by_age[place] = epoch_open(allocator, NULL, i % 2 ? EPOCH_CHURN : EPOCH_SCOPE);
    }
    for (size_t room = 0; room <= COUNT + 5; room += room < 10 ? 1 : 37) {
        memset(out, 0, sizeof out);
        assert_int_equal(slab_epochs(allocator, out, room), COUNT);
        for (size_t i = 0; i < room && i < COUNT; i++) {
            assert_int_equal(out[i], by_age[i]);
        }
        assert_int_equal(out[room], 0); /* not a word more than there is room for */
    }
    for (int i = 0; i < COUNT; i += 2) {
        assert_true(epoch_close(allocator, by_age[i])); /* empty: over at once */
    }
    assert_int_equal(slab_epochs(allocator, out, COUNT), COUNT / 2);
    for (int i = 0; i < COUNT / 2; i++) {
        assert_int_equal(out[i], by_age[2 * i + 1]);
    }
}

/* Domains are dated by the coarse clock, and come in their order all the same: among themselves, and among others. */
static void domains_in_order(void **state) {
    enum { COUNT = 40 };
    static EpochDomain *domains[COUNT];
    EpochId opened[COUNT + 1] = {epoch}, out[COUNT + 1];
    (void)state;
    behind = 300;
    for (int i = 0; i < COUNT; i++) {
        now += i % 3 == 0 ? 0 : 100; /* more than one between two ticks */
        if (i % 4 == 3) {
            opened[i + 1] = epoch_open(allocator, NULL, EPOCH_SCOPE);
            continue;
        }
        domains[i] = epoch_domain_create(allocator);
        opened[i + 1] = epoch_domain_epoch(domains[i]);
        uint64_t since = epoch_stats(SLAB_ALL_CLASSES, opened[i + 1]).open_since_ns;
        assert_true(since >= now - behind && since <= now + COUNT);
    }
    assert_int_equal(slab_epochs(allocator, out, COUNT + 1), COUNT + 1);
    assert_memory_equal(out, opened, sizeof out);
    for (int i = 0; i < COUNT; i++) {
        epoch_domain_destroy(domains[i]);
    }
}

static void closing(void **state) {
    enum { COUNT = 400 };
    void *objects[COUNT];
    (void)state;
    make(objects, COUNT, 1024);
    drop(objects, COUNT - 1);
    SlabEpochStats stats = epoch_stats(SLAB_ALL_CLASSES, epoch);
    assert_int_equal(stats.state, EPOCH_ACTIVE);
    uint64_t slabs = stats.slab_count;
    assert_int_equal(stats.reclaimable_slab_count, slabs - 1); /* all but that of the last object */
    assert_int_equal(stats.reclaimable_bytes, (slabs - 1) * UNIT);
    assert_int_equal(stats.rss_before_close + stats.rss_after_close, 0);
    resident = 0;
    step = 10;
    assert_true(epoch_close(allocator, epoch));
    step = 0;
    stats = epoch_stats(SLAB_ALL_CLASSES, epoch);
    assert_int_equal(stats.state, EPOCH_CLOSING);
    assert_int_equal(stats.rss_before_close, 1024);
    assert_int_equal(stats.rss_after_close, 2048);
    assert_int_equal(stats.slab_count, 1);
    assert_int_equal(stats.live_objects, 1);
    assert_int_equal(stats.alloc_count, 1);
    assert_int_equal(stats.reclaimable_slab_count, 0);
    SlabClassStats all = class_stats(SLAB_ALL_CLASSES);
    assert_int_equal(all.epoch_close_calls, 1);
    assert_int_equal(all.epoch_close_recycled_slabs, slabs - 1);
    assert_true(all.epoch_close_scanned_slabs >= 1 && all.epoch_close_scanned_slabs <= slabs);
    assert_true(all.epoch_close_total_ns >= 10 && all.epoch_close_total_ns <= 100);
    SlabGlobalStats global;
    assert_true(slab_stats_global(allocator, &global));
    assert_int_equal(global.active_epoch_count, 0);
    assert_int_equal(global.closing_epoch_count, 1);
    assert_true(slab_free(allocator, objects[COUNT - 1]));
    assert_true(slab_stats_epoch(allocator, SLAB_ALL_CLASSES, epoch, &stats));
    assert_true(stats.state == EPOCH_CLOSED && stats.ended_for_ns > 0 && stats.returned_bytes > 0);
    assert_true(slab_stats_global(allocator, &global));
    assert_int_equal(global.closing_epoch_count, 0);
    assert_int_equal(global.committed_bytes, global.retained_bytes);
}

static void the_region(void **state) {
    SlabGlobalStats global;
    (void)state;
    assert_true(slab_stats_global(allocator, &global));
    assert_int_equal(global.class_count, TS_CLASSES);
    assert_int_equal(global.reserved_bytes, ts_region.reserved_bytes);
    uint64_t waits = ts_fetch_add_relaxed(&ts_lock_waits, 3) + 3;
    assert_true(slab_stats_global(allocator, &global));
    assert_int_equal(global.process_lock_waits, waits);
    assert_int_equal(global.metadata_bytes, ts_region_metadata_bytes());
    assert_int_equal(global.resident_bytes, resident);
    assert_int_equal(global.current_epoch, EPOCH_NONE);
    EpochId id = epoch_current(allocator);
    assert_true(slab_stats_global(allocator, &global));
    assert_int_equal(global.current_epoch, id);
    assert_int_equal(global.cache_capacity, UINT64_MAX); /* keep */
    assert_true(slab_set_budget(allocator, 123456));
    assert_true(slab_stats_global(allocator, &global));
    assert_int_equal(global.budget_bytes, 123456);
}

/* ---- while others run ----------------------------------------------------------------------------------------- */

static atomic_bool stop_writing;

static void *write_counters(void *argument) {
    void *kept[64] = {0};
    for (unsigned i = 0; !atomic_load(&stop_writing); i++) {
        void **p = &kept[i * 5 % 64];
        if (*p) {
            SUP_CHECK(slab_free(allocator, *p), "slab_free");
        }
        *p = slab_malloc_epoch(allocator, i % 900, epoch);
    }
    for (int i = 0; i < 64; i++) {
        SUP_CHECK(slab_free(allocator, kept[i]), "slab_free");
    }
    return argument;
}

/* No figure goes below zero, nor back. */
static void read_meanwhile(void **state) {
    pthread_t thread;
    uint64_t allocated = 0, freed = 0;
    (void)state;
    atomic_store(&stop_writing, false);
    assert_int_equal(pthread_create(&thread, NULL, write_counters, NULL), 0);
    for (unsigned i = 0; i < SUP_SCALED(3000u); i++) {
        SlabClassStats stats = class_stats(SLAB_ALL_CLASSES);
        assert_true(stats.allocated_objects_total >= allocated);
        assert_true(stats.freed_objects_total >= freed);
        allocated = stats.allocated_objects_total;
        freed = stats.freed_objects_total;
        assert_true(stats.live_objects < (uint64_t)1 << 32); /* not below zero */
        assert_true(stats.live_bytes < (uint64_t)1 << 40);
    }
    atomic_store(&stop_writing, true);
    assert_int_equal(pthread_join(thread, NULL), 0);
    sup_check_identities(allocator);
    assert_int_equal(sup_live_objects(allocator), 0);
}

static void *foreign_free(void *object) {
    SUP_CHECK(slab_free(allocator, object), "slab_free");
    return NULL;
}

/* Between the counters and the foreign bits of one snapshot. */
static void drain_now(void *arg, const ts_epoch *of, EpochId id, uint32_t state, const ts_sums *sums) {
    (void)arg, (void)of, (void)id, (void)state, (void)sums;
    ts_heap_enter(ts_thread.heap);
    ts_foreign_drain(ts_thread.heap);
    ts_heap_leave(ts_thread.heap);
}

/* An object that was shown as freed, and is collected in the middle of a snapshot, stays freed; nothing is
   allocated. */
static void collected_meanwhile(void **state) {
    void *objects[10];
    ts_allocator *record = ts_allocator_find(ts_token(allocator));
    (void)state;
    make(objects, 10, 100);
    for (int i = 0; i < 3; i++) {
        sup_in_thread(foreign_free, objects[i]);
    }
    uint32_t cls = (uint32_t)slab_class_of(100), asked[] = {cls, SLAB_ALL_CLASSES};
    for (int i = 0; i < 2; i++) {
        assert_int_equal(class_stats(asked[i]).freed_objects_total, 3);
    }
    ts_snapshot snapshot;
    assert_true(ts_allocator_read_begin(record, record->token));
    ts_snapshot_take(record, &snapshot, drain_now, NULL, NULL);
    for (int i = 0; i < 2; i++) {
        SlabClassStats stats;
        assert_true(ts_snapshot_class(&snapshot, asked[i], &stats));
        assert_int_equal(stats.allocated_objects_total, 10);
        assert_int_equal(stats.freed_objects_total, 3);
        assert_int_equal(stats.live_objects, 7);
        assert_int_equal(stats.foreign_frees, 3);
    }
    ts_allocator_read_end(record);
    for (int i = 0; i < 2; i++) {
        assert_int_equal(class_stats(asked[i]).allocated_objects_total, 10);
        assert_int_equal(class_stats(asked[i]).live_objects, 7);
    }
    sup_check_identities(allocator);
}

/* An epoch that is destroyed while it is looked at, which is no closed one: it was never closed. */
static void destroyed_meanwhile(void **state) {
    static char text[1 << 16];
    SlabGlobalStats global;
    ts_sums sums;
    SlabEpochStats row;
    (void)state;
    ts_epoch *e = ts_table_at(&ts_epochs, ts_table_index(&ts_epochs, epoch));
    assert_non_null(slab_malloc_epoch(allocator, 100, epoch));
    assert_true(slab_stats_global(allocator, &global));
    uint64_t live = global.live_objects;
    now = (uint64_t)3600 * 1000000000;
    ts_store_relaxed(&e->state, EPOCH_CLOSED); /* as at its end, before its id changes */
    assert_true(slab_stats_global(allocator, &global));
    assert_int_equal(global.closing_epoch_count, 0);
    assert_int_equal(global.live_objects, live);
    assert_true(slab_stats_doctor(allocator, text, sizeof text) > 0);
    assert_null(strstr(text, "critical"));
    memset(&sums, 0, sizeof sums);
    ts_snapshot_epoch_row(e, epoch, EPOCH_CLOSED, &sums, TS_COUNT_KINDS, &row);
    assert_int_equal(row.closing_for_ns, 0);
    ts_store_relaxed(&e->state, EPOCH_ACTIVE);
    assert_true(slab_stats_global(allocator, &global));
    assert_int_equal(global.closing_epoch_count, 0);
}

#define WITH_ALLOCATOR(test) cmocka_unit_test_setup_teardown(test, start, stop)

int main(void) {
    const struct CMUnitTest tests[] = {
        WITH_ALLOCATOR(slabs_of_a_class),    WITH_ALLOCATOR(refused_and_rejected), WITH_ALLOCATOR(kinds_apart),
        WITH_ALLOCATOR(times_of_an_epoch),   WITH_ALLOCATOR(oldest_first),         WITH_ALLOCATOR(closing),
        WITH_ALLOCATOR(the_region),          WITH_ALLOCATOR(read_meanwhile),       WITH_ALLOCATOR(domains_in_order),
        WITH_ALLOCATOR(collected_meanwhile), WITH_ALLOCATOR(destroyed_meanwhile),
    };
    return cmocka_run_group_tests_name("observe.snapshot", tests, NULL, NULL);
}
