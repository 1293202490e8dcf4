/*
 * What is left behind goes, in the calls that come later (time passes only in those):
 *
 *  1. Slabs of closed epochs give back the pages in which no live object lies: some 10 seconds after the close, and
 *     again when the epoch is twice, four times, ... as old. In passes over the units, by whichever thread calls: a
 *     piece of one a look (the constants in decay.c), and one slow call in eight looks (end.c).
 *  2. A bin of the calling thread in which it has allocated nothing for 5 to 10 seconds lets go of its magazine and
 *     its empty slabs: so an open epoch whose objects were all freed keeps no memory. At once if a visitor has asked for it, who
 *     has found it at rest (cache/maintain.h).
 *
 * Nothing happens where no epoch was closed with live objects, and the thread has no churn blocks: then a look costs
 * reading the clock.
 */
#ifndef TS_EPOCH_DECAY_H
#define TS_EPOCH_DECAY_H

#include "epoch/epoch.h"

/* An epoch was closed, and has live objects. Any thread. */
void ts_decay_note_closed(void);
/* A piece of what is due, if anything is. Holds nothing. */
void ts_decay_look(void);
/* All that is due, until the time is over (as ts_os->wall_ns has it). Holds nothing. */
void ts_decay_settle(uint64_t until);
void ts_decay_fork_child(void);

#endif
