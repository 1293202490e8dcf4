/*
 * Two threads that go on by turns, for a test that compiles sources once more with places to stop at: each runs alone to a place that the
 * test has chosen, then the other does. Who waits for the other at a lock, or has ended, lets it go on.
 */
#ifndef SUP_TURNS_H
#define SUP_TURNS_H

#include <pthread.h>
#include <stdbool.h>
#include <time.h>

enum { SUP_FIRST, SUP_SECOND, SUP_NEITHER };
enum { SUP_STOPS = 2 };
#define SUP_TURN_NS 1000000 /* after which it is taken that the other waits for this thread */

static _Thread_local int sup_side = SUP_NEITHER;
static pthread_mutex_t sup_turn_lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t sup_turn_changed = PTHREAD_COND_INITIALIZER;
static struct {
    int whose; /* guarded by the lock, as the next */
    bool begun[2], over[2];
    unsigned left[2][SUP_STOPS]; /* steps until each stop, counted from the one before */
    unsigned stopped[2];         /* how often it was */
} sup_turns;

/* The other goes on, until it stops, ends, or waits at a lock that this thread has. A thread that is made late is waited for. */
static inline void sup_turn_pass(void) {
    struct timespec until;
    if (sup_side == SUP_NEITHER) return;
    (void)pthread_mutex_lock(&sup_turn_lock);
    while (!sup_turns.begun[!sup_side]) (void)pthread_cond_wait(&sup_turn_changed, &sup_turn_lock);
    if (!sup_turns.over[!sup_side]) {
        sup_turns.whose = !sup_side;
        (void)pthread_cond_broadcast(&sup_turn_changed);
        (void)clock_gettime(CLOCK_REALTIME, &until);
        until.tv_nsec += SUP_TURN_NS;
        until.tv_sec += until.tv_nsec / 1000000000;
        until.tv_nsec %= 1000000000;
        while (sup_turns.whose != sup_side)
            if (pthread_cond_timedwait(&sup_turn_changed, &sup_turn_lock, &until) != 0) sup_turns.whose = sup_side;
    }
    (void)pthread_mutex_unlock(&sup_turn_lock);
}

static inline void sup_turn_step(void) {
    if (sup_side == SUP_NEITHER || sup_turns.stopped[sup_side] == SUP_STOPS) return;
    if (sup_turns.left[sup_side][sup_turns.stopped[sup_side]]-- != 0) return;
    sup_turns.stopped[sup_side]++;
    sup_turn_pass();
}

#define SUP_NO_STOP (~0u)

/* Before either begins: where they stop. */
static inline void sup_turns_start(unsigned first, unsigned first_again, unsigned second) {
    sup_turns.whose = SUP_FIRST;
    for (int side = 0; side < 2; side++) {
        sup_turns.begun[side] = sup_turns.over[side] = false;
        sup_turns.stopped[side] = 0;
        sup_turns.left[side][1] = SUP_NO_STOP;
    }
    sup_turns.left[SUP_FIRST][0] = first;
    sup_turns.left[SUP_FIRST][1] = first_again;
    sup_turns.left[SUP_SECOND][0] = second;
}

static inline void sup_turn_begin(int side) {
    sup_side = side;
    (void)pthread_mutex_lock(&sup_turn_lock);
    sup_turns.begun[side] = true;
    (void)pthread_cond_broadcast(&sup_turn_changed);
    while (sup_turns.whose != side && !sup_turns.over[!side])
        (void)pthread_cond_wait(&sup_turn_changed, &sup_turn_lock);
    (void)pthread_mutex_unlock(&sup_turn_lock);
}

static inline void sup_turn_end(void) {
    (void)pthread_mutex_lock(&sup_turn_lock);
    sup_turns.over[sup_side] = true;
    sup_turns.whose = !sup_side;
    (void)pthread_cond_broadcast(&sup_turn_changed);
    (void)pthread_mutex_unlock(&sup_turn_lock);
    sup_side = SUP_NEITHER;
}

#endif
