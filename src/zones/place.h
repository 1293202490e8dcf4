/*
 * Which zone gets what: the zones as the library uses them.
 *
 * Each zone counts the epochs that have slabs in it. When the last of them is over, the zone is reset; nothing is
 * ever copied out of one. Rules:
 *  1. An epoch with more bytes than a zone holds has zones of its own. So its zones become empty at one moment.
 *  2. Smaller ones share: each is appended where the one before ended. They were spilled one after the other, so they
 *     are of about one age, which is the best guess there is at when they will end.
 *  3. A zone that is begun counts as active until it is full. When the device takes no more active zones, the one
 *     with the least room left is finished: the room that it had left is padding. Nothing else is.
 */
#ifndef TS_ZONES_PLACE_H
#define TS_ZONES_PLACE_H

#include "zones/device.h"

#define TS_SLAB_UNIT ((uint64_t)16384) /* slabs are written whole */

typedef enum ts_zone_use { TS_USE_EMPTY, TS_USE_BEGUN, TS_USE_FULL, TS_USE_FAILED, TS_USES } ts_zone_use;

typedef struct ts_zone {
    ts_zone_use use;
    uint32_t epochs;  /* that have slabs in it, or began to */
    uint64_t written; /* bytes */
    uint64_t capacity;
} ts_zone;

#define TS_NO_ZONE UINT32_MAX

typedef struct ts_places {
    ts_device *device;
    ts_zone *zone;
    uint32_t count[TS_USES]; /* zones of each use */
    uint32_t several;        /* zones with slabs of more than one epoch */
    uint32_t waiting;        /* BEGUN and FULL ones that nobody has slabs in: they wait for their reset */
    uint32_t shared;         /* where the next small epoch goes on; TS_NO_ZONE: nowhere yet */
    uint32_t next;           /* where the search for an empty one begins: they take turns */
    uint64_t padding_bytes, appended_bytes, reset_filled_bytes, errors;
    uint64_t resets, reclaimed;
} ts_places;

/* Looks at all zones of the device and empties them. false with errno: no memory, or the device cannot be asked. */
bool ts_places_open(ts_places *places, ts_device *device);
void ts_places_close(ts_places *places);
/* Bytes that can still be written in whole slabs; own: for an epoch that has zones of its own. */
uint64_t ts_places_room(const ts_places *places, bool own);
/* A zone with room for a slab. own: `zone` if it has room, else an empty one; not own: the shared one. TS_NO_ZONE
   with errno ENOSPC, EIO. */
uint32_t ts_places_take(ts_places *places, bool own, uint32_t zone);
/* Whether _take goes on in the zone that it gave. */
bool ts_places_stays(const ts_places *places, bool own, uint32_t zone);
/* Whether the device takes no more than so many active zones beside those that are begun. */
bool ts_places_is_tight(const ts_places *places, uint32_t more);
/* So many bytes of the zone, which has room for them, are about to be appended. */
void ts_places_claim(ts_places *places, uint32_t zone, uint64_t bytes);
/* They were not: the device refused. When nothing is under way in the zone any more it is to be looked at. */
void ts_places_unclaim(ts_places *places, uint32_t zone, uint64_t bytes);
/* What is in the zone now is known, or the zone is given up. */
void ts_places_look(ts_places *places, uint32_t zone);
/* One epoch more has slabs in the zone, or is about to. */
void ts_places_join(ts_places *places, uint32_t zone);
/* One epoch less has slabs in the zone: the last one's end makes it wait for its reset. */
void ts_places_leave(ts_places *places, uint32_t zone);
/* Resets up to `most` zones that wait for it. */
void ts_places_reset(ts_places *places, uint32_t most);
static inline uint64_t ts_zone_room(const ts_zone *zone) {
    return (zone->capacity - zone->written) / TS_SLAB_UNIT * TS_SLAB_UNIT;
}

#endif
