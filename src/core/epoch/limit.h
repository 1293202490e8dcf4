/* Limits on what epochs hold, and the accounts that count it (supply/account.h). */
#ifndef TS_EPOCH_LIMIT_H
#define TS_EPOCH_LIMIT_H

#include "epoch/epoch.h"

/* Takes units of the account, for an epoch, of which empty slabs that this thread's bins keep are given back if that is needed. false with
   ENOMEM: a limit refuses it, which is told of, once a second at most. Holds nothing. */
bool ts_limit_take(ts_account *account, uint64_t units, EpochId id);
/* The epoch's account, with a reference; NULL: it has none, or has ended. */
ts_account *ts_limit_hold(ts_epoch *epoch, EpochId id);
/* The account that the epoch has now, read without its lock; NULL: none. */
ts_account *ts_epoch_account(const ts_epoch *epoch);
/* false with errno: EINVAL no such epoch, ENOMEM. */
bool ts_limit_set(ts_allocator *allocator, EpochId id, size_t bytes);
/* New memory of the epoch is to be of that home (supply/nodes.h), or of whichever its allocator's option says (TS_HOMES). Likewise. */
bool ts_limit_bind(ts_allocator *allocator, EpochId id, unsigned home);
/* The first is a child's epoch of the second's domain; EPOCH_NONE: of none. false with errno. */
bool ts_limit_link(ts_allocator *allocator, EpochId child, EpochId parent);
/* Of none any more, if it has an account. */
void ts_limit_leave(ts_allocator *allocator, EpochId id);
/* Bytes held by the epoch, children included. */
size_t ts_limit_held(ts_allocator *allocator, EpochId id);

#endif
