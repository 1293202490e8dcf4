/*
 * Where the library's messages go: to a function of the program, to the file that TSLAB_LOG names, or to standard
 * error. A message is one line.
 * Nothing here allocates, uses a stream, or waits for a lock. So a message can come from a signal handler, and from a
 * thread that was interrupted anywhere. The writing thread holds no lock of the library, because the program's
 * function may use the library. There are no cancellation points, and errno stays.
 */
/*
 * The function and its argument are a pair. Readers see a whole pair, or try again. The pair lies in the slot that
 * `turn` selects. Setting another pair writes the other slot, and then `turn`.
 *
 *  1. A thread that writes a line counts itself in the slot (`running`), copies the pair, and looks whether `turn`
 *     has changed. If it has, the thread counts itself out and begins again. So the pair that it calls was the pair
 *     at that moment, and never half of one.
 *  2. A slot is written only while `turn` selects the other one. A copy that meets this finds another `turn`
 *     afterwards: the release fence before the slot is written and the acquire fence after the copy are partners.
 *  3. A thread changes `turn`, and then finds no thread counted in the old slot. Then no thread will call the old
 *     pair any more. Counting and `turn` are seq_cst, so a thread that counts itself later sees the new `turn`.
 */
#define _GNU_SOURCE
#include "os/os.h"

#include "base/base.h"
#include "os/file_limit.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <pthread.h>
#include <string.h>
#include <unistd.h>

#ifndef PATH_MAX
#define PATH_MAX 4096
#endif

typedef struct sink {
    _Atomic(ts_message_fn *) fn; /* NULL: the file, or standard error */
    _Atomic(void *) arg;
    _Atomic uint32_t running; /* calls of fn, and threads that look at the slot */
} sink;

static sink slot[2];
static _Atomic uint64_t turn;
static _Thread_local unsigned inside; /* a slot's number + 1, while this thread is in its function */

static _Atomic uint32_t has_file; /* until it cannot be written */
static char file_path[PATH_MAX];  /* constant once has_file was set */

/* ---- files and standard error ---------------------------------------------------------------------------- */

/* A failure here has no place to be reported. */
static void to_stderr(const char *line, size_t bytes) { (void)ts_write_all(STDERR_FILENO, line, bytes); }

static const char *error_text(int error) {
    switch (error) {
    case ENOENT: return "no such directory";
    case ENOTDIR: return "not a directory";
    case EACCES:
    case EPERM: return "permission denied";
    case EISDIR: return "it is a directory";
    case EROFS: return "the file system is read-only";
    case ENOSPC: return "no space left";
    case EFBIG: return "ulimit -f allows it no more bytes";
    case ENXIO:
    case EPIPE: return "nobody reads from it";
    default: return "it cannot be written";
    }
}

TS_COLD static void give_file_up(int error) {
    if (!atomic_exchange(&has_file, 0)) return;
    ts_text line = {.used = 0};
    ts_text_put(&line, "tslab: TSLAB_LOG=");
    ts_text_quoted(&line, file_path, 300);
    ts_text_add(&line, ": %s; messages go to stderr", error_text(error));
    ts_text_end(&line);
    to_stderr(line.text, line.used);
}

/* Opens the file for each line: a daemon closes all descriptors that it does not know, and a kept number could be
   another file then. It does not wait for a pipe without a reader. */
static bool to_file(const char *line, size_t bytes) {
    int fd = open(file_path, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC | O_NOCTTY | O_NONBLOCK, 0666);
    bool done = fd >= 0 && ts_write_all(fd, line, bytes);
    int error = errno;
    if (fd >= 0) (void)close(fd);
    if (!done) give_file_up(error);
    return done;
}

bool ts_message_set_file(const char *path) {
    size_t used = 0, bytes = strlen(path);
    if (path[0] != '/' && getcwd(file_path, sizeof file_path - 1)) {
        used = strlen(file_path);
        file_path[used++] = '/';
    }
    bool fits = bytes < sizeof file_path - used;
    if (fits) {
        memcpy(file_path + used, path, bytes + 1);
        ts_store_release(&has_file, 1); /* partner: write_line, ts_message_try_file */
    }
    return fits;
}

void ts_message_try_file(void) {
    int error = errno, before;
    if (!ts_load_acquire(&has_file)) return;
    (void)pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &before);
    (void)to_file("", 0);
    (void)pthread_setcancelstate(before, &before);
    errno = error;
}

/* ---- the function ---------------------------------------------------------------------------------------- */

/* The pair in effect, with this thread counted in its slot. */
static sink *begin_call(ts_message_fn **fn, void **arg) {
    for (;;) {
        uint64_t now = ts_load_seq(&turn);
        sink *s = &slot[now & 1];
        atomic_fetch_add_explicit(&s->running, 1, memory_order_seq_cst);
        *fn = ts_load_relaxed(&s->fn);
        *arg = ts_load_relaxed(&s->arg);
        atomic_thread_fence(memory_order_acquire);
        if (TS_LIKELY(ts_load_seq(&turn) == now)) return s;
        atomic_fetch_sub_explicit(&s->running, 1, memory_order_release);
    }
}

/* release: everything that fn did comes before the rest of ts_message_wait */
static void end_call(sink *s) { atomic_fetch_sub_explicit(&s->running, 1, memory_order_release); }

static bool to_function(const char *line, size_t bytes) {
    ts_message_fn *fn;
    void *arg;
    sink *s = begin_call(&fn, &arg);
    if (fn) {
        inside = (unsigned)(s - slot) + 1;
        fn(line, bytes, arg);
        inside = 0;
    }
    end_call(s);
    return fn != NULL;
}

static void write_line(const char *line, size_t bytes, bool locked) {
    int error = errno, before;
    (void)pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &before);
    bool done = !locked && inside == 0 && to_function(line, bytes);
    if (!done && ts_load_acquire(&has_file)) done = to_file(line, bytes);
    if (!done) to_stderr(line, bytes);
    (void)pthread_setcancelstate(before, &before);
    errno = error;
}

void ts_message_write(const char *line, size_t bytes) { write_line(line, bytes, false); }
void ts_message_write_locked(const char *line, size_t bytes) { write_line(line, bytes, true); }

uint64_t ts_message_set_sink(ts_message_fn *fn, void *arg) {
    uint64_t now = ts_load_relaxed(&turn); /* one thread at a time comes here */
    sink *s = &slot[(now + 1) & 1];
    ts_store_relaxed(&has_file, 0);
    atomic_thread_fence(memory_order_release);
    ts_store_relaxed(&s->fn, fn);
    ts_store_relaxed(&s->arg, arg);
    ts_store_seq(&turn, now + 1);
    return now;
}

void ts_message_wait(uint64_t ticket) {
    /* seq_cst: conclusion 3. As an acquire it is the partner of the release in end_call. */
    while (inside == 0 && ts_load_seq(&slot[ticket & 1].running) != 0) ts_nap();
}

void ts_message_fork_child(void) {
    for (unsigned i = 0; i < 2; i++) ts_store_relaxed(&slot[i].running, inside == i + 1);
}
