/*
 * The devices that are open, and the epochs that are spilled to them.
 *
 * Locks: a SlabZones has a mutex that is held for the whole of a call on it, I/O included. The registry's lock guards
 * the list of what is open and the table of what is spilled; it is held for some instructions, inside of that mutex
 * or without it, and never while one waits for such a mutex. A call that looks for zones counts itself in `users`
 * first, so that they are not closed meanwhile.
 *
 * Fork: the registry's lock is held over it. The child closes its copies of the device's files, so that the lock on
 * them is the parent's alone, and finds by the process id that it may do nothing else. Records in the child stay as
 * they are.
 */
#ifndef TS_ZONES_ZONES_H
#define TS_ZONES_ZONES_H

#include "spill/spill.h"
#include "zones/place.h"

#include <tslab/zones.h>

#include <pthread.h>
#include <sys/types.h>

/* Where one slab of 16 KiB is. */
typedef struct ts_slab_place {
    uint32_t zone;
    uint32_t block; /* of 4 KiB, from the start of the zone */
} ts_slab_place;
#define TS_PLACE_BLOCK 4096u

typedef struct ts_record {
    struct ts_record *next;      /* of the same zones; guarded by their mutex */
    struct ts_record *hash_next; /* guarded by the registry's lock */
    SlabZones *zones;            /* constant, as the next two */
    SlabAllocator *allocator;
    EpochId epoch;
    ts_spill spill;       /* guarded by the mutex of the zones, as the rest */
    uint32_t *first;      /* [extent]: number of its first slab among all */
    ts_slab_place *place; /* [slab] */
    uint8_t *uses;        /* bit per zone: it has slabs there */
    bool left;            /* it is over, and its zones are not its own any more */
} ts_record;

struct SlabZones {
    SlabZones *next; /* guarded by the registry's lock, as is the next */
    unsigned users;  /* threads in a call, or on their way into one */
    pid_t process;   /* constant, as the next five */
    ts_device *device;
    uint32_t row; /* in the statistics, which have the name */
    char name[64];
    SlabZonesOptions options;
    pthread_mutex_t mutex;
    ts_places places; /* guarded by the mutex, as the rest */
    ts_record *records;
    uint64_t payload_bytes, spilled_bytes, kept_bytes, spilled_epochs;
    uint64_t spills, loads, reads;
};

/* Into a call on the zones, with what has been waiting done. false with errno EINVAL (none such), EPERM. */
bool ts_zones_enter(SlabZones *zones);
void ts_zones_leave(SlabZones *zones);
/* The same by an epoch that is spilled. NULL with errno EINVAL (it is not), EPERM. */
ts_record *ts_zones_enter_epoch(SlabAllocator *allocator, EpochId epoch);
/* A record of no epoch yet. NULL: no memory. extents: room for so many. */
ts_record *ts_record_make(SlabZones *zones, size_t extents);
/* One more, or one less, that is spilled. Caller is in a call. The latter frees it, and gives up its zones. */
void ts_record_add(ts_record *record);
void ts_record_end(ts_record *record);
/* Ends a record that was never added. */
void ts_record_drop(ts_record *record);

static inline bool ts_record_uses(const ts_record *record, uint32_t zone) {
    return (record->uses[zone / 8] >> zone % 8 & 1) != 0;
}

#endif
