/* What the machine has. */
#ifndef TS_OS_MACHINE_H
#define TS_OS_MACHINE_H

#include "base/attr.h"

/* Bytes that one object may have: memory and swap space of the machine. So the system refuses what it never could back,
   but only where it reserves (vm.overcommit_memory 0), which a region has done before. SIZE_MAX: it does not say, or
   refuses nothing (1). */
TS_HIDDEN size_t ts_machine_most_bytes(void);

#endif
