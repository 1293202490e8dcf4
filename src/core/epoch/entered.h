/* The domains that a thread is inside of, for the floors between epochs and domains. */
#ifndef TS_EPOCH_ENTERED_H
#define TS_EPOCH_ENTERED_H

#include "ownership/ownership.h"

/* One of them; lives in the lines of the thread's heap, and is linked from ts_thread.domain. */
typedef struct ts_domain_scope {
    struct ts_domain_scope *outer;
    uint64_t domain; /* id; the domain itself may be gone */
    EpochId epoch;
    uintptr_t allocator;
    ts_scope_block *block; /* the domain's; a hint */
    bool captures;         /* the domain's */
} ts_domain_scope;

#endif
