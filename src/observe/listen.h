/*
 * Lines that the library adds to a report of AddressSanitizer. The tool knows which bytes are of no object, and nothing
 * of objects:
 *
 *     tslab: 0x7f1c3720c078 is 8 bytes inside an object of 64 bytes that has ended (class 64, epoch 4194305 "request",
 *            ended)
 *     tslab: its lifetime ended in thread 4711:
 *         #0 0x7f1c3a0b8e12 in epoch_destroy /.../epochs.c:84
 *         ...
 *     tslab: it came from thread 4711:
 *         ...
 *
 * At the end of the process, if an allocator asks for it, lines name the live objects and where they came from.
 */
#ifndef TS_OBSERVE_LISTEN_H
#define TS_OBSERVE_LISTEN_H

#include "memtools/memtools.h"

/* Once, where AddressSanitizer is. The runtime has room for one callback: another that is set later replaces this
   one. */
void ts_listen_start(void);
/* Tells what is known of the object at an address, and nothing where nothing is known. Any thread. */
void ts_listen_tell(const void *at);

#endif
