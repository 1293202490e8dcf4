/*
 * libtslab-zones: closed epochs leave memory for a zoned device, and come back.
 *
 * A zoned device is written in zones. A zone is filled from its start to its end, and emptied as a whole (a reset).
 * An epoch is freed as a whole too: so its slabs are appended to zones, and its end resets them. Nothing is ever
 * moved from one zone to another to make room. docs/zones.md explains it.
 *
 *     SlabZones *zones = slab_zones_open("emulated:/var/tmp/zones?zones=64&zone_size=4M", NULL);
 *     epoch_close(allocator, epoch);
 *     epoch_spill(allocator, epoch, zones);      // its objects are live, and away: touching one faults
 *     slab_zones_read(allocator, handle, &copy, sizeof copy);       // one object of it
 *     epoch_load(allocator, epoch);              // or all of it, at the same addresses
 *     epoch_destroy(allocator, epoch);           // or the end; its zones are reset by the next call on the zones
 *     slab_zones_close(zones);
 *
 * While an epoch is spilled (epoch_state: EPOCH_SPILLED) its objects keep their addresses and handles, so pointers
 * between objects stay right. Pages without access stand for them.
 *
 *     slab_free, free_obj                         work; the last free ends the epoch
 *     slab_owns, slab_usable_size, slab_handle_get, slab_handle_of      work
 *     slab_realloc, slab_promote                  NULL, ESTALE
 *     reading, writing                            a fault (SIGSEGV), but for the first objects of a small scope, which
 *                                                 stay in memory (some 4 KiB); not to be done either
 *     epoch_destroy, slab_allocator_free          work, as quickly as ever
 *
 * Spilled objects live as long as the process. Nothing of it is durable: the next opening finds the zones and empties
 * them. After fork the child can destroy, free and allocate. The zones stay the parent's: the calls below fail with
 * EPERM there.
 *
 * Any thread may call any of these functions. Calls on the same zones wait for one another, for as long as the device
 * takes.
 */
#ifndef TSLAB_ZONES_H
#define TSLAB_ZONES_H

#include <tslab/tslab.h>

#include <sys/types.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef struct SlabZones SlabZones;

/* Fill `size` with sizeof(SlabZonesOptions); members left 0 have their default. */
typedef struct SlabZonesOptions {
    size_t size;
    /* Called by epoch_spill and epoch_load after each piece that was written or read. Not from within: no call on the
       zones. It must return. */
    void (*progress)(uint64_t done_bytes, uint64_t all_bytes, void *arg);
    void *progress_arg;
    size_t
        append_bytes; /* most of one append, whole slabs of 16 KiB; default 1 MiB, and no more than the device takes */
} SlabZonesOptions;

/* Opens zones for this process alone, and empties zones that an earlier process left full. NULL with errno:
   EBUSY they are open already, here or elsewhere; EINVAL no such kind, or a bad parameter; EIO; ENOMEM; the system's
   errors of the file. For EINVAL and EBUSY a line (slab_set_message_sink) names the parameter, or the process that has
   them. options may be NULL.

       emulated:FILE?zones=64&zone_size=4M&zone_capacity=3M&max_open=8&max_active=12

   is a file with the rules of a zoned namespace, made if it is missing. Sizes are in bytes, or with K, M or G.
   zone_capacity (default: zone_size) is the writable part of a zone. max_open and max_active (default 0: no limit)
   limit zones that are open, and zones that are open or closed half full. A file that is there has its parameters:
   those that are given have to be the same.

       /dev/nvme0n1

   is a zoned block device, all of it. One that has data, and was never opened by this library, is refused (EINVAL).
   Its first zone keeps a header and is not among the zones that are counted. Needs the right to open the device;
   zone appends of NVMe need CAP_SYS_ADMIN, without which the zones are written at their write pointers. */
