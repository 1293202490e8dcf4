#include "api/runtime.h"
#include "stats/snapshot.h"

#include <errno.h>

size_t slab_class_count(void) { return TS_CLASSES; }

uint32_t slab_class_size(uint32_t cls) { return cls < TS_CLASSES ? ts_class_bytes[cls] : 0; }

/* From the sizes, not from the lookup table, which is made with the first allocator. */
int slab_class_of(size_t size) {
    for (unsigned cls = 0; cls < TS_CLASSES; cls++)
        if (size <= ts_class_bytes[cls]) return (int)cls;
    return -1;
}

/* A signal handler may ask for figures. Where it interrupts its thread inside of an operation or with a lock taken, what it
   asks for is half changed, or waits for that lock for ever: then it is told to ask again. */
static ts_allocator *find(SlabAllocator *allocator) {
    if (ts_lock_is_any_held() || ts_load_relaxed(&ts_thread.in_op) != 0) {
        errno = EBUSY;
        return NULL;
    }
    ts_allocator *a = ts_allocator_find(ts_token(allocator));
    if (!a) errno = EINVAL;
    return a;
}

bool slab_stats_global(SlabAllocator *allocator, SlabGlobalStats *out) {
    ts_allocator *a = find(allocator);
    if (!a || !out) return false;
    ts_snapshot_global(a, out);
    return true;
}

bool slab_stats_class(SlabAllocator *allocator, uint32_t cls, SlabClassStats *out) {
    ts_allocator *a = find(allocator);
    return a && out && ts_snapshot_class(a, cls, out);
}

bool slab_stats_epoch(SlabAllocator *allocator, uint32_t cls, EpochId epoch, SlabEpochStats *out) {
    ts_allocator *a = find(allocator);
    return a && out && ts_snapshot_epoch(a, cls, epoch, out);
}

SlabThreadStats slab_stats_thread(void) { return ts_snapshot_thread(); }

bool get_perf_counters(SlabAllocator *allocator, uint32_t cls, PerfCounters *out) {
    SlabClassStats c;
    if (!out || !slab_stats_class(allocator, cls, &c)) return false;
    out->version = SLAB_STATS_VERSION;
#define X(field) out->field = c.field;
    TS_STATS_PERF(X)
#undef X
    return true;
}

size_t slab_epochs(SlabAllocator *allocator, EpochId *out, size_t capacity) {
    ts_allocator *a = find(allocator);
    if (!a) return 0;
    return ts_snapshot_epochs(a, out, out ? capacity : 0);
}

typedef size_t render_fn(ts_allocator *, char *, size_t);

static size_t render(SlabAllocator *allocator, char *buffer, size_t capacity, render_fn *fn) {
    ts_allocator *a = find(allocator);
    if (!buffer) capacity = 0;
    if (capacity) buffer[0] = 0;
    return a ? fn(a, buffer, capacity) : 0;
}

size_t slab_stats_json(SlabAllocator *allocator, char *buffer, size_t capacity) {
    return render(allocator, buffer, capacity, ts_render_json);
}
size_t slab_stats_prometheus(SlabAllocator *allocator, char *buffer, size_t capacity) {
    return render(allocator, buffer, capacity, ts_render_prometheus);
}
size_t slab_stats_text(SlabAllocator *allocator, char *buffer, size_t capacity) {
    return render(allocator, buffer, capacity, ts_render_text);
}
