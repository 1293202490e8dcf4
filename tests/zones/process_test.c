/* Other processes: one that is killed in the middle of an append, a second one that opens, a child of fork. */
#define _GNU_SOURCE
#include "support.h"

#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <sys/wait.h>

#define DEVICE "zones=16&zone_size=256K&zone_capacity=192K&max_open=3&max_active=4"

static int end_of(pid_t child) {
    int status;
    SUP_CHECK(waitpid(child, &status, 0) == child, "no child");
    return status;
}
static void ends_well(pid_t child) {
    int status = end_of(child);
    SUP_CHECK(WIFEXITED(status) && WEXITSTATUS(status) == 0, "the child ends with %#x", (unsigned)status);
}

/* ---- killed ----------------------------------------------------------------------------------------------------- */

static _Atomic unsigned steps;
static unsigned kill_at;
static void kill_self(void *arg, ts_emulated_step step, uint32_t zone) {
    (void)arg, (void)step, (void)zone;
    if (steps++ == kill_at) (void)kill(getpid(), SIGKILL);
}

/* In a child: spills until it is killed. */
static void work(void) {
    SlabAllocator *a = slab_allocator_create();
    SlabZones *zones = zt_open(DEVICE);
    ts_emulated_hooks_now.step = kill_self;
    for (uint32_t i = 0; i < 6; i++) {
        zt_epoch e = zt_fill(a, i % 2 ? EPOCH_SCOPE : EPOCH_CHURN, i == 3 ? 100 : 20, 4000, i);
        SUP_CHECK(epoch_spill(a, e.id, zones), "%s", strerror(errno));
        if (i % 3 == 1) SUP_CHECK(epoch_destroy(a, e.id), "no destroy");
        zt_forget(&e);
    }
    _exit(0);
}

static void killed(void) {
    for (kill_at = 0;; kill_at += SUP_SANITIZED ? 3 : 1) {
        (void)unlink(zt_path());
        pid_t child = fork();
        if (child == 0) work();
        int status = end_of(child);
        if (WIFEXITED(status) && WEXITSTATUS(status) == 0) break;
        SUP_CHECK(WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL, "the child ends with %#x", (unsigned)status);
        /* The zones that it left are found, emptied, and used. */
        SlabAllocator *a = slab_allocator_create();
        SlabZones *zones = zt_open(DEVICE);
        SlabZonesStats s = zt_stats(zones);
        SUP_CHECK(s.empty_zones == 16 && s.appended_bytes == 0 && s.spilled_epochs == 0,
                  "after step %u: %u zones are empty", kill_at, s.empty_zones);
        SUP_CHECK(kill_at < 4 || s.reclaimed_zones > 0, "after step %u nothing was reclaimed", kill_at);
        zt_epoch e = zt_fill(a, EPOCH_CHURN, 300, 4000, 7);
        SUP_CHECK(epoch_spill(a, e.id, zones) && zt_reads_right(&e, 9) && epoch_load(a, e.id) && zt_is_right(&e),
                  "after step %u", kill_at);
        zt_forget(&e);
        slab_allocator_free(a);
        SUP_CHECK(slab_zones_close(zones), "%s", strerror(errno));
    }
    SUP_CHECK(kill_at > 30, "it was killed at %u steps only", kill_at);
    printf("process_test: killed at %u steps\n", kill_at);
    (void)fflush(stdout); /* children have a copy of the waiting output */
}

/* ---- a second opening ------------------------------------------------------------------------------------------- */

