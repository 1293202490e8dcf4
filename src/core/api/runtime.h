/* Bringing the process-wide structures up, and the records of allocators. */
#ifndef TS_API_RUNTIME_H
#define TS_API_RUNTIME_H

#include "base/base.h"
#include "core/read.h"
#include "domain/domain.h"
#include "epoch/epoch.h"
#include "supply/supply.h"

#include <tslab/tslab.h>

#include <errno.h>

/* Makes sure that the region and the tables exist. *first: this call has made them. false: errno is ENOMEM; the call
   may be repeated. */
bool ts_runtime_start(bool *first);
/* Whether the region and the tables exist. Takes no lock. */
bool ts_runtime_started(void);

/* The start mutex: everything begins under it, and no fork meets it taken. No other code of the program runs while it
   is held. */
void ts_runtime_lock(void);
void ts_runtime_unlock(void);

/* Whether TSLAB_SHM asks for the statistics page. */
bool ts_settings_want_page(void);
/* Whether the calling process has a region of its own. A child of vfork has limits of its own, and its parent's
   memory. Caller has the start mutex. */
bool ts_runtime_has_region(void);

/* Reads where messages go from the environment; before the first message. */
void ts_messages_begin(void);

/* Fills in settings. An option of 0 comes from the environment, else it is the default. false: errno is EINVAL,
   `size` is less than a size_t. */
bool ts_settings_resolve(const SlabOptions *options, ts_settings *out);

/* Makes the thread of the option `background`, if there is none. A failure is reported once, and changes nothing
   else. */
void ts_background_start(void);
/* In a child of fork, at the end of the outermost fork. */
void ts_background_fork_child(void);

/* Finds the NUMA nodes of the machine (region/home.h). Returns whether there are several. */
bool ts_runtime_start_homes(void);
/* NULL: errno says why. */
ts_allocator *ts_allocator_make(const ts_settings *settings);
void ts_allocator_end(ts_allocator *allocator);

/* The default allocator, for an allocation outside of any domain. NULL: errno says why. */
SlabAllocator *ts_outside_of_domains(const void *caller);

/* The epoch of the process's malloc, which does not end; EPOCH_NONE: there is none. Written once. */
extern TS_HIDDEN _Atomic EpochId ts_kept_epoch;

/* NULL: there is none such; errno is EINVAL. */
static inline ts_allocator *ts_api_find(const SlabAllocator *allocator) {
    ts_allocator *a = ts_allocator_find(ts_token(allocator));
    return a ? a : ts_fail_null(EINVAL);
}
/* As ts_api_find, for calls that use the record itself: another thread may free the allocator meanwhile, and the record
   stays until ts_allocator_unpin. */
ts_allocator *ts_api_find_pinned(const SlabAllocator *allocator);

#endif
