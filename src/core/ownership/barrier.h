/*
 * Barriers of all threads: one side of a protocol pays for both, so that the usual path of the other side needs no
 * fence.
 */
#ifndef TS_OWNERSHIP_BARRIER_H
#define TS_OWNERSHIP_BARRIER_H

#include "base/attr.h"

#include <stdbool.h>

/* Whether the system has a barrier of all threads. Constant after init. */
extern TS_HIDDEN bool ts_barriers;
void ts_barrier_init(void);
/* When it returns, every other thread has passed a full memory barrier since the call began. If the system refuses, the
   call waits until all that other threads had stored before is seen: some 20 ms. */
void ts_barrier_or_wait(void);

#endif
