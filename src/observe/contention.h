/*
 * Contention by label: how often threads wait for locks, and repeat compare-and-swaps, by the label of the epoch in
 * which they work. It is counted for the whole process since its start. A thread counts when it has waited or has to
 * try again, so no other operation pays for it.
 *
 * A thread works in its innermost domain's epoch, or, outside of domains, in the epoch in which it allocated last.
 *
 * Invariants
 *  1. A row belongs to the label whose hash stands in it. The thread that claims the row writes the hash, once.
 *  2. A row is shown when `ready` is set, which publishes its label. Its counters only rise.
 *  3. Counting takes no lock, waits for nothing and needs no memory: it runs inside of locks and in signal handlers.
 */
#ifndef TS_OBSERVE_CONTENTION_H
#define TS_OBSERVE_CONTENTION_H

#include "base/attr.h"

#include <tslab/tslab.h>

#include <stdint.h>

#define TS_CONTENTION_LABELS 32u
#define TS_CONTENTION_ROWS (TS_CONTENTION_LABELS + 1) /* the last: all labels that found no row */

typedef struct ts_contention {
    char label[SLAB_LABEL_BYTES]; /* "": epochs without one, or threads in none */
    uint32_t is_other, unused;
    uint64_t lock_waits, cas_retries;
} ts_contention;

/* Waits and repeats are counted from here on. */
void ts_contention_start(void);
/* The rows that have counted anything. Returns how many. */
unsigned ts_contention_rows(ts_contention out[TS_CONTENTION_ROWS]);

#endif
