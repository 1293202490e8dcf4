/*
 * Describes a pointer or a handle that was refused: for the message, never for a decision. All of it is read without a
 * lock. While other threads work on the slab, the description may be of a moment ago.
 */
#ifndef TS_DIAGNOSE_DIAGNOSE_H
#define TS_DIAGNOSE_DIAGNOSE_H

#include "epoch/epoch.h"
#include "os/text.h"

/* Adds what is wrong with it, and in brackets the class and the epoch where they are known. */
void ts_diagnose_pointer(ts_text *line, uintptr_t allocator, const void *p);
/* Adds the brackets alone, of an address in the region. */
void ts_diagnose_details(ts_text *line, const void *p);
void ts_diagnose_handle(ts_text *line, uintptr_t allocator, SlabHandle handle);
/* Adds "class N" and the like. bytes: of an object of a scope slab or of a span. */
void ts_diagnose_kind(ts_text *line, uint32_t kind, uint64_t bytes);

#endif
