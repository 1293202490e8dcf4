#define TSLAB_BUILDS 1 /* the names of stats.h are functions here */
#include "advice/fields.h"
#include "advice/growth.h"
#include "api/private.h"
#include "api/runtime.h"
#include "api/views.h"
#include "diagnose/stack_totals.h"

#include <errno.h>
#include <stddef.h>
#include <string.h>

size_t slab_class_count(void) { return TS_CLASSES; }

uint32_t slab_class_size(uint32_t cls) { return cls < TS_CLASSES ? ts_class_bytes[cls] : 0; }

/* From the sizes, not from the lookup table, which is made with the first allocator. */
int slab_class_of(size_t size) {
    for (unsigned cls = 0; cls < TS_CLASSES; cls++)
        if (size <= ts_class_bytes[cls]) return (int)cls;
    return -1;
}

bool slab_stats_global_sized(SlabAllocator *allocator, SlabGlobalStats *out, size_t bytes) {
    ts_allocator *a = out ? ts_api_find_to_read(allocator) : NULL;
    if (!a) return false;
    ts_snapshot snapshot;
    SlabGlobalStats stats;
    ts_snapshot_take(a, &snapshot, NULL, NULL, NULL);
    ts_snapshot_global(&snapshot, &stats, true);
    ts_allocator_read_end(a);
    ts_api_give(out, bytes, &stats, sizeof stats);
    return true;
}

bool slab_stats_class_sized(SlabAllocator *allocator, uint32_t cls, SlabClassStats *out, size_t bytes) {
    ts_allocator *a = out ? ts_api_find_to_read(allocator) : NULL;
    if (!a) return false;
    ts_snapshot snapshot;
    SlabClassStats stats;
    ts_snapshot_take(a, &snapshot, NULL, NULL, NULL);
    bool known = ts_snapshot_class(&snapshot, cls, &stats);
    ts_allocator_read_end(a);
    if (known) ts_api_give(out, bytes, &stats, sizeof stats);
    return known;
}

bool slab_stats_epoch_sized(SlabAllocator *allocator, uint32_t cls, EpochId epoch, SlabEpochStats *out, size_t bytes) {
    ts_allocator *a = out ? ts_api_find_to_read(allocator) : NULL;
    if (!a) return false;
    SlabEpochStats stats;
    bool known = ts_snapshot_epoch(a, cls, epoch, &stats);
    ts_allocator_read_end(a);
    if (known) ts_api_give(out, bytes, &stats, sizeof stats);
    return known;
}

bool slab_stats_thread_sized(SlabThreadStats *out, size_t bytes) {
    if (!out) return false;
    SlabThreadStats stats = ts_snapshot_thread();
    ts_api_give(out, bytes, &stats, sizeof stats);
    return true;
}

/* The structures as they were in version 0.1, whatever they are now. */
#define BYTES_TO(type, last) (offsetof(type, last) + sizeof(((type *)0)->last))

bool slab_stats_global(SlabAllocator *allocator, SlabGlobalStats *out) {
    return slab_stats_global_sized(allocator, out, BYTES_TO(SlabGlobalStats, process_lock_waits));
}

bool slab_stats_class(SlabAllocator *allocator, uint32_t cls, SlabClassStats *out) {
    return slab_stats_class_sized(allocator, cls, out, BYTES_TO(SlabClassStats, recycle_rate_pct));
}

bool slab_stats_epoch(SlabAllocator *allocator, uint32_t cls, EpochId epoch, SlabEpochStats *out) {
    return slab_stats_epoch_sized(allocator, cls, epoch, out, BYTES_TO(SlabEpochStats, closing_for_ns));
}

SlabThreadStats slab_stats_thread(void) { return ts_snapshot_thread(); }
_Static_assert(sizeof(SlabThreadStats) == BYTES_TO(SlabThreadStats, free_cpu_ns_max),
               "what is returned by value cannot grow: slab_stats_thread_sized can");