TSLAB_API SlabZones *slab_zones_open(const char *where, const SlabZonesOptions *options);
/* false with errno: EBUSY while epochs are spilled to it, or another thread is in a call on it; EINVAL not open;
   EPERM a child of fork. */
TSLAB_API bool slab_zones_close(SlabZones *zones);

/* Appends the slabs of a closing epoch to zones, and gives their memory back. No thread may touch its objects from
   the beginning of the call on; frees may come at any time. true: the epoch is EPOCH_SPILLED. false with errno, and
   nothing has changed:
     EINVAL   not an epoch of the allocator, or still active, or no zones
     ESTALE   the epoch has ended
     EBUSY    it is spilled already; a thread is in the middle of a call that has to do with it; the process would
              come near the system's limit of mappings (vm.max_map_count; before Linux 6.13, or with memory that is
              locked, an epoch needs two for each group of slabs side by side)
     ENOSPC   not enough empty zones
     EIO      the device refused a write
     ENOMEM   no memory for the list of places, 20 bytes a slab of 16 KiB
     ENOTSUP  the allocator has poison_on_free, guard_spans or memory tools; pages of 64 KiB
     EPERM    a child of fork
   Cost: the device's time to write it, with up to four appends under way, by threads that live for the call; and a
   system call or two for each group of slabs. */
TSLAB_API bool epoch_spill(SlabAllocator *allocator, EpochId epoch, SlabZones *zones);
/* Brings a spilled epoch back to its addresses. It is EPOCH_CLOSING again. false with errno, and it is spilled still:
   EINVAL not spilled; ENOMEM over budget, or no memory; EIO; EPERM a child of fork. */
TSLAB_API bool epoch_load(SlabAllocator *allocator, EpochId epoch);
/* Copies up to `size` bytes from the start of one object of a spilled epoch. Returns how many: the smaller of size
   and the object's usable size. -1 with errno: ESTALE the handle is no live object's, or the object was freed
   meanwhile; EINVAL its epoch is not spilled; EIO; ENOMEM; EPERM a child of fork. */
TSLAB_API ssize_t slab_zones_read(SlabAllocator *allocator, SlabHandle handle, void *buffer, size_t size);

#define SLAB_ZONES_STATS_VERSION 1u
typedef struct SlabZonesStats {
    uint32_t version; /* SLAB_ZONES_STATS_VERSION */
    uint32_t zones;
    uint32_t empty_zones;
    uint32_t open_zones;   /* open, by a write or by a command */
    uint32_t active_zones; /* open, or closed and half full */
    uint32_t full_zones;
    uint32_t failed_zones;      /* read-only or offline, or given up after an error */
    uint32_t shared_zones;      /* with slabs of more than one epoch, now */
    uint64_t spilled_epochs;    /* now */
    uint64_t spilled_bytes;     /* of their slabs */
    uint64_t kept_bytes;        /* of these epochs, in memory: first slabs of small scopes, up to 1 KiB each, stay */
    uint64_t appended_bytes;    /* written to the device, ever; writes of a failed spill included */
    uint64_t payload_bytes;     /* of the slabs spilled, ever */
    uint64_t padding_bytes;     /* of zones that were finished before they were full, ever */
    uint64_t reset_zones_total; /* those emptied by slab_zones_open not included */
    uint64_t reset_filled_bytes_total; /* what had been written to zones that were reset: divided by their number and
        capacity, the fill */
    uint64_t reclaimed_zones;          /* emptied by slab_zones_open */
    uint64_t spills_total, loads_total, reads_total;
    uint64_t errors_total;               /* calls that the device refused */
    uint64_t zone_bytes, capacity_bytes; /* of one zone */
} SlabZonesStats;
/* Fills the struct. Also resets zones that wait for it, as every call on the zones. false with errno EINVAL, EPERM. */
TSLAB_API bool slab_zones_stats(SlabZones *zones, SlabZonesStats *out);

#ifdef __cplusplus
}
#endif

#endif
