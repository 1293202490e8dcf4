/* Tables of records named by ids with an era. */
#include "check.h"
#include "proc.h"
#include "rng.h"
#include "unit.h"

#include "os/os.h"
#include "region/region.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#define LOG2 12u
#define INDEX_BITS LOG2

typedef struct record {
    ts_table_record record;
    uint64_t value;
} record;

static ts_table table;
static ts_os_table refusing;
static bool refuse;

static bool test_commit(void *at, size_t bytes) { return !refuse && ts_os_native.commit(at, bytes); }

static void make_table(unsigned id_bits) {
    refusing = ts_os_native;
    refusing.commit = test_commit;
    ts_os = &refusing;
    SUP_CHECK(ts_region_init(LOG2), "ts_region_init");
    ts_table_init(&table, TS_TABLE_EPOCH, TS_EPOCH_STRIDE, id_bits);
}

static void *find_record(uint64_t id) { return ts_table_find_strided(&table, id, table.stride); }

static uint64_t use(uint64_t value) {
    record *e = ts_table_take(&table);
    if (!e) {
        return 0;
    }
    uint64_t id = ts_table_next_id(&table, e);
    SUP_CHECK(find_record(id) == NULL, "an id is found before it is published");
    e->value = value;
    ts_table_publish(e, id);
    SUP_CHECK(find_record(id) == e && id != 0, "a published id is not found");
    return id;
}

static void end(uint64_t id) {
    ts_table_give(&table, find_record(id));
    SUP_CHECK(find_record(id) == NULL, "an ended id is found");
}

static void every_record(void *argument) {
    (void)argument;
    make_table(64);
    uint32_t most = (1u << INDEX_BITS) - 1; /* index 0 is never used */
    uint64_t *ids = calloc(most, sizeof *ids);
    for (uint32_t i = 0; i < most; i++) {
        ids[i] = use(i);
        SUP_CHECK(ids[i] != 0, "record %u of %u", i, most);
    }
    SUP_CHECK(use(0) == 0, "more records than there are");
    SUP_CHECK(ts_table_high(&table) == most + 1, "high");
    for (uint32_t i = 0; i < most; i++) {
        record *e = find_record(ids[i]);
        SUP_CHECK(e && e->value == i && ts_table_at(&table, e->record.index) == e, "record %u", i);
        end(ids[i]);
    }
    uint64_t again = use(7);
    SUP_CHECK(again != 0 && again >> INDEX_BITS == 2, "a freed record in its next era");
    free(ids);
}

static void stale_and_forged(void *argument) {
    (void)argument;
    make_table(64);
    uint64_t old[200];
    for (int i = 0; i < 200; i++) {
        old[i] = use(1);
        end(old[i]);
    }
    uint64_t now = use(2);
    for (int i = 0; i < 200; i++) {
        SUP_CHECK(find_record(old[i]) == NULL && old[i] != now, "stale id %d", i);
        for (int k = 0; k < i; k++) {
            SUP_CHECK(old[i] != old[k], "an id was used twice");
        }
    }
    SUP_CHECK(find_record(0) == NULL && find_record(UINT64_MAX) == NULL, "no id");
    struct sup_rng rng = {3};
    for (int i = 0; i < 100000; i++) {
        uint64_t id = sup_rng_next(&rng) >> sup_rng_below(&rng, 64);
        SUP_CHECK(id == now || find_record(id) == NULL, "a forged id is found");
    }
}

/* 4 bits of era: eras 1 to 15, then the record is never handed out again. */
static void eras_run_out(void *argument) {
    (void)argument;
    make_table(INDEX_BITS + 4);
    uint32_t high = 2; /* of a table with one record in use at a time */
    for (int round = 0; round < 3; round++) {
        uint64_t first = 0;
        for (uint64_t era = 1; era <= 15; era++) {
            uint64_t id = use(era);
            SUP_CHECK(id >> INDEX_BITS == era, "era %llu", (unsigned long long)(id >> INDEX_BITS));
            SUP_CHECK(first == 0 || (id & 0xfff) == (first & 0xfff), "another record before the first is used up");
            SUP_CHECK(ts_table_high(&table) == high, "high");
            first = first ? first : id;
            end(id);
        }
        uint64_t next = use(0);
        SUP_CHECK(next >> INDEX_BITS == 1 && (next & 0xfff) != (first & 0xfff), "a used-up record came back");
        SUP_CHECK(find_record(first) == NULL, "an id of a used-up record is found");
        SUP_CHECK(find_record((first & 0xfff) | (uint64_t)16 << INDEX_BITS) == NULL, "era 16");
        ts_table_give(&table, find_record(next));
        /* Two records are free; the next round uses the newest one up. */
        for (uint64_t id = 0; id >> INDEX_BITS < 15;) {
            id = use(0);
            end(id);
        }
        high += 2;
    }
}

