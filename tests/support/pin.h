/* Pins an epoch, as a spill does: while it is pinned no block of it ends. */
#ifndef TEST_PIN_H
#define TEST_PIN_H

#include "epoch/epoch.h"

/* *blocks: its list of blocks. NULL: there is no such epoch. */
static inline ts_epoch *sup_epoch_pin(ts_allocator *allocator, EpochId id, ts_block **blocks) {
    ts_epoch *epoch = ts_epoch_find_locked(allocator, id);
    *blocks = NULL;
    if (!epoch) return NULL;
    epoch->has_more = true;
    epoch->pins++;
    *blocks = ts_load_relaxed(&epoch->blocks);
    ts_epoch_release(epoch);
    return epoch;
}

#endif
