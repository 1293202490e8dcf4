/* epoch_spill, epoch_load and slab_zones_read: between memory and zones. */
#define _GNU_SOURCE
#include "api/api.h"
#include "base/base.h"
#include "zones/maps.h"
#include "zones/window.h"
#include "zones/zones.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

/* Adds a slab to what lies side by side on the device: some are in a row in memory too. false: there is no room for
   it. */
static bool add_slab(ts_io *io, char *at, size_t most, int pieces) {
    if (io->bytes + TS_SLAB_UNIT > most) return false;
    struct iovec *last = io->count > 0 ? &io->iov[io->count - 1] : NULL;
    if (last && (char *)last->iov_base + last->iov_len == at) {
        last->iov_len += TS_SLAB_UNIT;
    } else {
        if (io->count == pieces) return false;
        io->iov[io->count++] = (struct iovec){at, TS_SLAB_UNIT};
    }
    io->bytes += TS_SLAB_UNIT;
    io->slabs++;
    return true;
}

/* How many reads or appends it is good for to have under way. */
static unsigned window_of(const ts_record *r) {
    uint64_t most = r->zones->options.append_bytes, bytes = r->spill.units * TS_SLAB_UNIT;
    if (r->zones->device->capacity < most) most = r->zones->device->capacity;
    uint64_t calls = (bytes + most - 1) / most;
    return calls < TS_WINDOW ? (unsigned)calls : TS_WINDOW;
}

static void tell(const ts_record *r, uint64_t slabs) {
    const SlabZonesOptions *o = &r->zones->options;
    if (o->progress) o->progress(slabs * TS_SLAB_UNIT, r->spill.units * TS_SLAB_UNIT, o->progress_arg);
}

/* One slab after the other, of one extent after the other. */
typedef struct cursor {
    size_t extent;
    uint32_t in_extent;
    uint32_t slab; /* number among all */
} cursor;

static bool at_end(const ts_record *r, const cursor *c) { return c->extent == r->spill.extents; }
static char *slab_at(const ts_record *r, const cursor *c) {
    return (char *)ts_private_unit_address(r->spill.extent[c->extent].unit) + (size_t)c->in_extent * TS_SLAB_UNIT;
}
static void step(const ts_record *r, cursor *c) {
    c->slab++;
    if (++c->in_extent < r->spill.extent[c->extent].slabs) return;
    c->in_extent = 0;
    c->extent++;
}

/* ---- spill ------------------------------------------------------------------------------------------------------- */

static void use_zone(ts_record *r, uint32_t zone) {
    if (ts_record_uses(r, zone)) return;
    r->uses[zone / 8] |= (uint8_t)(1u << zone % 8);
    ts_places_join(&r->zones->places, zone);
}

typedef struct appends {
    ts_window window;
    uint32_t failed[TS_WINDOW]; /* zones: nothing is planned after the first one that fails */
    unsigned failures;
} appends;

static void collect(ts_record *r, appends *a) {
    const ts_io *io = ts_window_collect(&a->window);
    if (io->error != 0) {
        ts_places_unclaim(&r->zones->places, io->zone, io->bytes);
        a->failed[a->failures++] = io->zone;
        return;
    }
    uint64_t at = io->at;
    for (uint32_t i = io->first; i < io->first + io->slabs; i++, at += TS_SLAB_UNIT)
        r->place[i] = (ts_slab_place){io->zone, (uint32_t)(at / TS_PLACE_BLOCK)};
    if (a->failures == 0) tell(r, io->first + io->slabs);
}

static void collect_all(ts_record *r, appends *a) {
    while (!ts_window_is_empty(&a->window)) collect(r, a);
}

/* Plans the next append. false with errno: there is no zone for it. */
static bool plan(ts_record *r, appends *a, bool own, uint32_t *zone, cursor *c) {
    SlabZones *z = r->zones;
    *zone = ts_places_take(&z->places, own, *zone);
    if (*zone == TS_NO_ZONE) return false;
    use_zone(r, *zone);
    uint64_t room = ts_zone_room(&z->places.zone[*zone]);
    size_t most = room < z->options.append_bytes ? (size_t)room : z->options.append_bytes;
    ts_io *io = ts_window_next(&a->window);
    io->append = true;
    io->zone = *zone;
    io->first = c->slab;
    io->slabs = 0;
    while (!at_end(r, c) && add_slab(io, slab_at(r, c), most, z->device->append_pieces)) step(r, c);
    ts_places_claim(&z->places, *zone, io->bytes);
    ts_window_plan(&a->window);
    return true;
}

