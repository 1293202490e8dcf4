/*
 * Describes a pointer or a handle that was refused: for the message, never for a decision. All of it is read without a
 * lock. While other threads work on the slab, the description may be of a moment ago.
 */
#ifndef TS_OBSERVE_DIAGNOSE_H
#define TS_OBSERVE_DIAGNOSE_H

#include "os/os.h"

#include <tslab/tslab.h>

/* Adds what is wrong with it, and in brackets the class and the epoch where they are known. */
void ts_diagnose_pointer(ts_text *line, uintptr_t allocator, const void *p);
void ts_diagnose_handle(ts_text *line, uintptr_t allocator, SlabHandle handle);
/* Adds the brackets alone, of an address in the region. */
void ts_diagnose_details(ts_text *line, const void *p);

#endif
