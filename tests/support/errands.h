/* A second thread that runs what it is told: for tests in which two threads meet at a chosen moment. */
#ifndef HEAP_TEST_ERRANDS_H
#define HEAP_TEST_ERRANDS_H

#include "check.h"
#include "proc.h"

#include "ownership/heap.h"

#include <pthread.h>

static pthread_barrier_t meeting;
static void (*errand)(void);
static pthread_t worker;
static ts_heap *other_heap;   /* the worker's */
static atomic_long worker_id; /* 0: it has not begun with the errand */

static inline void meet(void) { (void)pthread_barrier_wait(&meeting); }

static void *work(void *argument) {
    other_heap = ts_heap_mine();
    meet();
    for (;;) {
        meet();
        if (!errand) {
            return argument;
        }
        atomic_store(&worker_id, sup_thread_id());
        errand();
        meet();
    }
}

/* Once it returns the worker rests, so that what checks the whole structure finds nothing half made. */
static inline void begin(void) {
    SUP_CHECK(pthread_barrier_init(&meeting, NULL, 2) == 0, "pthread_barrier_init");
    SUP_CHECK(pthread_create(&worker, NULL, work, NULL) == 0, "pthread_create");
    meet();
}

/* The other thread begins with it, and this one goes on until meet(). NULL: it ends. */
static inline void let_begin(void (*fn)(void)) {
    errand = fn;
    atomic_store(&worker_id, 0);
    meet();
}

/* The other thread has begun, and waits: within its errand, or after it. */
static inline void until_it_waits(void) { sup_until_waits(&worker_id); }

static inline void let(void (*fn)(void)) {
    let_begin(fn);
    meet();
}

static inline void join(void) {
    SUP_CHECK(pthread_join(worker, NULL) == 0, "pthread_join");
    pthread_barrier_destroy(&meeting);
}

static inline void end(void) {
    let_begin(NULL);
    join();
}

#endif
