/*
 * Describes a pointer or a handle that was refused: for the message, never for a decision. All of it is read without a
 * lock. While other threads work on the slab, the description may be of a moment ago.
 */
#ifndef TS_DIAGNOSE_DIAGNOSE_H
#define TS_DIAGNOSE_DIAGNOSE_H

#include "base/line.h"
#include "epoch/epoch.h"

/* Adds what is wrong with it, and in brackets the class and the epoch where they are known. */
void ts_diagnose_pointer(ts_line *line, uintptr_t allocator, const void *p);
/* Adds the brackets alone, of an address in the region. */
void ts_diagnose_details(ts_line *line, const void *p);
void ts_diagnose_handle(ts_line *line, uintptr_t allocator, SlabHandle handle);
/* Adds the epoch's id, its label while it is known, and what became of it. */
void ts_diagnose_epoch(ts_line *line, EpochId id);
/* Adds "class N" and the like. bytes: of an object of a scope slab or of a span. */
void ts_diagnose_kind(ts_line *line, uint32_t kind, uint64_t bytes);
/* Whether the value named an entry of the table once, which has ended. */
bool ts_diagnose_ended(const ts_table *table, uint64_t id);
/* Whether the id has ended, and its entry has had no use since. */
bool ts_diagnose_was_last(const ts_table *table, uint64_t id);

#endif
