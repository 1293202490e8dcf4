/*
 * The thread of the option `background`: one of the process, made with the first allocator that has it. It calls slab_maintain for
 * each of these four times a second, a hundredth of that time long at most. It takes no signals. A child of fork has none until it
 * makes such an allocator, or for those of the parent: it is made again in the child.
 */
#define _GNU_SOURCE
#include "api/background.h"

#include "api/runtime.h"
#include "base/line.h"
#include "os/os.h"

#include <errno.h>
#include <pthread.h>
#include <time.h>

#define INTERVAL_NS 250000000
#define MAINTAIN_NS 2500000u

static void maintain_all(void) {
    uint32_t high = ts_table_high(&ts_allocators);
    for (uint32_t i = 1; i < high; i++) {
        ts_allocator *a = ts_table_at(&ts_allocators, i);
        uint64_t token = ts_load_acquire(&a->entry.id);
        if (token == 0 || !ts_allocator_read_begin(a, (uintptr_t)token)) continue;
        bool wanted = a->settings.background != 0;
        ts_allocator_read_end(a);
        if (wanted) (void)slab_maintain(ts_public((uintptr_t)token), MAINTAIN_NS);
    }
}

static void *run(void *unused) {
    (void)unused;
    for (;;) {
        const struct timespec interval = {0, INTERVAL_NS};
        (void)nanosleep(&interval, NULL);
        maintain_all();
    }
    return NULL;
}

static void start_or_say(void) {
    int error = errno;
    if (!ts_os_start_thread(run)) {
        ts_line line = {.used = 0};
        ts_line_text(&line, "tslab: TSLAB_BACKGROUND: no thread for it");
        ts_line_write(&line);
    }
    errno = error;
}

void ts_background_start(void) {
    static _Atomic uint32_t started;
    if (atomic_exchange(&started, 1)) return;
    start_or_say();
    (void)pthread_atfork(NULL, NULL, start_or_say);
}
