/*
 * Two threads that go on by turns, for a test that compiles sources once more with places to stop at: each runs alone to a place that the
 * test has chosen, then the other does. Who waits for the other at a lock, or has ended, lets it go on.
 */
#ifndef SUP_TURNS_H
#define SUP_TURNS_H

#include <sched.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <time.h>

enum { SUP_FIRST, SUP_SECOND, SUP_NEITHER };
enum { SUP_STOPS = 2 };

static _Thread_local int sup_side = SUP_NEITHER;
static struct {
    atomic_int whose;
    atomic_bool over[2];
    unsigned left[2][SUP_STOPS]; /* steps until each stop, counted from the one before */
    unsigned stopped[2];         /* how often it was */
} sup_turns;

static inline bool sup_turn_comes(unsigned naps) {
    for (unsigned i = 0; i < 50 + naps; i++) {
        if (atomic_load(&sup_turns.whose) == sup_side) return true;
        struct timespec t = {0, 50000};
        if (i < 50)
            (void)sched_yield();
        else
            nanosleep(&t, NULL);
    }
    return false;
}

/* The other goes on, until it stops, ends, or waits at a lock that this thread has. */
static inline void sup_turn_pass(void) {
    if (sup_side == SUP_NEITHER || atomic_load(&sup_turns.over[!sup_side])) return;
    atomic_store(&sup_turns.whose, !sup_side);
    if (!sup_turn_comes(5)) atomic_store(&sup_turns.whose, sup_side);
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
    atomic_store(&sup_turns.whose, SUP_FIRST);
    for (int side = 0; side < 2; side++) {
        atomic_store(&sup_turns.over[side], false);
        sup_turns.stopped[side] = 0;
        sup_turns.left[side][1] = SUP_NO_STOP;
    }
    sup_turns.left[SUP_FIRST][0] = first;
    sup_turns.left[SUP_FIRST][1] = first_again;
    sup_turns.left[SUP_SECOND][0] = second;
}

static inline void sup_turn_begin(int side) {
    sup_side = side;
    while (!sup_turn_comes(1000)) {
    }
}

static inline void sup_turn_end(void) {
    atomic_store(&sup_turns.over[sup_side], true);
    atomic_store(&sup_turns.whose, !sup_side);
    sup_side = SUP_NEITHER;
}

#endif
