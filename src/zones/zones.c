#define _GNU_SOURCE
#include "zones/zones.h"
#include "base/base.h"

#include "api/api.h"
#include "observe/observe.h"
#include "zones/emulated.h"
#include "zones/say.h"
#include "zones/zoned.h"

#include <tslab_build.h>

#include <errno.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define BUCKETS 1024u
#define RESETS_OF_A_CALL 64u

static pthread_mutex_t registry = PTHREAD_MUTEX_INITIALIZER;
static SlabZones *all;
static ts_record *bucket[BUCKETS];

/* ---- fork ------------------------------------------------------------------------------------------------------- */

static pid_t forking; /* guarded by the registry's lock */
static void fork_prepare(void) {
    (void)pthread_mutex_lock(&registry);
    forking = getpid();
}
static void fork_parent(void) { (void)pthread_mutex_unlock(&registry); }
static void fork_child(void) {
    (void)pthread_mutex_unlock(&registry); /* by the thread that locked it */
    for (SlabZones *z = all; z; z = z->next)
        if (z->process == forking) {
            z->device->call->forked(z->device);
            ts_zones_row_give(z->row);
        }
}

static pthread_once_t fork_once = PTHREAD_ONCE_INIT;
static int fork_error;
static void register_fork(void) { fork_error = pthread_atfork(fork_prepare, fork_parent, fork_child); }

/* ---- records ---------------------------------------------------------------------------------------------------- */

static ts_record **bucket_of(EpochId epoch) { return &bucket[(epoch * UINT64_C(0x9e3779b97f4a7c15)) >> 54]; }
_Static_assert(BUCKETS == 1u << (64 - 54), "a bucket is the upper bits of a product");

void ts_record_drop(ts_record *record) {
    if (!record) return;
    free(record->spill.extent);
    free(record->first);
    free(record->place);
    free(record->uses);
    free(record);
}

ts_record *ts_record_make(SlabZones *zones, size_t extents) {
    ts_record *r = calloc(1, sizeof *r);
    if (!r) return NULL;
    r->zones = zones;
    r->spill.room = extents;
    r->spill.extent = calloc(extents, sizeof *r->spill.extent);
    r->uses = calloc(zones->device->zones / 8 + 1, 1);
    if (r->spill.extent && r->uses) return r;
    ts_record_drop(r);
    return NULL;
}

void ts_record_add(ts_record *record) {
    SlabZones *zones = record->zones;
    record->next = zones->records;
    zones->records = record;
    zones->spilled_epochs++;
    zones->spilled_bytes += record->spill.units * TS_SLAB_UNIT;
    zones->kept_bytes += record->spill.kept_bytes;
    (void)pthread_mutex_lock(&registry);
    ts_record **b = bucket_of(record->epoch);
    record->hash_next = *b;
    *b = record;
    (void)pthread_mutex_unlock(&registry);
}

static void leave_zones(ts_record *record) {
    if (record->left) return;
    for (uint32_t zone = 0; zone < record->zones->device->zones; zone++)
        if (ts_record_uses(record, zone)) ts_places_leave(&record->zones->places, zone);
    record->left = true;
    record->zones->spilled_epochs--;
    record->zones->spilled_bytes -= record->spill.units * TS_SLAB_UNIT;
    record->zones->kept_bytes -= record->spill.kept_bytes;
}

void ts_record_end(ts_record *record) {
    leave_zones(record);
    ts_record **at = &record->zones->records;
    while (*at != record) at = &(*at)->next;
    *at = record->next;
    (void)pthread_mutex_lock(&registry);
    at = bucket_of(record->epoch);
    while (*at != record) at = &(*at)->hash_next;
    *at = record->hash_next;
    (void)pthread_mutex_unlock(&registry);
    ts_record_drop(record);
}

/* Epochs that have ended since give their zones up, and their addresses back. Then zones that nobody is in are reset.
   */
static void settle(SlabZones *zones) {
    int error = errno;
    ts_record *next;
    for (ts_record *r = zones->records; r; r = next) {
        next = r->next;
        if (!r->left && !ts_spill_is_over(&r->spill)) continue;
        leave_zones(r);
        if (ts_spill_bury(&r->spill)) ts_record_end(r);
    }
    ts_places_reset(&zones->places, RESETS_OF_A_CALL);
    errno = error;
}

/* ---- what the statistics show ----------------------------------------------------------------------------------- */

/* What is known without asking the device; so it is the same that slab_zones_stats begins with. */
static SlabZonesStats figures_of(const SlabZones *zones) {
    const ts_places *p = &zones->places;
    return (SlabZonesStats){.version = SLAB_ZONES_STATS_VERSION,
                            .zones = zones->device->zones,
                            .shared_zones = p->several,
                            .spilled_epochs = zones->spilled_epochs,
                            .spilled_bytes = zones->spilled_bytes,
                            .kept_bytes = zones->kept_bytes,
                            .appended_bytes = p->appended_bytes,
                            .payload_bytes = zones->payload_bytes,
                            .padding_bytes = p->padding_bytes,
                            .reset_zones_total = p->resets,
                            .reset_filled_bytes_total = p->reset_filled_bytes,
                            .reclaimed_zones = p->reclaimed,
                            .spills_total = zones->spills,
                            .loads_total = zones->loads,
                            .reads_total = zones->reads,
                            .errors_total = p->errors,
                            .zone_bytes = zones->device->zone_bytes,
                            .capacity_bytes = zones->device->capacity};
}