static void opened_twice(void) {
    (void)unlink(zt_path());
    SlabZones *zones = zt_open(DEVICE);
    pid_t child = fork();
    if (child == 0) {
        ZT_ERRNO(slab_zones_open(zt_where(DEVICE), NULL), EBUSY);
        _exit(0);
    }
    ends_well(child);
    /* A child that lives on does not keep the lock. */
    int go[2], gone[2];
    SUP_CHECK(pipe(go) == 0 && pipe(gone) == 0, "no pipe");
    child = fork();
    if (child == 0) {
        char byte = 0;
        SUP_CHECK(write(gone[1], &byte, 1) == 1 && read(go[0], &byte, 1) == 1, "no pipe");
        _exit(0);
    }
    char byte = 0;
    SUP_CHECK(read(gone[0], &byte, 1) == 1, "no pipe");
    SUP_CHECK(slab_zones_close(zones), "%s", strerror(errno));
    zones = zt_open(DEVICE);
    SUP_CHECK(slab_zones_close(zones), "%s", strerror(errno));
    SUP_CHECK(write(go[1], &byte, 1) == 1, "no pipe");
    ends_well(child);
}

/* ---- fork ------------------------------------------------------------------------------------------------------- */

/* The calls that work in the child of a process with spilled epochs, and those that do not. */
static void in_child(SlabAllocator *a, zt_epoch *e, zt_epoch *d, zt_epoch *near, SlabZones *zones) {
    char byte;
    SUP_CHECK(epoch_state(a, e->id) == EPOCH_SPILLED, "it is not spilled");
    SUP_CHECK(zt_faults(e->object[0].at) && zt_is_right(near), "memory of the child");
    ZT_ERRNO(epoch_load(a, e->id), EPERM);
    ZT_ERRNO(epoch_spill(a, near->id, zones), EPERM);
    ZT_ERRNO(slab_zones_close(zones), EPERM);
    ZT_ERRNO(slab_zones_stats(zones, &(SlabZonesStats){0}), EPERM);
    ZT_ERRNO(slab_zones_read(a, e->object[0].handle, &byte, 1) != -1, EPERM);
    for (size_t i = 0; i < d->count; i++) zt_free(d, i, i % 2 == 0);
    SUP_CHECK(epoch_state(a, d->id) == EPOCH_CLOSED, "its last object is freed");
    for (size_t i = 0; i < e->count; i += 3) zt_free(e, i, i % 2 == 0);
    SUP_CHECK(epoch_destroy(a, e->id) && !epoch_destroy(a, e->id), "it is not destroyed");
    SUP_CHECK(epoch_state(a, e->id) == EPOCH_CLOSED, "it is not closed");
    zt_epoch more = zt_fill(a, EPOCH_CHURN, 500, 0, 31);
    SUP_CHECK(zt_is_right(&more) && epoch_destroy(a, more.id), "new objects");
    (void)slab_trim(a);
    zt_epoch again = zt_fill(a, EPOCH_SCOPE, 500, 0, 32);
    SUP_CHECK(zt_is_right(&again), "new objects");
    slab_allocator_free(a);
    /* Zones of its own. */
    char where[600];
    (void)snprintf(where, sizeof where, "emulated:%s-child?zones=8&zone_size=256K", zt_path());
    SlabZones *mine = slab_zones_open(where, NULL);
    SlabAllocator *b = slab_allocator_create();
    zt_epoch own = zt_fill(b, EPOCH_CHURN, 50, 0, 33);
    SUP_CHECK(mine && epoch_spill(b, own.id, mine) && epoch_load(b, own.id) && zt_is_right(&own), "%s",
              strerror(errno));
    SUP_CHECK(slab_zones_close(mine), "%s", strerror(errno));
    (void)snprintf(where, sizeof where, "%s-child", zt_path());
    (void)unlink(where);
    _exit(0);
}

