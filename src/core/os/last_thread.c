/*
 * What could go wrong: a program whose threads have all ended, the first one by pthread_exit, does not end. libc calls
 * exit(0) when the last thread ends, and counts the library's own threads, which never end. And these block all
 * signals, so that none that is sent to the process reaches it.
 *
 * So each of the library's threads looks, and one that finds no thread of the program makes one more, which calls
 * exit(0). That thread is as one of the program's: with the stack that a program's thread has, and the signals. The
 * library's threads are then beside a program that calls exit, as with any other. With musl the thread that looks
 * calls exit itself, and is the library's no more: its stack is larger than a program's thread has, and musl can make
 * no thread in a child of fork whose leader has ended (up to 1.2.4 it leaves the lock of its list of threads taken).
 *
 *  1. No thread of the program is left: the leader has ended and is a zombie, which stays until the last thread has
 *     ended, and the system has as many threads beside it as are counted here. The system counts a thread of the
 *     program from before it runs until after it has ended. Each one that is counted here is there (last_thread.h). So
 *     while a thread of the program is there, the system has more. The count here is read before the system is asked,
 *     and is the same, unchanged, afterwards (`own` has a number that each change changes).
 *  2. Once none is left, none comes, because nobody is there to make one.
 *  3. One thread at a time claims the end. It looks once more under the claim, which the new thread takes back when it
 *     runs. So another one that claims the end later finds that thread. If a handler of exit ends it (pthread_exit),
 *     the next look makes another one, and exit goes on as in libc.
 *  4. The two looks are one more than 1 needs: /proc was there at the second one, so the link whose target is gone
 *     at the first one tells of the leader. The name of a leader that lives has a target.
 *  5. A thread that forbids itself system calls may hand that down to the library's threads. So they ask the system
 *     nothing while the leader is known to live: its heap's destructor has not run yet (`leader_state`). A leader
 *     without one is not known to live.
 * Without /proc the program stays. In a child of fork, or of a system call, `own` is of another process, and counts
 * for nothing.
 */
#define _GNU_SOURCE
#include "os/os.h"

#include "base/base.h"

#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

/* ---- signals ----------------------------------------------------------------------------------------------- */

/* The signals that a thread of the program blocks: of the last one that has made a thread of the library's. All: none
   has, or that one blocked all. */
#define MASK_WORDS ((_NSIG + 62) / 64)
static _Atomic uint64_t mask[MASK_WORDS] = {UINT64_MAX};

void ts_own_signals_block(void *before) {
    sigset_t all;
    uint64_t word[2][MASK_WORDS] = {{0}};
    (void)sigfillset(&all);
    (void)sigdelset(&all, SIGKILL); /* as the system has it */
    (void)sigdelset(&all, SIGSTOP);
    (void)pthread_sigmask(SIG_SETMASK, &all, before);
    memcpy(word[0], before, _NSIG / 8);
    memcpy(word[1], &all, _NSIG / 8);
    if (memcmp(word[0], word[1], sizeof word[0]) == 0) return; /* a thread of the library's, perhaps */
    for (unsigned i = 0; i < MASK_WORDS; i++) ts_store_relaxed(&mask[i], word[0][i]);
}

static void take_signals(void) {
    sigset_t all;
    uint64_t word[MASK_WORDS];
    for (unsigned i = 0; i < MASK_WORDS; i++) word[i] = ts_load_relaxed(&mask[i]);
    (void)sigfillset(&all);
    memcpy(&all, word, _NSIG / 8);
    (void)pthread_sigmask(SIG_SETMASK, &all, NULL);
}

/* ---- the leader -------------------------------------------------------------------------------------------- */

enum { UNKNOWN, LIVES, ENDS };
static _Atomic uint32_t leader_state;
static _Atomic uint32_t leader_known;
static _Atomic(pthread_t) leader; /* constant once it is known, in each process */
static _Thread_local bool begins; /* its end calls ts_last_thread_ends */

void ts_last_thread_leads(void) {
    ts_store_relaxed(&leader, pthread_self());
    ts_store_relaxed(&leader_state, begins ? LIVES : UNKNOWN);
    ts_store_release(&leader_known, 1); /* partner: is_leader */
}

TS_AT_LOAD static void see_leader(void) {
    if (syscall(SYS_gettid) == (long)getpid()) ts_last_thread_leads();
}

static bool is_leader(void) {
    /* partner: ts_last_thread_leads */
    return ts_load_acquire(&leader_known) && pthread_equal(ts_load_relaxed(&leader), pthread_self());
}

void ts_last_thread_begins(void) {
    begins = true;
    if (ts_load_relaxed(&leader_state) == UNKNOWN && is_leader()) ts_store_relaxed(&leader_state, LIVES);
}

void ts_last_thread_ends(void) {
    if (ts_load_relaxed(&leader_state) == LIVES && is_leader()) ts_store_relaxed(&leader_state, ENDS);
}

/* ---- the library's threads --------------------------------------------------------------------------------- */

/* The process that has them (32 bits), their number (16), and a number that rises with each change (16). */
static _Atomic uint64_t own;
#define OWN_ONE ((uint64_t)1 << 32)
#define OWN_CHANGE ((uint64_t)1 << 48)

void ts_own_threads_count(int more) {
    uint64_t me = (uint32_t)getpid(), before = ts_load_relaxed(&own), after;
    do {
        if ((uint32_t)before == me)
            after = before + OWN_CHANGE + (uint64_t)(int64_t)more * OWN_ONE;
        else
            after = me + OWN_CHANGE + (uint64_t)(more > 0 ? more : 0) * OWN_ONE;
    } while (!atomic_compare_exchange_weak(&own, &before, after));
}

static bool is_none_left(void) {
    struct stat task;
    char name[8];
    uint64_t counted = ts_load_seq(&own);
    if (stat("/proc/self/task", &task) != 0 || ts_load_seq(&own) != counted) return false;
    /* A folder has two links, and this one has one more for each thread. */
    uint64_t with_leader = (uint16_t)(counted >> 32) + UINT64_C(1);
    if ((uint64_t)task.st_nlink != 2 + with_leader) return false;
    return readlink("/proc/self/exe", name, sizeof name) < 0 && errno == ENOENT;
}

static _Atomic uint32_t claimed; /* the end, by the process of this id */

static void *end_program(void *unused) {
    (void)unused;
    ts_store_seq(&claimed, 0);
    take_signals();
    exit(0);
}

#if defined(__GLIBC__)
static bool make_end(void) {
    pthread_t thread;
    return pthread_create(&thread, NULL, end_program, NULL) == 0;
}
#else
static bool make_end(void) {
    ts_own_threads_count(-1);
    return end_program(NULL) == NULL;
}
#endif

void ts_last_thread_look(void) {
    if (TS_LIKELY(ts_load_relaxed(&leader_state) == LIVES) || !is_none_left()) return;
    uint32_t me = (uint32_t)getpid();
    if (atomic_exchange(&claimed, me) == me) return;
    if (!is_none_left() || !make_end()) ts_store_seq(&claimed, 0);
}
