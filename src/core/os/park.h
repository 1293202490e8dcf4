/*
 * Sleeping until a word changes, and waking a sleeper. It is a futex. Where a filter forbids futexes,
 * the sleeper looks again after a moment, and waking does nothing. (A condition variable would not do:
 * that of glibc before 2.41 can lose a signal.) There are no cancellation points, and errno stays.
 */
#ifndef TS_OS_PARK_H
#define TS_OS_PARK_H

#include "base/atomic.h"

/* Sleeps, unless the word has changed by then. Returns when it was woken, or for no reason. */
void ts_park(_Atomic uint32_t *word, uint32_t while_it_is);
/* Sleeps some 50 us, and the delay that the system adds. It is for waiting for a thread that wakes no sleeper. A
   yield would not do: it gives the processor to no thread of lower priority (SCHED_FIFO), and the other thread may
   have one. */
void ts_nap(void);
/* Wakes one thread that sleeps at the word, if there is one. The caller has changed the word before. */
void ts_unpark(_Atomic uint32_t *word);

#endif