static bool append_all(ts_record *r, bool own) {
    SlabZones *z = r->zones;
    appends a = {.failures = 0};
    uint32_t zone = TS_NO_ZONE;
    int error = 0;
    ts_window_begin(&a.window, z->device, window_of(r));
    for (cursor c = {0}; !at_end(r, &c) && a.failures == 0 && error == 0;) {
        if (ts_window_is_full(&a.window)) collect(r, &a);
        /* Before another zone is begun: those that are being filled are active until they are full, and one that is not
           may be finished to make room. */
        if (!ts_places_stays(&z->places, own, zone) && ts_places_is_tight(&z->places, TS_WINDOW)) collect_all(r, &a);
        if (a.failures == 0 && !plan(r, &a, own, &zone, &c)) error = errno;
    }
    collect_all(r, &a);
    ts_window_end(&a.window);
    for (unsigned i = 0; i < a.failures; i++) ts_places_look(&z->places, a.failed[i]);
    if (a.failures != 0) error = EIO;
    errno = error;
    return error == 0;
}

static bool make_places(ts_record *r) {
    r->first = calloc(r->spill.extents, sizeof *r->first);
    r->place = calloc(r->spill.units, sizeof *r->place);
    if (!r->first || !r->place) return ts_fail(ENOMEM);
    uint32_t slabs = 0;
    for (size_t i = 0; i < r->spill.extents; i++) {
        r->first[i] = slabs;
        slabs += r->spill.extent[i].slabs;
    }
    return true;
}

/* All of the epoch is lent. false with errno: nothing of it is in zones. */
static bool write_lent(ts_record *r) {
    SlabZones *z = r->zones;
    uint64_t bytes = r->spill.units * TS_SLAB_UNIT;
    bool own = bytes > z->device->capacity;
    if (r->spill.extents == 0) {
        errno = ESTALE; /* its last object was freed meanwhile */
        return false;
    }
    r->spill.no_mappings = !ts_maps_have_room(2 * r->spill.runs);
    if (r->spill.no_mappings && !ts_spill_hides()) return ts_fail(EBUSY);
    if (ts_places_room(&z->places, own) < bytes) ts_places_reset(&z->places, UINT32_MAX);
    if (ts_places_room(&z->places, own) < bytes) return ts_fail(ENOSPC);
    if (make_places(r) && append_all(r, own) && ts_spill_send(&r->spill)) return true;
    int error = errno;
    for (uint32_t i = 0; i < z->device->zones; i++)
        if (ts_record_uses(r, i)) ts_places_leave(&z->places, i);
    errno = error;
    return false;
}

static bool spill(SlabZones *z, SlabAllocator *allocator, EpochId epoch) {
    size_t most = ts_spill_most((uintptr_t)allocator, epoch);
    if (most == 0) return false;
    ts_record *r = ts_record_make(z, most);
    if (!r) return ts_fail(ENOMEM);
    r->allocator = allocator;
    r->epoch = epoch;
    if (ts_spill_begin((uintptr_t)allocator, epoch, &r->spill)) {
        if (write_lent(r)) {
            z->payload_bytes += r->spill.units * TS_SLAB_UNIT;
            z->spills++;
            ts_record_add(r);
            return true;
        }
        int error = errno;
        ts_spill_return(&r->spill);
        errno = error;
    }
    int error = errno;
    ts_record_drop(r);
    errno = error;
    return false;
}

bool epoch_spill(SlabAllocator *allocator, EpochId epoch, SlabZones *zones) {
    TS_OWN_MEMORY;
    if (!ts_zones_enter(zones)) return false;
    bool spilled = spill(zones, allocator, epoch);
    int error = errno;
    ts_zones_leave(zones);
    errno = error;
    return spilled;
}

/* ---- load -------------------------------------------------------------------------------------------------------- */

static uint64_t place_bytes(const ts_slab_place *p) { return (uint64_t)p->block * TS_PLACE_BLOCK; }

static bool is_behind(const ts_slab_place *a, const ts_slab_place *b) {
    return a->zone == b->zone && place_bytes(a) + TS_SLAB_UNIT == place_bytes(b);
}

/* What is dead is not read: nobody wants it. */
static bool is_wanted(const ts_record *r, const cursor *c) {
    return ts_private_spill_wants(r->spill.extent[c->extent].unit);
}

static bool collect_read(ts_record *r, ts_window *w, bool good) {
    const ts_io *io = ts_window_collect(w);
    if (io->error == 0) {
        if (good) tell(r, io->first + io->slabs);
        return good;
    }
    r->zones->places.errors++;
    return false;
}

/* Plans the read of what lies side by side from here on. */
static void plan_read(ts_record *r, ts_window *w, cursor *c) {
    ts_io *io = ts_window_next(w);
    const ts_slab_place *first = &r->place[c->slab];
    io->append = false;
    io->zone = first->zone;
    io->at = place_bytes(first);
    io->first = c->slab;
    io->slabs = 0;
    do {
        if (!add_slab(io, slab_at(r, c), r->zones->options.append_bytes, TS_WINDOW_IOV)) break;
        step(r, c);
    } while (!at_end(r, c) && is_behind(&r->place[c->slab - 1], &r->place[c->slab]) && is_wanted(r, c));
    ts_window_plan(w);
}

