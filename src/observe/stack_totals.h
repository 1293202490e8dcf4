/*
 * All allocations by call stack: the sampled stacks of objects that are live and of those that were.
 *
 * A table of the process with TS_STACK_TOTALS rows, each of one stack and label of one allocator. A row is found by
 * the hash of the three among TS_TOTAL_PROBES places. When half of the table is used, new stacks get rows without
 * their labels (as TS_LABEL_OTHER), so a program that makes up a label for every request does not use it up. Samples
 * that find no row are summed up for their allocator. A row whose allocator has ended is used again.
 *
 * Two threads that bring a new stack at once may make a row each: the sum of both is right.
 *
 * A thread that makes the turn of a row odd, by a compare-and-swap, writes the row. The row then is that stack's as
 * long as its allocator lives: any thread that is in a call of the allocator adds to its counters. No lock.
 */
#ifndef TS_OBSERVE_STACK_TOTALS_H
#define TS_OBSERVE_STACK_TOTALS_H

#include "observe/stacks.h"

#include <tslab/stats.h>

#define TS_STACK_TOTALS 4096u
#define TS_TOTAL_PROBES 32u
#define TS_LABEL_OF_MANY "(other)"

/* Bytes of the table, and where it is: zeros, once, before anything else here. */
size_t ts_stack_totals_bytes(void);
void ts_stack_totals_start(void *at);
/* Adds an object that stands for so many. */
void ts_stack_totals_add(ts_allocator *allocator, const char label[SLAB_LABEL_BYTES], const uint64_t *frame,
                         unsigned frame_count, double objects, uint64_t bytes);
/* Every row of the allocator; then, as one without frames, what found none. Returns how many there are. Any thread,
   without a lock. */
size_t ts_stack_totals_read(const ts_allocator *allocator, uintptr_t token, SlabStackTotal *out, size_t capacity);
void ts_stack_totals_fork_child(void);

#endif
