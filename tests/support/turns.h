/*
 * Two threads that go on by turns, for a test that compiles sources once more with places to stop at: each runs alone
 * to a place that the test has chosen, then the other does. A thread that waits for the other at a lock, or has ended,
 * lets it go on. That one waits is seen by its state, not by the time: beside other load a thread may rest for long
 * before it gets a processor.
 */
#ifndef SUP_TURNS_H
#define SUP_TURNS_H

#include <pthread.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

enum { SUP_FIRST, SUP_SECOND, SUP_NEITHER };
enum { SUP_STOPS = 2 };
#define SUP_TURN_NS 500000       /* between two looks whether the other waits for this thread */
#define SUP_TURN_RAN_NS 20000000 /* a thread that has run for so long waits as well, without sleeping */

static _Thread_local int sup_side = SUP_NEITHER;
static pthread_mutex_t sup_turn_lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t sup_turn_changed = PTHREAD_COND_INITIALIZER;
static struct {
    int whose; /* guarded by the lock, as the next */
    bool over[2];
    long id[2];                  /* 0: has not begun */
    clockid_t clock[2];          /* of the time that it runs */
    unsigned left[2][SUP_STOPS]; /* steps until each stop, counted from the one before */
    unsigned stopped[2];         /* how often it was */
} sup_turns;

static inline bool sup_thread_sleeps(long id) {
    char path[64], line[512] = "";
    (void)snprintf(path, sizeof path, "/proc/self/task/%ld/stat", id);
    FILE *file = fopen(path, "r");
    if (!file) return true; /* nobody can say */
    bool read = fgets(line, sizeof line, file) != NULL;
    (void)fclose(file);
    const char *name_ends = read ? strrchr(line, ')') : NULL;
    return !name_ends || strncmp(name_ends, ") S", 3) == 0;
}

static inline long long sup_thread_ran_ns(clockid_t clock) {
    struct timespec t = {0, 0};
    (void)clock_gettime(clock, &t);
    return (long long)t.tv_sec * 1000000000 + t.tv_nsec;
}

/* Until it is this thread's turn, or the other has slept at two looks in turn, or has run for long. Caller has the
   lock, which is free during a look: so the other does not sleep at that one. */
static inline void sup_turn_wait(void) {
    int me = sup_side, other = !sup_side;
    long long ran = -1;
    for (unsigned slept = 0; slept < 2 && sup_turns.whose != me;) {
        struct timespec until;
        (void)clock_gettime(CLOCK_REALTIME, &until);
        until.tv_nsec += SUP_TURN_NS;
        until.tv_sec += until.tv_nsec / 1000000000;
        until.tv_nsec %= 1000000000;
        if (pthread_cond_timedwait(&sup_turn_changed, &sup_turn_lock, &until) == 0 || sup_turns.whose == me) continue;
        long id = sup_turns.id[other];
        clockid_t clock = sup_turns.clock[other];
        if (id == 0) continue; /* it will begin */
        (void)pthread_mutex_unlock(&sup_turn_lock);
        long long now = sup_thread_ran_ns(clock);
        if (ran < 0) ran = now;
        slept = sup_thread_sleeps(id) ? slept + 1 : 0;
        if (now - ran >= SUP_TURN_RAN_NS) slept = 2;
        (void)pthread_mutex_lock(&sup_turn_lock);
    }
    sup_turns.whose = me;
}

/* The other goes on, until it stops, ends, or waits at a lock that this thread has. */
static inline void sup_turn_pass(void) {
    if (sup_side == SUP_NEITHER) return;
    (void)pthread_mutex_lock(&sup_turn_lock);
    if (!sup_turns.over[!sup_side]) {
        sup_turns.whose = !sup_side;
        (void)pthread_cond_broadcast(&sup_turn_changed);
        sup_turn_wait();
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
        sup_turns.over[side] = false;
        sup_turns.id[side] = 0;
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
    sup_turns.id[side] = syscall(SYS_gettid);
    (void)pthread_getcpuclockid(pthread_self(), &sup_turns.clock[side]);
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