static void show(const SlabZones *zones) {
    const ts_places *p = &zones->places;
    SlabZonesStats s = figures_of(zones);
    ts_zones_stats row = {.empty_zones = p->count[TS_USE_EMPTY],
                          .active_zones = p->count[TS_USE_BEGUN],
                          .full_zones = p->count[TS_USE_FULL],
                          .failed_zones = p->count[TS_USE_FAILED],
                          .zones = s.zones,
                          .shared_zones = s.shared_zones,
                          .waiting_zones = p->waiting,
                          .spilled_epochs = s.spilled_epochs,
                          .spilled_bytes = s.spilled_bytes,
                          .kept_bytes = s.kept_bytes,
                          .appended_bytes = s.appended_bytes,
                          .payload_bytes = s.payload_bytes,
                          .padding_bytes = s.padding_bytes,
                          .reset_zones_total = s.reset_zones_total,
                          .reset_filled_bytes_total = s.reset_filled_bytes_total,
                          .reclaimed_zones = s.reclaimed_zones,
                          .spills_total = s.spills_total,
                          .loads_total = s.loads_total,
                          .reads_total = s.reads_total,
                          .errors_total = s.errors_total,
                          .zone_bytes = s.zone_bytes,
                          .capacity_bytes = s.capacity_bytes};
    memcpy(row.device, zones->name, sizeof row.device);
    ts_zones_row_write(zones->row, &row);
}

/* ---- calls ------------------------------------------------------------------------------------------------------- */

/* Caller has the registry's lock, which is released. */
static bool enter_locked(SlabZones *zones) {
    bool mine = zones && zones->process == getpid();
    if (mine) zones->users++;
    (void)pthread_mutex_unlock(&registry);
    if (mine) {
        (void)pthread_mutex_lock(&zones->mutex);
        settle(zones);
        return true;
    }
    errno = zones ? EPERM : EINVAL;
    return false;
}

bool ts_zones_enter(SlabZones *zones) {
    (void)pthread_mutex_lock(&registry);
    SlabZones *z = all;
    while (z && z != zones) z = z->next;
    return enter_locked(z);
}

void ts_zones_leave(SlabZones *zones) {
    show(zones);
    (void)pthread_mutex_unlock(&zones->mutex);
    (void)pthread_mutex_lock(&registry);
    zones->users--;
    (void)pthread_mutex_unlock(&registry);
}

/* Caller has the registry's lock. */
static ts_record *find(const SlabAllocator *allocator, EpochId epoch) {
    ts_record *r = *bucket_of(epoch);
    while (r && (r->epoch != epoch || r->allocator != allocator)) r = r->hash_next;
    return r;
}

ts_record *ts_zones_enter_epoch(SlabAllocator *allocator, EpochId epoch) {
    (void)pthread_mutex_lock(&registry);
    ts_record *r = find(allocator, epoch);
    SlabZones *zones = r ? r->zones : NULL;
    if (!enter_locked(zones)) return NULL;
    /* It can have ended, or been loaded, meanwhile; from here on it stays. */
    (void)pthread_mutex_lock(&registry);
    r = find(allocator, epoch);
    (void)pthread_mutex_unlock(&registry);
    if (r && r->zones == zones && !r->left) return r;
    ts_zones_leave(zones);
    errno = EINVAL;
    return NULL;
}

/* ---- open and close ---------------------------------------------------------------------------------------------- */

static ts_device *open_device(const char *where) {
    static const char emulated[] = "emulated:";
    if (strncmp(where, emulated, sizeof emulated - 1) == 0) {
        char path[PATH_MAX];
        ts_emulated_parameters parameters;
        if (!ts_emulated_parse(where + sizeof emulated - 1, path, sizeof path, &parameters)) return NULL;
        return ts_emulated_open(path, &parameters);
    }
#if defined(TS_HAVE_ZONED)
    struct stat st;
    if (strchr(where, '/') && stat(where, &st) == 0 && S_ISBLK(st.st_mode)) return ts_zoned_open(where);
#endif
    ts_zones_say("no such kind of device: %s", where);
    errno = EINVAL;
    return NULL;
}

static bool read_options(SlabZones *zones, const SlabZonesOptions *options) {
    if (options && options->size < sizeof options->size) return ts_fail(EINVAL);
    if (options) memcpy(&zones->options, options, options->size < sizeof *options ? options->size : sizeof *options);
    return true;
}