bool get_perf_counters_sized(SlabAllocator *allocator, uint32_t cls, PerfCounters *out, size_t bytes) {
    SlabClassStats c;
    if (!out || !slab_stats_class_sized(allocator, cls, &c, sizeof c)) return false;
    PerfCounters counters = {.version = SLAB_STATS_VERSION};
#define X(field, ...) counters.field = c.field;
    TS_STATS_PERF(X)
#undef X
    counters.current_partial_miss = c.current_partial_null + c.current_partial_full;
    ts_api_give(out, bytes, &counters, sizeof counters);
    return true;
}

bool get_perf_counters(SlabAllocator *allocator, uint32_t cls, PerfCounters *out) {
    return get_perf_counters_sized(allocator, cls, out, BYTES_TO(PerfCounters, current_partial_full));
}

/* Ends epochs that are over, which takes locks. A signal handler may have interrupted its thread inside of an
   operation or with a lock taken, and would wait for ever. It gets an answer that says to ask again. */
size_t slab_epochs(SlabAllocator *allocator, EpochId *out, size_t capacity) {
    const ts_allocator *a = ts_api_find(allocator);
    if (!a) return 0;
    return ts_snapshot_epochs(a, out, out ? capacity : 0);
}

/* ---- renderers ------------------------------------------------------------------------------------------------ */

typedef void render_fn(ts_sink *, const ts_views *);

static void prometheus(ts_sink *sink, const ts_views *views) { ts_render_prometheus(sink, views->at[0], false); }
static void openmetrics(ts_sink *sink, const ts_views *views) { ts_render_prometheus(sink, views->at[0], true); }
static void stacks_json(ts_sink *sink, const ts_views *views) { ts_render_stacks_json(sink, NULL, views); }
static void doctor(ts_sink *sink, const ts_views *views) { (void)ts_render_doctor(sink, views); }

/* A view with its findings; NULL: errno says why. places: the modules of its stacks, too. */
static ts_view *view_of(SlabAllocator *allocator, bool places) {
    ts_shown shown;
    if (!ts_api_find(allocator) || !ts_shown_one(ts_token(allocator), &shown)) return NULL;
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

size_t slab_stacks(SlabAllocator *allocator, EpochId epoch, SlabStackSample *out, size_t capacity) {
    ts_allocator *a = ts_api_find_to_read(allocator);
    bool memory;
    if (!a) return 0;
    size_t count = ts_stacks_sum(a, ts_token(allocator), epoch, out, out ? capacity : 0, &memory);
    ts_allocator_read_end(a);
    if (!memory) errno = ENOMEM;
    return count;
}

size_t slab_stack_totals(SlabAllocator *allocator, SlabStackTotal *out, size_t capacity) {
    ts_allocator *a = ts_api_find_to_read(allocator);
    if (!a) return 0;
    size_t count = ts_stack_totals_read(a, ts_token(allocator), out, out ? capacity : 0);
    ts_allocator_read_end(a);
    return count;
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
    unsigned count = ts_api_find(allocator) && ts_shown_one(ts_token(allocator), &shown);
    return render_epochs(&shown, count, order, limit, buffer, capacity);
}

size_t slab_stats_view(SlabAllocator *allocator, char *buffer, size_t capacity) {
    ts_view *view = view_of(allocator, true);
    size_t bytes = view ? sizeof *view : 0;
    if (view && buffer) memcpy(buffer, view, bytes < capacity ? bytes : capacity);
    ts_view_free(view);
    return bytes;
}

size_t slab_allocators(SlabAllocator **out, size_t capacity) {
    size_t found = 0;
    uint32_t i = 1;
    uintptr_t token;
    if (!ts_runtime_started()) return 0;
    for (; ts_allocator_next(&i, &token); found++)
        if (out && found < capacity) out[found] = ts_public(token);
    return found;
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
    if (!ts_runtime_started()) return 0;
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
