/*
 * A zoned block device, by the kernel's own calls (linux/blkzoned.h), which every Linux with such a device has. Not by libzbd,
 * which keeps its devices in a table of 1,024 file descriptors (docs/decisions.md).
 *
 * Writes. A namespace of NVMe takes zone appends by passthrough: the device chooses the place and says it. Where that
 * is refused (no NVMe, no right to it) the write goes to the tracked write pointer, with direct I/O, and one at a time.
 *
 * The first zone is the header's: each opening appends a block that says who it is. It is how data of others is told
 * from what a process that was killed has left: a device that has data, and no such block in its first zone, is not
 * touched. The library sees the zones behind it, as number 0 and on.
 */
#ifndef TS_ZONES_ZONED_H
#define TS_ZONES_ZONED_H

#include "zones/device.h"

/* NULL with errno: EBUSY somebody has it open for himself; EINVAL no zoned device, or one with data of others, and a
   line that says so; what the system says. */
ts_device *ts_zoned_open(const char *path);

#endif
