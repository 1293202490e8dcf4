/*
 * Threads of the library's own: that of the statistics page, and that of the option `background`. Some calls of the system are for
 * processes of one thread (unshare, setns). For these the library's threads can rest: they end, and begin anew afterwards.
 */
#ifndef TS_OS_OWN_THREADS_H
#define TS_OS_OWN_THREADS_H

#include "base/attr.h"

#include <stdbool.h>
#include <stdint.h>

typedef enum ts_own_thread { TS_PAGE_THREAD, TS_BACKGROUND_THREAD, TS_OWN_THREADS } ts_own_thread;

/* Begins with `work`, which it does again after each `interval_ns`. false: errno says why. */
bool ts_own_thread_start(ts_own_thread which, void (*work)(void), uint32_t interval_ns);
/* In a child of fork: it is not there. */
void ts_own_thread_forget(ts_own_thread which);

/* All of them end; returns when they have. false: there was none. Holding nothing. */
bool ts_own_threads_rest(void);
/* They begin again. Once for each ts_own_threads_rest that was true. */
void ts_own_threads_go_on(void);

#endif
