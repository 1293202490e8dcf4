/* The texts of the public interface, of one allocator, and those of several for libtslab-http. */
#define TSLAB_BUILDS 1 /* the names of stats.h are functions here */
#include "advice/advice.h"
#include "advice/fields.h"
#include "advice/growth.h"
#include "base/base.h"
#include "core/read.h"

#include <errno.h>
#include <stddef.h>
#include <string.h>

ts_view *ts_shown_view(const ts_shown *shown, bool places) {
    ts_view *view = ts_advised_view(shown->allocator, shown->token);
    if (!view) return NULL;
    view->number = shown->number;
    strncpy(view->name, shown->name, sizeof view->name - 1);
    if (places) ts_view_modules(view);
    return view;
}

typedef void render_fn(ts_sink *, const ts_views *);

static void prometheus(ts_sink *sink, const ts_views *views) { ts_render_prometheus(sink, views->at[0], false); }
static void openmetrics(ts_sink *sink, const ts_views *views) { ts_render_prometheus(sink, views->at[0], true); }
static void stacks_json(ts_sink *sink, const ts_views *views) { ts_render_stacks_json(sink, NULL, views); }
static void doctor(ts_sink *sink, const ts_views *views) { (void)ts_render_doctor(sink, views); }

/* A view with its findings; NULL: errno says why. places: the modules of its stacks, too. */
static ts_view *view_of(SlabAllocator *allocator, bool places) {
    ts_shown shown;
    if (!ts_shown_one(ts_token(allocator), &shown)) return NULL;
    ts_view *view = ts_shown_view(&shown, places);
    if (!view) errno = ENOMEM;
    return view;
}

static size_t render(SlabAllocator *allocator, char *buffer, size_t capacity, render_fn *fn, bool places) {
    ts_sink sink = ts_sink_buffer(buffer, buffer ? capacity : 0);
    ts_view *view = view_of(allocator, places);
    const ts_views views = ts_views_of(view);
    if (view) fn(&sink, &views);
    ts_view_free(view);
    return ts_sink_end(&sink);
}

/* A program that asks for findings will ask again, so growth is watched from this call on. */
size_t slab_stats_json(SlabAllocator *allocator, char *buffer, size_t capacity) {
    ts_growth_watch();
    return render(allocator, buffer, capacity, ts_render_json, true);
}
size_t slab_stats_prometheus(SlabAllocator *allocator, char *buffer, size_t capacity) {
    return render(allocator, buffer, capacity, prometheus, false);
}
size_t slab_stats_openmetrics(SlabAllocator *allocator, char *buffer, size_t capacity) {
    return render(allocator, buffer, capacity, openmetrics, false);
}
size_t slab_stats_text(SlabAllocator *allocator, char *buffer, size_t capacity) {
    return render(allocator, buffer, capacity, ts_render_text, false);
}
size_t slab_stats_doctor(SlabAllocator *allocator, char *buffer, size_t capacity) {
    ts_growth_watch();
    return render(allocator, buffer, capacity, doctor, true);
}

size_t slab_stacks_text(SlabAllocator *allocator, char *buffer, size_t capacity) {
    return render(allocator, buffer, capacity, ts_render_stacks, true);
}
size_t slab_stacks_json(SlabAllocator *allocator, char *buffer, size_t capacity) {
    return render(allocator, buffer, capacity, stacks_json, true);
}

/* Without memory for the list there is no text. */
static size_t render_epochs(const ts_shown *shown, unsigned count, SlabEpochOrder order, size_t limit, char *buffer,
                            size_t capacity) {
    ts_sink sink = ts_sink_buffer(buffer, buffer ? capacity : 0);
    if (count == 0 || ts_render_epochs(&sink, shown, count, order, limit)) return ts_sink_end(&sink);
    errno = ENOMEM;
    if (buffer && capacity > 0) *buffer = 0;
    return 0;
}

size_t slab_stats_epochs_json(SlabAllocator *allocator, SlabEpochOrder order, size_t limit, char *buffer,
                              size_t capacity) {
    ts_shown shown;
    unsigned count = ts_shown_one(ts_token(allocator), &shown);
    return render_epochs(&shown, count, order, limit, buffer, capacity);
}

