/* Bringing the process-wide structures up, and the records of allocators. */
#ifndef TS_API_RUNTIME_H
#define TS_API_RUNTIME_H

#include "domain/domain.h"
#include "epoch/epoch.h"
#include "supply/allocator.h"

#include <tslab/tslab.h>

/* Makes sure that the region and the tables exist. false with errno ENOMEM; may be tried again. */
bool ts_runtime_start(void);
/* The same without what may allocate by the process's malloc (private.h). */
bool ts_runtime_start_bare(void);
/* Whether they do. Takes no lock. */
bool ts_runtime_started(void);

/* The lock under which all that is begun, which no fork meets. Not to be held while other code of the program runs. */
void ts_runtime_lock(void);
void ts_runtime_unlock(void);

/* Where messages go, if the environment says so; before the first. */
void ts_messages_begin(void);

/* TSLAB_HARDEN, as ts_harden (private.h). Not 0: misuse stops the program unless it is told otherwise, and libtslab-malloc is
   hard (malloc/hard.h). */
uint32_t ts_settings_harden(void);
/* What is left 0 in `options` from the environment, else the default. false with EINVAL: `size` is less than a size_t. */
bool ts_settings_resolve(const SlabOptions *options, ts_settings *out);

/* The nodes of the machine are known from here on (region/home.h). Whether there are several. */
bool ts_runtime_start_homes(void);
/* NULL with errno. */
ts_allocator *ts_allocator_make(const ts_settings *settings);
void ts_allocator_end(ts_allocator *allocator);

/* The default allocator, for an allocation outside of any domain. NULL with errno. */
SlabAllocator *ts_outside_of_domains(const void *caller);

static inline uintptr_t ts_token(const SlabAllocator *allocator) { return (uintptr_t)allocator; }
static inline SlabAllocator *ts_public(uintptr_t token) { return (SlabAllocator *)token; }

#endif
