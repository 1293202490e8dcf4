/*
 * A limit of the address space that is set while the process runs. All reserved addresses count against it. So the
 * region keeps what is in use, and a share of what the limit leaves, as it does when it begins under a limit. The
 * rest goes back to the system for good.
 */
#ifndef TS_API_SHRINK_H
#define TS_API_SHRINK_H

#include <stdint.h>

/* The process that has the region: at the start, and in a child of fork. */
void ts_shrink_note_process(void);
/* Two limits of the calling process. They do nothing in a child of vfork, which has its parent's memory. Caller has
   the start mutex. */
void ts_shrink(uint64_t limit); /* bytes of address space; the region and the tables are there */
void ts_limit_data(void);       /* any number of bytes of data; the region is there */

#endif
