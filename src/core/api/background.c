/*
 * The thread of the option `background`. A process has one, made with the first allocator that has the option. Four
 * times a second it calls slab_maintain for each such allocator, for a hundredth of that time at most. It takes no
 * signals. In a child of fork it is made again: for the parent's allocators with the option, or with a new one.
 *
 * The process's malloc has the option without a wish of the program. There the thread is made only once the program
 * has a second thread, in a child of fork once the child has one. So calls that need a process of one thread
 * (unshare, setns) are not refused, and a program without threads gets none.
 */
#define _GNU_SOURCE
#include "api/api.h"
#include "api/runtime.h"
#include "memtools/memtools.h"
#include "os/os.h"

#include <errno.h>

#define INTERVAL_NS 250000000
#define MAINTAIN_NS 2500000u

static void maintain_all(void) {
    uintptr_t token;
    uint32_t i = 1;
    for (ts_allocator *a; (a = ts_allocator_next(&i, &token)) != NULL;) {
        if (!ts_allocator_read_begin(a, token)) continue;
        bool wanted = a->settings.background != 0;
        ts_allocator_read_end(a);
        if (wanted) (void)slab_maintain(ts_public(token), MAINTAIN_NS);
    }
}

static _Atomic uint32_t started;   /* in this process, or, if it was asked for, in its parent */
static _Atomic uint32_t asked_for; /* by an option */
static _Atomic uint32_t is_due;    /* with the next thread of the program */
static _Thread_local bool waits;

static void start_or_say(void) {
    int error = errno;
    if (!ts_own_thread_start(TS_BACKGROUND_THREAD, maintain_all, INTERVAL_NS) && ts_load_relaxed(&asked_for))
        ts_tell("TSLAB_BACKGROUND: no thread for it");
    errno = error;
}

void ts_background_fork_child(void) {
    bool asked = ts_load_relaxed(&asked_for);
    ts_own_thread_forget(TS_BACKGROUND_THREAD);
    ts_store_relaxed(&started, asked);
    if (asked) start_or_say();
}

static void start(void) {
    if (!atomic_exchange(&started, 1)) start_or_say();
}

void ts_background_start(void) {
    if (waits) {
        waits = false;
        ts_store_relaxed(&is_due, 1);
        return;
    }
    ts_store_relaxed(&asked_for, 1);
    start();
}

bool ts_private_background_later(void) {
    const char *text = ts_env("TSLAB_BACKGROUND");
    if ((text && *text) || !ts_env_is_trusted()) return false;
    /* Memcheck has the process's malloc, and takes what libc allocates for a thread that runs on for lost. */
    if (ts_care_on_memcheck()) return false;
    waits = true;
    return true;
}

void ts_private_thread_made(void) {
    if (TS_UNLIKELY(ts_load_relaxed(&is_due)) && !ts_load_relaxed(&started)) start();
}