static bool read_all(ts_record *r) {
    ts_window w;
    bool good = true;
    ts_window_begin(&w, r->zones->device, window_of(r));
    for (cursor c = {0}; !at_end(r, &c) && good;) {
        if (!is_wanted(r, &c)) {
            step(r, &c);
            continue;
        }
        if (ts_window_is_full(&w)) good = collect_read(r, &w, good);
        if (good) plan_read(r, &w, &c);
    }
    while (!ts_window_is_empty(&w)) good = collect_read(r, &w, good);
    ts_window_end(&w);
    if (!good) errno = EIO;
    return good;
}

bool epoch_load(SlabAllocator *allocator, EpochId epoch) {
    TS_OWN_MEMORY;
    ts_record *r = ts_zones_enter_epoch(allocator, epoch);
    if (!r) return false;
    SlabZones *zones = r->zones;
    bool loaded = ts_spill_fetch(&r->spill);
    if (loaded && !read_all(r)) {
        loaded = false;
        (void)ts_spill_send(&r->spill);
    }
    int error = errno;
    if (loaded) {
        ts_spill_return(&r->spill);
        ts_record_end(r);
        zones->loads++;
    }
    ts_zones_leave(zones);
    errno = error;
    return loaded;
}

/* ---- one object -------------------------------------------------------------------------------------------------- */

/* The number of the slab at a unit. false: the record has none there. */
static bool find_slab(const ts_record *r, uint32_t unit, uint32_t *slab) {
    size_t low = 0, high = r->spill.extents;
    while (high - low > 1) {
        size_t middle = low + (high - low) / 2;
        if (r->spill.extent[middle].unit <= unit)
            low = middle;
        else
            high = middle;
    }
    const ts_spill_extent *p = &r->spill.extent[low];
    if (high == 0 || unit < p->unit || unit - p->unit >= p->slabs) return false;
    *slab = r->first[low] + (unit - p->unit);
    return true;
}

/* Bytes [from, from + bytes) of what is at the slab and the next ones of the same extent. */
static bool read_bytes(const ts_record *r, uint32_t slab, uint64_t from, char *to, size_t bytes, char *buffer) {
    SlabZones *z = r->zones;
    while (bytes > 0) {
        const ts_slab_place *p = &r->place[slab + from / TS_SLAB_UNIT];
        uint64_t in_slab = from % TS_SLAB_UNIT, first = in_slab / TS_PLACE_BLOCK * TS_PLACE_BLOCK,
                 skip = in_slab - first;
        size_t part = bytes < TS_SLAB_UNIT - in_slab ? bytes : (size_t)(TS_SLAB_UNIT - in_slab);
        size_t whole = (size_t)((skip + part + TS_PLACE_BLOCK - 1) / TS_PLACE_BLOCK * TS_PLACE_BLOCK);
        struct iovec iov = {buffer, whole};
        if (!z->device->call->read(z->device, p->zone, place_bytes(p) + first, &iov, 1)) {
            z->places.errors++;
            errno = EIO;
            return false;
        }
        memcpy(to, buffer + skip, part);
        to += part;
        from += part;
        bytes -= part;
    }
    return true;
}

/* Its place was not another's meanwhile: a slab of a closed epoch gets no objects. It can have been freed. */
static ssize_t still_there(const ts_record *r, SlabHandle handle, size_t bytes) {
    ts_private_object again;
    if (ts_private_object_of(r->allocator, handle, &again)) return (ssize_t)bytes;
    errno = ESTALE;
    return -1;
}

/* Bytes that were copied; -1 with errno. */
static ssize_t read_object(ts_record *r, SlabHandle handle, const ts_private_object *o, void *to, size_t size) {
    uint32_t slab;
    void *buffer;
    size_t bytes = size < o->bytes ? size : o->bytes;
    if (o->stays) {
        if (bytes != 0) memcpy(to, o->address, bytes);
        return still_there(r, handle, bytes);
    }
    if (!find_slab(r, o->unit, &slab)) {
        errno = ESTALE;
        return -1;
    }
    if (posix_memalign(&buffer, TS_PLACE_BLOCK, TS_SLAB_UNIT) != 0) {
        errno = ENOMEM;
        return -1;
    }
    bool good = read_bytes(r, slab, o->offset, to, bytes, buffer);
    int error = errno;
    free(buffer);
    errno = error;
    return good ? still_there(r, handle, bytes) : -1;
}

ssize_t slab_zones_read(SlabAllocator *allocator, SlabHandle handle, void *buffer, size_t size) {
    TS_OWN_MEMORY;
    ts_private_object object;
    if (!buffer && size != 0) {
        errno = EINVAL;
        return -1;
    }
    if (!ts_private_object_of(allocator, handle, &object)) {
        errno = ESTALE;
        return -1;
    }
    ts_record *r = ts_zones_enter_epoch(allocator, object.epoch);
    if (!r) return -1;
    SlabZones *zones = r->zones;
    ssize_t bytes = read_object(r, handle, &object, buffer, size);
    int error = errno;
    zones->reads += bytes >= 0;
    ts_zones_leave(zones);
    errno = error;
    return bytes;
}
