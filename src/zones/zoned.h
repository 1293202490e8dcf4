/*
 * A zoned block device, by the kernel's own calls (linux/blkzoned.h), which every Linux with such a device has. Not
 * by libzbd, which keeps its devices in a table of 1,024 file descriptors (docs/decisions.md).
 *
 * Writes. A namespace of NVMe takes zone appends by passthrough: the device chooses the place and says it. Where that
 * is refused (no NVMe, no right to it) the write goes to the tracked write pointer, with direct I/O, and one at a time.
 *
 * The first zone is the header's: each opening appends a block that names its process. By this block the library tells
 * its own data, which a process that was killed may have left, from data of others. It does not touch a device that has
 * data and no such block in its first zone. The library sees the zones behind it, as number 0 and on.
 */
#ifndef TS_ZONES_ZONED_H
#define TS_ZONES_ZONED_H

#include "zones/device.h"

/* NULL with errno: EBUSY somebody has it open for himself; EINVAL no zoned device, or one with data of others, and a
   line that says so; another error of the system. */
ts_device *ts_zoned_open(const char *path);

#endif