size_t slab_stats_view(SlabAllocator *allocator, char *buffer, size_t capacity) {
    ts_view *view = view_of(allocator, true);
    size_t bytes = view ? sizeof *view : 0;
    if (view && buffer) memcpy(buffer, view, bytes < capacity ? bytes : capacity);
    ts_view_free(view);
    return bytes;
}

bool slab_stats_dump_fd(SlabAllocator *allocator, int fd) {
    int saved = errno;
    char buffer[1024];
    if (fd < 0) return ts_fail(EBADF);
    ts_sink sink = ts_sink_fd(fd, buffer, sizeof buffer);
    ts_view *view = view_of(allocator, false);
    if (!view) return false;
    const ts_views views = ts_views_of(view);
    ts_render_text(&sink, &views);
    ts_view_free(view);
    if (ts_sink_end(&sink) == 0) return ts_fail(sink.error);
    errno = saved;
    return true;
}

/* ---- counters of a class ------------------------------------------------------------------------------------- */

bool get_perf_counters_sized(SlabAllocator *allocator, uint32_t cls, PerfCounters *out, size_t bytes) {
    SlabClassStats c;
    if (!out || !slab_stats_class_sized(allocator, cls, &c, sizeof c)) return false;
    PerfCounters counters = {.version = SLAB_STATS_VERSION};
#define X(field, ...) counters.field = c.field;
    TS_STATS_PERF(X)
#undef X
    counters.current_partial_miss = c.current_partial_null + c.current_partial_full;
    ts_copy_out(out, bytes, &counters, sizeof counters);
    return true;
}

bool get_perf_counters(SlabAllocator *allocator, uint32_t cls, PerfCounters *out) {
    /* as it was first */
    size_t bytes = offsetof(PerfCounters, current_partial_full) + sizeof out->current_partial_full;
    return get_perf_counters_sized(allocator, cls, out, bytes);
}

/* ---- texts of all allocators, for libtslab-http ------------------------------------------------------------------ */

static void render_views(ts_sink *s, ts_private_text what, const ts_views *views) {
    switch (what) {
    case TS_TEXT_JSON: ts_render_json(s, views); break;
    case TS_TEXT_DOCTOR: (void)ts_render_doctor(s, views); break;
    case TS_TEXT_STACKS: ts_render_stacks(s, views); break;
    case TS_TEXT_STACKS_JSON: ts_render_stacks_json(s, NULL, views); break;
    case TS_TEXT_VIEWS:
        for (unsigned i = 0; i < views->count; i++) ts_put_bytes(s, (const char *)views->at[i], sizeof *views->at[i]);
        break;
    default: ts_render_text(s, views); break;
    }
}

/* out: as many views as there was memory for. */
static unsigned make_views(const ts_shown *shown, unsigned count, ts_view *out[TS_VIEWS]) {
    unsigned made = 0;
    for (unsigned i = 0; i < count; i++) {
        ts_view *view = ts_shown_view(&shown[i], true);
        if (view) out[made++] = view;
    }
    return made;
}

static unsigned shown_of(const SlabAllocator *one, ts_shown out[TS_VIEWS]) {
    uint32_t found;
    return one ? ts_shown_one(ts_token(one), &out[0]) : ts_shown_all(out, &found);
}

size_t ts_private_render(ts_private_text what, const SlabAllocator *one, char *buffer, size_t capacity) {
    ts_shown shown[TS_VIEWS];
    ts_view *made[TS_VIEWS];
    ts_sink sink = ts_sink_buffer(buffer, buffer ? capacity : 0);
    ts_views views = {.count = make_views(shown, shown_of(one, shown), made)};
    for (unsigned i = 0; i < views.count; i++) views.at[i] = made[i];
    if (what == TS_TEXT_JSON || what == TS_TEXT_DOCTOR) ts_growth_watch(); /* who asks for findings will ask again */
    if (views.count > 0) render_views(&sink, what, &views);
    for (unsigned i = 0; i < views.count; i++) ts_view_free(made[i]);
    return ts_sink_end(&sink);
}

size_t ts_private_render_epochs(const SlabAllocator *one, int order, size_t limit, char *buffer, size_t capacity) {
    ts_shown shown[TS_VIEWS];
    return render_epochs(shown, shown_of(one, shown), (SlabEpochOrder)order, limit, buffer, capacity);
}