static bool is_usable(const ts_device *device) {
    if (TS_SLAB_UNIT % device->block_bytes == 0 && device->block_bytes <= TS_PLACE_BLOCK &&
        device->append_bytes >= TS_SLAB_UNIT)
        return true;
    ts_zones_say("blocks of %u bytes and appends of %zu bytes do not fit slabs of 16 KiB", device->block_bytes,
                 device->append_bytes);
    errno = EINVAL;
    return false;
}

/* Without the parameters behind it; its end, where it is long. */
static void set_name(char *name, size_t room, const char *where) {
    size_t bytes = strcspn(where, "?"), skip = bytes < room ? 0 : bytes - (room - 1);
    memset(name, 0, room);
    memcpy(name, where + skip, bytes - skip);
}

static SlabZones *make(const char *where, const SlabZonesOptions *options) {
    SlabZones *zones = calloc(1, sizeof *zones);
    if (!zones) return NULL;
    zones->process = getpid();
    ts_device *device = read_options(zones, options) ? open_device(where) : NULL;
    zones->device = device;
    if (device && is_usable(device) && ts_places_open(&zones->places, device)) {
        size_t most = zones->options.append_bytes;
        if (most == 0 || most > device->append_bytes) most = device->append_bytes;
        zones->options.append_bytes = most < TS_SLAB_UNIT ? TS_SLAB_UNIT : most / TS_SLAB_UNIT * TS_SLAB_UNIT;
        (void)pthread_mutex_init(&zones->mutex, NULL);
        set_name(zones->name, sizeof zones->name, where);
        zones->row = ts_zones_row_take();
        show(zones);
        return zones;
    }
    int error = errno;
    if (device) device->call->end(device);
    free(zones);
    errno = error;
    return NULL;
}

SlabZones *slab_zones_open(const char *where, const SlabZonesOptions *options) {
    TS_OWN_MEMORY;
    if (!where) return ts_fail_null(EINVAL);
    if (strcmp(ts_private_build, TSLAB_BUILD) != 0) {
        ts_zones_say("libtslab-zones.so is of build " TSLAB_BUILD ", libtslab.so of build %s", ts_private_build);
        errno = EINVAL;
        return NULL;
    }
    (void)pthread_once(&fork_once, register_fork);
    if (fork_error != 0) {
        errno = fork_error;
        return NULL;
    }
    SlabZones *zones = make(where, options);
    if (!zones) return NULL;
    (void)pthread_mutex_lock(&registry);
    zones->next = all;
    all = zones;
    (void)pthread_mutex_unlock(&registry);
    return zones;
}

bool slab_zones_close(SlabZones *zones) {
    TS_OWN_MEMORY;
    if (!ts_zones_enter(zones)) return false;
    while (zones->records == NULL) {
        uint64_t resets = zones->places.resets;
        ts_places_reset(&zones->places, RESETS_OF_A_CALL);
        if (zones->places.resets == resets) break;
    }
    bool empty = zones->records == NULL;
    (void)pthread_mutex_unlock(&zones->mutex);
    (void)pthread_mutex_lock(&registry);
    zones->users--;
    bool closed = empty && zones->users == 0;
    SlabZones **at = &all;
    while (*at != zones) at = &(*at)->next;
    if (closed) *at = zones->next;
    (void)pthread_mutex_unlock(&registry);
    if (!closed) return ts_fail(EBUSY);
    ts_zones_row_give(zones->row);
    zones->device->call->end(zones->device);
    ts_places_close(&zones->places);
    (void)pthread_mutex_destroy(&zones->mutex);
    free(zones);
    return true;
}

/* ---- statistics -------------------------------------------------------------------------------------------------- */

static void count_zone(const SlabZones *zones, uint32_t i, SlabZonesStats *out) {
    const ts_zone *z = &zones->places.zone[i];
    ts_zone_report r = {.state = TS_ZONE_OFFLINE};
    if (z->use == TS_USE_FAILED || !zones->device->call->report(zones->device, i, &r)) {
        out->failed_zones++;
        return;
    }
    bool open = r.state == TS_ZONE_IMPLICITLY_OPEN || r.state == TS_ZONE_EXPLICITLY_OPEN;
    out->empty_zones += r.state == TS_ZONE_EMPTY;
    out->open_zones += open;
    out->active_zones += open || r.state == TS_ZONE_CLOSED;
    out->full_zones += r.state == TS_ZONE_FULL;
    out->failed_zones += r.state == TS_ZONE_READ_ONLY || r.state == TS_ZONE_OFFLINE;
}

bool slab_zones_stats(SlabZones *zones, SlabZonesStats *out) {
    TS_OWN_MEMORY;
    if (!out) return ts_fail(EINVAL);
    if (!ts_zones_enter(zones)) return false;
    *out = figures_of(zones);
    for (uint32_t i = 0; i < zones->device->zones; i++) count_zone(zones, i, out);
    ts_zones_leave(zones);
    return true;
}
