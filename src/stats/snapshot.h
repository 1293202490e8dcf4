/* Snapshots of the counters, and the one list of the fields that classes and the whole have in common. */
#ifndef TS_STATS_SNAPSHOT_H
#define TS_STATS_SNAPSHOT_H

#include "epoch/epoch.h"

#include <tslab/stats.h>

#define TS_STATS_PERF(X)                                                                                \
    X(slow_path_hits) X(new_slab_count) X(slow_path_cache_miss) X(slow_path_epoch_closed)               \
    X(list_move_partial_to_full) X(list_move_full_to_partial) X(current_partial_null) X(current_partial_full)

#define TS_STATS_COUNTERS(X)                                                                            \
    TS_STATS_PERF(X)                                                                                    \
    X(empty_slab_recycled) X(empty_slab_overflowed) X(madvise_calls) X(madvise_bytes)                   \
    X(madvise_failures) X(epoch_close_calls) X(epoch_close_scanned_slabs) X(epoch_close_recycled_slabs) \
    X(epoch_close_total_ns) X(lock_fast_acquire) X(lock_contended) X(foreign_free_cas_retries)          \
    X(foreign_frees) X(allocated_objects_total) X(freed_objects_total) X(rejected_frees_total)

#define TS_STATS_GAUGES(X)                                                                              \
    X(live_objects) X(live_bytes) X(committed_bytes) X(cache_size) X(cache_capacity)                    \
    X(total_partial_slabs) X(total_full_slabs)

/* In SlabClassStats and SlabGlobalStats alike; recycle_rate_pct is a double, the others are uint64_t. */
#define TS_STATS_SHARED(X) TS_STATS_COUNTERS(X) TS_STATS_GAUGES(X) X(recycle_rate_pct)

/* Of SlabGlobalStats alone. */
#define TS_STATS_GLOBAL(X)                                                                              \
    X(current_epoch) X(active_epoch_count) X(closing_epoch_count) X(resident_bytes) X(metadata_bytes)   \
    X(reserved_bytes) X(budget_bytes) X(retained_bytes)

/* Of SlabEpochStats; state, label and the class are written apart. */
#define TS_STATS_EPOCH(X)                                                                               \
    X(epoch_id) X(epoch_era) X(open_since_ns) X(age_ns) X(live_objects) X(alloc_count) X(live_bytes)    \
    X(allocated_objects_total) X(freed_objects_total) X(slab_count) X(partial_slab_count)               \
    X(full_slab_count) X(estimated_rss_bytes) X(reclaimable_slab_count) X(reclaimable_bytes)            \
    X(rss_before_close) X(rss_after_close)

bool ts_snapshot_class(ts_allocator *allocator, uint32_t cls, SlabClassStats *out);
void ts_snapshot_global(ts_allocator *allocator, SlabGlobalStats *out);
bool ts_snapshot_epoch(ts_allocator *allocator, uint32_t cls, EpochId id, SlabEpochStats *out);
size_t ts_snapshot_epochs(ts_allocator *allocator, EpochId *out, size_t capacity);
SlabThreadStats ts_snapshot_thread(void);

/* Renderers: as snprintf. */
size_t ts_render_json(ts_allocator *allocator, char *buffer, size_t capacity);
size_t ts_render_prometheus(ts_allocator *allocator, char *buffer, size_t capacity);
size_t ts_render_text(ts_allocator *allocator, char *buffer, size_t capacity);

#endif