static void all_eras_of_all_entries(void *argument) {
    (void)argument;
    make_table(INDEX_BITS + 2); /* eras 1 to 3 */
    uint64_t uses = 0;
    for (uint64_t id; (id = use(0)) != 0; uses++) {
        end(id);
    }
    SUP_CHECK(uses == 3u * ((1u << INDEX_BITS) - 1), "%llu uses", (unsigned long long)uses);
    SUP_CHECK(use(0) == 0, "used up for ever");
}

static void refused_growth(void *argument) {
    (void)argument;
    make_table(64);
    refuse = true;
    SUP_CHECK(use(1) == 0 && use(1) == 0, "refused");
    refuse = false;
    uint64_t count = 0;
    for (int i = 0; i < 300; i++) {
        count += use(1) != 0;
    }
    refuse = true;
    uint64_t more = 0;
    while (use(1)) {
        more++; /* what is accessible already */
    }
    SUP_CHECK(count == 300 && more < 512, "%llu and %llu", (unsigned long long)count, (unsigned long long)more);
    refuse = false;
    SUP_CHECK(use(1) != 0 && ts_table_high(&table) == 302 + more, "after the refusal");
}

/* Readers look at ids while others end and reuse the records. */
static atomic_bool stop;
static _Atomic uint64_t shared_id;

static void *reader(void *found) {
    while (!atomic_load(&stop)) {
        uint64_t id = atomic_load(&shared_id);
        record *e = find_record(id);
        if (e) {
            SUP_CHECK((id & 0xfff) == e->record.index, "another record");
            atomic_fetch_add((_Atomic uint64_t *)found, 1);
        }
    }
    return NULL;
}

static void readers(void *argument) {
    (void)argument;
    make_table(64);
    pthread_t threads[2];
    _Atomic uint64_t found[2] = {0, 0};
    for (int i = 0; i < 2; i++) {
        SUP_CHECK(pthread_create(&threads[i], NULL, reader, &found[i]) == 0, "pthread_create");
    }
    for (unsigned i = 0; i < SUP_SCALED(200000u); i++) {
        uint64_t id = use(i);
        atomic_store(&shared_id, id);
        end(id);
    }
    atomic_store(&shared_id, use(1));
    while (atomic_load(&found[0]) == 0 || atomic_load(&found[1]) == 0) {
        sup_sleep_ms(1); /* the child has a time limit */
    }
    atomic_store(&stop, true);
    for (int i = 0; i < 2; i++) {
        SUP_CHECK(pthread_join(threads[i], NULL) == 0, "pthread_join");
    }
    SUP_CHECK(ts_table_high(&table) == 2, "one record is enough");
}

#define IN_CHILD(name)                                                          \
    static void test_##name(void **state) {                                     \
        char err[1024];                                                         \
        (void)state;                                                            \
        int status = sup_child(name, NULL, SUP_CHILD_SECONDS, err, sizeof err); \
        if (status != 0) {                                                      \
            print_error("status %#x\n%s", (unsigned)status, err);               \
        }                                                                       \
        assert_int_equal(status, 0);                                            \
    }
IN_CHILD(every_record)
IN_CHILD(stale_and_forged)
IN_CHILD(eras_run_out)
IN_CHILD(all_eras_of_all_entries)
IN_CHILD(refused_growth)
IN_CHILD(readers)

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_every_record),   cmocka_unit_test(test_stale_and_forged),
        cmocka_unit_test(test_eras_run_out),   cmocka_unit_test(test_all_eras_of_all_entries),
        cmocka_unit_test(test_refused_growth), cmocka_unit_test(test_readers),
    };
    return cmocka_run_group_tests_name("region.table", tests, NULL, NULL);
}
