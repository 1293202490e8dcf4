/*
 * A service that keeps the events of a day, in windows of five minutes. The last hour is in memory; older windows are
 * in zones; the oldest is dropped. Each window is an epoch, so to spill it is to append its slabs, and to drop it is
 * epoch_destroy. Now and then somebody asks for an old event by its handle.
 *
 * Beside it the same service with a file a window: what leaves memory is written object by object with an index, what
 * is asked for is read from the file, what is dropped is unlinked.
 *
 *     windows [DEVICE [FOLDER [EVENTS]]]      defaults: a file in /var/tmp, /var/tmp, 4000 events a window
 */
#define _GNU_SOURCE
#include <tslab/zones.h>

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#define DAY 288 /* windows of five minutes */
#define HOUR 12
#define DAYS 2       /* that the program lives through */
#define QUESTIONS 20 /* for old events, a window */

typedef struct event {
    uint64_t number;
    uint32_t bytes;
    char text[];
} event;

static unsigned events = 4000;
static const char *folder = "/var/tmp";

static void need(int condition, const char *what) {
    if (condition) return;
    fprintf(stderr, "windows: %s: %s\n", what, strerror(errno));
    exit(1);
}

static double now_s(void) {
    struct timespec t;
    (void)clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + (double)t.tv_nsec / 1e9;
}

/* An event's bytes follow from its number, so an answer can be checked. */
static uint32_t bytes_of(uint64_t number) { return (uint32_t)(40 + number * 2654435761u % 400); }
static char byte_of(uint64_t number, uint32_t i) { return (char)(number * 31 + i); }
static void fill(event *e, uint64_t number, uint32_t bytes) {
    e->number = number;
    e->bytes = bytes;
    for (uint32_t i = 0; i < bytes; i++) e->text[i] = byte_of(number, i);
}
static int is_right(const event *e, uint64_t number) {
    return e->number == number && e->bytes == bytes_of(number) &&
           e->text[e->bytes - 1] == byte_of(number, e->bytes - 1);
}

static uint64_t random_state = 88172645463325252u;
static uint64_t random_below(uint64_t limit) {
    random_state ^= random_state << 13;
    random_state ^= random_state >> 7;
    random_state ^= random_state << 17;
    return random_state % limit;
}

/* What a service is asked to do with a window. */
typedef struct window window;
typedef struct service {
    const char *name;
    window *(*make)(uint64_t number);
    void (*leave_memory)(window *);
    void (*ask)(window *, unsigned i, void *to, size_t bytes);
    void (*drop)(window *);
} service;

/* ---- epochs and zones -------------------------------------------------------------------------------------------- */

static SlabAllocator *allocator;
static SlabZones *zones;

struct window {
    uint64_t number;
    EpochId epoch;
    SlabHandle *handle; /* [event] */
    /* of a window in a file */
    event **event;
    uint64_t *place;
    int file;
    char path[256];
};

static window *make_window(uint64_t number) {
    window *w = calloc(1, sizeof *w);
    need(w != NULL, "a window");
    w->number = number;
    w->file = -1;
    return w;
}

static window *zoned_make(uint64_t number) {
    window *w = make_window(number);
    w->handle = calloc(events, sizeof *w->handle);
    w->epoch = epoch_open(allocator, "window", EPOCH_SCOPE);
    need(w->handle && w->epoch != EPOCH_NONE, "an epoch");
    for (unsigned i = 0; i < events; i++) {
        uint32_t bytes = bytes_of(number * events + i);
        event *e = alloc_obj_epoch(allocator, sizeof *e + bytes, w->epoch, &w->handle[i]);
        need(e != NULL, "an event");
        fill(e, number * events + i, bytes);
    }
    need(epoch_close(allocator, w->epoch), "epoch_close");
    return w;
}

static void zoned_leave_memory(window *w) { need(epoch_spill(allocator, w->epoch, zones), "epoch_spill"); }

static void zoned_ask(window *w, unsigned i, void *to, size_t bytes) {
    need(slab_zones_read(allocator, w->handle[i], to, bytes) > 0, "slab_zones_read");
}

static void zoned_drop(window *w) {
    need(epoch_destroy(allocator, w->epoch), "epoch_destroy");
    free(w->handle);
    free(w);
}

/* ---- a file a window --------------------------------------------------------------------------------------------- */

static window *filed_make(uint64_t number) {
    window *w = make_window(number);
    w->event = calloc(events, sizeof *w->event);
    w->place = calloc(events, sizeof *w->place);
    need(w->event && w->place, "events");
    for (unsigned i = 0; i < events; i++) {
        uint32_t bytes = bytes_of(number * events + i);
        w->event[i] = malloc(sizeof(event) + bytes);
        need(w->event[i] != NULL, "an event");
        fill(w->event[i], number * events + i, bytes);
    }
    return w;
}

