/*
 * Any order of spill, load, free, read and destroy of several epochs, on a small device, beside a plain model: which
 * objects live, which epochs are away. Half of the runs with a device that fails now and then. --programs N, --ops N,
 * --seed N.
 */
#define _GNU_SOURCE
#include "rng.h"
#include "support.h"

#define EPOCHS 7
#define DEVICE "zones=14&zone_size=256K&zone_capacity=192K&max_open=3&max_active=4"
#define CAPACITY (192u << 10)

typedef struct model {
    struct sup_rng rng;
    SlabAllocator *allocator;
    SlabZones *zones;
    zt_epoch epoch[EPOCHS];
    bool away[EPOCHS];
    bool fails;   /* the device may */
    bool damaged; /* a zone went offline: its data may be lost */
    uint64_t spills, loads, full, failed;
} model;

static ts_emulated_fault sometimes(void *arg, ts_emulated_call call, uint32_t zone) {
    model *m = arg;
    (void)call, (void)zone;
    if (sup_rng_below(&m->rng, 40) != 0) return TS_FAULT_NONE;
    uint64_t kind = sup_rng_below(&m->rng, 60);
    if (kind == 0 && call == TS_EMULATED_APPEND) return TS_FAULT_READ_ONLY;
    if (kind == 1) m->damaged = true;
    return kind == 1                                 ? TS_FAULT_OFFLINE
           : kind < 20                               ? TS_FAULT_REFUSED
           : kind < 40 && call == TS_EMULATED_APPEND ? TS_FAULT_TORN
                                                     : TS_FAULT_LATE;
}

static void fill(model *m, int i) {
    static const size_t sizes[] = {0, 16, 64, 200, 4000, 9000, 60000};
    size_t bytes = sizes[sup_rng_below(&m->rng, 7)], most = bytes == 0 ? 150 : bytes < 300 ? 2000 : 1200000 / bytes;
    unsigned flags = sup_rng_below(&m->rng, 2) ? EPOCH_CHURN : EPOCH_SCOPE;
    m->epoch[i] =
        zt_fill(m->allocator, flags, 1 + sup_rng_below(&m->rng, most), bytes, (uint32_t)sup_rng_next(&m->rng));
    m->away[i] = false;
}

static void ended(model *m, int i) {
    SUP_CHECK(epoch_state(m->allocator, m->epoch[i].id) == EPOCH_CLOSED, "epoch %d is not closed", i);
    for (size_t k = 0; k < m->epoch[i].count; k += 11)
        SUP_CHECK(!slab_handle_get(m->allocator, m->epoch[i].object[k].handle), "epoch %d, object %zu lives on", i, k);
    zt_forget(&m->epoch[i]);
    m->away[i] = false;
}

static void try_spill(model *m, int i) {
    SlabZonesStats before = zt_stats(m->zones);
    SlabEpochStats e;
    SUP_CHECK(slab_stats_epoch(m->allocator, SLAB_ALL_CLASSES, m->epoch[i].id, &e), "no statistics");
    errno = 0;
    bool spilled = epoch_spill(m->allocator, m->epoch[i].id, m->zones);
    int error = errno;
    if (m->away[i]) {
        SUP_CHECK(!spilled && error == EBUSY, "spilled twice: %d", error);
        return;
    }
    if (spilled) {
        m->away[i] = true;
        m->spills++;
        return;
    }
    m->full += error == ENOSPC;
    m->failed += error == EIO;
    SUP_CHECK(error == ENOSPC || (m->fails && error == EIO), "spill: %s", strerror(error));
    /* A device reports full only if it is: its empty zones would not have held the epoch's slabs and spans. */
    if (error == ENOSPC && !m->fails) {
        uint64_t bytes = m->epoch[i].count * (uint64_t)80000 + (1 << 20); /* surely as much */
        SUP_CHECK((uint64_t)before.empty_zones * CAPACITY < bytes, "full with %u zones empty", before.empty_zones);
    }
}

static void try_load(model *m, int i) {
    errno = 0;
    bool loaded = epoch_load(m->allocator, m->epoch[i].id);
    int error = errno;
    if (!m->away[i]) {
        SUP_CHECK(!loaded && error == EINVAL, "loaded, and it was there: %d", error);
        return;
    }
    SUP_CHECK(loaded || (m->fails && error == EIO), "load: %s", strerror(error));
    if (!loaded) {
        m->failed++;
        return;
    }
    m->away[i] = false;
    m->loads++;
    SUP_CHECK(zt_is_right(&m->epoch[i]), "epoch %d came back wrong", i);
}

static void free_some(model *m, int i) {
    zt_epoch *e = &m->epoch[i];
    uint64_t share = sup_rng_below(&m->rng, 10); /* all of them, one time in ten */
    for (size_t k = 0; k < e->count; k++)
        if (e->object[k].at && (share == 0 || sup_rng_below(&m->rng, 12) < share))
            zt_free(e, k, sup_rng_below(&m->rng, 2));
    if (e->live == 0) ended(m, i);
}

