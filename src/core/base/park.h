/*
 * Sleeping until a word changes, and waking who sleeps: a futex on Linux; elsewhere, and where it is forbidden, the sleeper
 * looks again after a moment, and waking is nothing. (Not a condition variable: that of glibc before 2.41 can lose a signal.)
 * No cancellation points; errno stays.
 */
#ifndef TS_BASE_PARK_H
#define TS_BASE_PARK_H

#include "base/atomic.h"

/* Sleeps unless the word is another by then. Returns when it was woken, or for no reason. */
void ts_park(_Atomic uint32_t *word, uint32_t while_it_is);
/* Sleeps for a moment, some 50 us and what the system adds: for who waits for a thread that wakes nobody. A yield would not do: it gives
   nothing to threads of lower priority (SCHED_FIFO), of which that may be one. */
void ts_nap(void);
/* Wakes one thread that sleeps at the word, if any does: after the word was changed. */
void ts_unpark(_Atomic uint32_t *word);

#endif
