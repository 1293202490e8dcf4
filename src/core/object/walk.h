/* The live objects of an epoch, one after the other. */
#ifndef TS_OBJECT_WALK_H
#define TS_OBJECT_WALK_H

#include "epoch/epoch.h"

/* Shows each live object of the epoch until fn returns false. Returns how many were shown. An object that is
   allocated or dies meanwhile is shown or not. Takes a lock for large objects only. Cost: a look at each unit that
   was ever used. */
size_t ts_epoch_walk(uintptr_t allocator, EpochId epoch, bool (*fn)(void *, size_t, void *), void *arg);

#endif
