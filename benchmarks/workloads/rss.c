/* See rss.h. */
#include "rss.h"

#include <fcntl.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "harness.h"

/* Reads the start of a small file of /proc; text is always terminated. false: it cannot be read. */
static bool read_text(const char *path, char *text, size_t capacity) {
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0) return false;
    size_t length = 0;
    ssize_t got;
    while (length + 1 < capacity && (got = read(fd, text + length, capacity - 1 - length)) > 0) length += (size_t)got;
    close(fd);
    text[length] = '\0';
    return length > 0;
}

/* The number after "key" at the start of a line, in kB; 0 if there is none. */
static uint64_t field_bytes(const char *text, const char *key) {
    const char *found = strstr(text, key);
    if (found == NULL) return 0;
    return strtoull(found + strlen(key), NULL, 10) * 1024;
}

static uint64_t statm_bytes(void) {
    char text[256];
    if (!read_text("/proc/self/statm", text, sizeof text)) return 0;
    char *end;
    (void)strtoull(text, &end, 10);
    return strtoull(end, NULL, 10) * (uint64_t)sysconf(_SC_PAGESIZE);
}

uint64_t rss_high_water_bytes(void) {
    char text[4096];
    return read_text("/proc/self/status", text, sizeof text) ? field_bytes(text, "\nVmHWM:") : 0;
}

void rss_series_init(RssSeries *series) {
    memset(series, 0, sizeof *series);
    series->per_point = 1;
}

static void halve(RssSeries *series) {
    for (size_t i = 0; i < RSS_SERIES_CAPACITY / 2; i++) {
        RssSample first = series->points[2 * i];
        RssSample second = series->points[2 * i + 1];
        series->points[i] = first.bytes >= second.bytes ? first : second;
    }
    series->count = RSS_SERIES_CAPACITY / 2;
    series->per_point *= 2;
    series->in_last = series->per_point;
}

void rss_series_add(RssSeries *series, uint64_t at_ms, uint64_t bytes) {
    series->taken++;
    if (bytes > series->peak_bytes) series->peak_bytes = bytes;
    if (series->count > 0 && series->in_last < series->per_point) {
        RssSample *last = &series->points[series->count - 1];
        series->in_last++;
        if (bytes > last->bytes) *last = (RssSample){at_ms, bytes};
        return;
    }
    if (series->count == RSS_SERIES_CAPACITY) halve(series);
    series->points[series->count++] = (RssSample){at_ms, bytes};
    series->in_last = 1;
}

/* One sampler at a time. series, period_ms: constant while the thread runs. stop: guarded by lock. */
static struct {
    pthread_t thread;
    pthread_mutex_t lock;
    pthread_cond_t wake;
    bool stop;
    RssSeries *series;
    uint64_t period_ms;
} sampler = {.lock = PTHREAD_MUTEX_INITIALIZER};

static void *sampler_main(void *unused) {
    (void)unused;
    uint64_t start_ns = bench_now_ns();
    uint64_t due_ns = start_ns;
    pthread_mutex_lock(&sampler.lock);
    while (!sampler.stop) {
        pthread_mutex_unlock(&sampler.lock);
        uint64_t now_ns = bench_now_ns();
        rss_series_add(sampler.series, (now_ns - start_ns) / WL_NS_PER_MS, statm_bytes());
        do {
            due_ns += sampler.period_ms * WL_NS_PER_MS;
        } while (due_ns <= now_ns);
        struct timespec due = {
            .tv_sec = (time_t)(due_ns / WL_NS_PER_S),
            .tv_nsec = (long)(due_ns % WL_NS_PER_S),
        };
        pthread_mutex_lock(&sampler.lock);
        while (!sampler.stop && pthread_cond_timedwait(&sampler.wake, &sampler.lock, &due) == 0) {
        }
    }
    pthread_mutex_unlock(&sampler.lock);
    return NULL;
}

bool rss_sampler_start(RssSeries *series, uint64_t period_ms) {
    pthread_condattr_t attributes;
    pthread_condattr_init(&attributes);
    pthread_condattr_setclock(&attributes, CLOCK_MONOTONIC);
    pthread_cond_init(&sampler.wake, &attributes);
    pthread_condattr_destroy(&attributes);
    sampler.stop = false;
    sampler.series = series;
    sampler.period_ms = period_ms;
    if (pthread_create(&sampler.thread, NULL, sampler_main, NULL) != 0) {
        pthread_cond_destroy(&sampler.wake);
        return false;
    }
    return true;
}

void rss_sampler_stop(void) {
    pthread_mutex_lock(&sampler.lock);
    sampler.stop = true;
    pthread_cond_signal(&sampler.wake);
    pthread_mutex_unlock(&sampler.lock);
    pthread_join(sampler.thread, NULL);
    pthread_cond_destroy(&sampler.wake);
}
