/* The statistics of the library on zones and on epochs in them. */
#define _GNU_SOURCE
#include "support.h"

#include "advice/advice.h"
#include "observe/observe.h"

#include <sys/wait.h>

#define DEVICE "zones=24&zone_size=256K&zone_capacity=192K&max_open=3&max_active=4"

static char text[1 << 18];

static bool says(const char *what) { return strstr(text, what) != NULL; }

static ts_view *view_of(SlabAllocator *a) {
    uintptr_t token = (uintptr_t)a;
    ts_view *v = ts_advised_view(ts_allocator_find(token), token);
    SUP_CHECK(v, "no view");
    return v;
}

static const ts_label_stats *label_of(const ts_view *v) {
    for (unsigned i = 0; i < v->label_rows; i++)
        if (strcmp(v->label[i].label, "zones") == 0) return &v->label[i];
    return NULL;
}

/* The row agrees with slab_zones_stats, which asks the device. */
static void compare(SlabAllocator *a, SlabZones *zones) {
    SlabZonesStats s = zt_stats(zones);
    ts_view *v = view_of(a);
    SUP_CHECK(v->zones_rows == 1, "%u rows", (unsigned)v->zones_rows);
    const ts_zones_stats *z = &v->zones[0];
#define SAME(field) \
    SUP_CHECK(z->field == s.field, #field ": %llu and %llu", (unsigned long long)z->field, (unsigned long long)s.field)
    SAME(zones);
    SAME(empty_zones);
    SAME(active_zones);
    SAME(full_zones);
    SAME(failed_zones);
    SAME(shared_zones);
    SAME(spilled_epochs);
    SAME(spilled_bytes);
    SAME(kept_bytes);
    SAME(appended_bytes);
    SAME(payload_bytes);
    SAME(padding_bytes);
    SAME(reset_zones_total);
    SAME(reset_filled_bytes_total);
    SAME(reclaimed_zones);
    SAME(spills_total);
    SAME(loads_total);
    SAME(reads_total);
    SAME(errors_total);
    SAME(zone_bytes);
    SAME(capacity_bytes);
    SUP_CHECK(z->empty_zones + z->active_zones + z->full_zones + z->failed_zones == z->zones, "zones are missing");
    SUP_CHECK(strcmp(z->device + strlen(z->device) - 5, zt_path() + strlen(zt_path()) - 5) == 0, "%s", z->device);
    ts_view_free(v);
}

static void an_epoch_that_is_away(SlabAllocator *a, SlabZones *zones) {
    zt_epoch e = zt_fill(a, EPOCH_CHURN, 400, 700, 1), f = zt_fill(a, EPOCH_SCOPE, 100, 100, 2);
    SUP_CHECK(epoch_spill(a, e.id, zones) && epoch_spill(a, f.id, zones), "%s", strerror(errno));
    compare(a, zones);
    SlabEpochStats row;
    SUP_CHECK(slab_stats_epoch(a, SLAB_ALL_CLASSES, e.id, &row), "no row");
    SUP_CHECK(row.state == EPOCH_SPILLED && row.live_objects == 400 && row.estimated_rss_bytes == 0 &&
                  row.slab_count > 0,
              "state %d, %llu live, %llu bytes", row.state, (unsigned long long)row.live_objects,
              (unsigned long long)row.estimated_rss_bytes);
    ts_view *v = view_of(a);
    const ts_label_stats *l = label_of(v);
    SUP_CHECK(l && l->spilled_epochs == 2 && l->closing_epochs == 0 && l->spilled_live_objects == 500 &&
                  l->closing_live_objects == 0 && l->closing_rss_bytes == 0 && l->closing_for_ns == 0,
              "the label's row");
    SUP_CHECK(l->spilled_bytes == v->zones[0].spilled_bytes, "%llu bytes", (unsigned long long)l->spilled_bytes);
    ts_view_free(v);
    SUP_CHECK(slab_stats_json(a, text, sizeof text) < sizeof text && says("\"state\":\"spilled\""), "JSON");
    SUP_CHECK(slab_stats_prometheus(a, text, sizeof text) < sizeof text &&
                  says("temporal_slab_epochs{label=\"zones\",state=\"spilled\"} 2\n") &&
                  says("temporal_slab_epoch_live_objects{label=\"zones\",state=\"spilled\"} 500\n") &&
                  !says("{label=\"zones\",state=\"closing\"") && says("\ntemporal_slab_zones_spilled_epochs{device="),
              "Prometheus");
    SUP_CHECK(epoch_load(a, e.id), "%s", strerror(errno));
    v = view_of(a);
    l = label_of(v);
    SUP_CHECK(l && l->spilled_epochs == 1 && l->closing_epochs == 1 && l->closing_live_objects == 400,
              "after the load");
    ts_view_free(v);
    SUP_CHECK(epoch_destroy(a, f.id) && epoch_destroy(a, e.id), "no destroy");
    compare(a, zones);
    zt_forget(&e);
    zt_forget(&f);
}

/* More lives than zones can be active: zones are finished early, and shared ones are counted. */
static void many(SlabAllocator *a, SlabZones *zones) {
    zt_epoch e[12];
    for (uint32_t i = 0; i < 12; i++) {
        e[i] = zt_fill(a, EPOCH_CHURN, i % 3 == 0 ? 40 : 6, 8000, i);
        SUP_CHECK(epoch_spill(a, e[i].id, zones), "%s", strerror(errno));
        compare(a, zones);
    }
    for (uint32_t i = 0; i < 12; i++) {
        SUP_CHECK(epoch_destroy(a, e[i].id), "no destroy");
        compare(a, zones);
        zt_forget(&e[i]);
    }
    ts_view *v = view_of(a);
    const ts_zones_stats *z = &v->zones[0];
    SUP_CHECK(z->empty_zones == 24 && z->waiting_zones == 0 && z->padding_bytes > 0, "%u are empty",
              (unsigned)z->empty_zones);
    SUP_CHECK(z->write_amplification >= 1000 && z->fill_at_reset > 0 && z->fill_at_reset <= 1000, "%u, %u",
              (unsigned)z->write_amplification, (unsigned)z->fill_at_reset);
    ts_view_free(v);
}

static bool fails;
static ts_emulated_fault sometimes(void *arg, ts_emulated_call call, uint32_t zone) {
    static unsigned turn;
    (void)arg;
    if (!fails || call != TS_EMULATED_APPEND || ++turn % 3 != 0) return TS_FAULT_NONE;
    return zone % 2 ? TS_FAULT_READ_ONLY : TS_FAULT_TORN;
}

static void a_device_that_fails(SlabAllocator *a, SlabZones *zones) {
    ts_emulated_hooks_now.fault = sometimes;
    for (uint32_t i = 0; i < 12; i++) {
        zt_epoch e = zt_fill(a, EPOCH_CHURN, 40, 8000, i);
        fails = true;
        bool spilled = epoch_spill(a, e.id, zones);
        fails = false;
        compare(a, zones);
        SUP_CHECK(spilled || errno == EIO || errno == ENOSPC, "%s", strerror(errno));
        SUP_CHECK(epoch_destroy(a, e.id), "no destroy");
        zt_forget(&e);
    }
    ts_emulated_hooks_now.fault = NULL;
    compare(a, zones);
    SlabZonesStats s = zt_stats(zones);
    SUP_CHECK(s.failed_zones > 0 && s.errors_total > 0, "nothing failed");
}

static void a_child_has_none(SlabAllocator *a) {
    pid_t child = fork();
    if (child == 0) {
        ts_view *v = view_of(a);
        _exit(v->zones_rows == 0 ? 0 : 1);
    }
    int status;
    SUP_CHECK(waitpid(child, &status, 0) == child && WIFEXITED(status) && WEXITSTATUS(status) == 0,
              "the child shows its parent's zones");
}

int main(void) {
    SlabAllocator *a = slab_allocator_create();
    SlabZones *zones = zt_open(DEVICE);
    compare(a, zones);
    an_epoch_that_is_away(a, zones);
    many(a, zones);
    a_child_has_none(a);
    a_device_that_fails(a, zones);
    SUP_CHECK(slab_zones_close(zones), "%s", strerror(errno));
    ts_view *v = view_of(a);
    SUP_CHECK(v->zones_rows == 0, "zones that are closed are shown");
    ts_view_free(v);
    slab_allocator_free(a);
    return 0;
}
