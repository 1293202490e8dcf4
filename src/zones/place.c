#include "zones/place.h"

#include <errno.h>
#include <stdlib.h>

static bool device_failed(ts_places *p) {
    p->errors++;
    return false;
}

static uint32_t waits(const ts_zone *z) { return z->epochs == 0 && (z->use == TS_USE_BEGUN || z->use == TS_USE_FULL); }

static void set_use(ts_places *p, uint32_t zone, ts_zone_use use) {
    ts_zone *z = &p->zone[zone];
    p->count[z->use]--;
    p->count[use]++;
    p->waiting -= waits(z);
    z->use = use;
    p->waiting += waits(z);
}

static void set_epochs(ts_places *p, uint32_t zone, uint32_t epochs) {
    ts_zone *z = &p->zone[zone];
    p->several += (uint32_t)(epochs > 1) - (uint32_t)(z->epochs > 1);
    p->waiting -= waits(z);
    z->epochs = epochs;
    p->waiting += waits(z);
}

static void give_up(ts_places *p, uint32_t zone) {
    set_use(p, zone, TS_USE_FAILED);
    if (p->shared == zone) p->shared = TS_NO_ZONE;
}

/* What the device says of a zone. Where it says nothing, or that the zone is no good, it is given up. */
static void look(ts_places *p, uint32_t zone) {
    ts_zone *z = &p->zone[zone];
    ts_zone_report r;
    int error = errno;
    bool good = p->device->call->report(p->device, zone, &r);
    errno = error;
    if (!good) (void)device_failed(p);
    if (!good || r.state == TS_ZONE_READ_ONLY || r.state == TS_ZONE_OFFLINE) {
        give_up(p, zone);
        return;
    }
    z->capacity = r.capacity;
    z->written = r.state == TS_ZONE_FULL ? r.capacity : r.state == TS_ZONE_EMPTY ? 0 : r.written;
    ts_zone_use use = r.state == TS_ZONE_FULL ? TS_USE_FULL : r.state == TS_ZONE_EMPTY ? TS_USE_EMPTY : TS_USE_BEGUN;
    set_use(p, zone, use);
    if (p->shared == zone && use != TS_USE_BEGUN) p->shared = TS_NO_ZONE;
}

static bool reset(ts_places *p, uint32_t zone) {
    ts_zone *z = &p->zone[zone];
    uint64_t filled = z->written;
    bool done = p->device->call->reset(p->device, zone);
    if (!done) (void)device_failed(p);
    look(p, zone);
    if (z->use != TS_USE_EMPTY) {
        give_up(p, zone); /* it would be tried again and again */
        return false;
    }
    p->reset_filled_bytes += filled;
    return true;
}

bool ts_places_open(ts_places *p, ts_device *device) {
    *p = (ts_places){.device = device, .shared = TS_NO_ZONE};
    p->zone = calloc(device->zones, sizeof *p->zone);
    if (!p->zone) return false;
    p->count[TS_USE_EMPTY] = device->zones;
    for (uint32_t i = 0; i < device->zones; i++) {
        look(p, i);
        if (p->zone[i].use != TS_USE_BEGUN && p->zone[i].use != TS_USE_FULL) continue;
        p->reclaimed += reset(p, i);
    }
    p->reset_filled_bytes = 0;
    return true;
}

void ts_places_close(ts_places *p) { free(p->zone); }

uint64_t ts_places_room(const ts_places *p, bool own) {
    const ts_zone *shared = own || p->shared == TS_NO_ZONE ? NULL : &p->zone[p->shared];
    uint64_t room = shared && shared->use == TS_USE_BEGUN ? ts_zone_room(shared) : 0;
    for (uint32_t i = 0; i < p->device->zones; i++)
        if (p->zone[i].use == TS_USE_EMPTY) room += ts_zone_room(&p->zone[i]);
    return room;
}

/* Another zone can become active. The one with the least room is finished for it. */
static bool make_room(ts_places *p) {
    if (p->device->max_active == 0 || p->count[TS_USE_BEGUN] < p->device->max_active) return true;
    uint32_t least = TS_NO_ZONE;
    for (uint32_t i = 0; i < p->device->zones; i++) {
        const ts_zone *z = &p->zone[i];
        if (z->use == TS_USE_BEGUN &&
            (least == TS_NO_ZONE || z->capacity - z->written < p->zone[least].capacity - p->zone[least].written))
            least = i;
    }
    if (least == TS_NO_ZONE) return true;
    uint64_t left = p->zone[least].capacity - p->zone[least].written;
    bool done = p->device->call->finish(p->device, least);
    if (!done) (void)device_failed(p);
    look(p, least);
    if (p->zone[least].use == TS_USE_FULL) p->padding_bytes += left;
    return p->count[TS_USE_BEGUN] < p->device->max_active;
}

static uint32_t take_empty(ts_places *p) {
    for (uint32_t i = 0; i < p->device->zones; i++) {
        uint32_t zone = (p->next + i) % p->device->zones;
        if (p->zone[zone].use != TS_USE_EMPTY || ts_zone_room(&p->zone[zone]) == 0) continue;
        if (!make_room(p)) {
            errno = EIO;
            return TS_NO_ZONE;
        }
        p->next = zone + 1;
        return zone;
    }
    errno = ENOSPC;
    return TS_NO_ZONE;
}

uint32_t ts_places_take(ts_places *p, bool own, uint32_t zone) {
    if (ts_places_stays(p, own, zone)) return own ? zone : p->shared;
    zone = take_empty(p);
    if (!own) p->shared = zone;
    return zone;
}

void ts_places_claim(ts_places *p, uint32_t zone, uint64_t bytes) {
    ts_zone *z = &p->zone[zone];
    p->appended_bytes += bytes;
    z->written += bytes;
    set_use(p, zone, z->written == z->capacity ? TS_USE_FULL : TS_USE_BEGUN);
    if (z->use == TS_USE_FULL && p->shared == zone) p->shared = TS_NO_ZONE;
}

void ts_places_unclaim(ts_places *p, uint32_t zone, uint64_t bytes) {
    p->appended_bytes -= bytes;
    p->zone[zone].written -= bytes;
    (void)device_failed(p);
}

void ts_places_look(ts_places *p, uint32_t zone) {
    const ts_zone *z = &p->zone[zone];
    uint64_t before = z->written;
    look(p, zone);
    if (z->use == TS_USE_BEGUN || z->use == TS_USE_FULL) p->appended_bytes += z->written - before;
}

bool ts_places_stays(const ts_places *p, bool own, uint32_t zone) {
    if (!own) zone = p->shared;
    return zone != TS_NO_ZONE && p->zone[zone].use == TS_USE_BEGUN && ts_zone_room(&p->zone[zone]) != 0;
}

bool ts_places_is_tight(const ts_places *p, uint32_t more) {
    return p->device->max_active != 0 && p->count[TS_USE_BEGUN] + more >= p->device->max_active;
}

void ts_places_join(ts_places *p, uint32_t zone) { set_epochs(p, zone, p->zone[zone].epochs + 1); }
void ts_places_leave(ts_places *p, uint32_t zone) { set_epochs(p, zone, p->zone[zone].epochs - 1); }

void ts_places_reset(ts_places *p, uint32_t most) {
    for (uint32_t i = 0; i < p->device->zones && most > 0 && p->waiting > 0; i++) {
        if (!waits(&p->zone[i])) continue;
        most--;
        p->resets += reset(p, i);
    }
}
