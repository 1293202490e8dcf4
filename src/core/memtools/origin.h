/*
 * Origins of objects: the call stacks where they were allocated, and where their lifetime ended, for the reports of
 * AddressSanitizer. It knows the stacks of its own malloc alone. Memcheck takes stacks by itself (memtools.h). Without
 * AddressSanitizer nothing is kept.
 *
 * A CALL is a stack and a thread. It is taken when the program calls the library, while nothing is held, and is noted
 * of each object that this call allocates or ends. Equal stacks are kept once.
 *
 * Each 16-byte place of the region has a note of the object that began there last. The notes and the stacks are
 * address space without memory at first, as large as the region and 128 MiB. (AddressSanitizer itself has as much for
 * the whole address space.)
 *
 * Another thread may empty the blocks of an ended epoch later. So the end is noted of the epoch, too, by its place in
 * the table.
 */
#ifndef TS_MEMTOOLS_ORIGIN_H
#define TS_MEMTOOLS_ORIGIN_H

#include "base/base.h"

#include <tslab/tslab.h>

#define TS_ORIGIN_FRAMES 22u

typedef struct ts_origin_call {
    uint32_t thread; /* as the system counts; 0: not known */
    unsigned frame_count;
    const void *frame[TS_ORIGIN_FRAMES]; /* return addresses, innermost first */
} ts_origin_call;

typedef struct ts_origin {
    const char *start;
    uint64_t size; /* asked for */
    bool ended;
    uint64_t born_in, ended_in; /* calls; 0: not known */
} ts_origin;

/* Constant after ts_origin_start. */
extern TS_HIDDEN bool ts_origin_is_kept;

/* Once, after the region is there, and after ts_os_stack_prepare. */
void ts_origin_start(void);
/* The stack of the calling thread is that of its calls until it is taken anew. Holding nothing. errno is kept. */
void ts_origin_record(void);
/* As ts_origin_record, for a call that ends the epoch. */
void ts_origin_record_end(EpochId epoch);

/* The object is new; usable: the bytes of its slot. */
void ts_origin_born(const char *p, uint64_t size, uint64_t usable);
void ts_origin_resized(const char *p, uint64_t size);
void ts_origin_ended(const char *p);
/* All objects in the range that have not ended have ended with their epoch. */
void ts_origin_ended_with(const char *at, uint64_t bytes, EpochId epoch);

/* The last object that began at the address or before it, in one unit, or in a span of several. false: none is
   known. */
bool ts_origin_find(const void *at, ts_origin *origin);
/* The next one that begins behind the address, at most `within` bytes away. */
bool ts_origin_find_behind(const void *at, uint64_t within, ts_origin *origin);
/* false: nothing is known of it. */
bool ts_origin_call_of(uint64_t call, ts_origin_call *out);
/* Equal for calls with one stack. */
uint32_t ts_origin_stack_of(uint64_t call);
/* Shows each object that has not ended, with its call. Any thread. Changes that others make meanwhile may be seen or
   not. */
void ts_origin_walk(void (*fn)(void *arg, const ts_origin *origin), void *arg);

#endif
