/*
 * A limit of the address space that is set while the process runs. All that is reserved counts against it: so the region keeps what is in
 * use and a share of what the limit leaves, as it does when it begins under a limit. The rest goes back to the system, for good.
 */
#ifndef TS_API_SHRINK_H
#define TS_API_SHRINK_H

#include <stdint.h>

/* The process that has the region: at the start, and in a child of fork. */
void ts_shrink_note_process(void);
/* Bytes of address space that the process may have from now on. Caller: has the start mutex; the region is there. */
void ts_shrink(uint64_t limit);

#endif