static void read_some(model *m, int i) {
    const zt_epoch *e = &m->epoch[i];
    for (int n = 0; n < 5; n++) {
        const zt_object *o = &e->object[sup_rng_below(&m->rng, e->count)];
        char byte;
        errno = 0;
        if (o->at && m->away[i])
            SUP_CHECK(zt_object_reads_right(e, o) || (m->fails && errno == EIO),
                      "epoch %d: an object is read wrong: %d", i, errno);
        else
            SUP_CHECK(slab_zones_read(m->allocator, o->handle, &byte, 1) == -1 && errno == (o->at ? EINVAL : ESTALE),
                      "errno %d", errno);
    }
}

static void look(model *m, int i) {
    const zt_epoch *e = &m->epoch[i];
    SlabEpochStats s;
    SUP_CHECK(epoch_state(m->allocator, e->id) == (m->away[i] ? EPOCH_SPILLED : EPOCH_CLOSING), "epoch %d: state", i);
    SUP_CHECK(slab_stats_epoch(m->allocator, SLAB_ALL_CLASSES, e->id, &s) && s.live_objects == e->live,
              "epoch %d: %llu live, %zu", i, (unsigned long long)s.live_objects, e->live);
    if (!m->away[i]) SUP_CHECK(zt_is_right(e), "epoch %d is wrong in memory", i);
}

static void one(model *m) {
    int i = (int)sup_rng_below(&m->rng, EPOCHS);
    if (!m->epoch[i].id) {
        fill(m, i);
        return;
    }
    switch (sup_rng_below(&m->rng, 16)) {
    case 0:
    case 1:
    case 2:
    case 3:
    case 4: try_spill(m, i); break;
    case 5:
    case 6:
    case 7:
    case 8: try_load(m, i); break;
    case 9:
    case 10: free_some(m, i); break;
    case 11:
    case 12: read_some(m, i); break;
    case 13:
        SUP_CHECK(epoch_destroy(m->allocator, m->epoch[i].id), "it is not destroyed");
        ended(m, i);
        break;
    case 14:
        (void)slab_trim(m->allocator);
        (void)slab_maintain(m->allocator, 0);
        break;
    default:
        ts_emulated_hooks_now.fault = NULL;
        (void)zt_stats(m->zones); /* ended epochs are buried: a quiet point */
        ts_emulated_hooks_now.fault = m->fails ? sometimes : NULL;
        zt_check();
    }
    if (m->epoch[i].id) look(m, i);
}

static void program(uint64_t number, const struct sup_args *args, model *sums) {
    model m = {.rng = {sup_mix(args->seed) ^ sup_mix(number + 1)}, .fails = number % 2 != 0};
    sup_set_seed(args->seed);
    (void)unlink(zt_path());
    m.allocator = slab_allocator_create();
    m.zones = zt_open(DEVICE);
    ts_emulated_hooks_now = (ts_emulated_hooks){.fault = m.fails ? sometimes : NULL, .arg = &m};
    for (uint64_t n = 0; n < args->ops; n++) one(&m);
    ts_emulated_hooks_now.fault = NULL;
    for (int i = 0; i < EPOCHS; i++) {
        if (!m.epoch[i].id) continue;
        look(&m, i);
        if (m.away[i] && !m.damaged) SUP_CHECK(zt_reads_right(&m.epoch[i], 1), "epoch %d at the end", i);
        if (m.away[i] && !m.damaged) try_load(&m, i);
        if (i % 2) SUP_CHECK(epoch_destroy(m.allocator, m.epoch[i].id), "it is not destroyed");
        zt_forget(&m.epoch[i]);
    }
    slab_allocator_free(m.allocator);
    SlabZonesStats s = zt_stats(m.zones);
    zt_check();
    SUP_CHECK(s.spilled_epochs == 0 && s.empty_zones + s.failed_zones == s.zones, "%u empty, %u failed", s.empty_zones,
              s.failed_zones);
    SUP_CHECK(m.fails || (s.failed_zones == 0 && s.errors_total == 0), "%u failed", s.failed_zones);
    SUP_CHECK(slab_zones_close(m.zones), "%s", strerror(errno));
    sums->spills += m.spills;
    sums->loads += m.loads;
    sums->full += m.full;
    sums->failed += m.failed;
}

int main(int argc, char **argv) {
    struct sup_args args = {.seed = 1, .programs = SUP_SCALED(48), .ops = 150};
    model sums = {0};
    zt_in_memory();
    sup_args_parse(argc, argv, &args);
    for (uint64_t i = 0; i < args.programs; i++) program(i, &args, &sums);
    printf("property_test: %llu spills, %llu loads, %llu times full, %llu failures\n", (unsigned long long)sums.spills,
           (unsigned long long)sums.loads, (unsigned long long)sums.full, (unsigned long long)sums.failed);
    SUP_CHECK(sums.spills > 20 && sums.loads > 20 && sums.failed > 0 && (sums.full > 0 || SUP_SANITIZED),
              "too little was done");
    return 0;
}
