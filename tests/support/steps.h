/*
 * For a test that compiles a source of the library once more: before every load of a shared word that source calls
 * step(). Included after all headers, whose inline functions stay as they are, and before that source.
 */
#ifndef SUP_STEPS_H
#define SUP_STEPS_H

#include "base/base.h"
#include "stops.h"

/* A test that stops under a condition defines SUP_OWN_STEP, and step(). */
#ifdef SUP_OWN_STEP
static void step(void);
#else
static sup_stop at_step;
static inline void step(void) { sup_stop_here(&at_step); }
#endif

#undef ts_load_relaxed
#undef ts_load_acquire
#define ts_load_relaxed(p) (step(), atomic_load_explicit((p), memory_order_relaxed))
#define ts_load_acquire(p) (step(), atomic_load_explicit((p), memory_order_acquire))

#endif
