/* The ends of epochs, and what is due after one (end.c). */
#ifndef TS_EPOCH_END_H
#define TS_EPOCH_END_H

#include "epoch/epoch.h"

bool ts_epoch_close(ts_allocator *allocator, EpochId id);
bool ts_epoch_destroy(ts_allocator *allocator, EpochId id);
/* Kills all objects, the epoch stays ACTIVE under its id. units_freed: of slabs and spans that are warm now. */
bool ts_epoch_reset(ts_allocator *allocator, EpochId id, uint64_t *units_freed);
/* Of a reset: the epoch has no spans any more, and is counted as one that never had any. Caller has the lock. */
void ts_epoch_forget_spans(ts_epoch *epoch);
/* No block of the epoch ends until ts_epoch_unpin; *blocks is the list as it is now, which may be walked meanwhile. As
   ts_epoch_close does on its way; for tests. NULL: no such epoch. */
ts_epoch *ts_epoch_pin(ts_allocator *allocator, EpochId id, ts_block **blocks);
void ts_epoch_unpin(ts_epoch *epoch);
/* Ends a CLOSING epoch in which nothing is left. */
void ts_epoch_finish(ts_epoch *epoch, EpochId id);
/* Ends those of the allocator's CLOSING epochs in which nothing is left: each was noted by who took its last slab, unless his thread has
   not come to it. Holds nothing. */
void ts_epoch_finish_over(const ts_allocator *allocator);
/* What ts_note_drained noted, and what is over its limit. Holds nothing. */
void ts_epoch_settle(void);
static inline bool ts_epoch_is_anything_noted(void) {
    return ts_thread.drained_count != 0 || ts_thread.settle != NULL || ts_thread.drain != NULL;
}
/* The same where there mostly is nothing. */
static inline void ts_epoch_settle_noted(void) {
    if (TS_UNLIKELY(ts_epoch_is_anything_noted())) ts_epoch_settle();
}
/* At the end of an epoch that made so many units warm. */
void ts_epoch_settle_end(uint64_t released);
/* CLOSING, and nothing is left in it: it ends as soon as somebody asks for its state. Takes no lock. */
bool ts_epoch_is_over(const ts_epoch *epoch, EpochId id);
/* Destroys all epochs of an allocator. */
void ts_epoch_destroy_all(ts_allocator *allocator);
/* Lets go of the pins of threads that are not in the child. */
void ts_epoch_fork_child(void);

#endif
