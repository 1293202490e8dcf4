/*
 * The device refuses any call, in any way: each call of a scenario in turn. A call that fails changes nothing: the
 * epoch is where it was, with every byte, as long as its zones can be read; and the next calls go on, in any state of
 * the zones.
 */
#define _GNU_SOURCE
#include "support.h"

#define DEVICE "zones=24&zone_size=256K&zone_capacity=192K&max_open=3&max_active=4"
#define EPOCHS 4

static struct {
    unsigned at, calls;
    ts_emulated_fault kind;
    bool hit, offline;
} now;

static ts_emulated_fault at_one(void *arg, ts_emulated_call call, uint32_t zone) {
    (void)arg, (void)zone;
    if (now.calls++ != now.at) return TS_FAULT_NONE;
    now.hit = true;
    now.offline = now.kind == TS_FAULT_OFFLINE;
    return now.kind == TS_FAULT_TORN && call != TS_EMULATED_APPEND ? TS_FAULT_REFUSED : now.kind;
}

/* In memory, or to be read: but for data in a zone that is offline. */
static void is_whole(zt_epoch *e) {
    if (!e->id) return;
    int state = epoch_state(e->allocator, e->id);
    SUP_CHECK(state == EPOCH_CLOSING || state == EPOCH_SPILLED, "call %u, fault %d: state %d", now.at, now.kind, state);
    if (state == EPOCH_CLOSING) {
        SUP_CHECK(zt_is_right(e), "call %u, fault %d: in memory", now.at, now.kind);
        return;
    }
    SUP_CHECK(zt_faults(e->object[e->count - 1].at), "call %u, fault %d: it is spilled and can be read", now.at,
              now.kind);
    SUP_CHECK(now.offline || zt_reads_right(e, 5), "call %u, fault %d: in zones: %s", now.at, now.kind,
              strerror(errno));
}

static void expect(bool done) {
    int error = errno;
    SUP_CHECK(done || (now.hit && (error == EIO || error == ENOSPC)), "call %u, fault %d: %s", now.at, now.kind,
              strerror(error));
}

/* false: the fault came never, the scenario has fewer calls. */
static bool scenario(unsigned at, ts_emulated_fault kind) {
    (void)unlink(zt_path());
    SlabAllocator *a = slab_allocator_create();
    zt_epoch e[EPOCHS] = {zt_fill(a, EPOCH_CHURN, 20, 4000, 1), zt_fill(a, EPOCH_SCOPE, 100, 2000, 2),
                          zt_fill(a, EPOCH_CHURN, 3, 100000, 3), zt_fill(a, EPOCH_CHURN, 80, 0, 4)};
    SlabZones *zones = zt_open(DEVICE);
    now.at = at;
    now.calls = 0;
    now.kind = kind;
    now.hit = now.offline = false;
    ts_emulated_hooks_now.fault = at_one;
    for (int round = 0; round < 2; round++) {
        for (int i = 0; i < EPOCHS; i++) {
            if (e[i].id && epoch_state(a, e[i].id) == EPOCH_CLOSING) expect(epoch_spill(a, e[i].id, zones));
        }
        unsigned counted = now.calls; /* looks are not counted */
        ts_emulated_hooks_now.fault = NULL;
        for (int i = 0; i < EPOCHS; i++) is_whole(&e[i]);
        ts_emulated_hooks_now.fault = at_one;
        now.calls = counted;
        (void)zt_object_reads_right(&e[2], &e[2].object[1]);
        if (round == 0) SUP_CHECK(epoch_destroy(a, e[0].id), "a destroy asks no device");
        if (round == 0) zt_forget(&e[0]);
        for (int i = 0; i < EPOCHS; i += 2) {
            if (e[i].id && epoch_state(a, e[i].id) == EPOCH_SPILLED) expect(epoch_load(a, e[i].id));
            if (e[i].id) is_whole(&e[i]);
        }
    }
    ts_emulated_hooks_now.fault = NULL;
    for (int i = 0; i < EPOCHS; i++) {
        is_whole(&e[i]);
        if (e[i].id) SUP_CHECK(epoch_destroy(a, e[i].id), "it is not destroyed");
        zt_forget(&e[i]);
    }
    SlabZonesStats s = zt_stats(zones);
    zt_check();
    SUP_CHECK(s.spilled_epochs == 0 && s.empty_zones + s.failed_zones == s.zones && s.failed_zones <= 1,
              "%u empty, %u failed", s.empty_zones, s.failed_zones);
    SUP_CHECK(!now.hit || s.errors_total >= 1 || kind == TS_FAULT_NONE, "an error is not counted");
    /* The rest of the device works. */
    zt_epoch more = zt_fill(a, EPOCH_CHURN, 100, 4000, 9);
    SUP_CHECK(epoch_spill(a, more.id, zones) && epoch_load(a, more.id) && zt_is_right(&more), "afterwards: %s",
              strerror(errno));
    zt_forget(&more);
    slab_allocator_free(a);
    SUP_CHECK(slab_zones_close(zones), "%s", strerror(errno));
    return now.hit;
}

int main(void) {
    unsigned calls = 0;
    zt_in_memory();
    for (int kind = TS_FAULT_REFUSED; kind <= TS_FAULT_OFFLINE; kind++) {
        unsigned at = 0;
        while (scenario(at, (ts_emulated_fault)kind)) at += SUP_SANITIZED ? 5 : 1;
        calls += at;
        SUP_CHECK(at > 30, "only %u calls", at);
    }
    printf("faults_test: %u faults\n", calls);
    return 0;
}
