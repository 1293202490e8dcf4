/*
 * Several appends at a time: by a window on a device that waits until all of them have come, one after the other where
 * there are no threads, and to one zone of the emulated device, where some are torn.
 */
#define _GNU_SOURCE
#include "support.h"
#include "zones/window.h"

#include <pthread.h>

#define BLOCK 4096u

/* ---- a device that is this test's ------------------------------------------------------------------------------- */

static pthread_barrier_t all_there;
static bool together;
static pthread_t caller;

static bool fake_append(ts_device *d, uint32_t zone, const struct iovec *iov, int count, uint64_t *at) {
    (void)d;
    SUP_CHECK(count == 1 && iov->iov_len == 16384, "the append of zone %u", zone);
    if (together)
        (void)pthread_barrier_wait(&all_there); /* a window that lets fewer in never ends */
    else
        SUP_CHECK(pthread_equal(pthread_self(), caller), "a window without threads has one");
    *at = zone * 100u;
    errno = zone % 7 == 3 ? ENXIO : 0;
    return zone % 7 != 3;
}
static bool fake_read(ts_device *d, uint32_t zone, uint64_t at, const struct iovec *iov, int count) {
    (void)d, (void)iov, (void)count;
    SUP_CHECK(at == zone + 5u, "the read of zone %u", zone);
    errno = 0;
    return zone % 5 != 1; /* without a reason */
}
static const ts_device_table fake = {.append = fake_append, .read = fake_read};

static void plan(ts_window *w, uint32_t zone, bool append, char *memory) {
    ts_io *io = ts_window_next(w);
    io->append = append;
    io->zone = zone;
    io->at = append ? 0 : zone + 5u;
    io->iov[io->count++] = (struct iovec){memory, 16384};
    io->bytes = 16384;
    ts_window_plan(w);
}

static void collect(ts_window *w, uint32_t zone, bool append) {
    const ts_io *io = ts_window_collect(w);
    int error = append ? (zone % 7 == 3 ? ENXIO : 0) : zone % 5 == 1 ? EIO : 0;
    SUP_CHECK(io->zone == zone && io->append == append && io->error == error, "zone %u: %u, error %d", zone, io->zone,
              io->error);
    SUP_CHECK(error != 0 || !append || io->at == zone * 100u, "zone %u is at %llu", zone, (unsigned long long)io->at);
}

static void windows(unsigned most, bool append) {
    static char memory[16384];
    ts_device d = {.call = &fake};
    ts_window w;
    uint32_t planned = 0, collected = 0;
    caller = pthread_self();
    together = most > 1 && append;
    ts_window_begin(&w, &d, most);
    SUP_CHECK(ts_window_is_empty(&w) && w.threads == (most > 1 ? TS_WINDOW : 0), "%u threads", w.threads);
    while (planned < 40 * TS_WINDOW) {
        while (!ts_window_is_full(&w)) plan(&w, planned++, append, memory);
        /* All of them, so that the barrier is met by as many as it waits for. */
        while (!ts_window_is_empty(&w)) collect(&w, collected++, append);
    }
    ts_window_end(&w);
    SUP_CHECK(collected == planned, "%u of %u", collected, planned);
}

/* ---- the emulated device ---------------------------------------------------------------------------------------- */

enum { THREADS = 4, EACH = 42, ZONE_BLOCKS = 4 * EACH * THREADS };

static ts_device *device;
static _Atomic unsigned tears; /* one append in so many is torn; 0: none */
static ts_emulated_fault tear(void *arg, ts_emulated_call call, uint32_t zone) {
    static unsigned turn; /* under the device's mutex */
    (void)arg, (void)zone;
    return call == TS_EMULATED_APPEND && tears != 0 && ++turn % tears == 0 ? TS_FAULT_TORN : TS_FAULT_NONE;
}

/* So that several are under way at the same time, on few processors too. */
static void linger(void *arg, ts_emulated_step step, uint32_t zone) {
    (void)arg, (void)zone;
    if (step == TS_STEP_HALF) (void)usleep(20);
}

/* The result of each append: blocks that name their owner. */
static struct came {
    uint64_t at;
    unsigned blocks;
    bool done;
} came[THREADS][EACH];

