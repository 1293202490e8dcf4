/* Limits on what epochs hold, and the accounts that count it (supply/account.h). */
#ifndef TS_EPOCH_LIMIT_H
#define TS_EPOCH_LIMIT_H

#include "epoch/epoch.h"

/* Takes units of the epoch's account. If a limit refuses them, the empty slabs that this thread's bins keep in the
   epoch go back first. false with ENOMEM: a limit still refuses; a message says so, once a second at most. Holds
   nothing. */
bool ts_limit_take(ts_account *account, uint64_t units, EpochId id);
/* The epoch's account, with a reference; NULL: it has none, or has ended. */
ts_account *ts_limit_hold(ts_epoch *epoch, EpochId id);
/* The account that the epoch has at the moment, read without its lock; NULL: none. */
ts_account *ts_epoch_account(const ts_epoch *epoch);
/* false with errno: EINVAL no such epoch, ENOMEM. */
bool ts_limit_set(ts_allocator *allocator, EpochId id, size_t bytes);
/* New memory of the epoch is to be of that NUMA node's home (supply/nodes.h); TS_HOMES: as the allocator's option says.
   false with errno, as ts_limit_set. */
bool ts_limit_bind(ts_allocator *allocator, EpochId id, unsigned home);
/* Makes one epoch the child of another, whose limit then counts both. EPOCH_NONE: of none. false with errno. */
bool ts_limit_link(ts_allocator *allocator, EpochId child, EpochId parent);
/* Makes the epoch the child of none, if it has an account. Caller has its lock. */
void ts_limit_leave(const ts_epoch *epoch);
/* Bytes held by the epoch, children included. */
size_t ts_limit_held(ts_allocator *allocator, EpochId id);

#endif
