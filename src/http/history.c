#include "http/history.h"

#include "advice/advice.h"
#include "api/api.h"
#include "observe/observe.h"

#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#define MS 1000000u
#define LOOK_EVERY_NS (500u * (uint64_t)MS)
#define SHARE 50u /* a look's time so many times passes before the next */
#define LABELS 8u /* of a point, those with the most bytes; the others are summed up */
#define STACK_BYTES ((size_t)256 << 10)

typedef struct point {
    uint64_t taken_ns, time_ms; /* monotonic; of the day */
    SlabGlobalStats global;
    SlabThreadStats samples;
    uint32_t labels;
    struct {
        char label[SLAB_LABEL_BYTES];
        uint64_t bytes;
    } label[LABELS];
    uint64_t other_bytes;
} point;

/* The newest points at a distance. */
#define POINTS 180u
typedef struct ring {
    uint64_t count; /* there ever were */
    point at[POINTS];
} ring;

static const uint64_t distance_ns[] = {2000u * (uint64_t)MS, 20000u * (uint64_t)MS}; /* six minutes, an hour */
enum { RINGS = sizeof distance_ns / sizeof *distance_ns };

/* Guards rings and stopping. `runs` and `thread` belong to the call that starts or stops the server, `of` is constant
   while the thread runs. */
static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t wake = PTHREAD_COND_INITIALIZER;
static ring *rings; /* NULL: no history */
static SlabAllocator *of;
static bool runs, stopping;
static pthread_t thread;

/* ---- looking ---------------------------------------------------------------------------------------------------- */

static const char *name_of(const ts_label_stats *l) { return l->label[0] ? l->label : TS_LABEL_NONE; }

static uint64_t held(const ts_label_stats *l) { return l->active_rss_bytes + l->closing_rss_bytes; }

/* clang-format off */
#define SUMS(X)                                                                             \
    X(committed_bytes) X(live_bytes) X(madvise_bytes) X(rejected_frees_total)               \
    X(slow_path_epoch_closed) X(slow_path_hits) X(new_slab_count) X(slow_path_cache_miss) X(epoch_close_calls)
#define SAMPLES_SHOWN(X)                                                                    \
    X(alloc_samples) X(alloc_wall_ns_sum) X(alloc_cpu_ns_sum) X(alloc_wait_ns_sum)          \
    X(free_samples) X(free_wall_ns_sum) X(free_cpu_ns_sum) X(free_wait_ns_sum)
/* clang-format on */

/* What labels of all views hold, those of one name together. Returns how many. */
typedef struct holding {
    const char *label;
    uint64_t bytes;
    bool is_other;
} holding;
#define HOLDINGS (TS_VIEWS * (TS_VIEW_LABELS + 1))

static unsigned add_labels(holding *all, unsigned count, const ts_view *v) {
    for (uint32_t i = 0; i < v->label_rows; i++) {
        const ts_label_stats *l = &v->label[i];
        unsigned k = 0;
        while (k < count && (all[k].is_other != (bool)l->is_other || strcmp(all[k].label, name_of(l)) != 0)) k++;
        if (k == count) all[count++] = (holding){name_of(l), 0, l->is_other};
        all[k].bytes += held(l);
    }
    return count;
}

static int compare(const void *a, const void *b) {
    const holding *x = a, *y = b;
    if (x->is_other != y->is_other) return x->is_other ? 1 : -1;
    return x->bytes != y->bytes ? (x->bytes < y->bytes ? 1 : -1) : strcmp(x->label, y->label);
}

static void fill(point *p, const ts_view *v, size_t views) {
    struct timespec now;
    holding all[HOLDINGS];
    unsigned count = 0;
    memset(p, 0, sizeof *p);
    (void)clock_gettime(CLOCK_REALTIME, &now);
    p->time_ms = (uint64_t)now.tv_sec * 1000 + (uint64_t)now.tv_nsec / MS;
    p->taken_ns = v->taken_ns;
    p->global.resident_bytes = v->global.resident_bytes;
    p->samples = v->samples; /* of the process */
    for (size_t i = 0; i < views; i++) {
#define X(field) p->global.field += v[i].global.field;
        SUMS(X)
#undef X
        count = add_labels(all, count, &v[i]);
    }
    qsort(all, count, sizeof *all, compare);
    for (unsigned i = 0; i < count; i++) {
        if (p->labels == LABELS || all[i].is_other) {
            p->other_bytes += all[i].bytes;
            continue;
        }
        memcpy(p->label[p->labels].label, all[i].label, strlen(all[i].label) + 1);
        p->label[p->labels++].bytes = all[i].bytes;
    }
}

static void keep(const ts_view *v, size_t views) {
    for (unsigned i = 0; i < RINGS; i++) {
        ring *r = &rings[i];
        const point *last = r->count ? &r->at[(r->count - 1) % POINTS] : NULL;
        if (last && v->taken_ns - last->taken_ns < distance_ns[i] - LOOK_EVERY_NS / 2) continue;
        fill(&r->at[r->count++ % POINTS], v, views);
    }
}

