/* One actor, by short names: for tests of two threads. */
#ifndef SUP_ERRANDS_H
#define SUP_ERRANDS_H

#include "actors.h"

static sup_actor sup_other;

#define other_heap (sup_other.heap)
#define worker_id (sup_other.id)

static inline void meet(void) { sup_actor_meet(&sup_other); }
static inline void begin(void) { sup_actor_begin(&sup_other); }
static inline void let_begin(void (*fn)(void)) { sup_actor_let_begin(&sup_other, fn); }
static inline void let(void (*fn)(void)) { sup_actor_let(&sup_other, fn); }
static inline void join(void) { sup_actor_join(&sup_other); }
static inline void end(void) { sup_actor_end(&sup_other); }

/* Fixtures of a group: all its tests have the other thread, and the library is there before it. */
static inline int sup_errands_start(void **state) {
    (void)state;
    slab_allocator_free(slab_allocator_create());
    begin();
    return 0;
}
static inline int sup_errands_stop(void **state) {
    (void)state;
    end();
    return 0;
}

/* The other thread has begun, and waits: within its errand, or after it. */
static inline void until_worker_waits(void) { sup_until_waits(&worker_id); }

#endif
