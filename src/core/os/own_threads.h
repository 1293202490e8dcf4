/*
 * The library's own threads: one for the statistics page, and one for the option `background`. Some system calls work
 * only in a process of one thread (unshare, setns). For these calls the library's threads can rest: they end, and
 * begin anew afterwards.
 */
#ifndef TS_OS_OWN_THREADS_H
#define TS_OS_OWN_THREADS_H

#include "base/attr.h"

#include <stdbool.h>
#include <stdint.h>

typedef enum ts_own_thread { TS_PAGE_THREAD, TS_BACKGROUND_THREAD, TS_OWN_THREADS } ts_own_thread;

/* Starts a thread that does `work`, and again after each `interval_ns`. false: errno says why. */
bool ts_own_thread_start(ts_own_thread which, void (*work)(void), uint32_t interval_ns);
/* In a child of fork, where the thread does not exist. */
void ts_own_thread_forget(ts_own_thread which);

/* Ends all of these threads, and returns when they have ended. false: there was none. Caller holds no lock. */
bool ts_own_threads_rest(void);
/* Lets them begin again. Once for each ts_own_threads_rest that was true. */
void ts_own_threads_go_on(void);

#endif
