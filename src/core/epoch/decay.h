/*
 * Memory of closed epochs and of bins at rest goes back, in calls that come later: the core has no thread of its own.
 *
 *  1. A slab of a closed epoch gives back the pages in which no live object lies: some 10 seconds after the close, and
 *     again when the epoch is twice, four times, ... as old. One slow call in eight (end.c) does a piece of a pass over
 *     all units (decay.c).
 *  2. A bin in which its thread has allocated nothing for 5 to 10 seconds lets go of its magazine and its empty slabs.
 *     So an open epoch whose objects were all freed keeps no memory. Maintenance that finds the thread at rest asks for
 *     that at once (cache/maintain.c).
 *
 * Without closed epochs that have live objects, and without churn blocks of the thread, a look costs reading the clock.
 */
#ifndef TS_EPOCH_DECAY_H
#define TS_EPOCH_DECAY_H

#include "epoch/epoch.h"

/* An epoch was closed, and has live objects. Any thread calls it. */
void ts_decay_note_closed(void);
/* Does a piece of the work that is due. Holds nothing. */
void ts_decay_look(void);
/* Does all of the work that is due, until that time by ts_os->wall_ns. Holds nothing. */
void ts_decay_settle(uint64_t until);
void ts_decay_fork_child(void);

#endif
