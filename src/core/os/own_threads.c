#define _GNU_SOURCE
#include "os/own_threads.h"

#include "base/atomic.h"
#include "base/park.h"
#include "os/os.h"

#include <time.h>

typedef struct own_thread {
    void (*work)(void); /* constant while it is there or rests */
    uint32_t interval_ns;
    _Atomic uint32_t runs;
    _Atomic uint32_t rests;
} own_thread;

static own_thread all[TS_OWN_THREADS];
static _Atomic uint32_t resting; /* how many ask for rest */

static void *run(own_thread *t) {
    bool waits = t == &all[TS_BACKGROUND_THREAD]; /* the page is to be there at once */
    while (ts_load_acquire(&resting) == 0) {
        const struct timespec interval = {0, (long)t->interval_ns};
        if (!waits) t->work();
        waits = false;
        (void)nanosleep(&interval, NULL);
    }
    ts_store_release(&t->runs, 0); /* partner: ts_own_threads_rest */
    return NULL;
}
static void *run_page(void *unused) { return (void)unused, run(&all[TS_PAGE_THREAD]); }
static void *run_background(void *unused) { return (void)unused, run(&all[TS_BACKGROUND_THREAD]); }

static bool begin(ts_own_thread which) {
    ts_store_relaxed(&all[which].runs, 1);
    bool begun = ts_os_start_thread(which == TS_PAGE_THREAD ? run_page : run_background);
    if (!begun) ts_store_relaxed(&all[which].runs, 0);
    return begun;
}

bool ts_own_thread_start(ts_own_thread which, void (*work)(void), uint32_t interval_ns) {
    all[which].work = work;
    all[which].interval_ns = interval_ns;
    return begin(which);
}

void ts_own_thread_forget(ts_own_thread which) {
    ts_store_relaxed(&all[which].runs, 0);
    ts_store_relaxed(&all[which].rests, 0);
    ts_store_relaxed(&resting, 0);
}

bool ts_own_threads_rest(void) {
    bool any = false;
    (void)atomic_fetch_add_explicit(&resting, 1, memory_order_seq_cst);
    for (unsigned i = 0; i < TS_OWN_THREADS; i++) {
        if (ts_load_acquire(&all[i].runs) == 0) continue;
        any = true;
        ts_store_relaxed(&all[i].rests, 1);
        while (ts_load_acquire(&all[i].runs) != 0) ts_nap();
    }
    if (!any) (void)atomic_fetch_sub_explicit(&resting, 1, memory_order_seq_cst);
    return any;
}

void ts_own_threads_go_on(void) {
    if (atomic_fetch_sub_explicit(&resting, 1, memory_order_seq_cst) != 1) return;
    for (unsigned i = 0; i < TS_OWN_THREADS; i++)
        if (atomic_exchange(&all[i].rests, 0)) (void)begin((ts_own_thread)i);
}
