/*
 * For a test that compiles a source of the library once more, with a place to stop at before every load of a shared word:
 * included after all headers, whose inline functions stay as they are, and before that source. The test defines step().
 */
#ifndef SUP_STEPS_H
#define SUP_STEPS_H

#include "base/atomic.h"

static void step(void);

#undef ts_load_relaxed
#undef ts_load_acquire
#define ts_load_relaxed(p) (step(), atomic_load_explicit((p), memory_order_relaxed))
#define ts_load_acquire(p) (step(), atomic_load_explicit((p), memory_order_acquire))

#endif
