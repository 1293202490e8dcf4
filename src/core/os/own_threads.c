/*
 * The library's own threads: one for the statistics page, and one for the option `background`. Some system calls work
 * only in a process of one thread (unshare, setns). For these calls the library's threads can rest: they end, and
 * begin anew afterwards.
 */
#define _GNU_SOURCE
#include "os/os.h"

#include "base/base.h"

#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <time.h>
#include <unistd.h>

#define STACK_BYTES ((size_t)256 << 10)

/*
 * What could go wrong: a thread ends and does not begin again, or a call waits for a thread that does not end. It
 * does not. A call ASKS by counting itself in `resting`.
 *  1. A thread that sees that a call asks notes that it rests (`rests`), and looks once more. If no call asks any
 *     more, it takes the note back and goes on. If the note is gone, another thread begins in its place, and it ends.
 *  2. The last call that asked leaves `resting`, and then takes the notes. All of this is seq_cst. So the call sees
 *     the note, or the thread sees that no call asks. A thread that begins after the call has looked for it looks in
 *     that way, too.
 *  3. A call that finds no thread to wait for leaves `resting` as in 2, because it may be the last.
 */
typedef struct own_thread {
    void (*work)(void); /* constant while it is there or rests */
    uint32_t interval_ns;
    _Atomic uint32_t runs;  /* threads begun and not ended: two for a moment, while another one begins in its place */
    _Atomic uint32_t rests; /* the note: the thread is to begin again */
} own_thread;

static own_thread all[TS_OWN_THREADS];
static _Atomic uint32_t resting; /* calls that ask for rest */
/* The process that has the threads. A child of vfork shares this memory, and has no such threads. A child that came
   by a system call has none either, and no fork handler ran. */
static _Atomic uint64_t process;

static bool is_to_end(own_thread *t) {
    if (TS_LIKELY(ts_load_acquire(&resting) == 0)) return false;
    (void)atomic_exchange(&t->rests, 1);
    return ts_load_seq(&resting) != 0 || atomic_exchange(&t->rests, 0) == 0;
}

static void *run_thread(own_thread *t) {
    bool waits = t == &all[TS_BACKGROUND_THREAD]; /* the page is to be there at once */
    ts_own_threads_count(1);
    while (!is_to_end(t)) {
        const struct timespec interval = {0, (long)t->interval_ns};
        if (!waits) t->work();
        waits = false;
        (void)nanosleep(&interval, NULL);
        ts_last_thread_look();
    }
    ts_own_threads_count(-1);
    /* release: partner of ts_own_threads_rest */
    (void)atomic_fetch_sub_explicit(&t->runs, 1, memory_order_release);
    return NULL;
}
static void *run_page(void *unused) { return (void)unused, run_thread(&all[TS_PAGE_THREAD]); }
static void *run_background(void *unused) { return (void)unused, run_thread(&all[TS_BACKGROUND_THREAD]); }

/* A detached thread that takes no signals. */
static bool make_thread(void *(*run)(void *)) {
    pthread_t thread;
    pthread_attr_t attributes;
    sigset_t before;
    int error = pthread_attr_init(&attributes);
    if (error == 0) {
        (void)pthread_attr_setstacksize(&attributes, STACK_BYTES);
        (void)pthread_attr_setdetachstate(&attributes, PTHREAD_CREATE_DETACHED);
        ts_own_signals_block(&before);
        error = pthread_create(&thread, &attributes, run, NULL);
        (void)pthread_sigmask(SIG_SETMASK, &before, NULL);
        (void)pthread_attr_destroy(&attributes);
    }
    if (error) errno = error;
    return error == 0;
}

static bool begin_thread(ts_own_thread which) {
    (void)ts_fetch_add_relaxed(&all[which].runs, 1);
    bool begun = make_thread(which == TS_PAGE_THREAD ? run_page : run_background);
    if (!begun) (void)ts_fetch_sub_relaxed(&all[which].runs, 1);
    return begun;
}

bool ts_own_thread_start(ts_own_thread which, void (*work)(void), uint32_t interval_ns) {
    all[which].work = work;
    all[which].interval_ns = interval_ns;
    ts_store_relaxed(&process, (uint64_t)getpid());
    return begin_thread(which);
}

void ts_own_thread_forget(ts_own_thread which) {
    ts_store_relaxed(&all[which].runs, 0);
    ts_store_relaxed(&all[which].rests, 0);
    ts_store_relaxed(&resting, 0);
}

bool ts_own_threads_rest(void) {
    bool any = false;
    if (ts_load_relaxed(&process) != (uint64_t)getpid()) return false;
    (void)atomic_fetch_add(&resting, 1);
    for (unsigned i = 0; i < TS_OWN_THREADS; i++) {
        /* One that has ended already, for this question or another's, has noted it before. */
        if (ts_load_seq(&all[i].runs) == 0 && ts_load_seq(&all[i].rests) == 0) continue;
        any = true;
        while (ts_load_acquire(&all[i].runs) != 0) ts_nap();
    }
    if (!any) ts_own_threads_go_on();
    return any;
}

void ts_own_threads_go_on(void) {
    if (atomic_fetch_sub(&resting, 1) != 1) return;
    for (unsigned i = 0; i < TS_OWN_THREADS; i++)
        if (atomic_exchange(&all[i].rests, 0)) (void)begin_thread((ts_own_thread)i);
}