static void filed_leave_memory(window *w) {
    uint64_t at = 0;
    (void)snprintf(w->path, sizeof w->path, "%s/tslab-window-%ld-%llu", folder, (long)getpid(),
                   (unsigned long long)w->number);
    FILE *f = fopen(w->path, "w+e");
    need(f != NULL, w->path);
    for (unsigned i = 0; i < events; i++) {
        size_t bytes = sizeof(event) + w->event[i]->bytes;
        need(fwrite(w->event[i], 1, bytes, f) == bytes, "fwrite");
        w->place[i] = at;
        at += bytes;
        free(w->event[i]);
    }
    need(fflush(f) == 0, "fflush");
    w->file = dup(fileno(f));
    need(w->file >= 0 && fclose(f) == 0, "fclose");
    free(w->event);
    w->event = NULL;
}

static void filed_ask(window *w, unsigned i, void *to, size_t bytes) {
    need(pread(w->file, to, bytes, (off_t)w->place[i]) > 0, "pread");
}

static void filed_drop(window *w) {
    if (w->file < 0) { /* it never left memory */
        for (unsigned i = 0; i < events; i++) free(w->event[i]);
    } else {
        (void)close(w->file);
        need(unlink(w->path) == 0, "unlink");
    }
    free(w->event);
    free(w->place);
    free(w);
}

/* ---- days ---------------------------------------------------------------------------------------------------------
   */

static size_t resident_kib(void) {
    size_t pages = 0, all = 0;
    FILE *f = fopen("/proc/self/statm", "re");
    need(f && fscanf(f, "%zu %zu", &all, &pages) == 2, "statm");
    (void)fclose(f);
    return pages * (size_t)sysconf(_SC_PAGESIZE) / 1024;
}

static void live(const service *s) {
    static window *kept[DAY];
    char answer[sizeof(event) + 512];
    double leave = 0, ask = 0, drop = 0, from;
    unsigned asked = 0;
    for (uint64_t number = 0; number < DAYS * DAY; number++) {
        window **oldest = &kept[number % DAY];
        from = now_s();
        if (*oldest) s->drop(*oldest);
        drop += now_s() - from;
        *oldest = s->make(number);
        if (number < HOUR) continue;
        from = now_s();
        s->leave_memory(kept[(number - HOUR) % DAY]);
        leave += now_s() - from;
        uint64_t first = number >= DAY ? number - DAY + 1 : 0, old = number - HOUR - first + 1;
        from = now_s();
        for (int q = 0; q < QUESTIONS; q++, asked++) {
            uint64_t which = first + random_below(old);
            unsigned i = (unsigned)random_below(events);
            s->ask(kept[which % DAY], i, answer, sizeof answer);
            event head;
            memcpy(&head, answer, sizeof head);
            need(head.number == which * events + i && is_right((const event *)(const void *)answer, head.number),
                 "an answer is wrong");
        }
        ask += now_s() - from;
    }
    printf("%-7s window leaves memory %8.0f us   question %6.1f us   drop %6.1f us   resident %6zu KiB\n", s->name,
           leave / (DAYS * DAY - HOUR) * 1e6, ask / asked * 1e6, drop / (DAYS * DAY - DAY) * 1e6, resident_kib());
    for (int i = 0; i < DAY; i++) {
        s->drop(kept[i]);
        kept[i] = NULL;
    }
}

int main(int argc, char **argv) {
    char device[512];
    (void)snprintf(device, sizeof device, "/var/tmp/tslab-windows-%ld", (long)getpid());
    const char *file = device;
    if (argc > 3) events = (unsigned)strtoul(argv[3], NULL, 10);
    if (argc > 2) folder = argv[2];
    if (argc > 1) file = argv[1];
    need(events > 0, "events");
    char where[700];
    unsigned mib = events * 300 / 1024 / 1024 * DAY + DAY;
    if (strncmp(file, "/dev/", 5) == 0)
        (void)snprintf(where, sizeof where, "%s", file);
    else
        (void)snprintf(where, sizeof where,
                       "emulated:%s?zones=%u&zone_size=4M&zone_capacity=3M&max_open=14&max_active=14", file,
                       mib / 2 + 64);
    const service zoned = {"zones", zoned_make, zoned_leave_memory, zoned_ask, zoned_drop},
                  filed = {"files", filed_make, filed_leave_memory, filed_ask, filed_drop};
    allocator = slab_allocator_create();
    zones = slab_zones_open(where, NULL);
    need(allocator && zones, where);
    live(&zoned);
    SlabZonesStats s;
    need(slab_zones_stats(zones, &s), "slab_zones_stats");
    printf("zones: %.1f MiB of slabs, (appended + padded) / slabs %.3f, %llu resets, fill at reset %.2f\n",
           (double)s.payload_bytes / 1048576, (double)(s.appended_bytes + s.padding_bytes) / (double)s.payload_bytes,
           (unsigned long long)s.reset_zones_total,
           (double)s.reset_filled_bytes_total / ((double)s.reset_zones_total * (double)s.capacity_bytes));
    slab_allocator_free(allocator);
    need(slab_zones_close(zones), "slab_zones_close");
    if (strncmp(file, "/dev/", 5) != 0) (void)unlink(file);
    live(&filed);
    return 0;
}
