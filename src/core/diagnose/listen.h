/*
 * What the library adds to a report of AddressSanitizer, which knows nothing of objects but which bytes are none:
 *
 *     tslab: 0x7f1c3720c078 is 8 bytes inside an object of 64 bytes that has ended (class 64, epoch 4194305 "request",
 *            ended)
 *     tslab: its lifetime ended in thread 4711:
 *         #0 0x7f1c3a0b8e12 in epoch_destroy /.../epochs.c:84
 *         ...
 *     tslab: it came from thread 4711:
 *         ...
 *
 * And at the end of the process, where an allocator asks for it, what is live and where it came from.
 */
#ifndef TS_DIAGNOSE_LISTEN_H
#define TS_DIAGNOSE_LISTEN_H

#include "memtools/origin.h"

/* Once, where AddressSanitizer is. The runtime has room for one callback: who sets another later gets no such lines. */
void ts_listen_start(void);
/* Of the place at an address: what is known of the object there. Nothing where nothing is known. Any thread. */
void ts_listen_tell(const void *at);
/* What is live in allocators that ask for it is told when the process ends. */
void ts_listen_for_leaks(void);

#endif