static void *append_some(void *argument) {
    unsigned thread = (unsigned)(uintptr_t)argument;
    char *memory;
    SUP_CHECK(posix_memalign((void **)(void *)&memory, BLOCK, 3 * (size_t)BLOCK) == 0, "no memory");
    for (unsigned i = 0; i < EACH; i++) {
        struct came *c = &came[thread][i];
        c->blocks = 1 + (thread + i) % 3;
        for (unsigned b = 0; b < 3; b++) memset(memory + b * (size_t)BLOCK, (int)(thread * 61 + i + b), BLOCK);
        struct iovec iov = {memory, c->blocks * (size_t)BLOCK};
        c->done = device->call->append(device, 0, &iov, 1, &c->at);
        SUP_CHECK(c->done || errno == EIO, "%s", strerror(errno));
    }
    free(memory);
    return NULL;
}

static void read_back(unsigned thread, unsigned i, char *memory) {
    const struct came *c = &came[thread][i];
    struct iovec iov = {memory, c->blocks * (size_t)BLOCK};
    SUP_CHECK(device->call->read(device, 0, c->at, &iov, 1), "%s", strerror(errno));
    for (unsigned b = 0; b < c->blocks; b++)
        SUP_CHECK(memory[b * (size_t)BLOCK + 77] == (char)(thread * 61 + i + b), "append %u of thread %u, block %u", i,
                  thread, b);
}

/* Those that are done do not overlap, are below the write pointer and have their bytes; without tears all are done,
   side by side. */
static void check_zone(void) {
    static bool taken[ZONE_BLOCKS];
    ts_zone_report r;
    uint64_t blocks = 0;
    char *memory;
    SUP_CHECK(posix_memalign((void **)(void *)&memory, BLOCK, 3 * (size_t)BLOCK) == 0, "no memory");
    SUP_CHECK(device->call->report(device, 0, &r), "no report");
    memset(taken, 0, sizeof taken);
    for (unsigned t = 0; t < THREADS; t++) {
        for (unsigned i = 0; i < EACH; i++) {
            const struct came *c = &came[t][i];
            if (!c->done) continue;
            SUP_CHECK(c->at + c->blocks * BLOCK <= r.written, "append %u of thread %u is behind the write pointer", i,
                      t);
            for (unsigned b = 0; b < c->blocks; b++) {
                SUP_CHECK(!taken[c->at / BLOCK + b], "two appends have block %llu",
                          (unsigned long long)c->at / BLOCK + b);
                taken[c->at / BLOCK + b] = true;
            }
            blocks += c->blocks;
            read_back(t, i, memory);
        }
    }
    SUP_CHECK(tears != 0 || (blocks * BLOCK == r.written && blocks == THREADS * EACH * 2), "%llu blocks",
              (unsigned long long)blocks);
    SUP_CHECK(tears == 0 || blocks * BLOCK <= r.written, "more blocks than are written");
    free(memory);
}

static void to_one_zone(void) {
    char path[256];
    ts_emulated_parameters p;
    SUP_CHECK(ts_emulated_parse(strchr(zt_where("zones=2&zone_size=4M"), ':') + 1, path, sizeof path, &p),
              "parameters");
    device = ts_emulated_open(path, &p);
    SUP_CHECK(device, "%s", strerror(errno));
    ts_emulated_hooks_now = (ts_emulated_hooks){.fault = tear, .step = linger};
    for (unsigned round = 0; round < SUP_SCALED(30); round++) {
        pthread_t thread[THREADS];
        tears = round % 3 == 0 ? 0 : 5 + round % 7;
        for (unsigned t = 0; t < THREADS; t++)
            SUP_CHECK(pthread_create(&thread[t], NULL, append_some, (void *)(uintptr_t)t) == 0, "no thread");
        for (unsigned t = 0; t < THREADS; t++) (void)pthread_join(thread[t], NULL);
        check_zone();
        SUP_CHECK(device->call->reset(device, 0), "%s", strerror(errno));
    }
    device->call->end(device);
}

int main(void) {
    zt_in_memory();
    (void)pthread_barrier_init(&all_there, NULL, TS_WINDOW);
    windows(TS_WINDOW, true);
    windows(TS_WINDOW, false);
    windows(1, true);
    windows(1, false);
    to_one_zone();
    return 0;
}
