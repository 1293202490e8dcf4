/* The ends of epochs, and the work that is due after one (end.c). */
#ifndef TS_EPOCH_END_H
#define TS_EPOCH_END_H

#include "epoch/epoch.h"

/* false: there is no such epoch that is ACTIVE. */
bool ts_epoch_close(ts_allocator *allocator, EpochId id);
bool ts_epoch_destroy(ts_allocator *allocator, EpochId id);
/* As both, for a caller that has the lock, which is released, and nothing else. The epoch is ACTIVE, second: in any
   state. The third comes before an end, without the lock: a tool wants to know the call, a record resident memory. */
void ts_epoch_close_locked(ts_epoch *epoch);
void ts_epoch_destroy_locked(ts_epoch *epoch);
void ts_epoch_note_call(const ts_allocator *allocator, EpochId id);
/* Kills all objects. The epoch stays ACTIVE under its id. units_freed: units of slabs and spans that are retained. */
bool ts_epoch_reset(ts_allocator *allocator, EpochId id, uint64_t *units_freed);
/* Takes a pin off that a close or a spill has put on. While there is one no block of the epoch ends. */
void ts_epoch_unpin(ts_epoch *epoch);
/* Ends a CLOSING epoch in which nothing is left. */
void ts_epoch_finish(ts_epoch *epoch, EpochId id);
/* Ends each CLOSING epoch of the allocator, NULL: of all allocators, in which nothing is left. The thread that took the
   last slab of such an epoch has noted it, but may not have come to it. Holds nothing. */
void ts_epoch_finish_over(const ts_allocator *allocator);
/* Does what this thread has noted: epochs that are drained, and retained memory beyond a limit. Holds nothing. */
void ts_epoch_settle(void);
static inline bool ts_epoch_is_anything_noted(void) {
    return ts_thread.drained_count != 0 || ts_thread.settle != NULL || ts_thread.drain != NULL;
}
static inline void ts_epoch_settle_noted(void) {
    if (TS_UNLIKELY(ts_epoch_is_anything_noted())) ts_epoch_settle();
}
/* Called at the end of an epoch that released this many units. */
void ts_epoch_settle_end(uint64_t released);
/* The epoch is CLOSING, and nothing is left in it: it ends as soon as a call asks for its state. Takes no lock. */
bool ts_epoch_is_over(const ts_epoch *epoch, EpochId id);
/* Destroys all epochs of an allocator. */
void ts_epoch_destroy_all(ts_allocator *allocator);
/* Ends what threads that are not in the child were taking apart, and lets go of their pins. */
void ts_epoch_fork_child(void);

#endif