static uint64_t clock_ns(void) {
    struct timespec now;
    (void)clock_gettime(CLOCK_MONOTONIC, &now);
    return (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
}

/* The views, and the zero behind a text. */
#define VIEW_BYTES (TS_VIEWS * sizeof(ts_view) + 1)

/* Returns how long it took. */
static uint64_t look(ts_view *view) {
    uint64_t started = clock_ns();
    size_t bytes = ts_private_render(TS_TEXT_VIEWS, of, (char *)view, VIEW_BYTES);
    if (bytes == 0 || bytes >= VIEW_BYTES || view->magic != TS_VIEW_MAGIC) return 0;
    (void)pthread_mutex_lock(&mutex);
    if (rings) keep(view, bytes / sizeof *view);
    (void)pthread_mutex_unlock(&mutex);
    return clock_ns() - started;
}

static void *watch(void *unused) {
    ts_view *view = malloc(VIEW_BYTES);
    bool ended = view == NULL;
    (void)unused;
    ts_private_threads_count(1);
    (void)ts_private_render(TS_TEXT_DOCTOR, of, NULL, 0); /* from here on what grows is watched */
    while (!ended) {
        struct timespec until;
        uint64_t took = look(view), wait = took * SHARE > LOOK_EVERY_NS ? took * SHARE : LOOK_EVERY_NS;
        (void)clock_gettime(CLOCK_REALTIME, &until);
        wait += (uint64_t)until.tv_nsec;
        until.tv_sec += (time_t)(wait / 1000000000u);
        until.tv_nsec = (long)(wait % 1000000000u);
        (void)pthread_mutex_lock(&mutex);
        while (!stopping && pthread_cond_timedwait(&wake, &mutex, &until) == 0) {
        }
        ended = stopping;
        (void)pthread_mutex_unlock(&mutex);
        ts_private_last_thread_look();
    }
    free(view);
    ts_private_threads_count(-1);
    return NULL;
}

/* ---- start and stop: the calls that start and stop the server, one after the other ------------------------------- */

void http_history_start(SlabAllocator *allocator) {
    pthread_attr_t attributes;
    sigset_t before;
    if (runs || pthread_attr_init(&attributes) != 0) return;
    (void)pthread_mutex_lock(&mutex); /* the server answers already */
    if (!rings) rings = calloc(RINGS, sizeof *rings);
    bool ready = rings != NULL;
    of = allocator;
    stopping = false;
    (void)pthread_mutex_unlock(&mutex);
    ts_private_signals_block(&before);
    (void)pthread_attr_setstacksize(&attributes, STACK_BYTES);
    runs = ready && pthread_create(&thread, &attributes, watch, NULL) == 0;
    (void)pthread_sigmask(SIG_SETMASK, &before, NULL);
    (void)pthread_attr_destroy(&attributes);
}

void http_history_stop(void) {
    if (!runs) return;
    (void)pthread_mutex_lock(&mutex);
    stopping = true;
    (void)pthread_cond_broadcast(&wake);
    (void)pthread_mutex_unlock(&mutex);
    (void)pthread_join(thread, NULL);
    (void)pthread_mutex_lock(&mutex);
    free(rings);
    rings = NULL;
    (void)pthread_mutex_unlock(&mutex);
    runs = false;
}

/* What the thread was writing is nobody's. */
void http_history_in_child(void) {
    mutex = (pthread_mutex_t)PTHREAD_MUTEX_INITIALIZER;
    wake = (pthread_cond_t)PTHREAD_COND_INITIALIZER;
    runs = false;
    for (unsigned i = 0; rings && i < RINGS; i++) rings[i].count = 0;
}

/* ---- shown ------------------------------------------------------------------------------------------------------- */

static void render_point(ts_sink *s, const point *p) {
    ts_json_begin(s, NULL, '{');
    ts_json_u64(s, "taken_ns", p->taken_ns);
    ts_json_u64(s, "time_ms", p->time_ms);
    ts_json_begin(s, "global", '{');
    ts_json_u64(s, "version", 1);
#define X(field) ts_json_u64(s, #field, p->global.field);
    X(resident_bytes)
    SUMS(X)
#undef X
    ts_json_end(s, '}');
    ts_json_begin(s, "samples", '{');
    ts_json_u64(s, "version", 1);
#define X(field) ts_json_u64(s, #field, p->samples.field);
    SAMPLES_SHOWN(X)
#undef X
    ts_json_end(s, '}');
    ts_json_begin(s, "labels", '[');
    for (uint32_t i = 0; i < p->labels; i++) {
        ts_json_begin(s, NULL, '{');
        ts_json_text(s, "label", p->label[i].label);
        ts_json_u64(s, "bytes", p->label[i].bytes);
        ts_json_end(s, '}');
    }
    ts_json_end(s, ']');
    ts_json_u64(s, "other_bytes", p->other_bytes);
    ts_json_end(s, '}');
}

size_t http_history_render(char *buffer, size_t capacity) {
    ts_sink s = ts_sink_buffer(buffer, buffer ? capacity : 0);
    ts_json_begin(&s, NULL, '{');
    ts_json_begin(&s, "points", '[');
    (void)pthread_mutex_lock(&mutex);
    const ring *fine = rings ? &rings[0] : NULL, *coarse = rings ? &rings[1] : NULL;
    uint64_t from = fine && fine->count > POINTS ? fine->count - POINTS : 0;
    uint64_t fine_since = fine && fine->count ? fine->at[from % POINTS].taken_ns : UINT64_MAX;
    for (uint64_t i = coarse && coarse->count > POINTS ? coarse->count - POINTS : 0; coarse && i < coarse->count; i++) {
        const point *p = &coarse->at[i % POINTS];
        if (p->taken_ns >= fine_since) break;
        render_point(&s, p);
    }
    for (uint64_t i = from; fine && i < fine->count; i++) render_point(&s, &fine->at[i % POINTS]);
    (void)pthread_mutex_unlock(&mutex);
    ts_json_end(&s, ']');
    ts_json_end(&s, '}');
    return ts_sink_end(&s);
}