static void forked(void) {
    (void)unlink(zt_path());
    SlabAllocator *a = slab_allocator_create();
    SlabZones *zones = zt_open("zones=40&zone_size=256K&zone_capacity=192K&max_open=3&max_active=4");
    zt_epoch e = zt_fill(a, EPOCH_CHURN, 200, 0, 1), d = zt_fill(a, EPOCH_SCOPE, 100, 600, 2),
             near = zt_fill(a, EPOCH_CHURN, 50, 0, 3);
    SUP_CHECK(epoch_spill(a, e.id, zones) && epoch_spill(a, d.id, zones), "%s", strerror(errno));
    for (size_t i = 0; i < e.count; i += 20) zt_free(&e, i, true);
    zt_epoch e_child = {.allocator = a, .id = e.id}, d_child = d;
    e_child.object = calloc(e.count, sizeof *e.object);
    for (size_t i = 0; i < e.count; i++) /* those that live */
        if (e.object[i].at) e_child.object[e_child.count++] = e.object[i];
    SlabZonesStats before = zt_stats(zones);
    pid_t child = fork();
    if (child == 0) in_child(a, &e_child, &d_child, &near, zones);
    ends_well(child);
    SlabZonesStats after = zt_stats(zones);
    SUP_CHECK(after.appended_bytes == before.appended_bytes && after.reset_zones_total == before.reset_zones_total &&
                  after.empty_zones == before.empty_zones,
              "the child has written to the parent's zones");
    zt_check();
    SUP_CHECK(zt_reads_right(&e, 1) && epoch_load(a, e.id) && zt_is_right(&e), "the parent's first epoch");
    SUP_CHECK(epoch_load(a, d.id) && zt_is_right(&d), "the parent's second epoch");
    free(e_child.object);
    zt_forget(&e);
    zt_forget(&d);
    zt_forget(&near);
    slab_allocator_free(a);
    SUP_CHECK(slab_zones_close(zones), "%s", strerror(errno));
}

/* Fork while another thread spills and loads: the child has the epoch in one state or on its way, and can end it. */
static struct {
    SlabAllocator *allocator;
    EpochId id;
    SlabZones *zones;
    _Atomic bool stop;
} busy;

static void *spill_and_load(void *arg) {
    (void)arg;
    while (!atomic_load(&busy.stop)) {
        if (epoch_spill(busy.allocator, busy.id, busy.zones))
            SUP_CHECK(epoch_load(busy.allocator, busy.id), "%s", strerror(errno));
    }
    return NULL;
}

static void forked_while_spilling(void) {
    (void)unlink(zt_path());
    busy.allocator = slab_allocator_create();
    busy.zones = zt_open(DEVICE);
    zt_epoch e = zt_fill(busy.allocator, EPOCH_CHURN, 200, 3000, 1);
    busy.id = e.id;
    pthread_t thread;
    SUP_CHECK(pthread_create(&thread, NULL, spill_and_load, NULL) == 0, "no thread");
    for (int i = 0; i < SUP_SCALED(160); i++) {
        pid_t child = fork();
        if (child == 0) {
            errno = 0;
            SUP_CHECK(!epoch_load(e.allocator, e.id) && (errno == EPERM || errno == EINVAL), "load in the child: %d",
                      errno);
            for (size_t k = 0; k < e.count; k += 2)
                SUP_CHECK(free_obj(e.allocator, e.object[k].handle), "object %zu", k);
            SUP_CHECK(epoch_destroy(e.allocator, e.id), "it is not destroyed");
            zt_epoch more = zt_fill(e.allocator, EPOCH_CHURN, 300, 0, 5);
            SUP_CHECK(zt_is_right(&more), "new objects");
            _exit(0);
        }
        ends_well(child);
    }
    atomic_store(&busy.stop, true);
    SUP_CHECK(pthread_join(thread, NULL) == 0, "no thread");
    SUP_CHECK(epoch_state(e.allocator, e.id) == EPOCH_CLOSING && zt_is_right(&e), "the parent's epoch");
    zt_check();
    zt_forget(&e);
    slab_allocator_free(busy.allocator);
    SUP_CHECK(slab_zones_close(busy.zones), "%s", strerror(errno));
}

int main(void) {
    killed();
    opened_twice();
    forked();
    forked_while_spilling();
    return 0;
}
