/*
 * Several reads or appends of one call at a time: a device takes them faster than one after the other.
 *
 * The caller of the library plans each one and collects them in the order in which they were planned. Threads of the
 * window carry them out, and live for the call. Where there can be none, each is carried out as it is planned: one at
 * a time.
 *
 *     slots   planned -> taken -> done -> collected, and free again
 *
 *  1. A slot is the caller's until it is planned and from its collection on; between, it is its taker's, and then
 *     nobody's. The mutex orders these steps.
 *  2. Which place of a zone an append gets is the device's choice: they may reach it in any order. The planner sees
 *     to it that all appends under way have room in their zone, and that no zone is finished or reset meanwhile.
 */
#ifndef TS_ZONES_WINDOW_H
#define TS_ZONES_WINDOW_H

#include "zones/device.h"

#include <pthread.h>

#define TS_WINDOW 4u
#define TS_WINDOW_IOV 64

typedef struct ts_io {
    bool append; /* else: read */
    uint32_t zone;
    uint64_t at; /* of a read: given; of an append: answered */
    struct iovec iov[TS_WINDOW_IOV];
    int count;
    size_t bytes;
    uint32_t first, slabs; /* the planner's */
    int error;             /* 0: it is done */
    bool done;             /* guarded by the mutex */
} ts_io;

typedef struct ts_window {
    ts_device *device;
    ts_io io[TS_WINDOW];         /* by turn */
    unsigned planned, collected; /* the caller's turns */
    unsigned threads;
    pthread_t thread[TS_WINDOW];
    pthread_mutex_t mutex;
    pthread_cond_t work, ready;
    unsigned given, taken; /* guarded by the mutex, as is the next */
    bool over;
} ts_window;

/* most: so many at a time, where that is possible. */
void ts_window_begin(ts_window *window, ts_device *device, unsigned most);
/* The slot of the next one, to be filled and planned. Not if it is full. */
ts_io *ts_window_next(ts_window *window);
void ts_window_plan(ts_window *window);
/* The oldest that is not collected, once it is done; it stays as it is until the next is planned. Not if it is empty.
   */
const ts_io *ts_window_collect(ts_window *window);
/* It is empty. */
void ts_window_end(ts_window *window);

static inline bool ts_window_is_full(const ts_window *window) {
    return window->planned - window->collected == TS_WINDOW;
}
static inline bool ts_window_is_empty(const ts_window *window) { return window->planned == window->collected; }

#endif
