/* Threads that run functions by order, one after the other: for tests in which threads meet at a chosen moment. */
#ifndef SUP_ACTORS_H
#define SUP_ACTORS_H

#include "check.h"
#include "proc.h"

#include "ownership/ownership.h"

#include <pthread.h>

typedef struct sup_actor {
    pthread_t thread;
    pthread_barrier_t meeting; /* of it and the thread that gives it orders */
    void (*fn)(void);          /* NULL: it ends */
    ts_heap *heap;             /* its own */
    atomic_long id;            /* of the thread; 0: it has not begun with its order */
} sup_actor;

static _Thread_local sup_actor *sup_me; /* NULL: this thread is none */

static inline void sup_actor_meet(sup_actor *a) { (void)pthread_barrier_wait(&a->meeting); }

static void *sup_actor_run(void *argument) {
    sup_me = argument;
    sup_me->heap = ts_heap_mine();
    sup_actor_meet(sup_me);
    for (;;) {
        sup_actor_meet(sup_me);
        if (!sup_me->fn) return NULL;
        atomic_store(&sup_me->id, sup_thread_id());
        sup_me->fn();
        sup_actor_meet(sup_me);
    }
}

/* Once it returns the actor rests, so that a walk of the whole structure finds nothing half made. */
static inline void sup_actor_begin(sup_actor *a) {
    SUP_CHECK(pthread_barrier_init(&a->meeting, NULL, 2) == 0, "pthread_barrier_init");
    SUP_CHECK(pthread_create(&a->thread, NULL, sup_actor_run, a) == 0, "pthread_create");
    sup_actor_meet(a);
}

/* It begins with fn, and this thread goes on until sup_actor_meet. NULL: it ends. */
static inline void sup_actor_let_begin(sup_actor *a, void (*fn)(void)) {
    a->fn = fn;
    atomic_store(&a->id, 0);
    sup_actor_meet(a);
}

static inline void sup_actor_let(sup_actor *a, void (*fn)(void)) {
    sup_actor_let_begin(a, fn);
    sup_actor_meet(a);
}

static inline void sup_actor_join(sup_actor *a) {
    SUP_CHECK(pthread_join(a->thread, NULL) == 0, "pthread_join");
    (void)pthread_barrier_destroy(&a->meeting);
}

static inline void sup_actor_end(sup_actor *a) {
    sup_actor_let_begin(a, NULL);
    sup_actor_join(a);
}

#endif
