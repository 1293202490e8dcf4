/* How much memory the process can have, and how much more. */
#ifndef TS_OS_ROOM_H
#define TS_OS_ROOM_H

#include <stdint.h>

/* What the process can still make resident: the least of what the machine has available and of what its cgroups leave;
   *what says which, in words. UINT64_MAX: the system does not say. Reads /proc and /sys; no lock, no malloc. */
uint64_t ts_room_bytes(const char **what);
/* The least memory limit of its cgroups; UINT64_MAX: none. */
uint64_t ts_room_limit(void);

#endif
