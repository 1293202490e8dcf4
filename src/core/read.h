/*
 * What src/observe reads of the core without knowing its structures. Nothing here changes what it reads, takes a lock
 * or waits; any thread may call it, in a signal handler, too.
 */
#ifndef TS_READ_H
#define TS_READ_H

#include "base/base.h"

#include <tslab/tslab.h>

typedef struct ts_allocator ts_allocator;

static inline uintptr_t ts_token(const SlabAllocator *allocator) { return (uintptr_t)allocator; }
static inline SlabAllocator *ts_public(uintptr_t token) { return (SlabAllocator *)token; }

/* ---- allocators, in supply/record.c ------------------------------------------------------------------------------ */

/* The record of an allocator. NULL: there is none such; errno is EINVAL. */
ts_allocator *ts_read_find(const SlabAllocator *allocator);
/* The same until ts_read_end: no share of the allocator is dropped, and its record gets no other use. */
ts_allocator *ts_read_begin(const SlabAllocator *allocator);
void ts_read_end(ts_allocator *allocator);
/* The live allocators one by one. *index: 1 at first. NULL: there is no more. */
ts_allocator *ts_read_next(uint32_t *index, uintptr_t *token);
uint64_t ts_read_committed_units(const ts_allocator *allocator);
/* Stacks that were sampled since it was made. */
uint64_t ts_read_stack_samples(const ts_allocator *allocator);
/* One sample in so many bytes; 0: none are taken now. */
uint64_t ts_read_stack_mean(const ts_allocator *allocator);

/* ---- epochs, in epoch/label.c ------------------------------------------------------------------------------------ */

/* The whole label of an epoch, and its state as statistics show it: EPOCH_*. false: it has ended. */
bool ts_read_epoch(ts_allocator *allocator, EpochId id, char label[SLAB_LABEL_BYTES], int32_t *state);
/* The label of the epoch in which the calling thread works: of its innermost domain, or, outside of domains, the one in
   which it allocated last; "": none. The record may have its next use: then the label is of that one. */
void ts_read_thread_label(char label[SLAB_LABEL_BYTES]);
/* Makes of a label what statistics show. Figures are summed up by that, so no two rows look alike. */
#define TS_LABEL_NONE "(none)"   /* epochs without a label */
#define TS_LABEL_OTHER "(other)" /* labels that have no row of their own */
void ts_label_show(char label[SLAB_LABEL_BYTES]);

/* ---- objects, in object/free.c ----------------------------------------------------------------------------------- */

/* Whether it is the allocator of the process's malloc. */
bool ts_read_is_malloc(uintptr_t token);

#endif
