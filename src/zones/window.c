#define _GNU_SOURCE
#include "zones/window.h"

#include <errno.h>
#include <signal.h>
#include <string.h>

static void carry_out(ts_device *device, ts_io *io) {
    bool done = io->append ? device->call->append(device, io->zone, io->iov, io->count, &io->at)
                           : device->call->read(device, io->zone, io->at, io->iov, io->count);
    io->error = done ? 0 : errno != 0 ? errno : EIO;
}

static void *work(void *argument) {
    ts_window *w = argument;
    (void)pthread_mutex_lock(&w->mutex);
    for (;;) {
        while (w->taken == w->given && !w->over) (void)pthread_cond_wait(&w->work, &w->mutex);
        if (w->taken == w->given) break;
        ts_io *io = &w->io[w->taken++ % TS_WINDOW];
        (void)pthread_mutex_unlock(&w->mutex);
        carry_out(w->device, io);
        (void)pthread_mutex_lock(&w->mutex);
        io->done = true;
        (void)pthread_cond_signal(&w->ready);
    }
    (void)pthread_mutex_unlock(&w->mutex);
    return NULL;
}

void ts_window_begin(ts_window *w, ts_device *device, unsigned most) {
    sigset_t all, before;
    memset(w, 0, sizeof *w);
    w->device = device;
    (void)pthread_mutex_init(&w->mutex, NULL);
    (void)pthread_cond_init(&w->work, NULL);
    (void)pthread_cond_init(&w->ready, NULL);
    if (most < 2) return;
    /* The program's signals are its own threads'. */
    (void)sigfillset(&all);
    (void)pthread_sigmask(SIG_SETMASK, &all, &before);
    while (w->threads < most && w->threads < TS_WINDOW && pthread_create(&w->thread[w->threads], NULL, work, w) == 0)
        w->threads++;
    (void)pthread_sigmask(SIG_SETMASK, &before, NULL);
}

ts_io *ts_window_next(ts_window *w) {
    ts_io *io = &w->io[w->planned % TS_WINDOW];
    io->count = 0;
    io->bytes = 0;
    io->error = 0;
    io->done = false;
    return io;
}

void ts_window_plan(ts_window *w) {
    ts_io *io = &w->io[w->planned++ % TS_WINDOW];
    if (w->threads == 0) {
        carry_out(w->device, io);
        io->done = true;
        return;
    }
    (void)pthread_mutex_lock(&w->mutex);
    w->given = w->planned;
    (void)pthread_cond_signal(&w->work);
    (void)pthread_mutex_unlock(&w->mutex);
}

const ts_io *ts_window_collect(ts_window *w) {
    const ts_io *io = &w->io[w->collected % TS_WINDOW];
    (void)pthread_mutex_lock(&w->mutex);
    while (!io->done) (void)pthread_cond_wait(&w->ready, &w->mutex);
    (void)pthread_mutex_unlock(&w->mutex);
    w->collected++;
    return io;
}

void ts_window_end(ts_window *w) {
    (void)pthread_mutex_lock(&w->mutex);
    w->over = true;
    (void)pthread_cond_broadcast(&w->work);
    (void)pthread_mutex_unlock(&w->mutex);
    for (unsigned i = 0; i < w->threads; i++) (void)pthread_join(w->thread[i], NULL);
    (void)pthread_cond_destroy(&w->ready);
    (void)pthread_cond_destroy(&w->work);
    (void)pthread_mutex_destroy(&w->mutex);
}
