/* Before each look of the hard mode at a shared word or at an object's bytes; hard_steps_test.c stops there. */
#ifndef MALLOC_HARD_STEPS_PARTS_H
#define MALLOC_HARD_STEPS_PARTS_H

#include "base/base.h"

void hard_step(void);

#undef ts_load_relaxed
#undef ts_load_acquire
#undef ts_load_seq
#define ts_load_relaxed(p) (hard_step(), atomic_load_explicit((p), memory_order_relaxed))
#define ts_load_acquire(p) (hard_step(), atomic_load_explicit((p), memory_order_acquire))
#define ts_load_seq(p) (hard_step(), atomic_load_explicit((p), memory_order_seq_cst))

#endif
